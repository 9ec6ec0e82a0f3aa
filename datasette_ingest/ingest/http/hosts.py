"""Politeness: how many requests a host gets at once, how far apart, and when it gets none.

Waiting for a host holds no global slot, so a slow or resting host delays no other host's rows. In every queue the
requests of rows in progress go before first requests: a row in progress holds a page in memory until it is answered.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ..errors import PutOff
from ..waiting import wait_idle

T = TypeVar("T")

MAX_DELAY = 30.0
"""Longest pause that a host's slowness alone brings about, in seconds; Heritrix stops at the same."""
MAX_CRAWL_DELAY = 300.0
"""Longest Crawl-delay that is honoured; a longer one is read as this."""
OVERTIME = 2.0
"""A request that has waited for this many times its patience is put off, whatever was foreseen."""
NOTICE_SECONDS = 2.0
"""By then every process knows how many share the hosts now."""
SHARED_STRETCH = 1.01
"""Pauses of several processes are this much longer, so that two clocks that drift do not bring one request too many."""
_SMOOTHING = 0.3
_KEEP_HOSTS = 1024
_LOOK_AT = 2
"""Hosts that are looked at, longest known first, before a new one is added: more than one, so that their number falls."""


class Queue(Generic[T]):
    """Two-level FIFO: items of rows in progress go before those of rows that begin. Entries can be withdrawn."""

    def __init__(self) -> None:
        self._going_on: OrderedDict[T, None] = OrderedDict()
        self._beginning: OrderedDict[T, None] = OrderedDict()

    def append(self, item: T, *, goes_on: bool) -> None:
        (self._going_on if goes_on else self._beginning)[item] = None

    def ahead(self, *, goes_on: bool) -> int:
        """How many would be served before an item that is appended now."""
        return len(self._going_on) if goes_on else len(self)

    def popleft(self) -> T:
        return (self._going_on or self._beginning).popitem(last=False)[0]

    def discard(self, item: T) -> None:
        self._going_on.pop(item, None)
        self._beginning.pop(item, None)

    def items(self) -> list[T]:
        return [*self._going_on, *self._beginning]

    def __len__(self) -> int:
        return len(self._going_on) + len(self._beginning)


class Slots:
    """A semaphore with a two-level queue: how many requests may be under way together."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiting: Queue[asyncio.Future[None]] = Queue()

    async def acquire(self, *, goes_on: bool = False) -> SlotToken:
        if self._free > 0:
            self._free -= 1
            return SlotToken(self)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn, goes_on=goes_on)
        try:
            await wait_idle(turn)
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back()
            else:
                self._waiting.discard(turn)
            raise
        return SlotToken(self)

    def _give_back(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


class SlotToken:
    """One slot in use. May be released early and again: only the first time counts."""

    __slots__ = ("_slots",)

    def __init__(self, slots: Slots) -> None:
        self._slots: Slots | None = slots

    def release(self) -> None:
        slots, self._slots = self._slots, None
        if slots is not None:
            slots._give_back()


@dataclass(eq=False)
class _Place:
    """One request's place in a host's queue."""

    turn: asyncio.Future[None]
    patience: float | None


class HostGate:
    """The queue before one host. Times are of the loop's clock, in seconds."""

    def __init__(self, host: str, pace: Pace) -> None:
        self.host = host
        self._pace = pace
        self._active = 0
        self._waiting: Queue[_Place] = Queue()
        self._latency = 0.0
        self._last_start = -math.inf
        self._promised = 0.0
        """The first turn that no request was put off to."""
        self._timer: asyncio.TimerHandle | None = None
        self.crawl_delay = 0.0
        self.rest_until = 0.0
        self.slow = 0
        """Requests under way that gave their global slot to others, because the host is slow."""

    def has_state(self, now: float) -> bool:
        """Whether something is under way or waits here, or a request would have to wait."""
        return bool(self._active or self._waiting) or self._ready_at() > now

    @property
    def pause(self) -> float:
        """Seconds between two requests now: our own delay, the host's wish, or its slowness, whichever is most.

        Without a delay of our own the host's slowness does not count: politeness was switched off.
        """
        slowness = min(self._latency / self._pace.limit, MAX_DELAY) if self._pace.delay > 0 else 0.0
        return max(self._least_pause, slowness)

    @property
    def _least_pause(self) -> float:
        return max(self._pace.delay, self.crawl_delay) * self._pace.factor

    async def enter(self, *, goes_on: bool = False, patience: float | None = None) -> None:
        """Wait for a turn, for no longer than about `patience` seconds (None: however long it takes).

        :raises PutOff: when the turn is further away; it says when to come back
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        if not self._waiting and self._is_open(now):
            self._admit(now)
            return
        if patience is not None:
            self._check_wait(now, self._waiting.ahead(goes_on=goes_on), patience)
        place = _Place(loop.create_future(), patience)
        self._waiting.append(place, goes_on=goes_on)
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
            # Not at once: whoever had the answer may find that the host asks us to wait.
            loop = asyncio.get_running_loop()
            loop.call_soon(self._pump, loop)

    def strain(self) -> None:
        """The host failed or asked for less: double the pause that its slowness gives."""
        limit, delay = self._pace.limit, self._pace.delay
        self._latency = min(max(self._latency * 2, delay * limit * 2), MAX_DELAY * limit)

    def rest(self, seconds: float) -> None:
        """Start nothing for a while; what is under way may end. Requests that are less patient are put off."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self.rest_until = max(self.rest_until, now + seconds)
        for place in self._waiting.items():
            if place.patience is not None and self.rest_until - now > place.patience:
                self._put_off(place, self._resting(now))
        self._schedule(loop)

    def forget_promises(self) -> None:
        """Those who were put off do not come back."""
        self._promised = 0.0

    # Putting off

    def _check_wait(self, now: float, ahead: int, patience: float) -> None:
        if self.rest_until - now > patience:
            raise self._resting(now)
        wait = max(self._ready_at() - now, 0.0) + ahead * self.pause
        if wait > patience:
            raise self._queued(now, wait, patience)

    def _resting(self, now: float) -> PutOff:
        return PutOff(self.rest_until - now, f"{self.host} asked us to wait (Retry-After)", counts=True)

    def _queued(self, now: float, wait: float, patience: float) -> PutOff:
        """Promise a turn. Who is put off comes back somewhat earlier, so that the queue before the host never runs dry."""
        turn = max(self._promised, now + wait)
        # At the host's best pace: who comes too early is put off once more, who comes too late leaves the host idle.
        self._promised = turn + self._least_pause
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
        return self._active < self._pace.limit and now >= self._ready_at()

    def _ready_at(self) -> float:
        """When the next request may start."""
        pause = self.pause
        ready = self._last_start + pause
        if pause and ready < self._pace.joined:
            # Processes that ask this host already have to learn first that they share it.
            ready = self._pace.joined + NOTICE_SECONDS + pause
        return max(ready, self.rest_until)

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
        if self._waiting and self._active < self._pace.limit and self._timer is None:
            self._timer = loop.call_at(max(self._ready_at(), loop.time()), self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._pump(asyncio.get_running_loop())


class Pace:
    """The limits of all hosts, divided among the processes that share them.

    `processes` tells how many there are now. A larger number counts at once; a smaller one when the requests of a
    process that has ended are one pause old.
    """

    def __init__(self, limit: int, delay: float, processes: Callable[[], int] = lambda: 1) -> None:
        self._limit = limit
        self.delay = delay
        self._processes = processes
        self._shared_by = 1
        self._fewer_since: float | None = None
        self.joined = -math.inf
        """When this process learnt of another one, by the loop's clock."""

    @property
    def limit(self) -> int:
        """Requests to one host at once."""
        return max(1, self._limit // self._look())

    @property
    def factor(self) -> float:
        """How many times longer pauses are."""
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
    """Every host's gate, made when first asked for and forgotten when it has nothing to remember.

    `on_rest(host, seconds)` is called when a host has asked us to wait.
    """

    def __init__(self, pace: Pace, *, on_rest: Callable[[str, float], None] = lambda host, seconds: None) -> None:
        self._pace = pace
        self._on_rest = on_rest
        self._gates: OrderedDict[str, HostGate] = OrderedDict()

    def gate(self, host: str) -> HostGate:
        gate = self._gates.get(host)
        if gate is None:
            self._forget_some()
            gate = self._gates[host] = HostGate(host, self._pace)
        return gate

    def rest(self, host: str, seconds: float) -> None:
        """The host asked for it."""
        self.gate(host).rest(seconds)
        self._on_rest(host, seconds)

    def forget_promises(self) -> None:
        """A caller has ended, and what was put off for it does not come back."""
        for gate in self._gates.values():
            gate.forget_promises()

    def __len__(self) -> int:
        return len(self._gates)

    def _forget_some(self) -> None:
        """A constant number of steps: those known for longest leave, or go to the end if they have state."""
        now = asyncio.get_running_loop().time()
        for _ in range(min(_LOOK_AT, len(self._gates) - _KEEP_HOSTS)):
            host, gate = self._gates.popitem(last=False)
            if gate.has_state(now):
                self._gates[host] = gate
