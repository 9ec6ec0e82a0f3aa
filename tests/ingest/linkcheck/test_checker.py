"""What is asked of servers, and what hostile ones cannot do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.linkcheck.verdict import Verdict
from datasette_ingest.ingest.settings import CrawlSettings

from ..origin import Origin, html, redirect, reply

U = "http://a.example/x"


class Web:
    """Answers by method and URL, and remembers what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self.asked: list[str] = []
        self.answers = answers
        self.headers: list[httpx.Headers] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(f"{request.method} {request.url}")
        self.headers.append(request.headers)
        answer = self.answers.get(request.method, httpx.Response(404))
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    async def check(self, url: str = U, **more: Any) -> Verdict:
        settings = CrawlSettings(per_host_delay=0.0, robots="ignore", **more.pop("settings", {}))
        crawler = Crawler(settings, transport=httpx.MockTransport(self))
        try:
            return await crawler.links.check(url, **more)
        finally:
            await crawler.aclose()


class Endless(httpx.AsyncByteStream):
    """A body without end."""

    def __init__(self, piece: bytes) -> None:
        self.piece, self.sent, self.closed = piece, 0, False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self.sent += len(self.piece)
            yield self.piece

    async def aclose(self) -> None:
        self.closed = True


PDF = {"Content-Type": "application/pdf"}


async def test_of_a_file_only_the_head_is_asked_for() -> None:
    web = Web(HEAD=httpx.Response(200, headers=PDF))
    assert (await web.check()).status == "ok"
    assert web.asked == [f"HEAD {U}"]


@pytest.mark.parametrize("code", [400, 403, 404, 405, 500, 501, 503])
async def test_a_head_that_is_refused_is_asked_for_by_get(code: int) -> None:
    stream = Endless(b"x" * 1000)
    web = Web(HEAD=httpx.Response(code), GET=httpx.Response(200, headers=PDF, stream=stream))
    assert (await web.check()).status == "ok"
    assert stream.sent <= 1000 and stream.closed
    assert web.headers[-1]["Range"].startswith("bytes=0-")


async def test_a_429_is_not_asked_again_by_get() -> None:
    web = Web(HEAD=httpx.Response(429))
    verdict = await web.check()
    assert (verdict.status, verdict.code) == ("unsure", 429)
    assert set(web.asked) == {f"HEAD {U}"}


async def test_an_endless_page_is_read_as_far_as_its_limit() -> None:
    stream = Endless(b"<p>The herons follow the tide. " * 100)
    page = httpx.Response(200, headers={"Content-Type": "text/html"}, stream=stream)
    web = Web(HEAD=httpx.Response(200, html=""), GET=page)
    assert (await web.check()).status == "ok"
    assert stream.sent < 140 * 1024 and stream.closed


async def test_an_endless_page_has_no_anchor_that_is_known_to_be_missing() -> None:
    stream = Endless(b"<p>The herons follow the tide. " * 1000)
    page = httpx.Response(200, headers={"Content-Type": "text/html"}, stream=stream)
    verdict = await Web(HEAD=httpx.Response(200, html=""), GET=page).check(U + "#here")
    assert (verdict.status, verdict.fragment) == ("ok", "unchecked")
    assert stream.sent < 4.2 * 2**20


async def test_a_part_that_is_all_of_it_settles_the_anchor() -> None:
    body = b"<!doctype html><title>Tides</title><p id=there>" + b"The herons follow the tide. " * 60
    part = {"Content-Type": "text/html", "Content-Range": f"bytes 0-{len(body) - 1}/{len(body)}"}
    web = Web(HEAD=httpx.Response(200, html=""), GET=httpx.Response(206, headers=part, content=body))
    assert (await web.check(U + "#here")).fragment == "missing"
    part["Content-Range"] = f"bytes 0-{len(body) - 1}/{len(body) + 1}"
    web = Web(HEAD=httpx.Response(200, html=""), GET=httpx.Response(206, headers=part, content=body))
    assert (await web.check(U + "#here")).fragment == "unchecked"


async def test_a_page_that_is_a_bomb_is_cut() -> None:
    import gzip

    bomb = gzip.compress(b"<p>x" * 20_000_000)
    headers = {"Content-Type": "text/html", "Content-Encoding": "gzip"}
    web = Web(HEAD=httpx.Response(200, html=""), GET=[_raw(headers, bomb)])
    assert (await web.check()).status == "ok"


def _raw(headers: dict[str, str], content: bytes) -> httpx.Response:
    class Once(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield content

    return httpx.Response(200, headers=headers, stream=Once())


async def test_an_empty_range_is_no_error() -> None:
    web = Web(HEAD=httpx.Response(405), GET=httpx.Response(416))
    assert (await web.check()).status == "ok"


async def test_a_redirect_to_itself_that_sets_a_cookie_is_no_redirect() -> None:
    again = httpx.Response(302, headers={"Location": U, "Set-Cookie": "seen=1"})
    web = Web(HEAD=[again, httpx.Response(200, headers=PDF)])
    assert (await web.check()).status == "ok"


async def test_the_login_page_itself_may_be_a_link() -> None:
    web = Web(HEAD=httpx.Response(200, headers=PDF))
    assert (await web.check("http://a.example/login")).status == "ok"


async def test_a_login_page_at_the_end_is_not_asked_for() -> None:
    web = Web(HEAD=httpx.Response(302, headers={"Location": "https://sso.a.example/login?to=x"}))
    assert (await web.check()).status == "blocked"
    assert web.asked == [f"HEAD {U}"]


@pytest.mark.parametrize("target", ["http://10.0.0.1/", "http://[::1]/", "http://169.254.169.254/latest"])
async def test_no_private_address_is_asked(target: str) -> None:
    async with Origin({"/x": redirect(target)}) as site:
        settings = CrawlSettings(allow_networks=(site.network,), per_host_delay=0.0, robots="ignore", timeout=2)
        crawler = Crawler(settings)
        try:
            verdict = await crawler.links.check(site.url("/x"))
        finally:
            await crawler.aclose()
    assert verdict.status == "unsure" and "private address" in (verdict.reason or "")


async def test_sites_without_full_text_are_checked_and_the_blocklist_is_kept() -> None:
    web = Web(HEAD=httpx.Response(200, headers=PDF))
    assert (await web.check("https://www.youtube.com/watch?v=1")).status == "ok"
    listed = await web.check("https://b.example/", settings={"blocklist": ("b.example",)})
    assert (listed.status, listed.retry.value) == ("unsure", "never")


async def test_a_robots_txt_that_fails_says_nothing_of_the_page() -> None:
    async with Origin({"/robots.txt": reply(status="503 Busy"), "/x": html()}) as site:
        settings = CrawlSettings(allow_networks=(site.network,), per_host_delay=0.0, timeout=2)
        crawler = Crawler(settings)
        try:
            verdict = await asyncio.wait_for(crawler.links.check(site.url("/x")), 20)
        finally:
            await crawler.aclose()
    assert (verdict.status, verdict.code, verdict.retry.value) == ("unsure", None, "soon")


def page(body: str) -> httpx.Response:
    return httpx.Response(200, html=f"<!doctype html>{body}")


async def test_a_page_that_sends_its_visitors_on_is_a_redirect() -> None:
    text = "<p>The herons follow the tide. " * 60
    moved = page('<title>Moved</title><meta http-equiv=refresh content="0; url=/new#part"><p>Moved')
    head = httpx.Response(200, html="")
    web = Web(HEAD=[head, httpx.Response(200, html="")], GET=[moved, page(f"<title>Tides</title><p id=part>{text}")])
    verdict = await web.check()
    assert (verdict.status, verdict.url, verdict.fragment) == ("redirected", "http://a.example/new#part", "ok")


async def test_pages_that_send_on_for_ever_come_to_an_end() -> None:
    class Forever(Web):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            self.asked.append(str(request.url))
            return page(f'<title>Wait</title><meta http-equiv=refresh content="0; url=/{len(self.asked)}">')

    web = Forever()
    assert (await web.check(settings={"max_redirects": 3})).status == "dead"
    assert len(web.asked) <= 8


async def test_a_get_that_redirects_where_the_head_did_not_is_followed() -> None:
    html_head = httpx.Response(200, html="")
    to_login = httpx.Response(302, headers={"Location": "/login"})
    assert (await Web(HEAD=html_head, GET=to_login).check()).status == "blocked"
