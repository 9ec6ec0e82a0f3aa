"""The API described to programs: an OpenAPI 3.1 document, made from the route table and the models of its bodies.

https://spec.openapis.org/oas/v3.1.0
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import pydantic
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from ..jobs.enrichment import Enrichment
from ..jobs.model import JobOptions
from . import api
from .requests import JSON_TYPE, MAX_BODY_BYTES, MAX_KEY_LENGTH

Schema = dict[str, Any]

REFERENCE = "#/components/schemas/{model}"

MEANINGS = {
    400: "Something in the request is wrong; `errors` names it",
    403: "Not allowed",
    404: "Not found, or not visible to you",
    409: "The job's state does not permit it",
    413: f"The body is longer than {MAX_BODY_BYTES} bytes",
    415: "The body is not JSON",
    422: "The idempotency key was used for another request",
    429: "Too many such requests at once, of yours or of all: try again later",
    503: "The database cannot be read or written now; `error` says why",
}
RETRY_AFTER = {"Retry-After": {"description": "Seconds until then", "schema": {"type": "integer", "minimum": 1}}}
READ = (400, 403, 404, 503)
SENT = (*READ, 413, 415)
MOVED = (*SENT, 409)
ASKED = (*READ, 429)
"""A request that queries rows which the visitor chose."""
STARTED = (422, 429)


@dataclass(frozen=True)
class Operation:
    """One request. `refusals`: the statuses that a well-formed request may get instead of its answer. A request with
    the `status` 201 takes an idempotency key."""

    name: str
    summary: str
    answer: type[pydantic.BaseModel]
    refusals: tuple[int, ...]
    status: int = 200
    query: type[api.Taken] | None = None
    takes_filters: bool = False
    body: type[api.Taken] | None = None


def _in_path(name: str, description: str, schema: Schema) -> Schema:
    return {"name": name, "in": "path", "required": True, "description": description, "schema": schema}


ENCODED = {"type": "string", "pattern": r"^([A-Za-z0-9_-]|\+|~[0-9A-F]{2})+$"}
"""A name in Datasette's tilde-encoding: https://docs.datasette.io/en/stable/internals.html#tilde-encoding"""
PARAMETERS: Mapping[str, Schema] = {
    "database": _in_path("database", "The database, tilde-encoded", ENCODED),
    "table": _in_path("table", "The table, tilde-encoded", ENCODED),
    "slug": _in_path("slug", "The enrichment's slug, tilde-encoded", ENCODED),
    "id": _in_path("id", "The job's number", {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}),
    "Filters": {
        "name": "filters",
        "in": "query",
        "description": "Which rows, as on the table's own page: `column=value`, `column__gte=5`, `_search=word`. None: all",
        "schema": {"type": "object", "additionalProperties": {"type": "string"}},
        "style": "form",
        "explode": True,
    },
    "IdempotencyKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "description": "A text of your own, such as a UUID: the same request sent again with it gives the same job",
        "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH, "pattern": "^[!-~]+$"},
    },
}


class WithoutTitles(GenerateJsonSchema):
    """Fields under their own names: a title that is made from the name says nothing more."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def document(
    operations: Iterable[tuple[str, str, Operation]], enrichments: Iterable[Enrichment], *, base_url: str = "/"
) -> Schema:
    """The document of an instance that has these enrichments, at this `base_url`.

    :param operations: (path, method in lower case, operation)
    """
    paths: dict[str, Schema] = {}
    models: dict[type[pydantic.BaseModel], None] = {api.Refusal: None}
    for path, method, operation in operations:
        paths.setdefault(path, {})[method] = _operation(path, operation)
        models |= dict.fromkeys(filter(None, (operation.answer, operation.body)))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "datasette-ingest",
            "version": version("datasette-ingest"),
            "description": "Enrichment jobs over the rows of tables: start, follow, pause and resume them. You need the "
            "permission enrich-table on the table, and must be allowed to view it.",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": base_url.rstrip("/") or "/"}],
        "security": [{"token": []}, {"cookie": []}, {}],
        "paths": paths,
        "components": {
            "schemas": _schemas(models, enrichments),
            "parameters": dict(PARAMETERS),
            "responses": {
                str(status): {"description": meaning, "content": _json(api.Refusal)}
                | ({"headers": RETRY_AFTER} if status == 429 else {})
                for status, meaning in MEANINGS.items()
            },
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A Datasette API token"},
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "ds_actor",
                    "description": "A visitor who is signed in. A POST with a cookie must come from this site's pages",
                },
            },
        },
    }


def _operation(path: str, operation: Operation) -> Schema:
    names = re.findall(r"{(\w+)}", path)
    names += ["Filters"] * operation.takes_filters + ["IdempotencyKey"] * (operation.status == 201)
    parameters = [{"$ref": f"#/components/parameters/{name}"} for name in names]
    success: Schema = {"description": operation.summary, "content": _json(operation.answer)}
    if operation.status == 201:
        location = {"description": "The new job's page", "schema": {"type": "string", "format": "uri-reference"}}
        success |= {"description": "A new job", "headers": {"Location": location}}
    described: Schema = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [*parameters, *(_query(operation.query) if operation.query else [])],
        "responses": {
            str(operation.status): success,
            **{str(status): {"$ref": f"#/components/responses/{status}"} for status in sorted(operation.refusals)},
        },
    }
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": _json(operation.body)}
    return described


def _query(model: type[api.Taken]) -> list[Schema]:
    """The fields of a query string as parameters."""
    schema = model.model_json_schema(schema_generator=WithoutTitles)
    parameters = []
    for name, field in schema["properties"].items():
        [kind] = [branch for branch in field["anyOf"] if branch.get("type") != "null"]
        if "$ref" in kind:
            kind = schema["$defs"][kind["$ref"].rpartition("/")[2]]
        kind = {key: value for key, value in kind.items() if key not in ("title", "description")}
        parameters.append({"name": name, "in": "query", "description": field["description"], "schema": kind})
    return parameters


def _json(model: type[pydantic.BaseModel]) -> Schema:
    return {JSON_TYPE: {"schema": {"$ref": REFERENCE.format(model=model.__name__)}}}


def _schemas(models: Iterable[type[pydantic.BaseModel]], enrichments: Iterable[Enrichment]) -> Schema:
    modes: list[Any] = [(model, "serialization") for model in (*models, JobOptions)]
    _, shared = models_json_schema(modes, ref_template=REFERENCE, schema_generator=WithoutTitles)
    schemas: Schema = shared["$defs"]
    start, mapping = schemas["Start"], {}
    start["properties"]["options"] = {"$ref": REFERENCE.format(model=JobOptions.__name__)}
    for enrichment in enrichments:
        name = component_name(enrichment.slug)
        schemas |= _config_schemas(enrichment, f"Config.{name}")
        properties = {
            **start["properties"],
            "enrichment": {"type": "string", "const": enrichment.slug},
            "config": {"$ref": REFERENCE.format(model=f"Config.{name}")},
        }
        schemas[f"Start.{name}"] = {**start, "description": enrichment.description, "properties": properties}
        mapping[enrichment.slug] = REFERENCE.format(model=f"Start.{name}")
    schemas["Start"] = {
        "description": start["description"],
        "oneOf": [{"$ref": reference} for reference in mapping.values()],
        "discriminator": {"propertyName": "enrichment", "mapping": mapping},
    }
    return schemas


def component_name(slug: str) -> str:
    """A slug as the name of a component, which may hold ASCII letters, digits, `_`, `-` and `.` only."""
    return re.sub(r"[^A-Za-z0-9_-]", lambda match: f".{ord(match[0]):x}.", slug)


def _config_schemas(enrichment: Enrichment, name: str) -> dict[str, Schema]:
    """The schema of an enrichment's settings, and those that it refers to, under names of their own.

    What the model requires is not required of a request: it may be guessed from the table.
    """
    try:
        schema = enrichment.Config.model_json_schema(
            by_alias=False, ref_template=REFERENCE.format(model=f"{name}.{{model}}")
        )
    except PydanticInvalidForJsonSchema:  # a type that JSON Schema cannot describe
        return {name: {"type": "object", "description": f"Settings of {enrichment.name}"}}
    inner = {f"{name}.{part}": found for part, found in schema.pop("$defs", {}).items()}
    needed = schema.pop("required", [])
    schema["title"] = f"Settings of {enrichment.name}"
    if needed:
        schema["description"] = f"{', '.join(needed)}: needed where no value is guessed from the table"
    return {name: schema, **inner}
