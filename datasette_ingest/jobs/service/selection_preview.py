"""A selection before its job starts: how many rows, pages of them, and what the enrichment says of the first ones.

Every question has a time limit; where it passes, the answer is None.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pydantic

from ... import compat
from .. import keyset, selection
from ..engine.planning import columns_to_read
from ..enrichment import Enrichment, Selected
from ..errors import BadSelection
from ..keyset import Page, TableKey
from ..selection import Selection
from . import row_filters
from .permissions import Actor, EnrichableTable

log = logging.getLogger(__name__)

T = TypeVar("T")

PAGE_ROWS = 20
PREVIEWED_ROWS = 2_000
"""The first rows of the selection, which an enrichment's preview is given."""
QUICK_MS = 500.0
"""Time limit of a question while a page is being opened."""
SLOW_MS = selection.WAIT_MS
"""Time limit of a question when somebody asks again for what QUICK_MS left open."""
PREVIEW_GRACE_SECONDS = 1.0
"""How much longer than one question an enrichment's preview may take."""


@dataclass(frozen=True)
class Preview:
    """The rows of a table that filters select for one actor."""

    table: EnrichableTable
    key: TableKey
    selection: Selection

    @property
    def filters(self) -> str:
        """The filters as a Datasette query string, without display keys."""
        return self.selection.querystring


@dataclass(frozen=True)
class Rows:
    """A page of rows in key order. `filters[i]` selects row i alone, None where no address can; `next` is the cursor of
    the following page, None on the last."""

    rows: list[dict[str, Any]]
    filters: list[str | None]
    next: str | None


async def open_preview(datasette: Any, table: EnrichableTable, *, filters: str = "", actor: Actor = None) -> Preview:
    """Resolve the filters, without reading a row.

    :param table: from `permissions.require_table`, which has checked the actor
    :raises JobError: when the filters do not fit the table, or the actor may not use them
    """
    key = await compat.read(table.db, lambda conn: keyset.table_key(conn, table.name))
    rows = await selection.resolve(datasette, table.db, table.name, filters, actor, columns=table.columns)
    return Preview(table, key, rows)


async def count(preview: Preview, limit_ms: float = SLOW_MS) -> int | None:
    """How many rows are selected, exactly.

    :raises BadSelection: when a person's own SQL fails on some row
    """
    return await selection.count(preview.table.db, preview.table.name, preview.selection, limit_ms=limit_ms)


async def first_rows(preview: Preview, columns: Sequence[str], *, limit: int, limit_ms: float) -> Page | None:
    """The first rows, with these columns.

    :raises BadSelection: as `count`
    """
    chosen = preview.selection
    return await _in_time(
        preview,
        lambda conn: keyset.page(conn, preview.key, columns, chosen.where, chosen.params, limit=limit),
        limit_ms,
    )


async def rows(
    preview: Preview, *, after: str | None = None, limit: int = PAGE_ROWS, limit_ms: float = SLOW_MS
) -> Rows | None:
    """The rows behind the cursor `after`, all columns.

    :raises BadSelection: for a cursor of another table
    """
    key, columns = preview.key, preview.table.columns

    def read(conn: sqlite3.Connection) -> Rows:
        start = keyset.load(after) if after else None
        where, params = preview.selection.where, preview.selection.params
        page = keyset.page(conn, key, columns, where, params, after=start, limit=limit + 1)
        shown = page.slice(0, limit)
        keys = [shown.key(number) for number in range(len(shown))]
        return Rows(
            [dict(zip(columns, row, strict=False)) for row in shown.rows],
            row_filters.filters_of(conn, key, keys),
            keyset.dump(key.cursor_of(keys[-1])) if len(page) > limit else None,
        )

    try:
        return await _in_time(preview, read, limit_ms)
    except (ValueError, TypeError, OverflowError):
        raise BadSelection("There is no such page of rows: open the form again") from None


async def facts(
    datasette: Any,
    preview: Preview,
    enrichment: Enrichment,
    values: Mapping[str, Any],
    number: int | None,
    limit_ms: float,
) -> dict[str, Any] | None:
    """What the enrichment says of the selection with these settings: label -> text, number, or numbers by word.

    Nothing while the settings are incomplete, or when its preview fails: the form works without.

    :param number: how many rows are selected, None if that is unknown
    """
    table, chosen = preview.table, preview.selection
    try:
        config = enrichment.Config.model_validate(dict(values))
        columns = columns_to_read(table.name, table.columns, enrichment, config)
        page = await first_rows(preview, columns, limit=PREVIEWED_ROWS, limit_ms=limit_ms)
        if page is None:
            return None
        first = [dict(zip(columns, row, strict=False)) for row in page.rows]
        selected = Selected(table.db, table.name, chosen.where, dict(chosen.params), number, len(first), limit_ms)
        offered = {
            "rows": first,
            "config": config,
            "datasette": datasette,
            "db": table.db,
            "table": table.name,
            "selected": selected,
        }
        names = inspect.signature(enrichment.preview).parameters
        called = _call_preview(enrichment, {name: offered[name] for name in names if name in offered})
        return dict(await asyncio.wait_for(called, limit_ms / 1000 + PREVIEW_GRACE_SECONDS))
    except (pydantic.ValidationError, BadSelection):
        return {}
    except (asyncio.TimeoutError, TimeoutError):
        return None
    except Exception:
        log.exception("The preview of the enrichment %s failed", enrichment.slug)
        return {}


async def _call_preview(enrichment: Enrichment, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return await enrichment.preview(**asked)
    except SystemExit as problem:  # it would end the server
        raise RuntimeError(f"SystemExit: {problem}") from problem


def price(enrichment: Enrichment, rows_: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> int | None:
    """What these rows would cost, in 10^-9 dollar; None where the enrichment does not say."""
    try:
        return enrichment.price_nanodollars(rows_, enrichment.Config.model_validate(dict(values)))
    except pydantic.ValidationError:
        return None
    except Exception:
        log.exception("The enrichment %s has no price", enrichment.slug)
        return None


async def _in_time(preview: Preview, read: Callable[[sqlite3.Connection], T], limit_ms: float) -> T | None:
    try:
        return await compat.read(preview.table.db, read, limit_ms=limit_ms)
    except compat.Interrupted:
        return None
    except sqlite3.Error as problem:
        raise BadSelection(f"These filters fail on some row: {problem}") from None
