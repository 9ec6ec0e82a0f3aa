"""Where strangers' pages are read: a small one on the event loop, a larger one in a thread, a large one in a process with
limits of time and memory. What is read at once is bounded in bytes, over all crawlers of this process."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

from .documents.pool import OutOfMemory, OutOfTime, ProcessError, ProcessPool
from .errors import HtmlParseError
from .http.body import in_thread
from .http.budget import Budget
from .model import MIB
from .urls import mask

INLINE_BYTES = 32 * 1024
"""Pages, and answers like them, up to this size are read on the event loop, in a millisecond or two."""
THREAD_BYTES = 256 * 1024
"""Pages up to this size are read in a thread. It holds Python's lock for as long as it parses: a larger page would hold up
the server's own pages."""
MOST_BYTES = 8 * MIB
"""Bytes that are read at once. A tree takes thirty times the bytes of its page."""

T = TypeVar("T")

_BUDGETS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Budget] = weakref.WeakKeyDictionary()


def is_large(size: int) -> bool:
    """Whether a page of so many bytes is read in a process of its own."""
    return size > THREAD_BYTES


async def read_page(pool: ProcessPool, size: int, url: str, work: Callable[[], T]) -> T:
    """What `work` makes of a page.

    :param size: bytes of the page
    :param work: that of a large page can be pickled, as can what it returns
    :raises HtmlParseError: when it is nested too deeply, or the process of a large page breaks a limit
    """
    try:
        return await (_in_process(pool, size, url, work) if is_large(size) else read_answer(size, work))
    except RecursionError as problem:
        raise HtmlParseError(f"the page at {mask(url)} is nested too deeply to be read") from problem


async def read_answer(size: int, work: Callable[[], T]) -> T:
    """What `work` makes of an answer in JSON or the like, which is read in a thread if it is not small."""
    if size <= INLINE_BYTES:
        return work()
    async with _reserved(size):
        return await in_thread(work)


@contextlib.asynccontextmanager
async def _reserved(size: int) -> AsyncIterator[None]:
    budget = _budget()
    reserved = await budget.reserve(size)
    try:
        yield
    finally:
        budget.release(reserved)


def _budget() -> Budget:
    return _BUDGETS.setdefault(asyncio.get_running_loop(), Budget(MOST_BYTES))


async def _in_process(pool: ProcessPool, size: int, url: str, work: Callable[[], T]) -> T:
    try:
        async with _reserved(size):
            return await pool.run(work)
    except OutOfTime as problem:
        raise HtmlParseError(f"the page at {mask(url)} takes too long to read: {problem}") from problem
    except OutOfMemory as problem:
        raise HtmlParseError(f"the page at {mask(url)} takes too much memory to read: {problem}") from problem
    except ProcessError as problem:
        raise HtmlParseError(f"the page at {mask(url)} cannot be read: {problem}") from problem
