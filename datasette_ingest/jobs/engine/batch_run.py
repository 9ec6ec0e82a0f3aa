"""One open batch in this process: calls the enrichment and keeps what it answered, row by row where it can."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pydantic

from ..cache import Cache
from ..enrichment import Enrichment, asked_for
from ..errors import Cancel, Pause
from ..keyset import TableKey
from ..model import BatchOutcome, Decision, Job, JobStatus, stamp
from .cycle import Done, Open
from .results import Answer, Failure

USUAL_RESULTS = {dict, type(None)}
ROW_ARGUMENTS = frozenset({"row", "config"})
BREATHE_SECONDS = 0.05
"""A row-by-row enrichment that never waits lets others run this often."""


class JobHandle:
    """The job as an enrichment sees it while it works on one batch.

    `state` is the job's JSON notes; keys set here are merged into the stored notes when the batch is committed.
    `settings` are plugin settings that were given for this job. `is_dry_run`: a few rows are enriched to be shown; there
    is no such job, and nothing is written.
    """

    is_dry_run = False
    deferrals = 0
    """How often this batch was put off before, by a Defer that counts."""
    workers = 1
    """Processes that hold reservations in this database file now, this one included: a limit that all of them share is
    divided by it."""

    def __init__(self, job: Job, cache: Cache) -> None:
        self.id = job.id
        self.actor_id = job.actor_id
        self.cache = cache
        self.settings: Mapping[str, Any] = job.options.settings or {}
        self.state: dict[str, Any] = dict(job.state)
        self._before = {key: _as_text(value) for key, value in job.state.items()}
        self._counters: dict[str, int] = {}

    def add(self, name: str, number: int) -> None:
        """Add to a counter in the job's notes; batches at work at the same time all count."""
        self._counters[name] = self._counters.get(name, 0) + number

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Around a wait for one's turn: its time is not counted as work, which `batch_seconds` limits."""
        yield

    def take(self) -> tuple[dict[str, Any], dict[str, int]]:
        """What changed since the last take: (keys set, counters added)."""
        texts = {str(key): _as_text(value) for key, value in self.state.items()}
        changed = {key: json.loads(text) for key, text in texts.items() if self._before.get(key) != text}
        self._before = texts
        counters, self._counters = self._counters, {}
        return changed, counters


def _as_text(value: Any) -> str:
    """A note as JSON; what no JSON holds as its text."""
    try:
        return json.dumps(value, default=str)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(repr(value)[:1000])


@dataclass(frozen=True)
class Setting:
    """What every batch of a runner shares."""

    datasette: Any
    db: Any
    enrichment: Enrichment
    config: pydantic.BaseModel
    key: TableKey
    columns: tuple[str, ...]


@dataclass
class Work:
    """A batch of ours while it is open. `results` grows row by row; `answer` comes at once for a whole batch.

    `flushed`: rows that were taken; `is_closed`: all of them were. `run` counts the starts and call-offs: a task that
    was called off and goes on all the same is not heard.
    """

    open: Open
    handle: JobHandle
    setting: Setting
    task: asyncio.Task[None] | None = None
    results: list[Mapping[str, Any] | None] = field(default_factory=list)
    errors: dict[int, Failure] = field(default_factory=dict)
    answer: Answer | None = None
    request: Decision | None = None
    flushed: int = 0
    is_closed: bool = False
    run: int = 0
    seen: int = 0
    price: int = 0
    touched: float = field(default_factory=time.monotonic)

    @property
    def is_over(self) -> bool:
        return self.task is None or self.task.done()

    @property
    def has_news(self) -> bool:
        return self.answer is not None or len(self.results) > self.flushed or self.request is not None

    def start(self, when_over: Callable[[Work, BaseException | None], None]) -> None:
        """Begin, or go on behind the last row that was answered; `when_over` gets what ended it, unless called off."""
        self.touched = time.monotonic()
        self.run += 1
        self.task = asyncio.create_task(
            self._run(self.run), name=f"job {self.open.batch.job_id} batch {self.open.batch.id}"
        )
        run = self.run

        def over(ended: asyncio.Task[None]) -> None:
            problem = None if ended.cancelled() else ended.exception()
            if self.run == run:
                when_over(self, problem)

        self.task.add_done_callback(over)

    def call_off(self) -> None:
        """Cancel what is at work; whatever it still answers is not heard."""
        self.run += 1
        if self.task is not None and not self.task.done():
            self.task.cancel()

    async def _run(self, run: int) -> None:
        try:
            if self.setting.enrichment.is_row_by_row:
                await self._row_by_row(run)
            else:
                await self._whole_batch(run)
        except Pause as pause:
            self.request = pause_decision(pause)
        except Cancel as cancel:
            self.request = Decision(JobStatus.CANCELLED, cancel.reason)

    async def _row_by_row(self, run: int) -> None:
        setting, results = self.setting, self.results
        columns, config, rows = setting.columns, setting.config, self.open.page.rows
        enrich, clock = _row_caller(setting, self.handle), time.perf_counter
        breathed = clock()
        for number in range(len(results), len(rows)):
            values = failure = None
            try:
                values = await enrich(dict(zip(columns, rows[number])), config)  # noqa: B905 - the row goes on with its key
            except BaseException as problem:  # noqa: BLE001 - a stranger's code: what it raises is this row's error
                failure = self._failure(problem, run)
            if self.run != run:
                return  # called off, and it went on all the same
            if failure is not None:
                self.errors[number] = failure
            results.append(values)
            if clock() - breathed > BREATHE_SECONDS:
                await asyncio.sleep(0)
                breathed = clock()

    async def _whole_batch(self, run: int) -> None:
        setting, page = self.setting, self.open.page
        rows = [dict(zip(setting.columns, row, strict=False)) for row in page.rows]
        pks = [setting.key.public(page.key(number)) for number in range(len(page))]
        method: Any = setting.enrichment.enrich_batch
        try:
            given = await method(**_given(setting, self.handle, method, rows=rows, pks=pks))
            answer = _answer(given, pks)
        except BaseException as problem:  # noqa: BLE001 - as above, of the whole batch
            failure = self._failure(problem, run)
            answer = Answer(len(page)).failed(failure.message, failure.traceback)
        if self.run == run:
            self.answer = answer

    def _failure(self, problem: BaseException, run: int) -> Failure:
        """What the enrichment raised as an error of its rows; what is not its own to raise goes on."""
        is_ours = isinstance(problem, asyncio.CancelledError) and self.run != run
        if is_ours or isinstance(problem, (Pause, Cancel, KeyboardInterrupt)):
            raise problem
        return Failure(sentence(problem), "".join(traceback.format_exception(problem)))

    def is_stuck(self, seconds: float) -> bool:
        """Whether no row came back for so long."""
        if self.seen != len(self.results):
            self.seen, self.touched = len(self.results), time.monotonic()
        return not self.is_over and time.monotonic() - self.touched >= seconds

    def time_out(self, seconds: float) -> None:
        """The row, or the batch, that never came back is an error; rows behind it go on."""
        message = f"No answer within batch_seconds = {seconds:g} s"
        if self.setting.enrichment.is_row_by_row:
            self.errors[len(self.results)] = Failure(message)
            self.results.append(None)
        else:
            self.answer = Answer(len(self.open.page)).failed(message)

    def take(self) -> Done | None:
        """What became finished since the last take; None when nothing did, or its rows could not even be read."""
        state, counters = self.handle.take() if self.has_news or self.is_over else ({}, {})
        page = self.open.page
        if self.answer is not None:
            answer, self.answer = self.answer, None
            self.is_closed = True
            answer.state, answer.counters = state, counters
            return Done(self.open.batch, page, answer, is_whole=True)
        stop = len(self.results)
        whole = stop == len(page) and self.setting.enrichment.is_row_by_row
        if self.is_closed or page.width < 0 or (stop == self.flushed and not whole):
            return None
        self.is_closed = whole
        done = Done(
            self.open.batch,
            page.slice(self.flushed, stop),
            self._rows_answer(self.flushed, stop),
            is_whole=whole,
        )
        done.answer.state, done.answer.counters = state, counters
        self.flushed = stop
        return done

    def _rows_answer(self, start: int, stop: int) -> Answer:
        updates: list[Any] = self.results[start:stop]
        errors = {number - start: self.errors[number] for number in range(start, stop) if number in self.errors}
        for number, values in enumerate(() if {type(values) for values in updates} <= USUAL_RESULTS else updates):
            if values is not None and not isinstance(values, Mapping):
                errors[number] = Failure(f"enrich_row must return a mapping or None, not {type(values).__name__}")
                updates[number] = None
        return Answer(stop - start, updates, errors)


def _answer(given: BatchOutcome | None, pks: list[Any]) -> Answer:
    """A BatchOutcome in row numbers.

    :raises LookupError: for a key that is not of this batch
    """
    answer = Answer(len(pks))
    if given is None:
        return answer
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
        answer.updates = list(values)
    answer.errors = {place(error.key): Failure(error.message, error.traceback) for error in given.errors}
    answer.writes = given.writes
    answer.outcomes = dict(given.outcomes)
    answer.cost_nanodollars = given.cost_nanodollars
    return answer


def _check_numbers(given: BatchOutcome) -> None:
    """:raises TypeError: for counts and costs that are no whole numbers, or words that are no text"""
    for word, number in given.outcomes.items():
        if not _is_word(word) or not _is_count(number):
            raise TypeError(f"outcomes must count rows by word, not {word!r}: {number!r}")
    if not _is_count(given.cost_nanodollars):
        raise TypeError(f"cost_nanodollars must be a whole number, not {given.cost_nanodollars!r}")


def _is_word(word: Any) -> bool:
    """Whether a database and an address could hold it: text without half of a character."""
    return isinstance(word, str) and not any("\ud800" <= letter <= "\udfff" for letter in word)


def _is_count(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= 0


def _row_caller(setting: Setting, handle: JobHandle) -> Callable[[Any, Any], Any]:
    """enrich_row itself where it asks for row and config alone, else a caller that adds what it asks for."""
    method = setting.enrichment.enrich_row
    extra = _given(setting, handle, method, ignore=ROW_ARGUMENTS)
    if not extra:
        return method
    return lambda row, config: method(row, config, **extra)


def _given(
    setting: Setting,
    handle: JobHandle,
    method: Callable[..., Any],
    *,
    ignore: frozenset[str] = frozenset(),
    **more: Any,
) -> dict[str, Any]:
    """The engine's values that a method asks for by name."""
    asked = asked_for(method, ignore)
    everything = {
        "datasette": setting.datasette,
        "db": setting.db,
        "table": setting.key.table,
        "config": setting.config,
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
    asked_for(enrichment.live)
    if enrichment.enrich_batch is not None:
        asked_for(enrichment.enrich_batch)
    else:
        asked_for(enrichment.enrich_row, ROW_ARGUMENTS)


async def call(setting: Setting, handle: JobHandle, method: Callable[..., Any]) -> None:
    """Call `initialize`, `close` or `finalize` with what it asks for."""
    try:
        await method(**_given(setting, handle, method))
    except SystemExit as problem:  # it would end the server, or the thread of all jobs
        raise RuntimeError(sentence(problem)) from problem


MOST_LIVE_CHARACTERS = 16_000


def said_live(setting: Setting, handle: JobHandle) -> str:
    """What the enrichment says of the job now, as a JSON object.

    :raises Exception: whatever a stranger's method raises, or for what is no such object or a very long one
    """
    method = setting.enrichment.live
    said = method(**_given(setting, handle, method))
    if not isinstance(said, Mapping):
        raise TypeError(f"live must return a mapping, not {type(said).__name__}")
    text = json.dumps(dict(said), ensure_ascii=False, allow_nan=False, sort_keys=True)
    text = text.encode("utf-8", "replace").decode("utf-8")  # SQLite takes no half of a character
    if len(text) > MOST_LIVE_CHARACTERS:
        raise ValueError(f"live returned more than {MOST_LIVE_CHARACTERS:,} characters of JSON")
    return text


def pause_decision(pause: Pause) -> Decision:
    """What an enrichment's Pause asks for; a time without a zone is UTC, and one that is no time waits for a person."""
    moment = pause.resume_at
    if moment is None:
        return Decision(JobStatus.PAUSED, pause.reason)
    try:
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.timezone.utc)
        return Decision(JobStatus.PAUSED, pause.reason, stamp(moment.timestamp()))
    except (AttributeError, OverflowError, ValueError):
        return Decision(JobStatus.PAUSED, f"{pause.reason} (until {pause.resume_at!r}, which is no time)")


def sentence(problem: BaseException) -> str:
    """An exception in one line, its type named."""
    text = str(problem)
    return f"{type(problem).__name__}: {text}" if text else type(problem).__name__
