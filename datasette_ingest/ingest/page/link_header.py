"""Link headers: typed links that come with an answer instead of in the page (RFC 8288; signposting.org)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MAX_HEADER = 64 * 1024
"""How much of one header is read, in characters."""
MAX_LINKS = 1000

# Each of these takes what it can and never goes back over it: a header is hostile, and read on the event loop.
_GAP = re.compile(r"[\s,]*")
_PARAMETER = re.compile(r"""\s*;\s*([^\s=;,"<>]+)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*)))?""")
_ESCAPED = re.compile(r"\\(.)")
_TO_NEXT = re.compile(r"""(?:[^,"]+|"(?:[^"\\]|\\.)*(?:"|\\?\Z))*""", re.DOTALL)


@dataclass(frozen=True)
class HeaderLink:
    """One link: its reference as written, its relations and type in lower case, and its other parameters."""

    href: str
    rels: frozenset[str]
    mimetype: str = ""
    anchor: str = ""
    """What the link is from, if not from the page itself."""
    title: str = ""


def read_link_headers(headers: Iterable[str]) -> tuple[HeaderLink, ...]:
    """The links of an answer's Link headers in order. What is malformed is passed over up to the next comma."""
    found: list[HeaderLink] = []
    for header in headers:
        for link in _links(header[:MAX_HEADER]):
            if len(found) >= MAX_LINKS:
                return tuple(found)
            found.append(link)
    return tuple(found)


def _links(header: str) -> Iterator[HeaderLink]:
    position = 0
    while position < len(header):
        position = _end_of(_GAP, header, position)
        if not header.startswith("<", position):
            position = _end_of(_TO_NEXT, header, position) + 1
            continue
        end = header.find(">", position)
        if end < 0:
            return
        href, position = header[position + 1 : end], end + 1
        parameters: dict[str, str] = {}
        while parameter := _PARAMETER.match(header, position):
            name, quoted, token = parameter[1].lower(), parameter[2], parameter[3]
            value = _ESCAPED.sub(r"\1", quoted) if quoted is not None else token or ""
            # The first of a repeated parameter counts (RFC 8288, 3.3 and 3.4.1).
            parameters.setdefault(name, value)
            position = parameter.end()
        yield HeaderLink(
            href=href.strip(),
            rels=frozenset(parameters.get("rel", "").lower().split()),
            mimetype=parameters.get("type", "").partition(";")[0].strip().lower(),
            anchor=parameters.get("anchor", ""),
            title=parameters.get("title", ""),
        )


def _end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Where a pattern that matches everywhere, if only nothing, ends its match."""
    match = pattern.match(text, position)
    return match.end() if match else position
