"""Names, columns, times and values, as SQLite and Datasette have them."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest

from datasette_ingest.sqlite import columns, digits14, fold, from_iso, iso, iso_utc, json_cell, quote, stamp


@pytest.fixture
def conn() -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        yield connection


@pytest.mark.parametrize("name", ["papers", 'say "x"', "a]b", "", "Ä", "select", "a.b"])
def test_any_name_can_be_quoted(conn: sqlite3.Connection, name: str) -> None:
    conn.execute(f"create table t ({quote(name)} text)")
    assert columns(conn, "t") == [name]


def test_names_are_folded_as_sqlite_folds_them(conn: sqlite3.Connection) -> None:
    conn.execute('create table t (URL text, "Ä" text, "ä" text, "İ" text)')
    assert [fold(name) for name in columns(conn, "T")] == ["url", "Ä", "ä", "İ"]


def test_columns_are_those_of_select_star_unless_hidden_ones_are_asked_for(conn: sqlite3.Connection) -> None:
    conn.execute("create table t (id integer primary key, twice as (id * 2), kept as (id * 3) stored)")
    conn.execute("create view v as select id, twice from t")
    conn.execute("create virtual table f using fts5(body)")
    assert columns(conn, "t") == columns(conn, "t", hidden=True) == ["id", "twice", "kept"]
    assert columns(conn, "v") == ["id", "twice"]
    assert columns(conn, "f") == ["body"] and columns(conn, "f", hidden=True) == ["body", "f", "rank"]
    assert columns(conn, "nosuch") == []


@pytest.mark.parametrize(
    ("seconds", "text", "stamped"),
    [
        (0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z"),
        (1_796_046_176.25, "2026-11-30T13:42:56.250Z", "2026-11-30T13:42:56.250Z"),
    ],
)
def test_times_are_iso_8601_in_utc(seconds: float, text: str, stamped: str) -> None:
    assert (iso(seconds), stamp(seconds)) == (text, stamped)
    assert from_iso(text) == from_iso(stamped) == from_iso(text.removesuffix("Z")) == seconds


def test_a_moment_of_any_zone_is_written_in_whole_seconds_of_utc() -> None:
    moment = datetime(2026, 11, 30, 15, 42, 56, 999_999, timezone(timedelta(hours=2)))
    assert (iso_utc(moment), digits14(moment)) == ("2026-11-30T13:42:56Z", "20261130134256")


def test_bytes_are_written_as_datasette_writes_them() -> None:
    assert json_cell(memoryview(b"\xff")) == json_cell(b"\xff") == {"$base64": True, "encoded": "/w=="}
    assert json_cell("text") == "text" and json_cell(None) is None
