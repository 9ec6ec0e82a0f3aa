"""Hours in seconds: an event loop whose clock jumps to the next timer whenever there is nothing else to do.

    async def main(clock):
        async with serving(path) as datasette:
            ...
            await Worker(datasette, timing=clock.timing()).run_until_idle()

    virtual.run(main)

Only asyncio's timers are virtual. Threads are not: while a database call or anything else in an executor is under way,
time stands still. Nor are sockets: what a peer of another thread or process sends is waited for a moment of real time
before each jump.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import selectors
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar
from unittest import mock

from datasette.database import Database

from datasette_ingest.jobs.engine.runner import Timing
from datasette_ingest.jobs.owner import liveness

T = TypeVar("T")

LEASE_SECONDS = 10.0**6
"""Leases are renewed by a thread, in real time, which would come too late."""
SOCKET_SECONDS = 0.002


class Clock:
    """The virtual time. It begins now, and moves only when nothing else happens."""

    def __init__(self) -> None:
        self.began = time.time()
        self.elapsed = 0.0

    def __call__(self) -> float:
        """Seconds since 1970."""
        return self.began + self.elapsed

    def timing(self, **limits: Any) -> Timing:
        """Clocks and limits for a Worker that lives in this time."""
        return Timing(**{"clock": self, "liveness": liveness, "lease_seconds": LEASE_SECONDS, **limits})


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on a Clock. `outstanding`: calls in threads that it waits for."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.outstanding = 0
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self.clock.elapsed

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:
        future = super().run_in_executor(executor, func, *args)
        self.outstanding += 1
        future.add_done_callback(self._came_back)
        return future

    def _came_back(self, _: Any) -> None:
        self.outstanding -= 1


class _Selector(selectors.DefaultSelector):
    """Moves the clock on where the loop would sleep."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        if self._loop.outstanding:
            return super().select(None)  # whatever comes back wakes the loop
        has_sockets = len(self.get_map()) > 1  # one is the loop's own, by which threads wake it
        events = super().select(SOCKET_SECONDS if has_sockets else 0)
        if not events:
            self._loop.clock.elapsed = round(self._loop.clock.elapsed + timeout, 9)  # to the loop's own resolution
        return events


def run(main: Callable[[Clock], Awaitable[T]]) -> T:
    """The result of `main(clock)`, run on a VirtualLoop of its own."""
    clock = Clock()
    loop = VirtualLoop(clock)
    try:
        with _counted(loop):
            return loop.run_until_complete(_awaited(main, clock))
    finally:
        try:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            loop.close()


async def _awaited(main: Callable[[Clock], Awaitable[T]], clock: Clock) -> T:
    return await main(clock)


@contextlib.contextmanager
def _counted(loop: VirtualLoop) -> Iterator[None]:
    """Count Datasette's calls to its databases as outstanding: they wait for threads that the loop knows nothing of."""

    def counted(method: Any) -> Any:
        @functools.wraps(method)
        async def call(*args: Any, **kwargs: Any) -> Any:
            loop.outstanding += 1
            try:
                return await method(*args, **kwargs)
            finally:
                loop.outstanding -= 1

        return call

    methods = {name: method for name, method in vars(Database).items() if inspect.iscoroutinefunction(method)}
    with mock.patch.multiple(Database, **{name: counted(method) for name, method in methods.items()}):
        yield
