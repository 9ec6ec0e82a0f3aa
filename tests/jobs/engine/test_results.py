"""Answers become columns and cells; what the user's own schema refuses costs its own row and nothing else."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import sqlite3
import sys
from collections.abc import Iterator
from enum import Enum

import pytest

from datasette_ingest.jobs import keyset
from datasette_ingest.jobs.engine.output import RowTarget
from datasette_ingest.jobs.engine.results import RolledBack, column_type, storable, write_result
from datasette_ingest.jobs.model import BatchResult, JobStatus
from datasette_ingest.jobs.service import queries

from ...conftest import registered, rows, serving
from ..kit import books, by_batch, by_row, start, table, to_the_end


@contextlib.contextmanager
def written(updates, *statements, definition="create table t (id integer primary key, n)", **more) -> Iterator[tuple]:
    """(connection, answer): three rows with these updates, after these statements."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as conn:
        conn.execute(definition)
        conn.executemany("insert into t (id) values (?)", [(1,), (2,), (3,)])
        for sql in statements:
            conn.execute(sql)
        if "limit" in more:
            conn.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, more.pop("limit"))
        key = keyset.table_key(conn, "t")
        page = keyset.page(conn, key, ["id"], "", {})
        conn.execute("begin immediate")
        answer = write_result(
            conn, RowTarget(key), 7, page, BatchResult(3, list(updates), **more.pop("answer", {})), types={}, **more
        )
        assert conn.in_transaction
        conn.execute("commit")
        yield conn, answer


def column(conn, name):
    return [row[0] for row in conn.execute(f'select "{name}" from t order by id')]


@pytest.mark.parametrize(
    "values, kind",
    [
        ([1, 2, None], "integer"),
        ([True, False], "integer"),
        ([1, 2.5], "real"),
        ([0.5, float("inf")], "real"),
        (["a", None], "text"),
        (["a", 1], "text"),
        ([b"a", bytearray(b"b")], "blob"),
        ([{"a": 1}, [1]], "text"),
        ([datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)], "text"),
        ([None, None], None),
        ([], None),
    ],
)
def test_a_new_columns_type_holds_its_values(values, kind):
    assert column_type(values) == kind


class Colour(str, Enum):
    RED = "red"


@pytest.mark.parametrize(
    "value, stored",
    [
        (None, None),
        (2**63 - 1, 2**63 - 1),
        (b"\x00\xff", b"\x00\xff"),
        (bytearray(b"x"), b"x"),
        (memoryview(b"x"), b"x"),
        (datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.timezone.utc), "2026-01-02T03:04:00+00:00"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (decimal.Decimal("1.10"), "1.10"),
        ({"ü": [1, None]}, '{"ü": [1, null]}'),
        ((1, 2), "[1, 2]"),
        (
            {"score": float("nan"), "of": [float("inf"), {"x": -float("inf")}]},
            '{"score": "NaN", "of": ["Inf", {"x": "-Inf"}]}',
        ),
        (["a\ud800"], '["a\\\\ud800"]'),
        (Colour.RED, "red"),
        (True, 1),
    ],
)
def test_values_are_stored_in_a_form_that_reads_back(value, stored):
    assert storable(value) == stored
    with written([{"out": value}, None, None]) as (conn, answer):
        assert column(conn, "out" if value is not None else "n") == [stored, None, None]
        assert answer.errors == {}


def test_a_value_of_no_such_form_is_refused_by_its_type():
    with pytest.raises(TypeError, match="a set cannot be stored"):
        storable({1})


@pytest.mark.parametrize(
    "bad, said",
    [
        (2**63, "too large"),
        ("\udcff", "surrogates not allowed"),
        ({1}, "a set cannot be stored"),
        (object(), "a object cannot be stored"),
    ],
    ids=["beyond 64 bits", "a lone surrogate", "a set", "an object"],
)
def test_a_value_that_cannot_be_stored_is_its_rows_error_alone(bad, said):
    with written([{"out": 1}, {"out": bad}, {"out": 3}]) as (conn, answer):
        assert column(conn, "out")[::2] in ([1, 3], ["1", "3"]) and column(conn, "out")[1] is None
        assert list(answer.errors) == [1] and said in answer.errors[1].message


def test_updates_of_different_columns_share_an_answer():
    with written([{"a": 1}, {"b": 2, "a": 3}, {"A": 4}]) as (conn, answer):
        assert (column(conn, "a"), column(conn, "b"), answer.errors) == ([1, 3, 4], [None, 2, None], {})
        names = [name.lower() for (name,) in conn.execute("select name from pragma_table_info('t')")]
        assert names == ["id", "n", "a", "b"]


@pytest.mark.parametrize("name", ["select", 'q"uote', "a.b", "x y", "ü", "?1", ":p0", "[b]", "%s", "--", "a'b"])
def test_a_column_may_have_any_name(name):
    with written([{name: "a"}, {name: "b"}, {name: "c"}]) as (conn, answer):
        assert [row[0] for row in conn.execute(f"select {keyset.qualified('t', name)} from t")] == ["a", "b", "c"]
        assert answer.errors == {}


REFUSING = "create trigger no before update on t when new.n = 2 begin select raise({}, 'not this one'); end"


@pytest.mark.parametrize("kind", ["abort", "fail"])
def test_a_trigger_that_refuses_a_row_costs_that_row(kind):
    with written([{"n": 1}, {"n": 2}, {"n": 3}], REFUSING.format(kind)) as (conn, answer):
        assert column(conn, "n") == [1, None, 3]
        assert {n: failure.message for n, failure in answer.errors.items()} == {1: "not this one"}


KEYED = "create table t (id text collate nocase, n, primary key (id)) without rowid"


@pytest.mark.parametrize(
    "definition", ["create table t (id integer primary key, n)", "create table t (id text primary key, n)", KEYED]
)
@pytest.mark.parametrize(
    "trigger, said",
    [
        ("before update on t when old.id in (2, '2') begin select raise(ignore); end", "ignored the update"),
        ("before update of n on t when old.id in (2, '2') begin delete from t where id = 2; end", "The row is gone"),
        (
            "after update on t when old.id in (2, '2') begin delete from t where id = 2; end",
            "deleted the row or changed its",
        ),
        (
            "after update on t when old.id in (2, '2') begin update t set id = 20 where id = 2; end",
            "deleted the row or changed",
        ),
    ],
)
def test_a_row_that_a_trigger_keeps_from_being_written_is_an_error_with_the_reason(definition, trigger, said):
    trigger = f"create trigger no {trigger}"
    with written([{"n": 1}, {"n": 2}, {"n": 3}], trigger, definition=definition) as (conn, answer):
        assert list(answer.errors) == [1] and said in answer.errors[1].message
        assert dict(conn.execute("select n, count(*) from t group by 1")) == {None: 1, 1: 1, 3: 1}
        assert [str(key) for key in column(conn, "id")] == ["1", "2", "3"]


def test_triggers_that_write_elsewhere_cost_nothing():
    triggers = [
        "create table log (n)",
        "create trigger logs after update on t begin insert into log values (new.n); end",
    ]
    with written([{"n": 1}, {"n": 2}, {"n": 3}], *triggers) as (conn, answer):
        assert (column(conn, "n"), answer.errors) == ([1, 2, 3], {})
        assert conn.execute("select n from log").fetchall() == [(1,), (2,), (3,)]


def test_a_row_that_one_before_it_deletes_is_an_error():
    cascade = "create trigger no after update on t when old.id = 1 begin delete from t where id = 3; end"
    with written([{"n": 1}, {"n": 2}, {"n": 3}], cascade) as (conn, answer):
        assert column(conn, "n") == [1, 2] and answer.errors[2].message.startswith("The row is gone")


@pytest.mark.parametrize("singly, row", [(False, RolledBack.UNKNOWN), (True, 1)])
def test_a_trigger_that_ends_the_transaction_is_told_apart(singly, row):
    with (
        pytest.raises(RolledBack) as caught,
        written([{"n": 1}, {"n": 2}, {"n": 3}], REFUSING.format("rollback"), singly=singly),
    ):
        raise AssertionError("unreachable")
    assert (caught.value.batch_id, caught.value.row, str(caught.value)) == (7, row, "not this one")


@pytest.mark.parametrize(
    "definition, said",
    [
        ("create table t (id integer primary key, n check (n <> 2))", "CHECK constraint failed"),
        ("create table t (id integer primary key, n unique)", "UNIQUE constraint failed"),
        ("create table t (id integer primary key, n integer) strict", "cannot store TEXT value in INTEGER column"),
        ("create table t (id integer primary key, n not null default 0)", "NOT NULL constraint failed"),
    ],
    ids=["check", "unique", "strict", "not null"],
)
def test_a_constraint_that_refuses_a_row_costs_that_row(definition, said):
    bad = {"UNIQUE": 1, "cannot": "word", "NOT": None}.get(said.split()[0], 2)
    with written([{"n": 1}, {"n": bad}, {"n": 3}], definition=definition) as (conn, answer):
        assert (column(conn, "n")[0], column(conn, "n")[2]) == (1, 3)
        assert list(answer.errors) == [1] and said in answer.errors[1].message


def test_a_unique_constraint_that_ends_the_transaction_is_told_apart():
    with (
        pytest.raises(RolledBack) as caught,
        written(
            [{"n": 1}, {"n": 1}, {"n": 3}],
            definition="create table t (id integer primary key, n unique on conflict rollback)",
            singly=True,
        ),
    ):
        raise AssertionError("unreachable")
    assert caught.value.row == 1


def test_a_generated_column_cannot_be_written_and_says_so():
    definition = "create table t (id integer primary key, n, g as (id * 2), s as (id * 3) stored)"
    with written([{"G": 1}, {"n": 5}, {"s": 1}], definition=definition) as (conn, answer):
        assert column(conn, "n") == [None, 5, None] and sorted(answer.errors) == [0, 2]
        assert all("is generated" in failure.message for failure in answer.errors.values())


@pytest.mark.parametrize(
    "name, said",
    [
        ("", "A column without a name cannot be written"),
        ("ID", "is the key by which the rows of 't' are found"),
        ("ROWID", "would hide the number by which SQLite finds the row"),
        ("a\0b", "SQLite takes no column of the name 'a\\x00b'"),
        ("a\udc80", "SQLite takes no column of the name"),
        (5, "The name of a column must be text, not 5"),
    ],
)
def test_a_row_with_a_column_that_cannot_be_written_is_an_error_alone(name, said):
    with written([{"n": 1}, {name: 2, "n": 2}, {"n": 3}]) as (conn, answer):
        assert column(conn, "n") == [1, None, 3] and column(conn, "id") == [1, 2, 3]
        assert list(answer.errors) == [1] and said in answer.errors[1].message


def test_two_spellings_of_one_column_in_a_row_are_an_error():
    with written([{"n": 1}, {"out": 1, "OUT": 2}, {"out": 3}]) as (conn, answer):
        assert column(conn, "out") == [None, None, 3]
        assert answer.errors[1].message == "'OUT' and 'out' are the same column to SQLite"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="limits can be set since Python 3.11")
def test_a_limit_of_columns_that_was_lowered_counts():
    definition = f"create table t (id integer primary key, n, {', '.join(f'c{number}' for number in range(18))})"
    with written([{"n": 1}, {"new": 2}, {"n": 3}], definition=definition, limit=20) as (conn, answer):
        assert column(conn, "n") == [1, None, 3] and "which has 20 columns" in answer.errors[1].message


def test_rows_that_need_more_columns_than_a_table_may_have_are_errors_and_others_stand():
    names = ", ".join(f"c{number}" for number in range(1997))
    definition = f"create table t (id integer primary key, n, {names})"
    with written([{"n": 1}, {"one": 1, "two": 2}, {"c5": 3}], definition=definition) as (conn, answer):
        assert column(conn, "n")[0] == 1 and column(conn, "c5") == [None, None, 3]
        assert list(answer.errors) == [1]
        assert answer.errors[1].message == (
            "There is no room for the column 'two': SQLite takes no more columns in the table 't', which has 1,999 "
            "columns. Write the results into a table of their own: output shadow"
        )


def test_a_table_without_rowid_is_written_by_its_key():
    definition = "create table t (n, id text, primary key (id)) without rowid"
    with written([{"n": 1}, {"n": 2}, {"n": 3}], definition=definition) as (conn, answer):
        assert (column(conn, "n"), answer.errors) == ([1, 2, 3], {})


def test_keys_that_are_not_utf_8_are_written_by_their_bytes():
    definition = "create table t (id text, n, primary key (id)) without rowid"
    extra = [
        "insert into t (id) values (cast(x'ff61' as text)), (cast(x'ff62' as text))",
        "delete from t where id = '3'",
    ]
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as conn:
        for sql in (definition, "insert into t (id) values ('1'), ('2'), ('3')", *extra):
            conn.execute(sql)
        key = keyset.table_key(conn, "t")
        page = keyset.page(conn, key, ["id"], "", {})
        conn.execute("begin immediate")
        answer = write_result(conn, RowTarget(key), 1, page, BatchResult(4, [{"n": n} for n in range(4)]), types={})
        assert answer.errors == {}
        assert conn.execute("select n from t order by id").fetchall() == [(0,), (1,), (2,), (3,)]


@pytest.mark.parametrize("name", ["rowid", "RowID", "_rowid_", "oid"])
def test_a_new_column_of_the_rowids_name_is_refused_before_updates_go_astray(name):
    with written([{name: "a"}, {name: "b"}, {name: "c"}], definition="create table t (id, n)") as (conn, answer):
        assert {row[0] for row in conn.execute("select name from pragma_table_info('t')")} == {"id", "n"}
        assert sorted(answer.errors) == [0, 1, 2] and "would hide" in answer.errors[0].message


def test_a_write_of_the_enrichments_that_raises_takes_its_whole_batch_back():
    def half(conn):
        conn.execute("insert into log values (1)")
        raise ValueError("no more")

    more = {"writes": [half], "cost_nanodollars": 5, "outcomes": {"hit": 3}}
    with written([{"n": 1}, {"n": 2}, {"n": 3}], "create table log (n)", answer=more) as (conn, answer):
        assert column(conn, "n") == [None, None, None]
        assert conn.execute("select count(*) from log").fetchone() == (0,)
        assert sorted(answer.errors) == [0, 1, 2] and answer.errors[0].message == "no more"
        assert "half" in answer.errors[0].traceback and answer.outcomes == {} and answer.cost_nanodollars == 5


def test_refused_rows_leave_the_success_they_were_counted_as():
    more = {"outcomes": {"success": 3}}
    with written([{"n": 1}, {"n": 2}, {"n": 3}], REFUSING.format("abort"), answer=more) as (_, answer):
        assert answer.outcomes == {"success": 2, "error": 1}


def test_a_full_disk_is_no_rows_fault():
    big = "x" * 100_000
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as conn:
        conn.execute("create table t (id integer primary key, n)")
        conn.executemany("insert into t (id) values (?)", [(1,), (2,), (3,)])
        conn.execute(f"pragma max_page_count = {conn.execute('pragma page_count').fetchone()[0] + 1}")
        key = keyset.table_key(conn, "t")
        page = keyset.page(conn, key, ["id"], "", {})
        conn.execute("begin immediate")
        with pytest.raises(sqlite3.OperationalError, match="full"):
            write_result(conn, RowTarget(key), 1, page, BatchResult(3, [{"n": big}] * 3), types={})


# ---- the same through a whole job ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["abort", "fail", "rollback"])
@pytest.mark.parametrize("size", [1, 2, 5])
async def test_a_refused_row_in_a_job_is_one_error_and_every_other_row_is_written_once(db_path, kind, size):
    table(
        db_path,
        "create table writes (row)",
        "alter table papers add column copied",
        "create trigger c after update on papers begin insert into writes values (new.id); end",
        f"create trigger no before update on papers when new.copied in (2, 4) begin select raise({kind}, 'no'); end",
    )
    with registered(by_row(lambda row: {"copied": row["id"]}, batch_size=size)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
            found = await queries.errors(datasette.get_database("data"), job)
    assert books(db_path) == ("finished", 5, 2, 0)
    assert job.outcomes == {"success": 3, "error": 2}
    assert sorted((error.row_pks, error.error) for error in found) == [([2], "no"), ([4], "no")]
    assert sorted(rows(db_path, "select row from writes")) == [(1,), (3,), (5,)]


async def test_a_write_that_ends_the_transaction_costs_its_own_batch(db_path):
    from datasette_ingest import BatchOutcome, RowUpdate

    table(db_path, "create table log (n unique on conflict rollback)", "insert into log values (3)")

    def enrich(given, pks):
        updates = [RowUpdate(pk, {"copied": pk}) for pk in pks]
        return BatchOutcome(updates, writes=[lambda conn: conn.execute("insert into log values (?)", [pks[0]])])

    with registered(by_batch(enrich)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 5, 2)
    assert rows(db_path, "select n from log order by n") == [(1,), (3,), (5,)]
    assert rows(db_path, "select copied from papers") == [(1,), (2,), (None,), (None,), (5,)]


async def test_a_write_that_commits_by_itself_is_not_let_to_break_the_books(db_path):
    from datasette_ingest import BatchOutcome, RowUpdate

    def enrich(given, pks):
        return BatchOutcome([RowUpdate(pk, {"copied": pk}) for pk in pks], writes=[lambda conn: conn.commit()])

    with registered(by_batch(enrich)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    [(copied,)] = rows(db_path, "select count(copied) from papers") if job.done_count else [(0,)]
    assert job.status.is_final and copied == job.done_count - job.error_count
    assert books(db_path)[3] == 0
