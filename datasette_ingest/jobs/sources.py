"""Who may see what was learnt from a table: its results, its jobs, their filters. The table may be gone by now."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any

from .. import compat, sqlite


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
