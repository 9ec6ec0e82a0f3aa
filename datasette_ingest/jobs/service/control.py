"""What a person may do to a job: start, pause, resume, cancel, retry, look. Every function checks the actor."""

from __future__ import annotations

import dataclasses
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode

import pydantic

from ... import compat, sqlite
from .. import events as datasette_events
from .. import keyset, owned_tables, registry, schema, selection, store
from ..engine import server
from ..enrichment import Enrichment, column_fields
from ..errors import BadConfig, BadSelection, DatabaseBusy, IllegalTransition, JobError, JobNotFound, NotAllowed
from ..model import TRANSITIONS, Event, Job, JobOptions, JobStatus, RequestKey, event_message
from ..owner import liveness
from ..store import ErrorGroups, JobErrorRow, Progress
from . import failures
from .failures import MissedRows
from .outcomes import HIT

Actor = dict[str, Any] | None

SYSTEM = {"id": "root"}
"""Whoever has the file in hand: the command line acts as root does."""

EXACTLY_COUNTED_ERRORS = 1000
"""Rows in error that are looked up one by one to be counted for a page."""

PAUSED_BY_A_PERSON = "Paused by a person"
CANCELLED_BY_A_PERSON = "Cancelled by a person"

PATIENCE = (0.1,)
"""Pauses between tries on a locked database while a person waits for the answer: about ten seconds in all."""


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
    :param key: an idempotency key of the actor's: the same start with it again gives the first one's job
    :raises JobError: its `status` and `details` say what is wrong; nothing was written then
    """
    db = await require_table(datasette, actor, database, table)
    asked = ("start", table, enrichment, filters, config or {}, options or {})
    request = None if key is None else RequestKey.of(_actor_id(actor), key, *asked)
    before = await _requested(datasette, actor, db, request)
    if before is not None:
        return before
    return await _add(
        datasette,
        db,
        table,
        enrichment=enrichment,
        filters=filters,
        config=config,
        options=options,
        actor=actor,
        request=request,
        settings=settings,
        event=f"Started by {_who(actor)}",
    )


def _who(actor: Actor) -> str:
    """The actor in a job's log."""
    return _actor_id(actor) or "somebody who is not signed in"


def _actor_id(actor: Actor) -> str | None:
    given = None if actor is None else actor.get("id")
    return None if given is None else str(given)


async def _requested(datasette: Any, actor: Actor, db: Any, request: RequestKey | None) -> Job | None:
    """The job that this request added when it came before. Nothing else is checked: the table may have changed since."""
    if request is None:
        return None
    job = await compat.read(db, lambda conn: store.requested_job(conn, request))
    return None if job is None else await _redacted(datasette, actor, job)


async def _add(
    datasette: Any,
    db: Any,
    table: str,
    *,
    enrichment: str,
    filters: str,
    config: Mapping[str, Any] | None,
    options: Mapping[str, Any] | None,
    actor: Actor,
    request: RequestKey | None,
    settings: Mapping[str, Any] | None,
    event: str,
) -> Job:
    chosen = await registry.enrichment(datasette, enrichment)
    await compat.read(db, lambda conn: keyset.table_key(conn, table))
    checked = await check_config(datasette, db, table, chosen, config or {})
    chosen_options = dataclasses.replace(check_options(options or {}), settings=dict(settings) if settings else None)
    if (chosen_options.output or chosen.output(checked)) == "shadow":
        await compat.read(db, lambda conn: owned_tables.check_shadow(conn, table))
    resolved = await selection.resolve(datasette, db, table, filters, actor)
    row_count = await selection.count(db, table, resolved)

    def insert(conn: sqlite3.Connection) -> tuple[Job, bool]:
        before = None if request is None else store.requested_job(conn, request)
        if before is not None:
            return before, False
        added = store.insert_job(
            conn,
            enrichment=chosen.slug,
            database=db.name,
            table=table,
            filters=resolved.querystring,
            selection=resolved.dump(),
            config=checked.model_dump(mode="json"),
            options=chosen_options,
            actor_id=_actor_id(actor),
            row_count=row_count,
            request=request,
            now=time.time(),
            event=event,
        )
        return added, True

    try:
        job, is_new = await compat.write(db, insert, pauses=PATIENCE)
    except compat.Busy as problem:
        raise DatabaseBusy(f"{problem}. Try again when it is done") from problem
    except sqlite3.DatabaseError as problem:
        raise BadSelection(f"The database {db.name} cannot be written: {problem}") from problem
    server.wake(datasette)
    if is_new:
        await datasette_events.announce(datasette, job, actor)
    return await _redacted(datasette, actor, job)


async def check_config(
    datasette: Any, db: Any, table: str, chosen: Enrichment, given: Mapping[str, Any]
) -> pydantic.BaseModel:
    """The enrichment's Config from what was given, guessed values where nothing was.

    :raises BadConfig: one message a field in `details`
    :raises TableTaken: when a user has made a table of a name that the enrichment would write to
    """
    columns = await compat.read(db, lambda conn: sqlite.columns(conn, table, hidden=True))
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
    folded = set(map(sqlite.fold, columns))
    details = [
        f"{name}: {table!r} has no column {getattr(config, name)!r}; its columns are {', '.join(columns)}"
        for name in fields
        if getattr(config, name) is not None and sqlite.fold(str(getattr(config, name))) not in folded
    ]
    if not details:
        try:
            chosen.check_output(config, columns)
        except ValueError as problem:
            details = [str(problem)]
    if details:
        raise BadConfig("; ".join(details), details)
    wanted = chosen.tables(config)
    if wanted:
        await compat.read(db, lambda conn: owned_tables.check(conn, wanted))
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


OPTION_LIMITS = {"batch_size": 1, "max_open_batches": 1, "max_errors": 0, "budget_100ths_cent": 0}


def check_options(given: Mapping[str, Any]) -> JobOptions:
    """:raises BadConfig: for an option that does not exist or is out of its range"""
    details = []
    for name, value in given.items():
        if name == "output":
            if value not in (None, "columns", "shadow"):
                details.append(f"output: expected columns or shadow, not {value!r}")
        elif name not in OPTION_LIMITS:
            known = ", ".join([*OPTION_LIMITS, "output"])
            details.append(f"{name}: there is no such option; options are {known}")
        elif value is not None and (
            isinstance(value, bool) or not isinstance(value, int) or not OPTION_LIMITS[name] <= value < 2**31
        ):
            details.append(f"{name}: expected a whole number of at least {OPTION_LIMITS[name]}, not {value!r}")
    if details:
        raise BadConfig("; ".join(details), details)
    return JobOptions(**given)


# ---- steering --------------------------------------------------------------------------------------------------


async def pause(datasette: Any, database: str, job_id: int, *, actor: Actor = None, reason: str | None = None) -> Job:
    """Pause the job; within a second no batch of it is at work. A person resumes it."""
    return await _move(datasette, database, job_id, JobStatus.PAUSED, actor, reason or PAUSED_BY_A_PERSON)


async def resume(datasette: Any, database: str, job_id: int, *, actor: Actor = None) -> Job:
    """Let a paused job go on. Its filters are checked again for the actor who resumes it."""
    job = await find(datasette, database, job_id, actor=actor)
    if job.status is JobStatus.PAUSED:
        db = datasette.databases[database]
        await selection.resolve(datasette, db, job.table_name, job.filter_querystring, actor)
    return await _move(datasette, database, job_id, JobStatus.PENDING, actor, None)


async def cancel(datasette: Any, database: str, job_id: int, *, actor: Actor = None) -> Job:
    """Give the job up. What was written stays."""
    return await _move(datasette, database, job_id, JobStatus.CANCELLED, actor, CANCELLED_BY_A_PERSON)


async def _move(datasette: Any, database: str, job_id: int, status: JobStatus, actor: Actor, reason: str | None) -> Job:
    job = await find(datasette, database, job_id, actor=actor)
    db = await require_table(datasette, actor, database, job.table_name)
    expected = [before for before in JobStatus if status in TRANSITIONS[before]]

    said = None if reason in (PAUSED_BY_A_PERSON, CANCELLED_BY_A_PERSON) else reason
    event = event_message(status, by=_who(actor), reason=said)

    def change(conn: sqlite3.Connection) -> Job:
        schema.migrate(conn)
        if not store.change_status(conn, job_id, expected, status, now=time.time(), reason=reason, event=event):
            now = store.get_job(conn, job_id)
            raise IllegalTransition(_why_not(now, status))
        if status is JobStatus.CANCELLED:
            store.drop_idle_batches(conn, job_id, liveness)
        return store.get_job(conn, job_id)

    try:
        moved: Job = await compat.write(db, change, pauses=PATIENCE)
    except compat.Busy as problem:
        raise DatabaseBusy(f"{problem}. Try again when it is done") from problem
    server.wake(datasette)
    if status is JobStatus.CANCELLED:
        await datasette_events.announce(datasette, moved, actor)
    return await _redacted(datasette, actor, moved)


def _why_not(job: Job, status: JobStatus) -> str:
    if job.status is status:
        return f"Job {job.id} is {status.value} already"
    verb = "resumed" if status is JobStatus.PENDING else status.value
    return f"Job {job.id} is {job.status.value}, so it cannot be {verb}"


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
        (all that may change). None means errors and what is due
    :param key: an idempotency key of the actor's: the same retry with it again gives the first one's job
    :param settings: plugin settings that come before those stored with the job, as for `start`
    :raises BadConfig: for a scope that this enrichment does not have
    :raises IllegalTransition: while the job still runs, or when no row is worth another try
    """
    job = await find(datasette, database, job_id, actor=actor)
    db = await require_table(datasette, actor, database, job.table_name)
    request = None if key is None else RequestKey.of(_actor_id(actor), key, "retry", job_id, scope)
    before = await _requested(datasette, actor, db, request)
    if before is not None:
        return before
    chosen = await registry.enrichment(datasette, job.enrichment)
    if not job.status.is_final and job.status is not JobStatus.PAUSED:
        raise IllegalTransition(f"Job {job_id} is {job.status.value}: retry it when it is over or paused")
    scopes = _retry_scopes(chosen, job, scope)
    await selection.resolve(datasette, db, job.table_name, await _own_filters(db, job), actor)
    filters = _retry_filters(job_id, scopes)
    if (
        await selection.count(
            db, job.table_name, await selection.resolve(datasette, db, job.table_name, filters, actor)
        )
        == 0
    ):
        others = "" if scope or "misses" not in _scopes(chosen, job) else ". Misses before their time: scope misses"
        raise IllegalTransition(f"Job {job_id} has no rows to try again (scope: {', '.join(scopes)}){others}")
    return await _add(
        datasette,
        db,
        job.table_name,
        enrichment=job.enrichment,
        filters=filters,
        config=chosen.retry_config(job.config, scopes),
        options={name: value for name, value in job.options.as_dict().items() if name != "settings"},
        settings={**(job.options.settings or {}), **(settings or {})},
        actor=actor,
        request=request,
        event=f"Started by {_who(actor)}, to try rows of job {job_id} again",
    )


@dataclass(frozen=True)
class RetryCounts:
    """Rows that a retry would take up: `errors` and, beside them, `due` (the scope that is meant when none is named);
    `misses`: the scope of that name. None: not known, or no such scope."""

    errors: int | None = None
    due: int | None = None
    misses: int | None = None

    @property
    def usual(self) -> int | None:
        """Rows of a retry whose scope is not named."""
        return None if self.errors is None or self.due is None else self.errors + self.due


async def retry_counts(datasette: Any, database: str, job: Job, *, actor: Actor, limit_ms: float) -> RetryCounts:
    """How many rows each kind of retry would take up, each count given up after `limit_ms`. Of a job with very many
    errors their number is taken as the job has it: some of the rows may be gone since."""
    db = datasette.databases[database]
    try:
        chosen = await registry.enrichment(datasette, job.enrichment)
        scopes = _scopes(chosen, job)
    except (JobError, ValueError):  # the enrichment is gone, or an older version's settings do not fit it
        return RetryCounts()

    async def count(*wanted: str) -> int | None:
        try:
            rows = await selection.resolve(datasette, db, job.table_name, _retry_filters(job.id, wanted), actor)
            return await selection.count(db, job.table_name, rows, limit_ms=limit_ms)
        except JobError:  # not this actor's to select, the table is gone, or it takes too long
            return None

    has_many = job.error_count > EXACTLY_COUNTED_ERRORS
    errors = job.error_count if has_many or not job.error_count else await count("errors")
    if job.done_count <= job.error_count + job.outcomes.get(HIT, 0):  # it has missed nothing
        return RetryCounts(errors, 0)
    if "due" not in scopes:
        due: int | None = 0
    elif has_many:
        due = await count("due")
    else:
        whole = await count("errors", "due")
        due = None if errors is None or whole is None else whole - errors
    return RetryCounts(errors, due, await count("misses") if "misses" in scopes else None)


def _retry_filters(job_id: int, scopes: Sequence[str]) -> str:
    if list(scopes) == ["errors"]:
        return f"_ingest_failed={job_id}"
    return urlencode([("_ingest_retry", job_id), *(("_ingest_scope", name) for name in scopes)])


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
    enrichment: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[Job]:
    """The jobs of a database that the actor may see, newest first; `before` is the last job's id of the page before."""
    db = datasette.databases.get(database)
    if db is None or compat.why_not_enrichable(db) is not None:
        return []
    visible = await visible_tables(datasette, database, actor=actor)
    if table is not None:
        visible &= {table}
    jobs = await compat.read(
        db,
        lambda conn: store.list_jobs(
            conn, tables=visible, status=status, enrichment=enrichment, before=before, limit=limit
        ),
    )
    return [await _redacted(datasette, actor, job) for job in jobs]


async def errors(
    datasette: Any,
    database: str,
    job_id: int,
    *,
    actor: Actor = None,
    after: int | None = None,
    limit: int = 100,
    like: int | None = None,
) -> list[JobErrorRow]:
    """The job's errors, oldest first; `after` is the last error's id of the page before. `like`: the id of an error;
    only those with its message."""
    await find(datasette, database, job_id, actor=actor)
    return await compat.read(
        datasette.databases[database],
        lambda conn: store.list_errors(conn, job_id, after=after, limit=limit, like=like),
    )


async def error_groups(datasette: Any, database: str, job_id: int, *, groups: int, keys: int) -> ErrorGroups:
    """The job's errors by message, `groups` messages with `keys` rows each; asks nobody's permission."""
    return await compat.read(
        datasette.databases[database], lambda conn: store.group_errors(conn, job_id, groups=groups, keys=keys)
    )


async def missed_rows(datasette: Any, database: str, job: Job, *, actor: Actor = None) -> MissedRows:
    """How the rows that the job missed are read (`missed.pages`, `missed.reasons`). Its filters are checked for the
    actor.

    :raises JobError: when the table is gone, or its rows are not this actor's to select
    """
    return await failures.missed_rows(datasette, datasette.databases[database], job, actor)


async def events(datasette: Any, database: str, job_id: int, *, limit: int) -> list[Event]:
    """The job's log, newest first; asks nobody's permission."""
    return await compat.read(datasette.databases[database], lambda conn: store.list_events(conn, job_id, limit=limit))


async def progress(datasette: Any, database: str, job_id: int) -> Progress:
    """How fast the job goes; asks nobody's permission."""
    return await compat.read(
        datasette.databases[database],
        lambda conn: store.progress(conn, store.get_job(conn, job_id), time.time()),
    )


async def visible_tables(datasette: Any, database: str, *, actor: Actor) -> set[str]:
    """The tables of the database that ever had a job and whose jobs the actor may see."""
    db = datasette.databases.get(database)
    if db is None or compat.why_not_enrichable(db) is not None:
        return set()
    tables = await compat.read(db, store.tables_with_jobs)
    return {name for name in tables if await may_see(datasette, actor, database, name)}


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
