"""The JSON side: what a job and an error look like to a program, and which POSTs a program may send."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from datasette.utils.asgi import Response

from ..jobs import control
from ..jobs.errors import JobError, NotAllowed
from ..jobs.model import TRANSITIONS, Job, JobStatus
from .links import Links

JSON_TYPE = "application/json"
FORM_TYPE = "application/x-www-form-urlencoded"
START_KEYS = frozenset({"table", "enrichment", "filters", "config", "options"})
DEFAULT_PORTS = {"http": 80, "https": 443}


class MethodNotAllowed(JobError):
    """The page exists, but not for this HTTP method."""

    status = 405


class UnsupportedMediaType(JobError):
    """A POST whose body is neither JSON nor a form."""

    status = 415


# ---- what is shown ----------------------------------------------------------------------------------------------


def possible(job: Job) -> list[str]:
    """What a person may do to the job in its present state."""
    if job.status.is_final:
        return ["retry"]
    following = TRANSITIONS[job.status]
    verbs = {"pause": JobStatus.PAUSED, "resume": JobStatus.PENDING, "cancel": JobStatus.CANCELLED}
    return [verb for verb, status in verbs.items() if status in following]


def parts(job: Job) -> dict[str, int]:
    """The rows that were answered, split as the bar shows them. `success` is the engine's own word for an outcome."""
    success = min(job.outcomes.get("success", 0), job.done_count)
    error = min(job.error_count, job.done_count - success)
    return {"success": success, "other": job.done_count - success - error, "error": error}


async def job_object(datasette: Any, database: str, job: Job) -> dict[str, Any]:
    """A job as JSON: every column of `_enrichment_jobs`, decoded, and what follows from them.

    A job that does not run has no rate.
    """
    shown: dict[str, Any] = {field.name: getattr(job, field.name) for field in dataclasses.fields(job)}
    shown |= {
        "status": job.status.value,
        "options": job.options.as_dict(),
        "selection": _own_selection(job),
        "percent": job.percent,
        "parts": parts(job),
        "is_final": job.status.is_final,
        "actions": possible(job),
        "url": Links(datasette).job(database, job.id),
        "rows_per_second": None,
        "eta_seconds": None,
        "open_batches": 0,
    }
    if not job.status.is_final:
        progress = await control.progress(datasette, database, job.id)
        shown["rows_per_second"] = progress.rows_per_second if job.status is JobStatus.RUNNING else None
        shown["eta_seconds"] = progress.eta_seconds
        shown["open_batches"] = progress.open_batches
    return shown


def _own_selection(job: Job) -> dict[str, Any] | None:
    """The selection as SQL, unless it may hold a person's: a retried job's is in that of its retries as well, where no
    filter shows it."""
    stored: dict[str, Any] | None = json.loads(job.selection) if job.selection else None
    return None if stored is None or stored.get("is_free_sql") else stored


def answer(body: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON response that no cache keeps: it is one actor's view of something that changes."""
    return Response.json(
        {"ok": status < 400, **body}, status=status, headers={"Cache-Control": "private, no-store", **(headers or {})}
    )


def error_answer(problem: JobError) -> Response:
    """A refusal in the shape that both Datasette lines share here."""
    body = {"error": problem.message, "errors": problem.details or [problem.message], "status": problem.status}
    return answer(body, status=problem.status)


# ---- what is taken ----------------------------------------------------------------------------------------------


def media_type(headers: Mapping[str, str]) -> str:
    """The Content-Type without its parameters, lower-cased."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def require_own_origin(headers: Mapping[str, str], scheme: str) -> None:
    """Refuse a JSON POST that a stranger's page could have made a browser send with this visitor's cookies.

    Without a cookie there is nothing to abuse. Fetch metadata: https://www.w3.org/TR/fetch-metadata/.

    :raises NotAllowed:
    """
    if "cookie" not in headers:
        return
    site = headers.get("sec-fetch-site")
    if site is not None:
        if site == "same-origin":
            return
        raise NotAllowed(f"A POST with a cookie must come from this site's own pages, not from Sec-Fetch-Site: {site}")
    origin = headers.get("origin")
    if origin is None:
        raise NotAllowed(
            "A POST with a cookie needs an Origin or Sec-Fetch-Site header; programs should use an API token"
        )
    if _origin(origin) is None or _origin(origin) != _origin(f"{scheme}://{headers.get('host', '')}"):
        raise NotAllowed("A POST with a cookie must come from this site's own pages, not from another origin")


def _origin(text: str) -> tuple[str, str, int | None] | None:
    try:
        split = urlsplit(text)
        port = split.port
    except ValueError:
        return None
    if not split.hostname:
        return None
    return split.scheme, split.hostname, port if port is not None else DEFAULT_PORTS.get(split.scheme)


def scheme_of(datasette: Any, request: Any) -> str:
    """The scheme that visitors see, which a proxy may have taken off."""
    return "https" if datasette.setting("force_https_urls") else str(request.scheme)


async def json_object(datasette: Any, request: Any) -> dict[str, Any]:
    """The JSON object in the body of a POST that may be taken.

    :raises JobError: 400 for anything but an object, 403 for a foreign origin
    """
    require_own_origin(request.headers, scheme_of(datasette, request))
    body = await request.post_body()
    try:
        value = json.loads(body or b"{}")
    except ValueError as problem:
        raise JobError(f"The body is not JSON: {problem}") from None
    except RecursionError:
        raise JobError("The body is JSON nested too deeply") from None
    if not isinstance(value, dict):
        raise JobError(f"The body must be a JSON object, not a {type(value).__name__}")
    return value


@dataclasses.dataclass(frozen=True)
class Start:
    """What a program asks for when it adds a job."""

    table: str
    enrichment: str
    filters: str
    config: dict[str, Any]
    options: dict[str, Any]


def start_from(body: Mapping[str, Any]) -> Start:
    """The body of a job's creation, checked for its shape.

    :raises JobError: 400, one message a key
    """
    wrong = [f"{key}: no such key; keys are {', '.join(sorted(START_KEYS))}" for key in body if key not in START_KEYS]
    named = ("table", "enrichment")
    wrong.extend(f"{key}: expected a name" for key in named if not isinstance(body.get(key), str) or not body[key])
    if not isinstance(body.get("filters", ""), str):
        wrong.append("filters: expected a query string, such as year__gte=2020")
    wrong.extend(
        f"{key}: expected an object" for key in ("config", "options") if not isinstance(body.get(key, {}), dict)
    )
    if wrong:
        raise JobError(wrong[0], wrong)
    return Start(
        body["table"], body["enrichment"], body.get("filters", ""), body.get("config", {}), body.get("options", {})
    )
