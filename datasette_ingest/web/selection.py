"""A selection on a page: how many rows, a page of them to tick, and what the enrichment says of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

from .. import compat
from ..jobs import registry
from ..jobs.enrichment import Enrichment
from ..jobs.errors import BadSelection
from ..jobs.model import dollars
from ..jobs.service import selection_preview, turns
from ..jobs.service.outcomes import latest_outputs
from ..jobs.service.permissions import EnrichableTable
from ..jobs.service.row_filters import MAX_ROWS
from ..jobs.service.selection_preview import PAGE_ROWS, SLOW_MS, Preview, Rows
from ..sqlite import fold, json_cell
from ..text import counted
from .urls import LONGEST_ADDRESS, Links

SHOWN_COLUMNS = 6

# ---- rows that are ticked on the form ---------------------------------------------------------------------------

TICKED, SHOWN, TRAIL, NEXT, TURN = "ticked", "shown", "trail", "next", "turn"
"""Names of the form's fields: all ticked rows, the rows of this page, the pages before, the next page, the button."""
TICK = "tick."
"""Begins the name of a row's checkbox; the row's filter follows."""
MOST_PAGES_BACK = 200
MOST_READ = 2 * MAX_ROWS
"""Ticked rows of a form that are read at all: enough to say how many are too many."""
ROW_FILTERS = frozenset({"_row", "_rowid"})


@dataclass(frozen=True)
class TickedRows:
    """`filters`: each selects one row (`_row=5`), in the order in which the rows were ticked. `trail`: the cursors of
    the pages that were seen, the last one that of the page to show; `""` is the first page."""

    filters: tuple[str, ...] = ()
    trail: tuple[str, ...] = ("",)

    @property
    def cursor(self) -> str:
        return self.trail[-1]

    @property
    def is_first_page(self) -> bool:
        return len(self.trail) == 1

    @property
    def querystring(self) -> str:
        return "&".join(self.filters)

    @property
    def trail_text(self) -> str:
        return json.dumps(self.trail)

    @property
    def fault(self) -> str | None:
        """What is wrong with more ticked rows than a job can have."""
        if len(self.filters) <= MAX_ROWS:
            return None
        return (
            f"{len(self.filters):,} rows are ticked; {MAX_ROWS:,} is the most. Untick some, or untick all and filter the "
            "table instead"
        )


def ticked_rows(form: Mapping[str, str]) -> TickedRows:
    """The ticked rows, and the page to show, after the button that was pressed.

    :raises BadSelection: for fields that our form never sends
    """
    before, shown = _row_filters(form.get(TICKED, "")), _row_filters(form.get(SHOWN, ""))
    here = _row_filters("&".join(name[len(TICK) :] for name in form if name.startswith(TICK)))
    unticked = set(shown) - set(here)
    kept = [each for each in before if each not in unticked]
    filters = () if form.get(TURN) == "clear" else tuple(dict.fromkeys([*kept, *here]))
    return TickedRows(filters, _turned(_trail(form.get(TRAIL, "")), form.get(TURN, ""), form.get(NEXT, "")))


def single_rows(querystring: str) -> tuple[str, ...]:
    """The filters of single rows that a query string consists of; none where it holds any other filter."""
    try:
        return tuple(dict.fromkeys(_row_filters(querystring)))
    except BadSelection:
        return ()


def is_turning(form: Mapping[str, str]) -> bool:
    """Whether another page of rows was asked for."""
    return form.get(TURN) in ("next", "back")


def _turned(trail: tuple[str, ...], turn: str, following: str) -> tuple[str, ...]:
    if turn == "next" and following:
        return (*trail, following)[-MOST_PAGES_BACK:]
    if turn == "back" and len(trail) > 1:
        return trail[:-1]
    return trail


def _row_filters(text: str) -> list[str]:
    """A query string's filters one by one, in our spelling."""
    if text.count("&") >= MOST_READ:
        raise BadSelection(
            f"More than {MOST_READ:,} rows are ticked; {MAX_ROWS:,} is the most. Filter the table instead"
        )
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
    except ValueError:
        pairs = [("", text)]
    if any(key not in ROW_FILTERS for key, _ in pairs):
        raise BadSelection("The ticked rows cannot be read: open the form again")
    return [urlencode([pair]) for pair in pairs]


def _trail(text: str) -> tuple[str, ...]:
    if not text:
        return ("",)
    try:
        trail = json.loads(text)
    except (ValueError, RecursionError):
        trail = None
    if not isinstance(trail, list) or not trail or not all(isinstance(cursor, str) for cursor in trail):
        raise BadSelection("There is no such page of rows: open the form again")
    return tuple(trail[-MOST_PAGES_BACK:])


# ---- the selection as it is shown -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """A selection as far as it is known. `count`, `rows` and `facts` are None where asking took too long. `used`: the
    columns that the settings name; `written`: columns that jobs wrote, in lower case."""

    preview: Preview
    ticked: TickedRows
    count: int | None
    rows: Rows | None
    facts: Mapping[str, Any] | None
    used: Sequence[str] = ()
    written: frozenset[str] = frozenset()

    @property
    def number(self) -> int | None:
        """How many rows a job would have."""
        return len(self.ticked.filters) or self.count

    @property
    def is_complete(self) -> bool:
        return self.count is not None and self.rows is not None and self.facts is not None

    @property
    def number_words(self) -> str:
        """`40 rows`, `3 selected rows`, or words for a number that is not known yet."""
        if self.ticked.filters:
            return counted(len(self.ticked.filters), "selected row")
        return "all rows that match" if self.count is None else counted(self.count, "row")


async def show(
    datasette: Any,
    request: Any,
    table: EnrichableTable,
    filters: str,
    *,
    ticked: TickedRows | None = None,
    enrichment: Enrichment | None = None,
    values: Mapping[str, Any] | None = None,
    limit_ms: float = SLOW_MS,
    rows_limit_ms: float | None = None,
    page_rows: int = PAGE_ROWS,
) -> Shown:
    """Look at the selection within these time limits.

    :param rows_limit_ms: for the page of rows, where it differs
    :raises JobError: when the filters do not fit the table
    :raises TooMany: when the actor asks too many such questions at once
    """
    ticked, values = ticked or TickedRows(), values or {}
    rows_limit_ms = limit_ms if rows_limit_ms is None else rows_limit_ms
    facts: Mapping[str, Any] | None = {}
    async with turns.turn(datasette, request.actor):
        preview = chosen = await selection_preview.open_preview(datasette, table, filters=filters, actor=request.actor)
        if ticked.filters and not ticked.fault:
            chosen = await selection_preview.open_preview(
                datasette, table, filters=ticked.querystring, actor=request.actor
            )
        count = await selection_preview.count(preview, limit_ms)
        rows = await selection_preview.rows(preview, after=ticked.cursor, limit=page_rows, limit_ms=rows_limit_ms)
        if enrichment is not None and not ticked.fault:
            number = len(ticked.filters) or count
            facts = await selection_preview.facts(datasette, chosen, enrichment, values, number, limit_ms)
            facts = None if facts is None else {**facts, **_price(enrichment, rows, values, number)}
    known = await registry.enrichments(datasette)
    outputs = await compat.read(table.db, lambda conn: latest_outputs(conn, table.name, known))
    written = frozenset().union(*(output.columns for output in outputs))
    used = [str(value) for value in values.values() if value in table.columns]
    return Shown(preview, ticked, count, rows, facts, used, written)


def _price(enrichment: Enrichment, rows: Rows | None, values: Mapping[str, Any], number: int | None) -> dict[str, str]:
    """The price of the whole job, from that of the rows shown; nothing where the enrichment names none."""
    if rows is None or not rows.rows or not number:
        return {}
    cost = selection_preview.price(enrichment, rows.rows, values)
    if cost is None:
        return {}
    return {"Price": f"about {dollars(round(cost * number / len(rows.rows)))}, judging by the first rows"}


def as_json(shown: Shown) -> dict[str, Any]:
    """The selection for programs: all columns of the first rows.

    :raises BadSelection: where the rows are not known
    """
    if shown.rows is None:
        raise BadSelection("Finding the first of the selected rows takes too long. Choose simpler filters")
    table = shown.preview.table
    return {
        "database": table.db.name,
        "table": table.name,
        "filters": shown.preview.filters,
        "count": shown.count,
        "columns": list(table.columns),
        "rows": [{name: json_cell(value) for name, value in row.items()} for row in shown.rows.rows],
    }


def context(links: Links, shown: Shown) -> dict[str, Any]:
    """What the templates of a selection ask for."""
    table, filters, ticked = shown.preview.table, shown.preview.filters, shown.ticked.querystring
    rows = Rows([], [], None) if shown.rows is None else shown.rows
    return {
        "table": table.name,
        "filters": filters,
        "table_url": links.table(table.db.name, table.name, filters if len(filters) <= LONGEST_ADDRESS else ""),
        "shown": shown,
        "description": shown.preview.selection.description,
        "ticked_url": links.table(table.db.name, table.name, ticked) if 0 < len(ticked) <= LONGEST_ADDRESS else None,
        "facts": [(label, _fact(value)) for label, value in (shown.facts or {}).items()],
        "columns": telling_columns(
            table.columns, key=shown.preview.key.columns, used=shown.used, written=shown.written, rows=rows.rows
        ),
        "rows": list(zip(rows.filters, rows.rows, strict=True)),
        "shown_filters": "&".join(filter(None, rows.filters)),
        "next_rows": rows.next,
    }


def _fact(value: Any) -> str | list[tuple[str, str]]:
    """A fact for reading: text, or words with their numbers."""
    if isinstance(value, Mapping):
        return [(str(word), _figure(number)) for word, number in value.items()]
    return _figure(value)


def _figure(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def telling_columns(
    columns: Sequence[str],
    *,
    key: Sequence[str],
    used: Sequence[str],
    written: frozenset[str],
    rows: Sequence[Mapping[str, Any]],
    most: int = SHOWN_COLUMNS,
) -> list[str]:
    """The few columns by which a person recognises a row: its key, what the enrichment reads, then those that have
    values. Never what a job wrote (`written`, in lower case)."""
    first = [name for name in dict.fromkeys((*key, *used)) if name in columns]
    rest = [
        name
        for name in columns
        if name not in first
        and fold(name) not in written
        and (not rows or any(row[name] is not None and not isinstance(row[name], bytes) for row in rows))
    ]
    return [*first, *rest[: max(0, most - len(first))]]
