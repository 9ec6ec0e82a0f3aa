"""Tables that appear when they are needed, inside whatever transaction is open."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

import pytest

from datasette_ingest import sqlite
from datasette_ingest.ingest import schema
from datasette_ingest.ingest.facts import FullText


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


def _found(conn: sqlite3.Connection, word: str, prefix: str = "") -> list[str]:
    sql = f"select f.sha1hex from {prefix}ingest_fulltext_fts s join {prefix}ingest_fulltext f on f.id = s.rowid where s.text match ?"
    return [row[0] for row in conn.execute(sql.replace("s.text", f"{prefix}ingest_fulltext_fts"), [word])]


@pytest.mark.parametrize("prefix", ["", "x_"])
def test_the_words_of_a_file_are_found_in_the_index_and_only_while_they_are_its_words(prefix: str) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        sqlite.migrate(conn, schema.specs(["ingest_fulltext"], prefix=prefix))
        ours = schema.under_prefix(conn, prefix)
        FullText("a" * 40, "Über den Wolken").write(ours, updated="")
        FullText("b" * 40, "clouds").write(ours, updated="")
        assert _found(conn, "uber", prefix) == ["a" * 40]
        FullText("a" * 40, "und darunter").write(ours, updated="")
        assert (_found(conn, "uber", prefix), _found(conn, "darunter", prefix)) == ([], ["a" * 40])
        conn.execute(f"delete from {prefix}ingest_fulltext where sha1hex = ?", ["b" * 40])
        assert _found(conn, "clouds", prefix) == []
        conn.execute(
            f"insert into {prefix}ingest_fulltext_fts ({prefix}ingest_fulltext_fts) values ('integrity-check')"
        )


@pytest.mark.parametrize("lost", ["table ingest_fulltext_fts", "trigger ingest_fulltext_inserted"])
def test_a_lost_index_is_made_anew_with_all_that_is_there(lost: str) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        schema.migrate(conn, ["ingest_fulltext"])
        FullText("a" * 40, "clouds").write(conn, updated="")
        conn.execute(f"drop {lost}")
        assert not sqlite.is_current(conn, schema.specs(["ingest_fulltext"]))
        schema.migrate(conn, ["ingest_fulltext"])
        FullText("b" * 40, "clouds").write(conn, updated="")
        assert _found(conn, "clouds") == ["a" * 40, "b" * 40]


def test_an_index_of_that_name_that_is_not_ours_is_a_users_own() -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        conn.execute("create virtual table Ingest_Fulltext_fts using fts5(words)")
        assert sqlite.stranger(conn, schema.specs(["ingest_fulltext"])) == "ingest_fulltext_fts"
