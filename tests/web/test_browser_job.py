# ruff: noqa: F811 - fixtures of test_browser are asked for by name
"""A job's page in a browser: it follows the job through pauses, restarts and other tabs, and stays quick."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import csv
import datetime
import pathlib
import sqlite3
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from datasette_ingest import Defer, compat

from .conftest import ROOT, make_words, new_datasette, start
from .test_browser import Served, browser, page, served, until, words  # noqa: F401 - as above

pytestmark = pytest.mark.browser

JOB = "/-/ingest-jobs/words/1"
GONE = "The server does not answer"
BACK = "The server answers again"


def add_job(path: pathlib.Path, **given: Any) -> None:
    """A job of root's over the words of this file, left for whoever serves it."""

    async def add() -> None:
        datasette = new_datasette([str(path)], {"plugins": {"datasette-ingest": {"run_jobs": False}}})
        datasette.root_enabled = True
        await datasette.invoke_startup()
        await start(datasette, **given)
        compat.close(datasette)

    with concurrent.futures.ThreadPoolExecutor(1) as elsewhere:  # Playwright's loop runs in this thread
        elsewhere.submit(lambda: asyncio.run(add())).result()


def log(page: Any) -> list[str]:
    """The lines of the log, oldest first."""
    return page.locator(".ingest-log li > span").all_inner_texts()[::-1]


@pytest.fixture
def running(words: pathlib.Path, shout: Any, page: Any, served: Served) -> Any:
    """The page of a job that is running and whose rows are held."""
    shout.held.set()
    add_job(words)
    page.goto(served.origin + JOB)
    page.get_by_text("running", exact=True).wait_for()
    return page


def test_a_job_is_paused_resumed_and_cancelled_and_the_log_says_by_whom(running):
    running.get_by_role("button", name="Pause").click()
    running.get_by_text("paused", exact=True).wait_for()
    assert running.get_by_text("Press Resume to continue.").is_visible()
    running.get_by_role("button", name="Resume").click()
    running.get_by_text("running", exact=True).wait_for()
    running.get_by_role("button", name="Cancel").click()
    running.get_by_text("cancelled", exact=True).wait_for()
    assert [line for line in log(running) if line != "A worker began."] == [
        "Started by root.",
        "Paused by root.",
        "Resumed by root.",
        "Cancelled by root.",
    ]


@pytest.mark.slow
def test_the_server_is_restarted_in_the_middle_and_the_page_says_so_and_goes_on(running, served, shout, words):
    served.stop()
    running.get_by_text(GONE).wait_for()
    served.start()
    running.get_by_text(BACK).wait_for(timeout=30_000)
    assert not running.get_by_text(GONE).is_visible()
    shout.held.clear()
    running.get_by_text("finished", exact=True).wait_for(timeout=30_000)
    running.get_by_text(BACK).wait_for(state="hidden", timeout=15_000)
    assert running.locator("[data-live=done_count]").inner_text() == "40"
    assert log(running)[-1] == "Finished: every row was answered."


def test_two_tabs_show_the_same_job_and_a_button_that_came_too_late_says_why(running, served, shout):
    other = running.context.new_page()
    other.goto(served.origin + JOB)
    other.get_by_role("button", name="Pause").click()
    other.get_by_text("paused", exact=True).wait_for()
    running.get_by_text("paused", exact=True).wait_for()
    running.get_by_role("button", name="Resume").wait_for()
    running.route("**/*.json", lambda route: route.abort())  # from here on this tab hears nothing
    other.get_by_role("button", name="Cancel").click()
    other.get_by_text("cancelled", exact=True).wait_for()
    running.get_by_role("button", name="Resume").click()
    running.get_by_text("Job 1 is cancelled, so it cannot be resumed.").wait_for()
    assert running.get_by_text("cancelled", exact=True).is_visible()


def test_the_page_is_redrawn_around_the_keyboard_and_around_what_is_open(running, shout, words, served):
    running.get_by_role("button", name="Pause").focus()
    running.keyboard.press("Enter")
    running.get_by_text("paused", exact=True).wait_for()
    running.get_by_role("button", name="Resume").focus()
    shout.held.clear()
    conn = sqlite3.connect(words)  # as another process would, while the page is open
    conn.execute("update _enrichment_jobs set status = 'pending'")
    conn.commit()
    conn.close()
    running.get_by_text("finished", exact=True).wait_for()
    until(lambda: running.evaluate("document.activeElement.closest('#ingest-buttons') !== null"))


class Asked:
    """How often a page has asked for its job, and whether an answer is still on its way."""

    def __init__(self, page: Any) -> None:
        self.count = self.open = 0
        page.on("request", lambda request: self._add(request, 1))
        page.on("requestfinished", lambda request: self._add(request, -1))
        page.on("requestfailed", lambda request: self._add(request, -1))

    def _add(self, request: Any, number: int) -> None:
        if request.url.endswith(".json"):
            self.open += number
            self.count += number > 0


def pass_seconds(page: Any, asked: Asked, seconds: int) -> int:
    """Let the page's clock run, in half seconds; how often the page asked in that time."""
    before = asked.count
    for _ in range(2 * seconds):
        page.clock.run_for(500)
        until(lambda: page.evaluate("1") and not asked.open)
    return asked.count - before


def show_tab(page: Any, *, hidden: bool) -> None:
    page.evaluate(
        """hidden => {
            Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def test_it_asks_less_often_while_nothing_happens_and_not_at_all_while_hidden(words, shout, page, served):
    shout.held.set()
    add_job(words)
    until(lambda: sqlite3.connect(words).execute("select status from _enrichment_jobs").fetchone() == ("running",))
    page.clock.install()
    asked = Asked(page)
    page.goto(served.origin + JOB)
    first, later = pass_seconds(page, asked, 6), [pass_seconds(page, asked, 30) for _ in range(2)][-1]
    assert first >= 4
    assert 5 <= later <= 7
    show_tab(page, hidden=True)
    assert pass_seconds(page, asked, 20) <= 1  # one may have been on its way
    assert pass_seconds(page, asked, 20) == 0
    before = asked.count
    show_tab(page, hidden=False)
    until(lambda: page.evaluate("1") and asked.count > before)
    shout.held.clear()


def test_it_stops_asking_when_the_job_is_over(words, shout, page, served):
    add_job(words)
    asked = Asked(page)
    page.goto(served.origin + JOB)
    page.get_by_text("finished", exact=True).wait_for()
    page.clock.install()
    pass_seconds(page, asked, 1)  # the request that brought the end may be told late
    assert pass_seconds(page, asked, 30) == 0


def test_it_asks_below_the_base_url(words, shout, browser):
    here = Served(words, base_url="/prefix/")
    context = browser.new_context()
    try:
        shout.held.set()
        add_job(words)
        context.add_cookies([here.cookie(ROOT)])
        tab = context.new_page()
        tab.goto(f"{here.origin}/prefix{JOB}")
        tab.get_by_text("running", exact=True).wait_for()
        shout.held.clear()
        tab.get_by_text("finished", exact=True).wait_for()
    finally:
        context.close()
        here.stop()


def test_a_job_that_may_not_be_seen_any_more_is_said_to_be(running):
    running.context.clear_cookies()
    running.get_by_text("This job is not visible any more").wait_for()


def test_what_rows_wait_for_comes_and_goes_without_a_reload(words, shout, page, served, monkeypatch):
    until = datetime.datetime(2999, 1, 1, tzinfo=datetime.timezone.utc)
    waits = threading.Event()
    waits.set()
    enrich = type(shout).enrich_row

    async def enrich_row(self: Any, row: Any, config: Any) -> Any:
        if waits.is_set():
            raise Defer(until, "<i>slow</i>.example asked us to wait")
        return await enrich(self, row, config)

    monkeypatch.setattr(type(shout), "enrich_row", enrich_row)
    shout.held.set()
    add_job(words)
    page.goto(served.origin + JOB)
    page.get_by_role("heading", name="Rows that wait").wait_for()
    page.get_by_text("All remaining rows wait. The job continues by itself at 2999-01-01 00:00:00 UTC.").wait_for()
    (item,) = page.locator("#ingest-waits li").all_inner_texts()
    assert item == "40 rows: <i>slow</i>.example asked us to wait until 2999-01-01 00:00:00 UTC"
    assert not page.get_by_text("remaining", exact=True).is_visible()
    waits.clear()
    with contextlib.closing(sqlite3.connect(words)) as conn, conn:
        conn.execute("update _enrichment_batches set not_before = '2000-01-01T00:00:00.000Z'")
    page.get_by_role("heading", name="Rows that wait").wait_for(state="detached")
    assert not page.get_by_text("All remaining rows wait.").is_visible()
    shout.held.clear()
    page.get_by_text("finished", exact=True).wait_for(timeout=30_000)


def test_the_tables_page_says_when_its_job_begins_to_wait(words, shout, page, served, monkeypatch):
    async def enrich_row(self: Any, row: Any, config: Any) -> Any:
        while self.held.is_set():
            await asyncio.sleep(0.01)
        raise Defer(datetime.datetime(2999, 1, 1, tzinfo=datetime.timezone.utc), "a.example asked us to wait")

    monkeypatch.setattr(type(shout), "enrich_row", enrich_row)
    shout.held.set()
    add_job(words)
    page.goto(served.origin + "/words/words")
    banner = page.locator(".ingest-progress-banner")
    assert "waits until" not in banner.inner_text()
    shout.held.clear()
    banner.get_by_text("waits until 2999-01-01 00:00:00 UTC").wait_for()


def test_a_finished_job_is_run_again_with_its_settings(words, shout, page, served):
    add_job(
        words,
        filters="year__gte=2038",
        config={"column": "word", "output": "loud", "mood": "angry", "strict": True},
        options={"batch_size": 7},
    )
    page.goto(served.origin + JOB)
    page.get_by_role("link", name="Run again with these settings").click()
    page.get_by_text("Advanced settings").click()
    shown = {
        name: page.locator(f"[name='{name}']").input_value()
        for name in ("config.output", "config.mood", "option.batch_size")
    }
    assert shown == {"config.output": "loud", "config.mood": "angry", "option.batch_size": "7"}
    assert page.locator("[name='config.strict']").is_checked()
    page.get_by_role("button", name="Enrich 3 rows").click()
    page.wait_for_url("**/-/ingest-jobs/words/2")
    page.get_by_text("finished", exact=True).wait_for()


@pytest.fixture
def large(tmp_path: pathlib.Path, shout: Any) -> Iterator[Served]:
    """A finished job over 10,000 rows, every one of them in error."""
    path = tmp_path / "words.db"
    make_words(path, rows=10_000)
    conn = sqlite3.connect(path)
    conn.execute("update words set word = null")
    conn.commit()
    conn.close()
    add_job(path, options={"batch_size": 1000, "max_errors": 20_000})
    here = Served(path)

    def is_over() -> bool:
        eye = sqlite3.connect(path)
        try:
            return eye.execute("select status from _enrichment_jobs").fetchone() == ("finished",)
        finally:
            eye.close()

    until(is_over, 60)
    yield here
    here.stop()


def test_the_page_of_10_000_errors_is_as_short_as_that_of_one(large, browser, tmp_path):
    context = browser.new_context(accept_downloads=True)
    try:
        context.add_cookies([large.cookie(ROOT)])
        tab = context.new_page()
        sent = tab.goto(large.origin + JOB)
        assert len(sent.body()) < 60_000
        assert tab.locator(".ingest-group strong").inner_text() == "10,000 rows"
        assert tab.get_by_role("button", name="Retry 10,000 rows in error").is_visible()
        with tab.expect_download() as download:
            tab.get_by_role("link", name="Download failures as CSV").click()
        with open(download.value.path(), newline="", encoding="utf-8") as file:
            read = list(csv.reader(file))
        assert len(read) == 10_001 and [row[0] for row in read[1:]] == [str(n) for n in range(1, 10_001)]
        tab.get_by_role("link", name="9,988 more").click()
        tab.get_by_text("Only errors with the same message.").wait_for()
        assert tab.locator(".ingest-errors tbody tr").count() == 100
        tab.get_by_role("link", name="Next page").click()
        tab.get_by_role("link", name="101", exact=True).wait_for()
        tab.goto(large.origin + JOB)
        tab.get_by_role("button", name="Retry 10,000").click()
        tab.wait_for_url("**/-/ingest-jobs/words/2")
        tab.get_by_text("This new job retries 10,000 rows").wait_for()
    finally:
        context.close()


def test_the_lists_are_narrowed_and_say_what_to_do_when_they_are_empty(words, shout, page, served):
    page.goto(served.origin + "/-/ingest-jobs")
    page.get_by_text("There are no jobs here that you may see.").wait_for()
    page.get_by_role("link", name="list of databases").click()
    page.wait_for_url(served.origin + "/")
    add_job(words)
    page.goto(served.origin + "/-/ingest-jobs")
    page.get_by_label("Status").select_option("cancelled")
    page.get_by_label("Enrichment").select_option("shout")
    page.get_by_role("button", name="Show").click()
    page.get_by_text("No jobs match these filters.").wait_for()
    assert page.get_by_label("Status").input_value() == "cancelled"
    page.get_by_role("link", name="Show all jobs").click()
    assert page.locator(".ingest-jobs tbody tr").count() == 1
