"""The live web: redirects, cookies, robots and pauses around the client's single requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from ...sqlite import digits14
from ..errors import (
    BlockedRobots,
    ForbiddenAddress,
    IngestError,
    RateLimited,
    RedirectLoop,
    TerminalBadStatus,
    TooManyRedirects,
)
from ..http.client import Client, Response
from ..http.cookies import CookieJar
from ..http.redirects import is_redirect, redirect_target
from ..http.retry_after import retry_after
from ..model import Terminal
from ..policy import Policy
from ..robots import Robots
from ..settings import CrawlSettings
from ..urls import mask, split, without_fragment
from .base import Resource, Trail

PATIENCE = 3600.0
"""Longest pause, in seconds, that a row waits out; for a longer one it ends and says when to come back."""
MAX_RESTS = 3
"""Pauses that one request may ask for."""
_MAY_REST = (429, 503)


class LiveSource:
    """Asks the servers themselves. Rows that want the same URL at the same time share one fetch of it.

    `keep_gzip`: files are wanted as they are published, those that are packed too.
    """

    name = "live"

    def __init__(
        self,
        settings: CrawlSettings,
        policy: Policy,
        client: Client,
        *,
        clock: Callable[[], datetime],
        keep_gzip: bool = False,
    ) -> None:
        self._settings = settings
        self._policy = policy
        self._client = client
        self._clock = clock
        self._keep_gzip = keep_gzip
        self._robots = (
            Robots(client, policy, user_agent=settings.full_user_agent) if settings.robots == "obey" else None
        )
        self._flights: dict[tuple[str, str], _Flight] = {}

    async def fetch(self, href: str, jar: CookieJar, trail: Trail) -> Resource:
        """The URL's content. Only a fetch without cookies is shared: with them the answer may be meant for one row."""
        if jar:
            return await self._follow(href, jar, trail)
        wish = (href, trail.accept)
        while (flight := self._flights.get(wish)) is not None:
            resource = await flight.join(jar, trail)
            if resource is not None:
                return resource
        flight = self._flights[wish] = _Flight(jar, trail)
        try:
            resource = await self._follow(href, jar, trail)
        except IngestError as error:
            flight.fail(error)
            raise
        else:
            flight.land(resource)
            return resource
        finally:
            del self._flights[wish]
            flight.leave()

    async def aclose(self) -> None:
        if self._robots is not None:
            await self._robots.aclose()

    # One fetch

    async def _follow(self, href: str, jar: CookieJar, trail: Trail) -> Resource:
        asked: set[tuple[str, bytes | None]] = set()
        url = href
        for _ in range(self._settings.max_redirects + 1):
            refusal = self._policy.refuse_url(url)
            if refusal is not None:
                trail.refused = url
                raise refusal
            # With other cookies the same URL may give another answer.
            state = (without_fragment(url), jar.header(url))
            if state in asked:
                raise RedirectLoop(f"the redirects from {mask(href)} come back to {mask(url)}")
            asked.add(state)
            trail.hops.append(url)
            try:
                if self._robots is not None:
                    await self._robots.check(url)
                response = await self._ask(url, jar, trail)
            except (BlockedRobots, ForbiddenAddress):
                trail.refused = trail.hops.pop()
                raise
            if not is_redirect(response.head):
                return self._resource(response)
            url = redirect_target(url, response.head)
        raise TooManyRedirects(
            f"more than {self._settings.max_redirects} redirects from {mask(href)}, the last to {mask(url)}"
        )

    async def _ask(self, url: str, jar: CookieJar, trail: Trail) -> Response:
        """One answer, with the pauses that the server asks for."""
        gate = self._client.hosts.gate(split(url).host)
        for rest in range(MAX_RESTS + 1):
            response = await self._get(url, jar, trail)
            now = self._clock()
            wait = retry_after(response.head.get(b"retry-after"), now=now)
            if response.status not in _MAY_REST:
                if wait and is_redirect(response.head):
                    gate.rest(min(wait, PATIENCE))
                return response
            if wait is None:
                gate.strain()
                return response
            gate.rest(min(wait, PATIENCE))
            if wait > PATIENCE or rest == MAX_RESTS:
                raise RateLimited(
                    f"{mask(url)} answers {response.status} and asks to be left alone for {wait:.0f} s",
                    status_code=response.status,
                    retry_after=wait,
                )
        raise AssertionError("unreachable: the last rest returns or raises")

    async def _get(self, url: str, jar: CookieJar, trail: Trail) -> Response:
        try:
            response = await self._client.get(
                url, cookies=jar.header(url), goes_on=trail.goes_on, keep_gzip=self._keep_gzip, accept=trail.accept
            )
        except IngestError as error:
            if error.status_code is not None:
                trail.terminal = Terminal(url, digits14(self._clock()), error.status_code)
            raise
        trail.terminal = Terminal(url, digits14(response.received), response.status)
        trail.goes_on = True
        jar.store(url, response.head.get_all(b"set-cookie"))
        return response

    def _resource(self, response: Response) -> Resource:
        if response.body is None:
            raise TerminalBadStatus(f"{mask(response.url)} answers {response.status}", status_code=response.status)
        return Resource(
            url=response.url,
            status_code=response.status,
            received=response.received,
            body=response.body,
            content_type=response.content_type,
            ends_with_connection=response.ends_with_connection,
            links=tuple(value.decode("utf-8", "replace") for value in response.head.get_all(b"link")),
        )


class _Flight:
    """One row's fetch that other rows wait for. If that row is called off, one of the others fetches in its place."""

    def __init__(self, jar: CookieJar, trail: Trail) -> None:
        self._jar = jar
        self._trail = trail
        self._waiting: list[asyncio.Future[Resource | None]] = []

    async def join(self, jar: CookieJar, trail: Trail) -> Resource | None:
        """What the other row was given, by a handle of one's own; None if it left before it was given anything."""
        turn: asyncio.Future[Resource | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            resource = await turn
        except IngestError as error:
            self._share_the_way(jar, trail)
            raise error.again() from None
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None and (got := turn.result()):
                got.body.close()
            raise
        if resource is not None:
            self._share_the_way(jar, trail)
        return resource

    def land(self, resource: Resource) -> None:
        for turn in self._turns():
            turn.set_result(replace(resource, body=resource.body.share()))

    def fail(self, error: IngestError) -> None:
        for turn in self._turns():
            turn.set_exception(error)

    def leave(self) -> None:
        """Whoever still waits was given nothing."""
        for turn in self._turns():
            turn.set_result(None)

    def _turns(self) -> list[asyncio.Future[Resource | None]]:
        waiting, self._waiting = self._waiting, []
        return [turn for turn in waiting if not turn.done()]

    def _share_the_way(self, jar: CookieJar, trail: Trail) -> None:
        trail.hops.extend(self._trail.hops)
        trail.terminal = self._trail.terminal or trail.terminal
        trail.refused = self._trail.refused
        jar.adopt(self._jar)
