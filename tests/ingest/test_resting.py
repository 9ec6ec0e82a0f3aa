"""A job's rows before many hosts: all hosts of the window are at work, and those that rest delay nobody else."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import sqlite3
import time
from datetime import datetime, timezone
from typing import Any

import pytest

from datasette_ingest.ingest import enrichment
from datasette_ingest.jobs.model import Job, JobStatus, StartRequest
from datasette_ingest.jobs.owner import liveness
from datasette_ingest.jobs.service import control, queries
from datasette_ingest.testing import Timing, run_until_idle

from ..conftest import ROOT, rows, serving
from .origin import Origin, Request, pdf, reply

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


async def test_a_job_pauses_until_the_only_hosts_that_are_left_wake_and_then_loses_no_row(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enrichment, "REST_LOOK_SECONDS", 0.05)
    path = tmp_path / "data.db"
    busy = reply(b"", status="429 Slow", headers={"Retry-After": "3600"})
    async with Origin({"/p": busy}) as resting, Origin({"/p": pdf()}, host="127.0.0.2") as ready:
        urls = [site.url(f"/p?{n}") for n in range(6) for site in (resting, ready)]
        table(path, urls)
        async with serving(path, plugin=QUICK) as datasette:
            job = await start(datasette)
            before = time.time()
            await run_until_idle(datasette)
            paused = await look(datasette, job)
            assert paused.status is JobStatus.PAUSED and paused.done_count == 6
            assert "left alone" in paused.pause_reason
            wakes = datetime.fromisoformat(paused.resume_at.replace("Z", "+00:00"))
            assert wakes.tzinfo == timezone.utc and 3590 <= wakes.timestamp() - before <= 3610
            answered = "select count(*) from papers where ingest_status = 'success' and url like '%.2:%'"
            assert rows(path, answered) == [(6,)]
            assert rows(path, "select count(*) from papers where ingest_status is null") == [(6,)]
            assert rows(path, "select count(*), sum(leased_by is null) from _enrichment_batches") == [(6, 6)]

            await run_until_idle(datasette)
            assert (await look(datasette, job)).status is JobStatus.PAUSED, "nobody goes on before the time has come"
            resting.handlers["/p"] = pdf()
            later = Timing(clock=lambda: time.time() + 3610, liveness=liveness)
            await run_until_idle(datasette, timing=later)
            finished = await look(datasette, job)
    assert (finished.status, finished.done_count, finished.outcomes) == (JobStatus.FINISHED, 12, {"success": 12})
    assert rows(path, "select count(*), sum(ingest_status = 'success') from papers") == [(12, 12)]
    assert sorted(ready.targets) == sorted(f"/p?{n}" for n in range(6)), "what was answered is not asked again"


async def test_a_short_rest_is_waited_for_in_place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enrichment, "REST_LOOK_SECONDS", 0.05)
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
