"""Hits whose files are to be read again: those whose facts are missing, or were read by another version."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ...sqlite import iso_utc
from ..facts import Fact
from ..schema import stands


@dataclass(frozen=True)
class Hit:
    """A file that was found, for one type of row."""

    sha1hex: str
    ingest_type: str
    base_url: str
    url: str
    """Where it was found, or else `base_url`."""
    mimetype: str | None
    """By content; None where `file_meta` has no row of it."""
    labels: Mapping[str, str | None]
    """By table of facts: what read it, `pdf/1`. Without a table that has no row of it."""


def hits_after(conn: sqlite3.Connection, sha1hex: str, limit: int, tables: Iterable[str]) -> list[Hit]:
    """The hits of the next `limit` files by SHA-1; fewer than that are the last.

    :param sha1hex: that of the last file before; '' at the beginning
    :param tables: those of facts whose labels are wanted
    """
    if not stands(conn, "ingest_file_result"):
        return []
    has_files = stands(conn, "file_meta")
    readable = [table for table in tables if stands(conn, table)]
    files = conn.execute(
        "select distinct terminal_sha1hex from ingest_file_result where hit = 1 and terminal_sha1hex > ? "
        "and length(terminal_sha1hex) = 40 and terminal_sha1hex not glob '*[^0-9a-f]*' "
        "order by terminal_sha1hex limit ?",
        [sha1hex, limit],
    ).fetchall()
    found = []
    for (name,) in files:
        mimetype = _first(conn, "select mimetype from file_meta where sha1hex = ?", name) if has_files else None
        read_by = {
            table: conn.execute(f"select processor from {table} where sha1hex = ?", [name]) for table in readable
        }
        labels = {table: row[0] for table, rows in read_by.items() for row in rows}
        rows = conn.execute(
            "select ingest_type, min(base_url), terminal_url from ingest_file_result "
            "where terminal_sha1hex = ? and hit = 1 group by ingest_type order by ingest_type",
            [name],
        )
        found += [Hit(name, kind, base_url, url or base_url, mimetype, labels) for kind, base_url, url in rows]
    return found


def write_facts(conn: sqlite3.Connection, facts: Sequence[Fact], *, now: datetime) -> None:
    """Write facts of files, in the caller's transaction. Their tables exist."""
    for fact in facts:
        fact.write(conn, updated=iso_utc(now))


def _first(conn: sqlite3.Connection, sql: str, *args: str) -> str | None:
    row = conn.execute(sql, args).fetchone()
    return None if row is None else row[0]
