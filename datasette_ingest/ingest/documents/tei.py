"""The TEI that GROBID writes: the header of the work as facts. Runs in a process of the pool."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from lxml import etree

from ..page.biblio_values import clean_name
from ..page.html import squeeze
from ..urls import mask_texts
from .xml_reading import read_xml
from .xml_text import line

MAX_AFFILIATIONS = 20
"""Of one author."""
_RELEASE = re.compile(r"(?:release_)?([a-z2-7]{26})")


@dataclass(frozen=True)
class TeiRead:
    """What was read of one document. `problem`: why it is none of TEI; None if it is."""

    problem: str | None = None
    version: str | None = None
    """Of the GROBID that wrote it."""
    fatcat_release: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    """Facts in the form of a page's, each author with `affiliations`, and `references`, how many there are."""


def read_tei(data: bytes, max_characters: int) -> TeiRead:
    """Read a document. Never raises for what it contains; memory and time are the caller's to limit."""
    read = read_xml(data)
    if read.utf8 is None:
        return TeiRead("the answer is not well-formed XML")
    if read.dialect != "tei":
        return TeiRead("the answer is XML, but not TEI")
    if len(read.utf8.decode("utf-8")) > max_characters:
        return TeiRead(f"the answer has more than {max_characters:,} characters")
    # It was parsed before, and has neither entities nor a document type now.
    root = etree.fromstring(read.utf8, etree.XMLParser(resolve_entities=False, no_network=True, recover=True))
    application = root.find("{*}teiHeader/{*}encodingDesc/{*}appInfo/{*}application[@ident='GROBID']")
    return TeiRead(
        version=None if application is None else application.get("version"),
        fatcat_release=next(_releases(root), None),
        metadata={
            **read.biblio,
            **_with_affiliations(root, read.biblio),
            "references": read.biblio.get("references", 0),
        },
    )


def _with_affiliations(root: Any, biblio: dict[str, Any]) -> dict[str, Any]:
    """The authors of the facts, each with the institutions that the document names for them."""
    known: dict[str, list[list[str]]] = {}
    for person in root.iterfind("{*}teiHeader/{*}fileDesc/{*}sourceDesc//{*}author"):
        parts = [
            line(part) for kind in ("forename", "surname") for part in person.iterfind(f"{{*}}persName/{{*}}{kind}")
        ]
        name, places = clean_name(" ".join(parts)), list(_affiliations(person))
        if name is not None:
            known.setdefault(name, []).append(places[:MAX_AFFILIATIONS])
    authors = []
    for author in biblio.get("authors", ()):
        places = known[author["name"]].pop(0) if known.get(author["name"]) else []
        authors.append({**author, "affiliations": mask_texts(places)} if places else author)
    return {"authors": authors} if authors else {}


def _affiliations(person: Any) -> Iterator[str]:
    for affiliation in person.iterfind("{*}affiliation"):
        parts = [*affiliation.iterfind("{*}orgName"), *affiliation.iterfind("{*}address/*")]
        text = ", ".join(filter(None, map(line, parts))) or squeeze("".join(affiliation.itertext()))
        if text:
            yield text


def _releases(root: Any) -> Iterator[str]:
    """The fatcat releases that consolidation found for the work itself."""
    for place in root.iterfind("{*}teiHeader/{*}fileDesc/{*}sourceDesc//{*}idno"):
        found = _RELEASE.fullmatch(line(place)) if (place.get("type") or "").lower() == "fatcat" else None
        if found:
            yield found[1]
