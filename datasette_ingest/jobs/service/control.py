"""Start, pause, resume, cancel and retry jobs. Every function checks the actor."""

from __future__ import annotations

import dataclasses
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

from ... import compat
from .. import events, keyset, leases, registry, schema, selection, store
from ..engine import server
from ..engine.planning import stored_config
from ..enrichment import Enrichment
from ..errors import (
    BadConfig,
    DatabaseUnavailable,
    IllegalTransition,
    JobError,
    NotAllowed,
    TooMany,
)
from ..model import TRANSITIONS, Decision, Job, JobStatus, RequestKey, StartRequest, actor_id, event_message
from ..owner import liveness
from . import permissions, queries, turns, validation
from .outcomes import successes
from .permissions import Actor, EnrichableTable

T = TypeVar("T")

EXACTLY_COUNTED_ERRORS = 1000
"""Rows in error that are looked up one by one to be counted for a page."""

PAUSED_BY_A_PERSON = "Paused by a person"
CANCELLED_BY_A_PERSON = "Cancelled by a person"

BUSY_PAUSES = (0.1,)
"""Seconds between tries on a locked database while a person waits for the answer: about ten seconds in all."""


# ---- start -----------------------------------------------------------------------------------------------------


async def start(datasette: Any, database: str, request: StartRequest) -> Job:
    """Check the actor, then `start_on` the table.

    :raises JobError: its `status` and `details` say what is wrong; nothing was written then
    """
    table = await permissions.require_table(datasette, request.actor, database, request.table)
    return await start_on(datasette, table, request)


async def start_on(datasette: Any, table: EnrichableTable, request: StartRequest) -> Job:
    """Check the request, count the rows, add the job and wake a worker. Where counting takes long, a worker does it.

    :param table: from `permissions.require_table`, which has checked the actor
    :raises JobError: as `start`
    """
    request = dataclasses.replace(request, table=table.name)
    key = request.request_key
    before = await _started_before(datasette, table, key, request.actor)
    if before is not None:
        return before
    return await _add(datasette, table, request, key, f"Started by {_name(request.actor)}")


async def _started_before(datasette: Any, table: EnrichableTable, key: RequestKey | None, actor: Actor) -> Job | None:
    """The job that this request added when it came before. The rest is not checked: the table may have changed."""
    if key is None:
        return None
    job = await compat.read(table.db, lambda conn: store.requested_job(conn, key))
    return None if job is None else await queries.redacted(datasette, actor, table.db, job)


async def _add(
    datasette: Any, table: EnrichableTable, request: StartRequest, key: RequestKey | None, event: str
) -> Job:
    enrichment = await registry.enrichment(datasette, request.enrichment)
    await compat.read(table.db, lambda conn: keyset.table_key(conn, table.name))
    config, options = await validation.check_settings(datasette, enrichment, table, request.config, request.options)
    async with turns.turn(datasette, request.actor):
        rows = await selection.resolve(
            datasette, table.db, table.name, request.filters, request.actor, columns=table.columns
        )
        count = await selection.count(table.db, table.name, rows, limit_ms=selection.WAIT_MS)
    checked = dataclasses.replace(
        request, filters=rows.querystring, config=config.model_dump(mode="json"), options=options.as_dict()
    )

    is_private = not await compat.can_view(datasette, None, table.db.name, table.name)

    def insert(conn: sqlite3.Connection) -> tuple[Job, bool]:
        before = None if key is None else store.requested_job(conn, key)
        if before is not None:
            return before, False
        now = time.time()
        added = store.insert_job(
            conn,
            table.db.name,
            checked,
            selection=rows.dump(),
            row_count=count,
            now=now,
            request=key,
            event=event,
            is_private=is_private,
        )
        return added, True

    job, is_new = await _write(table.db, insert)
    server.wake(datasette)
    if is_new:
        await events.emit(datasette, job, request.actor)
    return await queries.redacted(datasette, request.actor, table.db, job)


async def _write(db: Any, change: Callable[[sqlite3.Connection], T]) -> T:
    """:raises DatabaseUnavailable:"""
    try:
        return await compat.write(db, change, pauses=BUSY_PAUSES)
    except compat.Busy as problem:
        raise DatabaseUnavailable(f"{problem}. Try again when it is done") from problem
    except compat.Unavailable as problem:
        raise DatabaseUnavailable(str(problem)) from problem
    except sqlite3.DatabaseError as problem:  # a table of ours was changed by another program
        raise DatabaseUnavailable(f"The database {db.name} cannot be written: {problem}") from problem


def _name(actor: Actor) -> str:
    """The actor in a job's log."""
    return actor_id(actor) or "somebody who is not signed in"


# ---- pause, resume, cancel -------------------------------------------------------------------------------------


async def pause(datasette: Any, database: str, job_id: int, *, actor: Actor = None, reason: str | None = None) -> Job:
    """Pause the job: within a second none of its batches is being worked on. A person resumes it."""
    return await _move(datasette, database, job_id, JobStatus.PAUSED, actor, reason or PAUSED_BY_A_PERSON)


async def resume(datasette: Any, database: str, job_id: int, *, actor: Actor = None) -> Job:
    """Let a paused job go on. Its filters are checked again, for the actor who resumes it."""
    return await _move(datasette, database, job_id, JobStatus.PENDING, actor, None)


async def cancel(datasette: Any, database: str, job_id: int, *, actor: Actor = None) -> Job:
    """End the job for good. What it has written stays."""
    return await _move(datasette, database, job_id, JobStatus.CANCELLED, actor, CANCELLED_BY_A_PERSON)


async def _move(datasette: Any, database: str, job_id: int, status: JobStatus, actor: Actor, reason: str | None) -> Job:
    job = await queries.find(datasette, database, job_id, actor=actor)
    db = datasette.databases[database]
    if status is JobStatus.PENDING and job.status is JobStatus.PAUSED:
        await _check_stored_filters(datasette, db, job, actor)
    expected = [before for before in JobStatus if status in TRANSITIONS[before]]
    own_reason = None if reason in (PAUSED_BY_A_PERSON, CANCELLED_BY_A_PERSON) else reason
    event = event_message(status, by=_name(actor), reason=own_reason)

    def change(conn: sqlite3.Connection) -> Job:
        schema.migrate(conn)
        if not store.change_status(conn, job_id, expected, Decision(status, reason), now=time.time(), event=event):
            raise IllegalTransition(_why_not(store.get_job(conn, job_id), status))
        if status is JobStatus.CANCELLED:
            leases.drop_idle_batches(conn, job_id, liveness)
        return store.get_job(conn, job_id)

    moved = await _write(db, change)
    server.wake(datasette)
    if status is JobStatus.CANCELLED:
        await events.emit(datasette, moved, actor)
    return await queries.redacted(datasette, actor, db, moved)


def _why_not(job: Job, status: JobStatus) -> str:
    if job.status is status:
        return f"Job {job.id} is already {status.value}"
    verb = "resumed" if status is JobStatus.PENDING else status.value
    return f"Job {job.id} is {job.status.value}, so it cannot be {verb}"


# ---- retry -----------------------------------------------------------------------------------------------------


async def retry(
    datasette: Any,
    database: str,
    job_id: int,
    *,
    actor: Actor = None,
    scope: str | None = None,
    key: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Job:
    """A new job of the same enrichment and settings over rows that are worth another try.

    :param scope: `errors` (rows in error), or of the enrichment's own: `due` (misses whose time has come), `misses`
        (all that may change). None: errors and what is due
    :param key: an idempotency key of the actor's: the same retry sent again with it gives the first one's job
    :param settings: plugin settings that replace those stored with the job, as in StartRequest
    :raises BadConfig: for a scope that this enrichment does not have
    :raises IllegalTransition: while the job is still running, or when no row is worth another try
    """
    job = await queries.find(datasette, database, job_id, actor=actor)
    table = await permissions.open_table(datasette.databases[database], job.table_name)
    request = None if key is None else RequestKey.of(actor_id(actor), key, "retry", job_id, scope)
    before = await _started_before(datasette, table, request, actor)
    if before is not None:
        return before
    if job.damage is not None:
        raise IllegalTransition(f"{job.damage}. Start a new job")
    enrichment = await registry.enrichment(datasette, job.enrichment)
    if not job.status.is_final and job.status is not JobStatus.PAUSED:
        raise IllegalTransition(f"Job {job_id} is {job.status.value}: retry it when it has ended or is paused")
    known = _scopes(enrichment, job)
    if scope is not None and scope not in known:
        raise BadConfig(f"scope: {enrichment.slug} knows the scopes {', '.join(known)}, not {scope!r}")
    scopes = [name for name in known if name != "misses"] if scope is None else [scope]
    await _check_stored_filters(datasette, table.db, job, actor)
    filters = _retry_filters(job_id, scopes)
    async with turns.turn(datasette, actor):
        is_empty = await _is_empty(datasette, table, filters, actor)
    if is_empty:
        raise IllegalTransition(_nothing_to_retry(job, scopes, known))
    options = job.options.as_dict()
    start = StartRequest(
        table.name,
        job.enrichment,
        filters,
        enrichment.retry_config(job.config, scopes),
        {name: value for name, value in options.items() if name != "settings"},
        actor,
        settings={**options.get("settings", {}), **(settings or {})},
    )
    return await _add(datasette, table, start, request, f"Started by {_name(actor)}, to retry rows of job {job_id}")


def _nothing_to_retry(job: Job, scopes: Sequence[str], known: Sequence[str]) -> str:
    if "due" in scopes and "errors" in scopes:
        hint = ". To retry all misses that may change: scope misses" if "misses" in known else ""
        return f"Job {job.id} has no rows in error and no misses that are due{hint}"
    kinds = {"errors": "no rows in error", "due": "no misses that are due", "misses": "no misses that may change"}
    return f"Job {job.id} has {kinds[scopes[0]]}"


async def _check_stored_filters(datasette: Any, db: Any, job: Job, actor: Actor) -> None:
    """Check the job's filters again, for this actor.

    :param job: from `queries.find`
    :raises NotAllowed, BadSelection:
    """
    if job.hides_filters:
        raise NotAllowed(f"The filters of job {job.id} name what you may not see, so you may not run them")
    await selection.resolve(datasette, db, job.table_name, job.filter_querystring, actor)


async def _is_empty(datasette: Any, table: EnrichableTable, filters: str, actor: Actor) -> bool:
    """Whether no row is selected; False also where looking takes too long: the job will find out."""
    rows = await selection.resolve(datasette, table.db, table.name, filters, actor, columns=table.columns)
    return await selection.is_empty(table.db, table.name, rows, limit_ms=selection.WAIT_MS) is True


async def _count(datasette: Any, table: EnrichableTable, filters: str, actor: Actor, *, limit_ms: float) -> int | None:
    rows = await selection.resolve(datasette, table.db, table.name, filters, actor, columns=table.columns)
    return await selection.count(table.db, table.name, rows, limit_ms=limit_ms)


@dataclass(frozen=True)
class RetryCounts:
    """How many rows a retry would take: `errors` and, besides them, `due` (the usual retry takes both); `misses`: the
    scope of that name. None: unknown, or no such scope."""

    errors: int | None = None
    due: int | None = None
    misses: int | None = None

    @property
    def usual(self) -> int | None:
        """Rows of a retry whose scope is not named."""
        return None if self.errors is None or self.due is None else self.errors + self.due


async def retry_counts(datasette: Any, database: str, job: Job, *, actor: Actor, limit_ms: float) -> RetryCounts:
    """How many rows each kind of retry would take, each count given up after `limit_ms`.

    Of a job with very many errors the stored number is taken: some of their rows may be gone since.

    :param job: from `queries.find`, which has checked the actor
    """
    try:
        async with turns.turn(datasette, actor):
            return await _retry_counts(datasette, database, job, actor, limit_ms)
    except TooMany:
        return RetryCounts()


async def _retry_counts(datasette: Any, database: str, job: Job, actor: Actor, limit_ms: float) -> RetryCounts:
    try:
        scopes = _scopes(await registry.enrichment(datasette, job.enrichment), job)
        table = await permissions.open_table(datasette.databases[database], job.table_name)
    except JobError:  # the enrichment or the table is gone, or the stored settings no longer fit
        return RetryCounts()

    async def count(*wanted: str) -> int | None:
        try:
            return await _count(datasette, table, _retry_filters(job.id, wanted), actor, limit_ms=limit_ms)
        except JobError:  # the actor may not select these rows
            return None

    has_many = job.error_count > EXACTLY_COUNTED_ERRORS
    errors = job.error_count if has_many or not job.error_count else await count("errors")
    if job.done_count <= job.error_count + successes(job):  # there are no misses
        return RetryCounts(errors, 0)
    due: int | None = 0
    if "due" in scopes and has_many:
        due = await count("due")
    elif "due" in scopes:
        both = await count("errors", "due")
        due = None if errors is None or both is None else both - errors
    return RetryCounts(errors, due, await count("misses") if "misses" in scopes else None)


def _retry_filters(job_id: int, scopes: Sequence[str]) -> str:
    if list(scopes) == ["errors"]:
        return f"_ingest_failed={job_id}"
    return urlencode([("_ingest_retry", job_id), *(("_ingest_scope", name) for name in scopes)])


def _scopes(enrichment: Enrichment, job: Job) -> list[str]:
    """:raises BadSelection: when the stored settings no longer fit the enrichment"""
    config = stored_config(job, enrichment)
    own = (name for name in ("due", "misses") if enrichment.retry_where(config, job.table_name, name) is not None)
    return ["errors", *own]
