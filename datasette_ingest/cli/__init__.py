"""The command line, `datasette ingest …`. Each module holds related commands."""

from __future__ import annotations

import click

from . import demo, jobs, load, run, tidy, url


@click.group()
def ingest() -> None:
    """Find the full text behind every row of a table, and run other enrichments.

    Start with: datasette ingest demo
    """


for command in (demo.demo, run.run, run.work, url.url, load.load, *jobs.COMMANDS, tidy.schema, tidy.drop):
    ingest.add_command(command)


def register(cli: click.Group) -> None:
    """Add the group to Datasette's own command line."""
    cli.add_command(ingest)
