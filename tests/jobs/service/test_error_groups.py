"""A job's errors by message, counted by SQLite."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

import pytest

from datasette_ingest.jobs import results_log, schema
from datasette_ingest.jobs.results_log import ErrorGroups


@pytest.fixture
def conn(tmp_path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(tmp_path / "data.db")) as conn:
        schema.migrate(conn)
        yield conn


def add(conn: sqlite3.Connection, *errors: tuple[str, str | None, str | None], job: int = 1) -> None:
    """Errors as (row_pks, message, traceback)."""
    conn.executemany(
        "insert into _enrichment_errors (job_id, row_pks, error, traceback) values (?, ?, ?, ?)",
        [(job, *error) for error in errors],
    )


def groups(conn: sqlite3.Connection, groups: int = 20, keys: int = 12) -> ErrorGroups:
    return results_log.group_errors(conn, 1, groups=groups, keys=keys)


def test_the_most_frequent_message_comes_first_with_its_first_rows_and_first_traceback(conn):
    add(conn, ("[1]", "rare", None), ("[2]", "often", "T2"), ("[3]", "often", "T3"), ('[["a", 4]]', None, None))
    add(conn, ("[9]", "another job's", None), job=2)
    found = groups(conn)
    assert [(g.message, g.count, g.first_id, g.keys, g.traceback) for g in found.groups] == [
        ("often", 2, 2, (2, 3), "T2"),
        ("rare", 1, 1, (1,), None),
        ("No message", 1, 4, (["a", 4],), None),
    ]
    assert (found.looked_at, found.messages) == (4, 3)


def test_a_job_without_errors_has_no_groups(conn):
    assert groups(conn) == ErrorGroups()


def test_only_so_many_messages_and_rows_are_named_and_the_rest_counted(conn):
    add(conn, *[(f"[{n}]", f"message {n % 7}", None) for n in range(100)])
    found = groups(conn, groups=3, keys=2)
    assert [(g.message, g.count, g.keys) for g in found.groups] == [
        ("message 0", 15, (0, 7)),
        ("message 1", 15, (1, 8)),
        ("message 2", 14, (2, 9)),
    ]
    assert (found.looked_at, found.messages) == (100, 7)


def test_errors_past_the_limit_are_not_looked_at(conn, monkeypatch):
    monkeypatch.setattr(results_log, "MOST_GROUPED", 10)
    add(conn, *[(f"[{n}]", "same", None) for n in range(30)])
    found = groups(conn)
    assert (found.looked_at, found.groups[0].count) == (10, 10)


def test_an_error_that_names_several_rows_counts_them_all(conn):
    add(conn, ("[1, 2, 3]", "batch", None), ("not json", "batch", None))
    [group] = groups(conn).groups
    assert (group.count, group.keys) == (4, (1, 2, 3, "not json"))


def test_a_very_long_traceback_is_cut_off(conn, monkeypatch):
    monkeypatch.setattr(results_log, "MOST_TRACEBACK", 5)
    add(conn, ("[1]", "deep", "0123456789"))
    assert groups(conn).groups[0].traceback == "01234"


def test_errors_that_say_the_same_are_listed_by_one_of_them(conn):
    add(conn, ("[1]", "a", None), ("[2]", "b", None), ("[3]", "a", None), ("[4]", None, None), ("[5]", "", None))

    def like(number: int, job: int = 1) -> list[int]:
        return [error.id for error in results_log.list_errors(conn, job, after=None, limit=10, like=number)]

    assert (like(1), like(2), like(4), like(99), like(1, job=2)) == ([1, 3], [2], [4, 5], [], [])
