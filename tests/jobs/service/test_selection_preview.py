"""A selection before its job starts: its count, its rows, and what an enrichment says of it."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Mapping
from typing import Any

import pydantic
import pytest

from datasette_ingest.jobs.enrichment import ColumnField, Enrichment, Selected
from datasette_ingest.jobs.errors import BadSelection
from datasette_ingest.jobs.service import permissions, selection_preview
from datasette_ingest.jobs.service.selection_preview import PREVIEWED_ROWS, QUICK_MS, SLOW_MS

from ...conftest import ROOT, serving

SHORT_MS = 20.0


@pytest.fixture
def path(tmp_path):
    """A table of 10,002 papers, every third of them of the year 2020."""
    path = tmp_path / "data.db"
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("create table papers (id integer primary key, title text, year integer)")
        conn.executemany(
            "insert into papers values (?, ?, ?)", [(n, f"paper {n}", 2020 + n % 3) for n in range(1, 10_003)]
        )
    return path


async def look(datasette: Any, filters: str = "") -> selection_preview.Preview:
    papers = await permissions.require_table(datasette, ROOT, "data", "papers")
    return await selection_preview.open_preview(datasette, papers, filters=filters, actor=ROOT)


async def facts(datasette: Any, chosen: selection_preview.Preview, number: int | None, **given: Any) -> Any:
    asked = {"enrichment": Telling(), "values": {"column": "title"}, "limit_ms": SLOW_MS, **given}
    return await selection_preview.facts(datasette, chosen, number=number, **asked)


async def test_the_count_is_exact_and_the_pages_hold_every_row_once(path):
    async with serving(path) as datasette:
        chosen = await look(datasette, "year=2020&_sort=title")
        assert await selection_preview.count(chosen) == 3334
        assert chosen.filters == "year=2020"
        seen, after = [], None
        while True:
            page = await selection_preview.rows(chosen, after=after, limit=500)
            seen += [row["id"] for row in page.rows]
            assert page.filters == [f"_row={row['id']}" for row in page.rows]
            if page.next is None:
                break
            after = page.next
    assert seen == list(range(3, 10_003, 3))


async def test_what_takes_too_long_is_not_known(path):
    slow = "_where=" + "(with+recursive+c(n)+as+(select+1+union+all+select+n%2B1+from+c)+select+max(n)+from+c)+is+null"
    async with serving(path) as datasette:
        chosen = await look(datasette, slow)
        assert await selection_preview.count(chosen, SHORT_MS) is None
        assert await selection_preview.rows(chosen, limit_ms=SHORT_MS) is None
        assert await facts(datasette, chosen, None, limit_ms=SHORT_MS) is None


@pytest.mark.parametrize(
    "after", ["nonsense", "[]", "[1]", '[["text", "a"], ["text", "b"], ["text", "c"]]', f'[["integer", "{2**70}"]]']
)
async def test_a_cursor_of_another_table_is_refused(path, after):
    async with serving(path) as datasette:
        with pytest.raises(BadSelection, match="open the form again"):
            await selection_preview.rows(await look(datasette), after=after)


class Telling(Enrichment):
    slug, name = "tell", "Tell"

    class Config(pydantic.BaseModel):
        column: str = ColumnField(title="Column")

    def columns(self, config: Any) -> list[str]:
        return [config.column]

    async def preview(self, rows: Any, config: Any, selected: Selected, table: str) -> Mapping[str, Any]:  # type: ignore[override]
        def longest(conn: sqlite3.Connection) -> int:
            sql = f"select max(length(words)) from ({selected.query({'words': config.column})})"
            return int(conn.execute(sql, dict(selected.params)).fetchone()[0])

        return {
            "table": table,
            "count": selected.count,
            "longest": await selected.read(longest),
            "read": sorted(rows[0]),
            "given": selected.given,
            "first": [row[config.column] for row in rows],
        }


async def test_an_enrichment_may_ask_about_the_whole_selection(path):
    async with serving(path) as datasette:
        said = await facts(datasette, await look(datasette, "year=2020"), 3334)
    assert (said["table"], said["count"], said["longest"], said["read"]) == (
        "papers",
        3334,
        len("paper 10002"),
        ["title"],
    )


@pytest.mark.parametrize(
    ("filters", "first", "number"), [("", 1, 10_002), ("id__gt=8000", 8001, 2002), ("id__lte=40", 1, 40)]
)
async def test_a_preview_is_given_the_first_rows_of_the_selection(path, filters, first, number):
    async with serving(path) as datasette:
        said = await facts(datasette, await look(datasette, filters), number)
    given = min(number, PREVIEWED_ROWS)
    assert said["first"] == [f"paper {n}" for n in range(first, first + given)]
    assert said["given"] == given


class Broken(Telling):
    async def preview(self, rows: Any, config: Any) -> Mapping[str, Any]:  # type: ignore[override]
        raise RuntimeError("no preview today")


class Endless(Telling):
    async def preview(self, rows: Any, config: Any) -> Mapping[str, Any]:  # type: ignore[override]
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


async def test_a_preview_that_fails_says_nothing_and_one_that_never_ends_is_left(path, monkeypatch):
    monkeypatch.setattr(selection_preview, "PREVIEW_GRACE_SECONDS", 0.01)
    async with serving(path) as datasette:
        chosen = await look(datasette)
        assert await facts(datasette, chosen, 1, enrichment=Broken()) == {}
        assert await facts(datasette, chosen, 1, values={}) == {}
        assert await facts(datasette, chosen, 1, values={"column": "gone"}) == {}
        assert await facts(datasette, chosen, 1, enrichment=Endless(), limit_ms=QUICK_MS) is None


class Leaving(Telling):
    async def preview(self, rows: Any, config: Any) -> Mapping[str, Any]:  # type: ignore[override]
        raise SystemExit(3)


async def test_a_preview_that_leaves_the_program_says_nothing(path):
    async with serving(path) as datasette:
        assert await facts(datasette, await look(datasette), 1, enrichment=Leaving()) == {}


async def test_a_price_is_what_the_enrichment_says(path):
    class Paid(Telling):
        def price_nanodollars(self, rows: Any, config: Any) -> int | None:
            if config.column == "year":
                raise RuntimeError("no price")
            return 100 * len(rows)

    assert selection_preview.price(Paid(), [{}, {}], {"column": "title"}) == 200
    assert selection_preview.price(Paid(), [{}], {"column": "year"}) is None
    assert selection_preview.price(Paid(), [{}], {}) is None
    assert selection_preview.price(Telling(), [{}], {"column": "title"}) is None
