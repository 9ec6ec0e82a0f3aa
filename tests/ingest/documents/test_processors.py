"""Processors and sinks: they see the body of each hit, open, before its row is answered."""

from __future__ import annotations

import contextlib
import sqlite3
from datetime import datetime, timezone
from typing import Any

import pytest

from datasette_ingest.ingest import schema, store
from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.documents.base import DerivedFile, Document, Findings, ProcessContext, Processor
from datasette_ingest.ingest.facts import HtmlMeta
from datasette_ingest.ingest.files import HTML, PDF
from datasette_ingest.ingest.http.body import Body
from datasette_ingest.ingest.model import IngestRequest

from ..origin import PDF as CONTENT
from ..origin import Origin, html, pdf, redirect
from . import work


class Collecting:
    """A sink that keeps bodies in a list."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, str, str, bytes]] = []
        self.is_closed = False

    async def keep(self, kind: str, sha1hex: str, mimetype: str, content: Body | bytes) -> None:
        self.kept.append((kind, sha1hex, mimetype, content if isinstance(content, bytes) else content.read()))

    async def aclose(self) -> None:
        self.is_closed = True


async def words(document: Document, context: ProcessContext) -> Findings:
    """Says of a PDF what the table of pages can hold."""
    count = await context.pool.run(work.add, len(document.body.read().split()), 0)
    return Findings(
        (HtmlMeta(context.sha1hex, scope="pdf", word_count=count),), (DerivedFile("text", "text/plain", b"a"),)
    )


WORDS = Processor("words", "1", frozenset({PDF}), words)


async def ask(crawler: Crawler, kind: str, url: str, **fields: Any) -> Any:
    return await crawler.ingest(IngestRequest(kind, url, **fields))


async def test_a_fact_about_a_file_is_part_of_its_result_and_writes_itself(make_crawler: Any) -> None:
    async with Origin({"/p": pdf()}) as site:
        result = await ask(make_crawler(processors=[WORDS]), "pdf", site.url("/p"))
    assert result.to_json()["html_meta"] == {
        "sha1hex": result.terminal_sha1hex,
        "status": "success",
        "scope": "pdf",
        "word_count": len(CONTENT.split()),
    }
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        schema.migrate(conn, schema.RESULT_TABLES)
        store.write(conn, result, job_id=1, now=datetime.now(timezone.utc))
        written = conn.execute("select sha1hex, scope, word_count from html_meta").fetchall()
    assert written == [(result.terminal_sha1hex, "pdf", len(CONTENT.split()))]


async def test_a_processor_sees_the_files_of_its_types_only(make_crawler: Any) -> None:
    seen: list[str] = []

    async def note(document: Document, context: ProcessContext) -> Findings | None:
        seen.append(f"{context.request.ingest_type} {document.mimetype}")
        return None

    processors = [
        Processor("pdf", "1", frozenset({PDF}), note),
        Processor("pages", "1", frozenset({HTML}), note),
        Processor("data", "1", frozenset({PDF}), note, ingest_types=frozenset({"dataset"})),
    ]
    page = html('<meta name="citation_pdf_url" content="/p">')
    async with Origin({"/p": pdf(), "/a": page, "/r": redirect("/p")}) as site:
        crawler = make_crawler(processors=processors)
        for path in ("/a", "/r", "/gone"):
            await ask(crawler, "pdf", site.url(path))
        await ask(crawler, "pdf", site.url("/p"), expect_hash={"sha1": "0" * 40})
    assert seen == ["pdf application/pdf"] * 2, "no page on the way, no miss, no other file than the one wanted"


async def test_a_sink_keeps_the_body_of_each_hit_before_its_row_is_answered(make_crawler: Any) -> None:
    sink = Collecting()
    async with Origin({"/p": pdf(), "/a": html('<meta name="citation_pdf_url" content="/p">')}) as site:
        crawler = make_crawler(processors=[WORDS], sinks=[sink])
        result = await ask(crawler, "pdf", site.url("/a"))
        await ask(crawler, "xml", site.url("/p"))
        await crawler.aclose()
    sha1hex = result.terminal_sha1hex
    assert sink.kept == [("body", sha1hex, PDF, CONTENT), ("text", sha1hex, "text/plain", b"a")]
    assert sink.is_closed


async def test_a_sink_that_fails_is_an_error_of_the_row(make_crawler: Any) -> None:
    class Full(Collecting):
        async def keep(self, kind: str, sha1hex: str, mimetype: str, content: Body | bytes) -> None:
            raise OSError("no space left")

    async with Origin({"/p": pdf()}) as site:
        with pytest.raises(OSError, match="no space left"):
            await ask(make_crawler(sinks=[Full()]), "pdf", site.url("/p"))
