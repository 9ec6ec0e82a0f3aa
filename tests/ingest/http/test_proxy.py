"""A forward proxy: names are its business, TLS still ends at the origin."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest
import trustme

from datasette_ingest.ingest.model import IngestRequest

from ..origin import Origin, pdf, reply

pytestmark = pytest.mark.both_loops


@pytest.fixture
def authority(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    return ca


async def test_a_plain_request_names_the_whole_url_to_the_proxy(make_crawler: Any) -> None:
    async with Origin({"http://paper.example/p.pdf?x=1": pdf()}) as proxy:
        crawler = make_crawler(proxy=proxy.url().replace("http://", "http://me:secret@"), allow_networks=())
        result = await crawler.ingest(IngestRequest("pdf", "http://paper.example/p.pdf?x=1#page=2"))
    assert (result.status, result.terminal_url) == ("success", "http://paper.example/p.pdf?x=1")
    assert proxy.requests[0].headers["host"] == "paper.example"
    assert proxy.requests[0].headers["proxy-authorization"] == "Basic bWU6c2VjcmV0"


async def test_tls_goes_through_a_tunnel_to_the_origin(make_crawler: Any, authority: trustme.CA) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("paper.example").configure_cert(tls)
    async with Origin({"/p.pdf": pdf()}, tls=tls) as site:
        proxy, asked = await tunnel_to(site)
        async with proxy:
            port = proxy.sockets[0].getsockname()[1]
            crawler = make_crawler(proxy=f"http://me:secret@127.0.0.1:{port}")
            for n in range(2):
                result = await crawler.ingest(IngestRequest("pdf", f"https://paper.example/p.pdf?{n}"))
                assert result.status == "success"
    assert len(asked) == 1
    assert asked[0].startswith(b"CONNECT paper.example:443 HTTP/1.1\r\nHost: paper.example:443\r\n")
    assert b"Proxy-Authorization: Basic bWU6c2VjcmV0" in asked[0]
    assert "proxy-authorization" not in site.requests[0].headers


async def test_a_tunnel_that_is_refused_is_a_connect_error(make_crawler: Any) -> None:
    async with Origin({"paper.example:443": reply(b"no", status="407 Proxy Authentication Required")}) as proxy:
        result = await make_crawler(proxy=proxy.url()).ingest(IngestRequest("pdf", "https://paper.example/p.pdf"))
    assert (result.status, "407" in result.error_message) == ("connect-error", True)


async def test_a_private_address_in_a_url_is_refused_behind_a_proxy_too(make_crawler: Any) -> None:
    async with Origin() as proxy:
        crawler = make_crawler(proxy=proxy.url(), allow_networks=())
        for url in ("http://10.0.0.1/p.pdf", "https://[::1]/p.pdf"):
            assert (await crawler.ingest(IngestRequest("pdf", url))).status == "forbidden-address"
    assert proxy.requests == []


async def tunnel_to(site: Origin) -> tuple[asyncio.Server, list[bytes]]:
    asked: list[bytes] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        there, back = await asyncio.open_connection(site.host, site.port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(pump(reader, back), pump(there, writer))

    return await asyncio.start_server(accept, "127.0.0.1", 0), asked


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()
