"""`load`: rows of dumps and tables into ingest_request, only new ones."""

from __future__ import annotations

import contextlib
import csv
import gc
import pathlib
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO, TypeAlias

import click

from .. import compat
from ..ingest import schema
from ..ingest.load import query
from ..ingest.load.errors import BadInput
from ..ingest.load.load import FORMATS, WITH_LOCATIONS, Batch, Load, Look, Plan, Refusal, files_of
from ..ingest.load.rows import Given
from ..ingest.load.table import Columns
from ..ingest.load.where import Where
from ..ingest.load.write import TABLES, TABLES_OF_RESULTS, DryRun, Written, look_up, write_batch
from ..ingest.types import INGEST_TYPES
from ..jobs import owned_tables, sources
from ..sqlite import iso
from ..text import counted
from . import databases
from .options import json_option
from .output import echo_json
from .paths import FilePath, shell_word
from .progress import LoadLine
from .run import EXIT_INTERRUPTED

Write: TypeAlias = "Callable[[Batch, int | None], Awaitable[Written]]"
"""Writes a batch, and no more new requests than the number."""

NEW_FILE = FilePath(exists=False)
CACHE_KIB = 8 * 1024
"""SQLite's cache of pages while it loads. A larger one gains nothing: each batch visits the index in its order."""
COLUMNS = {
    "url": "the URLs",
    "type": "the wanted files",
    "source": "the sources",
    "source_id": "the identifiers at the source",
    "doi": "the DOIs",
    "stage": "the release stages",
}
"""What a column is for -> what it holds."""


def column_options(command: Any) -> Any:
    """`--url-column` and the others."""
    for purpose, what in reversed(COLUMNS.items()):
        name = f"--{purpose.replace('_', '-')}-column"
        text = f"The column with {what} (csv, tsv, --sql; default: guessed)"
        command = click.option(name, f"{purpose}_column", metavar="NAME", help=text)(command)
    return command


@click.command()
@click.argument("db", type=NEW_FILE)
@click.argument("file", type=click.Path(exists=True, allow_dash=True, path_type=pathlib.Path), required=False)
@click.option("--format", "format", type=click.Choice(FORMATS), help="What the file is")
@click.option("--sql", "sql", metavar="QUERY", help="Load the rows of a query on DB instead of a file")
@click.option("--source", metavar="NAME", help="Where the requests are from; for rows that do not say so themselves")
@click.option(
    "--type",
    "ingest_type",
    type=click.Choice([*INGEST_TYPES, "file"]),
    help="The wanted file of rows that name none (default: pdf). Rows that name another are left out",
)
@click.option("--actor", default="unknown", show_default=True, help="Who asks, where the rows do not say so")
@column_options
@click.option(
    "--where", "conditions", multiple=True, metavar="FIELD=VALUE", help="Only records like this: year__gte=2020"
)
@click.option("--limit", type=click.IntRange(min=1), help="Load no more new requests than this")
@click.option("--dry-run", is_flag=True, help="Count, and write nothing")
@click.option("--refused", "refused_file", type=NEW_FILE, help="Where to list refused lines (default: DB-refused.csv)")
@json_option
def load(
    db: pathlib.Path,
    file: pathlib.Path | None,
    format: str | None,
    sql: str | None,
    source: str | None,
    ingest_type: str | None,
    actor: str,
    conditions: Sequence[str],
    limit: int | None,
    dry_run: bool,
    refused_file: pathlib.Path | None,
    as_json: bool,
    **columns: str | None,
) -> None:
    """Load requests from FILE, or from standard input where FILE is -, into the table ingest_request of DB.

    Example: datasette ingest load papers.db unpaywall_snapshot.jsonl.gz --format unpaywall

    Only rows whose wanted file, URL, source and identifier are not in the table yet are added. FILE may
    be compressed by gzip or zstd, or be a folder of part_… files. A load that was interrupted is
    continued by the same command.

    Exit code: 0 the whole input was read; 1 refused, or the input is cut or corrupt: what came before
    is loaded; 2 wrong usage; 130 interrupted.
    """
    if (file is None) == (sql is None):
        raise click.UsageError("Give a FILE with --format, or --sql QUERY")
    if (format is None) == (sql is None):
        raise click.UsageError(f"Give --format: {', '.join(FORMATS)}" if sql is None else "--sql takes no --format")
    kind = "pdf" if ingest_type == "file" else ingest_type
    try:
        where = Where.parse(conditions, has_locations=format in WITH_LOCATIONS)
    except ValueError as problem:
        raise click.UsageError(f"--where: {problem}") from None
    default_source = source or (format if format in WITH_LOCATIONS else None)
    given = Given(default_source, kind or "pdf", kind, actor, iso(int(time.time())))
    chosen = Columns(**{name.removesuffix("_column"): value for name, value in columns.items()})
    plan = Plan(format or "", given, where, chosen)
    refusals = Refusals(refused_file or db.with_name(f"{db.stem}-refused.csv"))
    try:
        raise SystemExit(databases.run(_load(db, file, sql, plan, limit, dry_run, refusals, as_json)))
    except KeyboardInterrupt:
        click.echo("Interrupted. What was read is loaded; the same command goes on", err=True)
        raise SystemExit(EXIT_INTERRUPTED) from None


async def _load(
    db: pathlib.Path,
    file: pathlib.Path | None,
    sql: str | None,
    plan: Plan,
    limit: int | None,
    dry_run: bool,
    refusals: Refusals,
    as_json: bool,
) -> int:
    try:
        paths = files_of(file) if file is not None and str(file) != "-" else []
        queried = query.rows_of(db, sql) if sql is not None else None
    except BadInput as problem:
        raise click.ClickException(str(problem)) from None
    is_stdin = file is not None and not paths
    line = LoadLine(is_silent=as_json)
    total = Written()
    with refusals, _collecting_between_batches():
        async with _target(db, plan, dry_run, queried.tables if queried else ()) as (write, look):
            stdin = sys.stdin.buffer if is_stdin else None
            reading = Load(plan, paths, refusals.add, stdin=stdin, look=look if limit is None else None)
            try:
                batches = reading.of_rows(queried.head, queried.rows) if queried else reading.batches()
                for batch in batches:
                    most = None if limit is None else limit - total.new
                    written = await write(batch, most)
                    total += written
                    gc.collect()
                    line.update(reading.position, reading.size, f"{total.new:,} new, {total.known:,} known")
                    if limit is not None and total.new >= limit:
                        break
            except BadInput as problem:
                raise click.ClickException(str(problem)) from None
            finally:
                line.end()
    if as_json:
        echo_json(_as_json(reading, total, refusals, dry_run))
    else:
        click.echo(_said(reading, total, refusals, db, dry_run))
    if reading.stopped is not None:
        click.echo(f"Error: {reading.stopped}", err=True)
        return 1
    return 0


@contextlib.asynccontextmanager
async def _target(
    db: pathlib.Path, plan: Plan, dry_run: bool, read: Collection[str]
) -> AsyncIterator[tuple[Write, Look | None]]:
    """What writes a batch, or only counts it, and what finds blocks that are loaded already.

    :param read: the tables of the database that are loaded from: what is learnt from them is for those who may view them
    """
    if dry_run:
        with contextlib.closing(query.read_only(db) if db.exists() else sqlite3.connect(":memory:")) as conn:
            counted_only = DryRun(conn)

            async def count(batch: Batch, most: int | None) -> Written:
                return counted_only.add(batch, most)

            yield count, None
        return
    try:
        db.touch()
    except OSError as problem:
        raise click.ClickException(f"Cannot write {db}: {problem.strerror}") from None
    async with databases.opened([db]) as (datasette, [name]):
        target = datasette.databases[name]
        names = (*(TABLES_OF_RESULTS if plan.format == "results" else TABLES), *((sources.TABLE,) if read else ()))
        specs = schema.specs(names)

        def prepare(conn: sqlite3.Connection) -> None:
            conn.execute(f"pragma cache_size = -{CACHE_KIB}")
            owned_tables.claim(conn, specs)
            if read:
                sources.record(conn, read)

        await compat.write(target, prepare)
        before = Written()

        async def write(batch: Batch, most: int | None) -> Written:
            nonlocal before
            if not (batch.rows or batch.results):
                return Written(0, batch.known)
            known = before.mostly_known
            before = await compat.write(target, lambda conn: write_batch(conn, batch, most=most, mostly_known=known))
            return before

        with contextlib.closing(query.read_only(db)) as conn:
            yield write, None if plan.format == "results" else look_up(conn)


@contextlib.contextmanager
def _collecting_between_batches() -> Iterator[None]:
    """Without the automatic search for reference cycles, which looks at the rows of a batch again and again."""
    was_on = gc.isenabled()
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()


REFUSED_COLUMNS = ("file", "line", "reason")
REFUSED_HEAD = b"file,line,reason\r\n"


@dataclass
class Refusals:
    """The refused lines: counted by reason, and written to a file, which is made when there is one to write."""

    path: pathlib.Path
    reasons: Counter[str] = field(default_factory=Counter)
    _file: TextIO | None = None

    def __enter__(self) -> Refusals:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, refusal: Refusal) -> None:
        self.reasons[refusal.reason if len(self.reasons) < 1000 or refusal.reason in self.reasons else "other"] += 1
        if self._file is None:
            try:
                self._check_existing()
                self._file = self.path.open("w", encoding="utf-8", newline="")
            except OSError as problem:
                raise click.ClickException(
                    f"Cannot write the list of refused lines, {self.path}: {problem.strerror}. Name another file with --refused"
                ) from None
            csv.writer(self._file).writerow(REFUSED_COLUMNS)
        csv.writer(self._file).writerow((refusal.file, refusal.line, refusal.reason))

    def _check_existing(self) -> None:
        """Make sure that a file that is written over is a list of refused lines: not the input, a database, or another."""
        if not self.path.is_file():
            return
        with self.path.open("rb") as file:
            head = file.read(len(REFUSED_HEAD))
        if head not in (b"", REFUSED_HEAD):
            raise click.ClickException(
                f"{self.path} exists, and is no list of refused lines. Name another file for them with --refused"
            )


SHOWN_REASONS = 10


def _said(reading: Load, total: Written, refusals: Refusals, db: pathlib.Path, dry_run: bool) -> str:
    """What was done, in sentences, with the next command."""
    would = "would be loaded" if dry_run else "loaded"
    lines = [
        f"{counted(reading.lines, 'line')} read: {counted(total.new, 'new request')} {would}, {total.known:,} known, "
        f"{counted(reading.refused, 'line')} refused."
    ]
    if total.new_results:
        lines.append(f"{counted(total.new_results, 'new result')} {would}.")
    if refusals.reasons:
        lines.append(f"Refused lines are listed in {refusals.path}:")
        lines += [f"  {number:,}: {reason}" for reason, number in refusals.reasons.most_common(SHOWN_REASONS)]
    if total.new and not dry_run:
        lines.append(f"Find their files with: datasette ingest run {shell_word(db)} ingest_request")
    return "\n".join(lines)


def _as_json(reading: Load, total: Written, refusals: Refusals, dry_run: bool) -> dict[str, Any]:
    return {
        "ok": reading.stopped is None,
        "dry_run": dry_run,
        "lines": reading.lines,
        "new": total.new,
        "known": total.known,
        "new_results": total.new_results,
        "refused": reading.refused,
        "reasons": dict(refusals.reasons.most_common()),
        "refused_file": str(refusals.path) if refusals.reasons else None,
        "error": reading.stopped,
    }
