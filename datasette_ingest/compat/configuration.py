"""What the configuration says: the plugin's own block, the tables that are named, the full-text index of a table."""

from __future__ import annotations

from typing import Any

from datasette.utils import detect_fts

from .line import is_1_0
from .reading import read


def plugin_config(datasette: Any) -> dict[str, Any]:
    """The plugin's own block of the configuration, secrets' `$env` and `$file` left as they stand."""
    for holder in ("config", "_metadata_local"):
        block = getattr(datasette, holder, None)
        if isinstance(block, dict):
            own = (block.get("plugins") or {}).get("datasette-ingest")
            if isinstance(own, dict):
                return dict(own)
    return dict(datasette.plugin_config("datasette-ingest") or {})


def configured_tables(datasette: Any) -> dict[str, list[str]]:
    """The databases that the configuration names, each with the tables that it names."""
    databases = (datasette.config or {}).get("databases") if is_1_0(datasette) else datasette.metadata("databases")
    return {name: list((block or {}).get("tables") or {}) for name, block in (databases or {}).items()}


async def fts_table(datasette: Any, db: Any, table: str) -> str | None:
    """The full-text index that `_search` uses on this table: the configured one, or one that SQLite's schema shows."""
    if is_1_0(datasette):
        configured = (await datasette.table_config(db.name, table)).get("fts_table")
    else:
        configured = datasette.table_metadata(db.name, table).get("fts_table")
    found: str | None = configured or await read(db, lambda conn: detect_fts(conn, table))
    return found
