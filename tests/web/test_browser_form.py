"""The form in a browser: rows are ticked and paged, the preview follows, a few rows are tried."""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from datasette_ingest.web import form

from . import test_browser
from .conftest import ROOT, make_words
from .test_browser import Served, until

browser, page, served = test_browser.browser, test_browser.page, test_browser.served
pytestmark = pytest.mark.browser

FORM = "/-/ingest/words/words/shout"


@pytest.fixture
def words(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "words.db"
    make_words(path, rows=47)
    return path


@pytest.fixture
def plain(browser: Any, served: Served) -> Iterator[Any]:
    """A tab whose browser runs no scripts."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, java_script_enabled=False)
    context.add_cookies([served.cookie(ROOT)])
    yield context.new_page()
    context.close()


def tick(page: Any, number: int) -> Any:
    return page.get_by_role("checkbox", name=f"Select row {number}", exact=True)


def shouted(path: pathlib.Path) -> list[int]:
    """The rows that a job has written to; none before the first has."""
    conn = sqlite3.connect(path)
    try:
        return [row[0] for row in conn.execute("select id from words where shouted is not null order by id")]
    except sqlite3.OperationalError:
        return []
    finally:
        conn.close()


def test_rows_are_ticked_over_several_pages_and_only_they_are_enriched(page, served, words):
    page.goto(served.origin + FORM)
    tick(page, 2).check()
    page.get_by_role("button", name="Enrich 1 selected row", exact=True).wait_for()
    page.get_by_role("button", name="Next rows").click()
    tick(page, 21).check()
    page.get_by_role("button", name="Next rows").click()
    tick(page, 41).wait_for()
    page.get_by_role("button", name="Previous rows").click()
    tick(page, 22).wait_for()
    assert tick(page, 21).is_checked()
    tick(page, 22).check()
    tick(page, 21).uncheck()
    page.get_by_role("heading", name="2 selected rows").wait_for()
    page.get_by_role("button", name="Enrich 2 selected rows").click()
    page.get_by_text("finished", exact=True).wait_for()
    assert shouted(words) == [2, 22]


def test_a_whole_page_is_ticked_and_unticked(page, served):
    page.goto(served.origin + FORM)
    every = page.get_by_role("checkbox", name="Select all rows on this page")
    every.check()
    page.get_by_role("heading", name="20 selected rows").wait_for()
    page.get_by_role("link", name="Show them in the table").wait_for()  # the server has followed
    assert every.is_checked()
    tick(page, 7).uncheck()
    page.get_by_role("heading", name="19 selected rows").wait_for()
    page.get_by_role("button", name="Untick all").click()
    page.get_by_role("button", name="Enrich 47 rows").wait_for()
    assert page.locator("input[name^='tick.']:checked").count() == 0


def test_quick_ticks_are_never_lost_to_a_preview_that_comes_back(page, served):
    page.goto(served.origin + FORM)
    for number in range(1, 16):
        tick(page, number).check()
        page.wait_for_timeout(90)  # so that previews begin in between
    page.get_by_role("heading", name="15 selected rows").wait_for()
    page.get_by_role("link", name="Show them in the table").wait_for()
    assert page.locator("input[name^='tick.']:checked").count() == 15


def test_the_preview_follows_the_settings_and_keeps_what_was_typed(page, served):
    page.goto(served.origin + FORM)
    page.locator("[name='config.output']").fill("loud")
    page.locator(".ingest-facts dd").get_by_text("7", exact=True).wait_for()
    page.locator("select[name='config.column']").select_option("year")
    page.locator(".ingest-facts dd").get_by_text("4", exact=True).wait_for()
    assert page.locator("[name='config.output']").input_value() == "loud"
    assert page.evaluate("document.activeElement.name") in ("config.column", "config.output")


def test_what_a_page_could_not_count_is_counted_when_it_is_there(page, served, monkeypatch):
    monkeypatch.setattr(form, "QUICK_MS", 0.001)
    page.goto(served.origin + FORM)
    page.get_by_role("button", name="Enrich 47 rows").wait_for()
    page.get_by_role("heading", name="47 rows").wait_for()


def test_three_rows_are_tried_and_nothing_is_written(page, served, words):
    before = words.read_bytes()
    page.goto(served.origin + FORM)
    page.get_by_role("button", name="Try 3 rows").click()
    heading = page.get_by_role("heading", name="3 rows tried")
    heading.wait_for()
    assert page.evaluate("document.activeElement.id") == "ingest-dry-run-title"
    assert page.locator(".ingest-tried").all_inner_texts()[0].split("\n")[0] == "Row 1 success"
    page.get_by_text("WORD 3", exact=True).wait_for()
    assert words.read_bytes() == before


def test_a_person_stops_a_dry_run(page, served, shout):
    shout.held.set()
    page.goto(served.origin + FORM)
    page.get_by_role("button", name="Try 3 rows").click()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped.", exact=True).wait_for()
    assert page.get_by_role("button", name="Try 3 rows").is_enabled()
    shout.held.clear()
    page.get_by_role("button", name="Try 3 rows").click()
    page.get_by_role("heading", name="3 rows tried").wait_for()


def test_the_first_thing_that_is_wrong_has_the_focus(page, served):
    page.goto(served.origin + FORM)
    page.get_by_text("Advanced settings").click()
    page.locator("[name='option.batch_size']").fill("many")
    page.get_by_role("button", name="Enrich 47 rows").click()
    page.get_by_role("alert").wait_for()
    until(lambda: page.evaluate("document.activeElement.name") == "option.batch_size")
    page.get_by_role("link", name="Rows per batch").click()
    assert page.evaluate("document.activeElement.name") == "option.batch_size"


def test_ticking_and_trying_by_keyboard_alone(page, served, words):
    page.goto(served.origin + FORM)
    tick(page, 3).focus()
    page.keyboard.press("Space")
    page.get_by_role("link", name="Show them in the table").wait_for()
    assert page.evaluate("document.activeElement.name") == "tick._row=3"  # the preview took nothing away
    page.get_by_role("button", name="Try 1 row").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="1 row tried").wait_for()
    page.locator("#ingest-actions input[type=submit]").focus()
    page.keyboard.press("Enter")
    page.get_by_text("finished", exact=True).wait_for()
    assert shouted(words) == [3]


def test_all_of_it_works_without_scripts(plain, served, words):
    plain.goto(served.origin + FORM)
    tick(plain, 5).check()
    plain.get_by_role("button", name="Next rows").click()
    tick(plain, 25).check()
    plain.locator("[name='config.output']").fill("shouted")
    plain.get_by_role("button", name="Update the preview").click()
    assert plain.get_by_role("heading", name="2 selected rows").is_visible()
    plain.get_by_role("button", name="Try 2 rows").click()
    assert plain.get_by_role("heading", name="2 rows tried").is_visible()
    assert shouted(words) == []
    plain.get_by_role("button", name="Enrich 2 selected rows").click()
    until(lambda: shouted(words) == [5, 25])


def test_ten_thousand_rows_are_counted_leafed_through_and_started(browser, tmp_path, shout):
    path = tmp_path / "words.db"
    make_words(path, rows=10_002)
    here = Served(path)
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    try:
        context.add_cookies([here.cookie(ROOT)])
        page = context.new_page()
        page.goto(here.origin + FORM)
        page.get_by_role("heading", name="10,002 rows").wait_for()
        page.get_by_role("button", name="Next rows").click()
        tick(page, 21).wait_for()
        page.get_by_role("button", name="Enrich 10,002 rows").click()
        page.wait_for_url("**/-/ingest-jobs/words/1")
        page.get_by_role("button", name="Cancel").click()
        page.get_by_text("cancelled", exact=True).wait_for()
    finally:
        context.close()
        here.stop()


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_window(page, served, width):
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(served.origin + FORM)
    tick(page, 1).check()
    page.get_by_role("button", name="Try 1 row").click()
    page.get_by_role("heading", name="1 row tried").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="Enrich 1 selected row").click()
    page.get_by_text("finished", exact=True).wait_for()
    page.goto(served.origin + "/words/words")
    page.locator(".ingest-summary").get_by_text("without an outcome").wait_for()
    assert page.locator(".ingest-summary").bounding_box()["width"] <= width
