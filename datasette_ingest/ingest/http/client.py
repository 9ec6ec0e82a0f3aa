"""Client.get(url) -> Response: one request, from the host's queue to the decoded body."""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

import httpx

from ..errors import (
    BadEncoding,
    BadGzipEncoding,
    BadHttp,
    BodyTooLarge,
    ConnectError,
    EmptyBlob,
    IngestError,
    InvalidUrl,
    RateLimited,
    ReadTimeout,
    TruncatedBody,
)
from ..policy import Policy
from ..settings import CrawlSettings
from ..urls import mask, split
from .body import Body, BodyWriter, Spool
from .connect import Connector, Resolve
from .connection import basic_credentials
from .cookies import read_public_suffixes
from .decode import OFFERED, Decoder
from .parser import Head
from .politeness import LONGEST_BACK_OFF, HostLimiter, Hosts, PrioritySemaphore
from .redirects import is_redirect
from .retry_after import retry_after
from .transport import ExactRequest, Transport

AnyTransport: TypeAlias = httpx.AsyncBaseTransport
"""What requests are sent through: ours, `httpx.MockTransport`, or that of another plugin."""

SLOW_AFTER = 1.0
"""A request that takes longer, in seconds, gives its global slot to others and goes on without one."""
SLOW_FACTOR = 4
"""How many such requests there may be, as a multiple of `concurrency`; beyond, slow ones keep their slots."""

LOOK_BYTES = 16 * 1024
"""After so many more bytes of a body it is asked whether they are enough."""

ACCEPT = b"application/pdf,text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
"""The Accept header of a request that does not give one."""

_GZIP_FILES = (b"application/gzip", b"application/x-gzip", b"application/x-tgz", b"application/x-compressed-tar")


class _Headed:
    """What the head of a response says."""

    head: Head

    @property
    def status(self) -> int:
        return self.head.status

    @property
    def content_type(self) -> str:
        """The Content-Type header as text, for its charset; never for the type."""
        return (self.head.get(b"content-type") or b"").decode("latin-1")


@dataclass
class Response(_Headed):
    """A server's response to one request. `body` is there for 2xx only; whoever gets it closes it."""

    url: str
    head: Head
    body: Body | None
    ends_with_connection: bool
    """Whether nothing but the end of the connection said that the body was complete."""
    latency: float
    """Seconds from the request to the first byte of the response."""
    received: datetime


@dataclass(frozen=True)
class Look(_Headed):
    """The head of a server's response to one request, and the beginning of its body, decoded."""

    url: str
    head: Head
    data: bytes
    is_whole: bool
    """Whether that is all of the body."""
    latency: float
    received: datetime


_Answer = TypeVar("_Answer", Response, Look)


@dataclass(frozen=True, slots=True)
class _Take:
    """How a body is taken; see `Client.get`."""

    max_bytes: int
    keep_gzip: bool
    any_status: bool
    lenient: bool
    cut: bool


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request whose answer has begun."""

    head: Head
    stream: httpx.AsyncByteStream
    deadline: _Deadline
    extensions: Mapping[str, Any]
    """What the transport says of the answer. Complete when the body was read."""
    latency: float

    @property
    def first_byte(self) -> float:
        """Seconds from the request to the first byte of the answer, as the transport says, or as they were seen here."""
        return float(self.extensions.get("latency", self.latency))


class Client:
    """Asks servers for URLs: paced for each host, limited in bytes and time. Belongs to one event loop.

    `transport` sends the requests; without one, our own does, to addresses that the policy allows. It gets requests
    with the extensions `timeout` (as in httpx) and `target`, must not follow redirects, and is closed with the client.
    `spool` is the disk space for large bodies, `offered` the Accept-Encoding header.
    """

    def __init__(
        self,
        settings: CrawlSettings,
        policy: Policy,
        *,
        hosts: Hosts,
        clock: Callable[[], datetime],
        resolve: Resolve | None = None,
        transport: AnyTransport | None = None,
        spool: Spool | None = None,
        offered: bytes = OFFERED,
    ) -> None:
        read_public_suffixes()
        self._settings = settings
        self._clock = clock
        self._transport = transport or _own_transport(settings, policy, resolve)
        self._slots = PrioritySemaphore(settings.concurrency)
        self.spool = spool or Spool(settings.spool_dir, settings.max_spool_bytes)
        self._slow = 0
        self._fixed_headers = [
            (b"User-Agent", settings.full_user_agent.encode("latin-1", "replace")),
            (b"Accept-Encoding", offered),
        ]
        self._timeouts = dict.fromkeys(("connect", "read", "write"), settings.timeout)
        self.hosts = hosts
        self.under_way = 0
        """Requests that were begun and are not over, those in a host's queue included."""

    async def get(
        self,
        href: str,
        *,
        cookies: bytes | None = None,
        max_bytes: int | None = None,
        priority: bool = False,
        patience: float | None = None,
        keep_gzip: bool = False,
        accept: str = "",
        any_status: bool = False,
        lenient: bool = False,
        cut: bool = False,
    ) -> Response:
        """Ask for a URL once, without following redirects. Raises IngestError with the URL in its message.

        `max_bytes`: limit of the body, before and after decoding; else the setting's. `priority`: the row has had a
        response before, so this request comes before those of rows that have not. `patience`: seconds that it may wait
        for the host's turn; PutOff is raised when that is further away. `keep_gzip`: a body that begins as gzip and is
        not labelled so is a .gz file, whatever its declared type. `accept`: the Accept header. `any_status`: take the
        body whatever the status. `lenient`: take an archive's labels of encodings, and its copies of them, as hints only.
        `cut`: of a body beyond the limit take the first bytes, and leave the rest unread.
        """
        take = _Take(max_bytes or self._settings.max_body_bytes, keep_gzip, any_status, lenient, cut)

        async def exchange() -> Response:
            return await self._exchange(href, self._request(href, cookies, accept), take)

        return await self._in_turn(href, exchange, priority=priority, patience=patience)

    async def look(
        self,
        href: str,
        *,
        most: int | None,
        cookies: bytes | None = None,
        accept: str = "",
        priority: bool = False,
        patience: float | None = None,
        enough: Callable[[Head, bytes], bool] = lambda head, data: False,
    ) -> Look:
        """Ask for a URL once, as `get` does, and take no more of its body than is needed.

        The connection is closed where a body was left off. A body that cannot be decoded ends where that shows.

        :param most: bytes of the body that are asked for, and the limit after decoding; None asks for the head alone
            (HEAD)
        :param enough: asked with the head, and what has come of the body so far, whether that will do
        :raises IngestError: as `get`, but for what only a whole body shows
        """
        method, more = ("HEAD", []) if most is None else ("GET", [(b"Range", b"bytes=0-%d" % (most - 1))])

        async def exchange() -> Look:
            request = self._request(href, cookies, accept, method=method, more=more)
            return await self._look(href, request, most or 0, enough)

        return await self._in_turn(href, exchange, priority=priority, patience=patience)

    async def _in_turn(
        self, href: str, exchange: Callable[[], Awaitable[_Answer]], *, priority: bool, patience: float | None
    ) -> _Answer:
        """One exchange with the URL's host, in its turn and in a global slot."""
        limiter = self.hosts.limiter(split(href).host)
        self.under_way += 1
        try:
            await limiter.enter(priority=priority, patience=patience)
            latency = None
            try:
                response = await self._in_slot(limiter, priority, exchange)
                latency = response.latency
            except (ConnectError, ReadTimeout):
                limiter.penalise()
                raise
            finally:
                limiter.leave(latency=latency)
        except IngestError as error:
            error.locate(mask(href))
            raise
        finally:
            self.under_way -= 1
        return response

    def backs_off(self, response: Response | Look, *, is_last: bool, unsaid: float | None = None) -> bool:
        """Send the host no request for as long as its response asks for. Whether the request is to be sent again then.

        :param is_last: it has been sent again often enough
        :param unsaid: seconds for a 429 that does not say how long
        :raises RateLimited: when it is not to be sent again, although the response asks for that
        """
        host = split(response.url).host
        wait = retry_after(response.head.get(b"retry-after"), now=self._clock())
        is_refusal = response.status in (429, 503)
        if wait is None and response.status == 429:
            wait = unsaid
        if is_refusal and wait is None:
            self.hosts.limiter(host).penalise()
        if wait is None or not (is_refusal or is_redirect(response.head)):
            return False
        self.hosts.back_off(host, min(wait, LONGEST_BACK_OFF))
        if is_refusal and (is_last or wait > LONGEST_BACK_OFF):
            raise RateLimited(
                f"{mask(response.url)} answers {response.status} and asks us to wait {wait:.0f} s",
                status_code=response.status,
                retry_after=wait,
            )
        return is_refusal

    async def aclose(self) -> None:
        """Close the transport and its connections."""
        await self._transport.aclose()

    async def close_idle(self) -> None:
        """Close connections that are kept for later requests, if the transport keeps any."""
        close = getattr(self._transport, "close_idle", None)
        if close is not None:
            await close()

    @property
    def spooled(self) -> int:
        """Bytes of disk in use."""
        return self.spool.used

    @property
    def open_connections(self) -> int:
        """Open sockets; 0 for a transport that does not tell."""
        return int(getattr(self._transport, "open_connections", 0))

    # One request

    def _request(
        self,
        href: str,
        cookies: bytes | None,
        accept: str,
        *,
        method: str = "GET",
        more: Sequence[tuple[bytes, bytes]] = (),
    ) -> httpx.Request:
        parts = split(href)
        headers = [
            (b"Host", parts.authority.encode("ascii")),
            *self._fixed_headers,
            *more,
            (b"Accept", accept.encode("ascii") if accept else ACCEPT),
        ]
        credentials = basic_credentials(parts)
        if credentials is not None:
            headers.append((b"Authorization", credentials))
        if cookies is not None:
            headers.append((b"Cookie", cookies))
        return ExactRequest(href, headers, self._timeouts, method)

    async def _in_slot(
        self, limiter: HostLimiter, priority: bool, exchange: Callable[[], Awaitable[_Answer]]
    ) -> _Answer:
        """Do the exchange in a global slot, but hold the slot no longer than SLOW_AFTER: waiting takes no CPU time."""
        loop = asyncio.get_running_loop()
        token = await self._slots.acquire(priority=priority)
        slow = False

        def give_slot_away() -> None:
            nonlocal slow
            if self._slow < SLOW_FACTOR * self._settings.concurrency:
                slow = True
                self._slow += 1
                limiter.slow += 1
                token.release()

        # While a request to this host is slow, the others are likely to be slow as well.
        timer = loop.call_later(0.0 if limiter.slow else SLOW_AFTER, give_slot_away)
        try:
            return await exchange()
        finally:
            timer.cancel()
            token.release()
            if slow:
                self._slow -= 1
                limiter.slow -= 1

    @contextlib.asynccontextmanager
    async def _sent(self, request: httpx.Request) -> AsyncIterator[_Sent]:
        """The head of the answer to a request. The body is read within the block, in the time that is left, and closed
        with it."""
        started = asyncio.get_running_loop().time()
        head = None
        try:
            with _Deadline(self._settings.deadline) as deadline:
                response = await self._transport.handle_async_request(request)
                latency = asyncio.get_running_loop().time() - started
                head = Head(response.status_code, response.headers.raw)
                stream = response.stream
                assert isinstance(stream, httpx.AsyncByteStream)
                try:
                    yield _Sent(head, stream, deadline, response.extensions, latency)
                finally:
                    await stream.aclose()
        except IngestError as error:
            if head is not None:
                error.status_code = head.status
            raise
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise _outcome(error, head) from error

    async def _exchange(self, href: str, request: httpx.Request, take: _Take) -> Response:
        body = None
        async with self._sent(request) as sent:
            head = sent.head
            if 200 <= head.status < 300:
                body = await self._receive(sent.stream, self._writer(head, take), sent.deadline)
            elif take.any_status:
                with contextlib.suppress(EmptyBlob):
                    body = await self._receive(sent.stream, self._writer(head, take), sent.deadline)
        ends_with_connection = bool(sent.extensions.get("ends_with_connection"))
        return Response(href, head, body, ends_with_connection, sent.first_byte, self._clock())

    async def _look(self, href: str, request: httpx.Request, most: int, enough: Callable[[Head, bytes], bool]) -> Look:
        data, is_whole = b"", not most
        async with self._sent(request) as sent:
            head = sent.head
            if most and 200 <= head.status < 300 and not enough(head, b""):
                data, is_whole = await _beginning(sent.stream, head, most, enough)
        return Look(href, head, data, is_whole, sent.first_byte, self._clock())

    async def _receive(self, stream: httpx.AsyncByteStream, writer: BodyWriter, deadline: _Deadline) -> Body:
        try:
            async for piece in stream:
                writer.take(piece)
                if writer.full:
                    break
                if writer.backlogged:
                    # The deadline is the server's: the time that our own disk takes does not count.
                    deadline.stop()
                    await writer.drain()
                    deadline.start()
            deadline.stop()
            return await writer.finish()
        finally:
            writer.abandon()

    def _writer(self, head: Head, take: _Take) -> BodyWriter:
        codings = head.tokens(b"transfer-encoding")
        labels = head.tokens(b"content-encoding")
        if take.lenient:
            labels = labels or head.tokens(b"x-archive-orig-content-encoding")
        encodings = labels + [coding for coding in codings if coding != b"chunked"]
        content_type = (head.get(b"content-type") or b"").partition(b";")[0].strip().lower()
        length = head.get(b"content-length") if not codings else None
        expected = int(length) if length is not None and length.isdigit() and len(length) < 19 else None
        decoder = Decoder(
            [name.decode("latin-1") for name in encodings],
            keep_gzip=take.keep_gzip or content_type in _GZIP_FILES,
            lenient=take.lenient,
        )
        return BodyWriter(decoder, self.spool, max_bytes=take.max_bytes, expected=expected, cut=take.cut)


async def _beginning(
    stream: httpx.AsyncByteStream, head: Head, most: int, enough: Callable[[Head, bytes], bool]
) -> tuple[bytes, bool]:
    """(The first `most` bytes of a body, or fewer if they are enough; whether that is all of it)."""
    data = bytearray()
    with contextlib.suppress(BadEncoding, BadGzipEncoding, BodyTooLarge, TruncatedBody):
        decoder = Decoder([label.decode("latin-1") for label in head.tokens(b"content-encoding")], lenient=True)
        received = 0
        async for piece in stream:
            received += len(piece)
            decoder.feed(piece)
            while len(data) < most and (decoded := decoder.read(min(LOOK_BYTES, most - len(data)))):
                data += decoded
                if enough(head, bytes(data)):
                    return bytes(data), False
            if len(data) >= most or received >= most:
                return bytes(data), received >= _length(head)
        decoder.close()
        while len(data) < most and (decoded := decoder.read(most - len(data))):
            data += decoded
        return bytes(data), head.status != 206 or received >= _length(head)
    return bytes(data), False


def _length(head: Head) -> float:
    """The announced length of the whole body, also of one of which a part was asked for (RFC 9110, 14.4)."""
    part_of = (head.get(b"content-range") or b"").rpartition(b"/")[2] if head.status == 206 else None
    total = head.get(b"content-length") if part_of is None else part_of
    return int(total) if total is not None and total.isdigit() and len(total) < 19 else math.inf


class _Deadline:
    """Ends a block with ReadTimeout when its time is over. As asyncio.timeout of Python 3.11, but can be stopped."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._expired = False

    def __enter__(self) -> _Deadline:
        self._task: asyncio.Task[Any] | None = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task and sys.version_info >= (3, 11) else 0
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
        if self._expired and self._task is not None:
            cancelled = self._task.uncancel() if sys.version_info >= (3, 11) else 0
            if kind is asyncio.CancelledError and cancelled <= self._cancelling:
                raise ReadTimeout("the response was not complete within the time for one request") from error

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._started = loop.time()
        self._timer = loop.call_later(self._left, self._expire)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._left -= asyncio.get_running_loop().time() - self._started

    def _expire(self) -> None:
        self._expired = True
        if self._task is not None:
            self._task.cancel()


def _own_transport(settings: CrawlSettings, policy: Policy, resolve: Resolve | None) -> AnyTransport:
    connector = Connector(
        policy,
        timeout=settings.timeout,
        insecure_hosts=settings.insecure_hosts,
        proxy=settings.proxy,
        resolve=resolve,
    )
    http1 = Transport(connector, timeout=settings.timeout, max_idle=settings.concurrency)
    if not settings.http2:
        return http1
    from .http2 import Http2Fallback

    return Http2Fallback(http1, connector)


def _outcome(error: Exception, head: Head | None) -> IngestError:
    """The outcome that an error of somebody else's transport stands for."""
    status_code = head.status if head is not None else None
    if isinstance(error, httpx.TimeoutException):
        return ReadTimeout(f"the server did not answer in time: {error}", status_code=status_code)
    if isinstance(error, httpx.InvalidURL):
        return InvalidUrl(f"httpx does not accept the URL: {error}")
    if isinstance(error, (httpx.ProtocolError, httpx.UnsupportedProtocol)):
        return BadHttp(f"not a valid HTTP response: {error}", status_code=status_code)
    if head is None:
        return ConnectError(f"no connection: {error}")
    return TruncatedBody(f"the connection broke before the end of the body: {error}", status_code=status_code)
