"""What a person learns of a selection before there is a job."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import Mapping
from typing import Any

import pydantic
import pytest

from datasette_ingest.jobs.enrichment import ColumnField, Enrichment, Selected
from datasette_ingest.jobs.errors import BadSelection, NotAllowed
from datasette_ingest.jobs.service import selection_preview
from datasette_ingest.jobs.service.selection_preview import Patience

from ...conftest import ROOT, serving

HURRIED = Patience(question_ms=20, facts_ms=20)


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


async def look(datasette: Any, filters: str = "") -> selection_preview.Survey:
    return await selection_preview.look(datasette, "data", "papers", filters=filters, actor=ROOT)


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
        assert await selection_preview.count(chosen, HURRIED) is None
        assert await selection_preview.rows(chosen, patience=HURRIED) is None
        assert await selection_preview.facts(datasette, chosen, Telling(), {"column": "title"}, None, HURRIED) is None


@pytest.mark.parametrize(
    "after", ["nonsense", "[]", "[1]", '[["text", "a"], ["text", "b"], ["text", "c"]]', f'[["integer", "{2**70}"]]']
)
async def test_a_cursor_of_another_table_is_refused(path, after):
    async with serving(path) as datasette:
        with pytest.raises(BadSelection, match="begin again"):
            await selection_preview.rows(await look(datasette), after=after)


async def test_nobody_looks_who_may_not_enrich(path):
    async with serving(path) as datasette:
        with pytest.raises(NotAllowed):
            await selection_preview.look(datasette, "data", "papers", actor={"id": "reader"})


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
            "spread": [row[config.column] for row in rows],
        }


async def test_an_enrichment_may_ask_about_the_whole_selection(path):
    async with serving(path) as datasette:
        told = await selection_preview.facts(
            datasette,
            await look(datasette, "year=2020"),
            Telling(),
            {"column": "title"},
            3334,
            selection_preview.PATIENT,
        )
    assert told is not None
    assert (told["table"], told["count"], told["longest"], told["read"]) == (
        "papers",
        3334,
        len("paper 10002"),
        ["title"],
    )


async def test_the_sample_comes_from_all_over_a_large_selection_and_is_the_whole_of_a_small_one(path):
    async with serving(path) as datasette:
        tell, values = Telling(), {"column": "title"}
        large = await look(datasette)
        spread = (await selection_preview.facts(datasette, large, tell, values, 10_002, selection_preview.PATIENT))[
            "spread"
        ]
        again = (await selection_preview.facts(datasette, large, tell, values, 10_002, selection_preview.PATIENT))[
            "spread"
        ]
        small = (
            await selection_preview.facts(
                datasette, await look(datasette, "id__lte=40"), tell, values, 40, selection_preview.PATIENT
            )
        )["spread"]
    numbers = [int(title.split()[1]) for title in spread]
    assert 1_800 < len(numbers) < 2_200
    assert all(sum(low < n <= low + 1000 for n in numbers) > 150 for low in range(0, 10_000, 1000))
    assert spread == again
    assert len(small) == 40


async def test_rows_that_stand_close_together_are_sampled_as_well(path):
    async with serving(path) as datasette:
        together = await look(datasette, "id__gt=8000")
        told = await selection_preview.facts(
            datasette, together, Telling(), {"column": "title"}, 2_002, selection_preview.PATIENT
        )
    numbers = {int(title.split()[1]) for title in told["spread"]}
    assert len(numbers) > 1_800 and min(numbers) > 8_000


class Broken(Telling):
    async def preview(self, rows: Any, config: Any) -> Mapping[str, Any]:  # type: ignore[override]
        raise RuntimeError("no preview today")


class Endless(Telling):
    async def preview(self, rows: Any, config: Any) -> Mapping[str, Any]:  # type: ignore[override]
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


async def test_a_preview_that_fails_says_nothing_and_one_that_never_ends_is_left(path):
    async with serving(path) as datasette:
        chosen = await look(datasette)
        assert (
            await selection_preview.facts(datasette, chosen, Broken(), {"column": "title"}, 1, selection_preview.BRISK)
            == {}
        )
        assert await selection_preview.facts(datasette, chosen, Telling(), {}, 1, selection_preview.BRISK) == {}
        assert (
            await selection_preview.facts(datasette, chosen, Endless(), {"column": "title"}, 1, Patience(5_000, 10))
            is None
        )


class Leaving(Telling):
    async def preview(self, rows: Any, config: Any) -> Mapping[str, Any]:  # type: ignore[override]
        raise SystemExit(3)


async def test_a_preview_that_leaves_the_program_says_nothing(path):
    async with serving(path) as datasette:
        chosen = await look(datasette)
        assert (
            await selection_preview.facts(datasette, chosen, Leaving(), {"column": "title"}, 1, selection_preview.BRISK)
            == {}
        )


async def test_only_a_few_readers_are_patient_at_once(path):
    async with serving(path) as datasette:
        with contextlib.ExitStack() as others:
            for _ in range(selection_preview.MOST_PATIENT):
                assert others.enter_context(
                    selection_preview.among_few(datasette, selection_preview.BRISK, selection_preview.PATIENT)
                ) == (
                    selection_preview.BRISK,
                    selection_preview.PATIENT,
                )
            with selection_preview.among_few(datasette, selection_preview.PATIENT, selection_preview.PATIENT) as given:
                assert given == (selection_preview.BRISK, selection_preview.BRISK)
            with selection_preview.among_few(datasette, HURRIED) as given:
                assert given == (HURRIED,)
        with selection_preview.among_few(datasette, selection_preview.PATIENT) as given:
            assert given == (selection_preview.PATIENT,)


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
