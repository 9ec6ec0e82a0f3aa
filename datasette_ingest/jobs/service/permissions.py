"""Who may see and enrich a table: the one check that pages, the API and commands make."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ... import compat, sqlite, text
from .. import facts, schema
from ..errors import BadSelection, JobError, NotAllowed, TableNotFound

Actor = dict[str, Any] | None

ROOT = {"id": "root"}
"""Whoever has the database file acts as root: the command line, tests."""


@dataclass(frozen=True)
class EnrichableTable:
    """A table whose rows can be enriched. `db` is its Datasette database, `name` its name as SQLite spells it,
    `columns` are its columns in order. `kind`: what it is, by the word that `WHY_NOT` has for it."""

    db: Any
    name: str
    columns: tuple[str, ...]
    kind: str = "table"


WHY_NOT = {
    "view": "{} is a view, so results cannot be written to its rows. Enrich the table that it reads from",
    "virtual": "{} is a virtual table, which can have no further columns. Enrich the table whose rows it holds or indexes",
    "shadow": "{} is a part of a virtual table, and only that may write to it",
    "system": "{} belongs to SQLite, so no job can write to it",
    "ours": "{} holds what this plugin knows of its jobs, so no job can work on it",
}
"""Why tables of a kind cannot be enriched."""
MODULE_TABLES = re.compile(r"_(content|data|idx|docsize|config|segments|segdir|stat|node|parent|rowid)$")
"""How the names of a virtual table's parts end (FTS3 to FTS5, R-tree), for a SQLite that does not tell them apart."""


async def require_table(datasette: Any, actor: Actor, database: str, table: str) -> EnrichableTable:
    """The table, if the actor may see and enrich it.

    Without the permission enrich-table the answer is 403, whether the table exists or not. With it, a table that does
    not exist and one that the actor may not see are the same 404.

    :raises NotAllowed, TableNotFound:
    :raises BadSelection: for what is no ordinary table, and for a database that nothing can be written to
    """
    db = datasette.databases.get(database)
    found = await _look_up(db, table) if db is not None else None
    name = found.name if found is not None else table
    if not await compat.can_enrich(datasette, actor, database, name):
        raise _not_allowed(actor)
    reason = compat.why_not_enrichable(db) if db is not None else None
    may_view = await compat.can_view(datasette, actor, database, name)
    if found is None and reason is not None and await compat.can_view(datasette, actor, database):
        raise BadSelection(reason)  # two connections to an unnamed memory database see different tables
    if found is None or not may_view:
        raise TableNotFound(
            f"There is no table {text.name(table)} in {database}. Check its name on the page of the database"
        )
    return _writable(found)


async def require_any_table(datasette: Any, actor: Actor, database: str) -> None:
    """Refuse an actor who may enrich no table of the database, before a request is read that names one. A missing database
    has no table.

    :raises NotAllowed:
    """
    db = datasette.databases.get(database)
    names = [] if db is None else await db.table_names()
    if not await compat.can_enrich_any(datasette, actor, database, names):
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
    return table in await tables_with_visible_jobs(datasette, actor, database, [table])


async def tables_with_visible_jobs(datasette: Any, actor: Actor, database: str, tables: Iterable[str]) -> set[str]:
    """Those of these tables, which may be gone by now, whose jobs the actor may see and steer."""
    seen = await facts.visible(datasette, actor, database, tables)
    return {table for table in seen if await compat.can_enrich(datasette, actor, database, table)}


async def orphans(datasette: Any, actor: Actor, db: Any) -> dict[str, list[int]]:
    """The jobs over private tables in whose places public ones stand now, by the name of the table: whoever may view
    these may not see what was learnt from those. None for root."""
    if compat.is_root(datasette, actor):
        return {}
    found = (await facts.of(db)).orphans
    return {table: ids for table, ids in found.items() if await compat.can_view(datasette, None, db.name, table)}


async def ids_of_orphans(datasette: Any, actor: Actor, db: Any) -> list[int]:
    """The ids of `orphans`."""
    return [number for ids in (await orphans(datasette, actor, db)).values() for number in ids]


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
        sql = "select name, type, sql from sqlite_master where type in ('table', 'view') and name = ? collate nocase"
        found = conn.execute(sql, [table]).fetchone()
        if found is None:
            return None
        return EnrichableTable(db, found[0], tuple(sqlite.columns(conn, found[0])), _kind(conn, *found))

    return await facts.once(db, ("table", sqlite.fold(table)), read)


def _kind(conn: sqlite3.Connection, name: str, type_: str, sql: str | None) -> str:
    """`table`, or the key of WHY_NOT."""
    folded = sqlite.fold(name)
    if type_ == "view":
        return type_
    if folded.startswith("sqlite_"):
        return "system"
    is_ours = folded in schema.TABLES and folded in sqlite.made(conn) | schema.adopted(conn)
    if is_ours or folded == "_sqlite_migrations":
        return "ours"
    if sqlite3.sqlite_version_info >= (3, 37):
        found = conn.execute("select type from temp.pragma_table_list(?) where schema = 'main'", [name]).fetchone()
        return str(found[0]) if found is not None and found[0] in WHY_NOT else "table"
    if re.match(r"\s*create\s+virtual\s", sql or "", re.IGNORECASE):
        return "virtual"
    whole = MODULE_TABLES.sub("", name)
    other = "select 1 from sqlite_master where name = ? collate nocase and sql like 'create virtual %'"
    return "shadow" if whole != name and conn.execute(other, [whole]).fetchone() else "table"


def _writable(found: EnrichableTable) -> EnrichableTable:
    reason = compat.why_not_enrichable(found.db)
    if reason is None and not found.name:
        reason = "A table without a name has no page in Datasette, nor has a job over it. Rename the table first"
    if reason is None and found.kind in WHY_NOT:
        reason = WHY_NOT[found.kind].format(text.name(found.name))
    if reason is not None:
        raise BadSelection(reason)
    return found
