"""A client for a service that the configuration names."""

from __future__ import annotations

import asyncio
import base64
import traceback

import httpx
import pytest

from datasette_ingest.ingest.errors import BadScheme, InvalidUrl
from datasette_ingest.ingest.http.service import Service, ServiceFailure, service_client

from ..origin import Origin, Raw, Request, redirect, reply

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


@pytest.mark.parametrize("address", ["http://me:hun/ter2@host", "me:hunter2@host", "http://me:hunter2@host:x/"])
def test_a_url_that_cannot_be_asked_is_refused_without_its_password(address: str) -> None:
    for given in ({"base_url": address}, {"base_url": "http://host/", "proxy": address}):
        with pytest.raises((InvalidUrl, BadScheme)) as caught:
            service_client(**given, user_agent="t", timeout=1)
        assert "ter2" not in "".join(traceback.format_exception(caught.value))


async def test_user_and_password_are_sent_and_stand_in_no_url() -> None:
    async with Origin() as site, client(site.url("/api").replace("://", "://me:hun%23ter2@")) as service:
        response = await service.get("/x")
    with pytest.raises(httpx.HTTPStatusError) as caught:
        response.raise_for_status()
    assert site.requests[0].headers["authorization"] == "Basic " + base64.b64encode(b"me:hun#ter2").decode()
    assert "ter2" not in f"{caught.value} {response.request!r} {response.url}"


async def test_a_proxy_gets_its_password_and_its_url_has_none() -> None:
    async with Origin({"http://host.example/x": reply(b"yes")}) as site:
        proxy = site.url().replace("://", "://me:hunter2@")
        async with service_client("http://host.example/", user_agent="t", timeout=2, proxy=proxy) as service:
            assert (await service.get("/x")).text == "yes"
    assert site.requests[0].headers["proxy-authorization"] == "Basic " + base64.b64encode(b"me:hunter2").decode()


async def test_a_service_is_asked_below_its_address_and_says_how_long_to_wait() -> None:
    answers = {
        "/save": reply(b"{}"),
        "/save/status/a%2Fb?_t=5": reply(b"no", status="429 No", headers={"Retry-After": "7"}),
    }
    async with Origin(answers) as site:
        service = Service(client(site.url("/save/")))
        started = await service.ask("POST", "", data={"url": "http://h/?a=1&b=é"})
        refused = await service.ask("GET", "/status/a%2Fb", params={"_t": 5})
        await service.aclose()
    assert (started.status, started.content, started.retry_after) == (200, b"{}", None)
    assert (refused.status, refused.retry_after) == (429, 7.0)
    assert site.requests[0].body == b"url=http%3A%2F%2Fh%2F%3Fa%3D1%26b%3D%C3%A9"


async def test_a_service_that_is_not_there_is_a_failure_without_headers() -> None:
    service = Service(client("http://127.0.0.1:9/save"))
    with pytest.raises(ServiceFailure) as caught:
        await service.ask("GET", "/status")
    await service.aclose()
    assert "X-Key" not in str(caught.value) and caught.value.__cause__ is None


@pytest.mark.parametrize(("method", "asked"), [("GET", 2), ("POST", 1)])
@pytest.mark.parametrize("then", ["close", "reset"])
async def test_a_get_is_sent_again_once_when_the_connection_is_lost(then: str, method: str, asked: int) -> None:
    async with Origin({"/lost": Raw(b"", then)}) as site:
        service = Service(client(site.url()))
        with pytest.raises(ServiceFailure):
            await service.ask(method, "/lost")
        await service.aclose()
    assert len(site.requests) == asked


async def test_a_lost_connection_is_no_failure_where_the_next_one_answers() -> None:
    answers: list[httpx.Response | httpx.HTTPError] = [httpx.ReadError(""), httpx.Response(200, text="ok")]

    def answer(_: httpx.Request) -> httpx.Response:
        said = answers.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    transport = httpx.MockTransport(answer)
    service = Service(service_client("http://h.example/", user_agent="t", timeout=1, transport=transport))
    assert (await service.ask("GET", "/")).content == b"ok"
    await service.aclose()
