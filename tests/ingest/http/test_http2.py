"""HTTP/2 is not spoken, and everybody hears so: who sets it, the server that offers it, the row whose server insists."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest
import trustme

from datasette_ingest import settings
from datasette_ingest.ingest.model import IngestRequest
from datasette_ingest.ingest.settings import CrawlSettings

from ..origin import Origin, Raw, Request, pdf

SETTINGS_FRAME = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64"
"""What a server of HTTP/2 says first (RFC 9113, 3.4): a SETTINGS frame."""


def test_the_setting_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match="this version of datasette-ingest does not have that feature yet"):
        CrawlSettings(http2=True)


async def test_an_answer_in_http2_is_a_row_that_says_what_it_is_not(ingest: Any) -> None:
    async with Origin({"/p": Raw(SETTINGS_FRAME)}) as site:
        result = await ingest(site.url("/p"))
    assert (result.hit, result.status) == (False, "bad-http")
    assert "HTTP/1" in result.error_message and site.url("/p") in result.error_message


async def test_a_server_that_offers_both_is_asked_in_http1(make_crawler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["h2", "http/1.1"])
    authority.issue_cert("127.0.0.1").configure_cert(context)
    chosen: list[Any] = []

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        chosen.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
        writer.write(pdf())

    async with Origin({"/p": respond}, tls=context) as site:
        crawler = make_crawler(insecure_hosts=("127.0.0.1",))
        result = await crawler.ingest(IngestRequest("pdf", site.url("/p")))
    assert result.hit and chosen == ["http/1.1"]


def test_so_is_the_plugins() -> None:
    with pytest.raises(settings.SettingsError, match="http2: this version of datasette-ingest does not have that"):
        settings.load({"http2": True})
