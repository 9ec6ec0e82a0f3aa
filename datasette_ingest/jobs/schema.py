"""The `_enrichment_*` tables. Those that datasette-enrichments made are adopted: their rows stay, columns are added."""

from __future__ import annotations

import sqlite3

from .. import sqlite
from ..sqlite import TableSpec
from .errors import TableTaken

TABLES: dict[str, TableSpec] = {
    "_enrichment_jobs": TableSpec(
        {
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
        },
        indexes={"_enrichment_jobs_status": "status"},
        later={
            "m002_waits_until": {"waits_until": "text"},
            "m003_history_of_shadow_tables": """insert or ignore into _sqlite_migrations (migration_set, name, applied_at)
select 'datasette_ingest.' || name, 'm001_create', datetime('now') from sqlite_master where type = 'table' and exists (
  select 1 from _enrichment_jobs j where sqlite_master.name = '_enrichments_' || j.table_name collate nocase
)""",
            "m010_private_table": {"private_table": "text"},
        },
    ),
    "_enrichment_batches": TableSpec(
        {
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
        },
        later={
            "m002_deferral": {
                "not_before": "text",
                "defer_reason": "text",
                "deferrals": "integer default 0",
                "ticket": "text",
            },
            "m003_index_of_due_batches": "create index if not exists _enrichment_batches_due "
            "on _enrichment_batches (job_id, not_before, row_count)",
            "m004_index_of_leased_batches": "create index if not exists _enrichment_batches_leased "
            "on _enrichment_batches (job_id, leased_by) where leased_by is not null",
            "m005_index_of_waits": "create index if not exists _enrichment_batches_waits "
            "on _enrichment_batches (job_id, defer_reason, not_before, row_count) where not_before is not null",
            "m006_index_of_deaths": "create index if not exists _enrichment_batches_died "
            "on _enrichment_batches (job_id, not_before) where deaths > 0",
            "m007_index_of_tickets": "create index if not exists _enrichment_batches_ticket "
            "on _enrichment_batches (ticket) where ticket is not null",
        },
    ),
    "_enrichment_progress": TableSpec(
        {
            "id": "integer primary key",
            "job_id": "integer references _enrichment_jobs(id)",
            "timestamp_ms_2025": "integer",
            "success_count": "integer",
            "error_count": "integer",
            "message": "text",
        },
        indexes={"_enrichment_progress_job": "job_id"},
    ),
    "_enrichment_errors": TableSpec(
        {
            "id": "integer primary key",
            "job_id": "integer references _enrichment_jobs(id)",
            "created_at": "text",
            "row_pks": "text",
            "error": "text",
            "traceback": "text",
            "row_key": "text",
        },
        indexes={"_enrichment_errors_job": "job_id"},
        later={
            "m002_index_of_rows": "create index if not exists _enrichment_errors_row "
            "on _enrichment_errors (job_id, row_key)",
        },
    ),
    "_enrichment_cache": TableSpec(
        {"enrichment": "text", "key": "text", "value": "text", "created_at": "text", "expires_at": "text"},
        primary_key=("enrichment", "key"),
    ),
}
"""What INTERFACES lists, and of our own: a job's `pause_reason`, `selection` (the filters as checked SQL, JSON),
`request_key` and `request_digest` (of an idempotent start), `private_table` (where the table was not public: how to tell
it from a later one of its name), `waits_until` (all its open rows are deferred: the first
time); a batch's `deaths` and `alone`, and what a Defer says of it (`not_before`, `defer_reason`, `deferrals`, `ticket`);
an error's `row_key` (the row's key as a typed cursor)."""


ADOPTED: dict[str, tuple[str, ...]] = {
    "_enrichment_jobs": (
        *("id", "status", "enrichment", "database_name", "table_name", "filter_querystring", "config", "started_at"),
        *("row_count", "done_count"),
    ),
    "_enrichment_batches": ("id", "job_id", "start_cursor", "end_cursor", "row_count"),
    "_enrichment_progress": ("id", "job_id", "timestamp_ms_2025", "success_count", "error_count"),
    "_enrichment_errors": ("id", "job_id", "created_at", "row_pks", "error"),
    "_enrichment_cache": ("enrichment", "key", "value", "created_at", "expires_at"),
}
"""The columns by which a table without a history is known as one that datasette-enrichments, or an early version of this
package, made. Any other table of such a name is a user's own."""


def check(conn: sqlite3.Connection) -> None:
    """Make sure that none of the tables is a user's own.

    :raises TableTaken: for the first name that is
    """
    name = stranger(conn)
    if name is not None:
        raise TableTaken(sqlite.kind(conn, name) or "table", name)


def stranger(conn: sqlite3.Connection) -> str | None:
    """The name of a user's own table, view or index where one of ours belongs."""
    return sqlite.stranger(conn, TABLES, adopts=adopted(conn))


def adopted(conn: sqlite3.Connection) -> set[str]:
    """Those of the tables that exist with the columns of ADOPTED."""
    found = {name: set(map(sqlite.fold, sqlite.columns(conn, name))) for name in ADOPTED}
    return {name for name in ADOPTED if found[name].issuperset(ADOPTED[name]) and sqlite.kind(conn, name) == "table"}


def migrate(conn: sqlite3.Connection) -> None:
    """Bring the tables up to date inside the caller's transaction; cheap when they are.

    :raises TableTaken: when one of the names is a user's own table's; nothing was written then
    """
    if not is_current(conn):
        check(conn)
        sqlite.migrate(conn, TABLES)


def is_current(conn: sqlite3.Connection) -> bool:
    """Whether every table exists in today's form."""
    return sqlite.is_current(conn, TABLES)


def exists(conn: sqlite3.Connection) -> bool:
    """Whether jobs can be read here: the jobs table has the columns that it began with."""
    return TABLES["_enrichment_jobs"].stands(conn, "_enrichment_jobs", ["m001_create"])
