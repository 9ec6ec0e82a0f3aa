"""Outcome words explain themselves wherever they stand: on the job's page, above its table, on a row, on a page of all."""

from __future__ import annotations

import html
import json
import pathlib
import re
from typing import Any
from urllib.parse import unquote

import pytest

from datasette_ingest.ingest.enrichment.words import WORDS
from datasette_ingest.web import failures

from .conftest import ROOT, get
from .test_search import Archive

CODES = {12: 404, 13: 410, 14: 403, 15: 503, 16: 418, 17: None}


@pytest.fixture
async def missed(open_ds: Any, tmp_path: pathlib.Path) -> Any:
    """A job over six rows: one status with five codes, and a cell without a link."""
    archive = Archive(tmp_path / "works.db")
    for number, code in CODES.items():
        status = "invalid-url" if code is None else "terminal-bad-status"
        url = None if code is None else f"http://h/{number}"
        archive.sql("insert into papers values (?, ?, 0, ?, ?, null, ?, null)", number, url, status, url, code)
        if code is not None:
            archive.sql(
                "insert into ingest_file_result (ingest_type, base_url, updated, hit, status, terminal_status_code, "
                "error_message) values ('pdf', ?, '2026-12-01T00:00:00Z', 0, ?, ?, ?)",
                url,
                status,
                code,
                f"{url} answers {code}",
            )
    archive.sql(
        "update _enrichment_jobs set config = ?, outcomes = ?, state = ?, row_count = 6, done_count = 6",
        json.dumps({"url_column": "url"}),
        json.dumps({"terminal-bad-status": 5, "invalid-url": 1}),
        json.dumps({"case_terminal-bad-status:404": 2, "case_terminal-bad-status:403": 1, "case_made-up:404": 3}),
    )
    return await open_ds(paths=[str(archive.path)])


async def page(ds: Any, path: str) -> str:
    answer = await get(ds, path, ROOT)
    assert answer.status_code == 200
    return html.unescape(" ".join(answer.text.replace("\\u003c", "<").replace('\\"', '"').replace("\\n", " ").split()))


def cases(shown: str) -> dict[str, str]:
    """The links of cases: what they say -> address."""
    shown = re.sub(r"</?span[^>]*>", "", shown)
    return {label: url for url, label in re.findall(r'<a href="([^"]+)"[^>]*>(\d+ [^<]*\(\w[^<]*\))</a>', shown)}


@pytest.mark.parametrize("path", ["/-/ingest-jobs/works/1", "/works/papers"])
async def test_a_bad_http_status_is_told_apart_and_leads_to_its_rows(missed: Any, path: str) -> None:
    found = cases(await page(missed, path))
    expected = {"2 not found (404, 410)": [12, 13], "1 access refused (401, 403)": [14]}
    if path == "/works/papers":  # counted now, where the job's page has what the job counted
        expected |= {"1 server error (5xx)": [15]}
    assert found.keys() == expected.keys()
    for label, url in found.items():
        rows = (await get(missed, url.replace("?", ".json?_shape=array&"), ROOT)).json()
        assert [row["id"] for row in rows] == expected[label]


async def test_every_reason_says_what_happened_and_each_can_be_reached(
    missed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "SHOWN_REASONS", 1)
    shown = await page(missed, "/-/ingest-jobs/works/1")
    reasons = re.search(r'<section id="ingest-reasons".*?</section>', shown)
    assert reasons is not None
    first, rest = reasons[0].split('<details class="ingest-fold" id="ingest-more-reasons">')
    assert "not found (404, 410). For example: http://h/12 answers 404." in first and "4 more reasons" in rest
    for said in ("http://h/14 answers 403.", "http://h/15 answers 503.", WORDS["invalid-url"].meaning):
        assert said in rest
    assert "…" not in reasons[0]


async def test_a_rows_page_says_what_its_word_means(missed: Any) -> None:
    shown = await page(missed, "/works/papers/14")
    assert WORDS["terminal-bad-status:403"].sentences in shown
    assert 'href="/-/ingest-words/ingest#terminal-bad-status%3A403"' in shown
    assert WORDS["invalid-url"].sentences in await page(missed, "/works/papers/17")


async def test_every_link_to_a_word_finds_it_on_the_page_of_all_words(missed: Any) -> None:
    places = set(re.findall(r'id="([^"]+)"><dt>', await page(missed, "/-/ingest-words/ingest")))
    assert places >= set(WORDS)
    for path in ("/-/ingest-jobs/works/1", "/works/papers", "/works/papers/14", "/works/ingest_file_result"):
        anchors = re.findall(r'href="/-/ingest-words/ingest#([^"]+)"', await page(missed, path))
        assert anchors and {unquote(anchor) for anchor in anchors} <= places, path


async def test_an_enrichment_that_explains_nothing_has_the_common_words(open_ds: Any) -> None:
    shown = await page(await open_ds(), "/-/ingest-words/shout")
    assert "The row was enriched." in shown
    assert (await get(await open_ds(), "/-/ingest-words/none", ROOT)).status_code == 404


async def test_the_words_are_for_whoever_may_view_the_instance(open_ds: Any) -> None:
    closed = await open_ds({"allow": {"id": "root"}})
    assert (await get(closed, "/-/ingest-words/ingest", None)).status_code == 403
    assert (await get(closed, "/-/ingest-words/ingest", ROOT)).status_code == 200


@pytest.mark.parametrize("path", ["/-/ingest-jobs/works/1", "/works/papers"])
async def test_the_missed_rows_are_one_link_away(missed: Any, path: str) -> None:
    found = re.search(r'<a [^>]*href="([^"]+)">(?:The|all) 6 missed rows</a>', await page(missed, path))
    assert found is not None
    rows = (await get(missed, found[1].replace("?", ".json?_shape=array&"), ROOT)).json()
    assert [row["id"] for row in rows] == list(CODES)


async def test_a_success_is_no_missed_row(missed: Any) -> None:
    await missed.databases["works"].execute_write("update papers set ingest_status = 'success' where id <> 12")
    await missed.databases["works"].execute_write("update papers set ingest_status = null where id = 17")
    shown = await page(missed, "/works/papers")
    found = re.search(r'<a href="([^"]+)">all 1 missed row</a>', shown)
    assert found is not None
    rows = (await get(missed, found[1].replace("?", ".json?_shape=array&"), ROOT)).json()
    assert [row["id"] for row in rows] == [12]
