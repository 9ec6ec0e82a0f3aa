"""Budget: bytes that many tasks share. Who wants more than is free waits, in order."""

from __future__ import annotations

import asyncio
from collections import deque

from .waiting import wait_idle


class Budget:
    """At most `max_bytes` are reserved at once."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._free = max_bytes
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def reserve(self, size: int) -> int:
        """Wait until `size` bytes are free (at most the whole budget), reserve them and return how many."""
        size = min(size, self._max_bytes)
        if not self._waiting and size <= self._free:
            self._free -= size
            return size
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, size))
        try:
            await wait_idle(turn)
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release(size)
            else:
                self._waiting = deque(entry for entry in self._waiting if entry[0] is not turn)
                self._serve()
            raise
        return size

    def release(self, size: int) -> None:
        self._free += size
        self._serve()

    @property
    def used(self) -> int:
        return self._max_bytes - self._free

    def _serve(self) -> None:
        while self._waiting and (self._waiting[0][0].done() or self._waiting[0][1] <= self._free):
            turn, size = self._waiting.popleft()
            if not turn.done():
                self._free -= size
                turn.set_result(None)
