"""Numbers of jobs: none is given twice in a file, and what hangs on a job goes with it, whoever deletes its row."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pathlib
import sqlite3
from typing import Any

import pytest
import sqlite_utils

from datasette_ingest import Defer
from datasette_ingest.jobs import schema
from datasette_ingest.jobs.engine.worker import Worker
from datasette_ingest.jobs.model import JobStatus
from datasette_ingest.jobs.service import control, queries
from datasette_ingest.testing import run_until_idle

from ..conftest import ROOT, registered, rows, serving
from .kit import by_row, quick, start, table, to_the_end

HANG_ON = ("_enrichment_batches", "_enrichment_errors", "_enrichment_progress")
OTHER_PLUGINS_INSERT = "insert into _enrichment_jobs (enrichment, status, table_name) values ('theirs', 'pending', 'x')"


def failing(row: Any) -> Any:
    raise RuntimeError(f"no {row['id']}")


@pytest.fixture
async def data(db_path: pathlib.Path) -> Any:
    """A database with two jobs of five errors each, and its Datasette."""
    with registered(by_row(failing)):
        async with serving(db_path) as datasette:
            for _ in range(2):
                await to_the_end(datasette, await start(datasette))
            yield datasette, db_path


def delete_with_sqlite3(path: pathlib.Path) -> None:
    table(path, "delete from _enrichment_jobs where id = 2")


def delete_everything(path: pathlib.Path) -> None:
    table(path, "delete from _enrichment_jobs")
    with contextlib.closing(sqlite3.connect(path)) as conn:
        conn.execute("vacuum")


def delete_where_foreign_keys_hold(path: pathlib.Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("pragma foreign_keys = on")
        conn.execute("delete from _enrichment_jobs where id = 2")


def delete_with_sqlite_utils(path: pathlib.Path) -> None:
    with contextlib.closing(sqlite_utils.Database(path)) as db:
        db["_enrichment_jobs"].delete(2)


def replace_by_another_job(path: pathlib.Path) -> None:
    table(path, "insert or replace into _enrichment_jobs (id, status, enrichment) values (2, 'finished', 'x')")


def drop_the_table(path: pathlib.Path) -> None:
    table(path, "drop table _enrichment_jobs")


WAYS = [
    delete_with_sqlite3,
    delete_everything,
    delete_where_foreign_keys_hold,
    delete_with_sqlite_utils,
    replace_by_another_job,
    drop_the_table,
]


@pytest.mark.parametrize("delete", WAYS)
async def test_whoever_deletes_a_job_its_number_is_used_and_nothing_of_it_is_left(data: Any, delete: Any) -> None:
    datasette, path = data
    assert len(rows(path, "select 1 from _enrichment_errors where job_id = 2")) == 5
    delete(path)
    job = await to_the_end(datasette, await start(datasette))
    assert (job.id, job.done_count, job.error_count) == (3, 5, 5)
    for name in HANG_ON:
        assert rows(path, f"select count(*) from {name} where job_id = 2") == [(0,)]
    if delete is replace_by_another_job:
        return
    cookies = {"ds_actor": datasette.sign({"a": ROOT}, "actor")}
    for page in ("", ".json", "/errors.json", "/missed.csv"):
        answer = await datasette.client.get(f"/-/ingest-jobs/data/2{page}", cookies=cookies)
        assert answer.status_code == 404, page


async def test_the_row_page_of_datasette_deletes_what_hangs_on_a_job(data: Any) -> None:
    datasette, path = data
    if not hasattr(datasette, "allowed"):
        pytest.skip("this Datasette has no API that deletes rows")
    cookies = {"ds_actor": datasette.client.actor_cookie(ROOT)}
    answer = await datasette.client.post(
        "/data/_enrichment_jobs/2/-/delete", cookies=cookies, json={}, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 200, answer.text
    assert rows(path, "select count(*) from _enrichment_errors where job_id = 2") == [(0,)]
    assert (await start(datasette)).id == 3


async def test_a_row_that_another_plugin_inserts_without_a_number_gets_a_new_one(data: Any) -> None:
    _, path = data
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("delete from _enrichment_jobs")
        assert [conn.execute(OTHER_PLUGINS_INSERT).lastrowid for _ in range(2)] == [3, 4]
        assert conn.execute(f"{OTHER_PLUGINS_INSERT} returning id").fetchall() == [(5,)]
        assert conn.execute("select id, status from _enrichment_jobs").fetchall() == [
            (3, "pending"),
            (4, "pending"),
            (5, "pending"),
        ]


@pytest.mark.parametrize("recursive", ["on", "off"])
async def test_numbers_hold_whatever_the_other_programs_pragmas(data: Any, recursive: str) -> None:
    _, path = data
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute(f"pragma recursive_triggers = {recursive}")
        conn.execute("delete from _enrichment_jobs where id = 2")
        conn.execute("insert or ignore into _enrichment_jobs (id, status) values (1, 'again')")
        assert conn.execute(OTHER_PLUGINS_INSERT).lastrowid == 3
        assert conn.execute("select count(*) from _enrichment_jobs").fetchone() == (2,)


async def test_the_number_of_a_job_cannot_be_changed(data: Any) -> None:
    _, path = data
    with pytest.raises(sqlite3.IntegrityError, match="The number of a job cannot be changed"):
        table(path, "update _enrichment_jobs set id = 9 where id = 2")
    table(path, "update _enrichment_jobs set id = id, status = 'cancelled' where id = 2")


async def test_triggers_that_somebody_took_away_come_back_and_what_happened_meanwhile_is_cleaned_up(data: Any) -> None:
    datasette, path = data
    with contextlib.closing(sqlite_utils.Database(path)) as db:
        db["_enrichment_jobs"].transform(drop={"request_digest"})
    for name in schema.TRIGGERS:
        table(path, f"drop trigger if exists {name}")
    table(path, "delete from _enrichment_jobs where id = 2")
    await run_until_idle(datasette)
    assert rows(path, "select count(*) from _enrichment_errors where job_id = 2") == [(0,)]
    assert (await start(datasette)).id == 3


async def test_numbers_that_results_name_are_used(db_path: pathlib.Path) -> None:
    with registered(by_row(failing)):
        async with serving(db_path) as datasette:
            await start(datasette)
            table(
                db_path,
                "create table ingest_file_result (job_id integer)",
                "insert into ingest_file_result values (7)",
                "insert into _sqlite_migrations (migration_set, name, applied_at) "
                "values ('datasette_ingest.ingest_file_result', 'm001_create', '2026-01-01')",
                "drop trigger _enrichment_jobs_deleted",
            )
            assert (await start(datasette)).id == 8
    assert rows(db_path, "select job_id from ingest_file_result") == [(7,)]


@pytest.mark.parametrize("number", [0, -5, 2**63 - 1])
async def test_numbers_go_on_after_one_that_a_person_made_up(data: Any, number: int) -> None:
    datasette, path = data
    table(path, f"insert into _enrichment_jobs (id, status, enrichment) values ({number}, 'finished', 'x')")
    assert (await start(datasette)).id == 3


@pytest.mark.parametrize(
    "damage",
    [
        *(
            f"update _enrichment_sequence set seq = {value}"
            for value in ("'x'", "x'ff'", "null", "2.5", "-1", 2**63 - 1)
        ),
        "delete from _enrichment_sequence",
        "drop table _enrichment_sequence",
    ],
)
async def test_a_highest_number_that_another_program_damaged_is_found_anew(data: Any, damage: str) -> None:
    """Where the jobs are gone, too, the rows of results still name their numbers."""
    datasette, path = data
    table(
        path,
        "create table ingest_file_result (job_id integer)",
        "insert into ingest_file_result values (7)",
        "insert into _sqlite_migrations (migration_set, name, applied_at) "
        "values ('datasette_ingest.ingest_file_result', 'm001_create', '2026-01-01')",
        "delete from _enrichment_jobs",
        damage,
    )
    assert (await start(datasette)).id == 8


# ---- a job that is deleted while it runs --------------------------------------------------------------------------


@pytest.mark.parametrize("delete", [delete_everything, drop_the_table])
async def test_a_job_that_is_deleted_while_it_runs_stops_without_another_row(
    db_path: pathlib.Path, delete: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def enrich(row: Any) -> Any:
        if row["id"] == 3:
            await asyncio.to_thread(delete, db_path)
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=1, max_open_batches=1)):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            await asyncio.wait_for(run_until_idle(datasette), 30)
            with pytest.raises(control.JobError):
                await queries.find(datasette, "data", job.id, actor=ROOT)
            assert (await start(datasette)).id == 2
    assert rows(db_path, "select id from papers where copied is not null") == [(1,), (2,)]
    assert not [record for record in caplog.records if record.exc_info or record.levelno > logging.WARNING]


async def test_a_job_that_a_trigger_of_its_table_deletes_ends_with_the_reason_and_is_not_tried_for_ever(
    db_path: pathlib.Path,
) -> None:
    calls = []
    with registered(by_row(lambda row: calls.append(row["id"]) or {"copied": row["id"]}, batch_size=1)):
        async with serving(db_path) as datasette:
            with contextlib.closing(sqlite3.connect(db_path)) as conn, conn:
                conn.execute("create trigger thief after update on papers begin delete from _enrichment_jobs; end")
            job = await start(datasette)
            await asyncio.wait_for(run_until_idle(datasette), 30)
            found = await queries.find(datasette, "data", job.id, actor=ROOT)
    assert found.status is JobStatus.CANCELLED
    assert found.cancel_reason is not None and "perhaps by a trigger of the table" in found.cancel_reason
    assert len(calls) == len(set(calls)), "no row was paid for twice"
    assert rows(db_path, "select name from pragma_table_info('papers') where name = 'copied'") == []


async def test_a_job_whose_rows_all_wait_is_gone_with_its_row(db_path: pathlib.Path) -> None:
    import datetime

    later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=1)

    def enrich(row: Any) -> Any:
        raise Defer(later, "not today")

    with registered(by_row(enrich)):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            worker = Worker(datasette, timing=quick(), poll_seconds=0.02)
            task = asyncio.create_task(worker.run_forever())
            while not rows(db_path, "select 1 from _enrichment_jobs where waits_until is not null"):
                await asyncio.sleep(0.01)
            delete_everything(db_path)
            worker.wake()
            while worker.runners:
                await asyncio.sleep(0.01)
            worker.stop()
            await asyncio.wait_for(task, 30)
            assert (await start(datasette)).id == job.id + 1
    assert rows(db_path, "select count(*) from _enrichment_batches") == [(0,)]


async def test_a_row_replaced_while_its_job_runs_ends_it_with_the_reason(db_path: pathlib.Path) -> None:
    """`insert or replace` forgets the reservations, so rows would be left out in silence."""

    def replace() -> None:
        table(db_path, "insert or replace into _enrichment_jobs select * from _enrichment_jobs")

    async def enrich(row: Any) -> Any:
        if row["id"] == 3:
            await asyncio.to_thread(replace)
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=1, max_open_batches=3)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert job.status is JobStatus.CANCELLED
    assert job.cancel_reason == (
        "Another program has replaced the row of this job, and its reservations are lost. Start it again"
    )
    assert rows(db_path, "select count(*) from _enrichment_batches") == [(0,)]


async def test_another_job_in_the_place_of_a_running_one_is_run_as_itself(db_path: pathlib.Path) -> None:
    table(db_path, "create table books (id integer primary key)", "insert into books values (1), (2)")
    replaced = asyncio.Event()

    async def enrich(row: Any) -> Any:
        if row["id"] == 3 and not replaced.is_set():
            replaced.set()
            names = [name for (name,) in rows(db_path, "select name from pragma_table_info('_enrichment_jobs')")]
            values = {"table_name": "'books'", "next_cursor": "null", "status": "'pending'", "done_count": "0"}
            values |= {"row_count": "2", "table_key": "null", "outcomes": "'{}'"}
            picked = ", ".join(values.get(name, name) for name in names)
            sql = f"insert or replace into _enrichment_jobs select {picked} from _enrichment_jobs"
            await asyncio.to_thread(table, db_path, sql)
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=1, max_open_batches=1)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.table_name, job.done_count) == (JobStatus.FINISHED, "books", 2)
    assert rows(db_path, "select id from papers where copied is not null") == [(1,), (2,)]
