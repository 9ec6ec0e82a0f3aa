"""Rows without success: their reasons on the job's page, the CSV download, and the report on a row's own page."""

from __future__ import annotations

import asyncio
import csv
import io
import logging
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any
from urllib.parse import urlencode

from datasette.utils.asgi import AsgiStream

from .. import compat
from ..jobs.enrichment import Enrichment
from ..jobs.errors import JobError
from ..jobs.model import Job, JobStatus, RelatedRows
from ..jobs.service import control, failures
from ..jobs.service.job_json import parts
from ..jobs.service.permissions import Actor
from . import words
from .requests import disconnected
from .responses import UNCACHED
from .urls import Links

log = logging.getLogger(__name__)

JOB_MS = 150.0
"""How long a job's page may wait for the reasons."""
ROW_MS = 50.0
"""How long a row's page may wait for its reports."""
SHOWN_REASONS = 10
LINKED_ROWS = 12
SHOWN_REPORTS = 3
BOM = "\ufeff"
"""By which spreadsheets know a file as UTF-8."""


# ---- on the job's page ------------------------------------------------------------------------------------------


async def reasons_of_job(
    datasette: Any, database: str, job: Job, actor: Actor, enrichment: Enrichment | None
) -> dict[str, Any] | None:
    """Why rows of the job have no success, once it has stopped; None where nothing is known of any. `groups`: each
    reason with what its word means.

    `found` is None where finding out takes too long; `is_whole_table`: the job's filters no longer find its rows, so
    these are of the whole table.
    """
    has_stopped = job.status.is_final or job.status is JobStatus.PAUSED
    if not has_stopped or not parts(job).other:
        return None
    if job.error_count > control.EXACTLY_COUNTED_ERRORS:
        return {"found": None}
    db = datasette.databases[database]
    try:
        query = await failures.failure_query(datasette, db, job, actor)
        found = await failures.reasons(db, query, keys=LINKED_ROWS, limit_ms=JOB_MS)
    except (JobError, sqlite3.Error) as problem:  # the table has changed since; its job is shown all the same
        log.debug("the reasons of job %s in %s are unknown: %s", job.id, database, problem)
        return None
    if found is None:
        return {"found": None}
    groups = [(reason, words.about(Links(datasette), enrichment, reason.case)) for reason in found.reasons]
    if not any(reason.message or about for reason, about in groups):
        return None
    return {"found": found, "groups": groups, "shown": SHOWN_REASONS, "is_whole_table": not query.is_narrowed}


# ---- on a row's page --------------------------------------------------------------------------------------------


async def reports_on_row(datasette: Any, actor: Actor, database: str, table: str, path: str) -> list[dict[str, Any]]:
    """How each enrichment ended without success on this row, with links to related rows that the actor may see.

    :param table: one that the actor may enrich
    :param path: the row's key in the address of its page
    """
    db = datasette.databases[database]
    reports = await failures.row_reports(datasette, db, table, path, actor=actor, limit_ms=ROW_MS, most=SHOWN_REPORTS)
    return [
        {
            "report": report,
            "about": words.about(Links(datasette), report.output.enrichment, report.case),
            "links_to": [
                (related.label, Links(datasette).table(database, related.table, _query(related, values)))
                for related, values in report.related
                if await compat.can_view(datasette, actor, database, related.table)
            ],
        }
        for report in reports
    ]


def _query(related: RelatedRows, values: dict[str, Any]) -> str:
    pairs = [(f"{name}__exact", value) for name, value in values.items()]
    return urlencode([*pairs, *([("_sort", related.sort)] if related.sort else [])], errors="surrogatepass")


# ---- as CSV -----------------------------------------------------------------------------------------------------

_FORMULA = re.compile(
    r"""(\A|[;|\t\r\n])(?=[ "]*[=+\-@＝＋－＠]|\A[\t\r\n])(?![ "]*[+-]?\d+(?:\.\d+)?[ "]*(?:[;|\t\r\n]|\Z))""", re.ASCII
)
"""Where a spreadsheet would begin a formula: https://owasp.org/www-community/attacks/CSV_Injection. One that is set to
another separator than the comma ignores our quotation marks, and begins a cell after each of its own."""


async def csv_of_job(datasette: Any, request: Any, database: str, job: Job) -> AsgiStream:
    """All rows of the job without success, streamed while they are read, until the client disconnects. Beside the
    label column, `?_col=` chooses columns of the table; with `?_bom=1` spreadsheets take the file for UTF-8.

    :param job: from `queries.find`, which has checked the actor
    :raises JobError: before the first byte, when the rows cannot be read
    """
    db = datasette.databases[database]
    chosen = [*await label_columns(db, job.table_name), *request.args.getlist("_col")]
    query = await failures.failure_query(datasette, db, job, request.actor, columns=chosen)
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", job.table_name).strip("-") or "table"
    return stream_csv(
        request,
        f"{name}-job-{job.id}-missed.csv",
        query.names,
        lambda: failures.pages(db, query),
        has_bom="_bom" in request.args,
    )


async def label_columns(db: Any, table: str) -> list[str]:
    """The column by which Datasette names the rows of a table, such as its title, if there is one."""
    try:
        label = await db.label_column_for_table(table)
    except sqlite3.Error:  # the table is gone
        return []
    return [label] if label else []


def stream_csv(
    request: Any,
    filename: str,
    names: Sequence[str],
    pages: Callable[[], AsyncIterator[Sequence[Sequence[Any]]]],
    *,
    has_bom: bool = False,
) -> AsgiStream:
    """A CSV file that is read while it is sent, until the client disconnects.

    :param filename: ASCII letters, digits, dots, hyphens and underscores
    :param names: the first line
    :param pages: reads the others; not called where only the head of the answer is wanted
    """

    async def write(writer: Any) -> None:
        if request.method == "HEAD":
            return
        leaving = asyncio.ensure_future(disconnected(request))
        try:
            await writer.write(BOM * has_bom + line(names))
            async for page in pages():
                if leaving.done():
                    return
                await writer.write("".join(map(line, page)))
        finally:
            leaving.cancel()

    headers = {
        "Content-Disposition": f'attachment; filename="{filename}"',
        "X-Content-Type-Options": "nosniff",
        **UNCACHED,
    }
    return AsgiStream(write, headers=headers, content_type="text/csv; charset=utf-8")


def line(values: Any) -> str:
    """One line of CSV (RFC 4180), safe to open in a spreadsheet."""
    text = io.StringIO()
    csv.writer(text).writerow([harmless(value) for value in values])
    return text.getvalue()


def harmless(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula, whatever separates its cells: text gets an apostrophe where one
    would begin. Numbers stay numbers; bytes are read as UTF-8."""
    if value is None or isinstance(value, (int, float)):
        return value
    text = bytes(value).decode("utf-8", "replace") if isinstance(value, (bytes, bytearray)) else str(value)
    text = text.encode("utf-8", "replace").decode("utf-8")  # a lone surrogate cannot be written
    return _FORMULA.sub(r"\1'", text)
