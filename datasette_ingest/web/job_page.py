"""The jobs, one job, its errors, and what can be done to it. Each GET also as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datasette.utils.asgi import Response

from .. import compat
from ..jobs import registry
from ..jobs.enrichment import Enrichment
from ..jobs.errors import IllegalTransition, JobError, JobNotFound
from ..jobs.model import Job, JobStatus, dollars
from ..jobs.selection import has_free_sql
from ..jobs.service import control
from ..jobs.service.control import RetryCounts
from ..jobs.store import ErrorGroups
from . import access, api, failures, failures_csv, format, job_view, ticked_rows
from .job_view import failed_rows, row_links
from .jobs_list import Cursor, Wanted, newest
from .responses import database_of, job_number, number_of, only, query_of, render, wants_json
from .urls import LONGEST_ADDRESS, Links

ERROR_GROUPS = 20
LINKED_ROWS = 12
EVENTS_SHOWN = 50
JOBS_A_PAGE = 50
ERRORS_A_PAGE = 100
RETRY_COUNT_LIMIT_MS = 300.0
"""A count on a button is worth no longer wait than this; a button whose count takes longer has none."""

DONE_TO = {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}


async def jobs(datasette: Any, request: Any) -> Response:
    """The jobs that the actor may see, newest first, of one database or of all; a JSON POST adds one."""
    database = database_of(datasette, request) if "database" in request.url_vars else None
    if database is None:
        only(request, "GET")
    else:
        only(request, "GET", "POST")
        await access.require_database(datasette, request.actor, database)
        if request.method == "POST":
            return await _start_from_json(datasette, request, database)
    wanted = Wanted.of(request.args)
    everywhere = [name for name in datasette.databases if name not in compat.INTERNAL_DATABASES]
    databases = everywhere if database is None else [database]
    found = await newest(
        datasette, databases, request.actor, Cursor.read(request.args.get("_next")), wanted, JOBS_A_PAGE
    )
    links = Links(datasette)
    next_url = links.jobs(database, query_of(wanted.as_dict() | {"_next": found.next})) if found.next else None
    shown = [await _job_row(datasette, request, name, job) for name, job in found.jobs]
    if wants_json(request):
        return api.answer({"jobs": [row["job"] for row in shown], "next": found.next, "next_url": next_url})
    context = {
        "database": database,
        "rows": shown,
        "next_url": next_url,
        "wanted": wanted,
        "choices": await _choices(datasette, request, databases, wanted),
        "first_url": links.jobs(database, query_of(wanted.as_dict())) if request.args.get("_next") else None,
        "list_url": links.jobs(database),
        "everywhere_url": links.jobs() if database is not None else None,
        "home_url": links.database(database) if database is not None else links.instance(),
    }
    return await render(datasette, request, "ingest_jobs.html", context, database=database)


async def _choices(datasette: Any, request: Any, databases: list[str], wanted: Wanted) -> dict[str, list[Any]]:
    """What the list can be narrowed to: (value, label) pairs. What is chosen now is among them, whatever it is."""
    tables: set[str] = set()
    for name in databases:
        tables |= await control.visible_tables(datasette, name, actor=request.actor)
    known = {slug: enrichment.name for slug, enrichment in (await registry.enrichments(datasette)).items()}
    if wanted.enrichment is not None:
        known.setdefault(wanted.enrichment, wanted.enrichment)
    return {
        "status": [(status.value, status.value) for status in JobStatus],
        "table": [(table, table) for table in sorted(tables | ({wanted.table} if wanted.table else set()))],
        "enrichment": sorted(known.items(), key=lambda choice: choice[1]),
    }


async def _job_row(datasette: Any, request: Any, database: str, job: Job) -> dict[str, Any]:
    links = Links(datasette)
    return {
        "job": await api.job_object(datasette, database, job),
        "name": await _enrichment_name(datasette, job),
        "database": database,
        "url": links.job(database, job.id),
        "database_url": links.jobs(database),
        "table_url": links.table(database, job.table_name),
        "started": format.moment(job.started_at),
    }


async def _start_from_json(datasette: Any, request: Any, database: str) -> Response:
    if api.media_type(request.headers) != api.JSON_TYPE:
        raise api.UnsupportedMediaType("Send the job as JSON, with Content-Type: application/json")
    wanted = api.start_from(await api.json_object(request))
    target = await access.require_enrichable(datasette, request.actor, database, wanted.table)
    started = await control.start(
        datasette,
        database,
        target.table,
        enrichment=wanted.enrichment,
        filters=wanted.filters,
        config=wanted.config,
        options=wanted.options,
        actor=request.actor,
        key=api.idempotency_key(request.headers),
    )
    return await _created(datasette, request, database, started)


async def _created(datasette: Any, request: Any, database: str, job: Job) -> Response:
    shown = await api.job_object(datasette, database, job)
    return api.answer({"job": shown}, status=201, headers={"Location": shown["url"]})


async def job(datasette: Any, request: Any) -> Response:
    """One job: how far it is, what came out, what went wrong, and what can be done about it."""
    only(request, "GET")
    database, found = await _found(datasette, request)
    shown = await api.job_object(datasette, database, found)
    events = await control.events(datasette, database, found.id, limit=EVENTS_SHOWN + 1)
    if wants_json(request):
        return api.answer({"job": {**shown, "events": job_view.events_json(events[:EVENTS_SHOWN])}})
    links = Links(datasette)
    known = (await registry.enrichments(datasette)).get(found.enrichment)
    groups = ErrorGroups()
    if found.error_count:
        groups = await control.error_groups(datasette, database, found.id, groups=ERROR_GROUPS, keys=LINKED_ROWS)
    retries = RetryCounts()
    if found.status.is_final:
        retries = await control.retry_counts(
            datasette, database, found, actor=request.actor, limit_ms=RETRY_COUNT_LIMIT_MS
        )
    is_redacted = has_free_sql(found.filter_querystring) and found.selection is None
    outcomes = job_view.outcomes(links, database, found, known)
    addresses = {outcome["word"]: outcome["url"] for outcome in outcomes}
    context = {
        "database": database,
        "job": shown,
        "name": known.name if known else found.enrichment,
        "table_url": links.table(database, found.table_name),
        "selected_url": _selected_rows(links, database, found) if not is_redacted else None,
        "is_long": len(found.filter_querystring) > LONGEST_ADDRESS,
        "filters": format.filters_in_words(found.filter_querystring),
        "is_redacted": is_redacted,
        "json_url": links.job_json(database, found.id),
        "errors_url": links.errors(database, found.id),
        "jobs_url": links.jobs(database),
        "failed_rows_url": links.table(database, found.table_name, failed_rows(found)),
        "outcomes": outcomes,
        "why": await failures.of_job(datasette, database, found, request.actor, addresses),
        "waits": [{**wait, "until": format.moment(wait["until"])} for wait in shown["waits"]],
        "waits_until": format.moment(shown["waits_until"]),
        "groups": job_view.error_groups(links, found, groups, database),
        "grouped_of": groups.looked_at,
        "messages": groups.messages,
        "events": job_view.log(events[:EVENTS_SHOWN]),
        "log_url": links.log(database, found.id) if len(events) > EVENTS_SHOWN else None,
        "actions": {verb: links.act(database, found.id, verb) for verb in ("pause", "resume", "cancel", "retry")},
        "buttons": job_view.buttons(found, retries),
        "again_url": _again(links, database, found, known) if not is_redacted else None,
        "missed_url": links.missed(database, found.id) if shown["parts"]["other"] or found.error_count else None,
        "settings": _settings(found),
        "started": format.moment(found.started_at),
        "finished": format.moment(found.finished_at),
        "resumes": format.moment(found.resume_at),
        "rate": format.rate(shown["rows_per_second"]),
        "remaining": format.duration(shown["eta_seconds"]),
        "cost": dollars(found.cost_nanodollars) if found.cost_nanodollars else "",
    }
    return await render(datasette, request, "ingest_job.html", context, database=database)


def _selected_rows(links: Links, database: str, job: Job) -> str | None:
    """The rows that the job was about on the table's own page, if an address can hold its filters."""
    filters = job.filter_querystring
    return links.table(database, job.table_name, filters) if len(filters) <= LONGEST_ADDRESS else None


def _again(links: Links, database: str, job: Job, enrichment: Enrichment | None) -> str | None:
    """The form filled with this job's settings, and its picked rows; None where its enrichment is gone, or no address
    can hold its filters."""
    filters = "" if ticked_rows.only_picks(job.filter_querystring) else job.filter_querystring
    if enrichment is None or len(filters) > LONGEST_ADDRESS:
        return None
    return links.again(database, job.table_name, job.enrichment, filters, job.id)


def _settings(job: Job) -> list[tuple[str, str]]:
    pairs = [*job.config.items(), *job.options.as_dict().items()]
    return [(key, format.setting(value)) for key, value in pairs]


async def missed(datasette: Any, request: Any) -> Any:
    """The rows that the job missed as a CSV file."""
    only(request, "GET")
    database, found = await _found(datasette, request)
    return await failures_csv.missed_rows(datasette, request, database, found)


async def errors(datasette: Any, request: Any) -> Response:
    """The errors of a job, oldest first, a page at a time."""
    only(request, "GET")
    database, found = await _found(datasette, request)
    after, like = number_of(request.args.get("_next"), "_next"), number_of(request.args.get("like"), "like")
    rows = await control.errors(
        datasette, database, found.id, actor=request.actor, after=after, limit=ERRORS_A_PAGE + 1, like=like
    )
    following = rows[ERRORS_A_PAGE - 1].id if len(rows) > ERRORS_A_PAGE else None
    rows = rows[:ERRORS_A_PAGE]
    links = Links(datasette)
    next_url = links.errors(database, found.id, query_of({"like": like, "_next": following})) if following else None
    if wants_json(request):
        listed = [
            {
                "id": row.id,
                "created_at": row.created_at,
                "row_pks": row.row_pks,
                "error": row.error,
                "traceback": row.traceback,
            }
            for row in rows
        ]
        return api.answer({"errors": listed, "next": following, "next_url": next_url})
    context = {
        "database": database,
        "job": found,
        "job_url": links.job(database, found.id),
        "table_url": links.table(database, found.table_name),
        "failed_rows_url": links.table(database, found.table_name, failed_rows(found)),
        "rows": [
            {
                "rows": row_links(links, database, found.table_name, row.row_pks),
                "created": format.moment(row.created_at),
                "error": row.error,
                "traceback": row.traceback,
            }
            for row in rows
        ],
        "next_url": next_url,
        "is_narrowed": like is not None,
        "errors_url": links.errors(database, found.id),
    }
    return await render(datasette, request, "ingest_errors.html", context, database=database)


async def act(datasette: Any, request: Any) -> Response:
    """Pause, resume, cancel or retry a job: a form goes on to the job's page, a program gets the job."""
    only(request, "POST")
    kind = api.media_type(request.headers)
    verb = request.url_vars["verb"]
    database = database_of(datasette, request)
    if kind == api.JSON_TYPE:
        given: Mapping[str, Any] = await api.json_object(request)
    elif kind == api.FORM_TYPE:
        given = await api.form_values(request)
    else:
        raise api.UnsupportedMediaType("Send a form, or JSON with Content-Type: application/json")
    try:
        changed = await _changed(datasette, request, database, verb, given)
    except IllegalTransition as problem:
        if kind == api.JSON_TYPE:
            raise
        # a page that another tab or the job itself has overtaken: show the job as it is, and why nothing was done
        datasette.add_message(request, format.sentence(problem.message), datasette.WARNING)
        return Response.redirect(Links(datasette).job(database, job_number(request)), status=303)
    if kind == api.FORM_TYPE:
        _tell(datasette, request, verb, changed)
        return Response.redirect(Links(datasette).job(database, changed.id), status=303)
    if verb == "retry":
        return await _created(datasette, request, database, changed)
    return api.answer({"job": await api.job_object(datasette, database, changed)})


async def _changed(datasette: Any, request: Any, database: str, verb: str, given: Mapping[str, Any]) -> Job:
    job_id = job_number(request)
    if database not in datasette.databases:
        raise JobNotFound(f"There is no job {job_id} in {database} that you may see")
    api.require_known_keys({key: given[key] for key in given if key != "csrftoken"}, api.STEP_KEYS[verb])
    if verb == "retry":
        scope = given.get("scope") or None
        if scope is not None and not isinstance(scope, str):
            raise JobError("scope: expected errors, due or misses")
        key = api.idempotency_key(request.headers)
        return await control.retry(datasette, database, job_id, actor=request.actor, scope=scope, key=key)
    steps = {"pause": control.pause, "resume": control.resume, "cancel": control.cancel}
    return await steps[verb](datasette, database, job_id, actor=request.actor)


def _tell(datasette: Any, request: Any, verb: str, job: Job) -> None:
    said = (
        f"This job runs the rows again: {format.counted(job.row_count, 'row')}"
        if verb == "retry"
        else f"Job {job.id} {DONE_TO[verb]}"
    )
    datasette.add_message(request, said, datasette.INFO)


async def _found(datasette: Any, request: Any) -> tuple[str, Job]:
    database, job_id = database_of(datasette, request), job_number(request)
    if database not in datasette.databases:
        raise JobNotFound(f"There is no job {job_id} in {database} that you may see")
    return database, await control.find(datasette, database, job_id, actor=request.actor)


async def _enrichment_name(datasette: Any, job: Job) -> str:
    known = (await registry.enrichments(datasette)).get(job.enrichment)
    return known.name if known else job.enrichment
