"""The parts of a parsed page that can carry a link or a fact, taken off the tree as plain data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from .html import MAX_PIECES, mimetype_of, short_text, squeeze
from .typed_links import TypedLink

MAX_LABEL = 160
"""Labels longer than this, in characters, are text, not names."""
MAX_ANCHORS = 1000
"""Relevant anchors of one page; no page of one work has as many."""
MAX_PARTS = 1000
"""Frames, hidden form fields and refreshes, each, of one page."""
MAX_METAS = 50_000
MAX_HREF = 4000
"""Longest reference of a link that a reader sees, in characters."""
MAX_ANCESTORS = 100
"""Elements round a link, one inside the other."""
MAX_SCRIPT = 1024 * 1024
"""How much of one script is read, in characters."""
MAX_SCRIPTS = 50
MAX_SIBLINGS = 40
MAX_SIBLING_TEXT = 200
MAX_TITLE_HOLDERS = 300
NEAR = 4
"""How many elements round a link say what part of the page it belongs to, beside navigation, headers and footers."""

_WORD = re.compile(r"[^\W_]+")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_QUOTED_LINK = re.compile(
    r"""['"]((?:https?:/)?/[^'"\s]+|[^'"\s]+\.(?:pdf|xml|html?)(?:\?[^'"\s]*)?)['"]""", re.IGNORECASE
)
_NO_LINK = re.compile(r"\s*(?:#|javascript:|$)", re.IGNORECASE)
_DATA_LINK = re.compile(r"data-(?:.*-)?(?:href|url|link|src|pdf|file|download)$")
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_ANCHORS = ("a", "area", "button", "input")
# The types of scripts that run, and of JSON. A script of any other type holds a template or the like.
_READ_SCRIPTS = re.compile(r"\s*(?:|module|.*(?:java|ecma|j|live)script.*|.*json.*)\s*", re.IGNORECASE | re.DOTALL)
_FRAMES = ("embed", "object", "iframe", "frame")
_BOILERPLATE = ("nav", "aside", "footer", "header")
_INLINE = frozenset({"span", "b", "i", "em", "strong", "small", "cite", "u", "font", "sup", "sub"})
# Attributes that say nothing of what a link leads to.
_NOT_TOKENS = frozenset({"href", "style", "src", "target", "onclick", "tabindex", "role", "action", "method"})


@dataclass(frozen=True, slots=True)
class LinkContext:
    """Where on the page a link stands."""

    tags: frozenset[str] = frozenset()
    """Names of all elements round it."""
    tokens: frozenset[str] = frozenset()
    """Words of class, id and label of the nearest elements round it, lower-case."""
    heading: str = ""
    """The heading of its section, lower-case."""
    sibling_text: str = ""
    """The text beside it in its own paragraph or row, lower-case, links left out; at most MAX_SIBLING_TEXT characters."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """A link that a reader can follow: an anchor, a button, a form that downloads."""

    href: str
    label: str
    """Its text, else its title, aria-label or picture's text; lower-case, at most MAX_LABEL characters."""
    words: frozenset[str]
    """The words of its label, title and aria-label."""
    is_long: bool
    """Whether its text is longer than MAX_LABEL: a sentence or a reference, not a name."""
    tokens: frozenset[str]
    """Words of its class, id, name and data attributes, lower-case; class names also whole."""
    mimetype: str = ""
    download: bool = False
    context: LinkContext = field(default_factory=LinkContext)


@dataclass(frozen=True, slots=True)
class Frame:
    """An embed, object, iframe or frame element: what it shows, of what type."""

    href: str
    mimetype: str
    tokens: frozenset[str]
    tag: str


@dataclass(frozen=True)
class PageElements:
    """The parts of a page that can carry a link or a fact, in document order."""

    metas: Mapping[str, Sequence[str]]
    """Contents by name, property or itemprop, lower-case."""
    links: Sequence[TypedLink] = ()
    refreshes: Sequence[str] = ()
    noscript_refreshes: Sequence[str] = ()
    anchors: Sequence[Anchor] = ()
    frames: Sequence[Frame] = ()
    inputs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Values of hidden form fields by name, lower-case."""
    scripts: Sequence[str] = ()
    """Texts of scripts, JSON-LD left out."""


def read_elements(
    root: Any, links: Sequence[TypedLink], *, is_relevant: Callable[[str], bool], head_only: bool
) -> PageElements:
    """Take from a parsed page what the rules look at; `links` are its typed links.

    An anchor is left out unless its text and attributes, in lower case, are relevant. Of a head there are no anchors,
    frames, form fields and refreshes.
    """
    refreshes, noscript_refreshes = ([], []) if head_only else _refreshes(root)
    return PageElements(
        metas=read_metas(root),
        links=links,
        refreshes=refreshes,
        noscript_refreshes=noscript_refreshes,
        anchors=() if head_only else _AnchorReader(is_relevant).read(root),
        frames=() if head_only else list(islice(_frames(root), MAX_PARTS)),
        inputs={} if head_only else _hidden_inputs(root),
        scripts=list(islice(_scripts(root), MAX_SCRIPTS)),
    )


def read_metas(root: Any) -> dict[str, list[str]]:
    """The contents of meta elements by name, property or itemprop, lower-case."""
    found: dict[str, list[str]] = {}
    with_content = ((meta, content) for meta in root.iter("meta") if (content := meta.get("content")))
    for meta, content in islice(with_content, MAX_METAS):
        for attribute in ("name", "property", "itemprop"):
            if name := meta.get(attribute):
                found.setdefault(name.strip().lower(), []).append(content)
    return found


def _refreshes(root: Any) -> tuple[list[str], list[str]]:
    """The contents of meta refreshes, outside noscript elements and inside."""
    found: tuple[list[str], list[str]] = ([], [])
    for meta in islice(root.iter("meta"), MAX_METAS):
        if (meta.get("http-equiv") or "").strip().lower() == "refresh" and (content := meta.get("content")):
            kept = found[any(parent.tag == "noscript" for parent in meta.iterancestors())]
            if len(kept) < MAX_PARTS:
                kept.append(content)
    return found


def _frames(root: Any) -> Iterator[Frame]:
    for frame in root.iter(*_FRAMES):
        if source := frame.get("src") or frame.get("data") or frame.get("data-src"):
            yield Frame(source, mimetype_of(frame), _tokens(frame), frame.tag)


def _hidden_inputs(root: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    fields = (
        (name, value)
        for field in root.iter("input")
        if (name := field.get("name") or field.get("id")) and (value := field.get("value")) and _type(field) == "hidden"
    )
    for name, value in islice(fields, MAX_PARTS):
        found.setdefault(name.strip().lower(), []).append(value)
    return found


def _type(field: Any) -> str:
    return str(field.get("type") or "").strip().lower()


def _scripts(root: Any) -> Iterator[str]:
    for script in root.iter("script"):
        kind = (script.get("type") or "")[:100]
        if script.text and "ld+json" not in kind and _READ_SCRIPTS.fullmatch(kind):
            yield script.text[:MAX_SCRIPT]


class _AnchorReader:
    """Reads one page's anchors and what stands round them. Mutable, for one page."""

    def __init__(self, is_relevant: Callable[[str], bool]) -> None:
        self._is_relevant = is_relevant
        self._anchors: list[Anchor] = []
        self._contexts: dict[tuple[Any, Any, str], LinkContext] = {}
        self._tokens: dict[Any, frozenset[str]] = {}
        self._sibling_texts: dict[Any, str] = {}
        self._heading: tuple[Any, str] = (None, "")
        """The element that the last heading is for, and its text."""
        self._title_holders: set[Any] = set()
        """The elements round the page's own title."""

    def read(self, root: Any) -> list[Anchor]:
        for element in root.iter(*_ANCHORS, *_HEADINGS):
            if element.tag in _HEADINGS:
                self._read_heading(element)
            elif len(self._anchors) < MAX_ANCHORS and (
                element.tag != "input" or _type(element) in ("submit", "button")
            ):
                self._read_anchor(element)
        return self._anchors

    def _read_heading(self, heading: Any) -> None:
        holder = heading.getparent()
        # A heading in a box of its own is for what is round the box.
        inner = heading
        while holder is not None and holder.tag != "body" and (holder.tag in ("header", "hgroup") or _is_alone(inner)):
            inner, holder = holder, holder.getparent()
        text = short_text(heading, MAX_LABEL).lower()
        if heading.tag == "h1" and len(self._title_holders) < MAX_TITLE_HOLDERS:
            self._title_holders.update(heading.iterancestors())
        # An h1 is the page's title, not a section's.
        self._heading = (holder, "" if heading.tag == "h1" else text)

    def _read_anchor(self, element: Any) -> None:
        text = short_text(element, 2 * MAX_LABEL) if element.tag != "input" else squeeze(element.get("value") or "")
        attributes = " ".join(element.values())
        if not self._is_relevant(f"{text} {attributes}".lower()):
            return
        href = _href(element) or (_form_action(element) if element.tag in ("button", "input") else "")
        if href and len(href) <= MAX_HREF:
            self._anchors.append(self._anchor(element, href, text))

    def _anchor(self, element: Any, href: str, text: str) -> Anchor:
        others = [squeeze(element.get(name) or "") for name in ("title", "aria-label")]
        if not text:
            inside = islice(element.iter(), MAX_PIECES)
            others += [squeeze(picture.get("alt") or "") for picture in inside if picture.tag == "img"]
        names = [name.lower() for name in (text, *others) if 0 < len(name) <= MAX_LABEL]
        return Anchor(
            href=href,
            label=names[0] if names else "",
            words=frozenset(word for name in names for word in _WORD.findall(name)),
            is_long=len(text) > MAX_LABEL,
            tokens=_tokens(element),
            mimetype=mimetype_of(element),
            download=element.get("download") is not None,
            context=self._context(element.getparent()),
        )

    def _context(self, parent: Any) -> LinkContext:
        """What stands round a link; links side by side share it."""
        holder, title = self._heading
        known = self._contexts.get((parent, holder, title))
        if known is not None:
            return known
        tags: set[str] = set()
        tokens: set[str] = set()
        heading = ""
        near = 0
        for element in () if parent is None else chain((parent,), islice(parent.iterancestors(), MAX_ANCESTORS)):
            tags.add(element.tag)
            # An element round the page's own title is the page, whatever its class says.
            if element not in self._title_holders and (near < NEAR or element.tag in _BOILERPLATE):
                own = self._tokens_of(element)
                tokens |= own
                near += bool(own)
            if element is holder:
                heading = title
        if parent not in self._sibling_texts:
            self._sibling_texts[parent] = _sibling_text(parent)
        context = LinkContext(frozenset(tags), frozenset(tokens), heading, self._sibling_texts[parent])
        self._contexts[parent, holder, title] = context
        return context

    def _tokens_of(self, element: Any) -> frozenset[str]:
        """The tokens of an element round links; many links share it."""
        known = self._tokens.get(element)
        if known is None:
            known = self._tokens[element] = _tokens(element)
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


def _form_action(button: Any) -> str:
    """Where the form of a button leads, if its method is GET."""
    form = next(button.iterancestors("form"), None)
    if form is None or (form.get("method") or "get").strip().lower() != "get":
        return ""
    return str(form.get("action") or "")


def _is_alone(element: Any) -> bool:
    """Whether it is its parent's only element, without counting all."""
    return element.getprevious() is None and element.getnext() is None


def _sibling_text(parent: Any) -> str:
    """The text in the paragraph or row of a link, without what is in boxes of its own."""
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
            pieces.insert(0, short_text(before, MAX_SIBLING_TEXT))
    return squeeze(" ".join(piece[:MAX_SIBLING_TEXT] for piece in pieces))[:MAX_SIBLING_TEXT].lower()


def _tokens(element: Any) -> frozenset[str]:
    return frozenset(_attribute_words(element))


def _attribute_words(element: Any) -> Iterator[str]:
    for name, value in element.items():
        if name in _NOT_TOKENS or len(value) > 400:
            continue
        if name in ("class", "id", "name"):
            yield from value.lower().split()
        elif name not in ("rel", "aria-label", "title") and not name.startswith("data-"):
            continue
        if name.startswith("data-"):
            yield name
        yield from (word.lower() for word in _WORD.findall(_HUMPS.sub(" ", value)))
