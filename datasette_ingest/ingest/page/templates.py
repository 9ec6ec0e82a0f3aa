"""Template elements: what they hold belongs to no page, and is cut out of the page's bytes before it is parsed.

The parser takes a template for any other element: its contents are in the tree as if they were shown, and where an element
inside is left open, its end tag does not end it.
"""

from __future__ import annotations

import re
from typing import Any

_SPACE = r"\t\n\f\r "
# The tokens between which templates stand. None of these patterns backtracks.
_TOKEN = re.compile(rf"<(?:(!--)|(/?)([a-z][^{_SPACE}/>]*))".encode(), re.IGNORECASE)
_USUAL_REST = re.compile(
    rf"""(?:[{_SPACE}/]+[^{_SPACE}/>="'<]+(?:[{_SPACE}]*=[{_SPACE}]*(?:"[^"<]*"|'[^'<]*'|[^{_SPACE}>"'<=]+))?)*"""
    rf"""[{_SPACE}/]*>""".encode()
)
_ATTRIBUTE = re.compile(
    rf"""[{_SPACE}/]*[^{_SPACE}/>][^{_SPACE}/>=]*(?:[{_SPACE}]*=[{_SPACE}]*(?:"[^"]*(?:"|\Z)|'[^']*(?:'|\Z)|[^{_SPACE}>"'][^{_SPACE}>]*)?)?""".encode()
)
_TAG_END = re.compile(rf"[{_SPACE}/]*>".encode())
_SHADOW_ROOT = re.compile(
    rf"""[{_SPACE}/"']shadowrootmode[{_SPACE}]*=[{_SPACE}]*["']?(?:open|closed)(?=[{_SPACE}/>"'])""".encode(),
    re.IGNORECASE,
)
_RAW_TEXT = {
    name: re.compile(rf"</{name.decode()}(?=[{_SPACE}/>])".encode(), re.IGNORECASE)
    for name in (b"script", b"style", b"textarea", b"title", b"xmp", b"iframe", b"noembed", b"noframes")
}
"""Elements whose contents are text, tags included (HTML Standard, 13.2.6.2), and how each ends."""
_HOSTS = frozenset(
    "article aside blockquote body div footer h1 h2 h3 h4 h5 h6 header main nav p section span".split()  # noqa: SIM905
)
"""Elements beside custom ones that may have a shadow root (DOM Standard, "valid shadow host name")."""


def without_templates(data: bytes) -> bytes:
    """A page in UTF-8 without its template elements, but for those that may be shadow roots: their mode says so.

    A template that has no end tag goes on to the end of the page, as in a browser.
    """
    if b"<template" not in data.lower():
        return data
    kept: list[bytes] = []
    start = position = 0
    open_templates: list[bool] = []
    """Of each whether it is shown, the outermost first."""
    while (token := _TOKEN.search(data, position)) is not None:
        if token[1]:
            end = data.find(b"-->", token.start() + 2)
            position = end + 3 if end >= 0 else len(data)
            continue
        is_end, name = bool(token[2]), token[3].lower()
        position = _end_of_tag(data, token.end())
        if name == b"template":
            was_hidden = False in open_templates
            if not is_end:
                open_templates.append(_SHADOW_ROOT.search(data, token.end(), position) is not None)
            elif open_templates:
                open_templates.pop()
            is_hidden = False in open_templates
            if is_hidden and not was_hidden:
                kept.append(data[start : token.start()])
            elif was_hidden and not is_hidden:
                start = position
        elif name in _RAW_TEXT and not is_end:
            raw_end = _RAW_TEXT[name].search(data, position)
            position = raw_end.start() if raw_end is not None else len(data)
    if False not in open_templates:
        kept.append(data[start:])
    return b"".join(kept)


def show_shadow_roots(root: Any) -> None:
    """Make the templates that are left boxes, where they are shadow roots of an element that may have one; drop others."""
    for template in list(root.iter("template")):
        host = template.getparent()
        is_host = host is not None and ("-" in host.tag or host.tag in _HOSTS)
        if is_host and not any(other.get("shadowrootmode") for other in template.itersiblings(preceding=True)):
            template.tag = "div"
        else:
            template.clear(keep_tail=True)


def _end_of_tag(data: bytes, position: int) -> int:
    """Where a tag ends whose name ends at this position: behind its ">"."""
    usual = _USUAL_REST.match(data, position)
    if usual is not None:
        return usual.end()
    while (attribute := _ATTRIBUTE.match(data, position)) is not None:
        position = attribute.end()
    end = _TAG_END.match(data, position)
    return end.end() if end is not None else len(data)
