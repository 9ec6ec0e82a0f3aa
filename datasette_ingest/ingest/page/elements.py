"""The parts of a parsed page that can carry a link, taken off the tree in one pass as plain data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from .html import mimetype_of
from .link_header import HeaderLink
from .links.words import Matters

MAX_LABEL = 160
"""Labels longer than this, in characters, are text, not names."""
MAX_ANCHORS = 1000
"""Anchors that could matter, of one page; no page of one work has as many."""
MAX_PARTS = 1000
"""Links and frames, each, of one page that are looked at; hidden form fields and refreshes too."""
MAX_METAS = 50_000
MAX_HREF = 4000
"""Longest reference of a link that a reader sees, in characters."""
MAX_PIECES = 200
"""Pieces of text that are put together to one label."""
MAX_AROUND = 100
"""Elements round a link, one inside the other, that are looked at."""
MAX_SCRIPT = 1024 * 1024
"""How much of one script is looked through, in characters."""
MAX_SCRIPTS = 50
MAX_SIBLINGS = 40
MAX_BESIDE = 200
MAX_ROUND_TITLE = 300
NEAR = 4
"""How many elements round a link say what part of the page it belongs to, beside the page's furniture."""

_WORD = re.compile(r"[^\W_]+")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_QUOTED_LINK = re.compile(
    r"""['"]((?:https?:/)?/[^'"\s]+|[^'"\s]+\.(?:pdf|xml|html?)(?:\?[^'"\s]*)?)['"]""", re.IGNORECASE
)
_NO_LINK = re.compile(r"\s*(?:#|javascript:|$)", re.IGNORECASE)
_DATA_LINK = re.compile(r"data-(?:.*-)?(?:href|url|link|src|pdf|file|download)$")
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_TAGS = (
    *("meta", "link", "a", "area", "button", "input", "embed", "object", "iframe", "frame", "script"),
    *_HEADINGS,
)
_INLINE = frozenset({"span", "b", "i", "em", "strong", "small", "cite", "u", "font", "sup", "sub"})
_HEAD_TAGS = ("meta", "link", "script")
# Their attributes are the page's looks, not a link's name.
_NOT_MARKS = frozenset({"href", "style", "src", "target", "onclick", "tabindex", "role", "action", "method"})


@dataclass(frozen=True, slots=True)
class Region:
    """Where on the page something stands."""

    tags: frozenset[str] = frozenset()
    """Names of all elements round it."""
    marks: frozenset[str] = frozenset()
    """Words of class, id and label of the nearest elements round it, lower-case."""
    heading: str = ""
    """The heading of its section, lower-case."""
    beside: str = ""
    """The text beside it in its own paragraph or row, lower-case, links not counted; no more than MAX_BESIDE."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A link that a reader can follow: an anchor, a button, a form that downloads."""

    href: str
    label: str
    """What it says: its text, else its title, aria-label or picture's text; lower-case, at most MAX_LABEL characters."""
    words: frozenset[str]
    """The words of its label, title and aria-label."""
    is_long: bool
    """Whether its text was longer than MAX_LABEL: a sentence or a reference, not a name."""
    marks: frozenset[str]
    """Words of its class, id, name and data attributes, lower-case; class names also whole."""
    mimetype: str = ""
    download: bool = False
    region: Region = field(default_factory=Region)


@dataclass(frozen=True, slots=True)
class TypedLink:
    """A link, embed, object, iframe or frame element: where to, of what type, in what relation."""

    href: str
    mimetype: str
    rels: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()
    tag: str = "link"


@dataclass(frozen=True)
class PageElements:
    """The parts of a page that can carry a link, in document order."""

    metas: Mapping[str, Sequence[str]]
    """Contents by name, property or itemprop, lower-case."""
    refreshes: Sequence[str] = ()
    noscript_refreshes: Sequence[str] = ()
    links: Sequence[TypedLink] = ()
    """Link elements, and before them the Link headers that came with the page."""
    anchors: Sequence[Anchor] = ()
    frames: Sequence[TypedLink] = ()
    inputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Values of hidden form fields by name, lower-case."""
    scripts: Sequence[str] = ()
    """Texts of scripts, JSON-LD left out."""


def read_elements(root: Any, *, matters: Matters, headers: Sequence[HeaderLink] = (), head_only: bool) -> PageElements:
    """Take from a parsed page what the rules look at, each element once.

    An anchor in whose text and attributes nothing `matters` is left out: nearly all of a page's.
    """
    reader = _Reader(matters)
    reader.links += [TypedLink(link.href, link.mimetype, link.rels) for link in headers if not link.anchor]
    for element in root.iter(*(_HEAD_TAGS if head_only else _TAGS)):
        reader.read(element)
    return reader.elements()


class _Reader:
    """Collects one page's parts. Mutable, for one page."""

    def __init__(self, matters: Matters) -> None:
        self._matters = matters.in_
        self._regions: dict[tuple[Any, Any, str], Region] = {}
        self._marks: dict[Any, frozenset[str]] = {}
        self._beside: dict[Any, str] = {}
        self._heading: tuple[Any, str] = (None, "")
        self._round_title: set[Any] = set()
        self._script_count = self._meta_count = self._input_count = 0
        self.metas: dict[str, list[str]] = {}
        self.refreshes: list[str] = []
        self.noscript_refreshes: list[str] = []
        self.links: list[TypedLink] = []
        self.anchors: list[Anchor] = []
        self.frames: list[TypedLink] = []
        self.inputs: dict[str, list[str]] = {}
        self.scripts: list[str] = []
        self._by_tag = {
            "meta": self._meta,
            "link": self._link,
            "a": self._anchor,
            "area": self._anchor,
            "button": self._anchor,
            "input": self._input,
            "embed": self._frame,
            "object": self._frame,
            "iframe": self._frame,
            "frame": self._frame,
            "script": self._script,
        }

    def read(self, element: Any) -> None:
        self._by_tag.get(element.tag, self._section)(element)

    def elements(self) -> PageElements:
        return PageElements(
            self.metas,
            self.refreshes,
            self.noscript_refreshes,
            self.links,
            self.anchors,
            self.frames,
            self.inputs,
            self.scripts,
        )

    def _meta(self, meta: Any) -> None:
        content = meta.get("content")
        if not content or self._meta_count >= MAX_METAS:
            return
        self._meta_count += 1
        for attribute in ("name", "property", "itemprop"):
            name = meta.get(attribute)
            if name:
                self.metas.setdefault(name.strip().lower(), []).append(content)
        if (meta.get("http-equiv") or "").strip().lower() == "refresh":
            inside = any(parent.tag == "noscript" for parent in meta.iterancestors())
            refreshes = self.noscript_refreshes if inside else self.refreshes
            if len(refreshes) < MAX_PARTS:
                refreshes.append(content)

    def _link(self, link: Any) -> None:
        href = link.get("href")
        # A translation of the page is the page again.
        if href and link.get("hreflang") is None and len(self.links) < MAX_PARTS:
            self.links.append(TypedLink(href, mimetype_of(link), frozenset((link.get("rel") or "").lower().split())))

    def _frame(self, frame: Any) -> None:
        source = frame.get("src") or frame.get("data") or frame.get("data-src")
        if source and len(self.frames) < MAX_PARTS:
            self.frames.append(TypedLink(source, mimetype_of(frame), marks=_marks(frame), tag=frame.tag))

    def _input(self, field: Any) -> None:
        kind = (field.get("type") or "").strip().lower()
        if kind in ("submit", "button"):
            self._anchor(field)
        name, value = field.get("name") or field.get("id"), field.get("value")
        if kind == "hidden" and name and value and self._input_count < MAX_PARTS:
            self._input_count += 1
            self.inputs.setdefault(name.strip().lower(), []).append(value)

    def _script(self, script: Any) -> None:
        text = script.text
        if text and self._script_count < MAX_SCRIPTS and "ld+json" not in (script.get("type") or ""):
            self._script_count += 1
            self.scripts.append(text[:MAX_SCRIPT])

    def _section(self, heading: Any) -> None:
        holder = heading.getparent()
        # A heading in a box of its own heads what is round the box.
        inner = heading
        while holder is not None and holder.tag != "body" and (holder.tag in ("header", "hgroup") or _is_alone(inner)):
            inner, holder = holder, holder.getparent()
        text = _squeezed(_text(heading))[:MAX_LABEL].lower()
        if heading.tag == "h1" and len(self._round_title) < MAX_ROUND_TITLE:
            self._round_title.update(heading.iterancestors())
        # Those of the first order are titles of the page.
        self._heading = (holder, "" if heading.tag == "h1" else text)

    def _anchor(self, element: Any) -> None:
        if len(self.anchors) >= MAX_ANCHORS:
            return
        text = _text(element) if element.tag != "input" else element.get("value") or ""
        attributes = " ".join(element.values())
        if not self._matters(f"{text} {attributes}".lower()):
            return
        href = _href(element) or (_action(element) if element.tag in ("button", "input") else "")
        if href and len(href) <= MAX_HREF:
            self._add(element, href, text)

    def _add(self, element: Any, href: str, text: str) -> None:
        text = _squeezed(text)
        others = [_squeezed(element.get(name) or "") for name in ("title", "aria-label")]
        if not text:
            inside = islice(element.iter(), MAX_PIECES)
            others += [_squeezed(picture.get("alt") or "") for picture in inside if picture.tag == "img"]
        names = [name.lower() for name in (text, *others) if 0 < len(name) <= MAX_LABEL]
        self.anchors.append(
            Anchor(
                href=href,
                label=names[0] if names else "",
                words=frozenset(word for name in names for word in _WORD.findall(name)),
                is_long=len(text) > MAX_LABEL,
                marks=_marks(element),
                mimetype=mimetype_of(element),
                download=element.get("download") is not None,
                region=self._region(element.getparent()),
            )
        )

    def _region(self, parent: Any) -> Region:
        """What stands round a link; links side by side share it."""
        holder, title = self._heading
        known = self._regions.get((parent, holder, title))
        if known is not None:
            return known
        tags: set[str] = set()
        marks: set[str] = set()
        heading = ""
        near = 0
        for element in () if parent is None else chain((parent,), islice(parent.iterancestors(), MAX_AROUND)):
            tags.add(element.tag)
            # What holds the page's own title is the page, however it is called.
            if element not in self._round_title and (
                near < NEAR or element.tag in ("nav", "aside", "footer", "header")
            ):
                own = self._marks_of(element)
                marks |= own
                near += bool(own)
            if element is holder:
                heading = title
        if parent not in self._beside:
            self._beside[parent] = _text_beside(parent)
        region = self._regions[parent, holder, title] = Region(
            frozenset(tags), frozenset(marks), heading, self._beside[parent]
        )
        return region

    def _marks_of(self, element: Any) -> frozenset[str]:
        """The marks of an element round links; many of them share it."""
        known = self._marks.get(element)
        if known is None:
            known = self._marks[element] = _marks(element)
        return known


def _href(element: Any) -> str:
    """Where an element leads: its href, or what its data attributes or its script say instead."""
    href = str(element.get("href") or "")
    if not _NO_LINK.match(href):
        return href
    for name, value in element.items():
        if _DATA_LINK.match(name) and value.strip() and not _NO_LINK.match(value) and ("/" in value or "." in value):
            return str(value)
    for text in (href, element.get("onclick") or "", element.get("formaction") or ""):
        found = _QUOTED_LINK.search(text[:2000])
        if found:
            return found[1]
    return str(element.get("formaction") or "")


def _action(button: Any) -> str:
    """Where the form of a button leads, if it is one that only fetches."""
    form = next(button.iterancestors("form"), None)
    if form is None or (form.get("method") or "get").strip().lower() != "get":
        return ""
    return str(form.get("action") or "")


def _text(element: Any) -> str:
    """The text of an element as far as it can be a name."""
    if not len(element):
        return element.text or ""
    pieces, length = [], 0
    for piece in islice(element.itertext(), MAX_PIECES):
        pieces.append(piece[: 4 * MAX_LABEL])
        length += len(pieces[-1].strip())
        if length > 2 * MAX_LABEL:
            break
    return "".join(pieces)


def _is_alone(element: Any) -> bool:
    """Whether it is its parent's only element, told without counting all."""
    return element.getprevious() is None and element.getnext() is None


def _text_beside(parent: Any) -> str:
    """The text in the paragraph or row of a link, as far as it matters: what is in boxes of its own does not."""
    while parent is not None and parent.tag in _INLINE and not (parent.text or "").strip() and _is_alone(parent[0]):
        parent = parent.getparent()
    if parent is None:
        return ""
    pieces = [parent.text or ""]
    for child in islice(parent, MAX_SIBLINGS):
        if child.tag in _INLINE:
            pieces.append(child.text or "")
        pieces.append(child.tail or "")
    if parent.tag in ("td", "dd"):
        before = parent.getprevious()
        if before is not None and before.tag in ("th", "td", "dt"):
            pieces.insert(0, _text(before))
    return _squeezed(" ".join(piece[:MAX_BESIDE] for piece in pieces))[:MAX_BESIDE].lower()


def _marks(element: Any) -> frozenset[str]:
    return frozenset(_mark_words(element))


def _mark_words(element: Any) -> Iterator[str]:
    for name, value in element.items():
        if name in _NOT_MARKS or len(value) > 400:
            continue
        if name in ("class", "id", "name"):
            yield from value.lower().split()
        elif name not in ("rel", "aria-label", "title") and not name.startswith("data-"):
            continue
        if name.startswith("data-"):
            yield name
        yield from (word.lower() for word in _WORD.findall(_HUMPS.sub(" ", value)))


def _squeezed(text: str) -> str:
    return " ".join(text.split())
