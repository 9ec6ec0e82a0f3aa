"""Connect to a URL's host: resolve the name, check every address, connect to the addresses that were checked."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import re
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

from ..errors import ConnectError, IngestError, InvalidHostResolution, NoNameServer, ReadTimeout, Refused, TlsError
from ..policy import Policy
from ..urls import UrlParts, parse, split
from .connection import Connection, basic_credentials

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""`async (host, port) -> addresses as text`."""
MakeConnection = Callable[[], Connection]

CACHE_SECONDS = 60.0
CACHE_NAMES = 10_000
RESOLVER_THREADS = 16
STAGGER = 0.25
"""Seconds before the next address of a host is tried as well (RFC 8305, section 8: 250 ms)."""


class Http1Refused(TlsError, status=TlsError.status, retry=TlsError.retry):
    """The server ended the handshake because we offered HTTP/1.1 only (RFC 7301, 3.2: no_application_protocol)."""


class SystemResolver:
    """The operating system's resolver, in its own threads: a silent name server must not block all others."""

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


class Connector:
    """Opens connections, only to addresses that the policy allows. `timeout`, in seconds, is for each step.

    `proxy` is the URL of an HTTP proxy, which then resolves the names. TLS certificates of `insecure_hosts` are not
    verified. `resolve` replaces the system's resolver.
    """

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
        self._system = SystemResolver() if resolve is None else None
        self._resolve: Resolve = resolve or self._system  # type: ignore[assignment]
        self._known: dict[tuple[str, int], tuple[float, list[str]]] = {}
        self._lookups: dict[tuple[str, int], asyncio.Task[list[str]]] = {}
        self.proxy = split(parse(proxy)) if proxy else None

    async def connect(self, parts: UrlParts, make: MakeConnection) -> Connection:
        """Connect to a URL's host, with TLS for https.

        Raises InvalidHostResolution, ForbiddenAddress, ConnectError, TlsError or ReadTimeout.
        """
        if self.proxy is None:
            return await self._first(await self.addresses(parts), parts, make)
        if _is_address(parts.host):
            await self.addresses(parts)
        connection = await self._first(await self._look_up(self.proxy), self.proxy, make)
        if parts.scheme == "https":
            try:
                await connection.tunnel(parts, basic_credentials(self.proxy))
                await connection.start_tls(self._tls(parts.host), parts.host)
            except (OSError, asyncio.TimeoutError) as error:
                connection.abort()
                raise connect_error(error, parts, self.proxy.host, self._timeout) from error
            except BaseException:
                connection.abort()
                raise
        return connection

    async def addresses(self, parts: UrlParts) -> list[str]:
        """The addresses of a URL's host that may be connected to, best first. Raises as `connect` does."""
        found = await self._look_up(parts)
        url = parts.origin + parts.target
        refusals = [self._policy.refuse_address(address, parts.port, href=url) for address in found]
        allowed = [address for address, refusal in zip(found, refusals, strict=True) if refusal is None]
        if not allowed:
            raise next(refusal for refusal in refusals if refusal is not None)
        return allowed

    def verifies(self, host: str) -> bool:
        """Whether the host's TLS certificate is verified."""
        return host not in self._insecure_hosts

    def close(self) -> None:
        for task in self._lookups.values():
            task.cancel()
        if self._system is not None:
            self._system.close()

    # Names

    async def _look_up(self, parts: UrlParts) -> list[str]:
        if _is_address(parts.host):
            return [parts.host]
        loop = asyncio.get_running_loop()
        key = (parts.host, parts.port)
        until, addresses = self._known.get(key, (0.0, []))
        if loop.time() < until:
            return addresses
        task = self._lookups.get(key)
        if task is None:
            task = self._lookups[key] = loop.create_task(self._resolve_all(*key))
            task.add_done_callback(lambda done: self._remember(key, done))
        try:
            # Shielded: other rows wait for the same answer.
            found = await asyncio.wait_for(asyncio.shield(task), self._timeout)
        except asyncio.TimeoutError as error:
            raise NoNameServer(f"no name server answered for {parts.host} within {self._timeout:g} s") from error
        except (OSError, UnicodeError) as error:
            if isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN:
                raise NoNameServer(f"no name server answered for {parts.host}") from error
            raise InvalidHostResolution(f"the host {parts.host} has no address") from error
        if not found:
            raise InvalidHostResolution(f"the host {parts.host} has no address")
        return found

    async def _resolve_all(self, host: str, port: int) -> list[str]:
        return list(await self._resolve(host, port))

    def _remember(self, key: tuple[str, int], task: asyncio.Task[list[str]]) -> None:
        self._lookups.pop(key, None)
        if task.cancelled() or task.exception() is not None:
            return
        if len(self._known) >= CACHE_NAMES:
            self._known.clear()
        self._known[key] = (task.get_loop().time() + CACHE_SECONDS, task.result())

    # Connections

    async def _first(self, addresses: Sequence[str], parts: UrlParts, make: MakeConnection) -> Connection:
        """The first connection to be made of the host's addresses ("Happy Eyeballs", RFC 8305)."""
        if len(addresses) == 1:
            return await self._attempt(addresses[0], parts, make)
        attempts: list[asyncio.Task[Connection]] = []
        winner = None
        queue = list(addresses)
        try:
            while winner is None and (queue or any(not attempt.done() for attempt in attempts)):
                if queue:
                    attempts.append(asyncio.ensure_future(self._attempt(queue.pop(0), parts, make)))
                pending = [attempt for attempt in attempts if not attempt.done()]
                done, _ = await asyncio.wait(
                    pending, timeout=STAGGER if queue else None, return_when=asyncio.FIRST_COMPLETED
                )
                winner = next((attempt for attempt in done if attempt.exception() is None), None)
            return (winner or attempts[0]).result()
        finally:
            for attempt in attempts:
                attempt.cancel()
            await asyncio.wait(attempts)
            for attempt in attempts:
                if attempt is not winner and not attempt.cancelled() and attempt.exception() is None:
                    attempt.result().abort()

    async def _attempt(self, address: str, parts: UrlParts, make: MakeConnection) -> Connection:
        connection = make()
        tls = self._tls(parts.host) if parts.scheme == "https" else None
        opening = asyncio.get_running_loop().create_connection(
            lambda: connection, address, parts.port, ssl=tls, server_hostname=parts.host if tls is not None else None
        )
        try:
            await asyncio.wait_for(opening, self._timeout)
        except (OSError, asyncio.TimeoutError) as error:
            connection.abort()
            raise connect_error(error, parts, address, self._timeout) from error
        except BaseException:
            connection.abort()
            raise
        return connection

    def _tls(self, host: str) -> ssl.SSLContext:
        return self._verifying if self.verifies(host) else self._not_verifying

    @cached_property
    def _verifying(self) -> ssl.SSLContext:
        return new_tls_context("http/1.1", verify=True)

    @cached_property
    def _not_verifying(self) -> ssl.SSLContext:
        return new_tls_context("http/1.1", verify=False)


def new_tls_context(*protocols: str, verify: bool) -> ssl.SSLContext:
    """A client's TLS context that offers these protocols (ALPN)."""
    context = ssl.create_default_context()
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(list(protocols))
    return context


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def connect_error(error: OSError | asyncio.TimeoutError, parts: UrlParts, address: str, timeout: float) -> IngestError:
    """The outcome that a failed attempt to connect stands for. `timeout` in seconds."""
    if isinstance(error, ssl.SSLError):
        # Errors that Python has no name for have their text in brackets: "[SSL] the reason (_ssl.c:1006)".
        reason = error.reason or re.sub(r"^\[.*?\] | \(_ssl.*\)$", "", str(error.args[-1]))
        reason = getattr(error, "verify_message", None) or reason.replace("_", " ").lower()
        kind = Http1Refused if "no application protocol" in reason else TlsError
        return kind(f"no secure connection to {parts.authority}: {reason}")
    if isinstance(error, asyncio.TimeoutError):
        return ReadTimeout(f"no connection to {parts.authority} ({address}) within {timeout:g} s")
    # asyncio repeats the address in strerror; the system's own text is shorter.
    reason = os.strerror(error.errno).lower() if error.errno else "the connection was closed"
    kind_of = Refused if error.errno == errno.ECONNREFUSED else ConnectError
    return kind_of(f"no connection to {parts.authority} ({address}): {reason}")
