"""No text that a stranger can choose becomes markup: names, cells, settings, messages, tracebacks, actors, on any page."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from datasette_ingest.jobs.model import StartRequest
from datasette_ingest.jobs.service import control
from datasette_ingest.testing import run_until_idle
from datasette_ingest.web.urls import Links, column_filter

from ..conftest import registered
from .conftest import cookies_of, get, in_a_loop, post_form, post_json
from .hostile import (
    ACTOR,
    ATTACK,
    ATTRIBUTE,
    COLUMN,
    CONFIG,
    DATABASE,
    ELEMENT,
    LINK,
    TABLE,
    Hostile,
    add_database,
    attacks_in,
    make_database,
)
from .test_browser import Served, browser  # noqa: F401 - a fixture

JOBS = {"fail": 1, "pause": 2, "cancel": 3, "wait": 4, "run": 5}


@pytest.fixture
def hostile() -> Iterator[Hostile]:
    enrichment = Hostile()
    with registered(enrichment):
        yield enrichment


async def add_jobs(datasette: Any) -> None:
    """A job in every state, each with a hostile text in every place."""

    async def start(filters: str) -> Any:
        return await control.start(
            datasette,
            DATABASE,
            StartRequest(TABLE, enrichment=Hostile.slug, filters=filters, config={"lines": [ATTACK]}, actor=ACTOR),
        )

    for act in ("fail", "pause", "cancel"):
        await start(f"act={act}")
    await run_until_idle(datasette)
    await start(column_filter(COLUMN, ATTACK))
    running = await start(urlencode({"_where": "1 or act = '<attack-here onattack=1>'"}))
    await datasette.databases[DATABASE].execute_write(
        "update _enrichment_jobs set status = 'running', waits_until = ?, outcomes = ?, done_count = 1 where id = ?",
        [f"2999{ATTACK}", json.dumps({f"word{ATTACK}": 1}), running.id],
    )
    await datasette.databases[DATABASE].execute_write(
        "insert into _enrichment_batches (job_id, end_cursor, row_count, not_before, defer_reason) values (?, ?, 1, ?, ?)",
        [running.id, "[]", f"2999{ATTACK}", f"Wait{ATTACK}"],
    )


@pytest.fixture
async def ds(open_ds: Any, hostile: Hostile, tmp_path: pathlib.Path) -> Any:
    make_database(tmp_path / "hostile.db")
    datasette = await open_ds(CONFIG, paths=[])
    add_database(datasette, tmp_path / "hostile.db")
    await add_jobs(datasette)
    return datasette


def pages(datasette: Any) -> dict[str, str]:
    """Every page that we make or add something to, by a name for it."""
    links = Links(datasette)
    found = {
        "choose": links.choose(DATABASE, TABLE),
        "choose, filtered": links.choose(DATABASE, TABLE, column_filter(COLUMN, LINK)),
        "form": links.form(DATABASE, TABLE, Hostile.slug),
        "form of another": links.form(DATABASE, TABLE, "ingest"),
        "all jobs": links.jobs(),
        "jobs": links.jobs(DATABASE),
        "jobs of the table": links.jobs(DATABASE, table=TABLE),
        "errors": links.errors(DATABASE, JOBS["fail"]),
        "home": links.instance(),
        "database": links.database(DATABASE),
        "table": links.table(DATABASE, TABLE),
        "row": links.row(DATABASE, TABLE, f"fail{ATTACK}") or "",
        "jobs table": links.table(DATABASE, "_enrichment_jobs"),
    }
    return found | {f"job that {act}s": links.job(DATABASE, number) for act, number in JOBS.items()}


def test_the_check_sees_an_attack_that_works():
    for html in (f"<p>{ATTACK}</p>", f'<p title="{ATTACK}">', f"<textarea>{ATTACK}</textarea>", f"<script>{ATTACK}"):
        assert attacks_in(html)
    assert attacks_in(f"<a href='{LINK}'>")
    assert not attacks_in("<p>&lt;attack-here onattack=1&gt;</p>")


async def test_no_page_turns_a_text_into_markup(ds):
    shown_on = []
    for name, path in pages(ds).items():
        response = await get(ds, path, ACTOR)
        assert (name, response.status_code) == (name, 200)
        assert (name, attacks_in(response.text)) == (name, [])
        if ELEMENT in response.text:
            shown_on.append(name)
    assert set(pages(ds)) - set(shown_on) == set()  # each of them does show hostile texts


async def test_no_refusal_turns_a_text_into_markup(ds):
    links = Links(ds)
    refused = {
        "no such table": links.choose(DATABASE, f"no{ATTACK}"),
        "no such enrichment": links.form(DATABASE, TABLE, f"no{ATTACK}"),
        "no such column": links.choose(DATABASE, TABLE, column_filter(f"no{ATTACK}", "1")),
        "no such operator": links.choose(DATABASE, TABLE, urlencode({f"{COLUMN}__{ATTACK}": "1"})),
        "SQL that is none": links.choose(DATABASE, TABLE, urlencode({"_where": ATTACK})),
        "no such status": links.jobs(DATABASE, status=ATTACK),
        "no such page": links.jobs(DATABASE, _next=ATTACK),
        "no such database": links.jobs(f"no{ATTACK}"),
        "no such job": links.job(f"no{ATTACK}", 1),
    }
    for name, path in refused.items():
        response = await get(ds, path, ACTOR)
        assert (name, 400 <= response.status_code < 500) == (name, True)
        assert (name, attacks_in(response.text)) == (name, [])


async def test_what_was_typed_into_the_form_comes_back_as_text(ds):
    links = Links(ds)
    page = links.form(DATABASE, TABLE, Hostile.slug)
    typed = {f"config.{name}": ATTACK for name in ("column", "note", "lines", "choice", "advanced")}
    typed |= {"option.batch_size": ATTACK, "option.max_errors": ATTACK, "key": ATTACK, ATTACK: ATTACK}
    for path in (page, *(links.form_step(DATABASE, TABLE, Hostile.slug, step) for step in ("preview", "try"))):
        response = await post_form(ds, page, path, typed, ACTOR)
        assert response.status_code in (200, 400)
        assert ELEMENT in response.text
        assert attacks_in(response.text) == []


async def test_a_dry_run_shows_what_would_be_written_as_text(ds):
    page = Links(ds).form(DATABASE, TABLE, Hostile.slug)
    path = Links(ds).form_step(DATABASE, TABLE, Hostile.slug, "try", "act=fail")
    response = await post_form(ds, page, path, {"config.column": COLUMN, "config.choice": ATTACK}, ACTOR)
    assert response.status_code == 200
    assert attacks_in(response.text) == []
    assert "Failed&#34;" in response.text


async def test_a_message_after_a_step_is_text(ds):
    links = Links(ds)
    page = links.job(DATABASE, JOBS["pause"])
    moved = await post_form(ds, page, links.act(DATABASE, JOBS["pause"], "cancel"), {}, ACTOR)
    cookies = cookies_of(ds, ACTOR) | {"ds_messages": moved.cookies["ds_messages"]}
    shown = await ds.client.get(page, cookies=cookies)
    assert "cancelled" in shown.text
    assert attacks_in(shown.text) == []


async def test_json_is_never_taken_for_a_page(ds):
    links = Links(ds)
    paths = [path + ".json" for name, path in pages(ds).items() if "/-/ingest" in path and "?" not in path]
    assert len(paths) > 8
    for path in paths:
        response = await get(ds, path, ACTOR)
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("application/json")
        assert ELEMENT in response.text
    refused = await post_json(ds, links.jobs(DATABASE), {ATTACK: 1}, ACTOR)
    assert (refused.status_code, refused.json()["status"]) == (400, 400)
    assert refused.headers["content-type"].startswith("application/json")


async def test_a_file_is_never_taken_for_a_page(ds):
    response = await get(ds, Links(ds).failures_csv(DATABASE, JOBS["fail"]), ACTOR)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/csv")
    assert response.headers["content-disposition"].startswith("attachment")
    assert "\n" not in response.headers["content-disposition"]


# ---- in a browser -----------------------------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.slow
def test_in_chromium_nothing_of_it_runs(browser, hostile, tmp_path):  # noqa: F811 - the fixture
    make_database(tmp_path / "hostile.db")
    served = Served(tmp_path / "hostile.db", CONFIG)
    try:
        datasette = served.datasette
        # the database takes its hostile name; the file could not have it
        datasette.remove_database("hostile")
        add_database(datasette, tmp_path / "hostile.db")
        in_a_loop(lambda: add_jobs(datasette))
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        context.add_cookies([served.cookie(ACTOR)])
        page = context.new_page()
        dialogs: list[str] = []
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        for name, path in pages(datasette).items():
            page.goto(served.origin + path, wait_until="networkidle" if "job" not in name else "load")
            page.mouse.move(300, 300)
            for fold in page.locator("details.ingest-fold > summary").all():
                fold.click()
            assert (name, page.evaluate("window.attacked")) == (name, None)
            assert (name, page.locator(f"{ELEMENT}, [{ATTRIBUTE}], img[src=x]").count()) == (name, 0)
        assert dialogs == []
        context.close()
    finally:
        served.stop()
