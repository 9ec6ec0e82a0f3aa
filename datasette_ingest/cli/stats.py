"""`stats`: numbers of requests and results."""

from __future__ import annotations

import pathlib
import sqlite3
from dataclasses import asdict
from typing import Any

import click

from .. import compat
from ..ingest import stats as numbers
from ..ingest.advice import advice
from ..ingest.schema import under_prefix
from ..text import counted, percent
from . import databases
from .options import database_argument, json_option, table_prefix_option
from .output import echo_json
from .tables import text_table

DAYS_SHOWN = 14


@click.command()
@database_argument
@table_prefix_option
@json_option
def stats(db: pathlib.Path, prefix: str, as_json: bool) -> None:
    """Show how many requests and results DB has, by source, type, status, host and day.

    Example: datasette ingest stats papers.db
    """

    async def count() -> dict[str, Any]:
        async with databases.opened([db]) as (datasette, [name]):
            return await compat.read(datasette.databases[name], lambda conn: _all_parts(under_prefix(conn, prefix)))

    found = databases.run(count())
    if as_json:
        echo_json({"ok": True, **{part: [asdict(row) for row in rows] for part, rows in found.items()}})
    else:
        click.echo(_said(found))


def _all_parts(conn: sqlite3.Connection) -> dict[str, Any]:
    return {part: count(conn) for part, count in numbers.PARTS.items()}


def _said(found: dict[str, Any]) -> str:
    if not found["requests"] and not found["statuses"]:
        return "There are no requests and no results yet."
    tables = []
    if found["requests"]:
        head = ("source", "type", "requests", "tried", "hits", "coverage")
        sources: list[list[str]] = [
            [each.source, each.ingest_type, *_numbers(each.requests, each.tried, each.hits, of=each.requests)]
            for each in found["requests"]
        ]
        tables.append(text_table(head, sources, right=head[2:]))
    if found["statuses"]:
        statuses = [
            [each.status, each.ingest_type, f"{each.results:,}", f"{each.due:,}", advice(each.status)]
            for each in found["statuses"]
        ]
        tables.append(
            text_table(("status", "type", "results", "due", "what to do"), statuses, right=("results", "due"))
        )
    if found["hosts"]:
        hosts = [[each.host, f"{each.misses:,}", f"{each.status} ({each.of_status:,})"] for each in found["hosts"]]
        tables.append(text_table(("failing host", "misses", "most often"), hosts, right=("misses",)))
    if found["days"]:
        days = [[each.day, *_numbers(each.tried, each.hits, of=each.tried)] for each in found["days"][-DAYS_SHOWN:]]
        tables.append(text_table(("up to", "tried", "hits", "share"), days, right=("tried", "hits", "share")))
    results = sum(each.results for each in found["statuses"])
    requests = sum(each.requests for each in found["requests"])
    return "\n\n".join([f"{counted(requests, 'request')}, {counted(results, 'result')}.", *tables])


def _numbers(*values: int, of: int) -> list[str]:
    """The numbers, and the share of the last one."""
    return [*(f"{value:,}" for value in values), percent(values[-1], of)]
