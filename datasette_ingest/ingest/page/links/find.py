"""Find the links of a page that may lead to a file of the wanted type, by the rules and by their scores, best first."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from html import unescape
from itertools import islice
from urllib.parse import parse_qsl

from ...linkrule import LinkRule, Place, pattern
from ...model import Candidate
from ...urls import is_href, resolve, same_page, scheme_of, split, whole_characters, without_fragment
from ..elements import PageElements
from ..json_ld import ONE_WORK, WORKS_WITH_FILES, Node, first_text, objects, texts, types_of
from .file_types import FILE_TYPES, FileType
from .rules import rewrites
from .scoring import MIN_SCORE, Scored, Work, is_beside_the_work, is_tied, other_part_in_name, score_anchors
from .url_ids import IdMatch, UrlIds, ids_of

MAX_CANDIDATES_OF_PAGE = 100
"""Links beyond this many are not worth recording, let alone trying."""
MAX_REJECTED_OF_PAGE = 5
MAX_REFRESH_SECONDS = 60.0
MAX_FOUND_BY_SCRIPT = 20
MAX_FOUND_BY_RULE = 200
"""Links that one rule finds on a page; a page names its work's file once or twice."""
MAX_MEDIA = 1000
"""Media objects in JSON-LD that are read."""

BESIDE_THE_WORK = 50
"""Penalty of a link found by a rule when its URL speaks of a supplement or the like."""

SCORED_RULE = "link"
"""The rule's name of links that were found by what they say."""

_NEVER_LINKS = frozenset({"javascript", "about", "mailto", "tel", "data", "blob", "sms"})
_EDGES = " \t\r\n\f\v\u00a0\u200b\ufeff"
_REFRESH = re.compile(r"\s*(\d*)(?:\.[\d.]*)?(?:\s*[;,]\s*|\s+|$)(?:url\s*=\s*)?(.*)", re.IGNORECASE | re.DOTALL)
_JSON_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_VIEWER = re.compile(r"viewer|gview|pdf\.?js|render|embed|reader|/web/", re.IGNORECASE)
_VIEWED = frozenset({"file", "url", "src", "pdf", "document", "doc", "pdfurl", "file_url", "fileurl"})
# Registries of identifiers: they lead back to the page, never to a file.
_RESOLVERS = frozenset({"doi.org", "dx.doi.org", "orcid.org", "creativecommons.org", "crossmark.crossref.org"})


class Tie(IntEnum):
    """What shows that the file of a link is the page's work, and not a licence, a form or a supplement of it."""

    NONE = 0
    PLAIN = 1
    """Its text calls it the file, and nothing else."""
    OWN = 2
    """Its URL or text has the page's id, or words of the work's title."""
    NAMED = 3
    """The page names it as the work's file."""


@dataclass(frozen=True)
class FoundLinks:
    """What a page offers: links to try, best first, and links that speak of the type but are not to be tried."""

    candidates: tuple[Candidate, ...] = ()
    rejected: tuple[Candidate, ...] = ()
    ties: Mapping[str, Tie] = field(default_factory=dict)
    """For the URL of each candidate, what shows that its file is the work."""


@dataclass(frozen=True)
class PageContext:
    """A page as the rules see it."""

    work: Work
    """What it is about, and its URL without a fragment."""
    base: str
    """What its references are resolved against."""
    elements: PageElements
    nodes: Sequence[Node] = ()
    """What its JSON-LD describes."""


def find_links(page: PageContext, rules: Sequence[LinkRule], *, target: str) -> FoundLinks:
    """The links of a page that may lead to `target`, most trusted first, each URL once.

    A link that is no URL, or has a scheme that is not fetched, stays in the list as it was written: it explains a miss.
    """
    scored = _scored(page, target) if target in FILE_TYPES else []
    found: list[tuple[int, Candidate]] = []
    rejected: list[tuple[int, Candidate]] = []
    scored_by_url = {link.url: link for link in scored}
    for rule in rules:
        if rule.target in ("", target):
            for candidate in _by_rule(rule, page, FILE_TYPES.get(target)):
                trust = _trust(rule, candidate, page)
                penalty, reason = _penalty(candidate, scored_by_url) if rule.is_shared else (0, "")
                if reason and trust + penalty < MIN_SCORE:
                    rejected.append((trust + penalty, replace(candidate, reason=reason)))
                else:
                    found.append((trust + penalty, candidate))
    for link in scored:
        if link.shows_type:
            kept = found if link.score >= MIN_SCORE else rejected
            kept.append((link.score, Candidate(link.url, SCORED_RULE, link.reason)))
    candidates = _each_once(_rewritten(_best_first(found)))[:MAX_CANDIDATES_OF_PAGE]
    known = {candidate.url for candidate in candidates}
    others = _each_once(candidate for candidate in _best_first(rejected) if candidate.url not in known)
    named = {rule.name for rule in rules if not rule.is_shared}
    ties = {link.url: _tie(link, scored_by_url.get(link.url), page.work, named) for link in candidates}
    return FoundLinks(tuple(candidates), tuple(others[:MAX_REJECTED_OF_PAGE]), ties)


def _tie(link: Candidate, scored: Scored | None, work: Work, named: Container[str]) -> Tie:
    if link.rule.partition(", ")[0] in named:
        return Tie.NAMED
    if (scored is not None and scored.says_title) or (is_href(link.url) and is_tied(link.url, work)):
        return Tie.OWN
    return Tie.PLAIN if scored is not None and scored.is_plain else Tie.NONE


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


def _best_first(weighed: Iterable[tuple[int, Candidate]]) -> Iterator[Candidate]:
    return (candidate for _, candidate in sorted(weighed, key=lambda pair: -pair[0]))


# Links by rules


def _trust(rule: LinkRule, candidate: Candidate, page: PageContext) -> int:
    """The rule's trust; less for a link that may be something else, which is tried when nothing better is left."""
    if not is_href(candidate.url):
        return rule.trust
    if without_fragment(candidate.url) == without_fragment(page.work.url):
        return 0
    return rule.trust - BESIDE_THE_WORK * is_beside_the_work(candidate.url)


def _penalty(candidate: Candidate, scored_by_url: Mapping[str, Scored]) -> tuple[int, str]:
    """What speaks against a link of a rule that finds other works' links as well: a negative number, and why."""
    scored = scored_by_url.get(candidate.url)
    if scored is not None:
        return scored.penalty, scored.reason
    if is_href(candidate.url) and (part := other_part_in_name(candidate.url)):
        return -BESIDE_THE_WORK, f"not: its name says {part}"
    return 0, ""


def _by_rule(rule: LinkRule, page: PageContext, wanted: FileType | None) -> Iterator[Candidate]:
    found = _READERS[rule.place](rule, page, wanted)
    if not found or not rule.counts_on(page.work.url):
        return
    for text in islice(found, MAX_FOUND_BY_RULE):
        candidate = _candidate(text, page.base, rule.name)
        if candidate is None:
            continue
        finished = rule.finish(candidate.url)
        if finished is not None:
            yield candidate if finished == candidate.url else _candidate(finished, page.base, rule.name) or candidate


def _from_meta(rule: LinkRule, page: PageContext, _: FileType | None) -> Sequence[str]:
    return page.elements.metas.get(rule.key.lower(), ())


def _from_link(rule: LinkRule, page: PageContext, _: FileType | None) -> Sequence[str]:
    key, rel = rule.key.lower(), rule.rel.lower()
    # A translation of the page is the page again.
    own = (link for link in page.elements.links if not link.hreflang)
    return [link.href for link in own if (not key or link.mimetype == key) and (not rel or rel in link.rels)]


def _from_json_ld(rule: LinkRule, page: PageContext, wanted: FileType | None) -> Sequence[str]:
    found = []
    works = _own_works(rule, page)
    for media in islice((media for node in works for media in objects(node.get(rule.key))), MAX_MEDIA):
        url = first_text(media, "contentUrl", "url", "@id")
        mimetype = (first_text(media, "encodingFormat", "fileFormat") or "").lower()
        if url and wanted and wanted.is_shown_by(url, mimetype):
            found.append(url)
    return found


def _own_works(rule: LinkRule, page: PageContext) -> Sequence[Node]:
    """The nodes that are the page's own work: of several those that say so, else the only one with files."""
    works = [node for node in page.nodes if types_of(node) & WORKS_WITH_FILES]
    if not rule.is_shared or sum(bool(types_of(node) & ONE_WORK) for node in works) < 2:
        return works
    own = [node for node in works if _is_of_page(node, page)]
    if own:
        return own
    with_files = [node for node in works if node.get(rule.key)]
    return with_files if len(with_files) == 1 else ()


def _is_of_page(node: Node, page: PageContext) -> bool:
    names = (name for key in ("url", "@id", "mainEntityOfPage", "doi") for name in islice(texts(node.get(key)), 5))
    return any(
        (page.work.doi and page.work.doi in name.lower())
        or ((url := _resolved(name, page.base)) and same_page(url, page.work.url))
        for name in names
    )


def _from_script(rule: LinkRule, page: PageContext, _: FileType | None) -> Sequence[str]:
    if not page.elements.scripts or not rule.counts_on(page.work.url):
        return ()
    matches = (match for script in page.elements.scripts for match in pattern(rule.key).finditer(script))
    written = (match.expand(rule.to) if rule.to and not rule.found else match[1] for match in matches)
    found = [_unescaped(text) for text in islice(written, MAX_FOUND_BY_SCRIPT) if text]
    ids = ids_of(page.work.url, page.work.doi)
    # A page's data names other works' files, too.
    own = [url for url in found if ids.is_in(url)]
    if len(found) > 1 and own:
        return own
    return found if not rule.is_shared or _is_one_file(found, page.base, ids) else ()


def _is_one_file(found: Sequence[str], base: str, ids: UrlIds) -> bool:
    """Whether all references are to one file, and its id is not another work's."""
    hrefs = {_resolved(url, base) or url for url in found}
    return len(hrefs) == 1 and not any(is_href(href) and ids.match(href) is IdMatch.OTHER for href in hrefs)


def _from_anchor(rule: LinkRule, page: PageContext, _: FileType | None) -> Sequence[str]:
    if rule.key[:1] in "'\"":
        label = rule.key.strip("'\"").lower()
        return [anchor.href for anchor in page.elements.anchors if anchor.label == label]
    tokens = frozenset(rule.key.lower().split())
    return [anchor.href for anchor in page.elements.anchors if tokens <= anchor.tokens]


def _from_frame(rule: LinkRule, page: PageContext, wanted: FileType | None) -> Sequence[str]:
    tokens, frames = frozenset(rule.key.lower().split()), page.elements.frames
    if tokens:
        return [frame.href for frame in frames if tokens <= frame.tokens or rule.key == frame.tag]
    shown = [frame.href for frame in frames if wanted and wanted.is_shown_by(frame.href, frame.mimetype)]
    # Of several on a page that names no work, none is the one.
    return shown if page.work.is_named or not rule.is_shared or len(set(shown)) < 2 else []


def _from_input(rule: LinkRule, page: PageContext, _: FileType | None) -> Sequence[str]:
    return [_percent_decoded(value) for value in page.elements.inputs.get(rule.key.lower(), ())]


def _from_refresh(rule: LinkRule, page: PageContext, _: FileType | None) -> Sequence[str]:
    contents = page.elements.noscript_refreshes if rule.key == "noscript" else page.elements.refreshes
    return [target for content in contents if (target := refresh_target(content))]


def _from_url(rule: LinkRule, page: PageContext, _: FileType | None) -> Sequence[str]:
    match = pattern(rule.key).search(page.work.url)
    return (match.expand(rule.to),) if match else ()


_Reader = Callable[[LinkRule, PageContext, "FileType | None"], Sequence[str]]
_READERS: Mapping[Place, _Reader] = {
    Place.META: _from_meta,
    Place.LINK: _from_link,
    Place.JSON_LD: _from_json_ld,
    Place.SCRIPT: _from_script,
    Place.ANCHOR: _from_anchor,
    Place.FRAME: _from_frame,
    Place.INPUT: _from_input,
    Place.REFRESH: _from_refresh,
    Place.URL: _from_url,
}


# Links by what they say


def _scored(page: PageContext, target: str) -> list[Scored]:
    resolved = ((anchor, _resolved(anchor.href, page.base)) for anchor in page.elements.anchors)
    links = [
        (anchor, url)
        for anchor, url in resolved
        if url is not None and split(url).host.removeprefix("www.") not in _RESOLVERS
    ]
    return score_anchors(links, target, page.work)


# URLs


def _candidate(text: str, base: str, rule: str) -> Candidate | None:
    """The link as a URL; as it was written if it is none, or has a scheme that is not fetched."""
    text = whole_characters(text).strip(_EDGES)
    if not text or text.startswith("#") or scheme_of(text) in _NEVER_LINKS:
        return None
    return Candidate(_resolved(text, base) or text[:500], rule)


def _resolved(text: str, base: str) -> str | None:
    href = resolve(text.strip(_EDGES), base)
    return None if href is None else without_fragment(href)


def _rewritten(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Each link, and before it the file that it is only a viewer or a wrapper of."""
    for candidate in candidates:
        if is_href(candidate.url):
            viewed = _viewed(candidate.url)
            if viewed is not None:
                yield Candidate(viewed, f"{candidate.rule}, in a viewer", candidate.reason)
            for rewrite in rewrites():
                match = pattern(rewrite.found).fullmatch(candidate.url)
                if match:
                    yield Candidate(match.expand(rewrite.to), f"{candidate.rule}, {rewrite.name}", candidate.reason)
        yield candidate


def _viewed(url: str) -> str | None:
    """The file that a viewer's URL names: `…/viewer.html?file=https%3A%2F%2F…`."""
    query = split(url).target.partition("?")[2]
    if not query or not _VIEWER.search(url.partition("?")[0]):
        return None
    for name, value in parse_qsl(query, max_num_fields=100) if query.count("&") < 100 else ():
        if name.lower() in _VIEWED and ("/" in value or "." in value):
            return _resolved(value, url)
    return None


def _each_once(candidates: Iterable[Candidate]) -> list[Candidate]:
    found: dict[str, Candidate] = {}
    for candidate in candidates:
        found.setdefault(without_fragment(candidate.url), candidate)
    return list(found.values())


def _unescaped(text: str) -> str:
    """A string of JSON inside a script without its escapes, and without entities, which some write as well."""
    return unescape(_JSON_ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else match[2], text))


def _percent_decoded(value: str) -> str:
    """A whole URL that was percent-encoded to fit into a form field."""
    if re.match(r"https?%3a", value, re.IGNORECASE):
        return dict(parse_qsl("x=" + value.replace("+", "%2B"))).get("x", value)
    return value
