"""Whole jobs that capture what an archive lacks, in virtual time: rows wait for the capture service, and nothing is lost,
captured twice, or kept in memory. The services are played in this process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import pathlib
import random
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from datasette_ingest.ingest.errors import STATUSES
from datasette_ingest.ingest.urls import split
from datasette_ingest.jobs import registry
from datasette_ingest.jobs.model import JobStatus, StartRequest
from datasette_ingest.jobs.service import control, dry_run, permissions, queries

from ... import virtual
from ...conftest import ROOT, rows
from ..fetch.fakes.spn import SESSIONS, Play, QuickArchive, SavePageNow, Transport, page, too_many
from ..origin import PDF
from .test_waiting import process, statuses, table, worker_of

SAVE, INDEX, REPLAY = "http://spn.example/save", "http://archive.example/cdx", "http://archive.example/web"
ACCESS, SECRET = "ACCESSxKEYx4711", "SECRETxKEYx0815"
PLUGIN = {
    "sources": ["spn2"],
    "spn2_url": SAVE,
    "cdx_url": INDEX,
    "wayback_url": REPLAY,
    "spn2_access_key": {"$env": "TEST_SPN_ACCESS"},
    "spn2_secret_key": {"$env": "TEST_SPN_SECRET"},
}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_SPN_ACCESS", ACCESS)
    monkeypatch.setenv("TEST_SPN_SECRET", SECRET)


class Services(Transport):
    """The capture service and the archive."""

    def __init__(self, archive: QuickArchive | None = None, **service: Any) -> None:
        self.archive = archive or QuickArchive()
        self.spn = SavePageNow(captured=self.archive.add, credentials=f"LOW {ACCESS}:{SECRET}", **service)
        super().__init__({SAVE: self.spn.answer, INDEX: self.archive.index, REPLAY: self.archive.replay})


async def start(datasette: Any, **config: Any) -> int:
    request = StartRequest("papers", enrichment="ingest", config={"url_column": "url", **config}, actor=ROOT)
    return (await control.start(datasette, "data", request)).id


async def kill(worker: Any, task: asyncio.Future[Any]) -> None:
    """End a worker so that nothing that it has begun comes to its end."""
    for work in asyncio.all_tasks():
        if "job" in work.get_name():
            work.cancel()
    worker.stop()
    await task


def unreliable(chance: random.Random) -> Any:
    """One answer in ten is a refusal or no answer at all."""
    refusals = [
        too_many(),
        too_many(45),
        {"message": SESSIONS},
        {"status": "error", "status_ext": "error:user-session-limit", "message": "too many sessions"},
        page(),
        httpx.Response(502),
    ]

    def refuse(method: str, path: str) -> Any:
        if chance.random() < 0.1:
            if path.startswith("/status/"):
                return chance.choice([too_many(), page(), httpx.Response(503), {"available": 0, "status": "pending"}])
            return chance.choice(refusals)
        return None

    return refuse


def any_play(chance: random.Random) -> Play:
    """Most captures succeed."""
    seconds = chance.uniform(2, 45)
    return chance.choices(
        [
            Play(seconds),
            Play(seconds, reuses=True),
            Play(seconds, code=chance.choice(["not-found", "gateway-timeout", "blocked-url", "celery", "no-access"])),
            Play(seconds, final="/cut"),
            Play(100_000),
        ],
        [80, 8, 9, 2, 1],
    )[0]


@pytest.mark.slow
def test_a_thousand_rows_through_seven_places_with_refusals_and_a_kill(tmp_path: pathlib.Path) -> None:
    path, chance = tmp_path / "data.db", random.Random(4)
    urls = [f"http://h.example/{n}" for n in range(1000)]
    table(path, urls)
    services = Services(
        QuickArchive(late=lambda url: chance.choice([0, 0, 1, 2])),
        plays={url: any_play(chance) for url in urls},
        refuse=unreliable(chance),
    )

    async def main(clock: virtual.Clock) -> Any:
        async with process(path, clock, services, **PLUGIN) as datasette:
            number = await start(datasette)
            worker = worker_of(datasette, clock)
            task = asyncio.ensure_future(worker.run_forever())
            await asyncio.sleep(900 + chance.uniform(0, 60))
            open_then = services.spn.open()
            await kill(worker, task)
        before = statuses(path)
        async with process(path, clock, services, **PLUGIN) as datasette:
            await worker_of(datasette, clock).run_until_idle()
            return open_then, before, await queries.find(datasette, "data", number, actor=ROOT)

    open_then, before, job = virtual.run(main)
    assert 0 < open_then <= 7 and 0 < 1000 - before[None] < 900, "it was killed in the middle"
    assert (job.status, job.error_count, sum(job.outcomes.values())) == (JobStatus.FINISHED, 0, 1000)
    assert job.outcomes["success"] > 700
    assert {word for word in job.outcomes if word != "success" and not word.startswith("spn2-error:")} <= set(STATUSES)
    assert None not in statuses(path)
    assert services.spn.most_open <= 7
    assert max(services.spn.begun.values()) == 1, "no URL is captured twice"


def test_a_process_that_is_killed_again_and_again_captures_each_url_once(tmp_path: pathlib.Path) -> None:
    path, chance = tmp_path / "data.db", random.Random(7)
    table(path, [f"http://h.example/{n}" for n in range(25)])
    services = Services(usual=lambda url: Play(chance.uniform(5, 60)))

    async def main(clock: virtual.Clock) -> int:
        async with process(path, clock, services, **PLUGIN) as datasette:
            number = await start(datasette)
        for kills in range(1, 40):
            async with process(path, clock, services, **PLUGIN) as datasette:
                worker = worker_of(datasette, clock)
                task = asyncio.ensure_future(worker.run_forever())
                await asyncio.sleep(chance.uniform(0.1, 25))
                await kill(worker, task)
                job = await queries.find(datasette, "data", number, actor=ROOT)
            waiting = rows(path, "select count(*) from _enrichment_batches where defer_reason like '%under way'")[0][0]
            known = rows(
                path, "select count(*) from _enrichment_cache where key like 'spn2 %' and value not like '%ended%'"
            )
            assert waiting <= known[0][0], "a row that waits for a capture is stored together with it"
            if job.status is JobStatus.FINISHED:
                return kills
        raise AssertionError(f"not finished: {job}")

    kills = virtual.run(main)
    assert kills > 5 and statuses(path) == {"success": 25}
    assert services.spn.begun.total() == 25 and services.spn.most_open <= 7


@pytest.mark.slow
def test_memory_does_not_grow_with_open_captures_or_with_rows_that_wait_for_a_place(tmp_path: pathlib.Path) -> None:
    def held(path: pathlib.Path, number: int, seconds: float, **given: Any) -> tuple[int, int, int]:
        services = Services(places=100_000, usual=lambda url: Play(100))
        table(path, [f"http://h.example/{n}" for n in range(number)])

        async def main(clock: virtual.Clock) -> tuple[int, int, int]:
            async with process(path, clock, services, **PLUGIN, **given) as datasette:
                await start(datasette)
                worker = worker_of(datasette, clock)
                task = asyncio.ensure_future(worker.run_forever())
                await asyncio.sleep(seconds)
                open_captures = services.spn.open()
                services.spn.jobs.clear()
                services.spn.requests.clear()
                services.spn.forms.clear()
                services.spn.begun.clear()
                # Datasette's thread for writes keeps the last one until the next.
                await datasette.get_database("data").execute_write("select 1")
                gc.collect()
                found = open_captures, len(asyncio.all_tasks()), len(gc.get_objects())
                worker.stop()
                await task
            return found

        return virtual.run(main)

    for number in range(5_000):  # fill the caches that have a limit
        split(f"http://full.example/{number}")
    for name in ("warm", "few", "many", "open"):
        (tmp_path / name).mkdir()
    held(tmp_path / "warm" / "data.db", 200, 60)
    few = held(tmp_path / "few" / "data.db", 200, 60)
    many = held(tmp_path / "many" / "data.db", 3_000, 60)
    assert few[0] == many[0] == 7
    assert many[2] - few[2] < 1_500, "not one object for each row that waits"
    much = held(tmp_path / "open" / "data.db", 1_000, 90, spn2_concurrency=1_000)
    assert much[0] == 1_000
    assert much[2] - few[2] < 5_000, "a few objects for each open capture"
    assert max(few[1], many[1], much[1]) < 15, "no task for a row that waits, nor for an open capture"


def test_rows_and_jobs_that_want_one_url_share_one_capture(tmp_path: pathlib.Path) -> None:
    path, services = tmp_path / "data.db", Services()
    table(path, ["http://h.example/a.pdf"] * 20)

    async def main(clock: virtual.Clock) -> Any:
        async with process(path, clock, services, **PLUGIN) as datasette:
            await start(datasette)
            await start(datasette, force_recrawl=True)
            await worker_of(datasette, clock).run_until_idle()
            return statuses(path)

    assert virtual.run(main) == {"success": 20}
    assert services.spn.begun == {"http://h.example/a.pdf": 1} and services.spn.posts() == 1


LANDING = b'<html><head><meta name="citation_pdf_url" content="/a.pdf"></head><body>A work</body></html>'


def test_a_row_of_several_pages_captures_each_once_and_fetches_none_in_vain(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.db"
    archive = QuickArchive(lambda url: PDF if url.endswith(".pdf") else LANDING)
    services = Services(archive, usual=lambda url: Play(100))
    table(path, ["http://h.example/a"])
    replayed: list[str] = []
    services.services[REPLAY] = lambda request, rest: replayed.append(str(request.url)) or archive.replay(request, rest)

    async def main(clock: virtual.Clock) -> Any:
        async with process(path, clock, services, **PLUGIN) as datasette:
            await start(datasette)
            await worker_of(datasette, clock).run_until_idle()
            return statuses(path)

    assert virtual.run(main) == {"success": 1}
    assert services.spn.begun == {"http://h.example/a": 1, "http://h.example/a.pdf": 1}
    assert [url.partition("id_/")[2] for url in replayed] == [
        "http://h.example/a",  # leads to the file, which is not captured yet
        "http://h.example/a",
        "http://h.example/a.pdf",
    ]
    assert rows(path, "select via, hops from ingest_file_result") == [
        ("spn2", json.dumps(["http://h.example/a", "http://h.example/a.pdf"]))
    ]


def test_the_archive_is_asked_first_and_only_what_it_lacks_is_captured(tmp_path: pathlib.Path) -> None:
    path, archive = tmp_path / "data.db", QuickArchive()
    services = Services(archive)
    archive.add("http://h.example/old.pdf", "20200101000000")
    table(path, ["http://h.example/old.pdf", "http://h.example/new.pdf"])

    async def main(clock: virtual.Clock) -> Any:
        async with process(path, clock, services, **{**PLUGIN, "sources": ["wayback", "spn2"]}) as datasette:
            await start(datasette)
            await worker_of(datasette, clock).run_until_idle()
            return rows(path, "select base_url, status, via from ingest_file_result order by base_url")

    assert virtual.run(main) == [
        ("http://h.example/new.pdf", "success", "spn2"),
        ("http://h.example/old.pdf", "success", "wayback"),
    ]
    assert services.spn.begun == {"http://h.example/new.pdf": 1}


def count_questions(services: Services, archive: QuickArchive) -> Counter[str]:
    """Counts what the index is asked from now on: for the capture of one time (`exact`), or for any."""
    asked = Counter[str]()

    def index(request: httpx.Request, rest: str) -> httpx.Response:
        asked["exact" if "from" in dict(request.url.params) else "any"] += 1
        return archive.index(request, rest)

    services.services[INDEX] = index
    return asked


def test_fetching_again_captures_what_the_archive_has(tmp_path: pathlib.Path) -> None:
    path, archive = tmp_path / "data.db", QuickArchive()
    services = Services(archive)
    asked = count_questions(services, archive)
    archive.add("http://h.example/old.pdf", "20200101000000")
    table(path, ["http://h.example/old.pdf"])

    async def main(clock: virtual.Clock) -> Any:
        async with process(path, clock, services, **{**PLUGIN, "sources": ["wayback", "spn2"]}) as datasette:
            await start(datasette, force_recrawl=True)
            await worker_of(datasette, clock).run_until_idle()
            return rows(path, "select status, via, terminal_dt > '2026' from ingest_file_result")

    assert virtual.run(main) == [("success", "spn2", 1)]
    assert asked == {"exact": 1}, "only the new capture was looked for"


def test_an_open_capture_is_not_looked_for_in_the_archive_again(tmp_path: pathlib.Path) -> None:
    path, archive = tmp_path / "data.db", QuickArchive()
    services = Services(archive, usual=lambda url: Play(100))
    asked = count_questions(services, archive)
    table(path, ["http://h.example/new.pdf"])

    async def main(clock: virtual.Clock) -> Any:
        async with process(path, clock, services, **{**PLUGIN, "sources": ["wayback", "spn2"]}) as datasette:
            await start(datasette)
            await worker_of(datasette, clock).run_until_idle()
            return statuses(path)

    assert virtual.run(main) == {"success": 1}
    assert asked["any"] <= 2 and asked["exact"] == 1


def test_a_job_says_what_its_rows_wait_for(tmp_path: pathlib.Path) -> None:
    path, services = tmp_path / "data.db", Services(usual=lambda url: Play(60))
    table(path, [f"http://h.example/{n}" for n in range(12)])

    async def main(clock: virtual.Clock) -> Any:
        async with process(path, clock, services, **PLUGIN) as datasette:
            number = await start(datasette)
            await worker_of(datasette, clock).run_until_idle(waits=False)
            cookies = {"ds_actor": datasette.sign({"a": ROOT}, "actor")}
            response = await datasette.client.get(f"/-/ingest-jobs/data/{number}.json", cookies=cookies)
            return response.json()["job"]

    job = virtual.run(main)
    assert {wait["reason"]: wait["rows"] for wait in job["waits"]} == {
        "spn.example: a capture is under way": 7,
        "spn.example: waiting for a place for a capture": 5,
    }


async def test_a_dry_run_captures_nothing_and_says_so(tmp_path: pathlib.Path) -> None:
    path, services = tmp_path / "data.db", Services()
    table(path, ["http://h.example/a", "http://h.example/b"])
    async with process(path, time.time, services, **PLUGIN) as datasette:  # type: ignore[arg-type]
        papers = await permissions.require_table(datasette, ROOT, "data", "papers")
        enrichment = (await registry.enrichments(datasette))["ingest"]
        found = await dry_run.run(datasette, papers, enrichment=enrichment, config={"url_column": "url"}, actor=ROOT)
    assert [row.error and row.error.partition(": ")[2] for row in found.rows] == [
        "spn.example captures it when the job runs; a dry run begins no capture"
    ] * 2
    assert not services.spn.requests


# Keys


def test_a_job_without_keys_is_refused_with_where_to_get_them(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.db"
    table(path, ["http://h.example/a"])

    async def main(clock: virtual.Clock) -> Any:
        async with process(path, clock, Services()) as datasette:
            with pytest.raises(Exception) as caught:
                await start(datasette, sources=["spn2"])
            return str(caught.value)

    assert virtual.run(main).startswith(
        "sources: the source spn2 needs the settings spn2_access_key and spn2_secret_key; https://"
    )


def test_a_process_without_keys_pauses_a_job_that_needs_them(tmp_path: pathlib.Path) -> None:
    path, services = tmp_path / "data.db", Services()
    table(path, ["http://h.example/a"])

    async def main(clock: virtual.Clock) -> Any:
        async with process(path, clock, services, **PLUGIN) as datasette:
            number = await start(datasette, sources=["spn2"])
        async with process(path, clock, services) as datasette:
            await worker_of(datasette, clock).run_until_idle()
            return await queries.find(datasette, "data", number, actor=ROOT)

    job = virtual.run(main)
    assert job.status is JobStatus.PAUSED and "spn2_access_key" in (job.pause_reason or "")


@contextlib.contextmanager
def everything_logged() -> Iterator[list[str]]:
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    root, handler = logging.getLogger(), Keep(logging.NOTSET)
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield lines
    finally:
        root.setLevel(before)
        root.removeHandler(handler)


def everything_stored(path: pathlib.Path) -> str:
    with contextlib.closing(sqlite3.connect(path)) as conn:
        return "\n".join(conn.iterdump())


def test_the_keys_are_in_no_table_no_log_no_message_and_no_page(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data.db"
    told = {"status": "error", "status_ext": "error:celery", "message": "no", "exception": "no"}
    services = Services(
        plays={
            "http://h.example/1": Play(code="celery"),
            "http://h.example/2": Play(100_000),
            "http://h.example/3": Play(final="/cut"),
        }
    )
    services.spn.script(page(), httpx.Response(401), told, too_many(), {"job_id": 5})
    table(path, [f"http://h.example/{n}" for n in range(8)])
    seen: list[str] = []

    async def main(clock: virtual.Clock) -> None:
        async with process(path, clock, services, **PLUGIN) as datasette:
            number = await start(datasette)
            worker = worker_of(datasette, clock)
            task = asyncio.ensure_future(worker.run_until_idle())
            await asyncio.sleep(60)
            seen.append(everything_stored(path))
            await task
            cookies = {"ds_actor": datasette.sign({"a": ROOT}, "actor")}
            for address in (
                f"/-/ingest-jobs/data/{number}",
                f"/-/ingest-jobs/data/{number}.json",
                f"/-/ingest-jobs/data/{number}/errors",
                f"/-/ingest-jobs/data/{number}/missed.csv",
                "/-/ingest/data/papers/ingest",
                "/-/ingest/data/papers/ingest.json",
                "/-/ingest-api.json",
                "/-/plugins.json",
                "/-/metadata.json",
                "/-/config.json",
                "/-/settings.json",
                "/data.db",
                "/data/papers.json",
            ):
                response = await datasette.client.get(address, cookies=cookies)
                seen.append(response.text)
            enrichment = (await registry.enrichments(datasette))["ingest"]
            seen.extend([repr(enrichment.settings), repr(enrichment.settings.crawl()), str(enrichment.settings)])

    with everything_logged() as lines:
        virtual.run(main)
    out = capsys.readouterr()
    for text in (*seen, *lines, out.out, out.err, everything_stored(path)):
        assert ACCESS not in text and SECRET not in text
    assert Counter(statuses(path))["success"] >= 3
