"""The page of requests and results, and its JSON."""

from __future__ import annotations

import pathlib
import re
import sqlite3
from typing import Any

import pytest

from datasette_ingest.ingest import stats as numbers
from datasette_ingest.ingest.pages import stats
from datasette_ingest.ingest.stats import Day

from ..ingest.export.kit import Library, hit, miss
from .conftest import ROOT, get

CLOSED = {"databases": {"works": {"tables": {"ingest_request": {"allow": {"id": "root"}}}}}}


@pytest.fixture
def library(tmp_path: pathlib.Path) -> Library:
    made = Library(tmp_path / "works.db")
    for number in (1, 2, 3):
        made.request(number, f"{number}")
    made.result(hit(1))
    made.result(miss(2, "blocked-wall", terminal={"terminal_url": "https://login.example/<b>"}))
    made.sql("update ingest_file_result set updated = '2026-12-02T12:00:00Z' where hit = 0")
    return made


async def test_the_page_counts_by_source_status_host_and_day(open_ds: Any, library: Library) -> None:
    page = (await get(await open_ds(paths=[str(library.path)]), "/-/ingest-stats/works", ROOT)).text
    said = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert "3 requests: 2 tried, 1 hit (33.3 %)." in said
    assert "2026-12-02 2 1 50.0 %" in said and "2026-11-30 1 1 100.0 %" in said
    assert "doi pdf 3 2 1 33.3 %" in said
    assert "blocked-wall pdf 1 A login page was served instead of the file." in said
    assert "login.example 1 blocked-wall (1)" in said
    assert page.count("<polygon") == 2


async def test_the_same_as_json(open_ds: Any, library: Library) -> None:
    found = (await get(await open_ds(paths=[str(library.path)]), "/-/ingest-stats/works.json", ROOT)).json()
    assert found["requests"] == [{"source": "doi", "ingest_type": "pdf", "requests": 3, "tried": 2, "hits": 1}]
    assert [each["status"] for each in found["statuses"]] == ["blocked-wall", "success"]
    assert found["cut"] == [] and found["ok"] is True


async def test_what_takes_too_long_is_left_out_and_said(
    open_ds: Any, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stats, "LIMIT_MS", 0.0)
    datasette = await open_ds(paths=[str(library.path)])
    found = (await get(datasette, "/-/ingest-stats/works.json", ROOT)).json()
    assert (found["cut"], found["days"]) == (["statuses", "days", "hosts", "requests"], None)
    page = (await get(datasette, "/-/ingest-stats/works", ROOT)).text
    assert page.count("takes longer than a second here") == 4


async def test_the_slowest_part_leaves_the_others_their_time(
    open_ds: Any, library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(conn: sqlite3.Connection) -> Any:
        return conn.execute(
            "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"
        ).fetchall()

    monkeypatch.setattr(numbers, "PARTS", {**numbers.PARTS, "requests": slow})
    found = (await get(await open_ds(paths=[str(library.path)]), "/-/ingest-stats/works.json", ROOT)).json()
    assert found["cut"] == ["requests"] and found["hosts"] and found["days"] and found["statuses"]


async def test_only_who_may_read_the_results_sees_the_numbers(open_ds: Any, library: Library) -> None:
    datasette = await open_ds(CLOSED, paths=[str(library.path)])
    assert (await get(datasette, "/-/ingest-stats/works.json", None)).status_code == 403
    assert (await get(datasette, "/-/ingest-stats/works.json", ROOT)).status_code == 200
    private, missing = [
        (await get(datasette, f"/-/ingest-stats/{name}.json", None)).text for name in ("works", "nowhere")
    ]
    assert private == missing


async def test_the_databases_menu_leads_to_it_for_who_may_read_the_results(open_ds: Any, library: Library) -> None:
    datasette = await open_ds(CLOSED, paths=[str(library.path)])
    assert "/-/ingest-stats/works" in (await get(datasette, "/works", ROOT)).text
    assert "/-/ingest-stats/works" not in (await get(datasette, "/works", None)).text


async def test_a_database_without_results_says_how_to_make_some(open_ds: Any) -> None:
    datasette = await open_ds()
    name = next(name for name in datasette.databases if not name.startswith("_"))
    page = (await get(datasette, f"/-/ingest-stats/{name}", ROOT)).text
    assert "There are no requests and no results yet." in page
    assert f"/-/ingest-stats/{name}" not in (await get(datasette, f"/{name}", ROOT)).text


async def test_times_of_another_program_make_no_curve(open_ds: Any, library: Library) -> None:
    library.sql("update ingest_file_result set updated = 'yesterday' where hit = 0")
    page = (await get(await open_ds(paths=[str(library.path)]), "/-/ingest-stats/works", ROOT)).text
    assert "<polygon" not in page and "yesterday" in page


def test_the_curve_has_a_step_at_each_day_in_the_distance_of_time() -> None:
    drawn = stats.chart([Day("2026-11-30", 1, 0), Day("2026-12-01", 2, 1), Day("2026-12-04", 4, 4)])
    assert drawn is not None
    assert drawn.tried == "0,160 0.0,120.0 150.0,120.0 150.0,80.0 600.0,80.0 600.0,0.0 600,160"
    assert drawn.hits == "0,160 0.0,160.0 150.0,160.0 150.0,120.0 600.0,120.0 600.0,0.0 600,160"
    assert stats.chart([Day("2026-11-30", 1, 0)]) is None
