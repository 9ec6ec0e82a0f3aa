"""How likely a link that a reader sees leads to the work's own file: points with reasons, from all that is said of it.

Two questions have points of their own. That a link leads to a file of the wanted type is shown over and over (its
label, its class, its address), so these points have a limit; that the file is the work, and not a supplement, a
policy or another work, is shown by other things. One number decides, so that a strange page needs a word in a list,
not a branch here. The points were set on the pages in tests/ingest/page/pages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from ...urls import split
from ..elements import Anchor
from .url_ids import Ids, Kinship, ids_of
from .words import (
    AT_THE_WORK,
    BESIDE_ANOTHER,
    DOWNLOAD,
    DOWNLOAD_PARTS,
    ELSEWHERE,
    ELSEWHERE_HEADINGS,
    FILE_HEADINGS,
    FULL_TEXT,
    FULL_TEXT_PAIRS,
    FURNITURE,
    HARMLESS,
    MARKED_AS_ANOTHER,
    NOT_IN_PATH,
    NOT_THE_WORK,
    NOT_THE_WORK_PARTS,
    OTHER_FILES,
    SUPPLEMENTS,
    VERSIONS,
    WANTED,
    WORK,
    WORKS_MARKS,
    Wanted,
)

ENOUGH = 60
"""Points from which a link is tried."""
MOST = 89
"""No link is surer than what the page's head says."""
MOST_SHOWN = 100
"""Points that can be shown before what speaks against the link is taken off."""
MOST_OF_TYPE = 45
"""Points for being of the wanted type, however often it is said."""
BESIDE_TEXT = 90
"""Characters of text round a link, in its own paragraph, from which it stands in a reference or a sentence."""
MAX_ADDRESS = 1000
"""How much of a URL's path and query is looked through, in characters."""
LONGEST_HEADING = 60
"""Longer headings are titles."""
MANY_WORDS = 2
"""Words of a label that have nothing to do with getting this work, from which it is about something else."""
ALIKE = 3
"""Links that say the same and lead to as many places are a list of works, not one work's file."""

_SIZE = re.compile(r"\d+(?:[.,]\d+)?|[kmg]i?b|bytes?|ko|mo|p|pp|pages?|seiten?|páginas?|\d+[kmg]i?b?")
_WORD = re.compile(r"[^\W_]+")
_FILE_PATH = re.compile(
    r"/(?:downloads?|bitstreams?|getfile|viewcontent\.cgi|viewfile|files?|fulltext|attachments?|article-file"
    r"|portalfiles|ndownloader)(?=[/?]|$)",
    re.I,
)
_RESOLVER = re.compile(r"https?://(?:resolver\.[^/]+/|[^/]*nbn[^/]*/urn:|[^?#]*/urn:nbn:|hdl\.handle\.net/)", re.I)
_LISTS = re.compile(
    r"/(?:issues?|toc|archives?|search|browse|results|authors?|people|staff|profiles?|about(?:-us)?|contact|editorial(?:-board|team)?|policies)(?=[/?]|$)",
    re.I,
)
_HOME = re.compile(r"/(?:[a-z]{2}/)?(?:(?:index|home|default)(?:\.\w{2,5})?/?)?", re.I)
_SPLIT = re.compile(r"[\W_]+")
_PAIRED = frozenset(word for pair in FULL_TEXT_PAIRS for word in pair)
_OTHER_TYPES = {name: frozenset(w for kind in WANTED for w in WANTED[kind].words if kind != name) for name in WANTED}


_OTHER_ENDS = {
    "pdf": re.compile(r"\.n?xml$", re.I),
    "xml": re.compile(r"\.(?:pdf|x?html?)$", re.I),
    "html": re.compile(r"\.(?:pdf|n?xml)$", re.I),
}


@dataclass(frozen=True)
class Scored:
    """A link, its points, and what they are for: `says pdf`, `not: supplement`."""

    url: str
    points: int
    doubts: int
    """The points that speak against it, as a negative number."""
    reason: str
    speaks: bool
    """Whether anything says that it leads to a file of the type."""


@dataclass(frozen=True)
class Work:
    """What is known of the work whose page this is."""

    url: str
    """The page's address."""
    title: frozenset[str] = frozenset()
    """Words of its title, lower-case."""
    doi: str = ""
    is_named: bool = True
    """Whether the page says that it is about one work: by metadata or an abstract."""


@dataclass
class _Link:
    """The points of one link. Mutable, while a page is scored."""

    anchor: Anchor
    url: str
    of_type: int = 0
    of_work: int = 0
    doubts: int = 0
    reasons: list[str] = field(default_factory=list)
    is_own: bool = False
    """Whether its address names the page's id."""
    is_near: bool = False
    """Whether its address names the part of the page's that stands before its id: its volume, its first page."""
    is_stranger: bool = False
    """Whether it is on another host, or names another id."""

    def shows_type(self, points: int, reason: str) -> None:
        self.of_type += points
        self.reasons.append(reason)

    def shows_work(self, points: int, reason: str) -> None:
        self.of_work += points
        self.reasons.append(reason)

    def doubt(self, points: int, reason: str) -> None:
        self.doubts -= points
        self.reasons.append(f"not: {reason}")

    @property
    def points(self) -> int:
        shown = min(min(self.of_type, MOST_OF_TYPE) + self.of_work, MOST_SHOWN)
        return min(shown + self.doubts, MOST)


def score_anchors(anchors: Sequence[tuple[Anchor, str]], target: str, work: Work) -> list[Scored]:
    """Points of each (anchor, its URL), in the order given."""
    ids = ids_of(work.url, work.doi)
    links = [_Link(anchor, url) for anchor, url in anchors]
    for link in links:
        _of_type(link, target)
        _of_label(link, target, work)
        _of_address(link, work, ids)
        _of_place(link)
    if target == "pdf":
        for link in links:
            if link.is_own and not link.of_type and not link.doubts and _says_download(link.anchor):
                link.shows_type(25, "downloads the page's id")
    speaking = [link for link in links if link.of_type > 0]
    _among_each_other(speaking, work)
    return [
        Scored(link.url, link.points, link.doubts, ", ".join(link.reasons), speaks=link.of_type > 0) for link in links
    ]


# One link


def _of_type(link: _Link, target: str) -> None:
    """What says that it leads to a file of the type."""
    anchor, wanted = link.anchor, WANTED[target]
    path, _, query = split(link.url).target.partition("?")
    named = anchor.words & wanted.words
    others = anchor.words & _OTHER_TYPES[target]
    if named:
        link.shows_type(40, f"says {min(named)}")
    elif others:
        link.doubt(60, f"says {min(others)}")
    if anchor.mimetype in wanted.mimetypes:
        link.shows_type(40, f"type {anchor.mimetype}")
    if anchor.marks & wanted.words:
        link.shows_type(25, f"marked {min(anchor.marks & wanted.words)}")
    if wanted.path_end.search(path):
        link.shows_type(30, "path ends so")
    elif wanted.path_part.search(f"{path}?{query}"):
        link.shows_type(25, "path says so")
    elif other := OTHER_FILES.search(path) or _OTHER_ENDS[target].search(path):
        link.doubt(60, f"a {other[0].lower()} file")
    elif target != "html" and WANTED["html"].path_part.search(path):
        link.doubt(30, "path says html")
    # As XML, a full text is called so.
    if not others and (link.of_type or target != "xml") and _says_full_text(anchor):
        link.shows_type(40 if target == "html" else 30, "says full text")
        link.shows_work(10, "of the work")
    is_file = anchor.download or _FILE_PATH.search(path) is not None
    if is_file and (link.of_type or _says_download(anchor)):
        link.shows_type(20, "a file's path")


def _of_label(link: _Link, target: str, work: Work) -> None:
    """What its words say of the work, or of something beside it."""
    anchor = link.anchor
    if _says_download(anchor):
        link.shows_work(15, "says download")
    foreign = _foreign(link, WANTED[target], work)
    if anchor.words and not foreign:
        link.shows_work(10, "says nothing else")
    elif len(foreign) >= MANY_WORDS:
        link.doubt(15, "says more")
    if len(anchor.words & (VERSIONS | {"version", "versión", "versão"})) >= 2:
        link.shows_type(20, "says which version")
        link.shows_work(25, "of the work")
    if work.title and len(anchor.words & work.title) >= max(3, len(work.title) // 2):
        link.shows_work(30, "says the title")
    host = split(link.url).host
    if len(host) > 5 and host.removeprefix("www.") in anchor.label:
        link.shows_work(25, "says its host")
    if anchor.is_long:
        link.doubt(30, "a sentence")
    said = (_words_said(anchor) & NOT_THE_WORK) - work.title
    parts = "" if anchor.label.isascii() else next((part for part in NOT_THE_WORK_PARTS if part in anchor.label), "")
    marked = anchor.marks & MARKED_AS_ANOTHER
    if said or parts:
        link.doubt(60, min(said) if said else parts)
    elif marked:
        link.doubt(40, f"marked {min(marked)}")


def _foreign(link: _Link, wanted: Wanted, work: Work) -> list[str]:
    """The words of a label that have nothing to do with getting this work. An address or a file's name says nothing."""
    label, parts = link.anchor.label, split(link.url)
    name = unquote(parts.target.partition("?")[0].rpartition("/")[2]).lower()
    if label.startswith(("http://", "https://", "www.")) or (len(name) > 4 and label.startswith(name)):
        return []
    known = wanted.words | HARMLESS | DOWNLOAD | FULL_TEXT | WORK | work.title | _PAIRED | set(parts.host.split("."))
    return [word for word in _WORD.findall(label) if word not in known and not _SIZE.fullmatch(word)]


def _words_said(anchor: Anchor) -> frozenset[str]:
    """The words that are meant as words: of a label that is an address, those of the file's name."""
    if not anchor.label.startswith(("http://", "https://", "www.")):
        return anchor.words
    return anchor.words - frozenset(_WORD.findall(anchor.label.partition("?")[0].rpartition("/")[0]))


def _says_full_text(anchor: Anchor) -> bool:
    return bool(anchor.words & FULL_TEXT) or any(pair <= anchor.words for pair in FULL_TEXT_PAIRS)


def _says_download(anchor: Anchor) -> bool:
    if anchor.words & DOWNLOAD:
        return True
    return not anchor.label.isascii() and any(part in anchor.label for part in DOWNLOAD_PARTS)


def _of_place(link: _Link) -> None:
    """What its surroundings speak of."""
    region = link.anchor.region
    elsewhere = region.marks & ELSEWHERE
    if elsewhere:
        # A link that names the page's id is seldom another work's; it may be a supplement.
        link.doubt(30 if link.is_own and not elsewhere & SUPPLEMENTS else 60, f"in {min(elsewhere)}")
    elif len(region.heading) <= LONGEST_HEADING and ELSEWHERE_HEADINGS.match(region.heading):
        link.doubt(60, f"under {region.heading[:40]!r}")
    elif FILE_HEADINGS.match(region.heading):
        link.shows_work(25, f"under {region.heading[:40]!r}")
    furniture = max(region.tags & FURNITURE.keys(), key=FURNITURE.__getitem__, default=None)
    if furniture is not None:
        link.doubt(FURNITURE[furniture], f"in {furniture}")
    if link.anchor.marks & WORKS_MARKS:
        link.shows_work(15, f"marked {min(link.anchor.marks & WORKS_MARKS)}")
    elif region.marks & AT_THE_WORK:
        link.shows_work(15, f"in {min(region.marks & AT_THE_WORK)}")
    if len(region.beside) > BESIDE_TEXT:
        link.doubt(20, "beside a text")
    elif region.beside:
        _of_row(link, region.beside)


def _of_row(link: _Link, text: str) -> None:
    """What a few words before or behind the link say of it, where its own label leaves it open."""
    words = frozenset(_WORD.findall(text))
    said = words & BESIDE_ANOTHER
    if said:
        link.doubt(40, f"beside {min(said)!r}")
    elif words & FULL_TEXT or any(pair <= words for pair in FULL_TEXT_PAIRS):
        link.shows_work(15, "beside 'full text'")


def _of_address(link: _Link, work: Work, ids: Ids) -> None:
    """Whether its address speaks of this work, of something beside it, or of another."""
    part = NOT_IN_PATH.search(unquote(split(link.url).target[:MAX_ADDRESS]))
    if part:
        link.doubt(50, f"path says {part[0].strip('/_.-=?&%').lower()}")
    kinship = ids.kinship(link.url)
    if kinship is Kinship.OWN:
        link.is_own = True
        link.shows_work(30, "names the page's id")
        return
    link.is_near = kinship is Kinship.NEAR
    if _RESOLVER.match(link.url) and _says_full_text(link.anchor):
        link.shows_work(10, "a lasting address")
    elif split(link.url).host.removeprefix("www.") != split(work.url).host.removeprefix("www."):
        link.doubt(15 if work.is_named else 30, "another host")
        link.is_stranger = True
    elif kinship is Kinship.NUMBER:
        link.shows_work(20, "names the page's number")
    elif kinship is Kinship.OTHER:
        link.doubt(20, "names another id")
        link.is_stranger = True


# The links of a page together


def _among_each_other(links: Sequence[_Link], work: Work) -> None:
    places: dict[str, set[str]] = {}
    for link in links:
        places.setdefault(link.anchor.label, set()).add(link.url)
    if any(not (link.is_near or link.is_own) for link in links):
        for link in links:
            if link.is_near and not link.is_own:
                link.shows_work(15, "names where the work stands")
                link.is_own = True
    owned = Counter(link.anchor.label for link in links if link.is_own)
    plain = {link.url for link in links if link.doubts > -30}
    for link in links:
        alike, own = len(places[link.anchor.label]), owned[link.anchor.label]
        if alike >= ALIKE and (not link.is_own or own >= ALIKE):
            link.doubt(60, f"one of {alike} alike")
        elif alike > 1 and own and not link.is_own:
            link.doubt(30, "another like it names the page's id")
        if plain == {link.url}:
            link.shows_work(10 if link.is_stranger or link.doubts else 20, "the only one")
    if work.is_named:
        return
    for link in links:
        if not link.is_own:
            link.doubt(10, "the page names no work")
    target = split(work.url).target
    if _LISTS.search(target) or _HOME.fullmatch(target):
        for link in links:
            link.doubt(40, "the page is a list or a home page")
    likely = {_file(link.url) for link in links if link.points >= ENOUGH}
    if len(likely) > 1:
        for link in links:
            link.doubt(40, f"one of {len(likely)} on a page that names no work")


def _file(url: str) -> str:
    """A file's address without a query that only a session or a cache makes."""
    path = url.partition("?")[0]
    return path if path.lower().endswith((".pdf", ".xml", ".html")) else url


def is_beside_the_work(url: str) -> bool:
    """Whether a URL says that its file is a supplement, a cover or the like."""
    return NOT_IN_PATH.search(unquote(split(url).target[:MAX_ADDRESS])) is not None


def beside_in_name(url: str) -> str:
    """The word by which a file's own name says that it is a supplement, a cover or the like; empty if it has none."""
    part = NOT_IN_PATH.search("/" + unquote(split(url).target[:MAX_ADDRESS].partition("?")[0].rpartition("/")[2]))
    return part[0].strip("/_.-=?&%").lower() if part else ""


def words_of(text: str) -> frozenset[str]:
    """The words of a title, lower-case."""
    return frozenset(word for word in _SPLIT.split(text.lower()) if len(word) > 2)
