"""Sixty links and the servers behind them, on loopback: what a link checker meets. Also for bench/links.py.

`Site` serves them in an event loop; `LINKS` says of each what it is and what our verdict must be.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping
from dataclasses import dataclass, field

PROSE = "The tide rises twice a day, and the herons follow it along the shore. " * 20
PAGE = (
    "<!doctype html><title>Tides of the estuary</title><h1>Tides of the estuary</h1>"
    f'<p id="here">{PROSE}</p><p id="café">{PROSE}</p><a name="a b">Notes</a>'
)
LONG = f'<!doctype html><title>A long page</title><a href="#end">To the end</a>{f"<p>{PROSE}</p>" * 300}<p id="end">The end</p>'
PDF = b"%PDF-1.4\n%%EOF\n" + b"x" * 200_000
LOGIN = (
    "<!doctype html><title>Sign in</title><h1>Sign in</h1><form><input name=user><input type=password name=pw></form>"
)
CAPTCHA = '<!doctype html><title>Just a moment...</title><div id="challenge-form"></div><p>Checking your browser before you go on'
MISSING = (
    "<!doctype html><title>Page not found</title><h1>Page not found</h1><p>The page that you asked for is not here."
)
PARKED = (
    "<!doctype html><title>tides.example</title><h1>This domain is for sale</h1><p>Buy this domain today."
    '<script src="//d1.parkingcrew.net/a.js"></script>'
)
ROBOTS = "User-agent: *\nDisallow: /private/\n"


@dataclass(frozen=True)
class Answer:
    """What the server sends. `then`: afterwards the connection is kept, left `hanging`, or the body goes on `forever`.
    Without a status nothing is sent at all."""

    status: int | None = 200
    body: bytes | str = b""
    kind: str | None = "text/html; charset=utf-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    then: str = "keep"


def to(status: int, location: str, **headers: str) -> Answer:
    return Answer(status, headers={"Location": location, **headers})


PAGE_ANSWER = Answer(body=PAGE)
PDF_ANSWER = Answer(body=PDF, kind="application/pdf")

GETS: dict[str, Answer] = {
    "/": Answer(body=f"<!doctype html><title>The home page</title><p>{PROSE}"),
    "/robots.txt": Answer(body=ROBOTS, kind="text/plain"),
    "/page": PAGE_ANSWER,
    "/dir/": PAGE_ANSWER,
    "/long": Answer(body=LONG),
    "/a.pdf": PDF_ANSWER,
    "/gzipped": Answer(body=gzip.compress(PAGE.encode()), headers={"Content-Encoding": "gzip"}),
    "/untyped": Answer(body=PAGE, kind=None),
    "/empty": Answer(body=b"", kind="text/plain"),
    "/nothing": Answer(204, kind=None),
    "/endless.zip": Answer(kind="application/zip", then="forever"),
    "/head-405.pdf": PDF_ANSWER,
    "/head-501": PAGE_ANSWER,
    "/head-403": PAGE_ANSWER,
    "/head-404": PAGE_ANSWER,
    "/head-500": PAGE_ANSWER,
    "/head-silent": PAGE_ANSWER,
    "/head-closed": PAGE_ANSWER,
    "/head-lies": Answer(404, "gone"),
    "/app": PAGE_ANSWER,
    "/301": to(301, "/page"),
    "/308": to(308, "/page"),
    "/302": to(302, "/page"),
    "/303": to(303, "/page"),
    "/307": to(307, "/page"),
    "/301-302": to(301, "/302"),
    "/301-301": to(301, "/301"),
    "/dir": to(301, "/dir/"),
    "/301-anchor": to(301, "/page#nope"),
    "/papers/2011/herons": to(302, "/"),
    "/papers/2012/herons": to(301, "/index.html"),
    "/index.html": Answer(body=f"<!doctype html><title>The home page</title><p>{PROSE}"),
    "/to-error": to(302, "/errors/404.html"),
    "/errors/404.html": Answer(body=PAGE),
    "/to-login": to(302, "/login?next=/to-login"),
    "/login": Answer(body=LOGIN),
    "/loop": to(302, "/loop-2"),
    "/loop-2": to(302, "/loop"),
    "/nowhere": Answer(302),
    "/404": Answer(404, MISSING),
    "/410": Answer(410, "gone"),
    "/soft": Answer(body=MISSING),
    "/parked": Answer(body=PARKED),
    "/401": Answer(401, headers={"WWW-Authenticate": 'Basic realm="library"'}),
    "/403": Answer(403, "no"),
    "/451": Answer(451, "no"),
    "/challenge": Answer(403, CAPTCHA),
    "/members": Answer(body=LOGIN),
    "/captcha": Answer(body=CAPTCHA),
    "/private/page": PAGE_ANSWER,
    "/500": Answer(500, "oops"),
    "/503": Answer(503, "later", headers={"Retry-After": "7200"}),
    "/429": Answer(429, "slowly", headers={"Retry-After": "7200"}),
    "/silent": Answer(None, then="hanging"),
    "/garbage": Answer(None, b"\x00\x01 this is no HTTP\r\n\r\n"),
}
HEADS: dict[str, Answer] = {
    "/head-405.pdf": Answer(405),
    "/head-501": Answer(501),
    "/head-403": Answer(403),
    "/head-404": Answer(404),
    "/head-500": Answer(500),
    "/head-silent": Answer(None, then="hanging"),
    "/head-closed": Answer(None),
    "/head-lies": PAGE_ANSWER,
}
"""Where HEAD is answered otherwise than GET."""


@dataclass(frozen=True)
class Link:
    """`target` is a path of the site, or a whole link with `{port}` and `{closed}` in it."""

    target: str
    what: str
    status: str
    fragment: str | None = None
    code: int | None = None

    def url(self, port: int, closed: int) -> str:
        if self.target.startswith("/"):
            return f"http://127.0.0.1:{port}{self.target}"
        return self.target.format(port=port, closed=closed)


LINKS = (
    Link("/page", "a page", "ok"),
    Link("/a.pdf", "a file", "ok"),
    Link("/gzipped", "a compressed page", "ok"),
    Link("/untyped", "a page without a type", "ok"),
    Link("/empty", "an empty file", "ok"),
    Link("/nothing", "204", "ok"),
    Link("/endless.zip", "a file without end", "ok"),
    Link("/head-405.pdf", "HEAD: 405, GET: 200", "ok"),
    Link("/head-501", "HEAD: 501, GET: 200", "ok"),
    Link("/head-403", "HEAD: 403, GET: 200", "ok"),
    Link("/head-404", "HEAD: 404, GET: 200", "ok"),
    Link("/head-500", "HEAD: 500, GET: 200", "ok"),
    Link("/head-silent", "HEAD: no answer, GET: 200", "ok"),
    Link("/head-closed", "HEAD: closed, GET: 200", "ok"),
    Link("/page#here", "an anchor that is there", "ok", "ok"),
    Link("/page#nope", "an anchor that is not there", "ok", "missing"),
    Link("/page#top", "the top", "ok", "ok"),
    Link("/page#caf%C3%A9", "a percent-encoded anchor", "ok", "ok"),
    Link("/page#a%20b", "an old anchor by name", "ok", "ok"),
    Link("/page#:~:text=herons", "a text fragment", "ok", "unchecked"),
    Link("/page#here:~:text=herons", "an anchor and a text fragment", "ok", "ok"),
    Link("/a.pdf#page=3", "a page of a PDF", "ok", "unchecked"),
    Link("/app#/route/7", "a route of an application", "ok", "unchecked"),
    Link("/long#end", "an anchor at the end of 450 kB", "ok", "ok"),
    Link("/301", "301", "moved"),
    Link("/308", "308", "moved"),
    Link("/301-301", "301, then 301", "moved"),
    Link("/dir", "301 to the same with a slash", "moved"),
    Link("/301#here", "301, the anchor is at the new address", "moved", "ok"),
    Link("/301-anchor", "301 to an anchor that is not there", "moved", "missing"),
    Link("/302", "302", "redirected"),
    Link("/303", "303", "redirected"),
    Link("/307", "307", "redirected"),
    Link("/301-302", "301, then 302", "redirected"),
    Link("/papers/2011/herons", "302 to the home page", "dead"),
    Link("/papers/2012/herons", "301 to the home page", "dead"),
    Link("/to-error", "302 to an error page (200)", "dead"),
    Link("/loop", "a redirect loop", "dead"),
    Link("/nowhere", "302 without a Location", "dead"),
    Link("/404", "404", "dead", code=404),
    Link("/410", "410", "dead", code=410),
    Link("/soft", "“Page not found” with 200", "dead", code=200),
    Link("/head-lies", "HEAD: 200, GET: 404", "dead", code=404),
    Link("/parked", "a domain for sale", "dead", code=200),
    Link("http://no-such-host.invalid/page", "no such host", "dead"),
    Link("http://127.0.0.1:{closed}/page", "connection refused", "dead"),
    Link("http://", "not a URL", "dead"),
    Link("/to-login", "302 to a login", "blocked"),
    Link("/members", "a login with 200", "blocked", code=200),
    Link("/captcha", "a captcha with 200", "blocked", code=200),
    Link("/challenge", "a captcha with 403", "blocked", code=403),
    Link("/401", "401", "blocked", code=401),
    Link("/403", "403", "blocked", code=403),
    Link("/451", "451", "blocked", code=451),
    Link("/private/page", "robots.txt forbids it", "blocked"),
    Link("/500", "500", "unsure", code=500),
    Link("http://127.0.0.2:{port}/503", "503 with Retry-After", "unsure", code=503),
    Link("http://127.0.0.3:{port}/429", "429 with Retry-After", "unsure", code=429),
    Link("/silent", "no answer", "unsure"),
    Link("/garbage", "an answer that is not HTTP", "unsure"),
)


class Site:
    """Serves GETS and HEADS on 127.0.0.1, and counts what it was asked for and what it sent.

    `requests`: method and target of each request; `sent`: bytes by target without its query, heads included.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.sent: dict[str, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Site:
        self._servers = [await asyncio.start_server(self._serve, "127.0.0.1", 0)]
        self.port: int = self._servers[0].sockets[0].getsockname()[1]
        for host in ("127.0.0.2", "127.0.0.3"):  # those that ask a client to wait
            self._servers.append(await asyncio.start_server(self._serve, host, self.port))
        unused = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
        self.closed: int = unused.sockets[0].getsockname()[1]
        """A port at which nothing listens."""
        unused.close()
        await unused.wait_closed()
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def urls(self) -> list[str]:
        return [link.url(self.port, self.closed) for link in LINKS]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        method, target, _ = head.partition("\r\n")[0].split(" ", 2)
        self.requests.append((method, target))
        path = target.partition("?")[0]
        answer = GETS.get(path, Answer(404))
        if method == "HEAD":
            answer = HEADS.get(path, answer)
        body = answer.body.encode() if isinstance(answer.body, str) else answer.body
        if answer.status is None:
            writer.write(body)
            if answer.then == "hanging":
                await reader.read()
            return False
        lines = [f"HTTP/1.1 {answer.status} Answer"]
        if answer.then != "forever" and answer.status != 204:
            lines.append(f"Content-Length: {len(body)}")
        if answer.kind is not None:
            lines.append(f"Content-Type: {answer.kind}")
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        content = ("\r\n".join(lines) + "\r\n\r\n").encode() + (b"" if method == "HEAD" else body)
        writer.write(content)
        self.sent[path] = self.sent.get(path, 0) + len(content)
        await writer.drain()
        if answer.then == "forever" and method != "HEAD":
            while True:
                writer.write(b"PK" * 8192)
                await writer.drain()
                self.sent[path] += 16384
        return answer.then != "forever" or method == "HEAD"


__all__ = ["GETS", "HEADS", "LINKS", "Answer", "Link", "Site"]
