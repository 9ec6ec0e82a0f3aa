"""Typed links of a page: its Link headers (RFC 8288) and its link elements, with relation and MIME type.

Publishers that follow signposting.org name a work's files in this way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from ..urls import refers_to_itself, resolve
from .html import mimetype_of

MAX_HEADER = 64 * 1024
"""How much of one header is read, in characters."""
MAX_LINKS = 1000
"""Links in headers."""
MAX_ELEMENTS = 10_000
"""Link elements of one page."""

# None of these backtracks: a header is hostile, and read on the event loop.
_GAP = re.compile(r"[\s,]*")
_PARAMETER = re.compile(r"""\s*;\s*([^\s=;,"<>]+)\s*(?:=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*)))?""")
_ESCAPED = re.compile(r"\\(.)")
_TO_NEXT = re.compile(r"""(?:[^,"]+|"(?:[^"\\]|\\.)*(?:"|\\?\Z))*""", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TypedLink:
    """One link: its reference, its relations and MIME type in lower case, and its other parameters."""

    href: str
    """As written; of a header of the page's own answer absolute, if it is a URL."""
    rels: frozenset[str]
    mimetype: str = ""
    title: str = ""
    anchor: str = ""
    """What the link is from, if not from the page itself."""
    hreflang: str = ""


def typed_links(headers: Iterable[str], root: Any, url: str) -> tuple[TypedLink, ...]:
    """The typed links from the page at `url`: those of its Link headers, then those of its link elements.

    `root` is the page's root element, None if it has none.
    """
    own = (link for link in read_link_headers(headers) if not link.anchor or refers_to_itself(link.anchor, url))
    # A base element does not count for headers.
    found = [replace(link, href=resolve(link.href, url) or link.href) for link in own]
    return (*found, *(islice(_elements(root), MAX_ELEMENTS) if root is not None else ()))


def _elements(root: Any) -> Iterator[TypedLink]:
    for element in root.iter("link"):
        if href := element.get("href"):
            yield TypedLink(
                href=href,
                rels=frozenset((element.get("rel") or "").lower().split()),
                mimetype=mimetype_of(element),
                title=element.get("title") or "",
                hreflang=element.get("hreflang") or "",
            )


def read_link_headers(headers: Iterable[str]) -> tuple[TypedLink, ...]:
    """The links of an answer's Link headers in order. What is malformed is skipped up to the next comma."""
    return tuple(islice((link for header in headers for link in _links(header[:MAX_HEADER])), MAX_LINKS))


def _links(header: str) -> Iterator[TypedLink]:
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
        yield TypedLink(
            href=href.strip(),
            rels=frozenset(parameters.get("rel", "").lower().split()),
            mimetype=parameters.get("type", "").partition(";")[0].strip().lower(),
            title=parameters.get("title", ""),
            anchor=parameters.get("anchor", ""),
            hreflang=parameters.get("hreflang", ""),
        )


def _end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Where a pattern that matches everywhere, if only nothing, ends its match."""
    match = pattern.match(text, position)
    return match.end() if match else position
