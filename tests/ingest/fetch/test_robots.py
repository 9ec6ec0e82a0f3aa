"""robots.txt: asked once an origin, and obeyed."""

from __future__ import annotations

import asyncio
import pathlib
from typing import Any

import pytest
from protego import Protego

from datasette_ingest.ingest.fetch.robots import PARSE_BYTES
from datasette_ingest.ingest.model import IngestRequest, RetryClass

from ..origin import Origin, Raw, Request, gzipped, html, pdf, redirect, reply


def robots(text: str | bytes, **more: Any) -> dict[str, Any]:
    body = text if isinstance(text, bytes) else text.encode()
    return {"/robots.txt": reply(body, content_type="text/plain"), "/p.pdf": pdf(), "/private/p.pdf": pdf(), **more}


@pytest.fixture
def obedient(make_crawler: Any) -> Any:
    crawler = make_crawler(robots="obey", user_agent="datasette-ingest/9.9 (+https://h/)", timeout=0.5)

    async def ask(url: str) -> Any:
        return await crawler.ingest(IngestRequest("pdf", url))

    return ask


@pytest.mark.parametrize(
    ("text", "closed"),
    [
        ("User-agent: *\nDisallow: /private/", True),
        ("\ufeffUser-agent: *\nDisallow: /private/", True),
        ("User-agent: Datasette-Ingest\nDisallow: /private/\n\nUser-agent: *\nDisallow:", True),
        ("User-agent: *\nDisallow: /private/\n\nUser-agent: datasette-ingest\nAllow: /", False),
        ("User-agent: *\nDisallow: /private/\nAllow: /private/p.pdf", False),
        ("User-agent: *\nDisallow: /*.pdf$", True),
        (b"User-agent: *\r\nDisallow: /private/\r\n" + b"# \xff\xfe\n", True),
        ("User-agent: otherbot\nDisallow: /", False),
        ("<html>not robots at all</html>", False),
        ("", False),
        (b"\0\1\2" * 100, False),
        ("User-agent: *\n" + "# padding\n" * 60_000 + "Disallow: /private/", False),
    ],
)
async def test_the_file_decides_for_our_product_token(obedient: Any, text: str | bytes, closed: bool) -> None:
    async with Origin(robots(text)) as site:
        result = await obedient(site.url("/private/p.pdf"))
    assert result.status == ("blocked-robots" if closed else "success")
    assert site.targets == ([] if closed else ["/private/p.pdf"])
    assert result.hops == (() if closed else (site.url("/private/p.pdf"),))


CLOSED = b"User-agent: *\nDisallow: /private/\n"


def sent(body: bytes, how: str) -> bytes:
    """A robots.txt as servers send it."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
    if how == "with its length":
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    if how == "until the connection ends":
        return head + b"Connection: close\r\n\r\n" + body
    if how == "in chunks":
        pieces = [body[start : start + 60_000] for start in range(0, len(body), 60_000)]
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    packed = gzipped(body)
    return head + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed) + packed


@pytest.mark.parametrize("how", ["with its length", "until the connection ends", "in chunks", "packed"])
@pytest.mark.parametrize("size", [PARSE_BYTES - 1, PARSE_BYTES, PARSE_BYTES + 1, 9_000_000])
async def test_of_a_long_file_the_first_part_is_obeyed(obedient: Any, how: str, size: int) -> None:
    body = CLOSED + b"# more\n" * (size // 7)
    async with Origin({**robots(""), "/robots.txt": Raw(sent(body[:size], how))}) as site:
        closed, open_ = await obedient(site.url("/private/p.pdf")), await obedient(site.url("/p.pdf"))
    assert (closed.status, open_.status) == ("blocked-robots", "success")


@pytest.mark.parametrize("how", ["with its length", "until the connection ends", "in chunks", "packed"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("kept", [b"Disallow: /", b"Disallow: /p", b"Disallow: /pr"])
async def test_a_rule_that_the_limit_cuts_is_none(obedient: Any, how: str, end: bytes, kept: bytes) -> None:
    start = b"User-agent: *" + end + b"#"
    body = start + b"x" * (PARSE_BYTES - len(start) - len(end) - len(kept)) + end + kept
    assert len(body) == PARSE_BYTES
    async with Origin({**robots(""), "/robots.txt": Raw(sent(body + b"rivate/other/" + end, how))}) as site:
        assert (await obedient(site.url("/private/p.pdf"))).status == "success"


async def test_the_last_line_of_a_file_of_just_the_limit_counts(obedient: Any) -> None:
    start, rule = b"User-agent: *\n#", b"\nDisallow: /private/"
    body = start + b"x" * (PARSE_BYTES - len(start) - len(rule)) + rule
    async with Origin(robots(body)) as site:
        assert (await obedient(site.url("/private/p.pdf"))).status == "blocked-robots"


async def test_a_file_of_one_endless_line_closes_nothing(obedient: Any) -> None:
    async with Origin(robots(b"Disallow: /" + b"a" * 9_000_000)) as site:
        assert (await obedient(site.url("/private/p.pdf"))).status == "success"


async def test_a_rule_of_many_wildcards_is_decided(obedient: Any) -> None:
    """By a regular expression that goes back, this takes for ever."""
    async with Origin(robots(f"User-agent: *\nDisallow: /{'*a' * 40}*b$")) as site:
        result = await obedient(site.url("/" + "a" * 80))
    assert (result.status, site.targets) == ("terminal-bad-status", ["/" + "a" * 80])


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (reply(b"x", status="404 Not Found"), "success"),
        (reply(b"x", status="401 Unauthorized"), "success"),
        (reply(b"x", status="403 Forbidden"), "success"),
        (reply(b"x", status="500 Oops"), "blocked-robots"),
        (reply(b"x", status="503 Busy"), "blocked-robots"),
        (reply(status="302 Found"), "success"),
        (redirect("/robots.txt"), "success"),
        (redirect("ftp://h/"), "success"),
        (redirect("http://10.0.0.1/robots.txt"), "forbidden-address"),
        (reply(b"x", headers={"Content-Encoding": "x-secret"}), "success"),
        (Raw(b"nonsense\r\n\r\n"), "bad-http"),
        (Raw(b"", "reset"), "connect-error"),
        (Raw(b"", "hang"), "read-timeout"),
    ],
)
async def test_a_file_that_cannot_be_had_opens_or_closes_as_the_standard_says(
    obedient: Any, answer: Any, status: str
) -> None:
    async with Origin({"/robots.txt": answer, "/p.pdf": pdf()}) as site:
        result = await obedient(site.url("/p.pdf"))
    assert result.status == status


@pytest.mark.parametrize("status", ["429 Slow", "503 Busy", "302 Found"])
async def test_a_pause_that_a_server_asks_for_with_the_file_is_kept(obedient: Any, status: str) -> None:
    answers = [reply(b"", status=status, headers={"Retry-After": "1", "Location": "/r"}), *[reply(b"") for _ in "rp"]]
    times: list[float] = []

    async def respond(request: Request, writer: asyncio.StreamWriter) -> None:
        times.append(asyncio.get_running_loop().time())
        writer.write(answers.pop(0))

    async with Origin({"/robots.txt": respond, "/r": respond, "/p.pdf": pdf()}) as site:
        result = await obedient(site.url("/p.pdf"))
    assert (result.status, result.hops) == ("success", (site.url("/p.pdf"),))
    assert times[1] - times[0] >= 1.0


@pytest.mark.parametrize(("value", "requests"), [("0", 4), ("99999999999999999999", 1)])
async def test_a_file_that_always_asks_for_a_pause_ends_its_rows_as_rate_limited(
    obedient: Any, value: str, requests: int
) -> None:
    resting = reply(b"", status="503 Busy", headers={"Retry-After": value})
    async with Origin({"/robots.txt": resting, "/p.pdf": pdf()}) as site:
        result = await obedient(site.url("/p.pdf"))
    assert (result.status, result.next_try_class) == ("rate-limited", RetryClass.NOW)
    assert [request.target for request in site.requests] == ["/robots.txt"] * requests


async def test_redirects_of_the_file_are_followed(obedient: Any) -> None:
    closed = {"/r": reply(b"User-agent: *\nDisallow: /")}
    async with Origin(closed, host="127.0.0.2") as other, Origin({"/p.pdf": pdf()}) as site:
        site.handlers["/robots.txt"] = redirect(other.url("/r"))
        assert (await obedient(site.url("/p.pdf"))).status == "blocked-robots"


async def test_many_rows_of_a_host_ask_for_the_file_once(obedient: Any) -> None:
    pages = {f"/{n}.pdf": pdf() for n in range(20)}
    async with Origin({**robots("User-agent: *\nDisallow: /private/"), **pages}) as site:
        results = await asyncio.gather(*(obedient(site.url(path)) for path in pages))
        await obedient(site.url("/p.pdf"))
    assert all(result.hit for result in results)
    assert [request.target for request in site.requests].count("/robots.txt") == 1


async def test_every_hop_is_asked_of_its_own_host(obedient: Any) -> None:
    closed = {"/robots.txt": reply(b"User-agent: *\nDisallow: /"), "/p.pdf": pdf()}
    async with Origin(closed, host="127.0.0.2") as other, Origin({"/a/b": redirect(other.url("/p.pdf"))}) as site:
        result = await obedient(site.url("/a/b"))
    assert (result.status, other.targets, result.terminal_url) == ("blocked-robots", [], site.url("/a/b"))


async def test_links_on_pages_are_asked_too(obedient: Any) -> None:
    page = html('<meta name="citation_pdf_url" content="/private/p.pdf">')
    async with Origin(robots("User-agent: *\nDisallow: /private/", **{"/a/b": page})) as site:
        result = await obedient(site.url("/a/b"))
    assert (result.status, site.targets) == ("blocked-robots", ["/a/b"])


async def test_the_user_may_ignore_the_file(make_crawler: Any) -> None:
    async with Origin(robots("User-agent: *\nDisallow: /")) as site:
        result = await make_crawler(robots="ignore").ingest(IngestRequest("pdf", site.url("/p.pdf")))
        assert result.hit and "/robots.txt" not in [request.target for request in site.requests]


async def test_a_crawl_delay_spaces_the_requests_of_that_host(obedient: Any) -> None:
    async with Origin(robots("User-agent: *\nCrawl-delay: 0.15")) as site:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        await asyncio.gather(*(obedient(site.url(f"/p.pdf?{n}")) for n in range(3)))
        assert loop.time() - begin >= 0.3


def test_all_real_files_parse(fixtures: pathlib.Path) -> None:
    files = sorted((fixtures / "robots").iterdir())
    assert len(files) >= 120
    for path in files:
        parsed = Protego.parse(path.read_bytes().decode("utf-8", "replace").lstrip("\ufeff"))
        assert parsed.can_fetch("http://h/", "datasette-ingest") in (True, False)
