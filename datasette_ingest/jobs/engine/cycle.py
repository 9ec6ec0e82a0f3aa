"""One write transaction of a job: commit what is finished, decide, reserve what comes next.

`run_cycle` is a plain function of a connection inside a transaction that began IMMEDIATE. Kill the process between any
two of its statements and nothing has happened; let it return and everything has.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import keyset, store
from ..keyset import Key, Page, TableKey
from ..model import Batch, Decision, Job, JobStatus, over_the_budget, over_the_error_limit
from ..owner import Liveness
from .output import Target
from .results import Answer, Failure, write_answer


@dataclass(frozen=True)
class Plan:
    """What stays the same for the life of one runner: the job's table, rows and limits."""

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
    column_types: Mapping[str, str] = field(default_factory=dict)


class SchemaMoved(Exception):
    """The database's schema is not the one the plan was made for; nothing was written. Make a new plan."""


@dataclass(frozen=True)
class Open:
    """A reservation of ours and its rows."""

    batch: Batch
    page: Page


@dataclass
class Done:
    """What became of the first rows of a batch of ours. `is_whole`: nothing of the batch is left to do."""

    batch: Batch
    page: Page
    answer: Answer
    is_whole: bool
    singly: bool = False


UNREAD = Page([], -1)


@dataclass(frozen=True)
class ReadAhead:
    """A page that was read outside the transaction, good only while the job's cursor still stands at `after`."""

    after: str | None
    page: Page


@dataclass(frozen=True)
class Cycle:
    """What a transaction did. `job` is as it stands now. `is_exhausted`: no row is left to reserve, at this moment.

    `lost`: batches of ours that another process had taken over; nothing of them was written. `open_elsewhere`:
    reservations of the job that others hold. `suspects`: free reservations that must run alone. `is_decided`: this
    transaction ended or paused the job.
    """

    job: Job
    opened: list[Open] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    is_exhausted: bool = False
    open_elsewhere: int = 0
    suspects: int = 0
    is_decided: bool = False


def run_cycle(
    conn: sqlite3.Connection,
    plan: Plan,
    done: Sequence[Done],
    *,
    want: int,
    now: float,
    request: Decision | None = None,
    alone: bool = False,
    ahead: ReadAhead | None = None,
    peeked: Open | None = None,
    is_leaving: bool = False,
) -> Cycle:
    """Commit, decide, reserve.

    :param want: how many reservations to open, at most
    :param request: a pause or cancellation that the enrichment asked for
    :param alone: reserve one suspect and nothing else
    :param ahead: for selections with free SQL, which is never run here
    :param peeked: the first suspect and its rows, read outside for the same reason
    :param is_leaving: this process ends: give back what is still open
    :raises SchemaMoved: when tables changed since the plan was made
    :raises RolledBack: when the user's own schema ended the transaction
    """
    if schema_version(conn) != plan.schema_version:
        raise SchemaMoved
    job = store.get_job(conn, plan.job_id)
    lost: list[int] = []
    if done:
        lost = _commit(conn, plan, job, done, now)
        job = store.get_job(conn, plan.job_id)
    decision = _decide(job, plan, request)
    is_decided = False
    if decision is not None and job.status is JobStatus.RUNNING:
        is_decided = store.change_status(
            conn,
            job.id,
            [JobStatus.RUNNING],
            decision.status,
            now=now,
            reason=decision.reason,
            resume_at=decision.resume_at,
        )
        job = store.get_job(conn, plan.job_id)
    if job.status is not JobStatus.RUNNING:
        if job.status.is_final:
            store.drop_batches(conn, job.id)
        else:
            store.release(conn, plan.owner, job.id)
        return Cycle(job, lost=lost, is_decided=is_decided)
    if is_leaving:
        store.release(conn, plan.owner, job.id)
        return Cycle(job, lost=lost)
    freed = store.free_dead_leases(conn, job.id, plan.owner, now, plan.lease_seconds, plan.liveness)
    if freed:
        store.add_event(conn, job.id, _recovered(freed), now)
    opened, exhausted = _reserve(conn, plan, job, want, now, alone=alone, ahead=ahead, peeked=peeked)
    return Cycle(
        store.get_job(conn, plan.job_id) if opened else job,
        opened,
        lost,
        exhausted,
        store.held_by_others(conn, job.id, plan.owner),
        len(store.free_batches(conn, job.id, 1, suspects=True)),
    )


def _recovered(batches: int) -> str:
    """What the log says of batches whose process ended, or was not heard of for a lease's length."""
    what = "1 batch, which runs" if batches == 1 else f"{batches:,} batches, which run"
    return f"A process ended without giving back {what} again"


def schema_version(conn: sqlite3.Connection) -> int:
    """A number that SQLite changes with every change of the schema."""
    return int(conn.execute("pragma schema_version").fetchone()[0])


def finish(conn: sqlite3.Connection, plan: Plan, now: float) -> tuple[Job, bool]:
    """Mark the job finished if truly nothing is left: no reservation of anybody's, no row behind the cursor. The job as
    it stands, and whether this marked it."""
    job = store.get_job(conn, plan.job_id)
    nothing_left = plan.is_free_sql or len(_next_page(conn, plan, job, 1, None)[0]) == 0
    is_finished = False
    if store.open_batches(conn, job.id) == 0 and nothing_left:
        is_finished = store.change_status(conn, job.id, [JobStatus.RUNNING], JobStatus.FINISHED, now=now)
    return store.get_job(conn, plan.job_id), is_finished


def _commit(conn: sqlite3.Connection, plan: Plan, job: Job, done: Sequence[Done], now: float) -> list[int]:
    """Write what is finished, each batch only while it is ours; the ids of those that are not."""
    lost: list[int] = []
    answers: list[Answer] = []
    failures: list[tuple[Any, Key, Failure]] = []
    for item in done:
        if item.is_whole:
            ours = store.delete_batch(conn, item.batch.id, plan.owner)
        else:
            start = keyset.dump(plan.key.cursor_of(item.page.key(item.answer.rows - 1)))
            ours = store.shorten_batch(conn, item.batch.id, plan.owner, start, item.answer.rows)
        if not ours:
            lost.append(item.batch.id)
            continue
        answer = write_answer(
            conn,
            plan.target,
            item.batch.id,
            item.page,
            item.answer,
            types=plan.column_types,
            singly=item.singly,
        )
        answers.append(answer)
        for number, failure in sorted(answer.errors.items()):
            key = item.page.key(number)
            failures.append((plan.key.public(key), key, failure))
    if answers:
        added = store.tally(answers)
        store.add_to_job(conn, job, added)
        store.add_progress(conn, job, added, now)
        store.add_errors(conn, job.id, failures, now)
    return lost


def _decide(job: Job, plan: Plan, request: Decision | None) -> Decision | None:
    return over_the_error_limit(job, plan.max_errors) or request or over_the_budget(job, None)


def _reserve(
    conn: sqlite3.Connection,
    plan: Plan,
    job: Job,
    want: int,
    now: float,
    *,
    alone: bool,
    ahead: ReadAhead | None,
    peeked: Open | None,
) -> tuple[list[Open], bool]:
    """Reservations for us: those that others left behind, then new ones. And whether no new row is left."""
    until = now + plan.lease_seconds
    if alone:
        return _reserve_suspect(conn, plan, job, until, now, peeked) if want else [], False
    opened = []
    for batch in store.free_batches(conn, job.id, want, suspects=False):
        store.lease(conn, batch, plan.owner, until, alone=False)
        opened.append(Open(batch, _rows_of(conn, plan, batch)))
    left = want - len(opened)
    if left <= 0:
        return opened, False
    page, exhausted = _next_page(conn, plan, job, left * plan.batch_size, ahead)
    start = job.next_cursor
    for first in range(0, len(page), plan.batch_size):
        rows = page.slice(first, first + plan.batch_size)
        end = keyset.dump(plan.key.cursor_of(rows.key(len(rows) - 1)))
        opened.append(
            Open(store.insert_batch(conn, job.id, start, end, len(rows), owner=plan.owner, until=until), rows)
        )
        start = end
    if start is not None and start != job.next_cursor:
        store.advance(conn, job.id, start)
    return opened, exhausted


def _next_page(
    conn: sqlite3.Connection, plan: Plan, job: Job, limit: int, ahead: ReadAhead | None
) -> tuple[Page, bool]:
    if plan.is_free_sql:
        if ahead is None or ahead.after != job.next_cursor:  # another process moved the cursor: read again
            return Page([], 0), False
        rows = ahead.page.slice(0, limit)
        return rows, len(rows) == 0
    after = keyset.load(job.next_cursor) if job.next_cursor else None
    page = keyset.page(conn, plan.key, plan.columns, plan.where, plan.params, after, None, limit)
    return page, len(page) < limit


def _rows_of(conn: sqlite3.Connection, plan: Plan, batch: Batch) -> Page:
    """The rows of a reservation again, as they are now; UNREAD where free SQL leaves that to the runner, outside."""
    return UNREAD if plan.is_free_sql else read_rows(conn, plan, batch)


def read_rows(conn: sqlite3.Connection, plan: Plan, batch: Batch) -> Page:
    """The rows in (start, end] that the job selects."""
    start = keyset.load(batch.start_cursor) if batch.start_cursor else None
    return keyset.page(
        conn, plan.key, plan.columns, plan.where, plan.params, start, keyset.load(batch.end_cursor), None
    )


def read_ahead(conn: sqlite3.Connection, plan: Plan, after: str | None, limit: int) -> ReadAhead:
    """The next page of a selection with free SQL, for a read connection under a time limit."""
    start = keyset.load(after) if after else None
    return ReadAhead(after, keyset.page(conn, plan.key, plan.columns, plan.where, plan.params, start, None, limit))


def _reserve_suspect(
    conn: sqlite3.Connection, plan: Plan, job: Job, until: float, now: float, peeked: Open | None
) -> list[Open]:
    """One reservation that has outlived several processes. One that ended a process while it ran alone is halved, down
    to the row; a row that ended three is recorded as an error instead of stopping the job for ever."""
    for batch in store.free_batches(conn, job.id, 1, suspects=True):
        if plan.is_free_sql:
            if peeked is None or peeked.batch != batch:
                return []
            rows = peeked.page
        else:
            rows = read_rows(conn, plan, batch)
        if batch.attempts and len(rows) > 1:
            batch, rows = _halve(conn, plan, batch, rows)
        elif batch.attempts >= store.DEATHS_ALONE_BEFORE_ERROR and len(rows) == 1:
            _give_up(conn, plan, job, batch, rows, now)
            return []
        store.lease(conn, batch, plan.owner, until, alone=True)
        return [Open(batch, rows)]
    return []


def _halve(conn: sqlite3.Connection, plan: Plan, batch: Batch, rows: Page) -> tuple[Batch, Page]:
    """Two reservations in place of one; the first of them."""
    middle = (len(rows) + 1) // 2
    cut = keyset.dump(plan.key.cursor_of(rows.key(middle - 1)))
    conn.execute("delete from _enrichment_batches where id = ?", [batch.id])
    first = store.insert_batch(conn, batch.job_id, batch.start_cursor, cut, middle, deaths=batch.deaths)
    store.insert_batch(conn, batch.job_id, cut, batch.end_cursor, len(rows) - middle, deaths=batch.deaths)
    return first, rows.slice(0, middle)


def _give_up(conn: sqlite3.Connection, plan: Plan, job: Job, batch: Batch, rows: Page, now: float) -> None:
    conn.execute("delete from _enrichment_batches where id = ?", [batch.id])
    failure = Failure(f"The process that worked on this row ended {batch.attempts} times while it did nothing else")
    added = store.tally([Answer(1, errors={0: failure})])
    store.add_to_job(conn, job, added)
    store.add_progress(conn, job, added, now)
    key = rows.key(0)
    store.add_errors(conn, job.id, [(plan.key.public(key), key, failure)], now)


def peek_suspect(conn: sqlite3.Connection, plan: Plan) -> Open | None:
    """The first suspect and its rows, for a read connection under a time limit."""
    for batch in store.free_batches(conn, plan.job_id, 1, suspects=True):
        return Open(batch, read_rows(conn, plan, batch))
    return None
