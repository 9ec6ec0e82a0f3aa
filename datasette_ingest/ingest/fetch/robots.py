"""robots.txt of each origin: fetched once, kept a day, asked before every request (RFC 9309)."""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from protego import Protego

from ..errors import (
    BadEncoding,
    BadGzipEncoding,
    BadRedirect,
    BadScheme,
    BlockedRobots,
    EmptyBlob,
    IngestError,
    PutOff,
)
from ..http.body import INLINE_BYTES, in_thread
from ..http.client import Client, Response
from ..http.politeness import MAX_BACK_OFFS, MAX_CRAWL_DELAY
from ..http.redirects import is_redirect, redirect_target
from ..http.waiting import wait_idle
from ..urls import mask, split

KEEP_SECONDS = 24 * 3600.0
KEEP_FAILURE_SECONDS = 60.0
"""How long a host that could not be asked is taken to be so still; its rows fail alike without a connection each."""
KEEP_ORIGINS = 10_000
PARSE_BYTES = 512 * 1024
"""RFC 9309, 2.5: at least 500 kibibytes; what follows is not read."""
MAX_REDIRECTS = 5


@dataclass(frozen=True)
class Rules:
    """What an origin says to this crawler. `error` stands where it could not be asked."""

    parsed: Protego | None = None
    error: IngestError | None = None
    crawl_delay: float = 0.0
    """Seconds between two requests."""
    until: float = math.inf


class Robots:
    """The rules of the origins asked last. Rows that need the same file wait for one fetch of it.

    `refuse` says why a URL is not asked for. `patience`: seconds that the fetch may wait for the host's turn; None:
    however long it takes.
    """

    def __init__(
        self,
        client: Client,
        *,
        refuse: Callable[[str], IngestError | None],
        user_agent: str,
        patience: float | None = None,
    ) -> None:
        self._client = client
        self._refuse = refuse
        self._patience = patience
        self._agent = user_agent.partition("/")[0].strip() or user_agent
        self._rules: OrderedDict[str, Rules] = OrderedDict()
        """By origin, the one needed longest ago first."""
        self._fetches: dict[str, asyncio.Task[Rules]] = {}

    async def check(self, href: str) -> None:
        """Return if the URL may be asked. Raises BlockedRobots, or what kept robots.txt from being read, or PutOff."""
        parts = split(href)
        rules = self._rules.get(parts.origin)
        if rules is None or rules.until < asyncio.get_running_loop().time():
            rules = await self._shared_fetch(parts.origin)
        else:
            self._rules.move_to_end(parts.origin)
        if rules.crawl_delay:
            self._client.hosts.limiter(parts.host).crawl_delay = rules.crawl_delay
        if rules.error is not None:
            raise rules.error.again()
        if rules.parsed is not None and not rules.parsed.can_fetch(href, self._agent):
            raise BlockedRobots(f"{parts.origin}/robots.txt disallows {mask(href)}")

    async def aclose(self) -> None:
        for task in self._fetches.values():
            task.cancel()
        if self._fetches:
            await asyncio.wait(list(self._fetches.values()))

    async def _shared_fetch(self, origin: str) -> Rules:
        task = self._fetches.get(origin)
        if task is None:
            # In a context of its own: the row that began the fetch may be over before it ends.
            task = contextvars.Context().run(asyncio.ensure_future, self._fetch_and_keep(origin))
            self._fetches[origin] = task
            task.add_done_callback(lambda ended: self._over(origin, ended))
        try:
            return await wait_idle(asyncio.shield(task))
        except PutOff as put_off:
            raise put_off.again() from None

    def _over(self, origin: str, ended: asyncio.Task[Rules]) -> None:
        del self._fetches[origin]
        if not ended.cancelled():
            ended.exception()  # perhaps nobody waits for it any more

    async def _fetch_and_keep(self, origin: str) -> Rules:
        now = asyncio.get_running_loop().time
        try:
            parsed = await self._fetch(origin + "/robots.txt")
        except IngestError as error:
            rules = Rules(error=error, until=now() + KEEP_FAILURE_SECONDS)
        else:
            rules = Rules(parsed, crawl_delay=self._crawl_delay(parsed), until=now() + KEEP_SECONDS)
        if len(self._rules) >= KEEP_ORIGINS:
            self._rules.popitem(last=False)
        self._rules[origin] = rules
        return rules

    async def _fetch(self, url: str) -> Protego | None:
        """The parsed file, or None where everything is allowed. Raises IngestError where nothing is known."""
        start = url
        for _ in range(MAX_REDIRECTS + 1):
            if self._refuse(url) is not None:
                return None
            try:
                response = await self._ask(url)
            except (EmptyBlob, BadEncoding, BadGzipEncoding):
                # It is there and cannot be read: as if there were none.
                return None
            if is_redirect(response.head):
                try:
                    url = redirect_target(url, response.head)
                except (BadRedirect, BadScheme):
                    return None
                continue
            if response.status >= 500:
                raise BlockedRobots(
                    f"{mask(start)} answers {response.status}, so nothing of this host may be asked",
                    status_code=response.status,
                )
            if response.body is None:
                return None
            try:
                return await _parse(response.body.read(), is_cut=response.body.is_cut)
            finally:
                response.body.close()
        return None

    async def _ask(self, url: str) -> Response:
        """One response. Waits as often as the server asks for it, up to MAX_BACK_OFFS times."""
        for back_off in range(MAX_BACK_OFFS + 1):
            response = await self._client.get(
                url, max_bytes=PARSE_BYTES, cut=True, priority=True, patience=self._patience
            )
            if not self._client.backs_off(response, is_last=back_off == MAX_BACK_OFFS):
                break
        return response

    def _crawl_delay(self, parsed: Protego | None) -> float:
        if parsed is None:
            return 0.0
        delay = parsed.crawl_delay(self._agent) or 0.0
        rate = parsed.request_rate(self._agent)
        if rate is not None and rate.requests:
            delay = max(delay, rate.seconds / rate.requests)
        return min(max(delay, 0.0), MAX_CRAWL_DELAY)


async def _parse(body: bytes, *, is_cut: bool) -> Protego:
    """The rules of a file. A line that the limit cut is none: its rule might close the whole site."""
    whole = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1] if is_cut else body
    text = whole.decode("utf-8", "replace").lstrip("\ufeff")
    if len(text) <= INLINE_BYTES // 4:
        return Protego.parse(text)
    return await in_thread(lambda: Protego.parse(text))
