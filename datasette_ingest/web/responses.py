"""Answers as pages and as JSON, and how an error is shown in either."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pydantic
from datasette.utils.asgi import Forbidden, Response

from .. import compat, text
from ..jobs.errors import JobError, JobNotFound, TableNotFound, TooMany
from ..jobs.model import dollars
from ..sqlite import json_value
from . import format
from .requests import MethodNotAllowed
from .urls import Links, column_filter, key_label

HEADINGS = {
    400: "Check your request",
    404: "Not found",
    405: "Method not allowed",
    413: "Too large",
    429: "Too many at once",
}
UNCACHED = {"Cache-Control": "private, no-store"}
"""An answer is one actor's view of something that changes."""


async def render(
    datasette: Any, request: Any, template: str, context: Mapping[str, Any], *, database: str | None, status: int = 200
) -> Response:
    """A page from a template."""
    color = compat.database_color(datasette, database)
    shared = {**template_context(datasette), "database": database, "color": color}
    html = await datasette.render_template(template, {**shared, **context}, request=request)
    html = html.encode("utf-8", "backslashreplace").decode("utf-8")  # a cell or message may hold a lone surrogate
    return Response.html(html, status=status, headers=UNCACHED)


def template_context(datasette: Any) -> dict[str, Any]:
    """What every template may use: addresses, and how numbers, times and values are shown."""
    formats = (
        text.counted,
        text.duration,
        text.moment,
        text.percent,
        text.rate,
        text.sentence,
        text.total,
        format.cell,
        format.setting,
        dollars,
        column_filter,
        key_label,
    )
    named = {function.__name__: function for function in formats}
    return {"links": Links(datasette), "readable": text.name, **named}


def as_json(
    body: Mapping[str, Any] | pydantic.BaseModel, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """An answer in JSON: `ok` and the body."""
    shown = body.model_dump(by_alias=True, exclude_unset=True) if isinstance(body, pydantic.BaseModel) else body
    return Response.json(
        json_value({"ok": status < 400, **shown}), status=status, headers={**UNCACHED, **(headers or {})}
    )


def error_json(problem: JobError) -> Response:
    """An error in JSON, in the shape that both Datasette lines have."""
    body = {"error": problem.message, "errors": problem.details or [problem.message], "status": problem.status}
    return as_json(body, status=problem.status, headers=_error_headers(problem))


async def error_page(datasette: Any, request: Any, problem: JobError) -> Response:
    """An error as a page that says what to do.

    :raises Forbidden: for 403, so that a plugin can offer to sign in instead
    """
    if problem.status == 403:
        raise Forbidden(text.sentence(problem.message))
    context = {
        "problem": problem,
        "heading": HEADINGS.get(problem.status, "Not possible now"),
        "details": [detail for detail in problem.details if detail != problem.message],
        "may_be_hidden": isinstance(problem, (JobNotFound, TableNotFound)),
        "is_signed_in": request.actor is not None,
    }
    page = await render(datasette, request, "ingest_error.html", context, database=None, status=problem.status)
    page.headers.update(_error_headers(problem))
    return page


def _error_headers(problem: JobError) -> dict[str, str]:
    """A 405 names the methods that there are (RFC 9110, 15.5.6); a 429 says when to try again (RFC 6585, 4)."""
    if isinstance(problem, TooMany):
        return {"Retry-After": str(problem.retry_after)}
    if not isinstance(problem, MethodNotAllowed):
        return {}
    return {"Allow": ", ".join([*problem.allowed, *(["HEAD"] if "GET" in problem.allowed else [])])}
