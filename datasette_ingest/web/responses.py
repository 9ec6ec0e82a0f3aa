"""What the pages share: how one is rendered, how a refusal looks, and how a request is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from datasette.utils import tilde_decode
from datasette.utils.asgi import Forbidden, Response

from .. import compat
from ..jobs.errors import JobError, JobNotFound
from . import api, format
from .urls import Links


async def error_page(datasette: Any, request: Any, problem: JobError) -> Response:
    """A refusal as a page that says what to do.

    :raises Forbidden: for 403, so that a plugin which offers a login instead gets its chance
    """
    if problem.status == 403:
        raise Forbidden(format.sentence(problem.message))
    details = [detail for detail in problem.details if detail != problem.message]
    context = {"problem": problem, "details": details, "jobs_url": Links(datasette).jobs()}
    page = await render(datasette, request, "ingest_error.html", context, database=None, status=problem.status)
    page.headers.update(api.error_headers(problem))
    return page


async def render(
    datasette: Any, request: Any, template: str, context: Mapping[str, Any], *, database: str | None, status: int = 200
) -> Response:
    """An HTML page. It is one actor's view of something that changes: no cache keeps it."""
    shared = {
        "asset": Links(datasette).static,
        "color": compat.database_color(datasette, database),
        "counted": format.counted,
        "sentence": format.sentence,
    }
    html = await datasette.render_template(template, {**shared, **context}, request=request)
    html = html.encode("utf-8", "backslashreplace").decode("utf-8")  # a cell, a message may hold half of a character
    return Response.html(html, status=status, headers={"Cache-Control": "private, no-store"})


async def left(request: Any) -> None:
    """Returns when the client has closed the connection. For a request whose body was read, or has none."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def only(request: Any, *methods: str) -> None:
    """:raises MethodNotAllowed: for a method that is not one of these; HEAD goes with GET; nothing is sent to `.json`"""
    if wants_json(request):
        methods = tuple(method for method in methods if method != "POST")
    if request.method not in methods and not (request.method == "HEAD" and "GET" in methods):
        raise api.MethodNotAllowed(f"{request.method} is not possible here; use {' or '.join(methods)}", methods)


def wants_json(request: Any) -> bool:
    """Whether the address ends in `.json`."""
    return bool(request.url_vars.get("format") == ".json")


def database_of(datasette: Any, request: Any) -> str:
    """The name of the database whose route stands in the URL; the route itself where there is none."""
    route: str = tilde_decode(request.url_vars["database"])
    return next((name for name, db in datasette.databases.items() if db.route == route), route)


def number_of(text: str | None, name: str) -> int | None:
    """A number from the query string; None where it is missing.

    :raises JobError: for anything else
    """
    if text is None:
        return None
    number = natural(text)
    if number is None:
        raise JobError(f"{name}: expected the number that the page before gave")
    return number


def natural(text: str) -> int | None:
    """The number that a text writes in ASCII digits, if SQLite can hold it."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 19) or int(text) >= 2**63:
        return None
    return int(text)


def job_number(request: Any) -> int:
    """The number of the job in the address.

    :raises JobNotFound: for what is no number
    """
    number = natural(request.url_vars["id"])
    if number is None:
        raise JobNotFound("There is no such job: jobs have numbers")
    return number


def query_of(pairs: Mapping[str, Any]) -> str:
    """A query string of the pairs that have a value."""
    return urlencode({key: value for key, value in pairs.items() if value is not None})
