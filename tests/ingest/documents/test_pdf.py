"""The processor of PDFs: whatever a file does, its row is a hit, and what could be read is known."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import sqlite3
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timezone
from typing import Any

import pytest
import pytest_asyncio

from datasette_ingest.ingest import schema, store
from datasette_ingest.ingest.documents import pdf
from datasette_ingest.ingest.documents.base import Document, Findings, ProcessContext
from datasette_ingest.ingest.documents.pdf_read import PdfRead
from datasette_ingest.ingest.documents.pool import OutOfMemory, OutOfTime, ProcessDied, ProcessPool
from datasette_ingest.ingest.facts import FullText, PdfMeta, Thumbnail
from datasette_ingest.ingest.http.body import Body
from datasette_ingest.ingest.model import IngestRequest
from datasette_ingest.ingest.settings import CrawlSettings

from ..origin import Origin
from ..origin import pdf as served
from . import pdfs
from .test_processors import Collecting

MIB = 1024 * 1024


class Played(ProcessPool):
    """A pool without processes, whose calls end as told: by an exception, or by reading here."""

    def __init__(self, *ends: Exception | None) -> None:
        super().__init__(1)
        self.ends, self.asked = list(ends), []

    async def run(self, function: Callable[..., Any], *args: Any, seconds: float | None = None) -> Any:
        self.asked.append((function.keywords["with_text"], function.keywords["with_picture"]))  # type: ignore[attr-defined]
        end = self.ends.pop(0) if self.ends else None
        if end is not None:
            raise end
        return function(*args)


@pytest_asyncio.fixture
async def pool() -> AsyncIterator[ProcessPool]:
    pool = ProcessPool(1, memory_bytes=256 * MIB)
    yield pool
    await pool.aclose()


async def process(data: bytes, pool: ProcessPool, **settings: Any) -> Findings:
    document = Document(Body(pieces=[data], size=len(data)), "https://example.org/a.pdf")
    context = ProcessContext(
        IngestRequest("pdf", document.url), hashlib.sha1(data).hexdigest(), CrawlSettings(**settings), pool
    )
    (processor,) = [pdf.processor(context.settings)]
    found = await processor.process(document, context)
    assert found is not None
    return found


def meta_of(found: Findings) -> PdfMeta:
    (meta,) = [fact for fact in found.facts if isinstance(fact, PdfMeta)]
    return meta


async def test_a_pdf_has_facts_a_text_and_a_picture_under_its_own_digest() -> None:
    data = pdfs.pdf("Two words", info={"Title": "A title"})
    found = await process(data, Played())
    sha1hex = hashlib.sha1(data).hexdigest()
    assert [type(fact) for fact in found.facts] == [PdfMeta, FullText, Thumbnail]
    assert {fact.sha1hex for fact in found.facts} == {sha1hex}  # type: ignore[attr-defined]
    meta = meta_of(found)
    assert (meta.status, meta.page_count, meta.word_count, meta.has_page0_thumbnail) == ("success", 1, 2, True)
    assert (meta.permanent_id, meta.pdf_version, meta.processor) == ("00ff", "1.7", "pdf/1")
    assert [(file.kind, file.mimetype) for file in found.files] == [("text", "text/plain"), ("thumbnail", "image/webp")]
    assert found.files[0].content == b"Two words"


@pytest.mark.parametrize(("fulltext", "thumbnails"), [(True, False), (False, True), (False, False)])
async def test_what_is_not_wanted_is_not_made(fulltext: bool, thumbnails: bool) -> None:
    settings = {"fulltext": fulltext, "thumbnails": thumbnails}
    tables = pdf.processor(CrawlSettings(**settings)).tables
    assert tables == ("pdf_meta", *["ingest_fulltext"] * fulltext, *["ingest_thumbnail"] * thumbnails)
    found = await process(pdfs.pdf("Two words"), Played(), **settings)
    assert [fact.table for fact in found.facts] == list(tables)
    assert [file.kind for file in found.files] == ["text"] * fulltext + ["thumbnail"] * thumbnails
    assert meta_of(found).word_count == 2, "words are counted in any case"


@pytest.mark.parametrize(
    ("ends", "asked", "has_text", "status"),
    [
        ([OutOfTime()], 2, True, "error-timeout"),
        ([OutOfMemory(), OutOfTime()], 3, False, "error-memory"),
        ([ProcessDied(), ProcessDied(), ProcessDied()], 3, False, "error-crash"),
        ([UnicodeError("odd"), OutOfTime(), OutOfTime()], 3, False, "error-crash"),
    ],
)
async def test_less_is_read_of_a_file_that_cannot_be_read_as_a_whole(
    ends: list[Exception], asked: int, has_text: bool, status: str
) -> None:
    pool = Played(*ends)
    found = await process(pdfs.pdf("Words", info={"Title": "A title"}), pool)
    assert pool.asked == [(True, True), (True, False), (False, False)][:asked]
    meta = meta_of(found)
    assert (meta.status, meta.has_page0_thumbnail, meta.word_count) == (status, False, 1 if has_text else None)
    assert any(isinstance(fact, FullText) for fact in found.facts) == has_text
    said = {"error": "UnicodeError: odd"} if isinstance(ends[0], UnicodeError) else {}
    assert meta.metadata == said | ({"title": "A title"} if len(ends) < 3 else {})


async def test_a_file_that_is_never_drawn_to_its_end_is_stopped_and_keeps_its_text(
    pool: ProcessPool, monkeypatch: Any
) -> None:
    monkeypatch.setattr(pdf, "TRIES", ((True, True, 1.0), *pdf.TRIES[1:]))
    found = await process(pdfs.tiny_tiles(), pool)
    assert (meta_of(found).status, meta_of(found).word_count) == ("error-timeout", 1)
    assert meta_of(await process(pdfs.pdf("Words"), pool)).status == "success", "the next file is read"


@pytest.mark.slow
async def test_a_file_that_eats_memory_is_stopped_and_keeps_its_facts(pool: ProcessPool) -> None:
    found = await process(pdfs.forms_in_forms(), pool)
    assert (meta_of(found).status, meta_of(found).metadata) == ("error-memory", {"title": "Forms"})
    assert meta_of(await process(pdfs.large_image(), pool)).word_count == 1
    assert meta_of(await process(pdfs.pdf("Words"), pool)).status == "success", "the next file is read"


async def test_a_crash_and_a_limit_are_facts_of_a_hit_in_every_table(make_crawler: Any) -> None:
    data, sink = pdfs.pdf("Words"), Collecting()
    async with Origin({"/p": served(data)}) as site:
        crawler = make_crawler(processors=[pdf.processor(CrawlSettings())], pool=Played(ProcessDied()), sinks=[sink])
        result = await crawler.ingest(IngestRequest("pdf", site.url("/p")))
    assert (result.hit, result.status) == (True, "success")
    assert result.to_json()["pdf_meta"]["status"] == "error-crash"
    assert [kept[0] for kept in sink.kept] == ["body", "text"]
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        schema.migrate(conn, [*schema.RESULT_TABLES, *schema.DOCUMENT_TABLES])
        store.write(conn, result, job_id=1, now=datetime.now(timezone.utc))
        assert conn.execute("select status, word_count, processor from pdf_meta").fetchall() == [
            ("error-crash", 1, "pdf/1")
        ]
        found = "select t.text from ingest_fulltext_fts f join ingest_fulltext t on t.id = f.rowid where ingest_fulltext_fts match 'words'"
        assert conn.execute(found).fetchall() == [("Words",)]


async def test_a_large_body_is_read_from_its_file_in_another_process(make_crawler: Any, pool: ProcessPool) -> None:
    """Its bytes are not sent there."""
    data = pdfs.pdf("Words", more=[pdfs.stream(os.urandom(3 * MIB))])
    sent: list[Any] = []

    class Watched(ProcessPool):
        async def run(self, function: Any, *args: Any, seconds: float | None = None) -> Any:
            sent.append(function.args[0])
            return await pool.run(function, *args, seconds=seconds)

    async with Origin({"/p": served(data)}) as site:
        crawler = make_crawler(processors=[pdf.processor(CrawlSettings())], pool=Watched())
        result = await crawler.ingest(IngestRequest("pdf", site.url("/p")))
    assert result.pdf_meta is not None
    assert (result.pdf_meta.status, result.pdf_meta.word_count) == ("success", 1)
    assert [isinstance(source, str) for source in sent] == [os.path.isdir("/proc/self/fd")]


async def test_a_large_body_that_another_process_may_not_open_is_sent_there(make_crawler: Any) -> None:
    data = pdfs.pdf("Words", more=[pdfs.stream(os.urandom(3 * MIB))])
    pool = Played(PermissionError("/proc"))
    async with Origin({"/p": served(data)}) as site:
        crawler = make_crawler(processors=[pdf.processor(CrawlSettings())], pool=pool)
        result = await crawler.ingest(IngestRequest("pdf", site.url("/p")))
    assert result.pdf_meta is not None
    assert (result.pdf_meta.status, result.pdf_meta.word_count) == ("success", 1)
    assert pool.asked == [(True, True)] * 2


async def test_a_machine_that_starts_no_process_is_an_error_of_the_row() -> None:
    with pytest.raises(OSError, match="too many"):
        await process(pdfs.pdf("Words"), Played(OSError("too many open files")))


@pytest.mark.processors
async def test_a_crawler_reads_the_pdfs_that_it_finds_beside_its_event_loop(make_crawler: Any) -> None:
    papers = {f"/{n}": served(pdfs.pdf(f"paper number {n}")) for n in range(20)}
    pool, processes = ProcessPool(2), set()
    async with Origin(papers) as site:
        crawler = make_crawler(concurrency=20, pool=pool)
        asked = [asyncio.ensure_future(crawler.ingest(IngestRequest("pdf", site.url(path)))) for path in papers]
        for answer in asyncio.as_completed(asked):
            await answer
            processes |= {process.pid for process in (*pool._idle, *pool._busy)}
        await pool.aclose()
    results = [await answer for answer in asked]
    assert [result.fulltext.text for result in results] == [f"paper number {n}" for n in range(20)]
    assert all(result.thumbnail is not None for result in results)
    assert 1 <= len(processes) <= 2, "each process reads many files"
    assert os.getpid() not in processes
    assert PdfRead.__module__.endswith("pdf_read"), "what the server imports has no native code"
