"""Bytes of an HTML page -> what the crawler wants to know of it, as plain data. CPU only: large pages in a thread."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from itertools import islice
from typing import Any

from lxml import etree

from ..errors import BadScheme, HtmlParseError, InvalidUrl
from ..model import MIB, Candidate
from ..urls import mask, parse
from .charset import html_encoding
from .rules import PageElements, candidates, read_elements
from .tables import HARMLESS_WORDS, KEYWORDS, RULES

PARSE_BYTES = 16 * MIB
"""How much of a page is read; no landing page is longer."""
TEXT_LIMIT = 4000
"""How much of the visible text is kept, in characters, for the tests of walls."""

MAX_HEADINGS = 200
MAX_NOSCRIPTS = 20

_BODY = re.compile(rb"<body[\s>]|</head\s*>", re.IGNORECASE)
_INVISIBLE = frozenset(
    {"script", "style", "noscript", "template", "svg", "select", "option", "textarea", "head", "title"}
)
_FURNITURE = frozenset({"nav", "header", "footer", "form", "button", "aside", "menu", "dialog"})
_SPACES = re.compile(r"\s+")
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
# Compiled once and run inside libxml2: hostile pages have a million elements.
_TEXTS = etree.XPath("//text()", smart_strings=False)
_MARKS = etree.XPath(
    "//div/@class | //div/@id | //form/@id | //form/@class | //form/@action | //iframe/@src | //img/@src"
    " | //input/@name | //input/@id | //script/@src",
    smart_strings=False,
)
_CAPTCHA_MARKS = ("captcha", "cf-turnstile", "challenge-form", "challenge-platform", "geetest", "datadome")


@dataclass(frozen=True)
class PageText:
    """What a reader sees, and what the page is made of."""

    title: str
    headings: tuple[str, ...]
    """h1 to h6, lower-case."""
    first_heading: str
    words: int
    """Visible words outside navigation, forms and the like."""
    start: str
    """The first TEXT_LIMIT characters of all visible text, lower-case."""
    all_words: int
    """Visible words, furniture included."""
    noscript: str
    """Text for readers without scripts, lower-case."""
    scripts: int
    has_password: bool
    has_captcha: bool
    has_citation: bool
    """Whether the head holds metadata of a work."""


@dataclass(frozen=True)
class Page:
    """A page as far as it was read: `text` is None if only its head was."""

    url: str
    candidates: tuple[Candidate, ...]
    fulltext_urls: tuple[str, ...]
    """Where the page itself says its full text in HTML is."""
    text: PageText | None


def read_page(data: bytes, url: str, content_type: str, *, target: str, head_only: bool = False) -> Page:
    """Parse a page and take from it the links to `target` and, unless `head_only`, the facts about its text.

    Raises HtmlParseError where there is not one element.
    """
    data = data[:PARSE_BYTES]
    if head_only:
        end = _BODY.search(data)
        data = data[: end.start()] if end else data
    root = _parse(data, content_type)
    if root is None:
        if head_only:
            return Page(url, (), (), None)
        raise HtmlParseError(f"no element in the HTML at {mask(url)}")
    base = _base(root, url)
    elements = read_elements(root, keywords=KEYWORDS, harmless=HARMLESS_WORDS, head_only=head_only)
    return Page(
        url=url,
        candidates=candidates(elements, RULES, target=target, base=base),
        fulltext_urls=_fulltext_urls(elements, base),
        text=None if head_only else _text(root, elements),
    )


def _parse(data: bytes, content_type: str) -> Any:
    encoding, skip = html_encoding(data, content_type)
    if encoding != "utf-8":
        # libxml2 knows fewer encodings than browsers do.
        data, skip = data[skip:].decode(encoding, "replace").encode("utf-8", "replace"), 0
    data = data[skip:].replace(b"\x00", b"")
    if not data.strip():
        return None
    try:
        return etree.fromstring(data, _parser())
    except etree.LxmlError:
        return None


_of_thread = threading.local()


def _parser() -> Any:
    """This thread's parser: to make one takes longer than to parse a page's head, and to share one makes threads wait
    for each other's pages."""
    parser = getattr(_of_thread, "parser", None)
    if parser is None:
        parser = etree.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
        _of_thread.parser = parser
    return parser


def _base(root: Any, url: str) -> str:
    """The first base element with an href decides, if it is a URL at all (HTML Standard, 4.2.3)."""
    for element in root.iter("base"):
        href = (element.get("href") or "").strip()
        if element.get("href") is None:
            continue
        try:
            return parse(href, url) if href else url
        except (InvalidUrl, BadScheme):
            return url
    return url


def _fulltext_urls(elements: PageElements, base: str) -> tuple[str, ...]:
    named = elements.metas.get("citation_fulltext_html_url", ())
    return tuple(url for content in named if (url := _parsed(content, base)) is not None)


def _parsed(content: str, base: str) -> str | None:
    try:
        return parse(content.strip(), base)
    except (InvalidUrl, BadScheme):
        return None


def _text(root: Any, elements: PageElements) -> PageText:
    """The facts about a page's text. Takes the tree apart: it comes last."""
    title = next((_squeeze("".join(element.itertext())) for element in root.iter("title")), "")
    first = next((_squeeze("".join(element.itertext())) for element in root.iter("h1")), "")
    headings = tuple(
        _squeeze("".join(element.itertext())).lower()[:200] for element in islice(root.iter(*_HEADINGS), MAX_HEADINGS)
    )
    noscript = " ".join(" ".join(element.itertext()) for element in islice(root.iter("noscript"), MAX_NOSCRIPTS))
    marks = "\n".join(_MARKS(root)).lower()
    scripts = sum(1 for _ in root.iter("script"))
    has_password = any((field.get("type") or "").strip().lower() == "password" for field in root.iter("input"))
    etree.strip_elements(root, *_INVISIBLE, with_tail=False)
    visible = " ".join(_TEXTS(root))
    etree.strip_elements(root, *_FURNITURE, with_tail=False)
    own = " ".join(_TEXTS(root))
    return PageText(
        title=title,
        headings=headings,
        first_heading=first,
        words=len(own.split()),
        start=_squeeze(visible[: 4 * TEXT_LIMIT])[:TEXT_LIMIT].lower(),
        all_words=len(visible.split()),
        noscript=_squeeze(noscript[: 4 * TEXT_LIMIT])[:TEXT_LIMIT].lower(),
        scripts=scripts,
        has_password=has_password,
        has_captcha=any(mark in marks for mark in _CAPTCHA_MARKS),
        has_citation="citation_title" in elements.metas,
    )


def _squeeze(text: str) -> str:
    return _SPACES.sub(" ", text).strip()
