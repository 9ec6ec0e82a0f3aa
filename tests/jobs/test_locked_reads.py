"""A database that another program keeps locked: a page that reads it often waits for the lock once."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
from typing import Any

import pytest
from datasette.app import Datasette

from datasette_ingest import compat


def patience(conn: sqlite3.Connection) -> Any:
    return conn.execute("pragma busy_timeout").fetchone()[0]


def words(conn: sqlite3.Connection) -> Any:
    return conn.execute("select word from words").fetchall()


@pytest.mark.slow
async def test_after_one_read_has_waited_in_vain_the_next_ones_do_not_wait(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "papers.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as conn:
        conn.execute("create table words (word)")
        datasette = Datasette([str(path)])
        try:
            db = datasette.databases["papers"]
            usual = await compat.read(db, patience)
            conn.execute("begin exclusive")
            waited: list[int] = []
            for _ in range(3):
                with pytest.raises(compat.Busy, match="is locked by another program"):
                    await compat.read(db, lambda reader: (waited.append(patience(reader)), words(reader)))
            conn.execute("commit")
            assert waited == [usual, 0, 0] and usual > 0
            assert await compat.read(db, words) == []
            assert await compat.read(db, patience) == usual
        finally:
            compat.close(datasette)
