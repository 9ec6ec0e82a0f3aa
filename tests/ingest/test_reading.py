"""Pages are read where they hold up nobody: the same answer everywhere, within bounds of memory and time."""

from __future__ import annotations

import asyncio
import hashlib
import os
import pathlib
import pickle
from collections.abc import AsyncIterator
from datetime import datetime, timezone
from functools import partial
from typing import Any

import httpx
import pytest
import pytest_asyncio

from datasette_ingest.ingest import reading
from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.datasets.manifest import read_dataset_page
from datasette_ingest.ingest.documents.pool import ProcessPool
from datasette_ingest.ingest.errors import HtmlParseError
from datasette_ingest.ingest.model import MIB, IngestRequest, IngestResult
from datasette_ingest.ingest.page.interstitials import interstitial
from datasette_ingest.ingest.page.read import PARSE_BYTES, read_page
from datasette_ingest.ingest.settings import CrawlSettings

from .documents import work

PAGES = sorted((pathlib.Path(__file__).parent / "page" / "pages").rglob("*.html"))
NOW = datetime(2026, 12, 1, tzinfo=timezone.utc)
URL = "https://a.example/articles/1"
FILLER = b"<p>Some words of a long page, and <a href='/about'>a link</a>.</p>\n"


@pytest_asyncio.fixture
async def pool() -> AsyncIterator[ProcessPool]:
    pool = ProcessPool(1, seconds=120.0)
    yield pool
    await pool.aclose()


def article(size: int, *, pdf: str = "/articles/1.pdf") -> bytes:
    head = f'<html><head><title>A work</title><meta name="citation_pdf_url" content="{pdf}"></head><body>'.encode()
    return head + FILLER * ((size - len(head)) // len(FILLER)) + b"</body></html>"


# ---- the same answer --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_what_is_read_of_a_page_comes_through_a_pipe_as_it_is(path: pathlib.Path) -> None:
    data = path.read_bytes()
    for head_only in (True, False):
        page = read_page(data, URL, "text/html", target="pdf", head_only=head_only)
        blocked = interstitial(page.url, page.text) if page.text is not None else None
        again, blocked_again = pickle.loads(pickle.dumps((page, blocked)))
        assert again == page
        assert (type(blocked_again), vars(blocked_again) if blocked_again else None) == (
            type(blocked),
            vars(blocked) if blocked else None,
        )
    landing = read_dataset_page(data, URL, "text/html")
    assert pickle.loads(pickle.dumps(landing)) == landing


@pytest.mark.parametrize("ingest_type", ["pdf", "html", "xml"])
async def test_a_row_has_the_same_answer_wherever_its_page_is_read(ingest_type: str, monkeypatch: Any) -> None:
    data = article(300_000)
    results = []
    for limit in (2**30, 1):  # in a thread, in a process
        monkeypatch.setattr(reading, "THREAD_BYTES", limit)
        results.append(await crawl(data, ingest_type))
    in_thread, in_process = results
    assert in_thread == in_process and in_thread.request.base_url == URL


async def crawl(data: bytes, ingest_type: str = "pdf", *, pool: ProcessPool | None = None) -> IngestResult:
    def respond(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith(".pdf"):
            return httpx.Response(200, content=b"%PDF-1.4\n1 0 obj\n%%EOF\n")
        if request.url.path == "/robots.txt":
            return httpx.Response(404)
        return httpx.Response(200, content=data, headers={"Content-Type": "text/html"})

    settings = CrawlSettings(per_host_delay=0)
    crawler = Crawler(settings, transport=httpx.MockTransport(respond), clock=lambda: NOW)
    if pool is not None:
        crawler.pool = pool
    try:
        return await crawler.ingest(IngestRequest(ingest_type, URL))
    finally:
        await crawler.aclose()


async def test_a_page_is_read_up_to_its_limit_and_its_digest_is_that_of_the_whole(pool: ProcessPool) -> None:
    late = (
        article(PARSE_BYTES + MIB)
        .replace(b"citation_pdf_url", b"nothing")
        .replace(b"</body>", b"<a href='/late.pdf'>PDF</a></body>")
    )
    assert (await crawl(late)).status == "no-pdf-link"
    whole = article(5 * MIB)
    as_html = await crawl(whole, "html")
    assert as_html.terminal is not None and as_html.terminal.sha1hex == hashlib.sha1(whole).hexdigest()
    early = await crawl(article(5 * MIB))
    assert (early.status, early.hit) == ("success", True)


# ---- limits -----------------------------------------------------------------------------------------------------


class Broken(ProcessPool):
    """A pool whose processes do something else than what was asked."""

    def __init__(self, instead: Any, **limits: Any) -> None:
        super().__init__(1, **limits)
        self.instead = instead

    async def run(self, function: Any, *args: Any) -> Any:
        return await super().run(self.instead)


@pytest.mark.parametrize(
    "instead, limits, message",
    [
        (work.eat_memory, {"memory_bytes": 256 * MIB}, "takes too much memory to read: more than 256 MiB"),
        (work.crash, {}, "cannot be read: the process ended with code"),
        (work.leave, {}, "cannot be read: the process ended with code"),
        (work.recurse, {}, "is nested too deeply to be read"),
    ],
    ids=["memory", "crash", "exit", "recursion"],
)
async def test_a_page_that_breaks_a_limit_is_a_miss_that_says_which(instead: Any, limits: Any, message: str) -> None:
    pool = Broken(instead, **limits)
    result = await crawl(article(300_000), pool=pool)
    assert (result.status, result.hit) == ("html-parse-error", False)
    assert result.error_message is not None and message in result.error_message
    assert URL in result.error_message


async def test_a_page_that_takes_too_long_is_a_miss(pool: ProcessPool) -> None:
    await pool.run(work.process_id)
    pool._seconds = 0.2
    with pytest.raises(HtmlParseError, match=r"takes too long to read: no end within 0\.2 s"):
        await reading.read_page(pool, MIB, URL, work.sleep_for_ever)
    pool._seconds = 60.0
    assert await reading.read_page(pool, MIB, URL, partial(work.add, 1, 2)) == 3


async def test_a_cancelled_read_gives_its_bytes_back(pool: ProcessPool) -> None:
    call = asyncio.ensure_future(reading.read_page(pool, 8 * MIB, URL, work.sleep_for_ever))
    while not pool._busy:
        await asyncio.sleep(0)
    waiting = asyncio.ensure_future(reading.read_page(pool, 100_000, URL, partial(work.add, 1, 2)))
    await asyncio.sleep(0)
    assert not waiting.done()
    call.cancel()
    assert await waiting == 3
    assert reading._budget().used == 0


async def test_pages_beyond_the_bytes_that_are_read_at_once_wait(pool: ProcessPool, monkeypatch: Any) -> None:
    """Over all crawlers, whichever pool they have."""
    at_once: list[int] = []
    reserve = reading.Budget.reserve

    async def noting(budget: Any, size: int) -> int:
        reserved = await reserve(budget, size)
        at_once.append(budget.used)
        return reserved

    monkeypatch.setattr(reading.Budget, "reserve", noting)
    other = ProcessPool(1, seconds=120.0)
    pages = [(pool, 3 * MIB), (other, 3 * MIB), (pool, 4 * MIB), (other, 16 * MIB), (pool, 100_000)]
    asked = (reading.read_page(each, size, URL, partial(work.add, size, 0)) for each, size in pages)
    assert await asyncio.gather(*asked) == [size for _, size in pages]
    await other.aclose()
    assert len(at_once) == 5 and max(at_once) <= reading.MOST_BYTES


async def test_small_pages_are_read_at_once_whatever_waits(pool: ProcessPool) -> None:
    held = await reading._budget().reserve(reading.MOST_BYTES)
    assert await reading.read_page(pool, 1000, URL, lambda: os.getpid()) == os.getpid()
    reading._budget().release(held)
