"""A selection as the pages show it: how many rows, a page of them to tick, and what the enrichment says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..jobs.enrichment import Enrichment
from ..jobs.errors import BadSelection
from ..jobs.model import dollars
from ..jobs.service import selection_preview
from ..jobs.service.row_filters import MAX_PICKED
from ..jobs.service.selection_preview import Patience, Rows, Survey
from ..sqlite import fold
from . import format, outcomes
from .ticked_rows import Picking
from .urls import LONGEST_ADDRESS, Links

SHOWN_COLUMNS = 6


@dataclass(frozen=True)
class Shown:
    """A selection as far as it is known. `count`, `rows` and `facts` are None where asking took too long. `chosen` are
    the rows of the job: those that are picked, or all."""

    whole: Survey
    chosen: Survey
    picking: Picking
    count: int | None
    rows: Rows | None
    facts: Mapping[str, Any] | None
    used: Sequence[str] = ()
    written: frozenset[str] = frozenset()

    @property
    def number(self) -> int | None:
        """How many rows a job would have."""
        return len(self.picking.picked) or self.count

    @property
    def is_complete(self) -> bool:
        return self.count is not None and self.rows is not None and self.facts is not None

    @property
    def number_words(self) -> str:
        """`40 rows`, `3 picked rows`, and what is said while the number is not known."""
        picked = len(self.picking.picked)
        if picked:
            return format.counted(picked, "picked row")
        return "all rows that match" if self.count is None else format.counted(self.count, "row")


async def gather(
    datasette: Any,
    request: Any,
    database: str,
    table: str,
    filters: str,
    *,
    picking: Picking | None = None,
    enrichment: Enrichment | None = None,
    values: Mapping[str, Any] | None = None,
    patience: Patience = selection_preview.PATIENT,
    rows_patience: Patience | None = None,
    page_rows: int = selection_preview.PAGE_ROWS,
) -> Shown:
    """Look at the selection, as long as the reader's patience lasts.

    :param rows_patience: for the page of rows, where it is another
    :raises JobError: when the actor may not enrich the table, or the filters do not fit it
    """
    picking = picking or Picking()
    whole = await selection_preview.look(datasette, database, table, filters=filters, actor=request.actor)
    chosen = whole
    if picking.picked and not picking.is_too_many:
        chosen = await selection_preview.look(
            datasette, database, table, filters=picking.querystring, actor=request.actor
        )
    facts: Mapping[str, Any] | None = {}
    with selection_preview.among_few(datasette, patience, rows_patience or patience) as (patience, rows_patience):
        count = await selection_preview.count(whole, patience)
        rows = await selection_preview.rows(whole, after=picking.cursor, limit=page_rows, patience=rows_patience)
        if enrichment is not None and not picking.is_too_many:
            number = len(picking.picked) or count
            facts = await selection_preview.facts(datasette, chosen, enrichment, values or {}, number, patience)
            facts = None if facts is None else {**facts, **_price(enrichment, rows, values or {}, number)}
    known = await outcomes.written(datasette, whole.db, table)
    return Shown(
        whole,
        chosen,
        picking,
        count,
        rows,
        facts,
        [str(value) for value in (values or {}).values() if value in whole.columns],
        frozenset().union(*(one.columns for one in known)),
    )


def _price(enrichment: Enrichment, rows: Rows | None, values: Mapping[str, Any], number: int | None) -> dict[str, str]:
    """The price of the whole job, from that of the rows shown; nothing where the enrichment names none."""
    if rows is None or not rows.rows or not number:
        return {}
    cost = selection_preview.price(enrichment, rows.rows, values)
    if cost is None:
        return {}
    return {"Price": f"about {dollars(round(cost * number / len(rows.rows)))}, by that of the first rows"}


def as_json(shown: Shown) -> dict[str, Any]:
    """The selection for programs: all columns of the first rows."""
    rows = [] if shown.rows is None else shown.rows.rows
    return {
        "filters": shown.whole.filters,
        "count": shown.count,
        "columns": list(shown.whole.columns),
        "rows": [{name: _json_value(value) for name, value in row.items()} for row in rows],
    }


def _json_value(value: Any) -> Any:
    return format.cell(value) if isinstance(value, bytes) else value


def context(links: Links, database: str, shown: Shown) -> dict[str, Any]:
    """What the templates of a selection ask for."""
    table, filters = shown.whole.table, shown.whole.filters
    rows = [] if shown.rows is None else shown.rows.rows
    columns = telling(
        shown.whole.columns, key=shown.whole.key.columns, used=shown.used, written=shown.written, rows=rows
    )
    picked = set(shown.picking.picked)
    return {
        "database": database,
        "table": table,
        "table_url": links.table(database, table, filters if len(filters) <= LONGEST_ADDRESS else ""),
        "jobs_url": links.jobs(database),
        "shown": shown,
        "description": shown.whole.selection.description,
        "picked_url": _picked_url(links, database, table, shown.picking),
        "facts": [(label, _fact(value)) for label, value in (shown.facts or {}).items()],
        "columns": columns,
        "rows": [
            {
                "filter": name,
                "is_ticked": name in picked,
                "label": format.cell(row.get(columns[0])) if columns else "",
                "cells": [format.cell(row[column]) for column in columns],
            }
            for row, name in zip(rows, [] if shown.rows is None else shown.rows.filters, strict=True)
        ],
        "shown_filters": "&".join(name for name in (shown.rows.filters if shown.rows else ()) if name),
    }


def _picked_url(links: Links, database: str, table: str, picking: Picking) -> str | None:
    """The picked rows on the table's own page, if an address can hold them."""
    if not picking.picked or len(picking.querystring) > LONGEST_ADDRESS:
        return None
    return links.table(database, table, picking.querystring)


def _fact(value: Any) -> str | list[tuple[str, str]]:
    """A fact for reading: text, or a list of words and their numbers."""
    if isinstance(value, Mapping):
        return [(str(word), _figure(number)) for word, number in value.items()]
    return _figure(value)


def _figure(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def telling(
    columns: Sequence[str],
    *,
    key: Sequence[str],
    used: Sequence[str],
    written: frozenset[str],
    rows: Sequence[Mapping[str, Any]],
    most: int = SHOWN_COLUMNS,
) -> list[str]:
    """The few columns by which a person tells a row: its key, what the enrichment reads, then those that hold
    something. Never what a job wrote (`written`, in lower case)."""
    first = [name for name in dict.fromkeys((*key, *used)) if name in columns]
    rest = [
        name
        for name in columns
        if name not in first
        and fold(name) not in written
        and (not rows or any(row[name] is not None and not isinstance(row[name], bytes) for row in rows))
    ]
    return [*first, *rest[: max(0, most - len(first))]]


def too_many(picking: Picking) -> BadSelection | None:
    """What is wrong with more picked rows than a job can name."""
    if not picking.is_too_many:
        return None
    return BadSelection(
        f"{len(picking.picked):,} rows are picked; {MAX_PICKED:,} is the most. Untick some, or clear them and filter "
        "the table until it shows the rows that you mean"
    )
