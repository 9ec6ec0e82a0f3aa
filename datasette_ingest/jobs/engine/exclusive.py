"""Lets a suspect batch run alone in this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Company:
    """Counts the open batches of all runners of a process. While one runner wants to be alone, the others open none."""

    def __init__(self) -> None:
        self._open = 0
        self._loner: object | None = None
        self._changed = asyncio.Event()
        self._turn = asyncio.Lock()

    def enter(self, runner: object) -> None:
        self._open += 1

    def leave(self, runner: object) -> None:
        self._open -= 1
        self._changed.set()

    def is_closed(self, runner: object) -> bool:
        """Whether another runner is alone or waits to be."""
        return self._loner is not None and self._loner is not runner

    @contextlib.asynccontextmanager
    async def alone(self, runner: object) -> AsyncIterator[None]:
        """Wait until no batch is open, and let no other runner open one inside."""
        async with self._turn:
            self._loner = runner
            try:
                while self._open:
                    self._changed.clear()
                    await self._changed.wait()
                yield
            finally:
                self._loner = None
