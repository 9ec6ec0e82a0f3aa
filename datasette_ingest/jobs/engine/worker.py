"""Finds runnable jobs and runs them, one Runner each; stops cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

from ... import compat
from ...sqlite import stamp
from ...text import counted
from .. import owner, registry, schema, store
from ..model import Job, JobStatus
from . import counting, places
from .batch_run import sentence
from .exclusive import ExclusiveRuns
from .heartbeat import Heartbeat
from .places import Contender, Holder, Mark
from .rests import Rests
from .runner import Runner, Timing, WorkerContext

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
FAULTS_BEFORE_GIVING_UP = 3
Jobs: TypeAlias = "dict[Mark, tuple[Any, Job]]"
"""Jobs, each with its database."""
WAITS_FOR_A_PLACE = "Waits for a place"
"""Begins the line of a job's log from which on it waits until another one ends or leaves its place."""


class Worker:
    """Runs what is runnable in the databases it serves, one Runner a job, all on one event loop. Where more is runnable
    than `timing.max_running_jobs`, the rest waits; `places` says who runs.

    :param databases: names of the databases to serve; None serves every one that can hold jobs
    :param yield_to_requests: awaited before each cycle, where pages are served in this process
    :param on_update: called with a job whenever its row was read or changed by a runner here
    :param only: run this one job and no other: (database, job id)
    """

    def __init__(
        self,
        datasette: Any,
        *,
        databases: Iterable[str] | None = None,
        timing: Timing | None = None,
        yield_to_requests: Callable[[], Awaitable[None]] | None = None,
        on_update: Callable[[Job], None] = lambda job: None,
        only: tuple[str, int] | None = None,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self.datasette = datasette
        self.timing = timing or Timing(liveness=owner.liveness)
        self.owner = owner.new_owner()
        self.runners: dict[tuple[str, int], Runner] = {}
        self._databases = None if databases is None else frozenset(databases)
        self._only = only
        self._poll_seconds = poll_seconds
        self._tasks: dict[tuple[str, int], asyncio.Task[Any]] = {}
        self._faults: dict[tuple[str, int], int] = {}
        self._looks: dict[str, asyncio.Task[tuple[list[Job], list[Job]]]] = {}
        self.rests = Rests(lambda: asyncio.get_running_loop().time())
        self._checked: set[str] = set()
        self._began: dict[Mark, float] = {}  # when each job got its place
        self._leaving: set[Mark] = set()  # jobs that give their places up
        self._turn = 0  # counts the places that were given and given up
        self._served: dict[str | None, int] = {}  # actor -> the turn at which they last got a place
        self._gave_up: dict[Mark, int] = {}  # job -> the turn at which it gave its place up
        self._noted: set[Mark] = set()  # jobs in whose log it says that they wait
        self._notes: set[asyncio.Task[None]] = set()
        self._counting: asyncio.Future[None]  # the count of a job's rows
        self._uncountable: set[Mark] = set()
        self._parked = 0  # jobs without a place whose rows are all deferred
        self._stopping = False
        self._woken = asyncio.Event()
        self._context = WorkerContext(datasette, self.owner, self.timing, ExclusiveRuns(), yield_to_requests, on_update)
        self._heartbeat = Heartbeat(self.owner, self.timing, self.runners)
        self._loop: asyncio.AbstractEventLoop | None = None

    # ---- from outside ------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """A job was added or changed: look now. May be called from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            with contextlib.suppress(RuntimeError):  # closed between the two calls
                self._loop.call_soon_threadsafe(self._wake)

    def stop(self) -> None:
        """Commit what is finished, give back the rest, end. May be called from any thread."""
        self._stopping = True
        self.wake()

    def _wake(self) -> None:
        self._woken.set()
        for runner in self.runners.values():
            if self._stopping:
                runner.stop()
            else:
                runner.wake()

    # ---- the work ----------------------------------------------------------------------------------------------

    async def run_forever(self) -> None:
        """Serve until `stop`."""
        async with self._at_work():
            while not self._stopping:
                await self._look()
                await self._rest()

    async def run_until_idle(self, *, waits: bool = True) -> None:
        """Serve until no job of ours is pending or running, the leases of other processes included.

        :param waits: False ends also when of each such job all open rows are deferred
        """
        async with self._at_work():
            while not self._stopping:
                runnable = await self._look()
                if not runnable and not self._tasks:
                    return
                waiting = self._parked + sum(runner.is_waiting for runner in self.runners.values())
                if not waits and waiting == runnable > 0:
                    return
                await self._rest()

    @contextlib.asynccontextmanager
    async def _at_work(self) -> Any:
        self._loop = asyncio.get_running_loop()
        self._counting = self._loop.create_future()
        self._counting.set_result(None)
        self._heartbeat.start()
        try:
            yield
        finally:
            self._stopping = True
            self._wake()
            self._counting.cancel()
            # a look that is called off would leave its connection in use
            ending: list[asyncio.Future[Any]] = [
                self._counting,
                *self._looks.values(),
                *self._tasks.values(),
                *self._notes,
            ]
            await asyncio.wait(ending)
            await self._reap()
            self._heartbeat.stop()
            owner.retire(self.owner)

    async def _rest(self) -> None:
        self._woken.clear()
        waiting = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait(
                [waiting, *self._tasks.values()], timeout=self._poll_seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            waiting.cancel()

    async def _look(self) -> int:
        """Give the free places to jobs that wait for one; how many jobs are runnable. A database that takes long to answer
        counts as one, and holds up no other."""
        await self._reap()
        slugs = list(await registry.enrichments(self.datasette))
        databases = self._serving()
        runnable, uncounted = await self._ask(databases, slugs)
        contenders = [self._contender(mark, job) for mark, (_, job) in runnable.items() if mark not in self._tasks]
        shares = places.share(
            [self._holder(mark) for mark in self._tasks],
            contenders,
            most=self.timing.max_running_jobs,
            now=time.monotonic(),
            served=self._served,
        )
        if not self._stopping:
            for mark in shares.start:
                await self._start(mark, *runnable[mark])
            for mark in shares.leave:
                self._leaving.add(mark)
                self.runners[mark].stop()
            self._note_waits({mark: runnable[mark] for mark in shares.wait})
        self._count(uncounted)
        self._parked = sum(each.is_deferred for each in contenders if each.mark not in self._tasks)
        return len(runnable) + len(self._looks)

    async def _ask(self, databases: dict[str, Any], slugs: list[str]) -> tuple[Jobs, Jobs]:
        """The runnable jobs of the databases that have answered, and those whose rows are to be counted; `_looks` are the
        questions that are still open."""
        for name, db in databases.items():
            if name not in self._looks and not self.rests.is_resting(name):
                self._looks[name] = asyncio.create_task(self._read_jobs(name, db, slugs))
        if self._looks:
            await asyncio.wait(self._looks.values(), timeout=self._poll_seconds)
        found: tuple[Jobs, Jobs] = {}, {}
        for name, look in list(self._looks.items()):
            if look.done():
                del self._looks[name]
                for jobs, read in zip(found, look.result(), strict=True):
                    for job in read:
                        if name in databases and self._only in (None, (name, job.id)):
                            jobs[name, job.id] = databases[name], job
        return found

    def _holder(self, mark: Mark) -> Holder:
        runner = self.runners[mark]
        return Holder(mark, runner.job.actor_id, self._began[mark], runner.is_waiting, mark in self._leaving)

    def _contender(self, mark: Mark, job: Job) -> Contender:
        is_deferred = job.status is JobStatus.RUNNING and (job.waits_until or "") > stamp(self.timing.clock())
        return Contender(mark, job.actor_id, (self._gave_up.get(mark, 0), job.started_at or "", mark), is_deferred)

    def _note_waits(self, waiting: Jobs) -> None:
        """Say once in the log of each of these jobs that it waits for a place."""
        most = counted(self.timing.max_running_jobs or 0, "job")
        for mark, (db, _) in waiting.items():
            if mark not in self._noted:
                self._noted.add(mark)
                why = "another person's has taken its turn" if mark in self._gave_up else "as many do"
                self._note(db, mark, f"{WAITS_FOR_A_PLACE}: {most} may run at once, and {why}")

    def _note(self, db: Any, mark: Mark, event: str) -> None:
        """Write in the background that a job waits for a place."""

        def change(conn: sqlite3.Connection) -> None:
            if mark not in self._tasks:  # it may have got one since
                store.wait_for_place(conn, mark[1], self.timing.clock(), event)

        async def write() -> None:
            try:
                await compat.write(db, change)
            except (sqlite3.DatabaseError, compat.Busy) as problem:
                log.warning("job %s of %s waits for a place, and its log cannot say so: %s", mark[1], mark[0], problem)

        task = asyncio.create_task(write())
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)

    def _count(self, uncounted: Jobs) -> None:
        """Begin to count the rows of a job in the background, unless that goes on; one job at a time."""
        if self._stopping or not self._counting.done():
            return
        mark = next((mark for mark in uncounted if mark not in self._uncountable), None)
        if mark is not None:
            self._counting = asyncio.create_task(self._count_one(mark, uncounted[mark][0]))

    async def _count_one(self, mark: Mark, db: Any) -> None:
        try:
            if not await counting.count(db, mark[1], yield_to_requests=self._context.yield_to_requests):
                self._uncountable.add(mark)
        except (sqlite3.DatabaseError, compat.Busy) as problem:
            log.warning("the rows of job %s of %s are not counted yet: %s", mark[1], mark[0], problem)

    def _serving(self) -> dict[str, Any]:
        """The databases to look at, by name. A file that has several names is served under the first: two runners of one
        job would take each other's reservations for their own."""
        served: dict[str, Any] = {}
        files = set()
        for name, db in compat.databases(self.datasette).items():
            if self._databases is not None and name not in self._databases:
                continue
            if self._only is not None and self._only[0] != name:
                continue
            file = compat.file_id(db)
            if file is None or file not in files:
                served[name] = db
            files.add(file)
        return served

    async def _read_jobs(self, name: str, db: Any, slugs: list[str]) -> tuple[list[Job], list[Job]]:
        """The runnable jobs of a database, and those whose rows are to be counted; none while it cannot be used, which is
        logged once."""
        now = self.timing.clock()
        everything = name not in self._checked

        def look(conn: sqlite3.Connection) -> tuple[list[Job], list[Job], list[Job]]:
            runnable = store.runnable_jobs(conn, slugs, now)
            damaged = [job for job in runnable if job.damage] + store.damaged_jobs(conn, all_unfinished=everything)
            return [job for job in runnable if not job.damage], store.uncounted_jobs(conn, slugs), damaged

        try:
            compat.require_same_file(db)
            if await compat.read(db, store.needs_adoption):
                await compat.write(db, schema.migrate, pauses=())
            runnable, uncounted, damaged = await compat.read(db, look)
            if damaged:
                reasons = {job.id: job.damage or "" for job in damaged}
                await compat.write(db, lambda conn: store.give_up(conn, reasons, now), pauses=())
            self._checked.add(name)
            return runnable, uncounted
        except (sqlite3.DatabaseError, OSError) as problem:
            compat.report(db, problem)
            self.rests.rest(name)
            return [], []

    async def _start(self, mark: Mark, db: Any, job: Job) -> None:
        enrichment = await registry.enrichment(self.datasette, job.enrichment)
        self._turn += 1
        self._served[job.actor_id], self._began[mark] = self._turn, time.monotonic()
        self._noted.discard(mark)
        runner = self.runners[mark] = Runner(self._context, db, job, enrichment)
        self._tasks[mark] = asyncio.create_task(runner.run(), name=f"job {mark[1]} of {mark[0]}")

    async def _reap(self) -> None:
        """Drop runners that ended. A job whose runner failed FAULTS_BEFORE_GIVING_UP times in a row is cancelled with its
        last exception."""
        for mark, task in list(self._tasks.items()):
            if not task.done():
                continue
            runner = self.runners.pop(mark)
            del self._tasks[mark], self._began[mark]
            if mark in self._leaving:
                self._leaving.discard(mark)
                self._turn += 1
                self._gave_up[mark] = self._turn
            problem = None if task.cancelled() else task.exception()
            if problem is None:
                self._faults.pop(mark, None)
                continue
            if isinstance(problem, compat.Unavailable):
                self._rest_database(runner, problem)
                continue
            log.error("job %s of %s stopped on a fault", mark[1], mark[0], exc_info=problem)
            self._faults[mark] = self._faults.get(mark, 0) + 1
            if self._faults[mark] >= FAULTS_BEFORE_GIVING_UP:
                try:
                    await runner.give_up(f"It stopped on a fault {self._faults.pop(mark)} times: {sentence(problem)}")
                except compat.Unavailable as unavailable:
                    self._rest_database(runner, unavailable)

    def _rest_database(self, runner: Runner, problem: compat.Unavailable) -> None:
        compat.report(runner.db, problem)
        self.rests.rest(runner.db.name)
