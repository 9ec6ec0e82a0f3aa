"""The command line, `datasette ingest …`. Each module holds related commands."""

from __future__ import annotations

from typing import Any

import click

from . import demo, documents, export, jobs, kafka, kafka_ends, load, run, stats, store, tidy, url
from .options import readable_text
from .output import printing


class Ingest(click.Group):
    """A group whose commands print safely, and take only arguments that are text."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        readable_text(cmd)
        super().add_command(cmd, name)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        context: click.Context
        with printing():
            context = super().make_context(*args, **kwargs)
        return context

    def invoke(self, ctx: click.Context) -> Any:
        with printing():
            result = super().invoke(ctx)
        return result


@click.group(cls=Ingest)
def ingest() -> None:
    """Find the full text behind every row of a table, and run other enrichments.

    Start with: datasette ingest demo
    """


for command in kafka_ends.COMMANDS:
    kafka.kafka.add_command(command)
for command in (
    demo.demo,
    run.run,
    run.work,
    url.url,
    load.load,
    export.export,
    stats.stats,
    store.store,
    documents.documents,
    *jobs.COMMANDS,
    kafka.kafka,
    tidy.schema,
    tidy.drop,
):
    ingest.add_command(command)


def register(cli: click.Group) -> None:
    """Add the group to Datasette's own command line."""
    cli.add_command(ingest)
