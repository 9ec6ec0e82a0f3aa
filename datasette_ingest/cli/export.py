"""`export`: what was found, and what was not, for other programs."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TextIO, TypeAlias

import click

from .. import compat, settings
from ..ingest import schema
from ..ingest.export import documents, fatcat, feed
from ..ingest.export.errors import NoExport
from ..ingest.export.feed import Feed
from ..ingest.export.seeds import Seeds
from ..ingest.export.wanted import Cursor, Wanted
from ..ingest.load import query
from ..ingest.store.requests import KEY
from ..ingest.types import INGEST_TYPES
from ..jobs import owned_tables
from ..masking import mask_url
from ..sqlite import from_iso, iso
from ..text import counted
from ..web.failures import line as csv_line
from . import databases
from .options import database_argument, json_option, table_prefix_option
from .output import echo_exactly, echo_json
from .paths import FilePath, shell_word
from .run import EXIT_INTERRUPTED

Write: TypeAlias = "Callable[[str], object]"
NEW_FILE = FilePath(exists=False)
FORMATS = ("results", "fatcat", "seeds", "missed")
MISSED_COLUMNS = (*KEY, "code", "terminal_url", "next_try", "outcome", "message")
"""As in the CSV of a job over ingest_request."""
LEFT_OUT_HEAD = csv_line((*KEY, "reason", "meaning"))


@click.command()
@database_argument
@click.option(
    "--format", "format", type=click.Choice(FORMATS), default="results", show_default=True, help="What to write"
)
@click.option("--source", metavar="NAME", help="Only for requests of this source")
@click.option("--type", "ingest_type", type=click.Choice(list(INGEST_TYPES)), help="Only this kind of file")
@click.option(
    "--since", metavar="TIME|CURSOR", help="Only what came since: an ISO time, or the cursor of an earlier export"
)
@click.option("--hit/--miss", "hit", default=None, help="Only hits, or only misses")
@click.option(
    "--status", "statuses", metavar="SLUG", multiple=True, help="Only results with this status; may be repeated"
)
@click.option(
    "--passwords/--no-passwords",
    default=None,
    help="Whether passwords in URLs stay (default: only in seeds, where they are needed)",
)
@click.option(
    "-o", "--output", type=NEW_FILE, help="Write to this file; it is replaced when all is written. - is standard output"
)
@click.option("--left-out", type=NEW_FILE, help="fatcat: where to list the hits left out (default: DB-left-out.csv)")
@table_prefix_option
@json_option
def export(
    db: pathlib.Path,
    format: str,
    source: str | None,
    ingest_type: str | None,
    since: str | None,
    hit: bool | None,
    statuses: tuple[str, ...],
    passwords: bool | None,
    output: pathlib.Path | None,
    left_out: pathlib.Path | None,
    prefix: str,
    as_json: bool,
) -> None:
    """Write the results of DB as JSON lines, or in another format, to standard output or a file.

    Example: datasette ingest export papers.db --hit -o hits.jsonl

    \b
    results  a result with its request, as `datasette ingest schema result` describes it
    fatcat   files and the works that they belong to, as fatcat's importers take them
    missed   what was not found and why, as CSV
    seeds    pending URLs, one a line, for another crawler

    There is a line for each request; a result that nobody requested has one of its own. The cursor at
    the end, given to --since, continues with what is new: nothing is lost, and nothing comes twice
    unless it has changed.

    With --json, numbers and cursor are JSON: on standard output with -o, else on standard error.
    """
    if format == "seeds" and (since or statuses or hit is not None):
        raise click.UsageError(
            "seeds are of requests that are pending: --since, --status, --hit and --miss do not apply"
        )
    fixed = {"fatcat": True, "missed": False}.get(format)
    if fixed is not None and hit not in (None, fixed):
        raise click.UsageError(f"--format {format} is of {'hits' if fixed else 'misses'} only")
    if left_out is not None and format != "fatcat":
        raise click.UsageError("--left-out belongs to --format fatcat")
    output = None if output == pathlib.Path("-") else output
    left_out = left_out or db.with_name(f"{db.stem}-left-out.csv")
    if output is not None and format == "fatcat" and output.resolve() == left_out.resolve():
        raise click.UsageError("The hits left out need another file than the records: name one with --left-out")
    after = Cursor.read(since) if since is not None else None
    wanted = Wanted(source, ingest_type, hit if fixed is None else fixed, tuple(sorted(set(statuses))))
    if since is not None and after is None:
        wanted = replace(wanted, since=_time(since))
    asked = _Asked(format, wanted, after, format == "seeds" if passwords is None else passwords, prefix)
    try:
        done = databases.run(_export(db, asked, output, left_out))
    except NoExport as problem:
        raise click.ClickException(str(problem).replace(" DB ", f" {shell_word(db)} ")) from None
    except KeyboardInterrupt:
        click.echo("Interrupted", err=True)
        raise SystemExit(EXIT_INTERRUPTED) from None
    if as_json:
        if output is None:
            click.echo(json.dumps(done.as_json()), err=True)
        else:
            echo_json(done.as_json())
    else:
        click.echo(done.said(format, output), err=True)


def _time(text: str) -> str:
    try:
        return iso(int(from_iso(text)))
    except (ValueError, OverflowError):
        raise click.UsageError(f"--since {text}: neither an ISO time, such as 2026-11-30, nor a cursor") from None


@dataclass(frozen=True)
class _Asked:
    format: str
    wanted: Wanted
    after: Cursor | None
    passwords: bool
    prefix: str


@dataclass
class _Done:
    """What was written. `cursor`: where the next export goes on."""

    lines: int = 0
    cursor: str | None = None
    reasons: Counter[str] = field(default_factory=Counter)
    left_out: pathlib.Path | None = None
    with_password: int = 0
    invalid: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "lines": self.lines,
            "cursor": self.cursor,
            "left_out": dict(self.reasons.most_common()),
            "left_out_file": str(self.left_out) if self.reasons else None,
            "with_password": self.with_password,
            "invalid": self.invalid,
        }

    def said(self, format: str, output: pathlib.Path | None) -> str:
        lines = [f"{counted(self.lines, 'line')} written{'' if output is None else f' to {output}'}."]
        if self.reasons:
            lines.append(f"{counted(self.reasons.total(), 'hit')} left out, listed in {self.left_out}:")
            lines += [f"  {number:,}: {fatcat.REASONS[reason]}" for reason, number in self.reasons.most_common()]
        if self.invalid:
            lines.append(f"{counted(self.invalid, 'request')} left out: no http(s) URL.")
        if self.with_password:
            lines.append(f"{counted(self.with_password, 'line')} with a password: keep the file to yourself.")
        if self.cursor is not None:
            lines.append(f"Continue with: --since {self.cursor}")
        return "\n".join(lines)


async def _export(db: pathlib.Path, asked: _Asked, output: pathlib.Path | None, left_out: pathlib.Path) -> _Done:
    async with databases.opened([db]) as (datasette, [name]):
        target = datasette.databases[name]
        if asked.format != "seeds" and await compat.read(target, lambda conn: _is_unnumbered(conn, asked.prefix)):
            await compat.write(target, lambda conn: _number(conn, asked.prefix))
    with (
        contextlib.closing(feed.read_only(query.read_only(db))) as conn,
        into(output, is_private=asked.passwords) as write,
    ):
        return _written(schema.under_prefix(conn, asked.prefix), asked, write, left_out)


def _is_unnumbered(conn: sqlite3.Connection, prefix: str) -> bool:
    tables = schema.under_prefix(conn, prefix)
    return schema.stands(tables, feed.RESULTS) and feed.needs_numbers(tables)


def _number(conn: sqlite3.Connection, prefix: str) -> None:
    owned_tables.claim(conn, schema.specs([feed.RESULTS], prefix=prefix))
    feed.number(schema.under_prefix(conn, prefix))


def _written(conn: sqlite3.Connection, asked: _Asked, write: Write, left_out: pathlib.Path) -> _Done:
    done = _Done()
    if asked.format == "seeds":
        seeds = Seeds(conn, asked.wanted, doi_resolver=settings.load({}).doi_resolver)
        for url in seeds:
            has_password = mask_url(url) != url
            write((url if asked.passwords else mask_url(url)) + "\n")
            done.lines += 1
            done.with_password += has_password and asked.passwords
        done.invalid = seeds.invalid
        return done
    rows = Feed(conn, asked.wanted, asked.after, purpose=asked.format)
    stored = documents.Documents(conn)
    if asked.format == "missed":
        _write_missed(rows, write, done, passwords=asked.passwords)
    elif asked.format == "fatcat":
        _write_fatcat(rows, stored, write, done, left_out)
    else:
        for page in rows.pages(lambda row: documents.line(stored.result(row).to_json(), passwords=asked.passwords)):
            write("".join(page))
            done.lines += len(page)
    done.cursor = rows.cursor.write()
    return done


def _write_missed(rows: Feed, write: Write, done: _Done, *, passwords: bool) -> None:
    def missed(row: feed.Row) -> str:
        shown = {
            **row,
            "code": row["terminal_status_code"],
            "outcome": row["status"],
            "message": row["error_message"],
        }
        shown = shown if passwords else documents.masked(shown)
        return csv_line([shown[name] for name in MISSED_COLUMNS])

    write(csv_line(MISSED_COLUMNS))
    for page in rows.pages(missed):
        write("".join(page))
        done.lines += len(page)


def _write_fatcat(rows: Feed, stored: documents.Documents, write: Write, done: _Done, left_out: pathlib.Path) -> None:
    """Records of the hits; those that are left out are listed in the file `left_out`, if there are any."""
    done.left_out = left_out

    def record(row: feed.Row) -> tuple[str | None, str]:
        """(Why it is left out, its line there), or (None, the line of its record)."""
        result = stored.result(row)
        try:
            found = fatcat.record_of(result, pages=stored.pages_of_pdf(row["terminal_sha1hex"]))
        except fatcat.LeftOut as problem:
            reason, shown = str(problem), documents.masked(dict(row))
            return reason, csv_line([*(shown[name] for name in KEY), reason, fatcat.REASONS[reason]])
        return None, documents.line(found, passwords=False)

    with contextlib.ExitStack() as stack:
        listed: TextIO | None = None
        for page in rows.pages(record):
            for reason, line in page:
                if reason is None:
                    write(line)
                    done.lines += 1
                    continue
                if listed is None:
                    _check_list(left_out)
                    listed = stack.enter_context(_new_file(left_out))
                    listed.write(LEFT_OUT_HEAD)
                listed.write(line)
                done.reasons[reason] += 1


def _check_list(path: pathlib.Path) -> None:
    """Make sure that a file that is written over is a list of hits that were left out."""
    head = LEFT_OUT_HEAD.encode()
    if path.is_file() and _start_of(path, len(head)) not in (b"", head):
        raise click.ClickException(
            f"{path} exists, and is no list of hits left out. Name another file for them with --left-out"
        )


def _check_no_database(path: pathlib.Path) -> None:
    """Make sure that neither a SQLite database nor the journal of one is written over, whichever database it is."""
    place = path.resolve()
    beside = [place.parent / place.name.removesuffix(end) for end in ("-wal", "-shm", "-journal")]
    if any(file.is_file() and _start_of(file, len(databases.HEAD)) == databases.HEAD for file in (place, *beside)):
        raise click.ClickException(f"{path} belongs to a SQLite database. Name another file")


def _start_of(path: pathlib.Path, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as problem:
        raise click.ClickException(f"Cannot read {path}: {problem.strerror}") from None


@contextlib.contextmanager
def into(output: pathlib.Path | None, *, is_private: bool) -> Iterator[Write]:
    """What writes to standard output, or to a file.

    :param is_private: whether only its owner may read the file
    """
    if output is None:
        yield echo_exactly
        return
    with _new_file(output, is_private=is_private) as file:
        yield file.write


@contextlib.contextmanager
def _new_file(path: pathlib.Path, *, is_private: bool = False) -> Iterator[TextIO]:
    """A text file that takes its place when it is complete. An error or an interruption leaves what was there. A link
    leads to the file that is replaced."""
    _check_no_database(path)
    place = path.resolve()
    temporary = place.with_name(f".{place.name}.{os.getpid()}")

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags, 0o600 if is_private else 0o666)

    try:
        with open(temporary, "w", encoding="utf-8", errors="backslashreplace", newline="", opener=opener) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, place)
    except BaseException as problem:
        temporary.unlink(missing_ok=True)
        if isinstance(problem, OSError):
            raise click.ClickException(f"Cannot write {path}: {problem.strerror}") from None
        raise
