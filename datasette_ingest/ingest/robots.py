"""robots.txt of each origin: fetched once, kept a day, asked before every request (RFC 9309)."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass

from protego import Protego

from .errors import (
    BadEncoding,
    BadGzipEncoding,
    BadRedirect,
    BadScheme,
    BlockedRobots,
    BodyTooLarge,
    EmptyBlob,
    IngestError,
)
from .http.body import INLINE_BYTES, in_thread
from .http.client import Client
from .http.hosts import MAX_CRAWL_DELAY
from .http.redirects import is_redirect, redirect_target
from .policy import Policy
from .urls import mask, split

KEEP_SECONDS = 24 * 3600.0
KEEP_FAILURE_SECONDS = 60.0
"""How long a host that could not be asked is taken to be so still; its rows fail alike without a connection each."""
KEEP_ORIGINS = 10_000
PARSE_BYTES = 512 * 1024
"""RFC 9309, 2.5: at least 500 kibibytes; what follows is not read."""
FETCH_BYTES = 4 * 1024 * 1024
MAX_REDIRECTS = 5


@dataclass(frozen=True)
class Rules:
    """What an origin says to this crawler. `error` stands where it could not be asked."""

    parsed: Protego | None = None
    error: IngestError | None = None
    until: float = math.inf


ALLOW_ALL = Rules()


class Robots:
    """The rules of every origin asked so far. Rows that need the same file wait for one fetch of it."""

    def __init__(self, client: Client, policy: Policy, *, user_agent: str) -> None:
        self._client = client
        self._policy = policy
        self._agent = user_agent.partition("/")[0].strip() or user_agent
        self._rules: dict[str, Rules] = {}
        self._fetches: dict[str, asyncio.Task[Rules]] = {}

    async def check(self, href: str) -> None:
        """Return if the URL may be asked. Raises BlockedRobots, or the error that kept robots.txt from being read."""
        parts = split(href)
        rules = self._rules.get(parts.origin)
        if rules is None or rules.until < asyncio.get_running_loop().time():
            rules = await self._shared_fetch(parts.origin)
        if rules.error is not None:
            raise rules.error.again()
        if rules.parsed is not None and not rules.parsed.can_fetch(href, self._agent):
            raise BlockedRobots(f"{parts.origin}/robots.txt closes {mask(href)}")

    async def aclose(self) -> None:
        for task in self._fetches.values():
            task.cancel()
        if self._fetches:
            await asyncio.wait(list(self._fetches.values()))

    async def _shared_fetch(self, origin: str) -> Rules:
        task = self._fetches.get(origin)
        if task is None:
            task = self._fetches[origin] = asyncio.ensure_future(self._fetch_and_keep(origin))
            task.add_done_callback(lambda _: self._fetches.pop(origin, None))
        # The row that began the fetch may be cancelled; the others still want the answer.
        return await asyncio.shield(task)

    async def _fetch_and_keep(self, origin: str) -> Rules:
        now = asyncio.get_running_loop().time
        try:
            parsed = await self._fetch(origin + "/robots.txt")
        except IngestError as error:
            rules = Rules(error=error, until=now() + KEEP_FAILURE_SECONDS)
        else:
            rules = Rules(parsed, until=now() + KEEP_SECONDS)
            self._apply_delay(origin, parsed)
        if len(self._rules) >= KEEP_ORIGINS:
            self._rules.clear()
        self._rules[origin] = rules
        return rules

    async def _fetch(self, url: str) -> Protego | None:
        """The parsed file, or None where everything is allowed. Raises IngestError where nothing is known."""
        start = url
        for _ in range(MAX_REDIRECTS + 1):
            if self._policy.refuse_url(url) is not None:
                return None
            try:
                response = await self._client.get(url, max_bytes=FETCH_BYTES, paced=False, goes_on=True)
            except (EmptyBlob, BodyTooLarge, BadEncoding, BadGzipEncoding):
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
                return await _parse(response.body.read())
            finally:
                response.body.close()
        return None

    def _apply_delay(self, origin: str, parsed: Protego | None) -> None:
        if parsed is None:
            return
        delay = parsed.crawl_delay(self._agent) or 0.0
        rate = parsed.request_rate(self._agent)
        if rate is not None and rate.requests:
            delay = max(delay, rate.seconds / rate.requests)
        if delay > 0:
            self._client.hosts.gate(split(origin + "/").host).crawl_delay = min(delay, MAX_CRAWL_DELAY)


async def _parse(body: bytes) -> Protego:
    text = body[:PARSE_BYTES].decode("utf-8", "replace").lstrip("\ufeff")
    if len(text) <= INLINE_BYTES // 4:
        return Protego.parse(text)
    return await in_thread(lambda: Protego.parse(text))
