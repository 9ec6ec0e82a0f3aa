"""The rows that a job missed as a CSV file, written while they are read."""

from __future__ import annotations

import asyncio
import csv
import io
import re
from typing import Any

from datasette.utils.asgi import AsgiStream

from ..jobs.model import Job
from ..jobs.service import control, failures
from . import responses

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""A spreadsheet that opens the file would run a cell that begins so. https://owasp.org/www-community/attacks/CSV_Injection"""
_PLAIN_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)


async def missed_rows(datasette: Any, request: Any, database: str, job: Job) -> AsgiStream:
    """The download, which ends with its reader; whether the actor may see the job was asked before.

    :raises JobError: before the first byte, when the rows cannot be read
    """
    db = datasette.databases[database]
    rows = await control.missed_rows(datasette, database, job, actor=request.actor)

    async def write(writer: Any) -> None:
        if request.method == "HEAD":
            return
        leaving = asyncio.ensure_future(responses.left(request))
        try:
            await writer.write(line(rows.names))
            async for page in failures.pages(db, rows):
                if leaving.done():
                    return
                await writer.write("".join(map(line, page)))
        finally:
            leaving.cancel()

    return AsgiStream(write, headers=_headers(job), content_type="text/csv; charset=utf-8")


def _headers(job: Job) -> dict[str, str]:
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", job.table_name).strip("-") or "table"
    return {
        "Content-Disposition": f'attachment; filename="{name}-job-{job.id}-missed.csv"',
        "Cache-Control": "private, no-store",
        "X-Content-Type-Options": "nosniff",
    }


def line(values: Any) -> str:
    """One line of CSV (RFC 4180), its cells harmless to spreadsheets."""
    text = io.StringIO()
    csv.writer(text).writerow([harmless(value) for value in values])
    return text.getvalue()


def harmless(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: text that begins like one is led by an apostrophe, which makes it
    text. Numbers stay numbers; bytes are read as UTF-8."""
    if value is None or isinstance(value, (int, float)):
        return value
    text = bytes(value).decode("utf-8", "replace") if isinstance(value, (bytes, bytearray)) else str(value)
    text = text.encode("utf-8", "replace").decode("utf-8")  # half a character has no place in a file
    if text.startswith(FORMULA_STARTS) and not _PLAIN_NUMBER.fullmatch(text):
        return "'" + text
    return text
