"""A query on one of Datasette's read connections."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

from datasette.utils import sqlite_timelimit

from .errors import Interrupted
from .faults import primary_code, unavailable
from .files import roll_back
from .writing import write

T = TypeVar("T")


_OUT_OF_TIME = ("interrupted", "database schema has changed")
"""What SQLite says of a statement that a time limit ended; the second, of one that it was still preparing. Without a
limit SQLite prepares it again by itself."""


async def read(db: Any, fn: Callable[[sqlite3.Connection], T], *, limit_ms: float | None = None) -> T:
    """`fn(conn)` on a read connection.

    Memory databases are read on the write connection: a shared cache refuses a read while a write is open.

    :raises Interrupted: when `limit_ms` passed
    :raises Unavailable: when the database cannot be read at all
    """

    def limited(conn: sqlite3.Connection) -> T:
        if limit_ms is None:
            return fn(conn)
        try:
            with sqlite_timelimit(conn, limit_ms):
                return fn(conn)
        except sqlite3.OperationalError as problem:
            if str(problem) in _OUT_OF_TIME:
                raise Interrupted(f"the query took longer than {limit_ms / 1000:g} s") from None
            raise

    if db.is_memory and db.is_mutable:
        return await write(db, limited)
    try:
        try:
            result: T = await db.execute_fn(limited)
        except sqlite3.DatabaseError as problem:
            if primary_code(problem) != 8 or not await asyncio.to_thread(roll_back, db):
                raise
            result = await db.execute_fn(limited)
    except sqlite3.DatabaseError as problem:
        said = unavailable(db, problem)
        if said is None or _is_write(problem):
            raise
        raise said from problem
    return result


def _is_write(problem: sqlite3.DatabaseError) -> bool:
    """Whether the connection refused to write only because it is one for reading (SQLITE_READONLY without a detail)."""
    return primary_code(problem) == 8 and getattr(problem, "sqlite_errorcode", 8) == 8
