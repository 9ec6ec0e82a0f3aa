"""Write a batch: only what is new. Functions of a connection; they neither commit nor await."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from ...sqlite import columns
from .. import store
from ..schema import FACTS_IN_RESULTS, FILESET_TABLES, REQUEST_TABLES, RESULT_TABLES
from ..store import loaded
from ..store.requests import TABLE, RequestRow, insert_rows, unknown_rows
from .load import Batch, Loaded, Look
from .results import LoadedResult

TABLES = (*REQUEST_TABLES, loaded.TABLE)
"""What loading requests needs."""
TABLES_OF_RESULTS = (*RESULT_TABLES, *FILESET_TABLES, *FACTS_IN_RESULTS, *REQUEST_TABLES)
"""What loading results needs: a fact whose table is missing would not be written."""


@dataclass(frozen=True)
class Written:
    """Numbers of requests, and of results that were new."""

    new: int = 0
    known: int = 0
    new_results: int = 0

    def __add__(self, other: Written) -> Written:
        return Written(self.new + other.new, self.known + other.known, self.new_results + other.new_results)

    @property
    def mostly_known(self) -> bool:
        return self.known > self.new


def write_batch(conn: sqlite3.Connection, batch: Batch, *, most: int | None, mostly_known: bool) -> Written:
    """Record what is new. The tables exist.

    :param most: no more new requests than this
    :param mostly_known: whether most of the requests are expected to be in the table; only speed depends on it
    """
    if batch.results:
        return _write_results(conn, batch.results, most)
    if most is None and not mostly_known:
        return _write_all(conn, batch)
    rows, unknown = _up_to(batch.rows, unknown_rows(conn, batch.rows), most)
    insert_rows(conn, unknown)
    return Written(len(unknown), len(rows) - len(unknown) + batch.known)


def _write_all(conn: sqlite3.Connection, batch: Batch) -> Written:
    rows = sorted(batch.rows, key=itemgetter(1))
    last = loaded.last_rowid(conn)
    new = insert_rows(conn, rows)
    if new == len(rows) > 0 and loaded.last_rowid(conn) == last + new:  # all new, and under consecutive rowids
        blocks = [(block.digest, block.count, block.lines, block.requests) for block in batch.blocks]
        loaded.remember(conn, blocks, rows, last + 1, rows[0][5])
    return Written(new, len(rows) - new + batch.known)


def look_up(conn: sqlite3.Connection) -> Look:
    """Finds blocks of lines that were loaded before. The table of these blocks exists.

    :param conn: a connection for this alone; it only reads
    """
    known = loaded.Blocks(conn)

    def look(digest: str) -> Loaded | None:
        found = known.find(digest)
        return None if found is None else Loaded(digest, *found)

    return look


def _up_to(
    rows: Sequence[RequestRow], unknown: Sequence[RequestRow], most: int | None
) -> tuple[Sequence[RequestRow], Sequence[RequestRow]]:
    """(the rows up to the last one that is wanted, those of them that are new). `unknown` are some of the rows."""
    if most is None or len(unknown) <= most:
        return rows, unknown
    last = unknown[most - 1]
    return rows[: next(place for place, row in enumerate(rows, 1) if row is last)], unknown[:most]


def _write_results(conn: sqlite3.Connection, taken: Sequence[LoadedResult], most: int | None) -> Written:
    total = Written()
    for each in taken:
        if most is not None and total.new >= most:
            break
        is_new = insert_rows(conn, [each.row])
        has_result = store.stored_result(conn, *each.result_key) is not None
        if not has_result:
            store.write(conn, each.result, job_id=None, now=each.when)
        total += Written(is_new, 1 - is_new, int(not has_result))
    return total


class DryRun:
    """Counts batches as `write_batch` does. What it has counted is kept in temporary tables, on disk.

    :param conn: a connection that may only read
    """

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn
        conn.execute("create temp table seen_request (a, b, c, d, primary key (a, b, c, d)) without rowid")
        conn.execute("create temp table seen_result (a, b, primary key (a, b)) without rowid")
        self._has_requests = bool(columns(conn, TABLE))
        self._has_results = store.has_results(conn)

    def add(self, batch: Batch, most: int | None) -> Written:
        rows: Sequence[RequestRow] = batch.rows or [each.row for each in batch.results]
        unknown = unknown_rows(self._conn, rows) if self._has_requests else rows
        unknown = [row for row in unknown if self._is_first("seen_request", row[:4])]
        rows, unknown = _up_to(rows, unknown, most)
        results = [each.result_key for each in batch.results[: len(rows)]]
        if self._has_results:
            results = [key for key in results if store.stored_result(self._conn, *key) is None]
        new_results = sum(self._is_first("seen_result", key) for key in results)
        return Written(len(unknown), len(rows) - len(unknown), new_results)

    def _is_first(self, table: str, key: Sequence[str]) -> bool:
        slots = ", ".join("?" * len(key))
        return self._conn.execute(f"insert into temp.{table} values ({slots}) on conflict do nothing", key).rowcount > 0
