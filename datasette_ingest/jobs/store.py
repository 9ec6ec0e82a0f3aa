"""The SQL on jobs: plain functions of an open sqlite3 connection that neither commit nor wait.

Times are seconds since 1970; `now` is always an argument.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..sqlite import columns, escape_surrogates, iso, json_value, made, stamp
from . import keyset, leases, results_log, schema
from .errors import JobNotFound, KeyReused
from .model import Decision, Job, JobStatus, RequestKey, StartRequest, event_message
from .stored_row import job_of


def insert_job(
    conn: sqlite3.Connection,
    database: str,
    start: StartRequest,
    *,
    selection: str,
    row_count: int | None,
    now: float,
    request: RequestKey | None = None,
    event: str = "Started",
    is_private: bool = False,
) -> Job:
    """A new pending job. `start`: checked, its config complete. `selection`: the filters as checked SQL. `is_private`:
    not everybody may view the table.

    :param row_count: None: to be counted by a worker
    :param request: the idempotent request that it is started for
    :param event: the first line of its log
    """
    schema.migrate(conn)
    job_id = schema.next_number(conn)
    settings = {"settings": dict(start.settings)} if start.settings else {}
    values = {
        "id": job_id,
        "status": JobStatus.PENDING.value,
        "enrichment": start.enrichment,
        "database_name": database,
        "table_name": start.table,
        "filter_querystring": start.filters,
        "selection": selection,
        "config": json.dumps(json_value(dict(start.config)), ensure_ascii=False),
        "options": json.dumps({**start.options, **settings}),
        "started_at": iso(now),
        "actor_id": start.actor_id,
        "row_count": row_count or 0,
        "is_counted": row_count is not None,
        "error_count": 0,
        "done_count": 0,
        "cost_100ths_cent": 0,
        "cost_nanodollars": 0,
        "state": "{}",
        "outcomes": "{}",
        "request_key": None if request is None else request.key,
        "request_digest": None if request is None else request.digest,
        "table_key": keyset.describe(conn, start.table),
        "private_table": _identity(conn, start.table) if is_private else None,
    }
    names = ", ".join(values)
    slots = ", ".join(f":{name}" for name in values)
    conn.execute(f"insert into _enrichment_jobs ({names}) values ({slots})", values)
    results_log.add_event(conn, job_id, event, now)
    return get_job(conn, job_id)


def requested_job(conn: sqlite3.Connection, request: RequestKey) -> Job | None:
    """The job that this request of this actor added before; None where its key is new.

    :raises KeyReused: when the actor's key came with another request
    """
    if not schema.exists(conn):
        return None
    found = conn.execute(
        "select id, request_digest from _enrichment_jobs where request_key = ? and actor_id is ?",
        [request.key, request.actor_id],
    ).fetchone()
    if found is None:
        return None
    if found[1] != request.digest:
        raise KeyReused(
            f"This key came with another request before, which started job {found[0]}. Send a new key for a new job"
        )
    return get_job(conn, found[0])


def find_job(conn: sqlite3.Connection, job_id: int) -> Job | None:
    """The job of that number, or None; also None where no job has ever run."""
    return next(iter(_jobs(conn, "select * from _enrichment_jobs where id = ?", [job_id])), None)


def _jobs(conn: sqlite3.Connection, sql: str, arguments: Sequence[Any] | Mapping[str, Any]) -> list[Job]:
    """The jobs that a query gives; none where no job has ever run. Whether the table stands is asked only when the
    query fails: a runner reads its job several times a second."""
    cursor_ = conn.cursor()
    cursor_.row_factory = sqlite3.Row
    try:
        return [job_of(row) for row in cursor_.execute(sql, arguments)]
    except (sqlite3.OperationalError, IndexError):  # no such table; a table of another plugin's, without our columns
        if schema.exists(conn):
            raise
        return []


def get_job(conn: sqlite3.Connection, job_id: int) -> Job:
    """:raises JobNotFound: when there is none"""
    job = find_job(conn, job_id)
    if job is None:
        raise JobNotFound(f"There is no job {job_id} in this database")
    return job


def list_jobs(
    conn: sqlite3.Connection,
    *,
    tables: Collection[str],
    status: str | None = None,
    enrichment: str | None = None,
    before: int | None = None,
    limit: int = 50,
    without: Collection[int] = (),
) -> list[Job]:
    """The jobs of these tables, newest first, without those of these ids."""
    conditions = {"status = :status": status, "enrichment = :enrichment": enrichment, "id < :before": before}
    where = "".join(f" and {condition}" for condition, value in conditions.items() if value is not None)
    return _jobs(
        conn,
        "select * from _enrichment_jobs where table_name in (select value from temp.json_each(:tables))"
        f"{where} and id > 0 and id not in (select value from temp.json_each(:without)) order by id desc limit :limit",
        {
            "tables": json.dumps(list(tables)),
            "without": json.dumps(list(without)),
            "status": status,
            "enrichment": enrichment,
            "before": before,
            "limit": limit,
        },
    )


def tables_with_jobs(conn: sqlite3.Connection) -> list[str]:
    """Every table that ever had a job in this database, whoever ran it; '' where a job's table is not known any more."""
    return sorted(row[0] for row in _sources(conn, "table_name"))


def _sources(conn: sqlite3.Connection, wanted: str, where: str = "true", *arguments: str) -> set[tuple[Any, ...]]:
    """What is known of the jobs that there ever were: `job_id`, `table_name` ('': not known) and `private_table`, the
    identity of a private one (else ''), as SQL."""
    found: set[tuple[Any, ...]] = set()
    for name, number in {"_enrichment_jobs": "id", "_enrichment_sources": "job_id"}.items():
        present = columns(conn, name)
        is_users = number == "job_id" and name not in made(conn)
        if {number, "table_name"}.issubset(present) and not is_users:
            private = "coalesce(private_table, '')" if "private_table" in present else "''"
            known = f"select {number} as job_id, table_name, {private} as private_table from {name}"
            sql = f"select distinct {wanted} from ({known}) where typeof(table_name) = 'text' and {where}"
            found.update(map(tuple, conn.execute(sql, arguments)))
    return found


def _identity(conn: sqlite3.Connection, table: str) -> str | None:
    """What tells a table from a later one of its name: its place in the schema. Columns that are added and a new name do
    not change it; a VACUUM may, and so does a table that is rebuilt in its place."""
    sql = "select rowid || ':' || rootpage from sqlite_master where type = 'table' and name = ? collate nocase"
    found = conn.execute(sql, [table]).fetchone()
    return None if found is None else str(found[0])


def jobs_of_private_predecessors(conn: sqlite3.Connection) -> dict[str, list[int]]:
    """The jobs over private tables in whose places others stand now, by the name of the table."""
    found: dict[str, list[int]] = {}
    for table, identity in sorted(_sources(conn, "table_name, private_table", "private_table <> ''")):
        if _identity(conn, table) not in (identity, None):
            jobs = _sources(conn, "job_id", "table_name = ? and private_table = ?", table, identity)
            found.setdefault(table, []).extend(sorted(row[0] for row in jobs))
    return found


def filters(conn: sqlite3.Connection) -> list[tuple[str, str]]:
    """The tables and filters of jobs that hold a key with an underscore, but for the keys of single rows: those may be
    very long."""
    if not {"table_name", "filter_querystring"} <= set(columns(conn, "_enrichment_jobs")):
        return []
    other = "replace(replace(filter_querystring, '_rowid=', ''), '_row=', '')"
    rows = conn.execute(
        "select distinct table_name, filter_querystring from _enrichment_jobs where table_name is not null "
        f"and ({other} like '%!_%' escape '!' or filter_querystring like '%!%5f%' escape '!')"
    )
    return [(row[0], row[1]) for row in rows]


def running_jobs(conn: sqlite3.Connection, *, without: Collection[int] = ()) -> dict[str, int]:
    """How many jobs are running, by table; without those of these ids."""
    if not columns(conn, "_enrichment_jobs"):
        return {}
    rows = conn.execute(
        "select table_name, count(*) from _enrichment_jobs where status = 'running' and typeof(table_name) = 'text' "
        "and id not in (select value from temp.json_each(?)) group by 1",
        [json.dumps(list(without))],
    )
    return {row[0]: row[1] for row in rows}


def runnable_jobs(conn: sqlite3.Connection, slugs: Sequence[str], now: float) -> list[Job]:
    """Jobs that a worker may take up: pending, running, or paused until a time that has come. Only of these slugs."""
    return _jobs(
        conn,
        "select * from _enrichment_jobs where enrichment in (select value from temp.json_each(?)) "
        "and selection is not null and "  # another plugin's job of the same slug has none
        "(status in ('pending', 'running') or (status = 'paused' and resume_at <= ?)) order by id",
        [json.dumps(list(slugs)), stamp(now)],
    )


_STATES = ", ".join(f"'{status.value}'" for status in JobStatus)


def damaged_jobs(conn: sqlite3.Connection, *, all_unfinished: bool) -> list[Job]:
    """Jobs of ours that are not over and whose row another program has damaged.

    :param all_unfinished: look at every one; else only at those that `runnable_jobs` would overlook for their damage
    """
    conditions = {
        True: "status not in ('finished', 'cancelled') or status is null",
        False: f"status is null or status not in ({_STATES}) or (status in ('pending', 'running') and "
        "(id < 1 or enrichment is null or typeof(enrichment) <> 'text' or selection is null)) "
        "or (status = 'paused' and resume_at is not null and resume_at not glob '????-??-??T*')",
    }
    sql = (
        "select * from _enrichment_jobs where (selection is not null or table_key is not null) "
        f"and ({conditions[all_unfinished]}) order by id"
    )
    return [job for job in _jobs(conn, sql, []) if job.damage is not None]


def give_up(conn: sqlite3.Connection, reasons: Mapping[int, str], now: float) -> None:
    """Cancel jobs whatever their rows hold, and forget their reservations. `reasons`: id -> a sentence."""
    for job_id, reason in reasons.items():
        conn.execute(
            "update _enrichment_jobs set status = 'cancelled', cancel_reason = ?, finished_at = ?, resume_at = null, "
            "pause_reason = null, waits_until = null where id = ?",
            [escape_surrogates(reason), iso(now), job_id],
        )
        leases.drop_batches(conn, job_id)
        results_log.add_event(conn, job_id, event_message(JobStatus.CANCELLED, by=None, reason=reason), now)


def adopt_key(conn: sqlite3.Connection, job: Job) -> None:
    """Note the key of the job's table if it was added by a version that did not, and the table still stands."""
    if job.table_key is None and columns(conn, job.table_name):
        described = keyset.describe(conn, job.table_name)
        conn.execute("update _enrichment_jobs set table_key = ? where id = ?", [described, job.id])


def needs_adoption(conn: sqlite3.Connection) -> bool:
    """Whether the jobs table exists but lacks columns or other tables of ours, and no table of a user's has their names."""
    is_there = bool(columns(conn, "_enrichment_jobs"))
    return is_there and not schema.is_current(conn) and schema.stranger(conn) is None


def change_status(
    conn: sqlite3.Connection,
    job_id: int,
    expected: Sequence[JobStatus],
    decision: Decision,
    *,
    now: float,
    event: str | None = None,
) -> bool:
    """Move a job where the decision says if its status is one of the `expected` ones, and log it; whether it was.

    :param event: the line of the log; None: the line for a step of the engine's own
    """
    status, reason, resume_at = decision.status, decision.reason, decision.resume_at
    sets: dict[str, Any] = {"status": status.value, "resume_at": None, "pause_reason": None}
    if status is not JobStatus.RUNNING:
        sets |= {"waits_until": None}
    if status is JobStatus.PAUSED:
        sets |= {"resume_at": resume_at, "pause_reason": escape_surrogates(reason)}
    if status is JobStatus.CANCELLED:
        sets |= {"cancel_reason": escape_surrogates(reason)}
    if status in (JobStatus.CANCELLED, JobStatus.FINISHED):
        sets |= {"finished_at": iso(now)}
    terms = ", ".join(f"{name} = :{name}" for name in sets)
    marks = ", ".join(f"'{before.value}'" for before in expected)
    changed = conn.execute(
        f"update _enrichment_jobs set {terms} where id = :id and status in ({marks})", {**sets, "id": job_id}
    )
    if changed.rowcount != 1:
        return False
    if status is JobStatus.FINISHED:  # every row was answered
        conn.execute(
            "update _enrichment_jobs set row_count = done_count, is_counted = 1 where id = ? and is_counted = 0",
            [job_id],
        )
    results_log.add_event(
        conn, job_id, event or event_message(status, by=None, reason=reason, resume_at=resume_at), now
    )
    return True


def wait_for_place(conn: sqlite3.Connection, job_id: int, now: float, event: str) -> None:
    """Note in the job's log that it waits for a place among the jobs that run. One that is running, and that no process
    works on, is pending again."""
    conn.execute(
        "update _enrichment_jobs set status = 'pending' where id = ? and status = 'running' and not exists "
        "(select 1 from _enrichment_batches where job_id = _enrichment_jobs.id and leased_by is not null)",
        [job_id],
    )
    if conn.execute("select 1 from _enrichment_jobs where id = ? and status = 'pending'", [job_id]).fetchone():
        results_log.add_event(conn, job_id, event, now)


def resume_if_due(conn: sqlite3.Connection, job_id: int, now: float) -> bool:
    """Set a job running that was paused until a time that has come; whether it was."""
    changed = conn.execute(
        "update _enrichment_jobs set status = 'running', resume_at = null, pause_reason = null "
        "where id = ? and status = 'paused' and resume_at <= ?",
        [job_id, stamp(now)],
    )
    if changed.rowcount != 1:
        return False
    results_log.add_event(conn, job_id, "Resumed by itself: its time has come", now)
    return True


def uncounted_jobs(conn: sqlite3.Connection, slugs: Sequence[str]) -> list[Job]:
    """Jobs of these enrichments whose rows are still to be counted."""
    return _jobs(
        conn,
        "select * from _enrichment_jobs where status in ('pending', 'running', 'paused') and is_counted = 0 "
        "and enrichment in (select value from temp.json_each(?)) and selection is not null order by id",
        [json.dumps(list(slugs))],
    )


def set_row_count(conn: sqlite3.Connection, job_id: int, number: int, *, is_counted: bool) -> None:
    """Write how many rows a job has, unless that is known; not `is_counted`: at least so many."""
    conn.execute(
        "update _enrichment_jobs set row_count = max(?, done_count), is_counted = ? where id = ? and is_counted = 0",
        [number, is_counted, job_id],
    )


def advance(conn: sqlite3.Connection, job_id: int, next_cursor: str) -> None:
    conn.execute("update _enrichment_jobs set next_cursor = ? where id = ?", [next_cursor, job_id])


def set_waits_until(conn: sqlite3.Connection, job_id: int, until: str | None) -> None:
    conn.execute("update _enrichment_jobs set waits_until = ? where id = ?", [until, job_id])
