"""`documents`: kept files are read, where what is read from them is missing."""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Callable
from typing import Any

import click

from .. import compat, settings, sqlite
from ..ingest import schema
from ..ingest.kept_reading import KeptReading, Progress, failed
from ..ingest.sinks import store_of
from ..text import counted
from . import databases
from .options import database_argument, file_setting_options, json_option, table_prefix_option
from .output import echo_json
from .progress import ReadingLine
from .run import EXIT_INTERRUPTED
from .signals import interruptible

SHOWN = 20
"""Errors that are listed."""


@click.command()
@database_argument
@click.option("--again", is_flag=True, help="Read also files that this version has read")
@table_prefix_option
@file_setting_options
@json_option
def documents(db: pathlib.Path, again: bool, prefix: str, given: dict[str, Any], as_json: bool) -> None:
    """Read kept files of hits again, where what is read from them is missing or of an older version.

    Example: datasette ingest documents papers.db -s store files

    It fills pdf_meta, ingest_fulltext, ingest_thumbnail and their like, and may run beside a server and
    jobs. When it is interrupted, the same command goes on.

    Exit code: 0 everything is read; 1 bodies are missing or damaged, or could not be read; 130
    interrupted.
    """
    chosen = settings.load(given)
    kept = store_of(chosen)
    if kept is None:
        raise click.UsageError("Name the store with -s store PLACE, or a configuration file that has it with -c FILE")
    line = ReadingLine(is_silent=as_json)
    reading = KeptReading(chosen, kept, again=again, on_progress=line.update)

    async def read_all() -> bool:
        """Whether it was interrupted."""
        async with databases.opened([db], given) as (datasette, [name]):
            database = datasette.databases[name]

            async def read(look: Callable[[sqlite3.Connection], Any]) -> Any:
                return await compat.read(database, lambda conn: look(schema.under_prefix(conn, prefix)))

            async def write(change: Callable[[sqlite3.Connection], None]) -> None:
                def with_tables(conn: sqlite3.Connection) -> None:
                    sqlite.migrate(conn, schema.specs(reading.tables, prefix=prefix))
                    change(schema.under_prefix(conn, prefix))

                await compat.write(database, with_tables)

            with interruptible() as interruption:
                try:
                    await reading.run(read, write, is_stopped=lambda: interruption.came)
                finally:
                    await kept.aclose()
                return interruption.came

    try:
        was_interrupted = databases.run(read_all())
    finally:
        line.end()
    progress = reading.progress
    if as_json:
        echo_json(
            {
                "ok": not (failed(progress) or was_interrupted),
                "hits": progress.looked_at,
                "read": progress.read,
                "statuses": dict(progress.statuses),
                "missing": progress.missing,
                "damaged": progress.damaged,
                "errors": progress.errors,
                "messages": progress.messages,
            }
        )
    else:
        _print(progress, kept.place, was_interrupted)
    raise SystemExit(EXIT_INTERRUPTED if was_interrupted else int(failed(progress)))


def _print(progress: Progress, place: str, was_interrupted: bool) -> None:
    click.echo(f"{counted(progress.looked_at, 'hit')} looked at, {counted(progress.read, 'file')} read.")
    for status, number in sorted(progress.statuses.items()):
        click.echo(f"  {status}: {number:,}")
    if progress.missing:
        click.echo(
            f"{counted(progress.missing, 'body is', 'bodies are')} missing from the store {place}: `store check` lists them. "
            "If that is the right store, fetch their rows again with --set force_recrawl=true."
        )
    if progress.damaged:
        click.echo(f"{counted(progress.damaged, 'body has', 'bodies have')} another SHA-1: see `store check --hash`.")
    if progress.errors:
        click.echo(f"{counted(progress.errors, 'file')} could not be read:", err=True)
    for message in progress.messages[:SHOWN]:
        click.echo(f"  {message}", err=True)
    if was_interrupted:
        click.echo("Interrupted. What was read is written; the same command goes on", err=True)
