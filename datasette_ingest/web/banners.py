"""Banners on Datasette's own pages: the jobs and outcomes of a table, and why a row has no success. Each has a time
limit."""

from __future__ import annotations

import json
import logging
import sqlite3
import time
import weakref
from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote as url_quote

from markupsafe import Markup

from .. import compat
from ..jobs import registry, store
from ..jobs.keyset import qualified
from ..jobs.model import Job, JobStatus
from ..jobs.service import permissions
from ..jobs.service.job_json import parts
from ..jobs.service.outcomes import JobOutput, latest_outputs, newest_of_each, successes_of
from ..jobs.service.permissions import Actor
from ..sqlite import columns, fold, quote
from . import failures, words
from .responses import template_context
from .urls import Links, missed_filter, query_string

log = logging.getLogger(__name__)

ACTIVE = (JobStatus.RUNNING, JobStatus.PENDING, JobStatus.PAUSED)
SHOWN_JOBS = 3
"""Jobs of each active state that a table's page shows."""
COUNT_MS = 50.0
"""How long a table's page may wait for its outcomes to be counted."""
SLOW_SECONDS = 600.0
"""How long a table that took longer is not counted again."""
SHOWN_WORDS = 7
SHOWN_ENRICHMENTS = 3

_SLOW: weakref.WeakKeyDictionary[Any, dict[tuple[str, str], float]] = weakref.WeakKeyDictionary()
"""database -> (table, column) -> when counting it turned out to be slow."""


# ---- on a table's page ------------------------------------------------------------------------------------------


async def table_banner(datasette: Any, actor: Actor, database: str, table: str) -> Markup:
    """The unfinished jobs of a table and their progress, for those who may enrich it, and the outcomes in its rows, for
    all who may view it; '' when there are neither."""
    db = datasette.databases.get(database)
    if db is None or (db.is_memory and not db.memory_name):
        return Markup("")
    may_enrich = await permissions.is_enrichable(datasette, actor, database, table)
    enrichments = await registry.enrichments(datasette)

    def read(conn: sqlite3.Connection) -> tuple[list[Job], list[JobOutput]]:
        listed = [
            store.list_jobs(conn, tables=[table], status=status, limit=SHOWN_JOBS, without=without) for status in ACTIVE
        ]
        return [job for jobs in listed for job in jobs], latest_outputs(conn, table, enrichments, without=without)

    try:
        without = await permissions.ids_of_orphans(datasette, actor, db)
        active, outputs = await compat.read(db, read)
    except sqlite3.DatabaseError as problem:
        log.warning("cannot read the jobs of %s: %s", database, problem)
        return Markup("")
    context = {**template_context(datasette), "database": database, "may_enrich": may_enrich}
    html = ""
    if active and may_enrich:
        jobs = [{**vars(job), "percent": job.percent, "parts": parts(job).model_dump()} for job in active]
        html += await datasette.render_template("ingest_table_jobs.html", {**context, "jobs": jobs})
    summaries = await _summaries(Links(datasette), db, table, outputs)
    if summaries:
        html += await datasette.render_template("ingest_table_outcomes.html", {**context, "summaries": summaries})
    return Markup(html)


async def _summaries(links: Links, db: Any, table: str, outputs: list[JobOutput]) -> list[dict[str, Any]]:
    """The outcomes in the table, an entry for each enrichment and column."""
    found: list[dict[str, Any]] = []
    for output in newest_of_each(outputs):
        if output.outcome_column is not None and len(found) < SHOWN_ENRICHMENTS:
            summary = await _summary(links, db, table, output, output.outcome_column)
            found += [summary] if summary is not None else []
    return found


async def _summary(links: Links, db: Any, table: str, output: JobOutput, column: str) -> dict[str, Any] | None:
    """The outcome words of one enrichment, success first, as (word, number, URL of its rows, what it means, its cases). `unanswered`: the rows
    without one. `as_of`: the job that counted them, None where they were counted now. `more`: words that are left out."""
    counted, by_case = await _count(db, table, column, output) if not output.is_shadow else (None, output.job.cases)
    by_case = output.job.cases if counted is None else by_case
    counts: Mapping[Any, int] = output.job.outcomes if counted is None else counted
    as_of = output.job.id if counted is None else None
    if not any(word is not None for word in counts):
        return None

    good = successes_of(output.enrichment.slug)

    def rows(**query: Any) -> str:
        return links.table(db.name, table, query_string(query))

    ranked = sorted(
        ((word, number) for word, number in counts.items() if word is not None),
        key=lambda each: (each[0] not in good, -each[1], each[0]),
    )
    return {
        "name": output.enrichment.name,
        "good": good,
        "words": [
            (
                word,
                number,
                rows(**{f"{column}__exact": word}) if as_of is None else rows(_ingest_status=word, _ingest_job=as_of),
                words.about(links, output.enrichment, word),
                words.cases(
                    links,
                    output.enrichment,
                    word,
                    by_case,
                    rows(**{f"{column}__exact": word}),
                    output.code_column if as_of is None else None,
                ),
            )
            for word, number in ranked[:SHOWN_WORDS]
            if word != "error"
        ],
        "more": max(0, len(ranked) - SHOWN_WORDS),
        "all_url": rows(_facet=column) if as_of is None else None,
        "missed": sum(number for word, number in ranked if word not in good and word != "error"),
        "missed_url": links.table(db.name, table, missed_filter(column, good)) if as_of is None else None,
        "unanswered": counts.get(None),
        "unanswered_url": rows(**{f"{column}__isnull": 1}),
        "as_of": as_of,
    }


async def _count(
    db: Any, table: str, column: str, output: JobOutput
) -> tuple[dict[str | None, int] | None, dict[str, int]]:
    """How many rows hold each word (None: without one), and each case of a word; None where counting is slow."""
    slow = _SLOW.setdefault(db, {})
    if time.monotonic() - slow.get((table, column), -SLOW_SECONDS) < SLOW_SECONDS:
        return None, {}

    def count(conn: sqlite3.Connection) -> tuple[dict[str | None, int], dict[str, int]]:
        code = output.code_column
        has_code = code is not None and fold(code) in map(fold, columns(conn, table))
        beside = qualified(table, str(code)) if has_code else "null"
        counted: Counter[str | None] = Counter()
        cases: Counter[str] = Counter()
        for word, number, rows in conn.execute(
            f"select {qualified(table, column)}, {beside}, count(*) from {quote(table)} group by 1, 2"
        ):
            counted[None if word is None else str(word)] += rows
            if word is not None:
                cases[output.enrichment.case(str(word), number if isinstance(number, int) else None)] += rows
        return counted, cases

    try:
        return await compat.read(db, count, limit_ms=COUNT_MS)
    except compat.Interrupted:
        slow[table, column] = time.monotonic()
        return None, {}
    except sqlite3.Error:  # the column is gone
        return {}, {}


# ---- on a row's page --------------------------------------------------------------------------------------------


async def row_banner(datasette: Any, actor: Actor, database: str, table: str, request: Any) -> Markup:
    """Why a row has no success, for those who may enrich its table; '' when there is nothing to say."""
    if not await permissions.is_enrichable(datasette, actor, database, table):
        return Markup("")
    reports = await failures.reports_on_row(datasette, actor, database, table, request.url_vars["pks"])
    if not reports:
        return Markup("")
    context = {**template_context(datasette), "database": database, "table": table, "reports": reports}
    context["row_filter"] = f"_row={url_quote(request.url_vars['pks'], safe='')}"
    return Markup(await datasette.render_template("ingest_row_report.html", context))


# ---- without hooks for the top of a page ----------------------------------------------------------------------------------------------


async def banner_script(
    datasette: Any, view_name: str, request: Any, database: str | None, table: str | None
) -> dict[str, Any] | str:
    """The same where Datasette has no hook for the top of a page: a script that puts the banner below the heading of a
    table's or a row's page."""
    if compat.has_page_tops(datasette) or request is None or database is None or table is None:
        return ""
    html = Markup("")
    if view_name == "table":
        html = await table_banner(datasette, request.actor, database, table)
    elif view_name == "row":
        html = await row_banner(datasette, request.actor, database, table, request)
    if not html:
        return ""
    script_url = Links(datasette).static("ingest-job.js")
    script = (
        f"document.querySelector('.page-header, section.content h1')?.insertAdjacentHTML('afterend', {in_script(html)});"
        f"import({in_script(script_url)});"
    )
    return {"script": script, "module": True}


def in_script(text: str) -> str:
    """A JavaScript string that cannot end the script element that contains it."""
    return json.dumps(str(text)).replace("<", "\\u003c")
