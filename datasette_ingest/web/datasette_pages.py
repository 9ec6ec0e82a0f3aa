"""What this plugin adds to Datasette's own pages: menu items, on a table's page the progress of jobs and what they
found, on a row's page why it was missed."""

from __future__ import annotations

import json
import logging
import sqlite3
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup

from .. import compat
from ..jobs import store
from ..jobs.model import JobStatus
from ..jobs.selection import filter_arguments
from ..jobs.service import control
from . import access, api, failures, outcomes
from .urls import Links

log = logging.getLogger(__name__)

COUNTED_JOBS = 99
SHOWN_JOBS = 3
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
    """Items for the main menu: all jobs, for those who may enrich at all, and how many are running now."""
    if not await access.may_enrich_somewhere(datasette, actor):
        return []
    running = await _running(datasette, actor)
    return [
        {
            "href": Links(datasette).jobs(),
            "label": f"Enrichment jobs · {running} running" if running else "Enrichment jobs",
        }
    ]


async def _running(datasette: Any, actor: access.Actor) -> int:
    """How many jobs are running that the actor may see. Asked on every page: one short query a database."""
    plain, number = dict(actor) if actor is not None else None, 0
    for name, db in compat.databases(datasette).items():
        try:
            tables = await compat.read(db, store.running_jobs)
        except sqlite3.DatabaseError as problem:
            log.debug("cannot look for jobs in %s: %s", name, problem)
            continue
        for table, count in tables.items():
            if await control.may_see(datasette, plain, name, table):
                number += count
    return number


async def table_strip(datasette: Any, actor: access.Actor, database: str, table: str) -> str:
    """HTML for the top of a table's page: its unfinished jobs and how far they are, for those who may enrich it, and
    the outcomes that stand in it, for all who may view it; '' when there is neither."""
    return await _progress(datasette, actor, database, table) + await _outcomes(datasette, actor, database, table)


async def _progress(datasette: Any, actor: access.Actor, database: str, table: str) -> str:
    if not await _may_enrich(datasette, actor, database, table):
        return ""
    links, db = Links(datasette), datasette.databases[database]

    def read(conn: sqlite3.Connection) -> list[Any]:
        listed = (store.list_jobs(conn, tables=[table], status=status, limit=SHOWN_JOBS) for status in ACTIVE)
        return [job for jobs in listed for job in jobs]

    try:
        jobs = await compat.read(db, read)
    except sqlite3.DatabaseError as problem:
        log.warning("cannot look for jobs in %s: %s", database, problem)
        return ""
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
        for job in jobs
    ]
    if not shown:
        return ""
    html: str = await datasette.render_template("ingest_strip.html", {"jobs": shown, "asset": links.static})
    return html


async def _outcomes(datasette: Any, actor: access.Actor, database: str, table: str) -> str:
    found = await outcomes.summaries(datasette, database, table)
    if not found:
        return ""
    context = {
        "summaries": found,
        "links_to_jobs": await _may_enrich(datasette, actor, database, table),
        "asset": Links(datasette).static,
    }
    html: str = await datasette.render_template("ingest_summary.html", context)
    return html


async def top_of_table(datasette: Any, actor: access.Actor, database: str, table: str) -> Markup:
    """What `top_table` (1.0) puts above the rows."""
    return Markup(await table_strip(datasette, actor, database, table))


async def row_strip(datasette: Any, actor: access.Actor, database: str, table: str, request: Any) -> str:
    """HTML for the top of a row's page: what was missed in it and why, for those who may enrich the table; '' when
    nothing was."""
    if not await _may_enrich(datasette, actor, database, table):
        return ""
    explained = await failures.of_row(datasette, actor, database, table, request.url_vars["pks"])
    if not explained:
        return ""
    context = {"explained": explained, "asset": Links(datasette).static}
    html: str = await datasette.render_template("ingest_row.html", context)
    return html


async def top_of_row(datasette: Any, actor: access.Actor, database: str, table: str, request: Any) -> Markup:
    """What `top_row` (1.0) puts above the row."""
    return Markup(await row_strip(datasette, actor, database, table, request))


async def strip_script(
    datasette: Any, view_name: str, request: Any, database: str | None, table: str | None
) -> dict[str, Any] | str:
    """The same where Datasette has no such hooks: a script that puts it below the heading of a table's page, or of a
    row's."""
    if compat.has_page_tops(datasette) or request is None or database is None or table is None:
        return ""
    if view_name == "table":
        html = await table_strip(datasette, request.actor, database, table)
    elif view_name == "row":
        html = await row_strip(datasette, request.actor, database, table, request)
    else:
        return ""
    if not html:
        return ""
    script_url = Links(datasette).static("ingest-job.js")
    script = (
        f"document.querySelector('.page-header, section.content h1')?.insertAdjacentHTML('afterend', {in_script(html)});"
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
