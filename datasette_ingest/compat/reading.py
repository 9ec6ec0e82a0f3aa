"""A query on one of Datasette's read connections."""

from __future__ import annotations

import asyncio
import contextlib
import math
import sqlite3
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from datasette.utils import sqlite_timelimit

from .commit_gate import gate_of
from .errors import Interrupted
from .faults import is_busy, primary_code, unavailable
from .files import roll_back
from .writing import write

T = TypeVar("T")

JOURNAL_TRIES = 4
"""How often a read is tried that finds a journal which may be a dead process's: it may also be that of a transaction
which ends at this moment, and SQLite cannot tell them apart on a connection that only reads."""


_OUT_OF_TIME = ("interrupted", "database schema has changed")
"""What SQLite says of a statement that a time limit ended; the second, of one that it was still preparing. Without a
limit SQLite prepares it again by itself."""


LOCKED_SECONDS = 5.0
"""How long after a read that waited in vain for a lock others do not wait."""
_LOCKED: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()


async def read(db: Any, fn: Callable[[sqlite3.Connection], T], *, limit_ms: float | None = None) -> T:
    """`fn(conn)` on a read connection.

    Memory databases are read on the write connection: a shared cache refuses a read while a write is open.

    :raises Interrupted: when `limit_ms` passed
    :raises Unavailable: when the database cannot be read at all
    """

    def limited(conn: sqlite3.Connection) -> T:
        with _waiting_once(db, conn):
            return within_limit(conn)

    def within_limit(conn: sqlite3.Connection) -> T:
        if limit_ms is None:
            return fn(conn)
        is_apart = not (db.is_memory and db.is_mutable)
        try:
            with gate_of(db).reading() if is_apart else contextlib.nullcontext(), sqlite_timelimit(conn, limit_ms):
                return fn(conn)
        except sqlite3.OperationalError as problem:
            if str(problem) in _OUT_OF_TIME:
                raise Interrupted(f"the query took longer than {limit_ms / 1000:g} s") from None
            raise

    if db.is_memory and db.is_mutable:
        return await write(db, limited)
    try:
        return await _past_journals(db, limited, JOURNAL_TRIES - 1)
    except sqlite3.DatabaseError as problem:
        said = unavailable(db, problem)
        if said is None or _is_write(problem):
            raise
        raise said from problem


async def _past_journals(db: Any, fn: Callable[[sqlite3.Connection], T], tries_left: int) -> T:
    try:
        result: T = await db.execute_fn(fn)
    except sqlite3.DatabaseError as problem:
        if not tries_left or primary_code(problem) != 8 or not await asyncio.to_thread(roll_back, db):
            raise
        return await _past_journals(db, fn, tries_left - 1)
    return result


@contextlib.contextmanager
def _waiting_once(db: Any, conn: sqlite3.Connection) -> Iterator[None]:
    """A read of a database that was locked a moment ago does not wait again until SQLite gives up: a page reads often."""
    try:
        if time.monotonic() < _LOCKED.get(db, -math.inf):
            with _without_waiting(conn):
                yield
        else:
            yield
        _LOCKED.pop(db, None)
    except sqlite3.OperationalError as problem:
        if is_busy(problem):
            _LOCKED[db] = time.monotonic() + LOCKED_SECONDS
        raise


@contextlib.contextmanager
def _without_waiting(conn: sqlite3.Connection) -> Iterator[None]:
    before = conn.execute("pragma busy_timeout").fetchone()[0]
    conn.execute("pragma busy_timeout = 0")
    try:
        yield
    finally:
        conn.execute(f"pragma busy_timeout = {before}")


def _is_write(problem: sqlite3.DatabaseError) -> bool:
    """Whether the connection refused to write only because it is one for reading (SQLITE_READONLY without a detail)."""
    return primary_code(problem) == 8 and getattr(problem, "sqlite_errorcode", 8) == 8
