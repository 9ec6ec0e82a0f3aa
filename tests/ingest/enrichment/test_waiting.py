"""Whole jobs with all defaults, in virtual time: rows wait for their hosts, and no row is lost, late or an error.

The hosts are played in this process: no socket is opened, so that hours pass in seconds.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import gc
import pathlib
import sqlite3
from collections.abc import AsyncIterator
from typing import Any
from unittest import mock

import httpx
import pytest

from datasette_ingest import settings
from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.enrichment import IngestEnrichment
from datasette_ingest.ingest.http.politeness import HostLimiter
from datasette_ingest.jobs import registry
from datasette_ingest.jobs.engine.worker import Worker
from datasette_ingest.jobs.model import JobStatus, StartRequest
from datasette_ingest.jobs.service import control, queries
from datasette_ingest.sqlite import from_iso

from ... import virtual
from ...conftest import ROOT, rows, serving
from ..origin import PDF

DELAY = 0.5
"""The default of per_host_delay, in seconds."""


class Web(httpx.AsyncBaseTransport):
    """Every host there is: it answers with a PDF, or first asks us to wait.

    `back_offs`: host -> seconds of its Retry-After; `asked`: host -> when it was asked for anything.
    """

    def __init__(self, back_offs: dict[str, int] | None = None) -> None:
        self.back_offs = back_offs or {}
        self.asked: dict[str, list[float]] = collections.defaultdict(list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        host = request.url.host
        self.asked[host].append(asyncio.get_running_loop().time())
        await asyncio.sleep(0.05)
        if request.url.path == "/robots.txt":
            return httpx.Response(404)
        wait = self.back_offs.pop(host, None)
        if wait is not None:
            return httpx.Response(429, headers={"Retry-After": str(wait)})
        return httpx.Response(200, headers={"Content-Type": "application/pdf"}, content=PDF)

    def most_in(self, host: str, seconds: float) -> int:
        """The most requests that it got in any window of that length, its ends included."""
        times, first, most = self.asked[host], 0, 0
        for last, time in enumerate(times):
            while times[first] < time - seconds - 1e-9:
                first += 1
            most = max(most, last - first + 1)
        return most


def table(path: pathlib.Path, urls: list[str]) -> None:
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("pragma journal_mode = wal")  # a commit each half second, for hours: let them be quick
        conn.execute("create table papers (id integer primary key, url text)")
        conn.executemany("insert into papers (url) values (?)", [(url,) for url in urls])


def statuses(path: pathlib.Path) -> dict[str | None, int]:
    columns = {name for _, name, *_ in rows(path, "pragma table_info(papers)")}
    if "ingest_status" not in columns:
        return {None: rows(path, "select count(*) from papers")[0][0]}
    return dict(rows(path, "select ingest_status, count(*) from papers group by 1"))


@contextlib.asynccontextmanager
async def process(path: pathlib.Path, clock: virtual.Clock, web: Web, **given: Any) -> AsyncIterator[Any]:
    """A process on the file: a Datasette with an enrichment, a crawler and a worker of its own."""
    chosen = settings.load(given)
    enrichment = IngestEnrichment(chosen, make_crawler=lambda chosen, **more: Crawler(chosen, transport=web, **more))
    with mock.patch("time.time", clock):
        async with serving(path, plugin=given) as datasette:
            (await registry.enrichments(datasette))["ingest"] = enrichment
            yield datasette


async def start(datasette: Any) -> int:
    job = await control.start(
        datasette, "data", StartRequest("papers", enrichment="ingest", config={"url_column": "url"}, actor=ROOT)
    )
    return job.id


def worker_of(datasette: Any, clock: virtual.Clock) -> Worker:
    return Worker(datasette, timing=clock.timing())


async def finished(datasette: Any, clock: virtual.Clock) -> Any:
    """The job, run to its end; and how many seconds that took."""
    number, began = await start(datasette), clock()
    await worker_of(datasette, clock).run_until_idle()
    return await queries.find(datasette, "data", number, actor=ROOT), clock() - began


@pytest.mark.slow
def test_five_thousand_rows_of_one_host_take_the_time_that_politeness_needs(tmp_path: pathlib.Path) -> None:
    path, web = tmp_path / "data.db", Web()
    table(path, [f"http://one.example/{n}" for n in range(5000)])

    async def main(clock: virtual.Clock) -> Any:
        async with process(path, clock, web) as datasette:
            return await finished(datasette, clock)

    job, took = virtual.run(main)
    assert (job.status, job.outcomes, job.error_count) == (JobStatus.FINISHED, {"success": 5000}, 0)
    assert 5000 * DELAY <= took <= 5000 * DELAY * 1.1
    assert web.most_in("one.example", 10 * DELAY) <= 11


def resting_rows() -> list[str]:
    return [f"http://aaa.example/{n}" for n in range(3000)] + [f"http://host{n % 50}.example/{n}" for n in range(500)]


@pytest.mark.slow
def test_a_host_that_rests_delays_no_other_and_its_rows_are_answered_after_its_rest(tmp_path: pathlib.Path) -> None:
    path, web = tmp_path / "data.db", Web({"aaa.example": 3600})
    table(path, resting_rows())

    async def main(clock: virtual.Clock) -> Any:
        async with process(path, clock, web) as datasette:
            number, began = await start(datasette), clock()
            worker = worker_of(datasette, clock)
            task = asyncio.ensure_future(worker.run_until_idle())
            await asyncio.sleep(600)
            early = statuses(path)
            await task
            return early, await queries.find(datasette, "data", number, actor=ROOT), clock() - began

    early, job, took = virtual.run(main)
    assert early == {"success": 500, None: 3000}
    assert (job.status, job.outcomes) == (JobStatus.FINISHED, {"success": 3500})
    assert 3600 + 3000 * DELAY <= took <= (3600 + 3000 * DELAY) * 1.1
    assert not [time for time in web.asked["aaa.example"] if 10 < time < 3600]


@pytest.mark.slow
def test_a_rest_survives_the_death_of_the_process(tmp_path: pathlib.Path) -> None:
    path, web = tmp_path / "data.db", Web({"aaa.example": 3600})
    table(path, resting_rows())

    async def main(clock: virtual.Clock) -> Any:
        async with process(path, clock, web) as datasette:
            number = await start(datasette)
            worker = worker_of(datasette, clock)
            task = asyncio.ensure_future(worker.run_forever())
            await asyncio.sleep(3)
            for work in asyncio.all_tasks():
                if "job" in work.get_name():
                    work.cancel()  # nothing that it has begun comes to its end
            worker.stop()
            await task
            killed = statuses(path)
        async with process(path, clock, web) as datasette:
            worker = worker_of(datasette, clock)
            task = asyncio.ensure_future(worker.run_until_idle())
            await asyncio.sleep(600)
            early = statuses(path)
            await task
            return killed, early, await queries.find(datasette, "data", number, actor=ROOT)

    killed, early, job = virtual.run(main)
    assert killed[None] > 3000, "it died before the other hosts' rows were answered"
    assert early == {"success": 500, None: 3000}
    assert (job.status, job.outcomes) == (JobStatus.FINISHED, {"success": 3500})
    assert not [time for time in web.asked["aaa.example"] if 10 < time < 3600]


@pytest.mark.slow
def test_a_host_that_always_asks_us_to_wait_ends_its_rows_after_four_rests(tmp_path: pathlib.Path) -> None:
    path, web = tmp_path / "data.db", Web()
    table(path, [f"http://one.example/{n}" for n in range(300)])

    class Never(dict[str, int]):
        def pop(self, key: str, default: Any = None) -> int:
            return 1800

    web.back_offs = Never()

    async def main(clock: virtual.Clock) -> Any:
        async with process(path, clock, web) as datasette:
            return await finished(datasette, clock)

    job, took = virtual.run(main)
    assert (job.status, job.outcomes) == (JobStatus.FINISHED, {"rate-limited": 300})
    assert 3 * 1800 <= took <= 5 * 1800
    assert len(web.asked["one.example"]) <= 20


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows_that_are_put_off(tmp_path: pathlib.Path) -> None:
    def held(path: pathlib.Path, number: int) -> tuple[int, int, int]:
        web = Web({"one.example": 3600})
        table(path, [f"http://one.example/{n}" for n in range(number)])

        async def main(clock: virtual.Clock) -> tuple[int, int, int]:
            async with process(path, clock, web) as datasette:
                await start(datasette)
                worker = worker_of(datasette, clock)
                task = asyncio.ensure_future(worker.run_forever())
                await asyncio.sleep(1000)
                while worker._looks:  # it asks for jobs once a second
                    await asyncio.sleep(0.01)
                gc.collect()
                gates = sum(isinstance(each, HostLimiter) for each in gc.get_objects())
                found = len(asyncio.all_tasks()), gates, len(gc.get_objects())
                worker.stop()
                await task
            return found

        return virtual.run(main)

    (tmp_path / "few").mkdir()
    few, many = held(tmp_path / "few" / "data.db", 500), held(tmp_path / "data.db", 8_000)
    assert few[:2] == many[:2]
    assert many[2] - few[2] < 5000


@pytest.mark.slow
def test_two_workers_on_one_file_ask_a_host_no_more_often_than_one(tmp_path: pathlib.Path) -> None:
    path, web = tmp_path / "data.db", Web()
    table(path, [f"http://one.example/{n}" for n in range(1000)])

    async def main(clock: virtual.Clock) -> Any:
        async with process(path, clock, web) as one, process(path, clock, web) as other:
            number, began = await start(one), clock()
            first = asyncio.ensure_future(worker_of(one, clock).run_until_idle())
            await asyncio.sleep(100)
            second = worker_of(other, clock)
            joined = asyncio.ensure_future(second.run_forever())
            await asyncio.sleep(200)
            second.stop()
            await joined
            alone = len(web.asked["one.example"])
            await first
            job = await queries.find(one, "data", number, actor=ROOT)
            return job, alone, clock() - began

    job, asked, took = virtual.run(main)
    assert (job.status, job.outcomes) == (JobStatus.FINISHED, {"success": 1000})
    assert web.most_in("one.example", 10 * DELAY) <= 11
    assert 500 < asked < 601 and took < 1000 * DELAY * 1.1


def test_jobs_with_other_settings_in_one_process_share_the_pace_of_a_host(tmp_path: pathlib.Path) -> None:
    path, web = tmp_path / "data.db", Web()
    table(path, [f"http://one.example/{n}" for n in range(80)])

    async def main(clock: virtual.Clock) -> Any:
        async with process(path, clock, web) as datasette:
            for filters, chosen in (("id__lte=40", None), ("id__gt=40", {"max_redirects": 3})):
                request = StartRequest(
                    "papers", "ingest", filters=filters, config={"url_column": "url"}, actor=ROOT, settings=chosen
                )
                await control.start(datasette, "data", request)
            await worker_of(datasette, clock).run_until_idle()
        return statuses(path)

    assert virtual.run(main) == {"success": 80}
    assert web.most_in("one.example", 10 * DELAY) <= 11


def test_rows_that_wait_longer_than_a_batch_may_work_are_no_errors(tmp_path: pathlib.Path) -> None:
    path, web = tmp_path / "data.db", Web()
    table(path, [f"http://one.example/{n}" for n in range(60)])

    async def main(clock: virtual.Clock) -> Any:
        async with process(path, clock, web, per_host_delay=0.2, batch_seconds=4) as datasette:
            return await finished(datasette, clock)

    job, _ = virtual.run(main)
    assert (job.status, job.outcomes, job.error_count) == (JobStatus.FINISHED, {"success": 60}, 0)


def test_a_job_says_which_hosts_it_waits_for_and_until_when(tmp_path: pathlib.Path) -> None:
    path, web = tmp_path / "data.db", Web({"one.example": 3600, "two.example": 1800})
    table(path, [f"http://{host}.example/{n}" for n in range(3) for host in ("one", "two")])

    async def main(clock: virtual.Clock) -> Any:
        async with process(path, clock, web) as datasette:
            number = await start(datasette)
            worker = worker_of(datasette, clock)
            await worker.run_until_idle(waits=False)
            cookies = {"ds_actor": datasette.sign({"a": ROOT}, "actor")}
            response = await datasette.client.get(f"/-/ingest-jobs/data/{number}.json", cookies=cookies)
            return clock(), response.json()["job"]

    now, job = virtual.run(main)
    assert sorted((wait["reason"], wait["rows"]) for wait in job["waits"]) == [
        ("one.example asked us to wait (Retry-After)", 3),
        ("two.example asked us to wait (Retry-After)", 3),
    ]
    assert 1790 <= from_iso(job["waits_until"]) - now <= 1800
