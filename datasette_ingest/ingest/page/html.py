"""Parse the bytes of an HTML page to a tree, in a time that grows with their number alone."""

from __future__ import annotations

import re
import threading
from itertools import islice
from typing import Any

from lxml import etree

from ..urls import resolve
from .charset import html_encoding
from .templates import show_shadow_roots, without_templates

MAX_ATTRIBUTES = 250
"""Attributes of one element. libxml2 compares each with all before it: a hundred thousand would take a minute."""

MAX_WALKS = 4
"""How often, on average, each character of a page may be read to find its tags. Only a hostile page, with tags inside
tags inside tags, needs more; the rest of it is not read."""
_SMALL = 100_000
MAX_PIECES = 200
"""Pieces of text that are put together to one name."""

# The tokenizer's states for tags (HTML Standard, 13.2.5.6 to 13.2.5.40). None of these patterns backtracks.
_SPACE = r"\t\n\f\r "
_NAME = re.compile(rf"[^{_SPACE}/>]*".encode())
_ATTRIBUTE = re.compile(
    rf"""[{_SPACE}/]*[^{_SPACE}/>][^{_SPACE}/>=]*"""
    rf"""(?:[{_SPACE}]*=[{_SPACE}]*(?:"[^"]*"|'[^']*'|[^{_SPACE}>"'][^{_SPACE}>]*)?)?""".encode()
)
# A "<" and a letter, but not what nearly all tags are: a few attributes without a "<" in them, and the end.
_UNUSUAL_TAG = re.compile(
    rf"""<(?=[A-Za-z])(?![^{_SPACE}/>="'<]+"""
    rf"""(?:[{_SPACE}/]+[^{_SPACE}/>="'<]+(?:[{_SPACE}]*=[{_SPACE}]*(?:"[^"<]*"|'[^'<]*'|[^{_SPACE}>"'<=]+))?)"""
    rf"""{{0,{MAX_ATTRIBUTES}}}[{_SPACE}/]*>)""".encode()
)


def parse_html(data: bytes, content_type: str) -> Any:
    """The root element of a page, or None if it has no element. `content_type` is read for its charset."""
    data = as_utf8(data, content_type)
    if not data.strip():
        return None
    try:
        root = etree.fromstring(data, _parser())
    except etree.LxmlError:
        return None
    if root is not None:
        show_shadow_roots(root)
    return root


def as_utf8(data: bytes, content_type: str) -> bytes:
    """A page in UTF-8, as far as a parser reads it in reasonable time, without NUL and without what stands in templates.
    Its declaration stays as it is."""
    encoding, skip = html_encoding(data, content_type)
    if encoding != "utf-8":
        # libxml2 knows fewer encodings than browsers do.
        data, skip = data[skip:].decode(encoding, "replace").encode("utf-8", "replace"), 0
    return _with_few_attributes(without_templates(data[skip:].replace(b"\x00", b"")))


def base_of(root: Any, url: str) -> str:
    """The URL that references are resolved against: the first base element's, if it is a URL (HTML Standard, 4.2.3)."""
    for element in root.iter("base"):
        href = element.get("href")
        if href is not None:
            return (href.strip() and resolve(href.strip(), url)) or url
    return url


def mimetype_of(element: Any) -> str:
    """An element's `type` without parameters, lower-case; empty if it has none."""
    return str(element.get("type") or "").partition(";")[0].strip().lower()


def short_text(element: Any, limit: int, *, between: str = "") -> str:
    """The squeezed text of an element that may be a name: as much of it as `limit` characters need, and no more."""
    if not len(element):
        return squeeze((element.text or "")[: 4 * limit])[:limit]
    pieces: list[str] = []
    length = 0
    for piece in islice(element.itertext(), MAX_PIECES):
        pieces.append(piece[: 4 * limit])
        length += len(pieces[-1].strip())
        if length > limit:
            break
    return squeeze(between.join(pieces))[:limit]


def squeeze(text: str) -> str:
    """The text with one blank for each run of white space, and none at its ends."""
    return " ".join(text.split())


def _with_few_attributes(data: bytes) -> bytes:
    """The page with every tag ended after MAX_ATTRIBUTES attributes.

    Every place where a tag can begin is checked, whatever stands before it: a quote or a comment may hide it from one
    parser and not from another.
    """
    ends: set[int] = set()
    walked: set[int] = set()
    named = steps = 0
    for tag in _UNUSUAL_TAG.finditer(data):
        start = tag.start()
        # A "<" inside a tag's name: the rest of the name and its attributes were checked with it.
        if start < named or (name := _NAME.match(data, start)) is None:
            continue
        named = name.end()
        end, is_over = _walk(data, named, walked)
        if not is_over:
            ends.add(end)
        steps += end - start
        if steps > MAX_WALKS * max(len(data), _SMALL):
            data = data[:start]
            break
        if len(walked) > 40 * MAX_ATTRIBUTES:
            walked.clear()
    cuts = sorted(end for end in ends if end < len(data))
    if not cuts:
        return data
    return b">".join(data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True))


def _walk(data: bytes, position: int, walked: set[int]) -> tuple[int, bool]:
    """Where the attributes end that begin here, at most MAX_ATTRIBUTES of them, and whether the tag ends there too.

    It is known to end at a position that was `walked` over before.
    """
    for _ in range(MAX_ATTRIBUTES):
        if position in walked:
            return position, True
        walked.add(position)
        attribute = _ATTRIBUTE.match(data, position)
        if attribute is None:
            return position, True
        position = attribute.end()
    walked.add(position)
    return position, False


_of_thread = threading.local()


def _parser() -> Any:
    """This thread's parser: making one takes longer than parsing a page's head, and sharing one makes threads wait."""
    parser = getattr(_of_thread, "parser", None)
    if parser is None:
        parser = etree.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
        _of_thread.parser = parser
    return parser
