"""The cookies of one row (RFC 6265, without expiry dates): they are dropped when the row is done."""

from __future__ import annotations

import ipaddress
import threading
from dataclasses import astuple, dataclass
from functools import cache
from typing import Any

from publicsuffixlist import PublicSuffixList

from ..urls import split

MAX_COOKIES = 100
MAX_COOKIE_BYTES = 8192


@dataclass(frozen=True)
class _Cookie:
    name: bytes
    value: bytes
    domain: str
    host_only: bool
    path: str
    secure: bool


class CookieJar:
    """The cookies of one row. Mutable."""

    __slots__ = ("_cookies",)

    def __init__(self) -> None:
        self._cookies: dict[tuple[bytes, str, str], _Cookie] = {}

    def __bool__(self) -> bool:
        return bool(self._cookies)

    def to_json(self) -> list[list[Any]]:
        """The cookies as JSON."""
        return [
            [each.name.decode("latin-1"), each.value.decode("latin-1"), *astuple(each)[2:]]
            for each in self._cookies.values()
        ]

    def add_json(self, cookies: list[list[Any]]) -> None:
        """Add what `to_json` has returned."""
        for name, value, domain, host_only, path, secure in cookies:
            cookie = _Cookie(name.encode("latin-1"), value.encode("latin-1"), domain, host_only, path, secure)
            self._cookies[cookie.name, domain, path] = cookie

    def adopt(self, other: CookieJar) -> None:
        """Add another jar's cookies."""
        self._cookies.update(other._cookies)

    def store(self, href: str, lines: list[bytes]) -> None:
        """Store the Set-Cookie values of a response from `href`."""
        for line in lines:
            self._store(href, line)

    def header(self, href: str) -> bytes | None:
        """The value of the Cookie header for a request, or None."""
        if not self._cookies:
            return None
        parts = split(href)
        path = parts.target.partition("?")[0]
        fitting = [
            cookie
            for cookie in self._cookies.values()
            if _domain_fits(cookie, parts.host)
            and _path_fits(cookie.path, path)
            and (not cookie.secure or parts.scheme == "https")
        ]
        fitting.sort(key=lambda cookie: -len(cookie.path))
        return b"; ".join(cookie.name + b"=" + cookie.value for cookie in fitting) or None

    def _store(self, href: str, line: bytes) -> None:
        pair, *attributes = line.split(b";")
        name, equals, value = pair.partition(b"=")
        name, value = name.strip(), value.strip()
        if not equals or not name or len(line) > MAX_COOKIE_BYTES or _has_control(name + value):
            return
        parts = split(href)
        domain, host_only, secure, expired = parts.host, True, False, False
        path = parts.target.partition("?")[0].rpartition("/")[0] or "/"
        for attribute in attributes:
            key, _, setting = attribute.partition(b"=")
            key, text = key.strip().lower(), setting.strip().decode("latin-1")
            if key == b"domain" and text.strip("."):
                domain, host_only = text.strip(".").lower(), False
            elif key == b"path" and text.startswith("/"):
                path = text
            elif key == b"secure":
                secure = True
            elif key == b"max-age":
                expired = text.startswith("-") or text == "0"
            elif key == b"expires" and b"1970" in setting:
                # Servers delete a cookie with this date. Any other date is beyond the life of a row.
                expired = True
        if domain == parts.host:
            host_only = host_only or _belongs_to_nobody(domain)
        elif not _may_set_for(parts.host, domain):
            return
        identity = (name, domain, path)
        cookie = _Cookie(name, value, domain, host_only, path, secure)
        if expired:
            self._cookies.pop(identity, None)
        elif identity in self._cookies or len(self._cookies) < MAX_COOKIES:
            self._cookies[identity] = cookie


def _has_control(text: bytes) -> bool:
    return any(byte < 0x20 or byte == 0x7F for byte in text)


def _may_set_for(host: str, domain: str) -> bool:
    return host.endswith("." + domain) and not _belongs_to_nobody(domain) and not _is_address(host)


def _belongs_to_nobody(domain: str) -> bool:
    """Whether strangers' hosts are under this domain, as under `co.uk`, `github.io` or any single word: a cookie for it
    would reach them. An address has no hosts under it."""
    return _is_address(domain) or bool(_public_suffixes().is_public(domain))


@cache
def _public_suffixes() -> PublicSuffixList:
    """The list of https://publicsuffix.org, which comes with the library. Reading it takes a tenth of a second."""
    return PublicSuffixList()


@cache
def read_public_suffixes() -> None:
    """Read the list in a thread, so that the first cookie does not hold the event loop. Does so once."""
    threading.Thread(target=_public_suffixes, name="public suffixes", daemon=True).start()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _domain_fits(cookie: _Cookie, host: str) -> bool:
    return host == cookie.domain or (not cookie.host_only and host.endswith("." + cookie.domain))


def _path_fits(cookie_path: str, path: str) -> bool:
    if path == cookie_path:
        return True
    return path.startswith(cookie_path) and (cookie_path.endswith("/") or path[len(cookie_path)] == "/")
