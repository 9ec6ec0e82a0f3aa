"""The rows of a query on a database, without holding its lock while they are read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .errors import BadInput


def read_only(path: Path) -> sqlite3.Connection:
    """A connection that cannot change the database."""
    return sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)


def rows_of(path: Path, sql: str) -> tuple[list[str], Iterator[Sequence[Any]]]:
    """(the names of the columns, the rows) of a query. They are copied into a temporary table first, so that the
    database can be written to meanwhile. Text that is not UTF-8 has lone surrogates for its bytes.

    :raises BadInput: when SQLite refuses the query
    """
    conn = read_only(path)
    conn.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
    try:
        conn.execute(f"create temp table datasette_ingest_rows as {sql}")
    except (sqlite3.Error, sqlite3.Warning) as problem:
        raise BadInput(f"the query cannot be run: {problem}") from None
    cursor = conn.execute("select * from temp.datasette_ingest_rows")
    return [column[0] for column in cursor.description], iter(cursor)
