"""Score the links that a reader sees: how likely each leads to the work's own file, with the reasons.

Two questions are scored apart. That a link leads to a file of the wanted type is shown over and over (its label, its
class, its URL), so this part has a limit. That the file is the work, and not a supplement, a policy or another work, is
shown by other things. Because one number decides, a strange page needs a word in a list (words/*.toml), not a branch
here. The numbers were set on the pages in tests/ingest/page/pages.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from urllib.parse import unquote

from ...urls import split
from ..elements import Anchor
from ..phrases import pattern, texts, words
from .file_types import FILE_TYPES, OTHER_FILES, OTHER_TYPE_WORDS, FileType
from .url_ids import IdMatch, UrlIds, ids_of

MIN_SCORE = 60
"""From this score on a link is tried."""
MAX_SCORE = 89
"""No link that is scored is surer than what the page's head says."""
MAX_SHOWN = 100
"""Highest sum of what speaks for a link, before the penalties are taken off."""
MAX_OF_TYPE = 45
"""Highest sum for being of the wanted type, however often it is said."""
MAX_SIBLING_LABEL = 90
"""Characters of text beside a link, in its own paragraph, from which it stands in a reference or a sentence."""
MAX_URL = 1000
"""How much of a URL's path and query is read, in characters."""
MAX_HEADING = 60
"""Longer headings are titles."""
_LONGER = 4
"""Shorter words stand in the titles of most works."""
MANY_WORDS = 2
"""Words of a label that have nothing to do with getting this work, from which it is about something else."""
ALIKE = 3
"""Links that say the same and lead to as many places are a list of works, not one work's file."""

BOILERPLATE_PENALTIES = {"footer": 45, "dialog": 45, "nav": 25, "header": 10}
"""Elements that are the site's rather than the work's, and the penalty of a link in one."""

_SIZE = re.compile(r"\d+(?:[.,]\d+)?|[kmg]i?b|bytes?|ko|mo|p|pp|pages?|seiten?|páginas?|\d+[kmg]i?b?")
_WORD = re.compile(r"[^\W_]+")
_FILE_PATH = re.compile(
    r"/(?:downloads?|bitstreams?|getfile|viewcontent\.cgi|viewfile|files?|fulltext|attachments?|article-file"
    r"|portalfiles|ndownloader)(?=[/?]|$)",
    re.IGNORECASE,
)
_RESOLVER = re.compile(
    r"https?://(?:resolver\.[^/]+/|[^/]*nbn[^/]*/urn:|[^?#]*/urn:nbn:|hdl\.handle\.net/)", re.IGNORECASE
)
_LIST_PATH = re.compile(
    r"/(?:issues?|toc|archives?|search|browse|results|authors?|people|staff|profiles?|about(?:-us)?|contact"
    r"|editorial(?:-board|team)?|policies)(?=[/?]|$)",
    re.IGNORECASE,
)
_HOME_PATH = re.compile(r"/(?:[a-z]{2}/)?(?:(?:index|home|default)(?:\.\w{2,5})?/?)?", re.IGNORECASE)
_SEPARATORS = re.compile(r"[\W_]+")
# Without blanks, or with an ending of which a size or the like may follow.
_FILE_NAME = re.compile(r"\S+\.(?:pdf|n?xml|x?html?)(?:\s*[(\[].*)?|.*[\w)]\.(?:pdf|n?xml|x?html?)", re.DOTALL)


@dataclass(frozen=True)
class Scored:
    """A link, its score, and the reasons: `says pdf`, `not: supplement`."""

    url: str
    score: int
    penalty: int
    """What speaks against it, as a negative number."""
    reason: str
    shows_type: bool
    """Whether anything says that it leads to a file of the type."""
    is_plain: bool = False
    """Whether its text says only that it is the file: no file's name, and no word that has nothing to do with it."""
    says_title: bool = False
    """Whether its text has the work's title, or enough words of it."""


@dataclass(frozen=True)
class Work:
    """What is known of the work whose page this is."""

    url: str
    """The page's URL."""
    title: frozenset[str] = frozenset()
    """Words of its title, lower-case."""
    doi: str = ""
    is_named: bool = True
    """Whether the page says that it is about one work: by metadata or an abstract."""


@dataclass
class _Link:
    """The score of one link. Mutable, while a page is scored."""

    anchor: Anchor
    url: str
    of_type: int = 0
    of_work: int = 0
    penalty: int = 0
    reasons: list[str] = field(default_factory=list)
    is_own: bool = False
    """Whether its URL has the page's id."""
    is_near: bool = False
    """Whether its URL has what stands before the id in the page's URL: its volume, its first page."""
    is_stranger: bool = False
    """Whether it is on another host, or has another id."""
    is_plain: bool = False
    """Whether its text says nothing else than that it is the file."""

    def add_type(self, points: int, reason: str) -> None:
        self.of_type += points
        self.reasons.append(reason)

    def add_work(self, points: int, reason: str) -> None:
        self.of_work += points
        self.reasons.append(reason)

    def penalise(self, points: int, reason: str) -> None:
        self.penalty -= points
        self.reasons.append(f"not: {reason}")

    @property
    def score(self) -> int:
        shown = min(min(self.of_type, MAX_OF_TYPE) + self.of_work, MAX_SHOWN)
        return min(shown + self.penalty, MAX_SCORE)


def score_anchors(anchors: Sequence[tuple[Anchor, str]], target: str, work: Work) -> list[Scored]:
    """The score of each (anchor, its URL), in the order given."""
    ids = ids_of(work.url, work.doi)
    links = [_Link(anchor, url) for anchor, url in anchors]
    for link in links:
        _score_type(link, target)
        _score_label(link, target, work)
        _score_url(link, work, ids)
        _score_context(link)
    if target == "pdf":
        for link in links:
            if link.is_own and not link.of_type and not link.penalty and _says_download(link.anchor):
                link.add_type(25, "downloads the page's id")
    of_type = [link for link in links if link.of_type > 0]
    _compare(of_type)
    if not work.is_named:
        _penalise_unnamed(of_type, work)
    return [
        Scored(
            link.url,
            link.score,
            link.penalty,
            ", ".join(link.reasons),
            shows_type=link.of_type > 0,
            is_plain=link.is_plain,
            says_title=shares_title(link.anchor.label, work.title),
        )
        for link in links
    ]


# One link


def _score_type(link: _Link, target: str) -> None:
    """What says that it leads to a file of the type."""
    anchor, wanted = link.anchor, FILE_TYPES[target]
    named = anchor.words & wanted.words
    others = anchor.words & OTHER_TYPE_WORDS[target]
    if named:
        link.add_type(40, f"says {min(named)}")
    elif others:
        link.penalise(60, f"says {min(others)}")
    if anchor.mimetype in wanted.mimetypes:
        link.add_type(40, f"type {anchor.mimetype}")
    if tokens := anchor.tokens & wanted.words:
        link.add_type(25, f"marked {min(tokens)}")
    path, _, query = split(link.url).target.partition("?")
    _score_path(link, target, path, query)
    # As XML, a full text is called so.
    if not others and (link.of_type or target != "xml") and _says_full_text(anchor.words):
        link.add_type(40 if target == "html" else 30, "says full text")
        link.add_work(10, "of the work")
    is_file = anchor.download or _FILE_PATH.search(path) is not None
    if is_file and (link.of_type or _says_download(anchor)):
        link.add_type(20, "a file's path")


def _score_path(link: _Link, target: str, path: str, query: str) -> None:
    wanted = FILE_TYPES[target]
    if wanted.path_end.search(path):
        link.add_type(30, "path ends so")
    elif wanted.path_part.search(f"{path}?{query}"):
        link.add_type(25, "path says so")
    elif other := OTHER_FILES.search(path) or wanted.other_ends.search(path):
        link.penalise(60, f"a {other[0].lower()} file")
    elif target != "html" and FILE_TYPES["html"].path_part.search(path):
        link.penalise(30, "path says html")


def _score_label(link: _Link, target: str, work: Work) -> None:
    """What its words say of the work, or of something beside it."""
    anchor = link.anchor
    if _says_download(anchor):
        link.add_work(15, "says download")
    foreign = _foreign(link, FILE_TYPES[target], work)
    if anchor.words and not foreign:
        link.is_plain = not (_says_address(link) or _FILE_NAME.fullmatch(anchor.label))
        link.add_work(10, "says nothing else")
    elif len(foreign) >= MANY_WORDS:
        link.penalise(15, "says more")
    if len(anchor.words & words("links.versions")) >= 2:
        link.add_type(20, "says which version")
        link.add_work(25, "of the work")
    if work.title and len(anchor.words & work.title) >= max(3, len(work.title) // 2):
        link.add_work(30, "says the title")
    host = split(link.url).host
    if len(host) > 5 and host.removeprefix("www.") in anchor.label:
        link.add_work(25, "says its host")
    if anchor.is_long:
        link.penalise(30, "a sentence")
    if said := (_words_said(anchor) & words("links.not_the_work")) - work.title:
        link.penalise(60, min(said))
    elif parts := _parts_in(anchor, words("links.not_the_work_parts")):
        link.penalise(60, max(parts, key=len))
    elif tokens := anchor.tokens & words("markup.other_links"):
        link.penalise(40, f"marked {min(tokens)}")


def _foreign(link: _Link, wanted: FileType, work: Work) -> list[str]:
    """The words of a label that have nothing to do with getting this work. A URL or a file's name says nothing."""
    label, parts = link.anchor.label, split(link.url)
    if _says_address(link):
        return []
    harmless = _harmless()
    known = wanted.words | work.title | set(parts.host.split("."))
    return [
        word
        for word in _WORD.findall(label)
        if word not in harmless and word not in known and not _SIZE.fullmatch(word)
    ]


def _says_address(link: _Link) -> bool:
    """Whether the label is a URL or the file's name in its URL."""
    label = link.anchor.label
    name = unquote(split(link.url).target.partition("?")[0].rpartition("/")[2]).lower()
    return _is_url(label) or (len(name) > 4 and label.startswith(name))


def _words_said(anchor: Anchor) -> frozenset[str]:
    """The words that are meant as words: of a label that is a URL, those of the file's name."""
    if not _is_url(anchor.label):
        return anchor.words
    return anchor.words - frozenset(_WORD.findall(anchor.label.partition("?")[0].rpartition("/")[0]))


def _is_url(label: str) -> bool:
    return label.startswith(("http://", "https://", "www."))


def _parts_in(anchor: Anchor, parts: frozenset[str]) -> list[str]:
    """Which of these parts of words the label has; only labels in other characters than ASCII have such parts."""
    return [] if anchor.label.isascii() else sorted(part for part in parts if part in anchor.label)


def _says_download(anchor: Anchor) -> bool:
    return not anchor.words.isdisjoint(words("links.download")) or bool(
        _parts_in(anchor, words("links.download_parts"))
    )


def _says_full_text(said: frozenset[str]) -> bool:
    return not said.isdisjoint(words("links.full_text")) or any(pair <= said for pair in _full_text_pairs())


@cache
def _full_text_pairs() -> tuple[frozenset[str], ...]:
    return tuple(frozenset(text.split()) for text in texts("links.full_text_pairs"))


@cache
def _harmless() -> frozenset[str]:
    """All words that a link to the work itself may consist of."""
    tables = ("full_text", "download", "work", "neutral")
    return frozenset().union(*(words(f"links.{table}") for table in tables), *_full_text_pairs())


def _score_context(link: _Link) -> None:
    """What stands round it."""
    context = link.anchor.context
    supplements = context.tokens & words("markup.supplements")
    elsewhere = supplements | context.tokens & words("markup.elsewhere")
    if elsewhere:
        # A link that has the page's id is seldom another work's; it may be a supplement.
        link.penalise(30 if link.is_own and not supplements else 60, f"in {min(elsewhere)}")
    elif len(context.heading) <= MAX_HEADING and pattern("links.other_headings").match(context.heading):
        link.penalise(60, f"under {context.heading[:40]!r}")
    elif pattern("links.file_headings").match(context.heading):
        link.add_work(25, f"under {context.heading[:40]!r}")
    boilerplate = context.tags & BOILERPLATE_PENALTIES.keys()
    if boilerplate:
        tag = max(boilerplate, key=BOILERPLATE_PENALTIES.__getitem__)
        link.penalise(BOILERPLATE_PENALTIES[tag], f"in {tag}")
    if own := link.anchor.tokens & words("markup.work_links"):
        link.add_work(15, f"marked {min(own)}")
    elif near := context.tokens & words("markup.at_the_work"):
        link.add_work(15, f"in {min(near)}")
    if len(context.sibling_text) > MAX_SIBLING_LABEL:
        link.penalise(20, "beside a text")
    elif context.sibling_text:
        beside = frozenset(_WORD.findall(context.sibling_text))
        if other := beside & words("links.not_the_work_beside"):
            link.penalise(40, f"beside {min(other)!r}")
        elif _says_full_text(beside):
            link.add_work(15, "beside 'full text'")


def _score_url(link: _Link, work: Work, ids: UrlIds) -> None:
    """Whether its URL speaks of this work, of something beside it, or of another."""
    if part := _other_part(split(link.url).target[:MAX_URL]):
        link.penalise(50, f"path says {part}")
    match = ids.match(link.url)
    if match is IdMatch.OWN:
        link.is_own = True
        link.add_work(30, "names the page's id")
        return
    link.is_near = match is IdMatch.NEAR
    if _RESOLVER.match(link.url) and _says_full_text(link.anchor.words):
        link.add_work(10, "a lasting address")
    elif split(link.url).host.removeprefix("www.") != split(work.url).host.removeprefix("www."):
        link.penalise(15 if work.is_named else 30, "another host")
        link.is_stranger = True
    elif match is IdMatch.NUMBER:
        link.add_work(20, "names the page's number")
    elif match is IdMatch.OTHER:
        link.penalise(20, "names another id")
        link.is_stranger = True


# The links of a page together


def _compare(links: Sequence[_Link]) -> None:
    """Score what only the links together show: which of them is the work's own, and which are a list of works."""
    if any(not (link.is_near or link.is_own) for link in links):
        for link in links:
            if link.is_near and not link.is_own:
                link.add_work(15, "names where the work stands")
                link.is_own = True
    urls_by_label: dict[str, set[str]] = {}
    for link in links:
        urls_by_label.setdefault(link.anchor.label, set()).add(link.url)
    own_by_label = Counter(link.anchor.label for link in links if link.is_own)
    likely = {link.url for link in links if link.penalty > -30}
    for link in links:
        alike, own = len(urls_by_label[link.anchor.label]), own_by_label[link.anchor.label]
        if alike >= ALIKE and (not link.is_own or own >= ALIKE):
            link.penalise(60, f"one of {alike} alike")
        elif alike > 1 and own and not link.is_own:
            link.penalise(30, "another like it names the page's id")
        if likely == {link.url}:
            link.add_work(10 if link.is_stranger or link.penalty else 20, "the only one")


def _penalise_unnamed(links: Sequence[_Link], work: Work) -> None:
    """Penalties on a page that names no work."""
    target = split(work.url).target
    is_list = bool(_LIST_PATH.search(target) or _HOME_PATH.fullmatch(target))
    for link in links:
        if not link.is_own:
            link.penalise(10, "the page names no work")
        if is_list:
            link.penalise(40, "the page is a list or a home page")
    likely = {_file(link.url) for link in links if link.score >= MIN_SCORE}
    if len(likely) > 1:
        for link in links:
            link.penalise(40, f"one of {len(likely)} on a page that names no work")


def _file(url: str) -> str:
    """A file's URL without a query that only a session or a cache makes."""
    path = url.partition("?")[0]
    return path if path.lower().endswith((".pdf", ".xml", ".html")) else url


def is_beside_the_work(url: str) -> bool:
    """Whether a URL says that its file is a supplement, a cover or the like."""
    return bool(_other_part(split(url).target[:MAX_URL]))


def other_part_in_name(url: str) -> str:
    """The word by which a file's own name says that it is a supplement, a cover or the like; empty if it has none."""
    return _other_part("/" + split(url).target[:MAX_URL].partition("?")[0].rpartition("/")[2])


def _other_part(target: str) -> str:
    part = pattern("links.not_the_work_urls").search(unquote(target))
    return part[0].strip("/_.-=?&%").lower() if part else ""


def is_tied(url: str, work: Work) -> bool:
    """Whether a file's URL shows that it is the work's: by words of its title in the file's name, or by the page's id.
    Of an id in a folder nothing may follow but words for the file itself, since all files of an item are in its folder."""
    target = unquote(split(url).target[:MAX_URL]).lower()
    if shares_title(target.partition("?")[0].rpartition("/")[2], work.title):
        return True
    rest = ids_of(work.url, work.doi).behind(target)
    return rest is not None and all(word in _file_words() for word in _SEPARATORS.split(rest) if word)


@cache
def _file_words() -> frozenset[str]:
    """What may follow a work's id in its file's URL."""
    names = frozenset().union(*(kind.words for kind in FILE_TYPES.values()))
    return names | words("links.download") | words("links.full_text") | {"full", "article"}


def shares_title(text: str, title: frozenset[str]) -> bool:
    """Whether a label or a file's name has two of the title's longer words, or its only one; of a title in a script
    without blanks, a long part of it."""
    longer = {word for word in title if len(word) >= _LONGER or not word.isascii()}
    said = {word for word in _SEPARATORS.split(text.lower()) if word}
    unspaced = {word for word in said if len(word) >= _LONGER and not word.isascii()}
    in_title = sum(any(word in long for long in longer) for word in unspaced - longer)
    return bool(longer) and len(longer & said) + in_title >= min(2, len(longer))


def words_of(text: str) -> frozenset[str]:
    """The words of a title, lower-case."""
    return frozenset(word for word in _SEPARATORS.split(text.lower()) if len(word) > 2)
