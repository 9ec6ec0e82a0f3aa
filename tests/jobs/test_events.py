"""Other plugins hear of each step of a job once, from the process that took it (Datasette 1.0's events)."""

from __future__ import annotations

import asyncio
import contextlib
import datetime

import pytest
from datasette import hookimpl
from datasette.plugins import pm

from datasette_ingest import Cancel, Pause, compat
from datasette_ingest.jobs import events as datasette_events
from datasette_ingest.jobs.model import JobStatus
from datasette_ingest.jobs.service import control

from ..conftest import ROOT, registered, serving
from .engine.test_server import lifespan, until
from .kit import by_row, execute, start, to_the_end

COPY = by_row(lambda row: {"copied": row["id"]})
OTHER = {"id": "other"}


@contextlib.contextmanager
def listening(hear):
    """A plugin whose `track_event` calls `hear(event)`."""

    class Plugin:
        __name__ = "listener"

        @hookimpl
        def track_event(self, event):
            if event.name.startswith("ingest-job-"):
                return hear(event)
            return None

    plugin = Plugin()
    pm.register(plugin, name="listener")
    try:
        yield
    finally:
        pm.unregister(plugin)


@pytest.fixture
def heard():
    """The events so far, as (name, actor, properties)."""
    events = []
    with listening(lambda event: events.append((event.name, event.actor, event.properties()))):
        yield events


def names(heard):
    return [name for name, _, _ in heard]


needs_events = pytest.mark.skipif(not compat.job_events(), reason="this Datasette line has no events")


async def test_a_job_runs_where_there_are_no_events(db_path, heard):
    with registered(COPY):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert job.status is JobStatus.FINISHED
    assert bool(heard) is bool(compat.job_events())


@needs_events
async def test_start_and_end_are_told_with_who_what_and_how_much(db_path, heard):
    failing = by_row(lambda row: {"copied": row["id"] // (row["id"] - 3)})
    with registered(failing):
        async with serving(db_path) as datasette:
            await to_the_end(datasette, await start(datasette))
    (started, actor, before), (finished, behind, after) = heard
    assert (started, actor, finished, behind) == ("ingest-job-started", ROOT, "ingest-job-finished", ROOT)
    assert (before["job_id"], before["database"], before["table"], before["enrichment"]) == (1, "data", "papers", "e")
    assert (before["row_count"], before["done_count"], before["outcomes"]) == (5, 0, {})
    assert (after["done_count"], after["error_count"], after["outcomes"]) == (5, 1, {"success": 4, "error": 1})
    assert (after["reason"], after["resume_at"]) == (None, None)


@needs_events
async def test_a_repeated_start_is_told_once(db_path, heard):
    with registered(COPY):
        async with serving(db_path) as datasette:
            await asyncio.gather(*(start(datasette, key="k") for _ in range(3)))
            await start(datasette, key="k")
    assert names(heard) == ["ingest-job-started"]


def _raising(problem):
    def enrich(row):
        raise problem

    return by_row(enrich)


@needs_events
async def test_a_pause_by_itself_is_told_with_its_reason_and_one_by_a_person_is_not(db_path, heard):
    until_then = datetime.datetime(2999, 1, 1, tzinfo=datetime.timezone.utc)
    with registered(_raising(Pause("The service sleeps", until_then))):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            await control.pause(datasette, "data", job.id, actor=ROOT)
            await control.resume(datasette, "data", job.id, actor=ROOT)
            await to_the_end(datasette, job)
    assert names(heard) == ["ingest-job-started", "ingest-job-paused"]
    paused = heard[-1][2]
    assert (paused["reason"], paused["resume_at"][:10]) == ("The service sleeps", "2999-01-01")


@needs_events
@pytest.mark.parametrize(
    "enrichment, options",
    [
        (_raising(Cancel("Enough")), {}),
        (_raising(ValueError("no")), {"max_errors": 1}),
    ],
    ids=["the enrichment gives up", "too many errors"],
)
async def test_a_job_that_gives_up_tells_it_once(db_path, heard, enrichment, options):
    with registered(enrichment):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette, options=options))
    assert job.status is JobStatus.CANCELLED
    assert names(heard) == ["ingest-job-started", "ingest-job-cancelled"]
    assert heard[-1][2]["reason"] == job.cancel_reason


@needs_events
async def test_a_job_whose_table_is_gone_tells_that_it_was_cancelled(db_path, heard):
    with registered(COPY):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            await execute(datasette, "drop table papers")
            await to_the_end(datasette, job)
    assert names(heard) == ["ingest-job-started", "ingest-job-cancelled"]


@needs_events
async def test_who_cancels_a_job_is_told(db_path, heard):
    with registered(COPY):
        async with serving(db_path, plugin={"allow": {"id": ["root", "other"]}}) as datasette:
            job = await start(datasette)
            await control.cancel(datasette, "data", job.id, actor=OTHER)
            await to_the_end(datasette, job)
    assert [(name, actor) for name, actor, _ in heard] == [
        ("ingest-job-started", ROOT),
        ("ingest-job-cancelled", OTHER),
    ]


@needs_events
async def test_two_processes_at_one_job_tell_its_end_once(db_path, heard):
    with registered(by_row(lambda row: {"copied": row["id"]}, batch_size=1)):
        async with serving(db_path) as one, serving(db_path) as other:
            job = await start(one)
            await asyncio.gather(to_the_end(one, job), to_the_end(other, job))
    assert names(heard) == ["ingest-job-started", "ingest-job-finished"]


@needs_events
async def test_a_plugin_that_fails_or_never_comes_back_harms_no_job(db_path, monkeypatch, caplog):
    monkeypatch.setattr(datasette_events, "LISTENER_SECONDS", 0.01)

    async def for_ever():
        await asyncio.Event().wait()

    def hear(event):
        if event.name == "ingest-job-started":
            return for_ever()
        raise RuntimeError("not today")

    with registered(COPY), listening(hear):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert job.status is JobStatus.FINISHED
    assert caplog.text.count("a plugin failed on the event") == 2


@needs_events
async def test_in_a_server_plugins_hear_on_the_loop_of_its_pages(db_path):
    loops = []

    async def hear():
        loops.append(asyncio.get_running_loop())

    with registered(COPY), listening(lambda event: hear()):
        async with serving(db_path) as datasette, lifespan(datasette):
            await start(datasette)
            await until(lambda: len(loops) == 2)
    assert loops == [asyncio.get_running_loop()] * 2
