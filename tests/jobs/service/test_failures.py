"""Rows without success, wherever their outcome is written and whatever their key."""

from __future__ import annotations

import contextlib
import sqlite3

import pydantic
import pytest

from datasette_ingest import BatchOutcome, Enrichment, RowError, RowUpdate
from datasette_ingest.jobs.model import Failures, RelatedRows
from datasette_ingest.jobs.service import failures, queries

from ...conftest import ROOT, registered, serving
from ..kit import execute, start, table, to_the_end


class Look(Enrichment):
    """Finds what `wanted` names; a row whose number ends in 9 is in error."""

    slug, name, batch_size = "look", "Look", 4

    class Config(pydantic.BaseModel):
        kept: str = "columns"

    def columns(self, config):
        return ["wanted"]

    def output(self, config):
        return "shadow" if config.kept == "shadow" else "columns"

    def outcome_column(self, config):
        return None if config.kept == "none" else "look_status"

    async def enrich_batch(self, rows, pks, config):
        updates, errors, words = [], [], {}
        for row, pk in zip(rows, pks, strict=True):
            if str(row["wanted"]).endswith("9"):
                errors.append(RowError(pk, f"cannot see {row['wanted']}"))
                word = "error"
            else:
                word = "success" if row["wanted"] % 2 else "not-there"
                if config.kept != "none":
                    updates.append(RowUpdate(pk, {"look_status": word}))
            words[word] = words.get(word, 0) + 1
        return BatchOutcome(updates, errors, outcomes=words)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "data.db"
    table(
        path,
        "create table papers (id integer primary key, wanted integer)",
        "insert into papers with recursive n(i) as (select 1 union all select i + 1 from n where i < 10) select i, i from n",
    )
    return path


async def failures_of(datasette, job):
    """(column names, rows) of the download."""
    query = await failures.failure_query(datasette, datasette.get_database("data"), job, ROOT)
    found = []
    async for page in failures.pages(datasette.get_database("data"), query):
        found += page
    return query.names, found


async def run(datasette, **given):
    return await to_the_end(datasette, await start(datasette, enrichment="look", **given))


@pytest.mark.parametrize("kept", ["columns", "shadow"])
async def test_rows_with_another_outcome_than_success_and_rows_in_error_are_failures(path, kept):
    with registered(Look()):
        async with serving(path) as datasette:
            job = await run(datasette, config={"kept": kept})
            names, found = await failures_of(datasette, job)
    assert names == ("id", "wanted", "outcome", "message")
    assert found == [
        [2, 2, "not-there", None],
        [4, 4, "not-there", None],
        [6, 6, "not-there", None],
        [8, 8, "not-there", None],
        [9, 9, "error", "cannot see 9"],
        [10, 10, "not-there", None],
    ]


async def test_where_no_outcome_is_written_only_errors_are_known(path):
    with registered(Look()):
        async with serving(path) as datasette:
            job = await run(datasette, config={"kept": "none"})
            assert (await failures_of(datasette, job))[1] == [[9, 9, "error", "cannot see 9"]]


async def test_an_error_counts_though_an_earlier_job_found_the_row(path):
    with registered(Look()):
        async with serving(path) as datasette:
            await run(datasette)
            await execute(datasette, "update papers set look_status = 'success'")
            job = await run(datasette, filters="id=9")
            assert (await failures_of(datasette, job))[1] == [[9, 9, "error", "cannot see 9"]]


async def test_only_the_jobs_own_rows_are_read(path):
    with registered(Look()):
        async with serving(path) as datasette:
            await run(datasette)
            job = await run(datasette, filters="id__lte=4")
            assert [row[0] for row in (await failures_of(datasette, job))[1]] == [2, 4]


async def test_filters_on_what_the_job_wrote_no_longer_find_its_rows_and_the_whole_table_is_read(path):
    with registered(Look()):
        async with serving(path) as datasette:
            await run(datasette, filters="id__lte=2")
            job = await run(datasette, filters="look_status__isnull=1")
            query = await failures.failure_query(datasette, datasette.get_database("data"), job, ROOT)
            assert not query.is_narrowed
            assert [row[0] for row in (await failures_of(datasette, job))[1]] == [2, 4, 6, 8, 9, 10]


async def test_a_job_that_never_began_has_no_failures(path):
    with registered(Look()):
        async with serving(path) as datasette:
            job = await start(datasette, enrichment="look", config={"kept": "shadow"})
            assert (await failures_of(datasette, job))[1] == []


async def test_a_job_of_an_enrichment_that_is_gone_still_has_its_errors(path):
    with registered(Look()):
        async with serving(path) as datasette:
            job = await run(datasette)
            await execute(datasette, "update _enrichment_jobs set enrichment = 'gone'")
            job = await queries.find(datasette, "data", job.id, actor=ROOT)
            assert await failures_of(datasette, job) == (("id", "outcome", "message"), [[9, "error", "cannot see 9"]])


async def test_every_row_comes_once_over_the_pages(path, monkeypatch):
    monkeypatch.setattr(failures, "PAGE_ROWS", 2)
    with registered(Look()):
        async with serving(path) as datasette:
            job = await run(datasette)
            assert [row[0] for row in (await failures_of(datasette, job))[1]] == [2, 4, 6, 8, 9, 10]


@pytest.mark.parametrize(
    "columns, keys, names",
    [
        ("id text primary key", ["'b'", "'a'", "null", "null"], ("id",)),
        ("id primary key", ["x'00ff'", "'a'", "2", "-1.5"], ("id",)),
        ("id integer primary key", ["5", "-9223372036854775808", "7", "6"], ("id",)),
        ("a text, id integer, primary key (id, a)", ["'x', 1", "'x', 2", "'y', 1", "null, 1"], ("id", "a")),
        ("id text", ["'a'", "'a'", "null", "'b'"], ("rowid",)),
    ],
)
async def test_rows_of_any_key_are_named_by_it(tmp_path, columns, keys, names):
    path = tmp_path / "data.db"
    head, comma, tail = columns.partition(", primary key")
    table(path, f"create table papers ({head}, wanted integer{comma}{tail})")
    table(path, *[f"insert into papers values ({key}, 2)" for key in keys])
    with registered(Look()):
        async with serving(path) as datasette:
            job = await run(datasette)
            got, found = await failures_of(datasette, job)
    assert got == (*names, "wanted", "outcome", "message")
    assert len(found) == 4 and all(len(row) == len(got) for row in found)


class Further(Look):
    """An enrichment that keeps its words in a table of its own."""

    def failures(self, config, table):
        return Failures(
            outcome=f'(select word from words where words.id = "{table}".id and words.kind = :kind)',
            columns={"id": "1", "twice": f'2 * "{table}".wanted', "message": "'said ' || :kind"},
            params={"kind": "k"},
        )


async def test_an_enrichment_may_state_which_rows_failed_and_describe_them(path):
    table(path, "create table words (id, kind, word)", "insert into words values (1, 'k', 'success'), (2, 'k', 'no')")
    table(path, "insert into words values (3, 'other', 'no')")
    with registered(Further()):
        async with serving(path) as datasette:
            job = await run(datasette, config={"kept": "none"}, filters="id__lt=9&_where=id>0")
            names, found = await failures_of(datasette, job)
    assert (names, found) == (("id", "id_2", "twice", "outcome", "message"), [[2, 1, 4, "no", "said k"]])


# ---- reasons --------------------------------------------------------------------------------------------------------

LONG = 20_000.0


def test_rows_are_grouped_by_case_and_message_whatever_the_address_in_it():
    rows = [
        ("gone", "gone:404", "https://a.example/1 answers 404", 1),
        ("gone", "gone:404", "https://a.example/2 answers 410", 2),
        ("gone", "gone:5xx", "https://a.example/3 answers 500", 3),
        ("wall", "wall", "a login stands at http://b.example/", 4),
        ("wall", "wall", "a login stands at http://b.example/", 5),
        ("wall", "wall", "a login stands at http://b.example/", 6),
        ("no-host", "no-host", "the host a.example has no address", 8),
        ("no-host", "no-host", "the host b.example.org has no address", 9),
        ("blank", "blank", None, 7),
    ]
    assert failures.by_reason(rows, keys=2) == (
        failures.Reason("wall", "wall", "a login stands at http://b.example/", False, 3, (4, 5)),
        failures.Reason("gone", "gone:404", "https://a.example/1 answers 404", True, 2, (1, 2)),
        failures.Reason("no-host", "no-host", "the host a.example has no address", True, 2, (8, 9)),
        failures.Reason("blank", "blank", None, False, 1, (7,)),
        failures.Reason("gone", "gone:5xx", "https://a.example/3 answers 500", False, 1, (3,)),
    )


class Behind(Further):
    """The same, with related rows."""

    def failures(self, config, table):
        stated = super().failures(config, table)
        behind = {"id": f'"{table}".id', "kind": ":kind"}
        return Failures(
            stated.outcome,
            stated.columns,
            stated.params,
            (RelatedRows("The word", "words", behind, sort="word"), RelatedRows("Nowhere", "nowhere", behind)),
        )


@pytest.fixture
def told(path):
    """The words of rows 1 to 4 and, in error, of row 9."""
    words = "(1, 'k', 'success'), (2, 'k', 'no'), (3, 'k', 'no'), (4, 'k', 'odd'), (9, 'k', 'no')"
    table(path, "create table words (id, kind, word)", f"insert into words values {words}")
    return path


async def query(datasette, job):
    return await failures.failure_query(datasette, datasette.get_database("data"), job, ROOT)


async def test_the_reasons_of_a_job_leave_out_its_rows_in_error(told, monkeypatch):
    with registered(Behind()):
        async with serving(told) as datasette:
            db, job = datasette.get_database("data"), await run(datasette, config={"kept": "none"})
            rows = await query(datasette, job)
            assert await failures.reasons(db, rows, keys=1, limit_ms=LONG) == failures.Reasons(
                (
                    failures.Reason("no", "no", "said k", False, 2, (2,)),
                    failures.Reason("odd", "odd", "said k", False, 1, (4,)),
                ),
                3,
                True,
            )
            monkeypatch.setattr(failures, "GROUPED_ROWS", 1)
            found = await failures.reasons(db, rows, keys=1, limit_ms=LONG)
            assert (found.reasons, found.grouped, found.is_all) == (
                (failures.Reason("no", "no", "said k", False, 1, (2,)),),
                1,
                False,
            )


async def test_reasons_that_take_too_long_are_not_known(told):
    slow = "(with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n)"

    class Slow(Further):
        def failures(self, config, table):
            return Failures(slow, {}, {})

    with registered(Slow()):
        async with serving(told) as datasette:
            db, job = datasette.get_database("data"), await run(datasette, config={"kept": "none"})
            assert await failures.reasons(db, await query(datasette, job), keys=1, limit_ms=20) is None
            assert await failures.row_reports(datasette, db, "papers", "2", actor=ROOT, limit_ms=20, most=3) == []


async def test_a_report_on_a_row_has_its_outcome_its_message_and_the_related_rows(told):
    with registered(Behind()):
        async with serving(told) as datasette:
            db, job = datasette.get_database("data"), await run(datasette, config={"kept": "none"}, filters="id__gt=2")

            async def reports(row):
                return await failures.row_reports(datasette, db, "papers", str(row), actor=ROOT, limit_ms=LONG, most=3)

            [report] = await reports(2)
            assert (report.output.job.id, report.outcome, report.message) == (job.id, "no", "said k")
            assert [(each.label, values) for each, values in report.related] == [("The word", {"id": 2, "kind": "k"})]
            [in_error] = await reports(9)
            assert (in_error.outcome, in_error.message, in_error.related) == ("error", "cannot see 9", ())
            assert await reports(1) == await reports(77) == await reports("no,key") == []


# ---- names of ours beside a user's ------------------------------------------------------------------------------------


class Telling(Look):
    """Reads and states columns under names of its own."""

    def columns(self, config):
        return ["wanted", *self.reads]

    def failures(self, config, table):
        facts = {name: f"'{name} of ours'" for name in ("terminal_url", "next_try", "message")}
        return Failures(None, facts, row_columns=tuple(self.columns(config)))


@pytest.mark.parametrize("role", ["key", "read", "both"])
@pytest.mark.parametrize(
    "name", ["message", "outcome", "terminal_url", "next_try", "Message", "OUTCOME", "rowid", "oid", "message_2"]
)
async def test_a_column_of_the_users_keeps_its_name_and_loses_nothing(tmp_path, name, role):
    path, others = tmp_path / "data.db", {"message": "message_2", "message_2": "outcome", "Message": "status"}
    other = others.get(name, "message")
    key = {"key": f"({name})", "read": "(wanted)", "both": f"({name}, {other})"}[role]
    table(path, f"create table papers (wanted integer, {name} text, {other} text, primary key {key})")
    table(path, "insert into papers values (2, 'mine', 'too'), (9, 'mine again', 'also')")
    look = Telling()
    look.reads = [name, other]
    with registered(look):
        async with serving(path) as datasette:
            job = await run(datasette)
            names, found = await failures_of(datasette, job)
    assert len(names) == len({each.lower() for each in names})
    miss, error = (dict(zip(names, row, strict=True)) for row in found)
    assert (miss[name], miss[other], miss["wanted"]) == ("mine", "too", 2)
    assert (error[name], error[other], error["wanted"]) == ("mine again", "also", 9)
    ours = [value for each, value in zip(names, found[0], strict=True) if each not in (name, other, "wanted")]
    assert ours == ["terminal_url of ours", "next_try of ours", "not-there", "message of ours"]


async def test_a_table_without_a_key_and_with_a_column_called_rowid_is_named_by_another_name(tmp_path):
    path = tmp_path / "data.db"
    table(path, "create table papers (wanted integer, rowid text)", "insert into papers values (2, 'mine')")
    with registered(Look()):
        async with serving(path) as datasette:
            job = await run(datasette)
            assert await failures_of(datasette, job) == (
                ("_rowid_", "wanted", "outcome", "message"),
                [[1, 2, "not-there", None]],
            )


@pytest.mark.parametrize("name", ["_enrichment_error", "error", "e", "r", "key"])
async def test_the_name_of_a_table_hides_none_of_ours(tmp_path, name):
    path = tmp_path / "data.db"
    table(path, f"create table [{name}] (id text primary key, wanted integer, job_id, error, row_key)")
    table(path, f"insert into [{name}] (id, wanted) values ('a', 2), ('b', 9)")
    with registered(Look()):
        async with serving(path) as datasette:
            job = await to_the_end(datasette, await start(datasette, name, enrichment="look"))
            found = (await failures_of(datasette, job))[1]
    assert [row[0] for row in found] == ["a", "b"] and found[1][-1] == "cannot see 9"


async def test_rows_in_error_are_found_after_vacuum_has_renumbered_them(tmp_path):
    path = tmp_path / "data.db"
    table(path, "create table papers (id text primary key, wanted integer)")
    table(path, "insert into papers values ('gone', 1), ('a', 9), ('ab', 19), (cast(x'61ff' as text), 29), (null, 39)")
    with registered(Look()):
        async with serving(path) as datasette:
            job = await run(datasette)
            await execute(datasette, "delete from papers where id = 'gone'")
            table(path, "update papers set rowid = rowid + 70 where id is not null")
            found = (await failures_of(datasette, job))[1]
    assert sorted(row[-1] for row in found) == ["cannot see 19", "cannot see 29", "cannot see 39", "cannot see 9"]


@pytest.mark.parametrize(
    "key", ["id integer primary key", "id text primary key", "id text primary key) without rowid --"]
)
async def test_the_errors_of_a_job_are_looked_up_by_index(tmp_path, key):
    path = tmp_path / "data.db"
    end = ")" if "--" not in key else ""
    table(path, f"create table papers (wanted integer, {key}\n{end}", "insert into papers values (9, 1)")
    with registered(Look()):
        async with serving(path) as datasette:
            query_ = await query(datasette, await run(datasette))
    with contextlib.closing(sqlite3.connect(path)) as conn:
        conn.create_function(failures.ROW_KEY, -1, lambda *args: "")
        sql = f"explain query plan select 1 from papers where {query_.where}"
        plan = [row[-1] for row in conn.execute(sql, query_.params)]
    searches = [line for line in plan if "_enrichment_errors" in line]
    assert searches and all("job_id=? AND row_key>? AND row_key<?" in line for line in searches), plan
