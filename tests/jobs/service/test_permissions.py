"""The one check of who may see and enrich a table, in its own words and for names of any case."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from datasette_ingest import compat
from datasette_ingest.jobs import schema
from datasette_ingest.jobs.errors import BadSelection, NotAllowed, TableNotFound
from datasette_ingest.jobs.model import StartRequest
from datasette_ingest.jobs.service import control, permissions

from ...conftest import ROOT, registered, serving
from ..kit import by_row, table

READER = {"id": "reader"}


@pytest.fixture
def path(db_path):
    table(db_path, "create view recent as select * from papers", "create table notes (id integer primary key)")
    return db_path


@pytest.mark.parametrize("actor", [None, READER])
async def test_without_the_permission_there_is_nothing_to_find_out(path, actor):
    refusals = []
    async with serving(path) as datasette:
        for database, name in (("data", "papers"), ("data", "nosuch"), ("nosuch", "papers"), ("data", "recent")):
            with pytest.raises(NotAllowed) as caught:
                await permissions.require_table(datasette, actor, database, name)
            refusals.append(caught.value.message)
            assert not await permissions.is_enrichable(datasette, actor, database, name)
    assert len(set(refusals)) == 1
    assert refusals[0].startswith("Sign in first") is (actor is None)


async def test_with_the_permission_a_hidden_table_and_a_missing_one_look_the_same(path):
    private = {"data": {"tables": {"papers": {"allow": {"id": "root"}}}}}
    async with serving(path, databases=private, plugin={"allow": {"id": "reader"}}) as datasette:
        for name in ("papers", "PAPERS", "nosuch"):
            with pytest.raises(TableNotFound) as caught:
                await permissions.require_table(datasette, READER, "data", name)
            expected = f"There is no table {name} in data. Check its name on the page of the database"
            assert (caught.value.status, caught.value.message) == (404, expected)
        assert not await permissions.may_see_jobs(datasette, READER, "data", "papers")
        assert await permissions.may_see_jobs(datasette, READER, "data", "notes")


async def test_a_table_is_found_in_any_case_and_has_its_own_spelling_and_columns(path):
    async with serving(path) as datasette:
        found = await permissions.require_table(datasette, ROOT, "data", "PAPERS")
    assert (found.db.name, found.name, found.columns) == ("data", "papers", ("id", "title"))


async def test_a_view_and_an_immutable_database_are_refused_with_the_reason(path):
    async with serving(path) as datasette:
        with pytest.raises(BadSelection, match="recent is a view") as caught:
            await permissions.require_table(datasette, ROOT, "data", "recent")
        assert caught.value.status == 400
    frozen = compat.open_datasette([], immutables=[str(path)])
    if hasattr(frozen, "root_enabled"):
        frozen.root_enabled = True
    await frozen.invoke_startup()
    try:
        with pytest.raises(BadSelection, match="immutable"):
            await permissions.require_table(frozen, ROOT, "data", "papers")
    finally:
        compat.close(frozen)


CANNOT = {
    "recent": "is a view",
    "words": "is a virtual table",
    "words_content": "is a part of a virtual table",
    "words_data": "is a part of a virtual table",
    "old": "is a virtual table",
    "old_segdir": "is a part of a virtual table",
    "places": "is a virtual table",
    "places_node": "is a part of a virtual table",
    "SQLITE_SEQUENCE": "belongs to SQLite",
    "_enrichment_jobs": "holds what this plugin knows of its jobs",
    "_Enrichment_Batches": "holds what this plugin knows of its jobs",
    "_enrichment_cache": "holds what this plugin knows of its jobs",
    "_sqlite_migrations": "holds what this plugin knows of its jobs",
}
CAN = ["papers", "notes", "words_of_mine", "old_shelf", "_enrichment_notes", "sqlitedata", "counted"]


@pytest.mark.parametrize("is_told_by_sqlite", [True, False])
async def test_only_ordinary_tables_can_be_enriched(path, monkeypatch, is_told_by_sqlite):
    if not is_told_by_sqlite:
        monkeypatch.setattr(permissions.sqlite3, "sqlite_version_info", (3, 36, 0))
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.executescript("""
            create virtual table words using fts5 (word); create virtual table old using fts4 (word);
            create virtual table places using rtree (id, low, high);
            create table words_of_mine (id integer primary key); create table old_shelf (id integer primary key);
            create table counted (id integer primary key autoincrement); create table _enrichment_notes (id integer);
            create table sqlitedata (id integer primary key); create index n on counted (id);
            insert into counted default values;
        """)
        schema.migrate(conn)
    async with serving(path) as datasette:
        said = {name: await _why_not(datasette, name) for name in CANNOT}
        assert {name: said[name] for name in CANNOT if CANNOT[name] not in str(said[name])} == {}
        assert {name: await _why_not(datasette, name) for name in CAN} == dict.fromkeys(CAN)
        cookies = {"ds_actor": datasette.sign({"a": ROOT}, "actor")}
        for name in ("words", "words_data", "_enrichment_jobs", "recent", "notes"):
            page = await datasette.client.get(f"/data/{name}", cookies=cookies)
            assert page.status_code in (200, 403)  # the 1.0 line shows nobody the parts of a virtual table
            assert ("Enrich selected rows" in page.text) is (name == "notes")
            sent = {"Sec-Fetch-Site": "same-origin"}
            body = {"table": name, "enrichment": "ingest"}
            posted = await datasette.client.post("/-/ingest-jobs/data", json=body, cookies=cookies, headers=sent)
            assert posted.status_code == 400
            if name != "notes":
                assert posted.json()["error"].startswith(name)


async def _why_not(datasette, name):
    try:
        await permissions.require_table(datasette, ROOT, "data", name)
    except BadSelection as problem:
        assert problem.status == 400
        return problem.message
    return None


async def test_one_start_asks_for_permission_once(path, monkeypatch):
    asked = []

    async def can_enrich(datasette, actor, database, name):
        asked.append(name)
        return True

    monkeypatch.setattr(compat, "can_enrich", can_enrich)
    with registered(by_row(lambda row: None)):
        async with serving(path) as datasette:
            await control.start(datasette, "data", StartRequest("PAPERS", "e", "id=1", actor=ROOT))
    assert asked == ["papers"]
