"""One connection to a server: sends a request, parses the response, buffers its body until it is read."""

from __future__ import annotations

import asyncio
import base64
import ssl
from typing import cast
from urllib.parse import unquote_to_bytes

from ..errors import ConnectError, IngestError, ReadTimeout, TruncatedBody
from ..urls import UrlParts
from .parser import Head, ResponseParser, check_start

RECEIVE_BYTES = 256 * 1024
"""Most bytes read from a socket at once."""
CAREFUL_BYTES = 16 * 1024
"""As RECEIVE_BYTES, after a read of more than MANY_PIECES: parsing tiny chunks takes a thousand times as long as plain bytes,
and other connections wait."""
MANY_PIECES = 1000


class StaleConnection(Exception):
    """The server closed a kept connection before it answered: send the request again on a new one."""


class Connection(asyncio.BufferedProtocol):
    """Carries one request at a time. `timeout` is the longest wait for bytes, in seconds.

    `open_connections` is the owner's set, which this connection joins and leaves. All connections of a loop may share
    one `buffer`: received bytes are copied out of it before the loop reads again.
    """

    def __init__(self, open_connections: set[Connection], buffer: memoryview, timeout: float) -> None:
        self._open = open_connections
        self._buffer = buffer
        self._timeout = timeout
        self._transport: asyncio.Transport | None = None
        self._parser: ResponseParser | None = None
        self._pieces: list[bytes] = []
        self._room = RECEIVE_BYTES
        self._paused = False
        self._error: IngestError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._waiting_since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._used = False
        self._sent_at = 0.0
        self.latency: float | None = None
        """Seconds from the request to the first byte of its response."""
        self.closed = False
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once the event loop has let go of the socket."""
        self.idle_since = 0.0

    # For the transport

    async def send(self, request: bytes, *, without_body: bool = False) -> Head:
        """Send a request and return the head of its response.

        Raises ConnectError, ReadTimeout, BadHttp, TruncatedBody or StaleConnection; the connection is then closed.
        """
        if self._error is not None:
            raise self._error.again()
        if self.closed or self._transport is None:
            raise StaleConnection
        self._parser = parser = ResponseParser(without_body=without_body)
        self._sent_at, self.latency = asyncio.get_running_loop().time(), None
        reused, self._used = self._used, True
        self._transport.write(request)
        try:
            while parser.head is None:
                await self._wait()
        except ConnectError as error:
            if reused and self.latency is None:
                raise StaleConnection from error
            raise
        except BaseException:
            self.abort()
            raise
        return parser.head

    async def read(self) -> bytes:
        """The body bytes that have arrived since the last call; b"" at the end of the body. Errors as for `send`."""
        while not self._pieces:
            if self._parser is None or self._parser.complete:
                return b""
            await self._wait()
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        if self._paused and self._transport is not None and not self.closed:
            self._paused = False
            self._transport.resume_reading()
        return data

    @property
    def ends_with_connection(self) -> bool:
        """Whether the end of the connection is the end of the body."""
        return self._parser is not None and self._parser.ends_with_connection

    def release(self) -> bool:
        """Drop what is left of the response. False, and closed, if the connection cannot take another request."""
        reusable = not self.closed and not self._paused and self._parser is not None and self._parser.reusable
        self._pieces.clear()
        self._parser = None
        if not reusable:
            self.abort()
        return reusable

    async def tunnel(self, parts: UrlParts, credentials: bytes | None) -> None:
        """Ask a proxy for a connection to a host. Raises ConnectError if it refuses."""
        authority = (f"[{parts.host}]" if ":" in parts.host else parts.host) + f":{parts.port}"
        lines = [f"CONNECT {authority} HTTP/1.1".encode(), b"Host: " + authority.encode()]
        if credentials is not None:
            lines.append(b"Proxy-Authorization: " + credentials)
        head = await self.send(b"\r\n".join(lines) + b"\r\n\r\n", without_body=True)
        if not 200 <= head.status < 300:
            raise ConnectError(f"the proxy refuses a connection to {authority}: {head.status}")
        self._parser, self._used = None, False

    async def start_tls(self, context: ssl.SSLContext, host: str) -> None:
        assert self._transport is not None
        self._transport = await asyncio.get_running_loop().start_tls(
            self._transport, self, context, server_hostname=host, ssl_handshake_timeout=self._timeout
        )

    def abort(self) -> None:
        """Close at once. May be called at any time."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()

    # For the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are not instances of asyncio.Transport.
        self._transport = cast(asyncio.Transport, transport)
        self._open.add(self)
        if self.closed:
            self._transport.abort()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[: self._room]

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self._buffer[:nbytes])
        parser = self._parser
        if parser is None or parser.complete or self._error is not None:
            # Nothing was asked: the bytes would be taken for the next response.
            if not self._used:
                self._note_first_words(data)
            self.abort()
            return
        if self.latency is None:
            self.latency = asyncio.get_running_loop().time() - self._sent_at
        try:
            pieces = parser.feed(data)
        except IngestError as error:
            self._fail(error)
            return
        self._pieces += pieces
        self._room = CAREFUL_BYTES if len(pieces) * RECEIVE_BYTES > MANY_PIECES * nbytes else RECEIVE_BYTES
        is_much = self._waiter is None or sum(map(len, self._pieces)) > RECEIVE_BYTES
        if is_much and not self._paused and not parser.complete:
            # Whoever reads the body is busy with what came before.
            self._paused = True
            cast(asyncio.Transport, self._transport).pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.abort()  # a TLS transport of Python 3.10 does not close itself
        self._open.discard(self)
        if not self.lost.done():
            self.lost.set_result(None)
        parser = self._parser
        if parser is None or parser.complete or self._error is not None:
            return
        if self.latency is None:
            self._fail(ConnectError("the server closed the connection without a response"))
        elif exc is not None and parser.ends_with_connection:
            self._fail(TruncatedBody("the connection broke before the end of the body"))
        else:
            try:
                parser.eof()
            except IngestError as error:
                self._fail(error)
            else:
                self._wake()

    def _note_first_words(self, data: bytes) -> None:
        """Remember what a server is that speaks first, as those of HTTP/2, SSH and mail do."""
        try:
            check_start(data)
        except IngestError as error:
            self._error = error

    # Waiting

    async def _wait(self) -> None:
        """Wait for bytes, or for the end of the connection. Raises the error that ended the response."""
        if self._error is not None:
            raise self._error.again()
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        self._waiting_since = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(self._timeout, self._check_silence)
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _check_silence(self) -> None:
        self._timer = None
        if self._waiter is None:
            return
        loop = asyncio.get_running_loop()
        due = self._waiting_since + self._timeout
        if loop.time() < due:
            self._timer = loop.call_at(due, self._check_silence)
        else:
            self._fail(ReadTimeout(f"the server sent nothing for {self._timeout:g} s"))

    def _fail(self, error: IngestError) -> None:
        self._error = error
        self.abort()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def basic_credentials(parts: UrlParts) -> bytes | None:
    """The value of an Authorization header for a URL's user and password (RFC 7617), or None."""
    if parts.userinfo is None:
        return None
    user, password = (unquote_to_bytes(text) for text in parts.userinfo)
    return b"Basic " + base64.b64encode(user + b":" + password)
