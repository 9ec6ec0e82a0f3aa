"""Tables that enrichments have beside the enriched one: made with a history, never confused with a user's own."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from datasette_ingest import BatchOutcome, TableSpec, ViewSpec, compat
from datasette_ingest.ingest import schema as results
from datasette_ingest.jobs import owned_tables, schema
from datasette_ingest.jobs.model import JobStatus
from datasette_ingest.jobs.owned_tables import TableTaken, owned, source_of_shadow
from datasette_ingest.jobs.service import queries
from datasette_ingest.testing import run_until_idle

from ..conftest import ROOT, registered, rows, serving
from ..web.conftest import cookies_of
from .kit import by_batch, by_row, start, table, to_the_end

WORDS = TableSpec({"word": "text primary key", "n": "integer"})
LONG = ViewSpec(("words",), "select word from words where length(word) > 3")
BOTH = {"words": WORDS, "long_words": LONG}


@pytest.fixture
def conn() -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        yield connection


# ---- which ones are ours --------------------------------------------------------------------------------------------


def test_what_was_made_before_the_first_job_is_ours_and_no_other_shadow_table(conn: sqlite3.Connection) -> None:
    conn.execute("create table _enrichments_papers (id, note)")
    assert owned(conn) == []
    owned_tables.claim(conn, BOTH)
    assert set(owned(conn)) == set(BOTH)


def test_what_was_claimed_is_ours_and_what_a_user_made_is_not(conn: sqlite3.Connection) -> None:
    schema.migrate(conn)
    conn.execute("create table papers (id integer primary key)")
    conn.execute("create table file_meta (sha1hex text primary key, sha256hex, md5hex, size_bytes, mimetype)")
    conn.execute("create table _enrichments_papers (id, note)")
    owned_tables.claim(conn, {"Words": WORDS, "long_words": LONG})
    assert set(owned(conn)) == {*schema.TABLES, "Words", "long_words"}


def test_a_full_text_index_of_ours_is_ours_with_all_its_pieces(conn: sqlite3.Connection) -> None:
    schema.migrate(conn)
    owned_tables.claim(conn, {"words": WORDS})
    conn.execute("create virtual table Words_fts using fts5(word, content='words')")
    conn.execute("create table papers (title)")
    conn.execute("create virtual table papers_fts using fts5(title, content=[papers])")
    found = set(owned(conn)) - set(schema.TABLES)
    assert found >= {"words", "Words_fts", "Words_fts_data", "Words_fts_idx"}
    assert not [name for name in found if name.startswith("papers")]


def test_a_database_from_before_its_histories_keeps_its_shadow_tables_as_ours(conn: sqlite3.Connection) -> None:
    names = ", ".join(schema.ADOPTED["_enrichment_jobs"])
    conn.execute(f"create table _enrichment_jobs ({names})")
    conn.execute("insert into _enrichment_jobs (table_name) values ('Papers')")
    conn.execute("create table _enrichments_papers (id integer primary key)")
    conn.execute("create table _enrichments_other (id integer primary key)")
    assert set(owned(conn)) == {"_enrichment_jobs", "_enrichments_papers", "_enrichments_other"}
    schema.migrate(conn)
    assert set(owned(conn)) == {*schema.TABLES, "_enrichments_papers"}


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("_enrichments_papers", "papers"),
        ("_ENRICHMENTS_Papers", "Papers"),
        ("_enrichment_jobs", None),
        ("papers", None),
    ],
)
def test_a_shadow_table_names_its_source(name: str, source: str | None) -> None:
    assert source_of_shadow(name) == source


# ---- claiming -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        ("create table words (id integer primary key)", "table"),
        ("create table WORDS (word text primary key, n integer)", "table"),
        ("create view words as select 1 as word, 2 as n", "view"),
    ],
)
def test_a_users_own_table_is_refused_and_stays_as_it_was(conn: sqlite3.Connection, made: str, kind: str) -> None:
    conn.execute(made)
    schema.migrate(conn)
    before = list(conn.iterdump())
    with pytest.raises(TableTaken, match=rf"'words', but the database has a {kind} of that name that no enrichment"):
        owned_tables.claim(conn, {"others": WORDS, "words": WORDS})
    assert list(conn.iterdump()) == before


def test_a_table_that_took_the_place_of_ours_is_refused(conn: sqlite3.Connection) -> None:
    owned_tables.claim(conn, {"words": WORDS})
    conn.execute("drop table words")
    conn.execute("create table words (mine text)")
    with pytest.raises(TableTaken):
        owned_tables.claim(conn, {"words": WORDS})


def test_a_table_of_an_earlier_version_keeps_its_rows_and_gains_what_is_new(conn: sqlite3.Connection) -> None:
    schema.migrate(conn)
    owned_tables.claim(conn, {"words": WORDS})
    conn.execute("insert into words values ('one', 1)")
    owned_tables.claim(conn, {"words": TableSpec(WORDS.columns, later={"m002_note": {"note": "text"}})})
    assert conn.execute("select * from words").fetchall() == [("one", 1, None)]


def test_claiming_again_changes_nothing(conn: sqlite3.Connection) -> None:
    owned_tables.claim(conn, BOTH)
    before = list(conn.iterdump())
    owned_tables.claim(conn, BOTH)
    assert list(conn.iterdump()) == before


# ---- the engine's own names -----------------------------------------------------------------------------------------

TAKEN = [
    *(
        (name, f"create {kind.format(name=name)}")
        for name in (*schema.TABLES, "_sqlite_migrations", "_ENRICHMENT_Jobs", "_SQLITE_Migrations")
        for kind in (
            "table {name} (id integer primary key, name text, table_name text, applied_at text)",
            "view {name} as select 1 as id, 'x' as status",
            "virtual table {name} using fts5(id, status)",
            "index {name} on mine (id)",
        )
    ),
    ("_enrichment_jobs_status", "create index _enrichment_jobs_status on mine (id)"),
    ("_enrichment_errors_row", "create table _enrichment_errors_row (id)"),
    ("_enrichment_batches_DUE", "create view _enrichment_batches_DUE as select 1"),
    ("_enrichments_papers", "create view _enrichments_papers as select 1 as id"),
    ("_ENRICHMENTS_papers", "create virtual table _ENRICHMENTS_papers using rtree(id, low, high)"),
    ("_enrichments_papers", "create index _enrichments_papers on mine (id)"),
    ("words", "create virtual table Words using fts5(word, n)"),
    ("words", "create index Words on mine (id)"),
]


def contents(path: pathlib.Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(path)) as conn:
        return list(conn.iterdump())


@pytest.mark.parametrize(("name", "made"), TAKEN, ids=[made[:50] for _, made in TAKEN])
async def test_no_name_of_ours_is_taken_from_a_user_and_the_start_says_so(
    db_path: pathlib.Path, name: str, made: str
) -> None:
    table(db_path, "create table mine (id integer primary key)", made)
    before = contents(db_path)
    with registered(counting(output=lambda self, config: "shadow")):
        async with serving(db_path) as datasette:
            with pytest.raises(TableTaken, match=f"(?i)would write to '{name}'.* that no enrichment made"):
                await start(datasette)
            assert await queries.list_jobs(datasette, "data", actor=ROOT) == []
            assert await compat.read(datasette.get_database("data"), owned) == []
            await run_until_idle(datasette)
            for address in (
                "/-/ingest-jobs/data",
                "/-/ingest-jobs",
                "/data/papers",
                "/data",
                "/-/ingest/data/papers/e",
            ):
                answer = await datasette.client.get(address, cookies=cookies_of(datasette, ROOT))
                assert answer.status_code == 200, (address, answer.text)
    assert contents(db_path) == before


async def test_a_table_with_a_name_like_ours_is_neither_ours_nor_hidden(db_path: pathlib.Path) -> None:
    async with serving(db_path, plugin={"run_jobs": False}) as datasette:
        await start(datasette, enrichment="ingest", config={"url_column": "title"})
        table(db_path, "create table _enrichment_notes (id)", "create table _enrichments_notes (id)")
        found = await compat.read(datasette.get_database("data"), owned)
    assert set(found) == set(schema.TABLES)


# ---- in a job -------------------------------------------------------------------------------------------------------


def counting(**attributes: Any) -> Any:
    """An enrichment that counts titles in a table of its own."""

    def enrich(given: Any, pks: Any) -> BatchOutcome:
        sql = "insert into words values (?, 1) on conflict (word) do update set n = n + 1"
        return BatchOutcome(writes=[lambda conn: conn.executemany(sql, [(row["title"],) for row in given])])

    return by_batch(enrich, tables=lambda self, config: {"words": WORDS}, **attributes)


async def test_the_tables_stand_before_the_enrichment_begins(db_path: pathlib.Path) -> None:
    seen = []

    async def initialize(self: Any, db: Any) -> None:
        seen.append(await db.table_names())

    with registered(counting(initialize=initialize)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.outcomes) == (JobStatus.FINISHED, {"success": 5})
    assert "words" in seen[0]
    assert rows(db_path, "select count(*), sum(n) from words") == [(5, 5)]


async def test_a_job_over_a_users_own_table_is_refused_at_the_start(db_path: pathlib.Path) -> None:
    table(db_path, "create table words (id integer primary key)")
    with registered(counting()):
        async with serving(db_path) as datasette:
            with pytest.raises(TableTaken, match="Rename that table, then start the job again") as caught:
                await start(datasette)
    assert caught.value.status == 400
    assert rows(db_path, "select name from sqlite_master where name like '_enrichment%'") == []


async def test_a_table_that_appears_after_the_start_cancels_the_job_before_it_begins(db_path: pathlib.Path) -> None:
    asked = []
    with registered(counting(initialize=lambda self: asked.append(1))):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            table(db_path, "create table words (id integer primary key)")
            job = await to_the_end(datasette, job)
    assert job.status is JobStatus.CANCELLED and "This job would write to 'words'" in (job.cancel_reason or "")
    assert asked == [] and rows(db_path, "select * from words") == []


async def test_a_shadow_table_is_ours_and_a_users_own_of_that_name_refused(db_path: pathlib.Path) -> None:
    with registered(by_row(lambda row: {"copied": row["id"]}, output=lambda self, config: "shadow")):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
            assert job.status is JobStatus.FINISHED
            await start(datasette)
            table(
                db_path,
                "create table notes (id integer primary key, title text)",
                "create table _enrichments_notes (id integer primary key, mine text)",
            )
            with pytest.raises(TableTaken, match="'_enrichments_notes'"):
                await start(datasette, "notes")
            await start(datasette, "notes", options={"output": "columns"})


@pytest.mark.parametrize("name", [*results.RESULT_TABLES, *results.REQUEST_TABLES, *results.FILESET_TABLES])
async def test_an_ingest_job_never_writes_to_a_users_own_table(db_path: pathlib.Path, name: str) -> None:
    table(db_path, f"create table {name} (id integer primary key, note text)", f"insert into {name} values (1, 'x')")
    config = {"url_column": "title", "type_column": "title", "source_column": "title", "source_id_column": "id"}
    async with serving(db_path) as datasette:
        with pytest.raises(TableTaken, match=f"would write to '{name}'.* or give .* other names: set table_prefix"):
            await start(datasette, enrichment="ingest", config=config)
        job = await start(datasette, enrichment="ingest", config={**config, "table_prefix": "my_"})
        job = await to_the_end(datasette, job)
        assert (job.status, job.done_count) == (JobStatus.FINISHED, 5)
        found = await compat.read(datasette.get_database("data"), owned)
    assert rows(db_path, f"select * from {name}") == [(1, "x")]
    others = {*results.RESULT_TABLES, *results.REQUEST_TABLES, *results.FILESET_TABLES}
    assert {table.removeprefix("my_") for table in found if table.startswith("my_")} == others and not others & {*found}
    assert rows(db_path, "select count(*) from my_ingest_request") == [(5,)]
    names = {each for (each,) in rows(db_path, "select name from sqlite_master")}
    assert not names & ({*others, "idx_ingest_file_result_terminal_url"} - {name})


async def test_only_what_a_job_writes_is_asked_for(db_path: pathlib.Path) -> None:
    table(db_path, "create table ingest_request (mine)", "create table ingest_fileset (mine)")
    async with serving(db_path, plugin={"run_jobs": False}) as datasette:
        job = await start(datasette, enrichment="ingest", config={"url_column": "title"})
    assert job.status is JobStatus.PENDING
