"""LiveSource: the live web, with redirects, cookies, robots.txt and Retry-After."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from ...sqlite import digits14
from ..errors import (
    BlockedRobots,
    Elsewhere,
    ForbiddenAddress,
    IngestError,
    PutOff,
    RedirectLoop,
    TerminalBadStatus,
    TooManyRedirects,
)
from ..http.client import Response
from ..http.cookies import CookieJar
from ..http.politeness import MAX_BACK_OFFS, PRIORITY_PATIENCE
from ..http.redirects import is_redirect, redirect_target
from ..http.waiting import wait_idle
from ..json_object import json_text
from ..model import Terminal
from ..urls import mask, split, without_fragment
from .base import FetchRequest, FetchTrace, Resource, SourceSetup, rate_limited
from .captures import refuse_archive_page
from .robots import Robots

WAY = "way "
"""Before a URL: under this key a row remembers how far its fetch has come."""
WAY_SECONDS = 7 * 24 * 3600.0
"""How long. A row that is handed on waits behind those that were there before."""


MOST_KEPT = 64 * 1024
"""How much of it, in characters of JSON. A row with more, such as of cookies, is not handed on."""


@dataclass
class _Way:
    """How far a fetch has come. Mutable, for one fetch."""

    url: str
    """What is asked next."""
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """The URLs that have redirected, each with the cookies that it got."""


class LiveSource:
    """Asks the servers themselves. Rows that request the same URL at the same time share one fetch."""

    name = "live"

    def __init__(self, setup: SourceSetup) -> None:
        self._settings = setup.settings
        self._policy = setup.policy
        self._client = setup.client
        self._clock = setup.clock
        self._patience = setup.patience
        self._is_ours = setup.is_ours or (lambda host: True)
        self._robots = None
        if setup.settings.robots == "obey":
            self._robots = Robots(
                setup.client,
                refuse=lambda url: self._refuse(url, archive_items=True),
                user_agent=setup.settings.full_user_agent,
                patience=setup.patience,
            )
        self._flights: dict[tuple[str, str, bool], _Flight] = {}

    def refuse(self, request: FetchRequest) -> IngestError | None:
        """Refuses what the policy refuses, and the pages of web archives."""
        return self._refuse(request.url, archive_items=request.for_dataset)

    async def fetch(self, request: FetchRequest, trace: FetchTrace) -> Resource:
        """The URL's content.

        :raises RateLimited: instead of PutOff, for a row that has waited MAX_BACK_OFFS times
        :raises Elsewhere: where another process asks the next host, and the row has had no page yet. The next try goes on
            from there
        """
        way = await self._way(request, trace)
        try:
            return await self._fetch(request, trace, way)
        except Elsewhere as elsewhere:
            if elsewhere.way is not None:
                request.memory.keep(f"{WAY}{request.url}", elsewhere.way, seconds=WAY_SECONDS)
            raise
        except PutOff as put_off:
            if not put_off.counts or request.back_offs < MAX_BACK_OFFS:
                raise
            raise rate_limited(put_off, request.back_offs) from None

    async def aclose(self) -> None:
        if self._robots is not None:
            await self._robots.aclose()

    def _refuse(self, url: str, *, archive_items: bool) -> IngestError | None:
        page = refuse_archive_page(url, self._settings.wayback_url, for_dataset=archive_items)
        return page or self._policy.refuse_url(url)

    # One fetch

    async def _way(self, request: FetchRequest, trace: FetchTrace) -> _Way:
        """Where to begin: at the URL, or where an earlier try of the row has stopped."""
        kept = await request.memory.get(f"{WAY}{request.url}") if request.may_hand_on else None
        if kept is None:
            return _Way(request.url)
        trace.hops += [hop for hop, _ in kept["asked"]]
        trace.terminal = Terminal(*kept["terminal"])
        request.jar.add_json(kept["cookies"])
        return _Way(kept["url"], [(hop, header) for hop, header in kept["asked"]])

    async def _fetch(self, request: FetchRequest, trace: FetchTrace, way: _Way) -> Resource:
        # With cookies the response may be meant for this row only.
        if request.jar or way.asked:
            return await self._follow(request, trace, way)
        key = (request.url, request.accept, request.for_dataset)
        while (flight := self._flights.get(key)) is not None:
            resource = await flight.join(request.jar, trace)
            if resource is not None:
                return resource
        flight = self._flights[key] = _Flight(request.jar, trace)
        try:
            resource = await self._follow(request, trace, way)
        except (IngestError, PutOff) as error:
            flight.fail(error)
            raise
        else:
            flight.succeed(resource)
            return resource
        finally:
            del self._flights[key]
            flight.end()

    async def _follow(self, request: FetchRequest, trace: FetchTrace, way: _Way) -> Resource:
        """The response at the end of the redirects."""
        asked = {(without_fragment(hop), header) for hop, header in way.asked}
        url = way.url
        for _ in range(len(way.asked), self._settings.max_redirects + 1):
            refusal = self._refuse(url, archive_items=request.for_dataset)
            if refusal is not None:
                trace.refused = url
                raise refusal
            self._check_is_ours(url, request, trace, way)
            # With other cookies the same URL may give another response.
            cookies = request.jar.header(url)
            header = None if cookies is None else cookies.decode("latin-1")
            if (without_fragment(url), header) in asked:
                raise RedirectLoop(f"the redirects from {mask(request.url)} come back to {mask(url)}")
            asked.add((without_fragment(url), header))
            trace.hops.append(url)
            try:
                if self._robots is not None:
                    await self._robots.check(url)
                response = await self._ask(url, request, trace)
            except (BlockedRobots, ForbiddenAddress):
                trace.refused = trace.hops.pop()
                raise
            except PutOff:
                trace.hops.pop()
                raise
            if not is_redirect(response.head):
                return self._resource(response)
            way.asked.append((url, header))
            url = redirect_target(url, response.head)
        raise TooManyRedirects(
            f"more than {self._settings.max_redirects} redirects from {mask(request.url)}, the last to {mask(url)}"
        )

    def _check_is_ours(self, url: str, request: FetchRequest, trace: FetchTrace, way: _Way) -> None:
        host = split(url).host
        if not request.may_hand_on or self._is_ours(host):
            return
        if trace.terminal is None:
            raise Elsewhere(host, None)
        terminal = [trace.terminal.url, trace.terminal.dt, trace.terminal.status_code]
        kept = {"url": url, "asked": list(way.asked), "terminal": terminal, "cookies": request.jar.to_json()}
        if len(json_text(kept)) <= MOST_KEPT:
            raise Elsewhere(host, kept)

    async def _ask(self, url: str, request: FetchRequest, trace: FetchTrace) -> Response:
        """One response. Waits as often as the server asks for it, up to MAX_BACK_OFFS times."""
        patience = self._patience
        if patience is not None and _has_priority(request, trace):
            patience *= PRIORITY_PATIENCE
        for back_off in range(min(request.back_offs, MAX_BACK_OFFS), MAX_BACK_OFFS + 1):
            response = await self._get(url, request, trace, patience)
            if not self._client.backs_off(response, is_last=back_off == MAX_BACK_OFFS):
                return response
        raise AssertionError("unreachable: the last turn returns or raises")

    async def _get(self, url: str, request: FetchRequest, trace: FetchTrace, patience: float | None) -> Response:
        try:
            response = await self._client.get(
                url,
                cookies=request.jar.header(url),
                priority=_has_priority(request, trace),
                patience=patience,
                keep_gzip=request.for_dataset,
                accept=request.accept,
            )
        except IngestError as error:
            if error.status_code is not None:
                trace.terminal = Terminal(url, digits14(self._clock()), error.status_code)
            raise
        trace.terminal = Terminal(url, digits14(response.received), response.status)
        request.jar.store(url, response.head.get_all(b"set-cookie"))
        return response

    def _resource(self, response: Response) -> Resource:
        if response.body is None:
            raise TerminalBadStatus(f"{mask(response.url)} answers {response.status}", status_code=response.status)
        return Resource(
            url=response.url,
            status_code=response.status,
            via=self.name,
            captured_at=response.received,
            body=response.body,
            content_type=response.content_type,
            ends_with_connection=response.ends_with_connection,
            links=tuple(value.decode("utf-8", "replace") for value in response.head.get_all(b"link")),
        )


def _has_priority(request: FetchRequest, trace: FetchTrace) -> bool:
    return request.priority or trace.terminal is not None


class _Flight:
    """Single flight (request coalescing): a fetch by one row that other rows wait for. If that row is cancelled, one of
    the others fetches in its place."""

    def __init__(self, jar: CookieJar, trace: FetchTrace) -> None:
        self._jar = jar
        self._trace = trace
        self._waiting: list[asyncio.Future[Resource | None]] = []

    async def join(self, jar: CookieJar, trace: FetchTrace) -> Resource | None:
        """Wait for the result, with a body handle of its own. None if the fetching row was cancelled."""
        turn: asyncio.Future[Resource | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            resource = await wait_idle(turn)
        except (IngestError, PutOff) as error:
            self._share_trace(jar, trace)
            raise error.again() from None
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None and (got := turn.result()):
                got.body.close()
            raise
        if resource is not None:
            self._share_trace(jar, trace)
        return resource

    def succeed(self, resource: Resource) -> None:
        for turn in self._turns():
            turn.set_result(replace(resource, body=resource.body.share()))

    def fail(self, error: IngestError | PutOff) -> None:
        for turn in self._turns():
            turn.set_exception(error)

    def end(self) -> None:
        """The fetching row was cancelled, if rows still wait."""
        for turn in self._turns():
            turn.set_result(None)

    def _turns(self) -> list[asyncio.Future[Resource | None]]:
        waiting, self._waiting = self._waiting, []
        return [turn for turn in waiting if not turn.done()]

    def _share_trace(self, jar: CookieJar, trace: FetchTrace) -> None:
        trace.hops.extend(self._trace.hops)
        trace.terminal = self._trace.terminal or trace.terminal
        trace.refused = self._trace.refused
        jar.adopt(self._jar)
