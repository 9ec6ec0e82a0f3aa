"""Leases are renewed while work goes on, and no longer; a loop that is blocked is found and named."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from datasette_ingest.jobs.engine import heartbeat
from datasette_ingest.jobs.engine.heartbeat import Heartbeat
from datasette_ingest.jobs.engine.worker import Worker
from datasette_ingest.sqlite import from_iso

from ...conftest import registered, rows, serving
from ..kit import books, by_batch, by_row, counting, quick, start, to_the_end


async def leases(db_path, worker, seconds):
    """The ends of the leases that were seen within these seconds, or until three were."""
    seen = set()
    until = time.monotonic() + seconds
    while time.monotonic() < until and len(seen) < 3:
        seen |= {text for (text,) in rows(db_path, "select leased_until from _enrichment_batches") if text}
        await asyncio.sleep(0.03)
    return sorted(seen)


async def test_a_lease_shorter_than_a_row_is_renewed_while_the_row_is_at_work(db_path):
    counting(db_path)

    async def enrich(row):
        await asyncio.sleep(1.5)
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=5, max_open_batches=1)):
        async with serving(db_path) as datasette:
            await start(datasette, filters="id__lt=3")
            first = Worker(datasette, timing=quick(lease_seconds=0.4), poll_seconds=0.05)
            second = Worker(datasette, timing=quick(lease_seconds=0.4), poll_seconds=0.05)
            tasks = [asyncio.create_task(worker.run_until_idle()) for worker in (first, second)]
            seen = await leases(db_path, first, 10)
            await asyncio.wait_for(asyncio.gather(*tasks), 20)
    assert len(seen) >= 2 and from_iso(seen[-1]) > from_iso(seen[0])
    assert books(db_path) == ("finished", 2, 0, 0)
    assert rows(db_path, "select row from writes order by 1") == [(1,), (2,)]


async def test_a_batch_past_its_time_limit_is_not_renewed_for_ever(db_path, monkeypatch):
    async def enrich(given, pks):
        await asyncio.sleep(30)

    with registered(by_batch(enrich, batch_size=5)):
        async with serving(db_path) as datasette:
            await start(datasette)
            worker = Worker(datasette, timing=quick(lease_seconds=0.2, batch_seconds=30.0), poll_seconds=0.05)
            task = asyncio.create_task(worker.run_forever())
            while not any(runner.open_batches for runner in worker.runners.values()):
                await asyncio.sleep(0.01)
            [runner] = worker.runners.values()
            [work] = runner.open_batches.values()
            work.handle.clock.began -= 36.0  # the limit and the grace behind it are over
            await asyncio.sleep(0.1)
            before = await leases(db_path, worker, 0.05)
            after = await leases(db_path, worker, 0.3)
            worker.stop()
            await asyncio.wait_for(task, 10)
    assert len(before) <= 1 and set(after) <= set(before)


def computes(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        sum(range(1000))


@pytest.mark.parametrize(
    "limit, blocks", [("BLOCKED_CPU_SECONDS", computes), ("BLOCKED_SECONDS", time.sleep)], ids=["computing", "asleep"]
)
async def test_a_loop_that_is_blocked_is_logged_once_with_the_enrichment_and_the_place(
    db_path, monkeypatch, caplog, limit, blocks
):
    monkeypatch.setattr(heartbeat, limit, 0.3)

    def stubborn(row):
        if row["id"] == 2:
            blocks(1.5)
        return {"copied": row["id"]}

    with registered(by_row(stubborn)), caplog.at_level(logging.ERROR):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    blocked = [record.getMessage() for record in caplog.records if "blocks the event loop" in record.getMessage()]
    assert len(blocked) == 1
    assert blocked[0].startswith(f"the enrichment e (job {job.id} of data) blocks the event loop")
    assert "stubborn" in blocked[0]
    assert (job.done_count, job.error_count) == (5, 0)


async def test_a_loop_that_only_waits_for_the_processor_is_not_said_to_be_blocked(db_path, monkeypatch, caplog):
    """A busy machine is played by a sleep: seconds pass, and the loop's thread uses none of the processor's."""
    monkeypatch.setattr(heartbeat, "BLOCKED_CPU_SECONDS", 0.3)
    with registered(by_row(lambda row: time.sleep(1.0) or {"copied": 1})), caplog.at_level(logging.ERROR):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette, filters="id__lt=3"))
    assert job.done_count == 2 and "blocks the event loop" not in caplog.text


async def test_where_threads_have_no_clock_of_their_own_the_processs_clock_is_taken(db_path, monkeypatch, caplog):
    monkeypatch.delattr(time, "pthread_getcpuclockid")
    monkeypatch.setattr(heartbeat, "BLOCKED_CPU_SECONDS", 0.3)
    with registered(by_row(lambda row: computes(1.5))), caplog.at_level(logging.ERROR):
        async with serving(db_path) as datasette:
            await to_the_end(datasette, await start(datasette, filters="id=1"))
    assert "blocks the event loop" in caplog.text


async def test_leases_are_renewed_while_the_loop_is_blocked(db_path):
    counting(db_path)
    blocking = by_row(lambda row: time.sleep(2.0) or {"copied": row["id"]}, batch_size=1)
    with registered(blocking):
        async with serving(db_path) as datasette:
            await start(datasette, filters="id=1")
            task = asyncio.create_task(
                Worker(datasette, timing=quick(lease_seconds=0.2), poll_seconds=0.05).run_until_idle()
            )
            watcher = asyncio.to_thread(_ends_of_leases, db_path)
            seen, _ = await asyncio.gather(watcher, task)
    assert len(seen) >= 3
    assert books(db_path) == ("finished", 1, 0, 0) and rows(db_path, "select row from writes") == [(1,)]


def _ends_of_leases(db_path):
    seen = set()
    until = time.monotonic() + 10.0
    while time.monotonic() < until and len(seen) < 3:
        seen |= {text for (text,) in rows(db_path, "select leased_until from _enrichment_batches") if text}
        time.sleep(0.02)
    return seen


async def test_a_heartbeat_without_runners_watches_and_stops():
    one = Heartbeat("owner", quick(lease_seconds=0.1), {})
    one.start()
    await asyncio.sleep(0.1)
    one.stop()
    assert one._thread is not None and not one._thread.is_alive()


@pytest.mark.parametrize("seconds", [0.2, 5.0])
async def test_a_job_ends_under_short_and_long_leases_alike(db_path, seconds):
    with registered(by_row(lambda row: {"copied": row["id"]}, batch_size=1)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette), timing=quick(lease_seconds=seconds))
    assert (job.done_count, job.error_count) == (5, 0)
