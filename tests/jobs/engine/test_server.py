"""A server runs jobs from its start to its end, without any request, and lets pages go first."""

import asyncio
import contextlib
import math
import threading
import time

import pytest

from datasette_ingest import Enrichment, compat, settings
from datasette_ingest.jobs.engine import heartbeat, pacing, server
from datasette_ingest.jobs.model import JobStatus, StartRequest
from datasette_ingest.jobs.service import control, queries

from ...conftest import ROOT, registered, rows, serving


@contextlib.asynccontextmanager
async def lifespan(datasette):
    """The server's side of ASGI's lifespan protocol: started on entry, shut down on exit."""
    to_app, from_app = asyncio.Queue(), asyncio.Queue()
    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
    task = asyncio.create_task(datasette.app()(scope, to_app.get, from_app.put))
    await to_app.put({"type": "lifespan.startup"})
    assert (await asyncio.wait_for(from_app.get(), 10))["type"] == "lifespan.startup.complete"
    try:
        yield
    finally:
        await to_app.put({"type": "lifespan.shutdown"})
        assert (await asyncio.wait_for(from_app.get(), 20))["type"] == "lifespan.shutdown.complete"
        await task


async def until(condition, seconds=20.0):
    """Wait for what another thread does."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        await asyncio.sleep(0.02)


async def add_job(datasette, **more):
    return await control.start(
        datasette, "data", StartRequest("papers", enrichment="shout", config={"column": "title"}, actor=ROOT, **more)
    )


async def test_a_pending_job_runs_when_the_server_starts_before_any_request(db_path, shout):
    async with serving(db_path) as datasette:
        await add_job(datasette)
    async with serving(db_path) as datasette, lifespan(datasette):
        await until(lambda: rows(db_path, "select status from _enrichment_jobs") == [("finished",)])
    assert rows(db_path, "select count(shouted) from papers") == [(5,)]


async def test_a_running_job_of_a_server_that_is_gone_is_picked_up_at_the_next_start(db_path, shout):
    async with serving(db_path) as datasette:
        await add_job(datasette)
        await datasette.get_database("data").execute_write("update _enrichment_jobs set status = 'running'")
    async with serving(db_path) as datasette, lifespan(datasette):
        await until(lambda: rows(db_path, "select status from _enrichment_jobs") == [("finished",)])


async def test_a_job_added_while_the_server_runs_starts_at_once(db_path, shout):
    async with serving(db_path) as datasette, lifespan(datasette):
        await add_job(datasette)
        await until(lambda: rows(db_path, "select status from _enrichment_jobs") == [("finished",)])


async def test_a_private_instance_finishes_its_job_without_an_actor(db_path, shout):
    async with serving(db_path, allow={"id": "root"}) as datasette:
        await add_job(datasette)
    async with serving(db_path, allow={"id": "root"}) as datasette, lifespan(datasette):
        await until(lambda: rows(db_path, "select status from _enrichment_jobs") == [("finished",)])


async def test_run_jobs_false_leaves_the_work_to_others(db_path, shout):
    async with serving(db_path, plugin={"run_jobs": False}) as datasette, lifespan(datasette):
        job = await add_job(datasette)
        assert not [thread for thread in threading.enumerate() if thread.name == "ingest-jobs"]
        assert (await queries.find(datasette, "data", job.id, actor=ROOT)).status is JobStatus.PENDING


class Slow(Enrichment):
    """Waits until it is told."""

    slug, name = "slow", "Slow"
    batch_size, max_open_batches = 1, 1

    def __init__(self):
        self.begun = threading.Event()
        self.go = threading.Event()

    async def enrich_row(self, row, config):
        self.begun.set()
        while not self.go.is_set():
            await asyncio.sleep(0.01)
        return {"done": 1}


async def test_a_stopping_server_gives_back_what_it_had_begun(db_path):
    slow = Slow()
    with registered(slow):
        async with serving(db_path) as datasette, lifespan(datasette):
            await control.start(datasette, "data", StartRequest("papers", enrichment="slow", actor=ROOT))
            await until(slow.begun.is_set)
        assert rows(db_path, "select status from _enrichment_jobs") == [("running",)]
        assert rows(db_path, "select leased_by, deaths from _enrichment_batches") == [(None, 0)]
        slow.go.set()
        async with serving(db_path) as datasette, lifespan(datasette):
            await until(lambda: rows(db_path, "select status from _enrichment_jobs") == [("finished",)])
    assert rows(db_path, "select sum(done), count(*) from papers") == [(5, 5)]


@pytest.mark.parametrize("verb", ["pause", "cancel"])
async def test_pause_and_cancel_reach_a_row_that_is_being_worked_on(db_path, verb):
    slow = Slow()
    with registered(slow):
        async with serving(db_path) as datasette, lifespan(datasette):
            job = await control.start(datasette, "data", StartRequest("papers", enrichment="slow", actor=ROOT))
            await until(slow.begun.is_set)
            await getattr(control, verb)(datasette, "data", job.id, actor=ROOT)
            await until(lambda: rows(db_path, "select leased_by from _enrichment_batches") in ([], [(None,)]), 5)
    assert rows(db_path, "select done_count from _enrichment_jobs") == [(0,)]


class Blocking(Enrichment):
    """Holds its event loop, as no enrichment should."""

    slug, name = "blocking", "Blocking"

    def __init__(self):
        self.begun = threading.Event()
        self.go = threading.Event()

    async def enrich_row(self, row, config):
        self.begun.set()
        self.go.wait(20)


async def test_an_enrichment_that_blocks_its_loop_is_named_in_the_log_while_pages_stay_up(db_path, caplog, monkeypatch):
    monkeypatch.setattr(heartbeat, "BLOCKED_SECONDS", 0.5)
    blocking = Blocking()
    with registered(blocking):
        async with serving(db_path) as datasette, lifespan(datasette):
            await control.start(datasette, "data", StartRequest("papers", enrichment="blocking", actor=ROOT))
            await until(blocking.begun.is_set)
            response = await datasette.client.get("/data/papers.json")
            assert response.status_code == 200
            await until(lambda: "blocks the event loop" in caplog.text, 10)
            blocking.go.set()
            await until(lambda: rows(db_path, "select status from _enrichment_jobs") == [("finished",)])
    assert "the enrichment blocking (job 1 of data) blocks the event loop" in caplog.text
    assert "self.go.wait" in caplog.text


async def test_the_worker_waits_for_pages_but_not_longer_than_configured(db_path):
    async with serving(db_path) as datasette:
        server_worker = server.ServerWorker(datasette, settings.Settings(yield_ms=30))
        began = time.monotonic()
        await server_worker.yield_to_requests()
        server_worker.in_flight = 1
        await server_worker.yield_to_requests()
        assert time.monotonic() - began >= 0.03
        waiting = asyncio.ensure_future(server_worker.yield_to_requests())
        await asyncio.sleep(0)
        server_worker.in_flight = 0
        await waiting


async def test_a_memory_database_with_a_name_runs_jobs(shout, tmp_path):
    async with serving() as datasette:
        db = datasette.add_memory_database("scratch")
        await db.execute_write("create table papers (id integer primary key, title text)")
        await db.execute_write("insert into papers (title) values ('a'), ('b')")
        await control.start(
            datasette, "scratch", StartRequest("papers", enrichment="shout", config={"column": "title"}, actor=ROOT)
        )
        async with lifespan(datasette):
            for _ in range(500):
                done = await compat.read(db, lambda c: c.execute("select status from _enrichment_jobs").fetchone()[0])
                if done == "finished":
                    break
                await asyncio.sleep(0.02)
            shouted = await compat.read(db, lambda c: c.execute("select shouted from papers order by id").fetchall())
            assert [tuple(row) for row in shouted] == [("A",), ("B",)]


def test_beside_pages_a_quick_job_keeps_fewer_rows_open_but_never_a_row_at_a_time():
    for size, expected in ((1000, 1), (1, pacing.THROTTLED_ROWS), (300, 3)):
        assert pacing.throttled(2000, size, math.inf) == 2000  # nothing is known yet of how long a cycle takes
        assert pacing.throttled(2000, size, 0.01) == expected
        assert pacing.throttled(2000, size, 1.0) == 2000
