"""Clients for services that the configuration names, such as an archive's API: trusted, unlike strangers' servers."""

from __future__ import annotations

from urllib.parse import unquote

import httpx

from ..urls import UrlParts, parse, split


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
    service, through = split(parse(base_url)), None if proxy is None else split(parse(proxy))
    return httpx.AsyncClient(
        base_url=service.origin + service.target,
        auth=_credentials(service),
        headers={"User-Agent": user_agent, **(headers or {})},
        timeout=timeout,
        proxy=None if through is None else httpx.Proxy(through.origin, auth=_credentials(through)),
        transport=transport,
        follow_redirects=False,
        trust_env=False,
    )


def _credentials(parts: UrlParts) -> tuple[str, str] | None:
    return None if parts.userinfo is None else (unquote(parts.userinfo[0]), unquote(parts.userinfo[1]))
