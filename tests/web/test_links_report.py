"""The report on a table's links: order, pages, permissions, and a CSV that no spreadsheet executes."""

from __future__ import annotations

import csv
import io
import pathlib
import re
import sqlite3
from typing import Any

import pytest

from datasette_ingest import compat
from datasette_ingest.ingest import schema
from datasette_ingest.ingest.pages import links
from datasette_ingest.ingest.store.links import StoredLink, write_link
from datasette_ingest.jobs.model import StartRequest
from datasette_ingest.jobs.service import control

from .conftest import ROOT, get

CHECKED = "2026-12-01T10:00:00Z"
REPORT = "/-/ingest-links/papers/works"


def checked(status: str, url: str | None = None, code: int | None = None, **more: Any) -> StoredLink:
    given = {"fragment": None, "reason": None, "archive_url": None, **more}
    return StoredLink(CHECKED, status, url, code, attempts=1, next_try=None, job_id=1, **given)


STATES = {
    "http://a.example/ok": checked("ok", "http://a.example/ok", 200),
    "http://a.example/ok#x": checked("ok", "http://a.example/ok#x", 200, fragment="missing"),
    "http://a.example/old": checked("moved", "http://a.example/new", 200, reason="it has moved for good"),
    "http://a.example/gone": checked("dead", "http://a.example/gone", 404, archive_url="http://web.example/1/gone"),
    "http://a.example/<b>": checked("blocked", "http://a.example/<b>", 403, reason="<script>alert(1)</script>"),
    "http://a.example/slow": checked("unsure", "http://a.example/slow", 503),
    "javascript:alert(1)": checked("unsure", reason="the scheme 'javascript' is not fetched"),
}


@pytest.fixture
async def works(tmp_path: pathlib.Path, open_ds: Any) -> Any:
    path = tmp_path / "papers.db"
    conn = sqlite3.connect(path)
    with conn:
        conn.execute("create table works (id integer primary key, title text, url text)")
        conn.execute(
            "insert into works (id, title, url) values (100, 'not checked', 'http://a.example/new-here'), (101, 'none', null)"
        )
        for number, cell in enumerate(STATES):
            conn.execute("insert into works (id, title, url) values (?, ?, ?)", [number, f"=cmd|{number}", cell])
    conn.close()
    datasette = await open_ds(paths=[str(path)])
    config = {"url_column": "url", "prefix": "check_"}
    await control.start(datasette, "papers", StartRequest("works", "links", "", config, actor=ROOT))

    def fill(conn: sqlite3.Connection) -> None:
        schema.migrate(conn, schema.LINK_TABLES)
        conn.execute("alter table works add column check_status text")
        for cell, link in STATES.items():
            write_link(conn, cell, link)

    await compat.write(datasette.get_database("papers"), fill)
    return datasette


async def test_the_dead_come_first_and_the_ok_not_at_all(works: Any) -> None:
    found = (await get(works, f"{REPORT}.json", ROOT)).json()
    assert [(each["row"], each["status"]) for each in found["links"]] == [
        (3, "dead"),
        (5, "unsure"),
        (6, "unsure"),
        (4, "blocked"),
        (2, "moved"),
        (1, "ok"),
    ]
    assert found["counts"] == {
        "dead": 1,
        "unsure": 2,
        "blocked": 1,
        "moved": 1,
        "fragment missing": 1,
        "ok": 1,
        "not checked": 1,
    }
    assert found["links"][4]["url"] == "http://a.example/new" and found["links"][0]["title"] == "=cmd|3"


async def test_pages_follow_each_other_without_a_gap(works: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (1, 2, 3, 6, 7):
        monkeypatch.setattr(links, "ROWS_A_PAGE", size)
        found, address = [], f"{REPORT}.json"
        while address is not None:
            page = (await get(works, address, ROOT)).json()
            assert len(page["links"]) <= size
            found += [each["row"] for each in page["links"]]
            address = page["next_url"]
        assert found == [3, 5, 6, 4, 2, 1]


async def test_what_servers_and_cells_say_is_text(works: Any) -> None:
    page = (await get(works, REPORT, ROOT)).text
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
    assert 'href="javascript:' not in page
    assert 'href="http://web.example/1/gone"' in page
    assert "Replace moved addresses (1)" in re.sub(r"\s+", " ", page)
    assert "/-/ingest/papers/works/links-replace?check_status__exact=moved" in page


async def test_the_jobs_page_and_the_tables_menu_lead_to_it(works: Any) -> None:
    for address in ("/-/ingest-jobs/papers/1", "/papers/works"):
        assert f'href="{REPORT}"' in (await get(works, address, ROOT)).text
    assert REPORT not in (await get(works, "/papers/works")).text


async def test_the_csv_has_every_row_and_no_formula(works: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "CSV_PAGE", 2)
    answer = await get(works, f"{REPORT}/report.csv", ROOT)
    assert 'filename="works-links.csv"' in answer.headers["content-disposition"]
    lines = list(csv.reader(io.StringIO(answer.text)))
    assert lines[0] == [
        "id",
        "title",
        "url",
        "status",
        "url",
        "status_code",
        "fragment",
        "reason",
        "checked",
        "archive_url",
    ]
    assert [line[0] for line in lines[1:]] == ["3", "5", "6", "4", "2", "1"]
    assert lines[1][1] == "'=cmd|3"


@pytest.mark.parametrize("address", [REPORT, f"{REPORT}.json", f"{REPORT}/report.csv"])
async def test_only_those_who_may_enrich_the_table_see_it(works: Any, address: str) -> None:
    assert (await get(works, address)).status_code == 403
    assert (await get(works, address, ROOT)).status_code == 200


async def test_a_wrong_place_or_column_is_said(works: Any) -> None:
    for query in (
        "_next=nowhere",
        "_next=dead:x",
        '_next=dead:[["text","a"],["text","b"],["text","c"]]',
        "_title=nope",
    ):
        assert (await get(works, f"{REPORT}.json?{query}", ROOT)).status_code == 400
    assert (await get(works, f"{REPORT}.json?_column=nope", ROOT)).status_code == 404


async def test_a_column_that_was_never_checked_has_an_empty_report(works: Any) -> None:
    found = (await get(works, f"{REPORT}.json?_column=title", ROOT)).json()
    assert (found["links"], found["counts"]) == ([], {"not checked": 9})
