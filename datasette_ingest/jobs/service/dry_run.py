"""A dry run: enrich a few rows and show the results instead of writing them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import sqlite3
import weakref
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ... import compat, sqlite
from ...text import moment
from .. import selection
from ..cache import Cache, get
from ..engine import batch_run, server
from ..engine.batch_run import BatchRun, JobContext
from ..engine.cycle import FinishedRows, Reservation
from ..engine.job_handle import JobHandle
from ..engine.output import column_faults, present_columns
from ..engine.planning import columns_to_read, open_target
from ..engine.results import REFUSALS, storable
from ..enrichment import Enrichment
from ..errors import BadSelection, Cancel, Defer, Pause, TooMany
from ..keyset import Page
from ..model import OUTSIDE, Batch, Job, JobStatus, actor_id
from ..stored_row import job_of
from . import selection_preview, turns, validation
from .outcomes import HIT
from .permissions import Actor, EnrichableTable
from .selection_preview import Preview

log = logging.getLogger(__name__)

ROWS = 3
"""Rows of a dry run."""
SECONDS = 30.0
"""How long a dry run may take."""
GRACE_SECONDS = 3.0
"""How long cancelled work may take to end."""
MOST_AT_ONCE = 3

_RUNNING: weakref.WeakKeyDictionary[Any, list[str | None]] = weakref.WeakKeyDictionary()
"""Who is testing rows now. Visitors who are not signed in are one actor."""
_NUMBERS = itertools.count(1)


class TooManyDryRuns(TooMany):
    """The actor, or too many others, are testing rows already."""

    retry_after = int(SECONDS)


class DryRunWrites(sqlite3.OperationalError):
    """An enrichment tried to write during a dry run."""


@dataclass(frozen=True)
class RowResult:
    """What a job would do to one row. `values` would be written; `before` holds what these columns contain now (missing:
    there is no such column yet). `outcome` is the outcome word if it is known; `error` is a sentence."""

    key: Any
    values: Mapping[str, Any] = field(default_factory=dict)
    before: Mapping[str, Any] = field(default_factory=dict)
    outcome: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class DryRun:
    """The results. `stopped`: why it ended early, a sentence. `output`: where the values would go (`columns`,
    `shadow`)."""

    rows: list[RowResult]
    output: str = "columns"
    cost_nanodollars: int = 0
    stopped: str | None = None


async def run(
    datasette: Any,
    table: EnrichableTable,
    *,
    enrichment: Enrichment,
    filters: str = "",
    config: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    actor: Actor = None,
    seconds: float = SECONDS,
) -> DryRun:
    """Enrich the first rows of a selection and write nothing. All is checked as for the start of a job.

    :param table: from `permissions.require_table`, which has checked the actor
    :raises JobError: when such a job could not be started either
    :raises TooManyDryRuns: while one of the actor's, or MOST_AT_ONCE of others, are running
    """
    with _one_of_few(datasette, actor):
        async with turns.turn(datasette, actor):
            checked, _ = await validation.check_settings(datasette, enrichment, table, config or {}, options or {})
            preview = await selection_preview.open_preview(datasette, table, filters=filters, actor=actor)
            page = await selection_preview.first_rows(preview, table.columns, limit=ROWS, limit_ms=selection.WAIT_MS)
        if page is None:
            raise BadSelection("Finding the first rows takes too long. Choose simpler filters")
        return await _run(datasette, preview, page, enrichment, checked, actor, seconds)


@contextlib.contextmanager
def _one_of_few(datasette: Any, actor: Actor) -> Iterator[None]:
    running, who = _RUNNING.setdefault(datasette, []), actor_id(actor)
    if who in running:
        raise TooManyDryRuns("You are testing rows already. Try again when that has ended")
    if len(running) >= MOST_AT_ONCE:
        raise TooManyDryRuns("Others are testing rows right now. Try again in half a minute")
    running.append(who)
    try:
        yield
    finally:
        running.remove(who)


async def _run(
    datasette: Any,
    preview: Preview,
    page: Page,
    enrichment: Enrichment,
    checked: Any,
    actor: Actor,
    seconds: float,
) -> DryRun:
    table = preview.table
    columns = columns_to_read(table.name, table.columns, enrichment, checked)
    context = JobContext(datasette, _ReadOnly(table.db), enrichment, checked, preview.key, columns)
    output = enrichment.output(checked)
    if not page.rows:
        return DryRun([], output, stopped="No row is selected")
    job = _placeholder(table, enrichment, actor)
    try:
        tested = await server.run_in_worker_loop(
            datasette,
            lambda: _run_in_worker(context, job, table.columns, page, seconds),
            seconds=seconds + 2 * GRACE_SECONDS,
        )
        return await compat.read(table.db, lambda conn: _held_against_the_table(conn, context, tested))
    except (asyncio.TimeoutError, TimeoutError):
        return DryRun([], output, stopped=f"{enrichment.name} did not answer within {seconds:g} s")


def _placeholder(table: EnrichableTable, enrichment: Enrichment, actor: Actor) -> Job:
    """A job for the dry run. Its id is negative, so it is never that of a stored job."""
    given = {
        "id": -next(_NUMBERS),
        "status": JobStatus.RUNNING.value,
        "enrichment": enrichment.slug,
        "database_name": table.db.name,
        "table_name": table.name,
        "actor_id": actor_id(actor),
    }
    return job_of(defaultdict(lambda: None, given))


# ---- in the loop of the jobs ------------------------------------------------------------------------------------


class _DryRunHandle(JobHandle):
    """The job as an enrichment sees it in a dry run."""

    is_dry_run = True


class _DryRunCache(Cache):
    """Reads what is stored, and keeps what it computes for this dry run alone."""

    def __init__(self, db: Any, enrichment: str) -> None:
        super().__init__(db, enrichment)
        self._computed: dict[str, asyncio.Future[Any]] = {}

    async def get_or_set(self, key: str, compute: Callable[[], Awaitable[Any]], *, ttl: float | None = None) -> Any:
        if key not in self._computed:
            task = self._computed[key] = asyncio.ensure_future(self._found_or_computed(key, compute))
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # those who wait see it
        return await asyncio.shield(self._computed[key])

    async def _found_or_computed(self, key: str, compute: Callable[[], Awaitable[Any]]) -> Any:
        found = await compat.read(self._db, lambda conn: get(conn, self._enrichment, key, self._clock()))
        return json.loads(found if found is not None else json.dumps(await compute()))


class _ReadOnly:
    """A database that refuses writes."""

    is_memory = False
    """Memory databases too are read through `execute_fn`."""

    def __init__(self, db: Any) -> None:
        self._db = db

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    async def execute_fn(self, fn: Callable[[sqlite3.Connection], Any]) -> Any:
        return await compat.read(self._db, fn)

    async def execute_write_fn(self, fn: Callable[[sqlite3.Connection], Any], *args: Any, **kwargs: Any) -> Any:
        return await self.execute_fn(lambda conn: _without_writing(conn, fn))

    async def execute_write(self, *args: Any, **kwargs: Any) -> Any:
        raise DryRunWrites("A dry run writes nothing")

    execute_write_script = execute_write
    execute_write_many = execute_write
    execute_isolated_fn = execute_write

    def connect(self, write: bool = False) -> Any:
        if write:
            raise DryRunWrites("A dry run writes nothing")
        return self._db.connect()


def _without_writing(conn: sqlite3.Connection, fn: Callable[[sqlite3.Connection], Any]) -> Any:
    """`fn(conn)` with writing switched off: SQLite raises where it tries."""
    was_in_transaction, was_off = conn.in_transaction, conn.execute("pragma query_only").fetchone()[0]
    conn.execute("pragma query_only = 1")
    try:
        return fn(conn)
    finally:
        if conn.in_transaction and not was_in_transaction:
            conn.rollback()
        conn.execute(f"pragma query_only = {int(was_off)}")


async def _run_in_worker(context: JobContext, job: Job, names: Sequence[str], page: Page, seconds: float) -> DryRun:
    """Run it, from the enrichment's `initialize` to its `close`, batch by batch as a job would."""
    end = asyncio.get_running_loop().time() + seconds
    handle = _DryRunHandle(job, _DryRunCache(context.db, context.enrichment.slug))
    size = max(1, context.enrichment.batch_size)
    folded = [sqlite.fold(name) for name in names]
    places = [folded.index(sqlite.fold(name)) for name in context.columns]
    narrow = Page([(*(row[place] for place in places), *row[page.width :]) for row in page.rows], len(places))
    batches = [
        BatchRun(
            Reservation(Batch(-1 - start, job.id, None, "", 0), narrow.slice(start, start + size)), handle, context
        )
        for start in range(0, len(page), size)
    ]
    stopped = await _initialize(context, handle, seconds)
    if stopped is None:
        try:
            is_late = await _enrich(batches, context.enrichment.max_open_batches, end)
        finally:
            await _close(context, handle)
        late = f"Not all rows were answered within {seconds:g} s" if is_late else None
        stopped = next((batch.request.reason for batch in batches if batch.request is not None), late)
    done = [batch.take() for batch in batches]
    rows = [_row(context, names, page, number, done[number // size], number % size) for number in range(len(page))]
    cost = sum(each.result.cost_nanodollars for each in done if each is not None)
    return DryRun(rows, context.enrichment.output(context.config), cost, stopped)


async def _initialize(context: JobContext, handle: JobHandle, seconds: float) -> str | None:
    """Start the enrichment; the reason where it does not start."""
    name = context.enrichment.name
    try:
        batch_run.check_methods(context.enrichment)
        await asyncio.wait_for(batch_run.call(context, handle, context.enrichment.initialize), seconds)
    except (asyncio.TimeoutError, TimeoutError):
        return f"{name} did not start within {seconds:g} s"
    except (Pause, Defer, Cancel) as request:
        return request.reason
    except Exception as problem:  # noqa: BLE001 - a plugin's code: what it raises is shown
        return f"{name} could not start: {batch_run.sentence(problem)}"
    return None


async def _close(context: JobContext, handle: JobHandle) -> None:
    try:
        await asyncio.wait_for(batch_run.call(context, handle, context.enrichment.close), GRACE_SECONDS)
    except Exception:
        log.exception("a dry run of %s could not close", context.enrichment.slug)


async def _enrich(batches: Sequence[BatchRun], most_at_once: int, end: float) -> bool:
    """Work on the batches until the event loop's time `end`; whether some are unfinished then."""
    at_once = asyncio.Semaphore(max(1, most_at_once))

    async def run_batch(batch: BatchRun) -> None:
        async with at_once:
            over = asyncio.Event()
            batch.start(lambda _, problem: over.set())
            await over.wait()

    running = [asyncio.ensure_future(run_batch(batch)) for batch in batches]
    try:
        _, late = await asyncio.wait(running, timeout=max(0.0, end - asyncio.get_running_loop().time()))
    finally:
        for task in running:
            task.cancel()
        for batch in batches:
            batch.call_off()
        ending = [batch.task for batch in batches if batch.task is not None and not batch.task.done()]
        if ending:
            await asyncio.wait(ending, timeout=GRACE_SECONDS)
    return bool(late)


def _row(
    context: JobContext, names: Sequence[str], page: Page, number: int, done: FinishedRows | None, place: int
) -> RowResult:
    """What the job would do to a row of the page, from its place in a batch."""
    key = context.key.public(page.key(number))
    if done is None or place >= done.result.rows:
        return RowResult(key, error="No answer")
    result = done.result
    if place in result.errors:
        return RowResult(key, outcome="error", error=result.errors[place].message)
    if place in result.deferred:
        deferral = result.deferred[place]
        until = "" if deferral.not_before == OUTSIDE else f" until {moment(deferral.not_before)}"
        return RowResult(key, error=f"Deferred{until}: {deferral.reason}")
    try:
        values = _as_stored((result.updates[place] if place < len(result.updates) else None) or {})
    except REFUSALS as problem:
        return RowResult(key, outcome="error", error=batch_run.sentence(problem))
    row = {sqlite.fold(name): content for name, content in zip(names, page.rows[number], strict=False)}
    before = {name: row[sqlite.fold(name)] for name in values if sqlite.fold(name) in row}
    return RowResult(key, values, before, _outcome(context, done, values))


def _held_against_the_table(conn: sqlite3.Connection, context: JobContext, tested: DryRun) -> DryRun:
    """The same, rows in error that name a column which a job could not write."""
    target = open_target(conn, context.key, context.enrichment, context.config, None)
    named = (name for row in tested.rows for name in row.values)
    faults = column_faults(conn, target, named, present_columns(conn, target))
    rows = [
        RowResult(row.key, outcome="error", error=next(faults[name] for name in row.values if name in faults))
        if faults.keys() & row.values.keys()
        else row
        for row in tested.rows
    ]
    return replace(tested, rows=rows)


def _as_stored(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as they would be written.

    :raises REFUSALS: for one that SQLite cannot store
    """
    stored = {name: storable(value) for name, value in values.items()}
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        for value in stored.values():
            conn.execute("select ?", [value])
    return stored


def _outcome(context: JobContext, done: FinishedRows, values: Mapping[str, Any]) -> str | None:
    column = context.enrichment.outcome_column(context.config)
    if column is not None and values.get(column) is not None:
        return str(values[column])
    words = done.result.outcomes
    if not words:
        return HIT
    return next(iter(words)) if len(words) == 1 else None
