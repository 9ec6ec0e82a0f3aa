"""Ctrl-C and SIGTERM while a command runs jobs: the first one stops the work in good order, a second one at once."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator

from ..jobs.engine.worker import Worker

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Whether somebody asked to stop. `worker` is told so; put the one that is at work there."""

    def __init__(self) -> None:
        self.worker: Worker | None = None
        self._came = asyncio.Event()

    @property
    def came(self) -> bool:
        return self._came.is_set()

    def come(self) -> None:
        """Stop what is at work. From now on the signals do what they do to any program."""
        self._came.set()
        _let_go()
        if self.worker is not None:
            self.worker.stop()

    async def wait(self, seconds: float) -> bool:
        """Wait so long; True as soon as somebody asks to stop."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._came.wait(), seconds)
        return self._came.is_set()


@contextlib.contextmanager
def interruptible() -> Iterator[Interruption]:
    """Listen to both signals for as long as the block lasts, on the running loop."""
    interruption = Interruption()
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError, RuntimeError):  # Windows; not the main thread
        for number in SIGNALS:
            loop.add_signal_handler(number, interruption.come)
    try:
        yield interruption
    finally:
        _let_go()


def _let_go() -> None:
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError, RuntimeError):
        for number in SIGNALS:
            loop.remove_signal_handler(number)
