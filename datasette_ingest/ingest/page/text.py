"""Read what a visitor sees on a page: its words, headings and title, and how much of it is running text.

With these facts interstitials.py recognises interstitial pages, and scope.py tells articles from pages about articles.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import islice
from typing import Any

from lxml import etree

from .html import MAX_PIECES, short_text, squeeze
from .phrases import any_of, pattern, texts

TEXT_LIMIT = 4000
"""How much of the visible text is kept, in characters."""
MAX_HEADINGS = 200
MAX_FIRST_BLOCKS = 12
"""How many blocks of a page's own text are kept: an interstitial says what it says at once."""
MAX_FIRST_BLOCK = 300
"""Longest of these, in characters."""
MAX_NOSCRIPTS = 20
MAX_SOURCES = 2000
"""Scripts, frames, images and fields whose names are kept."""
MAX_ELEMENTS = 60_000
"""Elements whose text is read and counted: no article has more, and a hostile page may have a million."""
MAX_CONTAINERS = 20_000
MAX_BLOCKS = 5000
"""Blocks that are classified; of later ones only the words are counted."""
MAX_NAME = 500
"""Longest title or first heading, in characters; more is text."""
MAX_HEADING = 200
"""Longest of the other headings."""
MAX_ATTRIBUTE_TEXT = 200_000
"""Characters of all names of containers and sources together."""
MAX_FORM_WORDS = 150
"""A form of more words than this is no form but the whole page, as ASP.NET writes it."""

LABEL_WORDS = 6
"""A block of so many words or fewer is a label, and perhaps a heading without the element for it."""
RUNNING_WORDS = 12
"""A block of at least so many words is running text."""
PARAGRAPH_WORDS = 30
"""A block of running text of at least so many words is a paragraph."""
MAX_ENTRY = 2000
"""How much of a block is read, in characters, to classify it."""
MAX_ENTRY_WORDS = 120
"""A longer block is no entry of a reference list, wherever it stands."""
NO_HEADING = 7
"""The level of a label that stands where a heading could: below h6."""

_INVISIBLE = ("script", "style", "noscript", "template", "svg", "math", "select", "option", "textarea", "head", "title")
_BOILERPLATE = frozenset({"nav", "header", "footer", "aside", "menu", "dialog"})
_BOILERPLATE_ROLES = frozenset(
    {"navigation", "banner", "contentinfo", "search", "complementary", "dialog", "alertdialog", "menu", "menubar"}
)
_FORMS = ("form", "button", "fieldset")
_CONTAINERS = ("div", "section", "ul", "ol", "table", "form", "main", *_BOILERPLATE)
_WHOLE = ("h1", "main", "article")
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_HEADING_LEVELS = {tag: int(tag[1]) for tag in _HEADINGS}
_BLOCKS = frozenset(
    """address article aside blockquote body center dd details div dl dt fieldset figcaption figure footer form
    header hr html li main nav ol p pre section summary table tbody td th thead tr ul caption""".split()  # noqa: SIM905
) | frozenset(_HEADINGS)
# Elements that only a script fills: where frameworks mount, and custom elements.
_MOUNT_IDS = frozenset({"root", "app", "__next", "__nuxt", "svelte", "ember-app", "application", "react-root"})
_CUSTOM_ELEMENTS = etree.XPath("//*[contains(name(), '-')]")

# Containers that are not the page's own text, by class or id.
_BOILERPLATE_NAME = re.compile(
    r"(?<![\w-])(?!(?:has|no|with|without|hide|show)[-_])(?:[a-z0-9]+[-_]+)*"
    r"(?:side-?bar|widgets?|widget-area|nav|navbar|navigation|menu|breadcrumbs?|masthead|colophon|top-?bar|tool-?bar|footer"
    r"|site-?header|cookies?|consent|gdpr|onetrust|related|recommend(?:ed|ations?)|comments|comment-?list|disqus"
    r"|social|share|sharing|skip-?links?|modal|pop-?up|dropdown|off-?canvas|drawer|advert\w*|newsletter)"
    r"(?:[-_]+(?!wrap|container|layout|page|main|body|content)[a-z0-9]+)*(?![\w-])"
)
_REFERENCES_NAME = re.compile(
    r"(?<![\w-])(?:[a-z0-9]+[-_]+)*(?:references?|ref-?lists?|reflist|bibliograph(?:y|ie|ia)|literature-?cited|citation-?list"
    r"|cited-?by|footnotes?)(?:[-_]+[a-z0-9]+)*(?![\w-])"
)
_ABSTRACT_NAME = re.compile(r"(?<![\w-])(?:[a-z0-9]+[-_]+)*(?:abstract\w*|resumen|resumo)(?:[-_]+[a-z0-9]+)*(?![\w-])")
_MISSING_NAME = re.compile(
    r"(?<![\w-])(?:(?:error|page|http|is|status)[-_]?)*(?:404|not-?found)(?:[-_]?(?:page|error|template|body))?(?![\w-])"
)
# "[12]", or a family name with initials, and a year within the entry.
_ENTRY = re.compile(
    r"\W*(?:\[?\d{1,3}[\].)]?\s*)?[^\W\d_][\w'’\-]+,?\s+[A-ZÀ-ÖØ-ÞА-Я](?:\.|[A-Z]{0,2}\b).*?\b(?:1[6-9]|20)\d\d|\W*\[\d{1,3}\]",
    re.DOTALL,
)

# Scripts without blanks between words: so many characters count as one word.
_HAN = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]+")
_THAI = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_HAN_CHARACTERS = 2
_THAI_CHARACTERS = 5


@dataclass(frozen=True)
class PageText:
    """What a reader sees, and what the page is made of.

    Its own text is what stands outside navigation, side columns, banners, comments and forms. Words of languages
    that put no blanks between them are counted by their characters.
    """

    title: str
    headings: tuple[str, ...]
    """h1 to h6 outside navigation and side columns, lower-case."""
    first_heading: str
    """The first h1 among them, as it is written."""
    first_blocks: tuple[str, ...]
    """The first blocks of its own text, as they are written."""
    words: int
    """Words of its own."""
    start: str
    """The first TEXT_LIMIT characters of all visible text, lower-case."""
    all_words: int
    """Visible words, boilerplate included."""
    noscript: str
    """Text for readers without scripts, lower-case."""
    scripts: int
    attribute_text: str
    """Class and id of its containers, names and sources of its fields, frames, images and scripts, a line each."""
    says_missing: bool
    """Whether the body's class or id says that it is a "not found" page."""
    has_password: bool
    """A password field anywhere."""
    asks_password: bool
    """A password field that is not part of navigation, a side column or a closed dialog."""
    has_citation: bool
    """Whether the head holds metadata of a work."""
    has_mount: bool
    """Whether a page of little text has an empty element that only a script fills."""
    prose: int
    """Words of running text of its own, without abstracts and reference lists."""
    paragraphs: int
    abstract_words: int
    has_abstract: bool
    has_preview: bool
    """Whether a heading or label offers the rest for money or to members."""
    references: int
    """Entries of reference lists."""
    sections: frozenset[str]
    """Headings by which articles divide their text, lower-case; those of a structured abstract do not count."""
    figures: int
    link_titles: int
    """Headings and blocks of three words and more that are nothing but a link to elsewhere."""


def read_text(root: Any, *, has_citation: bool) -> PageText:
    """The facts about a page's text. Takes the tree apart: call it last.

    `has_citation` says whether the head holds metadata of a work.
    """
    title = _first_name(root, "title")
    noscript = " ".join(" ".join(element.itertext()) for element in islice(root.iter("noscript"), MAX_NOSCRIPTS))
    scripts = sum(1 for _ in root.iter("script"))
    has_password = _asks_password(root)
    sources = _sources(root)
    _strip_invisible(root)
    start = squeeze(" ".join(_texts(root, TEXT_LIMIT)))[:TEXT_LIMIT].lower()
    parts = _Parts.of(root)
    has_mount = len(start) < _MUCH_TEXT and any(map(_is_blank, (*parts.mounts, *_CUSTOM_ELEMENTS(root))))
    around = _emptied_unless(parts.boilerplate, _whole_page(root))
    asks_password = has_password and _asks_password(root)
    named = islice(root.iter(*_HEADINGS), MAX_HEADINGS)
    headings = tuple(short_text(heading, MAX_HEADING, between=" ").lower() for heading in named)
    first_heading = _first_name(root, "h1")
    figures = sum(1 for _ in root.iter("figcaption", "caption"))
    around += _emptied_up_to(root.iter(*_FORMS), MAX_FORM_WORDS)
    reader = _Reader()
    reader.take_out(parts, _whole_page(root))
    reader.read(islice(root.iter(), MAX_ELEMENTS))
    return PageText(
        title=title,
        headings=headings,
        first_heading=first_heading,
        first_blocks=tuple(reader.first_blocks),
        words=reader.words,
        start=start,
        all_words=reader.words + around,
        noscript=squeeze(noscript[: 4 * TEXT_LIMIT])[:TEXT_LIMIT].lower(),
        scripts=scripts,
        attribute_text="\n".join((*parts.names, *sources))[:MAX_ATTRIBUTE_TEXT],
        says_missing=any(_MISSING_NAME.search(_class_and_id(body)) for body in root.iter("body")),
        has_password=has_password,
        asks_password=asks_password,
        has_citation=has_citation,
        has_mount=has_mount,
        prose=reader.prose,
        paragraphs=reader.paragraphs,
        abstract_words=reader.abstract_words,
        has_abstract=reader.has_abstract,
        has_preview=reader.has_preview,
        references=reader.references,
        sections=frozenset(reader.sections),
        figures=figures,
        link_titles=reader.link_titles,
    )


def strip_to_own_text(root: Any) -> None:
    """Take out of a tree all that is not the page's own text: what nobody sees, navigation and the like, forms."""
    _strip_invisible(root)
    _emptied_unless(_Parts.of(root).boilerplate, _whole_page(root))
    _emptied_up_to(root.iter(*_FORMS), MAX_FORM_WORDS)


def _strip_invisible(root: Any) -> None:
    etree.strip_elements(root, *_INVISIBLE, with_tail=False)


def count_words(text: str) -> int:
    """The words of a text, in whatever language it is."""
    return len(text.split()) + _words_without_spaces(text)


def _words_without_spaces(text: str) -> int:
    if text.isascii() or not _UNSPACED.search(text):
        return 0
    return _characters(_HAN, text) // _HAN_CHARACTERS + _characters(_THAI, text) // _THAI_CHARACTERS


def _characters(pattern: re.Pattern[str], text: str) -> int:
    return sum(map(len, pattern.findall(text)))


_PARTS = ("abstract", "references", "sections", "preview")
_MAX_PART_NAME = 80
"""Longest heading, in characters, that can be the name of an article's part."""
_MAX_ATTRIBUTE = 300
_MUCH_TEXT = TEXT_LIMIT // 2


@lru_cache(maxsize=4096)
def _part_named(text: str) -> str:
    """Which part of an article a heading names: one of _PARTS, `keywords`, or nothing."""
    if len(text) > _MAX_PART_NAME:
        return ""
    part = next((part for part in _PARTS if pattern(f"page.{part}").fullmatch(text)), "")
    return part or ("keywords" if pattern("page.keywords").match(text) else "")


@cache
def _abstract_line() -> re.Pattern[str]:
    """The beginning of an abstract that stands without a heading."""
    return any_of(texts("page.abstract"), before=r"\W*", after=r"\s*[:：.。．\-–—\]】]")


@lru_cache(maxsize=8192)
def _part_of_container(name: str) -> str:
    """Which part of a page a container is by its class and id: `boilerplate`, `references`, `abstract`, or nothing."""
    if _BOILERPLATE_NAME.search(name):
        return "boilerplate"
    if _REFERENCES_NAME.search(name):
        return "references"
    return "abstract" if _ABSTRACT_NAME.search(name) else ""


@dataclass(frozen=True)
class _Parts:
    """Containers whose tag, role, class or id says what they are, each kind in document order."""

    boilerplate: list[Any]
    abstracts: list[Any]
    references: list[Any]
    mounts: list[Any]
    names: dict[str, None]
    """Classes and ids, each once, in the order of the page."""

    @classmethod
    def of(cls, root: Any) -> _Parts:
        parts = cls([], [], [], [], {})
        lists = {"boilerplate": parts.boilerplate, "abstract": parts.abstracts, "references": parts.references}
        length = 0
        for element in islice(root.iter(*_CONTAINERS), MAX_CONTAINERS):
            if element.tag in _BOILERPLATE:
                parts.boilerplate.append(element)
                continue
            if not element.attrib:
                continue
            name = _class_and_id(element)
            if element.tag == "main" or element.get("id") in _MOUNT_IDS:
                parts.mounts.append(element)
            if name not in parts.names:
                length += len(name)
                if length > MAX_ATTRIBUTE_TEXT:
                    continue
                parts.names[name] = None
            part = "boilerplate" if element.get("role") in _BOILERPLATE_ROLES else _part_of_container(name)
            if part:
                lists[part].append(element)
        return parts


class _Reader:
    """Reads a page's own text block by block. Mutable, for one page."""

    def __init__(self) -> None:
        self.words = self.prose = self.paragraphs = self.abstract_words = self.references = self.link_titles = 0
        self.has_abstract = self.has_preview = False
        self.sections: set[str] = set()
        self.first_blocks: list[str] = []
        self._pieces: list[str] = []
        self._linked = 0
        self._level = 0
        self._blocks = 0
        self._part = ""
        self._part_level = 0

    def take_out(self, parts: _Parts, whole: Container[Any]) -> None:
        """Count and empty the containers that are abstracts or reference lists by name; not those in `whole`."""
        for element in reversed(parts.references):
            if element not in whole:
                entries = sum(1 for _ in element.iter("li", "dd", "tr")) or sum(1 for _ in element.iter("p", "div"))
                count = _emptied(element)
                self.references += entries if count else 0
                self.words += count
        for element in reversed(parts.abstracts):
            if element not in whole:
                self._add_abstract(count := _emptied(element))
                self.words += count

    def read(self, elements: Iterable[Any]) -> None:
        """Read elements in document order."""
        pieces = self._pieces
        after_break = False
        for element in elements:
            tag, text, tail = element.tag, element.text, element.tail
            if tag in _BLOCKS:
                if pieces:
                    self._flush()
                self._level = _HEADING_LEVELS.get(tag, 0)
                if text:
                    pieces.append(text)
                if tail and not tail.isspace():
                    self._tail(tail)
                continue
            if tag == "br":
                if pieces and (after_break or self._part == "references"):
                    self._flush()
                after_break = not tail or tail.isspace()
            else:
                after_break = False
                if tag == "a" and self._blocks < MAX_BLOCKS:
                    self._linked += _linked(element, text)
                if text:
                    pieces.append(text)
            if tail:
                pieces.append(tail)
        self._flush()

    def _tail(self, tail: str) -> None:
        """Text behind a block is a block of its own; the block around both goes on after it."""
        kept, linked, level = self._pieces[:], self._linked, self._level
        self._pieces[:], self._linked, self._level = [tail], 0, 0
        self._flush()
        self._pieces[:], self._linked, self._level = kept, linked, level

    def _flush(self) -> None:
        split = " ".join(self._pieces).split()
        linked, level = self._linked, self._level
        self._pieces.clear()
        self._linked = self._level = 0
        if not split:
            # An empty element inside a heading does not end it.
            self._level = level
            return
        self._blocks += 1
        text = " ".join(split)
        count = len(split) + _words_without_spaces(text)
        self.words += count
        if self._blocks <= MAX_BLOCKS:
            self._classify(text, count, linked, level)

    def _classify(self, text: str, count: int, linked: int, level: int) -> None:
        if len(self.first_blocks) < MAX_FIRST_BLOCKS:
            self.first_blocks.append(text[:MAX_FIRST_BLOCK])
        if count >= 3 and 10 * linked > 8 * len(text) and self._part != "references":
            self.link_titles += 1
        if level or count <= LABEL_WORDS:
            self._read_label(text.lower(), level or NO_HEADING)
        elif count >= RUNNING_WORDS or self._part == "references":
            self._read_text(text, count, is_link=2 * linked > len(text))

    def _read_label(self, text: str, level: int) -> None:
        """Note which part of the article a heading, or a label that reads like one, begins."""
        part = _part_named(text)
        self.has_preview = self.has_preview or part == "preview"
        if part in ("abstract", "references"):
            self._part, self._part_level = part, level
        elif level <= self._part_level and (part or level < NO_HEADING):
            self._part, self._part_level = "", 0
        if part == "sections" and self._part != "abstract":
            self.sections.add(text)

    def _read_text(self, text: str, count: int, *, is_link: bool) -> None:
        start = text[:MAX_ENTRY]
        if pattern("page.keywords").match(start):
            if self._part == "abstract":
                self._part, self._part_level = "", 0
        elif self._part == "abstract" or _abstract_line().match(start):
            self._add_abstract(count)
        elif count <= MAX_ENTRY_WORDS and (self._part == "references" or _ENTRY.match(start)):
            self.references += 1
        elif not is_link:
            self.prose += count
            self.paragraphs += count >= PARAGRAPH_WORDS

    def _add_abstract(self, count: int) -> None:
        self.has_abstract = self.has_abstract or count >= RUNNING_WORDS
        self.abstract_words += count


def _linked(element: Any, text: str | None) -> int:
    """How many characters of an anchor lead to another page."""
    href = element.get("href")
    if not href or href.startswith("#"):
        return 0
    return sum(map(len, islice(element.itertext(), MAX_PIECES))) if len(element) else len(text or "")


def _emptied(element: Any) -> int:
    """Empty an element, and return how many words it held."""
    count = count_words(" ".join(element.itertext()))
    element.clear(keep_tail=True)
    return count


def _emptied_unless(elements: Sequence[Any], whole: Container[Any]) -> int:
    """Empty elements that come in document order, but for those in `whole`, and return how many words they held."""
    # The innermost first, so that no word counts twice.
    return sum(_emptied(element) for element in reversed(elements) if element not in whole)


def _emptied_up_to(elements: Iterable[Any], max_words: int) -> int:
    """Empty elements that come in document order, but for those of more words, and return how many they held."""
    total = 0
    larger: set[Any] = set()
    for element in reversed(list(elements)):
        if element in larger:
            continue
        count = count_words(" ".join(element.itertext()))
        if count <= max_words:
            total += count
            element.clear(keep_tail=True)
        else:
            # So are the elements round it; their words need not be counted.
            _add_ancestors(larger, element)
    return total


def _whole_page(root: Any) -> set[Any]:
    """The page's title, main part and articles, and all elements round them."""
    found: set[Any] = set()
    for element in islice(root.iter(*_WHOLE), MAX_CONTAINERS):
        found.add(element)
        _add_ancestors(found, element)
    return found


def _add_ancestors(found: set[Any], element: Any) -> None:
    for ancestor in element.iterancestors():
        if ancestor in found:
            return
        found.add(ancestor)


def _is_blank(element: Any) -> bool:
    return all(text.isspace() for text in islice(element.itertext(), 20))


def _asks_password(root: Any) -> bool:
    return any((field.get("type") or "").strip().lower() == "password" for field in root.iter("input"))


def _first_name(root: Any, tag: str) -> str:
    return next((short_text(element, MAX_NAME) for element in root.iter(tag)), "")


def _class_and_id(element: Any) -> str:
    return f"{element.get('class') or ''} {element.get('id') or ''}"[:_MAX_ATTRIBUTE].lower()


def _sources(root: Any) -> Iterator[str]:
    """Names and addresses of a page's forms, fields, frames, images and scripts, lower-case."""
    fields = islice(root.iter("form", "iframe", "img", "input", "script", "select"), MAX_SOURCES)
    values = (element.get(name) for element in fields for name in ("action", "src", "name", "id"))
    return iter([value[:_MAX_ATTRIBUTE].lower() for value in values if value])


def _texts(root: Any, limit: int) -> Iterator[str]:
    """The visible texts up to so many characters together."""
    for text in root.itertext():
        if not text.isspace():
            yield text[:limit]
            limit -= len(text)
            if limit <= 0:
                return
