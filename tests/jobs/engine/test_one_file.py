"""One file under several names is served once, so that no runner takes another one's reservations for its own."""

from __future__ import annotations

import asyncio
import os
import pathlib
from collections import Counter
from typing import Any

import pytest

from datasette_ingest import compat
from datasette_ingest.jobs.cache import Cache
from datasette_ingest.jobs.engine.worker import Worker
from datasette_ingest.jobs.model import JobStatus
from datasette_ingest.testing import run_until_idle

from ...conftest import registered, rows, serving
from ..kit import by_row, counting, look, quick, start, table

WAYS = {
    "symbolic link": lambda path, other: other.symlink_to(path),
    "hard link": lambda path, other: os.link(path, other),
    "relative symbolic link": lambda path, other: other.symlink_to(path.name),
    "link to a link": lambda path, other: (
        path.with_name("between.db").symlink_to(path),
        other.symlink_to(path.with_name("between.db")),
    ),
}


@pytest.fixture(params=WAYS.values(), ids=list(WAYS))
def other(request: pytest.FixtureRequest, db_path: pathlib.Path) -> pathlib.Path:
    path = db_path.with_name("link.db")
    request.param(db_path, path)
    return path


async def test_a_row_is_given_to_the_enrichment_once(db_path: pathlib.Path, other: pathlib.Path) -> None:
    counting(db_path)
    given: Counter[int] = Counter()

    async def enrich(row: Any) -> Any:
        given[row["id"]] += 1
        await asyncio.sleep(0.02)
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=1, max_open_batches=2)):
        async with serving(other, db_path) as datasette:
            assert {"data", "link"} <= datasette.databases.keys()
            job = await start(datasette)
            await asyncio.wait_for(run_until_idle(datasette), 30)
            job = await look(datasette, job)
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 5, 0)
    assert given == dict.fromkeys(range(1, 6), 1)
    assert sorted(rows(db_path, "select row from writes")) == [(number,) for number in range(1, 6)]


@pytest.mark.parametrize("name", ["data", "link"])
async def test_a_worker_that_serves_one_name_runs_the_job_under_it(
    db_path: pathlib.Path, other: pathlib.Path, name: str
) -> None:
    with registered(by_row(lambda row: {"copied": row["id"]})):
        async with serving(db_path, other) as datasette:
            job = await start(datasette)
            for limits in ({"databases": [name]}, {"only": (name, job.id)}):
                table(db_path, "update _enrichment_jobs set status = 'pending', next_cursor = null, done_count = 0")
                worker = Worker(datasette, timing=quick(), poll_seconds=0.02, **limits)  # type: ignore[arg-type]
                await asyncio.wait_for(worker.run_until_idle(), 30)
                found = await look(datasette, job)
                assert (found.status, found.done_count) == (JobStatus.FINISHED, 5)


async def test_two_names_of_one_file_share_a_computation(db_path: pathlib.Path, other: pathlib.Path) -> None:
    asked = []

    async def compute() -> str:
        asked.append(1)
        await asyncio.sleep(0.02)
        return "found"

    async with serving(db_path, other) as datasette:
        caches = [Cache(datasette.get_database(name), "e") for name in ("data", "link")]
        assert await asyncio.gather(*(cache.get_or_set("key", compute) for cache in caches)) == ["found", "found"]
    assert len(asked) == 1


async def test_files_are_told_apart_by_what_they_are(db_path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    twin = tmp_path / "twin.db"
    twin.write_bytes(db_path.read_bytes())
    async with serving(db_path, twin) as datasette:
        one, two = (datasette.get_database(name) for name in ("data", "twin"))
        assert compat.file_id(one) != compat.file_id(two)
        memory = [datasette.add_memory_database(name) for name in ("m1", "m2")]
        assert len({compat.file_id(db) for db in memory}) == 2
