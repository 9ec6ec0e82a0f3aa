"""IngestConfig: what a person chooses for one ingest job."""

from __future__ import annotations

import re
from typing import Any, Literal

import pydantic

from ...jobs.enrichment import ColumnField
from ..fetch.wayback import timestamp_of
from ..model import TYPE_ALIASES
from ..types import INGEST_TYPES

ADVANCED: dict[str, Any] = {"advanced": True}
"""Folded away in the form."""
URL_COLUMN = "The column with the link of each row: a URL, or a DOI in any form"

SOURCE_LABELS: dict[str, Any] = {
    "live": "live: the web as it is now",
    "wayback": "wayback: captures in a web archive. After live, it finds what has gone from the web",
    "spn2": "spn2: the Internet Archive captures the link now, for everybody to see. After wayback, only what is missing. "
    "Needs keys in the configuration",
}
"""What the form says of each source."""


def check_prefix(value: str) -> str:
    """:raises ValueError: for what no column's name may begin with"""
    if not re.fullmatch(r"[^\W\d]\w{0,39}", value):
        raise ValueError("write a name of letters, digits and underscores that begins with a letter")
    return value


def prefix_field(default: str) -> Any:
    """The setting `prefix` of an enrichment; `check_prefix` checks its value."""
    return pydantic.Field(
        default,
        title="Column prefix",
        description="The names of the written columns begin with it",
        json_schema_extra=ADVANCED,
    )


def check_table_prefix(value: str) -> str:
    """:raises ValueError: for what no table's name may begin with"""
    if not re.fullmatch(r"(?!sqlite_)([a-z_][a-z0-9_]{0,39})?", value, re.IGNORECASE):
        raise ValueError(
            "write nothing, or ASCII letters, digits and underscores that begin with a letter, not sqlite_"
        )
    return value


class IngestConfig(pydantic.BaseModel):
    """The settings of one job: fields of the form, of the JSON API and of `--set`."""

    model_config = pydantic.ConfigDict(extra="forbid")

    url_column: str = ColumnField(title="URL column", description=URL_COLUMN)
    ingest_type: str = pydantic.Field(
        "pdf",
        title="Wanted file",
        description="pdf, xml (JATS and similar), html (the article as a web page) or dataset (all its files)",
        json_schema_extra={"enum": [*sorted(INGEST_TYPES, key="pdf xml html dataset".find)]},
    )
    type_column: str | None = ColumnField(
        None, title="Type column", description="A column that names the wanted file of each row, if they differ"
    )
    output: Literal["columns", "shadow", "none"] = pydantic.Field(
        "columns",
        title="Write results",
        description="columns: into the rows of this table; shadow: into a separate table _enrichments_…; none: only into "
        "the table ingest_file_result, which is always filled",
    )
    prefix: str = prefix_field("ingest_")
    table_prefix: str = pydantic.Field(
        "",
        title="Table prefix",
        description="The names of the tables of results begin with it: for a database that has tables of your own with "
        "their names. A result is found again only under its prefix",
        json_schema_extra=ADVANCED,
    )
    max_age_days: float | None = pydantic.Field(
        None,
        ge=0,
        allow_inf_nan=False,
        title="Use results younger than (days)",
        description="Empty: as configured for the server; 0: none, but a miss still rests until its next try",
        json_schema_extra=ADVANCED,
    )
    force_recrawl: bool = pydantic.Field(
        False,
        title="Fetch again",
        description="Fetch every link again, even those with a recent result, and misses before their next try",
    )
    ask_again: bool = pydantic.Field(
        False,
        title="Ask again",
        description="Ask again for every link, also misses before their next try. Unlike with Fetch again, a web archive may "
        "answer",
        json_schema_extra=ADVANCED,
    )
    sources: list[Literal["live", "wayback", "spn2"]] | None = pydantic.Field(
        None,
        title="Where to look",
        description="In this order: where one does not have the file, the next is asked. None ticked: as configured for the server",
        json_schema_extra={"labels": SOURCE_LABELS},
    )
    as_of: str | None = pydantic.Field(
        None,
        title="As of",
        description="A date such as 2020-03-31: the web archive's capture nearest to it. Empty: the newest",
        json_schema_extra=ADVANCED,
    )
    max_capture_age_days: float | None = pydantic.Field(
        None,
        ge=0,
        allow_inf_nan=False,
        title="Use captures younger than (days)",
        description="An older capture of a web archive counts as missing. Empty: as configured for the server",
        json_schema_extra=ADVANCED,
    )
    run_on: Literal["local", "kafka"] = pydantic.Field(
        "local",
        title="Run on",
        description="local: the process that runs the job fetches the links; kafka: workers on other machines do, by their "
        "own settings. Needs kafka in the configuration",
        json_schema_extra=ADVANCED,
    )
    source_column: str | None = ColumnField(
        None,
        title="Source column",
        description="A column that names who says that the full text is there, such as crossref. With a source id column, "
        "each row is also recorded in the table ingest_request",
        json_schema_extra=ADVANCED,
    )
    source_id_column: str | None = ColumnField(
        None,
        title="Source id column",
        description="A column with the row's identifier at that source",
        json_schema_extra=ADVANCED,
    )
    doi_column: str | None = ColumnField(
        None,
        title="DOI column",
        description="A column with the row's DOI: a hit whose landing page names another DOI gets a warning",
        json_schema_extra=ADVANCED,
    )

    request_column: str | None = ColumnField(
        None,
        title="Request column",
        description="A column with further fields of a request as a JSON object, such as expect_hash and ext_ids",
        json_schema_extra=ADVANCED,
    )

    @property
    def ignores_results(self) -> bool:
        """Whether a person wants every link asked again now, whatever is stored."""
        return self.force_recrawl or self.ask_again

    @pydantic.field_validator("ingest_type")
    @classmethod
    def _known_type(cls, value: str) -> str:
        name = TYPE_ALIASES.get(value, value)
        if name not in INGEST_TYPES:
            raise ValueError(f"unknown type {value!r}; types are {', '.join(sorted(INGEST_TYPES))}")
        return name

    @pydantic.field_validator("sources")
    @classmethod
    def _each_once(cls, value: list[str] | None) -> list[str] | None:
        if value is not None and len(set(value)) < len(value):
            raise ValueError("name each source once")
        return value or None

    @pydantic.field_validator("as_of")
    @classmethod
    def _is_date(cls, value: str | None) -> str | None:
        if value is not None:
            timestamp_of(value)
        return value

    _usable_prefix = pydantic.field_validator("prefix")(check_prefix)
    _usable_table_prefix = pydantic.field_validator("table_prefix")(check_table_prefix)

    @pydantic.model_validator(mode="after")
    def _fits_together(self) -> IngestConfig:
        if self.run_on == "kafka" and self.sources:
            raise ValueError("sources: workers of the fleet have their own; leave it empty where run_on is kafka")
        if (self.source_column is None) != (self.source_id_column is None):
            raise ValueError("source_column and source_id_column go together")
        return self
