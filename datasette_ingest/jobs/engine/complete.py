"""Answers rows that no process works on: a deferred reservation is completed from outside, by its ticket."""

from __future__ import annotations

import logging
import secrets
import sqlite3
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ... import compat
from .. import events, leases, registry, store
from ..enrichment import Enrichment
from ..keyset import Page
from ..model import Batch, BatchOutcome, Job
from ..owner import Liveness
from . import cycle, planning, server
from .batch_run import result_of
from .cycle import Cycle, FinishedRows, Plan, SchemaMoved
from .results import RolledBack
from .runner import FREE_SQL_LIMIT_MS

log = logging.getLogger(__name__)


@dataclass
class DeferredRows:
    """The rows of a reservation that was put off with a ticket, as they are now."""

    job: Job
    config: Any
    rows: Sequence[dict[str, Any]]
    pks: Sequence[Any]
    counters: dict[str, int] = field(default_factory=dict)
    """To be added to counters in the job's notes, as by `JobHandle.add`."""


Answer: TypeAlias = "Callable[[sqlite3.Connection, DeferredRows], BatchOutcome]"


async def complete(
    datasette: Any,
    database: str,
    ticket: str,
    outcome: BatchOutcome | Answer,
    *,
    clock: Callable[[], float] = time.time,
) -> bool:
    """Write the answer to rows that were deferred with this ticket; asks nobody's permission.

    One transaction, as when a process of ours answers them: updates, errors, writes, outcomes and cost are written, and
    the reservation is deleted. Rows of `outcome.deferred` are put off again. Limits of errors and of the budget hold.

    :param outcome: rows are named by the keys that `enrich_batch` was given in `pks`. Or a function that makes it from the
        rows as they are now, which is called with a read connection, in a thread, perhaps more than once
    :returns: False, and nothing was written: no free reservation has the ticket, its job is over, or its rows are not
        those that the outcome names, since they were changed
    :raises TypeError, ValueError: for an outcome that is none
    :raises BadSelection: when the job's table or settings no longer fit its enrichment
    :raises compat.Busy: when the database stays locked
    """
    db = datasette.get_database(database)
    while True:
        found = await compat.read(db, lambda conn: _open_reservation(conn, ticket))
        if found is None:
            return False
        job, batch = found
        enrichment = await registry.enrichment(datasette, job.enrichment)
        plan, page, given, counters = await compat.read(
            db, _reading(job, batch, enrichment, outcome), limit_ms=FREE_SQL_LIMIT_MS
        )
        try:
            result = result_of(given, [plan.key.public(page.key(number)) for number in range(len(page))])
            result.counters = counters
        except LookupError as problem:
            log.warning("job %s of %s: the answer to ticket %r is not used: %s", job.id, database, ticket, problem)
            return False
        try:
            step = await _commit(db, plan, ticket, FinishedRows(batch, page, result, is_whole=True), clock())
        except SchemaMoved:
            continue
        if step is None:
            return False
        if step.is_decided:
            await events.emit(datasette, step.job)
        server.wake(datasette)
        return True


def _open_reservation(conn: sqlite3.Connection, ticket: str) -> tuple[Job, Batch] | None:
    batch = leases.find_ticket(conn, ticket)
    job = store.find_job(conn, batch.job_id) if batch is not None else None
    return None if batch is None or job is None or job.status.is_final else (job, batch)


def _reading(
    job: Job, batch: Batch, enrichment: Enrichment, outcome: BatchOutcome | Answer
) -> Callable[[sqlite3.Connection], tuple[Plan, Page, BatchOutcome, dict[str, int]]]:
    """A function that reads the plan of the job and the rows of the reservation as they are now, and what the answer says
    of them."""
    config = planning.stored_config(job, enrichment)
    owner = f"outside:{secrets.token_hex(6)}"  # holds the reservation within one transaction only

    def read(conn: sqlite3.Connection) -> tuple[Plan, Page, BatchOutcome, dict[str, int]]:
        plan = planning.make_plan(
            conn, job, enrichment, config, owner=owner, lease_seconds=0.0, liveness=lambda owner: Liveness.UNKNOWN
        )
        page = cycle.read_rows(conn, plan, batch)
        if isinstance(outcome, BatchOutcome):
            return plan, page, outcome, {}
        rows = [dict(zip(plan.columns, row, strict=False)) for row in page.rows]
        pks = [plan.key.public(page.key(number)) for number in range(len(page))]
        deferred = DeferredRows(job, config, rows, pks)
        return plan, page, outcome(conn, deferred), deferred.counters

    return read


async def _commit(db: Any, plan: Plan, ticket: str, done: FinishedRows, now: float) -> Cycle | None:
    """Take the reservation and close it in one transaction; None where it is no longer the one that was read."""

    def change(conn: sqlite3.Connection) -> Cycle | None:
        found = _open_reservation(conn, ticket)
        if found is None or found[1] != done.batch:
            return None
        leases.lease(conn, done.batch, plan.owner, now, exclusive=False)
        step = cycle.run_cycle(conn, plan, [done], want=0, now=now, is_leaving=True)
        if step.job.waits_until is not None and not leases.has_batches(conn, step.job.id):
            store.set_waits_until(conn, step.job.id, None)  # nothing is left to wait for: the job may end
        return step

    try:
        return await compat.write(db, change)
    except RolledBack as refusal:
        cycle.blame([done], refusal)
        return await _commit(db, plan, ticket, done, now)
