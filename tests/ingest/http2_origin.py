"""A web server for tests that speaks HTTP/2 and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events
import h2.exceptions

ALERT_NO_APPLICATION_PROTOCOL = bytes.fromhex("15 03 03 00 02 02 78")
"""A fatal TLS alert (RFC 7301, 3.2)."""


@dataclass
class Http2Origin:
    """`pages`: path -> status, headers and body. `alerts`: ends the handshake with clients that do not offer h2."""

    pages: dict[str, tuple[int, list[tuple[str, str]], bytes]]
    tls: ssl.SSLContext
    host: str = "127.0.0.1"
    alerts: bool = True
    requests: list[list[tuple[bytes, bytes]]] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    def url(self, path: str) -> str:
        return f"https://{self.host}:{self.port}{path}"

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Http2Origin]:
        self.tls.set_alpn_protocols(["h2"])
        with socket.create_server((self.host, 0)) as listener:
            listener.setblocking(False)
            self.port = listener.getsockname()[1]
            accepting = asyncio.ensure_future(self._accept(listener))
            yield self
            accepting.cancel()
            await asyncio.wait([accepting])

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        protocols = []
        try:
            while True:
                client, _ = await loop.sock_accept(listener)
                self.connections += 1
                if self.alerts and not await _offers_http2(client):
                    await loop.sock_sendall(client, ALERT_NO_APPLICATION_PROTOCOL)
                    client.close()
                    continue
                protocol = _Http2Protocol(self)
                protocols.append(protocol)
                with contextlib.suppress(OSError):
                    await loop.connect_accepted_socket(lambda made=protocol: made, client, ssl=self.tls)
        finally:
            for protocol in protocols:
                protocol.close()


async def _offers_http2(client: socket.socket) -> bool:
    """Whether the ClientHello, which stays in the socket, offers h2."""
    while True:
        with contextlib.suppress(BlockingIOError):
            return b"\x02h2" in client.recv(4096, socket.MSG_PEEK)
        await asyncio.sleep(0.005)


class _Http2Protocol(asyncio.Protocol):
    def __init__(self, origin: Http2Origin) -> None:
        self._origin = origin
        self._http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._http.initiate_connection()
        self._send()

    def data_received(self, data: bytes) -> None:
        try:
            events = self._http.receive_data(data)
        except h2.exceptions.ProtocolError:
            self._send()
            self.close()
            return
        for event in events:
            if isinstance(event, h2.events.RequestReceived):
                self._answer(event)
        self._send()

    def _answer(self, event: h2.events.RequestReceived) -> None:
        self._origin.requests.append(list(event.headers))
        path = dict(event.headers)[b":path"].decode()
        status, headers, body = self._origin.pages.get(path, (404, [], b""))
        self._http.send_headers(event.stream_id, [(":status", str(status)), *headers])
        size = self._http.max_outbound_frame_size
        for start in range(0, len(body), size):
            self._http.send_data(event.stream_id, body[start : start + size])
        self._http.end_stream(event.stream_id)

    def _send(self) -> None:
        assert self._transport is not None
        self._transport.write(self._http.data_to_send())

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
