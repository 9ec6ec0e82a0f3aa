"""URLs: clean the text of a cell, resolve references, split, compare.

ada parses by the WHATWG standard (https://url.spec.whatwg.org/), so we request what a browser would request.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, quote

import ada_url

from ..masking import mask as mask
from ..masking import mask_texts as mask_texts
from ..masking import mask_url
from .errors import BadScheme, InvalidUrl
from .identifiers import DOI_PREFIX

MAX_URL = 16 * 1024
"""Longest URL in characters. Servers refuse much shorter request lines."""

DEFAULT_PORTS = {"http": 80, "https": 443}

_DOI = re.compile(
    r"(?:(?:https?:)?/{0,2}(?:dx\.|www\.)?doi\.org/+|info:doi/|urn:doi:|doi:\s*|doi\s+)?"
    rf"(?P<doi>{DOI_PREFIX}/[^\s\x00-\x1f\x7f]+)",
    re.IGNORECASE,
)
_SPELT_AS_URL = re.compile(r"(?:https?:)?/{0,2}(?:dx\.|www\.)?doi\.org/", re.IGNORECASE)
_EDGES = " \t\r\n\f\v\x00\u00a0\u200b\u2060\ufeff"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")


@dataclass(frozen=True, slots=True)
class UrlParts:
    """The parts of an http or https URL that a request needs. `target` is path and query, as in the request line."""

    scheme: str
    host: str
    """Lower-case ASCII. An IPv6 address without its brackets."""
    port: int
    target: str
    userinfo: tuple[str, str] | None = field(repr=False)
    """User and password, percent-encoded as in the URL."""

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """The value of the Host header: without the port if it is the scheme's default."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


def clean_cell(cell: Any, *, doi_resolver: str) -> str:
    """The URL to request for a cell: absolute, http or https, ASCII.

    A DOI in any spelling becomes a URL of the resolver, in lower case, since DOIs ignore case. Raises InvalidUrl for
    None, a number, a blank, and text that is not a URL; BadScheme for another scheme.
    """
    text = _cell_as_text(cell)
    doi = _doi(text)
    return parse(doi_resolver + doi if doi is not None else text)


def parse(text: str, base: str | None = None) -> str:
    """The serialised http(s) URL of `text`, resolved against `base` if one is given. Raises InvalidUrl or BadScheme."""
    if len(text) > MAX_URL:
        raise InvalidUrl(f"a URL of {len(text)} characters is longer than {MAX_URL}: {mask_url(text)[:80]}…")
    try:
        href = str(ada_url.URL(_percent_encode_stray_bytes(text), base).href)
    except (ValueError, UnicodeError) as error:
        raise InvalidUrl(f"not a URL: {mask_url(text)[:200]!r}") from error
    if not href.startswith(("http://", "https://")):
        scheme = href.partition(":")[0]
        raise BadScheme(f"the scheme {scheme!r} is not fetched, only http and https: {mask_url(text)[:200]}")
    return href


def resolve(reference: str, base: str | None = None) -> str | None:
    """As `parse`, but None for what is not an http(s) URL."""
    try:
        return parse(reference, base)
    except (InvalidUrl, BadScheme):
        return None


def join(base: str, reference: bytes) -> str:
    """The URL of raw header bytes, resolved against `base`. Raises InvalidUrl or BadScheme.

    Bytes that are not UTF-8 are percent-encoded as they are, so the server gets back what it sent.
    """
    return parse(reference.decode("utf-8", "surrogateescape"), base)


@lru_cache(maxsize=4096)
def split(href: str) -> UrlParts:
    """The parts of a URL that `parse` returned."""
    scheme, _, rest = without_fragment(href).partition("://")
    end = min((at for at in (rest.find("/"), rest.find("?")) if at >= 0), default=len(rest))
    authority, target = rest[:end], rest[end:] or "/"
    userinfo, at, location = authority.rpartition("@")
    host, bracket, tail = location.partition("]")
    host, _, port = (host, "", tail.removeprefix(":")) if bracket else location.partition(":")
    user, _, password = userinfo.partition(":")
    return UrlParts(
        scheme=scheme,
        host=host.removeprefix("["),
        port=int(port) if port else DEFAULT_PORTS[scheme],
        target=target,
        userinfo=(user, password) if at else None,
    )


def is_href(text: str) -> bool:
    """Whether a text is a URL as `parse` returns it."""
    return text.startswith(("http://", "https://")) and resolve(text) == text


def without_fragment(href: str) -> str:
    """The part of a URL that the server gets. Loops are found by comparing it."""
    return href.partition("#")[0]


def same_page(one: str, other: str) -> bool:
    """Whether two URLs name the same page. The scheme, `www.` and a final slash do not count."""
    return _page_key(one) == _page_key(other)


def same_host(one: str, other: str) -> bool:
    """Whether two URLs name the same host, `www.` apart, whatever the scheme."""
    return split(one).host.removeprefix("www.") == split(other).host.removeprefix("www.")


def is_home_page(href: str) -> bool:
    """Whether a URL is that of a site's first page: it has neither path nor query."""
    return split(href).target == "/"


def refers_to_itself(reference: str, url: str) -> bool:
    """Whether a reference on the page at `url` is to that page."""
    href = resolve(reference.strip(), url)
    return href is not None and same_page(href, url)


def leads_back(href: str, url: str) -> bool:
    """Whether a parameter of a URL is the address of the page at `url`, where its visitor is to be sent on."""
    query = split(href).target.partition("?")[2][:MAX_URL]
    values = (value for _, value in parse_qsl(query, max_num_fields=100)) if query.count("&") < 100 else ()
    return any(
        value.startswith(("/", "http://", "https://")) and not is_home_page(url) and refers_to_itself(value, url)
        for value in values
    )


def whole_characters(text: str) -> str:
    """The text with surrogate pairs joined to characters, and U+FFFD for lone surrogates. JSON may contain both as
    escapes; databases take neither."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _page_key(href: str) -> tuple[str, str]:
    parts = split(without_fragment(href))
    path, _, query = parts.target.partition("?")
    port = "" if parts.port in DEFAULT_PORTS.values() else f":{parts.port}"
    return parts.host.removeprefix("www.") + port, path.rstrip("/") + ("?" + query if query else "")


def _cell_as_text(cell: Any) -> str:
    if cell is None:
        raise InvalidUrl("the cell is empty")
    if isinstance(cell, (bytes, bytearray, memoryview)):
        try:
            cell = bytes(cell).decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidUrl("the cell holds bytes that are not text") from error
    if not isinstance(cell, str):
        raise InvalidUrl(f"the cell holds a {'number' if isinstance(cell, (int, float)) else 'value'}, not a URL")
    text = cell.strip(_EDGES).strip()
    if not text:
        raise InvalidUrl("the cell is blank")
    return text


def _doi(text: str) -> str | None:
    match = _DOI.fullmatch(text)
    if match is None:
        return None
    doi = match["doi"]
    if _SPELT_AS_URL.match(text):
        # It is percent-encoded already.
        return quote(doi, safe="/%?=&:;()@!$'*+,~-._<>[]").lower()
    return quote(doi, safe="/:;()@!$&'*+,=~-._").lower()


def _percent_encode_stray_bytes(text: str) -> str:
    """Percent-encode lone surrogates, which stand for bytes that were not UTF-8: the server gets back what it sent."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "".join(f"%{ord(c) - 0xDC00:02X}" if "\udc80" <= c <= "\udcff" else c for c in text)
    return text


def scheme_of(text: str) -> str | None:
    """The scheme of a reference, in lower case; None for a relative reference."""
    match = _SCHEME.match(text.lstrip(_EDGES))
    return match[1].lower() if match else None
