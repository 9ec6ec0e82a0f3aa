"""The addresses: which view answers where, how a refusal leaves the house, and which POSTs need no CSRF token."""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from datasette.utils.asgi import Response

from ..jobs.errors import JobError
from . import api, form, job_page, openapi, responses

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

View = Callable[[Any, Any], Awaitable[Response]]

# A name that is not encoded, and a number that is none, are answered by us as well: as what is not there.
DATABASE = r"(?P<database>[^/]+?)"
TABLE = r"(?P<table>[^/]+?)"
SLUG = r"(?P<slug>[^/]+?)"
JOB = r"(?P<id>[^/]+?)"
FORMAT = r"(?P<format>\.json)?$"


def answering(view: View) -> View:
    """The view behind the gate that every change of state passes, its refusals told as JSON to programs and as a page
    to people."""

    @functools.wraps(view)
    async def answered(datasette: Any, request: Any) -> Response:
        try:
            if request.method not in SAFE_METHODS:
                api.require_own_origin(request.headers, api.scheme_of(datasette, request))
            return await view(datasette, request)
        except JobError as problem:
            if _is_program(request, problem):
                return api.error_answer(problem)
            return await responses.error_page(datasette, request, problem)

    return answered


def _is_program(request: Any, problem: JobError) -> bool:
    """Whether a refusal is read by a program: by the address, or by a body that no page of ours sends."""
    kind = api.media_type(request.headers)
    return (
        bool(request.url_vars.get("format"))
        or kind == api.JSON_TYPE
        or (request.method == "POST" and kind != api.FORM_TYPE)
        or isinstance(problem, api.UnsupportedMediaType)
    )


ROUTES: tuple[tuple[str, View], ...] = (
    (r"^/-/ingest-api(?P<format>\.json)$", answering(openapi.describe)),
    (rf"^/-/ingest/{DATABASE}/{TABLE}{FORMAT}", answering(form.choose)),
    (rf"^/-/ingest/{DATABASE}/{TABLE}/{SLUG}{FORMAT}", answering(form.form)),
    (rf"^/-/ingest/{DATABASE}/{TABLE}/{SLUG}/preview$", answering(form.preview)),
    (rf"^/-/ingest/{DATABASE}/{TABLE}/{SLUG}/try$", answering(form.attempt)),
    (rf"^/-/ingest-jobs{FORMAT}", answering(job_page.jobs)),
    (rf"^/-/ingest-jobs/{DATABASE}{FORMAT}", answering(job_page.jobs)),
    (rf"^/-/ingest-jobs/{DATABASE}/{JOB}{FORMAT}", answering(job_page.job)),
    (rf"^/-/ingest-jobs/{DATABASE}/{JOB}/errors{FORMAT}", answering(job_page.errors)),
    (rf"^/-/ingest-jobs/{DATABASE}/{JOB}/missed\.csv$", answering(job_page.missed)),
    (rf"^/-/ingest-jobs/{DATABASE}/{JOB}/(?P<verb>pause|resume|cancel|retry)$", answering(job_page.act)),
)

TAKES_JSON = tuple(
    re.compile(pattern)
    for pattern in (
        rf"^/-/ingest-jobs/{DATABASE}$",
        rf"^/-/ingest-jobs/{DATABASE}/{JOB}/(pause|resume|cancel|retry)$",
    )
)


def routes() -> list[tuple[str, View]]:
    """What `register_routes` returns."""
    return list(ROUTES)


def skips_csrf(datasette: Any, scope: Mapping[str, Any]) -> bool | None:
    """What `skip_csrf` answers: True for a JSON POST to one of our addresses, which checks its origin itself."""
    if scope.get("type") != "http" or scope.get("method") != "POST":
        return None
    # the path as it was sent, for so it is routed
    raw = scope.get("raw_path")
    path = raw.decode("latin-1").partition("?")[0] if raw is not None else scope["path"]
    base_url = datasette.setting("base_url")
    if base_url != "/" and path.startswith(base_url):
        path = "/" + path[len(base_url) :]
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope.get("headers") or []}
    takes_json = any(pattern.match(path) for pattern in TAKES_JSON)
    return True if takes_json and api.media_type(headers) == api.JSON_TYPE else None
