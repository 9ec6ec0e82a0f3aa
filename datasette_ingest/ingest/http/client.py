"""Client.get(url) -> Response: one request, from the host's queue to the last byte."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from ..errors import ConnectError, IngestError, ReadTimeout
from ..policy import Policy
from ..settings import CrawlSettings
from ..urls import UrlParts, mask, split
from .body import Body, BodyWriter, Spool
from .connection import RECEIVE_BYTES, Answer, Connection, StaleConnection, basic_credentials
from .decode import Decoder
from .dial import Dialer, Resolve
from .hosts import HostGate, Hosts, Slots
from .wire import Head

KEEP_ALIVE = 15.0
"""Seconds that an idle connection is kept; common servers close theirs after 5 to 75."""
SLOW_AFTER = 1.0
"""A request that takes longer, in seconds, gives its global slot to others and goes on without one."""
SLOW_FACTOR = 4
"""How many such requests there may be, as a multiple of `concurrency`; beyond, slow ones keep their slots."""

MakeWriter = Callable[[Head], BodyWriter]
"""What takes the body of an answer with this head."""

ACCEPT = b"application/pdf,text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
"""What is wanted in general."""

_GZIP_FILES = (b"application/gzip", b"application/x-gzip", b"application/x-tgz", b"application/x-compressed-tar")


@dataclass
class Response:
    """One answer. `body` is there for 2xx only; whoever gets it closes it."""

    url: str
    head: Head
    body: Body | None
    ends_with_connection: bool
    received: datetime

    @property
    def status(self) -> int:
        return self.head.status

    @property
    def content_type(self) -> str:
        """The Content-Type header as text, for its charset; never for the type."""
        return (self.head.get(b"content-type") or b"").decode("latin-1")


class Client:
    """All connections of one crawler. Belongs to one event loop, from its first request on."""

    def __init__(
        self,
        settings: CrawlSettings,
        policy: Policy,
        *,
        clock: Callable[[], datetime],
        resolve: Resolve | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._dialer = Dialer(
            policy,
            timeout=settings.timeout,
            insecure_hosts=settings.insecure_hosts,
            proxy=settings.proxy,
            resolve=resolve,
        )
        self._slots = Slots(settings.concurrency)
        self._spool = Spool(settings.spool_dir, settings.max_spool_bytes)
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))
        self._open: set[Connection] = set()
        self._idle: dict[str, list[Connection]] = {}
        self._by_age: dict[Connection, str] = {}
        """The same connections and their origins, longest idle first; no more than could be at work together."""
        self._all_closed: asyncio.Future[None] | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._slow = 0
        self._fixed_headers = (
            b"User-Agent: " + settings.full_user_agent.encode("latin-1", "replace") + b"\r\n"
            b"Accept-Encoding: gzip, deflate\r\n"
        )
        self.hosts = Hosts(limit=settings.per_host_concurrency, delay=settings.per_host_delay, on_change=on_change)
        self.under_way = 0
        """Requests that were begun and are not over, those in a host's queue included."""

    async def get(
        self,
        href: str,
        *,
        cookies: bytes | None = None,
        max_bytes: int | None = None,
        paced: bool = True,
        goes_on: bool = False,
        keep_gzip: bool = False,
        accept: str = "",
    ) -> Response:
        """Ask for a URL once, without following anything. Raises IngestError with the URL in its message.

        `goes_on`: for a row that was begun, so before rows that wait for their first answer. `keep_gzip`: a body that
        begins as gzip and is not labelled so is meant to be a .gz file, whatever its type is said to be. `accept`: what
        the answer should be, if not what is wanted in general.
        """
        gate = self.hosts.gate(split(href).host)
        self.under_way += 1
        try:
            await gate.enter(paced=paced, goes_on=goes_on)
            latency = None
            try:
                writer = partial(
                    self._writer, max_bytes=max_bytes or self._settings.max_body_bytes, keep_gzip=keep_gzip
                )
                answer = await self._in_slot(
                    gate, href, self._request_bytes(split(href), cookies, accept), writer, goes_on
                )
                latency = answer.latency
            except (ConnectError, ReadTimeout):
                gate.strain()
                raise
            finally:
                gate.leave(latency=latency)
        except IngestError as error:
            error.locate(mask(href))
            raise
        finally:
            self.under_way -= 1
        return Response(href, answer.head, answer.body, answer.ends_with_connection, self._clock())

    async def aclose(self) -> None:
        """Close every connection, idle or not."""
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        self._dialer.close()
        self._idle.clear()
        self._by_age.clear()
        for connection in list(self._open):
            connection.abort()
        # Transports report their end on a later turn of the loop.
        if self._open:
            self._all_closed = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._all_closed], timeout=1.0)

    @property
    def spooled(self) -> int:
        """Bytes of disk in use."""
        return self._spool.used

    @property
    def open_connections(self) -> int:
        return len(self._open)

    # One request

    async def _in_slot(self, gate: HostGate, href: str, data: bytes, writer: MakeWriter, goes_on: bool) -> Answer:
        """Ask while holding a global slot, but not for longer than SLOW_AFTER: who waits needs no share of the work."""
        loop = asyncio.get_running_loop()
        token = await self._slots.acquire(goes_on=goes_on)
        slow = False

        def give_slot_away() -> None:
            nonlocal slow
            if self._slow < SLOW_FACTOR * self._settings.concurrency:
                slow = True
                self._slow += 1
                gate.slow += 1
                token.release()

        # The other requests to a host that keeps one waiting are likely to wait as well.
        timer = loop.call_later(0.0 if gate.slow else SLOW_AFTER, give_slot_away)
        try:
            return await self._exchange(href, data, writer, loop.time() + self._settings.deadline)
        finally:
            timer.cancel()
            token.release()
            if slow:
                self._slow -= 1
                gate.slow -= 1

    async def _exchange(self, href: str, data: bytes, writer: MakeWriter, deadline: float) -> Answer:
        parts = split(href)
        seen: list[Head] = []

        def take_head(head: Head) -> BodyWriter | None:
            seen.append(head)
            if not 200 <= head.status < 300:
                return None
            return writer(head)

        try:
            connection = self._take_idle(parts.origin)
            if connection is not None:
                try:
                    return await self._send(connection, data, take_head, parts, deadline)
                except StaleConnection:
                    # Its neighbours are as old; a new connection is the surer second try.
                    self._drop_idle(parts.origin)
            connection = await self._dialer.connect(href, self._make_connection, deadline=deadline)
            return await self._send(connection, data, take_head, parts, deadline)
        except StaleConnection as error:
            raise ConnectError("the server closed the connection without an answer") from error
        except IngestError as error:
            if seen:
                error.status_code = seen[-1].status
            raise

    async def _send(
        self,
        connection: Connection,
        data: bytes,
        take_head: Callable[[Head], BodyWriter | None],
        parts: UrlParts,
        deadline: float,
    ) -> Answer:
        answer = await connection.request(data, take_head, timeout=self._settings.timeout, deadline=deadline)
        self._keep(connection, parts.origin)
        return answer

    def _request_bytes(self, parts: UrlParts, cookies: bytes | None, accept: str) -> bytes:
        target = parts.target
        lines = [b"Accept: " + (accept.encode("ascii") if accept else ACCEPT)]
        if self._dialer.proxied and parts.scheme == "http":
            target = parts.origin + parts.target
            credentials = self._dialer.proxy_credentials
            if credentials is not None:
                lines.append(b"Proxy-Authorization: " + credentials)
        credentials = basic_credentials(parts)
        if credentials is not None:
            lines.append(b"Authorization: " + credentials)
        if cookies is not None:
            lines.append(b"Cookie: " + cookies)
        first = f"GET {target} HTTP/1.1\r\nHost: {parts.authority}\r\n".encode("ascii")
        return first + self._fixed_headers + b"".join(line + b"\r\n" for line in lines) + b"\r\n"

    def _writer(self, head: Head, *, max_bytes: int, keep_gzip: bool) -> BodyWriter:
        encodings = [token.decode("latin-1") for token in head.tokens(b"content-encoding")]
        encodings += [token.decode() for token in head.tokens(b"transfer-encoding") if token != b"chunked"]
        content_type = (head.get(b"content-type") or b"").partition(b";")[0].strip().lower()
        length = head.get(b"content-length") if not head.tokens(b"transfer-encoding") else None
        expected = int(length) if length is not None and length.isdigit() and len(length) < 19 else None
        return BodyWriter(
            Decoder(encodings, keep_gzip=keep_gzip or content_type in _GZIP_FILES),
            self._spool,
            max_bytes=max_bytes,
            expected=expected,
            what="the body",
        )

    # Connections that wait for another request

    def _make_connection(self) -> Connection:
        return Connection(self._open.add, self._forget, self._buffer)

    def _forget(self, connection: Connection) -> None:
        self._open.discard(connection)
        if not self._open and self._all_closed is not None and not self._all_closed.done():
            self._all_closed.set_result(None)

    def _take_idle(self, origin: str) -> Connection | None:
        kept = self._idle.get(origin)
        while kept:
            connection = kept.pop()
            del self._by_age[connection]
            if not connection.closed:
                return connection
        self._idle.pop(origin, None)
        return None

    def _drop_idle(self, origin: str) -> None:
        for connection in self._idle.pop(origin, []):
            del self._by_age[connection]
            connection.abort()

    def _keep(self, connection: Connection, origin: str) -> None:
        loop = asyncio.get_running_loop()
        if not connection.reusable:
            connection.abort()
            return
        connection.idle_since = loop.time()
        self._idle.setdefault(origin, []).append(connection)
        self._by_age[connection] = origin
        if len(self._by_age) > self._settings.concurrency:
            self._drop(*next(iter(self._by_age.items())))
        if self._sweeper is None:
            self._sweeper = loop.call_later(KEEP_ALIVE, self._sweep)

    def _drop(self, connection: Connection, origin: str) -> None:
        del self._by_age[connection]
        self._idle[origin].remove(connection)
        if not self._idle[origin]:
            del self._idle[origin]
        connection.abort()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweeper = None
        oldest = loop.time() - KEEP_ALIVE
        for connection, origin in list(self._by_age.items()):
            if connection.closed or connection.idle_since <= oldest:
                self._drop(connection, origin)
        if self._by_age:
            self._sweeper = loop.call_later(KEEP_ALIVE, self._sweep)
