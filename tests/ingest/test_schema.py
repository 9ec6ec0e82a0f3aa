"""Tables that appear when they are needed, inside whatever transaction is open."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

import pytest

from datasette_ingest.ingest import schema


def names(conn: sqlite3.Connection) -> set[str]:
    return {row[0] for row in conn.execute("select name from sqlite_master where name not like 'sqlite_%'")}


@pytest.fixture
def conn() -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        yield connection


def test_only_what_is_asked_for_is_created(conn: sqlite3.Connection) -> None:
    schema.migrate(conn, ["file_meta"])
    assert names(conn) & {*schema.TABLES, *schema.VIEWS} == {"file_meta"}


def test_the_tables_of_a_result_come_by_default_with_their_indexes(conn: sqlite3.Connection) -> None:
    schema.migrate(conn)
    assert set(schema.RESULT_TABLES) <= names(conn)
    indexed = {row[2] for row in conn.execute("select * from sqlite_master where type = 'index' and sql is not null")}
    assert indexed >= {"ingest_file_result"}
    columns = [row[1] for row in conn.execute("pragma table_info(ingest_file_result)")]
    assert columns == schema.TABLES["ingest_file_result"].names


def test_an_open_transaction_stays_open_and_can_take_everything_back(conn: sqlite3.Connection) -> None:
    conn.execute("create table papers (url text)")
    conn.execute("begin immediate")
    conn.execute("insert into papers values ('x')")
    schema.migrate(conn, [*schema.TABLES, *schema.VIEWS])
    assert conn.in_transaction
    conn.rollback()
    assert names(conn) == {"papers"}
    assert conn.execute("select count(*) from papers").fetchone() == (0,)


def test_a_second_run_changes_nothing(conn: sqlite3.Connection) -> None:
    schema.migrate(conn)
    before = conn.execute("select * from sqlite_master").fetchall()
    schema.migrate(conn)
    assert conn.execute("select * from sqlite_master").fetchall() == before


def test_tables_that_were_dropped_come_back(conn: sqlite3.Connection) -> None:
    schema.migrate(conn)
    conn.execute("drop table file_meta")
    schema.migrate(conn)
    assert "file_meta" in names(conn)


def test_views_bring_the_tables_they_read(conn: sqlite3.Connection) -> None:
    schema.migrate(conn, ["ingest_pending", "ingest_hits"])
    insert = (
        "insert into ingest_request (ingest_type, base_url, source, source_id, created) values ('pdf', ?, 's', ?, '')"
    )
    conn.executemany(insert, [("new", 1), ("due", 2), ("waiting", 3), ("hit", 4)])
    conn.executemany(
        "insert into ingest_file_result (ingest_type, base_url, updated, hit, status, next_try) values ('pdf', ?, '', ?, 'x', ?)",
        [("due", 0, "2000-01-01T00:00:00Z"), ("waiting", 0, "2999-01-01T00:00:00Z"), ("hit", 1, None)],
    )
    assert [row[0] for row in conn.execute("select base_url from ingest_pending order by 1")] == ["due", "new"]
    assert [row[0] for row in conn.execute("select base_url from ingest_hits")] == ["hit"]


def test_an_unknown_table_is_a_mistake_of_the_caller(conn: sqlite3.Connection) -> None:
    with pytest.raises(KeyError):
        schema.migrate(conn, ["papers"])


def test_a_table_of_results_from_before_keeps_its_rows_and_gets_the_columns_that_came_later(
    conn: sqlite3.Connection,
) -> None:
    old = list(schema.TABLES["ingest_file_result"].columns)
    conn.execute(f"create table ingest_file_result ({', '.join(old)}, primary key (ingest_type, base_url))")
    conn.execute(
        "insert into ingest_file_result (ingest_type, base_url, status) values ('pdf', 'http://h/', 'success')"
    )
    conn.commit()
    schema.migrate(conn)
    assert conn.execute("select status, landing_sha1hex from ingest_file_result").fetchall() == [("success", None)]
    assert "html_meta" in names(conn)
