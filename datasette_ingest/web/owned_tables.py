"""Which tables and views of a database this plugin made: by name, and by their columns where a name is a common word."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from ..jobs.engine.output import SHADOW_PREFIX
from ..jobs.selection import has_free_sql

JOBS_TABLE = "_enrichment_jobs"
ENGINE_PREFIX = "_enrichment_"

RESULT_NAMES = frozenset(
    {
        "ingest_request",
        "ingest_file_result",
        "ingest_candidate",
        "ingest_thumbnail",
        "ingest_fileset",
        "ingest_pending",
        "ingest_hits",
    }
)
RESULT_PREFIX = "ingest_fulltext"
"""The full-text table, its index and the index's shadow tables."""

COMMON_NAMES: Mapping[str, frozenset[str]] = {
    "file_meta": frozenset({"sha1hex", "sha256hex", "size_bytes"}),
    "cdx": frozenset({"url", "cdx_sha1hex", "warc_path"}),
    "grobid": frozenset({"sha1hex", "grobid_version", "fatcat_release"}),
    "pdf_meta": frozenset({"sha1hex", "has_page0_thumbnail", "page_count"}),
    "html_meta": frozenset({"sha1hex", "scope", "biblio"}),
    "xml_meta": frozenset({"sha1hex", "dialect", "biblio"}),
}
"""Words that a user's own table may be called: ours is told by the columns that only ours has."""


def ascii_lower(name: str) -> str:
    """A name as SQLite compares it: ASCII letters fold, others do not."""
    return name.translate(_ASCII_LOWER)


_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def may_be_ours(name: str) -> bool:
    """Whether a table or view of this name could be one that this plugin made."""
    folded = ascii_lower(name)
    return (
        folded.startswith((ENGINE_PREFIX, SHADOW_PREFIX, RESULT_PREFIX))
        or folded in RESULT_NAMES
        or folded in COMMON_NAMES
    )


def our_tables(conn: sqlite3.Connection) -> list[str]:
    """The tables and views of this database that this plugin made. None without a jobs table: a user's own `cdx`."""
    try:
        names = [row[0] for row in conn.execute("select name from sqlite_master where type in ('table', 'view')")]
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:  # not a database: there is nothing in it that could be read
        return []
    if JOBS_TABLE not in map(ascii_lower, names):
        return []
    return [name for name in names if may_be_ours(name) and _has_our_columns(conn, name)]


def _has_our_columns(conn: sqlite3.Connection, name: str) -> bool:
    wanted = COMMON_NAMES.get(ascii_lower(name))
    if wanted is None:
        return True
    present = {row[0] for row in conn.execute("select name from pragma_table_info(?)", [name])}
    return wanted <= present


def has_stored_sql(conn: sqlite3.Connection) -> bool:
    """Whether a job's filters, as they are stored, hold SQL of a person's own."""
    columns = {row[0] for row in conn.execute("select name from pragma_table_info(?)", [JOBS_TABLE])}
    if "filter_querystring" not in columns:
        return False
    stored = conn.execute(
        f"select distinct filter_querystring from {JOBS_TABLE} where filter_querystring like '%where%'"
    )
    return any(has_free_sql(querystring) for (querystring,) in stored)


def source_of_shadow(name: str) -> str | None:
    """The table whose results `_enrichments_<table>` holds; None for any other name."""
    return name[len(SHADOW_PREFIX) :] if ascii_lower(name).startswith(SHADOW_PREFIX) else None
