"""A dry run: an enrichment over a few rows, its outcome shown instead of written."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import sqlite3
import weakref
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ... import compat, sqlite
from .. import keyset, selection
from ..cache import Cache, get
from ..engine import batch_run, server
from ..engine.batch_run import JobHandle, Setting, Work
from ..engine.cycle import Done, Open
from ..engine.results import REFUSALS, storable
from ..enrichment import Enrichment
from ..errors import BadSelection, Cancel, Defer, JobError, Pause
from ..keyset import Page
from ..model import Batch, Job, JobStatus
from . import control
from .control import Actor

log = logging.getLogger(__name__)

TRIAL_ROWS = 3
TRIAL_SECONDS = 30.0
GRACE_SECONDS = 3.0
"""For what was called off to end; then it is left alone."""
MOST_TRIALS = 3

_AT_WORK: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
_NUMBERS = itertools.count(1)


class TooManyTrials(JobError):
    """Others are trying rows already."""

    status = 429


class WritesNothing(sqlite3.OperationalError):
    """An enrichment tried to write during a trial."""


@dataclass(frozen=True)
class TriedRow:
    """What became of one row. `values` would be written, `before` is what stands in those columns now (missing: there
    is no such column yet). `outcome` is the outcome word if it is known; `error` is a sentence."""

    key: Any
    values: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] = field(default_factory=dict)
    outcome: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Trial:
    """A dry run. `stopped`: why it ended early, a sentence. `output`: where the values would go (`columns`, `shadow`)."""

    rows: list[TriedRow]
    output: str = "columns"
    cost_nanodollars: int = 0
    stopped: str | None = None


async def try_rows(
    datasette: Any,
    database: str,
    table: str,
    *,
    enrichment: Enrichment,
    filters: str = "",
    config: Mapping[str, Any] | None = None,
    actor: Actor = None,
    seconds: float = TRIAL_SECONDS,
) -> Trial:
    """Enrich the first rows of a selection and write nothing. Everything is checked as for the start of a job.

    :raises JobError: when such a job could not be started either
    :raises TooManyTrials: while MOST_TRIALS others are under way
    """
    db = await control.require_table(datasette, actor, database, table)
    checked = await control.check_config(datasette, db, table, enrichment, config or {})
    resolved = await selection.resolve(datasette, db, table, filters, actor)
    key = await compat.read(db, lambda conn: keyset.table_key(conn, table))
    names, page = await _first_rows(db, key, resolved)
    setting = Setting(datasette, _ReadOnly(db), enrichment, checked, key, _columns(enrichment, checked, names, table))
    if not page.rows:
        return Trial([], enrichment.output(checked), stopped="No row is selected")
    actor_id = None if actor is None else actor.get("id")
    job = _no_job(database, table, enrichment, actor_id)
    if _AT_WORK.get(datasette, 0) >= MOST_TRIALS:
        raise TooManyTrials("Others are trying rows at this moment. Try again in half a minute")
    _AT_WORK[datasette] = _AT_WORK.get(datasette, 0) + 1
    try:
        return await server.run_apart(
            datasette, lambda: _run(setting, job, names, page, seconds), seconds=seconds + 2 * GRACE_SECONDS
        )
    except (asyncio.TimeoutError, TimeoutError):
        return Trial([], enrichment.output(checked), stopped=f"{enrichment.name} did not come back in {seconds:g} s")
    finally:
        _AT_WORK[datasette] -= 1


def _columns(enrichment: Enrichment, config: Any, names: list[str], table: str) -> tuple[str, ...]:
    asked = enrichment.columns(config)
    columns = tuple(names if asked is None else dict.fromkeys(asked))
    folded = set(map(sqlite.fold, names))
    for name in columns:
        if sqlite.fold(name) not in folded:
            raise BadSelection(f"The table {table!r} has no column {name!r}")
    return columns


async def _first_rows(db: Any, key: keyset.TableKey, resolved: selection.Selection) -> tuple[list[str], Page]:
    """The table's columns, and the first rows with all of them."""

    def read(conn: sqlite3.Connection) -> tuple[list[str], Page]:
        names = sqlite.columns(conn, key.table)
        return names, keyset.page(conn, key, names, resolved.where, resolved.params, limit=TRIAL_ROWS)

    try:
        return await compat.read(db, read, limit_ms=1000 * TRIAL_SECONDS)
    except compat.Interrupted:
        raise BadSelection("Finding the first rows takes too long. Choose simpler filters") from None
    except sqlite3.Error as problem:
        raise BadSelection(f"These filters fail on some row: {problem}") from None


def _no_job(database: str, table: str, enrichment: Enrichment, actor_id: Any) -> Job:
    """The job that there is not. Its number is one that no job has."""
    given = {
        "id": -next(_NUMBERS),
        "status": JobStatus.RUNNING.value,
        "enrichment": enrichment.slug,
        "database_name": database,
        "table_name": table,
        "actor_id": None if actor_id is None else str(actor_id),
    }
    return Job.from_row(defaultdict(lambda: None, given))


# ---- where jobs run ---------------------------------------------------------------------------------------------


class _TrialHandle(JobHandle):
    """The job as an enrichment sees it in a trial."""

    is_trial = True


class _TrialCache(Cache):
    """Gives what is stored; what it computes it keeps for this trial alone."""

    def __init__(self, db: Any, enrichment: str) -> None:
        super().__init__(db, enrichment)
        self._tried: dict[str, asyncio.Future[Any]] = {}

    async def get_or_set(self, key: str, compute: Callable[[], Awaitable[Any]], *, ttl: float | None = None) -> Any:
        if key not in self._tried:
            task = self._tried[key] = asyncio.ensure_future(self._found_or_computed(key, compute))
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # whoever waits has it
        return await asyncio.shield(self._tried[key])

    async def _found_or_computed(self, key: str, compute: Callable[[], Awaitable[Any]]) -> Any:
        found = await compat.read(self._db, lambda conn: get(conn, self._enrichment, key, self._clock()))
        return json.loads(found if found is not None else json.dumps(await compute()))


class _ReadOnly:
    """A database that refuses to be written to, for code that tries all the same."""

    is_memory = False
    """Whatever it is, it is read through `execute_fn`."""

    def __init__(self, db: Any) -> None:
        self._db = db

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    async def execute_fn(self, fn: Callable[[sqlite3.Connection], Any]) -> Any:
        return await compat.read(self._db, fn)

    async def execute_write_fn(self, fn: Callable[[sqlite3.Connection], Any], *args: Any, **kwargs: Any) -> Any:
        return await self.execute_fn(lambda conn: _held_back(conn, fn))

    async def execute_write(self, *args: Any, **kwargs: Any) -> Any:
        raise WritesNothing("A trial writes nothing")

    execute_write_script = execute_write
    execute_write_many = execute_write
    execute_isolated_fn = execute_write

    def connect(self, write: bool = False) -> Any:
        if write:
            raise WritesNothing("A trial writes nothing")
        return self._db.connect()


def _held_back(conn: sqlite3.Connection, fn: Callable[[sqlite3.Connection], Any]) -> Any:
    """`fn` on a connection that does not write: SQLite raises where it tries."""
    was_in_transaction, was_held = conn.in_transaction, conn.execute("pragma query_only").fetchone()[0]
    conn.execute("pragma query_only = 1")
    try:
        return fn(conn)
    finally:
        if conn.in_transaction and not was_in_transaction:
            conn.rollback()
        conn.execute(f"pragma query_only = {int(was_held)}")


async def _run(setting: Setting, job: Job, names: list[str], page: Page, seconds: float) -> Trial:
    """The trial itself, from the enrichment's `initialize` to its `close`."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    handle = _TrialHandle(job, _TrialCache(setting.db, setting.enrichment.slug))
    rows = [_row(setting, names, page, number) for number in range(len(page))]
    output = setting.enrichment.output(setting.config)
    try:
        batch_run.check_methods(setting.enrichment)
        await asyncio.wait_for(batch_run.call(setting, handle, setting.enrichment.initialize), seconds)
    except (asyncio.TimeoutError, TimeoutError):
        return Trial(rows, output, stopped=f"{setting.enrichment.name} did not begin within {seconds:g} s")
    except (Pause, Defer, Cancel) as wish:
        return Trial(rows, output, stopped=wish.reason)
    except Exception as problem:  # noqa: BLE001 - a stranger's code: what it raises is what the trial shows
        return Trial(rows, output, stopped=f"{setting.enrichment.name} could not begin: {batch_run.sentence(problem)}")
    try:
        return await _enrich(setting, handle, names, page, end - loop.time(), seconds)
    finally:
        await _close(setting, handle)


async def _close(setting: Setting, handle: JobHandle) -> None:
    try:
        await asyncio.wait_for(batch_run.call(setting, handle, setting.enrichment.close), GRACE_SECONDS)
    except Exception:
        log.exception("a trial of %s could not close", setting.enrichment.slug)


async def _enrich(
    setting: Setting, handle: JobHandle, names: list[str], page: Page, left: float, seconds: float
) -> Trial:
    """Hand the rows out as a job would, batch by batch, and gather what came back in time."""
    folded = [name.lower() for name in names]
    places = [folded.index(name.lower()) for name in setting.columns]
    narrow = Page([(*(row[place] for place in places), *row[page.width :]) for row in page.rows], len(places))
    size, at_once = (
        max(1, setting.enrichment.batch_size),
        asyncio.Semaphore(max(1, setting.enrichment.max_open_batches)),
    )
    batches = [
        Work(Open(Batch(-1 - start, handle.id, None, "", 0), narrow.slice(start, start + size)), handle, setting)
        for start in range(0, len(page), size)
    ]

    async def run(batch: Work) -> None:
        async with at_once:
            over = asyncio.Event()
            batch.start(lambda _, problem: over.set())
            await over.wait()

    running = [asyncio.ensure_future(run(batch)) for batch in batches]
    try:
        _, late = await asyncio.wait(running, timeout=max(0.0, left))
    finally:
        for task in running:
            task.cancel()
        for batch in batches:
            batch.call_off()
        ending = [batch.task for batch in batches if batch.task is not None and not batch.task.done()]
        if ending:
            await asyncio.wait(ending, timeout=GRACE_SECONDS)
    wish = next((batch.request.reason for batch in batches if batch.request is not None), None)
    reason = wish or (f"Not all rows were answered within {seconds:g} s" if late else None)
    rows: list[TriedRow] = []
    cost = 0
    for start, batch in zip(range(0, len(page), size), batches, strict=True):
        done = batch.take()
        cost += done.answer.cost_nanodollars if done is not None else 0
        numbers = range(start, min(start + size, len(page)))
        rows += [_row(setting, names, page, number, done, number - start) for number in numbers]
    return Trial(rows, setting.enrichment.output(setting.config), cost, reason)


def _row(
    setting: Setting, names: list[str], page: Page, number: int, done: Done | None = None, place: int = 0
) -> TriedRow:
    key = setting.key.public(page.key(number))
    if done is None or place >= done.answer.rows:
        return TriedRow(key, error="No answer")
    answer = done.answer
    if place in answer.errors:
        return TriedRow(key, outcome="error", error=answer.errors[place].message)
    if place in answer.deferred:
        deferral = answer.deferred[place]
        return TriedRow(key, error=f"Deferred until {deferral.not_before}: {deferral.reason}")
    try:
        values = _as_stored((answer.updates[place] if place < len(answer.updates) else None) or {})
    except REFUSALS as problem:
        return TriedRow(key, outcome="error", error=batch_run.sentence(problem))
    folded = {name.lower(): content for name, content in zip(names, page.rows[number], strict=False)}
    before = {name: folded[str(name).lower()] for name in values if str(name).lower() in folded}
    return TriedRow(key, values, before, _outcome(setting, done, values))


def _as_stored(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as they would be written.

    :raises REFUSALS: where one is nothing that SQLite can hold
    """
    stored = {name: storable(value) for name, value in values.items()}
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        for value in stored.values():
            conn.execute("select ?", [value])
    return stored


def _outcome(setting: Setting, done: Done, values: Mapping[str, Any]) -> str | None:
    column = setting.enrichment.outcome_column(setting.config)
    if column is not None and values.get(column) is not None:
        return str(values[column])
    words = done.answer.outcomes
    if not words:
        return "success"
    return next(iter(words)) if len(words) == 1 else None
