"""Clients for services that the configuration names, such as an archive's API: trusted, unlike strangers' servers."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from urllib.parse import unquote

import httpx

from ..policy import Policy
from ..settings import CrawlSettings
from ..urls import UrlParts, parse, split
from .body import Body, Spool, in_thread
from .client import AnyTransport, Client
from .politeness import Hosts
from .retry_after import retry_after


def service_fetcher(
    settings: CrawlSettings,
    *,
    hosts: Hosts,
    spool: Spool,
    clock: Callable[[], datetime],
    transport: AnyTransport | None = None,
) -> Client:
    """A client that gets files from one service: paced, limited and decoded like answers of strangers' servers, but
    over httpx' own transport, which checks no addresses. Whoever gets it closes it.

    :param hosts: the pace of the service
    :param spool: the disk space for large bodies
    :param transport: sends the requests instead, in tests
    """
    own = httpx.AsyncHTTPTransport(trust_env=False, proxy=_proxy(settings.proxy))
    # What an archive delivers was perhaps compressed before it was captured: further compression would hide that.
    return Client(
        settings, Policy(), hosts=hosts, clock=clock, transport=transport or own, spool=spool, offered=b"identity"
    )


def service_client(
    base_url: str,
    *,
    user_agent: str,
    timeout: float,
    headers: dict[str, str] | None = None,
    proxy: str | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> httpx.AsyncClient:
    """A client for one service, over httpx' own transport; whoever gets it closes it.

    Addresses are not checked: the service may be on the local network. Redirects are not followed, since they could
    lead elsewhere with our headers, and environment variables (proxies, .netrc) are not read.

    :param base_url: the service's URL, to which the paths of requests are added
    :param timeout: longest time to connect, and longest silence, in seconds
    :param headers: sent with every request, such as an Authorization header
    :param proxy: the URL of an HTTP proxy
    :raises InvalidUrl, BadScheme: for a URL that cannot be asked. Users and passwords are taken out of the URLs, since
        exceptions and logs name those.
    :param transport: sends the requests instead, in tests
    """
    service = split(parse(base_url))
    return httpx.AsyncClient(
        base_url=service.origin + service.target,
        auth=_credentials(service),
        headers={"User-Agent": user_agent, **(headers or {})},
        timeout=timeout,
        proxy=_proxy(proxy),
        transport=transport,
        follow_redirects=False,
        trust_env=False,
    )


class ServiceFailure(Exception):
    """A service gave no answer: no connection, silence, or no valid HTTP. The message is one line and holds no header."""


class Unreachable(ServiceFailure):
    """No connection came about: nothing was sent."""


class NoAnswerInTime(ServiceFailure):
    """It took the request, and was silent."""


class AnswerTooLong(Exception):
    """The answer is longer than allowed. `status`: its HTTP status."""

    def __init__(self, status: int, max_bytes: int) -> None:
        super().__init__(f"the answer is longer than {max_bytes:,} bytes")
        self.status = status


@dataclass(frozen=True)
class ServiceAnswer:
    """One answer. `retry_after`: the pause that it asks for, in seconds."""

    status: int
    content: bytes
    retry_after: float | None = None


@dataclass(frozen=True)
class Upload:
    """A file as a field of a form. The body is open, and stays so."""

    field: str
    name: str
    mimetype: str
    body: Body


CONNECT_SECONDS = 10.0
_LOST = (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)


class Service:
    """Asks one service over a client of `service_client`, which is closed with this."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._base_url = str(client.base_url).rstrip("/")
        self._client = client

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        data: Mapping[str, str] | None = None,
    ) -> ServiceAnswer:
        """One request. A GET whose connection is lost is sent again once: services close connections that rest, and may do
        so while the next request is under way.

        :param path: is added to the service's URL
        :param params: its query
        :param data: the fields of a form, for its body
        :raises ServiceFailure: when there is no answer
        """

        def send() -> Awaitable[httpx.Response]:
            return self._client.request(method, self._base_url + path, params=params, data=data)

        try:
            try:
                response = await send()
            except _LOST:
                if method != "GET":
                    raise
                response = await send()
        except (httpx.HTTPError, httpx.InvalidURL) as problem:
            raise ServiceFailure(str(problem) or type(problem).__name__) from None
        return _answer(response, response.content)

    async def send_file(
        self, path: str, upload: Upload, *, data: Sequence[tuple[str, str]] = (), seconds: float, max_bytes: int
    ) -> ServiceAnswer:
        """POST a file, a piece at a time, as part of a form. A lost connection is tried again once, as in `ask`.

        :param data: the other fields of the form
        :param seconds: longest duration from the first byte sent to the last one received
        :param max_bytes: longest answer
        :raises Unreachable, NoAnswerInTime, ServiceFailure: when there is no answer
        :raises AnswerTooLong: for a longer one
        """
        limits = httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))

        async def send() -> ServiceAnswer:
            headers, content = _form(upload, data)
            address = self._base_url + path
            async with self._client.stream(
                "POST", address, headers=headers, content=content, timeout=limits
            ) as response:
                received = bytearray()
                async for piece in response.aiter_bytes():
                    received += piece
                    if len(received) > max_bytes:
                        raise AnswerTooLong(response.status_code, max_bytes)
                return _answer(response, bytes(received))

        try:
            try:
                return await asyncio.wait_for(send(), seconds)
            except _LOST:
                return await asyncio.wait_for(send(), seconds)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError) as problem:
            raise Unreachable(str(problem) or type(problem).__name__) from None
        except (asyncio.TimeoutError, httpx.TimeoutException):
            raise NoAnswerInTime(f"no answer within {seconds:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL) as problem:
            raise ServiceFailure(str(problem) or type(problem).__name__) from None

    async def aclose(self) -> None:
        await self._client.aclose()


def _answer(response: httpx.Response, content: bytes) -> ServiceAnswer:
    wait = response.headers.get("retry-after", "").encode("latin-1", "replace")
    now = datetime.fromtimestamp(time.time(), timezone.utc)
    return ServiceAnswer(response.status_code, content, retry_after(wait, now=now))


def _form(upload: Upload, data: Sequence[tuple[str, str]]) -> tuple[dict[str, str], AsyncIterator[bytes]]:
    """A multipart form (RFC 7578) with a file: its headers, and its bytes. Names and values are plain ASCII."""
    boundary = uuid.uuid4().hex
    fields = [f'form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in data]
    file = f'form-data; name="{upload.field}"; filename="{upload.name}"\r\nContent-Type: {upload.mimetype}\r\n\r\n'
    head = "".join(f"--{boundary}\r\nContent-Disposition: {part}" for part in (*fields, file)).encode("ascii")
    tail = f"\r\n--{boundary}--\r\n".encode("ascii")

    async def pieces() -> AsyncIterator[bytes]:
        yield head
        # A handle of its own: a thread may still read when the caller gives up and closes.
        body = upload.body.share()
        try:
            source = body.pieces()
            while (piece := await in_thread(lambda: next(source, None))) is not None:
                yield piece
        finally:
            body.close()
        yield tail

    headers = {
        "Content-Type": f"multipart/form-data; boundary={boundary}",
        "Content-Length": str(len(head) + upload.body.size + len(tail)),
    }
    return headers, pieces()


def _proxy(address: str | None) -> httpx.Proxy | None:
    if address is None:
        return None
    parts = split(parse(address))
    return httpx.Proxy(parts.origin, auth=_credentials(parts))


def _credentials(parts: UrlParts) -> tuple[str, str] | None:
    return None if parts.userinfo is None else (unquote(parts.userinfo[0]), unquote(parts.userinfo[1]))
