"""`url`: crawl one URL and show the result."""

from __future__ import annotations

from typing import Any

import click

from .. import settings
from ..ingest.crawler import Crawler
from ..ingest.model import Fileset, IngestRequest, IngestResult
from ..ingest.types import INGEST_TYPES
from ..text import counted, day
from . import databases
from .options import setting_options
from .output import echo_json
from .tables import text_table

WIDEST_PATH = 60
"""The longest file name that is shown whole, in characters."""


@click.command()
@click.argument("url")
@click.option(
    "--type",
    "ingest_type",
    type=click.Choice([*sorted(INGEST_TYPES), "file"]),
    default="pdf",
    show_default=True,
    help="The wanted file",
)
@click.option("--explain", is_flag=True, help="Print tables of the links that were considered and of a dataset's files")
@setting_options
def url(url: str, ingest_type: str, explain: bool, given: dict[str, Any]) -> None:
    """Look for the full text behind one URL or DOI, and print the result as JSON.

    Example: datasette ingest url 10.1371/journal.pone.0035089 --explain

    Exit code: 0 on a hit, 1 otherwise.
    """

    async def ask() -> IngestResult:
        chosen = settings.load(given)
        settings.check_sources(chosen)
        crawler = Crawler(chosen)
        try:
            return await crawler.ingest(IngestRequest(ingest_type, url, source="command", source_id=url))
        finally:
            await crawler.aclose()

    result = databases.run(ask())
    if explain:
        click.echo(explanation(result))
    else:
        echo_json(result.to_json(), indent=2)
    raise SystemExit(0 if result.hit else 1)


def explanation(result: IngestResult) -> str:
    """The result for a person: how it ended, the URLs that were requested, each link with its rule and outcome."""
    lines = [f"{'hit' if result.hit else 'no hit'}: {result.status}"]
    if result.error_message:
        lines.append(result.error_message)
    if result.terminal_url:
        code = result.terminal_status_code
        lines.append(f"at {result.terminal_url}" + ("" if code is None else f" ({code})"))
    if result.archive_url:
        lines.append(f"captured on {day(result.terminal_dt or '')}: {result.archive_url}")
    if result.warnings:
        lines.append(f"but: {', '.join(result.warnings)}")
    if result.hops:
        sources = [f" ({source})" for source in result.hop_sources] or [""] * len(result.hops)
        lines += ["", "Asked:", *(f"  {hop}{source}" for hop, source in zip(result.hops, sources, strict=True))]
    lines += ["", *_candidates(result)]
    if result.fileset is not None:
        lines += ["", *_files(result.fileset)]
    return "\n".join(lines)


def _candidates(result: IngestResult) -> list[str]:
    if not result.candidates:
        return ["No links were considered."]
    head = ("rank", "rule", "outcome", "code", "URL")
    rows = [
        (str(c.rank), c.rule, c.outcome, "" if c.status_code is None else str(c.status_code), c.url)
        for c in result.candidates
    ]
    first, *table = text_table(head, rows).splitlines()
    lines = [first]
    for line, candidate in zip(table, result.candidates, strict=True):
        lines += [line, f"      {candidate.reason}"] if candidate.reason else [line]
    return lines


def _files(fileset: Fileset) -> list[str]:
    count, size = len(fileset.files), fileset.total_size
    about = counted(count, "file") + ("" if size is None else f", {counted(size, 'byte')}")
    rows = [
        (
            file.status,
            "" if file.size is None else str(file.size),
            next((f"{algorithm}:{digest}" for algorithm, digest in file.checksums.items()), ""),
            file.path if len(file.path) <= WIDEST_PATH else f"…{file.path[1 - WIDEST_PATH :]}",
            file.url or "",
        )
        for file in fileset.files
    ]
    where = fileset.platform + (f", {fileset.platform_id}" if fileset.platform_id else "")
    return [f"Files ({where}): {about}", text_table(("outcome", "bytes", "checksum", "file", "URL"), rows)]
