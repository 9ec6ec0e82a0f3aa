"""Ctrl-C and SIGTERM while a command runs jobs: the first one finishes what is open and stops, a second one stops at
once."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator

from ..jobs.engine.worker import Worker

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Whether a signal asked to stop. `worker`: the running worker, which is then stopped."""

    def __init__(self) -> None:
        self.worker: Worker | None = None
        self._came = asyncio.Event()

    @property
    def came(self) -> bool:
        return self._came.is_set()

    def come(self) -> None:
        """Stop the worker. From now on the signals have their usual effect."""
        self._came.set()
        _remove_handlers()
        if self.worker is not None:
            self.worker.stop()

    @property
    def event(self) -> asyncio.Event:
        """Is set when a signal asks to stop."""
        return self._came

    async def wait(self, seconds: float) -> bool:
        """Wait this long; True as soon as a signal asks to stop."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._came.wait(), seconds)
        return self._came.is_set()


@contextlib.contextmanager
def interruptible() -> Iterator[Interruption]:
    """Handle both signals on the running loop while the block lasts."""
    interruption = Interruption()
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError, RuntimeError):  # Windows; not the main thread
        for number in SIGNALS:
            loop.add_signal_handler(number, interruption.come)
    try:
        yield interruption
    finally:
        _remove_handlers()


def _remove_handlers() -> None:
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError, RuntimeError):
        for number in SIGNALS:
            loop.remove_signal_handler(number)
