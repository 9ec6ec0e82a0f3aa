"""A client for a service that the configuration names."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from datasette_ingest.ingest.http.service import service_client

from ..origin import Origin, Request, redirect, reply

pytestmark = pytest.mark.both_loops


def client(base_url: str, timeout: float = 2.0) -> httpx.AsyncClient:
    return service_client(base_url, user_agent="datasette-ingest/test", timeout=timeout, headers={"X-Key": "k"})


async def test_it_reaches_a_private_address_with_our_headers() -> None:
    async with Origin({"/api/status": reply(b"{}")}) as site, client(site.url("/api")) as service:
        assert (await service.get("/status")).json() == {}
    headers = site.requests[0].headers
    assert (headers["user-agent"], headers["x-key"]) == ("datasette-ingest/test", "k")


async def test_a_redirect_is_an_answer_and_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1/")
    async with Origin({"/old": redirect("/new")}) as site, client(site.url()) as service:
        response = await service.get("/old")
    assert (response.status_code, response.headers["location"]) == (302, "/new")
    assert site.targets == ["/old"]


async def test_files_are_posted_as_forms_of_several_parts() -> None:
    async with Origin({"/process": reply(b"<TEI/>")}) as site, client(site.url()) as service:
        response = await service.post("/process", files={"input": ("a.pdf", b"%PDF-1.4", "application/pdf")})
    assert response.text == "<TEI/>"
    assert site.requests[0].headers["content-type"].startswith("multipart/form-data; boundary=")
    assert b"%PDF-1.4" in site.requests[0].body


async def test_silence_ends_at_the_timeout() -> None:
    async def hang(request: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with Origin({"/slow": hang}) as site, client(site.url(), timeout=0.1) as service:
        with pytest.raises(httpx.ReadTimeout):
            await service.get("/slow")
