"""A web server for tests that says exactly the bytes it is told to, right or wrong, on any 127.0.0.x."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

PDF = b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog >>\nendobj\ntrailer\n<< /Root 1 0 R >>\nstartxref\n9\n%%EOF\n"
"""Enough of a PDF for every test of content: header, an object, the end mark."""


@dataclass(frozen=True)
class Request:
    """One request as it arrived. Header names in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    raw: bytes
    """Its head, byte for byte."""
    body: bytes


@dataclass(frozen=True)
class Raw:
    """Bytes to send as they are; afterwards the connection is closed, reset, kept open or left hanging."""

    data: bytes
    then: str = "close"


Respond = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]
Handler = Raw | bytes | Respond
"""Bytes are a whole response with a length; the connection stays open. A coroutine writes what it likes, then closes."""


def reply(
    body: bytes = b"",
    *,
    status: str = "200 OK",
    content_type: str | None = "text/html",
    headers: Mapping[str, str | bytes] | None = None,
) -> bytes:
    """A well-formed response."""
    lines = [f"HTTP/1.1 {status}".encode(), b"Content-Length: %d" % len(body)]
    if content_type is not None:
        lines.append(b"Content-Type: " + content_type.encode())
    for name, value in (headers or {}).items():
        lines.append(name.encode() + b": " + (value if isinstance(value, bytes) else value.encode()))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def redirect(location: str | bytes, *, status: str = "302 Found", headers: Mapping[str, str] | None = None) -> bytes:
    return reply(status=status, headers={"Location": location, **(headers or {})})


def html(head: str = "", body: str = "", *, title: str = "A page") -> bytes:
    """A landing page as a response."""
    return reply(f"<!doctype html><html><head><title>{title}</title>{head}</head><body>{body}</body></html>".encode())


def pdf(body: bytes = PDF) -> bytes:
    return reply(body, content_type="application/pdf")


def gzipped(body: bytes) -> bytes:
    """Packed, and to the same bytes each time, since tests are named after them."""
    return gzip.compress(body, mtime=0)


@dataclass
class Origin:
    """`async with Origin({"/p.pdf": pdf()}) as site: site.url("/p.pdf")`. Unknown paths answer 404."""

    handlers: dict[str, Handler] = field(default_factory=dict)
    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    requests: list[Request] = field(default_factory=list)
    connections: int = 0

    async def __aenter__(self) -> Origin:
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = await asyncio.start_server(self._accept, self.host, 0, ssl=self.tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await _a_few_turns()
        self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))
        await _a_few_turns()

    def url(self, path: str = "/") -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}{path}"

    @property
    def network(self) -> str:
        """This origin as a value of allow_networks."""
        return f"{self.host}/32:{self.port}"

    @property
    def targets(self) -> list[str]:
        """What was asked for, robots.txt aside."""
        return [request.target for request in self.requests if request.target != "/robots.txt"]

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        raw = await reader.readuntil(b"\r\n\r\n")
        first, *lines = raw.decode("latin-1").strip().split("\r\n")
        method, target, _ = first.split(" ", 2)
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        request = Request(method, target, headers, raw, body)
        self.requests.append(request)
        handler = self.handlers.get(target) or self.handlers.get(target.partition("?")[0])
        if handler is None:
            handler = reply(b"<h1>Nothing here</h1>", status="404 Not Found")
        if isinstance(handler, bytes):
            writer.write(handler)
            await writer.drain()
            return True
        if isinstance(handler, Raw):
            writer.write(handler.data)
            await writer.drain()
            if handler.then == "hang":
                await asyncio.Event().wait()
            if handler.then == "reset":
                writer.transport.abort()
            return handler.then == "keep"
        await handler(request, writer)
        await writer.drain()
        return False


async def _a_few_turns() -> None:
    """Let the loop finish what it has begun: connections half accepted, transports half closed."""
    for _ in range(5):
        await asyncio.sleep(0)
