"""The engine that reads links off a page by rules; the rules themselves are rows of tables.py."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from ..errors import BadScheme, InvalidUrl
from ..model import Candidate
from ..urls import parse, scheme_of, without_fragment

MAX_CANDIDATES_OF_PAGE = 100
"""Links beyond this many are not worth recording, let alone trying."""
MAX_REFRESH_SECONDS = 60.0
MAX_LABEL = 120
"""Labels longer than this, in characters, are text, not names."""

_NEVER_LINKS = frozenset({"javascript", "about", "mailto", "tel", "data", "blob", "sms"})
_EDGES = " \t\r\n\f\v\u00a0\u200b\ufeff"
_WORD = re.compile(r"[^\W_]+")
_SIZE = re.compile(r"\d+|[kmg]i?b|bytes?")
_REFRESH = re.compile(r"\s*(\d*)(?:\.[\d.]*)?(?:\s*[;,]\s*|\s+|$)(?:url\s*=\s*)?(.*)", re.IGNORECASE | re.DOTALL)


class Place(Enum):
    """Where on a page a rule looks."""

    META = auto()
    """A meta element named `key` (name=, property= or itemprop=); its content is the link."""
    LINK = auto()
    """A link element with rel `rel` and type `key`."""
    ANCHOR = auto()
    """An a or area element whose text, title or label consists of `words` and nothing foreign."""
    MARKED = auto()
    """An a element with `key` among the words of its class or id."""
    FRAME = auto()
    """An embed, object, iframe or frame of type `key` or whose path ends in it."""
    REFRESH = auto()
    """A meta refresh."""


@dataclass(frozen=True)
class LinkRule:
    """One way in which pages name a file. `target` is the type it leads to; empty for all types."""

    name: str
    target: str
    place: Place
    key: str = ""
    rel: str = ""
    words: frozenset[str] = frozenset()
    """ANCHOR: the label must hold all of these, and beside them only harmless words."""
    example: str = ""
    """A piece of HTML on http://example.org/a/b in which the rule finds http://example.org/found."""


@dataclass(frozen=True)
class Label:
    """The words of a link's text, title or aria-label, lower-case; `foreign` are those that are neither harmless
    nor a size."""

    words: frozenset[str]
    foreign: frozenset[str]

    def says(self, wanted: frozenset[str]) -> bool:
        """Whether it holds the wanted words and otherwise only harmless ones: a name, not a sentence."""
        return wanted <= self.words and self.foreign <= wanted


@dataclass(frozen=True)
class Anchor:
    """An a or area element with an href."""

    href: str
    labels: tuple[Label, ...]
    has_long_label: bool
    """Whether a label was too long to be a name, and was left out."""
    marks: frozenset[str]
    """Words of its class and id."""


@dataclass(frozen=True)
class TypedLink:
    """A link, embed, object, iframe or frame element: where to, of what type, in what relation."""

    href: str
    mimetype: str
    rels: frozenset[str] = frozenset()


@dataclass(frozen=True)
class PageElements:
    """The parts of a page that can carry a link, as plain data in document order."""

    metas: Mapping[str, Sequence[str]]
    """Contents by name, property or itemprop, lower-case."""
    refreshes: Sequence[str] = ()
    links: Sequence[TypedLink] = ()
    anchors: Sequence[Anchor] = ()
    frames: Sequence[TypedLink] = ()


def read_elements(root: Any, *, keywords: frozenset[str], harmless: frozenset[str], head_only: bool) -> PageElements:
    """Take from a parsed page what the rules look at, each element once.

    `keywords` are the words that rules for anchors ask for; an anchor without any of them is left out.
    """
    metas: dict[str, list[str]] = {}
    refreshes = []
    for meta in root.iter("meta"):
        attributes = dict(meta.items())
        content = attributes.get("content")
        if not content:
            continue
        for attribute in ("name", "property", "itemprop"):
            name = attributes.get(attribute)
            if name:
                metas.setdefault(name.strip().lower(), []).append(content)
        if (attributes.get("http-equiv") or "").strip().lower() == "refresh" and not _inside_noscript(meta):
            refreshes.append(content)
    links = [
        TypedLink(link.get("href"), _mimetype(link), frozenset((link.get("rel") or "").lower().split()))
        for link in root.iter("link")
        # A translation of the page is the page again.
        if link.get("href") and link.get("hreflang") is None
    ]
    if head_only:
        return PageElements(metas, refreshes, links)
    anchors = _anchors(root, keywords, harmless)
    frames = [
        TypedLink(source, _mimetype(frame))
        for frame in root.iter("embed", "object", "iframe", "frame")
        if (source := frame.get("src") or frame.get("data"))
    ]
    return PageElements(metas, refreshes, links, anchors, frames)


def candidates(elements: PageElements, rules: Iterable[LinkRule], *, target: str, base: str) -> tuple[Candidate, ...]:
    """The links of a page that may lead to `target`, best rule first, each URL once.

    A link that is no URL, or of a scheme that is not fetched, stays in the list as it was written: it is a reason.
    """
    found: dict[str, Candidate] = {}
    for rule in rules:
        if rule.target not in ("", target):
            continue
        for text in _READERS[rule.place](rule, elements):
            candidate = _candidate(text, base, rule.name)
            if candidate is not None and len(found) < MAX_CANDIDATES_OF_PAGE:
                found.setdefault(without_fragment(candidate.url), candidate)
    return tuple(found.values())


def refresh_target(content: str) -> str | None:
    """The URL text of a meta refresh (HTML Standard, "shared declarative refresh steps"), or None.

    None too for a page that only reloads itself, or waits longer than MAX_REFRESH_SECONDS.
    """
    match = _REFRESH.fullmatch(content)
    if match is None or (not match[1] and not content.lstrip().startswith(".")):
        return None
    if len(match[1]) > 4 or float(match[1] or 0) > MAX_REFRESH_SECONDS:
        return None
    text = match[2].strip(_EDGES)
    if text[:1] in ("'", '"'):
        text = text[1:].partition(text[0])[0]
    return text.strip(_EDGES) or None


def _candidate(text: str, base: str, rule: str) -> Candidate | None:
    text = text.strip(_EDGES)
    if not text or text.startswith("#") or scheme_of(text) in _NEVER_LINKS:
        return None
    try:
        return Candidate(without_fragment(parse(text, base)), rule)
    except (InvalidUrl, BadScheme):
        return Candidate(text[:500], rule)


def _inside_noscript(element: Any) -> bool:
    """There it is meant for readers without scripts, often to tell them so."""
    return any(parent.tag == "noscript" for parent in element.iterancestors())


def _mimetype(element: Any) -> str:
    return str(element.get("type") or "").partition(";")[0].strip().lower()


def _anchors(root: Any, keywords: frozenset[str], harmless: frozenset[str]) -> list[Anchor]:
    """The anchors that some rule could want: the others, nearly all of a page's, are not looked at twice."""
    could_matter = re.compile("|".join(sorted(keywords))).search
    found = []
    for element in root.iter("a", "area"):
        href = element.get("href")
        if not href:
            continue
        text = "".join(element.itertext()) if len(element) else element.text or ""
        labels = (text, element.get("title") or "", element.get("aria-label") or "")
        marks = f"{element.get('class') or ''} {element.get('id') or ''}"
        if could_matter(f"{' '.join(labels)} {marks}".lower()):
            found.append(_anchor(href, [label for label in labels if label.strip()], marks.lower(), harmless))
    return found


def _anchor(href: str, labels: list[str], marks: str, harmless: frozenset[str]) -> Anchor:
    names = [frozenset(_WORD.findall(label.lower())) for label in labels if len(label) <= MAX_LABEL]
    return Anchor(
        href=href,
        labels=tuple(Label(w, frozenset(x for x in w - harmless if not _SIZE.fullmatch(x))) for w in names),
        has_long_label=len(names) < len(labels),
        marks=frozenset(_WORD.findall(marks)),
    )


def _from_meta(rule: LinkRule, elements: PageElements) -> Iterable[str]:
    return elements.metas.get(rule.key, ())


def _from_link(rule: LinkRule, elements: PageElements) -> Iterable[str]:
    return (link.href for link in elements.links if link.mimetype == rule.key and rule.rel in link.rels)


def _from_anchor(rule: LinkRule, elements: PageElements) -> Iterable[str]:
    return (anchor.href for anchor in elements.anchors if any(label.says(rule.words) for label in anchor.labels))


def _from_marked(rule: LinkRule, elements: PageElements) -> Iterable[str]:
    # The mark may sit on a supplement's link as well; a label with foreign words tells.
    return (
        anchor.href
        for anchor in elements.anchors
        if rule.key in anchor.marks
        and not anchor.has_long_label
        and (not anchor.labels or any(not label.foreign for label in anchor.labels))
    )


def _from_frame(rule: LinkRule, elements: PageElements) -> Iterable[str]:
    return (
        frame.href
        for frame in elements.frames
        if frame.mimetype == rule.key
        or frame.href.partition("?")[0].partition("#")[0].strip(_EDGES).lower().endswith(rule.rel)
    )


def _from_refresh(_: LinkRule, elements: PageElements) -> Iterable[str]:
    return (target for content in elements.refreshes if (target := refresh_target(content)))


_READERS = {
    Place.META: _from_meta,
    Place.LINK: _from_link,
    Place.ANCHOR: _from_anchor,
    Place.MARKED: _from_marked,
    Place.FRAME: _from_frame,
    Place.REFRESH: _from_refresh,
}
