"""The tables whose rows were loaded as requests, without a job: what was learnt from them is shown to those who may see them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from .. import sqlite
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
