"""Finds runnable jobs and runs them, one Runner each; stops cleanly."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ... import compat
from .. import owner, registry, schema, store
from ..model import Job
from .batch_run import sentence
from .exclusive import ExclusiveRuns
from .heartbeat import Heartbeat
from .runner import Runner, Timing, WorkerContext

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
FAULTS_BEFORE_GIVING_UP = 3


class Worker:
    """Runs what is runnable in the databases it serves, one Runner a job, all on one event loop.

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
                if not waits and sum(runner.is_waiting for runner in self.runners.values()) == runnable > 0:
                    return
                await self._rest()

    @contextlib.asynccontextmanager
    async def _at_work(self) -> Any:
        self._loop = asyncio.get_running_loop()
        self._heartbeat.start()
        try:
            yield
        finally:
            self._stopping = True
            self._wake()
            if self._tasks:
                await asyncio.wait(self._tasks.values())
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
        """Start a runner for every runnable job that has none here; how many jobs are runnable."""
        await self._reap()
        slugs = list(await registry.enrichments(self.datasette))
        found = 0
        for name, db in compat.databases(self.datasette).items():
            if self._databases is not None and name not in self._databases:
                continue
            for job in await self._runnable(db, slugs):
                if self._only is not None and self._only != (name, job.id):
                    continue
                found += 1
                if (name, job.id) not in self._tasks and not self._stopping:
                    await self._start(name, db, job)
        return found

    async def _runnable(self, db: Any, slugs: list[str]) -> list[Job]:
        try:
            if await compat.read(db, store.needs_adoption):
                await compat.write(db, schema.migrate)
            now = self.timing.clock()
            return await compat.read(db, lambda conn: store.runnable_jobs(conn, slugs, now))
        except (sqlite3.DatabaseError, compat.Busy) as problem:
            log.warning("cannot look for jobs in %s: %s", db.name, problem)
            return []

    async def _start(self, name: str, db: Any, job: Job) -> None:
        enrichment = await registry.enrichment(self.datasette, job.enrichment)
        runner = Runner(self._context, db, job, enrichment)
        self.runners[name, job.id] = runner
        self._tasks[name, job.id] = asyncio.create_task(runner.run(), name=f"job {job.id} of {name}")

    async def _reap(self) -> None:
        """Drop runners that ended. A job whose runner failed FAULTS_BEFORE_GIVING_UP times in a row is cancelled with its
        last exception."""
        for mark, task in list(self._tasks.items()):
            if not task.done():
                continue
            runner = self.runners.pop(mark)
            del self._tasks[mark]
            problem = None if task.cancelled() else task.exception()
            if problem is None:
                self._faults.pop(mark, None)
                continue
            log.error("job %s of %s stopped on a fault", mark[1], mark[0], exc_info=problem)
            self._faults[mark] = self._faults.get(mark, 0) + 1
            if self._faults[mark] >= FAULTS_BEFORE_GIVING_UP:
                await runner.give_up(f"It stopped on a fault {self._faults.pop(mark)} times: {sentence(problem)}")
