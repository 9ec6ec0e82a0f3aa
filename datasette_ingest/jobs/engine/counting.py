"""Counts the rows of jobs whose start did not wait for it: a slice at a time, on read connections, beside the work.

A job's rows are those that it has reserved and those behind its cursor that its filters select. What it has answered may
no longer fit the filters, so it is not counted again. Nothing of a count is stored until it is done, but the least number;
a process that dies counts anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ... import compat, sqlite
from .. import keyset, leases, store
from ..errors import BadSelection
from ..keyset import Key
from . import planning

log = logging.getLogger(__name__)

FIRST_ROWS = 1_000
MOST_ROWS = 20_000
"""Rows of the table that one slice looks at."""
SLICE_SECONDS = 0.05
"""How long a slice should take: a longer one makes the next ones smaller."""
FIRST_LIMIT_MS = 1_000.0
LAST_LIMIT_MS = 60_000.0
"""A slice that takes longer than the first limit is tried again with fewer rows and more time; at the last limit the
count is given up."""
TOLD_SECONDS = 2.0
"""How often the least number is written while the count goes on."""


@dataclass(frozen=True)
class Tally:
    """The rows of a job up to and including the key `upto` (None: none yet)."""

    number: int = 0
    upto: Key | None = None
    is_whole: bool = False


def count_on(conn: sqlite3.Connection, job_id: int, tally: Tally, rows: int) -> Tally | None:
    """The tally a slice further: `rows` rows of the table, of which the filters select some. None where there is nothing
    to count any more.

    :raises BadSelection, ValueError: when the job's table, filters or position cannot be used
    """
    with _snapshot(conn):
        job = store.find_job(conn, job_id)
        if job is None or job.is_counted or job.status.is_final:
            return None
        selection = planning.stored_selection(job)
        planning.require_columns(job.table_name, sqlite.columns(conn, job.table_name), selection.columns)
        key = keyset.table_key(conn, job.table_name)
        cursor = keyset.load(job.next_cursor) if job.next_cursor else None
        if cursor is not None and (tally.upto is None or keyset.precedes(conn, key, tally.upto, cursor)):
            tally = Tally(job.done_count + leases.reserved_rows(conn, job_id), cursor)
        looked_at = keyset.page(conn, key, [], "", {}, after=tally.upto, limit=rows)
        last = key.cursor_of(looked_at.key(len(looked_at) - 1)) if len(looked_at) else None
        is_whole = len(looked_at) < rows
        number = keyset.count(
            conn, key, selection.where, selection.params, after=tally.upto, upto=None if is_whole else last
        )
    return Tally(tally.number + number, last or tally.upto, is_whole)


@contextlib.contextmanager
def _snapshot(conn: sqlite3.Connection) -> Iterator[None]:
    """One state of the database for all queries of the block."""
    if conn.in_transaction:
        yield
        return
    conn.execute("begin")
    try:
        yield
    finally:
        conn.set_progress_handler(None, 0)  # a time limit that has passed would stop the rollback, too
        conn.rollback()


async def count(db: Any, job_id: int, *, yield_to_requests: Callable[[], Awaitable[None]] | None = None) -> bool:
    """Count the rows of a job to the end, and write their number; False where they cannot be counted.

    :raises sqlite3.DatabaseError, compat.Busy: when the database cannot be read or written
    """
    tally, rows, limit_ms, told = Tally(), FIRST_ROWS, FIRST_LIMIT_MS, time.monotonic()
    while True:
        if yield_to_requests is not None:
            await yield_to_requests()
        began = time.monotonic()
        try:
            counted = await compat.read(db, _slice(job_id, tally, rows), limit_ms=limit_ms)
        except compat.Interrupted:
            if limit_ms >= LAST_LIMIT_MS:
                log.info("the rows of job %s of %s take too long to count", job_id, db.name)
                return False
            rows, limit_ms = max(1, rows // 4), min(LAST_LIMIT_MS, 2 * limit_ms)
            continue
        except (BadSelection, ValueError) as problem:  # the job's runner says so
            log.debug("the rows of job %s of %s cannot be counted: %s", job_id, db.name, problem)
            return False
        if counted is None:
            return True
        tally, took = counted, time.monotonic() - began
        if tally.is_whole or time.monotonic() - told >= TOLD_SECONDS:
            told = time.monotonic()
            await compat.write(db, _telling(job_id, tally))
            if tally.is_whole:
                return True
        rows = min(MOST_ROWS, 2 * rows) if took < SLICE_SECONDS else max(1, rows // 2)
        await asyncio.sleep(took)  # half of a reading thread's time is left to others


def _slice(job_id: int, tally: Tally, rows: int) -> Callable[[sqlite3.Connection], Tally | None]:
    return lambda conn: count_on(conn, job_id, tally, rows)


def _telling(job_id: int, tally: Tally) -> Callable[[sqlite3.Connection], None]:
    return lambda conn: store.set_row_count(conn, job_id, tally.number, is_counted=tally.is_whole)
