"""Read the bibliographic facts of a page: title, authors, identifiers, where and when its work appeared.

They come from its meta elements and JSON-LD alone; facts about other works that it names (references, related ones) do
not count. Vocabularies, the most trusted first: Highwire Press tags as Google Scholar documents them
(https://scholar.google.com/intl/en/scholar/inclusion.html), schema.org in JSON-LD, PRISM, Dublin Core
(https://www.dublincore.org/specifications/dublin-core/), EPrints', bepress' and Ovid's own, Open Graph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from ..identifiers import clean_arxiv_id, clean_isbn, clean_issn, clean_orcid, clean_pmcid, clean_pmid, find_doi
from .biblio_values import (
    LIST,
    MAX_NAME,
    PAGE_RANGE,
    clean_abstract,
    clean_language,
    clean_licence,
    clean_name,
    clean_number,
    clean_release_stage,
    clean_title,
    parse_date,
)
from .html import squeeze
from .json_ld import ONE_WORK, WORKS_WITH_FACTS, Node, by_id, dereferenced, objects, texts, types_of
from .phrases import read_toml

MAX_AUTHORS = 1000
MAX_VALUES = 5000
"""Meta elements of one name that are read."""
MAX_VALUE = 20_000
"""Characters of one value that are read."""
MAX_LISTED = 100
"""Values of one property in JSON-LD that are read, authors excepted."""
MAX_ADDRESSES = 20
"""Addresses of one author that are searched for an ORCID iD."""
MAX_PARTS = 5
"""Depth of the wholes that a work is part of."""

DOI_MISMATCH = "doi-mismatch"
"""Warning: the page is about another work than the one that was asked for."""

Metas = Mapping[str, Sequence[str]]
"""Contents of meta elements by name, property or itemprop, lower-case."""


@dataclass(frozen=True)
class Author:
    """A name as the page writes it, and an ORCID iD without its address."""

    name: str
    orcid: str | None = None


@dataclass(frozen=True)
class Biblio:
    """Bibliographic facts; None or empty if the page states nothing credible."""

    title: str | None = None
    authors: tuple[Author, ...] = ()
    doi: str | None = None
    """Bare and lower-case: `10.1234/abc`."""
    journal: str | None = None
    """The journal, book or proceedings that holds the work."""
    publisher: str | None = None
    issn: tuple[str, ...] = ()
    isbn: tuple[str, ...] = ()
    volume: str | None = None
    issue: str | None = None
    first_page: str | None = None
    last_page: str | None = None
    date: str | None = None
    """As exact as the page gives it: `2020`, `2020-05` or `2020-05-17`."""
    licence: str | None = None
    """A URL, or an SPDX identifier where the page gives a name."""
    language: str | None = None
    """ISO 639, two letters where there are two."""
    release_stage: str | None = None
    """draft, submitted, accepted or published."""
    pmid: str | None = None
    pmcid: str | None = None
    arxiv_id: str | None = None
    abstract: str | None = None

    @property
    def names_work(self) -> bool:
        """Whether this identifies one work; a title alone does not, since every page has one."""
        return self.title is not None and bool(self.authors or self.doi or self.journal or self.pmid or self.arxiv_id)

    def to_json(self) -> dict[str, Any]:
        """The facts that are known, as a JSON object."""
        facts = _known(self)
        if self.authors:
            facts["authors"] = [_known(author) for author in self.authors]
        return facts


def _known(facts: Biblio | Author) -> dict[str, Any]:
    # dataclasses.asdict would copy every value of every page.
    return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(facts).items() if value}


def read_biblio(metas: Metas, nodes: Iterable[Node] = ()) -> Biblio:
    """The facts of a page. `nodes` are its JSON-LD nodes, the page's own first (`json_ld.json_ld`).

    Never raises, whatever the page holds.
    """
    given = _Given(metas, nodes)
    first, last = given.pages()
    return Biblio(
        authors=given.authors(),
        issn=given.every("issn", clean_issn),
        isbn=given.every("isbn", clean_isbn),
        first_page=first,
        last_page=last,
        **{fact: given.one(fact, clean) for fact, clean in _CLEANERS.items()},
    )


def doi_matches(expected: str | None, biblio: Biblio) -> bool | None:
    """Whether the page is about the work with that DOI; None if either DOI is unknown, or they do not decide it.

    Versions of one preprint or dataset count as the same work. Two DOIs of Zenodo decide nothing, because it numbers
    versions and the work they belong to alike; nor do those of a chapter and its book.
    """
    wanted = find_doi(expected) if expected else None
    if wanted is None or biblio.doi is None:
        return None
    given, known = _without_version(wanted), _without_version(biblio.doi)
    # Of a paper that was published since, a preprint's page gives the journal's DOI.
    if given == known or given == _doi_of_arxiv(biblio.arxiv_id):
        return True
    if _NUMBERED_ALIKE.match(wanted) and _NUMBERED_ALIKE.match(biblio.doi):
        return None
    return None if _is_part(given, known) or _is_part(known, given) else False


def _is_part(doi: str, whole: str) -> bool:
    """Whether a DOI is made of another one: a chapter's of its book's, a file's of its dataset's."""
    return len(whole.partition("/")[2]) > 3 and doi.startswith(whole) and not doi[len(whole)].isalnum()


def _doi_of_arxiv(identifier: str | None) -> str | None:
    return None if identifier is None else _without_version(f"10.48550/arxiv.{identifier.lower()}")


_NUMBERED_ALIKE = re.compile(r"10\.(?:5281/zenodo\.|5072/zenodo\.)")
_VERSION = re.compile(r"(?<=\w)[._/-]?v\d{1,3}$")
_F1000 = re.compile(r"(10\.12688/\w+\.\d+)\.\d{1,2}")


def _without_version(doi: str) -> str:
    doi = _VERSION.sub("", doi)
    match = _F1000.fullmatch(doi)
    return match[1] if match else doi


# Where each fact stands

_CLEANERS: dict[str, Callable[[str], str | None]] = {
    "title": clean_title,
    "doi": find_doi,
    "journal": lambda text: clean_name(text.partition("; ")[0]),  # OJS writes `Journal; Vol. 3 No. 1 (2020); 1-10`
    "publisher": clean_name,
    "volume": clean_number,
    "issue": clean_number,
    "date": parse_date,
    "licence": clean_licence,
    "language": clean_language,
    "release_stage": clean_release_stage,
    "pmid": clean_pmid,
    "pmcid": clean_pmcid,
    "arxiv_id": clean_arxiv_id,
    "abstract": clean_abstract,
}
_FILE = Path(__file__).with_name("metadata.toml")


@dataclass(frozen=True)
class _Sources:
    """Names of meta elements and of JSON-LD properties that state a fact, the most trusted first."""

    before_json_ld: list[str]
    json_ld: list[str]
    after_json_ld: list[str]


@cache
def _sources() -> dict[str, _Sources]:
    return {fact: _in_order(**given) for fact, given in read_toml(_FILE).items()}


def _in_order(*, highwire: str = "", json_ld: str = "", repository: str = "", last: str = "") -> _Sources:
    bepress = (f"bepress_{name}" for name in highwire.split())
    return _Sources(highwire.split(), json_ld.split(), [*repository.split(), *bepress, *last.split()])


# JSON-LD properties of what the work is part of: its volume, its journal.
_JSON_LD_OF_WHOLE = {
    "issn": "issn",
    "volume": "volumeNumber",
    "issue": "issueNumber",
    "publisher": "publisher",
    "isbn": "isbn",
}
_CONTAINERS = frozenset(
    {"Periodical", "Book", "Journal", "Newspaper", "CreativeWorkSeries", "BookSeries", "Collection"}
)

# What only the page of a work has in its head.
_WORK_PREFIXES = (
    "citation_",
    "bepress_citation_",
    "eprints.",
    "prism.",
    "wkhealth_",
    "dc.identifier",
    "dcterms.identifier",
)
_WORK_METAS = frozenset(
    {"citation_title", "citation_doi", "bepress_citation_title", "eprints.title", "prism.doi", "wkhealth_title"}
)
_WORK_METAS_BESIDE_DC_TITLE = frozenset(
    {"dc.creator", "dc.identifier.doi", "dc.identifier.uri", "dc.source", "dcterms.abstract"}
)
# A site writes one of these a day, each on a page of its own, and without a file.
_OF_THE_DAY = frozenset({"BlogPosting", "NewsArticle"})


def has_citation(metas: Metas) -> bool:
    """Whether the head holds the citation of a work, and not only names its journal."""
    return bool(metas.keys() & _WORK_METAS) or (
        "dc.title" in metas and bool(metas.keys() & _WORK_METAS_BESIDE_DC_TITLE)
    )


def is_about_one_work(metas: Metas, types: Iterable[str]) -> bool:
    """Whether the head or the schema.org types of a page say that it is about one work."""
    return any(name.startswith(_WORK_PREFIXES) for name in metas) or not (ONE_WORK - _OF_THE_DAY).isdisjoint(types)


class _Given:
    """What a page states for each fact, the most trusted first. Lives for one page."""

    def __init__(self, metas: Metas, nodes: Iterable[Node]) -> None:
        self._metas: dict[str, list[str]] = {}
        for name, contents in metas.items():
            self._metas.setdefault(name.replace(":", "."), []).extend(contents)
        self._work = _facts_of_node(list(nodes))

    def values(self, fact: str) -> Iterator[str]:
        sources = _sources()[fact]
        yield from self._named(sources.before_json_ld)
        yield from map(_without_surrogates, self._work.get(fact, ()))
        yield from self._named(sources.after_json_ld)

    def one(self, fact: str, clean: Callable[[str], str | None]) -> str | None:
        return next((value for given in self.values(fact) if (value := clean(given[:MAX_VALUE])) is not None), None)

    def every(self, fact: str, clean: Callable[[str], str | None]) -> tuple[str, ...]:
        """All values, each once; some pages put several into one element."""
        given = (squeeze(text[:MAX_NAME]) for text in self.values(fact))
        found = (value for text in given for part in LIST.split(text) if (value := clean(part)))
        return tuple(dict.fromkeys(found))[:10]

    def pages(self) -> tuple[str | None, str | None]:
        first, last = self.one("first_page", clean_number), self.one("last_page", clean_number)
        given = (text.strip() for text in (first, *self.values("pages")) if text)
        both = next((match for text in given if (match := PAGE_RANGE.fullmatch(text))), None)
        if both is not None and (first is None or PAGE_RANGE.fullmatch(first)):
            return both[1], both[2]
        return first, last

    def authors(self) -> tuple[Author, ...]:
        sources = _sources()["authors"]
        found = self._meta_authors(sources.before_json_ld) or list(self._work_authors())
        if not found:
            # Of these vocabularies each names all authors.
            each = (self._meta_authors([name]) for name in sources.after_json_ld)
            found = next(filter(None, each), [])
        return tuple(_merged(found))[:MAX_AUTHORS]

    def _meta_authors(self, names: Sequence[str]) -> list[Author]:
        given = _people(self._named(names))
        orcids = [orcid for content in self.values("orcids") if (orcid := clean_orcid(content[:MAX_NAME]))]
        # Which iD is whose is known only where every author has one.
        matched: Sequence[str | None] = orcids if len(orcids) == len(given) else [None] * len(given)
        return [Author(name, orcid) for name, orcid in zip(given, matched, strict=True)]

    def _work_authors(self) -> Iterator[Author]:
        for text in self._work.get("authors", ()):
            name, _, address = _without_surrogates(text).partition("\n")
            if cleaned := clean_name(name):
                yield Author(cleaned, clean_orcid(address))

    def _named(self, names: Sequence[str]) -> Iterator[str]:
        for name in names:
            yield from islice(self._metas.get(name, ()), MAX_VALUES)


def _without_surrogates(text: str) -> str:
    """The text without halves of surrogate pairs, which JSON may spell and no database takes."""
    return text if text.isascii() else text.encode("utf-8", "ignore").decode("utf-8")


# JSON-LD: one node is the work, and what it is part of holds the rest


def _facts_of_node(nodes: list[Node]) -> dict[str, list[str]]:
    """Fact -> texts, from the first node that is a work."""
    work = next((node for node in nodes if types_of(node) & WORKS_WITH_FACTS), None)
    if work is None:
        return {}
    known = by_id(nodes)
    facts = {
        fact: [text for name in sources.json_ld for text in _labels(_values(work, name))]
        for fact, sources in _sources().items()
    }
    facts["doi"] = list(_identifiers(work))
    facts["authors"] = [
        text
        for name in _sources()["authors"].json_ld
        for person in _resolved(_values(work, name, MAX_AUTHORS), known)
        if (text := _person(person)) is not None
    ]
    facts["journal"] = []
    for part in _wholes(work, known):
        for fact, name in _JSON_LD_OF_WHOLE.items():
            facts.setdefault(fact, []).extend(_labels(_values(part, name)))
        if types_of(part) & _CONTAINERS:
            facts["journal"] += _labels(_values(part, "name"))
    return facts


def _wholes(work: Node, known: Mapping[str, Node]) -> Iterator[Node]:
    """What the work is part of, and what that is part of."""
    level: list[Node] = [work]
    for _ in range(MAX_PARTS):
        parts = (part for node in level for part in _resolved(_values(node, "isPartOf"), known))
        level = list(islice((part for part in parts if isinstance(part, Mapping)), MAX_PARTS))
        yield from level


def _values(node: Node, name: str, most: int = MAX_LISTED) -> Any:
    """What a property holds; of a list no more than `most` items."""
    value = node.get(name)
    return value[:most] if isinstance(value, list) else value


def _resolved(value: Any, known: Mapping[str, Node]) -> Iterator[Any]:
    """The objects of a value, or its texts; a bare reference becomes the node that it refers to."""
    if isinstance(value, str):
        yield known.get(value, value)
    yield from (dereferenced(item, known) for item in objects(value))
    if isinstance(value, list):
        yield from (known.get(item, item) for item in value if isinstance(item, str))


def _person(value: Any) -> str | None:
    """`name\\nORCID address` of a person or organisation, or None."""
    if isinstance(value, str):
        return None if value.startswith(("http:", "https:", "_:", "#")) else value
    given, family = (next(texts(_values(value, name)), "") for name in ("givenName", "familyName"))
    name = next(texts(_values(value, "name")), "") or f"{given} {family}".strip()
    addresses = (
        text for key in ("@id", "sameAs", "identifier", "url") for text in _labels(_values(value, key, MAX_ADDRESSES))
    )
    return f"{name}\n{next((text for text in addresses if clean_orcid(text)), '')}" if name else None


def _identifiers(work: Node) -> Iterator[str]:
    yield from texts(_values(work, "doi"))
    for value in objects(_values(work, "identifier")):
        if "doi" in " ".join((*texts(value.get("propertyID")), *texts(value.get("name")))).lower():
            yield from texts(value.get("value"))
        yield from texts(value)
    for name in ("identifier", "@id", "sameAs", "url"):
        yield from (text for text in texts(_values(work, name)) if find_doi(text))


def _labels(value: Any) -> list[str]:
    """Texts as a reader sees them: the name of an object rather than its address."""
    named = [item.get("name") or item.get("alternateName") or item.get("value") or item for item in objects(value)]
    if isinstance(value, list):
        value = [item for item in value if not isinstance(item, Mapping)]
    plain = None if isinstance(value, Mapping) else value
    return [*(text for item in named for text in texts(item)), *texts(plain)]


def _people(contents: Iterable[str]) -> list[str]:
    """The names in texts; they may be separated by semicolons, never by commas, which belong to them."""
    parts = (part for text in contents for part in text[:MAX_VALUE].split(";"))
    return [name for part in islice(parts, MAX_VALUES) if (name := clean_name(part)) is not None]


def _merged(authors: Iterable[Author]) -> Iterator[Author]:
    seen: dict[str, Author] = {}
    for author in authors:
        known = seen.setdefault(author.name.casefold(), author)
        if known.orcid is None and author.orcid is not None:
            seen[author.name.casefold()] = author
    yield from seen.values()
