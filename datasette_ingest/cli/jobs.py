"""`jobs`, `show`, `pause`, `resume`, `cancel`, `retry`, `cache`: list, look at and change jobs."""

from __future__ import annotations

import json
import pathlib
import time
from collections.abc import Awaitable, Callable
from typing import Any

import click

from .. import compat, text
from ..jobs import cache as engine_cache
from ..jobs.model import Job, JobStatus, dollars
from ..jobs.service import control, failures, queries
from ..jobs.service.permissions import ROOT
from ..masking import mask
from ..web import failures as failures_csv
from . import databases
from .databases import job_as_json
from .export import NEW_FILE, into
from .options import database_argument, for_the_job, job_argument, json_option, running_options
from .output import echo_json
from .paths import shell_word
from .progress import outcome_table, retries_text
from .run import run_to_end
from .tables import text_table


@click.command()
@database_argument
@click.option("--table", help="Only this table's jobs")
@click.option("--status", type=click.Choice([status.value for status in JobStatus]), help="Only jobs in this state")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="How many jobs to list")
@json_option
def jobs(db: pathlib.Path, table: str | None, status: str | None, limit: int, as_json: bool) -> None:
    """List the jobs in DB, newest first.

    Example: datasette ingest jobs papers.db --status paused
    """

    async def read() -> str | dict[str, Any]:
        async with databases.opened([db]) as (datasette, [name]):
            found = await queries.list_jobs(datasette, name, actor=ROOT, table=table, status=status, limit=limit)
            if as_json:
                shown = [await job_as_json(datasette, name, job) for job in found]
                return {"ok": True, "jobs": shown}
            return _table(found) if found else _none(db, is_narrowed=table is not None or status is not None)

    _show(databases.run(read()))


def _show(result: str | dict[str, Any]) -> None:
    if isinstance(result, str):
        click.echo(result)
    else:
        echo_json(result)


def _none(db: pathlib.Path, *, is_narrowed: bool) -> str:
    path = shell_word(db)
    if is_narrowed:
        return f"No jobs match. List all jobs with: datasette ingest jobs {path}"
    return f"No jobs yet. Start one with: datasette ingest run {path} TABLE"


def _state(job: Job) -> str:
    """The job's status, and until when it waits or is paused."""
    if job.waits_until:
        return f"{job.status.value}, waits until {text.moment(job.waits_until)}"
    return job.status.value + (f" until {text.moment(job.resume_at)}" if job.resume_at else "")


def _table(found: list[Job]) -> str:
    head = ("id", "status", "enrichment", "table", "rows", "done", "errors", "misses", "started")
    rows = [
        (
            job.id,
            _state(job),
            job.enrichment,
            text.name(job.table_name),
            text.total(job.row_count, job.is_counted),
            f"{job.percent:g} %" if job.is_counted else "",
            f"{job.error_count:,}",
            retries_text(job),
            (job.started_at or "").replace("T", " ")[:16],
        )
        for job in found
    ]
    return text_table(head, rows, right=("id", "rows", "done", "errors"))


@click.command()
@database_argument
@job_argument
@json_option
def show(db: pathlib.Path, job_id: int, as_json: bool) -> None:
    """Show one job: its state, numbers, outcomes and first errors.

    Example: datasette ingest show papers.db 3
    """

    async def read() -> str | dict[str, Any]:
        async with databases.opened([db]) as (datasette, [name]):
            job = await queries.find(datasette, name, job_id, actor=ROOT)
            shown = await job_as_json(datasette, name, job)
            if as_json:
                return {"ok": True, "job": shown}
            errors = await queries.errors(datasette.databases[name], job, limit=10)
            lines = [_facts(job), "", outcome_table(job)]
            if shown["waits"]:
                waits = [f"  {wait['rows']:,}{_until(wait['until'])}: {wait['reason']}" for wait in shown["waits"]]
                lines += ["", "Rows that wait:", *waits]
            if errors:
                lines += ["", f"Errors ({len(errors)} of {job.error_count:,}):"]
            for error in errors:
                keys = ", ".join(json.dumps(key, ensure_ascii=False) for key in error.row_pks)
                lines.append(f"  row {keys}: {error.error}")
            return "\n".join(lines)

    _show(databases.run(read()))


@click.command()
@database_argument
@job_argument
@click.option("--column", "columns", multiple=True, help="A column of the table to add; give it again for more")
@click.option("--bom", is_flag=True, help="Begin with a byte order mark, by which spreadsheets know UTF-8")
@click.option("-o", "--output", type=NEW_FILE, help="Write to this file; it is replaced when all is written")
def missed(db: pathlib.Path, job_id: int, columns: tuple[str, ...], bom: bool, output: pathlib.Path | None) -> None:
    """Write the rows of a job without success as CSV: key, link, why, and when to try again.

    Example: datasette ingest missed papers.db 3 --column title -o missed.csv
    """

    async def work() -> None:
        async with databases.opened([db]) as (datasette, [name]):
            read = datasette.databases[name]
            job = await queries.find(datasette, name, job_id, actor=ROOT)
            chosen = [*await failures_csv.label_columns(read, job.table_name), *columns]
            query = await failures.failure_query(datasette, read, job, ROOT, columns=chosen)
            with into(None if output == pathlib.Path("-") else output, is_private=False) as write:
                write(failures_csv.BOM * bom + failures_csv.line(query.names))
                async for page in failures.pages(read, query):
                    write("".join(map(failures_csv.line, page)))

    databases.run(work())


def _until(moment: str | None) -> str:
    return "" if moment is None else f" until {text.moment(moment)}"


def _facts(job: Job) -> str:
    facts = {
        "job": f"{job.id}, {job.enrichment} over {text.name(job.table_name)}",
        "status": job.status.value,
        "reason": job.cancel_reason or job.pause_reason,
        "resumes": text.moment(job.resume_at),
        "waits": f"until {text.moment(job.waits_until)}" if job.waits_until else None,
        "filters": job.filter_querystring or "none: all rows",
        "settings": ", ".join(f"{key} = {json.dumps(value)}" for key, value in job.config.items() if value is not None),
        "rows": f"{job.done_count:,} of {text.total(job.row_count, job.is_counted)} answered"
        + (f" ({job.percent:g} %)" if job.is_counted else "")
        + f", {job.error_count:,} in error",
        "misses": retries_text(job),
        "cost": dollars(job.cost_nanodollars) if job.cost_nanodollars else None,
        "started": text.moment(job.started_at),
        "ended": text.moment(job.finished_at),
    }
    return "\n".join(f"{name + ':':<10}{mask(fact)}" for name, fact in facts.items() if fact)


# ---- changing jobs ----------------------------------------------------------------------------------------------


@click.command()
@database_argument
@job_argument
def pause(db: pathlib.Path, job_id: int) -> None:
    """Pause a job, whichever process runs it. It stops within a second.

    Example: datasette ingest pause papers.db 3
    """
    job = _take(db, lambda datasette, name: control.pause(datasette, name, job_id, actor=ROOT))
    click.echo(f"Job {job.id} is paused. Resume it with: datasette ingest resume {shell_word(db)} {job.id}")


@click.command()
@database_argument
@job_argument
def cancel(db: pathlib.Path, job_id: int) -> None:
    """End a job for good. What it has written stays.

    Example: datasette ingest cancel papers.db 3
    """
    job = _take(db, lambda datasette, name: control.cancel(datasette, name, job_id, actor=ROOT))
    click.echo(f"Job {job.id} is cancelled: {job.done_count:,} of {job.row_count:,} rows were answered.")


@click.command()
@database_argument
@job_argument
@running_options
def resume(db: pathlib.Path, job_id: int, no_run: bool, **running: Any) -> None:
    """Resume a paused job, and run it to its end.

    Example: datasette ingest resume papers.db 3
    """
    _take_and_run(db, no_run, running, lambda datasette, name: control.resume(datasette, name, job_id, actor=ROOT))


@click.command()
@database_argument
@job_argument
@click.option(
    "--scope",
    type=click.Choice(["errors", "due", "misses"]),
    help="errors: rows in error; due: misses whose time has come; misses: all misses that may change "
    "(default: errors and due)",
)
@running_options
def retry(db: pathlib.Path, job_id: int, scope: str | None, no_run: bool, **running: Any) -> None:
    """Retry the rows of a job that may succeed now, in a new job, and run it to its end.

    Example: datasette ingest retry papers.db 3 --scope misses
    """
    settings = for_the_job(running["given"])
    _take_and_run(
        db,
        no_run,
        running,
        lambda datasette, name: control.retry(datasette, name, job_id, actor=ROOT, scope=scope, settings=settings),
    )


def _take(db: pathlib.Path, step: Callable[[Any, str], Awaitable[Job]]) -> Job:
    """Change a job."""

    async def work() -> Job:
        async with databases.opened([db]) as (datasette, [name]):
            return await step(datasette, name)

    return databases.run(work())


def _take_and_run(
    db: pathlib.Path, no_run: bool, running: dict[str, Any], step: Callable[[Any, str], Awaitable[Job]]
) -> None:
    """Change or add a job, and run it here unless `no_run`; exits with the code that says how it ended."""

    async def work() -> int:
        async with databases.opened([db], running["given"]) as (datasette, [name]):
            job = await step(datasette, name)
            if no_run:
                click.echo(f"Job {job.id} waits for a worker: datasette ingest work {shell_word(db)}")
                return 0
            return await run_to_end(datasette, name, job, db, **running)

    raise SystemExit(databases.run(work()))


# ---- the cache --------------------------------------------------------------------------------------------------


@click.group()
def cache() -> None:
    """The look-up cache of enrichments."""


@cache.command()
@database_argument
def prune(db: pathlib.Path) -> None:
    """Delete expired entries.

    Example: datasette ingest cache prune papers.db
    """

    async def clean() -> int:
        async with databases.opened([db]) as (datasette, [name]):
            return await compat.write(datasette.databases[name], lambda conn: engine_cache.prune(conn, time.time()))

    removed = databases.run(clean())
    click.echo(f"{removed:,} expired {'entry' if removed == 1 else 'entries'} deleted.")


COMMANDS = (jobs, show, missed, pause, resume, cancel, retry, cache)
