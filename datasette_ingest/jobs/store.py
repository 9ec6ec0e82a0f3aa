"""All SQL on the `_enrichment_*` tables: plain functions of an open sqlite3 connection that neither commit nor wait.

Times are seconds since 1970; `now` is always an argument.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..sqlite import columns, from_iso, iso, json_cell, stamp
from . import keyset, schema
from .errors import JobNotFound, KeyReused
from .model import (
    LAST_STAMP,
    Batch,
    BatchResult,
    Deferral,
    Event,
    Job,
    JobStatus,
    RequestKey,
    RowFailure,
    StartRequest,
    Wait,
    cost_100ths_cent,
    event_message,
)
from .owner import Liveness

EPOCH_2025 = 1_735_689_600  # 2025-01-01T00:00:00Z, where timestamp_ms_2025 begins
DEATHS_BEFORE_ALONE = 2
DEATHS_ALONE_BEFORE_ERROR = 3
MOST_WAITS = 10


# ---- jobs ------------------------------------------------------------------------------------------------------


def insert_job(
    conn: sqlite3.Connection,
    database: str,
    start: StartRequest,
    *,
    selection: str,
    row_count: int,
    now: float,
    request: RequestKey | None = None,
    event: str = "Started",
) -> Job:
    """A new pending job. `start`: checked, its config complete. `selection`: the filters as checked SQL.

    :param request: the idempotent request that it is started for
    :param event: the first line of its log
    """
    schema.migrate(conn)
    settings = {"settings": dict(start.settings)} if start.settings else {}
    values = {
        "status": JobStatus.PENDING.value,
        "enrichment": start.enrichment,
        "database_name": database,
        "table_name": start.table,
        "filter_querystring": start.filters,
        "selection": selection,
        "config": json.dumps(dict(start.config), ensure_ascii=False),
        "options": json.dumps({**start.options, **settings}),
        "started_at": iso(now),
        "actor_id": start.actor_id,
        "row_count": row_count,
        "error_count": 0,
        "done_count": 0,
        "cost_100ths_cent": 0,
        "cost_nanodollars": 0,
        "state": "{}",
        "outcomes": "{}",
        "request_key": None if request is None else request.key,
        "request_digest": None if request is None else request.digest,
    }
    names = ", ".join(values)
    slots = ", ".join(f":{name}" for name in values)
    inserted = conn.execute(f"insert into _enrichment_jobs ({names}) values ({slots})", values)
    job_id = int(inserted.lastrowid or 0)
    add_event(conn, job_id, event, now)
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
        return [Job.from_row(row) for row in cursor_.execute(sql, arguments)]
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
) -> list[Job]:
    """The jobs of these tables, newest first."""
    conditions = {"status = :status": status, "enrichment = :enrichment": enrichment, "id < :before": before}
    where = "".join(f" and {condition}" for condition, value in conditions.items() if value is not None)
    return _jobs(
        conn,
        "select * from _enrichment_jobs where table_name in (select value from json_each(:tables))"
        f"{where} order by id desc limit :limit",
        {
            "tables": json.dumps(list(tables)),
            "status": status,
            "enrichment": enrichment,
            "before": before,
            "limit": limit,
        },
    )


def tables_with_jobs(conn: sqlite3.Connection) -> list[str]:
    """Every table that ever had a job in this database, whoever ran it."""
    if "table_name" not in columns(conn, "_enrichment_jobs"):
        return []
    rows = conn.execute("select distinct table_name from _enrichment_jobs where table_name is not null order by 1")
    return [row[0] for row in rows]


def running_jobs(conn: sqlite3.Connection) -> dict[str, int]:
    """How many jobs are running, by table."""
    if not columns(conn, "_enrichment_jobs"):
        return {}
    rows = conn.execute(
        "select table_name, count(*) from _enrichment_jobs where status = 'running' and table_name is not null group by 1"
    )
    return {row[0]: row[1] for row in rows}


def runnable_jobs(conn: sqlite3.Connection, slugs: Sequence[str], now: float) -> list[Job]:
    """Jobs that a worker may take up: pending, running, or paused until a time that has come. Only of these slugs."""
    return _jobs(
        conn,
        "select * from _enrichment_jobs where enrichment in (select value from json_each(?)) "
        "and selection is not null and "  # another plugin's job of the same slug has none
        "(status in ('pending', 'running') or (status = 'paused' and resume_at <= ?)) order by id",
        [json.dumps(list(slugs)), stamp(now)],
    )


def needs_adoption(conn: sqlite3.Connection) -> bool:
    """Whether the jobs table exists but lacks columns or other tables of ours."""
    return bool(columns(conn, "_enrichment_jobs")) and not schema.is_current(conn)


def change_status(
    conn: sqlite3.Connection,
    job_id: int,
    expected: Sequence[JobStatus],
    status: JobStatus,
    *,
    now: float,
    reason: str | None = None,
    resume_at: str | None = None,
    event: str | None = None,
) -> bool:
    """Move a job to `status` if it is in one of the `expected` ones, and log it; whether it was.

    :param event: what the log says; None: what it says of a step that the engine takes itself
    """
    sets: dict[str, Any] = {"status": status.value, "resume_at": None, "pause_reason": None}
    if status is not JobStatus.RUNNING:
        sets |= {"waits_until": None}
    if status is JobStatus.PAUSED:
        sets |= {"resume_at": resume_at, "pause_reason": _writable(reason)}
    if status is JobStatus.CANCELLED:
        sets |= {"cancel_reason": _writable(reason)}
    if status in (JobStatus.CANCELLED, JobStatus.FINISHED):
        sets |= {"finished_at": iso(now)}
    terms = ", ".join(f"{name} = :{name}" for name in sets)
    marks = ", ".join(f"'{before.value}'" for before in expected)
    changed = conn.execute(
        f"update _enrichment_jobs set {terms} where id = :id and status in ({marks})", {**sets, "id": job_id}
    )
    if changed.rowcount != 1:
        return False
    add_event(conn, job_id, event or event_message(status, by=None, reason=reason, resume_at=resume_at), now)
    return True


def resume_if_due(conn: sqlite3.Connection, job_id: int, now: float) -> bool:
    """Set a job running that was paused until a time that has come; whether it was."""
    changed = conn.execute(
        "update _enrichment_jobs set status = 'running', resume_at = null, pause_reason = null "
        "where id = ? and status = 'paused' and resume_at <= ?",
        [job_id, stamp(now)],
    )
    if changed.rowcount != 1:
        return False
    add_event(conn, job_id, "Resumed by itself: its time has come", now)
    return True


# ---- reservations ----------------------------------------------------------------------------------------------


def read_batches(conn: sqlite3.Connection, where: str, arguments: Sequence[Any]) -> list[Batch]:
    cursor_ = conn.cursor()
    cursor_.row_factory = None
    rows = cursor_.execute(
        "select id, job_id, start_cursor, end_cursor, row_count, coalesce(attempts, 0), coalesce(deaths, 0), "
        f"coalesce(alone, 0), coalesce(deferrals, 0) from _enrichment_batches where {where}",
        arguments,
    )
    return [Batch(*row) for row in rows]


def free_dead_leases(
    conn: sqlite3.Connection,
    job_id: int,
    me: str,
    now: float,
    lease_seconds: float,
    liveness: Callable[[str], Liveness],
) -> int:
    """Free every lease of others whose process is gone, whose time is over, or whose time lies so far ahead that the clock must
    have been set back; each counts as a death. How many were freed."""
    owners = conn.execute(
        "select leased_by, min(leased_until), max(leased_until) from _enrichment_batches "
        "where job_id = ? and leased_by is not null and leased_by != ? group by leased_by",
        [job_id, me],
    ).fetchall()
    freed = 0
    for owner, first, last in owners:
        alive = liveness(owner)
        if alive is Liveness.GONE:
            condition, arguments = "1", []
        else:
            overdue = first is None or first < stamp(now)
            far_ahead = alive is Liveness.UNKNOWN and last is not None and last > stamp(now + 2 * lease_seconds)
            if not overdue and not far_ahead:
                continue
            condition = "(leased_until is null or leased_until < ? or (? and leased_until > ?))"
            arguments = [stamp(now), alive is Liveness.UNKNOWN, stamp(now + 2 * lease_seconds)]
        freed += conn.execute(
            "update _enrichment_batches set leased_by = null, leased_until = null, deaths = coalesce(deaths, 0) + 1, "
            "attempts = coalesce(attempts, 0) + coalesce(alone, 0), alone = 0 "
            f"where job_id = ? and leased_by = ? and {condition}",
            [job_id, owner, *arguments],
        ).rowcount
    return freed


def free_batches(conn: sqlite3.Connection, job_id: int, limit: int, now: float, *, suspects: bool) -> list[Batch]:
    """Reservations that nobody holds and that may be tried now: those given back, oldest first, then those that were
    put off, by their time. Suspects have outlived several processes and must run alone."""
    kind = "deaths > 0 and deaths >= ?" if suspects else "coalesce(deaths, 0) < ?"
    free = f"job_id = ? and leased_by is null and {kind}"
    found = read_batches(
        conn, f"{free} and not_before is null order by id limit ?", [job_id, DEATHS_BEFORE_ALONE, limit]
    )
    return found + read_batches(
        conn,
        f"{free} and not_before <= ? order by not_before, row_count, id limit ?",
        [job_id, DEATHS_BEFORE_ALONE, stamp(now), limit - len(found)],
    )


def lease(conn: sqlite3.Connection, batch: Batch, owner: str, until: float, *, alone: bool) -> bool:
    """Take a free reservation; whether it was free."""
    changed = conn.execute(
        "update _enrichment_batches set leased_by = ?, leased_until = ?, alone = ?, not_before = null, "
        "defer_reason = null where id = ? and leased_by is null",
        [owner, stamp(until), alone, batch.id],
    )
    return changed.rowcount == 1


def insert_batch(
    conn: sqlite3.Connection,
    job_id: int,
    start: str | None,
    end: str,
    rows: int,
    *,
    owner: str | None = None,
    until: float = 0.0,
    attempts: int = 0,
    deaths: int = 0,
    deferrals: int = 0,
) -> Batch:
    inserted = conn.execute(
        "insert into _enrichment_batches (job_id, start_cursor, end_cursor, row_count, attempts, deaths, alone, "
        "leased_by, leased_until, deferrals) values (?, ?, ?, ?, ?, ?, 0, ?, ?, ?)",
        [job_id, start, end, rows, attempts, deaths, owner, stamp(until) if owner else None, deferrals],
    )
    return Batch(int(inserted.lastrowid or 0), job_id, start, end, rows, attempts, deaths, deferrals=deferrals)


def defer(conn: sqlite3.Connection, batch: Batch, deferral: Deferral) -> None:
    """Put a free reservation off."""
    conn.execute(
        "update _enrichment_batches set not_before = ?, defer_reason = ?, ticket = ? where id = ?",
        [deferral.not_before, _writable(deferral.reason), deferral.ticket, batch.id],
    )


def advance(conn: sqlite3.Connection, job_id: int, next_cursor: str) -> None:
    conn.execute("update _enrichment_jobs set next_cursor = ? where id = ?", [next_cursor, job_id])


def renew(conn: sqlite3.Connection, owner: str, batch_ids: Sequence[int], until: float) -> int:
    """Lengthen the leases of these batches; how many are still the owner's."""
    return conn.execute(
        "update _enrichment_batches set leased_until = ? where leased_by = ? and id in (select value from json_each(?))",
        [stamp(until), owner, json.dumps(list(batch_ids))],
    ).rowcount


def release(conn: sqlite3.Connection, owner: str, job_id: int) -> None:
    """Free all reservations of the owner for others; this counts as no death."""
    conn.execute(
        "update _enrichment_batches set leased_by = null, leased_until = null, alone = 0 where leased_by = ? and job_id = ?",
        [owner, job_id],
    )


def delete_batch(conn: sqlite3.Connection, batch_id: int, owner: str) -> bool:
    """Close a reservation; False when it is no longer the owner's, and then nothing of it may be written."""
    return (
        conn.execute("delete from _enrichment_batches where id = ? and leased_by = ?", [batch_id, owner]).rowcount == 1
    )


def shorten_batch(conn: sqlite3.Connection, batch_id: int, owner: str, start: str, rows: int) -> bool:
    """Move a reservation's start behind rows that were answered; False when it is no longer the owner's."""
    return (
        conn.execute(
            "update _enrichment_batches set start_cursor = ?, row_count = max(0, row_count - ?) where id = ? and leased_by = ?",
            [start, rows, batch_id, owner],
        ).rowcount
        == 1
    )


def has_batches(conn: sqlite3.Connection, job_id: int) -> bool:
    """Whether any row of the job is reserved: at work, given back or put off."""
    return conn.execute("select 1 from _enrichment_batches where job_id = ? limit 1", [job_id]).fetchone() is not None


def start_cursor(conn: sqlite3.Connection, batch_id: int) -> str | None:
    """The key before the first row of a reservation that is not answered yet."""
    row = conn.execute("select start_cursor from _enrichment_batches where id = ?", [batch_id]).fetchone()
    return row[0] if row else None


def held(conn: sqlite3.Connection) -> dict[tuple[str, int], int]:
    """(owner, job) -> reservations that it holds, over all jobs."""
    rows = conn.execute(
        "select leased_by, job_id, count(*) from _enrichment_batches where leased_by is not null group by 1, 2"
    )
    return {(owner, job_id): number for owner, job_id, number in rows}


def live_workers(
    conn: sqlite3.Connection,
    held: Collection[tuple[str, int]],
    now: float,
    liveness: Callable[[str], Liveness],
) -> int:
    """How many owners of these leases, (owner, job), live. One of another host does while its lease lasts."""
    living = set()
    for owner, job_id in held:
        alive = Liveness.ALIVE if owner in living else liveness(owner)
        if alive is Liveness.ALIVE or (alive is Liveness.UNKNOWN and _has_valid_lease(conn, owner, job_id, now)):
            living.add(owner)
    return len(living)


def _has_valid_lease(conn: sqlite3.Connection, owner: str, job_id: int, now: float) -> bool:
    sql = "select 1 from _enrichment_batches where job_id = ? and leased_by = ? and leased_until >= ? limit 1"
    return conn.execute(sql, [job_id, owner, stamp(now)]).fetchone() is not None


# ---- rows that are put off -------------------------------------------------------------------------------------


def next_due(conn: sqlite3.Connection, job_id: int, now: float) -> float | None:
    """The next time at which a deferred reservation of the job may be tried again; None where none is deferred."""
    sql = "select min(not_before) from _enrichment_batches where job_id = ? and not_before > ?"
    first = conn.execute(sql, [job_id, stamp(now)]).fetchone()[0]
    return None if first is None else from_iso(first)


def deferred_rows(conn: sqlite3.Connection, job_id: int) -> int:
    """How many rows of the job are put off."""
    sql = "select coalesce(sum(row_count), 0) from _enrichment_batches where job_id = ? and not_before is not null"
    return int(conn.execute(sql, [job_id]).fetchone()[0])


def waits(conn: sqlite3.Connection, job_id: int, now: float) -> list[Wait]:
    """What the job's deferred rows wait for: the MOST_WAITS reasons with the most rows."""
    if "not_before" not in columns(conn, "_enrichment_batches"):
        return []
    rows = conn.execute(
        "select coalesce(defer_reason, ''), min(not_before), sum(row_count) from _enrichment_batches "
        "where job_id = ? and not_before > ? group by defer_reason order by 3 desc, 2, 1 limit ?",
        [job_id, stamp(now), MOST_WAITS],
    )
    return [Wait(*row) for row in rows]


def set_waits_until(conn: sqlite3.Connection, job_id: int, until: str | None) -> None:
    conn.execute("update _enrichment_jobs set waits_until = ? where id = ?", [until, job_id])


def find_ticket(conn: sqlite3.Connection, ticket: str) -> Batch | None:
    """The reservation with this ticket, the oldest where several have it; None where none has, or it is at work."""
    if "ticket" not in columns(conn, "_enrichment_batches"):
        return None
    found = read_batches(conn, "ticket = ? and leased_by is null order by id limit 1", [ticket])
    return found[0] if found else None


# ---- reservations of a job that is over ------------------------------------------------------------------------


def drop_batches(conn: sqlite3.Connection, job_id: int) -> None:
    """Delete the reservations of a job that is over."""
    conn.execute("delete from _enrichment_batches where job_id = ?", [job_id])


def drop_idle_batches(conn: sqlite3.Connection, job_id: int, liveness: Callable[[str], Liveness]) -> None:
    """Forget the reservations of a job that is over which no process holds any more. One that lives has until its next
    transaction to write what it has finished."""
    owners = conn.execute(
        "select distinct leased_by from _enrichment_batches where job_id = ? and leased_by is not null", [job_id]
    ).fetchall()
    gone = [owner for (owner,) in owners if liveness(owner) is Liveness.GONE]
    conn.execute(
        "delete from _enrichment_batches where job_id = ? "
        "and (leased_by is null or leased_by in (select value from json_each(?)))",
        [job_id, json.dumps(gone)],
    )


# ---- what a commit adds ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tally:
    """What one cycle adds to a job's counters."""

    done: int = 0
    errors: int = 0
    cost_nanodollars: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)


def tally(answers: Sequence[BatchResult]) -> Tally:
    """Sum the answers of a cycle. Rows without an outcome word of the enrichment's count as success or error."""
    outcomes: dict[str, int] = {}
    state: dict[str, Any] = {}
    counters: dict[str, int] = {}
    for answer in answers:
        done = answer.rows - len(answer.unanswered)
        words = answer.outcomes or {"success": done - len(answer.errors), "error": len(answer.errors)}
        for word, number in words.items():
            if number:
                outcomes[word] = outcomes.get(word, 0) + number
        state |= answer.state
        for name, number in answer.counters.items():
            counters[name] = counters.get(name, 0) + number
    return Tally(
        done=sum(answer.rows - len(answer.unanswered) for answer in answers),
        errors=sum(len(answer.errors) for answer in answers),
        cost_nanodollars=sum(answer.cost_nanodollars for answer in answers),
        outcomes=outcomes,
        state=state,
        counters=counters,
    )


def add_to_job(conn: sqlite3.Connection, job: Job, added: Tally) -> None:
    outcomes = dict(job.outcomes)
    for word, number in added.outcomes.items():
        outcomes[word] = outcomes.get(word, 0) + number
    state = {**job.state, **added.state}
    for name, number in added.counters.items():
        before = state.get(name, 0)
        state[name] = (before if isinstance(before, (int, float)) else 0) + number
    cost = job.cost_nanodollars + added.cost_nanodollars
    conn.execute(
        "update _enrichment_jobs set done_count = coalesce(done_count, 0) + ?, error_count = coalesce(error_count, 0) + ?, "
        "outcomes = ?, state = ?, cost_nanodollars = ?, cost_100ths_cent = ? where id = ?",
        [
            added.done,
            added.errors,
            json.dumps(outcomes),
            json.dumps(state, default=str),
            cost,
            cost_100ths_cent(cost),
            job.id,
        ],
    )


def add_errors(
    conn: sqlite3.Connection, job_id: int, failures: Sequence[tuple[Any, keyset.Key, RowFailure]], now: float
) -> None:
    """One row an error: the key as people read it, and as a typed cursor."""
    conn.executemany(
        "insert into _enrichment_errors (job_id, created_at, row_pks, error, traceback, row_key) values (?, ?, ?, ?, ?, ?)",
        [
            (
                job_id,
                iso(now),
                row_pks(public),
                _writable(failure.message),
                _writable(failure.traceback),
                keyset.dump(key),
            )
            for public, key, failure in failures
        ],
    )


def _writable(text: str | None) -> str | None:
    """Escape lone surrogates, which SQLite refuses: a message may quote a cell that is not UTF-8."""
    return None if text is None else text.encode("utf-8", "backslashreplace").decode("utf-8")


def row_pks(public: Any) -> str:
    """The key in datasette-enrichments' form: `[5]`, `["a"]`, `[["a", 1]]`; bytes as Datasette writes them in JSON."""
    return json.dumps([_readable(public)], ensure_ascii=False)


def _readable(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_readable(part) for part in value]
    if isinstance(value, keyset.RawText):
        return value.content.decode("utf-8", "replace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json_cell(value)


def add_progress(conn: sqlite3.Connection, job: Job, added: Tally, now: float) -> None:
    """A point on the job's curve. Points of one second, or of 1/300 of a long job's age, become one row."""
    moment = _milliseconds(now)
    if not added.done:
        return
    first = conn.execute(
        "select timestamp_ms_2025 from _enrichment_progress where job_id = ? order by id limit 1", [job.id]
    ).fetchone()
    width = max(1000, (moment - first[0]) // 300) if first and first[0] is not None else 1000
    merged = conn.execute(
        "update _enrichment_progress set success_count = success_count + ?, error_count = error_count + ? where id = "
        "(select max(id) from _enrichment_progress where job_id = ?) and message is null and timestamp_ms_2025 > ?",
        [added.done - added.errors, added.errors, job.id, moment - width],
    )
    if not merged.rowcount:
        _insert_progress(conn, job.id, moment, added.done - added.errors, added.errors, None)


def add_event(conn: sqlite3.Connection, job_id: int, message: str, now: float) -> None:
    """A line of the job's log: a row of progress that counts nothing. (Never NULL: datasette-enrichments adds them.)"""
    _insert_progress(conn, job_id, _milliseconds(now), 0, 0, _writable(message))


def _insert_progress(
    conn: sqlite3.Connection, job_id: int, moment: int, successes: int, errors: int, message: str | None
) -> None:
    conn.execute(
        "insert into _enrichment_progress (job_id, timestamp_ms_2025, success_count, error_count, message) values (?, ?, ?, ?, ?)",
        [job_id, moment, successes, errors, message],
    )


def _milliseconds(now: float) -> int:
    return int((now - EPOCH_2025) * 1000)


# ---- what people ask -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JobErrorRow:
    """One row of `_enrichment_errors`. `row_pks` is decoded."""

    id: int
    created_at: str
    row_pks: list[Any]
    error: str
    traceback: str | None
    row_key: str | None


def list_errors(
    conn: sqlite3.Connection, job_id: int, *, after: int | None, limit: int, like: int | None = None
) -> list[JobErrorRow]:
    """The job's errors in the order of their numbers, behind `after`. `like`: only those that say what this one says."""
    same = (
        "and coalesce(error, '') = "
        "(select coalesce(error, '') from _enrichment_errors where id = :like and job_id = :job)"
    )
    rows = conn.execute(
        "select id, created_at, row_pks, error, traceback, row_key from _enrichment_errors "
        f"where job_id = :job and id > :after {same if like is not None else ''} order by id limit :limit",
        {"job": job_id, "after": after or 0, "limit": limit, "like": like},
    ).fetchall()
    return [JobErrorRow(row[0], row[1], _list(row[2]), row[3] or "", row[4], row[5]) for row in rows]


def list_events(conn: sqlite3.Connection, job_id: int, *, limit: int) -> list[Event]:
    """The job's log, newest first."""
    rows = conn.execute(
        "select timestamp_ms_2025, message from _enrichment_progress where job_id = ? and message is not null "
        "order by id desc limit ?",
        [job_id, limit],
    )
    return [Event(None if moment is None else iso(EPOCH_2025 + moment / 1000), text) for moment, text in rows]


@dataclass(frozen=True)
class ErrorGroup:
    """Errors of one message: how many rows, the number of the first error, the keys of the first rows, the first
    error's traceback (cut off where it is very long)."""

    message: str
    count: int
    first_id: int
    keys: tuple[Any, ...]
    traceback: str | None


@dataclass(frozen=True)
class ErrorGroups:
    """The most frequent messages. `looked_at`: errors that were grouped, the first ones; `messages`: how many different
    ones they have."""

    groups: tuple[ErrorGroup, ...] = ()
    looked_at: int = 0
    messages: int = 0


MOST_GROUPED = 10_000
MOST_TRACEBACK = 20_000

_FIRST_ERRORS = """
with first as (
  select id, coalesce(error, '') as error, row_pks,
    case when json_valid(row_pks) then json_array_length(row_pks) else 1 end as rows
  from _enrichment_errors where job_id = :job order by id limit :most
)
"""


def group_errors(conn: sqlite3.Connection, job_id: int, *, groups: int, keys: int) -> ErrorGroups:
    """The job's first MOST_GROUPED errors by message, the most frequent first; SQLite does the counting, so that a job
    of many errors costs milliseconds."""
    given = {"job": job_id, "most": MOST_GROUPED, "groups": groups, "keys": keys}
    counted = conn.execute(
        f"{_FIRST_ERRORS} select error, sum(rows), min(id), count(*) from first group by error order by 2 desc, 3",
        given,
    ).fetchall()
    if not counted:
        return ErrorGroups()
    named = [tuple(row) for row in counted[:groups]]
    ranked = conn.execute(
        f"{_FIRST_ERRORS} select error, row_pks from (select error, row_pks, row_number() over "
        "(partition by error order by id) as place from first where error in (select value from json_each(:errors))) "
        "where place <= :keys order by error, place",
        {**given, "errors": json.dumps([row[0] for row in named])},
    ).fetchall()
    first_keys: dict[str, list[Any]] = {}
    for error, text in ranked:
        first_keys.setdefault(error, []).extend(_list(text))
    traces = dict(
        conn.execute(
            "select id, substr(traceback, 1, ?) from _enrichment_errors where id in (select value from json_each(?))",
            [MOST_TRACEBACK, json.dumps([row[2] for row in named])],
        ).fetchall()
    )
    found = (
        ErrorGroup(error or "No message", count, first, tuple(first_keys.get(error, [])[:keys]), traces.get(first))
        for error, count, first, _ in named
    )
    return ErrorGroups(tuple(found), sum(row[3] for row in counted), len(counted))


def error_messages(conn: sqlite3.Connection, job_id: int, row_keys: Sequence[str]) -> dict[str, str]:
    """The messages of those of these rows (typed cursors) that are in error in the job."""
    rows = conn.execute(
        "select row_key, error from _enrichment_errors where job_id = ? and row_key in (select value from json_each(?))",
        [job_id, json.dumps(list(row_keys))],
    )
    return {row[0]: row[1] or "" for row in rows}


def _list(text: str | None) -> list[Any]:
    try:
        value = json.loads(text or "[]")
    except ValueError:
        return [text]
    return value if isinstance(value, list) else [value]


def failed_keys(conn: sqlite3.Connection, job_id: int) -> list[str]:
    """The keys of the job's rows in error, as typed cursors."""
    return [
        row[0]
        for row in conn.execute(
            "select row_key from _enrichment_errors where job_id = ? and row_key is not null", [job_id]
        )
    ]


@dataclass(frozen=True)
class Progress:
    """How fast a job goes: rows a second over its last half minute, seconds to its end if that can be said.

    `open_batches`: reservations at work; `waits`: what its deferred rows wait for.
    """

    rows_per_second: float | None
    eta_seconds: float | None
    open_batches: int
    waits: list[Wait]


def progress(conn: sqlite3.Connection, job: Job, now: float) -> Progress:
    """Speed from the progress rows of the last 30 seconds of work."""
    rows = conn.execute(
        "select timestamp_ms_2025, success_count + error_count from _enrichment_progress "
        "where job_id = ? and success_count is not null and message is null order by id desc limit 40",
        [job.id],
    ).fetchall()
    waiting = waits(conn, job.id, now)
    opened = sum(number for (_, job_id), number in held(conn).items() if job_id == job.id)
    if not rows or rows[0][0] is None or job.waits_until is not None:
        return Progress(None, None, opened, waiting)
    newest = rows[0][0]
    window = [(when, count) for when, count in rows if when is not None and when >= newest - 30_000]
    end = max(newest + 1000, int((now - EPOCH_2025) * 1000)) if job.status is JobStatus.RUNNING else newest + 1000
    seconds = max(1.0, (end - window[-1][0]) / 1000)
    speed = sum(count for _, count in window) / seconds
    eta = None
    if job.status is JobStatus.RUNNING and speed > 0:
        seconds = max((job.row_count - job.done_count) / speed, _longest_wait(conn, job.id, now))
        eta = round(seconds, 1) if seconds < math.inf else None
    return Progress(round(speed, 2), eta, opened, waiting)


def _longest_wait(conn: sqlite3.Connection, job_id: int, now: float) -> float:
    """Seconds until the last deferred reservation of the job may be tried again: 0 where none is deferred, infinity for
    one that waits for an answer from outside."""
    if "not_before" not in columns(conn, "_enrichment_batches"):
        return 0.0
    sql = "select max(not_before) from _enrichment_batches where job_id = ?"
    last = conn.execute(sql, [job_id]).fetchone()[0]
    if last is None:
        return 0.0
    return max(0.0, from_iso(last) - now) if last < LAST_STAMP else math.inf
