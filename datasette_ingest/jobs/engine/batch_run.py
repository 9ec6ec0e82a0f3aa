"""Runs one open batch: calls the enrichment, for each row or for the batch, and keeps the results."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pydantic

from ...masking import mask
from ..enrichment import Enrichment, asked_for
from ..errors import Cancel, Defer, Pause
from ..keyset import TableKey
from ..model import BatchOutcome, BatchResult, Decision, Deferral, JobStatus, RowFailure, stamp_of
from .cycle import FinishedRows, Reservation
from .job_handle import JobHandle, WorkClock

USUAL_RESULTS = {dict, type(None)}
ROW_ARGUMENTS = frozenset({"row", "config"})
BREATHE_SECONDS = 0.05
"""How often a row-by-row enrichment that never awaits anything lets other tasks run."""


@dataclass(frozen=True)
class JobContext:
    """What all batches of a runner share."""

    datasette: Any
    db: Any
    enrichment: Enrichment
    config: pydantic.BaseModel
    key: TableKey
    columns: tuple[str, ...]


@dataclass
class BatchRun:
    """An open batch of this process. `row_values` grows row by row; `result` is the result of a whole batch.

    `flushed`: rows that were taken; `is_closed`: all of them were. `run` counts the starts and call-offs: results of a
    task that was called off are ignored. `seen`: rows that were answered when the work clock read `seen_at`.
    """

    reservation: Reservation
    handle: JobHandle
    context: JobContext
    task: asyncio.Task[None] | None = None
    row_values: list[Mapping[str, Any] | None] = field(default_factory=list)
    errors: dict[int, RowFailure] = field(default_factory=dict)
    deferred: dict[int, Deferral] = field(default_factory=dict)
    result: BatchResult | None = None
    request: Decision | None = None
    flushed: int = 0
    is_closed: bool = False
    run: int = 0
    seen: int = 0
    price: int = 0
    seen_at: float = 0.0

    @property
    def is_over(self) -> bool:
        return self.task is None or self.task.done()

    @property
    def has_news(self) -> bool:
        return self.result is not None or len(self.row_values) > self.flushed or self.request is not None

    def start(self, when_over: Callable[[BatchRun, BaseException | None], None]) -> None:
        """Start the task, or restart it behind the last row that was answered. `when_over(batch, exception)` is called at
        its end, unless it was called off."""
        self.handle.clock = WorkClock(asyncio.get_running_loop().time)
        self.seen, self.seen_at = len(self.row_values), 0.0
        self.run += 1
        self.task = asyncio.create_task(
            self._run(self.run), name=f"job {self.reservation.batch.job_id} batch {self.reservation.batch.id}"
        )
        run = self.run

        def over(ended: asyncio.Task[None]) -> None:
            problem = None if ended.cancelled() else ended.exception()
            if self.run == run:
                when_over(self, problem)

        self.task.add_done_callback(over)

    def call_off(self) -> None:
        """Cancel the task. Results that it still returns are ignored."""
        self.run += 1
        if self.task is not None and not self.task.done():
            self.task.cancel()

    async def _run(self, run: int) -> None:
        try:
            if self.context.enrichment.is_row_by_row:
                await self._row_by_row(run)
            else:
                await self._whole_batch(run)
        except Pause as pause:
            self.request = pause_decision(pause)
        except Cancel as cancel:
            self.request = Decision(JobStatus.CANCELLED, cancel.reason)

    async def _row_by_row(self, run: int) -> None:
        context, results = self.context, self.row_values
        columns, config, rows = context.columns, context.config, self.reservation.page.rows
        enrich, clock = _row_caller(context, self.handle), asyncio.get_running_loop().time
        breathed = clock()
        for number in range(len(results), len(rows)):
            values = raised = None
            try:
                values = await enrich(dict(zip(columns, rows[number])), config)  # noqa: B905 - the row goes on with its key
            except BaseException as problem:  # noqa: BLE001 - a stranger's code: what it raises is this row's
                raised = self._raised(problem, run)
            if self.run != run:
                return  # called off, and it went on all the same
            if isinstance(raised, RowFailure):
                self.errors[number] = raised
            elif raised is not None:
                self.deferred[number] = raised
            results.append(values)
            if clock() - breathed > BREATHE_SECONDS:
                await asyncio.sleep(0)
                breathed = clock()

    async def _whole_batch(self, run: int) -> None:
        context, page = self.context, self.reservation.page
        rows = [dict(zip(context.columns, row, strict=False)) for row in page.rows]
        pks = [context.key.public(page.key(number)) for number in range(len(page))]
        method: Any = context.enrichment.enrich_batch
        try:
            given = await method(**_given(context, self.handle, method, rows=rows, pks=pks))
            result = result_of(given, pks)
        except BaseException as problem:  # noqa: BLE001 - as above, of the whole batch
            raised = self._raised(problem, run)
            result = BatchResult(len(page))
            if isinstance(raised, RowFailure):
                result = result.failed(raised.message, raised.traceback)
            else:
                result.deferred = dict.fromkeys(range(len(page)), raised)
        if self.run == run:
            self.result = result

    def _raised(self, problem: BaseException, run: int) -> RowFailure | Deferral:
        """The exception of an enrichment as an error or a deferral of its rows. Pause, Cancel, our own cancellation and
        KeyboardInterrupt are raised again."""
        if isinstance(problem, Defer):
            try:
                return Deferral.of(problem)
            except Exception as wrong:  # noqa: BLE001 - a stranger's values: no time, no text
                problem = wrong
        is_ours = isinstance(problem, asyncio.CancelledError) and self.run != run
        if is_ours or isinstance(problem, (Pause, Cancel, KeyboardInterrupt)):
            raise problem
        return RowFailure(sentence(problem), "".join(traceback.format_exception(problem)))

    def worked(self) -> float:
        """Seconds of work since the last row was answered. May be called from any thread."""
        return self.handle.clock.seconds() - self.seen_at

    def is_stuck(self, seconds: float) -> bool:
        """Whether no row was answered for so many seconds of work."""
        if self.seen != len(self.row_values):
            self.seen, self.seen_at = len(self.row_values), self.handle.clock.seconds()
        return not self.is_over and self.worked() >= seconds

    def time_out(self, seconds: float) -> None:
        """Record the row (or the batch) that never returned as an error, so that rows behind it can go on."""
        message = f"No answer within batch_seconds = {seconds:g} s"
        if self.context.enrichment.is_row_by_row:
            self.errors[len(self.row_values)] = RowFailure(message)
            self.row_values.append(None)
        else:
            self.result = BatchResult(len(self.reservation.page)).failed(message)

    def take(self) -> FinishedRows | None:
        """What was finished or spent since the last take; None if nothing was."""
        done = self._take_rows()
        is_noted = done is not None or self.request is not None
        if done is None and not self.is_closed and (is_noted or self.handle.has_spent):
            done = FinishedRows(self.reservation.batch, self.reservation.page, BatchResult(0), is_whole=False)
        if done is None:
            return None
        if is_noted:
            done.result.state, done.result.counters = self.handle.take()
        done.result.cost_nanodollars += self.handle.take_spent()
        return done

    def _take_rows(self) -> FinishedRows | None:
        page = self.reservation.page
        if self.result is not None:
            result, self.result = self.result, None
            self.is_closed = True
            return FinishedRows(self.reservation.batch, page, result, is_whole=True)
        stop = len(self.row_values)
        whole = stop == len(page) and self.context.enrichment.is_row_by_row
        if self.is_closed or page.width < 0 or (stop == self.flushed and not whole):
            return None
        self.is_closed = whole
        rows = self._rows_result(self.flushed, stop)
        done = FinishedRows(self.reservation.batch, page.slice(self.flushed, stop), rows, is_whole=whole)
        self.flushed = stop
        return done

    def _rows_result(self, start: int, stop: int) -> BatchResult:
        updates: list[Any] = self.row_values[start:stop]
        errors = {number - start: self.errors[number] for number in range(start, stop) if number in self.errors}
        for number, values in enumerate(() if {type(values) for values in updates} <= USUAL_RESULTS else updates):
            if values is not None and not isinstance(values, Mapping):
                errors[number] = RowFailure(f"enrich_row must return a mapping or None, not {type(values).__name__}")
                updates[number] = None
        deferred = {number - start: self.deferred[number] for number in range(start, stop) if number in self.deferred}
        return BatchResult(stop - start, updates, errors, deferred=deferred)


def result_of(given: BatchOutcome | None, pks: list[Any]) -> BatchResult:
    """A BatchOutcome with rows by number instead of key.

    :raises LookupError: for a key that is not of this batch
    """
    result = BatchResult(len(pks))
    if given is None:
        return result
    if not isinstance(given, BatchOutcome):
        raise TypeError(f"enrich_batch must return a BatchOutcome or None, not {type(given).__name__}")
    _check_numbers(given)
    places = {pk: number for number, pk in enumerate(pks)}

    def place(key: Any) -> int:
        key = tuple(key) if isinstance(key, list) else key
        if key not in places:
            raise LookupError(f"{key!r} is not the key of a row of this batch")
        return places[key]

    if given.updates:
        values: list[dict[str, Any]] = [{} for _ in pks]
        for update in given.updates:
            values[place(update.key)].update(update.values)
        result.updates = list(values)
    result.errors = {place(error.key): RowFailure(error.message, error.traceback) for error in given.errors}
    result.deferred = {place(row.key): Deferral.of(row) for row in given.deferred}
    result.writes = given.writes
    result.outcomes = dict(given.outcomes)
    result.cost_nanodollars = given.cost_nanodollars
    return result


def _check_numbers(given: BatchOutcome) -> None:
    """:raises TypeError: for counts and costs that are no whole numbers, or words that are no text"""
    for word, number in given.outcomes.items():
        if not _is_word(word) or not _is_count(number):
            raise TypeError(f"outcomes must count rows by word, not {word!r}: {number!r}")
    if not _is_count(given.cost_nanodollars):
        raise TypeError(f"cost_nanodollars must be a whole number, not {given.cost_nanodollars!r}")


def _is_word(word: Any) -> bool:
    """Whether it is text that SQLite and a URL can hold: no half of a surrogate pair."""
    return isinstance(word, str) and not any("\ud800" <= letter <= "\udfff" for letter in word)


def _is_count(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _row_caller(context: JobContext, handle: JobHandle) -> Callable[[Any, Any], Any]:
    """enrich_row itself where it asks for row and config alone, else a caller that adds what it asks for."""
    method = context.enrichment.enrich_row
    extra = _given(context, handle, method, ignore=ROW_ARGUMENTS)
    if not extra:
        return method
    return lambda row, config: method(row, config, **extra)


def _given(
    context: JobContext,
    handle: JobHandle,
    method: Callable[..., Any],
    *,
    ignore: frozenset[str] = frozenset(),
    **more: Any,
) -> dict[str, Any]:
    """The engine's values that a method asks for by name."""
    asked = asked_for(method, ignore)
    everything = {
        "datasette": context.datasette,
        "db": context.db,
        "table": context.key.table,
        "config": context.config,
        "job": handle,
        "job_id": handle.id,
        "actor_id": handle.actor_id,
        **more,
    }
    return {name: everything[name] for name in asked if name in everything}


def check_methods(enrichment: Enrichment) -> None:
    """:raises TypeError: when a method asks for something that the engine does not have"""
    asked_for(enrichment.initialize)
    asked_for(enrichment.finalize)
    asked_for(enrichment.close)
    if enrichment.enrich_batch is not None:
        asked_for(enrichment.enrich_batch)
    else:
        asked_for(enrichment.enrich_row, ROW_ARGUMENTS)


async def call(context: JobContext, handle: JobHandle, method: Callable[..., Any]) -> None:
    """Call `initialize`, `close` or `finalize` with what it asks for."""
    try:
        await method(**_given(context, handle, method))
    except SystemExit as problem:  # it would end the server, or the thread of all jobs
        raise RuntimeError(sentence(problem)) from problem


def pause_decision(asked: Pause | Defer) -> Decision:
    """The pause that an enrichment asks for. A Defer from `initialize` or `finalize` is one until its time. A
    `resume_at` that is no datetime waits for a person."""
    moment = asked.resume_at if isinstance(asked, Pause) else asked.until
    try:
        until = None if moment is None else stamp_of(moment)
    except TypeError:
        return Decision(JobStatus.PAUSED, f"{asked.reason} (until {moment!r}, which is no time)")
    return Decision(JobStatus.PAUSED, asked.reason, until)


def sentence(problem: BaseException) -> str:
    """An exception in one line, its type named, without passwords of URLs."""
    text = mask(str(problem))
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__
