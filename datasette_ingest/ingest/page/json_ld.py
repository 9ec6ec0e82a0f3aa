"""Read a page's JSON-LD: the things that its scripts describe (https://www.w3.org/TR/json-ld11/).

No context is fetched and none is needed: publishers write schema.org's short names, or its full ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from .html import mimetype_of

MAX_SCRIPTS = 20
MAX_SCRIPT_CHARACTERS = 2_000_000
MAX_NODES = 200
"""Nodes of one page; a page has one to ten."""
MAX_DEPTH = 20

Node = Mapping[str, Any]
"""One described thing: property -> value, as JSON. The page is hostile: any value may be of any type."""

ONE_WORK = frozenset(
    {
        *("Article", "ScholarlyArticle", "MedicalScholarlyArticle", "NewsArticle", "TechArticle", "BlogPosting"),
        *("Report", "Thesis", "Book", "Chapter", "Preprint"),
        *("DigitalDocument", "TextDigitalDocument", "PresentationDigitalDocument"),
    }
)
"""Types of schema.org that are one work in its own right, and not the page or what holds it."""
WORKS_WITH_FILES = ONE_WORK | {"CreativeWork", "WebPage", "MediaObject", "Periodical", "PublicationIssue"}
"""Types that name a work's files."""
WORKS_WITH_FACTS = ONE_WORK | {"CreativeWork", "Dataset", "SoftwareSourceCode", "Review"}
"""Types that state bibliographic facts."""

_JSON_LD = "application/ld+json"
_SCHEMA_ORG = ("https://schema.org/", "http://schema.org/", "schema:")
# Properties by which a page describes itself. Others (citation, isPartOf, hasPart …) name other works.
_OWN = ("@graph", "mainEntity", "mainEntityOfPage")


def json_ld(root: Any) -> tuple[Node, ...]:
    """The nodes of every JSON-LD script of a parsed page, the page's own first; invalid JSON is left out."""
    nodes: list[Node] = []
    scripts = (script for script in root.iter("script") if mimetype_of(script) == _JSON_LD)
    for script in islice(scripts, MAX_SCRIPTS):
        text = script.text or ""
        if len(text) <= MAX_SCRIPT_CHARACTERS:
            nodes += islice(_nodes(_parsed(text), MAX_DEPTH), MAX_NODES - len(nodes))
    return tuple(nodes)


def nodes_of(value: Any) -> tuple[Node, ...]:
    """The nodes of a JSON-LD document that stands by itself."""
    return tuple(islice(_nodes(value, MAX_DEPTH), MAX_NODES))


def types_of(node: Node) -> frozenset[str]:
    """The names of a node's types, without schema.org's address."""
    return frozenset(short(name) for name in texts(node.get("@type")))


def texts(value: Any) -> Iterator[str]:
    """The texts of a value: its own, a list's, or the @value, @id, url or name of an object."""
    if isinstance(value, str):
        if value.strip():
            yield value.strip()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, Sequence):
        for item in value:
            if not isinstance(item, Sequence) or isinstance(item, str):
                yield from texts(item)
    elif isinstance(value, Mapping):
        for name in ("@value", "@id", "url", "name"):
            found = value.get(name)
            if isinstance(found, str) and found.strip():
                yield found.strip()
                return


def first_text(node: Node, *names: str) -> str | None:
    """The first text of the first of these properties that has one."""
    return next((text for name in names for text in texts(node.get(name))), None)


def by_id(nodes: Iterable[Node]) -> dict[str, Node]:
    return {name: node for node in nodes if isinstance(name := node.get("@id"), str)}


def dereferenced(node: Node, known: Mapping[str, Node]) -> Node:
    """The node that a bare reference refers to, if it is known; any other node itself."""
    name = node.get("@id")
    return known.get(name, node) if isinstance(name, str) and node.keys() <= {"@id", "@type"} else node


def objects(value: Any) -> Iterator[Node]:
    """The objects of a value: itself, or a list's."""
    if isinstance(value, Mapping):
        yield value
    elif isinstance(value, Sequence) and not isinstance(value, str):
        yield from (item for item in value if isinstance(item, Mapping))


def short(name: str) -> str:
    """A term without schema.org's address before it."""
    for prefix in _SCHEMA_ORG:
        name = name.removeprefix(prefix)
    return name


def _nodes(value: Any, depth: int) -> Iterator[Node]:
    """A node, then the nodes of its @graph and of its main entity; not those of other works that it names."""
    if depth <= 0:
        return
    if isinstance(value, list):
        for item in value:
            yield from _nodes(item, depth - 1)
    elif isinstance(value, dict):
        node = {short(str(name)): inner for name, inner in value.items()}
        if "@type" in node:
            yield node
        for name in _OWN:
            yield from _nodes(node.get(name), depth - 1)


def _parsed(text: str) -> Any:
    """The JSON of a script, or None. Some pages wrap it in a comment or CDATA for browsers long out of use."""
    text = text.strip().removeprefix("<!--").removesuffix("-->").strip()
    text = text.removeprefix("//<![CDATA[").removesuffix("//]]>").removeprefix("<![CDATA[").removesuffix("]]>")
    try:
        # Raw line breaks inside strings are common, and harmless.
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
