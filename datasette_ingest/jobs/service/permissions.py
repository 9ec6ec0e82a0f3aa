"""Who may see and enrich a table: the one check that pages, the API and commands make."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from ... import compat, sqlite, text
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
    is_view: bool = False


async def require_table(datasette: Any, actor: Actor, database: str, table: str) -> EnrichableTable:
    """The table, if the actor may see and enrich it.

    Without the permission enrich-table the answer is 403, whether the table exists or not. With it, a table that does
    not exist and one that the actor may not see are the same 404.

    :raises NotAllowed, TableNotFound:
    :raises BadSelection: for a view, and for a database that nothing can be written to
    """
    db = datasette.databases.get(database)
    found = await _look_up(db, table) if db is not None else None
    name = found.name if found is not None else table
    if not await compat.can_enrich(datasette, actor, database, name):
        raise _not_allowed(actor)
    reason = compat.why_not_enrichable(db) if db is not None else None
    if found is None and reason is not None and await compat.can_view(datasette, actor, database):
        raise BadSelection(reason)  # two connections to an unnamed memory database see different tables
    if found is None or not await compat.can_view(datasette, actor, database, name):
        raise TableNotFound(
            f"There is no table {text.name(table)} in {database}. Check its name on the page of the database"
        )
    return _writable(found)


async def require_any_table(datasette: Any, actor: Actor, database: str) -> None:
    """Refuse an actor who may enrich no table of the database, before a request is read that names one.

    :param database: one that the actor may view
    :raises NotAllowed:
    """
    db = datasette.databases[database]
    if not await compat.can_enrich_any(datasette, actor, database, await db.table_names()):
        raise _not_allowed(actor)


def _not_allowed(actor: Actor) -> NotAllowed:
    sign_in = "Sign in first: enriching" if actor is None else "Enriching"
    return NotAllowed(
        f"{sign_in} a table needs the permission enrich-table for it. Ask the administrator of this Datasette"
    )


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
    found = await _look_up(db, table)
    if found is None:
        raise TableNotFound(f"There is no table {text.name(table)} in {db.name} any more: it was dropped or renamed")
    return _writable(found)


async def _look_up(db: Any, table: str) -> EnrichableTable | None:
    """The table or view of that name, in any case."""

    def read(conn: sqlite3.Connection) -> EnrichableTable | None:
        sql = "select name, type from sqlite_master where type in ('table', 'view') and name = ? collate nocase"
        found = conn.execute(sql, [table]).fetchone()
        if found is None:
            return None
        return EnrichableTable(db, found[0], tuple(sqlite.columns(conn, found[0])), found[1] == "view")

    return await compat.read(db, read)


def _writable(found: EnrichableTable) -> EnrichableTable:
    reason = compat.why_not_enrichable(found.db)
    if reason is None and not found.name:
        reason = "A table without a name has no page in Datasette, nor has a job over it. Rename the table first"
    if reason is None and found.is_view:
        reason = f"{text.name(found.name)} is a view, so results cannot be written to its rows. Enrich the table that it reads from"
    if reason is not None:
        raise BadSelection(reason)
    return found
