"""The route table: addresses, views, what the API does at each; errors, and CSRF exemptions."""

from __future__ import annotations

import functools
import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from datasette.utils import add_cors_headers, tilde_decode
from datasette.utils.asgi import Response

from .. import compat
from ..jobs import registry
from ..jobs.errors import DatabaseUnavailable, JobError, JobNotFound, NotAllowed
from . import api, form, job_page, jobs_list, openapi, requests, words
from .openapi import ASKED, MOVED, READ, SENT, STARTED, Operation
from .responses import error_json, error_page

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

View = Callable[[Any, Any], Awaitable[Response]]


@dataclass(frozen=True)
class Route:
    """An address, a template such as `/-/ingest-jobs/{database}`, and its view. `read`: what a GET of the address with
    `.json` does; `change`: what a POST of JSON does. `is_page`: whether the address itself, without `.json`, exists."""

    path: str
    view: View
    read: Operation | None = None
    change: Operation | None = None
    is_page: bool = True

    @property
    def pattern(self) -> str:
        """The address as Datasette's router takes it. A name that is not encoded, and an id that is no number, match
        too: they are answered as not found."""
        names = re.sub(r"{(\w+)}", r"(?P<\1>[^/]+?)", self.path.replace(".", r"\."))
        format_ = "" if self.read is None else r"(?P<format>\.json)" + "?" * self.is_page
        return f"^{names}{format_}$"


async def describe(datasette: Any, request: Any) -> Response:
    """The OpenAPI document, for whoever may view the instance: it says nothing of any table."""
    requests.require_method(request, "GET")
    if not await compat.can_view(datasette, request.actor):
        raise NotAllowed("You may not view this Datasette")
    known = await registry.enrichments(datasette)
    described = openapi.document(operations(), known.values(), base_url=datasette.setting("base_url"))
    response = Response.json(described)
    if datasette.cors:  # as for Datasette's own public JSON, so that an editor on another site can show it
        add_cors_headers(response.headers)
    return response


JOBS, JOB = "/-/ingest-jobs/{database}", "/-/ingest-jobs/{database}/{id}"
FORM = "/-/ingest/{database}/{table}/{slug}"

ROUTES = [
    Route(
        "/-/ingest-api",
        describe,
        Operation("describe", "This document", api.Document, (403,)),
        is_page=False,
    ),
    Route("/-/ingest-words/{slug}", words.words),
    Route(
        "/-/ingest/{database}/{table}",
        form.choose,
        Operation(
            "listEnrichments",
            "The selected rows, and the enrichments to choose from",
            api.Choices,
            ASKED,
            takes_filters=True,
        ),
    ),
    Route(
        FORM,
        form.form,
        Operation(
            "getSettings",
            "The settings of one enrichment, with the values that would be guessed",
            api.Settings,
            ASKED,
            takes_filters=True,
        ),
    ),
    Route(f"{FORM}/preview", form.preview),
    Route(f"{FORM}/try", form.try_rows),
    Route(
        "/-/ingest-jobs",
        jobs_list.jobs,
        Operation("listAllJobs", "Jobs of all databases", api.Jobs, (400,), query=api.JobsQuery),
    ),
    Route(
        JOBS,
        jobs_list.jobs,
        Operation("listJobs", "Jobs of one database", api.Jobs, READ, query=api.JobsQuery),
        Operation("startJob", "Start a job", api.OneJob, (*SENT, *STARTED), status=201, body=api.Start),
    ),
    Route(JOB, job_page.job, Operation("getJob", "One job", api.OneJob, (404, 503))),
    Route(
        f"{JOB}/errors",
        job_page.errors,
        Operation(
            "listErrors", "The rows of a job that are in error", api.RowsInError, (400, 404, 503), query=api.ErrorsQuery
        ),
    ),
    Route(f"{JOB}/missed.csv", job_page.failures_csv),
    *(
        Route(
            f"{JOB}/{step}",
            job_page.step(step),
            change=Operation(f"{step}Job", step.capitalize(), api.OneJob, MOVED, body=api.Nothing),
        )
        for step in ("pause", "resume", "cancel")
    ),
    Route(
        f"{JOB}/retry",
        job_page.step("retry"),
        change=Operation(
            "retryJob",
            "Start a job over those rows of this one that are worth another try",
            api.OneJob,
            (*MOVED, *STARTED),
            status=201,
            body=api.Retry,
        ),
    ),
]
"""What `include` adds, too."""

TAKES_JSON = tuple(re.compile(route.pattern) for route in ROUTES if route.change is not None)


def include(*added: Route) -> None:
    """Add pages of another part of the plugin. They only read."""
    ROUTES.extend(added)


def operations() -> Iterator[tuple[str, str, Operation]]:
    """(path, method, operation) of everything that the API does."""
    for route in ROUTES:
        if route.read is not None:
            yield f"{route.path}.json", "get", route.read
        if route.change is not None:
            yield route.path, "post", route.change


def routes() -> list[tuple[str, View]]:
    """What `register_routes` returns."""
    return [(route.pattern, _answering(route.view)) for route in ROUTES]


def _answering(view: View) -> View:
    """The view, with the origin of every change of state checked, and errors as JSON for programs, as a page for
    people."""

    @functools.wraps(view)
    async def answered(datasette: Any, request: Any) -> Response:
        try:
            if request.method not in SAFE_METHODS:
                scheme = requests.scheme_of(datasette, request)
                trusted = compat.plugin_config(datasette).get("trusted_origins") or ()
                requests.require_own_origin(request.headers, scheme, trusted)
            return await view(datasette, request)
        except JobError as refusal:
            problem = refusal
        except sqlite3.DatabaseError as fault:
            problem = await _unavailable(datasette, request, fault)
        if _is_program(request, problem):
            return error_json(problem)
        return await error_page(datasette, request, problem)

    return answered


async def _unavailable(datasette: Any, request: Any, fault: sqlite3.DatabaseError) -> JobError:
    """A 503 for a database that cannot be used now; for those who may not view it, it does not exist. Datasette's own
    queries raise what SQLite says.

    :raises sqlite3.DatabaseError: for any other fault
    """
    db = datasette.databases.get(tilde_decode(request.url_vars.get("database", "")))
    said = fault if db is None else compat.unavailable(db, fault)
    if not isinstance(said, compat.Unavailable):
        raise fault
    if db is not None and not await compat.can_view(datasette, request.actor, db.name):
        return JobNotFound(f"There is no job {request.url_vars.get('id', '')} in {db.name}")
    return DatabaseUnavailable(str(said))


def _is_program(request: Any, problem: JobError) -> bool:
    """Whether a program reads the error: by the address, or by a body that our pages never send."""
    kind = requests.media_type(request.headers)
    return (
        bool(request.url_vars.get("format"))
        or kind == requests.JSON_TYPE
        or (request.method == "POST" and kind != requests.FORM_TYPE)
        or isinstance(problem, requests.UnsupportedMediaType)
    )


def skips_csrf(datasette: Any, scope: Mapping[str, Any]) -> bool | None:
    """What `skip_csrf` answers: True for a JSON POST to one of our addresses, whose view checks the origin."""
    if scope.get("type") != "http" or scope.get("method") != "POST":
        return None
    raw = scope.get("raw_path")  # the path as it was sent, which is what the router matches
    path = raw.decode("latin-1").partition("?")[0] if raw is not None else scope["path"]
    base_url = datasette.setting("base_url")
    if base_url != "/" and path.startswith(base_url):
        path = "/" + path[len(base_url) :]
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope.get("headers") or []}
    takes_json = any(pattern.match(path) for pattern in TAKES_JSON)
    return True if takes_json and requests.media_type(headers) == requests.JSON_TYPE else None
