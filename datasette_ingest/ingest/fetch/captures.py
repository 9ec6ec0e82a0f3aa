"""URLs of captures, `https://web.archive.org/web/20200101000000id_/https://h/a`: read, written, and what a redirect
from one means. Pure."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from urllib.parse import unquote

from ...text import day
from ..errors import BadRedirect, IngestError, InvalidUrl, NotImplementedUrl
from ..urls import join, mask, parse, resolve, same_page, split, without_fragment
from .cdx_rows import moment

WEB_ARCHIVE = "https://web.archive.org/web"
"""The Internet Archive's Wayback Machine: the default of the setting `wayback_url`."""
ARCHIVE_HOSTS = ("archive.org", "web.archive.org", "wayback.archive.org")
"""Hosts of the Internet Archive. They serve copies of other URLs, and items of its own."""

_CAPTURE = re.compile(r"/(?P<time>[0-9]{1,14})(?:[a-z]{2,4}_)?/(?P<url>.+)", re.DOTALL)
_WEB_PATH = re.compile(r"/(?:web/|wayback/)?(?=[0-9*])")
_DOWNLOAD = re.compile(r"/download/[^/?#]+/[^/?#]")
# Of datasets also the item's list of files.
_ITEM = re.compile(r"/(?:(?:metadata|download)/[^/?#]|robots\.txt$)")
_SCHEME = re.compile(r"(https?):/{1,2}(?=[^/])", re.IGNORECASE)
_ENCODED_SCHEME = re.compile(r"https?%3a", re.IGNORECASE)
_DEFAULT_PORT = re.compile(r"^(http://[^/:@?]+(?=:80(?:/|$))|https://[^/:@?]+(?=:443(?:/|$))):\d+")
"""Old captures have it in their URLs, and archives leave it out."""
_SCHEMELESS = re.compile(r"[\w-]+(?:\.[\w-]+)+(?::[0-9]+)?(?=[/?#]|$)")


@dataclass(frozen=True, slots=True)
class Capture:
    """A URL at a time, as an archive's address names it."""

    timestamp: str
    """1 to 14 digits."""
    url: str
    """In its normal form."""

    @property
    def near(self) -> str | None:
        """The time, down to the last part of it that exists: 2000 for 20000800241623, None for 2. Archives have both."""
        for end in (14, 12, 10, 8, 6, 4):
            if end <= len(self.timestamp):
                with contextlib.suppress(ValueError):
                    moment(self.timestamp[:end])
                    return self.timestamp[:end]
        return None


def replay_url(base: str, timestamp: str, url: str, mode: str = "id_") -> str:
    """The address at which an archive delivers a capture.

    :param base: the setting `wayback_url`
    :param url: as it was captured
    :param mode: `id_` for the bytes as they came, nothing for the page that people see
    :raises InvalidUrl: when it would be too long
    """
    url = _DEFAULT_PORT.sub(r"\1", url.replace("#", "%23"))
    return parse(f"{base.rstrip('/')}/{timestamp}{mode}/{url}")


def capture_in(href: str, base: str, *, current: str | None = None) -> Capture | None:
    """What capture a URL is the address of, at the archive `base` or the Internet Archive; None for any other URL.

    :param current: resolves a captured URL without scheme or host, as old captures have it in their redirects
    """
    prefix = split(parse(base)).target.rstrip("/")
    parts, home = split(href), split(parse(base))
    if (parts.host, parts.port) == (home.host, home.port) and parts.target.startswith(prefix + "/"):
        path = parts.target[len(prefix) :]
    elif parts.host.removeprefix("www.") in ARCHIVE_HOSTS and (found := _WEB_PATH.match(parts.target)):
        path = "/" + parts.target[found.end() :]
    else:
        return None
    match = _CAPTURE.fullmatch(path)
    url = None if match is None else _captured_url(match["url"], current)
    return None if match is None or url is None else Capture(match["time"], url)


def _captured_url(text: str, current: str | None) -> str | None:
    if _ENCODED_SCHEME.match(text):
        text = unquote(text)
    if _SCHEME.match(text):
        return resolve(_SCHEME.sub(r"\1://", text, count=1))
    if _SCHEMELESS.match(text):
        return resolve("http://" + text)
    return None if current is None else resolve(text, current)


def refuse_archive_page(href: str, base: str, *, for_dataset: bool = False) -> IngestError | None:
    """Why a page of an archive is not asked for; None for the files of its items, and for any other URL."""
    parts = split(href)
    host = parts.host.removeprefix("www.")
    if host not in ARCHIVE_HOSTS:
        return None
    if host == "archive.org" and (_ITEM if for_dataset else _DOWNLOAD).match(parts.target):
        return None
    if capture_in(href, base) is not None:
        return NotImplementedUrl(f"{mask(href)} is a web archive's capture; only the archive delivers it")
    if parts.target.startswith("/details/"):
        return NotImplementedUrl(
            f"{mask(href)} is the page of an item of the Internet Archive; give the address of a file, "
            "archive.org/download/ITEM/FILE, or ask for a dataset"
        )
    return NotImplementedUrl(
        f"{mask(href)} is a page of the Internet Archive itself; give the address of a capture, "
        "web.archive.org/web/DATE/URL, or the URL that it holds"
    )


def refuse_password(href: str) -> IngestError | None:
    """Why a URL with a user or password is not told to an archive; None for any other."""
    if split(href).userinfo is None:
        return None
    return NotImplementedUrl(f"{mask(href)} has a password, which is not given to an archive")


@dataclass(frozen=True, slots=True)
class Redirect:
    """Where an archive's redirect leads. `is_nearest`: to another capture of the same URL, not to another URL."""

    to: Capture
    is_nearest: bool


def read_redirect(location: bytes | None, asked: Capture, base: str) -> Redirect:
    """What the Location of an archive's redirect means.

    An archive redirects to the nearest capture of the same URL, and it delivers captured redirects: with its own
    address before the target, or as they were captured.

    :param asked: the capture that was asked for
    :raises BadRedirect: when it leads to no URL
    :raises BadScheme: when it leads to one that is not http or https
    """
    where = f"the capture of {mask(asked.url)} of {day(asked.timestamp) or asked.timestamp}"
    if not location or not location.strip():
        raise BadRedirect(f"{where} redirects without a Location")
    location = location.strip()
    try:
        capture = None
        # A relative reference is one of the captured page, also where it could be one of the archive's address.
        if location.startswith(b"/") or _SCHEME.match(location.decode("latin-1")):
            href = join(replay_url(base, asked.timestamp, asked.url), location)
            capture = capture_in(href, base, current=asked.url)
        if capture is None:
            capture = Capture(asked.timestamp, join(asked.url, location))
    except InvalidUrl as error:
        raise BadRedirect(f"{where} redirects to something that is not a web address: {location[:200]!r}") from error
    to = Capture(capture.timestamp, without_fragment(capture.url))
    return Redirect(to, to.timestamp != asked.timestamp and same_page(to.url, asked.url))
