"""The JSON side: what a job and an error look like to a program, and which POSTs a program may send."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from datasette.utils.asgi import Response

from ..jobs.errors import JobError, NotAllowed
from ..jobs.model import TRANSITIONS, Job, JobStatus
from ..jobs.service import control
from .urls import Links

JSON_TYPE = "application/json"
FORM_TYPE = "application/x-www-form-urlencoded"
START_KEYS = frozenset({"table", "enrichment", "filters", "config", "options"})
STEP_KEYS: Mapping[str, frozenset[str]] = {
    "pause": frozenset(),
    "resume": frozenset(),
    "cancel": frozenset(),
    "retry": frozenset({"scope"}),
}
"""What the body of a step may hold."""
DEFAULT_PORTS = {"http": 80, "https": 443}
MAX_BODY_BYTES = 2 * 1024 * 1024
"""The longest body that is read, in bytes; as long as the 1.0 line's own limit is unless it is set."""
MAX_KEY_LENGTH = 255


class MethodNotAllowed(JobError):
    """The page exists, but not for this HTTP method. `allowed`: those that it has."""

    status = 405

    def __init__(self, message: str, allowed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.allowed = allowed


class BodyTooLarge(JobError):
    """A body of more than MAX_BODY_BYTES."""

    status = 413


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
        "waits_until": None,
        "waits": [],
    }
    if not job.status.is_final:
        progress = await control.progress(datasette, database, job.id)
        shown["rows_per_second"] = progress.rows_per_second if job.status is JobStatus.RUNNING else None
        shown["eta_seconds"] = progress.eta_seconds
        shown["open_batches"] = progress.open_batches
        shown["waits_until"] = job.waits_until if progress.waits else None
        shown["waits"] = [dataclasses.asdict(wait) for wait in progress.waits]
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
    return answer(body, status=problem.status, headers=error_headers(problem))


def error_headers(problem: JobError) -> dict[str, str]:
    """What a refusal says in its headers: a 405 names the methods that there are (RFC 9110, 15.5.6)."""
    if not isinstance(problem, MethodNotAllowed):
        return {}
    return {"Allow": ", ".join([*problem.allowed, *(["HEAD"] if "GET" in problem.allowed else [])])}


# ---- what is taken ----------------------------------------------------------------------------------------------


def media_type(headers: Mapping[str, str]) -> str:
    """The Content-Type without its parameters, lower-cased."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def require_own_origin(headers: Mapping[str, str], scheme: str) -> None:
    """Refuse a POST that a stranger's page could have made a browser send with this visitor's cookies.

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


async def body_of(request: Any) -> bytes:
    """The whole body of a request, read no further than the limit.

    :raises BodyTooLarge: as soon as it is known to be too long
    :raises JobError: when the sender went away
    """
    too_large = BodyTooLarge(f"The body is longer than {MAX_BODY_BYTES:,} bytes")
    announced = request.headers.get("content-length", "")
    if announced.isascii() and announced.isdecimal() and int(announced[:18]) > MAX_BODY_BYTES:
        raise too_large
    body = bytearray()
    while True:
        message = await request.receive()
        if message["type"] != "http.request":
            raise JobError("The request ended before its body did")
        body += message.get("body", b"")
        if len(body) > MAX_BODY_BYTES:
            raise too_large
        if not message.get("more_body", False):
            return bytes(body)


async def form_values(request: Any) -> dict[str, str]:
    """The fields of a posted form.

    :raises JobError: 400 for what is no form, 413 for a body that is too long
    """
    try:
        text = (await body_of(request)).decode("utf-8")
        return dict(parse_qsl(text, keep_blank_values=True, errors="strict"))
    except ValueError as problem:  # UnicodeDecodeError is one
        raise JobError(f"The body is not a form: {problem}") from None


async def json_object(request: Any) -> dict[str, Any]:
    """The JSON object in the body of a request; {} where there is no body.

    :raises JobError: 400 for anything but an object, 413 for a body that is too long
    """
    body = await body_of(request)
    try:
        value = json.loads(body or b"{}", parse_constant=_no_such_number, parse_float=_finite)
        json.dumps(value, ensure_ascii=False).encode(
            "utf-8"
        )  # a lone surrogate has no UTF-8, and so no place in SQLite
    except UnicodeError:
        raise JobError("The body is not JSON: it has text that is not Unicode") from None
    except ValueError as problem:
        raise JobError(f"The body is not JSON: {problem}") from None
    except RecursionError:
        raise JobError("The body is JSON nested too deeply") from None
    if not isinstance(value, dict):
        raise JobError(f"The body must be a JSON object, not a {type(value).__name__}")
    return value


def _no_such_number(name: str) -> Any:
    raise ValueError(f"JSON has no number {name}")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def require_known_keys(body: Mapping[str, Any], known: frozenset[str]) -> None:
    """:raises JobError: 400, one message for each key that is not one of these"""
    wrong = _unknown(body, known)
    if wrong:
        raise JobError(wrong[0], wrong)


def _unknown(body: Mapping[str, Any], known: frozenset[str]) -> list[str]:
    listed = ", ".join(sorted(known))
    has = (f"the one key is {listed}" if len(known) == 1 else f"keys are {listed}") if known else "there are none"
    return [f"{key}: no such key; {has}" for key in body if key not in known]


def idempotency_key(headers: Mapping[str, str]) -> str | None:
    """The key of a request that may be sent again; None where it has none.

    The draft standard makes it a quoted string; one without quotes is the same key.
    https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/, RFC 8941, 3.3.3.

    :raises JobError: for a key that is empty, too long, or not printable ASCII
    """
    given = headers.get("idempotency-key")
    if given is None:
        return None
    text = given.strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        text = re.sub(r'\\(["\\])', r"\1", text[1:-1])
    if not 0 < len(text) <= MAX_KEY_LENGTH or not (text.isascii() and text.isprintable()):
        raise JobError(f"Idempotency-Key: expected 1 to {MAX_KEY_LENGTH} printable ASCII characters, such as a UUID")
    return text


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
    wrong = _unknown(body, START_KEYS)
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
