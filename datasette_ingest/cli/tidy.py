"""`schema` and `drop`: the JSON Schemas of requests and results; remove every table of ours."""

from __future__ import annotations

import json
import pathlib
import sqlite3

import click

from .. import compat
from ..ingest.model import json_schema
from ..jobs import owned_tables
from ..jobs.model import JobStatus
from ..jobs.service import queries
from ..jobs.service.permissions import ROOT
from ..sqlite import quote
from ..text import counted
from . import databases
from .options import database_argument


@click.command()
@click.argument("name", type=click.Choice(["request", "result"]))
def schema(name: str) -> None:
    """Print the JSON Schema of a request or a result, as load and the API read and write them.

    Example: datasette ingest schema result
    """
    click.echo(json.dumps(json_schema("request" if name == "request" else "result"), indent=2))


@click.command()
@database_argument
@click.option("--yes", is_flag=True, help="Do not ask")
def drop(db: pathlib.Path, yes: bool) -> None:
    """Remove every table and view that this plugin has made in DB, after asking.

    Example: datasette ingest drop papers.db

    Your own tables stay as they are, with the columns that jobs have written onto their rows. Of
    tables of jobs that datasette-enrichments uses too, only the rows of this plugin's jobs are removed.
    """

    async def remove() -> list[str]:
        async with databases.opened([db]) as (datasette, [name]):
            target = datasette.databases[name]
            running = await queries.list_jobs(datasette, name, actor=ROOT, status=JobStatus.RUNNING.value, limit=1)
            if running:
                raise click.ClickException(f"Job {running[0].id} is running: pause or cancel it first")
            found = await compat.read(target, _sizes)
            if not found:
                return []
            if not yes:
                click.echo("\n".join(f"  {kind} {each}: {size}" for kind, each, size in found))
                click.confirm(f"Remove these {len(found)} tables and views from {db} for good?", abort=True)
            return await compat.write(target, owned_tables.drop_all)

    removed = databases.run(remove())
    click.echo(f"Removed: {', '.join(removed)}" if removed else f"{db} has no table of this plugin.")


def _sizes(conn: sqlite3.Connection) -> list[tuple[str, str, str]]:
    """(kind, name, how many rows) of what would be removed."""
    shared = owned_tables.shared_with_others(conn)

    def size(kind: str, name: str) -> str:
        if kind == "view":
            return "a view"
        rows = counted(_count(conn, name, shared.get(name, "true")), "row")
        return f"{rows}; the table and those of datasette-enrichments stay" if name in shared else rows

    return [(kind, name, size(kind, name)) for kind, name in owned_tables.all_of_ours(conn)]


def _count(conn: sqlite3.Connection, table: str, condition: str) -> int:
    return int(conn.execute(f"select count(*) from {quote(table)} where {condition}").fetchone()[0])
