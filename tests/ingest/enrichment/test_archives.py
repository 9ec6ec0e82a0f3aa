"""Jobs that ask a web archive: how fast, what waits, and what stands on the rows."""

from __future__ import annotations

import asyncio
import contextlib
import html
import itertools
import pathlib
import sqlite3
from typing import Any
from unittest import mock

import pytest

from datasette_ingest import settings
from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.enrichment import IngestEnrichment
from datasette_ingest.jobs import registry
from datasette_ingest.jobs.engine.worker import Worker
from datasette_ingest.jobs.model import StartRequest
from datasette_ingest.jobs.service import control, queries

from ... import virtual
from ...conftest import ROOT, rows, serving
from ..fetch.fakes.archive import SETTINGS, ArchiveTransport, FakeArchive, most_in
from ..origin import PDF, pdf, reply
from .test_waiting import table

T = "20200101000000"


def run(
    path: pathlib.Path, transport: ArchiveTransport, *configs: dict[str, Any], **given: Any
) -> tuple[list[Any], float]:
    """The jobs with these configurations, run at once; and how many seconds that took."""

    async def main(clock: virtual.Clock) -> tuple[list[Any], float]:
        chosen = {**SETTINGS, "robots": "ignore", "per_host_delay": 0, **given}
        enrichment = IngestEnrichment(
            settings.load(chosen), make_crawler=lambda crawl, **more: Crawler(crawl, transport=transport, **more)
        )
        with mock.patch("time.time", clock):
            async with serving(path, plugin=chosen) as datasette:
                (await registry.enrichments(datasette))["ingest"] = enrichment
                numbers = []
                for config in configs or ({},):
                    request = StartRequest(
                        "papers", enrichment="ingest", config={"url_column": "url", **config}, actor=ROOT
                    )
                    numbers.append((await control.start(datasette, "data", request)).id)
                began = clock()
                await Worker(datasette, timing=clock.timing()).run_until_idle()
                jobs = [await queries.find(datasette, "data", number, actor=ROOT) for number in numbers]
                return jobs, clock() - began

    return virtual.run(main)


def urls(number: int) -> list[str]:
    return [f"http://h{n}.example/{n}.pdf" for n in range(number)]


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "data.db"


def test_a_job_asks_the_index_24_times_a_minute_and_rows_that_wait_cost_no_task(path: pathlib.Path) -> None:
    table(path, urls(300))
    archive = FakeArchive()
    for url in urls(300):
        archive.add(url, T, PDF)
    transport = ArchiveTransport(archive)
    ((job,), seconds) = run(path, transport, sources=["wayback"], batch_seconds=30)
    assert (job.status, job.outcomes, job.error_count) == ("finished", {"success": 300}, 0)
    assert most_in(transport.times("/cdx"), 60) <= 24
    assert len(transport.times("/cdx")) == len(transport.times("/web")) == 300
    assert 300 * 2.5 <= seconds + 2.5 <= 300 * 2.5 * 1.1, "and not much slower"
    late = len(transport.tasks) // 5
    assert max(transport.tasks[late:]) < 80, "those whose turn is more than a minute away are rows of a table"


def test_jobs_of_a_process_share_the_rate(path: pathlib.Path) -> None:
    table(path, urls(60))
    archive = FakeArchive()
    for url in urls(60):
        archive.add(url, T, PDF)
    transport = ArchiveTransport(archive)
    jobs, _ = run(
        path,
        transport,
        {"output": "none", "sources": ["wayback"]},
        {"output": "none", "sources": ["live", "wayback"], "ingest_type": "xml"},
    )
    assert [job.status for job in jobs] == ["finished"] * 2
    assert len(transport.times("/cdx")) == 120 and most_in(transport.times("/cdx"), 60) <= 24


def test_the_rate_is_a_setting(path: pathlib.Path) -> None:
    table(path, urls(20))
    transport = ArchiveTransport(FakeArchive())
    ((job,), _) = run(path, transport, sources=["wayback"], cdx_per_minute=6)
    # an index that has said nothing yet is asked twice for a URL: perhaps it does not know negative limits
    assert job.outcomes == {"no-capture": 20} and len(transport.times("/cdx")) == 40
    assert most_in(transport.times("/cdx"), 60) == 6


def test_a_429_makes_all_rows_rest_for_a_minute_and_fails_none(path: pathlib.Path) -> None:
    table(path, urls(50))
    archive = FakeArchive()
    for url in urls(50):
        archive.add(url, T, PDF)
    refusal = reply(b"slow down", status="429 Too Many Requests")
    archive.faults["/cdx"] = [refusal]
    transport = ArchiveTransport(archive)
    ((job,), _) = run(path, transport, sources=["wayback"])
    assert job.outcomes == {"success": 50}
    first, second, *_ = transport.times("/cdx")
    assert second - first >= 60


def test_an_archive_that_refuses_for_good_fails_only_the_rows_that_it_refused(path: pathlib.Path) -> None:
    table(path, urls(3))
    archive = FakeArchive()
    archive.faults["/cdx"] = [reply(b"slow down", status="429 Too Many Requests")] * 10_000
    transport = ArchiveTransport(archive)
    ((job,), _) = run(path, transport, sources=["wayback"])
    assert job.outcomes == {"rate-limited": 3}
    times = transport.times("/cdx")
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= 60


def test_a_dead_link_is_found_in_the_archive_and_the_row_says_where(path: pathlib.Path) -> None:
    alive, dead, gone = "http://a.example/a.pdf", "http://b.example/b.pdf", "http://c.example/c.pdf"
    table(path, [alive, dead, gone])
    archive = FakeArchive()
    archive.add(dead, T, PDF)
    ((job,), _) = run(path, ArchiveTransport(archive, {alive: pdf()}), sources=["live", "wayback"])
    assert job.outcomes == {"success": 2, "terminal-bad-status": 1}
    assert rows(
        path, "select ingest_status, ingest_archive_url, ingest_terminal_dt = ? from papers order by id", T
    ) == [
        ("success", None, 0),
        ("success", f"http://archive.test/web/{T}/{dead}", 1),
        ("terminal-bad-status", None, 0),
    ]
    assert rows(path, "select via, archive_url, hop_sources from ingest_file_result order by base_url") == [
        ("live", None, None),
        ("wayback", f"http://archive.test/web/{T}/{dead}", '["live", "wayback"]'),
        ("wayback", None, '["live", "wayback"]'),
    ]
    assert rows(path, "select url, datetime from cdx") == [(dead, T)]


def test_misses_that_are_tried_again_are_asked_for_in_the_archive_again(path: pathlib.Path) -> None:
    enrichment = IngestEnrichment(settings.load({}))
    retried = enrichment.retry_config({"url_column": "url", "sources": ["wayback", "live"]}, ("misses",))
    table(path, urls(1))
    archive = FakeArchive()
    transport = ArchiveTransport(archive)
    run(path, transport, {"sources": ["wayback", "live"]})
    archive.add(urls(1)[0], T, PDF)
    ((job,), _) = run(path, transport, dict(retried))
    assert job.outcomes == {"success": 1}


@pytest.mark.parametrize("prefix", ["", "ours_"])
def test_captures_are_described_in_the_tables_of_the_job(path: pathlib.Path, prefix: str) -> None:
    table(path, urls(1))
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        if prefix:
            conn.execute("create table cdx (mine text)")
    archive = FakeArchive()
    archive.add(urls(1)[0], T, PDF)
    ((job,), _) = run(path, ArchiveTransport(archive), {"table_prefix": prefix}, sources=["wayback"])
    assert job.outcomes == {"success": 1}
    assert rows(path, f"select url, datetime from {prefix}cdx") == [(urls(1)[0], T)]
    assert not prefix or rows(path, "select * from cdx") == []

    async def look() -> list[int]:
        private = {"databases": {"data": {"tables": {"papers": {"allow": {"id": "root"}}}}}}
        async with serving(path, plugin={"run_jobs": False}, **private) as datasette:
            cookie = {"ds_actor": datasette.sign({"a": ROOT}, "actor")}
            address = f"/data/{prefix}cdx.json"
            return [(await datasette.client.get(address, cookies=who)).status_code for who in ({}, cookie)]

    assert asyncio.run(look()) == [403, 200], "as closed as the table that its rows came from"


def test_the_page_of_a_row_links_to_its_capture_and_says_its_day(path: pathlib.Path) -> None:
    alive, dead, gone = "http://a.example/a.pdf", "http://b.example/b.pdf", "http://c.example/c.pdf"
    table(path, [alive, dead, gone])
    archive = FakeArchive()
    archive.add(dead, "20190304050607", PDF)
    archive.add(gone, "20180901000000", b"<p>", status=410)
    run(path, ArchiveTransport(archive, {alive: pdf()}), {"sources": ["live", "wayback"]})

    async def pages() -> list[str]:
        async with serving(path, plugin={"run_jobs": False}) as datasette:
            cookie = {"ds_actor": datasette.sign({"a": ROOT}, "actor")}
            found = [await datasette.client.get(f"/data/papers/{row}", cookies=cookie) for row in (1, 2, 3)]
            return [html.unescape(page.text).replace("\\u003c", "<").replace('\\"', '"') for page in found]

    live, rescued, missed = asyncio.run(pages())
    assert "Capture in a web archive" not in live
    address = f"http://archive.test/web/20190304050607/{dead}"
    assert f'<a href="{address}" rel="noopener noreferrer">Capture in a web archive, 4 March 2019</a>' in rescued
    assert "Try this row again" not in rescued
    assert "Try this row again" in missed


def test_the_form_says_what_each_source_is(path: pathlib.Path) -> None:
    table(path, urls(1))

    async def form() -> str:
        async with serving(path, plugin={"run_jobs": False}) as datasette:
            cookie = {"ds_actor": datasette.sign({"a": ROOT}, "actor")}
            page = await datasette.client.get("/-/ingest/data/papers/ingest", cookies=cookie)
            return str(page.text)

    page = asyncio.run(form())
    assert 'name="config.sources.wayback"' in page and "captures in a web archive" in page
    assert page.index("live: the web as it is now") < page.index("wayback: captures")


def test_a_job_may_ask_for_a_time_and_refuse_old_captures(path: pathlib.Path) -> None:
    table(path, urls(1))
    archive = FakeArchive()
    for time in ("20100101000000", T):
        archive.add(urls(1)[0], time, PDF)
    transport = ArchiveTransport(archive)
    run(path, transport, {"as_of": "2011-06-01"}, sources=["wayback"])
    assert rows(path, "select ingest_terminal_dt from papers") == [("20100101000000",)]
    run(path, transport, {"max_capture_age_days": 1, "force_recrawl": True, "prefix": "again_"}, sources=["wayback"])
    assert rows(path, "select again_status from papers") == [("success",)], "a failure that may pass hides no hit"
    (message,) = rows(path, "select error_message from ingest_file_result")[0]
    assert "too old" in message


@pytest.mark.parametrize("output", ["columns", "shadow"])
def test_a_job_without_an_archive_leaves_no_address_of_an_earlier_capture(path: pathlib.Path, output: str) -> None:
    (url,) = urls(1)
    table(path, [url])
    archive = FakeArchive()
    archive.add(url, T, PDF)
    web: dict[str, bytes] = {}
    transport = ArchiveTransport(archive, web)
    config = {"force_recrawl": True, "output": output}
    written = "papers" if output == "columns" else "_enrichments_papers"
    for sources, has_address in ((["live"], None), (["live", "wayback"], 1), (["live"], 1)):
        run(path, transport, config, sources=sources)
        if has_address:
            assert rows(path, f"select ingest_status, ingest_archive_url like '%/web/%' from {written}") == [
                ("success", 1)
            ]
    web[url] = pdf()
    run(path, transport, config, sources=["live"])
    assert rows(path, f"select ingest_status, ingest_archive_url from {written}") == [("success", None)]


def test_a_capture_in_a_cell_is_answered_though_no_archive_is_a_source(path: pathlib.Path) -> None:
    (url,) = urls(1)
    table(path, [f"http://archive.test/web/{T}/{url}"])
    archive = FakeArchive()
    archive.add(url, T, PDF)
    ((job,), _) = run(path, ArchiveTransport(archive))
    assert job.outcomes == {"success": 1}
    found = rows(path, "select via, terminal_url, archive_url from ingest_file_result")
    assert found == [("wayback", url, f"http://archive.test/web/{T}/{url}")]
    assert not rows(path, "select 1 from sqlite_master where name = 'cdx'")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"as_of": "yesterday"}, "is not a date; write it as 2020-03-31"),
        ({"sources": ["live", "live"]}, "name each source once"),
        ({"max_capture_age_days": -1}, "greater than or equal to 0"),
    ],
)
def test_settings_of_a_job_that_mean_nothing_are_refused(config: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        IngestEnrichment.Config(url_column="url", **config)
