"""What a person chooses for one job that checks links, or that replaces the addresses of those that have moved."""

from __future__ import annotations

from typing import Literal

import pydantic

from ...jobs.enrichment import ColumnField
from ..linkcheck.verdict import DEFAULT_PREFIX
from .config import ADVANCED, URL_COLUMN, check_prefix, prefix_field


class LinksConfig(pydantic.BaseModel):
    """The settings of one job: fields of the form, of the JSON API and of `--set`."""

    model_config = pydantic.ConfigDict(extra="forbid")

    url_column: str = ColumnField(title="URL column", description=URL_COLUMN)
    output: Literal["columns", "shadow"] = pydantic.Field(
        "columns",
        title="Write results",
        description="columns: into the rows of this table; shadow: into a separate table _enrichments_…",
    )
    prefix: str = prefix_field(DEFAULT_PREFIX)
    read_pages: bool = pydantic.Field(
        True,
        title="Read the beginning of pages",
        description="To know pages that only say “not found”, ask for a login, or are those of a domain for sale: at most "
        "128 KiB of each. Without it, only the head of an answer is asked for",
    )
    recheck_minutes: float = pydantic.Field(
        15,
        ge=1,
        le=7 * 24 * 60,
        allow_inf_nan=False,
        title="Minutes before a second check",
        description="A host that does not exist or refuses connections is asked once more so many minutes later, before its "
        "links are called dead",
        json_schema_extra=ADVANCED,
    )
    sources: list[Literal["live", "wayback"]] | None = pydantic.Field(
        None,
        title="Where to look",
        description="With wayback, dead links get the address of a capture. None ticked: as configured for the server",
        json_schema_extra={
            "labels": {
                "live": "live: the web as it is now",
                "wayback": "wayback: captures in a web archive, for the dead links",
            }
        },
    )
    date_column: str | None = ColumnField(
        None,
        title="Date column",
        description="A column with a date of each row: its capture is the one nearest to it. Empty: the newest",
        json_schema_extra=ADVANCED,
    )

    _usable_prefix = pydantic.field_validator("prefix")(check_prefix)


class ReplaceConfig(pydantic.BaseModel):
    """The settings of one job that writes new addresses into a column of links."""

    model_config = pydantic.ConfigDict(extra="forbid")

    url_column: str = ColumnField(
        title="URL column", description="The column whose links were checked, and are changed"
    )
    before_column: str = pydantic.Field(
        "",
        title="Column for the old links",
        description="Empty: the name of the column and _before. It keeps the first link that was replaced",
        json_schema_extra=ADVANCED,
    )
    hosts_may_change: bool = pydantic.Field(
        True,
        title="Also to another host",
        description="Without it, only links that have moved within their host, or from http to https, are replaced",
        json_schema_extra=ADVANCED,
    )

    @property
    def before(self) -> str:
        """The column that keeps the old link."""
        return self.before_column.strip() or f"{self.url_column}_before"
