"""Columns with names that nobody can see, chosen in a real browser."""

from __future__ import annotations

import pathlib
import sqlite3
from typing import Any

import pytest

from datasette_ingest.sqlite import quote

from . import test_browser
from .test_browser import Served, until
from .test_odd_names import NAMES

browser, page, served = test_browser.browser, test_browser.page, test_browser.served
pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def words(tmp_path: pathlib.Path) -> pathlib.Path:
    """A table of odd columns, each with its number as a word."""
    path = tmp_path / "words.db"
    with sqlite3.connect(path) as conn:
        columns = ", ".join(f"{quote(name)} text" for name in NAMES)
        conn.execute(f"create table words (id integer primary key, {columns})")
        cells = ", ".join(f"'w{number}'" for number in range(len(NAMES)))
        conn.execute(f"insert into words values (1, {cells})")
    conn.close()
    return path


@pytest.mark.parametrize("number", range(14), ids=[ascii(name) for name in NAMES[:14]])
def test_the_column_that_was_chosen_is_the_one_that_is_read(
    page: Any, served: Served, words: pathlib.Path, number: int
) -> None:
    page.goto(served.origin + "/-/ingest/words/words/shout")
    # before the columns stands the guess, which this table does not have, and the key
    page.locator('select[name="config.column"]').select_option(index=number + 2)
    page.get_by_role("button", name="Enrich 1 row", exact=True).click()
    page.wait_for_url("**/-/ingest-jobs/words/*")

    def shouted() -> bool:
        conn = sqlite3.connect(words)
        try:
            return conn.execute("select shouted from words").fetchone() == (f"W{number}",)
        except sqlite3.OperationalError:
            return False
        finally:
            conn.close()

    until(shouted)
