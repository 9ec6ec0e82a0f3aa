"""`pause`, `resume`, `cancel`, `retry`, `work`, `cache`: what a person does to jobs that exist."""

from __future__ import annotations

import pathlib
import shlex
import time
from typing import Any

import click

from .. import compat, settings
from ..jobs import cache as engine_cache
from ..jobs.engine import server
from ..jobs.engine.worker import Worker
from ..jobs.model import Job
from ..jobs.service import control
from . import databases
from .options import DB, database_argument, for_the_job, job_argument, json_option, setting_options
from .progress import ProgressLine
from .run import EXIT_INTERRUPTED, to_the_end
from .signals import interruptible


@click.command()
@database_argument
@job_argument
def pause(db: pathlib.Path, job_id: int) -> None:
    """Pause a job, wherever it runs; within a second none of its rows is at work.

    Example: datasette ingest pause papers.db 3
    """
    job = _act(db, job_id, control.pause)
    click.echo(f"Job {job.id} is paused. Go on with: datasette ingest resume {shlex.quote(str(db))} {job.id}")


@click.command()
@database_argument
@job_argument
def cancel(db: pathlib.Path, job_id: int) -> None:
    """Give a job up. What it has written stays.

    Example: datasette ingest cancel papers.db 3
    """
    job = _act(db, job_id, control.cancel)
    click.echo(f"Job {job.id} is cancelled: {job.done_count:,} of {job.row_count:,} rows were answered.")


def _act(db: pathlib.Path, job_id: int, verb: Any) -> Job:
    async def work() -> Job:
        async with databases.opened([db]) as (datasette, [name]):
            job: Job = await verb(datasette, name, job_id, actor=databases.ROOT)
            return job

    return databases.run(work())


@click.command()
@database_argument
@job_argument
@click.option("--no-run", is_flag=True, help="Only change its state; a server or a worker runs it")
@click.option(
    "--no-wait", is_flag=True, help="End when the job pauses itself or all its rows wait, instead of waiting, too"
)
@setting_options
@json_option
def resume(db: pathlib.Path, job_id: int, no_run: bool, no_wait: bool, as_json: bool, given: dict[str, Any]) -> None:
    """Let a paused job go on, and run it to its end.

    Example: datasette ingest resume papers.db 3
    """

    async def work() -> int:
        async with databases.opened([db], given) as (datasette, [name]):
            job = await control.resume(datasette, name, job_id, actor=databases.ROOT)
            if no_run:
                click.echo(f"Job {job.id} waits for a worker: datasette ingest work {shlex.quote(str(db))}")
                return 0
            return await to_the_end(datasette, name, job, db, given, waits=not no_wait, as_json=as_json)

    raise SystemExit(databases.run(work()))


@click.command()
@database_argument
@job_argument
@click.option(
    "--scope",
    type=click.Choice(["errors", "due", "misses"]),
    help="errors: rows in error; due: misses whose time has come; misses: all that may change (default: errors and due)",
)
@click.option("--no-run", is_flag=True, help="Only add the new job; a server or a worker runs it")
@click.option(
    "--no-wait", is_flag=True, help="End when the job pauses itself or all its rows wait, instead of waiting, too"
)
@setting_options
@json_option
def retry(
    db: pathlib.Path,
    job_id: int,
    scope: str | None,
    no_run: bool,
    no_wait: bool,
    as_json: bool,
    given: dict[str, Any],
) -> None:
    """Start a new job over those rows of a job that are worth another try, and run it to its end.

    Example: datasette ingest retry papers.db 3 --scope misses
    """

    async def work() -> int:
        async with databases.opened([db], given) as (datasette, [name]):
            job = await control.retry(
                datasette, name, job_id, actor=databases.ROOT, scope=scope, settings=for_the_job(given)
            )
            if no_run:
                click.echo(f"Job {job.id} waits for a worker: datasette ingest work {shlex.quote(str(db))}")
                return 0
            return await to_the_end(datasette, name, job, db, given, waits=not no_wait, as_json=as_json)

    raise SystemExit(databases.run(work()))


@click.command()
@click.argument("paths", metavar="DB...", type=DB, nargs=-1, required=True)
@click.option("--forever", is_flag=True, help="Go on when nothing is left to do, and wait for more")
@setting_options
def work(paths: tuple[pathlib.Path, ...], forever: bool, given: dict[str, Any]) -> None:
    """Run what is runnable in these databases; several workers, and a server, may share them.

    Example: datasette ingest work papers.db --forever

    Without --forever it ends when no job is pending or running: it waits for jobs whose rows wait,
    not for paused ones.
    """

    async def serve_jobs() -> int:
        async with databases.opened(list(paths), given) as (datasette, names):
            lines: dict[tuple[str, int], ProgressLine] = {}

            def watch(job: Job) -> None:
                line = lines.setdefault((job.database_name, job.id), ProgressLine())
                line.update(job)

            worker = Worker(
                datasette, databases=names, watch=watch, timing=server.timing(settings.load(given)), poll_seconds=0.5
            )
            with interruptible() as interruption:
                interruption.worker = worker
                await (worker.run_forever() if forever else worker.run_until_idle())
            for line in lines.values():
                line.end()
            return EXIT_INTERRUPTED if interruption.came and not forever else 0

    raise SystemExit(databases.run(serve_jobs()))


@click.group()
def cache() -> None:
    """The look-up cache of enrichments."""


@cache.command()
@database_argument
def prune(db: pathlib.Path) -> None:
    """Delete what has expired.

    Example: datasette ingest cache prune papers.db
    """

    async def clean() -> int:
        async with databases.opened([db]) as (datasette, [name]):
            return await compat.write(datasette.databases[name], lambda conn: engine_cache.prune(conn, time.time()))

    removed = databases.run(clean())
    click.echo(f"{removed:,} expired {'entry' if removed == 1 else 'entries'} deleted.")


COMMANDS = (pause, resume, cancel, retry, work, cache)
