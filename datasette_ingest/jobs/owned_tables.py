"""The tables and views that enrichments write beside the enriched one, and how they are told from a user's own.

When the engine makes a table for an enrichment, it records the name in `_enrichment_tables`, in the same transaction. A
table that is not recorded is a user's own, whatever its name: it is neither written to nor hidden. Tables of earlier
versions, which recorded nothing, are recognised by their exact columns.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Sequence

from .. import sqlite
from ..sqlite import SHADOW_PREFIX, Specs, columns, fold, kind
from . import schema
from .errors import JobError

ENGINE_PREFIX = "_enrichment_"
JOBS_TABLE = "_enrichment_jobs"
RECORD_TABLE = "_enrichment_tables"


_CONTENT = re.compile(r"""^create\s+virtual\s.*\bcontent\s*=\s*['"\[]?([^'"\],)]+)""", re.IGNORECASE | re.DOTALL)


class TableTaken(JobError):
    """A job would write to a table or view that a user made."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(
            f"This job would write to {name!r}, but the database has a {kind} of that name that no enrichment made. "
            f"Rename that {kind}, then start the job again"
        )


def source_of_shadow(name: str) -> str | None:
    """The table whose results `_enrichments_<table>` holds; None for any other name."""
    return name[len(SHADOW_PREFIX) :] if fold(name).startswith(SHADOW_PREFIX) else None


def owned(conn: sqlite3.Connection, older: Specs) -> list[str]:
    """The names of the tables and views of this database that the engine made. None where no job has ever run.

    :param older: tables and views that earlier versions made and did not record, by folded name
    """
    try:
        found = conn.execute("select name, sql from sqlite_master where type in ('table', 'view')").fetchall()
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:  # not a database: there is nothing in it that could be read
        return []
    if JOBS_TABLE not in (fold(name) for name, _ in found):
        return []
    recorded = _recorded(conn)
    ours = [name for name, _ in found if _is_ours(conn, name, recorded, older)]
    indexes = _indexes(found, set(map(fold, ours)))
    pieces = tuple(f"{fold(name)}_" for name in indexes)
    return ours + [name for name, _ in found if name in indexes or (pieces and fold(name).startswith(pieces))]


def _indexes(found: Sequence[tuple[str, str]], ours: Collection[str]) -> list[str]:
    """The full-text indexes of these tables. Each keeps its content in tables whose names begin with its own
    (https://www.sqlite.org/fts5.html)."""
    content = ((name, _CONTENT.search(sql)) for name, sql in found)
    return [name for name, match in content if match and fold(match[1]) in ours]


def _recorded(conn: sqlite3.Connection) -> set[str] | None:
    """The names that were recorded; None where the table of them does not exist."""
    if not columns(conn, RECORD_TABLE):
        return None
    return {fold(name) for (name,) in conn.execute(f"select name from {RECORD_TABLE}")}


def _is_ours(conn: sqlite3.Connection, name: str, recorded: set[str] | None, older: Specs) -> bool:
    folded = fold(name)
    if folded.startswith(ENGINE_PREFIX) or folded in (recorded or ()):
        return True
    if folded.startswith(SHADOW_PREFIX):
        return recorded is None
    return folded in older and older[folded].is_older_form(conn, name)


def check(conn: sqlite3.Connection, wanted: Specs, older: Specs) -> None:
    """Make sure that none of these tables and views is a user's own.

    :raises TableTaken: for the first one that is
    """
    ours = set(map(fold, owned(conn, older)))
    for name, spec in wanted.items():
        found = kind(conn, name)
        if found is not None and not (fold(name) in ours and spec.fits(conn, name)):
            raise TableTaken(found, name)


def check_shadow(conn: sqlite3.Connection, table: str) -> None:
    """Make sure that `_enrichments_<table>`, if there is one, holds results.

    :raises TableTaken: when a user made it
    """
    name = SHADOW_PREFIX + table
    found = kind(conn, name)
    if found is not None and fold(name) not in map(fold, owned(conn, {})):
        raise TableTaken(found, name)


def claim(conn: sqlite3.Connection, enrichment: str, wanted: Specs, older: Specs) -> None:
    """Make these tables and views, or bring them up to date, and record that they are the enrichment's.

    Runs inside the caller's transaction.

    :param enrichment: its slug
    :raises TableTaken: when one of them is a user's own; nothing was written then
    """
    check(conn, wanted, older)
    sqlite.migrate(conn, wanted)
    for name in wanted:
        record(conn, name, enrichment)


def record(conn: sqlite3.Connection, name: str, enrichment: str | None) -> None:
    """Record that the engine makes this table or view.

    :param enrichment: slug; None where it belongs to all, as a shadow table does
    """
    schema.migrate(conn)
    conn.execute(
        f"insert or ignore into {RECORD_TABLE} (name, enrichment, created_at) "
        "values (?, ?, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))",
        [name, enrichment],
    )
