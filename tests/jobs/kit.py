"""What the tests of the engine share: tables of any shape, one-method enrichments, running a job to its end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import pathlib
import sqlite3
from collections.abc import AsyncIterator, Callable
from typing import Any

import pydantic

from datasette_ingest import Enrichment, compat
from datasette_ingest.jobs.engine.runner import Timing
from datasette_ingest.jobs.engine.worker import Worker
from datasette_ingest.jobs.model import Job, StartRequest
from datasette_ingest.jobs.owner import liveness
from datasette_ingest.jobs.service import control, queries
from datasette_ingest.testing import run_until_idle

from ..conftest import ROOT, rows

PATIENCE_SECONDS = 120
"""A job that is not over by then never will be."""


class AnyConfig(pydantic.BaseModel):
    """Settings of any name, for enrichments that a test makes up."""

    model_config = pydantic.ConfigDict(extra="allow")


def by_row(enrich: Callable[[Any], Any], **attributes: Any) -> Enrichment:
    """An enrichment `e` that calls `enrich(row)`, which may be a coroutine function."""

    async def enrich_row(self: Any, row: Any, config: Any) -> Any:
        answer = enrich(row)
        return await answer if asyncio.iscoroutine(answer) else answer

    return _enrichment(enrich_row=enrich_row, **attributes)


def by_batch(enrich: Callable[[Any, Any], Any], **attributes: Any) -> Enrichment:
    """An enrichment `e` that calls `enrich(rows, pks)`, which may be a coroutine function."""

    async def enrich_batch(self: Any, rows: Any, pks: Any) -> Any:
        answer = enrich(rows, pks)
        return await answer if asyncio.iscoroutine(answer) else answer

    return _enrichment(enrich_batch=enrich_batch, **attributes)


def _enrichment(**attributes: Any) -> Enrichment:
    values = {"slug": "e", "name": "E", "Config": AnyConfig, "batch_size": 2, **attributes}
    return type("Made", (Enrichment,), values)()


def table(path: pathlib.Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        for sql in statements:
            conn.execute(sql)


async def start(datasette: Any, name: str = "papers", **given: Any) -> Job:
    return await control.start(datasette, "data", StartRequest(name, **{"enrichment": "e", "actor": ROOT, **given}))


async def to_the_end(datasette: Any, job: Job, *, timing: Timing | None = None) -> Job:
    """Run whatever is runnable; the job as it then stands. No task may end in an exception that nobody looked at."""
    unseen: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
    await asyncio.wait_for(run_until_idle(datasette, timing=timing), PATIENCE_SECONDS)
    gc.collect()
    assert not unseen, unseen
    return await look(datasette, job)


async def look(datasette: Any, job: Job) -> Job:
    return await queries.find(datasette, "data", job.id, actor=ROOT)


async def execute(datasette: Any, sql: str, *args: Any) -> None:
    await compat.write(datasette.get_database("data"), lambda conn: conn.execute(sql, args).rowcount)


def counting(path: pathlib.Path, name: str = "papers") -> None:
    """From now on, note every update of a row in `writes`."""
    table(
        path,
        "create table writes (row)",
        f"create trigger counts after update on {name} begin insert into writes values (new.rowid); end",
    )


def books(path: pathlib.Path) -> tuple[Any, ...]:
    """(status, done, errors, open reservations) of the only job."""
    [(status, done, errors)] = rows(path, "select status, done_count, error_count from _enrichment_jobs")
    return status, done, errors, rows(path, "select count(*) from _enrichment_batches")[0][0]


def quick(**limits: Any) -> Timing:
    return Timing(liveness=liveness, **limits)


@contextlib.asynccontextmanager
async def at_work(datasette: Any, clock: Any, **limits: Any) -> AsyncIterator[Worker]:
    """A worker in virtual time."""
    worker = Worker(datasette, timing=clock.timing(**limits))
    task = asyncio.create_task(worker.run_forever())
    try:
        yield worker
    finally:
        worker.stop()
        await task
