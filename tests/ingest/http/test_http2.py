"""Servers that speak HTTP/2 only are asked in it where the setting says so; all others in HTTP/1.1."""

from __future__ import annotations

import asyncio
import ssl
import sys
from typing import Any

import pytest
import trustme

from datasette_ingest import settings
from datasette_ingest.ingest.http import connect
from datasette_ingest.ingest.model import IngestRequest
from datasette_ingest.ingest.settings import CrawlSettings

from ..http2_origin import Http2Origin
from ..origin import PDF, Origin, Raw, Request, html, pdf

pytestmark = pytest.mark.both_loops

SETTINGS_FRAME = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64"
"""What a server of HTTP/2 says first (RFC 9113, 3.4): a SETTINGS frame."""
LANDING = b'<!doctype html><title>A page</title><meta name="citation_pdf_url" content="/p.pdf?a|b">'
PAGES = {
    "/moved": (302, [("location", "/landing")], b""),
    "/landing": (200, [("content-type", "text/html")], LANDING),
    "/p.pdf?a|b": (200, [("content-type", "application/pdf")], PDF),
    "/large": (200, [("content-type", "application/pdf")], b"%PDF-1.4\n" + b"x" * 50_000),
}


def server_tls(*names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert(*names).configure_cert(context)
    return context


def http2_origin(**more: Any) -> Http2Origin:
    return Http2Origin(PAGES, server_tls("127.0.0.1", "127.0.0.4"), **more)


# With the setting


@pytest.mark.parametrize("alerts", [True, False], ids=["alert", "no alert"])
async def test_a_server_of_http2_only_is_reached(make_crawler: Any, alerts: bool) -> None:
    async with http2_origin(alerts=alerts).running() as site:
        crawler = make_crawler(http2=True, insecure_hosts=("127.0.0.1",))
        result = await crawler.ingest(IngestRequest("pdf", site.url("/moved")))
        await crawler.aclose()
    assert (result.status, result.terminal_status_code) == ("success", 200)
    assert result.hops == tuple(site.url(path) for path in ("/moved", "/landing", "/p.pdf?a|b"))
    assert [dict(headers)[b":path"] for headers in site.requests] == [b"/moved", b"/landing", b"/p.pdf?a|b"]
    headers = dict(site.requests[0])
    assert headers[b":authority"].decode() == f"127.0.0.1:{site.port}"
    assert headers[b"user-agent"] == b"datasette-ingest/test"
    assert site.connections == 2, "one that was refused, and one for all three requests"


async def test_limits_hold_over_http2_too(make_crawler: Any) -> None:
    async with http2_origin().running() as site:
        crawler = make_crawler(http2=True, insecure_hosts=("127.0.0.1",), max_body_bytes=10_000)
        result = await crawler.ingest(IngestRequest("pdf", site.url("/large")))
        await crawler.aclose()
    assert (result.status, result.terminal_status_code) == ("body-too-large", 200)


async def test_certificates_are_verified_over_http2_too(make_crawler: Any) -> None:
    async with http2_origin().running() as site:
        result = await make_crawler(http2=True).ingest(IngestRequest("pdf", site.url("/moved")))
    assert (result.status, site.requests) == ("tls-error", [])
    assert "self" in result.error_message or "unable to get local issuer" in result.error_message


async def test_addresses_are_checked_at_every_connection(make_crawler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that answers differently the second time gets nowhere."""
    monkeypatch.setattr(connect, "CACHE_SECONDS", 0.0)
    answers = [["127.0.0.4"], ["127.0.0.1"]]

    async def rebinding(host: str, port: int) -> list[str]:
        return answers.pop(0)

    async with http2_origin(host="127.0.0.4").running() as site:
        crawler = make_crawler(
            http2=True,
            resolve=rebinding,
            allow_networks=("127.0.0.4/32",),
            insecure_hosts=("rebind.example",),
        )
        result = await crawler.ingest(IngestRequest("pdf", f"https://rebind.example:{site.port}/moved"))
    assert (result.status, answers) == ("forbidden-address", [])
    assert (site.connections, site.requests) == (1, [])


@pytest.mark.parametrize("http2", [False, True])
async def test_a_server_that_offers_both_is_asked_in_http1(make_crawler: Any, http2: bool) -> None:
    context = server_tls("127.0.0.1")
    context.set_alpn_protocols(["h2", "http/1.1"])
    chosen: list[Any] = []

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        chosen.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
        writer.write(pdf())

    async with Origin({"/p": respond}, tls=context) as site:
        crawler = make_crawler(insecure_hosts=("127.0.0.1",), http2=http2)
        result = await crawler.ingest(IngestRequest("pdf", site.url("/p")))
    assert result.hit and chosen == ["http/1.1"]


async def test_http1_is_as_ever_with_the_setting(make_crawler: Any) -> None:
    pages = {"/landing": html('<meta name="citation_pdf_url" content="/p.pdf">'), "/p.pdf": pdf()}
    async with Origin(pages) as site:
        crawler = make_crawler(http2=True)
        assert (await crawler.ingest(IngestRequest("pdf", site.url("/landing")))).hit
    assert site.connections == 1


# Without it


@pytest.mark.parametrize(("alerts", "status"), [(True, "tls-error"), (False, "bad-http")])
async def test_without_the_setting_the_row_says_why(make_crawler: Any, alerts: bool, status: str) -> None:
    async with http2_origin(alerts=alerts).running() as site:
        crawler = make_crawler(insecure_hosts=("127.0.0.1",))
        result = await crawler.ingest(IngestRequest("pdf", site.url("/moved")))
    assert (result.hit, result.status) == (False, status)


async def test_an_answer_in_http2_is_a_row_that_says_what_it_is_not(ingest: Any) -> None:
    async with Origin({"/p": Raw(SETTINGS_FRAME)}) as site:
        result = await ingest(site.url("/p"))
    assert (result.hit, result.status) == (False, "bad-http")
    assert "HTTP/1" in result.error_message and site.url("/p") in result.error_message


# The setting itself


def test_without_its_library_the_setting_is_refused_and_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "h2", None)
    with pytest.raises(settings.SettingsError, match=r"http2: .*pip install 'datasette-ingest\[http2\]'"):
        settings.load({"http2": True})


def test_through_a_proxy_it_is_refused() -> None:
    with pytest.raises(ValueError, match="http2: not available through a proxy"):
        CrawlSettings(http2=True, proxy="http://proxy.example/")


def test_the_plugin_has_it_too() -> None:
    assert settings.load({"http2": True}).http2
