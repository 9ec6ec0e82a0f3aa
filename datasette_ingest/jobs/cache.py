"""Look-up cache of enrichments: JSON values that expire, each key computed once at a time."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from .. import compat
from ..sqlite import columns, stamp
from . import schema

Mark: TypeAlias = "tuple[compat.FileId | None, asyncio.AbstractEventLoop, str, str]"
"""(file, event loop, enrichment, key): a server's pages and its jobs run on two loops, and a task can be awaited on its
own."""

_RUNNING: dict[Mark, asyncio.Task[Any]] = {}


class Cache:
    """`job.cache`: values by key, of one enrichment in one database, shared by its jobs and by restarts."""

    def __init__(self, db: Any, enrichment: str, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._enrichment = enrichment
        self._clock = clock

    async def get_or_set(self, key: str, compute: Callable[[], Awaitable[Any]], *, ttl: float | None = None) -> Any:
        """The stored value, or what `compute()` returns, which is then stored for `ttl` seconds (None: for good).

        Callers on one event loop that ask for one key at the same time share one computation; when it raises, all of
        them see the exception, and nothing is stored.

        :raises TypeError: when the value is not JSON
        """
        mark = (compat.file_id(self._db), asyncio.get_running_loop(), self._enrichment, key)
        task = _RUNNING.get(mark)
        if task is None:
            # a task of its own: the caller that happened to come first may be cancelled, the others still want it
            task = _RUNNING[mark] = asyncio.create_task(self._stored_or_computed(key, compute, ttl))
            task.add_done_callback(lambda ended: _let_go(mark, ended))
        return await asyncio.shield(task)

    async def _stored_or_computed(self, key: str, compute: Callable[[], Awaitable[Any]], ttl: float | None) -> Any:
        found = await compat.read(self._db, lambda conn: get(conn, self._enrichment, key, self._clock()))
        if found is not None:
            return json.loads(found)
        text = json.dumps(await compute(), ensure_ascii=False)
        now = self._clock()
        expires = None if ttl is None else now + ttl
        await compat.write(self._db, lambda conn: put(conn, self._enrichment, key, text, now, expires))
        return json.loads(text)

    async def get(self, key: str) -> Any:
        """The stored value; None where there is none, or it has expired."""
        found = await compat.read(self._db, lambda conn: get(conn, self._enrichment, key, self._clock()))
        return None if found is None else json.loads(found)

    def storing(self, key: str, value: Any, *, ttl: float) -> Callable[[sqlite3.Connection], None]:
        """A write for `BatchOutcome.writes` that stores a JSON value for `ttl` seconds."""
        text, now = json.dumps(value, ensure_ascii=False), self._clock()
        return lambda conn: put(conn, self._enrichment, key, text, now, now + ttl)

    def forgetting(self, key: str) -> Callable[[sqlite3.Connection], None]:
        """A write that deletes a value."""
        return lambda conn: delete(conn, self._enrichment, key)

    def pruning(self) -> Callable[[sqlite3.Connection], int]:
        """A write that deletes what has expired, of all enrichments."""
        now = self._clock()
        return lambda conn: prune(conn, now)

    def stored(self, conn: sqlite3.Connection, prefix: str) -> dict[str, Any]:
        """key -> value of all keys with this prefix."""
        if not columns(conn, "_enrichment_cache"):
            return {}
        rows = conn.execute(
            "select key, value from _enrichment_cache where enrichment = ? and key between ? and ? "
            "and (expires_at is null or expires_at > ?)",
            [self._enrichment, prefix, prefix + "\U0010ffff", stamp(self._clock())],
        )
        return {key: json.loads(value) for key, value in rows}


def _let_go(mark: Mark, ended: asyncio.Task[Any]) -> None:
    del _RUNNING[mark]
    if not ended.cancelled():
        ended.exception()  # whoever waits has it; nobody waiting any more is no fault


def get(conn: sqlite3.Connection, enrichment: str, key: str, now: float) -> str | None:
    """The stored JSON, unless it has expired."""
    if not columns(conn, "_enrichment_cache"):
        return None
    row = conn.execute(
        "select value from _enrichment_cache where enrichment = ? and key = ? and (expires_at is null or expires_at > ?)",
        [enrichment, key, stamp(now)],
    ).fetchone()
    return row[0] if row else None


def put(conn: sqlite3.Connection, enrichment: str, key: str, value: str, now: float, expires: float | None) -> None:
    schema.migrate(conn)
    conn.execute(
        "insert into _enrichment_cache (enrichment, key, value, created_at, expires_at) values (?, ?, ?, ?, ?) "
        "on conflict (enrichment, key) do update set value = excluded.value, created_at = excluded.created_at, "
        "expires_at = excluded.expires_at",
        [enrichment, key, value, stamp(now), None if expires is None else stamp(expires)],
    )


def delete(conn: sqlite3.Connection, enrichment: str, key: str) -> None:
    if columns(conn, "_enrichment_cache"):
        conn.execute("delete from _enrichment_cache where enrichment = ? and key = ?", [enrichment, key])


def prune(conn: sqlite3.Connection, now: float) -> int:
    """Delete what has expired; how many entries that were."""
    if not columns(conn, "_enrichment_cache"):
        return 0
    return conn.execute("delete from _enrichment_cache where expires_at <= ?", [stamp(now)]).rowcount
