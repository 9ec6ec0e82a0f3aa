"""Jobs over ingest_request: from loaded requests to results; one crawl for a URL; the rest of a miss is kept."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from datasette_ingest import settings
from datasette_ingest.ingest import schema
from datasette_ingest.ingest.enrichment import IngestEnrichment
from datasette_ingest.ingest.load.write import TABLES
from datasette_ingest.jobs.errors import BadSelection
from datasette_ingest.jobs.model import StartRequest
from datasette_ingest.jobs.service import control, queries
from datasette_ingest.testing import run_until_idle

from ...conftest import ROOT, rows, serving
from ..load.kit import lines, request, write
from ..origin import Origin, Request, pdf, reply

QUICK = {"allow_networks": ["127.0.0.0/8"], "per_host_delay": 0, "robots": "ignore", "timeout": 2, "deadline": 5}

ARTICLE = b'<?xml version="1.0"?><article><front/><body><p>Herons.</p></body></article>'


@pytest.fixture
def path(tmp_path) -> Iterator[Any]:
    path = tmp_path / "data.db"
    with contextlib.closing(sqlite3.connect(path)) as conn:
        schema.migrate(conn, TABLES)
    return path


def load(path, *documents: dict[str, Any]) -> None:
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        write(conn, lines(*documents), "jsonl")


async def run(datasette, filters: str = "", table: str = "ingest_request", **config: Any):
    job = await control.start(
        datasette, "data", StartRequest(table, enrichment="ingest", filters=filters, config=config, actor=ROOT)
    )
    await run_until_idle(datasette)
    return await queries.find(datasette, "data", job.id, actor=ROOT)


def results(path) -> dict[tuple[str, str], tuple[Any, ...]]:
    found = rows(path, "select ingest_type, base_url, status, attempts from ingest_file_result")
    return {(kind, url.rpartition("/")[2]): tuple(others) for kind, url, *others in found}


async def test_requests_are_answered_by_their_own_type_and_url(path):
    async with Origin({"/p.pdf": pdf(), "/a.xml": reply(ARTICLE, content_type="text/xml")}) as site:
        load(
            path,
            request(1, base_url=site.url("/p.pdf")),
            request(2, base_url=site.url("/a.xml"), ingest_type="xml"),
            request(3, base_url=site.url("/gone.pdf"), release_stage="accepted"),
        )
        before = rows(path, "select * from ingest_request")
        assert len(rows(path, "select * from ingest_pending")) == 3
        async with serving(path, plugin=QUICK) as datasette:
            job = await run(datasette)
    assert job.outcomes == {"success": 2, "terminal-bad-status": 1}
    assert (job.retries, job.cases) == ({"later": 1}, {"terminal-bad-status:404": 1})
    assert results(path) == {
        ("pdf", "p.pdf"): ("success", 1),
        ("xml", "a.xml"): ("success", 1),
        ("pdf", "gone.pdf"): ("terminal-bad-status", 1),
    }
    assert rows(path, "select * from ingest_request") == before
    assert rows(path, "select * from ingest_pending") == []
    assert sorted(rows(path, "select source_id, mimetype from ingest_hits")) == [
        ("1", "application/pdf"),
        ("2", "application/xml"),
    ]


async def test_what_has_a_fresh_result_is_not_asked_again(path):
    async with Origin({"/p.pdf": pdf()}) as site:
        load(path, request(1, base_url=site.url("/p.pdf")), request(2, base_url=site.url("/gone.pdf")))
        async with serving(path, plugin=QUICK) as datasette:
            await run(datasette)
            load(path, request(3, base_url=site.url("/p.pdf"), source="another"))
            job = await run(datasette)
    assert site.targets == ["/gone.pdf", "/p.pdf"] or site.targets == ["/p.pdf", "/gone.pdf"]
    assert job.outcomes == {"success": 2, "terminal-bad-status": 1}


@pytest.mark.parametrize("force", [False, True])
async def test_many_requests_with_one_url_are_one_fetch(path, force):
    async with Origin({"/p.pdf": reply(status="503 Busy"), "/q.pdf": pdf()}) as site:
        load(path, *(request(n, base_url=site.url("/p.pdf")) for n in range(50)))
        load(path, *(request(n, base_url=site.url("/q.pdf")) for n in range(50)))
        async with serving(path, plugin=QUICK) as datasette:
            job = await run(datasette, force_recrawl=force)
    assert sorted(site.targets) == ["/p.pdf", "/q.pdf"]
    assert job.outcomes == {"success": 50, "terminal-bad-status": 50}
    assert results(path) == {("pdf", "p.pdf"): ("terminal-bad-status", 1), ("pdf", "q.pdf"): ("success", 1)}


async def test_requests_that_expect_other_files_do_not_share_an_answer(path):
    async with Origin({"/p.pdf": pdf()}) as site:
        load(
            path,
            request(1, base_url=site.url("/p.pdf"), expect_hash={"sha1": "0" * 40}),
            request(2, base_url=site.url("/p.pdf")),
        )
        async with serving(path, plugin=QUICK) as datasette:
            job = await run(datasette)
    assert set(job.outcomes) <= {"success", "hash-mismatch"} and "hash-mismatch" in job.outcomes


async def test_a_row_whose_crawl_is_given_up_leaves_the_url_to_the_next_one(path):
    waits = asyncio.Event()

    async def answer(asked: Request, writer: asyncio.StreamWriter) -> None:
        waits.set()
        await asyncio.sleep(3600)

    async with Origin({"/p.pdf": answer}) as site:
        load(path, *(request(n, base_url=site.url("/p.pdf")) for n in range(3)))
        async with serving(path, plugin=QUICK | {"timeout": 60, "deadline": 60}) as datasette:
            job = await control.start(datasette, "data", StartRequest("ingest_request", "ingest", actor=ROOT))
            running = asyncio.create_task(run_until_idle(datasette))
            await waits.wait()
            await control.pause(datasette, "data", job.id, actor=ROOT)
            await running
            site.handlers["/p.pdf"] = pdf()
            await control.resume(datasette, "data", job.id, actor=ROOT)
            await run_until_idle(datasette)
            job = await queries.find(datasette, "data", job.id, actor=ROOT)
    assert (job.outcomes, len(site.targets)) == ({"success": 3}, 2)


# The rest of a miss


@pytest.mark.parametrize("config", [{}, {"max_age_days": 0}, {"max_age_days": 1e9}])
async def test_no_job_asks_a_url_inside_its_rest_time(path, config):
    async with Origin({"/p.pdf": reply(status="503 Busy")}) as site:
        load(path, request(1, base_url=site.url("/p.pdf")))
        with contextlib.closing(sqlite3.connect(path)) as conn, conn:
            conn.execute("create table papers (id integer primary key, url text)")
            conn.execute("insert into papers (url) values (?)", [site.url("/p.pdf")])
        async with serving(path, plugin=QUICK | {"max_age_days": 0}) as datasette:
            await run(datasette)
            for table in ("ingest_request", "papers"):
                job = await run(datasette, table=table, **config)
                assert (job.outcomes, job.retries) == ({"terminal-bad-status": 1}, {"soon": 1})
    assert site.targets == ["/p.pdf"]


@pytest.mark.parametrize("config", [{"force_recrawl": True}, {"ask_again": True}])
async def test_a_person_may_ask_all_the_same(path, config):
    async with Origin({"/p.pdf": reply(status="503 Busy")}) as site:
        load(path, request(1, base_url=site.url("/p.pdf")))
        async with serving(path, plugin=QUICK) as datasette:
            await run(datasette)
            await run(datasette, **config)
    assert site.targets == ["/p.pdf"] * 2
    assert results(path) == {("pdf", "p.pdf"): ("terminal-bad-status", 2)}


async def test_due_are_misses_whose_time_has_come_and_pending_also_what_was_never_tried(path):
    async with Origin({"/p.pdf": reply(status="503 Busy"), "/q.pdf": pdf(), "/new.pdf": pdf()}) as site:
        load(path, *(request(n, base_url=site.url(f"/{name}.pdf")) for n, name in enumerate("pqr")))
        async with serving(path, plugin=QUICK) as datasette:
            await run(datasette)
            load(path, request(9, base_url=site.url("/new.pdf")))
            assert (await run(datasette, "_ingest_due=ingest")).row_count == 0
            await datasette.get_database("data").execute_write(
                "update ingest_file_result set next_try = '2000-01-01T00:00:00Z' where base_url like '%/p.pdf'"
            )
            asked = len(site.targets)
            due = await run(datasette, "_ingest_due=ingest")
            pending = await run(datasette, "_ingest_pending=ingest")
    assert (due.row_count, due.outcomes) == (1, {"terminal-bad-status": 1})
    assert (pending.row_count, pending.outcomes) == (1, {"success": 1})
    assert site.targets[asked:] == ["/p.pdf", "/new.pdf"]


async def test_what_is_pending_is_what_the_view_says(path):
    moments = (None, "2000-01-01T00:00:00Z", "2999-01-01T00:00:00Z")
    load(path, *(request(n) for n in range(7)))
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.executemany(
            "insert into ingest_file_result (ingest_type, base_url, updated, hit, status, next_try) values"
            " ('pdf', ?, '2026-01-01T00:00:00Z', ?, 'x', ?)",
            [(f"http://h/{3 * hit + n}.pdf", hit, moment) for hit in (0, 1) for n, moment in enumerate(moments)],
        )
    async with serving(path, plugin={"run_jobs": False}) as datasette:
        found = await datasette.client.get("/data/ingest_request.json?_ingest_pending=ingest&_shape=objects")
    in_view = {url for (url,) in rows(path, "select base_url from ingest_pending")}
    assert {row["base_url"] for row in found.json()["rows"]} == in_view == {f"http://h/{n}.pdf" for n in (1, 4, 6)}


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ("_ingest_due=nothing", "no enrichment of that name is installed"),
        ("_ingest_pending=step", "no enrichment of that name is installed"),
    ],
)
async def test_a_filter_that_selects_nothing_is_refused(path, filters, said):
    async with serving(path, plugin={"run_jobs": False}) as datasette:
        with pytest.raises(BadSelection, match=said):
            await control.start(datasette, "data", StartRequest("ingest_request", "ingest", filters, actor=ROOT))


async def test_the_settings_for_requests_are_known_and_a_table_of_a_users_own_is_guessed(path, tmp_path):
    own = tmp_path / "own.db"
    with contextlib.closing(sqlite3.connect(own)) as conn:
        conn.execute("create table ingest_request (id integer primary key, url text)")
    enrichment = IngestEnrichment(settings.Settings())
    async with serving(path, own) as datasette:
        ours, theirs = [
            await enrichment.defaults(datasette.databases[name], "ingest_request") for name in ("data", "own")
        ]
    assert (ours["url_column"], ours["type_column"], ours["output"]) == ("base_url", "ingest_type", "none")
    assert theirs == {"url_column": "url"}


async def test_who_may_not_see_the_results_may_not_filter_by_them(path):
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("create table private (id integer primary key, url text)")
        conn.execute("insert into private (url) values ('http://h/1.pdf')")
        conn.execute("create table papers (id integer primary key, url text)")
        conn.execute("insert into papers (url) values ('http://h/1.pdf')")
    config = {"databases": {"data": {"tables": {"private": {"allow": {"id": "root"}}}}}}
    address = "/data/papers.json?_ingest_pending=ingest&_shape=objects"
    async with serving(path, plugin={"run_jobs": False}, **config) as datasette:
        assert (await datasette.client.get(address)).status_code == 200
        await control.start(datasette, "data", StartRequest("private", "ingest", actor=ROOT))
        assert (await datasette.client.get(address)).status_code == 403
