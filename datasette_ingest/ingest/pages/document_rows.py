"""The rows of a user's tables whose link led to a document, as far as they are found in time and may be viewed."""

from __future__ import annotations

import sqlite3
import time
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ... import compat
from ...jobs import facts, keyset
from ...jobs.errors import BadSelection
from ...jobs.service.permissions import Actor
from ...sqlite import SHADOW_PREFIX, columns, fold, kind, quote
from ...web import access
from ..enrichment.sql import result_columns

TABLE_MS, ALL_MS = 200.0, 500.0
"""How long one table may be searched, and all of them."""
SLOW_SECONDS = 600.0
"""How long a table that took longer is not searched again."""
ROWS_SHOWN = 5
"""Of a table, for one document."""
MOST_READ = 1_000
"""Rows that are read of a table: a file may be the answer to all of them."""

_SLOW: weakref.WeakKeyDictionary[Any, dict[tuple[str, str], float]] = weakref.WeakKeyDictionary()
"""database -> (table, column) -> when searching it turned out to be slow."""


@dataclass(frozen=True)
class Column:
    """A column that holds the SHA-1 of what each row's link led to. `written`: the table that has it, `table` itself or
    the one that holds its results. `key`: SQL of the parts of a row's key."""

    table: str
    written: str
    name: str
    key: tuple[str, ...]
    has_pages: bool


@dataclass
class FoundRows:
    """`rows`: SHA-1 -> column -> keys of rows, one more than are shown where there are more. `unsearched`: columns that
    were not searched, since it takes too long without an index."""

    rows: dict[str, dict[Column, list[Any]]] = field(default_factory=dict)
    unsearched: list[Column] = field(default_factory=list)


async def rows_of(datasette: Any, actor: Actor, database: str, digests: Collection[str]) -> FoundRows:
    """The rows for these SHA-1s, in tables that the actor may view."""
    db, found, end = datasette.databases[database], FoundRows(), time.monotonic() + ALL_MS / 1000
    known = await facts.of(db)
    hidden = set(map(fold, await access.hidden_from(datasette, actor, database)))
    tables = sorted(await facts.visible(datasette, actor, database, known.with_jobs))
    slow = _SLOW.setdefault(db, {})
    for column in await compat.read(db, lambda conn: _columns(conn, tables, hidden)) if digests else []:
        place = (column.written, column.name)
        left = min(TABLE_MS, (end - time.monotonic()) * 1000)
        if left < 1 or time.monotonic() - slow.get(place, -SLOW_SECONDS) < SLOW_SECONDS:
            found.unsearched.append(column)
            continue
        try:
            rows = await compat.read(db, lambda conn, c=column: _rows(conn, c, digests), limit_ms=left)  # type: ignore[misc]
        except compat.Interrupted:
            if left == TABLE_MS:
                slow[place] = time.monotonic()
            found.unsearched.append(column)
            continue
        for digest, keys in rows.items():
            found.rows.setdefault(digest, {})[column] = keys
    return found


def _columns(conn: sqlite3.Connection, tables: Sequence[str], hidden: Collection[str]) -> list[Column]:
    return [
        Column(table, written, name, key, has_pages)
        for table in tables
        for written in (table, SHADOW_PREFIX + table)
        if fold(written) not in hidden and kind(conn, written) == "table"
        for name in digest_columns(columns(conn, written))
        for key, has_pages in _keys(conn, table, written)
    ]


def digest_columns(names: Sequence[str]) -> list[str]:
    """Those of a table's columns that hold the SHA-1 of what each row's link led to, whatever their prefix."""
    ours = result_columns(names)
    return [name for name in names if name.lower().endswith("terminal_sha1hex") and name.lower() in ours]


def _keys(conn: sqlite3.Connection, table: str, written: str) -> list[tuple[tuple[str, ...], bool]]:
    """SQL of the key of `table`'s rows, in `written`; nothing where they have none."""
    try:
        key = keyset.table_key(conn, table)
    except BadSelection:
        return []
    if written == table and not key.parts:
        return [((str(key.rowid),), key.has_pages)]
    return [(tuple(keyset.qualified(written, name) for name in key.columns), key.has_pages)]


def _rows(conn: sqlite3.Connection, column: Column, digests: Collection[str]) -> Mapping[str, list[Any]]:
    """SHA-1 -> keys of rows. Without an index on the column the table is read once for all of them."""
    digest = keyset.qualified(column.written, column.name)
    slots = ", ".join("?" * len(digests))
    sql = f"select {digest}, {', '.join(column.key)} from {quote(column.written)} where {digest} in ({slots}) limit {MOST_READ}"
    found: dict[str, list[Any]] = {}
    with keyset.plain_text(conn, keyset.text_or_raw) as cursor:
        for sha1, *key in cursor.execute(sql, list(digests)):
            keys = found.setdefault(sha1, [])
            if len(keys) <= ROWS_SHOWN:
                keys.append(key[0] if len(key) == 1 else tuple(key))
    return found
