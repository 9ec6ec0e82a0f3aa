"""Runs a poison batch while no other batch is open in this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class ExclusiveRuns:
    """Counts the open batches of all runners of a process. While one runner has the exclusive run or waits for it, the
    others open no batch."""

    def __init__(self) -> None:
        self._open = 0
        self._holder: object | None = None
        self._changed = asyncio.Event()
        self._lock = asyncio.Lock()

    def batch_opened(self) -> None:
        self._open += 1

    def batch_closed(self) -> None:
        self._open -= 1
        self._changed.set()

    def blocks(self, runner: object) -> bool:
        """Whether another runner has the exclusive run or waits for it."""
        return self._holder is not None and self._holder is not runner

    @contextlib.asynccontextmanager
    async def run(self, runner: object) -> AsyncIterator[None]:
        """Wait until no batch is open, and let no other runner open one inside."""
        async with self._lock:
            self._holder = runner
            try:
                while self._open:
                    self._changed.clear()
                    await self._changed.wait()
                yield
            finally:
                self._holder = None
