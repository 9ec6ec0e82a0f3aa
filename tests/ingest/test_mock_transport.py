"""The crawler without sockets: an example for tests of link rules, platforms and sources.

`httpx.MockTransport` calls a function for each request; what it returns is what the server answers. Everything above the
connections is the real thing: redirects, cookies, decoding, limits, the choice of links, the result.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator

import httpx
import pytest

from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.model import IngestRequest, IngestResult
from datasette_ingest.ingest.settings import CrawlSettings

from .origin import PDF

LANDING = '<!doctype html><title>Tides</title><meta name="citation_pdf_url" content="/files/tides.pdf">'


class Web:
    """Answers requests, and remembers them."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.pages: dict[str, httpx.Response | Exception] = {
            "https://doi.org/10.5555/tides": httpx.Response(302, headers={"Location": "https://journal.example/tides"}),
            "https://journal.example/tides": httpx.Response(200, html=LANDING, headers={"Set-Cookie": "seen=1"}),
            "https://journal.example/files/tides.pdf": httpx.Response(200, content=PDF),
        }

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        page = self.pages.get(str(request.url), httpx.Response(404))
        if isinstance(page, Exception):
            raise page
        return page

    async def ingest(self, url: str, **settings: object) -> IngestResult:
        chosen = CrawlSettings(per_host_delay=0.0, robots="ignore", **settings)  # type: ignore[arg-type]
        crawler = Crawler(chosen, transport=httpx.MockTransport(self))
        try:
            return await crawler.ingest(IngestRequest("pdf", url))
        finally:
            await crawler.aclose()


PDF_URL = "https://journal.example/files/tides.pdf"


async def test_a_doi_leads_over_a_redirect_and_a_landing_page_to_the_pdf() -> None:
    web = Web()
    result = await web.ingest("10.5555/tides")
    assert (result.status, result.terminal_url) == ("success", PDF_URL)
    assert result.hops == ("https://doi.org/10.5555/tides", "https://journal.example/tides", PDF_URL)
    assert result.file_meta is not None and result.file_meta.size_bytes == len(PDF)
    assert [request.headers.get("cookie") for request in web.requests] == [None, None, "seen=1"]


async def test_bodies_are_decoded_by_the_crawler() -> None:
    web = Web()
    web.pages[PDF_URL] = httpx.Response(
        200, headers={"Content-Encoding": "gzip"}, stream=httpx.ByteStream(gzip.compress(PDF))
    )
    assert (await web.ingest("10.5555/tides")).status == "success"


async def test_limits_hold_whatever_sends_the_requests() -> None:
    web = Web()
    web.pages[PDF_URL] = httpx.Response(200, content=PDF + b"x" * 10_000)
    assert (await web.ingest("10.5555/tides", max_body_bytes=5_000)).status == "body-too-large"


async def test_the_policy_for_urls_holds_at_every_hop() -> None:
    web = Web()
    web.pages["https://doi.org/10.5555/tides"] = httpx.Response(302, headers={"Location": "https://facebook.com/tides"})
    assert (await web.ingest("10.5555/tides")).status == "skip-url-blocklist"
    assert [request.url.host for request in web.requests] == ["doi.org"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (httpx.ConnectError("refused"), "connect-error"),
        (httpx.ConnectTimeout("slow"), "read-timeout"),
        (httpx.ReadTimeout("slow"), "read-timeout"),
        (httpx.RemoteProtocolError("nonsense"), "bad-http"),
        (httpx.UnsupportedProtocol("gopher"), "bad-http"),
    ],
)
async def test_errors_of_a_transport_are_outcomes(error: Exception, status: str) -> None:
    web = Web()
    web.pages[PDF_URL] = error
    result = await web.ingest("10.5555/tides")
    assert (result.hit, result.status) == (False, status)
    assert PDF_URL in result.error_message


async def test_a_connection_that_breaks_within_the_body_is_an_outcome() -> None:
    class Broken(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield PDF[:10]
            raise httpx.ReadError("reset")

    web = Web()
    web.pages[PDF_URL] = httpx.Response(200, stream=Broken())
    result = await web.ingest("10.5555/tides")
    assert (result.status, result.terminal_status_code) == ("truncated-body", 200)


async def test_the_deadline_holds_for_a_transport_that_never_answers() -> None:
    class Silent(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await asyncio.Event().wait()
            raise AssertionError("unreachable")

    crawler = Crawler(CrawlSettings(deadline=0.05, robots="ignore"), transport=Silent())
    result = await crawler.ingest(IngestRequest("pdf", "https://silent.example/"))
    await crawler.aclose()
    assert result.status == "read-timeout"
