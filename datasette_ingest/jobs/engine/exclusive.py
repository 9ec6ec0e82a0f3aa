"""Who is at work in this process, so that a suspect batch can run alone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class Company:
    """Counts the open batches of all runners of a process. While one asks to be alone, the others open none."""

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
        """Whether another runner is, or waits to be, alone."""
        return self._loner is not None and self._loner is not runner

    @contextlib.asynccontextmanager
    async def alone(self, runner: object) -> AsyncIterator[None]:
        """Wait until nothing is at work, and keep it so."""
        async with self._turn:
            self._loner = runner
            try:
                while self._open:
                    self._changed.clear()
                    await self._changed.wait()
                yield
            finally:
                self._loner = None
