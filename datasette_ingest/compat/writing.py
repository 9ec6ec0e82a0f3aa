"""One transaction on Datasette's write connection, which is replaced where only a new one can write."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import queue
import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from .faults import is_busy, is_datasettes, primary_code, report, unavailable
from .files import connect_for_writing, require_same_file

T = TypeVar("T")


BUSY_PAUSES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
LOGGED_PAUSE_SECONDS = 5.0


async def write(
    db: Any,
    fn: Callable[[sqlite3.Connection], T],
    *,
    pauses: Iterable[float] = BUSY_PAUSES,
    may_retry: Callable[[BaseException], bool] = is_busy,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """`fn(conn)` in one transaction that began IMMEDIATE: committed when it returns, rolled back when it raises.

    Each try waits SQLite's busy timeout inside the write thread; between tries the thread is free for others.

    :param pauses: seconds before each further try
    :param may_retry: whether to try again after this exception
    :raises Unavailable: when the database could not be written at the last try
    """
    remaining = iter(pauses)
    while True:
        result, problem = await _try_to_write(db, fn)
        if problem is None:
            return result  # type: ignore[return-value]
        pause = next(remaining, None) if may_retry(problem) else None
        if pause is None:
            said = unavailable(db, problem)
            if said is None or said is problem:
                raise problem
            raise said from problem
        if pause >= LOGGED_PAUSE_SECONDS or not is_busy(problem):
            report(db, problem)
        await sleep(pause)


async def _try_to_write(
    db: Any, fn: Callable[[sqlite3.Connection], T], *, may_reopen: bool = True
) -> tuple[T | None, Exception | None]:
    """One try, as `_transaction`. A connection that could not be opened, or only for reading, stays so, and Datasette
    keeps it for good: it is replaced where a new one can write."""
    try:
        require_same_file(db)
        kind: Any = type(db)
        result, problem = await db.execute_write_fn(lambda conn: _transaction(conn, fn), **_without_transaction(kind))
    except sqlite3.Error as failed:  # the connection could not be opened
        result, problem = None, failed
    may_help = may_reopen and problem is not None and primary_code(problem) in (8, 14) and is_datasettes(db)
    if not may_help or not await asyncio.to_thread(_is_writable, db):
        return result, problem
    _reopen_for_writing(db)
    return await _try_to_write(db, fn, may_reopen=False)


def _is_writable(db: Any) -> bool:
    """Whether a new connection could write. Blocks for as long as SQLite waits for a lock."""
    try:
        conn = connect_for_writing(db)
        if conn is None:
            return False
        with contextlib.closing(conn):
            conn.execute("begin immediate")
            version = conn.execute("pragma user_version").fetchone()[0]
            conn.execute(f"pragma user_version = {version}")
            conn.execute("rollback")
    except sqlite3.Error:
        return False
    return True


def _reopen_for_writing(db: Any) -> None:
    """Let Datasette's next write open a new connection. The thread of the old one ends, or sleeps where Datasette has no
    end for it."""
    from datasette import database

    if db.ds.executor is None:
        db._write_connection = None
        return
    old, db._write_queue, db._write_thread = db._write_queue, queue.Queue(), None
    shutdown = getattr(database, "_SHUTDOWN", None)
    if shutdown is not None and old is not None:
        old.put(shutdown)


@functools.cache
def _without_transaction(kind: Any) -> dict[str, bool]:
    """What tells `execute_write_fn` to begin no transaction of its own, where it would."""
    return {"transaction": False} if "transaction" in inspect.signature(kind.execute_write_fn).parameters else {}


def _transaction(conn: sqlite3.Connection, fn: Callable[[sqlite3.Connection], T]) -> tuple[T | None, Exception | None]:
    """The outcome and the exception as a pair: Datasette prints whatever a write function raises."""
    try:
        if conn.in_transaction:  # a stranger's write that was never committed; Datasette's next write would commit it
            conn.commit()
        conn.execute("begin immediate")
    except sqlite3.Error as problem:
        return None, problem
    try:
        result = fn(conn)
        if conn.in_transaction:
            conn.execute("commit")
        return result, None
    except Exception as problem:  # noqa: BLE001 - handed to the caller, who raises it
        if conn.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # a damaged database has nothing to roll back to
                conn.execute("rollback")
        return None, problem
