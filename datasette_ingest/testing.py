"""For tests of enrichments: run jobs to their end without a server and without sleeping."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import sqlite_utils

from . import compat
from .jobs.engine.runner import Timing
from .jobs.engine.worker import Worker
from .jobs.model import Job, StartRequest
from .jobs.owner import liveness
from .jobs.results_log import JobErrorRow
from .jobs.service import control, queries
from .jobs.service.permissions import ROOT
from .sqlite import from_iso, quote

__all__ = ["EnrichedTable", "Job", "JobErrorRow", "Timing", "run_until_idle", "table_of"]

DATABASE = "trial"


async def run_until_idle(datasette: Any, *, timing: Timing | None = None) -> None:
    """Run every job that is runnable in this instance's databases until none is left.

    A job that paused stays paused; neither one with a `resume_at` in the future is waited for, nor one whose rows are
    all deferred.
    """
    await datasette.invoke_startup()
    worker = Worker(datasette, timing=timing or Timing(liveness=liveness), poll_seconds=0.05)
    await worker.run_until_idle(waits=False)


class EnrichedTable:
    """A table in a Datasette instance of its own, on which installed enrichments can be run. Comes from `table_of`.

    Every method acts as root. `datasette` is the instance, `name` the table's name.
    """

    def __init__(self, datasette: Any, name: str) -> None:
        self.datasette = datasette
        self.name = name

    async def run(
        self,
        enrichment: str,
        config: Mapping[str, Any] | None = None,
        *,
        filters: str = "",
        options: Mapping[str, Any] | None = None,
    ) -> Job:
        """Start a job of the enrichment with that slug and run it until it is over, paused, or all its rows wait.

        :param filters: a Datasette querystring; '' selects all rows
        :param options: `batch_size`, `max_errors`, `budget_100ths_cent` and so on, as the JSON API takes them
        :raises JobError: when the job cannot be started; its `details` hold one message a setting
        """
        request = StartRequest(self.name, enrichment, filters, config or {}, options or {}, actor=ROOT)
        return await self._run_on(await control.start(self.datasette, DATABASE, request))

    async def resume(self, job: Job) -> Job:
        """Let a paused job go on, as a person does, until it is over or paused again.

        :raises IllegalTransition: when it is not paused
        """
        await control.resume(self.datasette, DATABASE, job.id, actor=ROOT)
        return await self._run_on(job)

    async def resume_when_due(self, job: Job) -> Job:
        """Let a job that paused until a time, or whose rows are all deferred, go on by itself: it sees a clock that has
        reached that time, or that of the first deferred row.

        :raises ValueError: when the job does not wait for a time
        """
        until = job.resume_at or job.waits_until
        if until is None:
            raise ValueError(f"Job {job.id} is {job.status.value} and does not wait for a time")
        ahead = max(0.0, from_iso(until) - time.time())
        return await self._run_on(job, Timing(clock=lambda: time.time() + ahead, liveness=liveness))

    async def rows(self) -> list[dict[str, Any]]:
        """The table as it stands, in the order of its rowids."""
        sql = f"select * from {quote(self.name)} order by rowid"
        db = self.datasette.get_database(DATABASE)
        return await compat.read(db, lambda conn: [dict(row) for row in conn.execute(sql)])

    async def errors(self, job: Job) -> list[JobErrorRow]:
        """The job's rows in error: `row_pks` (a list of one key) and `error` (a sentence) of each."""
        db = self.datasette.get_database(DATABASE)
        return await queries.errors(db, job, limit=max(job.error_count, 1))

    async def _run_on(self, job: Job, timing: Timing | None = None) -> Job:
        await run_until_idle(self.datasette, timing=timing)
        return await queries.find(self.datasette, DATABASE, job.id, actor=ROOT)


@contextlib.asynccontextmanager
async def table_of(
    rows: Iterable[Mapping[str, Any]],
    *,
    pk: str | None = None,
    name: str = "items",
    config: Mapping[str, Any] | None = None,
) -> AsyncIterator[EnrichedTable]:
    """A table of these rows in a temporary database that a Datasette instance serves, while the block lasts::

        async with table_of([{"title": "one"}]) as table:
            job = await table.run("shout", {"column": "title"})
            assert await table.rows() == [{"title": "one", "shouted": "ONE"}]

    :param rows: at least one; column types are those of the values
    :param pk: the primary key's column; without it the table has none
    :param config: the instance's configuration, as in datasette.yaml: `{"plugins": {…}}`
    :raises ValueError: when there are no rows to make a table of
    """
    given = [dict(row) for row in rows]
    if not given:
        raise ValueError("table_of needs at least one row: a table without columns cannot be made")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"{DATABASE}.db"
        with contextlib.closing(sqlite_utils.Database(path)) as database:
            database[name].insert_all(given, pk=pk, alter=True)
        datasette = compat.open_datasette([str(path)], config=config, with_root=True)
        await datasette.invoke_startup()
        try:
            yield EnrichedTable(datasette, name)
        finally:
            compat.close(datasette)
