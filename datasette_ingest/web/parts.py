"""Which part of a file a request asks for, if any: ranges and conditions of HTTP. Pure.

https://www.rfc-editor.org/rfc/rfc9110, 13 (conditions) and 14 (ranges)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_ETAG = re.compile(r'(?:W/)?"[^"]*"')
_RANGE = re.compile(r"([0-9]{0,4000})-([0-9]{0,4000})")


@dataclass(frozen=True)
class Part:
    """The status of the answer, and the bytes from `start` up to `stop` that it holds."""

    status: int
    start: int = 0
    stop: int = 0

    def headers(self, size: int) -> dict[str, str]:
        """What the answer says of itself. `size`: of the whole file."""
        if self.status in (304, 412):
            return {}
        length = {"Accept-Ranges": "bytes", "Content-Length": str(self.stop - self.start)}
        if self.status == 206:
            return {**length, "Content-Range": f"bytes {self.start}-{self.stop - 1}/{size}"}
        return {**length, "Content-Range": f"bytes */{size}"} if self.status == 416 else length


def asked_for(method: str, headers: Mapping[str, str], size: int, etag: str) -> Part:
    """What a GET or HEAD with these headers gets of a file of this size.

    Several ranges at once get the whole file, and so does what is no range. A date in If-Range never fits: no answer
    has one.

    :param headers: their names in lower case
    :param etag: strong, with its quotes
    """
    if "if-match" in headers and not _names(headers["if-match"], etag, weakly=False):
        return Part(412)
    if "if-none-match" in headers and _names(headers["if-none-match"], etag, weakly=True):
        return Part(304)
    whole = Part(200, 0, size)
    if method != "GET" or "range" not in headers or headers.get("if-range", etag).strip() != etag:
        return whole
    return _range(headers["range"], size) or whole


def _names(tags: str, etag: str, *, weakly: bool) -> bool:
    named = [tag.removeprefix("W/") if weakly else tag for tag in _ETAG.findall(tags)]
    return tags.strip() == "*" or etag in named


def _range(text: str, size: int) -> Part | None:
    """The part of one range; None where there is not exactly one."""
    unit, _, ranges = text.partition("=")
    named = [each.strip() for each in ranges.split(",") if each.strip()]
    found = _RANGE.fullmatch(named[0]) if unit.strip().lower() == "bytes" and len(named) == 1 else None
    if found is None or not any(found.groups()):
        return None
    first, last = found.groups()
    if not first:  # the last bytes, so many
        number = min(int(last), size)
        return Part(206, size - number, size) if number else None if int(last) else Part(416)
    start, stop = int(first), size if not last else min(int(last) + 1, size)
    if last and int(last) < start:
        return None
    return Part(206, start, stop) if start < size else Part(416)
