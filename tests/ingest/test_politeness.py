"""Many rows at once: fair to hosts, and no row waits for an unrelated slow one."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.errors import PutOff
from datasette_ingest.ingest.http.waiting import around_waits
from datasette_ingest.ingest.model import IngestRequest, RetryClass

from .origin import Origin, Raw, Request, html, pdf, redirect, reply


def after(seconds: float, answer: bytes) -> Callable[[Request, asyncio.StreamWriter], Awaitable[None]]:
    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(seconds)
        writer.write(answer)

    return respond


def once(event: asyncio.Event) -> Callable[[Request, asyncio.StreamWriter], Awaitable[None]]:
    """Answers with a PDF when something has happened."""

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        await event.wait()
        writer.write(pdf())

    return respond


def busy(seconds: int) -> bytes:
    return reply(b"", status="429 Slow", headers={"Retry-After": str(seconds)})


async def ask_all(crawler: Crawler, urls: list[str], **how: Any) -> list[Any]:
    return await asyncio.gather(*(crawler.ingest(IngestRequest("pdf", url)) for url in urls), **how)


async def test_a_host_gets_no_more_requests_at_once_than_allowed(make_crawler: Any) -> None:
    now, most = 0, 0

    async def count(request: Request, writer: asyncio.StreamWriter) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02)
        now -= 1
        writer.write(pdf())

    async with Origin({"/p": count}) as site:
        results = await ask_all(make_crawler(per_host_concurrency=3), [site.url(f"/p?{n}") for n in range(15)])
    assert all(result.hit for result in results)
    assert most == 3


async def test_requests_of_a_host_keep_their_distance(make_crawler: Any) -> None:
    times: list[float] = []

    async def note(request: Request, writer: asyncio.StreamWriter) -> None:
        times.append(asyncio.get_running_loop().time())
        writer.write(pdf())

    async with Origin({"/p": note}) as site:
        await ask_all(make_crawler(per_host_delay=0.1), [site.url(f"/p?{n}") for n in range(4)])
    assert all(later - earlier > 0.08 for earlier, later in itertools.pairwise(times))


async def test_slow_hosts_beyond_the_limit_delay_nobody_else(make_crawler: Any) -> None:
    others_are_answered = asyncio.Event()
    async with (
        Origin({"/slow": once(others_are_answered)}) as slow,
        Origin({"/p": pdf()}, host="127.0.0.2") as quick,
    ):
        crawler = make_crawler(concurrency=2, per_host_concurrency=10, timeout=10.0, deadline=20.0)
        slow_rows = asyncio.ensure_future(ask_all(crawler, [slow.url(f"/slow?{n}") for n in range(6)]))
        while len(slow.requests) < 2:
            await asyncio.sleep(0.01)
        # Two slow requests hold both slots for a second, then they stop counting.
        quick_rows = await ask_all(crawler, [quick.url(f"/p?{n}") for n in range(20)])
        others_are_answered.set()
        results = await slow_rows
    assert all(result.hit for result in (*quick_rows, *results))


async def test_waiting_for_a_host_holds_no_global_slot(make_crawler: Any) -> None:
    others_are_answered = asyncio.Event()
    async with (
        Origin({"/slow": once(others_are_answered)}) as busy,
        Origin({"/p": pdf()}, host="127.0.0.2") as other,
    ):
        crawler = make_crawler(concurrency=2, per_host_concurrency=1, timeout=10.0, deadline=20.0)
        waiting = asyncio.ensure_future(ask_all(crawler, [busy.url(f"/slow?{n}") for n in range(5)]))
        while not busy.requests:
            await asyncio.sleep(0.01)
        results = await ask_all(crawler, [other.url(f"/p?{n}") for n in range(5)])
        others_are_answered.set()
        results += await waiting
    assert all(result.hit for result in results)


async def test_one_url_asked_by_many_rows_is_fetched_once(make_crawler: Any) -> None:
    async with Origin({"/p": after(0.1, pdf())}) as site:
        results = await ask_all(make_crawler(), [site.url("/p")] * 50)
    assert len(site.targets) == 1
    assert all(result.hit and result.hops == (site.url("/p"),) for result in results)


async def test_rows_that_share_a_failure_share_its_reason(make_crawler: Any) -> None:
    async with Origin({"/p": after(0.05, reply(b"x", status="500 Oops"))}) as site:
        results = await ask_all(make_crawler(), [site.url("/p")] * 5)
    assert len(site.targets) == 1
    assert {(result.status, result.terminal_status_code) for result in results} == {("terminal-bad-status", 500)}


@pytest.mark.parametrize(("cancelled", "requests"), [(0, 2), (1, 1)])
async def test_a_cancelled_row_takes_nothing_from_those_that_share_its_fetch(
    make_crawler: Any, cancelled: int, requests: int
) -> None:
    async with Origin({"/p": after(0.2, pdf(b"%PDF-1.4\n" + b"x" * 3_000_000 + b"%%EOF"))}) as site:
        crawler = make_crawler()
        rows = [asyncio.ensure_future(crawler.ingest(IngestRequest("pdf", site.url("/p")))) for _ in range(4)]
        await asyncio.sleep(0.05)
        rows.pop(cancelled).cancel()
        results = await asyncio.gather(*rows)
    assert [result.status for result in results] == ["success"] * 3
    assert len(site.targets) == requests, "the row that fetches is replaced by one of those that wait"


async def test_rows_that_share_a_fetch_may_be_cancelled_at_any_moment(make_crawler: Any) -> None:
    body = b"%PDF-1.4\n" + b"x" * 3_000_000 + b"%%EOF"
    async with Origin({"/p": pdf(body), "/none": reply(status="404 Gone")}) as site:
        crawler = make_crawler()
        for turns in range(40):
            rows = [
                asyncio.ensure_future(crawler.ingest(IngestRequest("pdf", site.url(f"{path}?{turns}"))))
                for path in ("/p", "/none")
                for _ in range(3)
            ]
            for _ in range(turns):
                await asyncio.sleep(0)
            for row in rows[turns % 2 :: 2]:
                row.cancel()
            results = await asyncio.gather(*rows, return_exceptions=True)
            answers = [result.status for result in results if not isinstance(result, BaseException)]
            assert set(answers) <= {"success", "terminal-bad-status"} and len(answers) >= 3
            del rows, results
        # The fixture then finds no connection, no spooled byte and no request.


async def test_cookies_are_never_shared_between_rows(make_crawler: Any) -> None:
    page = reply(
        b'<html><head><meta name="citation_pdf_url" content="/p.pdf"></head></html>', headers={"Set-Cookie": "s=1"}
    )
    async with Origin({"/a/1": page, "/a/2": page, "/p.pdf": after(0.05, pdf())}) as site:
        await ask_all(make_crawler(), [site.url("/a/1"), site.url("/a/2")])
    assert site.targets.count("/p.pdf") == 2, "a link asked with cookies is asked for each row"


@pytest.mark.parametrize("moment", [0.0, 0.02, 0.1])
async def test_cancelled_rows_leave_nothing_behind(make_crawler: Any, moment: float) -> None:
    big = Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 90000000\r\n\r\n%PDF-1.4\n" + b"x" * 6_000_000, "hang")
    async with Origin(
        {"/hang": Raw(b"", "hang"), "/big": big, "/l": html('<meta name="citation_pdf_url" content="/big">')}
    ) as site:
        crawler = make_crawler(concurrency=4)
        rows = [
            asyncio.ensure_future(crawler.ingest(IngestRequest("pdf", site.url(f"{path}?{n}"))))
            for n in range(6)
            for path in ("/hang", "/big", "/l")
        ]
        await asyncio.sleep(moment)
        for row in rows:
            row.cancel()
        await asyncio.gather(*rows, return_exceptions=True)
        # The fixture then finds no connection, no spooled byte and no request.


async def test_a_pause_that_the_server_asks_for_is_kept_and_the_row_then_succeeds(make_crawler: Any) -> None:
    answers = [busy(1), pdf()]
    times: list[float] = []

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        times.append(asyncio.get_running_loop().time())
        writer.write(answers.pop(0))

    async with Origin({"/p": respond}) as site, Origin({"/p": pdf()}, host="127.0.0.2") as other:
        crawler = make_crawler()
        row = asyncio.ensure_future(crawler.ingest(IngestRequest("pdf", site.url("/p"))))
        while not times:
            await asyncio.sleep(0.01)
        assert (await crawler.ingest(IngestRequest("pdf", other.url("/p")))).hit
        assert not row.done(), "other hosts go on"
        result = await row
    assert (result.status, result.hops) == ("success", (site.url("/p"),))
    assert times[1] - times[0] >= 1.0


@pytest.mark.parametrize("value", ["99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"])
async def test_an_absurd_pause_ends_the_row_with_the_time_to_come_back(make_crawler: Any, value: str) -> None:
    async with Origin({"/p": reply(b"", status="503 Busy", headers={"Retry-After": value})}) as site:
        result = await make_crawler().ingest(IngestRequest("pdf", site.url("/p")))
    assert (result.status, result.next_try_class) == ("rate-limited", RetryClass.NOW)
    assert result.retry_after == 30 * 86400


async def test_a_host_that_always_asks_for_a_pause_is_left_in_the_end(make_crawler: Any) -> None:
    async with Origin({"/p": reply(b"", status="503 Busy", headers={"Retry-After": "0"})}) as site:
        result = await make_crawler().ingest(IngestRequest("pdf", site.url("/p")))
    assert (result.status, len(site.targets)) == ("rate-limited", 4)


@pytest.mark.parametrize("value", [None, "soon", "", "-"])
async def test_a_429_without_a_usable_pause_is_a_bad_status(make_crawler: Any, value: str | None) -> None:
    headers = {} if value is None else {"Retry-After": value}
    async with Origin({"/p": reply(b"", status="429 Slow", headers=headers)}) as site:
        result = await make_crawler().ingest(IngestRequest("pdf", site.url("/p")))
    assert (result.status, result.terminal_status_code, result.next_try_class) == (
        "terminal-bad-status",
        429,
        RetryClass.SOON,
    )


# With a patience: rows are put off


async def test_a_host_that_rests_puts_off_the_row_that_learns_of_it_and_those_behind(make_crawler: Any) -> None:
    async with Origin({"/p": busy(3600)}) as site, Origin({"/p": pdf()}, host="127.0.0.2") as other:
        crawler = make_crawler(patience=60.0, per_host_concurrency=1)
        urls = [site.url(f"/p?{n}") for n in range(20)] + [other.url("/p")]
        *put_off, answered = await ask_all(crawler, urls, return_exceptions=True)
        assert len(site.targets) == 1
        late = await ask_all(crawler, [site.url("/p")], return_exceptions=True)
    assert answered.hit
    assert {str(row) for row in (*put_off, *late)} == {"127.0.0.1 asked us to wait (Retry-After)"}
    assert all(isinstance(row, PutOff) and row.counts and 3590 < row.seconds < 3601 for row in put_off)


async def test_rows_that_share_a_fetch_are_put_off_together(make_crawler: Any) -> None:
    async with Origin({"/p": busy(3600)}) as site:
        rows = await ask_all(make_crawler(patience=60.0), [site.url("/p")] * 5, return_exceptions=True)
    assert len(site.targets) == 1
    assert all(isinstance(row, PutOff) for row in rows) and len(set(map(id, rows))) == 5


@pytest.mark.parametrize(("back_offs", "requests"), [(2, 2), (3, 1), (4, 1)])
async def test_pauses_of_earlier_tries_count(make_crawler: Any, back_offs: int, requests: int) -> None:
    async with Origin({"/p": busy(0)}) as site:
        result = await make_crawler(patience=60.0).ingest(IngestRequest("pdf", site.url("/p")), back_offs=back_offs)
    assert (result.status, len(site.targets)) == ("rate-limited", requests)


async def test_a_row_that_has_waited_out_enough_pauses_is_answered_when_it_meets_one_more(make_crawler: Any) -> None:
    async with Origin({"/p": busy(600)}) as site:
        crawler = make_crawler(patience=60.0)
        with pytest.raises(PutOff):
            await crawler.ingest(IngestRequest("pdf", site.url("/p")), back_offs=2)
        result = await crawler.ingest(IngestRequest("pdf", site.url("/p")), back_offs=3)
    assert (result.status, result.hops, result.next_try_class) == ("rate-limited", (), RetryClass.NOW)
    assert result.retry_after is not None and 590 < result.retry_after < 601
    assert "asked us to wait" in (result.error_message or "")


async def test_a_link_to_a_resting_host_puts_its_row_off_whatever_other_links_there_are(make_crawler: Any) -> None:
    async with Origin({"/p": busy(3600)}) as resting, Origin({"/other.pdf": pdf()}, host="127.0.0.2") as site:
        links = f'<meta name="citation_pdf_url" content="{resting.url("/p")}">'
        site.handlers["/a"] = html(links, '<a href="/other.pdf">PDF</a>')
        crawler = make_crawler(patience=60.0)
        with pytest.raises(PutOff):
            await crawler.ingest(IngestRequest("pdf", site.url("/a")))
        assert site.targets == ["/a"]
        result = await crawler.ingest(IngestRequest("pdf", site.url("/a")), back_offs=3)
    # and a link that says no more than PDF is not taken for the file that the page names
    assert (result.status, result.candidates[0].outcome) == ("rate-limited", "rate-limited")
    assert site.targets == ["/a", "/a"]


async def test_a_row_in_progress_is_more_patient(make_crawler: Any) -> None:
    answers = [busy(1), pdf()]

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(answers.pop(0))

    async with Origin({"/p": respond}) as later, Origin({"/a": redirect(later.url("/p"))}, host="127.0.0.2") as site:
        crawler = make_crawler(patience=0.5)
        assert (await crawler.ingest(IngestRequest("pdf", site.url("/a")))).hit
        answers += [busy(1), pdf()]
        with pytest.raises(PutOff):
            await crawler.ingest(IngestRequest("pdf", later.url("/p")))


async def test_a_host_that_rests_is_not_even_asked_for_its_robots_file(make_crawler: Any) -> None:
    async with Origin({"/p": pdf()}) as site:
        crawler = make_crawler(patience=60.0, robots="obey")
        crawler.hosts.limiter("127.0.0.1").back_off(600.0)
        rows = await ask_all(crawler, [site.url(f"/p?{n}") for n in range(3)], return_exceptions=True)
        assert all(isinstance(row, PutOff) for row in rows) and not site.requests
        answered = await crawler.ingest(IngestRequest("pdf", site.url("/p")), back_offs=3)
    assert (answered.status, answered.hops) == ("rate-limited", ())


async def test_a_crawler_says_which_hosts_asked_it_to_wait_and_for_how_long(make_crawler: Any) -> None:
    told: list[tuple[str, float]] = []
    elsewhere = redirect("http://127.0.0.2:9/", headers={"Retry-After": "120"})
    async with Origin({"/p": busy(86400), "/r": elsewhere}) as site:
        crawler = make_crawler(patience=0.0, on_back_off=lambda *rest: told.append(rest))
        await ask_all(crawler, [site.url("/r")], return_exceptions=True)
        assert told == [("127.0.0.1", 120.0)]
    async with Origin({"/p": busy(86400)}, host="127.0.0.3") as site:
        await ask_all(crawler, [site.url("/p")])
    assert told[1:] == [("127.0.0.3", 3600.0)]


async def test_time_in_which_a_row_only_waits_is_marked(make_crawler: Any) -> None:
    """A caller's context manager is open during waits for a turn, and closed while a server is at work."""
    depth = 0
    asked: list[int] = []

    @contextlib.contextmanager
    def waiting() -> Iterator[None]:
        nonlocal depth
        depth += 1
        yield
        depth -= 1

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        asked.append(depth)
        await asyncio.sleep(0.02)
        asked.append(depth)
        writer.write(pdf())

    async with Origin({"/p": respond}) as site:
        crawler = make_crawler(per_host_concurrency=1)
        around_waits.set(waiting)
        rows = await ask_all(crawler, [site.url(f"/p?{n}") for n in range(4)])
    assert all(row.hit for row in rows)
    assert asked == [3, 3, 2, 2, 1, 1, 0, 0] and depth == 0


async def test_a_connection_is_used_again_and_a_stale_one_replaced(make_crawler: Any) -> None:
    async def closing(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(pdf())

    async with Origin({"/keep": pdf(), "/once": closing}) as site:
        crawler = make_crawler()
        for n in range(5):
            assert (await crawler.ingest(IngestRequest("pdf", site.url(f"/keep?{n}")))).hit
        assert site.connections == 1
        for n in range(5):
            assert (await crawler.ingest(IngestRequest("pdf", site.url(f"/once?{n}")))).hit


@pytest.mark.parametrize(("concurrency", "connections"), [(2, 1), (1, 2)])
async def test_of_idle_connections_the_oldest_makes_room(make_crawler: Any, concurrency: int, connections: int) -> None:
    async with Origin({"/p": pdf()}) as first, Origin({"/p": pdf()}, host="127.0.0.2") as other:
        crawler = make_crawler(concurrency=concurrency)
        for site in (first, other, first):
            assert (await crawler.ingest(IngestRequest("pdf", site.url("/p")))).hit
    assert (first.connections, other.connections) == (connections, 1)


async def test_rows_that_were_begun_are_answered_before_more_are(make_crawler: Any) -> None:
    pages = {f"/{n}": html(f'<meta name="citation_pdf_url" content="/{n}.pdf">') for n in range(30)}
    async with Origin({**pages, **{f"{path}.pdf": pdf() for path in pages}}) as site:
        results = await ask_all(make_crawler(concurrency=2), [site.url(path) for path in pages])
    assert all(result.hit for result in results)
    under_way = list(itertools.accumulate(-1 if target.endswith(".pdf") else 1 for target in site.targets))
    assert max(under_way) <= 4, "a page that was read is kept until its link was tried"


async def test_bodies_wait_for_disk_and_all_arrive(make_crawler: Any) -> None:
    body = b"%PDF-1.4\n" + b"x" * 5_000_000 + b"\n%%EOF\n"
    async with Origin({"/p": pdf(body)}) as site:
        crawler = make_crawler(max_spool_bytes=12_000_000, timeout=5.0, deadline=20.0)
        results = await ask_all(crawler, [site.url(f"/p?{n}") for n in range(8)])
    assert [result.status for result in results] == ["success"] * 8


async def test_a_body_larger_than_the_whole_spool_is_too_large(make_crawler: Any) -> None:
    body = b"%PDF-1.4\n" + b"x" * 5_000_000
    async with Origin({"/p": pdf(body)}) as site:
        result = await make_crawler(max_spool_bytes=3_000_000).ingest(IngestRequest("pdf", site.url("/p")))
    assert result.status == "body-too-large"


async def test_redirects_and_pages_share_fetches_too(make_crawler: Any) -> None:
    pages = {f"/{n}": redirect("/same") for n in range(5)}
    async with Origin({**pages, "/same": pdf()}) as site:
        results = await ask_all(make_crawler(), [site.url(path) for path in pages])
    assert all(result.hit for result in results)
