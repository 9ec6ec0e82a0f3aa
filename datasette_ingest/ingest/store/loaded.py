"""_enrichment_loaded: blocks of lines whose requests are all in ingest_request, so that they need not be read again.

A block is known by the digest of its content. Its requests were written in one transaction, new and under consecutive
rowids; the digest of the keys of these rows is kept, and compared with the rows before it is believed. So it costs time only
if rows are changed or deleted since, or renumbered by VACUUM.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from ..json_object import json_text
from .requests import KEY, RequestRow
from .requests import TABLE as REQUESTS

TABLE = "_enrichment_loaded"

_INSERT = f"""
insert into {TABLE} (digest, lines, records, requests, first_rowid, last_rowid, keys, loaded) values (?, ?, ?, ?, ?, ?, ?, ?)
on conflict (digest) do update set lines = excluded.lines, records = excluded.records, requests = excluded.requests,
  first_rowid = excluded.first_rowid, last_rowid = excluded.last_rowid, keys = excluded.keys, loaded = excluded.loaded
"""
_SELECT = f"select lines, records, requests, first_rowid, last_rowid, keys from {TABLE} where digest = ?"
_KEYS = f"select {', '.join(KEY)} from {REQUESTS} where rowid between ? and ? order by rowid"


def digest_of_keys(rows: Iterable[Sequence[Any]]) -> str:
    """The digest of the keys of rows, in their order: SHA-1, hexadecimal."""
    return hashlib.sha1(json_text([tuple(row[:4]) for row in rows]).encode(), usedforsecurity=False).hexdigest()


def last_rowid(conn: sqlite3.Connection) -> int:
    """The largest rowid of ingest_request; 0 for an empty table."""
    return int(conn.execute(f"select coalesce(max(rowid), 0) from {REQUESTS}").fetchone()[0])


def remember(
    conn: sqlite3.Connection,
    blocks: Iterable[tuple[str, int, int, int]],
    rows: Sequence[RequestRow],
    first: int,
    now: str,
) -> None:
    """Record blocks that were read: their digest, lines, records and requests.

    :param rows: their rows in the order in which they were written, under rowids from `first` on
    """
    last = first + len(rows) - 1
    keys = digest_of_keys(rows)
    conn.executemany(_INSERT, [(*block, first, last, keys, now) for block in blocks])


class Blocks:
    """Finds blocks that were loaded before.

    :param conn: a connection for this alone; it only reads
    """

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn
        self._checked: dict[tuple[int, int, str], bool] = {}

    def find(self, digest: str) -> tuple[int, int, int] | None:
        """(lines, records, requests) of a block whose requests are all in the table; None where that is not certain."""
        found = self._conn.execute(_SELECT, [digest]).fetchone()
        if found is None:
            return None
        lines, records, requests, *written = found
        return (lines, records, requests) if self._stand(*written) else None

    def _stand(self, first: int, last: int, keys: str) -> bool:
        """Whether the rows that were written with the block are still there."""
        mark = (first, last, keys)
        if mark not in self._checked:
            try:
                found = digest_of_keys(self._conn.execute(_KEYS, [first, last]))
            except sqlite3.OperationalError:  # a text that is no longer Unicode
                found = ""
            self._checked = {mark: found == keys}
        return self._checked[mark]
