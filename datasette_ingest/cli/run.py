"""`run`, and how a command runs a job to its end."""

from __future__ import annotations

import contextlib
import json
import pathlib
import shlex
import sqlite3
import time
from collections.abc import Mapping, Sequence
from typing import Any

import click

from .. import compat, settings
from ..ingest.types import INGEST_TYPES
from ..jobs import registry
from ..jobs.engine import server
from ..jobs.engine.worker import Worker
from ..jobs.errors import IllegalTransition
from ..jobs.model import Job, JobStatus
from ..jobs.service import control
from ..sqlite import from_iso
from ..web.api import job_object
from . import databases
from .options import database_argument, for_the_job, json_option, parse_assignments, setting_options
from .progress import ProgressLine, outcome_table, summary
from .signals import Interruption, interruptible

EXIT_REFUSED = 1
EXIT_PAUSED = 75
EXIT_INTERRUPTED = 130


@click.command()
@database_argument
@click.argument("table")
@click.option("--url-column", help="The column with the links (default: guessed from names and values)")
@click.option(
    "--type", "ingest_type", type=click.Choice([*sorted(INGEST_TYPES), "file"]), help="The wanted file (default: pdf)"
)
@click.option("--enrichment", default="ingest", show_default=True, help="What to do with the rows")
@click.option("--filter", "filters", default="", metavar="QS", help="Datasette filters, such as year__gte=2020&lang=en")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="A setting of the enrichment")
@click.option("--batch-size", type=click.IntRange(min=1), help="Rows that are handed out at once")
@click.option("--max-errors", type=click.IntRange(min=0), help="Cancel the job when more rows than this are in error")
@click.option(
    "--no-wait", is_flag=True, help="End when the job pauses itself or all its rows wait, instead of waiting, too"
)
@setting_options
@json_option
def run(
    db: pathlib.Path,
    table: str,
    url_column: str | None,
    ingest_type: str | None,
    enrichment: str,
    filters: str,
    assignments: tuple[str, ...],
    batch_size: int | None,
    max_errors: int | None,
    no_wait: bool,
    as_json: bool,
    given: dict[str, Any],
) -> None:
    """Enrich the rows of TABLE in DB, from start to end.

    Example: datasette ingest run papers.db papers --url-column url --filter year=2024

    Exit code: 0 finished; 1 cancelled or refused; 2 wrong usage; 75 paused or, with --no-wait, left
    to whoever works on it when its rows have waited; 130 interrupted, which pauses it, too.
    """
    config = parse_assignments(assignments)
    if url_column is not None:
        config["url_column"] = url_column
    if ingest_type is not None:
        config["ingest_type"] = ingest_type
    options = {"batch_size": batch_size, "max_errors": max_errors}

    async def work() -> int:
        async with databases.opened([db], given) as (datasette, [name]):
            await _require_table(datasette.databases[name], table, db)
            if enrichment == "ingest" and "url_column" not in config:
                await _require_guess(datasette, datasette.databases[name], table)
            job = await control.start(
                datasette,
                name,
                table,
                enrichment=enrichment,
                filters=filters,
                config=config,
                options={key: value for key, value in options.items() if value is not None},
                settings=for_the_job(given),
                actor=databases.ROOT,
            )
            return await to_the_end(datasette, name, job, db, given, waits=not no_wait, as_json=as_json)

    raise SystemExit(databases.run(work()))


async def _require_table(db: Any, table: str, path: pathlib.Path) -> None:
    """Stop at a table that is not there, and name those that are: whoever has the file may know them."""
    if await compat.read(db, lambda conn: _has(conn, table)):
        return
    hidden = set(await db.hidden_table_names())
    names = [*await db.table_names(), *await db.view_names()]
    shown = sorted(name for name in names if name not in hidden and not name.startswith("_"))
    raise click.ClickException(f"There is no table {table!r} in {path}. Its tables: {_listed(shown) or 'none'}")


def _has(conn: sqlite3.Connection, name: str) -> bool:
    """Whether there is a table or view of that name, in any case."""
    found = conn.execute(
        "select 1 from sqlite_master where type in ('table', 'view') and name = ? collate nocase", [name]
    )
    return found.fetchone() is not None


async def _require_guess(datasette: Any, db: Any, table: str) -> None:
    """Stop where no column was named and none can be guessed."""
    chosen = await registry.enrichment(datasette, "ingest")
    if (await chosen.defaults(db, table)).get("url_column") is None:
        columns = _listed(await db.table_columns(table))
        raise click.ClickException(
            f"No column of {table!r} looks as if it held links. Name one with --url-column; there are {columns}"
        )


def _listed(names: Sequence[str], most: int = 20) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


async def to_the_end(
    datasette: Any,
    name: str,
    job: Job,
    path: pathlib.Path,
    given: Mapping[str, Any],
    *,
    waits: bool,
    as_json: bool,
) -> int:
    """Run the job here until it is over, and say how it ended; the exit code."""
    line = ProgressLine(is_silent=as_json)
    with interruptible() as interruption:
        while True:
            job = await _until_it_rests(datasette, name, job, given, line, interruption, waits=waits)
            if interruption.came or not waits or job.status is not JobStatus.PAUSED or job.resume_at is None:
                break
            line.end()
            if not as_json:
                click.echo(f"Paused until {job.resume_at}: {job.pause_reason}", err=True)
            if await interruption.wait(max(0.05, from_iso(job.resume_at) - time.time())):
                break
    line.end()
    if as_json:
        click.echo(json.dumps(await job_object(datasette, name, job), ensure_ascii=False))
    else:
        click.echo(outcome_table(job))
        progress = await control.progress(datasette, name, job.id)
        click.echo(summary(job, shlex.quote(str(path)), progress.waits))
    if interruption.came and job.status is not JobStatus.FINISHED:
        return EXIT_INTERRUPTED
    return {JobStatus.FINISHED: 0, JobStatus.CANCELLED: EXIT_REFUSED}.get(job.status, EXIT_PAUSED)


async def _until_it_rests(
    datasette: Any,
    name: str,
    job: Job,
    given: Mapping[str, Any],
    line: ProgressLine,
    interruption: Interruption,
    *,
    waits: bool,
) -> Job:
    """Run the job until it is over or paused, whoever paused it; an interruption pauses it, too.

    :param waits: False ends also when all its rows wait
    """
    worker = Worker(
        datasette,
        databases=[name],
        only=(name, job.id),
        watch=line.update,
        timing=server.timing(settings.load(given)),
        poll_seconds=0.2,
    )
    interruption.worker = worker
    await worker.run_until_idle(waits=waits)
    if interruption.came:
        with contextlib.suppress(IllegalTransition):
            await control.pause(datasette, name, job.id, actor=databases.ROOT, reason="Interrupted")
    return await control.find(datasette, name, job.id, actor=databases.ROOT)
