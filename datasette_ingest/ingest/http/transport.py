"""HTTP/1.1 as an httpx transport: exact bytes out, raw bytes back, only to addresses that the policy allows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import cached_property

import httpx

from ...masking import mask_url
from ..errors import ConnectError
from ..urls import DEFAULT_PORTS, UrlParts, split
from .connect import Connector
from .connection import RECEIVE_BYTES, Connection, StaleConnection, basic_credentials
from .parser import Head

KEEP_ALIVE = 15.0
"""Seconds that an idle connection is kept; common servers close theirs after 5 to 75."""
_METHODS = ("GET", "HEAD")
_NO_CONTENT = httpx.ByteStream(b"")


class Transport(httpx.AsyncBaseTransport):
    """Sends GET and HEAD requests over HTTP/1.1. Belongs to one event loop, from its first request on.

    The request's extension `target` (bytes) replaces path and query of its URL, byte for byte. The response has the
    headers as received, a stream of the undecoded body, and the extensions `http_version`, `reason_phrase`,
    `ends_with_connection` (bool: nothing but the end of the connection ends the body) and `latency` (seconds from the
    request to the first byte of the response). Errors are raised as IngestErrors.

    `timeout` is the longest silence in seconds; `max_idle` is how many idle connections are kept.
    """

    def __init__(self, connector: Connector, *, timeout: float, max_idle: int) -> None:
        self._connector = connector
        self._timeout = timeout
        self._max_idle = max_idle
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))
        self._open: set[Connection] = set()
        self._idle: dict[str, list[Connection]] = {}
        self._origins: dict[Connection, str] = {}
        """The idle connections and their origins, longest idle first."""
        self._sweeper: asyncio.TimerHandle | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.method not in _METHODS:
            raise httpx.UnsupportedProtocol(f"this transport sends {' and '.join(_METHODS)} only, not {request.method}")
        parts = parts_of(request)
        origin = parts.origin
        data = self._head(request, parts)
        connection, head = await self._send(parts, origin, data, without_body=request.method == "HEAD")
        return httpx.Response(
            head.status,
            headers=head.headers,
            stream=_Stream(self, connection, origin),
            extensions={
                "http_version": b"HTTP/1.0" if head.http10 else b"HTTP/1.1",
                "reason_phrase": head.reason,
                "ends_with_connection": connection.ends_with_connection,
                "latency": connection.latency,
            },
        )

    async def aclose(self) -> None:
        """Close all connections."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self._connector.close()
        self._idle.clear()
        self._origins.clear()
        for connection in list(self._open):
            connection.abort()
        if self._open:
            await asyncio.wait([connection.lost for connection in self._open], timeout=1.0)

    async def close_idle(self) -> None:
        """Close the connections that are kept for later requests."""
        for connection in list(self._origins):
            self._drop(connection)

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def release(self, connection: Connection, origin: str) -> None:
        """Keep a connection whose response is over for the next request, if it can take one."""
        if not connection.release():
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.setdefault(origin, []).append(connection)
        self._origins[connection] = origin
        if len(self._origins) > self._max_idle:
            self._drop(next(iter(self._origins)))
        if self._sweeper is None:
            self._sweeper = loop.call_later(KEEP_ALIVE, self._sweep)

    async def _send(self, parts: UrlParts, origin: str, data: bytes, *, without_body: bool) -> tuple[Connection, Head]:
        connection = self._take_idle(origin)
        if connection is not None:
            try:
                return connection, await connection.send(data, without_body=without_body)
            except StaleConnection:
                # The other idle ones are as old; a new connection is the safer second try.
                for other in self._idle.pop(origin, []):
                    del self._origins[other]
                    other.abort()
        connection = await self._connector.connect(parts, self._make_connection)
        try:
            return connection, await connection.send(data, without_body=without_body)
        except StaleConnection as error:
            raise ConnectError("the server closed the connection without a response") from error

    def _head(self, request: httpx.Request, parts: UrlParts) -> bytes:
        target = parts.target
        headers = request.headers.raw
        if self._connector.proxy is not None and parts.scheme == "http":
            target = parts.origin + target
            credentials = basic_credentials(self._connector.proxy)
            if credentials is not None:
                headers.append((b"Proxy-Authorization", credentials))
        lines = [f"{request.method} {target} HTTP/1.1".encode("ascii")]
        lines += [name + b": " + value for name, value in headers]
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def _make_connection(self) -> Connection:
        return Connection(self._open, self._buffer, self._timeout)

    # Idle connections

    def _take_idle(self, origin: str) -> Connection | None:
        kept = self._idle.get(origin)
        while kept:
            connection = kept.pop()
            del self._origins[connection]
            if not connection.closed:
                return connection
        self._idle.pop(origin, None)
        return None

    def _drop(self, connection: Connection) -> None:
        origin = self._origins.pop(connection)
        self._idle[origin].remove(connection)
        if not self._idle[origin]:
            del self._idle[origin]
        connection.abort()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweeper = None
        oldest = loop.time() - KEEP_ALIVE
        for connection in list(self._origins):
            if connection.closed or connection.idle_since <= oldest:
                self._drop(connection)
        if self._origins:
            self._sweeper = loop.call_later(KEEP_ALIVE, self._sweep)


class _Stream(httpx.AsyncByteStream):
    """A response's undecoded body. Not an async generator: the loop would have to close one that was left early."""

    def __init__(self, transport: Transport, connection: Connection, origin: str) -> None:
        self._transport = transport
        self._connection: Connection | None = connection
        self._origin = origin

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        data = await self._connection.read() if self._connection is not None else b""
        if not data:
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._transport.release(connection, self._origin)


class ExactRequest(httpx.Request):
    """A request for exactly this URL. Parsing it for httpx takes long: that is done when another transport asks."""

    def __init__(
        self, href: str, headers: list[tuple[bytes, bytes]], timeout: dict[str, float], method: str = "GET"
    ) -> None:
        self.method = method
        self.parts = split(href)
        self.headers = httpx.Headers(headers)
        self.stream = _NO_CONTENT
        self.extensions = {"target": self.parts.target.encode("ascii"), "timeout": timeout}
        self._href = href

    def __repr__(self) -> str:
        return f"<ExactRequest {mask_url(self._href)}>"

    @cached_property
    def url(self) -> httpx.URL:  # type: ignore[override]
        return httpx.URL(self._href)


def parts_of(request: httpx.Request) -> UrlParts:
    """Where a request goes; the target is that of its extension, if it has one."""
    if isinstance(request, ExactRequest):
        return request.parts
    url = request.url
    target: bytes = request.extensions.get("target", url.raw_path)
    port = url.port if url.port is not None else DEFAULT_PORTS[url.scheme]
    return UrlParts(url.scheme, url.raw_host.decode("ascii"), port, target.decode("ascii"), None)
