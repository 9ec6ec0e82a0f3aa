"""Bytes of an HTML page -> what the crawler wants to know of it, as plain data. CPU only: large pages in a thread."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lxml import etree

from ..errors import HtmlParseError
from ..linkrule import LinkRule
from ..model import MIB, Candidate
from ..urls import mask, resolve, without_fragment
from .biblio import Biblio, read_biblio
from .elements import PageElements, read_elements
from .html import base_of, parse_html
from .json_ld import Node, json_ld, short, types_of
from .link_header import read_link_headers
from .links.find import ONE_WORK, Sight, find
from .links.rules import REPAIRS, rule_set
from .links.scoring import Work, words_of
from .text import PageText, read_text
from .wording import ABSTRACT

PARSE_BYTES = 16 * MIB
"""How much of a page is read; no landing page is longer."""
PAGE_INLINE_BYTES = 32 * 1024
"""Pages, and answers like them, up to this size are read where they are, in a millisecond or two; larger ones in a
thread."""

_ITEM_TYPES = etree.XPath("//@itemtype", smart_strings=False)
_BODY = re.compile(rb"<body[\s>]|</head\s*>", re.IGNORECASE)
_WORK_METAS = (
    "citation_",
    "bepress_citation_",
    "eprints.",
    "prism.",
    "wkhealth_",
    "dc.identifier",
    "dcterms.identifier",
)
# Of these a site writes one a day; each has a page of its own, and no file.
_OF_THE_DAY = frozenset({"BlogPosting", "NewsArticle"})


@dataclass(frozen=True)
class Page:
    """A page as far as it was read: `text` is None if only its head was."""

    url: str
    candidates: tuple[Candidate, ...]
    """Links to try, best first."""
    rejected: tuple[Candidate, ...]
    """Links that speak of the wanted type and are not to be tried, with the reason."""
    fulltext_urls: tuple[str, ...]
    """Where the page itself says its full text in HTML is."""
    biblio: Biblio
    """What the page says of its work."""
    text: PageText | None


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

    `links` are the Link headers that came with it, `rules` rules beside the built-in ones. Raises HtmlParseError
    where there is not one element.
    """
    data = data[:PARSE_BYTES]
    if head_only:
        end = _BODY.search(data)
        data = data[: end.start()] if end else data
    root = parse_html(data, content_type)
    if root is None:
        if head_only:
            return Page(url, (), (), (), Biblio(), None)
        raise HtmlParseError(f"no element in the HTML at {mask(url)}")
    base = base_of(root, url)
    headers = read_link_headers(links)
    plan = rule_set(rules)
    elements = read_elements(root, matters=plan.matters, headers=headers, head_only=head_only)
    nodes = json_ld(root)
    biblio = read_biblio(elements.metas, nodes)
    title = biblio.title or _title(root)
    types = frozenset(short(kind) for kind in _ITEM_TYPES(root)) if not head_only else frozenset()
    # Takes the tree apart.
    text = None if head_only else read_text(root, has_citation="citation_title" in elements.metas)
    sight = Sight(
        work=Work(without_fragment(url), words_of(title), biblio.doi or "", _names_work(elements, nodes, types, text)),
        base=base,
        elements=elements,
        nodes=nodes,
    )
    found = find(sight, plan.rules, REPAIRS, target=target)
    return Page(
        url=url,
        candidates=found.candidates,
        rejected=found.rejected,
        fulltext_urls=_fulltext_urls(elements, base),
        biblio=biblio,
        text=text,
    )


def _fulltext_urls(elements: PageElements, base: str) -> tuple[str, ...]:
    named = elements.metas.get("citation_fulltext_html_url", ())
    return tuple(url for content in named if (url := resolve(content.strip(), base)) is not None)


def _title(root: Any) -> str:
    element = next(root.iter("title"), None)
    return "" if element is None else (element.text or "")[:1000]


def _names_work(elements: PageElements, nodes: Sequence[Node], types: frozenset[str], text: PageText | None) -> bool:
    """Whether the page is about one work: its head says so, its data, or an abstract on it."""
    if any(name.startswith(_WORK_METAS) for name in elements.metas):
        return True
    if (types | frozenset(kind for node in nodes for kind in types_of(node))) & ONE_WORK - _OF_THE_DAY:
        return True
    if text is None:
        return False
    return text.has_abstract or any(ABSTRACT.fullmatch(heading) for heading in text.headings)
