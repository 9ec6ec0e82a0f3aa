"""The life of one job in one process: reserve, enrich, commit, repeat."""

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
from .. import events, store
from ..cache import Cache
from ..enrichment import Enrichment
from ..errors import BadSelection, Cancel, JobNotFound, Pause
from ..model import Decision, Job, JobStatus, over_the_budget
from ..owner import Liveness
from . import batch_run, cycle, planning
from .batch_run import JobHandle, Setting, Work
from .cycle import Cycle, Done, Open, Plan, SchemaMoved
from .exclusive import Company
from .results import Failure, RolledBack

log = logging.getLogger(__name__)

COMMIT_SECONDS = 0.25
"""A slow enrichment's results are committed no more often than this."""
GENTLE_SECONDS = 0.1
GENTLE_ROWS = 1000
"""Beside pages that are being served, a job whose rounds are shorter than this holds no more than this many rows at
once: a shorter round holds the processor for less time."""
LOOK_SECONDS = 0.4
"""How often the job's status is read while nothing else needs a transaction: a pause takes effect within a second."""
LIVE_SECONDS = 1.0
"""How often the enrichment is asked what there is to say of the job."""
CANCEL_SECONDS = 5.0
"""How long a batch that is called off may take to clean up."""
FREE_SQL_LIMIT_MS = 60_000
NOTHING_SAID = "{}"
RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


@dataclass(frozen=True)
class Timing:
    """Clocks and limits of a runner, in seconds. `clock` is the time of day, for leases and stamps."""

    lease_seconds: float = 60.0
    batch_seconds: float = 900.0
    clock: Callable[[], float] = time.time
    liveness: Callable[[str], Liveness] = lambda owner: Liveness.UNKNOWN


class Unrunnable(Exception):
    """The job cannot go on as it is: its table, its filters or its settings no longer fit. The message says why."""


class Runner:
    """Runs one job until it is final, paused, or `stop` is called. `open` holds the batches at work."""

    def __init__(
        self,
        datasette: Any,
        db: Any,
        job: Job,
        enrichment: Enrichment,
        owner: str,
        *,
        timing: Timing,
        company: Company,
        turn: Callable[[], Awaitable[None]],
        is_gentle: bool = False,
        watch: Callable[[Job], None] = lambda job: None,
    ) -> None:
        self.datasette = datasette
        self.db = db
        self.job = job
        self.enrichment = enrichment
        self.owner = owner
        self.timing = timing
        self.company = company
        self.turn = turn
        self.is_gentle = is_gentle
        self.watch = watch
        self.open: dict[int, Work] = {}
        self.plan: Plan
        self._news = asyncio.Event()
        self._over = 0  # batches of `open` that ended and were not committed yet
        self._request: Decision | None = None  # for the next transaction
        self._settling: Decision | None = None  # for when the batches at work have ended
        self._stop = asyncio.Event()
        self._is_initialized = False
        self._is_suspect_next = False
        self._has_decided = False  # this runner ended or paused the job, and told nobody yet
        self._committed = 0.0
        self._round = math.inf  # seconds from the transaction before last to the last
        self._looked = 0.0
        self._listened = 0.0
        self._said = self._stored = NOTHING_SAID  # what the enrichment says of the job, and what of it is stored

    # ---- the life ----------------------------------------------------------------------------------------------

    async def run(self) -> Job:
        """The job as it stood when this runner let go of it."""
        try:
            if not await self._begin():
                return self.job
            while True:
                is_leaving = self._stopping
                await self.turn()
                if not self.open and self._is_suspect_next and not self._stopping:
                    step = await self._alone()
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
            await self._write(lambda conn: store.release(conn, self.owner, self.job.id))
            raise
        finally:
            await self._close()
            await self._announce()
        return self.job

    def stop(self) -> None:
        """Ask the runner to commit what is finished, give back the rest and return."""
        self._stop.set()
        self._news.set()

    @property
    def _stopping(self) -> bool:
        return self._stop.is_set()

    def wake(self) -> None:
        """The job's row was changed by a person: look at it now."""
        self._news.set()
        self._looked = 0.0

    # ---- beginning and end -------------------------------------------------------------------------------------

    async def _begin(self) -> bool:
        """Mark the job running and make the plan; False when somebody paused or ended it meanwhile."""
        now = self.timing.clock()

        def begin(conn: sqlite3.Connection) -> bool:
            expected = [JobStatus.PENDING, JobStatus.RUNNING]
            started = store.change_status(
                conn, self.job.id, expected, JobStatus.RUNNING, now=now
            ) or store.resume_if_due(conn, self.job.id, now)
            if started:
                store.set_live(conn, self.job.id, self.owner, NOTHING_SAID)
            return started

        started = await self._write(begin)
        self.job = await self._read(lambda conn: store.get_job(conn, self.job.id))
        if not started:
            return False
        self.watch(self.job)
        self.plan = await self._make_plan()
        return await self._initialize()

    async def _initialize(self) -> bool:
        try:
            batch_run.check_methods(self.enrichment)
            await batch_run.call(self._setting, self._handle(), self.enrichment.initialize)
        except Pause as pause:
            await self._leave(batch_run.pause_decision(pause))
            return False
        except Cancel as cancel:
            raise Unrunnable(cancel.reason) from cancel
        except Exception as problem:
            log.exception("job %s of %s: %s could not begin", self.job.id, self.db.name, self.enrichment.slug)
            raise Unrunnable(f"{self.enrichment.name} could not begin: {batch_run.sentence(problem)}") from problem
        self._is_initialized = True
        return True

    async def _close(self) -> None:
        tasks = [item.task for item in self.open.values() if item.task is not None]
        self._cancel_all()
        if tasks:
            await asyncio.wait(tasks, timeout=CANCEL_SECONDS)
        if self._is_initialized:
            try:
                await batch_run.call(self._setting, self._handle(), self.enrichment.close)
            except Exception:
                log.exception("job %s of %s: %s could not close", self.job.id, self.db.name, self.enrichment.slug)

    async def _make_plan(self) -> Plan:
        """The plan for the tables as they are now; made again when they change."""
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
        except (BadSelection, ValueError) as problem:
            raise Unrunnable(str(problem)) from problem
        self._setting = Setting(self.datasette, self.db, self.enrichment, config, plan.key, plan.columns)
        return plan

    def _is_all_answered(self, step: Cycle) -> bool:
        nothing_held = not self.open and not step.open_elsewhere and not step.suspects
        return step.is_exhausted and nothing_held and self._settling is None

    async def _finish(self) -> bool:
        try:
            await batch_run.call(self._setting, self._handle(), self.enrichment.finalize)
        except Pause as pause:
            await self._leave(batch_run.pause_decision(pause))
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
        self.watch(self.job)
        return self.job.status is not JobStatus.RUNNING

    async def give_up(self, reason: str) -> None:
        """Cancel the job from outside: it cannot go on."""
        await self._give_up(reason)
        await self._announce()

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
                store.drop_batches(conn, self.job.id)
            return store.get_job(conn, self.job.id), is_decided

        self.job, self._has_decided = await self._write(change)
        self.watch(self.job)

    async def _announce(self) -> None:
        if self._has_decided:
            self._has_decided = False
            await events.emit(self.datasette, self.job)

    # ---- a cycle -----------------------------------------------------------------------------------------------

    def _wanted(self, ending: int) -> int:
        """How many reservations to open when `ending` of ours are about to be closed."""
        if self._stopping or self._request or self._settling or self.company.is_closed(self):
            return 0
        most = self.plan.max_open_batches
        if self.is_gentle and self._round < GENTLE_SECONDS:
            most = min(most, max(1, GENTLE_ROWS // self.plan.batch_size))
        return max(0, most - len(self.open) + ending)

    async def _alone(self) -> Cycle:
        """A cycle that takes a suspect, once nothing else is at work in this process."""
        async with self.company.alone(self):
            step = await self._cycle(alone=True)
            self._launch(step.opened)
            while self.open and not self._stopping and self.job.status is JobStatus.RUNNING:
                await self._until_worth_a_cycle()
                await self._cycle(alone=True, want=0)
        return replace(step, opened=[])

    async def _cycle(self, *, alone: bool = False, want: int | None = None) -> Cycle:
        """One transaction, tried again until it goes through: what was finished is not thrown away for a busy or full
        database, nor for one row that the user's own schema refuses."""
        done = self._collect()
        if self._settling is not None and all(item.is_closed for item in self.open.values()):
            self._request = self._request or self._settling
        if want is None:
            want = 1 if alone else self._wanted(sum(item.is_whole for item in done))
        while True:
            try:
                step = await self._try_cycle(done, want, alone)
                break
            except SchemaMoved:
                self.plan = await self._make_plan()
            except RolledBack as refusal:
                _blame(done, refusal)
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

    async def _try_cycle(self, done: list[Done], want: int, alone: bool) -> Cycle:
        ahead, peeked = await self._read_outside(want, alone)
        now, request = self.timing.clock(), self._request
        self._listen()
        said = NOTHING_SAID if self._stopping else self._said

        def change(conn: sqlite3.Connection) -> Cycle:
            if said != self._stored:
                store.set_live(conn, self.job.id, self.owner, said)
            return cycle.run_cycle(
                conn,
                self.plan,
                done,
                want=want,
                now=now,
                request=request,
                alone=alone,
                ahead=ahead,
                peeked=peeked,
                is_leaving=self._stopping,
            )

        step: Cycle = await self._write(change)
        self._stored = said
        return step

    def _listen(self) -> None:
        """Ask the enrichment what there is to say of the job, at most every LIVE_SECONDS, and at once when it pauses."""
        now = time.monotonic()
        if (now - self._listened < LIVE_SECONDS and self._request is None) or self._listened == math.inf:
            return
        self._listened = now
        try:
            self._said = batch_run.said_live(self._setting, self._handle())
        except Exception:
            log.exception("job %s of %s: %s cannot say how it stands", self.job.id, self.db.name, self.enrichment.slug)
            self._listened = math.inf  # once is enough

    def _after(self, step: Cycle) -> None:
        self.job = step.job
        self._has_decided = self._has_decided or step.is_decided
        self._request = None
        now = time.monotonic()
        self._round, self._committed, self._looked = now - self._committed, now, now
        self._is_suspect_next = step.suspects > 0
        for batch_id in step.lost:
            log.warning("job %s of %s: batch %s was taken over by another process", self.job.id, self.db.name, batch_id)
            self._forget(batch_id)
        ended = (number for number, item in self.open.items() if item.is_closed or (item.is_over and not item.has_news))
        for batch_id in list(ended):
            self._forget(batch_id)
        self.watch(self.job)

    async def _read_outside(self, want: int, alone: bool) -> tuple[cycle.ReadAhead | None, Open | None]:
        """What a selection with free SQL needs read before the transaction."""
        if not self.plan.is_free_sql or not want:
            return None, None
        plan, after = self.plan, self.job.next_cursor
        if alone:
            return None, await self._read(lambda conn: cycle.peek_suspect(conn, plan), limit_ms=FREE_SQL_LIMIT_MS)
        fresh = await self._read(
            lambda conn: cycle.read_ahead(conn, plan, after, want * plan.batch_size), limit_ms=FREE_SQL_LIMIT_MS
        )
        return fresh, None

    def _collect(self) -> list[Done]:
        """What became finished since the last cycle, whole batches and first rows of others."""
        self._over = 0
        done = []
        for item in self.open.values():
            self._request = self._request or item.request
            finished = item.take()
            if finished is not None:
                done.append(finished)
        return done

    # ---- batches at work ---------------------------------------------------------------------------------------

    def _launch(self, opened: list[Open]) -> None:
        for item in opened:
            batch = Work(item, self._handle(), self._setting)
            self.open[item.batch.id] = batch
            self.company.enter(self)
            if item.page.width == cycle.UNREAD.width:
                batch.task = asyncio.create_task(self._read_then_start(batch))
            else:
                self._start_or_settle(batch)

    async def _read_then_start(self, batch: Work) -> None:
        plan = self.plan
        try:
            page = await self._read(
                lambda conn: cycle.read_rows(conn, plan, batch.open.batch), limit_ms=FREE_SQL_LIMIT_MS
            )
        except (compat.Interrupted, sqlite3.Error, ValueError) as problem:
            self._request = Decision(JobStatus.CANCELLED, f"The job's rows cannot be read: {problem}")
            self._news.set()
            return
        batch.open = Open(batch.open.batch, page)
        self._start_or_settle(batch)

    def _start_or_settle(self, batch: Work) -> None:
        """Start the batch if the budget lets it; else no further one is started, and when those that are being paid
        have ended the job pauses, and this one goes back."""
        if self._settling is None:
            self._settling = self._over_budget(batch)
        if self._settling is None:
            batch.start(self._on_over)
            return
        self._forget(batch.open.batch.id)
        self._news.set()

    def _over_budget(self, batch: Work) -> Decision | None:
        if self.job.options.budget_100ths_cent is None:
            return None
        columns = self._setting.columns
        rows = [dict(zip(columns, row, strict=False)) for row in batch.open.page.rows]
        try:
            price = self.enrichment.price_nanodollars(rows, self._setting.config)
        except Exception as problem:
            log.exception("job %s of %s: %s has no price", self.job.id, self.db.name, self.enrichment.slug)
            return Decision(JobStatus.CANCELLED, f"{self.enrichment.name} has no price: {batch_run.sentence(problem)}")
        if price is None:
            return None
        batch.price = price
        return over_the_budget(self.job, price + sum(item.price for item in self.open.values() if item is not batch))

    def _on_over(self, batch: Work, problem: BaseException | None) -> None:
        self._over += 1
        self._request = self._request or batch.request
        if self._over == 1 or self._over >= len(self.open) or self._request is not None:
            self._news.set()
        if problem is not None:
            log.error("job %s: batch %s failed", self.job.id, batch.open.batch.id, exc_info=problem)

    def _handle(self) -> JobHandle:
        return JobHandle(self.job, Cache(self.db, self.enrichment.slug, self.timing.clock))

    def _forget(self, batch_id: int) -> None:
        item = self.open.pop(batch_id, None)
        if item is not None:
            self.company.leave(self)
            item.call_off()

    def _cancel_all(self) -> None:
        for batch_id in list(self.open):
            self._forget(batch_id)

    # ---- waiting -----------------------------------------------------------------------------------------------

    async def _until_worth_a_cycle(self) -> None:
        """Return when a commit is worth its transaction, when the job's row was changed, or when it is time to see
        whether others have left something."""
        while not self._stopping and self._request is None:
            self._news.clear()  # first: what happens from here on ends the wait below
            self._time_out_stragglers()
            if self._is_worth_a_cycle() or not await self._is_still_running():
                return
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), self._patience())

    def _is_worth_a_cycle(self) -> bool:
        waited = time.monotonic() - self._committed
        if not self.open:
            return waited >= LOOK_SECONDS
        if waited >= LIVE_SECONDS:
            self._listen()
            if self._said != self._stored:
                return True
        if self._over >= len(self.open):
            return True
        return waited >= COMMIT_SECONDS and (self._over > 0 or any(item.has_news for item in self.open.values()))

    def _patience(self) -> float:
        if not self._over:
            return LOOK_SECONDS
        return max(0.001, self._committed + COMMIT_SECONDS - time.monotonic())

    async def _is_still_running(self) -> bool:
        """The job's status as it stands, read at most every LOOK_SECONDS."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return True
        self._looked = now
        try:
            job = await self._read(lambda conn: store.get_job(conn, self.job.id))
        except sqlite3.OperationalError:
            return True  # busy; the next look or the next transaction tells
        return job.status is JobStatus.RUNNING

    def _time_out_stragglers(self) -> None:
        limit = self.timing.batch_seconds
        for item in list(self.open.values()):
            if not item.is_stuck(limit):
                continue
            log.error(
                "job %s of %s: %s gave no answer within %g s", self.job.id, self.db.name, self.enrichment.slug, limit
            )
            item.call_off()
            item.time_out(limit)
            item.task = None
            if self.enrichment.is_row_by_row and len(item.results) < len(item.open.page):
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

    async def _read(self, fn: Callable[[sqlite3.Connection], Any], *, limit_ms: float | None = None) -> Any:
        return await compat.read(self.db, fn, limit_ms=limit_ms)


def _blame(done: list[Done], refusal: RolledBack) -> None:
    """Turn the answer that ended a transaction into an error, so that the next try goes through."""
    for item in done:
        if item.batch.id != refusal.batch_id:
            continue
        if refusal.row is None:
            item.answer = item.answer.failed(str(refusal))
        elif refusal.row == RolledBack.UNKNOWN:
            item.singly = True
        else:
            item.answer.updates[refusal.row] = None
            item.answer.errors[refusal.row] = Failure(str(refusal))
