"""A database that an earlier version made: it is brought up to date, keeps its rows, and its jobs go on.

`older_database.sql` holds one: jobs with results on the row, in a shadow table and in the result tables alone, a row in
error, a job that is pending, and a history whose steps were named by numbers of columns.
"""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
from typing import Any

import pytest

from datasette_ingest import sqlite
from datasette_ingest.ingest import schema as results
from datasette_ingest.ingest import store
from datasette_ingest.jobs import schema as engine
from datasette_ingest.testing import run_until_idle

from .conftest import rows, serving

OLDER = pathlib.Path(__file__).with_name("older_database.sql")
ALL = {**engine.TABLES, **results.TABLES, **results.VIEWS}


@pytest.fixture
def older(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "old.db"
    with contextlib.closing(sqlite3.connect(path)) as conn:
        conn.executescript(OLDER.read_text("utf-8"))
    return path


def contents(path: pathlib.Path) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table, as column -> value; the bookkeeping of steps and a full-text index's own tables left out."""
    with contextlib.closing(sqlite3.connect(path)) as conn:
        conn.row_factory = sqlite3.Row
        names = [row[0] for row in conn.execute("select name from sqlite_master where type = 'table'")]
        return {
            name: [dict(row) for row in conn.execute(f'select * from "{name}" order by rowid')]
            for name in names
            if name != "_sqlite_migrations" and "_fts" not in name
        }


def test_every_table_is_brought_up_to_date_and_keeps_its_rows(older: pathlib.Path) -> None:
    before = contents(older)
    with contextlib.closing(sqlite3.connect(older)) as conn:
        engine.migrate(conn)
        results.migrate(conn, [*results.TABLES, *results.VIEWS])
        assert sqlite.is_current(conn, ALL)
        conn.commit()
    after = contents(older)
    for table, found in before.items():
        assert [{name: row[name] for name in old} for row, old in zip(after[table], found, strict=True)] == found
    assert len(before["ingest_file_result"]) == 4 and len(before["_enrichment_jobs"]) == 4


def test_a_fresh_database_has_the_same_columns(older: pathlib.Path, tmp_path: pathlib.Path) -> None:
    forms = []
    for path in (older, tmp_path / "fresh.db"):
        with contextlib.closing(sqlite3.connect(path)) as conn:
            engine.migrate(conn)
            results.migrate(conn, [*results.TABLES, *results.VIEWS])
            forms.append({name: sqlite.columns(conn, name) for name in ALL})
            conn.commit()
    forms[0]["_enrichment_jobs"].remove("live")  # no version needs it any more
    assert forms[0] == forms[1]


async def test_a_job_that_was_pending_runs_to_its_end(older: pathlib.Path, shout: Any) -> None:
    async with serving(older) as datasette:
        await run_until_idle(datasette)
    assert rows(older, "select status, done_count from _enrichment_jobs order by id desc limit 1") == [("finished", 1)]
    assert rows(older, "select shouted from words") == [("ONE",), (None,)]


@pytest.mark.parametrize("is_upgraded", [False, True])
async def test_its_results_are_as_closed_as_their_sources_before_and_after(
    older: pathlib.Path, is_upgraded: bool, shout: Any
) -> None:
    private = {"databases": {"old": {"tables": {"papers": {"allow": {"id": "root"}}}}}}
    there = {name for (name,) in rows(older, "select name from sqlite_master")}
    ours = [name for name in (*results.TABLES, *results.VIEWS) if name in there]
    assert len(ours) >= 8
    if is_upgraded:
        async with serving(older) as datasette:
            await run_until_idle(datasette)
    async with serving(older, plugin={"run_jobs": False}, **private) as datasette:
        found = {name: (await datasette.client.get(f"/old/{name}.json")).status_code for name in ours}
        assert found == dict.fromkeys(ours, 403)
        assert (await datasette.client.get("/old/_enrichments_words.json")).status_code == 200
        assert (await datasette.client.get("/old/words.json")).status_code == 200


async def test_the_form_tells_what_is_known_already_before_anything_is_written(older: pathlib.Path) -> None:
    async with serving(older, plugin={"run_jobs": False}) as datasette:
        cookies = {"ds_actor": datasette.sign({"a": {"id": "root"}}, "actor")}
        page = await datasette.client.get("/-/ingest/old/papers/ingest", cookies=cookies)
    assert "Known already" in page.text


def test_a_stored_result_is_read_before_anything_is_written(older: pathlib.Path) -> None:
    with contextlib.closing(sqlite3.connect(older)) as conn:
        stored = store.stored_result(conn, "pdf", "http://old.example/p.pdf")
    assert stored is not None
    assert (stored.hit, stored.status, stored.archive_url, stored.sources) == (True, "success", None, ("live",))
