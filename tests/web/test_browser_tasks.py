# ruff: noqa: F811 - fixtures of test_browser are asked for by name
"""The five tasks that people come with, each done from the pages alone."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pydantic
import pytest

from datasette_ingest import BatchOutcome, ColumnField, Enrichment, RowUpdate
from datasette_ingest.demo.site import Reply, answering

from ..conftest import registered, rows
from .conftest import ROOT
from .test_browser import Served, browser  # noqa: F401 - as above

pytestmark = pytest.mark.browser

PDF = b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog >>\nendobj\ntrailer\n<< /Root 1 0 R >>\nstartxref\n9\n%%EOF\n"
FORM_WAIT = 30_000


@dataclass
class Library:
    """A web site on loopback that answers what stands in `answers`: a PDF, a page's HTML, or `-> where it moved`."""

    answers: dict[str, bytes | str] = field(default_factory=dict)
    address: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """How Datasette is told that it may reach the site, and that DOIs resolve there."""
        port = self.address.rpartition(":")[2]
        given = {"allow_networks": [f"127.0.0.1/32:{port}"], "doi_resolver": f"{self.address}/doi/"}
        return {"plugins": {"datasette-ingest": {**given, "per_host_delay": 0.0, "per_host_concurrency": 8}}}


@pytest.fixture
def library() -> Iterator[Library]:
    site = Library()

    def answer(host: str, path: str) -> Reply:
        found = site.answers.get(path)
        if found is None:
            return Reply(content_type="text/html", status=404)
        if isinstance(found, str) and found.startswith("-> "):
            return Reply(content_type="text/html", status=302, headers={"Location": found[3:]})
        body = found if isinstance(found, bytes) else found.encode()
        return Reply(body, "application/pdf" if body.startswith(b"%PDF") else "text/html")

    with answering(answer) as site.address:
        yield site


class Measure(Enrichment):
    """A stranger's enrichment: how long a text is. Nothing gets through while `held` is set."""

    slug, name, description = "measure", "Measure a text", "How many characters a text has"
    batch_size = 500

    class Config(pydantic.BaseModel):
        text: str = ColumnField(title="Text column")
        output: str = pydantic.Field("size", title="Output column")
        twice: bool = pydantic.Field(False, title="Count everything twice")

    def __init__(self) -> None:
        self.free = threading.Event()
        self.free.set()

    def columns(self, config: Any) -> list[str]:
        return [config.text]

    async def enrich_batch(self, rows: Any, pks: Any, config: Any) -> BatchOutcome:
        await asyncio.to_thread(self.free.wait)
        sizes = [len(row[config.text]) * (2 if config.twice else 1) for row in rows]
        return BatchOutcome([RowUpdate(key, {config.output: size}) for key, size in zip(pks, sizes, strict=True)])


@pytest.fixture
def measure() -> Iterator[Measure]:
    enrichment = Measure()
    with registered(enrichment):
        yield enrichment
        enrichment.free.set()


OpenTab = Callable[[], Any]


@contextlib.contextmanager
def opened(browser: Any, path: pathlib.Path, config: dict[str, Any] | None = None) -> Iterator[tuple[Served, OpenTab]]:
    """The database in Datasette, and what opens a tab of root's there. No script on any page may fail."""
    here = Served(path, config)
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    complaints: list[str] = []

    def new_tab() -> Any:
        tab = context.new_page()
        tab.on("pageerror", lambda problem: complaints.append(str(problem)))
        tab.set_default_timeout(FORM_WAIT)
        return tab

    try:
        context.add_cookies([here.cookie(ROOT)])
        yield here, new_tab
    finally:
        context.close()
        here.stop()
    assert complaints == []


def make_table(path: pathlib.Path, columns: str, values: list[tuple[Any, ...]]) -> None:
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute(f"create table papers ({columns})")
        conn.executemany(f"insert into papers values ({', '.join('?' * len(values[0]))})", values)


def choose(page: Any, enrichment: str) -> None:
    """From the table's page to the form, by the menu beside the table's name."""
    page.locator("details.actions-menu-links summary").first.click()
    page.get_by_text("Enrich selected rows").click()
    page.get_by_role("link", name=enrichment).click()
    page.locator("#ingest-actions").wait_for()


def until_over(page: Any) -> None:
    page.get_by_text("finished", exact=True).wait_for()


def outcomes(page: Any) -> dict[str, int]:
    """The bars of the job's page."""
    words = page.locator("#ingest-outcomes .ingest-word").all_inner_texts()
    return dict(zip(words, map(int, page.locator("#ingest-outcomes [data-outcome]").all_inner_texts()), strict=True))


def test_checking_the_links_of_a_table(browser, library, tmp_path):
    library.answers = {"/herons.pdf": PDF, "/tides": '<a href="/tides.pdf">Download PDF</a>', "/tides.pdf": PDF}
    paths = ["/herons.pdf", "/tides", "/lost", "/gone"]
    path = tmp_path / "library.db"
    make_table(
        path,
        "id integer primary key, title text, link text, year integer",
        [
            (number, f"Paper {number}", library.address + paths[number % 4], 1999 + number // 4)
            for number in range(1, 13)
        ],
    )
    with opened(browser, path, library.settings) as (here, new_tab):
        page = new_tab()
        page.goto(f"{here.origin}/library/papers?year__gte=2001")
        choose(page, "Find full text")
        page.get_by_role("heading", name="5 rows").wait_for()
        assert page.locator("select[name='config.url_column']").input_value() == "link"
        page.get_by_role("button", name="Enrich 5 rows").click()
        until_over(page)
        page.get_by_role("heading", name="Why rows failed").wait_for()
        assert outcomes(page) == {"success": 3, "terminal-bad-status": 2}
        page.get_by_role("link", name=re.compile(r"^terminal-bad-status \d")).click()
        page.wait_for_url("**/library/papers?*ingest_status__exact=terminal-bad-status*")
        shown = page.locator("td.col-id, td.type-pk").all_inner_texts()
        assert [re.sub(r"\D", "", text) for text in shown] == ["10", "11"]
        page.locator(".ingest-summary").get_by_text("3 success").click()
        page.get_by_text("Paper 12", exact=True).wait_for()


def test_finding_pdfs_for_a_column_of_dois(browser, library, tmp_path):
    library.answers = {
        "/doi/10.5555/salt": "-> /landing/salt",
        "/landing/salt": f'<meta name="citation_pdf_url" content="{library.address}/salt.pdf">',
        "/salt.pdf": PDF,
        "/doi/10.5555/bread": "-> /bread.pdf",
        "/bread.pdf": PDF,
    }
    dois = ["10.5555/salt", "doi:10.5555/BREAD", "https://doi.org/10.5555/nobody-knows"]
    library.answers["/doi/10.5555/BREAD"] = library.answers["/doi/10.5555/bread"]
    path = tmp_path / "library.db"
    make_table(
        path,
        "id integer primary key, title text, identifier text",
        [(number, f"Paper {number}", doi) for number, doi in enumerate(dois, 1)],
    )
    with opened(browser, path, library.settings) as (here, new_tab):
        page = new_tab()
        page.goto(f"{here.origin}/library/papers")
        choose(page, "Find full text")
        assert page.locator("select[name='config.url_column']").input_value() == "identifier"
        assert page.locator("select[name='config.ingest_type']").input_value() == "pdf"
        page.get_by_role("button", name="Enrich 3 rows").click()
        until_over(page)
        page.get_by_role("link", name="success").click()
        page.get_by_role("link", name=f"{library.address}/salt.pdf").wait_for()
        assert page.get_by_role("link", name=f"{library.address}/bread.pdf").is_visible()
    assert rows(path, "select id, ingest_hit from papers") == [(1, 1), (2, 1), (3, 0)]


def test_finding_out_why_a_paper_was_missed_and_trying_again(browser, library, tmp_path):
    library.answers = {"/salt": '<h1>Salt</h1><a href="/files/salt.pdf">Download PDF</a>', "/herons.pdf": PDF}
    path = tmp_path / "library.db"
    links = [f"{library.address}/herons.pdf", f"{library.address}/salt"]
    make_table(path, "id integer primary key, url text", list(enumerate(links, 1)))
    with opened(browser, path, library.settings) as (here, new_tab):
        page = new_tab()
        page.goto(f"{here.origin}/library/papers")
        choose(page, "Find full text")
        page.get_by_role("button", name="Enrich 2 rows").click()
        until_over(page)

        # from the job to the reason, from the reason to the row, from the row to the links that were tried
        reason = page.locator("#ingest-reasons article")
        reason.wait_for()
        assert f"{library.address}/files/salt.pdf answers 404" in reason.inner_text()
        reason.get_by_role("link", name="2", exact=True).click()
        page.wait_for_url("**/library/papers/2")
        said = page.locator(".ingest-summary")
        assert "terminal-bad-status" in said.inner_text() and "answers 404" in said.inner_text()
        said.get_by_role("link", name="Links that were tried").click()
        page.wait_for_url("**/library/ingest_candidate?*")
        tried = [
            text.strip() for text in page.locator("table.rows-and-columns tbody tr").first.inner_text().split("\t")
        ]
        assert f"{library.address}/files/salt.pdf" in tried and "terminal-bad-status" in tried and "404" in tried
        assert "link" in tried and any("says pdf" in text for text in tried)

        # the library has repaired its page: a dry run shows it, and writes nothing
        library.answers["/files/salt.pdf"] = PDF
        page.go_back()
        said.get_by_role("link", name="Try this row again").click()
        page.get_by_role("heading", name="1 row", exact=True).wait_for()
        assert page.get_by_label("Ask again").is_checked()
        page.get_by_role("button", name="Try 1 row").click()
        page.get_by_role("heading", name="1 row tried").wait_for()
        assert "success" in page.locator(".ingest-tried h3").inner_text()
        assert rows(path, "select ingest_status from papers where id = 2") == [("terminal-bad-status",)]

        page.goto(f"{here.origin}/-/ingest-jobs/library/1")
        page.get_by_role("button", name="Retry 1 miss").click()
        page.wait_for_url("**/-/ingest-jobs/library/2")
        until_over(page)
        page.goto(f"{here.origin}/library/papers/2")
        page.get_by_text("success", exact=True).wait_for()
        assert page.locator(".ingest-summary").count() == 0


def test_leaving_a_large_job_running_and_coming_back(browser, measure, tmp_path):
    path = tmp_path / "library.db"
    make_table(path, "id integer primary key, title text", [(number, "x" * (number % 50)) for number in range(10_000)])
    with opened(browser, path) as (here, new_tab):
        page = new_tab()
        page.goto(f"{here.origin}/library/papers")
        choose(page, "Measure a text")
        page.get_by_role("heading", name="10,000 rows").wait_for()
        page.get_by_label("Text column").select_option("title")
        measure.free.clear()
        page.get_by_role("button", name="Enrich 10,000 rows").click()
        page.get_by_text("running", exact=True).wait_for()
        page.close()

        later = new_tab()
        later.goto(here.origin)
        later.locator("details.nav-menu summary").click()
        later.get_by_role("link", name="Enrichment jobs · 1 running").click()
        later.get_by_role("link", name="Measure a text #1").click()
        later.get_by_text("running", exact=True).wait_for()
        measure.free.set()
        until_over(later)
        assert later.locator("[data-live=done_count]").inner_text() == "10,000"
        later.goto(here.origin)
        later.locator("details.nav-menu summary").click()
        assert later.get_by_role("link", name="Enrichment jobs", exact=True).is_visible()
    assert rows(path, "select count(*), sum(size = length(title)) from papers") == [(10_000, 10_000)]


def to(page: Any, element: Any, key: str = "Tab") -> None:
    """Come to an element with this key alone."""
    element.wait_for()
    for _ in range(80):
        if element.evaluate("element => element === document.activeElement"):
            return
        page.keyboard.press(key)
    raise AssertionError(f"the keyboard does not reach {element}")


def test_a_strangers_enrichment_by_keyboard_alone(browser, measure, tmp_path):
    path = tmp_path / "library.db"
    make_table(path, "id integer primary key, title text, year integer", [(1, "Salt", 2001), (2, "Herons", 2002)])
    with opened(browser, path) as (here, new_tab):
        page = new_tab()
        page.goto(f"{here.origin}/library/papers")
        to(page, page.locator("details.actions-menu-links summary").first)
        page.keyboard.press("Enter")
        moves = "ArrowDown" if page.locator("[role=menu]").count() else "Tab"  # as each line's menus have it
        to(page, page.locator(".actions-menu-links a", has_text="Enrich selected rows"), moves)
        page.keyboard.press("Enter")
        to(page, page.get_by_role("link", name="Measure a text"))
        page.keyboard.press("Enter")
        to(page, page.get_by_label("Text column"))
        page.keyboard.type("title")
        to(page, page.get_by_label("Output column"))
        page.keyboard.press("Control+a")
        page.keyboard.type("letters")
        to(page, page.get_by_label("Count everything twice"))
        page.keyboard.press("Space")
        to(page, page.locator("#ingest-actions input[type=submit]"))
        page.keyboard.press("Enter")
        page.wait_for_url("**/-/ingest-jobs/library/1")
        until_over(page)
        to(page, page.locator("h1 a"))
        page.keyboard.press("Enter")
        page.wait_for_url("**/library/papers")
        assert page.locator("td.col-letters").all_inner_texts() == ["8", "12"]
    assert rows(path, "select title, letters from papers") == [("Salt", 8), ("Herons", 12)]
