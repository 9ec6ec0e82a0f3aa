"""Menu items and progress on Datasette's own pages."""

from __future__ import annotations

import html
import json
import re
import sqlite3

from datasette_ingest import compat
from datasette_ingest.jobs import store
from datasette_ingest.testing import run_until_idle
from datasette_ingest.web import banners, datasette_pages

from .conftest import READER, ROOT, get, start


async def test_the_tables_menu_carries_the_pages_filters_on(ds):
    page = html.unescape((await get(ds, "/words/words?year__gte=2003&_sort=id&_facet=year", ROOT)).text)
    assert 'href="/-/ingest/words/words?year__gte=2003"' in page


async def test_the_tables_menu_counts_its_jobs(ds):
    assert "Enrichment jobs (" not in (await get(ds, "/words/words", ROOT)).text
    await start(ds)
    assert "Enrichment jobs (1)" in (await get(ds, "/words/words", ROOT)).text


async def test_nobody_else_is_offered_anything(ds):
    await start(ds)
    for path in ("/words/words", "/words", "/"):
        for actor in (None, READER):
            assert "/-/ingest" not in (await get(ds, path, actor)).text


async def test_views_and_immutable_databases_have_no_item(open_ds, tmp_path, ds):
    assert "/-/ingest/" not in (await get(ds, "/words/quiet", ROOT)).text
    frozen = await open_ds(paths=[], immutables=[str(tmp_path / "words.db")])
    assert "/-/ingest/" not in (await get(frozen, "/words/words", ROOT)).text


async def test_the_database_and_main_menus_lead_to_the_jobs(ds):
    await start(ds)
    assert 'href="/-/ingest-jobs/words"' in (await get(ds, "/words", ROOT)).text
    assert 'href="/-/ingest-jobs"' in (await get(ds, "/", ROOT)).text


async def test_a_rows_menu_picks_exactly_that_row(ds):
    if not compat.is_1_0(ds):
        assert "Enrich this row" not in (await get(ds, "/words/words/3", ROOT)).text
        return
    page = (await get(ds, "/words/words/3", ROOT)).text
    link = html.unescape(re.search(r'href="([^"]+)"[^>]*>\s*Enrich this row', page)[1])
    body = (await get(ds, link.replace("words?", "words.json?"), ROOT)).json()
    assert (body["count"], body["rows"][0]["id"]) == (1, 3)


async def test_a_running_job_is_shown_on_its_tables_page_and_gone_when_it_ended(ds):
    await start(ds)
    page = (await get(ds, "/words/words", ROOT)).text
    assert "ingest-progress-banner" in page
    assert "/-/ingest-jobs/words/1.json" in page
    assert "ingest-progress-banner" not in (await get(ds, "/words/words", READER)).text
    await run_until_idle(ds)
    assert "ingest-progress-banner" not in (await get(ds, "/words/words", ROOT)).text


async def test_the_tables_page_and_the_lists_say_until_when_a_job_waits_or_is_paused(open_ds):
    ds = await open_ds({"plugins": {"datasette-ingest": {"run_jobs": False}}})
    for status, column in (("running", "waits_until"), ("paused", "resume_at")):
        job = await start(ds)
        await ds.databases["words"].execute_write(
            f"update _enrichment_jobs set status = ?, {column} = '2999-01-01T00:10:00.000Z' where id = ?",
            [status, job.id],
        )
        await ds.databases["words"].execute_write(
            "insert into _enrichment_batches (job_id, end_cursor, row_count, not_before, defer_reason) "
            "values (?, '[]', 3, '2999-01-01T00:10:00.000Z', 'a.example asked us to wait')",
            [job.id],
        )
    for path in ("/words/words", "/-/ingest-jobs", "/-/ingest-jobs/words"):
        page = (await get(ds, path, ROOT)).text
        assert "waits until 2999-01-01 00:10:00 UTC" in page
        assert "resumes at 2999-01-01 00:10:00 UTC" in page


async def test_the_breadcrumbs_of_a_jobs_pages_and_of_the_form_lead_to_the_table(ds):
    await start(ds)
    for path in ("/-/ingest-jobs/words/1", "/-/ingest-jobs/words/1/errors", "/-/ingest/words/words/shout"):
        crumbs = (await get(ds, path, ROOT)).text.partition('class="crumbs"')[2].partition("</p>")[0]
        assert '<a href="/words/words">words</a>' in crumbs, path


async def test_the_main_menu_counts_the_jobs_that_run_for_those_who_may_see_them(ds):
    assert [item["label"] for item in await datasette_pages.main_links(ds, ROOT)] == ["Enrichment jobs"]
    await start(ds)
    await start(ds)
    db = ds.get_database("words")
    await compat.write(db, lambda conn: conn.execute("update _enrichment_jobs set status = 'running'"))
    assert [item["label"] for item in await datasette_pages.main_links(ds, ROOT)] == ["Enrichment jobs · 2 running"]
    assert "Enrichment jobs · 2 running" in (await get(ds, "/", ROOT)).text
    assert "running" not in (await get(ds, "/", READER)).text


async def test_a_database_that_cannot_be_read_takes_no_page_with_it(ds, monkeypatch):
    def broken(conn, **kwargs):
        raise sqlite3.DatabaseError("file is not a database")

    monkeypatch.setattr(store, "running_jobs", broken)
    monkeypatch.setattr(store, "list_jobs", broken)
    assert [item["label"] for item in await datasette_pages.main_links(ds, ROOT)] == ["Enrichment jobs"]
    assert await banners.table_banner(ds, ROOT, "words", "words") == ""


async def test_jobs_over_private_tables_are_not_counted(open_ds):
    permitted = {"plugins": {"datasette-ingest": {"allow": {"id": "reader"}}}}
    private = {"databases": {"words": {"tables": {"words": {"allow": {"id": "root"}}}}}}
    ds = await open_ds({**permitted, **private})
    await start(ds)
    db = ds.get_database("words")
    await compat.write(db, lambda conn: conn.execute("update _enrichment_jobs set status = 'running'"))
    assert [item["label"] for item in await datasette_pages.main_links(ds, ROOT)] == ["Enrichment jobs · 1 running"]
    assert [item["label"] for item in await datasette_pages.main_links(ds, READER)] in ([], ["Enrichment jobs"])


def test_html_inside_a_script_cannot_end_it():
    text = "<p>\"'</script><!-- \u2028"
    assert "<" not in banners.in_script(text)
    assert json.loads(banners.in_script(text)) == text
