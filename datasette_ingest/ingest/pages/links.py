"""The report on a table's links: the dead first, with the addresses of those that have moved. A page, JSON and CSV."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pydantic
from datasette.utils import tilde_decode
from datasette.utils.asgi import AsgiStream, Response

from ... import compat
from ...jobs.errors import JobError, TableNotFound
from ...jobs.model import Job
from ...jobs.service import permissions, queries, turns
from ...jobs.service.permissions import Actor, EnrichableTable
from ...sqlite import json_cell
from ...web import api, requests
from ...web.failures import stream_csv
from ...web.responses import as_json, render
from ...web.urls import Links, column_filter
from ..linkcheck.verdict import DEFAULT_PREFIX, LinkStatus
from .link_rows import FOUND, LinkRow, LinkTable, Place, title_column

ROWS_A_PAGE = 100
CSV_PAGE = 1000
LIMIT_MS = 10_000.0
COUNT_MS = 1000.0
CHECKS, REPLACES = "links", "links-replace"
"""Slugs of the enrichments that the report is about."""


class ReportQuery(api.Taken):
    """Which report of a table."""

    model_config = pydantic.ConfigDict(extra="ignore")

    column: str | None = pydantic.Field(
        None, alias="_column", description="The column of links; else that of the last job"
    )
    title: str | None = pydantic.Field(None, alias="_title", description="The column that tells what a row is about")
    next: str | None = pydantic.Field(None, alias="_next", description="`next` of the page before")


class CheckedLink(pydantic.BaseModel):
    """A row whose link is not simply ok."""

    row: Any = pydantic.Field(description="Its key: one value, or a list")
    title: Any
    link: Any = pydantic.Field(description="What the cell holds")
    status: str
    url: str | None = pydantic.Field(description="Where the link ends: of one that moved, the new address")
    status_code: int | None
    fragment: str | None
    reason: str | None
    checked: str
    archive_url: str | None


class LinksReport(api.Answer):
    """The links of a table that want a person: dead, unsure, blocked, moved, redirected, then those without their anchor."""

    database: str
    table: str
    column: str
    counts: dict[str, int] | None = pydantic.Field(description="Rows by word; null where counting takes too long")
    links: list[CheckedLink]
    next: str | None
    next_url: str | None


async def report(datasette: Any, request: Any) -> Response:
    requests.require_method(request, "GET")
    query = api.query_of(ReportQuery, request)
    table, shown = await _table(datasette, request, query)
    place = Place.read(query.next)
    async with turns.turn(datasette, request.actor):
        rows, following = await _read(table.db, lambda conn: shown.page(conn, place, ROWS_A_PAGE))
        try:
            counts = await compat.read(table.db, shown.counts, limit_ms=COUNT_MS)
        except compat.Interrupted:
            counts = None
    links, database = Links(datasette), table.db.name
    asked = {"_column": query.column, "_title": query.title}
    after = None if following is None else following.write()
    next_url = None if after is None else links.link_report(database, table.name, **asked, _next=after)
    if requests.wants_json(request):
        listed = [CheckedLink(**_values(row)) for row in rows]
        return as_json(
            LinksReport(
                ok=True,
                database=database,
                table=table.name,
                column=shown.column,
                counts=counts,
                links=listed,
                next=after,
                next_url=next_url and next_url.replace("?", ".json?", 1),
            )
        )
    jobs = await queries.list_jobs(
        datasette, database, actor=request.actor, table=table.name, enrichment=CHECKS, limit=1
    )
    context = {
        "shown": shown,
        "rows": rows,
        "counts": counts,
        "next_url": next_url,
        "is_first": query.next is None,
        "csv_url": links.link_report_csv(database, table.name, **asked),
        "check_url": links.form(database, table.name, CHECKS),
        "replace_url": links.form(database, table.name, REPLACES, _moved_rows(table, jobs[0] if jobs else None)),
        "job": jobs[0] if jobs else None,
    }
    return await render(datasette, request, "ingest_links.html", context, database=database)


async def report_csv(datasette: Any, request: Any) -> AsgiStream:
    """All of the report as a CSV file."""
    requests.require_method(request, "GET")
    table, shown = await _table(datasette, request, api.query_of(ReportQuery, request))
    keys = await compat.read(table.db, shown.key_columns)
    title = [] if shown.title is None else [shown.title]

    async def pages() -> AsyncIterator[list[list[Any]]]:
        place: Place | None = Place.read(None)
        while place is not None:
            rows, place = await _read(table.db, partial(shown.page, place=place, limit=CSV_PAGE))
            yield [_cells(row, len(keys), bool(title)) for row in rows]

    name = re.sub(r"[^A-Za-z0-9_-]+", "-", table.name).strip("-") or "table"
    return stream_csv(request, f"{name}-links.csv", [*keys, *title, shown.column, *FOUND], pages)


async def table_links(datasette: Any, actor: Actor, database: str, table: str) -> list[dict[str, str]]:
    """Items for a table's menu: this report, where its links were checked."""
    if not await permissions.is_enrichable(datasette, actor, database, table):
        return []
    if not await queries.list_jobs(datasette, database, actor=actor, table=table, enrichment=CHECKS, limit=1):
        return []
    return [
        {
            "href": Links(datasette).link_report(database, table),
            "label": "Report on links",
            "description": "Dead, blocked and moved links of this table",
        }
    ]


async def _table(datasette: Any, request: Any, query: ReportQuery) -> tuple[EnrichableTable, LinkTable]:
    """The table, and the columns that its report shows.

    :raises JobError: when the actor may not enrich the table, or it has no checked links
    """
    database = requests.database_of(datasette, request)
    table = await permissions.require_table(datasette, request.actor, database, tilde_decode(request.url_vars["table"]))
    column = query.column
    if column is None:
        jobs = await queries.list_jobs(
            datasette, table.db.name, actor=request.actor, table=table.name, enrichment=CHECKS, limit=1
        )
        column = jobs[0].config.get("url_column") if jobs else None
    if column not in table.columns:
        raise TableNotFound(
            f"The links of {table.name} were not checked yet. Choose “Enrich selected rows” in its menu, then “Check links”"
        )
    title = await compat.read(table.db, lambda conn: title_column(conn, table.name, query.title, [column]))
    return table, LinkTable(table.name, column, title)


def _moved_rows(table: EnrichableTable, job: Job | None) -> str:
    """The filter for the rows whose links had moved at the last check; '' where they have no column that says so."""
    column = "" if job is None else f"{job.config.get('prefix', DEFAULT_PREFIX)}status"
    return column_filter(column, LinkStatus.MOVED.value) if column in table.columns else ""


async def _read(db: Any, read: Any) -> tuple[list[LinkRow], Place | None]:
    try:
        found: tuple[list[LinkRow], Place | None] = await compat.read(db, read, limit_ms=LIMIT_MS)
        return found
    except ValueError:
        raise JobError("_next: expected the `next` of the page before") from None


def _values(row: LinkRow) -> dict[str, Any]:
    key = [json_cell(part) for part in row.key] if isinstance(row.key, tuple) else json_cell(row.key)
    return {"row": key, "title": json_cell(row.title), "link": json_cell(row.link), **row.found}


def _cells(row: LinkRow, width: int, has_title: bool) -> list[Any]:
    key = row.key[:width] if isinstance(row.key, tuple) else (row.key,)
    return [*key, *([row.title] if has_title else []), row.link, *row.found.values()]
