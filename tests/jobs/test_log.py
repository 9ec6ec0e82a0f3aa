"""The log of a job: every change of its state, written in the transaction that makes the change."""

from __future__ import annotations

import contextlib
import datetime
import sqlite3
import time

import pytest

from datasette_ingest import Cancel, Pause, compat
from datasette_ingest.jobs import keyset, results_log, store
from datasette_ingest.jobs.errors import IllegalTransition
from datasette_ingest.jobs.model import JobStatus, event_message
from datasette_ingest.jobs.owner import Liveness
from datasette_ingest.jobs.service import control, queries
from datasette_ingest.testing import Timing

from ..conftest import ROOT, registered, rows, serving
from .kit import by_batch, by_row, execute, quick, start, to_the_end

COPY = by_row(lambda row: {"copied": row["id"]})


async def messages(datasette, job) -> list[str]:
    """What the log says, oldest first."""
    return [event.message for event in await queries.events(datasette.get_database("data"), job, limit=100)][::-1]


async def test_the_log_says_who_started_paused_resumed_and_cancelled(db_path):
    ann, bob = ({"id": name} for name in ("ann", "bob"))
    with registered(COPY):
        async with serving(db_path, plugin={"allow": {"id": ["ann", "bob"]}}) as datasette:
            job = await start(datasette, actor=ann)
            await control.pause(datasette, "data", job.id, actor=bob)
            await control.resume(datasette, "data", job.id, actor=ann)
            await control.cancel(datasette, "data", job.id, actor=bob)
            assert await messages(datasette, job) == [
                "Started by ann",
                "Paused by bob",
                "Resumed by ann",
                "Cancelled by bob",
            ]


async def test_a_pause_with_a_reason_gives_it(db_path):
    with registered(COPY):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            await control.pause(datasette, "data", job.id, actor=ROOT, reason="The disk is full")
            assert (await messages(datasette, job))[-1] == "Paused by root: The disk is full"


async def test_a_job_that_runs_to_its_end_says_so(db_path):
    with registered(COPY):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
            assert await messages(datasette, job) == [
                "Started by root",
                "A worker began",
                "Finished: every row was answered",
            ]


async def test_a_job_that_pauses_itself_says_why_and_until_when_and_that_it_went_on(db_path):
    until = datetime.datetime(2030, 1, 1, tzinfo=datetime.timezone.utc)
    closed = [True]

    def enrich(row):
        if closed.pop() if closed else False:
            raise Pause("The service is closed", until)
        return {"copied": row["id"]}

    with registered(by_row(enrich)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
            assert job.status is JobStatus.PAUSED
            job = await to_the_end(datasette, job, timing=quick(clock=lambda: until.timestamp() + 1))
            assert job.status is JobStatus.FINISHED
            assert (await messages(datasette, job))[2:] == [
                "Paused by itself: The service is closed. It goes on by itself at 2030-01-01T00:00:00.000Z",
                "Resumed by itself: its time has come",
                "Finished: every row was answered",
            ]


async def test_a_job_that_gives_up_says_why(db_path):
    def give_up(rows, pks):
        raise Cancel("Nothing here is worth it")

    with registered(by_batch(give_up)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
            assert (await messages(datasette, job))[-1] == "Cancelled: Nothing here is worth it"


async def test_a_retry_names_the_job_whose_rows_it_tries(db_path):
    def refuse(row):
        raise ValueError("no")

    with registered(by_row(refuse)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
            again = await control.retry(datasette, "data", job.id, actor=ROOT)
            assert await messages(datasette, again) == ["Started by root, to retry rows of job 1"]


async def test_batches_of_a_process_that_died_are_told_once(db_path):
    with registered(COPY):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            await execute(datasette, "update _enrichment_jobs set status = 'running'")
            for end in (keyset.dump((2,)), keyset.dump((4,))):
                await execute(
                    datasette,
                    "insert into _enrichment_batches (job_id, start_cursor, end_cursor, row_count, leased_by, leased_until) "
                    "values (?, null, ?, 2, 'gone', '2999')",
                    job.id,
                    end,
                )
            dead = Timing(liveness=lambda owner: Liveness.GONE if owner == "gone" else Liveness.ALIVE)
            job = await to_the_end(datasette, job, timing=dead)
            said = await messages(datasette, job)
            assert said.count("A process ended without giving back 2 batches, which run again") == 1


async def test_a_step_that_is_refused_leaves_no_line(db_path):
    with registered(COPY):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
            before = await messages(datasette, job)
            with pytest.raises(IllegalTransition):
                await control.cancel(datasette, "data", job.id, actor=ROOT)
            assert await messages(datasette, job) == before


async def test_lines_of_the_log_count_no_rows_and_slow_no_rate(db_path):
    with registered(COPY):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
            db = datasette.get_database("data")

            async def speed():
                return (
                    await compat.read(db, lambda conn: results_log.progress(conn, job, time.time()))
                ).rows_per_second

            before = await speed()
            await execute(datasette, "update _enrichment_jobs set status = 'paused', finished_at = null")
            job = await control.resume(datasette, "data", job.id, actor=ROOT)
            assert await speed() == before
    counts = rows(db_path, "select success_count, error_count from _enrichment_progress where message is not null")
    assert set(counts) == {(0, 0)}


async def test_the_log_is_newest_first_with_the_time_of_each_line(db_path):
    with registered(COPY):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            await execute(datasette, "delete from _enrichment_progress")
            for number in range(3):
                await execute(
                    datasette,
                    "insert into _enrichment_progress (job_id, timestamp_ms_2025, success_count, error_count, message) "
                    "values (?, ?, 0, 0, ?)",
                    job.id,
                    number * 1000,
                    f"line {number}",
                )
            found = await queries.events(datasette.get_database("data"), job, limit=2)
            assert [(event.at, event.message) for event in found] == [
                ("2025-01-01T00:00:02Z", "line 2"),
                ("2025-01-01T00:00:01Z", "line 1"),
            ]


@pytest.mark.parametrize("status", list(JobStatus))
def test_every_state_has_a_line_for_people_and_for_the_engine(status):
    assert event_message(status, by=None) and event_message(status, by="ann")


def test_jobs_in_a_table_of_another_plugins_form_are_no_jobs_of_ours(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "data.db")) as conn:
        conn.execute("create table _enrichment_jobs (id integer primary key, status text)")
        conn.execute("insert into _enrichment_jobs values (1, 'running')")
        assert store.find_job(conn, 1) is None
        assert store.runnable_jobs(conn, ["e"], time.time()) == []


async def test_what_an_enrichment_raises_is_stored_without_passwords_of_urls(db_path):
    def fail(row):
        if row["id"] == 1:
            raise ValueError("no answer from http://me:hunter2@host.example/")
        raise Pause("https://me:hunter2@host.example/ asks for patience")

    with registered(by_row(fail, batch_size=1, max_open_batches=1)):
        async with serving(db_path) as datasette:
            await to_the_end(datasette, await start(datasette))
    with contextlib.closing(sqlite3.connect(db_path)) as conn:
        stored = "\n".join(conn.iterdump())
    assert "http://***@host.example/" in stored and "https://***@host.example/ asks" in stored
    assert "hunter2" not in stored
