"""A worker finds what is runnable, shares it with others, stops cleanly, and never lets one job hinder another."""

from __future__ import annotations

import asyncio
import datetime
import threading

from datasette_ingest import Pause
from datasette_ingest.jobs.engine.worker import Worker
from datasette_ingest.jobs.model import JobStatus
from datasette_ingest.jobs.service import control

from ...conftest import ROOT, registered, rows, serving
from ..kit import books, by_row, counting, execute, look, quick, start, table, to_the_end


def worker_of(datasette, **more):
    return Worker(datasette, timing=quick(), poll_seconds=0.05, **more)


async def test_workers_of_one_file_share_one_job_and_write_each_row_once(tmp_path):
    path = tmp_path / "data.db"
    table(
        path,
        "create table papers (id integer primary key)",
        "with recursive c (n) as (select 1 union all select n + 1 from c where n < 60) insert into papers select n from c",
    )
    counting(path)

    async def enrich(row):
        await asyncio.sleep(0.005)
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=3)):
        async with serving(path) as one, serving(path) as other:
            await start(one)
            workers = [worker_of(one), worker_of(other), worker_of(one)]
            await asyncio.wait_for(asyncio.gather(*(worker.run_until_idle() for worker in workers)), 20)
    assert books(path) == ("finished", 60, 0, 0)
    assert rows(path, "select count(*), count(distinct row) from writes") == [(60, 60)]


async def test_a_worker_serves_only_the_databases_and_the_job_it_is_told_to(db_path):
    with registered(by_row(lambda row: {"copied": 1})):
        async with serving(db_path) as datasette:
            first, second = await start(datasette), await start(datasette)
            await worker_of(datasette, databases=["elsewhere"]).run_until_idle()
            assert (await look(datasette, first)).status is JobStatus.PENDING
            await worker_of(datasette, only=("data", second.id)).run_until_idle()
            assert (await look(datasette, first)).status is JobStatus.PENDING
            assert (await look(datasette, second)).status is JobStatus.FINISHED


async def test_a_worker_that_is_woken_from_another_thread_looks_at_once(db_path):
    with registered(by_row(lambda row: {"copied": 1})):
        async with serving(db_path) as datasette:
            worker = Worker(datasette, timing=quick(), poll_seconds=60.0)
            task = asyncio.create_task(worker.run_forever())
            await asyncio.sleep(0.1)
            job = await start(datasette)
            threading.Thread(target=worker.wake).start()
            for _ in range(200):
                await asyncio.sleep(0.02)
                if (await look(datasette, job)).status is JobStatus.FINISHED:
                    break
            threading.Thread(target=worker.stop).start()
            await asyncio.wait_for(task, 5)
            assert (await look(datasette, job)).status is JobStatus.FINISHED
            worker.wake()  # after the end it is no fault


async def test_a_stop_commits_what_is_finished_and_gives_back_the_rest(db_path):
    async def enrich(row):
        if row["id"] == 3:
            worker.stop()
            await asyncio.sleep(30)
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=5, max_open_batches=1)):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            worker = worker_of(datasette)
            await asyncio.wait_for(worker.run_forever(), 5)
            assert rows(db_path, "select done_count, status from _enrichment_jobs") == [(2, "running")]
            assert rows(db_path, "select leased_by, deaths, row_count from _enrichment_batches") == [(None, 0, 3)]
    with registered(by_row(lambda row: {"copied": row["id"]})):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, job)
    assert (job.done_count, job.error_count) == (5, 0)


async def test_a_pause_that_ends_by_itself_survives_a_restart(db_path):
    calls = []

    def enrich(row):
        calls.append(row["id"])
        if len(calls) == 2:
            soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=0.4)
            raise Pause("the service says so", resume_at=soon)

    with registered(by_row(enrich, batch_size=1, max_open_batches=1)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
            assert job.status is JobStatus.PAUSED and job.resume_at is not None
        async with serving(db_path) as datasette:
            worker = worker_of(datasette)
            task = asyncio.create_task(worker.run_forever())
            for _ in range(100):
                await asyncio.sleep(0.03)
                if (await look(datasette, job)).status is JobStatus.FINISHED:
                    break
            worker.stop()
            await asyncio.wait_for(task, 5)
            job = await look(datasette, job)
    assert (job.status, job.done_count, job.resume_at) == (JobStatus.FINISHED, 5, None)


async def test_a_database_that_is_broken_does_not_hinder_the_others(db_path, tmp_path, caplog):
    broken = tmp_path / "broken.db"
    table(broken, "create table _enrichment_jobs (id integer primary key, status text)")
    with registered(by_row(lambda row: {"copied": 1})):
        async with serving(db_path, broken) as datasette:
            job = await start(datasette)
            broken.write_bytes(b"not a database any more" * 400)
            job = await to_the_end(datasette, job)
    assert job.status is JobStatus.FINISHED
    assert caplog.text.count("The database broken is not a SQLite database any more") == 1


async def test_a_job_that_stops_on_a_fault_three_times_is_cancelled_and_others_go_on(db_path, monkeypatch, caplog):
    from datasette_ingest.jobs.engine import cycle

    real = cycle.run_cycle

    def faulty(conn, plan, *args, **more):
        if plan.job_id == 1:
            raise RuntimeError("a bug of ours")
        return real(conn, plan, *args, **more)

    monkeypatch.setattr(cycle, "run_cycle", faulty)
    with registered(by_row(lambda row: {"copied": 1})):
        async with serving(db_path) as datasette:
            bad, good = await start(datasette), await start(datasette)
            await to_the_end(datasette, good)
            found = [await look(datasette, job) for job in (bad, good)]
    assert [job.status for job in found] == [JobStatus.CANCELLED, JobStatus.FINISHED]
    assert found[0].cancel_reason == "It stopped on a fault 3 times: RuntimeError: a bug of ours"
    assert caplog.text.count("job 1 of data stopped on a fault") == 3


async def test_a_job_that_ended_meanwhile_is_not_begun(db_path):
    with registered(by_row(lambda row: {"copied": 1})):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            await control.cancel(datasette, "data", job.id, actor=ROOT)
            await to_the_end(datasette, job)
    assert rows(db_path, "select name from pragma_table_info('papers')") == [("id",), ("title",)]


async def test_a_pending_job_of_an_earlier_server_runs(db_path):
    with registered(by_row(lambda row: {"copied": 1})):
        async with serving(db_path) as datasette:
            job = await start(datasette)
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, job)
    assert (job.status, job.done_count) == (JobStatus.FINISHED, 5)


async def test_the_tables_of_ours_that_somebody_dropped_come_back(db_path):
    with registered(by_row(lambda row: {"copied": 1})):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            for name in ("_enrichment_batches", "_enrichment_progress", "_enrichment_errors", "_enrichment_cache"):
                await execute(datasette, f"drop table {name}")
            job = await to_the_end(datasette, job)
    assert (job.status, job.done_count) == (JobStatus.FINISHED, 5)
