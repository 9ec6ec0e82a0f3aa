"""What the plugin adds to the menus of Datasette's own pages."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from ..jobs.selection import filter_arguments
from ..jobs.service import permissions, queries
from ..jobs.service.permissions import Actor
from . import access
from .urls import Links

COUNTED_JOBS = 99


async def table_links(datasette: Any, actor: Actor, database: str, table: str, request: Any) -> list[dict[str, str]]:
    """Items for a table's menu: enrich the rows that the page shows, and the table's jobs. None for what cannot be
    enriched: a view, a table in an immutable database."""
    if not await permissions.is_enrichable(datasette, actor, database, table):
        return []
    links = Links(datasette)
    filters = filter_arguments(request.query_string) if request is not None else ""
    items = [
        {
            "href": links.choose(database, table, filters),
            "label": "Enrich selected rows",
            "description": "Run an enrichment over the rows that this page selects",
        }
    ]
    count = await _job_count(datasette, actor, database, table)
    if count:
        items.append(
            {
                "href": links.jobs(database, table=table),
                "label": f"Enrichment jobs ({count if count <= COUNTED_JOBS else f'{COUNTED_JOBS}+'})",
                "description": "Jobs over this table",
            }
        )
    return items


async def row_links(datasette: Any, actor: Actor, database: str, table: str, request: Any) -> list[dict[str, str]]:
    """Items for a row's menu (1.0 only): enrich this row."""
    if request is None or not await permissions.is_enrichable(datasette, actor, database, table):
        return []
    return [
        {
            "href": Links(datasette).choose(database, table, f"_row={quote(request.url_vars['pks'], safe='')}"),
            "label": "Enrich this row",
            "description": "Run an enrichment over this row only",
        }
    ]


async def database_links(datasette: Any, actor: Actor, database: str) -> list[dict[str, str]]:
    """Items for a database's menu: its jobs, for those who may see any."""
    if not await _job_count(datasette, actor, database, None):
        return []
    return [
        {
            "href": Links(datasette).jobs(database),
            "label": "Enrichment jobs",
            "description": "Jobs over the tables of this database",
        }
    ]


async def main_links(datasette: Any, actor: Actor) -> list[dict[str, str]]:
    """Items for the main menu: all jobs, and how many are running, for those who may enrich any table."""
    if not await access.may_enrich_somewhere(datasette, actor):
        return []
    running = await queries.count_running(datasette, actor=actor)
    label = f"Enrichment jobs · {running} running" if running else "Enrichment jobs"
    return [{"href": Links(datasette).jobs(), "label": label}]


async def _job_count(datasette: Any, actor: Actor, database: str, table: str | None) -> int:
    return len(await queries.list_jobs(datasette, database, actor=actor, table=table, limit=COUNTED_JOBS + 1))
