"""What goes out byte for byte, what comes back as received: our transport, alone and below httpx' own client."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import AsyncIterator
from datetime import datetime, timezone
from typing import Any

import httpx
import pytest
import pytest_asyncio

from datasette_ingest.ingest.errors import BadHttp, ForbiddenAddress, TruncatedBody
from datasette_ingest.ingest.http.client import Client
from datasette_ingest.ingest.http.connect import Connector
from datasette_ingest.ingest.http.politeness import Hosts, Pace
from datasette_ingest.ingest.http.transport import Transport, parts_of
from datasette_ingest.ingest.policy import Policy
from datasette_ingest.ingest.settings import CrawlSettings
from datasette_ingest.ingest.urls import split

from ..origin import Origin, Raw, Request, gzipped, reply
from ..test_urls import wpt_cases

pytestmark = pytest.mark.both_loops


@pytest_asyncio.fixture
async def transport() -> AsyncIterator[Transport]:
    one = Transport(Connector(Policy(allow_networks=("127.0.0.0/8",)), timeout=2.0), timeout=2.0, max_idle=4)
    yield one
    await one.aclose()
    assert one.open_connections == 0


async def ask(transport: httpx.AsyncBaseTransport, url: str, **extensions: Any) -> tuple[httpx.Response, bytes]:
    """A response and its body, as the stream gives it."""
    response = await transport.handle_async_request(httpx.Request("GET", url, extensions=extensions))
    assert isinstance(response.stream, httpx.AsyncByteStream)
    try:
        return response, b"".join([piece async for piece in response.stream])
    finally:
        await response.stream.aclose()


async def test_closing_idle_connections_leaves_those_that_are_in_use(transport: Transport) -> None:
    async with Origin({"/a": reply(b"a"), "/b": reply(b"b")}) as site:
        await ask(transport, site.url("/a"))
        busy = await transport.handle_async_request(httpx.Request("GET", site.url("/b")))
        await transport.close_idle()
        assert transport.open_connections == 1
        assert isinstance(busy.stream, httpx.AsyncByteStream)
        assert [piece async for piece in busy.stream] == [b"b"]
        await busy.stream.aclose()
        await transport.close_idle()
        assert (await ask(transport, site.url("/a")))[1] == b"a"
        assert site.connections == 2


async def test_every_url_of_the_web_platform_tests_goes_out_as_browsers_send_it(fixtures: pathlib.Path) -> None:
    hrefs = [
        c["href"] for c in wpt_cases(fixtures) if not c.get("failure") and c["href"].startswith(("http:", "https:"))
    ]
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(404)

    client = Client(
        CrawlSettings(per_host_delay=0.0),
        Policy(),
        hosts=Hosts(Pace(2, 0.0)),
        clock=lambda: datetime.now(timezone.utc),
        transport=httpx.MockTransport(answer),
    )
    for href in hrefs:
        await client.get(href)
    assert len(hrefs) > 250
    for href, request in zip(hrefs, sent, strict=True):
        wanted, found = split(href), parts_of(request)
        assert (found.origin, found.target) == (wanted.origin, wanted.target)
        assert request.headers["host"] == wanted.authority
        assert request.extensions["target"] == wanted.target.encode()


async def test_a_request_is_these_bytes(make_crawler: Any) -> None:
    async with Origin() as site:
        client = make_crawler()._client
        await client.get(site.url("/a|b?c={d}`\"e'"), cookies=b"x=\xe9", accept="application/json")
    assert site.requests[0].raw == (
        b"GET /a|b?c={d}`\"e' HTTP/1.1\r\n"
        b"Host: 127.0.0.1:%d\r\n"
        b"User-Agent: datasette-ingest/test\r\n"
        b"Accept-Encoding: gzip, deflate, br, zstd\r\n"
        b"Accept: application/json\r\n"
        b"Cookie: x=\xe9\r\n\r\n" % site.port
    )


async def test_headers_and_body_come_back_as_received(transport: Transport) -> None:
    packed = gzipped(b"hello")
    head = b"HTTP/1.1 299 Fine So Far\r\nX-One: \xe9\r\nset-cookie: a=1\r\nX-one:  two \r\nSet-Cookie: b=2\r\n"
    data = head + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    data += b"%x\r\n%s\r\n0\r\n\r\n" % (len(packed), packed)
    async with Origin({"/": Raw(data)}) as site:
        response, body = await ask(transport, site.url("/"))
    assert response.status_code == 299
    assert response.headers.raw[:4] == [
        (b"X-One", b"\xe9"),
        (b"set-cookie", b"a=1"),
        (b"X-one", b"two"),
        (b"Set-Cookie", b"b=2"),
    ]
    assert body == packed
    assert response.extensions["http_version"] == b"HTTP/1.1"
    assert response.extensions["reason_phrase"] == b"Fine So Far"
    assert response.extensions["ends_with_connection"] is False
    assert response.extensions["latency"] >= 0


async def test_a_body_that_ends_with_its_connection_is_marked(transport: Transport) -> None:
    async with Origin({"/": Raw(b"HTTP/1.0 200 OK\r\n\r\nhello")}) as site:
        response, body = await ask(transport, site.url("/"))
    assert (body, response.extensions["http_version"]) == (b"hello", b"HTTP/1.0")
    assert response.extensions["ends_with_connection"] is True


async def test_a_connection_is_kept_when_its_response_was_read_and_closed_when_it_was_not(transport: Transport) -> None:
    large = reply(b"x" * 3_000_000)
    async with Origin({"/": reply(b"hello"), "/large": large}) as site:
        for _ in range(3):
            await ask(transport, site.url("/"))
        assert site.connections == 1
        response = await transport.handle_async_request(httpx.Request("GET", site.url("/large")))
        assert isinstance(response.stream, httpx.AsyncByteStream)
        async for piece in response.stream:
            assert piece
            break
        await response.stream.aclose()
        await ask(transport, site.url("/"))
        assert site.connections == 2


async def test_a_server_is_not_read_faster_than_its_body_is_taken(transport: Transport) -> None:
    sent, block, blocks = [0], b"x" * 1_000_000, 40

    async def send(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (blocks * len(block)))
        for _ in range(blocks):
            writer.write(block)
            await writer.drain()
            sent[0] += 1

    async with Origin({"/large": send}) as site:
        response = await transport.handle_async_request(httpx.Request("GET", site.url("/large")))
        assert isinstance(response.stream, httpx.AsyncByteStream)
        pieces = response.stream.__aiter__()
        received = len(await pieces.__anext__())
        for _ in range(500):  # turns of the loop, each of which could read 256 KiB
            await asyncio.sleep(0)
        assert sent[0] < blocks
        async for piece in pieces:
            received += len(piece)
        await response.stream.aclose()
    assert received == blocks * len(block)


async def test_broken_bodies_raise_after_what_came_before(transport: Transport) -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    async with Origin({"/cut": Raw(chunked), "/bad": Raw(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n")}) as site:
        with pytest.raises(TruncatedBody):
            await ask(transport, site.url("/cut"))
        with pytest.raises(BadHttp):
            await ask(transport, site.url("/bad"))


async def test_it_serves_httpx_own_client(transport: Transport) -> None:
    async with Origin({"/x": reply(gzipped(b"hello"), headers={"Content-Encoding": "gzip"})}) as site:
        client = httpx.AsyncClient(transport=transport)
        assert (await client.get(site.url("/x"))).text == "hello"
        assert (await client.head(site.url("/x"))).headers["content-encoding"] == "gzip"
        with pytest.raises(httpx.UnsupportedProtocol, match="GET and HEAD only, not POST"):
            await client.post(site.url("/x"))
        with pytest.raises(ForbiddenAddress):
            await client.get("http://10.0.0.1/")
