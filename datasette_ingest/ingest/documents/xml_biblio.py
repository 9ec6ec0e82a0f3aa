"""The bibliographic facts of an XML document, in the form of a page's: JATS, TEI, and metadata in elements of Dublin Core.

Of a document that holds several works there are none. Vocabularies: https://jats.nlm.nih.gov/archiving/tag-library/,
https://tei-c.org/release/doc/tei-p5-doc/en/html/HD.html, and the TEI that GROBID writes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lxml import etree

from ..identifiers import clean_arxiv_id, clean_isbn, clean_issn, clean_orcid, clean_pmcid, clean_pmid, find_doi
from ..page.biblio import MAX_AUTHORS, Author, Biblio, read_biblio
from ..page.biblio_values import (
    clean_abstract,
    clean_language,
    clean_licence,
    clean_name,
    clean_number,
    clean_title,
    parse_date,
)
from ..page.html import squeeze
from .xml_text import line, local, paragraphs

_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
_XLINK = "{http://www.w3.org/1999/xlink}href"
_METADATA = {
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://purl.org/dc/terms/": "dcterms",
    "http://prismstandard.org/namespaces/basic/2.0/": "prism",
    "http://prismstandard.org/namespaces/basic/2.1/": "prism",
    "http://prismstandard.org/namespaces/basic/3.0/": "prism",
}
_NOT_THE_ABSTRACT = frozenset({"teaser", "toc", "editor", "graphical", "executive-summary", "web-summary", "precis"})
# The first of these that a document has: the day of its appearance online, else in print, else of its volume.
_PUBLISHED = ("epub", "epub-ppub", "electronic", "pub", "ppub", "print", "collection", "", "pmc-release")
_MAX_METADATA = 2000
_NAME_MARKS = re.compile(r"[\d*†‡§¶#]+")
_BETWEEN_NAMES = re.compile(r"[\s,;]*(?:[,;&]|\band\b)[\s,;]*")


def jats(article: Any) -> Biblio:
    """The facts of a JATS article."""
    meta, journal = article.find("{*}front/{*}article-meta"), article.find("{*}front/{*}journal-meta")
    meta, journal = _or_empty(meta), _or_empty(journal)
    ids = {(found.get("pub-id-type") or "").lower(): line(found) for found in meta.iterfind("{*}article-id")}
    first, last = (_one(meta, f"{{*}}{name}", clean_number) for name in ("fpage", "lpage"))
    return Biblio(
        title=_one(meta, "{*}title-group/{*}article-title", clean_title),
        authors=tuple(jats_authors(meta))[:MAX_AUTHORS],
        doi=find_doi(ids.get("doi", "")),
        journal=_one(journal, ".//{*}journal-title", clean_title),
        publisher=_one(journal, "{*}publisher/{*}publisher-name", clean_name),
        issn=_every([*journal.iterfind("{*}issn"), *journal.iterfind("{*}issn-l")], clean_issn),
        isbn=_every(meta.iterfind("{*}isbn"), clean_isbn),
        volume=_one(meta, "{*}volume", clean_number),
        issue=_one(meta, "{*}issue", clean_number),
        first_page=first or _one(meta, "{*}elocation-id", clean_number),
        last_page=last,
        date=_jats_date(meta),
        licence=_licence(meta.iterfind("{*}permissions//*")) or _licence(meta.iterfind("{*}copyright-statement")),
        language=clean_language(article.get(_LANG) or ""),
        pmid=clean_pmid(ids.get("pmid", "")),
        pmcid=clean_pmcid(ids.get("pmc") or ids.get("pmcid", "")),
        arxiv_id=clean_arxiv_id(ids.get("arxiv", "")),
        abstract=_abstract(found for found in meta.iterfind("{*}abstract") if _is_the_abstract(found)),
    )


def jats_references(article: Any) -> int:
    """The number of references of a JATS article; those of its answers and translations do not count."""
    parts = (article.iterfind(f"{{*}}{name}") for name in ("front", "body", "back", "floats-group"))
    return sum(1 for part in parts for inside in part for _ in inside.iter("{*}ref"))


def tei(root: Any) -> Biblio:
    """The facts of a TEI document, from its header, else from its title page."""
    header = _or_empty(root.find("{*}teiHeader"))
    file = _or_empty(header.find("{*}fileDesc"))
    source = _or_empty(file.find("{*}sourceDesc//{*}biblStruct"))
    monograph, publication = _or_empty(source.find("{*}monogr")), _or_empty(file.find("{*}publicationStmt"))
    front = _or_empty(root.find("{*}text/{*}front"))
    ids = {(found.get("type") or "").lower(): line(found) for place in (publication, source) for found in _ids(place)}
    scopes = list(monograph.iterfind("{*}imprint/{*}biblScope"))
    pages = [scope for scope in scopes if scope.get("unit") in ("page", "pp")]
    first = next((scope.get("from") or line(scope) for scope in pages), "")
    last = next((scope.get("to") or line(scope) for scope in reversed(pages)), "")
    if first == last and "-" in first.replace("–", "-"):
        first, _, last = first.replace("–", "-").partition("-")
    titles = [*_main_first(file.iterfind("{*}titleStmt/{*}title")), *source.iterfind("{*}analytic/{*}title")]
    text = root.find("{*}text")
    return Biblio(
        title=_first((*titles, *front.iter("{*}titlePart")), clean_title),
        authors=tuple(_tei_authors(file, source, front))[:MAX_AUTHORS],
        doi=find_doi(ids.get("doi", "")),
        journal=_first(monograph.iterfind("{*}title"), clean_title),
        publisher=_first((*monograph.iter("{*}publisher"), *publication.iterfind("{*}publisher")), clean_name),
        issn=_every((found for found in _ids(monograph) if "issn" in (found.get("type") or "").lower()), clean_issn),
        isbn=_every((found for found in _ids(monograph) if "isbn" in (found.get("type") or "").lower()), clean_isbn),
        volume=_first((scope for scope in scopes if scope.get("unit") in ("volume", "vol")), clean_number),
        issue=_first((scope for scope in scopes if scope.get("unit") == "issue"), clean_number),
        first_page=clean_number(first),
        last_page=clean_number(last) if last != first else None,
        date=_tei_date((monograph, publication)),
        licence=_licence(publication.iterfind("{*}availability//*")),
        language=clean_language((text.get(_LANG) if text is not None else None) or ""),
        pmid=clean_pmid(ids.get("pmid", "")),
        pmcid=clean_pmcid(ids.get("pmcid") or ids.get("pmc", "")),
        arxiv_id=clean_arxiv_id(ids.get("arxiv", "")),
        abstract=_abstract(
            (*header.iterfind("{*}profileDesc/{*}abstract"), *(d for d in front if d.get("type") == "abstract"))
        ),
    )


def tei_references(root: Any) -> int:
    """The number of entries in the reference lists of a TEI document's text."""
    lists = (found for text in root.iterfind("{*}text") for found in text.iter("{*}listBibl"))
    return sum(1 for found in lists for entry in found if local(entry).startswith("bibl"))


def other(root: Any) -> Biblio:
    """The facts that elements of Dublin Core and PRISM state, and those of the `art` of BioMed Central."""
    if root.tag == "art":
        return _art(root)
    metas: dict[str, list[str]] = {}
    wanted = (f"{{{namespace}}}*" for namespace in _METADATA)
    for place, element in enumerate(root.iter(*wanted)):
        if place >= _MAX_METADATA:
            break
        name = etree.QName(element)
        metas.setdefault(f"{_METADATA[name.namespace]}.{name.localname.lower()}", []).append(line(element))
    # Several titles are those of several works.
    return read_biblio(metas) if len(metas.get("dc.title", ())) == 1 else Biblio()


def _art(root: Any) -> Biblio:
    """BioMed Central's own vocabulary, before it took JATS."""
    bibl = _or_empty(root.find("fm/bibl"))
    ids = {(found.get("idtype") or "").lower(): line(found) for found in bibl.iterfind("xrefbib//pubid")}
    people = (
        " ".join(line(part) for name in ("fnm", "mi", "snm") for part in au.iterfind(name)) for au in bibl.iter("au")
    )
    return Biblio(
        title=_one(bibl, "title", clean_title),
        authors=tuple(Author(name) for person in people if (name := clean_name(person)) is not None),
        doi=find_doi(ids.get("doi", "")),
        journal=_one(bibl, "source", clean_title),
        issn=_every(bibl.iterfind("issn"), clean_issn),
        volume=_one(bibl, "volume", clean_number),
        issue=_one(bibl, "issue", clean_number),
        first_page=_one(bibl, "fpage", clean_number),
        last_page=_one(bibl, "lpage", clean_number),
        date=_one(bibl, "pubdate", parse_date),
        pmid=clean_pmid(ids.get("pmpid") or ids.get("pmid", "")),
        abstract=_abstract(root.iterfind("fm/abs")),
    )


# JATS


def jats_authors(meta: Any) -> Iterator[Author]:
    for person in meta.iterfind("{*}contrib-group/{*}contrib"):
        if person.get("contrib-type", "author") != "author":
            continue
        named = next((found for kind in ("name", "string-name", "collab") for found in _names(person, kind)), None)
        name = clean_name(_person(named)) if named is not None else None
        if name is not None:
            yield Author(name, next(filter(None, map(clean_orcid, _addresses(person))), None))


def _names(person: Any, kind: str) -> Iterator[Any]:
    yield from person.iterfind(f"{{*}}{kind}")
    yield from person.iterfind(f"{{*}}name-alternatives/{{*}}{kind}")
    yield from person.iterfind(f"{{*}}collab-alternatives/{{*}}{kind}")


def _person(name: Any) -> str:
    parts = [
        line(part) for kind in ("prefix", "given-names", "surname", "suffix") for part in name.iterfind(f"{{*}}{kind}")
    ]
    if name.get("name-style") == "eastern":
        parts = [line(part) for kind in ("surname", "given-names") for part in name.iterfind(f"{{*}}{kind}")]
    return " ".join(parts) if parts else line(name, without=frozenset({"contrib-group"}))


def _addresses(person: Any) -> Iterator[str]:
    for kind in ("contrib-id", "uri", "ext-link"):
        for found in person.iterfind(f"{{*}}{kind}"):
            if kind == "contrib-id" and found.get("contrib-id-type", "orcid") != "orcid":
                continue
            address = found.get(_XLINK) or ""
            if kind == "contrib-id" or "orcid.org" in address or "orcid.org" in line(found):
                yield f"{address} {line(found)}"


def _jats_date(meta: Any) -> str | None:
    known: dict[str, str] = {}
    for found in meta.iterfind("{*}pub-date"):
        kinds = [(found.get(name) or "").lower() for name in ("pub-type", "publication-format", "date-type")]
        kind = next(filter(None, kinds), "")
        year, month, day = (line(_or_empty(found.find(f"{{*}}{name}"))) for name in ("year", "month", "day"))
        spelled = f"{year}-{month}-{day}".rstrip("-") if not month or month.isdigit() else f"{day} {month} {year}"
        date = parse_date(spelled) or parse_date(year) or parse_date(found.get("iso-8601-date") or "")
        if date is not None:
            known.setdefault(kind, date)
    return next((known[kind] for kind in _PUBLISHED if kind in known), None)


def _is_the_abstract(abstract: Any) -> bool:
    return (abstract.get("abstract-type") or "").lower() not in _NOT_THE_ABSTRACT


# TEI


def _main_first(titles: Iterable[Any]) -> list[Any]:
    return sorted(titles, key=lambda title: title.get("type", "main") != "main")


def _ids(place: Any) -> Iterator[Any]:
    """Its identifiers; not those of the people in it."""
    return (
        found for found in place.iter("{*}idno") if next(found.iterancestors("{*}author", "{*}editor"), None) is None
    )


def _tei_authors(file: Any, source: Any, front: Any) -> Iterator[Author]:
    analytic = list(source.iterfind("{*}analytic/{*}author")) or list(source.iterfind("{*}monogr/{*}author"))
    for person in analytic or list(file.iterfind("{*}titleStmt/{*}author")) or list(front.iter("{*}docAuthor")):
        named = person.find("{*}persName")
        parts = [line(part) for kind in ("forename", "surname") for part in _or_empty(named).iterfind(f"{{*}}{kind}")]
        whole = line(person if named is None else named, without=frozenset({"affiliation", "email", "idno", "note"}))
        orcids = (clean_orcid(line(found)) for found in person.iterfind("{*}idno"))
        orcid = next(filter(None, orcids), None)
        for text in [" ".join(parts)] if parts else _several(whole) if local(person) == "docauthor" else [whole]:
            if name := clean_name(text):
                yield Author(name, orcid)


def _several(names: str) -> list[str]:
    """The people of a title page's line, `A B 1* , C D 2 and E F`: one if it does not name several in full."""
    parts = [squeeze(part) for part in _BETWEEN_NAMES.split(_NAME_MARKS.sub(" ", names))]
    return parts if len(parts) > 1 and all(" " in part for part in parts) else [names]


def _tei_date(places: Iterable[Any]) -> str | None:
    dates = [date for place in places for date in place.iter("{*}date")]
    for date in sorted(dates, key=lambda found: found.get("type") != "published"):
        if known := parse_date(date.get("when") or line(date)):
            return known
    return None


# Both


def _or_empty(element: Any) -> Any:
    return etree.Element("none") if element is None else element


def _first(elements: Iterable[Any], clean: Callable[[str], str | None]) -> str | None:
    return next((value for element in elements if (value := clean(line(element))) is not None), None)


def _one(element: Any, path: str, clean: Callable[[str], str | None]) -> str | None:
    return _first(element.iterfind(path), clean)


def _every(elements: Iterable[Any], clean: Callable[[str], str | None]) -> tuple[str, ...]:
    found = (clean(line(element)) for element in elements)
    return tuple(dict.fromkeys(filter(None, found)))[:10]


def _licence(elements: Iterable[Any]) -> str | None:
    """The first licence that elements name by an address, else by their text."""
    within = [element for element in elements if local(element)]
    addresses = [element.get(_XLINK) or element.get("target") or "" for element in within]
    return next(filter(None, map(clean_licence, (*addresses, *map(line, within)))), None)


def _abstract(elements: Iterable[Any]) -> str | None:
    found = next(iter(elements), None)
    if found is None:
        return None
    text = paragraphs([found])
    heading = text[0].rstrip(".:").lower() if text else ""
    return clean_abstract(
        " ".join(text[1:] if heading in ("abstract", "resumo", "resumen", "résumé", "summary") else text)
    )
