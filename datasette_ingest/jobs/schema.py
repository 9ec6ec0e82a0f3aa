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
            "m004_table_key": {"table_key": "text"},
            "m009_is_counted": {"is_counted": "integer default 1"},
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
    "_enrichment_sequence": TableSpec({"name": "text primary key", "seq": "integer"}),
    "_enrichment_sources": TableSpec(
        {"job_id": "integer", "table_name": "text", "private_table": "text"},
        primary_key=("job_id", "table_name", "private_table"),
    ),
}
"""docs/columns.py says what each column means. `_enrichment_sequence` holds the highest number that a job ever had, as
`sqlite_sequence` does for tables with AUTOINCREMENT, which the jobs table cannot become. `_enrichment_sources` says of every
job that there ever was which table it read ('': nobody knows any more), and `private_table` ('': none): it tells who may see
the results when the job's row is deleted."""

# ---- numbers of jobs ---------------------------------------------------------------------------------------------
# The jobs table is shared with datasette-enrichments and edited by people, so triggers keep its numbers: none is given
# twice, what hangs on a job goes with it, and the table that it read is remembered, whoever changes or deletes the row.

LARGEST_NUMBER = 2**53 - 1
"""A job whose number is higher was numbered by hand, beyond what JSON can hold: numbers do not go on from there."""

_SEQ = "(select seq from _enrichment_sequence where name = '_enrichment_jobs')"
_NO_JOB = "'(no job)'"
"""The status of a row that stands in the table only while another one is being inserted."""
_HANGS_ON = ("_enrichment_batches", "_enrichment_errors", "_enrichment_progress")


def _forget(number: str) -> str:
    """Statements that delete what hangs on a job and count its number as used."""
    closed = f"  update _enrichment_batches set end_cursor = null where job_id = {number};\n"
    return (
        closed
        + "".join(f"  delete from {table} where job_id = {number};\n" for table in _HANGS_ON)
        + (
            f"  insert into _enrichment_sequence (name, seq) select '_enrichment_jobs', {number}"
            f" where {number} <= {LARGEST_NUMBER} on conflict (name) do update set seq = max(seq, excluded.seq);\n"
        )
    )


_SOURCE = (
    "{0}.id, case when typeof({0}.table_name) = 'text' then {0}.table_name else '' end, coalesce({0}.private_table, '')"
)


def _remember(row: str) -> str:
    """A statement that notes which table a job reads or has read; `row`: `old` or `new`."""
    return f"  insert into _enrichment_sources values ({_SOURCE.format(row)}) on conflict do nothing;\n"


TRIGGERS = {
    # SQLite chooses the number of a row that comes without one after this: the highest in the table, plus 1.
    "_enrichment_jobs_number": f"""before insert on _enrichment_jobs
when coalesce(new.id, 0) < 1 and new.status is not {_NO_JOB}
  and {_SEQ} > (select coalesce(max(id), 0) from _enrichment_jobs) begin
  insert into _enrichment_jobs (id, status) values ({_SEQ}, {_NO_JOB});
end""",
    "_enrichment_jobs_inserted": f"""after insert on _enrichment_jobs when new.status is not {_NO_JOB} begin
  delete from _enrichment_jobs where status = {_NO_JOB};
{_forget("new.id")}{_remember("new")}  update _enrichment_jobs set status = 'cancelled', finished_at = strftime('%Y-%m-%dT%H:%M:%SZ', 'now'),
    cancel_reason = 'Another program has replaced the row of this job, and its reservations are lost. Start it again'
    where id = new.id and new.selection is not null and new.next_cursor is not null
    and new.status in ('pending', 'running', 'paused');
end""",
    "_enrichment_jobs_deleted": f"""after delete on _enrichment_jobs when old.status is not {_NO_JOB} begin
{_forget("old.id")}{_remember("old")}end""",
    "_enrichment_jobs_moved": f"""after update of table_name, private_table on _enrichment_jobs
when new.status is not {_NO_JOB} begin
{_remember("old")}{_remember("new")}end""",
    "_enrichment_jobs_renumbered": """before update of id on _enrichment_jobs when new.id is not old.id begin
  select raise(abort, 'The number of a job cannot be changed');
end""",
    # The rows of a reservation that another program deletes would never be answered. The engine closes it first.
    "_enrichment_batches_deleted": """before delete on _enrichment_batches when old.end_cursor is not null
  and exists (select 1 from _enrichment_jobs where id = old.job_id and status in ('pending', 'running', 'paused')) begin
  select raise(ignore);
end""",
}
"""name -> the rest of the trigger. `insert or replace` deletes without the trigger of a delete: what is inserted owns
nothing yet, so the same is done then."""


def _triggers_stand(conn: sqlite3.Connection) -> bool:
    sql = "select name, sql from sqlite_master where type = 'trigger' and name like '!_enrichment!_%' escape '!'"
    found = dict(conn.execute(sql).fetchall())
    return all(name in found and found[name].endswith(rest) for name, rest in TRIGGERS.items())


def _numbers_stand(conn: sqlite3.Connection) -> bool:
    """Whether the triggers exist, and the highest number is one: another program may have deleted or damaged it."""
    if not _triggers_stand(conn):
        return False
    return conn.execute(f"select 1 from _enrichment_sequence where {_IS_NUMBER}").fetchone() is not None


_IS_NUMBER = f"name = '_enrichment_jobs' and typeof(seq) = 'integer' and seq between 0 and {LARGEST_NUMBER}"


def _keep_numbers(conn: sqlite3.Connection) -> None:
    """Make the triggers, and clean up what happened without them: numbers that rows still name count as used, rows of
    jobs that are gone are deleted."""
    conn.execute(f"delete from _enrichment_sequence where not ({_IS_NUMBER})")
    naming = [("_enrichment_jobs", "id"), *((table, "job_id") for table in _HANGS_ON)]
    results = [table for table in sqlite.made(conn) - TABLES.keys() if _has_job_id(conn, table)]
    naming += [(table, "job_id") for table in results]
    for table, column in naming:
        conn.execute(
            "insert into _enrichment_sequence (name, seq) "
            f"select '_enrichment_jobs', coalesce(max({column}), 0) from {sqlite.quote(table)} "
            f"where typeof({column}) = 'integer' and {column} <= ? "
            "on conflict (name) do update set seq = max(seq, excluded.seq)",
            [LARGEST_NUMBER],
        )
    for table in _HANGS_ON:
        conn.execute(f"delete from {table} where job_id not in (select id from _enrichment_jobs)")
    _remember_sources(conn, results)
    for name, rest in TRIGGERS.items():
        conn.execute(f"drop trigger if exists {name}")
        conn.execute(f"create trigger {name} {rest}")


def _remember_sources(conn: sqlite3.Connection, results: list[str]) -> None:
    """Note the tables of all jobs, and which results name a job whose table nobody knows any more."""
    conn.execute(
        f"insert into _enrichment_sources select {_SOURCE.format('j')} from _enrichment_jobs j where true "
        "on conflict do nothing"
    )
    for table in results:
        conn.execute(
            f"insert into _enrichment_sources select distinct job_id, '', '' from {sqlite.quote(table)} "
            "where typeof(job_id) = 'integer' and job_id not in (select job_id from _enrichment_sources) "
            "on conflict do nothing"
        )


def _has_job_id(conn: sqlite3.Connection, table: str) -> bool:
    return sqlite.kind(conn, table) == "table" and "job_id" in sqlite.columns(conn, table)


def next_number(conn: sqlite3.Connection) -> int:
    """The number of the next job, one that no job of this file ever had. Inside the transaction that inserts it."""
    sql = f"select max(coalesce(max(id), 0), coalesce({_SEQ}, 0)) + 1 from _enrichment_jobs where id <= ?"
    return int(conn.execute(sql, [LARGEST_NUMBER]).fetchone()[0])


# ---- bringing them up to date ------------------------------------------------------------------------------------


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
        _keep_numbers(conn)


def is_current(conn: sqlite3.Connection) -> bool:
    """Whether every table exists in today's form, with its triggers and the highest number."""
    return sqlite.is_current(conn, TABLES) and _numbers_stand(conn)


def exists(conn: sqlite3.Connection) -> bool:
    """Whether jobs can be read here: the jobs table has the columns that it began with."""
    return TABLES["_enrichment_jobs"].stands(conn, "_enrichment_jobs", ["m001_create"])
