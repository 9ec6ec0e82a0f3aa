"""A server's job fetches on either event loop."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import sqlite3
from collections.abc import Iterator

import pytest
import uvloop

from datasette_ingest.jobs.model import StartRequest
from datasette_ingest.jobs.service import control, queries

from ..conftest import ROOT, rows, serving
from ..jobs.engine.test_server import lifespan, until
from .documents import pdfs
from .origin import Origin, html, pdf

SETTINGS = {"allow_networks": ["127.0.0.0/8"], "per_host_delay": 0, "robots": "ignore", "timeout": 5}


@pytest.fixture(params=["asyncio", "uvloop"])
def _loops(request: pytest.FixtureRequest) -> Iterator[None]:
    """The loops that a server's threads make while the test runs."""
    before = asyncio.get_event_loop_policy()
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy() if request.param == "uvloop" else before)
    yield
    asyncio.set_event_loop_policy(before)


@pytest.mark.processors
@pytest.mark.usefixtures("_loops")
async def test_a_served_job_reaches_the_files_and_reads_them(tmp_path: pathlib.Path) -> None:
    pages = {
        "/landing": html('<meta name="citation_pdf_url" content="/p.pdf">'),
        "/p.pdf": pdf(pdfs.pdf("Herons at the lake")),
    }
    path = tmp_path / "data.db"
    async with Origin(pages) as site:
        with contextlib.closing(sqlite3.connect(path)) as conn, conn:
            conn.execute("create table papers (id integer primary key, url text)")
            conn.executemany("insert into papers (url) values (?)", [(site.url(f"/landing?{n}"),) for n in range(5)])
        async with serving(path, plugin=SETTINGS) as datasette, lifespan(datasette):
            request = StartRequest("papers", enrichment="ingest", config={"url_column": "url"}, actor=ROOT)
            job = await control.start(datasette, "data", request)
            await until(lambda: rows(path, "select status from _enrichment_jobs") == [("finished",)])
            job = await queries.find(datasette, "data", job.id, actor=ROOT)
    assert job.outcomes == {"success": 5}
    assert rows(path, "select distinct ingest_terminal_url from papers") == [(site.url("/p.pdf"),)]
    assert rows(path, "select status, word_count, has_page0_thumbnail from pdf_meta") == [("success", 4, 1)]
    found = "select count(*) from ingest_fulltext_fts where ingest_fulltext_fts match 'lake'"
    assert rows(path, found) == [(1,)]
