"""How often a request reads its database: what decides who may see what is read once, however much it shows."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from datasette_ingest import compat
from datasette_ingest.jobs import facts
from datasette_ingest.jobs.service import control
from datasette_ingest.web import access

from .conftest import READER, ROOT, get, post_json, start

ENRICHER = {"id": "enricher"}
MOST = {  # page -> the most reads of ours, those that show our own parts of it included
    "/": 2,
    "/words": 4,
    "/words/words": 6,
    "/words/words/1": 5,
    "/words/quiet": 6,
    "/-/ingest-jobs": 4,
    "/-/ingest-jobs/words": 4,
    "/-/ingest-jobs/words/1": 7,
}


@contextlib.contextmanager
def counted(monkeypatch: Any) -> Iterator[list[Any]]:
    """The functions that ours have read with, while the block lasts."""
    made: list[Any] = []
    real = compat.reading.read

    async def read(db: Any, fn: Any, **more: Any) -> Any:
        made.append(fn)
        return await real(db, fn, **more)

    with monkeypatch.context() as patch:
        patch.setattr(compat, "read", read)
        yield made


async def with_jobs(open_ds: Any, number: int = 3, **config: Any) -> Any:
    plugin = {"datasette-ingest": {"run_jobs": False, "allow": {"id": ["enricher", "root"]}}}
    datasette = await open_ds({"plugins": plugin, **config})
    for _ in range(number):
        await start(datasette)
    return datasette


@pytest.mark.parametrize("actor", [None, READER, ENRICHER, ROOT])
@pytest.mark.parametrize("path", MOST)
async def test_a_page_reads_what_decides_once(open_ds, monkeypatch, path, actor):
    datasette = await with_jobs(open_ds)
    await get(datasette, path, actor)
    with counted(monkeypatch) as made:
        await get(datasette, path, actor)
    assert made.count(facts._read) <= 1 and len(made) <= MOST[path]


async def test_thirty_jobs_are_listed_with_as_many_reads_as_one(open_ds, monkeypatch):
    numbers = []
    for wanted in (1, 29):
        datasette = await with_jobs(open_ds, wanted)
        with counted(monkeypatch) as made:
            page = await get(datasette, "/-/ingest-jobs.json", ENRICHER)
        numbers.append((len(page.json()["jobs"]), len(made)))
    assert [jobs for jobs, _ in numbers] == [1, 30] and numbers[0][1] == numbers[1][1]


async def test_each_database_is_read_once(open_ds, monkeypatch, tmp_path):
    paths = [str(tmp_path / f"{name}.db") for name in ("a", "b", "c")]
    for path in paths:
        with contextlib.closing(sqlite3.connect(path)) as conn:
            conn.execute("create table words (id integer primary key, word text)")
    datasette = await open_ds({"plugins": {"datasette-ingest": {"allow": ENRICHER}}}, paths=paths)
    with counted(monkeypatch) as made:
        await get(datasette, "/", ENRICHER)
    assert made.count(facts._read) <= 3


async def test_the_next_request_reads_again(open_ds):
    """A table that becomes private, is dropped, or is replaced is judged anew at once."""
    datasette = await with_jobs(open_ds)
    assert (await get(datasette, "/words/_enrichment_jobs", READER)).status_code == 200
    with contextlib.closing(sqlite3.connect(datasette.databases["words"].path)) as conn, conn:
        conn.execute("drop view quiet")
        conn.execute("alter table words rename to gone")
    assert (await get(datasette, "/words/_enrichment_jobs", READER)).status_code == 403
    assert (await get(datasette, "/-/ingest-jobs/words/1", ENRICHER)).status_code == 404


async def test_a_request_that_may_write_remembers_nothing(open_ds):
    datasette = await with_jobs(open_ds)
    db, read = datasette.databases["words"], []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        read.extend([await facts.of(db), await facts.of(db)])

    for method, is_same in (("GET", True), ("HEAD", True), ("POST", False), ("DELETE", False)):
        read.clear()
        await access.remembering(app)({"type": "http", "method": method}, None, None)
        assert (read[0] is read[1]) == is_same, method


async def test_a_step_is_judged_by_the_table_as_it_is_then(open_ds, monkeypatch):
    """Between the two checks of one POST the table goes away."""
    datasette = await with_jobs(open_ds)
    real = control.pause

    async def pause(*args: Any, **more: Any) -> Any:
        with contextlib.closing(sqlite3.connect(datasette.databases["words"].path)) as conn, conn:
            conn.execute("drop view quiet")
            conn.execute("alter table words rename to gone")
        return await real(*args, **more)

    monkeypatch.setattr(control, "pause", pause)
    answer = await post_json(datasette, "/-/ingest-jobs/words/1/pause", {}, ENRICHER)
    assert answer.status_code == 404


async def test_a_users_own_view_that_does_not_work_is_no_fault(open_ds):
    datasette = await open_ds()
    with contextlib.closing(sqlite3.connect(datasette.databases["words"].path)) as conn, conn:
        conn.execute("create table lost (table_name text)")
        for name in ("_enrichment_loaded_from", "_enrichment_sources"):
            conn.execute(f"create view {name} as select * from lost")
        conn.execute("drop table lost")
    for path in ("/words/words", "/words/words/1", "/-/ingest-jobs", "/"):
        assert (await get(datasette, path, READER)).status_code == 200, path
