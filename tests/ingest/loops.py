"""An event loop whose clock jumps to the next timer, for what waits for minutes and asks no real server."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += timeout or 0.0
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _Selector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run(test: Coroutine[Any, Any, T]) -> T:
    """Run a test on such a loop."""
    loop = JumpingLoop()
    try:
        return loop.run_until_complete(test)
    finally:
        loop.close()
