"""Manners: how many requests a host gets at once, how far apart, and when it is left alone.

Waiting for a host holds no global slot, so a slow or resting host delays nobody else's rows. In every queue those who
go on with a row come before those who begin one: a row that was begun holds a page in memory until it is answered.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_DELAY = 30.0
"""Longest pause that a host's slowness alone brings about, in seconds; Heritrix stops at the same."""
MAX_CRAWL_DELAY = 300.0
"""Longest Crawl-delay that is honoured; a longer one is read as this."""
_SMOOTHING = 0.3
_FORGET_AFTER = 1024

on_behalf_of: contextvars.ContextVar[object | None] = contextvars.ContextVar("on_behalf_of", default=None)
"""Whose request it is that waits for a host: a mark of the caller's own, told apart by identity. One crawler serves
many, and none of them should learn from it which hosts another one asks."""


class Queue(Generic[T]):
    """First come, first served, but those who go on are served before those who begin. Whoever gives up may leave."""

    def __init__(self) -> None:
        self._going_on: OrderedDict[T, None] = OrderedDict()
        self._beginning: OrderedDict[T, None] = OrderedDict()

    def append(self, item: T, *, goes_on: bool) -> None:
        (self._going_on if goes_on else self._beginning)[item] = None

    @property
    def first(self) -> T:
        return next(iter(self._going_on or self._beginning))

    def popleft(self) -> T:
        return (self._going_on or self._beginning).popitem(last=False)[0]

    def discard(self, item: T) -> None:
        self._going_on.pop(item, None)
        self._beginning.pop(item, None)

    def __iter__(self) -> Iterator[T]:
        yield from self._going_on
        yield from self._beginning

    def __len__(self) -> int:
        return len(self._going_on) + len(self._beginning)


class Slots:
    """How many requests may be under way together."""

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
            await turn
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


class HostGate:
    """The queue before one host. Times are of the loop's clock, in seconds."""

    def __init__(self, limit: int, delay: float, on_change: Callable[[], None]) -> None:
        self._limit = limit
        self._delay = delay
        self._on_change = on_change
        self._active = 0
        self._waiting: Queue[tuple[asyncio.Future[None], bool, object | None]] = Queue()
        self._latency = 0.0
        self._next_start = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self.crawl_delay = 0.0
        self.rest_until = 0.0
        self.slow = 0
        """Requests under way that gave their global slot to others, because the host is slow."""

    @property
    def idle(self) -> bool:
        return not self._active and not self._waiting

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def keeps_waiting(self, whose: object) -> bool:
        """Whether a request of theirs waits here."""
        return any(owner is whose for _, _, owner in self._waiting)

    @property
    def pause(self) -> float:
        """Seconds between two requests now: our own delay, the host's wish, or its slowness, whichever is most.

        With no delay of our own the host's slowness is not looked at: politeness was switched off.
        """
        slowness = min(self._latency / self._limit, MAX_DELAY) if self._delay > 0 else 0.0
        return max(self._delay, self.crawl_delay, slowness)

    async def enter(self, *, paced: bool, goes_on: bool = False) -> None:
        """Wait for a turn. An unpaced one (robots.txt) keeps to the limit and to rests, not to the pause."""
        loop = asyncio.get_running_loop()
        if not self._waiting and self._open(loop.time(), paced):
            self._admit(loop.time(), paced)
            return
        turn: asyncio.Future[None] = loop.create_future()
        place = (turn, paced, on_behalf_of.get())
        self._waiting.append(place, goes_on=goes_on)
        self._on_change()
        self._schedule(loop)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()
            else:
                self._waiting.discard(place)
            raise

    def leave(self, *, latency: float | None = None) -> None:
        """A request ended; `latency` is the time to its first byte, None if it never came."""
        self._active -= 1
        if latency is not None:
            self._latency += _SMOOTHING * (latency - self._latency)
        self._pump(asyncio.get_running_loop())

    def strain(self) -> None:
        """The host failed or asked for less: double the pause that its slowness gives."""
        self._latency = min(max(self._latency * 2, self._delay * self._limit * 2), MAX_DELAY * self._limit)

    def rest(self, seconds: float) -> None:
        """Start nothing for a while; what runs may end."""
        loop = asyncio.get_running_loop()
        self.rest_until = max(self.rest_until, loop.time() + seconds)
        self._on_change()
        self._schedule(loop)

    def _open(self, now: float, paced: bool) -> bool:
        return self._active < self._limit and now >= self._ready_at(paced)

    def _ready_at(self, paced: bool) -> float:
        return max(self._next_start, self.rest_until) if paced else self.rest_until

    def _admit(self, now: float, paced: bool) -> None:
        self._active += 1
        if paced:
            self._next_start = now + self.pause

    def _pump(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            turn, paced, _ = self._waiting.first
            if turn.done():
                self._waiting.popleft()
                continue
            # The loop's timers fire up to its resolution early.
            if not self._open(loop.time() + 0.001, paced):
                break
            self._waiting.popleft()
            self._admit(loop.time(), paced)
            turn.set_result(None)
        self._schedule(loop)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._waiting and self._active < self._limit and self._timer is None:
            self._timer = loop.call_at(max(self._ready_at(self._waiting.first[1]), loop.time()), self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._on_change()
        self._pump(asyncio.get_running_loop())


class Hosts:
    """Every host's gate, made when first asked for and forgotten when it has nothing to remember."""

    def __init__(self, *, limit: int, delay: float, on_change: Callable[[], None] = lambda: None) -> None:
        self._limit = limit
        self._delay = delay
        self._on_change = on_change
        self._gates: dict[str, HostGate] = {}

    def gate(self, host: str) -> HostGate:
        gate = self._gates.get(host)
        if gate is None:
            if len(self._gates) >= _FORGET_AFTER:
                self._forget(asyncio.get_running_loop().time())
            gate = self._gates[host] = HostGate(self._limit, self._delay, self._on_change)
        return gate

    def resting(self, now: float) -> tuple[int, float | None]:
        """How many requests wait for a host that rests, and when the first of those hosts wakes."""
        resting = [gate for gate in self._gates.values() if gate.waiting and gate.rest_until > now]
        return sum(gate.waiting for gate in resting), min((gate.rest_until for gate in resting), default=None)

    def resting_for(self, whose: object, now: float) -> list[tuple[str, float]]:
        """The hosts that rest while requests made on behalf of `whose` wait for them, and until when each does."""
        return [
            (host, gate.rest_until)
            for host, gate in self._gates.items()
            if gate.rest_until > now and gate.keeps_waiting(whose)
        ]

    def _forget(self, now: float) -> None:
        for host, gate in list(self._gates.items()):
            if gate.idle and gate.rest_until <= now and gate._next_start <= now and not gate.crawl_delay:
                del self._gates[host]
