"""A job's rows before many hosts: all hosts of the window are at work, and those that rest delay nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import sqlite3
import time
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from datasette_ingest import BatchOutcome, compat, settings, sqlite
from datasette_ingest.ingest.enrichment import IngestConfig, IngestEnrichment
from datasette_ingest.ingest.enrichment.session import Session
from datasette_ingest.ingest.http.politeness import Hosts, Pace
from datasette_ingest.jobs.cache import Cache
from datasette_ingest.jobs.engine.job_handle import JobHandle
from datasette_ingest.jobs.model import Job, JobStatus, StartRequest
from datasette_ingest.jobs.service import control, queries
from datasette_ingest.testing import run_until_idle

from ...conftest import ROOT, serving
from ..origin import Origin, Request, pdf, reply

QUICK = {"allow_networks": ["127.0.0.0/8"], "per_host_delay": 0, "robots": "ignore", "timeout": 2, "deadline": 5}
HOSTS = 4
ROWS_OF_A_HOST = 5


def table(path: pathlib.Path, urls: list[str]) -> None:
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("create table papers (id integer primary key, url text)")
        conn.executemany("insert into papers (url) values (?)", [(url,) for url in urls])


async def start(datasette: Any) -> Job:
    config = {"url_column": "url"}
    return await control.start(
        datasette, "data", StartRequest("papers", enrichment="ingest", config=config, actor=ROOT)
    )


async def look(datasette: Any, job: Job) -> Job:
    return await queries.find(datasette, "data", job.id, actor=ROOT)


class Together:
    """Answers wait for each other: until so many hosts are asked at once, or it is clear that they never will be."""

    def __init__(self, hosts: int) -> None:
        self._all = asyncio.Event()
        self._hosts = hosts
        self._asked: dict[str, int] = {}
        self.most = 0

    async def __call__(self, request: Request, writer: asyncio.StreamWriter) -> None:
        host = request.headers["host"]
        self._asked[host] = self._asked.get(host, 0) + 1
        at_once = sum(number > 0 for number in self._asked.values())
        self.most = max(self.most, at_once)
        if at_once == self._hosts:
            self._all.set()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._all.wait(), 0.1)
        self._asked[host] -= 1
        writer.write(pdf())


async def hosts_at_once(path: pathlib.Path, *, is_sorted: bool, lookahead: int) -> int:
    """How many hosts were asked at the same time by a job over their rows."""
    together = Together(HOSTS)
    async with contextlib.AsyncExitStack() as stack:
        sites = [
            await stack.enter_async_context(Origin({"/p": together}, host=f"127.0.0.{n + 1}")) for n in range(HOSTS)
        ]
        urls = [site.url(f"/p?{n}") for site in sites for n in range(ROWS_OF_A_HOST)]
        table(
            path,
            urls if is_sorted else [urls[n::ROWS_OF_A_HOST][i] for n in range(ROWS_OF_A_HOST) for i in range(HOSTS)],
        )
        plugin = {**QUICK, "per_host_concurrency": 1, "lookahead": lookahead}
        datasette = await stack.enter_async_context(serving(path, plugin=plugin))
        job = await start(datasette)
        await run_until_idle(datasette)
        assert (await look(datasette, job)).outcomes == {"success": len(urls)}
    return together.most


@pytest.mark.parametrize("is_sorted", [True, False])
async def test_a_table_sorted_by_host_keeps_as_many_hosts_at_work_as_a_shuffled_one(
    tmp_path: pathlib.Path, is_sorted: bool
) -> None:
    most = await hosts_at_once(tmp_path / "data.db", is_sorted=is_sorted, lookahead=HOSTS * ROWS_OF_A_HOST)
    assert most == HOSTS


async def test_a_window_that_holds_one_hosts_rows_asks_no_other(tmp_path: pathlib.Path) -> None:
    assert await hosts_at_once(tmp_path / "data.db", is_sorted=True, lookahead=1) == 1


async def test_a_short_rest_is_waited_for_in_place(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.db"
    answers = [reply(b"", status="503 Busy", headers={"Retry-After": "1"}), pdf()]

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(answers.pop(0))

    async with Origin({"/p": respond}) as site:
        table(path, [site.url("/p")])
        async with serving(path, plugin=QUICK) as datasette:
            job = await start(datasette)
            await run_until_idle(datasette)
            finished = await look(datasette, job)
    assert (finished.status, finished.outcomes) == (JobStatus.FINISHED, {"success": 1})


class Adapter:
    """The enrichment as a process that begins has it, called as the engine calls it."""

    def __init__(self, datasette: Any) -> None:
        self.datasette = datasette
        self.db = datasette.get_database("data")
        self.enrichment = IngestEnrichment(settings.load(QUICK))
        self.config = IngestConfig(url_column="url")

    async def __aenter__(self) -> Adapter:
        self.handle = JobHandle(await start(self.datasette), Cache(self.db, "ingest"))
        specs = self.enrichment.tables(self.config)
        await compat.write(self.db, lambda conn: sqlite.migrate(conn, specs))
        await self.enrichment.initialize(self.handle, self.db, self.config, "papers")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.enrichment.close(self.handle, self.db)

    async def enrich(self, *urls: str, deferrals: int = 0) -> BatchOutcome:
        self.handle.deferrals = deferrals
        rows = [{"url": url} for url in urls]
        outcome = await self.enrichment.enrich_batch(
            rows, list(range(len(urls))), self.config, self.handle, self.db, "papers", None
        )
        await compat.write(self.db, lambda conn: [write(conn) for write in outcome.writes])
        return outcome


async def test_rows_of_a_resting_host_are_put_off_until_it_wakes_and_a_new_process_knows_of_it(
    tmp_path: pathlib.Path,
) -> None:
    path = tmp_path / "data.db"
    busy = reply(b"", status="429 Slow", headers={"Retry-After": "3600"})
    async with Origin({"/p": busy}) as resting, Origin({"/p": pdf()}, host="127.0.0.2") as ready:
        table(path, [ready.url()])
        async with serving(path, plugin=QUICK) as datasette:
            async with Adapter(datasette) as first:
                before = datetime.now(timezone.utc)
                outcome = await first.enrich(resting.url("/p?1"), ready.url("/p"), resting.url("/p?2"))
                assert outcome.outcomes == {"success": 1}
                assert [(put.key, put.reason, put.counts) for put in outcome.deferred] == [
                    (0, "127.0.0.1 asked us to wait (Retry-After)", True),
                    (2, "127.0.0.1 asked us to wait (Retry-After)", True),
                ]
                assert all(3599 <= (put.until - before).total_seconds() <= 3610 for put in outcome.deferred)
            asked = len(resting.targets)
            async with Adapter(datasette) as second:
                outcome = await second.enrich(resting.url("/p?3"))
                assert [put.reason for put in outcome.deferred] == ["127.0.0.1 asked us to wait (Retry-After)"]
                assert all(3590 <= (put.until - before).total_seconds() <= 3610 for put in outcome.deferred)
                outcome = await second.enrich(resting.url("/p?3"), deferrals=3)
                assert (outcome.outcomes, outcome.deferred) == ({"rate-limited": 1}, [])
            assert len(resting.targets) == asked


async def test_a_process_that_runs_learns_of_a_rest_that_another_one_was_asked_for(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.db"
    busy = reply(b"", status="429 Slow", headers={"Retry-After": "3600"})
    async with Origin({"/p": busy}) as resting:
        table(path, [resting.url()])
        async with serving(path, plugin=QUICK) as datasette, Adapter(datasette) as one, Adapter(datasette) as other:
            await one.enrich(resting.url("/p?1"))
            await other.enrich("")
            asked = len(resting.targets)
            outcome = await other.enrich(resting.url("/p?2"))
            assert len(outcome.deferred) == 1 and len(resting.targets) == asked


async def test_a_rest_that_was_stored_before_the_clock_was_set_back_is_forgotten() -> None:
    hosts = Hosts(Pace(2, 0.5))
    session = Session(SimpleNamespace(crawler=SimpleNamespace(hosts=hosts)), None, None, True, 30.0)  # type: ignore[arg-type]
    session.keep_back_offs({"back off a.example": time.time() + 1800, "back off b.example": time.time() + 86_400})
    assert hosts.limiter("a.example").back_off_until > 0
    assert hosts.limiter("b.example").back_off_until == 0
