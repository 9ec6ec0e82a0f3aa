"""A job knows the key of its table as it was added, and gives up with the reason where it finds another one."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import sqlite3
from typing import Any

import pytest
import sqlite_utils

from datasette_ingest.jobs import keyset
from datasette_ingest.jobs.engine.complete import complete
from datasette_ingest.jobs.errors import BadSelection
from datasette_ingest.jobs.model import BatchOutcome, JobStatus
from datasette_ingest.jobs.service import control

from ..conftest import ROOT, registered, rows, serving
from .kit import by_row, look, start, table, to_the_end

COPY_OF = "insert into papers select id, title from old"


def anew(definition: str) -> list[str]:
    """Make the table again, with another definition and the same rows."""
    return ["alter table papers rename to old", f"create table papers {definition}", COPY_OF, "drop table old"]


OTHER_KEYS = {
    "text instead of a number": anew("(id text primary key, title text)"),
    "another column": anew("(id integer, title text primary key)"),
    "no key": anew("(id integer, title text)"),
    "a second column": anew("(id integer, title text, primary key (id, title))"),
    "without rowid": anew("(id integer primary key, title text) without rowid"),
    "an index beside the rowid": anew("(id int primary key, title text)"),
    "descending": anew("(id integer primary key desc, title text)"),
    "strict": anew("(id integer primary key, title text) strict"),
    "renamed": ["alter table papers rename column id to number"],
}


@pytest.mark.parametrize("statements", OTHER_KEYS.values(), ids=list(OTHER_KEYS))
@pytest.mark.parametrize("when", ["paused", "running"])
async def test_a_job_that_finds_another_key_is_cancelled_with_the_reason(
    db_path: pathlib.Path, statements: list[str], when: str
) -> None:
    given: list[Any] = []

    async def enrich(row: Any) -> Any:
        given.append(row["title"])
        if len(given) == 2:
            if when == "running":
                await asyncio.to_thread(table, db_path, *statements)
            else:
                await control.pause(datasette, "data", job.id, actor=ROOT)
        return {"copied": 1}

    with registered(by_row(enrich, batch_size=1, max_open_batches=1)):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            await to_the_end(datasette, job)
            if when == "paused":
                table(db_path, "alter table papers drop column copied", *statements)
                await control.resume(datasette, "data", job.id, actor=ROOT)
            job = await to_the_end(datasette, job)
    assert job.status is JobStatus.CANCELLED and given == ["paper 1", "paper 2"]
    assert job.cancel_reason is not None
    assert "The key of 'papers' has changed since the job was added" in job.cancel_reason
    assert 'It was ("id" INTEGER, alias of the rowid) and is (' in job.cancel_reason
    assert rows(db_path, "select count(*) from _enrichment_batches") == [(0,)]


SAME_KEY = {
    "a column more": lambda db: db["papers"].add_column("more", str),
    "made again by sqlite-utils": lambda db: db["papers"].transform(types={"title": bytes}),
    "another name of the same affinity": lambda db: db["papers"].transform(column_order=["title", "id"]),
    "an index": lambda db: db["papers"].create_index(["title"]),
    "vacuum": lambda db: db.vacuum(),
}


@pytest.mark.parametrize("change", SAME_KEY.values(), ids=list(SAME_KEY))
async def test_a_change_that_leaves_the_key_is_no_fault(db_path: pathlib.Path, change: Any) -> None:
    given: list[int] = []

    async def enrich(row: Any) -> Any:
        given.append(row["id"])
        if len(given) == 2:
            await control.pause(datasette, "data", job.id, actor=ROOT)
        return {"copied": 1}

    with registered(by_row(enrich, batch_size=1, max_open_batches=1)):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            await to_the_end(datasette, job)
            with contextlib.closing(sqlite_utils.Database(db_path)) as db:
                change(db)
            await control.resume(datasette, "data", job.id, actor=ROOT)
            job = await to_the_end(datasette, job)
    assert (job.status, job.error_count) == (JobStatus.FINISHED, 0)
    assert sorted(set(given)) == [1, 2, 3, 4, 5]
    assert rows(db_path, "select count(*) from papers where copied = 1") == [(5,)]


async def test_a_collation_that_changes_is_another_key(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "data.db"
    table(path, "create table papers (id text primary key)", "insert into papers values ('a'), ('B'), ('c')")

    async def enrich(row: Any) -> Any:
        if row["id"] == "B":
            await control.pause(datasette, "data", job.id, actor=ROOT)
        return {"copied": 1}

    with registered(by_row(enrich, batch_size=1, max_open_batches=1)):
        async with serving(path) as datasette:
            job = await start(datasette)
            await to_the_end(datasette, job)
            table(
                path,
                "create table new (id text collate nocase primary key)",
                "insert into new select id from papers",
                "drop table papers",
                "alter table new rename to papers",
            )
            await control.resume(datasette, "data", job.id, actor=ROOT)
            job = await to_the_end(datasette, job)
    assert job.status is JobStatus.CANCELLED
    assert '("id" TEXT collate "binary") and is ("id" TEXT collate "nocase")' in str(job.cancel_reason)


async def test_a_job_of_an_earlier_version_takes_the_key_that_it_finds(db_path: pathlib.Path) -> None:
    with registered(by_row(lambda row: {"copied": 1})):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            table(db_path, "update _enrichment_jobs set table_key = null")
            job = await to_the_end(datasette, job)
    assert (job.status, job.table_key) == (JobStatus.FINISHED, '"id" INTEGER, alias of the rowid')


async def test_an_answer_from_outside_to_rows_of_another_key_is_refused(db_path: pathlib.Path) -> None:
    import datetime

    from datasette_ingest import Defer

    def enrich(row: Any) -> Any:
        raise Defer(datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc), "asked", ticket=f"t{row['id']}")

    with registered(by_row(enrich, batch_size=1)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
            table(db_path, *OTHER_KEYS["text instead of a number"])
            with pytest.raises(BadSelection, match="The key of 'papers' has changed"):
                await complete(datasette, "data", "t1", BatchOutcome())
            assert (await look(datasette, job)).done_count == 0


@pytest.mark.parametrize(
    "definition, described",
    [
        ("(a)", "the rowid"),
        ("(A integer primary key)", '"a" INTEGER, alias of the rowid'),
        ("(a integer primary key desc)", '"a" INTEGER collate "binary" desc'),
        ("(a varchar(9) primary key)", '"a" TEXT collate "binary"'),
        (
            "(b decimal, a clob collate rtrim, primary key (a desc, b)) without rowid",
            '"a" TEXT collate "rtrim" desc, "b" NUMERIC collate "binary", WITHOUT ROWID',
        ),
        ("(a any primary key, b blob) strict", '"a" NUMERIC collate "binary", STRICT'),
    ],
)
def test_a_key_in_words(definition: str, described: str) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        conn.execute(f"create table t {definition}")
        assert keyset.describe(conn, "t") == described


@pytest.mark.parametrize(
    "declared", ["int", "varchar(9)", "native character(70)", "clob", "blob", "", "double", "float", "decimal(10,5)"]
)
def test_the_affinity_of_a_type_is_sqlites(declared: str) -> None:
    kept = {"INTEGER": "integer", "NUMERIC": "integer", "REAL": "real", "TEXT": "text", "BLOB": "text"}
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        conn.execute(f"create table t (a {declared})")
        conn.execute("insert into t values ('1')")
        assert conn.execute("select typeof(a) from t").fetchone()[0] == kept[keyset.affinity(declared)]


# ---- errors of a job whose table has another key since ------------------------------------------------------------

OTHER_ROWS = {
    "a key for a table without one": ("n integer, k integer", "k"),
    "no key any more": ("n integer, k integer primary key", None),
    "another key": ("n integer, k integer primary key", "n"),
    "another type": ("n integer, k text primary key", {"k": int}),
}


@pytest.mark.parametrize("made, change", OTHER_ROWS.values(), ids=list(OTHER_ROWS))
async def test_errors_never_name_the_rows_of_another_key(tmp_path: pathlib.Path, made: str, change: Any) -> None:
    """Their keys may be those of other rows now: none is shown, selected or tried again in their place."""
    path, given = tmp_path / "data.db", []
    table(path, f"create table papers ({made})", "insert into papers (n, k) values (10, 2), (20, 3), (3, 1)")

    def enrich(row: Any) -> Any:
        given.append(row["n"])
        if row["n"] == 20:
            raise ValueError("not twenty")
        return {"copied": row["n"]}

    with registered(by_row(enrich)):
        async with serving(path) as datasette:
            cookies = {"ds_actor": datasette.sign({"a": ROOT}, "actor")}

            async def get(address: str) -> Any:
                return await datasette.client.get(address, cookies=cookies)

            job = await to_the_end(datasette, await start(datasette))
            for page in ("/data/papers?_ingest_failed=1", "/-/ingest-jobs/data/1/missed.csv"):
                assert (await get(page)).status_code == 200
            with contextlib.closing(sqlite_utils.Database(path)) as db:
                db["papers"].transform(**({"types": change} if isinstance(change, dict) else {"pk": change}))
            for page in ("/data/papers?_ingest_failed=1", "/-/ingest-jobs/data/1/missed.csv"):
                refused = await get(page)
                assert refused.status_code == 400 and "has changed since the job was added" in refused.text
            for page in ("/-/ingest-jobs/data/1", "/-/ingest-jobs/data/1/errors"):
                shown = await get(page)
                assert (
                    shown.status_code == 200 and "not twenty" in shown.text and 'href="/data/papers/' not in shown.text
                )
            given.clear()
            with pytest.raises(BadSelection, match="The key of 'papers' has changed since the job was added"):
                await control.retry(datasette, "data", job.id, actor=ROOT, scope="errors")
    assert given == []
