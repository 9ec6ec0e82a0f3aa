"""What a person does in a browser, from the table's page to the enriched rows."""

from __future__ import annotations

import os
import pathlib
import shutil
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn

from datasette_ingest import compat, text

from .conftest import ROOT, make_words, new_datasette

pytestmark = pytest.mark.browser

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]


def chromium() -> str:
    """Where Chromium is; a skip, or in CI a failure, where there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        if os.environ.get("INGEST_REQUIRE_ALL") == "1":
            pytest.fail("Chromium is missing, and INGEST_REQUIRE_ALL=1 says that it must be here")
        pytest.skip("Chromium is missing")
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    path = chromium()
    sync_api = pytest.importorskip("playwright.sync_api")
    # The driver keeps an event loop of its own in this thread: the other tests must not meet it.
    with sync_api.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield opened
        opened.close()


class Served:
    """A Datasette on loopback, in a thread, that can be stopped and started again on the same port."""

    def __init__(self, path: pathlib.Path, config: dict[str, Any] | None = None, base_url: str = "/") -> None:
        self._path, self._config, self._base_url = path, config, base_url
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.origin = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        settings = {"base_url": self._base_url}
        self.datasette = new_datasette([str(self._path)], self._config, settings=settings, secret="kept over restarts")
        self.datasette.root_enabled = True
        server = uvicorn.Config(
            self.datasette.app(), host="127.0.0.1", port=self.port, log_level="error", lifespan="on"
        )
        self._server = uvicorn.Server(server)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        until(lambda: self._server.started)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=20)
        assert not self._thread.is_alive()
        compat.close(self.datasette)

    def cookie(self, actor: dict[str, Any]) -> dict[str, Any]:
        return {"name": "ds_actor", "value": self.datasette.sign({"a": actor}, "actor"), "url": self.origin}


def until(is_so: Callable[[], Any], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


@pytest.fixture
def words(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "words.db"
    make_words(path, rows=40)
    return path


@pytest.fixture
def served(words: pathlib.Path, shout: Any) -> Iterator[Served]:
    here = Served(words)
    yield here
    shout.held.clear()
    here.stop()


@pytest.fixture
def page(browser: Any, served: Served) -> Iterator[Any]:
    """A root's browser tab on the served Datasette; any error in its console fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.add_cookies([served.cookie(ROOT)])
    tab = context.new_page()
    complaints: list[str] = []
    tab.on("pageerror", lambda problem: complaints.append(str(problem)))
    yield tab
    context.close()
    assert complaints == []


def column(path: pathlib.Path, name: str) -> list[Any]:
    conn = sqlite3.connect(path)
    try:
        return [row[0] for row in conn.execute(f"select {name} from words order by id")]
    finally:
        conn.close()


def choose_and_fill(page: Any, served: Served, path: str = "/words/words") -> None:
    page.goto(served.origin + path)
    page.locator("details.actions-menu-links summary").first.click()
    page.get_by_text("Enrich selected rows").click()
    page.get_by_role("link", name="Shout").click()


def test_filter_menu_form_start_watch_see(page, served, words, shout):
    shout.held.set()
    choose_and_fill(page, served, "/words/words?year__gte=2021")
    page.get_by_role("heading", name="20 rows").wait_for()
    assert page.locator("select[name='config.column']").input_value() == "word"
    page.get_by_role("button", name="Enrich 20 rows").click()
    page.wait_for_url("**/-/ingest-jobs/words/1")
    page.get_by_text("running", exact=True).wait_for()
    bar = page.locator("[role=progressbar]")
    assert float(bar.get_attribute("aria-valuenow")) == 0
    shout.held.clear()
    page.get_by_text("finished", exact=True).wait_for()
    page.get_by_role("heading", name="Errors").wait_for()
    assert bar.get_attribute("aria-valuenow") in ("100", "100.0")
    assert page.locator("[data-live=done_count]").inner_text() == "20"
    assert column(words, "shouted")[:21] == [None] * 20 + ["WORD 21"]
    page.get_by_role("link", name="success").click()
    page.get_by_text("WORD 21", exact=True).wait_for()


def test_a_person_pauses_resumes_and_cancels_and_the_page_follows(page, served, shout):
    shout.held.set()
    choose_and_fill(page, served)
    page.get_by_role("button", name="Enrich 40 rows").click()
    page.get_by_text("running", exact=True).wait_for()
    page.get_by_role("button", name="Pause").click()
    page.get_by_text("paused", exact=True).wait_for()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Pause").wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("cancelled", exact=True).wait_for()
    assert page.get_by_role("button", name="Pause").count() == 0


def test_a_double_click_starts_one_job(page, served, shout):
    choose_and_fill(page, served)
    page.get_by_role("button", name="Enrich 40 rows").dblclick()
    page.wait_for_url("**/-/ingest-jobs/words/1")
    page.goto(served.origin + "/-/ingest-jobs")
    assert page.locator(".ingest-jobs tbody tr").count() == 1


def test_what_was_typed_is_kept_beside_the_error(page, served):
    choose_and_fill(page, served)
    page.get_by_text("Advanced settings").click()
    page.locator("[name='option.batch_size']").fill("many")
    page.locator("h1").click()  # a click elsewhere, on which Datasette closes its menus, leaves the fold open
    assert page.locator("[name='option.batch_size']").is_visible()
    page.locator("[name='config.output']").fill("out<b>")
    page.get_by_role("button", name="Enrich 40 rows").click()
    page.locator("[aria-invalid=true]").wait_for()
    assert page.locator("[name='option.batch_size']").input_value() == "many"
    assert page.locator("[name='config.output']").input_value() == "out<b>"
    described = page.locator("[name='option.batch_size']").get_attribute("aria-describedby").split()
    assert "whole number" in page.locator(f"#{described[-1]}").inner_text()


def test_the_whole_way_by_keyboard(page, served, words):
    page.goto(served.origin + "/-/ingest/words/words/shout")
    page.locator("select[name='config.column']").focus()
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.type") == "submit":
            break
    page.keyboard.press("Enter")
    page.wait_for_url("**/-/ingest-jobs/words/1")
    page.get_by_text("finished", exact=True).wait_for()
    assert column(words, "shouted")[0] == "WORD 1"


def test_the_page_says_when_the_server_is_gone_and_goes_on_when_it_is_back(page, served, shout, words):
    shout.held.set()
    choose_and_fill(page, served)
    page.get_by_role("button", name="Enrich 40 rows").click()
    page.get_by_text("running", exact=True).wait_for()
    served.stop()
    page.get_by_text("The server does not answer").wait_for()
    shout.held.clear()
    served.start()
    page.get_by_text("finished", exact=True).wait_for(timeout=20_000)
    page.get_by_text("The server does not answer").wait_for(state="hidden")
    assert column(words, "shouted")[:39] == [f"WORD {number}" for number in range(1, 40)]


def test_the_script_says_durations_and_rates_as_the_server_does(page, served):
    page.goto(served.origin + "/-/ingest-jobs")
    seconds = [0, 0.4, 1, 59.4, 60, 185, 3600, 7800, 273_600]
    rates = [0, 0.05, 0.9, 1, 2.26, 10, 999.4, 12345.6]
    said = page.evaluate(
        """async ([seconds, rates]) => {
            const {duration, rate} = await import("/-/static-plugins/datasette_ingest/ingest-job.js");
            return [seconds.map(duration), rates.map(rate)];
        }""",
        [seconds, rates],
    )
    assert said == [list(map(text.duration, seconds)), list(map(text.rate, rates))]


def test_progress_stands_on_the_tables_page(page, served, shout):
    shout.held.set()
    choose_and_fill(page, served)
    page.get_by_role("button", name="Enrich 40 rows").click()
    page.get_by_text("running", exact=True).wait_for()
    page.goto(served.origin + "/words/words")
    strip = page.locator(".ingest-progress-banner")
    strip.get_by_text("running").wait_for()
    shout.held.clear()
    strip.get_by_text("finished").wait_for()


@pytest.mark.parametrize("width", [360, 1280])
def test_no_page_is_wider_than_the_window(page, served, width):
    page.set_viewport_size({"width": width, "height": 800})
    choose_and_fill(page, served)
    page.get_by_role("button", name="Enrich 40 rows").click()
    page.get_by_text("finished", exact=True).wait_for()
    paths = ["", "/errors"]
    addresses = [f"/-/ingest-jobs/words/1{path}" for path in paths]
    addresses += ["/-/ingest-jobs", "/-/ingest-jobs/words", "/-/ingest/words/words", "/-/ingest/words/words/shout"]
    addresses += ["/-/ingest/words/quiet", "/-/ingest/words/words?nope=1"]
    for address in addresses:
        page.goto(served.origin + address)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address
