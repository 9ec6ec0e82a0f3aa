"""`kafka …`: the crawler as a fleet of workers over Kafka."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

import click

from .. import settings
from ..text import counted
from . import databases
from .options import setting_options
from .signals import interruptible


@click.group()
def kafka() -> None:
    """Share the work among machines, over Kafka."""


def address_of(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, int] | None:
    """HOST:PORT as a pair; None where none was given."""
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter(f"{value!r} is no address: write it as HOST:PORT, such as 127.0.0.1:9464")
    return host.removeprefix("[").removesuffix("]"), int(port)


def connected(given: Mapping[str, Any]) -> tuple[settings.Settings, settings.KafkaSettings]:
    """The settings, and those of Kafka. A usage error where there are none, or the library is missing."""
    if importlib.util.find_spec("aiokafka") is None:
        raise click.ClickException("A library is missing: pip install 'datasette-ingest[kafka]'")
    chosen = settings.load(given)
    if chosen.kafka is None:
        raise click.UsageError(
            """The setting kafka is missing. Give it with -c FILE, or as -s kafka '{"bootstrap": "HOST:PORT"}'"""
        )
    return chosen, chosen.kafka


@kafka.command()
@click.option(
    "--metrics",
    "address",
    metavar="HOST:PORT",
    callback=address_of,
    default="127.0.0.1:0",
    show_default="a free port of 127.0.0.1",
    help="Where to answer /metrics, for Prometheus, and /health",
)
@setting_options
def work(address: tuple[str, int], given: dict[str, Any]) -> None:
    """Take requests from Kafka, look for their full text, and send the results back.

    Example: datasette ingest kafka work -c datasette.yaml

    Any number of workers share the requests, on any number of machines. Ctrl-C or SIGTERM ends one
    within ten seconds; what it has not finished goes to the others.

    Exit code: 0 when it was told to end; 1 when Kafka refuses it; 2 wrong usage.
    """
    chosen, kafka = connected(given)
    from ..ingest.remote.client import KafkaRefused
    from ..ingest.remote.health import serving
    from ..ingest.remote.worker import Worker

    async def run() -> None:
        settings.check_sources(chosen)
        worker = Worker(
            kafka,
            chosen.crawl(),
            lookahead=chosen.lookahead,
            limit_seconds=chosen.batch_seconds,
            say=lambda sentence: click.echo(sentence, err=True),
        )
        host, port = address
        with interruptible() as interruption:
            async with serving(worker.metrics, host, port) as port:
                click.echo(f"Numbers: http://{f'[{host}]' if ':' in host else host}:{port}/metrics", err=True)
                await worker.run(interruption.event)
        total = worker.metrics.total
        click.echo(
            f"{counted(total('results'), 'result')}, {total('requests_parked')} parked, {total('requests_dead')} dead",
            err=True,
        )

    try:
        databases.run(run())
    except KafkaRefused as problem:
        raise click.ClickException(str(problem)) from problem
    except OSError as problem:
        raise click.ClickException(f"{address[0]}:{address[1]} cannot be used: {problem.strerror}") from None
