"""Results beside the table: one shadow row for every source row, whatever its key."""

import contextlib
import sqlite3

import pytest
import sqlite_utils

from datasette_ingest import compat
from datasette_ingest.jobs.errors import BadConfig, BadSelection
from datasette_ingest.jobs.model import JobStatus, StartRequest
from datasette_ingest.jobs.service import control
from datasette_ingest.testing import run_until_idle

from ...conftest import ROOT, registered, rows, serving
from ..kit import by_row, start, table, to_the_end

TABLES = {
    "rowid": "create table t (title text)",
    "integer key": "create table t (id integer primary key, title text)",
    "text key with NULLs": "create table t (k text primary key, title text)",
    "compound": "create table t (a, b text collate nocase, title text, primary key (b, a desc))",
    "without rowid": "create table t (a blob, b, title text, primary key (a, b)) without rowid",
}
VALUES = {
    "rowid": [("x",), ("y",)],
    "integer key": [(-5, "x"), (2**62, "y")],
    "text key with NULLs": [(None, "x"), (None, "y"), ("", "z"), ("A", "w")],
    "compound": [(1, "a", "x"), (1.5, "a", "y"), (None, "a", "z"), (None, "a", "w"), (b"\0", None, "v")],
    "without rowid": [(b"\xff", 1, "x"), (b"\xff", "1", "y"), ("", 0.1, "z")],
}


@pytest.mark.parametrize("shape", TABLES)
async def test_a_shadow_row_stands_for_each_source_row_and_a_second_run_renews_it(tmp_path, shout, shape):
    path = tmp_path / "data.db"
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute(TABLES[shape])
        conn.executemany(f"insert into t values ({', '.join('?' * len(VALUES[shape][0]))})", VALUES[shape])
    async with serving(path) as datasette:
        for output in ("first", "second", "first"):
            await control.start(
                datasette,
                "data",
                StartRequest(
                    "t",
                    enrichment="shout",
                    config={"column": "title", "output": output},
                    options={"output": "shadow"},
                    actor=ROOT,
                ),
            )
            await run_until_idle(datasette)
    assert rows(path, "select distinct done_count, error_count, status from _enrichment_jobs") == [
        (len(VALUES[shape]), 0, "finished")
    ]
    assert "first" not in {name for (name,) in rows(path, "select name from pragma_table_info('t')")}
    shouted = sorted(row[-1].upper() for row in VALUES[shape])
    assert sorted(rows(path, "select first, second from _enrichments_t")) == [(word, word) for word in shouted]


# ---- refused before the first row -------------------------------------------------------------------------------------


def declaring(*names, **attributes):
    """An enrichment that says which columns it writes; it counts the rows that it is asked about."""
    seen = []

    def enrich(row):
        seen.append(row)
        return dict.fromkeys(names, 1)

    made = by_row(enrich, column_types=lambda self, config: dict.fromkeys(names, "integer"), **attributes)
    made.seen = seen
    return made


@pytest.mark.parametrize(
    "definition, name, said",
    [
        ("(id integer primary key, title text)", "", "A column without a name cannot be written"),
        ('(id integer primary key, "" text)', "", "A column without a name cannot be written"),
        (
            "(id integer primary key, title text)",
            "Id",
            "The column 'Id' is the key by which the rows of 'docs' are found",
        ),
        ("(a default 1, b default 2, primary key (b, a)) without rowid", "B", "The column 'B' is the key"),
        ("(id integer primary key, g as (id + 1))", "G", "The column 'G' is generated: SQLite computes it"),
        ("(id integer primary key, g as (id + 1) stored)", "g", "The column 'g' is generated"),
        ("(title text)", "oid", "A column called 'oid' would hide the number by which SQLite finds the row"),
    ],
)
@pytest.mark.parametrize("how", ["columns", "shadow"])
async def test_a_column_that_cannot_be_written_is_refused_at_the_start(db_path, definition, name, said, how):
    table(db_path, f"create table docs {definition}", "insert into docs default values")
    enrichment = declaring("fine", name, output=lambda self, config: how)
    if how == "shadow" and "generated" in said:
        return  # beside the table there is no such column
    with registered(enrichment):
        async with serving(db_path) as datasette:
            with pytest.raises(BadConfig) as caught:
                await start(datasette, "docs")
    assert said.replace("'docs'", "'_enrichments_docs'" if how == "shadow" else "'docs'") in caught.value.message
    assert enrichment.seen == [] and rows(db_path, "select name from sqlite_master where name glob '_enrich*'") == []


async def test_a_table_without_room_for_the_columns_is_refused_and_its_shadow_table_has_room(db_path):
    names = ", ".join(f"c{number}" for number in range(1998))
    table(db_path, f"create table docs (id integer primary key, {names})", "insert into docs default values")
    with registered(declaring("one", "two", "three")):
        async with serving(db_path) as datasette:
            with pytest.raises(BadConfig, match=r"has 1,999 columns.*output shadow") as caught:
                await start(datasette, "docs")
            assert len(caught.value.details) == 2
            job = await to_the_end(datasette, await start(datasette, "docs", options={"output": "shadow"}))
    assert (job.status, job.outcomes) == (JobStatus.FINISHED, {"success": 1})
    assert rows(db_path, "select * from _enrichments_docs") == [(1, 1, 1, 1)]


async def test_a_table_as_wide_as_sqlite_takes_is_read_whole(db_path):
    names = ", ".join(f"c{number}" for number in range(2000))
    table(
        db_path,
        f"create table docs ({names})",
        "insert into docs (c0, c1999) values (1, 2), (3, cast(x'ff' as text))",
    )
    with registered(by_row(lambda row: {"sum": row["c1999"]}, output=lambda self, config: "shadow")):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette, "docs"))
    assert (job.status, job.outcomes) == (JobStatus.FINISHED, {"success": 1, "error": 1})
    assert rows(db_path, "select * from _enrichments_docs") == [(1, "2")]


async def test_a_table_that_changed_since_the_start_is_refused_before_the_first_row(db_path):
    enrichment = declaring("out")
    with registered(enrichment):
        async with serving(db_path, plugin={"run_jobs": False}) as datasette:
            job = await start(datasette)
            table(db_path, "alter table papers add column out as (id)")
            job = await to_the_end(datasette, job)
    assert job.status is JobStatus.CANCELLED and "The column 'out' is generated" in job.cancel_reason
    assert enrichment.seen == []


@pytest.mark.parametrize("name", ["rowid", "_rowid_", "OID", "RowID"])
@pytest.mark.parametrize("kind", ["text", "text as ('x')", "text as ('x') stored"])
async def test_columns_that_are_called_like_the_rowid_hide_no_row(db_path, name, kind):
    table(
        db_path,
        f"create table docs (title text, {name} {kind})",
        "insert into docs (title) values ('a'), ('b'), ('c')",
    )
    with registered(by_row(lambda row: {"out": row["title"]})):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette, "docs"))
    assert (job.status, job.outcomes) == (JobStatus.FINISHED, {"success": 3})
    assert rows(db_path, "select title, out from docs") == [("a", "a"), ("b", "b"), ("c", "c")]


@pytest.mark.parametrize("kind", ["", " as (1)", " as (1) stored"])
async def test_where_all_names_of_the_rowid_are_taken_a_table_without_a_key_is_refused(db_path, kind):
    table(db_path, f"create table docs (title, rowid{kind}, OID{kind}, _rowid_{kind})")
    with registered(by_row(lambda row: {"out": 1})):
        async with serving(db_path) as datasette:
            with pytest.raises(BadSelection, match="it has no key, and its columns hide the rowid"):
                await start(datasette, "docs")
            table(db_path, f"create table keyed (title text primary key, rowid{kind}, OID{kind}, _rowid_{kind})")
            table(db_path, "insert into keyed (title) values ('a'), ('b')")
            job = await to_the_end(datasette, await start(datasette, "keyed"))
    assert job.outcomes == {"success": 2}


def enforce_foreign_keys(conn):
    conn.execute("commit")
    conn.execute("pragma foreign_keys = on")


@pytest.mark.parametrize("when", ["", " deferrable initially deferred"])
@pytest.mark.parametrize(
    "definition",
    [
        "create table docs (id integer primary key, out integer references parents{when})",
        "create table parent (k text primary key, n, out integer, foreign key (n, out) references pairs (a, b){when})",
        "create table docs (k text primary key, out references parents (id){when}) without rowid",
    ],
)
async def test_a_foreign_key_that_is_broken_is_the_rows_error_though_sqlite_checks_it_at_the_commit(
    db_path, definition, when
):
    name = definition.split()[2]
    key = "id" if "id integer" in definition else "k"
    table(
        db_path,
        "create table parents (id integer primary key)",
        "create table pairs (a, b, unique (a, b))",
        "insert into parents values (1), (3)",
        "insert into pairs values (7, 1), (7, 3)",
        definition.format(when=when),
        *(
            f"insert into {name} ({key}{', n' if 'pairs' in definition else ''}) values ({n}{', 7' if 'pairs' in definition else ''})"
            for n in (1, 2, 3)
        ),
    )
    with registered(by_row(lambda row: {"out": int(row[key])}, batch_size=10)):
        async with serving(db_path) as datasette:
            await compat.write(datasette.get_database("data"), enforce_foreign_keys)
            job = await to_the_end(datasette, await start(datasette, name))
    assert (job.status, job.outcomes) == (JobStatus.FINISHED, {"success": 2, "error": 1})
    assert rows(db_path, f"select {key}, out from {name}") in (
        [(1, 1), (2, None), (3, 3)],
        [("1", 1), ("2", None), ("3", 3)],
    )
    assert rows(db_path, "select error from _enrichment_errors") == [("FOREIGN KEY constraint failed",)]


async def test_a_shadow_table_has_another_name_for_the_rowid_where_a_key_has_ours(db_path):
    table(
        db_path,
        "create table docs (_Source_Rowid text, _source_rowid_ text, primary key (_Source_Rowid, _source_rowid_))",
        "insert into docs values ('a', null), ('a', null), ('a', 'b')",
    )
    with registered(by_row(lambda row: {"out": 1}, output=lambda self, config: "shadow")):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette, "docs"))
    assert job.outcomes == {"success": 3}
    assert rows(db_path, "select count(*), count(_source_rowid__), sum(out) from _enrichments_docs") == [(3, 2, 3)]


@pytest.mark.parametrize(
    ("definition", "change", "key"),
    [
        ("n integer, k integer", {"pk": "k"}, "'k'"),
        ("n integer, k integer primary key", {"pk": None}, "'rowid'"),
        ("n integer, k integer primary key", {"pk": "n"}, "'n'"),
        ("n integer, k text primary key", {"pk": ("n", "k")}, "'n', 'k', '_source_rowid'"),
        ("n integer, k integer primary key", {"types": {"k": str}}, "'k', '_source_rowid'"),
    ],
)
async def test_a_shadow_table_of_another_key_is_refused_at_the_start(tmp_path, definition, change, key):
    """Its rows stand for others, or cannot be found: the results of a job would be lost or stand beside a wrong row."""
    path = tmp_path / "data.db"
    table(path, f"create table papers ({definition})", "insert into papers (n, k) values (10, 2), (20, 3), (3, 1)")
    made = declaring("word", outcome_column=lambda self, config: "word", output=lambda self, config: "shadow")
    with registered(made):
        async with serving(path) as datasette:
            await to_the_end(datasette, await start(datasette))
            before = rows(path, "select * from _enrichments_papers")
            with contextlib.closing(sqlite_utils.Database(path)) as db:
                db["papers"].transform(**change)
            made.seen.clear()
            with pytest.raises(BadConfig) as refusal:
                await start(datasette)
            cookies = {"ds_actor": datasette.sign({"a": ROOT}, "actor")}
            filtered = await datasette.client.get("/data/papers?_ingest_status=1&_ingest_job=1", cookies=cookies)
            missed = await datasette.client.get("/-/ingest-jobs/data/1/missed.csv", cookies=cookies)
            table(path, "alter table _enrichments_papers rename to old_results")
            again = await to_the_end(datasette, await start(datasette))
    assert refusal.value.message == (
        f"The table '_enrichments_papers' holds results by a key that its source no longer has, which is {key} now. "
        "Drop or rename it, and a new one is made"
    )
    assert filtered.status_code == 400 and "another key of" in filtered.text
    assert missed.status_code == 200
    assert rows(path, "select * from old_results") == before
    assert (again.done_count, again.error_count, len(made.seen)) == (3, 0, 3)
