"""Politeness: how many requests a host gets at once, how far apart, and when it gets none.

Waiting for a host holds no global slot, so a host that is slow or asked us to wait delays no other host's rows. In every
queue the requests of rows in progress go before first requests: a row in progress holds a page in memory.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..errors import PutOff
from .waiting import wait_idle

T = TypeVar("T")

MAX_DELAY = 30.0
"""Longest interval between requests that a host's slowness alone causes, in seconds. Heritrix has the same limit."""
LONGEST_BACK_OFF = 3600.0
"""Longest Retry-After, in seconds, that is waited for; with a longer one a row is answered `rate-limited`."""
MAX_BACK_OFFS = 3
"""How often a row waits for a Retry-After, earlier tries included, before it is answered `rate-limited`."""
PRIORITY_PATIENCE = 10
"""A row that has had a response waits this many times longer before it is put off, since it would start over."""
MAX_CRAWL_DELAY = 300.0
"""Longest Crawl-delay that is kept, in seconds; a longer one is read as this."""
OVERTIME = 2.0
"""A request that has waited for this many times its patience is put off, although its turn seemed near."""
NOTICE_SECONDS = 2.0
"""Time in which every process learns how many processes share the hosts."""
SHARED_STRETCH = 1.01
"""Intervals of several processes are longer by this factor, so that a few milliseconds of jitter add no request."""
_SMOOTHING = 0.3
_KEEP_HOSTS = 1024
_LOOK_AT = 2
"""Hosts that are checked before a new one is added. More than one, so that the number of hosts can shrink."""


class Queue(Generic[T]):
    """Two-level FIFO queue: items with priority go before the others. Items can be withdrawn."""

    def __init__(self) -> None:
        self._first: OrderedDict[T, None] = OrderedDict()
        self._others: OrderedDict[T, None] = OrderedDict()

    def append(self, item: T, *, priority: bool) -> None:
        (self._first if priority else self._others)[item] = None

    def ahead(self, *, priority: bool) -> int:
        """How many items would go before one that is appended now."""
        return len(self._first) if priority else len(self)

    def popleft(self) -> T:
        return (self._first or self._others).popitem(last=False)[0]

    def discard(self, item: T) -> None:
        self._first.pop(item, None)
        self._others.pop(item, None)

    def items(self) -> list[T]:
        return [*self._first, *self._others]

    def __len__(self) -> int:
        return len(self._first) + len(self._others)


class PrioritySemaphore:
    """Limits how many requests are under way at once. Requests with priority get the next free slot."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiting: Queue[asyncio.Future[None]] = Queue()

    async def acquire(self, *, priority: bool = False) -> Permit:
        if self._free > 0:
            self._free -= 1
            return Permit(self)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn, priority=priority)
        try:
            await wait_idle(turn)
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back()
            else:
                self._waiting.discard(turn)
            raise
        return Permit(self)

    def _give_back(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class Permit:
    """A slot of a PrioritySemaphore. Releasing it twice does no harm."""

    __slots__ = ("_semaphore",)

    def __init__(self, semaphore: PrioritySemaphore) -> None:
        self._semaphore: PrioritySemaphore | None = semaphore

    def release(self) -> None:
        semaphore, self._semaphore = self._semaphore, None
        if semaphore is not None:
            semaphore._give_back()


@dataclass(eq=False)
class _Place:
    """One request's place in a host's queue."""

    turn: asyncio.Future[None]
    patience: float | None


class HostLimiter:
    """The rate limiter and queue of one host. Times are those of the event loop's clock, in seconds."""

    def __init__(self, host: str, pace: Pace) -> None:
        self.host = host
        self.pace = pace
        self._active = 0
        self._waiting: Queue[_Place] = Queue()
        self._latency = 0.0
        self._last_start = -math.inf
        self._promised = 0.0
        """The next turn that can be promised to a request that is put off."""
        self._timer: asyncio.TimerHandle | None = None
        self.crawl_delay = 0.0
        self.back_off_until = 0.0
        self.slow = 0
        """Requests under way that released their global slot because the host is slow."""

    def has_state(self, now: float) -> bool:
        """Whether requests are under way or wait, or a new one would have to wait."""
        return bool(self._active or self._waiting) or self._ready_at() > now

    @property
    def interval(self) -> float:
        """Seconds between the starts of two requests: the largest of our own delay, the host's Crawl-delay and what its
        slowness asks for. With a delay of 0, politeness is switched off and slowness does not count."""
        slowness = min(self._latency / self.pace.limit, MAX_DELAY) if self.pace.delay > 0 else 0.0
        return max(self._least_interval, slowness)

    @property
    def _least_interval(self) -> float:
        return max(self.pace.delay, self.crawl_delay) * self.pace.factor

    async def enter(self, *, priority: bool = False, patience: float | None = None) -> None:
        """Wait for a turn.

        :param patience: the longest wait, in seconds; None: no limit
        :raises PutOff: when the turn is further away than that; it says when to come back
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        if not self._waiting and self._is_open(now):
            self._admit(now)
            return
        if patience is not None:
            self._check_wait(now, self._waiting.ahead(priority=priority), patience)
        place = _Place(loop.create_future(), patience)
        self._waiting.append(place, priority=priority)
        self._schedule(loop)
        overdue = None if patience is None else loop.call_later(OVERTIME * patience, self._overdue, place)
        try:
            await wait_idle(place.turn)
        except asyncio.CancelledError:
            turn = place.turn
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self.leave()
            else:
                self._waiting.discard(place)
            raise
        finally:
            if overdue is not None:
                overdue.cancel()

    def leave(self, *, latency: float | None = None) -> None:
        """A request ended; `latency` is the time to its first byte, None if it never came."""
        self._active -= 1
        if latency is not None:
            self._latency += _SMOOTHING * (latency - self._latency)
        if self._waiting:
            # Not at once: the caller may find a Retry-After in the response, and back off first.
            loop = asyncio.get_running_loop()
            loop.call_soon(self._pump, loop)

    def penalise(self) -> None:
        """The host failed: double the interval that its slowness causes."""
        limit, delay = self.pace.limit, self.pace.delay
        self._latency = min(max(self._latency * 2, delay * limit * 2), MAX_DELAY * limit)

    def back_off(self, seconds: float) -> None:
        """Start no request for some time. Waiting requests with less patience are put off."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self.back_off_until = max(self.back_off_until, now + seconds)
        for place in self._waiting.items():
            if place.patience is not None and self.back_off_until - now > place.patience:
                self._put_off(place, self._resting(now))
        self._schedule(loop)

    def forget_promises(self) -> None:
        """Requests that were put off will not come back: their turns can be promised again."""
        self._promised = 0.0

    # Putting off

    def _check_wait(self, now: float, ahead: int, patience: float) -> None:
        if self.back_off_until - now > patience:
            raise self._resting(now)
        wait = max(self._ready_at() - now, 0.0) + ahead * self.interval
        if wait > patience:
            raise self._queued(now, wait, patience)

    def _resting(self, now: float) -> PutOff:
        return PutOff(self.back_off_until - now, f"{self.host} asked us to wait (Retry-After)", counts=True)

    def _queued(self, now: float, wait: float, patience: float) -> PutOff:
        """Promise a turn. The request comes back somewhat earlier, so that the queue is never empty."""
        turn = max(self._promised, now + wait)
        # The shortest interval: a request that comes back too early is put off again, one too late leaves the host idle.
        self._promised = turn + self._least_interval
        early = patience / 2
        return PutOff(max(turn - now - early, early), f"{self.host}: waiting for its turn", counts=False)

    def _overdue(self, place: _Place) -> None:
        if place.patience is not None:
            self._put_off(place, self._queued(asyncio.get_running_loop().time(), place.patience, place.patience))

    def _put_off(self, place: _Place, reason: PutOff) -> None:
        self._waiting.discard(place)
        if not place.turn.done():
            place.turn.set_exception(reason)

    # Turns

    def _is_open(self, now: float) -> bool:
        return self._active < self.pace.limit and now >= self._ready_at()

    def _ready_at(self) -> float:
        """When the next request may start."""
        interval = self.interval
        ready = self._last_start + interval
        if interval and ready < self.pace.joined:
            # Another process may be asking this host. First let it learn that it shares the host.
            ready = self.pace.joined + NOTICE_SECONDS + interval
        return max(ready, self.back_off_until)

    def _admit(self, now: float) -> None:
        self._active += 1
        self._last_start = now

    def _pump(self, loop: asyncio.AbstractEventLoop) -> None:
        # The loop's timers fire up to its resolution early.
        while self._waiting and self._is_open(loop.time() + 0.001):
            place = self._waiting.popleft()
            if not place.turn.done():
                self._admit(loop.time())
                place.turn.set_result(None)
        self._schedule(loop)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._waiting and self._active < self.pace.limit and self._timer is None:
            self._timer = loop.call_at(max(self._ready_at(), loop.time()), self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._pump(asyncio.get_running_loop())


class Pace:
    """The limits for each host, divided among the crawlers that share them.

    :param limit: requests to one host at once, of all of them together
    :param delay: seconds between two requests to one host, of all of them together
    :param processes: returns how many crawlers share the hosts now, in all processes. A larger number applies at once; a
        smaller one once the last request of the crawler that ended is one interval old
    """

    def __init__(self, limit: int, delay: float, processes: Callable[[], int] = lambda: 1) -> None:
        self._limit = limit
        self.delay = delay
        self._processes = processes
        self._shared_by = 1
        self._fewer_since: float | None = None
        self.joined = -math.inf
        """When the number of processes rose last, by the event loop's clock."""

    @property
    def limit(self) -> int:
        """Requests of this process to one host at once."""
        return max(1, self._limit // self._look())

    @property
    def factor(self) -> float:
        """By how much the intervals of this process are longer."""
        shared_by = self._look()
        return 1.0 if shared_by == 1 else shared_by * SHARED_STRETCH

    def _look(self) -> int:
        number = max(1, self._processes())
        if number == self._shared_by:
            self._fewer_since = None
            return number
        now = asyncio.get_running_loop().time()
        if number > self._shared_by:
            self._shared_by, self.joined, self._fewer_since = number, now, None
        elif self._fewer_since is None:
            self._fewer_since = now
        elif now - self._fewer_since > NOTICE_SECONDS + self.delay * self._shared_by:
            self._shared_by, self._fewer_since = number, None
        return self._shared_by


class Hosts:
    """The limiters of all hosts. One is made on first use and dropped when it has no state.

    :param pace: returns the pace of a host
    :param on_back_off: called with (host, seconds) when a host has asked us to wait
    """

    def __init__(
        self,
        pace: Pace | Callable[[str], Pace],
        *,
        on_back_off: Callable[[str, float], None] = lambda host, seconds: None,
    ) -> None:
        self._pace_of = (lambda host: pace) if isinstance(pace, Pace) else pace
        self._on_back_off = on_back_off
        self._limiters: OrderedDict[str, HostLimiter] = OrderedDict()

    def limiter(self, host: str) -> HostLimiter:
        limiter = self._limiters.get(host)
        if limiter is None:
            self._forget_some()
            limiter = self._limiters[host] = HostLimiter(host, self._pace_of(host))
        limiter.pace = self._pace_of(host)
        return limiter

    def back_off(self, host: str, seconds: float) -> None:
        """Send the host no request for some time, because it asked for that."""
        self.limiter(host).back_off(seconds)
        self._on_back_off(host, seconds)

    def forget_promises(self) -> None:
        """A job has ended: its requests that were put off will not come back."""
        for limiter in self._limiters.values():
            limiter.forget_promises()

    def __len__(self) -> int:
        return len(self._limiters)

    def _forget_some(self) -> None:
        """Check the hosts at the front, a constant number: drop those without state, move the others to the end."""
        now = asyncio.get_running_loop().time()
        for _ in range(min(_LOOK_AT, len(self._limiters) - _KEEP_HOSTS)):
            host, limiter = self._limiters.popitem(last=False)
            if limiter.has_state(now):
                self._limiters[host] = limiter


class ServiceRates:
    """The limiters of services that the configuration names, such as an archive's index. All crawlers of a process
    share them, so that the rate holds for all jobs together.

    :param processes: returns how many processes share the services now
    """

    def __init__(self, processes: Callable[[], int] = lambda: 1) -> None:
        self._processes = processes
        self._hosts: dict[tuple[str, float, int], Hosts] = {}

    def hosts(self, name: str, *, per_minute: float, at_once: int) -> Hosts:
        """The limiters of one service, by host.

        :param per_minute: requests in a minute
        :param at_once: requests under way at the same time
        """
        key = (name, per_minute, at_once)
        if key not in self._hosts:
            self._hosts[key] = Hosts(Pace(at_once, 60.0 / per_minute, self._processes))
        return self._hosts[key]

    def forget_promises(self) -> None:
        """A job has ended: its requests that were put off will not come back."""
        for hosts in self._hosts.values():
            hosts.forget_promises()
