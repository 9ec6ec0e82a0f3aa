"""A job over the fleet leaves the rows that a local run leaves, whatever stops in between."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from datasette_ingest.ingest.remote.settings import KafkaSettings
from datasette_ingest.ingest.remote.worker import Worker as FleetWorker
from datasette_ingest.ingest.settings import CrawlSettings
from datasette_ingest.jobs.engine.runner import Timing
from datasette_ingest.jobs.engine.worker import Worker
from datasette_ingest.jobs.model import Job, JobStatus, StartRequest
from datasette_ingest.jobs.owner import liveness
from datasette_ingest.jobs.service import control, queries
from datasette_ingest.sqlite import from_iso

from ...conftest import ROOT, rows, serving
from ..enrichment.test_jobs import table
from ..origin import Origin, html, pdf, redirect, reply
from .brokers import Broker
from .processes import PROJECT, CountingSite, hosts

pytestmark = pytest.mark.slow

QUICK: dict[str, Any] = {"allow_networks": ["127.0.0.0/8"], "per_host_delay": 0, "robots": "ignore", "timeout": 2}
CAME = 30.0
"""Seconds after which a test gives up."""


def plugin(kafka: KafkaSettings | None, **more: Any) -> dict[str, Any]:
    given = {} if kafka is None else {"kafka": kafka.model_dump(mode="json", exclude_defaults=True)}
    return {**QUICK, **given, **more}


@contextlib.asynccontextmanager
async def fleet(kafka: KafkaSettings, **more: Any) -> AsyncIterator[FleetWorker]:
    """One worker of the fleet, in this process."""
    crawl = CrawlSettings.model_validate({**QUICK, **more})
    worker = FleetWorker(kafka, crawl)
    stop = asyncio.Event()
    running = asyncio.ensure_future(worker.run(stop))
    try:
        yield worker
    finally:
        stop.set()
        await running


@contextlib.asynccontextmanager
async def at_work(datasette: Any) -> AsyncIterator[Worker]:
    """A worker of jobs while the block lasts."""
    worker = Worker(datasette, timing=Timing(liveness=liveness), poll_seconds=0.1)
    running = asyncio.ensure_future(worker.run_forever())
    try:
        yield worker
    finally:
        worker.stop()
        await running


async def start(datasette: Any, **config: Any) -> Job:
    given = {"run_on": "kafka", **config}
    return await control.start(datasette, "data", StartRequest("papers", "ingest", config=given, actor=ROOT))


async def look(datasette: Any, job: Job) -> Job:
    return await queries.find(datasette, "data", job.id, actor=ROOT)


async def until(is_so: Callable[[], Any]) -> Any:
    """Wait until the function, which may be a coroutine's, says something true."""
    end = time.monotonic() + CAME
    while True:
        found = is_so()
        found = await found if asyncio.iscoroutine(found) else found
        if found:
            return found
        if time.monotonic() > end:
            raise TimeoutError
        await asyncio.sleep(0.05)


async def ended(datasette: Any, job: Job) -> Job:
    async def is_over() -> Job | None:
        seen = await look(datasette, job)
        return seen if seen.status not in (JobStatus.PENDING, JobStatus.RUNNING) else None

    return await until(is_over)


def at_fleet(path: pathlib.Path) -> int:
    """Requests that were published and have no answer."""
    there = rows(path, "select 1 from sqlite_master where name = '_enrichment_fleet_request'")
    return len(rows(path, "select 1 from _enrichment_fleet_request where published is not null")) if there else 0


TIMED = ("updated", "terminal_dt", "ingest_terminal_dt", "next_try", "seq", "datetime")


def contents(path: pathlib.Path) -> dict[str, list[tuple[Any, ...]]]:
    """The user's table and every table of results, without times."""
    found = {}
    for (name,) in rows(path, "select name from sqlite_master where type = 'table' order by 1"):
        if name.startswith(("sqlite_", "_")) or "_fts" in name:
            continue
        columns = [column for (column,) in rows(path, f"select name from pragma_table_info('{name}')")]
        shown = ", ".join(column for column in columns if column not in TIMED)
        found[name] = sorted(rows(path, f"select {shown} from {name}"), key=repr)
    return found


HANDLERS = {
    "/p.pdf": pdf(),
    "/q.pdf": pdf(),
    "/landing": html('<meta name="citation_pdf_url" content="/p.pdf">'),
    "/moved": redirect("/landing"),
    "/loop": redirect("/loop"),
    "/nothing": html("<p>no link</p>"),
    "/busy": reply(status="503 Busy"),
}
PATHS = ["/p.pdf", "/landing", "/moved", "/loop", "/nothing", "/busy", "/gone", "/p.pdf", "/landing", "/gone"]
NO_LINKS = [None, "", "   ", "n/a", "ftp://a.example/x", 17, "https://"]


@pytest.mark.parametrize("output", ["columns", "shadow", "none"])
async def test_the_same_rows_by_a_local_run_and_by_the_fleet(
    broker: Broker, tmp_path: pathlib.Path, output: str
) -> None:
    kafka = broker.settings()
    local, remote = tmp_path / "local" / "data.db", tmp_path / "remote" / "data.db"
    seen = []
    async with Origin(HANDLERS) as site, fleet(kafka):
        for path, run_on in ((local, "local"), (remote, "kafka")):
            before = len(site.targets)
            path.parent.mkdir()
            table(path, [*map(site.url, PATHS), *NO_LINKS])
            async with serving(path, plugin=plugin(kafka)) as datasette, at_work(datasette):
                done = await ended(datasette, await start(datasette, run_on=run_on, output=output))
            assert (done.status, done.done_count, done.error_count) == (JobStatus.FINISHED, 17, 0)
            # rows that want one file share its request if they are at work together: how often it is asked varies
            seen.append((done.outcomes, done.retries, sorted(set(site.targets[before:])), contents(path)))
    assert seen[0] == seen[1]
    assert rows(remote, "select count(*) from _enrichment_fleet_request") == [(0,)]
    assert rows(remote, "select count(*) from _enrichment_fleet_row") == [(0,)]


async def test_rows_at_the_fleet_wait_for_no_time_and_stay_within_lookahead(
    broker: Broker, tmp_path: pathlib.Path
) -> None:
    kafka, path = broker.settings(), tmp_path / "data.db"
    async with Origin(HANDLERS) as site:
        table(path, [site.url(f"/p.pdf?{number}") for number in range(60)])
        async with serving(path, plugin=plugin(kafka, lookahead=10)) as datasette, at_work(datasette):
            job = await start(datasette)
            await until(lambda: at_fleet(path) >= 10)
            waiting = await look(datasette, job)
            [wait] = await queries.waits(datasette.databases["data"], job)
            assert (waiting.status, waiting.waits_until, wait.until) == (JobStatus.RUNNING, None, None)
            assert wait.reason == "Workers of the fleet have them"
            most = 0
            async with fleet(kafka):
                while not (seen := await look(datasette, job)).status.is_final:
                    most = max(most, at_fleet(path))
                    await asyncio.sleep(0.02)
    assert most <= 20
    assert (seen.status, seen.outcomes) == (JobStatus.FINISHED, {"success": 60})
    assert sorted(site.targets) == sorted(f"/p.pdf?{number}" for number in range(60))


async def test_results_that_come_while_no_runner_works_are_picked_up(broker: Broker, tmp_path: pathlib.Path) -> None:
    kafka, path = broker.settings(), tmp_path / "data.db"
    async with Origin(HANDLERS) as site:
        table(path, [site.url(f"/p.pdf?{number}") for number in range(20)])
        async with serving(path, plugin=plugin(kafka)) as datasette:
            async with at_work(datasette):
                job = await start(datasette)
                await until(lambda: at_fleet(path) == 20)
            async with fleet(kafka) as worker:
                await until(lambda: worker.metrics.total("results") == 20)
            assert (await look(datasette, job)).done_count == 0
        async with serving(path, plugin=plugin(kafka)) as datasette, at_work(datasette):
            done = await ended(datasette, job)
    assert (done.status, done.outcomes) == (JobStatus.FINISHED, {"success": 20})
    assert len(site.targets) == 20


async def test_a_runner_that_dies_between_publishing_and_its_note_publishes_again_and_counts_once(
    broker: Broker, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from datasette_ingest.ingest.enrichment.fleet import FleetDesk

    kafka, path = broker.settings(), tmp_path / "data.db"
    sent: list[str] = []

    async def die(self: FleetDesk, tickets: list[str]) -> None:
        sent.extend(tickets)
        await asyncio.Event().wait()

    async with Origin(HANDLERS) as site:
        table(path, [site.url(f"/p.pdf?{number}") for number in range(8)])
        with monkeypatch.context() as patch:
            patch.setattr(FleetDesk, "published", die)
            async with serving(path, plugin=plugin(kafka)) as datasette, at_work(datasette):
                job = await start(datasette)
                await until(lambda: len(sent) == 8)
        with contextlib.closing(sqlite3.connect(path)) as conn, conn:
            conn.execute("update _enrichment_fleet_request set claimed_until = '2026-01-01T00:00:00.000Z'")
        async with serving(path, plugin=plugin(kafka)) as datasette, at_work(datasette):
            await until(lambda: at_fleet(path) == 8)
            async with fleet(kafka) as worker:
                done = await ended(datasette, job)
                await until(lambda: worker.metrics.total("results") == 16)
    assert (done.done_count, done.outcomes) == (8, {"success": 8})
    assert rows(path, "select attempts, count(*) from ingest_file_result group by 1") == [(1, 8)]


async def test_a_job_that_is_paused_or_cancelled_with_requests_in_flight(
    broker: Broker, tmp_path: pathlib.Path
) -> None:
    kafka, path = broker.settings(), tmp_path / "data.db"
    async with Origin(HANDLERS) as site:
        table(path, [site.url(f"/p.pdf?{number}") for number in range(6)])
        async with serving(path, plugin=plugin(kafka)) as datasette, at_work(datasette) as worker:
            paused, cancelled = await start(datasette), await start(datasette, output="none", force_recrawl=True)
            await until(lambda: at_fleet(path) == 12)
            await control.pause(datasette, "data", paused.id, actor=ROOT)
            await control.cancel(datasette, "data", cancelled.id, actor=ROOT)
            worker.wake()
            await until(lambda: not worker.runners)
            async with fleet(kafka) as crawling:
                await until(lambda: crawling.metrics.total("results") == 12)
                assert (await look(datasette, paused)).done_count == 0
                await control.resume(datasette, "data", paused.id, actor=ROOT)
                worker.wake()
                done = await ended(datasette, paused)
            over = await look(datasette, cancelled)
    assert (done.status, done.outcomes) == (JobStatus.FINISHED, {"success": 6})
    assert (over.status, over.done_count) == (JobStatus.CANCELLED, 0)
    assert {job for (job,) in rows(path, "select job_id from ingest_file_result")} == {paused.id}


async def test_a_dead_letter_is_its_rows_error(broker: Broker, tmp_path: pathlib.Path) -> None:
    kafka, path = broker.settings(), tmp_path / "data.db"
    table(path, ["https://a.example/large", "https://a.example/dead"], ", more text")
    async with serving(path, plugin=plugin(kafka)) as datasette, at_work(datasette):
        large = json.dumps({"edit_extra": {"note": "x" * 2**20}})
        await datasette.databases["data"].execute_write("update papers set more = ? where id = 1", [large])
        job = await start(datasette, request_column="more")
        await until(lambda: at_fleet(path) == 1)
        await bury_all(kafka, 1)
        done = await ended(datasette, job)
        errors = await queries.errors(datasette.databases["data"], done, limit=5)
    assert (done.status, done.error_count, done.outcomes) == (JobStatus.FINISHED, 2, {"error": 2})
    assert sorted(each.error for each in errors) == [
        "The fleet could not answer: it was in the way",
        next(each.error for each in errors if "too large for the fleet" in each.error),
    ]


async def bury_all(kafka: KafkaSettings, number: int) -> None:
    """Send so many requests to the dead topic, as a worker does."""
    from datasette_ingest.ingest.remote.client import Brokers
    from datasette_ingest.ingest.remote.messages import DeadLetter
    from datasette_ingest.ingest.remote.topics import topics_of

    brokers, topics = Brokers(kafka), topics_of(kafka)
    async with brokers.consumer([topics.requests.name]) as consumer, brokers.producer() as producer:
        found = 0
        while found < number:
            for record in await consumer.poll(seconds=0.2, most=10):
                letter = DeadLetter.of(record, "it was in the way", when="2026-05-01T00:00:00Z")
                await producer.send(topics.dead.name, letter.encode())
                found += 1


async def test_a_row_whose_link_has_changed_meanwhile_is_asked_again(broker: Broker, tmp_path: pathlib.Path) -> None:
    kafka, path = broker.settings(), tmp_path / "data.db"
    async with Origin(HANDLERS) as site:
        table(path, [site.url("/gone"), site.url("/nothing")])
        async with serving(path, plugin=plugin(kafka)) as datasette, at_work(datasette):
            job = await start(datasette)
            await until(lambda: at_fleet(path) == 2)
            await datasette.databases["data"].execute_write(
                "update papers set url = ? where id = 1", [site.url("/p.pdf")]
            )
            await datasette.databases["data"].execute_write("delete from papers where id = 2")
            async with fleet(kafka):
                done = await ended(datasette, job)
    assert (done.status, done.outcomes) == (JobStatus.FINISHED, {"success": 1})
    assert rows(path, "select id, ingest_status from papers") == [(1, "success")]


async def test_a_broker_that_is_down_is_waited_for_and_the_jobs_log_says_so(tmp_path: pathlib.Path) -> None:
    broker, path = Broker(), tmp_path / "data.db"
    kafka = broker.settings()
    try:
        async with Origin(HANDLERS) as site:
            table(path, [site.url("/p.pdf"), site.url("/landing")])
            async with serving(path, plugin=plugin(kafka)) as datasette, at_work(datasette):
                job = await start(datasette)
                sql = "select message from _enrichment_progress where message like 'Kafka%' order by id"
                await until(lambda: rows(path, sql))
                assert (await look(datasette, job)).status is JobStatus.RUNNING
                broker.start()
                async with fleet(kafka):
                    done = await ended(datasette, job)
    finally:
        broker.stop()
    assert done.outcomes == {"success": 2}
    absent, back = [message for (message,) in rows(path, sql)]
    assert absent.startswith(f"Kafka cannot be reached at {broker.address}")
    assert "nothing is lost" in absent and back.startswith("Kafka is back")


@pytest.mark.parametrize(("kafka", "reason"), [(None, "has no kafka: add it, or resume elsewhere")])
async def test_a_process_without_the_setting_pauses_the_job(tmp_path: pathlib.Path, kafka: Any, reason: str) -> None:
    path = tmp_path / "data.db"
    table(path, ["https://a.example/"])
    async with serving(path, plugin=plugin(kafka)) as datasette, at_work(datasette):
        paused = await ended(datasette, await start(datasette))
    assert paused.status is JobStatus.PAUSED and reason in (paused.pause_reason or "")


async def test_brokers_that_refuse_pause_the_job_with_their_reason(broker: Broker, tmp_path: pathlib.Path) -> None:
    kafka, path = broker.settings(create_topics=False), tmp_path / "data.db"
    table(path, ["https://a.example/"])
    async with serving(path, plugin=plugin(kafka)) as datasette, at_work(datasette):
        paused = await ended(datasette, await start(datasette))
    assert paused.status is JobStatus.PAUSED
    assert "kafka.create_topics is false" in (paused.pause_reason or "")


async def test_a_stored_result_is_used_without_publishing(broker: Broker, tmp_path: pathlib.Path) -> None:
    kafka, path = broker.settings(), tmp_path / "data.db"
    async with Origin(HANDLERS) as site:
        table(path, [site.url("/p.pdf"), site.url("/nothing")])
        async with serving(path, plugin=plugin(kafka)) as datasette, at_work(datasette):
            for run_on in ("local", "kafka"):
                done = await ended(datasette, await start(datasette, run_on=run_on))
    assert (done.status, done.outcomes) == (JobStatus.FINISHED, {"success": 1, "no-pdf-link": 1})
    assert from_iso(done.started_at or "") > 0


async def test_processes_that_share_a_job_publish_each_request_once(broker: Broker, tmp_path: pathlib.Path) -> None:
    kafka, path = broker.settings(), tmp_path / "data.db"
    async with Origin(HANDLERS) as site, contextlib.AsyncExitStack() as stack:
        table(path, [site.url(f"/p.pdf?{number}") for number in range(40)])
        served = [await stack.enter_async_context(serving(path, plugin=plugin(kafka, lookahead=20))) for _ in range(3)]
        for datasette in served:
            await stack.enter_async_context(at_work(datasette))
        job = await start(served[0])
        async with fleet(kafka) as worker:
            done = await ended(served[0], job)
        assert worker.metrics.total("requests_read") == 40
    assert (done.done_count, done.outcomes) == (40, {"success": 40})


async def test_processes_that_are_killed_lose_no_row_and_repeat_none(broker: Broker, tmp_path: pathlib.Path) -> None:
    """The process of a job is killed three times, that which writes results three times, while the fleet works."""
    kafka, path, other = broker.settings(), tmp_path / "data.db", tmp_path / "other.db"
    given = ["-s", "kafka", json.dumps(kafka.model_dump(mode="json", exclude_defaults=True)), "-s", "lookahead", "40"]
    async with CountingSite(hosts(10), seconds=0.05).serving() as site:
        urls = site.urls(300)
        table(path, urls)
        other.touch()
        async with serving(path, plugin=plugin(kafka)) as datasette:
            job = await start(datasette)
            async with fleet(kafka):
                for least in (40, 120, 200):
                    running = process("work", str(path), "--allow-network", "127.0.0.0/8", *given)
                    persisting = process("kafka", "persist", str(other), "--forever", *given)

                    async def is_far(least: int = least) -> bool:
                        return (await look(datasette, job)).done_count >= least

                    await until(is_far)
                    for each in (running, persisting):
                        each.kill()
                        each.wait()
                    assert (await look(datasette, job)).done_count < 300
                last = process("work", str(path), "--allow-network", "127.0.0.0/8", *given)
                assert await asyncio.to_thread(last.wait, 120) == 0
            done = await look(datasette, job)
    assert await asyncio.to_thread(process("kafka", "persist", str(other), *given).wait, 60) == 0
    assert (done.status, done.done_count, done.outcomes) == (JobStatus.FINISHED, 300, {"success": 300})
    expected = sorted((url, 1, 1) for url in urls)
    for each in (path, other):
        assert sorted(rows(each, "select base_url, hit, attempts from ingest_file_result")) == expected
    repeated = sum(site.asked.values()) - len(urls)
    assert repeated < 60  # published, and killed before that was noted


def process(*words: str) -> subprocess.Popen[bytes]:
    """A command, in a process."""
    return subprocess.Popen(
        [sys.executable, "-m", "datasette", "ingest", *words],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=PROJECT,
    )
