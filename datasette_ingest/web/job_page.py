"""One job: its page, its errors, and the steps that a person or a program may take. Each GET also as JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from datasette.utils.asgi import Response

from .. import compat
from ..jobs import registry
from ..jobs.enrichment import Enrichment
from ..jobs.errors import IllegalTransition
from ..jobs.model import Job
from ..jobs.results_log import ErrorGroups
from ..jobs.selection import Selection
from ..jobs.service import control, queries
from ..jobs.service.control import RetryCounts
from ..jobs.service.job_json import Step, possible_steps
from ..jobs.service.outcomes import HIT, JobOutput, lasting_filters, output_of, successes_of
from ..sqlite import columns, json_cell
from ..text import counted, sentence
from . import api, failures, requests, selection, words
from .jobs_list import as_model, created
from .responses import as_json, render
from .urls import LONGEST_ADDRESS, Links, column_filter, missed_filter, query_string

ERROR_GROUPS = 20
LINKED_ROWS = 12
EVENTS_SHOWN = 50
ERRORS_A_PAGE = 100
RETRY_COUNT_LIMIT_MS = 300.0
"""A button whose count takes longer has no number."""


# ---- the page ---------------------------------------------------------------------------------------------------


async def job(datasette: Any, request: Any) -> Response:
    """One job: its progress, its outcomes, its errors, and what can be done."""
    requests.require_method(request, "GET")
    database, found = await _found(datasette, request)
    db = datasette.databases[database]
    events = await queries.events(db, found, limit=EVENTS_SHOWN + 1)
    shown = await as_model(datasette, database, found, events=events[:EVENTS_SHOWN])
    if requests.wants_json(request):
        return as_json(api.OneJob(ok=True, job=shown))
    links = Links(datasette)
    enrichment = (await registry.enrichments(datasette)).get(found.enrichment)
    groups = ErrorGroups()
    if found.error_count:
        groups = await queries.error_groups(db, found, groups=ERROR_GROUPS, keys=LINKED_ROWS)
    retries = RetryCounts()
    if found.status.is_final:
        retries = await control.retry_counts(
            datasette, database, found, actor=request.actor, limit_ms=RETRY_COUNT_LIMIT_MS
        )
    filters = found.filter_querystring
    outcomes = outcome_bars(links, database, found, enrichment)
    outcome_urls = {outcome["word"]: outcome["url"] for outcome in outcomes}
    context = {
        "job": shown.as_dict(),
        "name": enrichment.name if enrichment else found.enrichment,
        "filters": _filters_in_words(found),
        "is_long": len(filters) > LONGEST_ADDRESS,
        "is_redacted": found.hides_filters,
        "failed_rows": failed_rows(found),
        "outcomes": outcomes,
        "next_tries": next_tries(found),
        "reasons": await failures.reasons_of_job(datasette, database, found, request.actor, enrichment),
        "outcome_urls": outcome_urls,
        "missed_url": _missed_rows(links, database, found, enrichment),
        "csv_columns": await _columns_of_table(db, found.table_name) if found.status.is_final else [],
        "errors": groups,
        "has_row_pages": await queries.has_row_pages(db, found),
        "has_more_events": len(events) > EVENTS_SHOWN,
        "buttons": buttons(found, retries),
        "report_url": links.report(enrichment.report, database, found.table_name)
        if enrichment and enrichment.report
        else None,
        "rerun_url": _rerun_url(links, database, found, enrichment) if not found.hides_filters else None,
        "settings": {**found.config, **found.options.as_dict()},
    }
    return await render(datasette, request, "ingest_job.html", context, database=database)


async def _columns_of_table(db: Any, table: str) -> list[str]:
    return await compat.read(db, lambda conn: columns(conn, table))


WAITS = {"now": "in minutes", "soon": "in hours or days", "later": "in 30 days", "never": "never"}
"""How soon a miss is tried again -> in words."""


def next_tries(job: Job) -> str:
    """When the job's misses can be tried again: `3 in hours or days, 12 in 30 days`; '' where it has none."""
    return ", ".join(f"{job.retries[name]:,} {words}" for name, words in WAITS.items() if job.retries.get(name))


async def _found(datasette: Any, request: Any) -> tuple[str, Job]:
    database = requests.database_of(datasette, request)
    return database, await queries.find(datasette, database, requests.job_id_of(request), actor=request.actor)


def _filters_in_words(job: Job) -> str:
    """The job's filters as they were described at its start; as they are written where nothing is stored."""
    if not job.selection:
        return job.filter_querystring
    try:
        return Selection.load(job.selection, "").description or job.filter_querystring
    except ValueError:  # damaged: the job says so
        return job.filter_querystring


def _rerun_url(links: Links, database: str, job: Job, enrichment: Enrichment | None) -> str | None:
    """The form with this job's settings and single rows; None where its enrichment is gone or its filters are too long
    for an address."""
    filters = "" if selection.single_rows(job.filter_querystring) else job.filter_querystring
    if enrichment is None or len(filters) > LONGEST_ADDRESS:
        return None
    return links.rerun(database, job.table_name, job.enrichment, filters, job.id)


# ---- its parts as the template shows them -----------------------------------------------------------------------


def outcome_bars(links: Links, database: str, job: Job, enrichment: Enrichment | None) -> list[dict[str, Any]]:
    """The outcome words with their counts, most frequent first, each linked to its rows where a column holds them."""
    output, good = output_of(job, enrichment), successes_of(job.enrichment)
    most = max(job.outcomes.values(), default=0)
    urls = {word: _outcome_rows(links, database, job, word, output) for word in job.outcomes}
    code_column = None if output is None or output.is_shadow else output.code_column
    return [
        {
            "word": word,
            "id": "ingest-outcome-" + quote(word, safe=""),
            "count": count,
            "share": round(100 * count / most, 1) if most else 0,
            "url": urls[word],
            "kind": HIT if word in good else word if word == "error" else "other",
            "about": words.about(links, enrichment, word),
            "cases": words.cases(links, enrichment, word, job.cases, urls[word], code_column),
        }
        for word, count in sorted(job.outcomes.items(), key=lambda item: (-item[1], item[0]))
    ]


def _outcome_rows(links: Links, database: str, job: Job, word: str, output: JobOutput | None) -> str | None:
    """The table page of the job's rows with this outcome. Rows in error have none written: the job knows them."""
    if word == "error" and job.outcomes[word] == job.error_count:
        return links.table(database, job.table_name, failed_rows(job))
    if output is None or output.outcome_column is None:
        return None
    within = lasting_filters(job, output)
    within = within if len(within) <= LONGEST_ADDRESS else ""
    if not output.is_shadow:
        by_word = column_filter(output.outcome_column, word)
        return links.table(database, job.table_name, "&".join(filter(None, [within, by_word])))
    if within:  # it names columns of the source table, which a shadow table does not have
        by_job = query_string({"_ingest_job": job.id, "_ingest_status": word})
        return links.table(database, job.table_name, f"{within}&{by_job}")
    return links.table(database, output.table, column_filter(output.outcome_column, word))


def _missed_rows(links: Links, database: str, job: Job, enrichment: Enrichment | None) -> str | None:
    """The table page of the job's rows that were missed; None where no column of the table tells them."""
    output = output_of(job, enrichment)
    if output is None or output.is_shadow or output.outcome_column is None:
        return None
    within = lasting_filters(job, output)
    within = within if len(within) <= LONGEST_ADDRESS else ""
    by_word = missed_filter(output.outcome_column, successes_of(job.enrichment))
    return links.table(database, job.table_name, "&".join(filter(None, [within, by_word])))


def failed_rows(job: Job) -> str:
    """The filter that selects the rows which are in error in this job."""
    return f"_ingest_failed={job.id}"


@dataclass(frozen=True)
class Button:
    """A step that may be taken now. `scope`: which rows a retry takes; '' for the usual ones."""

    step: Step
    label: str
    scope: str = ""


def buttons(job: Job, retries: RetryCounts) -> list[Button]:
    """The buttons of the page. A retry only where there are rows to retry, with their number and kind."""
    offered = [Button(step, step.capitalize()) for step in possible_steps(job) if step != "retry"]
    if not job.status.is_final:
        return offered
    usual = _usual_retry(job, retries)
    if usual:
        offered.append(Button("retry", usual))
    if retries.misses:
        offered.append(Button("retry", f"Retry {counted(retries.misses, 'miss', 'misses')}", "misses"))
    return offered


def _usual_retry(job: Job, retries: RetryCounts) -> str:
    """The label of the retry whose scope is not named; '' where it would find no row."""
    if retries.usual is None:
        return "Retry failures" if job.error_count or retries.errors else ""
    if not retries.usual:
        return ""
    kinds = [(number, kind) for number, kind in ((retries.errors, "in error"), (retries.due, "due")) if number]
    if len(kinds) == 1:
        return f"Retry {counted(retries.usual, 'row')} {kinds[0][1]}"
    named = ", ".join(f"{number:,} {kind}" for number, kind in kinds)
    return f"Retry {retries.usual:,}: {named}"


# ---- its errors, and its rows without success -------------------------------------------------------------------


async def errors(datasette: Any, request: Any) -> Response:
    """The errors of a job, oldest first, a page at a time."""
    requests.require_method(request, "GET")
    database, found = await _found(datasette, request)
    query = api.query_of(api.ErrorsQuery, request)
    rows = await queries.errors(
        datasette.databases[database], found, after=query.next, limit=ERRORS_A_PAGE + 1, like=query.like
    )
    following = rows[ERRORS_A_PAGE - 1].id if len(rows) > ERRORS_A_PAGE else None
    rows = rows[:ERRORS_A_PAGE]
    links = Links(datasette)
    next_url = links.errors(database, found.id, like=query.like, _next=following) if following else None
    if requests.wants_json(request):
        listed = [api.RowInError.model_validate(replace(row, row_pks=_json_key(row.row_pks))) for row in rows]
        return as_json(api.RowsInError(ok=True, errors=listed, next=following, next_url=next_url))
    context = {
        "job": found,
        "rows": rows,
        "next_url": next_url,
        "has_row_pages": await queries.has_row_pages(datasette.databases[database], found),
        "is_narrowed": query.like is not None,
        "failed_rows": failed_rows(found),
    }
    return await render(datasette, request, "ingest_errors.html", context, database=database)


def _json_key(key: Any) -> Any:
    """A stored key as JSON in which nothing is lost: its large integers as text."""
    return [_json_key(part) for part in key] if isinstance(key, list) else json_cell(key)


async def failures_csv(datasette: Any, request: Any) -> Any:
    """The rows of the job without success as a CSV file."""
    requests.require_method(request, "GET")
    database, found = await _found(datasette, request)
    return await failures.csv_of_job(datasette, request, database, found)


# ---- steps ------------------------------------------------------------------------------------------------------


def step(name: Step) -> Callable[[Any, Any], Awaitable[Response]]:
    """The view that pauses, resumes, cancels or retries: a form is led to the job's page, a program gets the job."""

    async def view(datasette: Any, request: Any) -> Response:
        requests.require_method(request, "POST")
        database, _ = await _found(datasette, request)  # before the body is read: may the actor see the job?
        kind = requests.media_type(request.headers)
        if kind == requests.JSON_TYPE:
            changed = await _take(datasette, request, database, name, await requests.json_object(request))
            if name == "retry":
                return await created(datasette, database, changed)
            return as_json(api.OneJob(ok=True, job=await as_model(datasette, database, changed)))
        if kind != requests.FORM_TYPE:
            raise requests.UnsupportedMediaType("Send a form, or JSON with Content-Type: application/json")
        posted = await requests.form_values(request)
        given = {key: value for key, value in posted.items() if key != "csrftoken" and value}
        try:
            changed = await _take(datasette, request, database, name, given)
        except IllegalTransition as problem:
            # the page was out of date: show the job as it is, and why nothing was done
            datasette.add_message(request, sentence(problem.message), datasette.WARNING)
            return Response.redirect(Links(datasette).job(database, requests.job_id_of(request)), status=303)
        datasette.add_message(request, _done(name, changed), datasette.INFO)
        return Response.redirect(Links(datasette).job(database, changed.id), status=303)

    return view


async def _take(datasette: Any, request: Any, database: str, name: Step, given: Mapping[str, Any]) -> Job:
    job_id = requests.job_id_of(request)
    if name == "retry":
        scope = api.parse(api.Retry, given).scope
        key = requests.idempotency_key(request.headers)
        return await control.retry(datasette, database, job_id, actor=request.actor, scope=scope, key=key)
    api.parse(api.Nothing, given)
    take = {"pause": control.pause, "resume": control.resume, "cancel": control.cancel}[name]
    return await take(datasette, database, job_id, actor=request.actor)


def _done(name: Step, job: Job) -> str:
    if name == "retry":
        return f"This new job retries {counted(job.row_count, 'row') if job.is_counted else 'these rows'}"
    return f"Job {job.id} {({'pause': 'paused', 'resume': 'resumed', 'cancel': 'cancelled'})[name]}"
