"""The engine that reads links off a page, by the rows of tables.py and the points of score.py, best first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import unescape
from itertools import islice
from urllib.parse import parse_qsl

from ...linkrule import LinkRule, Place, Repair, pattern
from ...model import Candidate
from ...urls import is_href, resolve, same_page, scheme_of, split, whole_characters, without_fragment
from ..elements import Anchor, PageElements
from ..json_ld import Node, objects, texts, types_of
from .scoring import ENOUGH, Scored, Work, beside_in_name, is_beside_the_work, score_anchors
from .url_ids import Kinship, ids_of
from .words import WANTED, Wanted

MAX_CANDIDATES_OF_PAGE = 100
"""Links beyond this many are not worth recording, let alone trying."""
MAX_REJECTED_OF_PAGE = 5
MAX_REFRESH_SECONDS = 60.0
MAX_FOUND_BY_SCRIPT = 20
MAX_FOUND_BY_RULE = 200
"""Links that one rule finds on a page; a page names its work's file once or twice."""
MAX_MEDIA = 1000
"""Media objects in JSON-LD that are looked at."""

BESIDE_THE_WORK = 50
"""Points that a link which a rule found loses when its address speaks of a supplement and the like."""

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
WORKS = frozenset(
    """Article ScholarlyArticle MedicalScholarlyArticle NewsArticle Report TechArticle Thesis Book Chapter CreativeWork
    DigitalDocument TextDigitalDocument PublicationIssue BlogPosting WebPage MediaObject PresentationDigitalDocument
    Periodical Preprint""".split()  # noqa: SIM905
)
ONE_WORK = WORKS - {"WebPage", "CreativeWork", "MediaObject", "Periodical", "PublicationIssue"}
"""Of these, what is one work in its own right, and not the page or what holds it."""


@dataclass(frozen=True)
class Found:
    """What a page offers: links to try, best first, and links that speak of the type but are not to be tried."""

    candidates: tuple[Candidate, ...] = ()
    rejected: tuple[Candidate, ...] = ()


@dataclass(frozen=True)
class Sight:
    """A page as the rules see it."""

    work: Work
    """What it is about, and its address without a fragment."""
    base: str
    """What its references are resolved against."""
    elements: PageElements
    nodes: Sequence[Node] = ()


def find(sight: Sight, rules: Iterable[LinkRule], repairs: Sequence[Repair], *, target: str) -> Found:
    """The links of a page that may lead to `target`, most trusted first, each URL once.

    A link that is no URL, or of a scheme that is not fetched, stays in the list as it was written: it is a reason.
    """
    wanted = WANTED.get(target)
    scored = _scored(sight, target) if wanted else []
    doubted = {link.url: link for link in scored}
    found: list[tuple[int, Candidate]] = []
    rejected: list[tuple[int, Candidate]] = []
    for rule in rules:
        if rule.target in ("", target):
            for candidate in _by_rule(rule, sight, wanted):
                trust = _trust(rule, candidate, sight)
                doubts, reason = _against(candidate, doubted) if rule.is_shared else (0, "")
                if reason and trust + doubts < ENOUGH:
                    rejected.append((trust + doubts, replace(candidate, reason=reason)))
                else:
                    found.append((trust + doubts, candidate))
    for link in scored:
        if link.speaks:
            candidate = Candidate(link.url, SCORED_RULE, link.reason)
            (found if link.points >= ENOUGH else rejected).append((link.points, candidate))
    ranked = [candidate for _, candidate in sorted(found, key=lambda pair: -pair[0])]
    candidates = _each_once(_repaired(ranked, repairs))[:MAX_CANDIDATES_OF_PAGE]
    known = {candidate.url for candidate in candidates}
    others = [candidate for _, candidate in sorted(rejected, key=lambda pair: -pair[0]) if candidate.url not in known]
    return Found(tuple(candidates), tuple(_each_once(others)[:MAX_REJECTED_OF_PAGE]))


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


# Links by rules


def _trust(rule: LinkRule, candidate: Candidate, sight: Sight) -> int:
    """The rule's, but for links that show a doubt: they are tried when nothing better is left."""
    if not is_href(candidate.url):
        return rule.trust
    if without_fragment(candidate.url) == without_fragment(sight.work.url):
        return 0
    return rule.trust - BESIDE_THE_WORK * is_beside_the_work(candidate.url)


def _against(candidate: Candidate, doubted: Mapping[str, Scored]) -> tuple[int, str]:
    """What speaks against a link that carries a mark of other works' links as well: points, and why."""
    said = doubted.get(candidate.url)
    if said is not None:
        return said.doubts, said.reason
    if is_href(candidate.url) and (part := beside_in_name(candidate.url)):
        return -BESIDE_THE_WORK, f"not: its name says {part}"
    return 0, ""


def _by_rule(rule: LinkRule, sight: Sight, wanted: Wanted | None) -> Iterator[Candidate]:
    texts_found = _READERS[rule.place](rule, sight, wanted)
    if not texts_found or not rule.counts_on(sight.work.url):
        return
    for text in islice(texts_found, MAX_FOUND_BY_RULE):
        candidate = _candidate(text, sight.base, rule.name)
        if candidate is None:
            continue
        finished = rule.finish(candidate.url)
        if finished is not None:
            yield candidate if finished == candidate.url else _candidate(finished, sight.base, rule.name) or candidate


def _from_meta(rule: LinkRule, sight: Sight, _: Wanted | None) -> Sequence[str]:
    return sight.elements.metas.get(rule.key.lower(), ())


def _from_link(rule: LinkRule, sight: Sight, _: Wanted | None) -> Sequence[str]:
    key, rel = rule.key.lower(), rule.rel.lower()
    return [
        link.href
        for link in sight.elements.links
        if (not key or link.mimetype == key) and (not rel or rel in link.rels)
    ]


def _from_json_ld(rule: LinkRule, sight: Sight, wanted: Wanted | None) -> Sequence[str]:
    found = []
    works = _own_works(rule, sight)
    for media in islice((media for node in works for media in objects(node.get(rule.key))), MAX_MEDIA):
        url = next(texts(media.get("contentUrl") or media.get("url") or media.get("@id")), None)
        format_ = next(texts(media.get("encodingFormat") or media.get("fileFormat")), "").lower()
        if url and wanted and _is_of_type(url, format_, wanted):
            found.append(url)
    return found


def _own_works(rule: LinkRule, sight: Sight) -> Sequence[Node]:
    """The nodes that are the page's own work: of several those that say so, else the only one with files."""
    works = [node for node in sight.nodes if types_of(node) & WORKS]
    if not rule.is_shared or sum(bool(types_of(node) & ONE_WORK) for node in works) < 2:
        return works
    own = [node for node in works if _is_of_page(node, sight)]
    if own:
        return own
    with_files = [node for node in works if node.get(rule.key)]
    return with_files if len(with_files) == 1 else ()


def _is_of_page(node: Node, sight: Sight) -> bool:
    names = (name for key in ("url", "@id", "mainEntityOfPage", "doi") for name in islice(texts(node.get(key)), 5))
    return any(
        (sight.work.doi and sight.work.doi in name.lower())
        or ((url := _resolved(name, sight.base)) and same_page(url, sight.work.url))
        for name in names
    )


def _from_script(rule: LinkRule, sight: Sight, _: Wanted | None) -> Sequence[str]:
    if not sight.elements.scripts or not rule.counts_on(sight.work.url):
        return ()
    matches = (match for script in sight.elements.scripts for match in pattern(rule.key).finditer(script))
    texts_found = (match.expand(rule.to) if rule.to and not rule.found else match[1] for match in matches)
    found = [_from_json_text(text) for text in islice(texts_found, MAX_FOUND_BY_SCRIPT) if text]
    # A page's data names other works' files, too.
    ids = ids_of(sight.work.url, sight.work.doi)
    own = [url for url in found if ids.name_one(url)]
    if len(found) > 1 and own:
        return own
    if not rule.is_shared:
        return found
    hrefs = {_resolved(url, sight.base) or url for url in found}
    others = {href for href in hrefs if is_href(href) and ids.kinship(href) is Kinship.OTHER}
    return found if len(hrefs) == 1 and not others else ()


def _from_anchor(rule: LinkRule, sight: Sight, _: Wanted | None) -> Sequence[str]:
    if rule.key[:1] in "'\"":
        label = rule.key.strip("'\"").lower()
        return [anchor.href for anchor in sight.elements.anchors if anchor.label == label]
    marks = frozenset(rule.key.lower().split())
    return [anchor.href for anchor in sight.elements.anchors if marks <= anchor.marks]


def _from_frame(rule: LinkRule, sight: Sight, wanted: Wanted | None) -> Sequence[str]:
    marks = frozenset(rule.key.lower().split())
    if marks:
        return [frame.href for frame in sight.elements.frames if marks <= frame.marks or rule.key == frame.tag]
    shown = [
        frame.href for frame in sight.elements.frames if wanted and _is_of_type(frame.href, frame.mimetype, wanted)
    ]
    # Of several, on a page that is about no work, none is the one.
    return shown if sight.work.is_named or not rule.is_shared or len(set(shown)) < 2 else []


def _from_input(rule: LinkRule, sight: Sight, _: Wanted | None) -> Sequence[str]:
    return [_percent_decoded(value) for value in sight.elements.inputs.get(rule.key.lower(), ())]


def _from_refresh(rule: LinkRule, sight: Sight, _: Wanted | None) -> Sequence[str]:
    contents = sight.elements.noscript_refreshes if rule.key == "noscript" else sight.elements.refreshes
    return [target for content in contents if (target := refresh_target(content))]


def _from_url(rule: LinkRule, sight: Sight, _: Wanted | None) -> Sequence[str]:
    match = pattern(rule.key).search(sight.work.url)
    return (match.expand(rule.to),) if match else ()


_Reader = Callable[[LinkRule, Sight, "Wanted | None"], Sequence[str]]
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


def _scored(sight: Sight, target: str) -> list[Scored]:
    links: list[tuple[Anchor, str]] = []
    for anchor in sight.elements.anchors:
        url = _resolved(anchor.href, sight.base)
        if url is not None and split(url).host.removeprefix("www.") not in _RESOLVERS:
            links.append((anchor, url))
    return score_anchors(links, target, sight.work)


# URLs


def _candidate(text: str, base: str, rule: str) -> Candidate | None:
    """The link as a URL; as it was written if it is none, or of a scheme that is not fetched: it is a reason."""
    text = whole_characters(text).strip(_EDGES)
    if not text or text.startswith("#") or scheme_of(text) in _NEVER_LINKS:
        return None
    return Candidate(_resolved(text, base) or text[:500], rule)


def _resolved(text: str, base: str) -> str | None:
    href = resolve(text.strip(_EDGES), base)
    return None if href is None else without_fragment(href)


def _repaired(candidates: Iterable[Candidate], repairs: Sequence[Repair]) -> Iterator[Candidate]:
    """Each link, and before it the file that it is only a viewer or a wrapper of."""
    for candidate in candidates:
        if is_href(candidate.url):
            viewed = _viewed(candidate.url)
            if viewed is not None:
                yield Candidate(viewed, f"{candidate.rule}, in a viewer", candidate.reason)
            for repair in repairs:
                match = pattern(repair.found).fullmatch(candidate.url)
                if match:
                    yield Candidate(match.expand(repair.to), f"{candidate.rule}, {repair.name}", candidate.reason)
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


def _is_of_type(url: str, mimetype: str, wanted: Wanted) -> bool:
    if mimetype:
        return mimetype in wanted.mimetypes or mimetype.lstrip(".") in wanted.words
    path, _, query = url.partition("#")[0].partition("?")
    if wanted.path_end.search(path.strip(_EDGES)):
        return True
    if wanted.path_part.search(url[:4000]):
        return True
    return any(wanted.path_end.search(value) for _, value in parse_qsl(query[:4000]))


def _from_json_text(text: str) -> str:
    """A string of JSON inside a script: its escapes undone, and entities, which some write as well."""
    return unescape(_JSON_ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else match[2], text))


def _percent_decoded(value: str) -> str:
    """A whole URL that was percent-encoded to fit into a form field."""
    if re.match(r"https?%3a", value, re.IGNORECASE):
        return dict(parse_qsl("x=" + value.replace("+", "%2B"))).get("x", value)
    return value
