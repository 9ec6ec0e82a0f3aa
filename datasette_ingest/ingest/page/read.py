"""Read an HTML page: from its bytes to what the crawler wants to know, as plain data.

CPU only: `ingest/reading.py` says where. A Page can be sent between processes as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from lxml import etree

from ..errors import HtmlParseError
from ..linkrule import LinkRule
from ..model import MIB, Candidate
from ..urls import leads_back, mask, resolve, without_fragment
from .biblio import Biblio, has_citation, is_about_one_work, read_biblio
from .elements import PageElements, read_elements
from .html import base_of, parse_html
from .json_ld import Node, json_ld, short, types_of
from .links.find import PageContext, Tie, find_links, refresh_target
from .links.rules import rule_set
from .links.scoring import Work, words_of
from .phrases import pattern
from .text import PageText, read_text
from .typed_links import TypedLink, typed_links

PARSE_BYTES = 4 * MIB
"""How much of a page is read; hardly any landing page is longer, and a tree takes thirty times its page's bytes."""

MAX_REFRESHES = 10
"""Refreshes that are looked at to tell whether a page is a gate; a page has one."""

_ITEM_TYPES = etree.XPath("//@itemtype", smart_strings=False)
_BODY = re.compile(rb"<body[\s>]|</head\s*>", re.IGNORECASE)


@dataclass(frozen=True)
class ParsedPage:
    """A page's tree, and what every reader of pages takes from it."""

    root: Any
    base: str
    """What its references are resolved against."""
    links: tuple[TypedLink, ...]
    """Its Link headers and link elements."""
    nodes: tuple[Node, ...]
    """What its JSON-LD describes, itself first."""


@dataclass(frozen=True)
class Page:
    """A page as far as it was read: `text` is None if only its head was."""

    url: str
    candidates: tuple[Candidate, ...] = ()
    """Links to try, best first."""
    rejected: tuple[Candidate, ...] = ()
    """Links that speak of the wanted type and are not to be tried, with the reason."""
    ties: Mapping[str, Tie] = field(default_factory=dict)
    """For the URL of each candidate, what shows that its file is the work."""
    fulltext_urls: tuple[str, ...] = ()
    """Where the page says that its full text in HTML is."""
    biblio: Biblio = field(default_factory=Biblio)
    """What the page says of its work."""
    text: PageText | None = None
    is_gate: bool = False
    """Whether search engines are to leave it out, and it refreshes to an address that is told to lead back to it."""


def parse_page(data: bytes, url: str, content_type: str, headers: Iterable[str] = ()) -> ParsedPage | None:
    """Parse a page that came with these Link headers; None if it has no element."""
    root = parse_html(data[:PARSE_BYTES], content_type)
    if root is None:
        return None
    return ParsedPage(root, base_of(root, url), typed_links(headers, root, url), json_ld(root))


def read_page(
    data: bytes,
    url: str,
    content_type: str,
    *,
    target: str,
    links: Sequence[str] = (),
    rules: tuple[LinkRule, ...] = (),
    head_only: bool = False,
) -> Page:
    """Parse a page and take from it the links to `target` and, unless `head_only`, the facts about its text.

    Of a head alone links count only if it holds the citation of a work, and refreshes never: what may be a challenge is
    judged by all of it before anything on it is followed. `links` are the Link headers that came with it, `rules` a user's own. Raises HtmlParseError if it has no element.
    """
    if head_only and (end := _BODY.search(data, 0, PARSE_BYTES)):
        data = data[: end.start()]
    parsed = parse_page(data, url, content_type, links)
    if parsed is None:
        if head_only:
            return Page(url)
        raise HtmlParseError(f"no element in the HTML at {mask(url)}")
    rule = rule_set(rules)
    elements = read_elements(parsed.root, parsed.links, is_relevant=rule.is_relevant, head_only=head_only)
    biblio = read_biblio(elements.metas, parsed.nodes)
    title = biblio.title or _title(parsed.root)
    types = {kind for node in parsed.nodes for kind in types_of(node)}
    text = None
    if not head_only:
        types.update(map(short, _ITEM_TYPES(parsed.root)))
        # This takes the tree apart.
        text = read_text(parsed.root, has_citation=has_citation(elements.metas))
    is_named = is_about_one_work(elements.metas, types) or (text is not None and _shows_abstract(text))
    if head_only and not has_citation(elements.metas):
        return Page(url, biblio=biblio)
    work = Work(without_fragment(url), words_of(title), biblio.doi or "", is_named)
    found = find_links(PageContext(work, parsed.base, elements, parsed.nodes), rule.rules, target=target)
    named = elements.metas.get("citation_fulltext_html_url", ())
    return Page(
        url=url,
        candidates=found.candidates,
        rejected=found.rejected,
        ties=found.ties,
        fulltext_urls=tuple(href for content in named if (href := resolve(content.strip(), parsed.base)) is not None),
        biblio=biblio,
        text=text,
        is_gate=text is not None and _is_gate(elements, url, parsed.base),
    )


def _title(root: Any) -> str:
    element = next(root.iter("title"), None)
    return "" if element is None else (element.text or "")[:1000]


def _is_gate(elements: PageElements, url: str, base: str) -> bool:
    robots = " ".join(elements.metas.get("robots", ())).lower()
    if "noindex" not in robots and "none" not in robots:
        return False
    contents = islice(chain(elements.refreshes, elements.noscript_refreshes), MAX_REFRESHES)
    targets = (resolve(target, base) for content in contents if (target := refresh_target(content)) is not None)
    return any(leads_back(target, url) for target in targets if target is not None)


def _shows_abstract(text: PageText) -> bool:
    heading = pattern("page.abstract")
    return text.has_abstract or any(heading.fullmatch(name) for name in text.headings)
