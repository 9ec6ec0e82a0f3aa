"""Choosing an enrichment for selected rows, its form, and the job that the form starts. Each GET also as JSON."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import Any

import pydantic
from datasette.utils import tilde_decode
from datasette.utils.asgi import Response
from pydantic.errors import PydanticInvalidForJsonSchema

from ..jobs import control, registry
from ..jobs.enrichment import Enrichment
from ..jobs.errors import BadConfig, JobNotFound
from ..jobs.selection import filter_arguments
from . import access, api, forms, wording
from .links import Links
from .pages import database_of, only, render, wants_json

log = logging.getLogger(__name__)

SHOWN_ROWS = 5
LOOKED_AT_ROWS = 200
"""Rows that an enrichment's preview may draw its facts from."""


async def choose(datasette: Any, request: Any) -> Response:
    """Pick an enrichment for the selected rows."""
    only(request, "GET")
    target = await _target(datasette, request)
    filters = filter_arguments(request.query_string)
    selected = await control.select(
        datasette, target.database, target.table, filters=filters, actor=request.actor, rows=SHOWN_ROWS
    )
    links = Links(datasette)
    installed = [
        {
            "slug": enrichment.slug,
            "name": enrichment.name,
            "description": enrichment.description,
            "url": links.form(target.database, target.table, enrichment.slug, selected.querystring),
        }
        for enrichment in (await registry.enrichments(datasette)).values()
    ]
    if wants_json(request):
        return api.answer({**_target_json(target, selected), "enrichments": installed})
    context = {"enrichments": installed, **_selection_context(links, target, selected)}
    return await render(datasette, request, "ingest_choose.html", context, database=target.database)


async def form(datasette: Any, request: Any) -> Response:
    """The settings of one enrichment, with a preview of the selection; a POST starts the job."""
    only(request, "GET", "POST")
    target = await _target(datasette, request)
    enrichment = await _enrichment(datasette, tilde_decode(request.url_vars["slug"]))
    filters = filter_arguments(request.query_string)
    if request.method == "POST":
        return await _start_from_form(datasette, request, target, enrichment, filters)
    values = await enrichment.defaults(datasette.databases[target.database], target.table)
    return await _form_page(datasette, request, target, enrichment, filters, values)


async def _start_from_form(
    datasette: Any, request: Any, target: access.Target, enrichment: Enrichment, filters: str
) -> Response:
    if api.media_type(request.headers) != api.FORM_TYPE:
        raise api.UnsupportedMediaType(
            f"This address takes a form. Programs start a job by POST to {Links(datasette).jobs(target.database)}"
        )
    posted = await request.post_vars()
    selected = await _looked_at(datasette, request, target, filters)
    asked = forms.fields(enrichment.Config, selected.columns, {})
    options = forms.option_fields({}, {})
    try:
        job = await control.start(
            datasette,
            target.database,
            target.table,
            enrichment=enrichment.slug,
            filters=filters,
            config=forms.config_from(posted, asked),
            options={key: value for key, value in forms.config_from(posted, options).items() if value is not None},
            actor=request.actor,
            key=posted.get("key") or None,
        )
    except BadConfig as problem:
        return await _form_page(
            datasette, request, target, enrichment, filters, {}, posted=posted, problem=problem, selected=selected
        )
    return Response.redirect(Links(datasette).job(target.database, job.id), status=303)


async def _form_page(
    datasette: Any,
    request: Any,
    target: access.Target,
    enrichment: Enrichment,
    filters: str,
    values: Mapping[str, Any],
    *,
    posted: Mapping[str, str] | None = None,
    problem: BadConfig | None = None,
    selected: control.Preview | None = None,
) -> Response:
    selected = selected or await _looked_at(datasette, request, target, filters)
    asked = forms.fields(enrichment.Config, selected.columns, values)
    options = forms.option_fields({}, _option_defaults(enrichment))
    elsewhere: list[str] = []
    if posted is not None and problem is not None:
        by_key, elsewhere = forms.field_errors(problem.details or [problem.message], [*asked, *options])
        asked, options = (forms.as_posted(posted, group, by_key) for group in (asked, options))
    facts = await _facts(enrichment, selected, values if posted is None else forms.config_from(posted, asked))
    links = Links(datasette)
    if wants_json(request):
        body = {"enrichment": enrichment.slug, "defaults": dict(values), "facts": facts, "schema": _schema(enrichment)}
        return api.answer({**_target_json(target, selected), **body})
    folded = [field for field in [*asked, *options] if field.advanced]
    context = {
        **_selection_context(links, target, selected),
        "enrichment": enrichment,
        "action": links.form(target.database, target.table, enrichment.slug, selected.querystring),
        "choose_url": links.choose(target.database, target.table, selected.querystring),
        "fields": [field for field in asked if not field.advanced],
        "folded": folded,
        "unfold": any(field.error for field in folded),
        "problem": problem,
        "problems": elsewhere,
        "wrong": sum(field.error is not None for field in [*asked, *options]),
        "facts": facts,
        "key": (posted or {}).get("key") or secrets.token_urlsafe(16),
    }
    status = 400 if problem is not None else 200
    return await render(datasette, request, "ingest_form.html", context, database=target.database, status=status)


def _option_defaults(enrichment: Enrichment) -> dict[str, Any]:
    return {
        "batch_size": enrichment.batch_size,
        "max_open_batches": enrichment.max_open_batches,
        "max_errors": "no limit" if enrichment.default_max_errors is None else enrichment.default_max_errors,
        "budget_100ths_cent": "no limit",
    }


def _schema(enrichment: Enrichment) -> dict[str, Any] | None:
    try:
        return enrichment.Config.model_json_schema(by_alias=False)
    except PydanticInvalidForJsonSchema:
        return None


async def _facts(enrichment: Enrichment, selected: control.Preview, values: Mapping[str, Any]) -> dict[str, Any]:
    """What the enrichment says of the first rows; nothing while its settings are incomplete, or when it fails: a
    stranger's preview must not stand between a person and the form."""
    try:
        config = enrichment.Config.model_validate(dict(values))
    except pydantic.ValidationError:
        return {}
    try:
        return dict(await enrichment.preview(selected.rows, config))
    except Exception:
        log.exception("The preview of the enrichment %s failed", enrichment.slug)
        return {}


async def _looked_at(datasette: Any, request: Any, target: access.Target, filters: str) -> control.Preview:
    return await control.select(
        datasette, target.database, target.table, filters=filters, actor=request.actor, rows=LOOKED_AT_ROWS
    )


def _target_json(target: access.Target, selected: control.Preview) -> dict[str, Any]:
    rows = [{name: _json_value(value) for name, value in row.items()} for row in selected.rows[:SHOWN_ROWS]]
    return {
        "database": target.database,
        "table": target.table,
        "filters": selected.querystring,
        "count": selected.count,
        "columns": list(selected.columns),
        "rows": rows,
    }


def _json_value(value: Any) -> Any:
    return wording.cell(value) if isinstance(value, bytes) else value


def _selection_context(links: Links, target: access.Target, selected: control.Preview) -> dict[str, Any]:
    shown = selected.rows[:SHOWN_ROWS]
    return {
        "database": target.database,
        "table": target.table,
        "table_url": links.table(target.database, target.table, selected.querystring),
        "jobs_url": links.jobs(target.database),
        "count": selected.count,
        "description": selected.description,
        "columns": list(selected.columns),
        "rows": [[wording.cell(row[column]) for column in selected.columns] for row in shown],
    }


async def _target(datasette: Any, request: Any) -> access.Target:
    database = database_of(datasette, request)
    table = tilde_decode(request.url_vars["table"])
    return await access.require_enrichable(datasette, request.actor, database, table)


async def _enrichment(datasette: Any, slug: str) -> Enrichment:
    known = await registry.enrichments(datasette)
    if slug not in known:
        raise JobNotFound(f"No enrichment {slug!r} is installed. Installed: {', '.join(sorted(known)) or 'none'}")
    return known[slug]
