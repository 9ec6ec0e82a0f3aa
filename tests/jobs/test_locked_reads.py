"""A database that another program keeps locked: a page that reads it often waits for the lock once."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
from typing import Any

import pytest
from datasette.app import Datasette

from datasette_ingest import compat

from ..conftest import serving


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


def journal_seen() -> sqlite3.OperationalError:
    """What SQLite says on a connection that only reads, where it meets a journal that nobody seems to own."""
    problem = sqlite3.OperationalError("attempt to write a readonly database")
    problem.sqlite_errorcode = 776  # type: ignore[attr-defined]
    return problem


@pytest.mark.parametrize("times", [1, 3])
async def test_a_journal_whose_transaction_ended_as_it_was_seen_is_no_fault(db_path: pathlib.Path, times: int) -> None:
    left = [journal_seen() for _ in range(times)]

    def read(conn: sqlite3.Connection) -> Any:
        if left:
            raise left.pop()
        return conn.execute("select count(*) from papers").fetchone()[0]

    async with serving(db_path) as datasette:
        assert await compat.read(datasette.databases["data"], read) == 5


async def test_a_file_that_is_always_refused_is_said_to_be(db_path: pathlib.Path) -> None:
    def read(conn: sqlite3.Connection) -> Any:
        raise journal_seen()

    async with serving(db_path) as datasette:
        with pytest.raises(compat.Unavailable, match="may not be written"):
            await compat.read(datasette.databases["data"], read)
