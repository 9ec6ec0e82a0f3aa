"""Read a page that is an article: its main text, and the files that it loads. Runs in a process of the pool."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import lxml.html
from lxml import etree

from ..page.html import as_utf8, base_of, parse_html
from ..page.text import strip_to_own_text
from ..urls import is_href, mask, resolve, without_fragment
from .xml_text import paragraphs

MAX_READ = 4000
"""References of one page that are read."""
MAX_REFERENCE = 4000
"""Longest reference, in characters."""
MAX_STYLE = 200_000
"""Characters of one style sheet within the page that are read."""

_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1b\x7f\ufffe\uffff]")
"""Characters that XML does not have, and a page may: trafilatura finds nothing in a page with one of them."""
_MAIN = etree.XPath("//main | //article | //*[@role='main']")

_CSS_URL = re.compile(r"""(@import\s+)?url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""", re.IGNORECASE)
_FONT = re.compile(r"\.(?:woff2?|ttf|otf|eot)(?:[?#]|$)", re.IGNORECASE)
_PRELOADED = {
    "image": "image",
    "style": "style",
    "script": "script",
    "font": "font",
    "video": "media",
    "audio": "media",
    "track": "media",
}
_SOURCES = {
    "img": "image",
    "input": "image",
    "script": "script",
    "video": "media",
    "audio": "media",
    "source": "media",
    "track": "media",
    "embed": "media",
    "iframe": "frame",
    "frame": "frame",
}
_LAZY = ("data-src", "data-original", "data-lazy-src")


@dataclass(frozen=True)
class HtmlRead:
    """What was read of one page."""

    status: str
    """`success`, `success-plain`, `empty-xml`, `trafilatura-parse-error`."""
    text: str = ""
    resources: tuple[dict[str, str], ...] = ()
    """`{"type": "image", "url": …}` in the order of the page, each URL once. Types: image, style, script, media, font,
    frame."""


def read_html(data: bytes, url: str, content_type: str, with_trafilatura: bool) -> HtmlRead:
    """Read a page. Never raises for what it contains; memory and time are the caller's to limit."""
    root = parse_html(data, content_type)
    if root is None:
        return HtmlRead("empty-xml")
    resources = tuple(_resources(root, base_of(root, url)))
    text, status = "", "success" if with_trafilatura else "success-plain"
    if with_trafilatura:
        try:
            text = _main_text(as_utf8(data, content_type))
        except Exception:  # noqa: BLE001, S110 - whatever the library raises: the page is read without it
            pass
    if not text and (text := _plain_text(root)) and with_trafilatura:
        status = "trafilatura-parse-error"
    return HtmlRead(status if text else "empty-xml", text, resources)


def _main_text(utf8: bytes) -> str:
    import trafilatura

    # Its own guess of the encoding is worse than ours.
    tree = lxml.html.document_fromstring(utf8, parser=lxml.html.HTMLParser(encoding="utf-8", no_network=True))
    _leave_out(_NO_TEXT, tree)
    return (trafilatura.extract(tree, include_comments=False, include_tables=True) or "").strip()


def _leave_out(characters: re.Pattern[str], root: Any) -> None:
    """Leave such characters out of the texts of a tree."""
    if not characters.search("".join(root.itertext())):
        return
    for element in root.iter():
        element.text = element.text and characters.sub("", element.text)
        element.tail = element.tail and characters.sub("", element.tail)


def _plain_text(root: Any) -> str:
    """The paragraphs of the page's main part, or of all that is not navigation and the like. Takes the tree apart."""
    _leave_out(_NO_TEXT, root)
    strip_to_own_text(root)
    whole = "\n\n".join(paragraphs([root]))
    parts = ("\n\n".join(paragraphs([part])) for part in islice(_MAIN(root), 20))
    main = max(parts, key=len, default="")
    return main if 2 * len(main) > len(whole) else whole


# What a page loads


def _resources(root: Any, base: str) -> Iterator[dict[str, str]]:
    seen: set[str] = set()
    references = ((kind, reference) for kind, reference in _references(root) if 0 < len(reference) <= MAX_REFERENCE)
    for kind, reference in islice(references, MAX_READ):
        href = resolve(reference.strip(), base)
        if href is None or not is_href(href):
            continue
        href = mask(without_fragment(href))
        if href not in seen:
            seen.add(href)
            yield {"type": kind, "url": href}


def _references(root: Any) -> Iterator[tuple[str, str]]:
    for element in root.iter(etree.Element):
        tag = element.tag
        if tag in _SOURCES:
            yield from _of_source(element, tag)
        elif tag == "link":
            yield from _of_link(element)
        elif tag == "object":
            yield "media", element.get("data") or ""
        elif tag == "image":
            yield "image", element.get("href") or element.get("xlink:href") or ""
        elif tag == "style":
            yield from _of_css((element.text or "")[:MAX_STYLE])
        if element.get("background"):
            yield "image", element.get("background")
        if "url(" in (style := element.get("style") or ""):
            yield from _of_css(style[:MAX_STYLE])


def _of_source(element: Any, tag: str) -> Iterator[tuple[str, str]]:
    if tag == "input" and (element.get("type") or "").strip().lower() != "image":
        return
    parent = element.getparent()
    kind = "image" if tag == "source" and parent is not None and parent.tag == "picture" else _SOURCES[tag]
    for name in ("src", *_LAZY):
        yield kind, element.get(name) or ""
    for name in ("srcset", "data-srcset"):
        for reference in _of_srcset(element.get(name) or ""):
            yield kind, reference
    if tag == "video":
        yield "image", element.get("poster") or ""


def _of_link(element: Any) -> Iterator[tuple[str, str]]:
    relations = set((element.get("rel") or "").lower().split())
    href = element.get("href") or ""
    if "stylesheet" in relations:
        yield "style", href
    elif relations & {"icon", "apple-touch-icon", "apple-touch-icon-precomposed", "mask-icon"}:
        yield "image", href
    elif "modulepreload" in relations:
        yield "script", href
    elif "preload" in relations and (kind := _PRELOADED.get((element.get("as") or "").strip().lower())):
        yield kind, href
        for reference in _of_srcset(element.get("imagesrcset") or ""):
            yield kind, reference


def _of_srcset(text: str) -> Iterator[str]:
    """The URLs of a source set (HTML Standard, 4.8.4.2.2): each ends at white space or with a comma, and what describes
    it ends with a comma."""
    is_described = False
    for word in text.split():
        if is_described:
            _, comma, word = word.partition(",")
            is_described = not comma
        if not is_described and (reference := word.strip(",")):
            yield reference
            is_described = not word.endswith(",")


def _of_css(css: str) -> Iterator[tuple[str, str]]:
    for found in _CSS_URL.finditer(css):
        reference = found[2] or found[3]
        kind = "style" if found[1] or found[3] else "font" if _FONT.search(reference) else "image"
        yield kind, reference
