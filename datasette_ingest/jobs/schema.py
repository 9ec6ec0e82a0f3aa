"""DDL of the `_enrichment_*` tables, applied by migrations; tables that another plugin made are adopted."""

from __future__ import annotations

import sqlite3

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

TABLES: dict[str, dict[str, str]] = {
    "_enrichment_jobs": {
        "id": "integer primary key",
        "status": "text",
        "enrichment": "text",
        "database_name": "text",
        "table_name": "text",
        "filter_querystring": "text",
        "config": "text",
        "started_at": "text",
        "finished_at": "text",
        "cancel_reason": "text",
        "next_cursor": "text",
        "row_count": "integer default 0",
        "error_count": "integer default 0",
        "done_count": "integer default 0",
        "actor_id": "text",
        "cost_100ths_cent": "integer default 0",
        "state": "text default '{}'",
        "resume_at": "text",
        "options": "text default '{}'",
        "outcomes": "text default '{}'",
        "cost_nanodollars": "integer default 0",
        "pause_reason": "text",
        "selection": "text",
        "request_key": "text",
        "request_digest": "text",
        "waits_until": "text",
    },
    "_enrichment_batches": {
        "id": "integer primary key",
        "job_id": "integer references _enrichment_jobs(id)",
        "start_cursor": "text",
        "end_cursor": "text",
        "row_count": "integer",
        "attempts": "integer default 0",
        "leased_by": "text",
        "leased_until": "text",
        "deaths": "integer default 0",
        "alone": "integer default 0",
        "not_before": "text",
        "defer_reason": "text",
        "deferrals": "integer default 0",
        "ticket": "text",
    },
    "_enrichment_progress": {
        "id": "integer primary key",
        "job_id": "integer references _enrichment_jobs(id)",
        "timestamp_ms_2025": "integer",
        "success_count": "integer",
        "error_count": "integer",
        "message": "text",
    },
    "_enrichment_errors": {
        "id": "integer primary key",
        "job_id": "integer references _enrichment_jobs(id)",
        "created_at": "text",
        "row_pks": "text",
        "error": "text",
        "traceback": "text",
        "row_key": "text",
    },
    "_enrichment_cache": {
        "enrichment": "text",
        "key": "text",
        "value": "text",
        "created_at": "text",
        "expires_at": "text",
    },
}
"""Table -> column -> type. What INTERFACES lists, and of our own: a job's `pause_reason`, `selection` (the filters as
checked SQL, JSON), `request_key` and `request_digest` (of an idempotent start), `waits_until` (all its open rows are
deferred: the first time); a batch's `deaths` and `alone`, and what a Defer says of it (`not_before`, `defer_reason`,
`deferrals`, `ticket`); an error's `row_key` (the row's key as a typed cursor)."""

LATER = frozenset({"waits_until"})
"""Columns of a job that an earlier version did not make: its jobs are read all the same, until a write adds them."""

CONSTRAINTS = {"_enrichment_cache": "primary key (enrichment, key)"}

INDEXES = {
    "_enrichment_batches_due": "_enrichment_batches (job_id, not_before, row_count)",
    "_enrichment_batches_leased": "_enrichment_batches (job_id, leased_by) where leased_by is not null",
    "_enrichment_batches_waits": "_enrichment_batches (job_id, defer_reason, not_before, row_count) where not_before is not null",
    "_enrichment_batches_died": "_enrichment_batches (job_id, not_before) where deaths > 0",
    "_enrichment_batches_ticket": "_enrichment_batches (ticket) where ticket is not null",
    "_enrichment_progress_job": "_enrichment_progress (job_id)",
    "_enrichment_errors_job": "_enrichment_errors (job_id)",
    "_enrichment_jobs_status": "_enrichment_jobs (status)",
}

MIGRATIONS = Migrations("datasette-ingest-jobs")


@MIGRATIONS()
def m001_tables(db: Database) -> None:
    ensure(db.conn)


def migrate(conn: sqlite3.Connection) -> None:
    """Bring the database's tables up to date inside the caller's transaction; cheap when they are."""
    if is_current(conn):
        return
    MIGRATIONS.apply(Database(conn, recursive_triggers=False))
    if not is_current(conn):  # a table was dropped, or another plugin made its own form of one, since the migration
        ensure(conn)


def is_current(conn: sqlite3.Connection) -> bool:
    """Whether all tables and columns exist."""
    return all(set(columns) <= columns_of(conn, table) for table, columns in TABLES.items())


def exists(conn: sqlite3.Connection) -> bool:
    """Whether the jobs table exists and has our columns."""
    return set(TABLES["_enrichment_jobs"]) - LATER <= columns_of(conn, "_enrichment_jobs")


def columns_of(conn: sqlite3.Connection, table: str) -> set[str]:
    return {row[0] for row in conn.execute("select name from pragma_table_info(?)", [table])}


def ensure(conn: sqlite3.Connection) -> None:
    """Create what is missing; a table of the same name keeps its rows and gains the columns it lacks."""
    for table, columns in TABLES.items():
        present = columns_of(conn, table)
        if not present:
            parts = [f"{name} {kind}" for name, kind in columns.items()]
            if table in CONSTRAINTS:
                parts.append(CONSTRAINTS[table])
            conn.execute(f"create table {table} ({', '.join(parts)})")
            continue
        for name, kind in columns.items():
            if name not in present:
                conn.execute(f"alter table {table} add column {name} {kind.replace(' primary key', '')}")
    for name, target in INDEXES.items():
        conn.execute(f"create index if not exists {name} on {target}")
