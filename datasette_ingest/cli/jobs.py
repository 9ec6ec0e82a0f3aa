"""`jobs` and `show`: what there is, and how it goes."""

from __future__ import annotations

import json
import pathlib
import shlex
from typing import Any

import click

from ..jobs.model import Job, JobStatus, dollars
from ..jobs.service import control
from ..jobs.store import JobErrorRow
from ..web.api import job_object
from . import databases
from .options import database_argument, job_argument, json_option
from .progress import outcome_table


@click.command()
@database_argument
@click.option("--table", help="Only this table's jobs")
@click.option("--status", type=click.Choice([status.value for status in JobStatus]), help="Only jobs in this state")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True)
@json_option
def jobs(db: pathlib.Path, table: str | None, status: str | None, limit: int, as_json: bool) -> None:
    """List the jobs in DB, newest first.

    Example: datasette ingest jobs papers.db --status paused
    """

    async def look() -> tuple[list[Job], list[dict[str, Any]]]:
        async with databases.opened([db]) as (datasette, [name]):
            found = await control.listing(
                datasette, name, actor=databases.ROOT, table=table, status=status, limit=limit
            )
            return found, [await job_object(datasette, name, job) for job in found] if as_json else []

    found, objects = databases.run(look())
    if as_json:
        click.echo(json.dumps({"ok": True, "jobs": objects}, ensure_ascii=False))
    elif not found:
        click.echo(_none(db, is_narrowed=table is not None or status is not None))
    else:
        click.echo(_table(found))


def _none(db: pathlib.Path, *, is_narrowed: bool) -> str:
    path = shlex.quote(str(db))
    if is_narrowed:
        return f"No such jobs. See all of them with: datasette ingest jobs {path}"
    return f"No jobs yet. Start one with: datasette ingest run {path} TABLE"


def _table(found: list[Job]) -> str:
    head = ("id", "status", "enrichment", "table", "rows", "done", "errors", "started")
    rows = [
        (
            str(job.id),
            job.status.value,
            job.enrichment,
            job.table_name,
            f"{job.row_count:,}",
            f"{job.percent:g} %",
            f"{job.error_count:,}",
            (job.started_at or "").replace("T", " ")[:16],
        )
        for job in found
    ]
    widths = [max(len(line[place]) for line in (head, *rows)) for place in range(len(head))]
    right = {0, 4, 5, 6}
    return "\n".join(
        "  ".join(
            text.rjust(width) if place in right else text.ljust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in (head, *rows)
    )


@click.command()
@database_argument
@job_argument
@json_option
def show(db: pathlib.Path, job_id: int, as_json: bool) -> None:
    """Show one job: its state, numbers, outcomes and first errors.

    Example: datasette ingest show papers.db 3
    """

    async def look() -> tuple[Job, dict[str, Any], list[JobErrorRow]]:
        async with databases.opened([db]) as (datasette, [name]):
            job = await control.find(datasette, name, job_id, actor=databases.ROOT)
            errors = await control.errors(datasette, name, job_id, actor=databases.ROOT, limit=10)
            return job, await job_object(datasette, name, job), errors

    job, as_object, errors = databases.run(look())
    if as_json:
        click.echo(json.dumps({"ok": True, "job": as_object}, ensure_ascii=False))
        return
    click.echo(_facts(job))
    click.echo()
    click.echo(outcome_table(job))
    if as_object["waits"]:
        click.echo()
        click.echo("Rows that wait:")
        for wait in as_object["waits"]:
            click.echo(f"  {wait['rows']:,} until {wait['until']}: {wait['reason']}")
    if errors:
        click.echo()
        click.echo(f"Errors ({len(errors)} of {job.error_count:,}):")
        for error in errors:
            keys = ", ".join(json.dumps(key, ensure_ascii=False) for key in error.row_pks)
            click.echo(f"  row {keys}: {error.error}")


def _facts(job: Job) -> str:
    facts = {
        "job": f"{job.id}, {job.enrichment} over {job.table_name}",
        "status": job.status.value,
        "reason": job.cancel_reason or job.pause_reason,
        "resumes": job.resume_at,
        "waits": f"until {job.waits_until}" if job.waits_until else None,
        "filters": job.filter_querystring or "none: all rows",
        "settings": ", ".join(f"{key} = {json.dumps(value)}" for key, value in job.config.items() if value is not None),
        "rows": f"{job.done_count:,} of {job.row_count:,} answered ({job.percent:g} %), {job.error_count:,} in error",
        "cost": dollars(job.cost_nanodollars) if job.cost_nanodollars else None,
        "started": job.started_at,
        "ended": job.finished_at,
    }
    return "\n".join(f"{name + ':':<10}{text}" for name, text in facts.items() if text)


COMMANDS = (jobs, show)
