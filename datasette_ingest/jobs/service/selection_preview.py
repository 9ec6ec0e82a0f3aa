"""A selection before its job: how many rows, pages of them, a sample, and what the enrichment says of it.

Nothing here waits for long: each question has a limit in time, and where it passes the answer is that it is not known.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import json
import logging
import random
import sqlite3
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pydantic

from ... import compat, sqlite
from .. import keyset, selection
from ..enrichment import Enrichment, Selected
from ..errors import BadSelection
from ..keyset import TableKey
from ..selection import Selection
from . import control, row_filters
from .control import Actor

log = logging.getLogger(__name__)

T = TypeVar("T")

PAGE_ROWS = 20
SAMPLE_ROWS = 2_000
"""Rows that an enrichment's preview draws its facts from."""


@dataclass(frozen=True)
class Patience:
    """How long a person waits, in milliseconds, for each question to the database, and for the enrichment's facts."""

    question_ms: float
    facts_ms: float


BRISK = Patience(500, 1_500)
"""While a page is being opened."""
PATIENT = Patience(20_000, 25_000)
"""When somebody asks for what BRISK left open."""
MOST_PATIENT = 2
"""Readers who may be patient at once: one fewer than the threads with which Datasette reads, unless it is told
otherwise, so that slow questions leave one for all other pages."""

_WAITING: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


@contextlib.contextmanager
def among_few(datasette: Any, *asked: Patience) -> Iterator[tuple[Patience, ...]]:
    """The patience that one more reader may have while the block lasts: what was asked for, or BRISK where MOST_PATIENT
    others wait already."""
    if all(each.question_ms <= BRISK.question_ms for each in asked):
        yield asked
        return
    if _WAITING.get(datasette, 0) >= MOST_PATIENT:
        yield tuple(BRISK for _ in asked)
        return
    _WAITING[datasette] = _WAITING.get(datasette, 0) + 1
    try:
        yield asked
    finally:
        _WAITING[datasette] -= 1


@dataclass(frozen=True)
class Survey:
    """The rows that filters select on a table, for one actor. `columns` are the table's, in its order."""

    db: Any
    key: TableKey
    selection: Selection
    columns: tuple[str, ...]

    @property
    def table(self) -> str:
        return self.key.table

    @property
    def filters(self) -> str:
        """The filters as a Datasette querystring, display keys dropped."""
        return self.selection.querystring


@dataclass(frozen=True)
class Rows:
    """A page of rows in key order. `filters[i]` selects row i alone, None where no address can; `next` is the cursor of
    the page behind it, None on the last."""

    rows: list[dict[str, Any]]
    filters: list[str | None]
    next: str | None


async def look(datasette: Any, database: str, table: str, *, filters: str = "", actor: Actor = None) -> Survey:
    """Find out what the filters mean, without reading a row.

    :raises JobError: when the actor may not enrich the table, or the filters do not fit it
    """
    db = await control.require_table(datasette, actor, database, table)
    key = await compat.read(db, lambda conn: keyset.table_key(conn, table))
    resolved = await selection.resolve(datasette, db, table, filters, actor)
    return Survey(db, key, resolved, tuple(await columns_of(db, table)))


async def columns_of(db: Any, table: str) -> list[str]:
    """The table's columns in its order; asks nobody's permission."""
    return await compat.read(db, lambda conn: sqlite.columns(conn, table))


async def count(survey: Survey, patience: Patience = PATIENT) -> int | None:
    """How many rows are selected, exactly; None when counting takes too long.

    :raises BadSelection: when a person's own SQL fails on some row
    """
    where = survey.selection.where
    sql = f"select count(*) from {keyset.quote(survey.table)}" + (f" where {where}" if where else "")

    def ask(conn: sqlite3.Connection) -> int:
        return int(conn.execute(sql, dict(survey.selection.params)).fetchone()[0])

    return await _in_time(survey, ask, patience)


async def rows(
    survey: Survey, *, after: str | None = None, limit: int = PAGE_ROWS, patience: Patience = PATIENT
) -> Rows | None:
    """The rows behind the cursor `after`, all columns; None when finding them takes too long.

    :raises BadSelection: for a cursor that is not of this table
    """
    key, where, params = survey.key, survey.selection.where, survey.selection.params

    def ask(conn: sqlite3.Connection) -> Rows:
        start = keyset.load(after) if after else None
        page = keyset.page(conn, key, survey.columns, where, params, after=start, limit=limit + 1)
        shown = page.slice(0, limit)
        keys = [shown.key(number) for number in range(len(shown))]
        return Rows(
            [dict(zip(survey.columns, row, strict=False)) for row in shown.rows],
            row_filters.filters_of(conn, key, keys),
            keyset.dump(key.cursor_of(keys[-1])) if len(page) > limit else None,
        )

    try:
        return await _in_time(survey, ask, patience)
    except (ValueError, TypeError, OverflowError):
        raise BadSelection("This page of rows does not exist: begin again at the first") from None


async def facts(
    datasette: Any,
    survey: Survey,
    enrichment: Enrichment,
    values: Mapping[str, Any],
    number: int | None,
    patience: Patience,
) -> dict[str, Any] | None:
    """What the enrichment says of the selection with these settings: label -> text, number, or numbers by word.

    Nothing while the settings are incomplete, or when its preview fails: it must not stand between a person and the
    form. None when it takes too long.

    :param number: how many rows are selected, None if that is not known
    """
    try:
        config = enrichment.Config.model_validate(dict(values))
        asked = enrichment.columns(config)
        columns = [name for name in (survey.columns if asked is None else asked) if name in survey.columns]
        sampled = await _in_time(survey, lambda conn: sample(conn, survey, columns, number), patience)
        if sampled is None:
            return None
        offered = {
            "rows": sampled,
            "config": config,
            "datasette": datasette,
            "db": survey.db,
            "table": survey.table,
            "selected": Selected(
                survey.db,
                survey.table,
                survey.selection.where,
                dict(survey.selection.params),
                number,
                len(sampled),
                patience.question_ms,
            ),
        }
        names = inspect.signature(enrichment.preview).parameters
        called = _previewed(enrichment, {name: offered[name] for name in names if name in offered})
        return dict(await asyncio.wait_for(called, patience.facts_ms / 1000))
    except pydantic.ValidationError:
        return {}
    except (asyncio.TimeoutError, TimeoutError):
        return None
    except Exception:
        log.exception("The preview of the enrichment %s failed", enrichment.slug)
        return {}


async def _previewed(enrichment: Enrichment, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        return await enrichment.preview(**asked)
    except SystemExit as problem:  # it would end the server
        raise RuntimeError(f"SystemExit: {problem}") from problem


def price(enrichment: Enrichment, rows_: Sequence[Mapping[str, Any]], values: Mapping[str, Any]) -> int | None:
    """What these rows would cost, in 10^-9 dollar; None where the enrichment does not say."""
    try:
        config = enrichment.Config.model_validate(dict(values))
        return enrichment.price_nanodollars(rows_, config)
    except pydantic.ValidationError:
        return None
    except Exception:
        log.exception("The enrichment %s has no price", enrichment.slug)
        return None


def sample(
    conn: sqlite3.Connection, survey: Survey, columns: Sequence[str], number: int | None
) -> list[dict[str, Any]]:
    """Rows from all over the selection, the same ones each time where rows have a number; all of them where they are
    few, the first ones where their count is not known."""
    where = survey.selection.where
    if number is not None and number > SAMPLE_ROWS:
        found = _scattered(conn, survey, columns) if survey.key.rowid is not None else []
        if len(found) > SAMPLE_ROWS / 2:
            return found
        where = f"{where} and {_one_of(survey.key, number)}" if where else f"({_one_of(survey.key, number)})"
    page = keyset.page(conn, survey.key, columns, where, survey.selection.params, limit=2 * SAMPLE_ROWS)
    return [dict(zip(columns, row, strict=False)) for row in page.rows]


def _scattered(conn: sqlite3.Connection, survey: Survey, columns: Sequence[str]) -> list[dict[str, Any]]:
    """A row of each of SAMPLE_ROWS stretches of rowids: the first that is selected behind a place in the stretch that
    is drawn by lot, the same one each time. No row is looked at twice, and of a dense selection few are.

    Few rows are found where the selected ones stand close together.
    """
    rowid, table, where = survey.key.rowid, keyset.quote(survey.table), survey.selection.where
    ends = f"select (select min({rowid}) from {table}), (select max({rowid}) from {table})"
    first, last = conn.execute(ends).fetchone()  # one query for both would read the whole table
    if first is None:
        return []
    lot = random.Random(0)
    edges = [first + (last + 1 - first) * number // SAMPLE_ROWS for number in range(SAMPLE_ROWS + 1)]
    starts = [low + lot.randrange(max(1, high - low)) for low, high in itertools.pairwise(edges)]
    stretches = [(start, min(end - 1, last)) for start, end in itertools.pairwise([*starts, last + 1])]
    one = (
        f"select {rowid} from {table} where {rowid} between json_extract(_ingest_stretch.value, '$[0]') "
        f"and json_extract(_ingest_stretch.value, '$[1]'){f' and {where}' if where else ''} order by {rowid} limit 1"
    )
    drawn = conn.execute(
        f"select ({one}) from json_each(:_ingest_stretches) as _ingest_stretch",
        {**survey.selection.params, "_ingest_stretches": json.dumps(stretches)},
    )
    rowids = json.dumps([row[0] for row in drawn if row[0] is not None])
    among = f"({rowid} in (select value from json_each(:rowids)))"
    page = keyset.page(conn, survey.key, columns, among, {"rowids": rowids})
    return [dict(zip(columns, row, strict=False)) for row in page.rows]


def _one_of(key: TableKey, number: int) -> str:
    """SQL that is true of about SAMPLE_ROWS of `number` rows, wherever they stand."""
    share = int(65_536 * SAMPLE_ROWS / number) + 1
    if key.rowid is None:
        return f"(random() & 65535) < {share}"
    scattered = f"((({key.rowid} & 2147483647) * 1327217885) >> 15 & 65535)"  # multiplicative hashing, within 63 bits
    return f"{scattered} < {share}"


async def _in_time(survey: Survey, ask: Callable[[sqlite3.Connection], T], patience: Patience) -> T | None:
    try:
        return await compat.read(survey.db, ask, limit_ms=patience.question_ms)
    except compat.Interrupted:
        return None
    except sqlite3.Error as problem:
        raise BadSelection(f"These filters fail on some row: {problem}") from None
