"""Runs one job in one process: reserve rows, enrich them, commit, repeat."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ... import compat
from .. import events, leases, owned_tables, store
from ..cache import Cache
from ..enrichment import Enrichment
from ..errors import Cancel, Defer, JobError, JobNotFound, Pause
from ..model import Decision, Job, JobStatus, over_the_budget
from ..owner import Liveness
from . import batch_run, cycle, pacing, planning
from .batch_run import BatchRun, JobContext
from .cycle import Cycle, FinishedRows, Glance, Plan, ReadAhead, Reservation, SchemaMoved
from .exclusive import ExclusiveRuns
from .job_handle import JobHandle, Peers
from .results import RolledBack

log = logging.getLogger(__name__)

CANCEL_SECONDS = 5.0
"""How long a cancelled batch may take to clean up."""
FREE_SQL_LIMIT_MS = 60_000
RETRY_SECONDS = (*compat.BUSY_PAUSES, 5.0, 10.0, 30.0)
"""Seconds between tries of a transaction that a lock or a full disk refuses; the last one for ever."""
RETRIES_WHILE_STOPPING = len(compat.BUSY_PAUSES)


@dataclass(frozen=True)
class Timing:
    """Clocks and limits of a worker, in seconds. `clock` is the time of day, for leases and stamps.

    `max_running_jobs`: how many jobs run at once in this process; None: all that can.
    """

    lease_seconds: float = 60.0
    batch_seconds: float = 900.0
    clock: Callable[[], float] = time.time
    liveness: Callable[[str], Liveness] = lambda owner: Liveness.UNKNOWN
    max_running_jobs: int | None = None


@dataclass(frozen=True)
class WorkerContext:
    """What all runners of a worker share.

    `yield_to_requests`: awaited before each cycle, where pages are served in this process. `on_update`: called with a
    job whenever its row was read or changed here.
    """

    datasette: Any
    owner: str
    timing: Timing
    exclusive_runs: ExclusiveRuns
    yield_to_requests: Callable[[], Awaitable[None]] | None = None
    on_update: Callable[[Job], None] = lambda job: None


class Unrunnable(Exception):
    """The job cannot go on: its table, filters or settings no longer fit. The message says why."""


_DELETED_WITH_RESULTS = (
    "The job is deleted whenever its results are written, perhaps by a trigger of the table, so they cannot be kept. "
    "Drop the trigger, then start the job again"
)


class Runner:
    """Runs one job until it is final, paused, or `stop` is called. `open_batches`: the batches under way, by id."""

    def __init__(self, worker: WorkerContext, db: Any, job: Job, enrichment: Enrichment) -> None:
        self.worker = worker
        self.db = db
        self.job = job
        self.enrichment = enrichment
        self.open_batches: dict[int, BatchRun] = {}
        self.plan: Plan
        self._context: JobContext
        self._last: Cycle | None = None  # what the last transaction did
        self._pacing = pacing.Pacing()
        self._peers = Peers()
        self._news = asyncio.Event()
        self._over = 0  # batches of `open_batches` that ended and were not committed yet
        self._request: Decision | None = None  # for the next transaction
        self._settling: Decision | None = None  # for when the batches under way have ended
        self._fault: compat.Unavailable | None = None  # rows could not be read for a batch under way
        self._stop = asyncio.Event()
        self._is_initialized = False
        self._has_decided = False  # this runner ended or paused the job; the event was not emitted yet

    # ---- life --------------------------------------------------------------------------------------------------

    async def run(self) -> Job:
        """Run the job; the job as this runner left it."""
        try:
            if await self._begin():
                await self._work()
        except Unrunnable as problem:
            await self._give_up(str(problem))
        except JobNotFound:
            if await compat.read(self.db, self._stands):
                await self._give_up(_DELETED_WITH_RESULTS)
            else:
                self._note_gone()
        except compat.Unavailable:
            raise  # what this process holds is released when the job begins again
        except Exception:
            await self._write(lambda conn: leases.release(conn, self.worker.owner, self.job.id))
            raise
        finally:
            await self._close()
            await self._emit()
        return self.job

    async def _work(self) -> None:
        """Cycle until the job is over or this process leaves it."""
        while True:
            if self._fault is not None:
                raise self._fault
            is_leaving = self._stopping
            if self.worker.yield_to_requests is not None:
                await self.worker.yield_to_requests()
            is_poison_next = not self.open_batches and self._last is not None and self._last.poison_batches > 0
            step = await (self._run_exclusively() if is_poison_next and not self._stopping else self._cycle())
            self._launch(step.opened)
            if is_leaving or self.job.status is not JobStatus.RUNNING:
                return
            if self._is_all_answered(step) and await self._finish():
                return
            await self._until_worth_a_cycle()

    def stop(self) -> None:
        """Commit what is finished, give back the rest and return."""
        self._stop.set()
        self._news.set()

    @property
    def _stopping(self) -> bool:
        return self._stop.is_set()

    def wake(self) -> None:
        """The job's row was changed by a person: look at it now."""
        self._news.set()
        self._pacing.look_now()

    @property
    def is_waiting(self) -> bool:
        """Whether all open rows of the job are deferred."""
        return self._last is not None and self._last.is_waiting

    # ---- beginning and end -------------------------------------------------------------------------------------

    async def _begin(self) -> bool:
        """Mark the job running, make the plan and initialize the enrichment; False when the job was paused or ended.

        :raises JobNotFound: when its row was deleted, or the table of jobs dropped
        """
        now = self.worker.timing.clock()

        def begin(conn: sqlite3.Connection) -> tuple[bool, Job]:
            expected = [JobStatus.PENDING, JobStatus.RUNNING]
            store.get_job(conn, self.job.id)
            started = store.change_status(conn, self.job.id, expected, Decision(JobStatus.RUNNING), now=now)
            started = started or store.resume_if_due(conn, self.job.id, now)
            if started:
                leases.release(conn, self.worker.owner, self.job.id)  # of a runner here that lost the database
                store.adopt_key(conn, store.get_job(conn, self.job.id))
            return started, store.get_job(conn, self.job.id)

        started, self.job = await self._write(begin, may_retry=compat.is_busy)
        if not started:
            return False
        self.worker.on_update(self.job)
        self.plan = await self._make_plan()
        self._is_initialized = await self._ask(self._initialize, f"{self.enrichment.name} could not begin")
        return self._is_initialized

    async def _initialize(self) -> None:
        batch_run.check_methods(self.enrichment)
        wanted = self.enrichment.tables(self._context.config)
        if wanted:
            await self._write(lambda conn: owned_tables.claim(conn, wanted))
        await batch_run.call(self._context, self._handle(), self.enrichment.initialize)

    async def _ask(self, method: Callable[[], Awaitable[None]], failed: str) -> bool:
        """Let the enrichment begin or end; whether the job goes on: False when the enrichment paused it.

        :param failed: the beginning of the message when it raises
        """
        try:
            await method()
        except (Pause, Defer) as asked:
            await self._leave(batch_run.pause_decision(asked))
            return False
        except (Cancel, owned_tables.TableTaken) as refusal:
            raise Unrunnable(str(refusal)) from refusal
        except Exception as problem:
            log.exception("job %s of %s: %s", self.job.id, self.db.name, failed)
            raise Unrunnable(f"{failed}: {batch_run.sentence(problem)}") from problem
        return True

    async def _close(self) -> None:
        tasks = [item.task for item in self.open_batches.values() if item.task is not None]
        for batch_id in list(self.open_batches):
            self._forget(batch_id)
        if tasks:
            await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
        if self._is_initialized:
            try:
                await batch_run.call(self._context, self._handle(), self.enrichment.close)
            except Exception:
                log.exception("job %s of %s: %s could not close", self.job.id, self.db.name, self.enrichment.slug)

    async def _make_plan(self) -> Plan:
        """Make the plan for the tables as they are now. Called again when the schema changes."""
        worker = self.worker
        try:
            config = planning.stored_config(self.job, self.enrichment)
            plan: Plan = await self._read(
                lambda conn: planning.make_plan(
                    conn,
                    self.job,
                    self.enrichment,
                    config,
                    owner=worker.owner,
                    lease_seconds=worker.timing.lease_seconds,
                    liveness=worker.timing.liveness,
                )
            )
        except (JobError, ValueError) as problem:
            raise Unrunnable(str(problem)) from problem
        self._context = JobContext(worker.datasette, self.db, self.enrichment, config, plan.key, plan.columns)
        return plan

    def _is_all_answered(self, step: Cycle) -> bool:
        is_held = self.open_batches or step.open_elsewhere or step.poison_batches or step.next_due is not None
        return step.is_exhausted and not is_held and not step.is_waiting and self._settling is None

    async def _finish(self) -> bool:
        async def finalize() -> None:
            await batch_run.call(self._context, self._handle(), self.enrichment.finalize)

        if not await self._ask(finalize, f"Every row was answered, but {self.enrichment.name} could not end"):
            return True
        now = self.worker.timing.clock()
        self.job, self._has_decided = await self._write(lambda conn: cycle.finish(conn, self.plan, now))
        self.worker.on_update(self.job)
        return self.job.status is not JobStatus.RUNNING

    async def give_up(self, reason: str) -> None:
        """Cancel the job because it cannot go on."""
        await self._give_up(reason)
        await self._emit()

    async def _give_up(self, reason: str) -> None:
        log.warning("job %s of %s is cancelled: %s", self.job.id, self.db.name, reason)
        try:
            await self._leave(Decision(JobStatus.CANCELLED, reason))
        except JobNotFound:
            self._note_gone()

    def _stands(self, conn: sqlite3.Connection) -> bool:
        """Whether the job's row is there after all: what deleted it was rolled back."""
        job = store.find_job(conn, self.job.id)
        return job is not None and job.origin == self.job.origin and not job.status.is_final

    def _note_gone(self) -> None:
        log.warning("job %s of %s is gone: its row was deleted", self.job.id, self.db.name)

    async def _leave(self, decision: Decision) -> None:
        """Pause or cancel the job outside a cycle."""
        now = self.worker.timing.clock()

        def change(conn: sqlite3.Connection) -> tuple[Job, bool]:
            expected = [JobStatus.PENDING, JobStatus.RUNNING]
            is_decided = store.change_status(conn, self.job.id, expected, decision, now=now)
            if decision.status is JobStatus.CANCELLED:
                leases.drop_batches(conn, self.job.id)
            return store.get_job(conn, self.job.id), is_decided

        self.job, self._has_decided = await self._write(change)
        self.worker.on_update(self.job)

    async def _emit(self) -> None:
        if self._has_decided:
            self._has_decided = False
            await events.emit(self.worker.datasette, self.job)

    # ---- a cycle -----------------------------------------------------------------------------------------------

    def _wanted(self, ending: int) -> int:
        """How many reservations to open when `ending` of ours are about to close."""
        if self._stopping or self._request or self._settling or self.worker.exclusive_runs.blocks(self):
            return 0
        most = self.plan.max_open_batches
        if self.worker.yield_to_requests is not None:
            most = pacing.throttled(most, self.plan.batch_size, self._pacing.cycle_seconds)
        return max(0, most - len(self.open_batches) + ending)

    async def _run_exclusively(self) -> Cycle:
        """Reserve and run one poison batch while no other batch is open in this process."""
        async with self.worker.exclusive_runs.run(self):
            step = await self._cycle(exclusive=True)
            self._launch(step.opened)
            while self.open_batches and not self._stopping and self.job.status is JobStatus.RUNNING:
                await self._until_worth_a_cycle()
                await self._cycle(exclusive=True, want=0)
        return replace(step, opened=[])

    async def _cycle(self, *, exclusive: bool = False, want: int | None = None) -> Cycle:
        """One transaction, retried until it commits: neither a busy or full database nor a row that the user's schema
        refuses costs the finished work of others."""
        done = self._collect()
        if self._settling is not None and all(item.is_closed for item in self.open_batches.values()):
            self._request = self._request or self._settling
        if want is None:
            want = 1 if exclusive else self._wanted(sum(item.is_whole for item in done))
        while True:
            try:
                step = await self._try_cycle(done, want, exclusive)
                break
            except SchemaMoved:
                self.plan = await self._make_plan()
            except RolledBack as refusal:
                cycle.blame(done, refusal)
            except compat.Interrupted as problem:
                raise Unrunnable(f"The job's filters are too slow: {problem}") from None
            except sqlite3.OperationalError as problem:
                if compat.may_pass(problem):  # want of memory
                    raise
                raise Unrunnable(f"SQLite refused the job's work: {problem}") from problem
            except sqlite3.IntegrityError as problem:  # at the commit: a deferred constraint of another table
                raise Unrunnable(f"SQLite refused the job's work: {problem}") from problem
            except ValueError as problem:
                raise Unrunnable(f"The job's stored position cannot be used: {problem}") from problem
        self._after(step)
        return step

    async def _try_cycle(self, done: list[FinishedRows], want: int, exclusive: bool) -> Cycle:
        outside = await self._read_outside(want, exclusive) if self.plan.is_free_sql and want else None
        now, request, is_leaving = self.worker.timing.clock(), self._request, self._stopping
        step: Cycle = await self._write(
            lambda conn: cycle.run_cycle(
                conn,
                self.plan,
                done,
                want=want,
                now=now,
                request=request,
                exclusive=exclusive,
                outside=outside,
                is_leaving=is_leaving,
            )
        )
        return step

    def _after(self, step: Cycle) -> None:
        compat.recovered(self.db)
        self.job, self._last = step.job, step
        self._has_decided = self._has_decided or step.is_decided
        self._request = None
        self._peers.workers = step.workers
        self._pacing.commit()
        for batch_id in step.lost:
            log.warning("job %s of %s: batch %s was taken over by another process", self.job.id, self.db.name, batch_id)
            self._forget(batch_id)
        for batch_id, item in list(self.open_batches.items()):
            if item.is_closed or (item.is_over and not item.has_news):
                self._forget(batch_id)
        self.worker.on_update(self.job)

    async def _read_outside(self, want: int, exclusive: bool) -> ReadAhead | Reservation | None:
        """Read the rows of a selection with free SQL before the transaction, under a time limit."""
        plan, after, now = self.plan, self.job.next_cursor, self.worker.timing.clock()

        def read(conn: sqlite3.Connection) -> ReadAhead | Reservation | None:
            if exclusive:
                return cycle.peek_poison(conn, plan, now)
            return cycle.read_ahead(conn, plan, after, want * plan.batch_size)

        found: ReadAhead | Reservation | None = await self._read(read, limit_ms=FREE_SQL_LIMIT_MS)
        return found

    def _collect(self) -> list[FinishedRows]:
        """What was finished since the last cycle: whole batches, and the first rows of others."""
        self._over = 0
        for item in self.open_batches.values():
            self._request = self._request or item.request
        return [done for item in self.open_batches.values() if (done := item.take()) is not None]

    # ---- open batches ------------------------------------------------------------------------------------------

    def _launch(self, opened: list[Reservation]) -> None:
        for item in opened:
            batch = BatchRun(item, self._handle(item.batch.deferrals), self._context)
            self.open_batches[item.batch.id] = batch
            self.worker.exclusive_runs.batch_opened()
            if item.page.width == cycle.UNREAD.width:
                batch.task = asyncio.create_task(self._read_then_start(batch))
            else:
                self._start_or_settle(batch)

    async def _read_then_start(self, batch: BatchRun) -> None:
        plan, reserved = self.plan, batch.reservation.batch
        try:
            page = await self._read(lambda conn: cycle.read_rows(conn, plan, reserved), limit_ms=FREE_SQL_LIMIT_MS)
        except compat.Unavailable as problem:
            self._fault = problem
            self._news.set()
            return
        except (compat.Interrupted, sqlite3.Error, ValueError) as problem:
            self._request = Decision(JobStatus.CANCELLED, f"The job's rows cannot be read: {problem}")
            self._news.set()
            return
        batch.reservation = Reservation(reserved, page)
        self._start_or_settle(batch)

    def _start_or_settle(self, batch: BatchRun) -> None:
        """Start the batch if the budget allows. Otherwise release it, start no more, and pause the job once the running
        batches end."""
        if self._settling is None:
            self._settling = self._over_budget(batch)
        if self._settling is None:
            batch.start(self._on_over)
            return
        self._forget(batch.reservation.batch.id)
        self._news.set()

    def _over_budget(self, batch: BatchRun) -> Decision | None:
        if self.job.options.budget_100ths_cent is None:
            return None
        columns = self._context.columns
        rows = [dict(zip(columns, row, strict=False)) for row in batch.reservation.page.rows]
        try:
            price = self.enrichment.price_nanodollars(rows, self._context.config)
        except Exception as problem:
            log.exception("job %s of %s: %s has no price", self.job.id, self.db.name, self.enrichment.slug)
            return Decision(JobStatus.CANCELLED, f"{self.enrichment.name} has no price: {batch_run.sentence(problem)}")
        if price is None:
            return None
        batch.price = price
        return over_the_budget(self.job, sum(item.price for item in self.open_batches.values()))

    def _on_over(self, batch: BatchRun, problem: BaseException | None) -> None:
        self._over += 1
        self._request = self._request or batch.request
        if self._over == 1 or self._over >= len(self.open_batches) or self._request is not None:
            self._news.set()
        if problem is not None:
            log.error("job %s: batch %s failed", self.job.id, batch.reservation.batch.id, exc_info=problem)

    def _handle(self, deferrals: int = 0) -> JobHandle:
        cache = Cache(self.db, self.enrichment.slug, self.worker.timing.clock)
        return JobHandle(self.job, cache, self._peers, deferrals)

    def _forget(self, batch_id: int) -> None:
        item = self.open_batches.pop(batch_id, None)
        if item is not None:
            self.worker.exclusive_runs.batch_closed()
            item.call_off()

    def _time_out_stuck_batches(self) -> None:
        limit = self.worker.timing.batch_seconds
        for item in list(self.open_batches.values()):
            if not item.is_stuck(limit):
                continue
            log.error(
                "job %s of %s: %s gave no answer within %g s", self.job.id, self.db.name, self.enrichment.slug, limit
            )
            item.call_off()
            item.time_out(limit)
            item.task = None
            if self.enrichment.is_row_by_row and len(item.row_values) < len(item.reservation.page):
                item.start(self._on_over)

    # ---- waiting -----------------------------------------------------------------------------------------------

    async def _until_worth_a_cycle(self) -> None:
        """Sleep until there is enough to commit, the job's row was changed, deferred rows are due, or it is time to look
        for reservations that others gave back."""
        while not self._stopping and self._request is None and self._fault is None:
            self._news.clear()  # first: what happens from here on ends the wait below
            self._time_out_stuck_batches()
            if self._is_worth_a_cycle() or await self._has_changed():
                return
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), self._patience())

    def _is_worth_a_cycle(self) -> bool:
        if self._until_due() <= 0 and (not self.open_batches or self._wanted(0)):
            return True
        if not self.open_batches:
            return self._pacing.since_commit() >= pacing.LOOK_SECONDS and not self.is_waiting
        if self._over >= len(self.open_batches):
            return True
        if self._pacing.until_commit() > 0:
            return False
        return self._over > 0 or any(item.has_news for item in self.open_batches.values())

    def _patience(self) -> float:
        """Seconds to sleep before the next transaction or look."""
        seconds = max(0.001, self._pacing.until_commit()) if self._over else pacing.look_seconds(self.is_waiting)
        due = self._until_due()
        return min(seconds, due + 0.001) if due > 0 else seconds

    def _until_due(self) -> float:
        """Seconds until deferred rows may be reserved: at their time, and no sooner than a commit may come."""
        if self._last is None or self._last.next_due is None:
            return math.inf
        return max(self._last.next_due - self.worker.timing.clock(), self._pacing.until_commit())

    async def _has_changed(self) -> bool:
        """Whether the job's row or its reservations call for a transaction. While the job waits, its row changes only
        when rows are answered from outside."""
        if not self._pacing.look(self.is_waiting):
            return False
        plan, now = self.plan, self.worker.timing.clock()
        try:
            seen: Glance = await self._read(lambda conn: cycle.glance(conn, plan, now))
        except sqlite3.DatabaseError:
            return False  # it cannot be read now; the next look or the next transaction tells
        self._peers.workers = seen.workers
        if seen.job.status is not JobStatus.RUNNING:
            return True
        last = self._last
        if last is None or not last.is_waiting:
            return False
        return seen.has_free or seen.job != self.job or seen.next_due != last.next_due

    # ---- the database ------------------------------------------------------------------------------------------

    async def _write(
        self, fn: Callable[[sqlite3.Connection], Any], *, may_retry: Callable[[BaseException], bool] | None = None
    ) -> Any:
        """`fn` in one transaction, tried until it goes through: finished work is not thrown away for a lock that others
        hold, or a disk that is full or read-only for a while.

        :raises compat.Unavailable: the last problem, when the runner is asked to stop
        """
        return await compat.write(
            self.db, fn, pauses=self._pauses(), may_retry=may_retry or _may_retry, sleep=self._sleep
        )

    def _pauses(self) -> Iterator[float]:
        for number in itertools.count():
            if self._stopping and number >= RETRIES_WHILE_STOPPING:
                return
            yield RETRY_SECONDS[min(number, len(RETRY_SECONDS) - 1)]

    async def _sleep(self, seconds: float) -> None:
        """Sleep; a stop that comes meanwhile ends it."""
        if self._stopping:
            await asyncio.sleep(seconds)
            return
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)

    async def _read(self, fn: Callable[[sqlite3.Connection], Any], *, limit_ms: float | None = None) -> Any:
        """`fn` on a read connection, tried as `_write` does.

        :raises compat.Unavailable: as `_write`
        """
        pauses = self._pauses()
        while True:
            try:
                return await compat.read(self.db, fn, limit_ms=limit_ms)
            except compat.Unavailable as problem:  # noqa: PERF203 - each try is followed by a pause
                pause = next(pauses, None) if _may_retry(problem) else None
                if pause is None:
                    raise
                await self._sleep(pause)


def _may_retry(problem: BaseException) -> bool:
    """Whether waiting may help while results are held. Want of memory is the enrichment's own fault as a rule: it ends
    the try. A file that is damaged or replaced cannot take them."""
    return not isinstance(problem, MemoryError) and compat.may_pass(problem) and not compat.is_broken(problem)
