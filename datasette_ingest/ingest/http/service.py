"""Clients for services that the configuration names, such as an archive's API: trusted, unlike strangers' servers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from urllib.parse import unquote

import httpx

from ..policy import Policy
from ..settings import CrawlSettings
from ..urls import UrlParts, parse, split
from .body import Spool
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


@dataclass(frozen=True)
class ServiceAnswer:
    """One answer. `retry_after`: the pause that it asks for, in seconds."""

    status: int
    content: bytes
    retry_after: float | None = None


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
        wait = response.headers.get("retry-after", "").encode("latin-1", "replace")
        now = datetime.fromtimestamp(time.time(), timezone.utc)
        return ServiceAnswer(response.status_code, response.content, retry_after(wait, now=now))

    async def aclose(self) -> None:
        await self._client.aclose()


def _proxy(address: str | None) -> httpx.Proxy | None:
    if address is None:
        return None
    parts = split(parse(address))
    return httpx.Proxy(parts.origin, auth=_credentials(parts))


def _credentials(parts: UrlParts) -> tuple[str, str] | None:
    return None if parts.userinfo is None else (unquote(parts.userinfo[0]), unquote(parts.userinfo[1]))
