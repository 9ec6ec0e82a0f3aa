"""Names, columns, times and values as SQLite and Datasette have them; tables that are made by numbered steps."""

from __future__ import annotations

import contextlib
import pathlib
import re
import sqlite3
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import pytest

from datasette_ingest import sqlite
from datasette_ingest.sqlite import (
    TableSpec,
    ViewSpec,
    columns,
    digits14,
    fold,
    from_iso,
    is_current,
    iso,
    iso_utc,
    json_cell,
    json_value,
    made,
    make,
    migrate,
    quote,
    stamp,
)


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


def test_values_that_json_cannot_write_or_a_double_cannot_hold_are_text() -> None:
    assert [json_cell(value) for value in (2**53, 1 - 2**53, float("inf"), 0.5)] == [
        "9007199254740992",
        1 - 2**53,
        "Inf",
        0.5,
    ]
    assert json_cell("a\udcff") == json_cell(b"a\xff") and json_cell("\ud800") == json_cell(b"\xed\xa0\x80")
    assert json_value({"a\udc80": [float("nan"), (float("-inf"), 1)]}) == {"a\\udc80": ["NaN", ["-Inf", 1]]}


# ---- tables that are made by numbered steps -------------------------------------------------------------------------

FIRST = TableSpec(
    {"word": "text", "n": "integer not null default 0"}, primary_key=("word",), indexes={"words_n": "n, word"}
)
SECOND = TableSpec(
    FIRST.columns,
    FIRST.primary_key,
    FIRST.indexes,
    later={"m002_notes": {"note": "text"}, "m003_shout": "update words set note = word || '!'"},
)


def taken(conn: sqlite3.Connection) -> list[tuple[str, str]]:
    return conn.execute("select migration_set, name from _sqlite_migrations order by id").fetchall()


def test_a_fresh_table_is_made_by_all_its_steps_in_order(conn: sqlite3.Connection) -> None:
    assert not is_current(conn, {"words": SECOND})
    migrate(conn, {"words": SECOND})
    assert is_current(conn, {"words": SECOND})
    assert columns(conn, "words") == SECOND.names == ["word", "n", "note"]
    steps = ["m001_create", "m002_notes", "m003_shout"]
    assert taken(conn) == [("datasette_ingest.words", step) for step in steps]
    assert conn.execute("select 1 from sqlite_master where name = 'words_n'").fetchone()


def test_an_older_table_takes_only_the_steps_that_it_lacks_and_takes_them_once(conn: sqlite3.Connection) -> None:
    migrate(conn, {"words": FIRST})
    conn.execute("insert into words (word) values ('one')")
    migrate(conn, {"words": SECOND})
    assert conn.execute("select * from words").fetchall() == [("one", 0, "one!")]
    conn.execute("update words set note = 'mine'")
    migrate(conn, {"words": SECOND})
    assert conn.execute("select * from words").fetchall() == [("one", 0, "mine")]


@pytest.mark.parametrize("loss", ["drop table words", "alter table words drop column note"])
def test_what_was_dropped_is_made_again(conn: sqlite3.Connection, loss: str) -> None:
    migrate(conn, {"words": SECOND, "others": FIRST})
    conn.execute(loss)
    assert not is_current(conn, {"words": SECOND}) and is_current(conn, {"others": FIRST})
    migrate(conn, {"words": SECOND, "others": FIRST})
    assert columns(conn, "words") == SECOND.names
    assert len(taken(conn)) == 4


def test_a_transaction_that_is_open_stays_open_and_takes_every_step_back(conn: sqlite3.Connection) -> None:
    conn.execute("begin immediate")
    migrate(conn, {"words": SECOND})
    assert conn.in_transaction
    conn.rollback()
    assert conn.execute("select name from sqlite_master").fetchall() == []


def test_a_view_is_replaced_by_the_step_that_changes_its_query(conn: sqlite3.Connection) -> None:
    migrate(conn, {"words": FIRST, "many": ViewSpec(("words",), "select word from words where n > 1")})
    newer = ViewSpec(("words",), "select word, n from words where n > 1", step="m002_number")
    assert not is_current(conn, {"many": newer})
    migrate(conn, {"many": newer})
    assert columns(conn, "many") == ["word", "n"]
    conn.execute("drop view many")
    migrate(conn, {"many": newer})
    assert columns(conn, "many") == ["word", "n"]


def test_what_has_a_history_is_ours(conn: sqlite3.Connection) -> None:
    conn.execute("create table papers (id)")
    assert made(conn) == set()
    migrate(conn, {"Words": FIRST, "many": ViewSpec(("words",), "select word from words where n > 1")})
    make(conn, "notes", "create table notes (note text)")
    assert made(conn) == {"words", "many", "notes"}
    conn.execute("drop table notes")
    make(conn, "notes", "create table notes (other text)")
    assert columns(conn, "notes") == ["other"]


@pytest.mark.parametrize(
    ("sql", "fits"),
    [
        ("create table words (n integer, WORD text)", True),
        ("create table words (word, n, more)", True),
        ("create table words (word)", False),
        ("create view words as select 1 as word, 2 as n", False),
    ],
)
def test_a_table_fits_that_has_the_columns_it_began_with(conn: sqlite3.Connection, sql: str, fits: bool) -> None:
    conn.execute(sql)
    assert SECOND.fits(conn, "words") is fits


def test_our_queries_name_sqlites_tables_of_functions_with_their_schema() -> None:
    """A user's table called json_each would take the place of a bare one. Datasette's permissions ask its own database."""
    package = pathlib.Path(sqlite.__file__).parent
    bare = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"\b(?:from|join)\s+(?:json_each|pragma_\w+)\s*\(", path.read_text("utf-8"))
    }
    assert bare == {"compat/permissions.py"}
