"""Upper-case `title` into `shouted`, written for each framework as its documentation asks, and as fast as it allows.

Each framework is imported only when it asks: an environment has one of them.
"""

# mypy: disable-error-code="import-not-found, untyped-decorator"

from __future__ import annotations

import os
import sqlite3
from typing import Any

from datasette import hookimpl

SLUG = "shout"


@hookimpl
def register_ingest_enrichments(datasette: Any) -> list[Any]:
    import pydantic

    from datasette_ingest import ColumnField, Enrichment

    class Shout(Enrichment):
        slug, name, description = SLUG, "Shout", "Upper-case a column"
        batch_size = 1000

        class Config(pydantic.BaseModel):
            column: str = ColumnField("title", title="Column")
            output_column: str = pydantic.Field("shouted", title="Output column")

        def columns(self, config: Any) -> list[str]:
            return [config.column]

        async def enrich_row(self, row: Any, config: Any) -> dict[str, Any]:
            return {config.output_column: row[config.column].upper()}

    return [Shout()]


@hookimpl
def register_enrichments(datasette: Any) -> list[Any]:
    from datasette_enrichments import Enrichment

    class Shout(Enrichment):  # type: ignore[misc, unused-ignore]
        slug, name, description = SLUG, "Shout", "Upper-case a column"

        async def initialize(self, db: Any, table: str) -> None:
            await db.execute_write_fn(lambda conn: _add_column(conn, table))

        async def enrich_batch(self, db: Any, table: str, rows: list[dict[str, Any]]) -> int:
            """One write call a batch; most of its plugins make one a row, which is slower."""
            values = [(row["title"].upper(), row["id"]) for row in rows]
            await db.execute_write_fn(lambda conn: _write(conn, table, values))
            return len(rows)

    size = os.environ.get("BENCH_PEER_BATCH_SIZE")
    if size:
        Shout.batch_size = int(size)
    return [Shout()]


def _add_column(conn: sqlite3.Connection, table: str) -> None:
    if "shouted" not in {row[1] for row in conn.execute(f"pragma table_info([{table}])")}:
        conn.execute(f"alter table [{table}] add column shouted text")


def _write(conn: sqlite3.Connection, table: str, values: list[tuple[str, int]]) -> None:
    if conn.in_transaction:
        conn.executemany(f"update [{table}] set shouted = ? where id = ?", values)
        return
    with conn:
        conn.executemany(f"update [{table}] set shouted = ? where id = ?", values)
