"""The bodies of the JSON API as models: they check requests, write answers, and are described by OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import pydantic

from ..jobs.errors import JobError
from ..jobs.model import JobStatus
from ..jobs.service.job_json import JobJson
from ..jobs.service.validation import message
from .requests import natural

# ---- requests ---------------------------------------------------------------------------------------------------


class Taken(pydantic.BaseModel):
    """A body or query string that holds these keys and no others."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")


Body = TypeVar("Body", bound=Taken)


class Start(Taken):
    """A job to start. Which settings `config` may hold depends on the enrichment."""

    model_config = pydantic.ConfigDict(strict=True)

    table: str = pydantic.Field(min_length=1, description="The table's name, not encoded")
    enrichment: str = pydantic.Field(min_length=1, description="The enrichment's slug")
    filters: str = pydantic.Field(
        "",
        description="Which rows, as the query string of the table's own page; '' for all",
        examples=["year__gte=2020"],
    )
    config: dict[str, Any] = {}
    options: dict[str, Any] = {}


class Retry(Taken):
    """Which rows to retry; without a scope, those in error and those that are due."""

    scope: Literal["errors", "due", "misses"] | None = None


class Nothing(Taken):
    """An empty object."""


class JobsQuery(Taken):
    """Which jobs a list shows: of this table, in this state, of the enrichment of this slug. None: any."""

    model_config = pydantic.ConfigDict(extra="ignore")

    table: str | None = pydantic.Field(None, description="Only jobs of this table")
    status: JobStatus | None = pydantic.Field(None, description="Only jobs in this state")
    enrichment: str | None = pydantic.Field(None, description="Only jobs of the enrichment of this slug")
    next: str | None = pydantic.Field(None, alias="_next", description="`next` of the page before")

    @property
    def is_everything(self) -> bool:
        return self.table is self.status is self.enrichment is None

    def as_dict(self) -> dict[str, str | None]:
        """The conditions, without the page."""
        return self.model_dump(mode="json", exclude={"next"})


Natural = Annotated[
    int,
    pydantic.BeforeValidator(lambda text: natural(text) if natural(text) is not None else text),
    pydantic.Field(strict=True, ge=0, le=2**63 - 1),
]


class ErrorsQuery(Taken):
    """Which errors of a job."""

    model_config = pydantic.ConfigDict(extra="ignore")

    like: Natural | None = pydantic.Field(None, description="The `id` of an error: only those with its message")
    next: Natural | None = pydantic.Field(None, alias="_next", description="`next` of the page before")


def parse(model: type[Body], given: Mapping[str, Any]) -> Body:
    """A body that was sent, as the model.

    :raises JobError: 400, with a message for each key that is wrong
    """
    try:
        return model.model_validate(dict(given))
    except pydantic.ValidationError as problem:
        faults = [_fault(error, model) for error in problem.errors()]
        raise JobError(faults[0], faults) from None


def query_of(model: type[Body], request: Any) -> Body:
    """The query string as the model; an empty value, as a form sends it, counts as missing.

    :raises JobError: 400, with a message for each key that is wrong
    """
    names = (info.alias or name for name, info in model.model_fields.items())
    return parse(model, {name: request.args.get(name) for name in names if request.args.get(name)})


def _fault(error: Any, model: type[Taken]) -> str:
    if error["type"] == "extra_forbidden":
        known = ", ".join(model.model_fields)
        return f"{error['loc'][0]}: unknown key; this request takes {f'only {known}' if known else 'none'}"
    if error["type"] == "dict_type":
        return f"{error['loc'][0]}: write an object"
    return message(error)


# ---- answers ----------------------------------------------------------------------------------------------------


class Refusal(pydantic.BaseModel):
    """Why a request was refused. `errors` has one message for each thing that is wrong, which begins with its name."""

    ok: Literal[False]
    error: str
    errors: list[str]
    status: int


class Answer(pydantic.BaseModel):
    ok: Literal[True]


class OneJob(Answer):
    job: JobJson


class Jobs(Answer):
    """A page of jobs, newest first. `next` and `next_url` lead to the following one; null on the last.

    `unavailable`: of the databases that cannot be read now, one sentence each. Their jobs are not listed.
    """

    jobs: list[JobJson]
    next: str | None
    next_url: str | None
    unavailable: list[str] = []


class RowInError(pydantic.BaseModel):
    """A row that could not be enriched. `row_pks` lists its key: one value, or a list of them for a compound key."""

    model_config = pydantic.ConfigDict(from_attributes=True)

    id: int
    created_at: str | None
    row_pks: list[Any]
    error: str
    traceback: str | None


class RowsInError(Answer):
    """A page of a job's errors, oldest first."""

    errors: list[RowInError]
    next: int | None
    next_url: str | None


class SelectedRows(Answer):
    """The rows of a table that filters select: the exact count, null where counting takes longer than a second, and the
    first rows."""

    database: str
    table: str
    filters: str
    count: int | None
    columns: list[str]
    rows: list[dict[str, Any]]


class Choice(pydantic.BaseModel):
    slug: str
    name: str
    description: str
    url: str


class Choices(SelectedRows):
    enrichments: list[Choice]


class Settings(SelectedRows):
    """The settings of one enrichment, with the values that would be guessed where none is given."""

    enrichment: str
    defaults: dict[str, Any]
    facts: dict[str, Any] | None = pydantic.Field(
        description="What the enrichment says of the first rows: label -> value; null where finding out takes too long"
    )
    json_schema: dict[str, Any] | None = pydantic.Field(
        alias="schema", description="JSON Schema of `config`; null where its types have none"
    )


class Document(pydantic.BaseModel):
    """An OpenAPI document."""

    model_config = pydantic.ConfigDict(extra="allow")
