"""Who may see what was learnt from a table: its results, its jobs, their filters. The table may be gone by now."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

from .. import compat, sqlite
from .owned_tables import owned

TABLE = "_enrichment_loaded_from"
"""The tables whose rows were loaded as requests, by a query, without a job."""


def record(conn: sqlite3.Connection, names: Iterable[str]) -> None:
    """Keep that rows of these tables were loaded. The table exists."""
    ours = {*map(sqlite.fold, owned(conn)), *_pieces(conn)}
    wanted = [(name,) for name in names if sqlite.fold(name) not in ours]
    conn.executemany(f"insert into {TABLE} (table_name) values (?) on conflict do nothing", wanted)


def _pieces(conn: sqlite3.Connection) -> set[str]:
    """The tables in which full-text and other indexes keep their content, folded: they have no rights of their own. None
    before SQLite 3.37, which cannot tell."""
    try:
        found = conn.execute("select name from pragma_table_list where type = 'shadow'").fetchall()
    except sqlite3.OperationalError:
        return set()
    return {sqlite.fold(name) for (name,) in found}


def recorded(conn: sqlite3.Connection) -> list[str]:
    """The tables whose rows were loaded."""
    if "table_name" not in sqlite.columns(conn, TABLE):
        return []
    return [row[0] for row in conn.execute(f"select table_name from {TABLE} where typeof(table_name) = 'text'")]


async def visible(datasette: Any, actor: dict[str, Any] | None, database: str, names: Iterable[str]) -> set[str]:
    """Those of these tables from which the actor may see what was learnt.

    A name that is no table of the database any more is root's: whatever rules there are for a name that is gone, nobody
    knows whether they are those of the table that had it.
    """
    db, asked = datasette.databases.get(database), set(names)
    if db is None or not asked:
        return set()
    gone = await compat.read(db, lambda conn: _gone(conn, asked))
    viewable = {name for name in asked if await compat.can_view(datasette, actor, database, name)}
    return viewable if compat.is_root(datasette, actor) else viewable - gone


def _gone(conn: sqlite3.Connection, names: Iterable[str]) -> set[str]:
    return {name for name in names if sqlite.kind(conn, name) != "table"}
