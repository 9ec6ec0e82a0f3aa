"""Who may see and enrich a table: the one check that pages, the API and commands make."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from ... import compat
from ..errors import BadSelection, JobError, NotAllowed, TableNotFound

Actor = dict[str, Any] | None

ROOT = {"id": "root"}
"""Whoever has the database file acts as root: the command line, tests."""


@dataclass(frozen=True)
class EnrichableTable:
    """A table whose rows can be enriched. `db` is its Datasette database, `name` its name as SQLite spells it,
    `columns` are its columns in order."""

    db: Any
    name: str
    columns: tuple[str, ...]


async def require_table(datasette: Any, actor: Actor, database: str, table: str) -> EnrichableTable:
    """The table, if the actor may see and enrich it.

    Without the permission enrich-table the answer is 403, whether the table exists or not. With it, a table that does
    not exist and one that the actor may not see are the same 404.

    :raises NotAllowed, TableNotFound:
    :raises BadSelection: for a view, and for a database that nothing can be written to
    """
    db = datasette.databases.get(database)
    found = await compat.read(db, lambda conn: _look_up(conn, table)) if db is not None else None
    name = found.name if found is not None else table
    if not await compat.can_enrich(datasette, actor, database, name):
        sign_in = "Sign in first: enriching" if actor is None else "Enriching"
        raise NotAllowed(
            f"{sign_in} a table needs the permission enrich-table for it. Ask the administrator of this Datasette"
        )
    if found is None or not await compat.can_view(datasette, actor, database, name):
        raise TableNotFound(f"There is no table {table} in {database}. Check its name on the page of the database")
    return _enrichable(db, found)


async def is_enrichable(datasette: Any, actor: Actor, database: str, table: str) -> bool:
    """Whether `require_table` lets the actor in."""
    try:
        await require_table(datasette, actor, database, table)
    except JobError:
        return False
    return True


async def may_see_jobs(datasette: Any, actor: Actor, database: str, table: str) -> bool:
    """Whether the actor may see and steer the jobs of a table, which may be gone by now."""
    return await compat.can_view(datasette, actor, database, table) and await compat.can_enrich(
        datasette, actor, database, table
    )


async def open_table(db: Any, table: str) -> EnrichableTable:
    """The table of a job that the actor may see: no permission is checked.

    :raises TableNotFound, BadSelection:
    """
    found = await compat.read(db, lambda conn: _look_up(conn, table))
    if found is None:
        raise TableNotFound(f"There is no table {table} in {db.name} any more: it was dropped or renamed")
    return _enrichable(db, found)


@dataclass(frozen=True)
class _Found:
    kind: str
    name: str
    columns: tuple[str, ...]


def _look_up(conn: sqlite3.Connection, table: str) -> _Found | None:
    row = conn.execute(
        "select type, name from sqlite_master where type in ('table', 'view') and name = ? collate nocase", [table]
    ).fetchone()
    if row is None:
        return None
    columns = conn.execute("select name from pragma_table_xinfo(?)", [row[1]])
    return _Found(row[0], row[1], tuple(column[0] for column in columns))


def _enrichable(db: Any, found: _Found) -> EnrichableTable:
    reason = compat.why_not_enrichable(db)
    if reason is None and found.kind == "view":
        reason = (
            f"{found.name} is a view, so results cannot be written to its rows. Enrich the table that it reads from"
        )
    if reason is not None:
        raise BadSelection(reason)
    return EnrichableTable(db, found.name, found.columns)
