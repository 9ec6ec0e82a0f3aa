"""What an enrichment says of a job while it runs: stored where every process can read it, gone when the job is over."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3

import pytest

from datasette_ingest.jobs import store
from datasette_ingest.jobs.engine import runner
from datasette_ingest.jobs.model import JobStatus, said_together
from datasette_ingest.jobs.service import control, queries
from datasette_ingest.testing import run_until_idle

from ..conftest import ROOT, registered, rows, serving
from .kit import by_row, execute, look, start, to_the_end


def until_released(said, **more):
    """An enrichment whose rows wait for `.released`, and which says `said()` of its job."""
    made = by_row(lambda row: waiting(row), **more)
    made.released = asyncio.Event()

    async def waiting(row):
        await made.released.wait()
        return {"copied": row["id"]}

    type(made).live = lambda self, job: said()
    return made


async def live_of(datasette, job, *, is_so):
    """The job once `is_so(job)`; the test's own timeout is the judge of whether that ever comes."""
    while True:
        found = await look(datasette, job)
        if is_so(found):
            return found
        await asyncio.sleep(0.01)


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(runner, "LIVE_SECONDS", 0.0)


async def test_what_is_said_stands_on_the_job_while_it_runs_changes_and_goes_with_its_end(db_path, often):
    said = [{"Moods": [{"name": "calm", "until": "2999-01-01T00:00:00Z"}]}]
    enrichment = until_released(lambda: said[0])
    with registered(enrichment):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            working = asyncio.create_task(run_until_idle(datasette))
            await asyncio.wait_for(live_of(datasette, job, is_so=lambda job: job.live == said[0]), 10)
            said[0] = {"Moods": [], "Cups of tea": 2}
            found = await asyncio.wait_for(live_of(datasette, job, is_so=lambda job: "Cups of tea" in job.live), 10)
            assert (found.status, found.live) == (JobStatus.RUNNING, said[0])
            enrichment.released.set()
            await asyncio.wait_for(working, 10)
            ended = await look(datasette, job)
    assert (ended.status, ended.live) == (JobStatus.FINISHED, {})
    assert rows(db_path, "select live from _enrichment_jobs") == [(None,)]


async def test_what_does_not_change_is_written_once(db_path, often, monkeypatch):
    written = []
    kept = store.set_live
    monkeypatch.setattr(
        store, "set_live", lambda conn, job, owner, text: written.append(text) or kept(conn, job, owner, text)
    )
    with registered(by_row(lambda row: {"copied": row["id"]}, batch_size=1, live=lambda self: {"Cups of tea": 2})):
        async with serving(db_path) as datasette:
            await to_the_end(datasette, await start(datasette))
    assert [text for text in written if text != "{}"] == ['{"Cups of tea": 2}']


@pytest.mark.parametrize(
    "live",
    [
        lambda self: 1 / 0,
        lambda self: "not a mapping",
        lambda self: {"n": float("nan")},
        lambda self: {"thing": object()},
        lambda self: {"long": "x" * 20_000},
    ],
)
async def test_an_enrichment_that_cannot_say_how_it_stands_is_not_asked_again_and_its_job_goes_on(
    db_path, often, caplog, live
):
    with registered(by_row(lambda row: {"copied": row["id"]}, batch_size=1, live=live)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.done_count, job.live) == (JobStatus.FINISHED, 5, {})
    assert [record.message for record in caplog.records].count("job 1 of data: e cannot say how it stands") == 1


async def test_bytes_that_are_no_text_are_said_as_far_as_they_can_be(db_path, often):
    enrichment = until_released(lambda: {"Hosts": ["a\udcff.example"]})
    with registered(enrichment):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            working = asyncio.create_task(run_until_idle(datasette))
            await asyncio.wait_for(live_of(datasette, job, is_so=lambda job: job.live == {"Hosts": ["a?.example"]}), 10)
            enrichment.released.set()
            await asyncio.wait_for(working, 10)
            assert (await look(datasette, job)).status is JobStatus.FINISHED


async def test_a_job_of_a_version_that_knew_no_live_is_shown_and_can_be_steered(db_path):
    with registered(by_row(lambda row: {"copied": row["id"]})):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            with contextlib.closing(sqlite3.connect(db_path)) as conn, conn:
                conn.execute("alter table _enrichment_jobs drop column live")
            assert (await look(datasette, job)).status is JobStatus.PENDING
            assert [found.id for found in await queries.list_jobs(datasette, "data", actor=ROOT)] == [job.id]
            await control.pause(datasette, "data", job.id, actor=ROOT)
            await control.resume(datasette, "data", job.id, actor=ROOT)
            assert (await to_the_end(datasette, job)).done_count == 5


async def test_a_method_that_asks_for_what_the_engine_does_not_have_cancels_the_job_with_its_name(db_path):
    with registered(by_row(lambda row: None, live=lambda self, weather: {})):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert job.status is JobStatus.CANCELLED and "weather" in job.cancel_reason


@pytest.fixture
async def conn(db_path):
    with registered(by_row(lambda row: None)):
        async with serving(db_path) as datasette:
            await start(datasette)
            await control.pause(datasette, "data", 1, actor=ROOT)
    with contextlib.closing(sqlite3.connect(db_path)) as conn:
        yield conn


async def test_processes_that_share_a_job_speak_together_until_they_hold_nothing_of_it(conn):
    conn.execute("insert into _enrichment_batches (job_id, end_cursor, leased_by) values (1, '[]', 'one')")
    store.set_live(conn, 1, "one", '{"Hosts": [1, 2]}')
    store.set_live(conn, 1, "two", '{"Hosts": [2, 3]}')
    assert store.get_job(conn, 1).live == {"Hosts": [1, 2, 3]}
    conn.execute("delete from _enrichment_batches")
    store.set_live(conn, 1, "two", '{"Hosts": [3]}')
    assert store.get_job(conn, 1).live == {"Hosts": [3]}
    store.set_live(conn, 1, "two", "{}")
    assert conn.execute("select live from _enrichment_jobs").fetchone() == (None,)


async def test_nothing_is_said_of_a_job_that_is_over(conn):
    conn.execute("update _enrichment_jobs set status = 'finished'")
    store.set_live(conn, 1, "one", '{"Hosts": [1]}')
    assert conn.execute("select live from _enrichment_jobs").fetchone() == (None,)


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"owner": 3}', "null"])
async def test_what_another_writer_left_there_is_read_as_nothing(conn, text):
    conn.execute("update _enrichment_jobs set live = ?", [text])
    assert store.get_job(conn, 1).live == {}
    store.set_live(conn, 1, "one", '{"a": 1}')
    assert store.get_job(conn, 1).live == {"a": 1}


def test_of_values_that_are_no_lists_one_is_taken():
    assert said_together({"one": {"a": 1, "b": [1]}, "two": {"a": 2}}) == {"a": 2, "b": [1]}


async def test_outcomes_that_another_writer_left_count_only_where_they_are_numbers(db_path):
    with registered(by_row(lambda row: None)):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            await execute(
                datasette, """update _enrichment_jobs set outcomes = '{"a": 2, "b": "x", "c": -1, "d": true}'"""
            )
            assert (await look(datasette, job)).outcomes == {"a": 2}
