"""What an earlier reading of a file has stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any

from ..schema import name_of, stands, under_prefix


def stored_fact(conn: sqlite3.Connection, table: str, sha1hex: str, prefix: str = "") -> Mapping[str, Any] | None:
    """The row of a table of facts: column -> value; None where there is none.

    :param table: a name of the schema
    :param prefix: begins its name in the database
    """
    results = under_prefix(conn, prefix)
    if not stands(results, table):
        return None
    cursor = conn.execute(f"select * from {name_of(results, table)} where sha1hex = ?", [sha1hex])
    row = cursor.fetchone()
    return None if row is None else dict(zip((column[0] for column in cursor.description), row, strict=True))
