"""A Datasette with a table of words, an enrichment that upper-cases them, and visitors of several kinds."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Literal

import pydantic
import pytest
from datasette import hookimpl
from datasette.app import Datasette
from datasette.plugins import pm

from datasette_ingest import compat
from datasette_ingest.jobs.enrichment import ColumnField, Enrichment
from datasette_ingest.jobs.model import StartRequest
from datasette_ingest.jobs.service import control

ROOT = {"id": "root"}
READER = {"id": "reader"}

Visit = Callable[..., Awaitable[Any]]


class ShoutConfig(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    column: str = ColumnField(title="Column", description="The words to raise")
    output: str = pydantic.Field("shouted", title="Output column")
    mood: Literal["calm", "angry"] = pydantic.Field("calm", json_schema_extra={"advanced": True})
    strict: bool = pydantic.Field(False, json_schema_extra={"advanced": True})


class Shout(Enrichment):
    """Upper-cases a column. A NULL has no voice: that row is in error. While `held` is set no row gets through."""

    slug, name, description = "shout", "Shout", "Upper-case a column"
    batch_size = 2
    Config = ShoutConfig

    def __init__(self) -> None:
        self.held = threading.Event()

    def outcome_column(self, config: ShoutConfig) -> str:
        return f"{config.output}_status"

    async def defaults(self, db: Any, table: str) -> dict[str, Any]:
        return {"column": "word"} if table != "bare" else {}

    async def preview(self, rows: Any, config: ShoutConfig) -> dict[str, Any]:
        return {"Longest word": max((len(str(row[config.column] or "")) for row in rows), default=0)}

    async def enrich_row(self, row: Any, config: ShoutConfig) -> dict[str, Any]:
        while self.held.is_set():
            await asyncio.sleep(0.01)
        if row[config.column] is None:
            raise ValueError("<b>no</b> word & no voice")
        return {config.output: row[config.column].upper(), f"{config.output}_status": "success"}


@pytest.fixture
def shout() -> Iterator[Shout]:
    """The enrichment, registered as a plugin would."""
    enrichment = Shout()

    class Plugin:
        __name__ = "shouting"

        @hookimpl
        def register_ingest_enrichments(self, datasette: Any) -> list[Enrichment]:
            return [enrichment]

    plugin = Plugin()
    pm.register(plugin, name="shouting")
    yield enrichment
    pm.unregister(plugin)


def make_words(path: Any, *, table: str = "words", rows: int = 5) -> None:
    """A database whose table has `rows` words, the last of them NULL, and a view of them."""
    conn = sqlite3.connect(path)
    quoted = '"' + table.replace('"', '""') + '"'
    conn.execute(f"create table {quoted} (id integer primary key, word text, year integer)")
    words = [(number, f"word {number}", 2000 + number) for number in range(1, rows)] + [(rows, None, 2000 + rows)]
    conn.executemany(f"insert into {quoted} values (?, ?, ?)", words)
    if table == "words":
        conn.execute("create view quiet as select id, word from words")
    conn.commit()
    conn.close()


def new_datasette(paths: list[str], config: dict[str, Any] | None, **kwargs: Any) -> Datasette:
    """A Datasette, its configuration given in whichever form this line takes."""
    limits = {"sql_time_limit_ms": 20_000, **kwargs.pop("settings", {})}  # a busy machine is no reason to give up
    key = "config" if hasattr(Datasette, "allowed") else "metadata"
    return Datasette(paths, **{key: config or {}}, settings=limits, **kwargs)


@pytest.fixture
async def open_ds(tmp_path: Any, shout: Shout) -> AsyncIterator[Callable[..., Awaitable[Any]]]:
    """Opens a Datasette over `words.db` (or the given files) with this configuration; its root is root."""
    opened = []

    async def open_it(config: dict[str, Any] | None = None, *, paths: list[str] | None = None, **kwargs: Any) -> Any:
        if paths is None:
            paths = [str(tmp_path / "words.db")]
            if not (tmp_path / "words.db").exists():
                make_words(paths[0])
        datasette = new_datasette(paths, config, **kwargs)
        datasette.root_enabled = True
        await datasette.invoke_startup()
        opened.append(datasette)
        return datasette

    yield open_it
    for datasette in opened:
        compat.close(datasette)


@pytest.fixture
async def ds(open_ds: Any) -> Any:
    return await open_ds()


def cookies_of(datasette: Any, actor: dict[str, Any] | None) -> dict[str, str]:
    return {} if actor is None else {"ds_actor": datasette.sign({"a": actor}, "actor")}


async def get(datasette: Any, path: str, actor: dict[str, Any] | None = None) -> Any:
    return await datasette.client.get(path, cookies=cookies_of(datasette, actor))


async def post_json(datasette: Any, path: str, body: Any, actor: dict[str, Any] | None = None, **headers: str) -> Any:
    """A JSON POST as our own page's script would send it."""
    sent = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin", **headers}
    return await datasette.client.post(path, json=body, cookies=cookies_of(datasette, actor), headers=sent)


async def post_form(datasette: Any, page: str, path: str, fields: dict[str, str], actor: Any = None) -> Any:
    """A form POST as a browser would send it, with the token that `page` gave."""
    cookies = cookies_of(datasette, actor)
    shown = await datasette.client.get(page, cookies=cookies)
    token = re.search(r'name="csrftoken" value="([^"]+)"', shown.text)
    if "ds_csrftoken" in shown.cookies:
        cookies["ds_csrftoken"] = shown.cookies["ds_csrftoken"]
    data = {**({"csrftoken": token[1]} if token else {}), **fields}
    return await datasette.client.post(path, data=data, cookies=cookies, headers={"Sec-Fetch-Site": "same-origin"})


async def start(datasette: Any, *, database: str = "words", table: str = "words", **given: Any) -> Any:
    """A job of root's over the words, added and not yet run."""
    return await control.start(
        datasette,
        database,
        StartRequest(
            table, **{"enrichment": "shout", "config": {"column": "word"}, "options": {}, "actor": ROOT, **given}
        ),
    )


def in_a_loop(work: Callable[[], Any]) -> None:
    """Run a coroutine function to its end while Playwright's own loop holds this thread."""
    problems: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(work())
        except BaseException as problem:  # noqa: BLE001 - raised below, in the test's own thread
            problems.append(problem)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if problems:
        raise problems[0]
