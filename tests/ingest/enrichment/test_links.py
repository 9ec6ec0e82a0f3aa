"""The job that checks links, as a whole: rows in, words on the rows, hosts that are gone looked at twice."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import pathlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from unittest import mock

import httpx
import pytest

from datasette_ingest import settings
from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.enrichment import IngestEnrichment, LinksEnrichment
from datasette_ingest.ingest.enrichment.session import Sessions
from datasette_ingest.ingest.errors import InvalidHostResolution, Refused
from datasette_ingest.jobs import registry
from datasette_ingest.jobs.engine.worker import Worker
from datasette_ingest.jobs.errors import BadConfig
from datasette_ingest.jobs.model import Job, JobStatus, StartRequest
from datasette_ingest.jobs.service import control, dry_run, permissions, queries
from datasette_ingest.sqlite import from_iso

from ... import virtual
from ...conftest import ROOT, rows, serving
from ..linkcheck.site import Site

ARTICLE = "<!doctype html><title>Tides</title><h1 id=top-1>Tides</h1><p>" + "The herons follow the tide. " * 60
MISSING = "<!doctype html><title>Page not found</title><h1>Page not found</h1>"


class Web(httpx.AsyncBaseTransport):
    """Every host there is. `gone`: hosts that have no address, or refuse connections, and until when (seconds by the
    loop's clock)."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.times: list[float] = []
        self.gone: dict[str, type[Exception]] = {}
        self.codes: dict[str, int] = {}
        self.captures = '[["original","timestamp","statuscode","mimetype"]]'
        self.now: Callable[[], float] = lambda: 0.0
        self.seconds = 0.0
        self.began: Callable[[float], None] = lambda time: None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.began(asyncio.get_running_loop().time())
        await asyncio.sleep(self.seconds)
        url = str(request.url)
        host, path = request.url.host, request.url.path
        if path == "/robots.txt":
            self._check(host)
            return httpx.Response(404)
        if path == "/cdx":
            return httpx.Response(200, text=self.captures)
        self._check(host)
        self.asked.append(f"{request.method} {url}")
        code = self.codes.get(path, 200)
        if code in (301, 302):
            return httpx.Response(code, headers={"Location": "/new" + path})
        if code != 200:
            return httpx.Response(code)
        return httpx.Response(200, html=MISSING if path == "/soft" else ARTICLE)

    def _check(self, host: str) -> None:
        if host in self.gone:
            self.times.append(self.now())
            raise self.gone[host](f"no connection to {host}")


def table(path: pathlib.Path, cells: list[Any], more: str = "") -> None:
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute(f"create table papers (id integer primary key, url {more})")
        conn.executemany("insert into papers (url) values (?)", [(cell,) for cell in cells])


@contextlib.asynccontextmanager
async def process(path: pathlib.Path, clock: virtual.Clock, web: Web, **given: Any) -> AsyncIterator[Any]:
    web.now = clock
    chosen = settings.load(given)
    sessions = Sessions(lambda chosen, **more: Crawler(chosen, transport=web, **more))
    with mock.patch("time.time", clock):
        async with serving(path, plugin=given) as datasette:
            (await registry.enrichments(datasette))["links"] = LinksEnrichment(chosen, sessions)
            yield datasette


async def run(datasette: Any, clock: virtual.Clock, *, filters: str = "", waits: bool = True, **config: Any) -> Job:
    job = await control.start(
        datasette, "data", StartRequest("papers", "links", filters, {"url_column": "url", **config}, actor=ROOT)
    )
    await Worker(datasette, timing=clock.timing()).run_until_idle(waits=waits)
    return await queries.find(datasette, "data", job.id, actor=ROOT)


def in_time(path: pathlib.Path, web: Web, work: Callable[[Any, virtual.Clock], Awaitable[Any]], **given: Any) -> Any:
    async def main(clock: virtual.Clock) -> Any:
        async with process(path, clock, web, **given) as datasette:
            return await work(datasette, clock)

    return virtual.run(main)


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "data.db"


def test_each_row_gets_its_word_and_empty_cells_are_no_misses(path: pathlib.Path) -> None:
    web = Web()
    web.codes = {"/404": 404, "/403": 403, "/500": 500, "/moved": 301, "/now": 302}
    paths = ["/page", "/page#top-1", "/page#nope", "/404", "/403", "/500", "/moved#x", "/now", "/soft"]
    table(
        path,
        [f"http://a.example{one}" for one in paths] + [None, "", " ", "n/a", "see p. 5", 42, b"\xff", "mailto:a@b.c"],
    )
    job = in_time(path, web, run)
    assert (job.status, job.error_count) == (JobStatus.FINISHED, 0)
    assert job.outcomes == {"ok": 3, "moved": 1, "redirected": 1, "blocked": 1, "unsure": 2, "dead": 5, "no link": 4}
    found = rows(path, "select link_status, link_url, link_code, link_fragment from papers order by id")
    assert found[:9] == [
        ("ok", "http://a.example/page", 200, None),
        ("ok", "http://a.example/page#top-1", 200, "ok"),
        ("ok", "http://a.example/page#nope", 200, "missing"),
        ("dead", "http://a.example/404", 404, None),
        ("blocked", "http://a.example/403", 403, None),
        ("unsure", "http://a.example/500", 500, None),
        ("moved", "http://a.example/new/moved#x", 200, "missing"),
        ("redirected", "http://a.example/new/now", 200, None),
        ("dead", "http://a.example/soft", 200, None),
    ]
    assert found[9:13] == [("no link", None, None, None)] * 4
    assert [status for status, *_ in found[13:]] == ["dead", "dead", "dead", "unsure"]
    assert rows(
        path, "select count(*), count(link_checked) from papers where link_checked like '____-__-__T__:__:__Z'"
    ) == [(13, 13)]
    assert rows(path, "select base_url, next_try is not null from ingest_link where status = 'unsure' order by 1") == [
        ("http://a.example/500", 1),
        ("mailto:a@b.c", 0),
    ]


@pytest.mark.parametrize("problem", [InvalidHostResolution, Refused])
def test_a_host_is_called_dead_when_it_was_gone_twice_a_quarter_of_an_hour_apart(
    path: pathlib.Path, problem: type[Exception]
) -> None:
    web = Web()
    web.gone = {"gone.example": problem}
    table(path, ["http://gone.example/1", "http://gone.example/2", "http://a.example/"])

    async def work(datasette: Any, clock: virtual.Clock) -> tuple[Job, Any, Job]:
        first = await run(datasette, clock, waits=False)
        between = rows(path, "select link_status from papers order by id")
        await Worker(datasette, timing=clock.timing()).run_until_idle()
        return first, between, await queries.find(datasette, "data", first.id, actor=ROOT)

    first, between, job = in_time(path, web, work)
    assert first.status is JobStatus.RUNNING and first.waits_until is not None
    assert between == [(None,), (None,), ("ok",)]
    assert job.outcomes == {"ok": 1, "dead": 2}
    assert max(web.times) - min(web.times) >= 15 * 60
    assert rows(path, "select distinct link_reason from papers where link_status = 'dead'") == [
        ("no server is named gone.example" if problem is InvalidHostResolution else "gone.example refuses connections",)
    ]


def test_the_first_look_at_a_host_survives_a_restart(path: pathlib.Path) -> None:
    web = Web()
    web.gone = {"gone.example": Refused}
    table(path, ["http://gone.example/1"])

    async def main(clock: virtual.Clock) -> Any:
        async with process(path, clock, web) as datasette:
            job = await run(datasette, clock, waits=False)
        async with process(path, clock, web) as datasette:
            await Worker(datasette, timing=clock.timing()).run_until_idle()
            return await queries.find(datasette, "data", job.id, actor=ROOT)

    assert virtual.run(main).outcomes == {"dead": 1}
    assert 15 * 60 <= web.times[-1] - web.times[0] < 16 * 60


def test_a_host_that_came_back_is_alive(path: pathlib.Path) -> None:
    web = Web()
    web.gone = {"gone.example": InvalidHostResolution}
    table(path, ["http://gone.example/1"])

    async def work(datasette: Any, clock: virtual.Clock) -> Any:
        job = await run(datasette, clock, waits=False)
        web.gone.clear()
        await Worker(datasette, timing=clock.timing()).run_until_idle()
        return await queries.find(datasette, "data", job.id, actor=ROOT)

    assert in_time(path, web, work).outcomes == {"ok": 1}
    assert rows(path, "select count(*) from _enrichment_cache where key like 'unreachable %'") == [(0,)]


def test_unsure_links_wait_longer_after_each_check_and_are_found_when_due(path: pathlib.Path) -> None:
    web = Web()
    web.codes = {"/500": 500, "/404": 404}
    table(path, ["http://a.example/500", "http://a.example/404", "http://a.example/ok"])

    async def work(datasette: Any, clock: virtual.Clock) -> Any:
        first = await run(datasette, clock)
        hours = [_hours(path)]
        counts = await control.retry_counts(datasette, "data", first, actor=ROOT, limit_ms=10_000)
        due = await control.retry(datasette, "data", first.id, actor=ROOT, scope="misses")
        await Worker(datasette, timing=clock.timing()).run_until_idle()
        hours.append(_hours(path))
        return counts, await queries.find(datasette, "data", due.id, actor=ROOT), hours

    counts, retried, hours = in_time(path, web, work)
    assert (counts.due, counts.misses) == (0, 2)
    assert retried.outcomes == {"unsure": 1, "dead": 1}
    assert hours == [8, 16]


def _hours(path: pathlib.Path) -> int:
    [(checked, due)] = rows(path, "select checked, next_try from ingest_link where status = 'unsure'")
    return round((from_iso(due) - from_iso(checked)) / 3600)


def test_rows_with_one_link_share_one_check(path: pathlib.Path) -> None:
    web = Web()
    table(path, ["http://a.example/page"] * 20)
    assert in_time(path, web, run).outcomes == {"ok": 20}
    assert sorted(web.asked) == ["GET http://a.example/page", "HEAD http://a.example/page"]


def test_without_reading_pages_only_heads_are_asked_for(path: pathlib.Path) -> None:
    web = Web()
    table(path, ["http://a.example/page", "http://a.example/soft"])

    async def work(datasette: Any, clock: virtual.Clock) -> Job:
        return await run(datasette, clock, read_pages=False)

    assert in_time(path, web, work).outcomes == {"ok": 2}
    assert {asked.split()[0] for asked in web.asked} == {"HEAD"}


def test_a_job_that_finds_files_and_one_that_checks_links_share_the_pace_of_a_host(path: pathlib.Path) -> None:
    web = Web()
    table(path, [f"http://a.example/{number}" for number in range(6)])
    starts: list[float] = []

    async def main(clock: virtual.Clock) -> None:
        async with process(path, clock, web) as datasette:
            chosen = settings.load({})
            ingest = IngestEnrichment(
                chosen, make_crawler=lambda chosen, **more: Crawler(chosen, transport=web, **more)
            )
            known = await registry.enrichments(datasette)
            known["ingest"], known["links"] = ingest, LinksEnrichment(chosen, ingest.sessions)
            web.began = starts.append
            for slug in ("ingest", "links"):
                await control.start(
                    datasette, "data", StartRequest("papers", slug, "", {"url_column": "url"}, actor=ROOT)
                )
            await Worker(datasette, timing=clock.timing()).run_until_idle()

    virtual.run(main)
    assert len(starts) >= 18
    assert min(after - before for before, after in itertools.pairwise(sorted(starts))) >= 0.5 - 1e-6


@pytest.mark.slow
def test_ten_thousand_links_on_five_hundred_hosts_take_a_minute_or_two(path: pathlib.Path) -> None:
    web = Web()
    web.seconds = 0.1
    web.codes = {f"/{number}": 404 if number % 10 else 301 for number in range(0, 20, 5)}
    table(path, [f"http://h{number % 500}.example/{number // 500}" for number in range(10_000)])

    async def work(datasette: Any, clock: virtual.Clock) -> tuple[Job, float]:
        began = clock()
        return await run(datasette, clock), clock() - began

    job, took = in_time(path, web, work)
    assert job.outcomes == {"ok": 8000, "dead": 1000, "moved": 1000}
    assert len(web.asked) <= 2.1 * 10_000
    # 20 links of a host, each its head and its beginning, and robots.txt; 32 requests at once of 0.1 s each.
    assert took <= 2 * max(41 * 0.5, (len(web.asked) + 500) * 0.1 / 32)


def test_results_beside_the_table_leave_the_table_as_it_is(path: pathlib.Path) -> None:
    table(path, ["http://a.example/page", None])

    async def work(datasette: Any, clock: virtual.Clock) -> Job:
        return await run(datasette, clock, output="shadow")

    assert in_time(path, Web(), work).outcomes == {"ok": 1, "no link": 1}
    assert [name for _, name, *_ in rows(path, "pragma table_info(papers)")] == ["id", "url"]
    assert rows(path, "select id, link_status from _enrichments_papers order by 1") == [(1, "ok"), (2, "no link")]


def test_the_dead_get_the_capture_nearest_to_their_date(path: pathlib.Path) -> None:
    web = Web()
    web.codes = {"/404": 404, "/403": 403}
    web.captures = (
        '[["original","timestamp","statuscode","mimetype"],["http://a.example/404","20100101000000","200","text/html"],'
        '["http://a.example/404","20190501000000","200","text/html"],["http://a.example/404","20200101000000","404","text/html"]]'
    )
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("create table papers (id integer primary key, url text, day)")
        cells = [("http://a.example/404", "2010-03"), ("http://a.example/404", None), ("http://a.example/403", 2010)]
        conn.executemany("insert into papers (url, day) values (?, ?)", cells)

    async def work(datasette: Any, clock: virtual.Clock) -> Job:
        return await run(datasette, clock, sources=["live", "wayback"], date_column="day")

    given = {"cdx_url": "http://index.example/cdx", "wayback_url": "http://index.example/web"}
    assert in_time(path, web, work, **given).outcomes == {"dead": 2, "blocked": 1}
    assert rows(path, "select link_archive_url from papers order by id") == [
        ("http://index.example/web/20100101000000/http://a.example/404",),
        ("http://index.example/web/20190501000000/http://a.example/404",),
        (None,),
    ]


def test_a_dead_link_that_waits_for_the_index_is_not_asked_for_again(path: pathlib.Path) -> None:
    web = Web()
    web.codes = {"/404": 404}
    web.captures = '[["original","timestamp","statuscode"],["http://h0.example/404","20190501000000","200"]]'
    table(path, [f"http://h{number}.example/404" for number in range(60)])

    async def work(datasette: Any, clock: virtual.Clock) -> tuple[Job, float]:
        began = clock()
        return await run(datasette, clock, sources=["live", "wayback"]), clock() - began

    given = {"cdx_url": "http://index.example/cdx", "wayback_url": "http://index.example/web"}
    job, took = in_time(path, web, work, **given)
    assert job.outcomes == {"dead": 60} and took > 100, "24 questions a minute"
    assert sorted(web.asked) == sorted(
        f"{method} http://h{number}.example/404" for number in range(60) for method in ("HEAD", "GET")
    )
    assert rows(path, "select count(*) from papers where link_archive_url is not null") == [(60,)]
    assert rows(path, "select count(*) from _enrichment_cache where key like 'dead %'") == [(0,)]


def test_passwords_are_nowhere_but_in_the_cell(path: pathlib.Path) -> None:
    web = Web()
    web.codes = {"/404": 404}
    table(path, ["http://me:secret@a.example/404", "http://me:secret@a.example/page"])
    in_time(path, web, run)
    text = str(rows(path, "select * from ingest_link")) + str(rows(path, "select link_url, link_reason from papers"))
    assert text.count("secret") == 2, "the keys, which are the cells"


async def test_a_dry_run_says_what_a_job_would_do_with_a_host_that_is_gone(path: pathlib.Path) -> None:
    async with Site() as site:
        table(path, [f"http://127.0.0.1:{site.closed}/"])
        async with serving(path, plugin={"allow_networks": ["127.0.0.0/8"]}) as datasette:
            papers = await permissions.require_table(datasette, ROOT, "data", "papers")
            enrichment = await registry.enrichment(datasette, "links")
            tried = await dry_run.run(
                datasette, papers, enrichment=enrichment, config={"url_column": "url"}, actor=ROOT
            )
    [row] = tried.rows
    assert row.outcome == "unsure"
    assert "asks again after 15 minutes" in row.values["link_reason"]


def test_columns_of_others_are_not_overwritten(path: pathlib.Path) -> None:
    table(path, ["http://a.example/"], ", link_url text")

    async def work(datasette: Any, clock: virtual.Clock) -> str:
        with pytest.raises(BadConfig) as problem:
            await run(datasette, clock)
        return problem.value.message + " ".join(problem.value.details)

    assert "choose another prefix" in in_time(path, Web(), work)
