"""Filters of single rows: each row has one that an address can hold and that selects this row alone."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

import pytest

from datasette_ingest.jobs import keyset
from datasette_ingest.jobs.service import row_filters

KEYED = {
    "an integer key": ("(id integer primary key, t)", [(-5, "a"), (0, "b"), (2**62, "c")]),
    "no key": ("(t)", [("a",), ("b",), (None,)]),
    "a text key": ("(id text primary key, t)", [("a/b", 1), ("", 2), ("5", 3), ("0005", 4), ("c,d ~é&=", 5), (None, 6)]),
    "two NULLs": ("(id text primary key, t)", [(None, 1), (None, 2), ("x", 3)]),
    "bytes": ("(id blob primary key, t)", [(b"\x00\xff", 1), (b"5", 2), ("5", 3), (5, 4)]),
    "no type": ("(id primary key, t)", [("5", 1), (5, 2), (5.5, 3), ("5.5", 4)]),
    "reals": ("(id real primary key, t)", [(0.1, 1), (1e300, 2), (-7.0, 3)]),
    "two parts": ("(a integer, b text, t, primary key (b, a))", [(1, "1", 1), (2, "1", 2), (1, "2", 3), (None, "1", 4)]),
    "two parts, no rowid": ("(a integer, b text, primary key (a, b)) without rowid", [(1, "x"), (1, "y"), (2, "x,y")]),
    "case does not count": ("(id text collate nocase primary key, t)", [("a", 1), ("B", 2)]),
    "reals, no rowid": ("(id real primary key, t) without rowid", [(0.1, 1), (3.0, 2)]),
}  # fmt: skip


@contextlib.contextmanager
def table(columns: str, rows: list[tuple[Any, ...]]) -> Iterator[tuple[sqlite3.Connection, keyset.TableKey]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        conn.execute(f"create table t {columns}")
        for row in rows:
            conn.execute(f"insert into t values ({', '.join('?' * len(row))})", row)
        yield conn, keyset.table_key(conn, "t")


def selected(conn: sqlite3.Connection, key: keyset.TableKey, filters: list[str]) -> list[keyset.Key]:
    found = row_filters.Conditions()
    pairs = parse_qsl("&".join(filters), keep_blank_values=True)
    by_name = {name: [value for each, value in pairs if each == name] for name in ("_row", "_rowid")}
    row_filters.add_rows(conn, key, by_name["_row"], by_name["_rowid"], found)
    page = keyset.page(conn, key, [], f"({' and '.join(found.clauses)})", found.params)
    return [page.key(number) for number in range(len(page))]


@pytest.mark.parametrize("kind", KEYED)
def test_each_row_has_an_address_that_selects_it_and_no_other(kind):
    with table(*KEYED[kind]) as (conn, key):
        page = keyset.page(conn, key, [], "", {})
        keys = [page.key(number) for number in range(len(page))]
        filters = row_filters.filters_of(conn, key, keys)
        assert len(keys) == len(KEYED[kind][1])
        assert [selected(conn, key, [filter_]) for filter_ in filters] == [[whole] for whole in keys]
        assert selected(conn, key, filters[1:]) == keys[1:]


def test_a_row_without_rowid_whose_key_no_address_can_hold_has_no_filter():
    with table("(id blob primary key) without rowid", [(b"\xff",)]) as (conn, key):
        assert row_filters.filters_of(conn, key, [(b"\xff",)]) == [None]


def test_thousands_of_single_rows_are_found_by_index():
    with table("(id integer primary key, t)", [(number, "x") for number in range(1, 6001)]) as (conn, key):
        found = row_filters.Conditions()
        row_filters.add_rows(conn, key, [str(number) for number in range(2, 5002)], [], found)
        assert found.descriptions == ["5,000 selected rows"]
        sql = f"select id from t where {found.clauses[0]}"
        assert [row[0] for row in conn.execute(sql, found.params)] == list(range(2, 5002))
        plan = " ".join(row[3] for row in conn.execute(f"explain query plan {sql}", found.params))
        assert "SEARCH t USING INTEGER PRIMARY KEY" in plan
        with pytest.raises(ValueError, match=r"5,001 rows are selected; 5,000 is the most"):
            row_filters.add_rows(conn, key, [str(number) for number in range(5001)], [], found)


def test_thousands_of_single_rows_of_a_compound_key_are_found_by_index():
    columns = "(a integer, b text, primary key (a, b))"
    with table(columns, [(number, "x") for number in range(3000)]) as (conn, key):
        found = row_filters.Conditions()
        row_filters.add_rows(conn, key, [f"{number},x" for number in range(2000)], [], found)
        sql = f"select count(*) from t where {found.clauses[0]}"
        assert conn.execute(sql, found.params).fetchone()[0] == 2000
        plan = " ".join(row[3] for row in conn.execute(f"explain query plan {sql}", found.params))
        assert "SEARCH t USING" in plan


def test_a_row_that_is_named_twice_counts_once():
    with table("(id integer primary key, t)", [(1, "x")]) as (conn, key):
        found = row_filters.Conditions()
        row_filters.add_rows(conn, key, ["1", "1"], [], found)
        assert found.descriptions == ["1 selected row"]
