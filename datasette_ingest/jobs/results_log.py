"""The SQL on what a job has done: its counters, errors, log and curve. As in `store`, plain functions of an open
connection that neither commit nor wait.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..masking import mask
from ..sqlite import escape_surrogates, iso, json_cell, json_value
from . import keyset, leases
from .model import BatchResult, Event, Job, JobStatus, RowFailure, Wait, cost_100ths_cent

EPOCH_2025 = 1_735_689_600  # 2025-01-01T00:00:00Z, where timestamp_ms_2025 begins

# ---- what a commit adds ----------------------------------------------------------------------------------------


def record(
    conn: sqlite3.Connection,
    job: Job,
    results: Sequence[BatchResult],
    failures: Sequence[tuple[Any, keyset.Key, RowFailure]],
    now: float,
) -> None:
    """Add the results of one transaction to the job's counters, curve and errors.

    Rows without an outcome word of the enrichment's count as `success` or `error`.

    :param job: as it stands in this transaction
    :param failures: the rows in error: key as people read it, key, reason
    """
    done = sum(result.rows - len(result.unanswered) for result in results)
    outcomes, state = Counter(job.outcomes), dict(job.state)
    for result in results:
        succeeded = result.rows - len(result.unanswered) - len(result.errors)
        words = result.outcomes or {"success": succeeded, "error": len(result.errors)}
        outcomes.update({word: number for word, number in words.items() if number})
        state |= result.state
    for result in results:
        for name, number in result.counters.items():
            before = state.get(name, 0)
            state[name] = (before if isinstance(before, (int, float)) else 0) + number
    cost = job.cost_nanodollars + sum(result.cost_nanodollars for result in results)
    conn.execute(
        "update _enrichment_jobs set done_count = coalesce(done_count, 0) + ?, error_count = coalesce(error_count, 0) + ?, "
        "outcomes = ?, state = ?, cost_nanodollars = ?, cost_100ths_cent = ? where id = ?",
        [
            done,
            len(failures),
            json.dumps(outcomes),
            json.dumps(json_value(state), default=str),
            cost,
            cost_100ths_cent(cost),
            job.id,
        ],
    )
    _add_progress(conn, job.id, done - len(failures), len(failures), now)
    _add_errors(conn, job.id, failures, now)


def _add_errors(
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
                _kept(failure.message),
                _kept(failure.traceback),
                keyset.dump(key),
            )
            for public, key, failure in failures
        ],
    )


def _kept(text: str | None) -> str | None:
    """The text as it is stored for people: without passwords of URLs."""
    return None if text is None else escape_surrogates(mask(text))


def row_pks(public: Any) -> str:
    """The key in datasette-enrichments' form: `[5]`, `["a"]`, `[["a", 1]]`; bytes as Datasette writes them in JSON."""
    return json.dumps([_readable(public)], ensure_ascii=False)


def _readable(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_readable(part) for part in value]
    if isinstance(value, keyset.RawText):
        return value.content.decode("utf-8", "replace")
    return value if isinstance(value, int) else json_cell(value)


def _add_progress(conn: sqlite3.Connection, job_id: int, successes: int, errors: int, now: float) -> None:
    """A point on the job's curve. Points of one second, or of 1/300 of a long job's age, become one row."""
    if not successes + errors:
        return
    moment = _milliseconds(now)
    first = conn.execute(
        "select timestamp_ms_2025 from _enrichment_progress where job_id = ? "
        "and typeof(timestamp_ms_2025) = 'integer' order by id limit 1",
        [job_id],
    ).fetchone()
    width = max(1000, (moment - first[0]) // 300) if first else 1000
    merged = conn.execute(
        "update _enrichment_progress set success_count = success_count + ?, error_count = error_count + ? where id = "
        "(select max(id) from _enrichment_progress where job_id = ?) and message is null and timestamp_ms_2025 > ?",
        [successes, errors, job_id, moment - width],
    )
    if not merged.rowcount:
        _insert_progress(conn, job_id, moment, successes, errors, None)


def add_event(conn: sqlite3.Connection, job_id: int, message: str, now: float) -> None:
    """A line of the job's log: a row of progress that counts nothing. (Never NULL: datasette-enrichments adds them.)"""
    _insert_progress(conn, job_id, _milliseconds(now), 0, 0, _kept(message))


def _insert_progress(
    conn: sqlite3.Connection, job_id: int, moment: int, successes: int, errors: int, message: str | None
) -> None:
    conn.execute(
        "insert into _enrichment_progress (job_id, timestamp_ms_2025, success_count, error_count, message) values (?, ?, ?, ?, ?)",
        [job_id, moment, successes, errors, message],
    )


def _milliseconds(now: float) -> int:
    return int((now - EPOCH_2025) * 1000)


# ---- errors and log --------------------------------------------------------------------------------------------


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
    return [
        JobErrorRow(row[0], text_of(row[1]), _list(row[2]), text_of(row[3]), row[4] and text_of(row[4]), row[5])
        for row in rows
    ]


def text_of(value: Any) -> str:
    """What should be a text, as one: another program may have left anything there."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return "" if value is None else str(value)


def list_events(conn: sqlite3.Connection, job_id: int, *, limit: int) -> list[Event]:
    """The job's log, newest first."""
    rows = conn.execute(
        "select timestamp_ms_2025, message from _enrichment_progress where job_id = ? and message is not null "
        "order by id desc limit ?",
        [job_id, limit],
    )
    return [Event(_time_of(moment), text_of(message)) for moment, message in rows]


def _time_of(milliseconds: Any) -> str | None:
    try:
        return iso(EPOCH_2025 + milliseconds / 1000)
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def _list(text: Any) -> list[Any]:
    text = text_of(text)
    try:
        value = json.loads(text or "[]")
    except (ValueError, RecursionError):
        return [text]
    return value if isinstance(value, list) else [value]


def failed_keys(conn: sqlite3.Connection, job_id: int) -> list[str]:
    """The keys of the job's rows in error, as typed cursors."""
    return [
        row[0]
        for row in conn.execute(
            "select row_key from _enrichment_errors where job_id = ? and typeof(row_key) = 'text'", [job_id]
        )
    ]


# ---- errors by message -----------------------------------------------------------------------------------------


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
        "(partition by error order by id) as place from first where error in (select value from temp.json_each(:errors))) "
        "where place <= :keys order by error, place",
        {**given, "errors": json.dumps([text_of(row[0]) for row in named])},
    ).fetchall()
    first_keys: dict[str, list[Any]] = {}
    for error, text in ranked:
        first_keys.setdefault(text_of(error), []).extend(_list(text))
    traces = dict(
        conn.execute(
            "select id, substr(traceback, 1, ?) from _enrichment_errors where id in (select value from temp.json_each(?))",
            [MOST_TRACEBACK, json.dumps([row[2] for row in named])],
        ).fetchall()
    )
    found = (
        ErrorGroup(
            text_of(error) or "No message",
            count,
            first,
            tuple(first_keys.get(text_of(error), [])[:keys]),
            traces.get(first),
        )
        for error, count, first, _ in named
    )
    return ErrorGroups(tuple(found), sum(row[3] for row in counted), len(counted))


# ---- speed -----------------------------------------------------------------------------------------------------


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
        "select timestamp_ms_2025, success_count + error_count from _enrichment_progress where job_id = ? "
        "and message is null and typeof(success_count) = 'integer' and typeof(error_count) = 'integer' "
        "and typeof(timestamp_ms_2025) = 'integer' order by id desc limit 40",
        [job.id],
    ).fetchall()
    waiting = leases.waits(conn, job.id, now)
    opened = sum(number for (_, job_id), number in leases.held(conn).items() if job_id == job.id)
    if not rows or job.waits_until is not None:
        return Progress(None, None, opened, waiting)
    newest = rows[0][0]
    window = [(when, count) for when, count in rows if when >= newest - 30_000]
    end = max(newest + 1000, int((now - EPOCH_2025) * 1000)) if job.status is JobStatus.RUNNING else newest + 1000
    seconds = max(1.0, (end - window[-1][0]) / 1000)
    speed = sum(count for _, count in window) / seconds
    eta = None
    if job.status is JobStatus.RUNNING and speed > 0 and job.is_counted:
        seconds = max((job.row_count - job.done_count) / speed, leases.longest_wait(conn, job.id, now))
        eta = round(seconds, 1) if seconds < math.inf else None
    return Progress(round(speed, 2), eta, opened, waiting)
