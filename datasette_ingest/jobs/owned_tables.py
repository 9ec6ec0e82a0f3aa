"""The tables and views that enrichments write beside the enriched one, and how they are told from a user's own.

What the engine makes for an enrichment has a history in `_sqlite_migrations`, begun in the transaction that created it.
A table without one is a user's own, whatever its name: it is neither written to nor hidden.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Sequence

from .. import sqlite
from ..sqlite import SHADOW_PREFIX, Specs, fold, kind
from . import schema
from .errors import TableTaken

ENGINE_PREFIX = "_enrichment_"
JOBS_TABLE = "_enrichment_jobs"

_CONTENT = re.compile(r"""^create\s+virtual\s.*\bcontent\s*=\s*['"\[]?([^'"\],)]+)""", re.IGNORECASE | re.DOTALL)


__all__ = ["TableTaken", "check", "check_shadow", "claim", "owned", "source_of_shadow"]


def source_of_shadow(name: str) -> str | None:
    """The table whose results `_enrichments_<table>` holds; None for any other name."""
    return name[len(SHADOW_PREFIX) :] if fold(name).startswith(SHADOW_PREFIX) else None


def owned(conn: sqlite3.Connection) -> list[str]:
    """The names of the tables and views of this database that were made here, by jobs or by a load before the first one.
    Where the table of jobs was dropped since, the others are still ours."""
    try:
        found = conn.execute("select name, sql from sqlite_master where type in ('table', 'view')").fetchall()
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:  # not a database: there is nothing in it that could be read
        return []
    made, adopted = sqlite.made(conn), schema.adopted(conn)
    if not made and JOBS_TABLE not in adopted:
        return []
    # A version before this one began no histories of its own tables, nor of shadow tables.
    shadows = SHADOW_PREFIX if JOBS_TABLE in adopted - made else "\0"
    ours = [name for name, _ in found if fold(name) in made | adopted or fold(name).startswith(shadows)]
    indexes = _indexes(found, set(map(fold, ours)))
    pieces = tuple(f"{fold(name)}_" for name in indexes)
    return ours + [name for name, _ in found if name in indexes or (pieces and fold(name).startswith(pieces))]


def _indexes(found: Sequence[tuple[str, str]], ours: Collection[str]) -> list[str]:
    """The full-text indexes of these tables. Each keeps its content in tables whose names begin with its own
    (https://www.sqlite.org/fts5.html)."""
    content = ((name, _CONTENT.search(sql)) for name, sql in found)
    return [name for name, match in content if match and fold(match[1]) in ours]


def check(conn: sqlite3.Connection, wanted: Specs) -> None:
    """Make sure that none of these tables and views is a user's own.

    :raises TableTaken: for the first one that is
    """
    name = sqlite.stranger(conn, wanted)
    if name is not None:
        raise TableTaken(kind(conn, name) or "table", name)


def check_shadow(conn: sqlite3.Connection, table: str) -> None:
    """Make sure that `_enrichments_<table>`, if there is one, holds results.

    :raises TableTaken: when a user made it
    """
    name = SHADOW_PREFIX + table
    found = kind(conn, name)
    if found is not None and fold(name) not in {*sqlite.made(conn), *map(fold, owned(conn))}:
        raise TableTaken(found, name)


def claim(conn: sqlite3.Connection, wanted: Specs) -> None:
    """Make these tables and views, or bring them up to date, inside the caller's transaction.

    :raises TableTaken: when one of them is a user's own; nothing was written then
    """
    check(conn, wanted)
    sqlite.migrate(conn, wanted)


SHARED = ("_enrichment_progress", "_enrichment_errors", "_enrichment_jobs")
"""The tables that datasette-enrichments has, too, each after those that refer to it."""
_THEIRS = "select id from _enrichment_jobs where selection is null"
"""The numbers of the jobs of datasette-enrichments, which writes no `selection`."""


def shared_with_others(conn: sqlite3.Connection) -> dict[str, str]:
    """Those of our tables that hold rows of datasette-enrichments' jobs -> the condition for the other rows, ours. All or
    none of SHARED."""
    if "selection" not in sqlite.columns(conn, JOBS_TABLE) or conn.execute(_THEIRS).fetchone() is None:
        return {}
    ours = dict.fromkeys(SHARED[:-1], f"job_id is null or job_id not in ({_THEIRS})")
    return {**ours, JOBS_TABLE: "selection is not null"}


def all_of_ours(conn: sqlite3.Connection) -> list[tuple[str, str]]:
    """(`view` or `table`, name) of all that was made here, in an order in which it can be dropped. Tables of jobs that only
    datasette-enrichments has used are not among it."""
    made = sqlite.made(conn)
    ours = made | set(map(fold, owned(conn))) if JOBS_TABLE in made else made
    found = conn.execute("select type, name, sql from sqlite_master where type in ('view', 'table')").fetchall()
    indexes = _indexes([(name, sql or "") for _, name, sql in found], ours)
    pieces = tuple(f"{fold(name)}_" for name in indexes)
    kept = [
        (what, name)
        for what, name, _ in found
        if (fold(name) in ours or name in indexes) and not (pieces and fold(name).startswith(pieces))
    ]
    order = {name: place for place, name in enumerate(("view", "index", "table"))}
    return sorted(kept, key=lambda each: (order["index" if each[1] in indexes else each[0]], each[1]))


def drop_all(conn: sqlite3.Connection) -> list[str]:
    """Drop all that was made here, and the record of how it was made. Returns what was removed. No job is running.

    Of a table that holds rows of datasette-enrichments' jobs only the other rows are deleted.
    """
    shared = shared_with_others(conn)
    ours = all_of_ours(conn)
    for trigger in schema.TRIGGERS:
        conn.execute(f"drop trigger if exists {trigger}")
    names = []
    for name, condition in shared.items():
        if ("table", name) in ours:
            conn.execute(f"delete from {name} where {condition}")
            names.append(f"our rows of {name}")
    for what, name in ours:
        if name not in shared:
            conn.execute(f"drop {what} {sqlite.quote(name)}")
            names.append(name)
    sqlite.forget(conn)
    return names
