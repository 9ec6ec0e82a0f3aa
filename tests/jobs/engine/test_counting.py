"""A job whose start could not wait for the count is counted beside its work, exactly, whatever it writes meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasette_ingest import compat
from datasette_ingest.jobs import selection, store
from datasette_ingest.jobs.engine import counting
from datasette_ingest.jobs.engine.counting import Tally, count_on
from datasette_ingest.jobs.engine.worker import Worker
from datasette_ingest.jobs.model import JobStatus, StartRequest
from datasette_ingest.jobs.selection import Selection
from datasette_ingest.jobs.service import control

from ... import virtual
from ...conftest import ROOT, registered, rows, serving
from ..kit import by_row, look, quick, start, table, to_the_end
from ..world import World


@pytest.fixture
def uncounted(monkeypatch):
    """Starts give up counting."""

    async def too_slow(*args, **more):
        return None

    monkeypatch.setattr(selection, "count", too_slow)


@pytest.fixture
def small_slices(monkeypatch):
    monkeypatch.setattr(counting, "FIRST_ROWS", 3)
    monkeypatch.setattr(counting, "MOST_ROWS", 3)


KEYS = {
    "integer": ("id integer primary key, x", "{n}"),
    "text": ("id text primary key, x", "'k{n}'"),
    "falling": ("id integer, x, primary key (id desc)", "{n}"),
    "none": ("id, x", "{n}"),
    "compound without rowid": ("id integer, b text, x, primary key (b, id)) without rowid", "{n}"),
}


def papers(path, number, key="integer"):
    columns, value = KEYS[key]
    table(path, f"create table papers ({columns}{'' if columns.endswith('rowid') else ')'}")
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        for n in range(1, number + 1):
            more = ", b" if "compound" in key else ""
            conn.execute(
                f"insert into papers (id{more}) values ({value.format(n=n)}{', ' + repr(str(n % 3)) if more else ''})"
            )


async def test_a_start_that_cannot_wait_for_the_count_adds_the_job_and_says_so(db_path, uncounted):
    with registered(by_row(lambda row: {"copied": row["id"]})):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            assert (job.row_count, job.is_counted, job.percent) == (0, False, 0.0)
            ended = await to_the_end(datasette, job)
    assert (ended.status, ended.row_count, ended.is_counted, ended.percent) == (JobStatus.FINISHED, 5, True, 100.0)


@pytest.mark.parametrize("key", KEYS)
async def test_the_count_is_exact_while_the_job_writes_what_its_own_filter_asks_for(
    tmp_path, key, uncounted, small_slices
):
    path = tmp_path / "data.db"
    papers(path, 20, key)
    go_on, counted = asyncio.Event(), asyncio.Event()
    seen = []

    async def enrich(row):
        seen.append(row["id"])
        if len(seen) == 8:
            await go_on.wait()
        return {"x": "done"}

    with registered(by_row(enrich, batch_size=1, max_open_batches=1)):
        async with serving(path) as datasette:
            job = await start(datasette, filters="x__isnull=1")
            worker = Worker(datasette, timing=quick(), poll_seconds=0.02)
            task = asyncio.create_task(worker.run_forever())
            for _ in range(1000):
                await asyncio.sleep(0.01)
                found = await look(datasette, job)
                if found.is_counted:
                    counted.set()
                    break
            assert counted.is_set() and found.row_count == 20 and found.status is JobStatus.RUNNING
            go_on.set()
            worker.stop()
            await task
            ended = await to_the_end(datasette, job)
    assert (ended.status, ended.row_count, ended.done_count) == (JobStatus.FINISHED, 20, 20)


async def test_a_process_that_dies_while_it_counts_leaves_the_count_to_the_next(tmp_path, uncounted, small_slices):
    path = tmp_path / "data.db"
    papers(path, 20)
    with registered(by_row(lambda row: {"x": 1})):
        async with serving(path) as datasette:
            job = await start(datasette, filters="id__gte=5")
            await control.pause(datasette, "data", job.id, actor=ROOT)
            db = datasette.get_database("data")
            tally = await compat.read(db, lambda conn: count_on(conn, job.id, Tally(), 3))
            assert tally == Tally(0, (3,))  # and here it dies: nothing was written
            assert not (await look(datasette, job)).is_counted
        async with serving(path) as datasette:
            worker = Worker(datasette, timing=quick(), poll_seconds=0.02)
            task = asyncio.create_task(worker.run_forever())
            for _ in range(1000):
                await asyncio.sleep(0.01)
                if (await look(datasette, job)).is_counted:
                    break
            worker.stop()
            await task
            found = await look(datasette, job)
    assert (found.status, found.row_count, found.is_counted) == (JobStatus.PAUSED, 16, True)


async def test_a_job_cancelled_before_its_count_has_the_least_number(db_path, uncounted):
    with registered(by_row(lambda row: {"copied": 1})):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            ended = await control.cancel(datasette, "data", job.id, actor=ROOT)
            assert (ended.row_count, ended.is_counted) == (0, False)
            assert await counting.count(datasette.get_database("data"), job.id) is True  # nothing is left to count
            assert not (await look(datasette, job)).is_counted


async def test_a_count_that_no_slice_can_end_is_given_up_and_the_job_goes_on(db_path, uncounted, monkeypatch):
    monkeypatch.setattr(counting, "FIRST_LIMIT_MS", 1.0)
    monkeypatch.setattr(counting, "LAST_LIMIT_MS", 4.0)
    with registered(by_row(lambda row: {"copied": 1})):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            endless = "((with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n))"
            stored = Selection("", endless, {}, "", True, ()).dump()
            db = datasette.get_database("data")
            await compat.write(
                db, lambda conn: conn.execute("update _enrichment_jobs set selection = ?", [stored]) and None
            )
            assert await counting.count(db, job.id) is False
            await compat.write(db, lambda conn: conn.execute("drop table papers") and None)
            assert await counting.count(db, job.id) is False


def test_the_least_number_is_shown_while_the_count_goes_on(tmp_path, uncounted, small_slices, monkeypatch):
    monkeypatch.setattr(counting, "TOLD_SECONDS", 0.0)
    path = tmp_path / "data.db"
    papers(path, 10)
    told = []
    real = store.set_row_count

    def noting(conn, job_id, number, *, is_counted):
        real(conn, job_id, number, is_counted=is_counted)
        told.append((store.get_job(conn, job_id).row_count, is_counted))

    monkeypatch.setattr(store, "set_row_count", noting)

    async def main(clock):
        with registered(by_row(lambda row: {"x": 1})):
            async with serving(path) as datasette:
                job = await start(datasette)
                assert await counting.count(datasette.get_database("data"), job.id)

    virtual.run(main)
    assert told == [(3, False), (6, False), (9, False), (10, True)]


# ---- any order of work and count -------------------------------------------------------------------------------


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.one_of(st.just("turn"), st.just("die"), st.integers(1, 7)), max_size=25),
    key=st.sampled_from(sorted(KEYS)),
    number=st.integers(0, 17),
)
def test_whatever_the_order_of_work_deaths_and_slices_the_count_is_that_of_the_start(
    tmp_path_factory, steps, key, number
):
    path = tmp_path_factory.mktemp("count") / "data.db"
    papers(path, number, key)
    table(
        path,
        'alter table papers add column "row number"',
        "alter table papers add column out",
        'update papers set "row number" = 1',
    )
    filters = Selection("", "(out is null)", {}, "", False, ("out",)).dump()
    with World(str(path), "papers", where="(out is null)") as world:
        world.eye.execute("begin")
        store.insert_job(world.eye, "d", StartRequest("papers", "e"), selection=filters, row_count=None, now=world.now)
        world.eye.execute("commit")
        tally, found = Tally(), None
        for step in [*steps, *([50] * 2)]:
            if isinstance(step, int):
                found = count_on(world.eye, 1, tally, step)
                if found is None:
                    break
                tally = found
                if tally.is_whole:
                    break
            elif step == "die" and world.processes:
                world.processes[0].die()
            else:
                if not world.processes:
                    world.start()
                world.processes[0].turn()
        job = world.job()
        if found is None:  # the job had ended
            assert (job.status, job.row_count, job.is_counted) == (JobStatus.FINISHED, number, True)
        else:
            assert tally.is_whole and tally.number == number
    assert rows(path, "select count(*) from papers") == [(number,)]
