"""Our transport with every host at one port of one address: a page may name port 80, which a test cannot bind."""

from __future__ import annotations

import httpx

from datasette_ingest.ingest.http.connect import Connector, Resolve
from datasette_ingest.ingest.http.transport import Transport
from datasette_ingest.ingest.policy import Policy

from .conftest import QUICK


class Rerouted(httpx.AsyncBaseTransport):
    """`resolve` says which hosts there are, and where; scheme, Host header and TLS name stay as asked for."""

    def __init__(self, resolve: Resolve, port: int) -> None:
        connector = Connector(Policy(allow_networks=QUICK["allow_networks"]), timeout=QUICK["timeout"], resolve=resolve)
        self._transport = Transport(connector, timeout=QUICK["timeout"], max_idle=8)
        self._port = port

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url.copy_with(port=self._port)
        rerouted = httpx.Request("GET", url, headers=request.headers, extensions=request.extensions)
        return await self._transport.handle_async_request(rerouted)

    async def aclose(self) -> None:
        await self._transport.aclose()

    @property
    def open_connections(self) -> int:
        return self._transport.open_connections
