"""`store check`: the kept files against the tables that name them."""

from __future__ import annotations

import json
import pathlib
from dataclasses import asdict
from typing import Any

import click

from .. import compat, settings
from ..ingest.kept_check import FAULTS, StoreCheck
from ..ingest.sinks import KeptFiles, store_of
from ..text import counted
from . import databases
from .options import DB, file_setting_options, json_option
from .tables import text_table

SHOWN = 20
"""Files of each fault that are listed."""


@click.group()
def store() -> None:
    """The files that were found and kept."""


@store.command()
@click.argument("paths", metavar="DB...", type=DB, nargs=-1, required=True)
@click.option("--hash", "reads_files", is_flag=True, help="Read every body, and compare its SHA-1")
@click.option("--all", "shows_all", is_flag=True, help=f"List every file, not the first {SHOWN} of each fault")
@file_setting_options
@json_option
def check(
    paths: tuple[pathlib.Path, ...], reads_files: bool, shows_all: bool, given: dict[str, Any], as_json: bool
) -> None:
    """Compare the store with the tables of the databases that use it.

    Example: datasette ingest store check papers.db -s store files

    It lists files that are missing, damaged or half written, and those that no table names. It
    deletes nothing: a store may serve databases that are not named here. Name all that share it.

    Exit code: 0 when every file is there and whole, and every one is named; 1 otherwise.
    """
    chosen = settings.load(given)
    if chosen.store is None:
        raise click.UsageError("Name the store with -s store PLACE, or a configuration file that has it with -c FILE")

    async def compare() -> bool:
        kept = store_of(chosen, is_waited_for=True)
        assert kept is not None
        with StoreCheck() as notes:
            async with databases.opened(list(paths), given) as (datasette, names):
                for name in names:
                    await compat.read(datasette.databases[name], notes.read_tables)
            await notes.read_store(kept, reads_files=reads_files)
            if as_json:
                _print_json(kept, notes)
            else:
                _print(kept, notes, shows_all=shows_all)
            return not any(notes.counts().values())

    raise SystemExit(0 if databases.run(compare()) else 1)


def _print(kept: KeptFiles, notes: StoreCheck, *, shows_all: bool) -> None:
    totals, counts = notes.totals(), notes.counts()
    click.echo(
        f"{kept.place}: {counted(totals.files, 'file')}, {counted(totals.bytes, 'byte')}. "
        f"The tables name {counted(totals.named, 'body', 'bodies')}."
    )
    if totals.others:
        click.echo(f"{counted(totals.others, 'other file or folder', 'other files or folders')} there: not ours.")
    if not any(counts.values()):
        click.echo("Every file is there and whole, and every one is named.")
        return
    rows = [(fault, f"{counts[fault]:,}", what) for fault, what in FAULTS.items() if counts[fault]]
    click.echo("\n" + text_table(("fault", "files", "meaning"), rows, right=("files",)))
    for fault, _, _ in rows:
        click.echo(f"\n{fault}:")
        for each in notes.faults(fault, -1 if shows_all else SHOWN):
            size = "" if each.size is None else f"  {counted(each.size, 'byte')}"
            click.echo(f"  {each.key or f'{each.kind} {each.sha1hex}'}{size}{_instead(each.expected)}")
        if counts[fault] > SHOWN and not shows_all:
            click.echo(f"  and {counts[fault] - SHOWN:,} more; list them with --all")


def _instead(expected: int | None) -> str:
    return "" if expected is None else f" instead of {expected:,}"


def _print_json(kept: KeptFiles, notes: StoreCheck) -> None:
    """One line, written as it is made: there may be a million faults."""
    counts = notes.counts()
    head = {"ok": not any(counts.values()), "store": kept.place, **asdict(notes.totals()), "counts": counts}
    click.echo(json.dumps(head)[:-1] + ', "faults": [', nl=False)
    comma = ""
    for fault in FAULTS:
        for each in notes.faults(fault):
            click.echo(comma + json.dumps(asdict(each)), nl=False)
            comma = ", "
    click.echo("]}")
