"""Results beside the table: one shadow row for every source row, whatever its key."""

import contextlib
import sqlite3

import pytest

from datasette_ingest.jobs.model import StartRequest
from datasette_ingest.jobs.service import control
from datasette_ingest.testing import run_until_idle

from ...conftest import ROOT, rows, serving

TABLES = {
    "rowid": "create table t (title text)",
    "integer key": "create table t (id integer primary key, title text)",
    "text key with NULLs": "create table t (k text primary key, title text)",
    "compound": "create table t (a, b text collate nocase, title text, primary key (b, a desc))",
    "without rowid": "create table t (a blob, b, title text, primary key (a, b)) without rowid",
}
VALUES = {
    "rowid": [("x",), ("y",)],
    "integer key": [(-5, "x"), (2**62, "y")],
    "text key with NULLs": [(None, "x"), (None, "y"), ("", "z"), ("A", "w")],
    "compound": [(1, "a", "x"), (1.5, "a", "y"), (None, "a", "z"), (None, "a", "w"), (b"\0", None, "v")],
    "without rowid": [(b"\xff", 1, "x"), (b"\xff", "1", "y"), ("", 0.1, "z")],
}


@pytest.mark.parametrize("shape", TABLES)
async def test_a_shadow_row_stands_for_each_source_row_and_a_second_run_renews_it(tmp_path, shout, shape):
    path = tmp_path / "data.db"
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute(TABLES[shape])
        conn.executemany(f"insert into t values ({', '.join('?' * len(VALUES[shape][0]))})", VALUES[shape])
    async with serving(path) as datasette:
        for output in ("first", "second", "first"):
            await control.start(
                datasette,
                "data",
                StartRequest(
                    "t",
                    enrichment="shout",
                    config={"column": "title", "output": output},
                    options={"output": "shadow"},
                    actor=ROOT,
                ),
            )
            await run_until_idle(datasette)
    assert rows(path, "select distinct done_count, error_count, status from _enrichment_jobs") == [
        (len(VALUES[shape]), 0, "finished")
    ]
    assert "first" not in {name for (name,) in rows(path, "select name from pragma_table_info('t')")}
    shouted = sorted(row[-1].upper() for row in VALUES[shape])
    assert sorted(rows(path, "select first, second from _enrichments_t")) == [(word, word) for word in shouted]
