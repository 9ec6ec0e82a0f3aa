"""What a person may do to a job: start, pause, resume, cancel, retry, look. Every function checks the actor."""

from __future__ import annotations

import dataclasses
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pydantic

from .. import compat
from . import cursor, registry, selection, serve, store
from .enrichment import Enrichment, column_fields
from .errors import BadConfig, BadSelection, DatabaseBusy, IllegalTransition, JobNotFound, NotAllowed
from .model import TRANSITIONS, Job, JobOptions, JobStatus
from .owner import liveness
from .store import JobErrorRow, Progress

Actor = dict[str, Any] | None

SYSTEM = {"id": "root"}
"""Whoever has the file in hand: the command line acts as root does."""

PATIENCE = (0.1,)
"""Pauses between tries on a locked database while a person waits for the answer: about ten seconds in all."""


@dataclass(frozen=True)
class Preview:
    """The rows that filters select: the exact count, the first rows, the filters in words ('' = all rows)."""

    count: int
    columns: list[str]
    rows: list[dict[str, Any]]
    keys: list[Any]
    description: str
    querystring: str


# ---- the gate --------------------------------------------------------------------------------------------------


async def require_table(datasette: Any, actor: Actor, database: str, table: str) -> Any:
    """The database, if the actor may enrich this table of it.

    :raises NotAllowed: alike for what does not exist and for what may not be seen, so that no name leaks
    :raises BadSelection: for a database that cannot be enriched
    """
    allowed = (
        database in datasette.databases
        and await compat.can_view(datasette, actor, database, table)
        and await compat.can_enrich(datasette, actor, database, table)
    )
    if not allowed:
        raise NotAllowed(f"You may not enrich {table!r} in {database!r}")
    db = datasette.databases[database]
    reason = compat.why_not_enrichable(db)
    if reason is not None:
        raise BadSelection(reason)
    return db


async def may_see(datasette: Any, actor: Actor, database: str, table: str) -> bool:
    """Whether the actor may see and steer this table's jobs."""
    return await compat.can_view(datasette, actor, database, table) and await compat.can_enrich(
        datasette, actor, database, table
    )


# ---- starting --------------------------------------------------------------------------------------------------


async def start(
    datasette: Any,
    database: str,
    table: str,
    *,
    enrichment: str,
    filters: str = "",
    config: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    actor: Actor = None,
    key: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Job:
    """Check everything, count the rows, add the job, wake a worker.

    :param filters: a Datasette querystring; '' selects all rows
    :param settings: plugin settings for this job, from whoever has the file in hand: never from a request
    :param key: an idempotency key: a second start with it gives the first one's job
    :raises JobError: its `status` and `details` say what is wrong; nothing was written then
    """
    db = await require_table(datasette, actor, database, table)
    chosen = await registry.enrichment(datasette, enrichment)
    await compat.read(db, lambda conn: cursor.table_key(conn, table))
    checked = await check_config(datasette, db, table, chosen, config or {})
    chosen_options = dataclasses.replace(check_options(options or {}), settings=dict(settings) if settings else None)
    resolved = await selection.resolve(datasette, db, table, filters, actor)
    row_count = await selection.count(db, table, resolved)
    actor_id = None if actor is None else actor.get("id")
    try:
        job: Job = await compat.write(
            db,
            lambda conn: store.insert_job(
                conn,
                enrichment=chosen.slug,
                database=database,
                table=table,
                filters=resolved.querystring,
                selection=resolved.dump(),
                config=checked.model_dump(mode="json"),
                options=chosen_options,
                actor_id=None if actor_id is None else str(actor_id),
                row_count=row_count,
                request_key=key,
                now=time.time(),
            ),
            pauses=PATIENCE,
        )
    except compat.Busy as problem:
        raise DatabaseBusy(f"{problem}. Try again when it is done") from problem
    except sqlite3.DatabaseError as problem:
        raise BadSelection(f"The database {database} cannot be written: {problem}") from problem
    serve.wake(datasette)
    return await _redacted(datasette, actor, job)


async def check_config(
    datasette: Any, db: Any, table: str, chosen: Enrichment, given: Mapping[str, Any]
) -> pydantic.BaseModel:
    """The enrichment's Config from what was given, guessed values where nothing was.

    :raises BadConfig: one message a field in `details`
    """
    columns = await compat.read(
        db, lambda conn: [row[0] for row in conn.execute("select name from pragma_table_xinfo(?)", [table])]
    )
    fields = column_fields(chosen.Config)
    unknown = [f"{name}: there is no such setting" for name in given if not _is_setting(chosen.Config, name)]
    if unknown:
        raise BadConfig("; ".join(unknown), unknown)
    guessed = await chosen.defaults(db, table)
    values = {**{name: value for name, value in guessed.items() if value is not None}, **given}
    try:
        config = chosen.Config(**values)
    except pydantic.ValidationError as problem:
        details = [_field_message(error, fields, columns) for error in problem.errors()]
        raise BadConfig("; ".join(details), details) from None
    folded = {name.lower() for name in columns}
    details = [
        f"{name}: {table!r} has no column {getattr(config, name)!r}; its columns are {', '.join(columns)}"
        for name in fields
        if getattr(config, name) is not None and str(getattr(config, name)).lower() not in folded
    ]
    if not details:
        try:
            chosen.check_output(config, columns)
        except ValueError as problem:
            details = [str(problem)]
    if details:
        raise BadConfig("; ".join(details), details)
    return config


def _is_setting(config_class: type[pydantic.BaseModel], name: str) -> bool:
    """Whether a Config knows the name: a misspelt setting must not be dropped in silence."""
    aliases = {info.alias for info in config_class.model_fields.values()}
    return name in config_class.model_fields or name in aliases or config_class.model_config.get("extra") == "allow"


def _field_message(error: Any, column_names: list[str], columns: list[str]) -> str:
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{where}: there is no such setting"
    if error["type"] == "missing":
        choices = f"; the table's columns are {', '.join(columns)}" if where in column_names else ""
        return f"{where}: a value is needed{choices}"
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{where}: {message}" if where else message


_OPTION_LIMITS = {"batch_size": 1, "max_open_batches": 1, "max_errors": 0, "budget_100ths_cent": 0}


def check_options(given: Mapping[str, Any]) -> JobOptions:
    """:raises BadConfig: for an option that does not exist or is out of its range"""
    details = []
    for name, value in given.items():
        if name == "output":
            if value not in (None, "columns", "shadow"):
                details.append(f"output: expected columns or shadow, not {value!r}")
        elif name not in _OPTION_LIMITS:
            known = ", ".join([*_OPTION_LIMITS, "output"])
            details.append(f"{name}: there is no such option; options are {known}")
        elif value is not None and (
            isinstance(value, bool) or not isinstance(value, int) or not _OPTION_LIMITS[name] <= value < 2**31
        ):
            details.append(f"{name}: expected a whole number of at least {_OPTION_LIMITS[name]}, not {value!r}")
    if details:
        raise BadConfig("; ".join(details), details)
    return JobOptions(**given)


# ---- steering --------------------------------------------------------------------------------------------------


async def pause(datasette: Any, database: str, job_id: int, *, actor: Actor = None, reason: str | None = None) -> Job:
    """Pause the job; within a second no batch of it is at work. A person resumes it."""
    return await _move(datasette, database, job_id, JobStatus.PAUSED, actor, reason or "Paused by a person")


async def resume(datasette: Any, database: str, job_id: int, *, actor: Actor = None) -> Job:
    """Let a paused job go on. Its filters are checked again for the actor who resumes it."""
    job = await find(datasette, database, job_id, actor=actor)
    if job.status is JobStatus.PAUSED:
        db = datasette.databases[database]
        await selection.resolve(datasette, db, job.table_name, job.filter_querystring, actor)
    return await _move(datasette, database, job_id, JobStatus.PENDING, actor, None)


async def cancel(datasette: Any, database: str, job_id: int, *, actor: Actor = None) -> Job:
    """Give the job up. What was written stays."""
    return await _move(datasette, database, job_id, JobStatus.CANCELLED, actor, "Cancelled by a person")


async def _move(datasette: Any, database: str, job_id: int, status: JobStatus, actor: Actor, reason: str | None) -> Job:
    job = await find(datasette, database, job_id, actor=actor)
    db = await require_table(datasette, actor, database, job.table_name)
    expected = [before for before in JobStatus if status in TRANSITIONS[before]]

    def change(conn: sqlite3.Connection) -> Job:
        if not store.change_status(conn, job_id, expected, status, now=time.time(), reason=reason):
            now = store.get_job(conn, job_id)
            raise IllegalTransition(_why_not(now, status))
        if status is JobStatus.CANCELLED:
            store.drop_idle_batches(conn, job_id, liveness)
        return store.get_job(conn, job_id)

    try:
        moved: Job = await compat.write(db, change, pauses=PATIENCE)
    except compat.Busy as problem:
        raise DatabaseBusy(f"{problem}. Try again when it is done") from problem
    serve.wake(datasette)
    return await _redacted(datasette, actor, moved)


def _why_not(job: Job, status: JobStatus) -> str:
    if job.status is status:
        return f"Job {job.id} is {status.value} already"
    verb = "resumed" if status is JobStatus.PENDING else status.value
    return f"Job {job.id} is {job.status.value}, so it cannot be {verb}"


async def retry(datasette: Any, database: str, job_id: int, *, actor: Actor = None, scope: str | None = None) -> Job:
    """A new job of the same enrichment and settings over rows that are worth another try.

    :param scope: `errors` (rows in error), or of the enrichment's own: `due` (misses whose time has come), `misses`
        (all that may change). None means errors and what is due
    :raises BadConfig: for a scope that this enrichment does not have
    :raises IllegalTransition: while the job still runs, or when no row is worth another try
    """
    job = await find(datasette, database, job_id, actor=actor)
    db = await require_table(datasette, actor, database, job.table_name)
    chosen = await registry.enrichment(datasette, job.enrichment)
    if not job.status.is_final and job.status is not JobStatus.PAUSED:
        raise IllegalTransition(f"Job {job_id} is {job.status.value}: retry it when it is over or paused")
    scopes = _retry_scopes(chosen, job, scope)
    await selection.resolve(datasette, db, job.table_name, await _own_filters(db, job), actor)
    filters = urlencode([("_ingest_retry", job_id), *(("_ingest_scope", name) for name in scopes)])
    if scopes == ["errors"]:
        filters = f"_ingest_failed={job_id}"
    if (
        await selection.count(
            db, job.table_name, await selection.resolve(datasette, db, job.table_name, filters, actor)
        )
        == 0
    ):
        others = "" if scope or "misses" not in _scopes(chosen, job) else ". Misses before their time: scope misses"
        raise IllegalTransition(f"Job {job_id} has no rows to try again (scope: {', '.join(scopes)}){others}")
    return await start(
        datasette,
        database,
        job.table_name,
        enrichment=job.enrichment,
        filters=filters,
        config=chosen.retry_config(job.config, scopes),
        options={name: value for name, value in job.options.as_dict().items() if name != "settings"},
        settings=job.options.settings,
        actor=actor,
    )


def _retry_scopes(chosen: Enrichment, job: Job, scope: str | None) -> list[str]:
    known = _scopes(chosen, job)
    if scope is None:
        return [name for name in known if name != "misses"]
    if scope not in known:
        raise BadConfig(f"scope: {chosen.slug} knows the scopes {', '.join(known)}, not {scope!r}")
    return [scope]


def _scopes(chosen: Enrichment, job: Job) -> list[str]:
    config = chosen.Config(**job.config)
    own = (name for name in ("due", "misses") if chosen.retry_where(config, job.table_name, name) is not None)
    return ["errors", *own]


async def _own_filters(db: Any, job: Job) -> str:
    """The job's filters as they are stored, whatever of them the actor was shown."""
    stored = await compat.read(db, lambda conn: store.get_job(conn, job.id))
    return stored.filter_querystring


# ---- looking ---------------------------------------------------------------------------------------------------


async def find(datasette: Any, database: str, job_id: int, *, actor: Actor = None) -> Job:
    """:raises JobNotFound: when there is none, or none that the actor may see"""
    missing = JobNotFound(f"There is no job {job_id} in {database!r}")
    if database not in datasette.databases or not 0 < job_id < 2**63:
        raise missing
    db = datasette.databases[database]
    if compat.why_not_enrichable(db) is not None:
        raise missing
    job = await compat.read(db, lambda conn: store.find_job(conn, job_id))
    if job is None or not await may_see(datasette, actor, database, job.table_name):
        raise missing
    return await _redacted(datasette, actor, job)


async def listing(
    datasette: Any,
    database: str,
    *,
    actor: Actor = None,
    table: str | None = None,
    status: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[Job]:
    """The jobs of a database that the actor may see, newest first; `before` is the last job's id of the page before."""
    db = datasette.databases.get(database)
    if db is None or compat.why_not_enrichable(db) is not None:
        return []
    tables = await compat.read(db, store.tables_with_jobs)
    visible = {name for name in tables if await may_see(datasette, actor, database, name)}
    if table is not None:
        visible &= {table}
    jobs = await compat.read(
        db, lambda conn: store.list_jobs(conn, tables=visible, status=status, before=before, limit=limit)
    )
    return [await _redacted(datasette, actor, job) for job in jobs]


async def errors(
    datasette: Any, database: str, job_id: int, *, actor: Actor = None, after: int | None = None, limit: int = 100
) -> list[JobErrorRow]:
    """The job's errors, oldest first; `after` is the last error's id of the page before."""
    await find(datasette, database, job_id, actor=actor)
    return await compat.read(
        datasette.databases[database], lambda conn: store.list_errors(conn, job_id, after=after, limit=limit)
    )


async def progress(datasette: Any, database: str, job_id: int) -> Progress:
    """How fast the job goes; asks nobody's permission."""
    return await compat.read(
        datasette.databases[database],
        lambda conn: store.progress(conn, store.get_job(conn, job_id), time.time()),
    )


async def select(
    datasette: Any, database: str, table: str, *, filters: str = "", actor: Actor = None, rows: int = 5
) -> Preview:
    """What these filters select on this table, for the form."""
    db = await require_table(datasette, actor, database, table)
    key = await compat.read(db, lambda conn: cursor.table_key(conn, table))
    resolved = await selection.resolve(datasette, db, table, filters, actor)
    number = await selection.count(db, table, resolved)

    def first(conn: sqlite3.Connection) -> tuple[list[str], cursor.Page]:
        columns = [row[0] for row in conn.execute("select name from pragma_table_xinfo(?) where hidden != 1", [table])]
        return columns, cursor.page(conn, key, columns, resolved.where, resolved.params, limit=rows)

    columns, page = await compat.read(db, first, limit_ms=selection.COUNT_LIMIT_MS)
    return Preview(
        number,
        columns,
        [dict(zip(columns, row, strict=False)) for row in page.rows],
        [key.public(page.key(n)) for n in range(len(page))],
        resolved.description,
        resolved.querystring,
    )


async def tables_with_jobs(datasette: Any, database: str) -> list[str]:
    """The tables that ever had a job in the database; asks nobody's permission."""
    db = datasette.databases.get(database)
    if db is None or (db.is_memory and not db.memory_name):
        return []
    return await compat.read(db, store.tables_with_jobs)


async def _redacted(datasette: Any, actor: Actor, job: Job) -> Job:
    """The job without a stored `_where` for those who may not execute SQL."""
    if not selection.has_free_sql(job.filter_querystring) or await compat.can_execute_sql(
        datasette, actor, job.database_name
    ):
        return job
    kept = [(k, v if k != "_where" else "…") for k, v in parse_qsl(job.filter_querystring, keep_blank_values=True)]
    return dataclasses.replace(job, filter_querystring=urlencode(kept), selection=None)
