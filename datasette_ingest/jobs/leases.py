"""The SQL on reservations: reserve, lease, renew, free and defer batches of rows. As in `store`, plain functions of an
open connection that neither commit nor wait.

A reservation is a row of `_enrichment_batches`. It is leased to one owner, or free; a free one may be deferred until a
time. Whatever an owner writes for it is fenced: it is written only while the lease is still the owner's.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ..sqlite import columns, escape_surrogates, from_iso, stamp
from .model import LAST_STAMP, OUTSIDE, Batch, Deferral, Wait
from .owner import Liveness

CRASHES_BEFORE_EXCLUSIVE = 2
"""A batch that so many processes ended with is a poison batch: it runs exclusively."""
EXCLUSIVE_CRASHES_BEFORE_ERROR = 3
"""A row that so many processes ended with while it ran exclusively is recorded as an error."""
MOST_WAITS = 10


def _batches(conn: sqlite3.Connection, where: str, arguments: Sequence[Any]) -> list[Batch]:
    cursor_ = conn.cursor()
    cursor_.row_factory = None
    rows = cursor_.execute(
        "select id, job_id, start_cursor, end_cursor, row_count, coalesce(deaths, 0), coalesce(attempts, 0), "
        f"coalesce(deferrals, 0) from _enrichment_batches where {where}",
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
    have been set back; each counts as a crash. How many were freed."""
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


def free_batches(conn: sqlite3.Connection, job_id: int, limit: int, now: float, *, poison: bool) -> list[Batch]:
    """Reservations that nobody holds and that may be tried now: those given back, oldest first, then those that were
    put off, by their time. Poison batches: CRASHES_BEFORE_EXCLUSIVE processes or
    more ended while they held them; they run exclusively."""
    kind = "deaths > 0 and deaths >= ?" if poison else "coalesce(deaths, 0) < ?"
    free = f"job_id = ? and leased_by is null and {kind}"
    found = _batches(
        conn, f"{free} and not_before is null order by id limit ?", [job_id, CRASHES_BEFORE_EXCLUSIVE, limit]
    )
    return found + _batches(
        conn,
        f"{free} and not_before <= ? order by not_before, row_count, id limit ?",
        [job_id, CRASHES_BEFORE_EXCLUSIVE, stamp(now), limit - len(found)],
    )


def lease(conn: sqlite3.Connection, batch: Batch, owner: str, until: float, *, exclusive: bool) -> bool:
    """Take a free reservation; whether it was free."""
    changed = conn.execute(
        "update _enrichment_batches set leased_by = ?, leased_until = ?, alone = ?, not_before = null, "
        "defer_reason = null where id = ? and leased_by is null",
        [owner, stamp(until), exclusive, batch.id],
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
    crashes: int = 0,
    exclusive_crashes: int = 0,
    deferrals: int = 0,
    deferral: Deferral | None = None,
) -> Batch:
    """A new reservation of the rows in (start, end]: leased to `owner`, or free and, with a `deferral`, put off."""
    wait = (deferral.not_before, escape_surrogates(deferral.reason), deferral.ticket) if deferral else (None,) * 3
    inserted = conn.execute(
        "insert into _enrichment_batches (job_id, start_cursor, end_cursor, row_count, attempts, deaths, alone, "
        "leased_by, leased_until, deferrals, not_before, defer_reason, ticket) "
        "values (?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?)",
        [
            job_id,
            start,
            end,
            rows,
            exclusive_crashes,
            crashes,
            owner,
            stamp(until) if owner else None,
            deferrals,
            *wait,
        ],
    )
    return Batch(int(inserted.lastrowid or 0), job_id, start, end, rows, crashes, exclusive_crashes, deferrals)


def renew(conn: sqlite3.Connection, owner: str, batch_ids: Sequence[int], until: float) -> int:
    """Lengthen the leases of these batches; how many are still the owner's."""
    return conn.execute(
        "update _enrichment_batches set leased_until = ? where leased_by = ? and id in (select value from temp.json_each(?))",
        [stamp(until), owner, json.dumps(list(batch_ids))],
    ).rowcount


def release(conn: sqlite3.Connection, owner: str, job_id: int) -> None:
    """Free all reservations of the owner for others; this does not count as a crash."""
    conn.execute(
        "update _enrichment_batches set leased_by = null, leased_until = null, alone = 0 where leased_by = ? and job_id = ?",
        [owner, job_id],
    )


def delete_batch(conn: sqlite3.Connection, batch_id: int, owner: str | None = None) -> bool:
    """Close a reservation whose rows are answered, or reserved otherwise; whether it is gone. One with an end cannot be
    deleted while its job is open: a trigger keeps it.

    :param owner: only while it is still this owner's; otherwise nothing of it may be written
    """
    held = conn.execute(
        "update _enrichment_batches set end_cursor = null where id = ? and (? is null or leased_by = ?)",
        [batch_id, owner, owner],
    )
    return held.rowcount == 1 and (
        conn.execute("delete from _enrichment_batches where id = ?", [batch_id]).rowcount == 1
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


def is_held(conn: sqlite3.Connection, batch_id: int, owner: str) -> bool:
    """Whether the reservation is still the owner's."""
    sql = "select 1 from _enrichment_batches where id = ? and leased_by = ?"
    return conn.execute(sql, [batch_id, owner]).fetchone() is not None


def has_batches(conn: sqlite3.Connection, job_id: int) -> bool:
    """Whether any row of the job is reserved: at work, given back or put off."""
    return conn.execute("select 1 from _enrichment_batches where job_id = ? limit 1", [job_id]).fetchone() is not None


def reserved_rows(conn: sqlite3.Connection, job_id: int) -> int:
    """How many rows of the job are reserved and not answered: at work, given back or put off."""
    sql = "select coalesce(sum(row_count), 0) from _enrichment_batches where job_id = ?"
    return int(conn.execute(sql, [job_id]).fetchone()[0])


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


# ---- deferred rows ---------------------------------------------------------------------------------------------


def next_due(conn: sqlite3.Connection, job_id: int, now: float) -> float | None:
    """The next time at which a deferred reservation of the job may be tried again; None where none is deferred."""
    sql = "select min(not_before) from _enrichment_batches where job_id = ? and not_before > ? and not_before <> ?"
    first = conn.execute(sql, [job_id, stamp(now), OUTSIDE]).fetchone()[0]
    if first is None:
        return None
    try:
        return from_iso(first)
    except (ValueError, AttributeError):
        raise ValueError(f"a reservation waits until {first!r}, which is no time") from None


def has_outside(conn: sqlite3.Connection, job_id: int) -> bool:
    """Whether rows of the job wait for answers from outside, at no time."""
    sql = "select 1 from _enrichment_batches where job_id = ? and not_before = ? limit 1"
    return conn.execute(sql, [job_id, OUTSIDE]).fetchone() is not None


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
        "where job_id = ? and not_before > ? and not_before glob '????-??-??T??:??:??*' group by defer_reason order by 3 desc, 2, 1 limit ?",
        [job_id, stamp(now), MOST_WAITS],
    )
    return [
        Wait(str(reason), None if until == OUTSIDE else until, count)
        for reason, until, count in rows
        if isinstance(until, str)
    ]


def find_ticket(conn: sqlite3.Connection, ticket: str) -> Batch | None:
    """The reservation with this ticket, the oldest where several have it; None where none has, or it is at work."""
    if "ticket" not in columns(conn, "_enrichment_batches"):
        return None
    found = _batches(conn, "ticket = ? and leased_by is null order by id limit 1", [ticket])
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
        "and (leased_by is null or leased_by in (select value from temp.json_each(?)))",
        [job_id, json.dumps(gone)],
    )


def longest_wait(conn: sqlite3.Connection, job_id: int, now: float) -> float:
    """Seconds until the last deferred reservation of the job may be tried again: 0 where none is deferred, infinity for
    one that waits until the end of time. Those that wait for answers from outside do not count."""
    if "not_before" not in columns(conn, "_enrichment_batches"):
        return 0.0
    sql = (
        "select max(not_before) from _enrichment_batches where job_id = ? and not_before <> ? "
        "and not_before glob '????-??-??T??:??:??*'"
    )
    last = conn.execute(sql, [job_id, OUTSIDE]).fetchone()[0]
    if last is None:
        return 0.0
    try:
        return max(0.0, from_iso(last) - now) if last < LAST_STAMP else math.inf
    except ValueError:
        return math.inf
