"""Rows without success: by reason on the job's page, and the report on a row's own page, for those who may see it."""

from __future__ import annotations

import html
import re

import pytest

from datasette_ingest import Failures, RelatedRows
from datasette_ingest.testing import run_until_idle
from datasette_ingest.web import failures

from .conftest import READER, ROOT, get, start

JOB = "/-/ingest-jobs/words/1"
ROW = "/words/words/2"
REASONS = re.compile(r'<section id="ingest-reasons" data-section>(.*?)</section>', re.DOTALL)


def described(self, config, table):
    """How shouting describes a row: by the sentence in `notes`, which are also the related rows."""
    note = f'(select note from notes where notes.id = "{table}".id)'
    behind = {"id": f'"{table}".id'}
    return Failures(columns={"message": note}, related=(RelatedRows("What was heard", "notes", behind, sort="note"),))


@pytest.fixture
async def hoarse(open_ds, shout, monkeypatch):
    """A job that is over: rows 2 and 3 were hoarse, row 5 is in error, and the notes, which only root may see, say why."""
    monkeypatch.setattr(type(shout), "failures", described)
    ds = await open_ds(
        {
            "plugins": {"datasette-ingest": {"run_jobs": False, "allow": {"id": ["root", "reader"]}}},
            "databases": {"words": {"tables": {"notes": {"allow": {"id": "root"}}}}},
        }
    )
    await start(ds)
    await run_until_idle(ds)
    db = ds.databases["words"]
    await db.execute_write("update words set shouted_status = 'hoarse' where id in (2, 3)")
    await db.execute_write("""update _enrichment_jobs set outcomes = '{"success": 2, "hoarse": 2, "error": 1}'""")
    await db.execute_write("create table notes (id integer primary key, note text)")
    await db.execute_write(
        "insert into notes values (2, 'a <b>cold</b> at https://a.example/2'), (3, 'a <b>cold</b> at https://a.example/3')"
    )
    return ds


async def section(ds, path: str = JOB, actor=ROOT) -> str:
    return html.unescape(re.sub(r"\s+", " ", REASONS.search((await get(ds, path, actor)).text)[1])).strip()


async def test_the_reasons_stand_on_the_jobs_page_with_their_rows(hoarse):
    raw = (await get(hoarse, JOB, ROOT)).text
    assert "<b>cold</b>" not in raw
    said = await section(hoarse)
    assert "Why rows failed" in said
    assert (
        '<strong>2 rows</strong> <span class="ingest-outcome-word">hoarse</span> For example: a <b>cold</b> at https://a.example/2.'
        in said
    )
    assert re.findall(r'<a href="([^"]+)">(\d)</a>', said) == [("/words/words/2", "2"), ("/words/words/3", "3")]


async def test_more_rows_of_a_reason_are_behind_its_outcome(hoarse, monkeypatch):
    monkeypatch.setattr(failures, "LINKED_ROWS", 1)
    said = await section(hoarse)
    link = re.search(r'<a href="([^"]+)">1 more</a>', said)[1]
    rows = (await get(hoarse, link.replace("?", ".json?_shape=array&"), ROOT)).json()
    assert [row["id"] for row in rows] == [2, 3]


async def test_reasons_that_take_long_are_left_to_the_download(hoarse, monkeypatch):
    async def never(*given, **named):
        return None

    monkeypatch.setattr(failures.failures, "reasons", never)
    assert "The reasons are slow to compute" in await section(hoarse)
    assert f'href="{JOB}/missed.csv"' in await section(hoarse)


async def test_a_job_with_very_many_errors_leaves_its_reasons_to_the_download(hoarse, monkeypatch):
    monkeypatch.setattr(failures.control, "EXACTLY_COUNTED_ERRORS", 0)
    assert "The reasons are slow to compute" in await section(hoarse)


@pytest.mark.parametrize(
    "change",
    [
        "update _enrichment_jobs set status = 'running', finished_at = null",
        """update _enrichment_jobs set outcomes = '{"success": 4, "error": 1}'""",
        "update notes set note = null",
        "alter table notes rename to elsewhere",
        "alter table words rename to elsewhere",
    ],
)
async def test_there_is_no_such_part_where_nothing_can_be_said(hoarse, change):
    await hoarse.databases["words"].execute_write(change)
    assert await section(hoarse) == ""


async def test_a_rows_page_says_why_it_has_no_success_and_links_on(hoarse):
    page = (await get(hoarse, ROW, ROOT)).text.replace("\\u003c", "<").replace('\\"', '"').replace("\\n", "\n")
    assert "a &lt;b&gt;cold&lt;/b&gt; at https://a.example/2." in page
    links = {label: html.unescape(href) for href, label in re.findall(r'<a href="([^"]+)">([^<]+)</a>', page)}
    assert links["What was heard"] == "/words/notes?id__exact=2&_sort=note"
    assert (await get(hoarse, links["What was heard"], ROOT)).status_code == 200
    assert links["Try this row again"] == "/-/ingest/words/words/shout?_row=2&_retry=1"
    assert "1 row" in (await get(hoarse, links["Try this row again"], ROOT)).text


@pytest.mark.parametrize(
    "broken",
    [
        lambda self, config, table: {}["nothing"],
        lambda self, config, table: Failures(columns={"message": ":never_given"}),
        lambda self, config, table: Failures(columns={"message": "syntax error"}),
    ],
)
async def test_an_enrichment_that_cannot_describe_its_failures_breaks_no_page(hoarse, shout, monkeypatch, broken):
    monkeypatch.setattr(type(shout), "failures", broken)
    for path in (JOB, ROW, "/words/words", f"{JOB}/missed.csv"):
        assert (await get(hoarse, path, ROOT)).status_code == 200, path


async def test_a_row_in_error_says_its_error_and_one_that_went_well_nothing(hoarse):
    assert "word &amp; no voice" in (await get(hoarse, "/words/words/5", ROOT)).text
    for path in ("/words/words/1", "/words/words/99", "/words/quiet"):
        assert "Try this row again" not in (await get(hoarse, path, ROOT)).text


async def test_only_those_who_may_enrich_the_table_are_told(hoarse):
    for actor, is_told in ((None, False), ({"id": "visitor"}, False), (ROOT, True)):
        assert ("Try this row again" in (await get(hoarse, ROW, actor)).text) is is_told


async def test_related_rows_are_linked_for_those_who_may_see_them(hoarse):
    page = (await get(hoarse, ROW, READER)).text
    assert "Try this row again" in page
    assert "What was heard" not in page


async def test_another_try_has_the_settings_of_a_retry(hoarse, shout, monkeypatch):
    monkeypatch.setattr(type(shout), "retry_config", lambda self, config, scopes: {**config, "strict": True})
    form = "/-/ingest/words/words/shout?_row=2"
    assert re.search(r'name="config.strict"[^>]* checked', (await get(hoarse, f"{form}&_retry=1", ROOT)).text)
    assert not re.search(r'name="config.strict"[^>]* checked', (await get(hoarse, f"{form}&_again=1", ROOT)).text)
    assert (await get(hoarse, f"{form}&_retry=9", ROOT)).status_code == 404
    assert (await get(hoarse, f"{form}&_retry=1", {"id": "visitor"})).status_code == 403
