"""Captures: those that this process has begun. How many are open, and when a row that wants another may ask again."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ..http.waiting import wait_idle
from ..json_object import IfKnown, JsonObject
from .cdx_rows import CdxRow

LIMIT_SECONDS = 180.0
"""A capture that is pending for longer has failed. The service's own limit is 2 minutes."""
KEPT_SECONDS = 3600.0
"""How long the service knows how a capture ended. A finished capture is used by all rows for as long."""
FAILED_SECONDS = 120.0
"""How long a failed capture counts for other rows that want the same URL."""
USUAL_SECONDS = 20.0
"""What a capture takes, before one has been seen."""
FIRST_PAUSE = 30.0
"""Seconds for which nothing is begun after the service refused. They double with each refusal."""
LONGEST_PAUSE = 900.0
MOST_ENDED = 64
"""Captures that have ended, of which rows at work may still ask."""
_SMOOTHING = 0.2


@dataclass(frozen=True)
class Spn2Capture(JsonObject):
    """A capture of one URL, from its start to its end. Times are seconds since 1970."""

    job_id: str
    """The service's name for it; empty where the service made none, since it has a recent capture."""
    began: float
    next_look: float
    """No request is made for it before."""
    looks: int = 0
    """How often the service was asked for its state; once it has ended, how often the index was asked for its row."""
    ended: IfKnown[float] = None
    url: IfKnown[str] = None
    """The URL that was captured, after redirects. None where the service does not say it."""
    timestamp: IfKnown[str] = None
    """14 digits, UTC."""
    row: IfKnown[CdxRow] = None
    """The row of the archive's index, once it was found."""
    error: IfKnown[str] = None
    """The service's code, without its prefix, of a capture that failed; empty: it has none."""
    message: IfKnown[str] = None
    """What the service says of the failure."""

    @property
    def seconds(self) -> float:
        """How long others may use what is known of it."""
        return KEPT_SECONDS if self.error is None else FAILED_SECONDS

    def is_open(self, now: float) -> bool:
        """Whether it takes one of the service's places."""
        return self.ended is None and self.began <= now < self.began + LIMIT_SECONDS

    def counts(self, now: float) -> bool:
        """Whether it still says something about its URL."""
        since = self.began if self.ended is None else self.ended
        return since <= now < since + self.seconds


class Spn2Captures:
    """The captures of this process, shared by all of its jobs. Its size does not depend on the number of rows.

    A row that finds no place gets a time to come back. Rows that come back have a queue of their own, so that new rows
    do not go before them. In each queue a place is promised anew once a capture has usually ended.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[str, Spn2Capture] = OrderedDict()
        self._starting = 0
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}
        """URL -> the lock of those who go on with its capture, and how many they are."""
        self._places: tuple[int, float] | None = None
        """(how many captures were open when the service had no place for one more, until when that counts)."""
        self._usual = USUAL_SECONDS
        self._closed_until = 0.0
        self._refusals = 0
        self.reason = ""
        """What the service said when it refused last."""
        self.starting = asyncio.Lock()
        """Captures are begun one after the other, so that the service's number of free places is never older than the
        last of them."""
        self._promised: dict[bool, deque[float]] = {True: deque(), False: deque()}
        """Whether the row comes back -> the last times that were promised, one for each place."""

    def __len__(self) -> int:
        return len(self._known)

    @asynccontextmanager
    async def alone(self, url: str) -> AsyncIterator[None]:
        """Within it no other row goes on with the capture of this URL."""
        lock, users = self._locks.get(url, (asyncio.Lock(), 0))
        self._locks[url] = lock, users + 1
        try:
            await wait_idle(lock.acquire())
            try:
                yield
            finally:
                lock.release()
        finally:
            lock, users = self._locks.pop(url)
            if users > 1:
                self._locks[url] = lock, users - 1

    def get(self, url: str, now: float) -> Spn2Capture | None:
        """What is known of a URL's capture; None if there is none that counts."""
        capture = self._known.get(url)
        return capture if capture is not None and capture.counts(now) else None

    def open(self, now: float) -> int:
        """How many places are taken."""
        return self._starting + sum(capture.is_open(now) for capture in self._known.values())

    def enter(self, now: float, *, limit: int, is_back: bool) -> float:
        """Take a place.

        :param limit: how many there are
        :param is_back: whether the row was told to come back
        :returns: 0.0: the place is taken until `leave`; else the seconds after which the row may ask again
        """
        if self._places is not None and now < self._places[1]:
            limit = min(limit, self._places[0])
        if not self.is_closed(now) and self.open(now) < limit:
            self._starting += 1
            return 0.0
        turns = self._promised[is_back]
        while len(turns) > limit:
            turns.popleft()
        turn = max(now + self._usual / limit, self._closed_until)
        if len(turns) == limit:
            turn = max(turn, turns.popleft() + self._usual)
        turns.append(turn)
        return turn - now

    def leave(self) -> None:
        """Give back a place. A capture that was begun in it is noted first, and keeps it."""
        self._starting -= 1

    def note(self, url: str, capture: Spn2Capture, now: float) -> None:
        """Keep the state of a capture."""
        before = self._known.pop(url, None)
        self._known[url] = capture
        if before is not None and before.ended is None and capture.ended is not None:
            took = min(max(capture.ended - capture.began, 1.0), LIMIT_SECONDS)
            self._usual += _SMOOTHING * (took - self._usual)
        self._forget_some(now)

    def forget(self, url: str) -> None:
        self._known.pop(url, None)

    def adopt(self, stored: Mapping[str, Spn2Capture], now: float) -> None:
        """Count the open captures of an earlier process, or of another one on the same file."""
        for url, capture in stored.items():
            if capture.is_open(now):
                self._known.setdefault(url, capture)

    def is_closed(self, now: float) -> bool:
        """Whether nothing is begun, because the service refused."""
        return now < self._closed_until

    def full(self, now: float, reason: str) -> None:
        """The service has no place beside the captures that are open. Where none is ours, others have them all."""
        ours = self.open(now) - self._starting
        if ours:
            self._places = ours, now + self._usual
        else:
            self.refused(now, reason)

    def refused(self, now: float, reason: str, seconds: float | None = None) -> None:
        """The service begins nothing: neither do we, for some time.

        :param reason: what it said
        :param seconds: the pause that it asked for
        """
        pause = min(FIRST_PAUSE * 2**self._refusals, LONGEST_PAUSE)
        self._refusals += pause < LONGEST_PAUSE
        self._closed_until = now + max(pause, seconds or 0.0)
        self.reason = reason

    def accepted(self) -> None:
        """The service has begun a capture: the next refusal is the first again."""
        self._refusals = 0

    def forget_promises(self) -> None:
        """A job has ended: its rows will not come back."""
        for turns in self._promised.values():
            turns.clear()

    def _forget_some(self, now: float) -> None:
        ended = [url for url, capture in self._known.items() if not capture.is_open(now)]
        for url in ended[: max(0, len(ended) - MOST_ENDED)]:
            del self._known[url]
