"""Choosing an enrichment for selected rows, its form, and the job that the form starts. Each GET also as JSON."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from datasette.utils import tilde_decode
from datasette.utils.asgi import Response
from pydantic.errors import PydanticInvalidForJsonSchema

from ..jobs import registry
from ..jobs.enrichment import Enrichment, column_fields
from ..jobs.errors import BadConfig, JobError, JobNotFound
from ..jobs.model import dollars
from ..jobs.selection import filter_arguments
from ..jobs.service import control, selection_preview
from ..jobs.service.dry_run import TRIAL_ROWS
from . import access, api, dry_run, fields, rerun, selection, ticked_rows
from .fields import Field
from .responses import database_of, only, render, wants_json
from .selection import Shown
from .ticked_rows import Picking
from .urls import Links

FIRST_ROWS = 5
"""Rows that are shown where they cannot be picked yet."""


async def choose(datasette: Any, request: Any) -> Response:
    """Pick an enrichment for the selected rows."""
    only(request, "GET")
    target = await _target(datasette, request)
    filters = filter_arguments(request.query_string)
    patience = selection_preview.PATIENT if wants_json(request) else selection_preview.BRISK
    shown = await selection.gather(
        datasette, request, target.database, target.table, filters, patience=patience, page_rows=FIRST_ROWS
    )
    links = Links(datasette)
    installed = [
        {
            "slug": enrichment.slug,
            "name": enrichment.name,
            "description": enrichment.description,
            "url": links.form(target.database, target.table, enrichment.slug, shown.whole.filters),
        }
        for enrichment in (await registry.enrichments(datasette)).values()
    ]
    if wants_json(request):
        return api.answer({**_target_json(target, shown), "enrichments": installed})
    context = {"enrichments": installed, **selection.context(links, target.database, shown)}
    return await render(datasette, request, "ingest_choose.html", context, database=target.database)


# ---- the form ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filled:
    """The form as it stands: what for, the settings that it shows (`asked`, `options`), and what is picked.

    `values` are the settings that the fields mean, by name; `key` marks this form, so that two clicks start one job.
    """

    target: access.Target
    enrichment: Enrichment
    filters: str
    asked: list[Field]
    options: list[Field]
    values: Mapping[str, Any]
    picking: Picking = field(default_factory=Picking)
    posted: Mapping[str, str] | None = None
    key: str = ""

    @property
    def job_filters(self) -> str:
        """The filters of the job that this form starts."""
        return self.picking.filters(self.filters)


async def form(datasette: Any, request: Any) -> Response:
    """The settings of one enrichment, with a preview of the selection; a POST starts the job."""
    only(request, "GET", "POST")
    if request.method == "POST":
        filled = await _posted(datasette, request)
        return await _start(datasette, request, filled)
    return await _form_page(datasette, request, await _empty(datasette, request), patience=selection_preview.BRISK)


async def preview(datasette: Any, request: Any) -> Response:
    """The form again as it was sent, its preview for these settings, on the page of rows that was asked for."""
    only(request, "POST")
    filled = await _posted(datasette, request)
    # whoever leafs through the rows waits for the rows alone
    patience = selection_preview.BRISK if ticked_rows.is_turning(filled.posted or {}) else selection_preview.PATIENT
    return await _form_page(datasette, request, filled, patience=patience)


async def attempt(datasette: Any, request: Any) -> Response:
    """The form again, with what the enrichment would write onto the first rows: nothing is written."""
    only(request, "POST")
    filled = await _posted(datasette, request)
    try:
        _refuse_too_many(filled)
        tried = await dry_run.until_gone(
            request,
            dry_run.run(
                datasette,
                request,
                filled.target,
                filled.enrichment,
                filled.job_filters,
                fields.config_from(filled.posted or {}, filled.asked),
            ),
        )
    except BadConfig as problem:
        return await _form_page(datasette, request, filled, problem=problem, patience=selection_preview.BRISK)
    return await _form_page(datasette, request, filled, trial=tried, patience=selection_preview.BRISK)


async def _start(datasette: Any, request: Any, filled: Filled) -> Response:
    posted = filled.posted or {}
    options = {name: value for name, value in fields.config_from(posted, filled.options).items() if value is not None}
    try:
        _refuse_too_many(filled)
        job = await control.start(
            datasette,
            filled.target.database,
            filled.target.table,
            enrichment=filled.enrichment.slug,
            filters=filled.job_filters,
            config=fields.config_from(posted, filled.asked),
            options=options,
            actor=request.actor,
            key=_request_key(posted),
        )
    except BadConfig as problem:
        whole = _with_wrong_options(problem, options)
        return await _form_page(datasette, request, filled, problem=whole, patience=selection_preview.BRISK)
    return Response.redirect(Links(datasette).job(filled.target.database, job.id), status=303)


def _with_wrong_options(problem: BadConfig, options: Mapping[str, Any]) -> BadConfig:
    """What is wrong with the settings, and with the job's options, which are only looked at after them."""
    try:
        control.check_options(options)
    except BadConfig as other:
        said = problem.details or [problem.message]
        return BadConfig(problem.message, list(dict.fromkeys([*said, *other.details])))
    return problem


def _request_key(posted: Mapping[str, str]) -> str | None:
    """The form's key for exactly these answers: sent twice they start one job, changed after *Back* another."""
    if not posted.get("key"):
        return None
    answers = {name: value for name, value in posted.items() if name not in ("csrftoken", ticked_rows.TRAIL)}
    return hashlib.sha256(json.dumps(answers, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def _refuse_too_many(filled: Filled) -> None:
    problem = selection.too_many(filled.picking)
    if problem is not None:
        raise BadConfig(problem.message)


async def _empty(datasette: Any, request: Any) -> Filled:
    target, enrichment = await _for_what(datasette, request)
    columns = await _columns(datasette, target)
    before = await rerun.settings(datasette, request, target.database, target.table, enrichment)
    guessed = await enrichment.defaults(datasette.databases[target.database], target.table)
    values = {**guessed, **before.config}
    filters = filter_arguments(request.query_string)
    return Filled(
        target,
        enrichment,
        filters,
        fields.fields(enrichment.Config, columns, values),
        fields.option_fields(before.options, _option_defaults(enrichment)),
        {name: value for name, value in values.items() if value is not None},
        # an address cannot hold many picked rows: a link to the form leaves them out
        Picking() if filters else Picking(before.picked),
        key=secrets.token_urlsafe(16),
    )


async def _posted(datasette: Any, request: Any) -> Filled:
    """The form as somebody sent it.

    :raises UnsupportedMediaType: for a body that is no form
    """
    target, enrichment = await _for_what(datasette, request)
    if api.media_type(request.headers) != api.FORM_TYPE:
        raise api.UnsupportedMediaType(
            f"This address takes a form. Programs start a job by POST to {Links(datasette).jobs(target.database)}"
        )
    posted = await api.form_values(request)
    asked = fields.fields(enrichment.Config, await _columns(datasette, target), {})
    options = fields.option_fields({}, _option_defaults(enrichment))
    return Filled(
        target,
        enrichment,
        filter_arguments(request.query_string),
        fields.as_posted(posted, asked),
        fields.as_posted(posted, options),
        fields.config_from(posted, asked),
        ticked_rows.from_form(posted),
        posted,
        posted.get("key") or secrets.token_urlsafe(16),
    )


async def _form_page(
    datasette: Any,
    request: Any,
    filled: Filled,
    *,
    problem: BadConfig | None = None,
    trial: Mapping[str, Any] | None = None,
    patience: selection_preview.Patience = selection_preview.PATIENT,
) -> Response:
    if wants_json(request):
        patience = selection_preview.PATIENT
    target, enrichment, asked, options = filled.target, filled.enrichment, filled.asked, filled.options
    shown = await selection.gather(
        datasette,
        request,
        target.database,
        target.table,
        filled.filters,
        picking=filled.picking,
        enrichment=enrichment,
        values=filled.values,
        patience=patience,
        rows_patience=patience if filled.posted is None else selection_preview.PATIENT,
    )
    links, filters = Links(datasette), shown.whole.filters
    if wants_json(request):
        body = {"enrichment": enrichment.slug, "defaults": _open_values(filled), "facts": shown.facts}
        return api.answer({**_target_json(target, shown), **body, "schema": _schema(enrichment)})
    elsewhere: list[str] = []
    if problem is not None:
        by_key, elsewhere = fields.field_errors(problem.details or [problem.message], [*asked, *options])
        asked, options = (fields.with_errors(group, by_key) for group in (asked, options))
    folded = [each for each in [*asked, *options] if each.advanced]
    context = {
        **selection.context(links, target.database, shown),
        "enrichment": enrichment,
        "action": links.form(target.database, target.table, enrichment.slug, filters),
        "preview_url": links.form_step(target.database, target.table, enrichment.slug, "preview", filters),
        "try_url": links.form_step(target.database, target.table, enrichment.slug, "try", filters),
        "choose_url": links.choose(target.database, target.table, filters),
        "fields": [each for each in asked if not each.advanced],
        "folded": folded,
        "unfold": any(each.error for each in folded),
        "problem": problem,
        "problems": elsewhere,
        "too_many": selection.too_many(filled.picking),
        "wrong": [each for each in [*asked, *options] if each.error is not None],
        "unguessed": _unguessed(filled),
        "trial": trial,
        "trial_rows": min(TRIAL_ROWS, shown.number or TRIAL_ROWS),
        "trial_price": _trial_price(filled, shown),
        "key": filled.key,
    }
    status = 400 if problem is not None else 200
    return await render(datasette, request, "ingest_form.html", context, database=target.database, status=status)


def _open_values(filled: Filled) -> dict[str, Any]:
    """The settings as they stand, without what is asked for as a password: an earlier job's is not told."""
    secret = {each.key for each in filled.asked if each.widget is fields.Widget.PASSWORD}
    return {name: value for name, value in filled.values.items() if name not in secret}


def _unguessed(filled: Filled) -> list[str]:
    """The labels of columns that are needed and that nothing was guessed for."""
    choosing = set(column_fields(filled.enrichment.Config))
    if filled.posted is not None:
        return []
    return [each.label for each in filled.asked if each.key in choosing and each.required and not each.value]


def _trial_price(filled: Filled, shown: Shown) -> str | None:
    """What trying the first rows will cost, where the enrichment says so and it is not nothing."""
    rows = [] if shown.rows is None else shown.rows.rows[:TRIAL_ROWS]
    cost = selection_preview.price(filled.enrichment, rows, filled.values) if rows else None
    return dollars(cost) if cost else None


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


def _target_json(target: access.Target, shown: Shown) -> dict[str, Any]:
    if shown.count is None or shown.rows is None:
        raise JobError("Counting the selected rows takes too long. Choose simpler filters")
    return {"database": target.database, "table": target.table, **selection.as_json(shown)}


async def _target(datasette: Any, request: Any) -> access.Target:
    database = database_of(datasette, request)
    table = tilde_decode(request.url_vars["table"])
    return await access.require_enrichable(datasette, request.actor, database, table)


async def _for_what(datasette: Any, request: Any) -> tuple[access.Target, Enrichment]:
    target = await _target(datasette, request)
    return target, await _enrichment(datasette, tilde_decode(request.url_vars["slug"]))


async def _columns(datasette: Any, target: access.Target) -> list[str]:
    return await selection_preview.columns_of(datasette.databases[target.database], target.table)


async def _enrichment(datasette: Any, slug: str) -> Enrichment:
    known = await registry.enrichments(datasette)
    if slug not in known:
        raise JobNotFound(f"No enrichment {slug!r} is installed. Installed: {', '.join(sorted(known)) or 'none'}")
    return known[slug]
