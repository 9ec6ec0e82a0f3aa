"""The API described to programs: an OpenAPI 3.1 document, made from the models that the routes answer with.

https://spec.openapis.org/oas/v3.1.0
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any, Literal, get_type_hints

import pydantic
from datasette.utils import add_cors_headers
from datasette.utils.asgi import Response
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from .. import compat
from ..jobs import registry
from ..jobs.enrichment import Enrichment
from ..jobs.errors import NotAllowed
from ..jobs.model import Job, JobOptions, JobStatus
from ..jobs.service import control
from . import api
from .responses import only

Schema = dict[str, Any]

REFERENCE = "#/components/schemas/{model}"


async def describe(datasette: Any, request: Any) -> Response:
    """The document, for whoever may view the instance: it holds nothing of any table."""
    only(request, "GET")
    if not await compat.can_view_instance(datasette, request.actor):
        raise NotAllowed("You may not view this Datasette")
    known = await registry.enrichments(datasette)
    response = Response.json(document(known.values(), base_url=datasette.setting("base_url")))
    if datasette.cors:  # as Datasette's own public JSON, so that an editor on another site can show it
        add_cors_headers(response.headers)
    return response


# ---- what is answered -------------------------------------------------------------------------------------------


class Parts(pydantic.BaseModel):
    """The rows answered, split as the bar shows them."""

    success: int
    other: int
    error: int


class StoredSelection(pydantic.BaseModel):
    """The filters as SQL with named parameters, each value as JSON text of a typed list of one."""

    where: str
    params: dict[str, str]
    is_free_sql: bool
    columns: list[str]


class Logged(pydantic.BaseModel):
    """A line of a job's log; `at` is an ISO time, null where another program wrote it without one."""

    at: str | None
    message: str


class Waiting(pydantic.BaseModel):
    """Rows that wait for one reason; `until` is the ISO time at which the first of them is tried again."""

    reason: str
    until: str
    rows: int


class Derived(pydantic.BaseModel):
    """A job: the columns of its row in `_enrichment_jobs`, JSON decoded, and what follows from them."""

    options: JobOptions
    selection: StoredSelection | None = pydantic.Field(
        description="The filters as SQL; null where they may hold SQL of a person's own"
    )
    percent: float = pydantic.Field(ge=0, le=100, description="Share of the rows that are answered")
    parts: Parts
    is_final: bool = pydantic.Field(description="True when it is finished or cancelled: stop asking")
    actions: list[Literal["pause", "resume", "cancel", "retry"]] = pydantic.Field(
        description="What may be done to it now"
    )
    url: str = pydantic.Field(description="The address of its page")
    rows_per_second: float | None = pydantic.Field(description="How fast it goes; null where it does not run")
    eta_seconds: float | None = pydantic.Field(description="How long it may still take; null where that is not known")
    open_batches: int = pydantic.Field(description="Reservations at work")
    waits_until: str | None = pydantic.Field(
        description="Where all remaining rows wait: the ISO time at which the first of them is tried again"
    )
    waits: list[Waiting] = pydantic.Field(
        description="What rows of it wait for, at most 10 reasons, those of the most rows first"
    )
    events: list[Logged] = pydantic.Field(
        default=[], description="The last lines of its log, newest first; only where one job was asked for"
    )


def _job_model() -> type[pydantic.BaseModel]:
    """A job as `api.job_object` shows it: every field of the engine's Job, the decoded ones as they are shown."""
    stored = {name: (hint, ...) for name, hint in get_type_hints(Job).items() if name not in Derived.model_fields}
    model: type[pydantic.BaseModel] = pydantic.create_model("Job", __base__=Derived, **stored)  # type: ignore[call-overload]
    return model


JobShown = _job_model()


class Refusal(pydantic.BaseModel):
    """Why a request was not met. `errors` has one message for each thing that is wrong, which begins with its name."""

    ok: Literal[False]
    error: str
    errors: list[str]
    status: int


class Answer(pydantic.BaseModel):
    ok: Literal[True]


class OneJob(Answer):
    job: JobShown  # type: ignore[valid-type]


class Jobs(Answer):
    """A page of jobs, newest first. `next` and `next_url` lead to the following one; null on the last."""

    jobs: list[JobShown]  # type: ignore[valid-type]
    next: str | None
    next_url: str | None


class RowInError(pydantic.BaseModel):
    """A row that could not be enriched. `row_pks` lists its key: one value, or a list of them for a compound key."""

    id: int
    created_at: str
    row_pks: list[Any]
    error: str
    traceback: str | None


class RowsInError(Answer):
    """A page of a job's errors, oldest first."""

    errors: list[RowInError]
    next: int | None
    next_url: str | None


class Selected(Answer):
    """What filters select of a table: the exact count, and the first rows."""

    database: str
    table: str
    filters: str
    count: int
    columns: list[str]
    rows: list[dict[str, Any]]


class Choice(pydantic.BaseModel):
    slug: str
    name: str
    description: str
    url: str


class Choices(Selected):
    enrichments: list[Choice]


class Settings(Selected):
    """The settings of one enrichment, with the values that would be guessed where none is given."""

    enrichment: str
    defaults: dict[str, Any]
    facts: dict[str, Any] = pydantic.Field(description="What the enrichment says of the first rows: label -> value")
    json_schema: dict[str, Any] | None = pydantic.Field(
        alias="schema", description="JSON Schema of `config`; null where its types have none"
    )


class Retry(pydantic.BaseModel):
    """Which rows to try again; without a scope, those in error and those that are due."""

    model_config = pydantic.ConfigDict(extra="forbid")

    scope: Literal["errors", "due", "misses"] | None = None


class Nothing(pydantic.BaseModel):
    """An empty object."""

    model_config = pydantic.ConfigDict(extra="forbid")


class Untitled(GenerateJsonSchema):
    """Fields under their own names: a title that is made from the name says nothing more."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


ANSWERS = (Refusal, OneJob, Jobs, RowsInError, Choices, Settings, Retry, Nothing)


# ---- which requests there are -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Operation:
    """One request. `answer` names a schema; `refusals` are the statuses that a well-formed request may get instead."""

    path: str
    method: Literal["get", "post"]
    name: str
    summary: str
    answer: str
    refusals: tuple[int, ...]
    status: int = 200
    query: tuple[str, ...] = ()
    body: str | None = None


SENT = (400, 403, 404, 413, 415, 503)
STEPPED = (*SENT, 409)
OPERATIONS = (
    Operation("/-/ingest-api.json", "get", "describe", "This document", "Document", (403,)),
    Operation(
        "/-/ingest/{database}/{table}.json",
        "get",
        "listEnrichments",
        "The selected rows, and the enrichments to choose from",
        "Choices",
        (400, 403, 404),
        query=("Filters",),
    ),
    Operation(
        "/-/ingest/{database}/{table}/{slug}.json",
        "get",
        "getSettings",
        "The settings of one enrichment, with the values that would be guessed",
        "Settings",
        (400, 403, 404),
        query=("Filters",),
    ),
    Operation(
        "/-/ingest-jobs.json",
        "get",
        "listAllJobs",
        "Jobs of all databases",
        "Jobs",
        (400,),
        query=("OfTable", "OfStatus", "OfEnrichment", "NextJobs"),
    ),
    Operation(
        "/-/ingest-jobs/{database}.json",
        "get",
        "listJobs",
        "Jobs of one database",
        "Jobs",
        (400, 403, 404),
        query=("OfTable", "OfStatus", "OfEnrichment", "NextJobs"),
    ),
    Operation(
        "/-/ingest-jobs/{database}", "post", "startJob", "Start a job", "OneJob", (*SENT, 422), status=201, body="Start"
    ),
    Operation("/-/ingest-jobs/{database}/{id}.json", "get", "getJob", "One job", "OneJob", (404,)),
    Operation(
        "/-/ingest-jobs/{database}/{id}/errors.json",
        "get",
        "listErrors",
        "The rows of a job that are in error",
        "RowsInError",
        (400, 404),
        query=("LikeError", "NextErrors"),
    ),
    Operation("/-/ingest-jobs/{database}/{id}/pause", "post", "pauseJob", "Pause", "OneJob", STEPPED, body="Nothing"),
    Operation(
        "/-/ingest-jobs/{database}/{id}/resume", "post", "resumeJob", "Resume", "OneJob", STEPPED, body="Nothing"
    ),
    Operation(
        "/-/ingest-jobs/{database}/{id}/cancel", "post", "cancelJob", "Cancel", "OneJob", STEPPED, body="Nothing"
    ),
    Operation(
        "/-/ingest-jobs/{database}/{id}/retry",
        "post",
        "retryJob",
        "Start a job over those rows of this one that are worth another try",
        "OneJob",
        (*STEPPED, 422),
        status=201,
        body="Retry",
    ),
)

MEANINGS = {
    400: "Something in the request is wrong; `errors` names it",
    403: "Not allowed",
    404: "Not there, or not to be seen",
    409: "The job's state does not permit it",
    413: f"The body is longer than {api.MAX_BODY_BYTES} bytes",
    415: "The body is not JSON",
    422: "The idempotency key came with another request before",
    503: "Another program holds the database's lock: try again",
}

ENCODED = r"^([A-Za-z0-9_-]|\+|~[0-9A-F]{2})+$"
"""A name in Datasette's tilde-encoding: https://docs.datasette.io/en/stable/internals.html#tilde-encoding"""


def _in_path(name: str, description: str, schema: Schema) -> Schema:
    return {"name": name, "in": "path", "required": True, "description": description, "schema": schema}


def _in_query(name: str, description: str, schema: Schema) -> Schema:
    return {"name": name, "in": "query", "description": description, "schema": schema}


PARAMETERS: Mapping[str, Schema] = {
    "database": _in_path("database", "The database, tilde-encoded", {"type": "string", "pattern": ENCODED}),
    "table": _in_path("table", "The table, tilde-encoded", {"type": "string", "pattern": ENCODED}),
    "slug": _in_path("slug", "The enrichment's slug, tilde-encoded", {"type": "string", "pattern": ENCODED}),
    "id": _in_path("id", "The job's number", {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}),
    "Filters": {
        **_in_query(
            "filters",
            "Which rows, as on the table's own page: `column=value`, `column__gte=5`, `_search=word`. None: all rows",
            {"type": "object", "additionalProperties": {"type": "string"}},
        ),
        "style": "form",
        "explode": True,
    },
    "OfTable": _in_query("table", "Only jobs of this table", {"type": "string"}),
    "OfStatus": _in_query(
        "status", "Only jobs in this state", {"type": "string", "enum": [status.value for status in JobStatus]}
    ),
    "NextJobs": _in_query("_next", "`next` of the page before", {"type": "string"}),
    "OfEnrichment": _in_query("enrichment", "Only jobs of the enrichment of this slug", {"type": "string"}),
    "LikeError": _in_query(
        "like",
        "The `id` of an error: only those with its message",
        {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    ),
    "NextErrors": _in_query(
        "_next", "`next` of the page before", {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
    ),
    "IdempotencyKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "A text of your own, such as a UUID: the same request with it again gives the same job",
        "schema": {"type": "string", "minLength": 1, "maxLength": api.MAX_KEY_LENGTH, "pattern": "^[!-~]+$"},
    },
}


# ---- the document -----------------------------------------------------------------------------------------------


def document(enrichments: Iterable[Enrichment], *, base_url: str = "/") -> Schema:
    """The OpenAPI document of an instance that has these enrichments, at this `base_url`."""
    paths: dict[str, Schema] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "datasette-ingest",
            "version": version("datasette-ingest"),
            "description": "Enrichment jobs over the rows of tables: start, follow and steer them. Whoever calls needs "
            "the permission enrich-table on the table, and must be allowed to view it.",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base_url.rstrip("/") or "/"}],
        "security": [{"token": []}, {"cookie": []}, {}],
        "paths": paths,
        "components": {
            "schemas": _schemas(enrichments),
            "parameters": dict(PARAMETERS),
            "responses": {str(status): _refusal(meaning) for status, meaning in MEANINGS.items()},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "An API token, as Datasette has them"},
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "ds_actor",
                    "description": "A visitor who is signed in. A POST with a cookie must come from this site's pages",
                },
            },
        },
    }


def _operation(operation: Operation) -> Schema:
    names = [*re.findall(r"{(\w+)}", operation.path), *operation.query]
    if operation.status == 201:
        names.append("IdempotencyKey")
    described: Schema = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in names],
        "responses": {
            str(operation.status): _success(operation),
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(operation.refusals)},
        },
    }
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": _json(operation.body)}
    return described


def _success(operation: Operation) -> Schema:
    if operation.status != 201:
        return {"description": operation.summary, "content": _json(operation.answer)}
    location = {"description": "The new job's page", "schema": {"type": "string", "format": "uri-reference"}}
    return {"description": "A new job", "content": _json(operation.answer), "headers": {"Location": location}}


def _refusal(meaning: str) -> Schema:
    return {"description": meaning, "content": _json("Refusal")}


def _json(schema: str) -> Schema:
    return {api.JSON_TYPE: {"schema": {"$ref": REFERENCE.format(model=schema)}}}


def _schemas(enrichments: Iterable[Enrichment]) -> Schema:
    modes: list[Any] = [(model, "serialization") for model in ANSWERS]
    _, shared = models_json_schema(modes, ref_template=REFERENCE, schema_generator=Untitled)
    schemas: Schema = {**shared["$defs"], "Document": {"type": "object", "description": "An OpenAPI document"}}
    starts: dict[str, Schema] = {}
    for enrichment in enrichments:
        component = component_name(enrichment.slug)
        own = _config_schemas(enrichment, f"Config.{component}")
        schemas |= own
        starts[f"Start.{component}"] = _start(enrichment, f"Config.{component}")
    schemas |= {**starts, "Options": _options()}
    mapping = {
        start["properties"]["enrichment"]["const"]: REFERENCE.format(model=name) for name, start in starts.items()
    }
    schemas["Start"] = {
        "description": "A job to start. Which settings there are depends on the enrichment",
        "oneOf": [{"$ref": reference} for reference in mapping.values()],
        "discriminator": {"propertyName": "enrichment", "mapping": mapping},
    }
    return schemas


def component_name(slug: str) -> str:
    """A slug as the name of a component, which may hold ASCII letters, digits, `_`, `-` and `.` only."""
    return re.sub(r"[^A-Za-z0-9_-]", lambda match: f".{ord(match[0]):x}.", slug)


def _start(enrichment: Enrichment, config: str) -> Schema:
    return {
        "type": "object",
        "description": enrichment.description,
        "properties": {
            "table": {"type": "string", "minLength": 1, "description": "The table's name, not encoded"},
            "enrichment": {"type": "string", "const": enrichment.slug},
            "filters": {
                "type": "string",
                "default": "",
                "description": "Which rows, as the query string of the table's own page; '' for all",
                "examples": ["year__gte=2020"],
            },
            "config": {"$ref": REFERENCE.format(model=config)},
            "options": {"$ref": REFERENCE.format(model="Options")},
        },
        "required": ["table", "enrichment"],
        "additionalProperties": False,
    }


def _config_schemas(enrichment: Enrichment, name: str) -> dict[str, Schema]:
    """The schema of an enrichment's settings, and those that it refers to, under names of their own.

    What the model requires is not required of a request: it may be guessed from the table.
    """
    try:
        schema = enrichment.Config.model_json_schema(
            by_alias=False, ref_template=REFERENCE.format(model=f"{name}.{{model}}")
        )
    except PydanticInvalidForJsonSchema:  # a type that only Python can name
        return {name: {"type": "object", "description": f"Settings of {enrichment.name}"}}
    inner = {f"{name}.{part}": found for part, found in schema.pop("$defs", {}).items()}
    needed = schema.pop("required", [])
    schema["title"] = f"Settings of {enrichment.name}"
    if needed:
        schema["description"] = f"{', '.join(needed)}: needed where no value is guessed from the table"
    return {name: schema, **inner}


def _options() -> Schema:
    properties: Schema = {
        option: {"type": ["integer", "null"], "minimum": least, "maximum": 2**31 - 1}
        for option, least in control.OPTION_LIMITS.items()
    }
    properties["output"] = {"enum": ["columns", "shadow", None]}
    return {
        "type": "object",
        "description": "How the job runs; what is null or missing is as the enrichment has it",
        "properties": properties,
        "additionalProperties": False,
    }
