"""What the job page is told of a running ingest job: which hosts rest, and until when; and what its misses are."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import sqlite3
import time
from typing import Any

import pytest

from datasette_ingest.ingest import enrichment
from datasette_ingest.jobs.engine import runner
from datasette_ingest.jobs.model import Job, JobStatus, StartRequest
from datasette_ingest.jobs.service import control, failures, queries
from datasette_ingest.sqlite import from_iso
from datasette_ingest.testing import run_until_idle

from ..conftest import ROOT, serving
from .origin import Origin, pdf, reply

QUICK = {"allow_networks": ["127.0.0.0/8"], "per_host_delay": 0, "robots": "ignore", "timeout": 2, "deadline": 5}
RESTS = "Hosts that rest"


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enrichment, "REST_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(runner, "LIVE_SECONDS", 0.0)


def table(path: pathlib.Path, name: str, urls: list[str | None]) -> None:
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute(f"create table {name} (id integer primary key, url text)")
        conn.executemany(f"insert into {name} (url) values (?)", [(url,) for url in urls])


async def start(datasette: Any, name: str = "papers", **config: Any) -> Job:
    given = {"url_column": "url", **config}
    return await control.start(datasette, "data", StartRequest(name, enrichment="ingest", config=given, actor=ROOT))


async def look(datasette: Any, job: Job) -> Job:
    return await queries.find(datasette, "data", job.id, actor=ROOT)


def busy(seconds: int) -> bytes:
    return reply(b"", status="429 Slow", headers={"Retry-After": str(seconds)})


async def test_a_job_that_pauses_for_its_hosts_names_them_with_their_times(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.db"
    async with Origin({"/p": busy(3600)}) as one, Origin({"/p": busy(1800)}, host="127.0.0.2") as other:
        table(path, "papers", [site.url(f"/p?{n}") for n in range(3) for site in (one, other)])
        async with serving(path, plugin=QUICK) as datasette:
            job = await start(datasette)
            before = time.time()
            await run_until_idle(datasette)
            paused = await look(datasette, job)
    assert paused.status is JobStatus.PAUSED
    assert [host["name"] for host in paused.live[RESTS]] == ["127.0.0.1", "127.0.0.2"]
    waits = [from_iso(host["until"]) - before for host in paused.live[RESTS]]
    assert 3590 <= waits[0] <= 3610 and 1790 <= waits[1] <= 1810


async def test_a_job_learns_nothing_of_the_hosts_of_another(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.db"
    gate = asyncio.Event()

    async def slow(request: Any, writer: Any) -> None:
        await gate.wait()
        writer.write(pdf())

    async with Origin({"/p": busy(3600)}) as resting, Origin({"/p": slow}, host="127.0.0.2") as ready:
        table(path, "secret", [resting.url("/p")])
        table(path, "papers", [ready.url("/p")])
        async with serving(path, plugin=QUICK) as datasette:
            private, public = await start(datasette, "secret"), await start(datasette, "papers")
            working = asyncio.create_task(run_until_idle(datasette))
            while RESTS not in (await look(datasette, private)).live:
                await asyncio.sleep(0.01)
            assert (await look(datasette, public)).live == {}
            gate.set()
            await asyncio.wait_for(working, 10)
            assert (await look(datasette, public)).status is JobStatus.FINISHED
            assert (await look(datasette, private)).status is JobStatus.PAUSED


async def test_only_the_hosts_that_rest_longest_are_named_and_the_others_counted(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enrichment, "NAMED_RESTING_HOSTS", 1)
    path = tmp_path / "data.db"
    async with Origin({"/p": busy(3600)}) as one, Origin({"/p": busy(1800)}, host="127.0.0.2") as other:
        table(path, "papers", [one.url("/p"), other.url("/p")])
        async with serving(path, plugin=QUICK) as datasette:
            job = await start(datasette)
            await run_until_idle(datasette)
            live = (await look(datasette, job)).live
    assert (live[RESTS][0]["name"], live[RESTS][1:]) == ("127.0.0.1", ["and 1 more"])


@pytest.mark.parametrize("output", ["columns", "shadow", "none"])
async def test_the_misses_are_told_with_their_links_and_reasons_wherever_results_stand(
    tmp_path: pathlib.Path, output: str
) -> None:
    path = tmp_path / "data.db"
    async with Origin({"/p": pdf(), "/gone": reply(b"", status="404 Not Found")}) as site:
        table(path, "papers", [site.url("/p"), site.url("/gone"), None, " "])
        async with serving(path, plugin=QUICK) as datasette:
            job = await start(datasette, output=output)
            await run_until_idle(datasette)
            query = await failures.failure_query(datasette, datasette.get_database("data"), job, ROOT)
            found = [row async for page in failures.pages(datasette.get_database("data"), query) for row in page]
    assert query.names == ("id", "url", "terminal_url", "next_try", "outcome", "message")
    assert [(row[0], row[1], row[4]) for row in found] == [
        (2, site.url("/gone"), "terminal-bad-status"),
        (3, None, "invalid-url"),
        (4, " ", "invalid-url"),
    ]
    assert found[0][2] == site.url("/gone") and "404" in found[0][5]
