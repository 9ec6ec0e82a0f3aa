"""Mark the waits of a task, so that a caller can leave them out of its time limit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")

around_waits: ContextVar[Callable[[], AbstractContextManager[None]]] = ContextVar("around_waits", default=nullcontext)
"""Makes the context manager that is entered around each wait of this task."""


async def wait_idle(turn: Awaitable[T]) -> T:
    """Await a turn, a slot, or another row's answer: time in which this task does nothing."""
    with around_waits.get()():
        return await turn
