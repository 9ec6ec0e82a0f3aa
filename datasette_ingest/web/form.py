"""Choosing an enrichment for selected rows, its form, the dry run and the start. Each GET also as JSON."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from datasette.utils import tilde_decode
from datasette.utils.asgi import Response
from pydantic.errors import PydanticInvalidForJsonSchema

from ..jobs import registry
from ..jobs.enrichment import Enrichment, column_fields, successes_of
from ..jobs.errors import BadConfig, JobError
from ..jobs.model import Job, StartRequest, dollars
from ..jobs.selection import filter_arguments
from ..jobs.service import control, dry_run, permissions, queries, selection_preview
from ..jobs.service.dry_run import DryRun
from ..jobs.service.permissions import EnrichableTable
from ..jobs.service.selection_preview import QUICK_MS, SLOW_MS
from . import api, fields, requests, selection, words
from .fields import Field
from .responses import as_json, render
from .selection import Shown, TickedRows
from .urls import Links

FIRST_ROWS = 5
"""Rows that are shown where they cannot be ticked yet."""


# ---- choosing an enrichment -------------------------------------------------------------------------------------


async def choose(datasette: Any, request: Any) -> Response:
    """Choose an enrichment for the selected rows."""
    requests.require_method(request, "GET")
    table = await _table(datasette, request)
    limit_ms = SLOW_MS if requests.wants_json(request) else QUICK_MS
    shown = await selection.show(
        datasette, request, table, filter_arguments(request.query_string), limit_ms=limit_ms, page_rows=FIRST_ROWS
    )
    links = Links(datasette)
    installed = [
        api.Choice(
            slug=enrichment.slug,
            name=enrichment.name,
            description=enrichment.description,
            url=links.form(table.db.name, table.name, enrichment.slug, shown.preview.filters),
        )
        for enrichment in (await registry.enrichments(datasette)).values()
    ]
    if requests.wants_json(request):
        return as_json(api.Choices(ok=True, enrichments=installed, **selection.as_json(shown)))
    context = {"enrichments": installed, **selection.context(links, shown)}
    return await render(datasette, request, "ingest_choose.html", context, database=table.db.name)


async def _table(datasette: Any, request: Any) -> EnrichableTable:
    """:raises JobError: when the actor may not enrich the table in the address"""
    database = requests.database_of(datasette, request)
    return await permissions.require_table(datasette, request.actor, database, tilde_decode(request.url_vars["table"]))


# ---- the form ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Form:
    """The form as it is filled in: `config_fields` and `option_fields` as they show, the settings that they mean
    (`values`), the ticked rows. `posted`: what was sent; None for a new form. `key` makes two clicks start one job."""

    table: EnrichableTable
    enrichment: Enrichment
    filters: str
    config_fields: list[Field]
    option_fields: list[Field]
    values: Mapping[str, Any]
    ticked: TickedRows = field(default_factory=TickedRows)
    posted: Mapping[str, str] | None = None
    key: str = ""

    @property
    def job_filters(self) -> str:
        """The filters of the job that this form starts: the ticked rows, or where there are none the whole selection.

        :raises BadConfig: for more ticked rows than a job can have
        """
        if self.ticked.fault:
            raise BadConfig(self.ticked.fault)
        return self.ticked.querystring or self.filters

    @property
    def options(self) -> dict[str, Any]:
        given = fields.config_from(self.posted or {}, self.option_fields)
        return {name: value for name, value in given.items() if value is not None}

    @property
    def request_key(self) -> str | None:
        """The form's key for exactly these answers: sent twice they start one job, changed after *Back* another."""
        posted = self.posted or {}
        if not posted.get("key"):
            return None
        answers = {name: value for name, value in posted.items() if name not in ("csrftoken", selection.TRAIL)}
        return hashlib.sha256(json.dumps(answers, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


async def form(datasette: Any, request: Any) -> Response:
    """The settings of one enrichment, with a preview of the selection; a POST starts the job."""
    requests.require_method(request, "GET", "POST")
    if request.method != "POST":
        return await _form_page(datasette, request, await _new_form(datasette, request), limit_ms=QUICK_MS)
    filled = await _posted_form(datasette, request)
    try:
        start = StartRequest(
            filled.table.name,
            filled.enrichment.slug,
            filled.job_filters,
            filled.values,
            filled.options,
            request.actor,
            filled.request_key,
        )
        job = await control.start_on(datasette, filled.table, start)
    except BadConfig as problem:
        return await _form_page(datasette, request, filled, problem=problem, limit_ms=QUICK_MS)
    return Response.redirect(Links(datasette).job(filled.table.db.name, job.id), status=303)


async def preview(datasette: Any, request: Any) -> Response:
    """The form as it was sent, with a new preview: for these settings, on the page of rows that was asked for."""
    requests.require_method(request, "POST")
    filled = await _posted_form(datasette, request)
    # who turns pages waits for the rows only
    limit_ms = QUICK_MS if selection.is_turning(filled.posted or {}) else SLOW_MS
    return await _form_page(datasette, request, filled, limit_ms=limit_ms)


async def try_rows(datasette: Any, request: Any) -> Response:
    """The form as it was sent, with what the enrichment would write to the first rows: nothing is written."""
    requests.require_method(request, "POST")
    filled = await _posted_form(datasette, request)
    try:
        work = dry_run.run(
            datasette,
            filled.table,
            enrichment=filled.enrichment,
            filters=filled.job_filters,
            config=filled.values,
            options=filled.options,
            actor=request.actor,
        )
        tested = await requests.while_connected(request, work)
    except BadConfig as problem:
        return await _form_page(datasette, request, filled, problem=problem, limit_ms=QUICK_MS)
    return await _form_page(datasette, request, filled, tested=tested, limit_ms=QUICK_MS)


async def _new_form(datasette: Any, request: Any) -> Form:
    table = await _table(datasette, request)
    enrichment = await requests.enrichment_of(datasette, request)
    earlier = await _earlier_job(datasette, request, table, enrichment)
    values = {**await enrichment.defaults(table.db, table.name), **(earlier.config if earlier else {})}
    options = earlier.options.as_dict() if earlier else {}
    filters = filter_arguments(request.query_string)
    # an address cannot hold many rows: a link to the form leaves them out
    ticked = selection.single_rows(earlier.filter_querystring) if earlier and not filters else ()
    return Form(
        table,
        enrichment,
        filters,
        fields.fields(enrichment.Config, table.columns, values),
        fields.option_fields(options, _option_defaults(enrichment)),
        {name: value for name, value in values.items() if value is not None},
        TickedRows(ticked),
        key=secrets.token_urlsafe(16),
    )


async def _posted_form(datasette: Any, request: Any) -> Form:
    """:raises requests.UnsupportedMediaType: for a body that is no form"""
    table = await _table(datasette, request)
    enrichment = await requests.enrichment_of(datasette, request)
    if requests.media_type(request.headers) != requests.FORM_TYPE:
        raise requests.UnsupportedMediaType(
            f"This address takes a form. Programs start a job by POST to {Links(datasette).jobs(table.db.name)}"
        )
    posted = await requests.form_values(request)
    asked = fields.fields(enrichment.Config, table.columns, {})
    return Form(
        table,
        enrichment,
        filter_arguments(request.query_string),
        fields.as_posted(posted, asked),
        fields.as_posted(posted, fields.option_fields({}, _option_defaults(enrichment))),
        fields.config_from(posted, asked),
        selection.ticked_rows(posted),
        posted,
        posted.get("key") or secrets.token_urlsafe(16),
    )


def _option_defaults(enrichment: Enrichment) -> dict[str, Any]:
    return {
        "batch_size": enrichment.batch_size,
        "max_open_batches": enrichment.max_open_batches,
        "max_errors": "no limit" if enrichment.default_max_errors is None else enrichment.default_max_errors,
        "budget_100ths_cent": "no limit",
    }


async def _earlier_job(datasette: Any, request: Any, table: EnrichableTable, enrichment: Enrichment) -> Job | None:
    """The job whose settings fill the form: that of `?_again=`, or of `?_retry=` with the settings of a retry.

    :raises JobNotFound: when there is no such job, or none that the actor may see
    :raises JobError: for a job over another table or of another enrichment
    """
    name = "_retry" if "_retry" in request.args else "_again"
    job_id = requests.number_of(request, name)
    if job_id is None:
        return None
    job = await queries.find(datasette, table.db.name, job_id, actor=request.actor)
    if (job.table_name, job.enrichment) != (table.name, enrichment.slug):
        raise JobError(f"{name}: job {job_id} ran {job.enrichment} over {job.table_name}")
    return replace(job, config=dict(enrichment.retry_config(job.config, ["misses"]))) if name == "_retry" else job


# ---- the form as a page -----------------------------------------------------------------------------------------


async def _form_page(
    datasette: Any,
    request: Any,
    filled: Form,
    *,
    problem: BadConfig | None = None,
    tested: DryRun | None = None,
    limit_ms: float,
) -> Response:
    table, enrichment = filled.table, filled.enrichment
    shown = await selection.show(
        datasette,
        request,
        table,
        filled.filters,
        ticked=filled.ticked,
        enrichment=enrichment,
        values=filled.values,
        limit_ms=SLOW_MS if requests.wants_json(request) else limit_ms,
        rows_limit_ms=None if filled.posted is None else SLOW_MS,
    )
    if requests.wants_json(request):
        return as_json(_settings_json(filled, shown))
    links, filters = Links(datasette), shown.preview.filters
    asked = [*filled.config_fields, *filled.option_fields]
    other_faults: list[str] = []
    if problem is not None:
        asked, other_faults = fields.with_errors(asked, problem.details or [problem.message])
    context = {
        **selection.context(links, shown),
        "enrichment": enrichment,
        "preview_url": links.form_step(table.db.name, table.name, enrichment.slug, "preview", filters),
        "try_url": links.form_step(table.db.name, table.name, enrichment.slug, "try", filters),
        "fields": [each for each in asked if not each.advanced],
        "advanced": [each for each in asked if each.advanced],
        "wrong": [each for each in asked if each.error is not None],
        "faults": other_faults,
        "has_problem": problem is not None,
        "columns_to_choose": _columns_to_choose(filled),
        "dry_run": tested,
        "about": lambda outcome: words.about(links, enrichment, outcome),
        "good": successes_of(enrichment.slug),
        "dry_run_rows": min(dry_run.ROWS, shown.number or dry_run.ROWS),
        "dry_run_price": _dry_run_price(filled, shown),
        "key": filled.key,
    }
    status = 400 if problem is not None else 200
    return await render(datasette, request, "ingest_form.html", context, database=table.db.name, status=status)


def _settings_json(filled: Form, shown: Shown) -> api.Settings:
    secret = {each.key for each in filled.config_fields if each.widget is fields.Widget.PASSWORD}
    return api.Settings(
        ok=True,
        enrichment=filled.enrichment.slug,
        defaults={name: value for name, value in filled.values.items() if name not in secret},
        facts=None if shown.facts is None else dict(shown.facts),
        schema=_schema(filled.enrichment),
        **selection.as_json(shown),
    )


def _schema(enrichment: Enrichment) -> dict[str, Any] | None:
    try:
        return enrichment.Config.model_json_schema(by_alias=False)
    except PydanticInvalidForJsonSchema:
        return None


def _columns_to_choose(filled: Form) -> list[str]:
    """The labels of columns that are needed and that nothing was guessed for."""
    if filled.posted is not None:
        return []
    names = set(column_fields(filled.enrichment.Config))
    return [each.label for each in filled.config_fields if each.key in names and each.required and not each.value]


def _dry_run_price(filled: Form, shown: Shown) -> str | None:
    """What a dry run costs, where the enrichment says so and it is not free."""
    rows = [] if shown.rows is None else shown.rows.rows[: dry_run.ROWS]
    cost = selection_preview.price(filled.enrichment, rows, filled.values) if rows else None
    return dollars(cost) if cost else None
