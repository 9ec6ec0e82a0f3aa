"""HTTP/2, for servers that refuse HTTP/1.1: httpcore's implementation over connections to checked addresses."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpcore
import httpx

from ..errors import BadHttp, ConnectError, ReadTimeout, TruncatedBody
from ..urls import UrlParts
from .connect import Connector, Http1Refused, connect_error, new_tls_context
from .parser import Http2Response
from .transport import Transport, parts_of

KEEP_ALIVE = 5.0
"""Seconds that an idle connection is kept. A request on one that the server closed fails, so it is less than usual."""
MAX_ORIGINS = 10_000


class Http2Fallback(httpx.AsyncBaseTransport):
    """Asks over HTTP/1.1; origins whose servers refuse it or answer in HTTP/2 are asked over HTTP/2 from then on."""

    def __init__(self, http1: Transport, connector: Connector) -> None:
        self._http1 = http1
        self._connector = connector
        self._origins: set[str] = set()
        self._pools: dict[bool, httpcore.AsyncConnectionPool] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        parts = parts_of(request)
        if parts.origin not in self._origins:
            try:
                return await self._http1.handle_async_request(request)
            except (Http1Refused, Http2Response):
                if len(self._origins) >= MAX_ORIGINS:
                    self._origins.clear()
                self._origins.add(parts.origin)
        url = httpcore.URL(scheme=parts.scheme, host=parts.host, port=parts.port, target=parts.target)
        with _mapped(parts, begun=False):
            response = await self._pool(parts.host).handle_async_request(
                httpcore.Request(request.method, url, headers=request.headers.raw, extensions=dict(request.extensions))
            )
        return httpx.Response(
            response.status,
            headers=response.headers,
            stream=_Stream(response, parts),
            extensions={"http_version": response.extensions["http_version"]},
        )

    async def aclose(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()
        await self._http1.aclose()

    async def close_idle(self) -> None:
        """Close the connections that are kept for later requests."""
        await self._http1.close_idle()
        for pool in self._pools.values():
            if all(connection.is_idle() for connection in pool.connections):
                await pool.aclose()  # it can be used again

    @property
    def open_connections(self) -> int:
        return self._http1.open_connections + sum(len(pool.connections) for pool in self._pools.values())

    def _pool(self, host: str) -> httpcore.AsyncConnectionPool:
        verify = self._connector.verifies(host)
        if verify not in self._pools:
            self._pools[verify] = httpcore.AsyncConnectionPool(
                ssl_context=new_tls_context(verify=verify),
                max_connections=None,
                keepalive_expiry=KEEP_ALIVE,
                http1=False,
                http2=True,
                network_backend=_CheckedNetwork(self._connector),
            )
        return self._pools[verify]


class _CheckedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to addresses that the connector has checked, and to no other."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._sockets = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        *others, last = await self._connector.addresses(UrlParts("https", host, port, "/", None))
        for address in others:
            with suppress(httpcore.ConnectError, httpcore.ConnectTimeout):
                return await self._sockets.connect_tcp(address, port, timeout, local_address, socket_options)
        return await self._sockets.connect_tcp(last, port, timeout, local_address, socket_options)

    async def sleep(self, seconds: float) -> None:
        await self._sockets.sleep(seconds)


class _Stream(httpx.AsyncByteStream):
    def __init__(self, response: httpcore.Response, parts: UrlParts) -> None:
        self._response = response
        self._parts = parts

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _mapped(self._parts, begun=True):
            async for piece in self._response.aiter_stream():
                yield piece

    async def aclose(self) -> None:
        await self._response.aclose()


@contextmanager
def _mapped(parts: UrlParts, *, begun: bool) -> Iterator[None]:
    """Raise httpcore's errors as the outcomes that they stand for. `begun`: the head of the response has come."""
    try:
        yield
    except httpcore.TimeoutException as error:
        raise ReadTimeout(f"{parts.authority} did not answer in time") from error
    except httpcore.ProtocolError as error:
        raise BadHttp(f"not a valid HTTP/2 response: {error}") from error
    except httpcore.NetworkError as error:
        if begun:
            raise TruncatedBody("the connection broke before the end of the body") from error
        if isinstance(cause := error.args[0] if error.args else None, ssl.SSLError):
            raise connect_error(cause, parts, parts.host, 0.0) from error
        raise ConnectError(f"no connection to {parts.authority}: {error}") from error
