"""The jobs, one job, its errors, and what can be done to it. Each GET also as JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import pydantic
from datasette.utils.asgi import Response

from .. import compat
from ..jobs import control, registry
from ..jobs.enrichment import Enrichment
from ..jobs.errors import JobError, JobNotFound
from ..jobs.model import Job, JobStatus, dollars
from ..jobs.selection import has_free_sql
from ..jobs.store import JobErrorRow
from . import access, api, wording
from .links import Links, column_filter
from .listing import Cursor, newest
from .ours import SHADOW_PREFIX, ascii_lower
from .pages import database_of, number_of, only, query_of, render, wants_json

GROUPED_ERRORS = 500
LINKED_ROWS = 12
JOBS_A_PAGE = 50
ERRORS_A_PAGE = 100

RETRY_KEYS = frozenset({"scope", "csrftoken"})
MOVING_FILTERS = frozenset({"_where", "_ingest_retry", "_ingest_status"})

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
    table, status = request.args.get("table"), request.args.get("status")
    if status is not None and status not in {known.value for known in JobStatus}:
        raise JobError(f"There is no status {status!r}; write {wording.summed_up(known.value for known in JobStatus)}")
    everywhere = [name for name in datasette.databases if name not in compat.INTERNAL_DATABASES]
    databases = everywhere if database is None else [database]
    found = await newest(
        datasette, databases, request.actor, Cursor.read(request.args.get("_next")), table, status, JOBS_A_PAGE
    )
    links = Links(datasette)
    wanted = {"table": table, "status": status}
    next_url = links.jobs(database, query_of(wanted | {"_next": found.next})) if found.next else None
    shown = [await _job_row(datasette, request, name, job) for name, job in found.jobs]
    if wants_json(request):
        return api.answer({"jobs": [row["job"] for row in shown], "next": found.next, "next_url": next_url})
    context = {
        "database": database,
        "rows": shown,
        "next_url": next_url,
        "statuses": _status_links(links, database, table, status),
        "wanted_table": table,
        "all_url": links.jobs(database),
    }
    return await render(datasette, request, "ingest_jobs.html", context, database=database)


def _status_links(links: Links, database: str | None, table: str | None, status: str | None) -> list[dict[str, Any]]:
    choices = [None, *(known.value for known in JobStatus)]
    return [
        {
            "label": choice or "all",
            "url": links.jobs(database, query_of({"table": table, "status": choice})),
            "current": choice == status,
        }
        for choice in choices
    ]


async def _job_row(datasette: Any, request: Any, database: str, job: Job) -> dict[str, Any]:
    links = Links(datasette)
    return {
        "job": await api.job_object(datasette, database, job),
        "name": await _enrichment_name(datasette, job),
        "database": database,
        "url": links.job(database, job.id),
        "table_url": links.table(database, job.table_name),
        "started": wording.moment(job.started_at),
    }


async def _start_from_json(datasette: Any, request: Any, database: str) -> Response:
    if api.media_type(request.headers) != api.JSON_TYPE:
        raise api.UnsupportedMediaType("Send the job as JSON, with Content-Type: application/json")
    wanted = api.start_from(await api.json_object(datasette, request))
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
        key=request.headers.get("idempotency-key") or None,
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
    if wants_json(request):
        return api.answer({"job": shown})
    links = Links(datasette)
    known = (await registry.enrichments(datasette)).get(found.enrichment)
    failures: Sequence[JobErrorRow] = []
    if found.error_count:
        failures = await control.errors(datasette, database, found.id, actor=request.actor, limit=GROUPED_ERRORS)
    context = {
        "database": database,
        "job": shown,
        "name": known.name if known else found.enrichment,
        "table_url": links.table(database, found.table_name),
        "selected_url": links.table(database, found.table_name, found.filter_querystring),
        "filters": wording.filters_in_words(found.filter_querystring),
        "is_redacted": has_free_sql(found.filter_querystring) and found.selection is None,
        "json_url": links.job_json(database, found.id),
        "errors_url": links.errors(database, found.id),
        "jobs_url": links.jobs(database),
        "failed_rows_url": links.table(database, found.table_name, failed_rows(found)),
        "outcomes": _outcomes(links, database, found, known),
        "groups": [group.shown(links, database, found.table_name) for group in grouped(failures)],
        "grouped_of": len(failures),
        "actions": {verb: links.act(database, found.id, verb) for verb in ("pause", "resume", "cancel", "retry")},
        "buttons": _buttons(found, known),
        "settings": _settings(found),
        "started": wording.moment(found.started_at),
        "finished": wording.moment(found.finished_at),
        "resumes": wording.moment(found.resume_at),
        "rate": wording.rate(shown["rows_per_second"]),
        "remaining": wording.duration(shown["eta_seconds"]),
        "cost": dollars(found.cost_nanodollars) if found.cost_nanodollars else "",
    }
    return await render(datasette, request, "ingest_job.html", context, database=database)


@dataclass(frozen=True)
class Button:
    """A step that a person may take now. `scope`: which rows a retry is about; '' as the engine chooses."""

    verb: str
    label: str
    scope: str = ""


def _buttons(job: Job, enrichment: Enrichment | None) -> list[Button]:
    """What the page offers. A retry only where there is something to try again."""
    offered = [Button(verb, verb.capitalize()) for verb in api.possible(job) if verb != "retry"]
    if job.status.is_final and job.error_count:
        offered.append(Button("retry", "Retry failures"))
    if job.status.is_final and api.parts(job)["other"] and _knows_misses(job, enrichment):
        offered.append(Button("retry", "Retry misses", "misses"))
    return offered


def _knows_misses(job: Job, enrichment: Enrichment | None) -> bool:
    config = _config(job, enrichment)
    return bool(enrichment and config and enrichment.retry_where(config, job.table_name, "misses"))


def _config(job: Job, enrichment: Enrichment | None) -> pydantic.BaseModel | None:
    """The job's settings; None where its enrichment is gone or an older version wrote them."""
    try:
        return enrichment.Config.model_validate(job.config) if enrichment else None
    except pydantic.ValidationError:
        return None


def _outcomes(links: Links, database: str, job: Job, enrichment: Enrichment | None) -> list[dict[str, Any]]:
    """The outcome words with their counts, most frequent first, each linked to its rows where a column holds them."""
    home = _outcome_home(job, enrichment)
    most = max(job.outcomes.values(), default=0)
    return [
        {
            "word": word,
            "count": count,
            "share": round(100 * count / most, 1) if most else 0,
            "url": _outcome_rows(links, database, job, word, home),
            "kind": word if word in ("success", "error") else "other",
        }
        for word, count in sorted(job.outcomes.items(), key=lambda item: (-item[1], item[0]))
    ]


def _outcome_rows(links: Links, database: str, job: Job, word: str, home: OutcomeHome | None) -> str | None:
    """The table page of the job's rows with this outcome. Rows in error have no outcome written: the job knows them."""
    if word == "error" and job.outcomes[word] == job.error_count:
        return links.table(database, job.table_name, failed_rows(job))
    if home is None:
        return None
    within = lasting_filters(job.filter_querystring, home.written)
    if home.table == job.table_name:
        return links.table(database, home.table, _joined(within, column_filter(home.column, word)))
    if within:  # it names columns of the source table, which a shadow table does not have
        by_job = query_of({"_ingest_job": job.id, "_ingest_status": word})
        return links.table(database, job.table_name, _joined(within, by_job))
    return links.table(database, home.table, column_filter(home.column, word))


def _joined(*querystrings: str) -> str:
    return "&".join(filter(None, querystrings))


def lasting_filters(querystring: str, written: Collection[str]) -> str:
    """The filters of a job, if they select the same rows after it as before: '' where one of them depends on a column
    that the job writes, on what is due, or on SQL of a person's own, which may depend on either."""
    changing = {ascii_lower(column) for column in written}
    for key, _ in parse_qsl(querystring, keep_blank_values=True):
        column = ascii_lower(key)
        if key in MOVING_FILTERS or column in changing or column.rpartition("__")[0] in changing:
            return ""
    return querystring


def failed_rows(job: Job) -> str:
    """The filter that selects the rows which are in error in this job."""
    return f"_ingest_failed={job.id}"


@dataclass(frozen=True)
class OutcomeHome:
    """The table and column in which each row's outcome stands, and the columns that are known to be written there."""

    table: str
    column: str
    written: frozenset[str]


def _outcome_home(job: Job, enrichment: Enrichment | None) -> OutcomeHome | None:
    """Where the outcomes of this job stand; None where its enrichment writes none."""
    config = _config(job, enrichment)
    if enrichment is None or config is None:
        return None
    output = job.options.output or enrichment.output(config)
    homes = {"columns": job.table_name, "shadow": SHADOW_PREFIX + job.table_name}
    table, column = homes.get(output), enrichment.outcome_column(config)
    if table is None or column is None:
        return None
    return OutcomeHome(table, column, frozenset({column, *enrichment.column_types(config)}))


def _settings(job: Job) -> list[tuple[str, str]]:
    pairs = [*job.config.items(), *job.options.as_dict().items()]
    return [(key, wording.setting(value)) for key, value in pairs]


@dataclass(frozen=True)
class ErrorGroup:
    """Errors of one message: their rows' keys and the first traceback among them."""

    message: str
    keys: tuple[Any, ...]
    traceback: str | None

    def shown(self, links: Links, database: str, table: str) -> dict[str, Any]:
        linked = [{"label": key_label(key), "url": links.row(database, table, key)} for key in self.keys[:LINKED_ROWS]]
        return {
            "message": self.message,
            "count": len(self.keys),
            "rows": linked,
            "more": len(self.keys) - len(linked),
            "traceback": self.traceback,
        }


def grouped(errors: Sequence[JobErrorRow]) -> list[ErrorGroup]:
    """The errors by message, the most frequent first."""
    by_message: dict[str, list[JobErrorRow]] = {}
    for error in errors:
        by_message.setdefault(error.error or "No message", []).append(error)
    groups = [
        ErrorGroup(
            message,
            tuple(key for error in same for key in error.row_pks),
            next((error.traceback for error in same if error.traceback), None),
        )
        for message, same in by_message.items()
    ]
    return sorted(groups, key=lambda group: -len(group.keys))


def key_label(key: Any) -> str:
    """A row's key for reading: parts joined by commas, NULL spelled out."""
    parts = key if isinstance(key, (list, tuple)) else [key]
    return ", ".join("NULL" if part is None else wording.cell(part) for part in parts)


async def errors(datasette: Any, request: Any) -> Response:
    """The errors of a job, oldest first, a page at a time."""
    only(request, "GET")
    database, found = await _found(datasette, request)
    after = number_of(request.args.get("_next"), "_next")
    rows = await control.errors(
        datasette, database, found.id, actor=request.actor, after=after, limit=ERRORS_A_PAGE + 1
    )
    following = rows[ERRORS_A_PAGE - 1].id if len(rows) > ERRORS_A_PAGE else None
    rows = rows[:ERRORS_A_PAGE]
    links = Links(datasette)
    next_url = links.errors(database, found.id, query_of({"_next": following})) if following else None
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
                "rows": [
                    {"label": key_label(key), "url": links.row(database, found.table_name, key)} for key in row.row_pks
                ],
                "created": wording.moment(row.created_at),
                "error": row.error,
                "traceback": row.traceback,
            }
            for row in rows
        ],
        "next_url": next_url,
    }
    return await render(datasette, request, "ingest_errors.html", context, database=database)


async def act(datasette: Any, request: Any) -> Response:
    """Pause, resume, cancel or retry a job: a form goes on to the job's page, a program gets the job."""
    only(request, "POST")
    kind = api.media_type(request.headers)
    verb = request.url_vars["verb"]
    database = database_of(datasette, request)
    if kind == api.JSON_TYPE:
        given = await api.json_object(datasette, request)
    elif kind == api.FORM_TYPE:
        given = await request.post_vars()
    else:
        raise api.UnsupportedMediaType("Send a form, or JSON with Content-Type: application/json")
    changed = await _changed(datasette, request, database, verb, given)
    if kind == api.FORM_TYPE:
        _tell(datasette, request, verb, changed)
        return Response.redirect(Links(datasette).job(database, changed.id), status=303)
    if verb == "retry":
        return await _created(datasette, request, database, changed)
    return api.answer({"job": await api.job_object(datasette, database, changed)})


async def _changed(datasette: Any, request: Any, database: str, verb: str, given: Mapping[str, Any]) -> Job:
    job_id = int(request.url_vars["id"])
    if database not in datasette.databases:
        raise JobNotFound(f"There is no job {job_id} in {database} that you may see")
    if verb == "retry":
        unknown = [key for key in given if key not in RETRY_KEYS]
        if unknown:
            raise JobError(f"{unknown[0]}: no such key; the one key is scope")
        scope = given.get("scope") or None
        if scope is not None and not isinstance(scope, str):
            raise JobError("scope: expected errors, due or misses")
        return await control.retry(datasette, database, job_id, actor=request.actor, scope=scope)
    steps = {"pause": control.pause, "resume": control.resume, "cancel": control.cancel}
    return await steps[verb](datasette, database, job_id, actor=request.actor)


def _tell(datasette: Any, request: Any, verb: str, job: Job) -> None:
    said = (
        f"This job runs the rows again: {wording.counted(job.row_count, 'row')}"
        if verb == "retry"
        else f"Job {job.id} {DONE_TO[verb]}"
    )
    datasette.add_message(request, said, datasette.INFO)


async def _found(datasette: Any, request: Any) -> tuple[str, Job]:
    database, job_id = database_of(datasette, request), int(request.url_vars["id"])
    if database not in datasette.databases:
        raise JobNotFound(f"There is no job {job_id} in {database} that you may see")
    return database, await control.find(datasette, database, job_id, actor=request.actor)


async def _enrichment_name(datasette: Any, job: Job) -> str:
    known = (await registry.enrichments(datasette)).get(job.enrichment)
    return known.name if known else job.enrichment
