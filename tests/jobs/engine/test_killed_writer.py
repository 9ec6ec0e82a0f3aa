"""A process that is killed in the middle of a write leaves a journal, which connections for reading may not roll back."""

from __future__ import annotations

import pathlib
import sqlite3
import subprocess
import sys

import pytest
from datasette.app import Datasette
from datasette.cli import check_databases

from datasette_ingest import compat

KILLED = """
import os, sqlite3, sys
conn = sqlite3.connect(sys.argv[1], isolation_level=None)
conn.execute("pragma cache_size = 2")  # so that pages are written before the commit
conn.execute("begin immediate")
conn.execute("delete from words")
conn.execute("insert into words with recursive n(i) as (select 1 union all select i + 1 from n where i < 300) "
             "select randomblob(500) from n")
os._exit(9)
"""


def kill_a_writer(path: pathlib.Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert pathlib.Path(f"{path}-journal").exists()


def words(conn: sqlite3.Connection) -> list[str]:
    return [word for (word,) in conn.execute("select word from words order by word")]


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "papers.db"
    with sqlite3.connect(path) as conn:
        conn.execute("create table words (word)")
        conn.executemany("insert into words values (?)", [("ash",), ("beech",)])
    conn.close()
    return path


@pytest.mark.parametrize("name", ["papers.db", "link.db"])
async def test_a_server_starts_on_a_file_whose_writer_was_killed(path: pathlib.Path, name: str) -> None:
    kill_a_writer(path)
    if name != path.name:
        path.with_name(name).symlink_to(path)
    datasette = Datasette([str(path.with_name(name))])
    try:
        await check_databases(datasette)
        assert await compat.read(datasette.databases[pathlib.Path(name).stem], words) == ["ash", "beech"]
    finally:
        compat.close(datasette)


async def test_a_running_server_goes_on_after_another_process_was_killed(path: pathlib.Path) -> None:
    datasette = Datasette([str(path)])
    db = datasette.databases["papers"]
    try:
        assert await compat.read(db, words) == ["ash", "beech"]
        kill_a_writer(path)
        assert await compat.read(db, words) == ["ash", "beech"]
        assert await db.execute_fn(words) == ["ash", "beech"]  # so do Datasette's own pages
    finally:
        compat.close(datasette)


async def test_a_file_that_took_the_place_of_another_is_not_touched(path: pathlib.Path) -> None:
    datasette = Datasette([str(path)])
    db = datasette.databases["papers"]
    try:
        await compat.read(db, words)
        compat.require_same_file(db)
        path.rename(path.with_name("old.db"))
        with sqlite3.connect(path) as conn:
            conn.execute("create table words (word)")
        conn.close()
        kill_a_writer(path)
        assert not compat.roll_back(db)
        assert pathlib.Path(f"{path}-journal").exists()
    finally:
        compat.close(datasette)
