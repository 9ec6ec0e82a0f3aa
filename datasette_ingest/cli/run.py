"""`run` and `work`: start a job and run it to its end; run the jobs that are waiting."""

from __future__ import annotations

import contextlib
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import click

from .. import settings, text
from ..ingest.types import INGEST_TYPES
from ..jobs import registry
from ..jobs.engine import server
from ..jobs.engine.worker import Worker
from ..jobs.errors import IllegalTransition, TableNotFound
from ..jobs.model import Job, JobStatus, StartRequest
from ..jobs.service import control, permissions, queries
from ..jobs.service.permissions import ROOT, EnrichableTable
from ..sqlite import from_iso
from . import databases
from .databases import job_as_json
from .options import (
    DB,
    database_argument,
    for_the_job,
    job_option,
    json_option,
    no_wait_option,
    parse_assignments,
    setting_options,
)
from .output import echo_json
from .paths import shell_word
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
@click.option("--enrichment", default="ingest", show_default=True, help="Which enrichment to run")
@click.option("--filter", "filters", default="", metavar="QS", help="Datasette filters, such as year__gte=2020&lang=en")
@click.option("--due", "scope", flag_value="due", help="Only misses whose next try has come")
@click.option(
    "--pending", "scope", flag_value="pending", help="Only rows without a result, and misses whose next try has come"
)
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="A setting of the enrichment")
@job_option("batch_size")
@job_option("max_errors")
@no_wait_option
@setting_options
@json_option
def run(
    db: pathlib.Path,
    table: str,
    url_column: str | None,
    ingest_type: str | None,
    enrichment: str,
    filters: str,
    scope: str | None,
    assignments: tuple[str, ...],
    batch_size: int | None,
    max_errors: int | None,
    **running: Any,
) -> None:
    """Enrich the rows of TABLE in DB, from start to end.

    Example: datasette ingest run papers.db papers --url-column url --filter year=2024

    Over ingest_request, what `load` has loaded, the columns are known: datasette ingest run
    papers.db ingest_request --pending

    Exit code: 0 finished; 1 cancelled or refused; 2 wrong usage; 75 paused, or --no-wait was
    given and all remaining rows wait; 130 interrupted, which also pauses the job.
    """
    config = parse_assignments(assignments)
    config |= {"url_column": url_column} if url_column is not None else {}
    config |= {"ingest_type": ingest_type} if ingest_type is not None else {}
    options = {"batch_size": batch_size, "max_errors": max_errors}
    if scope is not None and {"url_column", "type_column", "ingest_type"} & config.keys():
        raise click.UsageError(
            f"--{scope} finds its rows by the table's usual columns: leave out --url-column and --type"
        )
    given = running["given"]
    request = StartRequest(
        table,
        enrichment,
        f"{filters}&_ingest_{scope}={quote(enrichment)}" if scope is not None else filters,
        config,
        {key: value for key, value in options.items() if value is not None},
        ROOT,
        settings=for_the_job(given),
    )

    async def work() -> int:
        async with databases.opened([db], given) as (datasette, [name]):
            found = await _require_table(datasette, name, table, db)
            if enrichment == "ingest" and "url_column" not in config:
                await _require_guess(datasette, found)
            job = await control.start_on(datasette, found, request)
            return await run_to_end(datasette, name, job, db, **running)

    raise SystemExit(databases.run(work()))


async def _require_table(datasette: Any, name: str, table: str, path: pathlib.Path) -> EnrichableTable:
    """Stop at a table that does not exist, and name those that do: whoever has the file may know them."""
    try:
        return await permissions.require_table(datasette, ROOT, name, table)
    except TableNotFound:
        db = datasette.databases[name]
        hidden = set(await db.hidden_table_names())
        names = [*await db.table_names(), *await db.view_names()]
        shown = sorted(each for each in names if each not in hidden and not each.startswith("_"))
        raise click.ClickException(
            f"There is no table {table!r} in {text.name(str(path))}. Its tables: {_listed(shown) or 'none'}"
        ) from None


async def _require_guess(datasette: Any, table: EnrichableTable) -> None:
    """Stop where no column was named and none can be guessed."""
    chosen = await registry.enrichment(datasette, "ingest")
    if (await chosen.defaults(table.db, table.name)).get("url_column") is None:
        raise click.ClickException(
            f"No column of {table.name!r} seems to hold links. Name one with --url-column; the columns are "
            + _listed(table.columns)
        )


def _listed(names: Sequence[str], most: int = 20) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(text.name, names[:most])) + more


async def run_to_end(
    datasette: Any,
    name: str,
    job: Job,
    path: pathlib.Path,
    given: Mapping[str, Any],
    *,
    no_wait: bool = False,
    as_json: bool = False,
) -> int:
    """Run the job here until it ends or is paused, and say how; the exit code.

    :param no_wait: return instead of waiting when all remaining rows wait or the job is paused until a time
    """
    line = ProgressLine(is_silent=as_json)
    with interruptible() as interruption:
        while True:
            job = await _until_it_stops(datasette, name, job, given, line, interruption, no_wait=no_wait)
            if interruption.came or no_wait or job.status is not JobStatus.PAUSED or job.resume_at is None:
                break
            line.end()
            if not as_json:
                click.echo(f"Paused until {text.moment(job.resume_at)}: {job.pause_reason}", err=True)
            if await interruption.wait(max(0.05, from_iso(job.resume_at) - time.time())):
                break
    line.end()
    if as_json:
        echo_json(await job_as_json(datasette, name, job))
    else:
        click.echo(outcome_table(job))
        waits = await queries.waits(datasette.databases[name], job)
        click.echo(summary(job, shell_word(path), waits))
    if interruption.came and job.status is not JobStatus.FINISHED:
        return EXIT_INTERRUPTED
    return {JobStatus.FINISHED: 0, JobStatus.CANCELLED: EXIT_REFUSED}.get(job.status, EXIT_PAUSED)


async def _until_it_stops(
    datasette: Any,
    name: str,
    job: Job,
    given: Mapping[str, Any],
    line: ProgressLine,
    interruption: Interruption,
    *,
    no_wait: bool,
) -> Job:
    """Run the job until it ends or is paused, by whomever; an interruption pauses it too.

    :param no_wait: also stop when all its rows wait
    """
    worker = Worker(
        datasette,
        databases=[name],
        only=(name, job.id),
        on_update=line.update,
        timing=server.timing(settings.load(given)),
        poll_seconds=0.2,
    )
    interruption.worker = worker
    await worker.run_until_idle(waits=not no_wait)
    if interruption.came:
        with contextlib.suppress(IllegalTransition):
            await control.pause(datasette, name, job.id, actor=ROOT, reason="Interrupted")
    return await queries.find(datasette, name, job.id, actor=ROOT)


@click.command()
@click.argument("paths", metavar="DB...", type=DB, nargs=-1, required=True)
@click.option("--forever", is_flag=True, help="Wait for more jobs when there is nothing left to do")
@setting_options
def work(paths: tuple[pathlib.Path, ...], forever: bool, given: dict[str, Any]) -> None:
    """Run the jobs in these databases. Several workers and a server may share them.

    Example: datasette ingest work papers.db --forever

    Without --forever it ends when no job is pending or running. It waits for rows that wait, and not
    for paused jobs.
    """

    async def run_jobs() -> int:
        async with databases.opened(list(paths), given) as (datasette, names):
            lines: dict[tuple[str, int], ProgressLine] = {}

            def on_update(job: Job) -> None:
                line = lines.setdefault((job.database_name, job.id), ProgressLine())
                line.update(job)

            worker = Worker(
                datasette,
                databases=names,
                on_update=on_update,
                timing=server.timing(settings.load(given)),
                poll_seconds=0.5,
            )
            with interruptible() as interruption:
                interruption.worker = worker
                await (worker.run_forever() if forever else worker.run_until_idle())
            for line in lines.values():
                line.end()
            if worker.rests.resting and not forever:
                return 1  # the log has said why
            return EXIT_INTERRUPTED if interruption.came and not forever else 0

    raise SystemExit(databases.run(run_jobs()))
