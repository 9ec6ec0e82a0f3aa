"""Runs one job in one process: reserve rows, enrich them, commit, repeat."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import sqlite3
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from ... import compat
from .. import events, leases, owned_tables, store
from ..cache import Cache
from ..enrichment import Enrichment
from ..errors import BadSelection, Cancel, Defer, JobNotFound, Pause
from ..model import Decision, Job, JobStatus, over_the_budget
from ..owner import Liveness
from . import batch_run, cycle, planning
from .batch_run import BatchRun, JobContext, JobHandle, Peers
from .cycle import Cycle, FinishedRows, Glance, Plan, Reservation, SchemaMoved
from .exclusive import ExclusiveRuns
from .results import RolledBack

log = logging.getLogger(__name__)

COMMIT_SECONDS = 0.25
"""A slow enrichment's results are committed no more often than this."""
THROTTLED_CYCLE_SECONDS = 0.1
THROTTLED_ROWS = 1000
"""In a server, a job whose cycles take less than THROTTLED_CYCLE_SECONDS reserves at most THROTTLED_ROWS rows at once:
shorter cycles delay pages less."""
LOOK_SECONDS = 0.4
"""How often the job's status is read between transactions: a pause takes effect within a second."""
WAITING_LOOK_SECONDS = 1.0
"""The same while all open rows of the job are deferred."""
CANCEL_SECONDS = 5.0
"""How long a cancelled batch may take to clean up."""
FREE_SQL_LIMIT_MS = 60_000
RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(frozen=True)
class Timing:
    """Clocks and limits of a runner, in seconds. `clock` is the time of day, for leases and stamps."""

    lease_seconds: float = 60.0
    batch_seconds: float = 900.0
    clock: Callable[[], float] = time.time
    liveness: Callable[[str], Liveness] = lambda owner: Liveness.UNKNOWN


class Unrunnable(Exception):
    """The job cannot go on: its table, filters or settings no longer fit. The message says why."""


class Runner:
    """Runs one job until it is final, paused, or `stop` is called. `open` holds the batches at work; `is_waiting`: all
    open rows of the job are deferred."""

    def __init__(
        self,
        datasette: Any,
        db: Any,
        job: Job,
        enrichment: Enrichment,
        owner: str,
        *,
        timing: Timing,
        exclusive_runs: ExclusiveRuns,
        yield_to_requests: Callable[[], Awaitable[None]],
        is_throttled: bool = False,
        on_update: Callable[[Job], None] = lambda job: None,
    ) -> None:
        self.datasette = datasette
        self.db = db
        self.job = job
        self.enrichment = enrichment
        self.owner = owner
        self.timing = timing
        self.exclusive_runs = exclusive_runs
        self.yield_to_requests = yield_to_requests
        self.is_throttled = is_throttled
        self.on_update = on_update
        self.open_batches: dict[int, BatchRun] = {}
        self.is_waiting = False
        self.plan: Plan
        self._news = asyncio.Event()
        self._over = 0  # batches of `open` that ended and were not committed yet
        self._request: Decision | None = None  # for the next transaction
        self._settling: Decision | None = None  # for when the batches at work have ended
        self._stop = asyncio.Event()
        self._is_initialized = False
        self._is_poison_next = False
        self._has_decided = False  # this runner ended or paused the job, and told nobody yet
        self._committed = 0.0
        self._round = math.inf  # seconds from the transaction before last to the last
        self._looked = 0.0
        self._next_due: float | None = None  # when the next deferred rows may be tried, on Timing.clock
        self._peers = Peers()

    # ---- the life ----------------------------------------------------------------------------------------------

    async def run(self) -> Job:
        """Run the job; the job as this runner left it."""
        try:
            if not await self._begin():
                return self.job
            while True:
                is_leaving = self._stopping
                await self.yield_to_requests()
                if not self.open_batches and self._is_poison_next and not self._stopping:
                    step = await self._run_exclusively()
                else:
                    step = await self._cycle()
                self._launch(step.opened)
                if is_leaving or self.job.status is not JobStatus.RUNNING:
                    break
                if self._is_all_answered(step) and await self._finish():
                    break
                await self._until_worth_a_cycle()
        except Unrunnable as problem:
            await self._give_up(str(problem))
        except JobNotFound:
            log.warning("job %s of %s is gone: its row was deleted", self.job.id, self.db.name)
        except Exception:
            await self._write(lambda conn: leases.release(conn, self.owner, self.job.id))
            raise
        finally:
            await self._close()
            await self._emit()
        return self.job

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
        self._looked = -math.inf

    # ---- beginning and end -------------------------------------------------------------------------------------

    async def _begin(self) -> bool:
        """Mark the job running and make the plan; False when it was paused or ended meanwhile."""
        now = self.timing.clock()

        def begin(conn: sqlite3.Connection) -> bool:
            expected = [JobStatus.PENDING, JobStatus.RUNNING]
            return store.change_status(conn, self.job.id, expected, JobStatus.RUNNING, now=now) or store.resume_if_due(
                conn, self.job.id, now
            )

        started = await self._write(begin)
        self.job = await self._read(lambda conn: store.get_job(conn, self.job.id))
        if not started:
            return False
        self.on_update(self.job)
        self.plan = await self._make_plan()
        return await self._initialize()

    async def _initialize(self) -> bool:
        try:
            batch_run.check_methods(self.enrichment)
            await self._claim_tables()
            await batch_run.call(self._context, self._handle(), self.enrichment.initialize)
        except (Pause, Defer) as asked:
            await self._leave(batch_run.pause_decision(asked))
            return False
        except Cancel as cancel:
            raise Unrunnable(cancel.reason) from cancel
        except owned_tables.TableTaken as problem:
            raise Unrunnable(problem.message) from problem
        except Exception as problem:
            log.exception("job %s of %s: %s could not begin", self.job.id, self.db.name, self.enrichment.slug)
            raise Unrunnable(f"{self.enrichment.name} could not begin: {batch_run.sentence(problem)}") from problem
        self._is_initialized = True
        return True

    async def _claim_tables(self) -> None:
        """Make the enrichment's own tables."""
        wanted = self.enrichment.tables(self._context.config)
        if wanted:
            await self._write(lambda conn: owned_tables.claim(conn, wanted))

    async def _close(self) -> None:
        tasks = [item.task for item in self.open_batches.values() if item.task is not None]
        self._cancel_all()
        if tasks:
            await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
        if self._is_initialized:
            try:
                await batch_run.call(self._context, self._handle(), self.enrichment.close)
            except Exception:
                log.exception("job %s of %s: %s could not close", self.job.id, self.db.name, self.enrichment.slug)

    async def _make_plan(self) -> Plan:
        """Make the plan for the tables as they are now. Called again when the schema changes."""
        try:
            config = planning.stored_config(self.job, self.enrichment)
            plan: Plan = await self._read(
                lambda conn: planning.make_plan(
                    conn,
                    self.job,
                    self.enrichment,
                    config,
                    owner=self.owner,
                    lease_seconds=self.timing.lease_seconds,
                    liveness=self.timing.liveness,
                )
            )
        except (BadSelection, owned_tables.TableTaken, ValueError) as problem:
            raise Unrunnable(str(problem)) from problem
        self._context = JobContext(self.datasette, self.db, self.enrichment, config, plan.key, plan.columns)
        return plan

    def _is_all_answered(self, step: Cycle) -> bool:
        nothing_held = (
            not self.open_batches and not step.open_elsewhere and not step.poison_batches and step.next_due is None
        )
        return step.is_exhausted and nothing_held and self._settling is None

    async def _finish(self) -> bool:
        try:
            await batch_run.call(self._context, self._handle(), self.enrichment.finalize)
        except (Pause, Defer) as asked:
            await self._leave(batch_run.pause_decision(asked))
            return True
        except Cancel as cancel:
            raise Unrunnable(cancel.reason) from cancel
        except Exception as problem:
            log.exception("job %s of %s: %s could not end", self.job.id, self.db.name, self.enrichment.slug)
            raise Unrunnable(
                f"Every row was answered, but {self.enrichment.name} could not end: {batch_run.sentence(problem)}"
            ) from problem
        now = self.timing.clock()
        self.job, self._has_decided = await self._write(lambda conn: cycle.finish(conn, self.plan, now))
        self.on_update(self.job)
        return self.job.status is not JobStatus.RUNNING

    async def give_up(self, reason: str) -> None:
        """Cancel the job because it cannot go on."""
        await self._give_up(reason)
        await self._emit()

    async def _give_up(self, reason: str) -> None:
        log.warning("job %s of %s is cancelled: %s", self.job.id, self.db.name, reason)
        await self._leave(Decision(JobStatus.CANCELLED, reason))

    async def _leave(self, decision: Decision) -> None:
        """Pause or cancel the job outside a cycle."""
        now = self.timing.clock()

        def change(conn: sqlite3.Connection) -> tuple[Job, bool]:
            is_decided = store.change_status(
                conn,
                self.job.id,
                [JobStatus.PENDING, JobStatus.RUNNING],
                decision.status,
                now=now,
                reason=decision.reason,
                resume_at=decision.resume_at,
            )
            if decision.status is JobStatus.CANCELLED:
                leases.drop_batches(conn, self.job.id)
            return store.get_job(conn, self.job.id), is_decided

        self.job, self._has_decided = await self._write(change)
        self.on_update(self.job)

    async def _emit(self) -> None:
        if self._has_decided:
            self._has_decided = False
            await events.emit(self.datasette, self.job)

    # ---- a cycle -----------------------------------------------------------------------------------------------

    def _wanted(self, ending: int) -> int:
        """How many reservations to open when `ending` of ours are about to close."""
        if self._stopping or self._request or self._settling or self.exclusive_runs.blocks(self):
            return 0
        most = self.plan.max_open_batches
        if self.is_throttled and self._round < THROTTLED_CYCLE_SECONDS:
            most = min(most, max(1, THROTTLED_ROWS // self.plan.batch_size))
        return max(0, most - len(self.open_batches) + ending)

    async def _run_exclusively(self) -> Cycle:
        """Reserve and run one poison batch while no other batch is open in this process."""
        async with self.exclusive_runs.run(self):
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
                if compat.may_pass(problem):
                    raise
                raise Unrunnable(f"SQLite refused the job's work: {problem}") from problem
            except ValueError as problem:
                raise Unrunnable(f"The job's stored position cannot be used: {problem}") from problem
        self._after(step)
        return step

    async def _try_cycle(self, done: list[FinishedRows], want: int, exclusive: bool) -> Cycle:
        ahead, peeked = await self._read_outside(want, exclusive)
        now, request, is_leaving = self.timing.clock(), self._request, self._stopping
        step: Cycle = await self._write(
            lambda conn: cycle.run_cycle(
                conn,
                self.plan,
                done,
                want=want,
                now=now,
                request=request,
                exclusive=exclusive,
                ahead=ahead,
                peeked=peeked,
                is_leaving=is_leaving,
            )
        )
        return step

    def _after(self, step: Cycle) -> None:
        self.job = step.job
        self._has_decided = self._has_decided or step.is_decided
        self._request = None
        self.is_waiting, self._next_due, self._peers.workers = step.is_waiting, step.next_due, step.workers
        now = self._time()
        self._round, self._committed, self._looked = now - self._committed, now, now
        self._is_poison_next = step.poison_batches > 0
        for batch_id in step.lost:
            log.warning("job %s of %s: batch %s was taken over by another process", self.job.id, self.db.name, batch_id)
            self._forget(batch_id)
        ended = (
            number
            for number, item in self.open_batches.items()
            if item.is_closed or (item.is_over and not item.has_news)
        )
        for batch_id in list(ended):
            self._forget(batch_id)
        self.on_update(self.job)

    async def _read_outside(self, want: int, exclusive: bool) -> tuple[cycle.ReadAhead | None, Reservation | None]:
        """Read what a selection with free SQL needs, before the transaction."""
        if not self.plan.is_free_sql or not want:
            return None, None
        plan, after = self.plan, self.job.next_cursor
        if exclusive:
            now = self.timing.clock()
            return None, await self._read(lambda conn: cycle.peek_poison(conn, plan, now), limit_ms=FREE_SQL_LIMIT_MS)
        fresh = await self._read(
            lambda conn: cycle.read_ahead(conn, plan, after, want * plan.batch_size), limit_ms=FREE_SQL_LIMIT_MS
        )
        return fresh, None

    def _collect(self) -> list[FinishedRows]:
        """What was finished since the last cycle: whole batches, and the first rows of others."""
        self._over = 0
        done = []
        for item in self.open_batches.values():
            self._request = self._request or item.request
            finished = item.take()
            if finished is not None:
                done.append(finished)
        return done

    # ---- batches at work ---------------------------------------------------------------------------------------

    def _launch(self, opened: list[Reservation]) -> None:
        for item in opened:
            batch = BatchRun(item, self._handle(item.batch.deferrals), self._context)
            self.open_batches[item.batch.id] = batch
            self.exclusive_runs.batch_opened()
            if item.page.width == cycle.UNREAD.width:
                batch.task = asyncio.create_task(self._read_then_start(batch))
            else:
                self._start_or_settle(batch)

    async def _read_then_start(self, batch: BatchRun) -> None:
        plan = self.plan
        try:
            page = await self._read(
                lambda conn: cycle.read_rows(conn, plan, batch.reservation.batch), limit_ms=FREE_SQL_LIMIT_MS
            )
        except (compat.Interrupted, sqlite3.Error, ValueError) as problem:
            self._request = Decision(JobStatus.CANCELLED, f"The job's rows cannot be read: {problem}")
            self._news.set()
            return
        batch.reservation = Reservation(batch.reservation.batch, page)
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
        return over_the_budget(
            self.job, price + sum(item.price for item in self.open_batches.values() if item is not batch)
        )

    def _on_over(self, batch: BatchRun, problem: BaseException | None) -> None:
        self._over += 1
        self._request = self._request or batch.request
        if self._over == 1 or self._over >= len(self.open_batches) or self._request is not None:
            self._news.set()
        if problem is not None:
            log.error("job %s: batch %s failed", self.job.id, batch.reservation.batch.id, exc_info=problem)

    def _handle(self, deferrals: int = 0) -> JobHandle:
        return JobHandle(self.job, Cache(self.db, self.enrichment.slug, self.timing.clock), self._peers, deferrals)

    def _forget(self, batch_id: int) -> None:
        item = self.open_batches.pop(batch_id, None)
        if item is not None:
            self.exclusive_runs.batch_closed()
            item.call_off()

    def _cancel_all(self) -> None:
        for batch_id in list(self.open_batches):
            self._forget(batch_id)

    # ---- waiting -----------------------------------------------------------------------------------------------

    async def _until_worth_a_cycle(self) -> None:
        """Sleep until there is enough to commit, the job's row was changed, deferred rows are due, or it is time to look
        for reservations that others gave back."""
        while not self._stopping and self._request is None:
            self._news.clear()  # first: what happens from here on ends the wait below
            self._time_out_stragglers()
            if self._is_worth_a_cycle() or await self._has_changed():
                return
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), self._patience())

    def _is_worth_a_cycle(self) -> bool:
        waited = self._time() - self._committed
        if self._until_due() <= 0 and (not self.open_batches or self._wanted(0)):
            return True
        if not self.open_batches:
            return waited >= LOOK_SECONDS and not self.is_waiting
        if self._over >= len(self.open_batches):
            return True
        return waited >= COMMIT_SECONDS and (
            self._over > 0 or any(item.has_news for item in self.open_batches.values())
        )

    def _patience(self) -> float:
        """Seconds to sleep before the next transaction or look."""
        if self._over:
            seconds = max(0.001, self._committed + COMMIT_SECONDS - self._time())
        else:
            seconds = WAITING_LOOK_SECONDS if self.is_waiting else LOOK_SECONDS
        due = self._until_due()
        return min(seconds, due + 0.001) if due > 0 else seconds

    def _until_due(self) -> float:
        """Seconds until deferred rows may be reserved: at their time, and no sooner than a commit may come."""
        if self._next_due is None:
            return math.inf
        return max(self._next_due - self.timing.clock(), self._committed + COMMIT_SECONDS - self._time())

    async def _has_changed(self) -> bool:
        """Whether the job's row or its reservations call for a transaction; read at most every LOOK_SECONDS. While the
        job waits, its row changes only when rows are answered from outside."""
        if self._time() - self._looked < (WAITING_LOOK_SECONDS if self.is_waiting else LOOK_SECONDS):
            return False
        self._looked = self._time()
        plan, now = self.plan, self.timing.clock()
        try:
            seen: Glance = await self._read(lambda conn: cycle.glance(conn, plan, now))
        except sqlite3.OperationalError:
            return False  # busy; the next look or the next transaction tells
        self._peers.workers = seen.workers
        if seen.job.status is not JobStatus.RUNNING:
            return True
        return self.is_waiting and (seen.job != self.job or seen.next_due != self._next_due)

    def _time_out_stragglers(self) -> None:
        limit = self.timing.batch_seconds
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

    # ---- the database ------------------------------------------------------------------------------------------

    async def _write(self, fn: Callable[[sqlite3.Connection], Any]) -> Any:
        """`fn` in one transaction, tried until it goes through: finished work is not thrown away for a lock that others
        hold or a disk that is full for a while.

        :raises compat.Busy, sqlite3.OperationalError: what stood in the way when the runner is asked to stop
        """
        for pause in itertools.chain(RETRY_SECONDS, itertools.repeat(RETRY_SECONDS[-1])):
            try:
                return await compat.write(self.db, fn)
            except (compat.Busy, sqlite3.OperationalError) as problem:
                if self._stopping or not compat.may_pass(problem):
                    raise
                log.warning("job %s of %s waits %g s: %s", self.job.id, self.db.name, pause, problem)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stop.wait(), pause)
        raise AssertionError("unreachable")

    @staticmethod
    def _time() -> float:
        """The event loop's clock, which measures all durations here."""
        return asyncio.get_running_loop().time()

    async def _read(self, fn: Callable[[sqlite3.Connection], Any], *, limit_ms: float | None = None) -> Any:
        return await compat.read(self.db, fn, limit_ms=limit_ms)
