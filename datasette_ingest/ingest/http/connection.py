"""One socket: sends a request, feeds what comes back to the parser and the body's writer, watches the clock."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from ..errors import ConnectError, IngestError, ReadTimeout, TruncatedBody
from ..urls import UrlParts
from .body import Body, BodyWriter
from .parser import Head, ResponseParser


class StaleConnection(Exception):
    """A kept connection was closed by the server before it could take another request: ask again on a new one."""


@dataclass
class Answer:
    """What one request brought. `body` is None where it was not wanted."""

    head: Head
    body: Body | None
    ends_with_connection: bool
    latency: float
    """Seconds from the request to the answer's first byte."""


RECEIVE_BYTES = 256 * 1024
"""Most that is read off a socket at once."""


class Connection(asyncio.BufferedProtocol):
    """Carries one request at a time. Mutable; lives as long as its socket.

    What arrives is read into `buffer` and taken out of it before anything else is read, so that all connections of a
    loop may share one: each would otherwise allocate the most that may come for every read of a few kilobytes.
    """

    def __init__(
        self,
        on_made: Callable[[Connection], None],
        on_lost: Callable[[Connection], None],
        buffer: memoryview | None = None,
    ) -> None:
        self._buffer = memoryview(bytearray(RECEIVE_BYTES)) if buffer is None else buffer
        self._on_made = on_made
        self._on_lost = on_lost
        self._transport: asyncio.Transport | None = None
        self._parser: ResponseParser | None = None
        self._take_head: Callable[[Head], BodyWriter | None] | None = None
        self._writer: BodyWriter | None = None
        self._waiter: asyncio.Future[bool] | None = None
        self._error: BaseException | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timeout = 0.0
        self._deadline = 0.0
        self._started = 0.0
        self._last_read = 0.0
        self._first_read: float | None = None
        self._paused = False
        self._early: list[bytes] = []
        self._lost_early = False
        self._lost_with: Exception | None = None
        self._used = False
        self._done = False
        self.closed = False
        self.idle_since = 0.0

    # What the client calls

    async def request(
        self,
        data: bytes,
        take_head: Callable[[Head], BodyWriter | None],
        *,
        timeout: float,
        deadline: float,
    ) -> Answer:
        """Send a request and wait for all of its answer.

        `take_head` says what to do with the body: a writer, or None for "not wanted". `timeout` is the longest
        silence in seconds, `deadline` a time of the loop's clock. Raises the IngestErrors of the wire and of the
        writer, ReadTimeout, ConnectError, or StaleConnection. After anything but an Answer the connection is dead.
        """
        loop = asyncio.get_running_loop()
        transport = self._transport
        if self.closed or transport is None:
            raise StaleConnection
        self._begin(loop, take_head, timeout, deadline)
        reused, self._used = self._used, True
        transport.write(data)
        finished = False
        try:
            while not await self._next_event(loop):
                await self._drain(loop)
            answer = await self._answer()
            finished = True
            return answer
        except ConnectError as error:
            if reused and self._first_read is None:
                raise StaleConnection from error
            raise
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if not finished:
                if self._writer is not None:
                    self._writer.abandon()
                self.abort()
            # What was kept would hold the body, or the error's traceback, as long as the connection lives.
            self._writer = self._take_head = self._error = None

    async def tunnel(self, parts: UrlParts, credentials: bytes | None, *, timeout: float, deadline: float) -> None:
        """Ask a proxy for a way through to a host. Raises ConnectError if it refuses."""
        authority = (f"[{parts.host}]" if ":" in parts.host else parts.host) + f":{parts.port}"
        lines = [f"CONNECT {authority} HTTP/1.1".encode(), b"Host: " + authority.encode()]
        if credentials is not None:
            lines.append(b"Proxy-Authorization: " + credentials)
        answer = await self.request(
            b"\r\n".join(lines) + b"\r\n\r\n", lambda head: None, timeout=timeout, deadline=deadline
        )
        if not 200 <= answer.head.status < 300:
            raise ConnectError(f"the proxy refuses a connection to {authority}: {answer.head.status}")
        self._used = False

    async def start_tls(self, context: ssl.SSLContext, host: str, *, timeout: float) -> None:
        assert self._transport is not None
        self._transport = await asyncio.get_running_loop().start_tls(
            self._transport, self, context, server_hostname=host, ssl_handshake_timeout=timeout
        )

    @property
    def reusable(self) -> bool:
        return not self.closed and self._parser is not None and self._parser.reusable

    def abort(self) -> None:
        """Close at once; safe at any time."""
        self.closed = True
        if self._transport is not None:
            self._transport.abort()

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self.closed:
            transport.abort()
        self._on_made(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._take(bytes(self._buffer[:nbytes]))

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._transport is not None:
            # A TLS transport of Python 3.10 does not know by itself that its connection is over.
            self._transport.close()
        self._on_lost(self)
        if self._paused:
            self._lost_with = exc
            self._lost_early = True
        else:
            self._end_of_stream(exc)

    # Inside

    def _take(self, data: bytes) -> None:
        if not self._receiving:
            # Nobody asked: whatever it is, it would be taken for the next answer.
            self.abort()
            return
        if self._paused:
            self._early.append(data)
            return
        now = asyncio.get_running_loop().time()
        self._last_read = now
        if self._first_read is None:
            self._first_read = now
        assert self._parser is not None
        try:
            self._consume(self._parser, data)
        except IngestError as error:
            self._fail(error)
            return
        if self._parser.complete:
            self._finish()
        elif self._writer is not None and self._writer.backlogged:
            self._pause()

    def _begin(
        self,
        loop: asyncio.AbstractEventLoop,
        take_head: Callable[[Head], BodyWriter | None],
        timeout: float,
        deadline: float,
    ) -> None:
        self._parser = ResponseParser()
        self._take_head = take_head
        self._writer = None
        self._error = None
        self._done = False
        self._timeout, self._deadline = timeout, deadline
        self._started = self._last_read = loop.time()
        self._first_read = None
        self._timer = loop.call_at(min(deadline, self._started + timeout), self._tick)

    def _end_of_stream(self, exc: Exception | None) -> None:
        if not self._receiving or self._parser is None:
            return
        if self._first_read is None:
            self._fail(ConnectError("the server closed the connection without an answer"))
            return
        if exc is not None and self._parser.ends_with_connection:
            self._fail(TruncatedBody("the connection broke before the end of the body"))
            return
        try:
            self._parser.eof()
        except IngestError as error:
            self._fail(error)
        else:
            self._finish()

    @property
    def _receiving(self) -> bool:
        return self._take_head is not None and not self._done and self._error is None

    def _consume(self, parser: ResponseParser, data: bytes) -> None:
        had_head = parser.head is not None
        pieces = parser.feed(data)
        if parser.head is None:
            return
        if not had_head:
            assert self._take_head is not None
            self._writer = self._take_head(parser.head)
        if self._writer is None:
            # The body is not wanted. What came with the head is swallowed, what did not costs the connection.
            self._finish()
            return
        for piece in pieces:
            self._writer.take(piece)

    async def _next_event(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Wait until the answer is complete (true) or the writer wants to catch up (false)."""
        if self._error is not None:
            raise self._error
        if self._done:
            return True
        if self._paused:
            return False
        self._waiter = loop.create_future()
        try:
            return await self._waiter
        finally:
            self._waiter = None

    async def _drain(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the writer catch up. The clock stands still: it is we who are slow."""
        assert self._writer is not None and self._transport is not None
        before = loop.time()
        await self._writer.drain()
        self._deadline += loop.time() - before
        self._last_read = loop.time()
        self._paused = False
        early, self._early = self._early, []
        for data in early:
            self._take(data)
        if self._lost_early:
            self._end_of_stream(self._lost_with)
        elif not self.closed and not self._paused:
            self._transport.resume_reading()

    async def _answer(self) -> Answer:
        parser, writer = self._parser, self._writer
        assert parser is not None and parser.head is not None and self._first_read is not None
        body = None
        if writer is not None:
            body = await writer.finish()
        return Answer(parser.head, body, parser.ends_with_connection, self._first_read - self._started)

    def _tick(self) -> None:
        now = asyncio.get_running_loop().time()
        if not self._receiving:
            return
        if self._paused:
            self._timer = asyncio.get_running_loop().call_later(0.1, self._tick)
            return
        due = min(self._deadline, self._last_read + self._timeout)
        if now < due:
            self._timer = asyncio.get_running_loop().call_at(due, self._tick)
        elif now >= self._deadline:
            self._fail(ReadTimeout("the answer was not complete when the time for one fetch was over"))
        else:
            self._fail(ReadTimeout(f"the server sent nothing for {self._timeout:g} s"))

    def _pause(self) -> None:
        self._paused = True
        assert self._transport is not None
        self._transport.pause_reading()
        self._wake(False)

    def _finish(self) -> None:
        self._done = True
        self._wake(True)

    def _fail(self, error: BaseException) -> None:
        if not self._receiving:
            return
        self._error = error
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        if self._transport is not None:
            self._transport.abort()

    def _wake(self, done: bool) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(done)


def basic_credentials(parts: UrlParts) -> bytes | None:
    """The value of an Authorization header for a URL's user and password (RFC 7617), or None."""
    if parts.userinfo is None:
        return None
    user, password = (unquote_to_bytes(text) for text in parts.userinfo)
    return b"Basic " + base64.b64encode(user + b":" + password)
