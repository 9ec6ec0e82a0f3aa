"""What this plugin adds to Datasette's own pages: menu items, and the progress of jobs on the table's page."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup

from .. import compat
from ..jobs import control
from ..jobs.model import JobStatus
from ..jobs.selection import filter_arguments
from . import access, api
from .links import Links

COUNTED_JOBS = 99
ACTIVE = (JobStatus.RUNNING.value, JobStatus.PENDING.value, JobStatus.PAUSED.value)


async def table_links(
    datasette: Any, actor: access.Actor, database: str, table: str, request: Any
) -> list[dict[str, str]]:
    """Items for a table's menu: enrich the rows that the page shows, and the table's jobs. None for what cannot be
    enriched: a view, a table in an immutable database."""
    if not await _may_enrich(datasette, actor, database, table):
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
                "href": links.jobs(database, urlencode({"table": table})),
                "label": f"Enrichment jobs ({count if count <= COUNTED_JOBS else f'{COUNTED_JOBS}+'})",
                "description": "What has been run over this table",
            }
        )
    return items


async def row_links(
    datasette: Any, actor: access.Actor, database: str, table: str, request: Any
) -> list[dict[str, str]]:
    """Items for a row's menu (1.0 only): enrich just this row."""
    if request is None or not await _may_enrich(datasette, actor, database, table):
        return []
    picked = f"_row={quote(request.url_vars['pks'], safe='')}"
    return [
        {
            "href": Links(datasette).choose(database, table, picked),
            "label": "Enrich this row",
            "description": "Run an enrichment over this row alone",
        }
    ]


async def database_links(datasette: Any, actor: access.Actor, database: str) -> list[dict[str, str]]:
    """Items for a database's menu: its jobs, for those who see any."""
    if not await _job_count(datasette, actor, database, None):
        return []
    return [
        {
            "href": Links(datasette).jobs(database),
            "label": "Enrichment jobs",
            "description": "What has been run over the tables of this database",
        }
    ]


async def main_links(datasette: Any, actor: access.Actor) -> list[dict[str, str]]:
    """Items for the main menu: all jobs, for those who may enrich at all."""
    if not await access.may_enrich_somewhere(datasette, actor):
        return []
    return [{"href": Links(datasette).jobs(), "label": "Enrichment jobs"}]


async def table_strip(datasette: Any, actor: access.Actor, database: str, table: str) -> str:
    """HTML for the top of a table's page: its unfinished jobs and how far they are; '' when there are none."""
    if not await _may_enrich(datasette, actor, database, table):
        return ""
    links = Links(datasette)
    shown = [
        {
            "id": job.id,
            "url": links.job(database, job.id),
            "json_url": links.job_json(database, job.id),
            "status": job.status.value,
            "percent": job.percent,
            "parts": api.parts(job),
            "row_count": job.row_count,
            "done_count": job.done_count,
        }
        for status in ACTIVE
        for job in await _listing(datasette, actor, database, table, status=status, limit=3)
    ]
    if not shown:
        return ""
    html: str = await datasette.render_template("ingest_strip.html", {"jobs": shown, "asset": links.static})
    return html


async def top_of_table(datasette: Any, actor: access.Actor, database: str, table: str) -> Markup:
    """What `top_table` (1.0) puts above the rows."""
    return Markup(await table_strip(datasette, actor, database, table))


async def strip_script(
    datasette: Any, view_name: str, request: Any, database: str | None, table: str | None
) -> dict[str, Any] | str:
    """The same for the 0.65 line, which has no such place: a script that puts it below the table page's heading."""
    if compat.is_1_0(datasette) or view_name != "table" or request is None or database is None or table is None:
        return ""
    html = await table_strip(datasette, request.actor, database, table)
    if not html:
        return ""
    script_url = Links(datasette).static("ingest-job.js")
    script = (
        f"document.querySelector('.page-header')?.insertAdjacentHTML('afterend', {in_script(html)});"
        f"import({in_script(script_url)});"
    )
    return {"script": script, "module": True}


def in_script(text: str) -> str:
    """A JavaScript string that cannot end the script element it stands in."""
    return json.dumps(str(text)).replace("<", "\\u003c")


async def _may_enrich(datasette: Any, actor: access.Actor, database: str, table: str) -> bool:
    db = datasette.databases.get(database)
    if db is None or compat.why_not_enrichable(db) is not None:
        return False
    plain = dict(actor) if actor is not None else None
    if not await compat.can_enrich(datasette, plain, database, table):
        return False
    return not await compat.read(db, lambda conn: access.is_view(conn, table))


async def _job_count(datasette: Any, actor: access.Actor, database: str, table: str | None) -> int:
    return len(await _listing(datasette, actor, database, table, status=None, limit=COUNTED_JOBS + 1))


async def _listing(
    datasette: Any, actor: access.Actor, database: str, table: str | None, *, status: str | None, limit: int
) -> list[Any]:
    plain = dict(actor) if actor is not None else None
    return await control.listing(datasette, database, actor=plain, table=table, status=status, limit=limit)
