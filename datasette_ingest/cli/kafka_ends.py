"""`kafka push`, `kafka persist` and `kafka persist-docs`: the ends of a fleet, where requests come from and results go."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any

import click

from .. import compat
from ..ingest import schema
from ..ingest.errors import StoreError
from ..ingest.sinks import store_of
from ..jobs import owned_tables
from ..masking import mask
from ..text import counted
from . import databases
from .kafka import address_of, connected
from .options import DB, json_option, setting_options
from .output import echo_json
from .progress import CountLine
from .run import EXIT_INTERRUPTED
from .signals import interruptible


def say(sentence: str) -> None:
    click.echo(sentence, err=True)


@contextlib.asynccontextmanager
async def _target(
    path: pathlib.Path, given: Mapping[str, Any], names: Iterable[str]
) -> AsyncIterator[tuple[Callable[[Any], Awaitable[Any]], Callable[[Any], Awaitable[Any]]]]:
    """(read, write) of a database that has these tables."""
    async with databases.opened([path], given) as (datasette, [name]):
        db = datasette.databases[name]
        wanted = schema.specs(names)
        await compat.write(db, lambda conn: owned_tables.claim(conn, wanted))
        yield lambda fn: compat.read(db, fn), lambda fn: compat.write(db, fn)


def _run(work: Any) -> Any:
    from ..ingest.remote.client import KafkaRefused

    try:
        return databases.run(work)
    except KafkaRefused as problem:
        raise click.ClickException(str(problem)) from problem


@click.command()
@click.argument("db", type=DB)
@click.option("--again", is_flag=True, help="Also those that were sent before and are not answered yet")
@click.option("--limit", type=click.IntRange(min=1), help="Send no more messages than this")
@setting_options
@json_option
def push(db: pathlib.Path, again: bool, limit: int | None, given: dict[str, Any], as_json: bool) -> None:
    """Send the pending requests of DB to the workers: rows of ingest_request without a result, or whose next try is due.

    Example: datasette ingest kafka push papers.db -c datasette.yaml

    Each is sent once: its column pushed says when. If this is killed, at most 500 of them are sent a
    second time by the next call; their results count once. Requests for one URL are sent as one.

    Exit code: 0 all were sent; 1 when Kafka refuses them, or some cannot be sent; 2 wrong usage;
    130 interrupted: the same command goes on.
    """
    chosen, kafka = connected(given)
    from ..ingest.remote import push as pushing

    async def run() -> tuple[pushing.Push, bool]:
        async with _target(db, given, pushing.TABLES) as (read, write):
            work = pushing.Push(
                kafka, read=read, write=write, doi_resolver=chosen.doi_resolver, again=again, limit=limit, say=say
            )
            line = CountLine(is_silent=as_json)
            with interruptible() as interruption:
                sending = asyncio.ensure_future(
                    work.run(interruption.event, on_progress=lambda: line.update(f"{work.counts['sent']:,} sent"))
                )
                stopping = asyncio.ensure_future(interruption.event.wait())
                await asyncio.wait({sending, stopping}, return_when=asyncio.FIRST_COMPLETED)
                if not sending.done():  # a page may be under way, or no broker be there
                    await asyncio.wait({sending}, timeout=5.0)
                    sending.cancel()
                stopping.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await sending
                line.end()
                return work, interruption.came

    work, came = _run(run())
    counts = work.counts
    if as_json:
        echo_json({name: counts[name] for name in ("sent", "shared", "refused")} | {"interrupted": came})
    else:
        shared = f"; {counted(counts['shared'], 'more request')} for the same URLs" if counts["shared"] else ""
        click.echo(f"{counted(counts['sent'], 'request')} sent{shared}")
    for sentence in work.refused:
        say(f"Not sent: {mask(sentence)}")
    if came:
        say("Interrupted. The same command goes on")
        raise SystemExit(EXIT_INTERRUPTED)
    if counts["refused"]:
        raise SystemExit(1)


@click.command()
@click.argument("db", type=DB)
@click.option("--forever", is_flag=True, help="Wait for more results until this is stopped")
@click.option(
    "--metrics",
    "address",
    metavar="HOST:PORT",
    callback=address_of,
    help="Where to answer /metrics, for Prometheus, and /health (default: nowhere)",
)
@setting_options
@json_option
def persist(
    db: pathlib.Path, forever: bool, address: tuple[str, int] | None, given: dict[str, Any], as_json: bool
) -> None:
    """Write the results of the fleet, and of other programs that send such results, into the tables of DB.

    Example: datasette ingest kafka persist papers.db -c datasette.yaml

    How far it has come is kept in DB, in the transaction of the rows: it may be killed at any time and
    run again. Of several results for one URL the newest counts, in whatever order they come. What
    cannot be read goes to the topic ….ingest-file-dead.

    Exit code: 0 all that was on the topic is written; 1 when Kafka refuses it, or messages were deleted
    before they were read; 2 wrong usage; 130 interrupted: the same command goes on.
    """
    _, kafka = connected(given)
    from ..ingest.remote import persist as persisting
    from ..ingest.remote.health import serving

    async def run() -> tuple[persisting.Persister, bool]:
        async with contextlib.AsyncExitStack() as stack:
            read, write = await stack.enter_async_context(_target(db, given, persisting.TABLES))
            work = persisting.Persister(kafka, read=read, write=write, say=say)
            if address is not None:
                await stack.enter_async_context(serving(work.metrics, *address))
            line = CountLine(is_silent=as_json)

            def progress() -> None:
                line.update(f"{work.counts['read']:,} results, {work.counts['new']:,} new", f"{work.left:,} left")

            with interruptible() as interruption:
                await work.run(interruption.event, forever=forever, on_progress=progress)
                line.end()
                return work, interruption.came

    try:
        work, came = _run(run())
    except OSError as problem:
        if address is None:
            raise
        raise click.ClickException(f"{address[0]}:{address[1]} cannot be used: {problem.strerror}") from None
    counts = work.counts
    names = ("read", "new", "known", "unreadable", "lost")
    if as_json:
        echo_json({name: counts[name] for name in names} | {"interrupted": came})
    else:
        click.echo(
            f"{counted(counts['read'], 'result')}: " + ", ".join(f"{counts[name]:,} {name}" for name in names[1:4])
        )
    if counts["lost"]:
        say(f"{counted(counts['lost'], 'message')} were deleted from the topic before they were read here")
    if came and not forever:
        say("Interrupted. The same command goes on")
        raise SystemExit(EXIT_INTERRUPTED)
    if counts["lost"]:
        raise SystemExit(1)


@click.command("persist-docs")
@click.option("--forever", is_flag=True, help="Wait for more documents until this is stopped")
@setting_options
@json_option
def persist_docs(forever: bool, given: dict[str, Any], as_json: bool) -> None:
    """Keep the XML documents of the topic ….xml-doc in the store, each under the SHA-1 that is its key.

    Example: datasette ingest kafka persist-docs -c datasette.yaml

    A document is kept before the topic is told so: this may be killed at any time and run again, and
    several may share the work. What cannot be read goes to the topic ….ingest-file-dead.

    Exit code: 0 all that was on the topic is kept; 1 when Kafka or the store refuses it; 2 wrong usage;
    130 interrupted: the same command goes on.
    """
    chosen, kafka = connected(given)
    from ..ingest.remote.documents import DocumentPersister

    store = store_of(chosen.crawl())
    if store is None:
        raise click.UsageError("Name the store with -s store PLACE, or a configuration file that has it with -c FILE")

    async def run() -> tuple[DocumentPersister, bool]:
        work = DocumentPersister(kafka, store, say=say)
        line = CountLine(is_silent=as_json)
        try:
            with interruptible() as interruption:
                await work.run(
                    interruption.event,
                    forever=forever,
                    on_progress=lambda: line.update(f"{work.counts['kept']:,} documents kept"),
                )
                line.end()
                return work, interruption.came
        finally:
            await store.aclose()

    try:
        work, came = _run(run())
    except StoreError as problem:
        raise click.ClickException(str(problem)) from problem
    counts = work.counts
    if as_json:
        echo_json({name: counts[name] for name in ("kept", "deleted", "unreadable")} | {"interrupted": came})
    else:
        click.echo(f"{counted(counts['kept'], 'document')} kept, {counts['unreadable']:,} unreadable")
    if came and not forever:
        say("Interrupted. The same command goes on")
        raise SystemExit(EXIT_INTERRUPTED)


COMMANDS = (push, persist, persist_docs)
