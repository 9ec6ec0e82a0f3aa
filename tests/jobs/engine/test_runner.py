"""A job runs to its end: every row once, counters exact, states as they should be."""

import json

import pytest

from datasette_ingest.jobs.model import JobStatus, StartRequest
from datasette_ingest.jobs.service import control, queries
from datasette_ingest.testing import run_until_idle

from ...conftest import ROOT, rows, serving


async def start(datasette, table="papers", **more):
    given = {"enrichment": "shout", "config": {"column": "title"}, "actor": ROOT, **more}
    return await control.start(datasette, "data", StartRequest(table, **given))


async def test_every_row_is_enriched_and_the_counters_say_so(db_path, shout):
    async with serving(db_path) as datasette:
        job = await start(datasette)
        assert (job.status, job.row_count, job.done_count) == (JobStatus.PENDING, 5, 0)
        await run_until_idle(datasette)
        job = await queries.find(datasette, "data", job.id, actor=ROOT)
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 5, 0)
    assert job.outcomes == {"success": 5} and job.finished_at.endswith("Z")
    assert rows(db_path, "select shouted from papers order by id") == [(f"PAPER {n}",) for n in range(1, 6)]
    assert rows(db_path, "select count(*) from _enrichment_batches") == [(0,)]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
async def test_the_batch_size_changes_nothing(db_path, shout, size):
    async with serving(db_path) as datasette:
        job = await start(datasette, options={"batch_size": size, "max_open_batches": 2})
        await run_until_idle(datasette)
        job = await queries.find(datasette, "data", job.id, actor=ROOT)
    assert (job.status, job.done_count) == (JobStatus.FINISHED, 5)
    assert rows(db_path, "select count(shouted) from papers") == [(5,)]


async def test_a_filter_selects_and_the_rest_stays_untouched(db_path, shout):
    async with serving(db_path) as datasette:
        job = await start(datasette, filters="id__gt=2&_sort_desc=title&_size=1&title__contains=paper")
        assert job.row_count == 3 and job.filter_querystring == "id__gt=2&title__contains=paper"
        await run_until_idle(datasette)
    assert rows(db_path, "select id from papers where shouted is not null") == [(3,), (4,), (5,)]


async def test_a_row_that_raises_is_that_rows_error(db_path, shout):
    async with serving(db_path) as datasette:
        await datasette.get_database("data").execute_write("update papers set title = null where id = 2")
        job = await start(datasette)
        await run_until_idle(datasette)
        job = await queries.find(datasette, "data", job.id, actor=ROOT)
        found = await queries.errors(datasette.get_database("data"), job)
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 5, 1)
    assert job.outcomes == {"success": 4, "error": 1}
    assert [(error.row_pks, error.error) for error in found] == [
        ([2], "AttributeError: 'NoneType' object has no attribute 'upper'")
    ]
    assert "enrich_row" in found[0].traceback


async def test_a_job_over_no_rows_finishes(db_path, shout):
    async with serving(db_path) as datasette:
        job = await start(datasette, filters="id__gt=99")
        await run_until_idle(datasette)
        job = await queries.find(datasette, "data", job.id, actor=ROOT)
    assert (job.status, job.row_count, job.done_count, job.percent) == (JobStatus.FINISHED, 0, 0, 100.0)


async def test_a_where_clause_of_a_persons_own_runs_outside_the_write_transaction(db_path, shout):
    async with serving(db_path) as datasette:
        job = await start(datasette, filters="_where=id+%3D+1+or+id+%3D+4&id__lt=4", options={"batch_size": 1})
        assert job.row_count == 2  # the clauses are joined as the table page joins them
        await run_until_idle(datasette)
        job = await queries.find(datasette, "data", job.id, actor=ROOT)
    assert (job.status, job.done_count) == (JobStatus.FINISHED, 2)
    assert rows(db_path, "select id from papers where shouted is not null") == [(1,), (4,)]


async def test_a_pause_keeps_the_place_and_resume_goes_on(db_path, shout):
    async with serving(db_path) as datasette:
        job = await start(datasette)
        paused = await control.pause(datasette, "data", job.id, actor=ROOT)
        assert paused.status is JobStatus.PAUSED and paused.pause_reason == "Paused by a person"
        await run_until_idle(datasette)
        assert rows(db_path, "select done_count from _enrichment_jobs") == [(0,)]
        await control.resume(datasette, "data", job.id, actor=ROOT)
        await run_until_idle(datasette)
        job = await queries.find(datasette, "data", job.id, actor=ROOT)
    assert (job.status, job.done_count) == (JobStatus.FINISHED, 5)


async def test_more_errors_than_the_limit_cancel_the_job_with_the_reason(db_path, shout):
    async with serving(db_path) as datasette:
        await datasette.get_database("data").execute_write("update papers set title = null")
        job = await start(datasette, options={"max_errors": 2, "batch_size": 1})
        await run_until_idle(datasette)
        job = await queries.find(datasette, "data", job.id, actor=ROOT)
    assert job.status is JobStatus.CANCELLED and job.error_count >= 3
    assert "more than the limit of 2" in job.cancel_reason
    assert rows(db_path, "select count(*) from _enrichment_batches") == [(0,)]


async def test_a_row_that_the_tables_own_constraint_refuses_is_that_rows_error(db_path, shout):
    async with serving(db_path) as datasette:
        db = datasette.get_database("data")
        await db.execute_write("alter table papers add column shouted text check (shouted <> 'PAPER 3')")
        job = await start(datasette)
        await run_until_idle(datasette)
        job = await queries.find(datasette, "data", job.id, actor=ROOT)
        found = await queries.errors(datasette.get_database("data"), job)
    assert (job.done_count, job.error_count, job.outcomes) == (5, 1, {"success": 4, "error": 1})
    assert "CHECK constraint failed" in found[0].error and found[0].row_pks == [3]
    assert rows(db_path, "select count(shouted) from papers") == [(4,)]


async def test_a_trigger_that_rolls_everything_back_costs_only_its_own_row(db_path, shout):
    async with serving(db_path) as datasette:
        db = datasette.get_database("data")
        await db.execute_write("alter table papers add column shouted text")
        await db.execute_write(
            "create trigger no before update on papers when new.shouted = 'PAPER 4' "
            "begin select raise(rollback, 'not this one'); end"
        )
        job = await start(datasette)
        await run_until_idle(datasette)
        job = await queries.find(datasette, "data", job.id, actor=ROOT)
        found = await queries.errors(datasette.get_database("data"), job)
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 5, 1)
    assert [(error.row_pks, error.error) for error in found] == [([4], "not this one")]
    assert rows(db_path, "select count(shouted) from papers") == [(4,)]


async def test_a_dropped_table_cancels_its_job_with_the_reason(db_path, shout):
    async with serving(db_path) as datasette:
        await start(datasette)
        await datasette.get_database("data").execute_write("drop table papers")
        await run_until_idle(datasette)
    assert rows(db_path, "select status, cancel_reason from _enrichment_jobs") == [
        ("cancelled", "The table 'papers' is gone: it was dropped or renamed")
    ]


async def test_a_dropped_column_cancels_instead_of_reading_its_name_as_text(db_path, shout):
    async with serving(db_path) as datasette:
        await start(datasette)
        await datasette.get_database("data").execute_write("alter table papers rename column title to name")
        await run_until_idle(datasette)
    [(status, reason)] = rows(db_path, "select status, cancel_reason from _enrichment_jobs")
    assert status == "cancelled" and "has no column 'title'" in reason


async def test_a_corrupt_position_cancels_with_the_reason(db_path, shout):
    async with serving(db_path) as datasette:
        await start(datasette)
        await datasette.get_database("data").execute_write("update _enrichment_jobs set next_cursor = 'junk'")
        await run_until_idle(datasette)
    [(status, reason)] = rows(db_path, "select status, cancel_reason from _enrichment_jobs")
    assert status == "cancelled" and "stored position cannot be read" in reason


async def test_a_table_keyed_by_null_text_and_rowid_alike_is_enriched_once_a_row(tmp_path, shout):
    import sqlite3

    path = tmp_path / "data.db"
    conn = sqlite3.connect(path)
    conn.execute("create table papers (title text primary key, extra)")
    conn.execute("create table writes (n)")
    conn.executemany("insert into papers values (?, ?)", [(None, n) for n in range(4)] + [("a", 1), ("b", 2)])
    conn.execute("create trigger count_writes after update on papers begin insert into writes values (new.rowid); end")
    conn.commit()
    conn.close()
    async with serving(path) as datasette:
        await control.start(
            datasette,
            "data",
            StartRequest(
                "papers", enrichment="shout", config={"column": "extra"}, options={"batch_size": 1}, actor=ROOT
            ),
        )
        await run_until_idle(datasette)
    assert rows(path, "select done_count, error_count from _enrichment_jobs") == [(6, 6)]
    keys = [json.loads(pks) for (pks,) in rows(path, "select row_pks from _enrichment_errors order by id")]
    assert keys == [[[None, 1]], [[None, 2]], [[None, 3]], [[None, 4]], ["a"], ["b"]]


async def test_rows_in_error_are_tried_again_by_a_new_job(db_path, shout):
    async with serving(db_path) as datasette:
        db = datasette.get_database("data")
        await db.execute_write("update papers set title = null where id in (2, 4)")
        job = await start(datasette)
        await run_until_idle(datasette)
        await db.execute_write("update papers set title = 'mended' where id in (2, 4)")
        again = await control.retry(datasette, "data", job.id, actor=ROOT)
        assert (again.row_count, again.filter_querystring) == (2, f"_ingest_failed={job.id}")
        await run_until_idle(datasette)
        again = await queries.find(datasette, "data", again.id, actor=ROOT)
    assert (again.status, again.done_count, again.error_count) == (JobStatus.FINISHED, 2, 0)
    assert rows(db_path, "select count(shouted) from papers") == [(5,)]
