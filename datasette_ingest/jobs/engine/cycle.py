"""One write transaction of a job: commit what is finished, decide, reserve what comes next.

`run_cycle` is a plain function of a connection inside a transaction that began IMMEDIATE. Kill the process between any
two of its statements and nothing has happened; let it return and everything has.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ...sqlite import stamp
from ...text import moment
from .. import keyset, leases, results_log, store
from ..errors import JobNotFound
from ..keyset import Key, Page, TableKey
from ..model import (
    Batch,
    BatchResult,
    Decision,
    Job,
    JobStatus,
    RowFailure,
    Wait,
    over_the_budget,
    over_the_error_limit,
)
from ..owner import Liveness
from .output import Target
from .results import RolledBack, write_result

LOGGED_WAIT_SECONDS = 60.0
"""A wait of the whole job that is shorter is not worth a line of the log."""
WAITS = "All remaining rows wait"


class End(Enum):
    """Why a job reads no new rows at this moment."""

    TABLE = "every row is reserved or answered"
    DEFERRED = "as many rows are deferred as may be"


@dataclass(frozen=True)
class Plan:
    """The job's table, rows and limits, which stay the same for the life of a runner."""

    job_id: int
    key: TableKey
    columns: tuple[str, ...]
    where: str
    params: dict[str, Any]
    is_free_sql: bool
    batch_size: int
    max_open_batches: int
    max_errors: int | None
    target: Target
    owner: str
    lease_seconds: float
    liveness: Callable[[str], Liveness]
    schema_version: int
    max_deferred_rows: int
    column_types: Mapping[str, str] = field(default_factory=dict)
    origin: tuple[Any, ...] | None = None
    """`Job.origin` of the job that the plan was made for; None is not compared."""

    def page(
        self, conn: sqlite3.Connection, after: str | None, upto: str | None = None, limit: int | None = None
    ) -> Page:
        """The rows that the job selects in (after, upto], stored cursors; None is an open end."""
        start, end = (None if cursor is None else keyset.load(cursor) for cursor in (after or None, upto))
        return keyset.page(conn, self.key, self.columns, self.where, self.params, start, end, limit)

    def cursor(self, page: Page, number: int) -> str:
        """The cursor at a row of a page, to be stored."""
        return keyset.dump(self.key.cursor_of(page.key(number)))


class SchemaMoved(Exception):
    """The schema changed since the plan was made. Nothing was written; make a new plan."""


@dataclass(frozen=True)
class Reservation:
    """A reservation of ours and its rows."""

    batch: Batch
    page: Page


@dataclass
class FinishedRows:
    """The results of the first rows of a batch of ours. `is_whole`: they are all of its rows. `singly`: write them one
    by one. No rows: what the batch has spent or noted so far."""

    batch: Batch
    page: Page
    result: BatchResult
    is_whole: bool
    singly: bool = False


UNREAD = Page([], -1)
"""Stands for the rows of a reservation with free SQL, which the runner reads outside the transaction."""


@dataclass(frozen=True)
class ReadAhead:
    """A page that was read outside the transaction, good only while the job's cursor still stands at `after`."""

    after: str | None
    page: Page


@dataclass(frozen=True)
class Cycle:
    """What a transaction did. `job` is as it stands now. `is_exhausted`: no row is left to reserve, at this moment.

    `lost`: batches of ours that another process had taken over; nothing of them was written. `open_elsewhere`:
    reservations of the job that others hold. `poison_batches`: free reservations that must run exclusively (0 or 1).
    `is_decided`: this transaction ended or paused the job. `is_waiting`: all its open rows are deferred. `next_due`: when
    the next deferred reservation may be tried, in seconds since 1970; None where all wait for answers from outside. `workers`: live owners of leases in this database,
    this one included.
    """

    job: Job
    opened: list[Reservation] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    is_exhausted: bool = False
    open_elsewhere: int = 0
    poison_batches: int = 0
    is_decided: bool = False
    is_waiting: bool = False
    next_due: float | None = None
    workers: int = 1


@dataclass(frozen=True)
class Glance:
    """What a runner reads between two transactions. `next_due` and `workers` as in a Cycle. `has_free`: a reservation that
    nobody holds may be tried now."""

    job: Job
    next_due: float | None
    workers: int
    has_free: bool = False


def run_cycle(
    conn: sqlite3.Connection,
    plan: Plan,
    done: Sequence[FinishedRows],
    *,
    want: int,
    now: float,
    request: Decision | None = None,
    exclusive: bool = False,
    outside: ReadAhead | Reservation | None = None,
    is_leaving: bool = False,
) -> Cycle:
    """Commit, decide, reserve.

    :param want: how many reservations to open, at most
    :param request: a pause or cancellation that the enrichment asked for
    :param exclusive: reserve one poison batch and nothing else
    :param outside: the rows of a selection with free SQL, which never runs here: a page of new rows, or the first poison
        batch for an exclusive run
    :param is_leaving: this process ends: give back what is still open
    :raises SchemaMoved: when tables changed since the plan was made
    :raises RolledBack: when the user's own schema ended the transaction
    """
    if schema_version(conn) != plan.schema_version:
        raise SchemaMoved
    job = planned_job(conn, plan)
    damage, lost = job.damage, list[int]()
    if done:
        lost = _commit(conn, plan, job, done, now)
        job = store.get_job(conn, plan.job_id)
    if damage is not None:
        store.give_up(conn, {job.id: damage}, now)
        return Cycle(store.get_job(conn, job.id), lost=lost, is_decided=True)
    decision = _decide(job, plan, request)
    is_decided = False
    if decision is not None and job.status is JobStatus.RUNNING:
        is_decided = store.change_status(conn, job.id, [JobStatus.RUNNING], decision, now=now)
        job = store.get_job(conn, plan.job_id)
    if job.status is not JobStatus.RUNNING:
        if job.status.is_final:
            leases.drop_batches(conn, job.id)
        else:
            leases.release(conn, plan.owner, job.id)
        return Cycle(job, lost=lost, is_decided=is_decided)
    if is_leaving:
        leases.release(conn, plan.owner, job.id)
        return Cycle(job, lost=lost)
    freed = leases.free_dead_leases(conn, job.id, plan.owner, now, plan.lease_seconds, plan.liveness)
    if freed:
        results_log.add_event(conn, job.id, _recovered(freed), now)
    opened, end = _reserve(conn, plan, job, want, now, exclusive=exclusive, outside=outside)
    return _reserved(conn, plan, job, now, lost, opened, end)


def planned_job(conn: sqlite3.Connection, plan: Plan) -> Job:
    """The job that the plan was made for.

    :raises JobNotFound: when its row was deleted, or replaced by another job's
    """
    job = store.get_job(conn, plan.job_id)
    if plan.origin is not None and job.damage is None and job.origin != plan.origin:
        raise JobNotFound(f"Job {job.id} is another one now")
    return job


def _reserved(
    conn: sqlite3.Connection,
    plan: Plan,
    job: Job,
    now: float,
    lost: list[int],
    opened: list[Reservation],
    end: End | None,
) -> Cycle:
    """How the job stands once its transaction has reserved what it could."""
    poison_batches = len(leases.free_batches(conn, job.id, 1, now, poison=True))
    held, next_due = leases.held(conn), leases.next_due(conn, job.id, now)
    is_idle = end is not None and not poison_batches and all(job_id != job.id for _, job_id in held)
    is_outside = leases.has_outside(conn, job.id)
    if is_idle or opened:
        _note_wait(conn, job, now, next_due if is_idle and not is_outside else None, has_opened=bool(opened))
    return Cycle(
        store.get_job(conn, plan.job_id),
        opened,
        lost,
        end is End.TABLE,
        sum(number for (owner, job_id), number in held.items() if job_id == job.id and owner != plan.owner),
        poison_batches,
        is_waiting=is_idle and (next_due is not None or is_outside),
        next_due=next_due,
        workers=_workers(conn, plan, held, now),
    )


def glance(conn: sqlite3.Connection, plan: Plan, now: float) -> Glance:
    """The job and what others do, for a read connection."""
    workers = _workers(conn, plan, leases.held(conn), now)
    has_free = bool(leases.free_batches(conn, plan.job_id, 1, now, poison=False))
    return Glance(planned_job(conn, plan), leases.next_due(conn, plan.job_id, now), workers, has_free)


def _workers(conn: sqlite3.Connection, plan: Plan, held: Mapping[tuple[str, int], int], now: float) -> int:
    others = [holder for holder in held if holder[0] != plan.owner]
    return 1 + leases.live_workers(conn, others, now, plan.liveness)


def _note_wait(conn: sqlite3.Connection, job: Job, now: float, until: float | None, *, has_opened: bool) -> None:
    """Keep until when the whole job waits, and log where a long wait begins and ends."""
    text = None if until is None else stamp(until)
    if text == job.waits_until:
        return
    store.set_waits_until(conn, job.id, text)
    if until is not None and text is not None:
        if job.waits_until is None and until - now >= LOGGED_WAIT_SECONDS:
            results_log.add_event(conn, job.id, _waiting_event(text, leases.waits(conn, job.id, now)), now)
    elif has_opened and any(
        event.message.startswith(WAITS) for event in results_log.list_events(conn, job.id, limit=1)
    ):
        results_log.add_event(conn, job.id, "Continues: waiting rows are due", now)


def _waiting_event(until: str, waits: Sequence[Wait]) -> str:
    reasons = waits[0].reason if len(waits) == 1 else f"{waits[0].reason}, and other reasons"
    return f"{WAITS} until {moment(until)}: {reasons}"


def _recovered(batches: int) -> str:
    """Log line for reservations that were freed because their process ended or its leases ran out."""
    what = "1 batch, which runs" if batches == 1 else f"{batches:,} batches, which run"
    return f"A process ended without giving back {what} again"


def schema_version(conn: sqlite3.Connection) -> int:
    """A number that SQLite changes with every change of the schema."""
    return int(conn.execute("pragma schema_version").fetchone()[0])


def finish(conn: sqlite3.Connection, plan: Plan, now: float) -> tuple[Job, bool]:
    """Mark the job finished if no reservation and no row behind the cursor is left. The job, and whether this marked
    it."""
    job = planned_job(conn, plan)
    nothing_left = plan.is_free_sql or len(_next_page(conn, plan, job, 1, None)[0]) == 0
    is_finished = False
    if nothing_left and not leases.has_batches(conn, job.id):
        is_finished = store.change_status(conn, job.id, [JobStatus.RUNNING], Decision(JobStatus.FINISHED), now=now)
    return store.get_job(conn, plan.job_id), is_finished


def _commit(conn: sqlite3.Connection, plan: Plan, job: Job, done: Sequence[FinishedRows], now: float) -> list[int]:
    """Write finished batches, each only while its lease is ours; the ids of those whose lease is not."""
    lost: list[int] = []
    results: list[BatchResult] = []
    failures: list[tuple[Any, Key, RowFailure]] = []
    for item in done:
        before = leases.start_cursor(conn, item.batch.id) if item.result.deferred else None
        if not item.result.rows and not item.is_whole:  # nothing but what was spent
            ours = leases.is_held(conn, item.batch.id, plan.owner)
        elif item.is_whole:
            ours = leases.delete_batch(conn, item.batch.id, plan.owner)
        else:
            start = plan.cursor(item.page, item.result.rows - 1)
            ours = leases.shorten_batch(conn, item.batch.id, plan.owner, start, item.result.rows)
        if not ours:
            lost.append(item.batch.id)
            continue
        result = write_result(
            conn,
            plan.target,
            item.batch.id,
            item.page,
            item.result,
            types=plan.column_types,
            singly=item.singly,
        )
        results.append(result)
        if result.deferred:
            _put_off(conn, plan, item, result, before)
        for number, failure in sorted(result.errors.items()):
            key = item.page.key(number)
            failures.append((plan.key.public(key), key, failure))
    if results:
        results_log.record(conn, job, results, failures, now)
    return lost


def _put_off(conn: sqlite3.Connection, plan: Plan, item: FinishedRows, result: BatchResult, start: str | None) -> None:
    """Insert free reservations for deferred rows, one for each run of neighbours with the same deferral.

    :param start: the key before the first of the rows
    """
    batch, deferred = item.batch, result.unanswered
    for deferral, run in itertools.groupby(range(result.rows), deferred.get):
        numbers = list(run)
        end = plan.cursor(item.page, numbers[-1])
        if deferral is not None:
            leases.insert_batch(
                conn,
                batch.job_id,
                start,
                end,
                len(numbers),
                crashes=batch.crashes,
                exclusive_crashes=batch.exclusive_crashes,
                deferrals=batch.deferrals + deferral.counts,
                deferral=deferral,
            )
        start = end


def _decide(job: Job, plan: Plan, request: Decision | None) -> Decision | None:
    return over_the_error_limit(job, plan.max_errors) or request or over_the_budget(job, None)


def _reserve(
    conn: sqlite3.Connection,
    plan: Plan,
    job: Job,
    want: int,
    now: float,
    *,
    exclusive: bool,
    outside: ReadAhead | Reservation | None,
) -> tuple[list[Reservation], End | None]:
    """Reserve for us: free reservations that are due, then new rows. Also why there are no more, if so."""
    until = now + plan.lease_seconds
    if exclusive:
        return _reserve_poison(conn, plan, job, until, now, outside) if want else [], None
    opened = []
    for batch in leases.free_batches(conn, job.id, want, now, poison=False):
        leases.lease(conn, batch, plan.owner, until, exclusive=False)
        opened.append(Reservation(batch, UNREAD if plan.is_free_sql else read_rows(conn, plan, batch)))
    left = want - len(opened)
    if left <= 0:
        return opened, None
    room = plan.max_deferred_rows - leases.deferred_rows(conn, job.id)
    if room <= 0:
        return opened, End.DEFERRED
    left = min(left, -(-room // plan.batch_size))
    page, exhausted = _next_page(conn, plan, job, left * plan.batch_size, outside)
    start = job.next_cursor
    for first in range(0, len(page), plan.batch_size):
        rows = page.slice(first, first + plan.batch_size)
        end = plan.cursor(rows, len(rows) - 1)
        opened.append(
            Reservation(leases.insert_batch(conn, job.id, start, end, len(rows), owner=plan.owner, until=until), rows)
        )
        start = end
    if start is not None and start != job.next_cursor:
        store.advance(conn, job.id, start)
    return opened, End.TABLE if exhausted else None


def _next_page(
    conn: sqlite3.Connection, plan: Plan, job: Job, limit: int, outside: ReadAhead | Reservation | None
) -> tuple[Page, bool]:
    if plan.is_free_sql:
        if (
            not isinstance(outside, ReadAhead) or outside.after != job.next_cursor
        ):  # another process moved the cursor: read again
            return Page([], 0), False
        rows = outside.page.slice(0, limit)
        return rows, len(rows) == 0
    page = plan.page(conn, job.next_cursor, limit=limit)
    return page, len(page) < limit


def read_rows(conn: sqlite3.Connection, plan: Plan, batch: Batch) -> Page:
    """The rows of a reservation as they are now.

    :raises ValueError: for one without an end, which would be every row to the end of the table
    """
    if not batch.end_cursor:
        raise ValueError("a reservation without an end")
    return plan.page(conn, batch.start_cursor, batch.end_cursor)


def read_ahead(conn: sqlite3.Connection, plan: Plan, after: str | None, limit: int) -> ReadAhead:
    """The next page of a selection with free SQL, for a read connection under a time limit."""
    return ReadAhead(after, plan.page(conn, after, limit=limit))


def _reserve_poison(
    conn: sqlite3.Connection, plan: Plan, job: Job, until: float, now: float, outside: ReadAhead | Reservation | None
) -> list[Reservation]:
    """Reserve one poison batch. If a process ended while it ran exclusively, it is bisected, down to the row; a row that
    ended EXCLUSIVE_CRASHES_BEFORE_ERROR processes so is recorded as an error."""
    for batch in leases.free_batches(conn, job.id, 1, now, poison=True):
        if plan.is_free_sql:
            if not isinstance(outside, Reservation) or outside.batch != batch:
                return []
            rows = outside.page
        else:
            rows = read_rows(conn, plan, batch)
        if batch.exclusive_crashes and len(rows) > 1:
            batch, rows = _bisect(conn, plan, batch, rows)
        elif batch.exclusive_crashes >= leases.EXCLUSIVE_CRASHES_BEFORE_ERROR and len(rows) == 1:
            _give_up(conn, plan, job, batch, rows, now)
            return []
        leases.lease(conn, batch, plan.owner, until, exclusive=True)
        return [Reservation(batch, rows)]
    return []


def _bisect(conn: sqlite3.Connection, plan: Plan, batch: Batch, rows: Page) -> tuple[Batch, Page]:
    """Replace a reservation by its two halves; the first of them."""
    middle = (len(rows) + 1) // 2
    cut = plan.cursor(rows, middle - 1)
    leases.delete_batch(conn, batch.id)
    first, _ = (
        leases.insert_batch(conn, batch.job_id, start, end, size, crashes=batch.crashes, deferrals=batch.deferrals)
        for start, end, size in (
            (batch.start_cursor, cut, middle),
            (cut, batch.end_cursor, len(rows) - middle),
        )
    )
    return first, rows.slice(0, middle)


def _give_up(conn: sqlite3.Connection, plan: Plan, job: Job, batch: Batch, rows: Page, now: float) -> None:
    leases.delete_batch(conn, batch.id)
    failure = RowFailure(f"This row crashed its worker process {batch.exclusive_crashes} times")
    key = rows.key(0)
    result = BatchResult(1, errors={0: failure})
    results_log.record(conn, job, [result], [(plan.key.public(key), key, failure)], now)


def peek_poison(conn: sqlite3.Connection, plan: Plan, now: float) -> Reservation | None:
    """The first poison batch and its rows, for a read connection under a time limit."""
    for batch in leases.free_batches(conn, plan.job_id, 1, now, poison=True):
        return Reservation(batch, read_rows(conn, plan, batch))
    return None


def blame(done: Sequence[FinishedRows], refusal: RolledBack) -> None:
    """Turn the result that ended a transaction into an error, so that the next try goes through."""
    for item in done:
        if item.batch.id != refusal.batch_id:
            continue
        if refusal.row is None:
            item.result = item.result.failed(str(refusal))
        elif refusal.row == RolledBack.UNKNOWN:
            item.singly = True
        else:
            item.result.updates[refusal.row] = None
            item.result.errors[refusal.row] = RowFailure(str(refusal))
