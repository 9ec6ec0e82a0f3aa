"""What stands above a table that jobs have worked on."""

from __future__ import annotations

import html
import re
import sqlite3

import pytest

from datasette_ingest import compat
from datasette_ingest.jobs import registry
from datasette_ingest.jobs.service.outcomes import latest_outputs
from datasette_ingest.testing import run_until_idle
from datasette_ingest.web import banners

from .conftest import READER, ROOT, get, start


@pytest.fixture
async def enriched(ds):
    await start(ds)
    await run_until_idle(ds)
    return ds


async def shown(ds, actor, table="words") -> str:
    return html.unescape(await banners.table_banner(ds, actor, "words", table))


async def test_each_outcome_is_a_link_to_its_rows_and_the_rest_is_counted(enriched):
    text = await shown(enriched, READER)
    assert "Shout" in text
    links = {
        re.sub(r"<[^>]+>", "", label).strip(): href
        for href, label in re.findall(r'<a href="([^"]+)"[^>]*>(.*?)</a>', text)
    }
    assert set(links) == {"4 success", "1 without an outcome"}
    for label, address in links.items():
        rows = (await get(enriched, address.replace("?", ".json?_shape=array&"), READER)).json()
        assert len(rows) == int(label.split()[0])


async def test_whoever_may_view_the_table_sees_it_on_its_page_and_nobody_else(enriched, open_ds):
    for actor in (None, READER, ROOT):
        page = (await get(enriched, "/words/words", actor)).text
        assert "ingest-summary" in page
        assert "shouted_status__exact=success" in page
    closed = await open_ds({"databases": {"words": {"tables": {"words": {"allow": {"id": "root"}}}}}})
    assert "ingest-summary" not in (await get(closed, "/words/words", READER)).text
    assert "ingest-summary" in (await get(closed, "/words/words", ROOT)).text


async def test_a_table_without_jobs_has_none(ds):
    assert await shown(ds, ROOT) == ""
    await start(ds)
    assert "ingest-summary" not in await shown(ds, ROOT)


async def test_a_table_that_takes_long_to_count_shows_what_its_job_counted_and_is_not_counted_again(
    enriched, monkeypatch
):
    asked = []

    async def slow(db, fn, *, limit_ms=None):
        if limit_ms == banners.COUNT_MS:
            asked.append(db.name)
            raise compat.Interrupted("too slow")
        return await real(db, fn, limit_ms=limit_ms)

    real = compat.read
    monkeypatch.setattr(banners.compat, "read", slow)
    for _ in range(2):
        text = await shown(enriched, READER)
        assert "_ingest_status=success&_ingest_job=1" in text
        assert "4 success" in re.sub(r"<[^>]+>", "", text)
        assert "/-/ingest-jobs/" not in text  # the job itself is not theirs to see
    assert asked == ["words"]
    assert "/-/ingest-jobs/words/1" in await shown(enriched, ROOT)


async def test_a_column_that_is_gone_or_overwritten_is_no_fault(enriched, tmp_path):
    db = enriched.get_database("words")
    await compat.write(db, lambda conn: conn.execute("update words set shouted_status = x'ff'"))
    assert "b'" in await shown(enriched, ROOT)
    await compat.write(db, lambda conn: conn.execute("alter table words drop column shouted_status"))
    assert await shown(enriched, ROOT) == ""


async def test_words_are_text_and_nothing_else(enriched):
    db = enriched.get_database("words")
    nasty = "<script>alert('&')</script>"
    await compat.write(db, lambda conn: conn.execute("update words set shouted_status = ? where id = 1", [nasty]))
    raw = await banners.table_banner(enriched, ROOT, "words", "words")
    assert "<script>alert" not in raw
    assert nasty in html.unescape(raw)
    assert "<script>alert" not in (await get(enriched, "/words/words", ROOT)).text


async def test_the_columns_of_jobs_are_known_and_those_of_unknown_enrichments_ignored(enriched):
    db = enriched.get_database("words")
    known = await registry.enrichments(enriched)
    written = await compat.read(db, lambda conn: latest_outputs(conn, "words", known))
    assert [output.outcome_column for output in written] == ["shouted_status"]
    sql = "update _enrichment_jobs set enrichment = 'gone'"
    await compat.write(db, lambda conn: conn.execute(sql))
    assert await compat.read(db, lambda conn: latest_outputs(conn, "words", known)) == []
    assert await shown(enriched, ROOT) == ""


async def test_many_words_are_cut_and_the_rest_is_a_facet(enriched):
    db = enriched.get_database("words")

    def fill(conn: sqlite3.Connection) -> None:
        conn.executemany(
            "insert into words (word, shouted_status) values ('x', ?)",
            [(f"word-{n}",) for n in range(20) for _ in range(n)],
        )

    await compat.write(db, fill)
    text = await shown(enriched, ROOT)
    plain = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", "", text))
    assert "4 success · 19 word-19 · 18 word-18" in plain
    assert "13 more" in plain
    assert "_facet=shouted_status" in text
