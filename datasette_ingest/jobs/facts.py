"""What a database says that decides who may see what was learnt in it.

It is read once a database and request, since a page asks about every table that it names.
"""

from __future__ import annotations

import contextvars
import sqlite3
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from .. import compat, sqlite
from . import sources, store
from .owned_tables import JOBS_TABLE, owned

T = TypeVar("T")


@dataclass(frozen=True)
class Facts:
    """One reading."""

    ours: list[str]
    """The names of the tables and views that were made here."""
    tables: frozenset[str]
    """The names of all tables, folded."""
    with_jobs: list[str]
    """The tables that ever had a job."""
    loaded: list[str]
    """The tables whose rows were loaded as requests."""
    orphans: dict[str, list[int]]
    """The jobs over private tables in whose places others stand now, by the name of the table."""
    filters: list[tuple[str, str]]
    """Tables and stored filters."""
    knows_jobs: bool = True
    """False where the table of jobs was dropped."""
    is_readable: bool = True
    """False where the file is no database."""


@dataclass
class Memory:
    """What one request that only reads has read, by database and name. Closed when the request ends, so that a task that
    it started reads again."""

    read: dict[tuple[Any, Hashable], Any] = field(default_factory=dict)
    is_open: bool = True


memory: contextvars.ContextVar[Memory | None] = contextvars.ContextVar("datasette_ingest_facts", default=None)


async def once(db: Any, name: Hashable, read: Callable[[sqlite3.Connection], T]) -> T:
    """What `read` makes of a database: what the request has read under this name already, else what it reads now.

    :raises compat.Unavailable:
    """
    remembered = memory.get()
    if remembered is None or not remembered.is_open:
        return await compat.read(db, read)
    if (db, name) not in remembered.read:
        remembered.read[db, name] = await compat.read(db, read)
    found: T = remembered.read[db, name]
    return found


async def of(db: Any) -> Facts:
    """The facts of a database.

    :raises compat.Unavailable:
    """
    return await once(db, "facts", _read)


def _read(conn: sqlite3.Connection) -> Facts:
    ours = owned(conn)
    try:
        found = conn.execute("select name from sqlite_master where type = 'table'").fetchall()
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:  # not a database
        return Facts(ours, frozenset(), [], [], {}, [], is_readable=False)
    tables = frozenset(sqlite.fold(name) for (name,) in found)
    if not ours and JOBS_TABLE not in tables:
        return Facts(ours, tables, [], [], {}, [])
    return Facts(
        ours,
        tables,
        store.tables_with_jobs(conn),
        sources.recorded(conn),
        store.jobs_of_private_predecessors(conn),
        store.filters(conn),
        knows_jobs=JOBS_TABLE not in sqlite.made(conn) or sqlite.kind(conn, JOBS_TABLE) is not None,
    )


async def visible(datasette: Any, actor: dict[str, Any] | None, database: str, names: Iterable[str]) -> set[str]:
    """Those of these tables from which the actor may see what was learnt.

    A name that is no table of the database any more is root's: whatever rules there are for a name that is gone, nobody
    knows whether they are those of the table that had it.
    """
    db, asked = datasette.databases.get(database), set(names)
    if db is None or not asked:
        return set()
    tables = (await of(db)).tables
    viewable = {name for name in asked if await compat.can_view(datasette, actor, database, name)}
    if compat.is_root(datasette, actor):
        return viewable
    return {name for name in viewable if sqlite.fold(name) in tables}
