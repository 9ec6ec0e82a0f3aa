"""What the views read of a request: its method and address, its body, where a POST comes from."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from datasette.utils import tilde_decode

from ..jobs import registry
from ..jobs.enrichment import Enrichment
from ..jobs.errors import JobError, JobNotFound, NotAllowed, TooMany

T = TypeVar("T")

JSON_TYPE = "application/json"
FORM_TYPE = "application/x-www-form-urlencoded"
DEFAULT_PORTS = {"http": 80, "https": 443}
MAX_BODY_BYTES = 2 * 1024 * 1024
"""The longest body that is read, in bytes: the 1.0 line's own default limit."""
SMALL_BODY_BYTES = 64 * 1024
"""Bodies up to this size are received as they come, and read on the event loop."""
LARGE_BODY_SECONDS = 10.0
"""How long a large body waits until it may be received."""
BODY_SECONDS = 30.0
"""How long a body may take to arrive."""
MAX_FIELDS = 1000
"""Fields of a form that are read; ours has one for each setting and for each row of a page."""
MAX_KEY_LENGTH = 255


class MethodNotAllowed(JobError):
    """The address exists, but not for this HTTP method. `allowed`: the methods that it has."""

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


class EnrichmentNotFound(JobError):
    """No enrichment of this slug is installed."""

    status = 404


class Disconnected(JobError):
    """The client has closed the connection: nobody reads the answer."""


# ---- the address ------------------------------------------------------------------------------------------------


def require_method(request: Any, *methods: str) -> None:
    """:raises MethodNotAllowed: for another method; HEAD goes with GET, and no POST with `.json`"""
    if wants_json(request):
        methods = tuple(method for method in methods if method != "POST")
    if request.method not in methods and not (request.method == "HEAD" and "GET" in methods):
        raise MethodNotAllowed(f"This address does not take {request.method}. Use {' or '.join(methods)}", methods)


def wants_json(request: Any) -> bool:
    """Whether the address ends in `.json`."""
    return bool(request.url_vars.get("format") == ".json")


def database_of(datasette: Any, request: Any) -> str:
    """The name of the database whose route is in the address; the route itself where there is none."""
    route: str = tilde_decode(request.url_vars["database"])
    return next((name for name, db in datasette.databases.items() if db.route == route), route)


def job_id_of(request: Any) -> int:
    """:raises JobNotFound: for an id that is no number"""
    number = natural(request.url_vars["id"])
    if number is None:
        raise JobNotFound("Job not found: a job's id is a number")
    return number


async def enrichment_of(datasette: Any, request: Any) -> Enrichment:
    """:raises EnrichmentNotFound: where the address names none that is installed"""
    try:
        return await registry.enrichment(datasette, tilde_decode(request.url_vars["slug"]))
    except registry.UnknownEnrichment as problem:
        raise EnrichmentNotFound(problem.message) from None


def number_of(request: Any, name: str) -> int | None:
    """A number from the query string; None where it is missing.

    :raises JobError: for anything else
    """
    text = request.args.get(name)
    number = None if text is None else natural(text)
    if text is not None and number is None:
        raise JobError(f"{name}: expected a number, as the page before gave it")
    return number


def natural(text: str) -> int | None:
    """The number that a text writes in ASCII digits, if SQLite can hold it."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 19) or int(text) >= 2**63:
        return None
    return int(text)


def idempotency_key(headers: Mapping[str, str]) -> str | None:
    """The key of a request that may be sent again; None where it has none.

    The draft standard makes it a quoted string; the same key without quotes is accepted.
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


# ---- where a POST comes from ------------------------------------------------------------------------------------


def require_own_origin(headers: Mapping[str, str], scheme: str, trusted: Collection[str] = ()) -> None:
    """Refuse a POST that another site's page may have made a browser send, by whatever the visitor is known: cookies,
    Basic authentication, a certificate, an address. https://www.w3.org/TR/fetch-metadata/

    1. What a browser says of itself is believed first: `Sec-Fetch-Site` must be `same-origin`; without it, an `Origin`
       must be this site or a trusted one.
    2. With neither, a cookie is refused: it is a browser's.
    3. With none of the three it is a program.

    :param trusted: further origins under which visitors see this site. `null` among them counts only beside a cookie:
        then Datasette has checked the form's token, and a browser sends no JSON from an unknown origin
    :raises NotAllowed:
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        if site != "same-origin":
            raise NotAllowed(
                f"A POST must come from this site's own pages, not from Sec-Fetch-Site: {site}. "
                "Programs send neither Sec-Fetch-Site nor Origin"
            )
    elif origin is not None:
        known = {_origin(text) for text in (f"{scheme}://{headers.get('host', '')}", *trusted)} - {None}
        is_known_null = origin == "null" and "null" in trusted and "cookie" in headers
        if _origin(origin) not in known and not is_known_null:
            raise NotAllowed(
                "A POST must come from this site's own pages, not from another origin. If this is one of them, behind a "
                "proxy, the administrator names its origin in the setting trusted_origins"
            )
    elif "cookie" in headers:
        raise NotAllowed(
            "A POST with a cookie needs an Origin or Sec-Fetch-Site header; programs should use an API token"
        )


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
    """The scheme that visitors see, which a proxy may have removed."""
    return "https" if datasette.setting("force_https_urls") else str(request.scheme)


# ---- the body ---------------------------------------------------------------------------------------------------


def media_type(headers: Mapping[str, str]) -> str:
    """The Content-Type without its parameters, in lower case."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


_LARGE: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()
"""The turn of the large body that is being received and read: one at a time, so that many at once do not hold the event
loop. What the others send waits in their connections."""


@contextlib.asynccontextmanager
async def _one_large_body(request: Any) -> AsyncIterator[None]:
    """Wait for the turn of a body that is not known to be small.

    :raises TooMany: when it does not come soon
    """
    length = request.headers.get("content-length", "")
    if length.isascii() and length.isdecimal() and int(length[:18]) <= SMALL_BODY_BYTES:
        yield
        return
    turn = _LARGE.setdefault(asyncio.get_running_loop(), asyncio.Lock())
    try:
        await asyncio.wait_for(turn.acquire(), LARGE_BODY_SECONDS)
    except (asyncio.TimeoutError, TimeoutError):
        raise TooMany("Other large requests are being received. Try again in a few seconds") from None
    try:
        yield
    finally:
        turn.release()


async def _parsed(request: Any, parse: Callable[[bytes], T]) -> T:
    """What `parse` makes of the body; of a large one in a thread."""
    async with _one_large_body(request):
        try:
            body = await asyncio.wait_for(body_of(request), BODY_SECONDS)
        except (asyncio.TimeoutError, TimeoutError):
            raise JobError(f"The body did not arrive within {BODY_SECONDS:g} s") from None
        return parse(body) if len(body) <= SMALL_BODY_BYTES else await asyncio.to_thread(parse, body)


async def body_of(request: Any) -> bytes:
    """The whole body, read no further than the limit.

    :raises BodyTooLarge: as soon as it is known to be too long
    :raises JobError: when the client disconnected
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
    return await _parsed(request, _form)


def _form(body: bytes) -> dict[str, str]:
    try:
        text = body.decode("utf-8")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
        if "\0" in text or "%00" in text:
            raise ValueError("it has a NUL character")
        return _once_each(pairs)
    except ValueError as problem:  # UnicodeDecodeError is one
        raise JobError(f"The body is not a form: {problem}") from None


async def json_object(request: Any) -> dict[str, Any]:
    """The JSON object in the body; {} where there is no body.

    :raises JobError: 400 for anything but an object, 413 for a body that is too long
    """
    return await _parsed(request, _json_object)


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(
            body or b"{}", parse_constant=_no_such_number, parse_float=_finite, object_pairs_hook=_once_each
        )
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # SQLite cannot store a lone surrogate
    except UnicodeError:
        raise JobError("The body is not JSON: it has text that is not Unicode") from None
    except ValueError as problem:
        raise JobError(f"The body is not JSON: {problem}") from None
    except RecursionError:
        raise JobError("The body is JSON nested too deeply") from None
    if not isinstance(value, dict):
        raise JobError(f"The body must be a JSON object, not a {type(value).__name__}")
    return value


def _once_each(pairs: list[tuple[str, T]]) -> dict[str, T]:
    """:raises ValueError: for a key that comes twice: which of its values was meant?"""
    values = dict(pairs)
    if len(values) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"{twice[:80]!r} comes more than once")
    return values


def _no_such_number(name: str) -> Any:
    raise ValueError(f"JSON has no number {name}")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


# ---- a client that leaves ---------------------------------------------------------------------------------------


async def disconnected(request: Any) -> None:
    """Returns when the client has closed the connection. For a request whose body was read, or has none."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def while_connected(request: Any, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is cancelled when the client closes the connection.

    :raises Disconnected: then
    """
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(disconnected(request))
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Disconnected("Cancelled: the connection was closed")
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait([working, leaving])
