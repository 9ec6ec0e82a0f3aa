"""Rows that wait: in this process, where the time is not counted as work, or put off, where nobody holds them."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import gc
import sqlite3

import pytest

from datasette_ingest import BatchOutcome, Defer, RowDefer, RowError, RowUpdate, compat
from datasette_ingest.jobs import leases
from datasette_ingest.jobs.engine.batch_run import BatchRun
from datasette_ingest.jobs.engine.worker import Worker
from datasette_ingest.jobs.model import LAST_STAMP, MOST_REASON_CHARACTERS, Deferral, JobStatus
from datasette_ingest.jobs.owner import new_owner
from datasette_ingest.jobs.service import control, queries
from datasette_ingest.sqlite import from_iso

from ... import virtual
from ...conftest import ROOT, registered, rows, serving
from ..kit import at_work, books, by_batch, by_row, counting, execute, look, quick, start, table

UTC = datetime.timezone.utc
RESTS = "a.example asked us to wait"


def moment(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, UTC)


def many(path, number):
    table(
        path,
        "delete from papers",
        f"with recursive n(id) as (select 1 union all select id + 1 from n where id < {number}) "
        "insert into papers (id, title) select id, 'paper ' || id from n",
    )


def with_job(enrich, **attributes):
    """An enrichment `e` that calls the coroutine function `enrich(row, job)`."""

    async def enrich_row(self, row, config, job):
        return await enrich(row, job)

    made = by_row(None, **attributes)
    type(made).enrich_row = enrich_row
    return made


def reservations(path):
    return rows(
        path,
        "select row_count, leased_by is not null, defer_reason, deferrals, ticket from _enrichment_batches order by id",
    )


async def waiting(worker):
    """Until every runner of the worker waits."""
    while not worker.runners or not all(runner.is_waiting for runner in worker.runners.values()):
        await asyncio.sleep(0.05)


# ---- at work, waiting ------------------------------------------------------------------------------------------


def test_rows_that_wait_their_turn_are_not_late_and_one_that_hangs_is_after_batch_seconds_of_work(db_path):
    many(db_path, 61)
    turn = asyncio.Lock()
    ended = {}

    async def main(clock):
        async def enrich(row, job):
            if row["id"] == 61:
                await asyncio.sleep(10**6)
            with job.waiting():
                async with turn:
                    await asyncio.sleep(10.0)
            ended[row["id"]] = clock.elapsed
            return {"copied": row["id"]}

        with registered(with_job(enrich, batch_size=1, max_open_batches=100)):
            async with serving(db_path) as datasette:
                job = await start(datasette)
                worker = Worker(datasette, timing=clock.timing(batch_seconds=4.0))
                hangs = asyncio.create_task(until_in_error(datasette, job, clock))
                await worker.run_until_idle()
                return await look(datasette, job), await hangs, clock.elapsed

    async def until_in_error(datasette, job, clock):
        while not (await look(datasette, job)).error_count:
            await asyncio.sleep(0.1)
        return clock.elapsed

    job, error_came, took = virtual.run(main)
    assert (job.status, job.outcomes) == (JobStatus.FINISHED, {"success": 60, "error": 1})
    assert 4.0 <= error_came < 6.0
    assert max(ended.values()) >= 600.0 and took < 610.0


def test_time_at_work_counts_before_and_between_waits_and_the_waits_of_several_tasks_are_one(db_path):
    async def main(clock):
        async def enrich(row, job):
            async def turn(seconds):
                with job.waiting(), job.waiting():
                    await asyncio.sleep(seconds)

            for _ in range(row["id"]):
                await asyncio.sleep(1.0)
                await asyncio.gather(turn(50.0), turn(100.0))
            return {"copied": row["id"]}

        with registered(with_job(enrich, batch_size=1, max_open_batches=5)):
            async with serving(db_path) as datasette:
                job = await start(datasette)
                await Worker(datasette, timing=clock.timing(batch_seconds=3.5)).run_until_idle()
                return await look(datasette, job)

    assert virtual.run(main).outcomes == {"success": 3, "error": 2}
    assert rows(db_path, "select id from papers where copied is null") == [(4,), (5,)]


async def test_the_lease_of_a_waiting_batch_is_renewed_however_long_it_waits(db_path):
    waits, seen = asyncio.Event(), asyncio.Event()

    async def enrich(row, job):
        with job.waiting():
            waits.set()
            await seen.wait()
        return {"copied": row["id"]}

    with registered(with_job(enrich, batch_size=5)):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            worker = Worker(datasette, timing=quick(lease_seconds=0.2, batch_seconds=2.0))
            task = asyncio.create_task(worker.run_until_idle())
            await asyncio.wait_for(waits.wait(), 10)
            ends = set()
            while len(ends) < 4:  # the limit and the grace behind it are 7 s of work
                ends |= set(rows(db_path, "select leased_until from _enrichment_batches"))
                [work] = next(iter(worker.runners.values())).open_batches.values()
                work.handle.clock.began -= 3600.0
                await asyncio.sleep(0.02)
            seen.set()
            await asyncio.wait_for(task, 10)
            assert (await look(datasette, job)).outcomes == {"success": 5}


# ---- deferred --------------------------------------------------------------------------------------------------


def test_a_row_that_is_put_off_takes_no_place_and_is_tried_again_at_its_time(db_path):
    many(db_path, 50)
    counting(db_path)
    tries = []

    async def main(clock):
        async def enrich(row, job):
            tries.append((row["id"], job.deferrals, round(clock.elapsed)))
            if row["id"] <= 40 and job.deferrals < 2:
                raise Defer(moment(clock() + 3600.0), RESTS)
            return {"copied": row["id"]}

        with registered(with_job(enrich, batch_size=1, max_open_batches=5)):
            async with serving(db_path) as datasette:
                job = await start(datasette)
                await Worker(datasette, timing=clock.timing(), poll_seconds=60.0).run_until_idle()
                return await look(datasette, job), clock.elapsed

    job, took = virtual.run(main)
    assert (job.status, job.done_count, job.outcomes) == (JobStatus.FINISHED, 50, {"success": 50})
    assert rows(db_path, "select row from writes order by 1") == [(n,) for n in range(1, 51)]
    assert len(tries) == 50 + 2 * 40
    first = [number for number, deferrals, when in tries if not deferrals and when < 60]
    assert sorted(first) == list(range(1, 51))
    assert {deferrals for _, deferrals, _ in tries} == {0, 1, 2}
    assert 7200.0 <= took < 7400.0


def test_a_batch_is_put_off_as_a_whole(db_path):
    async def main(clock):
        seen = []

        async def enrich_batch(self, rows, pks, config, job):
            seen.append((tuple(pks), job.deferrals))
            if 1 in pks and not job.deferrals:
                raise Defer(moment(clock() + 60.0), RESTS, ticket="batch 1")
            return BatchOutcome(updates=[RowUpdate(pk, {"copied": pk}) for pk in pks])

        made = by_batch(None)
        type(made).enrich_batch = enrich_batch
        with registered(made):
            async with serving(db_path) as datasette:
                job = await start(datasette)
                async with at_work(datasette, clock) as worker:
                    await waiting(worker)
                    held, waits = reservations(db_path), (await look(datasette, job)).waits_until
                await Worker(datasette, timing=clock.timing()).run_until_idle()
                return await look(datasette, job), held, waits, seen

    job, held, waits, seen = virtual.run(main)
    assert held == [(2, 0, RESTS, 1, "batch 1")] and waits is not None
    assert seen == [((1, 2), 0), ((3, 4), 0), ((5,), 0), ((1, 2), 1)]
    assert (job.status, job.outcomes) == (JobStatus.FINISHED, {"success": 5})


def test_rows_of_a_batch_are_put_off_and_the_others_are_written(db_path):
    async def main(clock):
        later = moment(clock() + 60.0)

        async def enrich_batch(self, rows, pks, config, job):
            if job.deferrals:
                return None
            if len(pks) == 1:
                return BatchOutcome(deferred=[RowDefer(pks[0], later, "uncounted", counts=False)] if more.pop() else ())
            return BatchOutcome(
                updates=[RowUpdate(pk, {"copied": pk}) for pk in pks],
                errors=[RowError(5, "no")],
                deferred=[
                    *(RowDefer(pk, later, RESTS) for pk in (1, 2, 4)),
                    RowDefer(5, later, "an error is an answer"),
                ],
                cost_nanodollars=7,
            )

        more = [False, True]
        made = by_batch(None, batch_size=6)
        type(made).enrich_batch = enrich_batch
        table(db_path, "insert into papers (id, title) values (9, 'alone')")
        with registered(made):
            async with serving(db_path) as datasette:
                job = await start(datasette, options={"batch_size": 5, "max_open_batches": 1})
                async with at_work(datasette, clock) as worker:
                    await waiting(worker)
                    early = await look(datasette, job), reservations(db_path)
                await Worker(datasette, timing=clock.timing()).run_until_idle()
                return *early, await look(datasette, job)

    early, held, job = virtual.run(main)
    assert (early.done_count, early.outcomes, early.cost_nanodollars) == (2, {"success": 1, "error": 1}, 7)
    assert held == [(2, 0, RESTS, 1, None), (1, 0, RESTS, 1, None), (1, 0, "uncounted", 0, None)]
    assert rows(db_path, "select sum(success_count), sum(error_count) from _enrichment_progress") == [(5, 1)]
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 6, 1)


@pytest.mark.parametrize(
    "until, expected",
    [
        (lambda clock: datetime.datetime.min.replace(tzinfo=UTC), "success"),
        (lambda clock: moment(clock() - 5.0), "success"),
        (lambda clock: moment(clock() + 5.0).replace(tzinfo=None), "success"),
        (lambda clock: "soon", "TypeError: a time must be a datetime, not 'soon'"),
        (lambda clock: None, "TypeError: a time must be a datetime, not None"),
    ],
    ids=["the first time", "past", "without a zone", "a text", "none"],
)
def test_a_time_that_is_past_means_the_next_transaction_and_what_is_no_time_is_the_rows_error(db_path, until, expected):
    async def main(clock):
        async def enrich(row, job):
            if row["id"] == 2 and not job.deferrals:
                raise Defer(until(clock), RESTS)
            return {"copied": row["id"]}

        with registered(with_job(enrich)):
            async with serving(db_path) as datasette:
                job = await start(datasette)
                await Worker(datasette, timing=clock.timing()).run_until_idle()
                return await look(datasette, job), clock.elapsed

    job, took = virtual.run(main)
    assert job.status is JobStatus.FINISHED and took < 10.0
    errors = [text for (text,) in rows(db_path, "select error from _enrichment_errors")]
    assert errors == ([] if expected == "success" else [expected])


@pytest.mark.parametrize("ticket", [7, "half \ud800"], ids=["a number", "half a character"])
def test_a_ticket_that_is_no_text_is_the_rows_error(db_path, ticket):
    async def main(clock):
        async def enrich(row, job):
            raise Defer(moment(clock() + 60.0), RESTS, ticket=ticket)

        with registered(with_job(enrich)):
            async with serving(db_path) as datasette:
                job = await start(datasette)
                await Worker(datasette, timing=clock.timing()).run_until_idle()
                return await look(datasette, job)

    assert virtual.run(main).error_count == 5 and reservations(db_path) == []


def test_the_last_time_there_is_waits_for_a_person(db_path):
    async def main(clock):
        async def enrich(row, job):
            raise Defer(datetime.datetime.max.replace(tzinfo=UTC), RESTS)

        with registered(with_job(enrich)):
            async with serving(db_path) as datasette:
                job = await start(datasette)
                async with at_work(datasette, clock) as worker:
                    await waiting(worker)
                    found = await look(datasette, job)
                    await control.cancel(datasette, "data", job.id, actor=ROOT)
                return found, await look(datasette, job)

    waits, ended = virtual.run(main)
    assert waits.waits_until == LAST_STAMP
    assert (ended.status, ended.waits_until) == (JobStatus.CANCELLED, None) and reservations(db_path) == []


@pytest.mark.parametrize("method", ["initialize", "finalize"])
def test_a_defer_of_the_whole_job_is_a_pause_until_then(db_path, method):
    calls = []

    async def main(clock):
        async def once(self):
            calls.append(clock.elapsed)
            if len(calls) == 1:
                raise Defer(moment(clock() + 600.0), "the service starts at six")

        made = by_row(lambda row: {"copied": row["id"]})
        setattr(type(made), method, once)
        with registered(made):
            async with serving(db_path) as datasette:
                job = await start(datasette)
                async with at_work(datasette, clock):
                    while (paused := await look(datasette, job)).status is not JobStatus.PAUSED:
                        await asyncio.sleep(0.1)
                    while (ended := await look(datasette, job)).status is not JobStatus.FINISHED:
                        await asyncio.sleep(10.0)
                return paused, ended

    paused, ended = virtual.run(main)
    assert paused.pause_reason == "the service starts at six" and paused.resume_at is not None
    assert ended.done_count == 5 and calls[1] - calls[0] >= 599.0


# ---- a job that waits as a whole -------------------------------------------------------------------------------


def test_a_waiting_job_says_until_when_and_outlives_its_process_a_pause_and_a_resume(db_path):
    counting(db_path)

    async def main(clock):
        async def enrich(row, job):
            if row["id"] in (2, 4) and not job.deferrals:
                raise Defer(moment(clock() + 3600.0 * row["id"]), f"{RESTS} {row['id']}")
            return {"copied": row["id"]}

        with registered(with_job(enrich, batch_size=1)):
            async with serving(db_path) as datasette:
                job = await start(datasette)
                async with at_work(datasette, clock) as worker:
                    await waiting(worker)
                    first = await look(datasette, job)
                    shown = await compat.read(
                        datasette.get_database("data"), lambda conn: leases.waits(conn, job.id, clock())
                    )
                stopped = await look(datasette, job)
                async with at_work(datasette, clock) as worker:
                    await waiting(worker)
                    await control.pause(datasette, "data", job.id, actor=ROOT)
                    worker.wake()
                    while worker.runners:
                        await asyncio.sleep(0.1)
                    paused, held = await look(datasette, job), reservations(db_path)
                    await control.resume(datasette, "data", job.id, actor=ROOT)
                    worker.wake()
                    await waiting(worker)
                    resumed = await look(datasette, job)
                await Worker(datasette, timing=clock.timing(), poll_seconds=60.0).run_until_idle()
                return first, shown, stopped, paused, held, resumed, await look(datasette, job), clock.elapsed

    first, shown, stopped, paused, held, resumed, ended, took = virtual.run(main)
    assert (first.status, first.done_count) == (JobStatus.RUNNING, 3)
    assert [(wait.reason, wait.rows) for wait in shown] == [(f"{RESTS} 2", 1), (f"{RESTS} 4", 1)]
    assert first.waits_until == shown[0].until == stopped.waits_until == resumed.waits_until
    assert (paused.status, paused.waits_until) == (JobStatus.PAUSED, None)
    assert len(held) == 2 and not any(leased for _, leased, *_ in held)
    assert (ended.status, ended.waits_until, ended.outcomes) == (JobStatus.FINISHED, None, {"success": 5})
    assert rows(db_path, "select row from writes order by 1") == [(n,) for n in range(1, 6)]
    assert 4 * 3600.0 <= took < 4 * 3600.0 + 120.0


def test_while_a_job_waits_it_takes_no_transaction(db_path):
    async def main(clock):
        async def enrich(row, job):
            if not job.deferrals:
                raise Defer(moment(clock() + 3600.0), RESTS)

        with registered(with_job(enrich)):
            async with serving(db_path) as datasette:
                await start(datasette)
                async with at_work(datasette, clock) as worker:
                    await waiting(worker)
                    written = []
                    db = datasette.get_database("data")
                    original = db.execute_write_fn
                    db.execute_write_fn = lambda *given, **more: written.append(1) or original(*given, **more)
                    await asyncio.sleep(3000.0)
                    during = len(written)
                    await asyncio.sleep(700.0)
                    return during, len(written)

    during, after = virtual.run(main)
    assert during == 0 and after > 0
    assert books(db_path) == ("finished", 5, 0, 0)


def test_of_two_processes_one_goes_on_where_the_other_was_killed(db_path):
    counting(db_path)

    async def main(clock):
        async def enrich(row, job):
            if not job.deferrals:
                raise Defer(moment(clock() + 3600.0), RESTS)
            return {"copied": row["id"]}

        with registered(with_job(enrich, batch_size=1, max_open_batches=1)):
            async with serving(db_path) as datasette, serving(db_path) as other:
                job = await start(datasette)
                async with at_work(datasette, clock) as one, at_work(other, clock) as two:
                    await waiting(one)
                    await waiting(two)
                await Worker(other, timing=clock.timing(), poll_seconds=60.0).run_until_idle()
                return await look(datasette, job)

    job = virtual.run(main)
    assert (job.status, job.outcomes) == (JobStatus.FINISHED, {"success": 5})
    assert rows(db_path, "select row from writes order by 1") == [(n,) for n in range(1, 6)]


@pytest.mark.slow
def test_what_is_put_off_takes_no_memory(db_path):
    """Batches that are at work are counted, for 2,000 and for 50,000 rows that are all put off."""
    most = {}

    async def main(clock, number):
        async def enrich(row, job):
            if not row["id"] % 500:
                most[number] = max(most.get(number, 0), sum(isinstance(item, BatchRun) for item in gc.get_objects()))
            raise Defer(moment(clock() + 3600.0), RESTS)

        with registered(with_job(enrich, batch_size=1, max_open_batches=500)):
            async with serving(db_path) as datasette:
                await start(datasette, filters=f"id__lte={number}")
                await Worker(datasette, timing=clock.timing()).run_until_idle(waits=False)
                gc.collect()
                return sum(isinstance(item, BatchRun) for item in gc.get_objects())

    many(db_path, 50_000)
    left = [virtual.run(lambda clock, number=number: main(clock, number)) for number in (2_000, 50_000)]
    assert left == [0, 0]
    assert most[50_000] <= 2 * 500 + 10 and most[50_000] <= most[2_000] + 500
    assert rows(db_path, "select count(*), sum(deferrals) from _enrichment_batches where job_id = 2") == [
        (50_000, 50_000)
    ]


def test_a_job_with_as_many_deferred_rows_as_may_be_stops_reading_and_does_not_fail(db_path):
    many(db_path, 300)

    async def main(clock):
        async def enrich(row, job):
            if not job.deferrals:
                raise Defer(moment(clock() + 600.0), RESTS)
            return {"copied": row["id"]}

        with registered(with_job(enrich, batch_size=10, max_open_batches=2, max_deferred_rows=100)):
            async with serving(db_path) as datasette:
                job = await start(datasette)
                async with at_work(datasette, clock) as worker:
                    await waiting(worker)
                    early = await look(datasette, job), sum(size for size, *_ in reservations(db_path))
                await Worker(datasette, timing=clock.timing(), poll_seconds=10.0).run_until_idle()
                return *early, await look(datasette, job)

    early, held, job = virtual.run(main)
    assert early.status is JobStatus.RUNNING and early.waits_until is not None and 100 <= held <= 120
    assert (job.status, job.outcomes) == (JobStatus.FINISHED, {"success": 300})


# ---- several processes -----------------------------------------------------------------------------------------


def test_every_process_knows_how_many_live_ones_hold_reservations(db_path):
    many(db_path, 12)
    seen = []

    async def main(clock):
        async def enrich(row, job):
            seen.append((round(clock.elapsed), job.workers))
            await asyncio.sleep(2.0)
            seen.append((round(clock.elapsed), job.workers))

        with registered(with_job(enrich, batch_size=1, max_open_batches=1)):
            async with serving(db_path) as datasette, serving(db_path) as other:
                await start(datasette)
                dead, far, expired = "host:boot:1:2:token", "far:b:1:2:token", "farther:b:1:2:token"
                for owner, until in ((dead, "9"), (far, "9"), (expired, "1")):
                    await execute(
                        datasette,
                        "insert into _enrichment_batches (job_id, end_cursor, row_count, leased_by, leased_until) "
                        "values (99, '[]', 1, ?, ?)",
                        owner.replace("host:boot", ":".join(new_owner().split(":")[:2])),
                        until,
                    )
                async with at_work(datasette, clock):
                    await asyncio.sleep(5.0)
                    async with at_work(other, clock):
                        await asyncio.sleep(5.0)
                    await asyncio.sleep(20.0)

    virtual.run(main)
    assert {workers for when, workers in seen if when < 5} == {2}, "this process, and the one of another host"
    assert {workers for when, workers in seen if 7 <= when < 10} == {3}
    assert {workers for when, workers in seen if when >= 14} == {2}


# ---- an older file ---------------------------------------------------------------------------------------------


async def test_a_job_of_an_earlier_version_is_shown_can_be_steered_and_goes_on(db_path):
    with registered(by_row(lambda row: {"copied": row["id"]})):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            with contextlib.closing(sqlite3.connect(db_path)) as conn, conn:
                conn.execute("alter table _enrichment_jobs drop column waits_until")
                conn.execute("alter table _enrichment_jobs add column live text")
                sql = "select name from sqlite_master where type = 'index' and name like '_enrichment_batches_%'"
                for (name,) in conn.execute(sql).fetchall():
                    conn.execute(f"drop index {name}")
                for column in ("not_before", "defer_reason", "deferrals", "ticket"):
                    conn.execute(f"alter table _enrichment_batches drop column {column}")
            assert (await look(datasette, job)).status is JobStatus.PENDING
            assert await queries.waits(datasette.databases["data"], job) == []
            assert [found.id for found in await queries.list_jobs(datasette, "data", actor=ROOT)] == [job.id]
            await control.pause(datasette, "data", job.id, actor=ROOT)
            await control.resume(datasette, "data", job.id, actor=ROOT)
            await asyncio.wait_for(Worker(datasette, poll_seconds=0.05).run_until_idle(), 10)
            assert (await look(datasette, job)).done_count == 5
    assert "live" in {name for (name,) in rows(db_path, "select name from pragma_table_info('_enrichment_jobs')")}


async def test_outcomes_that_another_writer_left_count_only_where_they_are_numbers(db_path):
    with registered(by_row(lambda row: None)):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            await execute(
                datasette, """update _enrichment_jobs set outcomes = '{"a": 2, "b": "x", "c": -1, "d": true}'"""
            )
            assert (await look(datasette, job)).outcomes == {"a": 2}


def test_a_stamp_of_the_last_moment_can_be_read():
    assert from_iso(LAST_STAMP) > 0


def test_a_long_reason_is_cut_off():
    reason = Deferral.of(Defer(moment(0), "x" * 100_000)).reason
    assert len(reason) == MOST_REASON_CHARACTERS and reason.endswith("x…")
