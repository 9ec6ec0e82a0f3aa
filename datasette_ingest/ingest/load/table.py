"""Rows of a table as requests: which column is what, and a row of cells -> a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..store.requests import RequestRow
from .errors import BadInput, Refused
from .rows import Given, known_type, required, row_json, text_of, unicode_row
from .where import Where

GUESSES: dict[str, tuple[str, ...]] = {
    "url": (
        *("base_url", "url", "pdf_url", "url_for_pdf", "fulltext_url", "full_text_url", "link", "href", "uri"),
        *("oa_url", "landing_page_url", "landing_page"),
    ),
    "type": ("ingest_type",),
    "source": ("source", "link_source", "ingest_source"),
    "source_id": ("source_id", "link_source_id", "id", "identifier"),
    "doi": ("doi",),
    "stage": ("release_stage",),
}
"""What a column is for -> its usual names, in lower case, the likeliest first."""


@dataclass(frozen=True)
class Columns:
    """The names of columns; None for what the table does not have."""

    url: str | None = None
    type: str | None = None
    source: str | None = None
    source_id: str | None = None
    doi: str | None = None
    stage: str | None = None

    def found(self, head: Sequence[str], given: Given) -> Columns:
        """The columns of a table with this head: those named here, the others guessed. A given source is for all rows,
        unless a column is named for it.

        :raises BadInput: for a column that does not exist or occurs twice, and where neither URL nor DOI is found
        """
        names = {purpose: getattr(self, purpose) or _guess(head, GUESSES[purpose]) for purpose in GUESSES}
        if given.source:
            names["source"] = self.source
        listed = ", ".join(map(repr, head[:20])) + (" …" if len(head) > 20 else "")
        for name in filter(None, names.values()):
            if head.count(name) != 1:
                how = "there is no column" if name not in head else "more than one column is named"
                raise BadInput(f"{how} {name!r}; the columns are {listed}")
        if names["url"] is None and names["doi"] is None:
            raise BadInput(
                "no column seems to hold URLs or DOIs; name one with --url-column or --doi-column. "
                f"The columns are {listed}"
            )
        return Columns(**names)


def _guess(head: Sequence[str], usual: Sequence[str]) -> str | None:
    folded = {name.strip().lower(): name for name in reversed(head)}
    return next((folded[name] for name in usual if name in folded), None)


RowReader = Callable[[Sequence[Any]], Sequence[RequestRow]]


def row_reader(head: Sequence[str], columns: Columns, given: Given, where: Where | None) -> RowReader:
    """What makes a row of cells a request. The URL is that of the URL column, or else the DOI; the identifier is that of
    its column, or else the DOI, or else the URL.

    :param columns: from `Columns.found`
    :raises BadInput: where nothing says what the source is
    """
    if columns.source is None and not given.source:
        raise BadInput("nothing says where these requests are from; give --source NAME")
    places = {purpose: _place(head, getattr(columns, purpose)) for purpose in GUESSES}
    width = len(head)
    id_is_named = columns.source_id is not None

    def cell(row: Sequence[Any], purpose: str) -> str | None:
        place = places[purpose]
        text = None if place is None else text_of(row[place])
        return None if text is None or not text or text.isspace() else text

    def read(row: Sequence[Any]) -> Sequence[RequestRow]:
        if len(row) != width:
            raise Refused(f"{len(row)} cells, where the head has {width}")
        if where is not None and not where.holds(dict(zip(head, row, strict=True))):
            return ()
        kind = cell(row, "type")
        kind = given.ingest_type if kind is None else known_type(kind.strip().lower())
        if given.only_type is not None and kind != given.only_type:
            return ()
        url, doi = cell(row, "url"), cell(row, "doi")
        base_url = required(url or doi, columns.url or columns.doi or "")
        source_id = cell(row, "source_id") if id_is_named else (doi or base_url)
        found = (
            kind,
            base_url,
            required(cell(row, "source") or given.source, columns.source or "source"),
            required(source_id, columns.source_id or "source_id"),
            given.actor,
            given.created,
            cell(row, "stage"),
            row_json({"ext_ids": {"doi": doi}}) if doi else None,
        )
        return (unicode_row(found),)

    return read


def _place(head: Sequence[str], name: str | None) -> int | None:
    return None if name is None else head.index(name)
