"""The rows of a query on a database, without holding its lock while they are read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...sqlite import fold
from .errors import BadInput


def read_only(path: Path) -> sqlite3.Connection:
    """A connection that cannot change the database."""
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)


_TABLES = "select name from main.sqlite_master where type = 'table'"


@dataclass(frozen=True)
class Rows:
    """The rows of a query, the names of their columns, and the tables of the database from which they were read, also
    those behind its views."""

    head: list[str]
    rows: Iterator[Sequence[Any]]
    tables: frozenset[str]


def rows_of(path: Path, sql: str) -> Rows:
    """Run a query. Its rows are copied into a temporary table first, so that the database can be written to meanwhile.
    Text that is not UTF-8 has lone surrogates for its bytes.

    :raises BadInput: when SQLite refuses the query
    """
    read: set[str] = set()

    def note(action: int, table: str | None, _column: str | None, schema: str | None, _inner: str | None) -> int:
        """SQLite asks before it reads a column. Where none is read, as by count(*), it has no name of a schema then and
        the table as the query spells it (https://www.sqlite.org/c3ref/c_alter_table.html, SQLITE_READ)."""
        if action == sqlite3.SQLITE_READ and schema in (None, "main") and table is not None:
            read.add(fold(table))
        return sqlite3.SQLITE_OK

    try:
        conn = read_only(path)
        conn.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        conn.set_authorizer(note)
        conn.execute(f"create temp table datasette_ingest_rows as {sql}")
        conn.set_authorizer(None)
        tables = frozenset(name for (name,) in conn.execute(_TABLES) if fold(name) in read)
    except (sqlite3.Error, sqlite3.Warning) as problem:
        raise BadInput(f"the query cannot be run: {problem}") from None
    cursor = conn.execute("select * from temp.datasette_ingest_rows")
    return Rows([column[0] for column in cursor.description], iter(cursor), tables)
