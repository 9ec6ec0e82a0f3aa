"""Shared set-up: databases on disk, Datasette on either line, enrichments that tests register."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import pathlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest
from datasette import hookimpl
from datasette.app import Datasette
from datasette.plugins import pm

from datasette_ingest import ColumnField, Enrichment, compat
from datasette_ingest.compat.instance import close_threads
from datasette_ingest.ingest.documents import registry

ROOT = {"id": "root"}


# Each test leaves some cycles, and what is loaded is looked at in each full collection, which comes too often by default.
gc.set_threshold(50_000, 20, 20)


def fixtures_folder() -> pathlib.Path:
    default = pathlib.Path(__file__).resolve().parents[2] / "shared" / "fixtures"
    return pathlib.Path(os.environ.get("INGEST_FIXTURES", default))


def missing(component: str) -> None:
    """Skip a test for want of a component, or fail it where every component must be there."""
    if os.environ.get("INGEST_REQUIRE_ALL") == "1":
        pytest.fail(f"{component} is missing, and INGEST_REQUIRE_ALL=1 says that it must be here")
    pytest.skip(f"{component} is missing")


@pytest.fixture
def fixtures() -> pathlib.Path:
    folder = fixtures_folder()
    if not folder.is_dir():
        missing(f"the folder of real files ({folder}; set INGEST_FIXTURES)")
    return folder


class Shout(Enrichment):
    """Upper-cases a column."""

    slug, name, description = "shout", "Shout", "Upper-case a column"
    batch_size = 1000

    class Config(pydantic.BaseModel):
        column: str = ColumnField(title="Column")
        output: str = pydantic.Field("shouted", title="Output column")

    def columns(self, config: Any) -> list[str]:
        return [config.column]

    async def enrich_row(self, row: Any, config: Any) -> dict[str, Any]:
        return {config.output: row[config.column].upper()}


@contextlib.contextmanager
def registered(*enrichments: Enrichment) -> Iterator[None]:
    """A plugin that offers these enrichments, while the block lasts."""

    class Plugin:
        __name__ = "test enrichments"

        @hookimpl
        def register_ingest_enrichments(self, datasette: Any) -> list[Enrichment]:
            return list(enrichments)

    plugin = Plugin()
    pm.register(plugin, name="test-enrichments")
    try:
        yield
    finally:
        pm.unregister(name="test-enrichments")


@pytest.fixture
def shout() -> Iterator[Shout]:
    enrichment = Shout()
    with registered(enrichment):
        yield enrichment


@pytest.fixture
def db_path(tmp_path: pathlib.Path) -> pathlib.Path:
    """A database file with a table `papers` of five rows."""
    path = tmp_path / "data.db"
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("create table papers (id integer primary key, title text)")
        conn.executemany("insert into papers (title) values (?)", [(f"paper {n}",) for n in range(1, 6)])
    return path


@contextlib.asynccontextmanager
async def serving(*paths: pathlib.Path, plugin: dict[str, Any] | None = None, **config: Any) -> Any:
    """A started Datasette instance on these files, closed at the end."""
    configuration = {**config, "plugins": {"datasette-ingest": plugin or {}, **config.get("plugins", {})}}
    # a busy machine is no reason for Datasette to give up on a query
    limits = {"sql_time_limit_ms": 20_000}
    datasette = compat.open_datasette([str(path) for path in paths], config=configuration, settings=limits)
    if hasattr(datasette, "root_enabled"):
        datasette.root_enabled = True
    await datasette.invoke_startup()
    try:
        yield datasette
    finally:
        compat.close(datasette)


def rows(path: pathlib.Path, sql: str, *args: Any) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(path)) as conn:
        return conn.execute(sql, args).fetchall()


@pytest.fixture(autouse=True)
def _no_datasette_is_left_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Closes what a test has left open. On the 0.65 line each database would keep its threads to the end of the run."""
    made: list[Datasette] = []
    begin = Datasette.__init__

    def noted(self: Datasette, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(Datasette, "__init__", noted)
    yield
    for datasette in made:
        close_threads(datasette)


@pytest.fixture(autouse=True)
def _no_processors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Crawlers read nothing from the files that they find, for that takes a process each: unless a test is marked with
    `processors`, or gives them processors of its own."""
    if request.node.get_closest_marker("processors") is None:
        monkeypatch.setattr(registry, "PROCESSORS", ())


@pytest.fixture(autouse=True)
def _no_stray_tasks() -> Iterator[None]:
    yield
    with contextlib.suppress(RuntimeError):
        loop = asyncio.get_running_loop()
        assert not [task for task in asyncio.all_tasks(loop) if "job" in task.get_name()]
