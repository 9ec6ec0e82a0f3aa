"""axe-core finds nothing serious in our parts of any page, on a wide screen and on a telephone."""

from __future__ import annotations

import json
import pathlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT

from datasette_ingest import compat
from datasette_ingest.ingest import schema
from datasette_ingest.testing import run_until_idle

from .conftest import ROOT, in_a_loop, start
from .test_browser import Served, browser, words  # noqa: F401 - fixtures

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WIDTHS = (360, 1280)
SERIOUS = ("serious", "critical")
DATASETTES_OWN = {
    "html-has-lang": "Datasette 0.65 writes <html> without a language",
    "color-contrast": "buttons of Datasette's own on a table's page",
    "label": "Datasette's own filter form on a table's page",
    "select-name": "Datasette's own filter form on a table's page",
}
"""Rules that Datasette's own parts of a page may break, outside ours; one that is not here fails the test anywhere."""


@pytest.fixture
def served(words: pathlib.Path, shout: Any) -> Iterator[Served]:  # noqa: F811 - the fixture
    """Jobs 1 to 5 over the words: over with an error, paused, cancelled, at work, waiting. None of them moves."""
    here = Served(words, {"plugins": {"datasette-ingest": {"run_jobs": False}}})

    async def add_jobs() -> None:
        await start(here.datasette)
        await run_until_idle(here.datasette)
        for status in ("paused", "cancelled", "running", "pending"):
            job = await start(here.datasette, filters="year__gte=2003&word__contains=o")
            await here.datasette.databases["words"].execute_write(
                "update _enrichment_jobs set status = ?, pause_reason = 'Every host rests', cancel_reason = 'Too late', "
                "done_count = 12, error_count = 2, outcomes = ?, waits_until = '2999-01-01T00:00:00.000Z' where id = ?",
                [status, json.dumps({"success": 7, "no-pdf-link": 3, "error": 2}), job.id],
            )
            await here.datasette.databases["words"].execute_write(
                "insert into _enrichment_batches (job_id, end_cursor, row_count, not_before, defer_reason) "
                "values (?, '[]', 3, '2999-01-01T00:00:00.000Z', 'a.example asked us to wait')",
                [job.id],
            )

        for sql in RESULTS:
            await here.datasette.databases["words"].execute_write(sql)
        await compat.write(here.datasette.databases["words"], add_texts)

    in_a_loop(add_jobs)
    yield here
    here.stop()


RESULTS = (
    "create table ingest_request (ingest_type text, base_url text, source text, source_id text, actor text, created text, "
    "release_stage text, request text, primary key (ingest_type, base_url, source, source_id))",
    f"create table ingest_file_result ({', '.join(schema.TABLES['ingest_file_result'].names)}, primary key (ingest_type, base_url))",
    "with recursive n(i) as (values (1) union all select i + 1 from n where i < 40) insert into ingest_request "
    "select 'pdf', 'http://host' || (i % 7) || '.example/' || i, 'doi', i, '', '', null, null from n",
    "insert into ingest_file_result (ingest_type, base_url, updated, hit, status) select ingest_type, base_url, "
    "'2026-11-' || (10 + rowid % 20) || 'T00:00:00Z', rowid % 3 > 0, iif(rowid % 3 > 0, 'success', 'no-pdf-link') "
    "from ingest_request where rowid < 35",
)
"""Numbers for the page of results."""


def add_texts(conn: sqlite3.Connection) -> None:
    """Thirty documents to search in, some with a title and a first page."""
    schema.migrate(conn, [*schema.TABLES, *schema.VIEWS])
    for number in range(30):
        digest = f"{number:040x}"
        conn.execute("insert into ingest_fulltext (sha1hex, text) values (?, 'Words on open access.')", [digest])
        if number % 2:
            conn.execute("insert into ingest_thumbnail (sha1hex, content) values (?, x'00')", [digest])
            conn.execute(
                'insert into pdf_meta (sha1hex, page_count, metadata) values (?, 3, \'{"title": "On it"}\')', [digest]
            )


PAGES = {
    "choose": "/-/ingest/words/words?year__gte=2003",
    "form": "/-/ingest/words/words/shout",
    "form of ingest": "/-/ingest/words/words/ingest?_where=id<30",
    "all jobs": "/-/ingest-jobs",
    "jobs of a database": "/-/ingest-jobs/words?status=running",
    "no jobs": "/-/ingest-jobs/words?table=nothing",
    "a job that is over": "/-/ingest-jobs/words/1",
    "a job that has paused": "/-/ingest-jobs/words/2",
    "a cancelled job": "/-/ingest-jobs/words/3",
    "a job at work": "/-/ingest-jobs/words/4",
    "a job that waits": "/-/ingest-jobs/words/5",
    "errors": "/-/ingest-jobs/words/1/errors",
    "no errors": "/-/ingest-jobs/words/5/errors",
    "numbers of results": "/-/ingest-stats/words",
    "a report on links": "/-/ingest-links/words/words?_column=word",
    "texts": "/-/ingest-search/words?q=open",
    "no texts with a word": "/-/ingest-search/words?q=zebra",
    "results with badges": "/words/ingest_file_result",
    "a refusal": "/-/ingest/words/words?yaer=1",
    "the table's page": "/words/words",
    "the page of a row without success": "/words/words/40",
    "the jobs as a table": "/words/_enrichment_jobs",
}


@pytest.mark.parametrize("width", WIDTHS)
def test_no_page_has_a_serious_violation(browser, served, width):  # noqa: F811 - the fixture
    context = browser.new_context(viewport={"width": width, "height": 800})
    context.add_cookies([served.cookie(ROOT)])
    page = context.new_page()
    found = []
    for name, path in PAGES.items():
        page.goto(served.origin + path)
        found += [f"{name}: {line}" for line in violations(page)]
    page.goto(served.origin + PAGES["form"])
    page.locator("details.ingest-fold summary").first.click()
    page.locator("[name='option.batch_size']").fill("none")
    page.locator("#ingest-actions input[type=submit]").click()
    page.wait_for_selector(".ingest-error")
    found += [f"a form that is wrong: {line}" for line in violations(page)]
    context.close()
    assert found == [], "\n".join(found)


RUN = """
async () => {
  // without selectors: axe-core fails to make them in the shadow tree of Datasette 1.0's <navigation-search>
  const options = {resultTypes: ["violations"], selectors: false, elementRef: true};
  const {violations} = await axe.run(document, options);
  return violations.flatMap(({id, impact, nodes}) =>
    nodes.map(({element, html, failureSummary}) => ({
      id, impact, html, why: failureSummary, isOurs: Boolean(element && element.closest(".ingest")),
    })),
  );
}
"""


def violations(page: Any) -> list[str]:
    """What axe-core holds against the page, folds opened; Datasette's own parts are judged by DATASETTES_OWN."""
    page.evaluate("document.querySelectorAll('.ingest details').forEach((fold) => (fold.open = true))")
    page.evaluate(AXE_SCRIPT)
    return [
        f"{found['id']}: {found['html'][:160]} {(found['why'] or '')[:300]}"
        for found in page.evaluate(RUN)
        if found["impact"] in SERIOUS and (found["isOurs"] or found["id"] not in DATASETTES_OWN)
    ]


def test_the_check_sees_what_is_wrong(browser):  # noqa: F811 - the fixture
    context = browser.new_context()
    page = context.new_page()
    page.set_content("<html lang=en><title>x</title><main class=ingest><h1>x</h1><input type=text></main>")
    assert [line.partition(":")[0] for line in violations(page)] == ["label"]
    context.close()
