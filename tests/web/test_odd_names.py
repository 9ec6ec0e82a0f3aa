"""Names that nobody can see or type: chosen in a form, written, shown with escapes."""

from __future__ import annotations

import html
import re
import sqlite3
from typing import Any

import pytest
from datasette.utils import tilde_encode

from datasette_ingest.jobs.errors import BadSelection
from datasette_ingest.jobs.service import failures
from datasette_ingest.sqlite import quote
from datasette_ingest.testing import run_until_idle
from datasette_ingest.text import name as readable

from ..conftest import rows
from .conftest import ROOT, get, post_form, start

NAMES = [
    "a\nb",
    "a\r\nb",
    "a\rb",
    " led",
    "trailed ",
    " ",
    "\t",
    "\ufeffid",
    "\u200frtl\u202e",
    'say "x"',
    '"quoted"',
    "it's",
    "",
    "a\u2028b",
    "<b>",
    "a&amp;b",
    "a+b%20c",
    "a/b~c",
    "[x]",
    "_x",
    "a__exact",
    "\x01",
]

FUNCTIONS = [
    "json_each",
    "PRAGMA_table_info",
    *(f"pragma_{name}" for name in ("table_xinfo", "table_list", "index_list")),
]
"""Tables of functions that our own queries read: a table of a user's hides the one of its name."""


def database(path: Any, table: str, column: str) -> None:
    with sqlite3.connect(path) as conn:
        conn.execute(f"create table {quote(table)} (id integer primary key, {quote(column)} text)")
        conn.execute(f"insert into {quote(table)} values (1, 'one'), (2, 'two')")
    conn.close()


def options_of(page: str, field: str) -> list[str]:
    """The values of a select, as a browser sends them: line breaks become CR LF."""
    select = re.search(rf'<select[^>]*name="{field}".*?</select>', page, re.DOTALL)
    assert select
    found = [html.unescape(value) for value in re.findall(r'<option value="([^"]*)"', select[0])]
    return [re.sub("\r\n|\r|\n", "\r\n", value) for value in found]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
async def test_a_column_of_any_name_can_be_chosen(open_ds: Any, tmp_path: Any, name: str) -> None:
    path = tmp_path / "odd.db"
    database(path, "papers", name)
    datasette = await open_ds(paths=[str(path)])
    address = "/-/ingest/odd/papers/shout"
    page = (await get(datasette, address, ROOT)).text
    value = options_of(page, "config.column")[-1]
    assert html.escape(readable(name), quote=False) in page.replace("&#34;", '"').replace("&#39;", "'")
    answer = await post_form(datasette, address, address, {"config.column": value, "config.output": "loud"}, ROOT)
    assert answer.status_code == 303, answer.text
    await run_until_idle(datasette)
    assert rows(path, "select loud from papers") == [("ONE",), ("TWO",)]
    missed = await get(datasette, "/-/ingest-jobs/odd/1/missed.csv", ROOT)
    assert missed.status_code == 200 and (await get(datasette, "/-/ingest-jobs/odd/1", ROOT)).status_code == 200


async def test_a_table_without_a_name_is_refused_with_a_sentence(open_ds: Any, tmp_path: Any) -> None:
    path = tmp_path / "odd.db"
    database(path, "", "word")
    datasette = await open_ds(paths=[str(path)])
    with pytest.raises(BadSelection, match="A table without a name has no page in Datasette"):
        await start(datasette, database="odd", table="")


@pytest.mark.parametrize("name", [*filter(None, NAMES), *FUNCTIONS], ids=ascii)
async def test_a_table_of_any_name_can_be_enriched(open_ds: Any, tmp_path: Any, name: str) -> None:
    path = tmp_path / "odd.db"
    database(path, name, "word")
    datasette = await open_ds(paths=[str(path)])
    address = f"/-/ingest/odd/{tilde_encode(name)}/shout"
    page = await get(datasette, address, ROOT)
    assert page.status_code == 200, page.text
    answer = await post_form(datasette, address, address, {"config.column": "word", "config.output": "loud"}, ROOT)
    assert answer.status_code == 303, answer.text
    await run_until_idle(datasette)
    assert rows(path, f"select loud from {quote(name)}") == [("ONE",), ("TWO",)]
    for suffix in ("", ".json", "/missed.csv", "/errors"):
        assert (await get(datasette, f"/-/ingest-jobs/odd/1{suffix}", ROOT)).status_code == 200
    shown = (await get(datasette, "/-/ingest-jobs/odd/1", ROOT)).text
    assert html.escape(readable(name), quote=False) in shown.replace("&#34;", '"').replace("&#39;", "'")


@pytest.mark.parametrize(("column", "has_page"), [("rowid text", False), ("RowID as (7)", False), ("other text", True)])
async def test_a_row_that_its_page_would_not_find_is_named_without_a_link(
    open_ds: Any, tmp_path: Any, column: str, has_page: bool
) -> None:
    path = tmp_path / "odd.db"
    with sqlite3.connect(path) as conn:
        conn.execute(f"create table papers (word text, {column})")
        conn.execute("insert into papers (word) values (null), ('two')")
    conn.close()
    datasette = await open_ds(paths=[str(path)])
    await start(datasette, database="odd", table="papers")
    await run_until_idle(datasette)
    for address in ("/-/ingest-jobs/odd/1", "/-/ingest-jobs/odd/1/errors"):
        page = (await get(datasette, address, ROOT)).text
        assert ('href="/odd/papers/1"' in page) is has_page
    reports = await failures.row_reports(
        datasette, datasette.databases["odd"], "papers", "1", actor=ROOT, limit_ms=20_000, most=3
    )
    assert bool(reports) is has_page
