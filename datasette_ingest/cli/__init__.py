"""`datasette ingest …`: the command line. Each module holds the commands that belong together."""

from __future__ import annotations

import click

from . import demo, jobs, run, steps, url


@click.group()
def ingest() -> None:
    """Find the full text behind every row of a table, and run any other enrichment.

    Begin with: datasette ingest demo
    """


for command in (demo.demo, run.run, url.url, *jobs.COMMANDS, *steps.COMMANDS):
    ingest.add_command(command)


def register(cli: click.Group) -> None:
    """Add the group to Datasette's own command line."""
    cli.add_command(ingest)
