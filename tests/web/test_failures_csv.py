"""The missed rows as CSV: whole, for those who may see the job, and harmless to spreadsheets."""

from __future__ import annotations

import asyncio
import csv
import io
import re

import pytest
from datasette.utils import MultiParams
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.jobs.service import failures, queries
from datasette_ingest.testing import run_until_idle
from datasette_ingest.web import failures as web_failures
from datasette_ingest.web.failures import harmless, line

from .conftest import READER, ROOT, cookies_of, get, start

MISSED = "/-/ingest-jobs/words/1/missed.csv"


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(1)", "'@SUM(1)"),
        ("\t=1", "'\t'=1"),
        ("\r=1", "'\r'=1"),
        ("\n=1", "'\n'=1"),
        ("＝1", "'＝1"),
        # A spreadsheet that separates cells by something else than commas does not see our quotation marks.
        ("a;=cmd()", "a;'=cmd()"),
        ("a\t@x", "a\t'@x"),
        ("a|+x|=y", "a|'+x|'=y"),
        ("a\n=cmd()", "a\n'=cmd()"),
        ('a; "=cmd()"', 'a;\' "=cmd()"'),
        (' "=cmd()', "' \"=cmd()"),
        ("a;-5;+1.5 ;x", "a;-5;+1.5 ;x"),
        ("a;-5+1", "a;'-5+1"),
        ("-5;x", "-5;x"),
        ("a,=b", "a,=b"),  # the comma is ours, and the cell is quoted
        ("k=v; w=x", "k=v; w=x"),
        ("-5", "-5"),
        ("+1.5", "+1.5"),
        ("https://example.org/?a=b", "https://example.org/?a=b"),
        ("", ""),
        (-5, -5),
        (None, None),
        (b"=1", "'=1"),
        (b"\xff", "\ufffd"),
        ("\udcff", "?"),
    ],
)
def test_a_cell_that_begins_like_a_formula_is_made_text(cell, written):
    assert harmless(cell) == written


@given(st.lists(st.one_of(st.text(), st.binary(), st.integers(), st.none()), min_size=1))
def test_a_line_reads_back_as_the_cells_that_were_written(cells):
    [read] = list(csv.reader(io.StringIO(line(cells), newline="")))
    assert read == ["" if cell is None else str(harmless(cell)) for cell in cells]
    assert not any(cell[:1] in "=@\t\r\n" and cell for cell in read)
    line(cells).encode("utf-8")


@given(st.lists(st.text("a=+-@;|\t\r\n\"', 5"), min_size=1), st.sampled_from(";|\t"))
def test_no_cell_is_a_formula_whatever_separates_the_cells(cells, separator):
    for cell in re.split(f"[{separator}\r\n]", line(cells)):
        assert not cell.lstrip(' "').startswith(("=", "@"))


async def test_the_missed_rows_come_as_a_file(ds):
    await ds.databases["words"].execute_write("update words set word = '=evil()' where id = 2")
    await start(ds)
    await run_until_idle(ds)
    await ds.databases["words"].execute_write("update words set shouted_status = 'hoarse' where id in (2, 3)")
    sent = await get(ds, MISSED, ROOT)
    assert sent.status_code == 200
    assert sent.headers["content-type"] == "text/csv; charset=utf-8"
    assert sent.headers["content-disposition"] == 'attachment; filename="words-job-1-missed.csv"'
    assert sent.headers["x-content-type-options"] == "nosniff"
    assert "no-store" in sent.headers["cache-control"]
    assert list(csv.reader(io.StringIO(sent.text))) == [
        ["id", "outcome", "message"],
        ["2", "hoarse", ""],
        ["3", "hoarse", ""],
        ["5", "error", "ValueError: <b>no</b> word & no voice"],
    ]


async def test_a_person_chooses_columns_and_a_byte_order_mark(ds):
    await start(ds)
    await run_until_idle(ds)
    sent = await get(ds, f"{MISSED}?_col=WORD&_col=year&_col=year&_col=id&_bom=1", ROOT)
    assert sent.content.startswith(b"\xef\xbb\xbfid,word,year,outcome,message\r\n5,,2005,error,")
    refused = await get(ds, f"{MISSED}?_col=nothing", ROOT)
    assert refused.status_code == 400 and "has no column nothing" in refused.text
    page = (await get(ds, "/-/ingest-jobs/words/1", ROOT)).text
    assert re.findall(r'name="_col" value="([^"]+)"', page)[:3] == ["id", "word", "year"]


async def test_the_column_that_names_a_row_is_there_unasked(ds):
    await ds.databases["words"].execute_write("alter table words add column title text default 'Of salt'")
    await start(ds)
    await run_until_idle(ds)
    sent = (await get(ds, MISSED, ROOT)).text
    assert sent.startswith("id,title,outcome,message\r\n5,Of salt,error,")
    chosen = (await get(ds, f"{MISSED}?_col=year&_col=Title", ROOT)).text
    assert chosen.startswith("id,title,year,outcome,message\r\n5,Of salt,2005,error,")


async def test_whoever_may_not_see_the_job_gets_no_file(ds):
    await start(ds)
    for actor in (None, READER):
        assert (await get(ds, MISSED, actor)).status_code == 404
    assert (await get(ds, MISSED.replace("/1/", "/99/"), ROOT)).status_code == 404
    assert (await ds.client.post(MISSED)).status_code in (403, 405)


async def test_the_file_is_offered_where_rows_were_missed(ds):
    await start(ds, filters="id__lt=5")
    await start(ds)
    await run_until_idle(ds)
    assert "missed.csv" not in (await get(ds, "/-/ingest-jobs/words/1", ROOT)).text
    assert 'href="/-/ingest-jobs/words/2/missed.csv"' in (await get(ds, "/-/ingest-jobs/words/2", ROOT)).text


async def test_a_table_that_is_gone_is_said_before_the_first_byte(ds):
    await start(ds)
    await run_until_idle(ds)
    await ds.databases["words"].execute_write("drop view quiet")
    await ds.databases["words"].execute_write("drop table words")
    assert (await get(ds, MISSED, ROOT)).status_code in (400, 404)


async def test_the_head_of_the_file_comes_without_reading_it(ds, monkeypatch):
    await start(ds)
    await run_until_idle(ds)
    monkeypatch.setattr(failures, "pages", None)  # whoever reads a page fails
    sent = await ds.client.head(MISSED, cookies=cookies_of(ds, ROOT))
    assert (sent.status_code, sent.text) == (200, "")
    assert sent.headers["content-type"] == "text/csv; charset=utf-8"


async def test_the_file_is_read_no_further_when_its_reader_has_left(ds, monkeypatch):
    await start(ds)
    await run_until_idle(ds)
    read = []

    async def endless(db, rows):
        while len(read) < 1000:
            read.append(len(read))
            await asyncio.sleep(0)
            yield [[5, "error", "x"]]

    monkeypatch.setattr(failures, "pages", endless)
    gone = asyncio.Event()

    class Leaving:
        method, actor, args = "GET", ROOT, MultiParams({})

        async def receive(self):
            await gone.wait()
            return {"type": "http.disconnect"}

    job = await queries.find(ds, "words", 1, actor=ROOT)
    stream = await web_failures.csv_of_job(ds, Leaving(), "words", job)

    async def send(message):
        if len(read) == 3:
            gone.set()

    await stream.asgi_send(send)
    assert len(read) < 10
