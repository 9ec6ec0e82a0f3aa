"""Name -> checked address -> open connection: the address that was checked is the one that is connected to."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

from ..errors import ConnectError, InvalidHostResolution, ReadTimeout, TlsError
from ..policy import Policy
from ..urls import UrlParts, mask, parse, split
from .connection import Connection, basic_credentials

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""`async (host, port) -> addresses as text`."""

CACHE_SECONDS = 60.0
CACHE_NAMES = 10_000
RESOLVER_THREADS = 16
STAGGER = 0.25
"""Head start of one address over the next, in seconds (RFC 8305, 8: 250 ms)."""


class SystemResolver:
    """The operating system's resolver, in threads of its own: a silent name server must not use up everybody's."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(RESOLVER_THREADS, thread_name_prefix="ingest-dns")

    async def __call__(self, host: str, port: int) -> list[str]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, _getaddrinfo, host, port)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _getaddrinfo(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Dialer:
    """Opens connections for URLs that the policy's address check lets through."""

    def __init__(
        self,
        policy: Policy,
        *,
        timeout: float,
        insecure_hosts: Sequence[str] = (),
        proxy: str | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        self._policy = policy
        self._timeout = timeout
        self._insecure_hosts = frozenset(host.lower() for host in insecure_hosts)
        self._proxy = split(parse(proxy)) if proxy else None
        self._system = SystemResolver() if resolve is None else None
        self._resolve: Resolve = resolve or self._system  # type: ignore[assignment]
        self._known: dict[tuple[str, int], tuple[float, list[str]]] = {}
        self._asked: dict[tuple[str, int], asyncio.Task[list[str]]] = {}

    @property
    def proxied(self) -> bool:
        """Whether requests for http URLs must name the whole URL, because a proxy reads them."""
        return self._proxy is not None

    @property
    def proxy_credentials(self) -> bytes | None:
        return basic_credentials(self._proxy) if self._proxy is not None else None

    async def connect(self, href: str, make: Callable[[], Connection], *, deadline: float) -> Connection:
        """An open connection for the URL's origin; `deadline` is a time of the loop's clock.

        Raises InvalidHostResolution, ForbiddenAddress, ConnectError, TlsError, ReadTimeout.
        """
        parts = split(href)
        if self._proxy is not None:
            return await self._through_proxy(self._proxy, parts, href, make, deadline)
        addresses = await self.addresses(href)
        tls = self._tls(parts.host) if parts.scheme == "https" else None
        return await self._first(addresses, parts, make, tls, mask(href), deadline)

    async def addresses(self, href: str) -> list[str]:
        """The addresses of the URL's host that may be connected to, best first."""
        parts = split(href)
        literal = _is_literal(parts.host)
        found = [parts.host] if literal else await self._look_up(parts.host, parts.port, mask(href))
        refusals = [self._policy.refuse_address(address, parts.port, href=href) for address in found]
        allowed = [address for address, refusal in zip(found, refusals, strict=True) if refusal is None]
        if not allowed:
            raise next(refusal for refusal in refusals if refusal is not None)
        return allowed

    def close(self) -> None:
        for task in self._asked.values():
            task.cancel()
        if self._system is not None:
            self._system.close()

    # Names

    async def _look_up(self, host: str, port: int, where: str) -> list[str]:
        loop = asyncio.get_running_loop()
        key = (host, port)
        until, addresses = self._known.get(key, (0.0, []))
        if loop.time() < until:
            return addresses
        task = self._asked.get(key)
        if task is None:
            task = self._asked[key] = loop.create_task(self._ask(host, port))
            task.add_done_callback(lambda done: self._learn(key, done))
        # One row's cancellation must not take the answer from the others that wait for it.
        try:
            found = await asyncio.wait_for(asyncio.shield(task), self._timeout)
        except asyncio.TimeoutError as error:
            raise InvalidHostResolution(
                f"no name server answered for {host} within {self._timeout:g} s ({where})"
            ) from error
        except (OSError, UnicodeError) as error:
            raise InvalidHostResolution(f"the host {host} has no address ({where})") from error
        if not found:
            raise InvalidHostResolution(f"the host {host} has no address ({where})")
        return found

    async def _ask(self, host: str, port: int) -> list[str]:
        return list(await self._resolve(host, port))

    def _learn(self, key: tuple[str, int], task: asyncio.Task[list[str]]) -> None:
        self._asked.pop(key, None)
        if task.cancelled() or task.exception() is not None:
            return
        if len(self._known) >= CACHE_NAMES:
            self._known.clear()
        self._known[key] = (task.get_loop().time() + CACHE_SECONDS, task.result())

    # Connections

    async def _first(
        self,
        addresses: Sequence[str],
        parts: UrlParts,
        make: Callable[[], Connection],
        tls: ssl.SSLContext | None,
        where: str,
        deadline: float,
    ) -> Connection:
        if len(addresses) == 1:
            return await self._attempt(addresses[0], parts, make, tls, where, deadline)
        attempts: list[asyncio.Task[Connection]] = []
        queue = list(addresses)
        try:
            while True:
                if queue:
                    address = queue.pop(0)
                    attempts.append(asyncio.ensure_future(self._attempt(address, parts, make, tls, where, deadline)))
                pending = [attempt for attempt in attempts if not attempt.done()]
                if pending:
                    await asyncio.wait(pending, timeout=STAGGER if queue else None, return_when=asyncio.FIRST_COMPLETED)
                for attempt in attempts:
                    if attempt.done() and attempt.exception() is None:
                        return attempt.result()
                if not queue and all(attempt.done() for attempt in attempts):
                    return attempts[0].result()
        finally:
            await _discard_losers(attempts)

    async def _attempt(
        self,
        address: str,
        parts: UrlParts,
        make: Callable[[], Connection],
        tls: ssl.SSLContext | None,
        where: str,
        deadline: float,
    ) -> Connection:
        loop = asyncio.get_running_loop()
        connection = make()
        try:
            await asyncio.wait_for(
                loop.create_connection(
                    lambda: connection,
                    address,
                    parts.port,
                    ssl=tls,
                    server_hostname=parts.host if tls is not None else None,
                ),
                max(min(self._timeout, deadline - loop.time()), 0.001),
            )
        except BaseException as error:
            connection.abort()
            _map_connect_error(error, parts, address, where, self._timeout)
            raise
        return connection

    async def _through_proxy(
        self, proxy: UrlParts, parts: UrlParts, href: str, make: Callable[[], Connection], deadline: float
    ) -> Connection:
        """Behind a proxy names are the proxy's business; addresses written out in the URL are still checked."""
        if _is_literal(parts.host):
            await self.addresses(href)
        where = f"the proxy {proxy.authority}"
        found = [proxy.host] if _is_literal(proxy.host) else await self._look_up(proxy.host, proxy.port, where)
        tls = self._tls(proxy.host) if proxy.scheme == "https" else None
        connection = await self._first(found, proxy, make, tls, where, deadline)
        if parts.scheme == "http":
            return connection
        try:
            await connection.tunnel(parts, basic_credentials(proxy), timeout=self._timeout, deadline=deadline)
            await connection.start_tls(self._tls(parts.host), parts.host, timeout=self._timeout)
        except BaseException as error:
            connection.abort()
            _map_connect_error(error, parts, proxy.host, mask(href), self._timeout)
            raise
        return connection

    def _tls(self, host: str) -> ssl.SSLContext:
        return self._trusting if host in self._insecure_hosts else self._verifying

    @cached_property
    def _verifying(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context

    @cached_property
    def _trusting(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["http/1.1"])
        return context


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _map_connect_error(error: BaseException, parts: UrlParts, address: str, where: str, timeout: float) -> None:
    """Raise what a failed connection attempt means; return for errors that are not the network's."""
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "verify_message", None) or (error.reason or str(error)).replace("_", " ").lower()
        raise TlsError(f"no secure connection to {parts.authority}: {reason} ({where})") from error
    if isinstance(error, asyncio.TimeoutError):
        raise ReadTimeout(f"no connection to {parts.authority} at {address} within {timeout:g} s ({where})") from error
    if isinstance(error, OSError):
        # asyncio puts the address into strerror; the system's own words are shorter.
        reason = os.strerror(error.errno).lower() if error.errno else "the connection was closed"
        raise ConnectError(f"no connection to {parts.authority} at {address}: {reason} ({where})") from error


async def _discard_losers(attempts: list[asyncio.Task[Connection]]) -> None:
    """Cancel attempts that are still open and close connections that came second."""
    winner_seen = False
    for attempt in attempts:
        if not attempt.done():
            attempt.cancel()
    if attempts:
        await asyncio.wait(attempts)
    for attempt in attempts:
        if attempt.cancelled() or attempt.exception() is not None:
            continue
        if winner_seen:
            attempt.result().abort()
        winner_seen = True
