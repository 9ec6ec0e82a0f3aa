"""The command line as a user calls it, a sample site on loopback, and enrichments that do as a test needs."""

from __future__ import annotations

import contextlib
import datetime
import json
import pathlib
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import pydantic
import pytest
from click.testing import CliRunner, Result
from datasette.cli import cli as datasette_cli

from datasette_ingest import Defer, Enrichment, Pause
from datasette_ingest.demo import site as sample

from ..conftest import registered

Cli = Callable[..., Result]

QUICK = ("--allow-network", "127.0.0.0/8", "-s", "per_host_delay", "0")
"""Settings with which a run reaches loopback and does not dawdle."""


@pytest.fixture
def cli() -> Cli:
    """`cli("run", db, "papers")` is `datasette ingest run …` in this process."""

    def call(*arguments: object) -> Result:
        return CliRunner().invoke(datasette_cli, ["ingest", *map(str, arguments)], catch_exceptions=False)

    return call


@pytest.fixture(scope="session")
def site() -> Iterator[str]:
    """The address of the sample site."""
    with sample.serving() as base:
        yield base


@pytest.fixture
def papers(tmp_path: pathlib.Path, site: str) -> pathlib.Path:
    """A database with four links to the sample site: two hits, a missing page, a page behind a login."""
    path = tmp_path / "papers.db"
    links = ("/files/herons.pdf", "/articles/tides", "/articles/lost", "/articles/salt")
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("create table papers (id integer primary key, url text, year integer)")
        conn.executemany(
            "insert into papers (url, year) values (?, ?)", [(site + link, 2020 + n) for n, link in enumerate(links)]
        )
        conn.execute("create table notes (id integer primary key, note text)")
        conn.execute("insert into notes (note) values ('no link here')")
        conn.execute("create view recent as select * from papers")
    return path


class Stepper(Enrichment):
    """Marks rows. While `faults` are left, row by row: `error` raises, `pause` waits for a person, `rest` for a moment, and
    `defer` puts the row off."""

    slug, name, description = "step", "Step", "Mark rows"
    batch_size = 1
    max_open_batches = 1

    class Config(pydantic.BaseModel):
        word: str = "seen"

    def __init__(self) -> None:
        self.faults: list[str] = []

    async def enrich_row(self, row: Any, config: Any) -> dict[str, Any]:
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "error":
            raise ValueError("the row is lame")
        if fault == "pause":
            raise Pause("The road is closed")
        if fault.startswith("rest "):
            until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=float(fault[5:]))
            raise Pause("A short rest", until)
        if fault.startswith("defer "):
            until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=float(fault[6:]))
            raise Defer(until, "A short rest")
        return {"mark": config.word}


@pytest.fixture
def stepper() -> Iterator[Stepper]:
    enrichment = Stepper()
    with registered(enrichment):
        yield enrichment


def tables(path: pathlib.Path) -> set[str]:
    """What the database holds, to see that nothing was added."""
    with contextlib.closing(sqlite3.connect(path)) as conn:
        return {row[0] for row in conn.execute("select name from sqlite_master where name not like 'sqlite_%'")}


def read_json(result: Result) -> Any:
    """The one JSON line that the command printed."""
    (line,) = result.stdout.splitlines()
    return json.loads(line)
