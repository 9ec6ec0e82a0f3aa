"""`run`, and how a command runs a job to its end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import pathlib
import shlex
import signal
import time
from collections.abc import Mapping
from typing import Any

import click

from .. import settings
from ..ingest.types import INGEST_TYPES
from ..jobs import control, serve
from ..jobs.errors import IllegalTransition
from ..jobs.model import Job, JobStatus, from_iso
from ..jobs.worker import Worker
from ..web.api import job_object
from . import session
from .options import (
    database_argument,
    for_the_job,
    json_option,
    parse_assignments,
    setting_options,
)
from .progress import ProgressLine, outcome_table, summary

EXIT_REFUSED = 1
EXIT_PAUSED = 75
EXIT_INTERRUPTED = 130


@click.command()
@database_argument
@click.argument("table")
@click.option("--url-column", help="The column with the links (guessed from names and values)")
@click.option("--type", "ingest_type", type=click.Choice([*sorted(INGEST_TYPES), "file"]), help="The wanted file (pdf)")
@click.option("--enrichment", default="ingest", show_default=True, help="Another enrichment than ours")
@click.option("--filter", "filters", default="", metavar="QS", help="Datasette filters, such as year__gte=2020&lang=en")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="A setting of the enrichment")
@click.option("--batch-size", type=click.IntRange(min=1), help="Rows a reservation")
@click.option("--max-errors", type=click.IntRange(min=0), help="Cancel the job when more rows than this are in error")
@click.option("--no-wait", is_flag=True, help="End when the job pauses itself, instead of waiting until it goes on")
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

    Exit code: 0 finished; 1 cancelled or refused; 2 wrong usage; 75 paused by itself; 130 interrupted.
    """
    config = parse_assignments(assignments)
    if url_column is not None:
        config["url_column"] = url_column
    if ingest_type is not None:
        config["ingest_type"] = ingest_type
    options = {"batch_size": batch_size, "max_errors": max_errors}

    async def work() -> int:
        async with session.opened([db], given) as (datasette, [name]):
            job = await control.start(
                datasette,
                name,
                table,
                enrichment=enrichment,
                filters=filters,
                config=config,
                options={key: value for key, value in options.items() if value is not None},
                settings=for_the_job(given),
                actor=session.ROOT,
            )
            return await to_the_end(datasette, name, job, db, given, waits=not no_wait, as_json=as_json)

    raise SystemExit(session.run(work()))


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
    interrupted = asyncio.Event()
    while True:
        worker = Worker(
            datasette,
            databases=[name],
            only=(name, job.id),
            watch=line.update,
            timing=serve.timing(settings.load(given)),
            poll_seconds=0.2,
        )
        with _interruptible(worker, interrupted):
            await worker.run_until_idle()
        if interrupted.is_set():
            with contextlib.suppress(IllegalTransition):
                await control.pause(datasette, name, job.id, actor=session.ROOT, reason="Interrupted")
        job = await control.find(datasette, name, job.id, actor=session.ROOT)
        if interrupted.is_set() or not waits or job.status is not JobStatus.PAUSED or job.resume_at is None:
            break
        line.end()
        if not as_json:
            click.echo(f"Paused until {job.resume_at}: {job.pause_reason}", err=True)
        if await _sleep_until(job.resume_at, interrupted):
            break
    line.end()
    if as_json:
        click.echo(json.dumps(await job_object(datasette, name, job), ensure_ascii=False))
    else:
        click.echo(outcome_table(job))
        click.echo(summary(job, shlex.quote(str(path))))
    if interrupted.is_set() and job.status is not JobStatus.FINISHED:
        return EXIT_INTERRUPTED
    return {JobStatus.FINISHED: 0, JobStatus.CANCELLED: EXIT_REFUSED}.get(job.status, EXIT_PAUSED)


@contextlib.contextmanager
def _interruptible(worker: Worker, interrupted: asyncio.Event) -> Any:
    """Ctrl-C and SIGTERM commit what is finished and stop; a second one stops at once."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        interrupted.set()
        worker.stop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)

    with contextlib.suppress(NotImplementedError, RuntimeError):  # not the main thread, or Windows
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError, RuntimeError):
                loop.remove_signal_handler(number)


async def _sleep_until(resume_at: str, interrupted: asyncio.Event) -> bool:
    """Wait for that time; True when Ctrl-C ended the wait."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(NotImplementedError, RuntimeError):
        loop.add_signal_handler(signal.SIGINT, interrupted.set)
    try:
        await asyncio.wait_for(interrupted.wait(), max(0.05, from_iso(resume_at) - time.time()))
    except asyncio.TimeoutError:
        return False
    finally:
        with contextlib.suppress(NotImplementedError, RuntimeError):
            loop.remove_signal_handler(signal.SIGINT)
    return True
