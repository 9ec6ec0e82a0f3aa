"""Clients for services that the configuration names, such as an archive's API: trusted, unlike strangers' servers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import httpx

from ..policy import Policy
from ..settings import CrawlSettings
from .body import Spool
from .client import AnyTransport, Client
from .politeness import Hosts


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
    own = httpx.AsyncHTTPTransport(trust_env=False, proxy=settings.proxy)
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
    :param transport: sends the requests instead, in tests
    """
    return httpx.AsyncClient(
        base_url=base_url,
        headers={"User-Agent": user_agent, **(headers or {})},
        timeout=timeout,
        proxy=proxy,
        transport=transport,
        follow_redirects=False,
        trust_env=False,
    )
