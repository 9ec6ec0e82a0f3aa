"""upsert: insert a row, or update the row that has its key."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any


def upsert(
    conn: sqlite3.Connection,
    table: str,
    key: Mapping[str, Any],
    values: Mapping[str, Any],
    *,
    keep: Collection[str] = (),
) -> None:
    """Write one row. `key` are its key columns, all of them texts, which may be bound as bytes; `values` the others.

    Columns in `keep` are not overwritten by NULL.
    """
    conn.execute(_upsert_sql(table, tuple(key), tuple(values), frozenset(keep)), [*key.values(), *values.values()])


@lru_cache
def _upsert_sql(table: str, key: tuple[str, ...], values: tuple[str, ...], keep: frozenset[str]) -> str:
    places = ["cast(? as text)"] * len(key) + ["?"] * len(values)
    changes = [
        f"{name} = coalesce(excluded.{name}, {name})" if name in keep else f"{name} = excluded.{name}"
        for name in values
    ]
    return (
        f"insert into {table} ({', '.join(key + values)}) values ({', '.join(places)})"
        f" on conflict ({', '.join(key)}) do update set {', '.join(changes)}"
    )
