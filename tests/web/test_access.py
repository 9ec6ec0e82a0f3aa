"""Who may enrich, and who may read what enriching wrote. Asked over HTTP, as a visitor would."""

from __future__ import annotations

import asyncio
import contextvars
import sqlite3
from typing import Any

import pytest
from click.testing import CliRunner
from datasette.cli import cli as datasette_cli

from datasette_ingest import Enrichment, TableSpec, ViewSpec, compat
from datasette_ingest.testing import run_until_idle
from datasette_ingest.web import access

from ..conftest import registered
from .conftest import READER, ROOT, get, post_json, start

PRIVATE_WORDS = {"databases": {"words": {"tables": {"words": {"allow": {"id": "root"}}}}}}
RESULTS = {
    "ingest_request": "create table ingest_request (ingest_type text, base_url text)",
    "ingest_fulltext": "create table ingest_fulltext (id integer primary key, sha1hex text unique, text text)",
    "ingest_fulltext_fts": "create virtual table ingest_fulltext_fts using fts5(text, content='ingest_fulltext')",
    "cdx": "create table cdx (url text, datetime text, sha1hex text, cdx_sha1hex text, warc_path text)",
    "ingest_hits": "create view ingest_hits as select base_url from ingest_request",
    "_enrichments_words": "create table _enrichments_words (id integer primary key, shouted text)",
}
MADE = [name for name in RESULTS if name != "ingest_fulltext_fts"]
"""Those that have a history; an index belongs to its table."""
OURS = [*RESULTS, "_enrichment_jobs", "_enrichment_batches", "_enrichment_errors"]
INDEX_PARTS = ["ingest_fulltext_fts_data", "ingest_fulltext_fts_idx"]
"""Where full text is kept in pieces; the 1.0 line shows them to nobody."""


def plugin(**settings: Any) -> dict[str, Any]:
    return {"plugins": {"datasette-ingest": {"run_jobs": False, **settings}}}


def run(datasette: Any, *statements: str, database: str = "words") -> None:
    conn = sqlite3.connect(datasette.databases[database].path)
    for statement in statements:
        conn.execute(statement)
    conn.commit()
    conn.close()


async def with_results(open_ds: Any, config: dict[str, Any]) -> Any:
    datasette = await open_ds(config)
    await start(datasette)
    run(datasette, *RESULTS.values(), *map(history_of, MADE))
    return datasette


def history_of(table: str) -> str:
    """SQL that makes the table one of ours."""
    return f"insert into _sqlite_migrations (migration_set, name) values ('datasette_ingest.{table}', 'm001_create')"


async def status(datasette: Any, table: str, actor: Any = None) -> int:
    response = await get(datasette, datasette.urls.table("words", table) + ".json", actor)
    return response.status_code


# ---- who may read the results -----------------------------------------------------------------------------------


async def test_on_an_open_instance_everyone_reads_the_results(open_ds):
    ds = await with_results(open_ds, plugin())
    assert {table: await status(ds, table) for table in OURS} == dict.fromkeys(OURS, 200)


async def test_what_is_learnt_from_a_private_table_is_private(open_ds):
    ds = await with_results(open_ds, plugin() | PRIVATE_WORDS)
    closed = [*OURS, *INDEX_PARTS]
    assert {table: await status(ds, table) for table in closed} == dict.fromkeys(closed, 403)
    assert {table: await status(ds, table, READER) for table in closed} == dict.fromkeys(closed, 403)
    assert {table: await status(ds, table, ROOT) for table in OURS} == dict.fromkeys(OURS, 200)


async def test_our_names_are_not_even_listed_to_whoever_may_not_read_them(open_ds):
    # who may execute SQL is given every column's name by Datasette's SQL editor
    ds = await with_results(open_ds, plugin() | PRIVATE_WORDS | {"allow_sql": False})
    for page in ("/words.json", "/words", "/", "/.json"):
        shown = (await get(ds, page, READER)).text
        assert not [name for name in OURS if name in shown]


async def test_a_name_in_other_letters_is_the_same_table(open_ds):
    ds = await with_results(open_ds, plugin() | PRIVATE_WORDS)
    for table in ("_ENRICHMENT_JOBS", "Ingest_Request", "CDX", "_Enrichments_WORDS", "INGEST_hits"):
        assert await status(ds, table) in (403, 404)
        response = await get(ds, f"/words/{table}", READER)
        assert response.status_code in (403, 404)


async def test_publish_results_opens_them(open_ds):
    ds = await with_results(open_ds, plugin(publish_results=True) | PRIVATE_WORDS)
    assert {table: await status(ds, table) for table in OURS} == dict.fromkeys(OURS, 200)
    assert await status(ds, "words") == 403


@pytest.mark.parametrize(
    ("filters", "code"),
    [("''", 200), ("null", 200), ("'where__exact=1'", 200), ("'year=1&_where=1%3D1'", 403), ("'note=_where'", 200)],
)
async def test_a_persons_sql_is_found_among_the_filters_of_any_job(open_ds, filters, code):
    ds = await open_ds(plugin() | {"databases": {"words": {"allow_sql": {"id": "root"}}}})
    await start(ds)
    run(ds, f"insert into _enrichment_jobs (status, table_name, filter_querystring) values ('x', 'words', {filters})")
    assert await status(ds, "_enrichment_jobs", READER) == code


async def test_sql_that_is_stored_with_a_job_is_for_those_who_may_execute_sql(open_ds):
    ds = await open_ds(plugin() | {"databases": {"words": {"allow_sql": {"id": "root"}}}})
    await start(ds, filters="year__gte=2003")
    assert await status(ds, "_enrichment_jobs", READER) == 200
    await start(ds, filters="_where=word+in+(select+word+from+words)")
    assert await status(ds, "_enrichment_jobs", READER) == 403
    assert await status(ds, "_enrichment_errors", READER) == 200
    assert await status(ds, "_enrichment_jobs", ROOT) == 200


async def test_a_private_database_or_instance_keeps_its_results(open_ds):
    for config in ({"databases": {"words": {"allow": {"id": "root"}}}}, {"allow": {"id": "root"}}):
        ds = await open_ds(plugin() | config)
        await start(ds)
        assert await status(ds, "_enrichment_jobs", READER) == 403
        assert await status(ds, "_enrichment_jobs", ROOT) == 200


async def test_results_outlive_their_private_source_as_private(open_ds):
    ds = await with_results(open_ds, plugin() | PRIVATE_WORDS)
    run(ds, "drop view quiet", "drop table words")
    assert {table: await status(ds, table) for table in OURS} == dict.fromkeys(OURS, 403)


async def test_one_private_source_closes_the_shared_tables_but_not_anothers_shadow(open_ds):
    ds = await with_results(open_ds, plugin() | PRIVATE_WORDS)
    run(ds, "create table open_words (id integer primary key, word text)")
    await start(ds, table="open_words")
    name = "_enrichments_open_words"
    run(ds, f"create table {name} (id integer primary key, shouted text)", history_of(name))
    assert await status(ds, "_enrichments_open_words") == 200
    assert await status(ds, "_enrichments_words") == 403
    assert await status(ds, "_enrichment_jobs") == 403


async def test_a_job_over_a_table_of_ours_does_not_ask_in_circles(open_ds):
    ds = await with_results(open_ds, plugin())
    await start(ds, table="ingest_request", config={"column": "base_url"})
    assert await status(ds, "ingest_request") == 200
    closed = await open_ds(plugin() | PRIVATE_WORDS)
    assert await status(closed, "ingest_request") == 403
    assert await status(closed, "ingest_request", ROOT) == 200


async def test_a_table_of_ours_that_is_itself_private_closes_the_others_when_it_was_a_source(open_ds):
    secret = {"databases": {"words": {"tables": {"ingest_request": {"allow": {"id": "root"}}}}}}
    ds = await with_results(open_ds, plugin() | secret)
    assert await status(ds, "cdx") == 200
    await start(ds, table="ingest_request", config={"column": "base_url"})
    assert await status(ds, "cdx") == 403
    assert await status(ds, "cdx", ROOT) == 200


async def test_a_users_own_table_of_any_name_stays_open(open_ds):
    ds = await open_ds(plugin() | PRIVATE_WORDS)
    names = ["cdx", "file_meta", "ingest_file_result", "ingest_fulltext", "_enrichments_words", "ingest_hits"]
    run(ds, *(f"create table {name} (url text, note text)" for name in names))
    assert {table: await status(ds, table) for table in names} == dict.fromkeys(names, 200)
    await start(ds)
    assert {table: await status(ds, table) for table in names} == dict.fromkeys(names, 200)
    assert await status(ds, "_enrichment_jobs") == 403


async def test_the_tables_of_a_strangers_enrichment_are_as_private_as_ours(open_ds):
    class Counting(Enrichment):
        slug, name = "count", "Count"

        def tables(self, config: Any) -> dict[str, TableSpec | ViewSpec]:
            return {"tally": TableSpec({"word": "text"}), "top": ViewSpec(("tally",), "select word from tally")}

        async def enrich_row(self, row: Any, config: Any) -> None:
            return None

    with registered(Counting()):
        ds = await open_ds(plugin() | PRIVATE_WORDS)
        await start(ds, enrichment="count", config={})
        await run_until_idle(ds)
        assert [await status(ds, name, READER) for name in ("tally", "top")] == [403, 403]
        assert [await status(ds, name, ROOT) for name in ("tally", "top")] == [200, 200]
    uninstalled = await open_ds(plugin() | PRIVATE_WORDS)
    assert [await status(uninstalled, name, READER) for name in ("tally", "top")] == [403, 403]


async def test_an_immutable_database_keeps_what_it_held(open_ds, tmp_path):
    ds = await with_results(open_ds, plugin() | PRIVATE_WORDS)
    assert await status(ds, "_enrichment_jobs") == 403
    frozen = await open_ds(plugin() | PRIVATE_WORDS, paths=[], immutables=[str(tmp_path / "words.db")])
    assert await status(frozen, "_enrichment_jobs") == 403
    assert await status(frozen, "_enrichment_jobs", ROOT) == 200


async def test_through_and_labels_do_not_open_a_closed_table(open_ds):
    ds = await with_results(open_ds, plugin() | PRIVATE_WORDS)
    run(
        ds,
        "create table notes (id integer primary key, job integer references _enrichment_jobs(id))",
        "insert into notes values (1, 1)",
    )
    through = '{"table":"_enrichment_batches","column":"leased_by","value":"x"}'
    response = await ds.client.get("/words/_enrichment_jobs.json", params={"_through": through})
    assert response.status_code == 403
    shown = (await get(ds, "/words/notes.json?_labels=on&_shape=objects", READER)).text
    assert "shout" not in shown


async def test_underscored_tables_are_listed_as_hidden(open_ds):
    ds = await with_results(open_ds, plugin())
    tables = {table["name"]: table["hidden"] for table in (await get(ds, "/words.json", ROOT)).json()["tables"]}
    assert tables["words"] is False
    assert [name for name in tables if name.startswith("_enrichment") and not tables[name]] == []
    assert "_enrichment_jobs" in tables


async def test_a_request_finds_out_once_and_the_next_one_again(open_ds, monkeypatch):
    ds = await open_ds(plugin())
    asked = []

    async def counting(datasette, actor, database):
        asked.append((actor, database))
        return []

    async def app(scope, receive, send):
        for actor in (None, READER, READER, None):
            await access.hidden_from(ds, actor, "words")

    monkeypatch.setattr(access, "_hidden_from", counting)
    middleware = access.remembering(app)
    await middleware({"type": "http"}, None, None)
    assert asked == [(None, "words"), (READER, "words")]
    await middleware({"type": "http"}, None, None)
    assert len(asked) == 4
    await middleware({"type": "lifespan"}, None, None)
    assert len(asked) == 8


async def test_a_task_that_outlives_its_request_asks_again(open_ds, monkeypatch):
    ds = await open_ds(plugin())
    asked, left = [], []

    async def counting(datasette, actor, database):
        asked.append(database)
        return []

    async def app(scope, receive, send):
        await access.hidden_from(ds, None, "words")
        left.append(contextvars.copy_context())

    monkeypatch.setattr(access, "_hidden_from", counting)
    await access.remembering(app)({"type": "http"}, None, None)
    await left[0].run(asyncio.ensure_future, access.hidden_from(ds, None, "words"))
    assert len(asked) == 2


# ---- who may write to the engine's tables (1.0 only: the 0.65 line has no write API) -------------------------------


@pytest.fixture
async def writable(open_ds):
    writer = {"id": ["writer", "root"]}  # what a block leaves out it denies, even to root
    actions = ("insert-row", "update-row", "delete-row", "alter-table", "drop-table", "set-column-type", "enrich-table")
    ds = await open_ds(plugin() | {"permissions": dict.fromkeys(actions, writer)})
    if not compat.is_1_0(ds):
        pytest.skip("this Datasette line has no write API")
    await start(ds)
    return ds


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/-/insert", {"row": {"status": "finished"}}),
        ("/-/upsert", {"rows": [{"id": 1, "status": "finished"}]}),
        ("/1/-/update", {"update": {"status": "finished"}}),
        ("/1/-/delete", {}),
        ("/-/alter", {"operations": [{"op": "add_column", "args": {"name": "x", "type": "text"}}]}),
        ("/-/drop", {"confirm": True}),
    ],
)
async def test_nobody_but_root_writes_to_the_engines_tables(writable, path, body):
    for table in ("_enrichment_jobs", "_ENRICHMENT_jobs"):
        response = await post_json(writable, f"/words/{table}{path}", body, {"id": "writer"})
        assert response.status_code in (403, 404)
    response = await post_json(writable, "/words/words/-/insert", {"row": {"word": "x"}}, {"id": "writer"})
    assert response.status_code == 201


async def test_root_may_write_to_the_engines_tables(writable):
    response = await post_json(writable, "/words/_enrichment_jobs/1/-/update", {"update": {"actor_id": "x"}}, ROOT)
    assert response.status_code == 200


async def test_every_table_action_that_writes_is_guarded(writable):
    from datasette.resources import TableResource

    guarded = [
        name
        for name, action in writable.actions.items()
        if action.resource_class is TableResource and name != "view-table"
    ]
    assert {"insert-row", "drop-table", "enrich-table"} <= set(guarded)
    for action in guarded:
        for actor, allowed in (({"id": "writer"}, False), (ROOT, True)):
            resource = TableResource("words", "_enrichment_errors")
            assert await writable.allowed(action=action, resource=resource, actor=actor) is allowed


# ---- who may enrich ---------------------------------------------------------------------------------------------


def allow_in(level: str, block: Any) -> dict[str, Any]:
    own = {"plugins": {"datasette-ingest": {"allow": block}}}
    return {
        "instance": own,
        "database": {"databases": {"words": own}},
        "table": {"databases": {"words": {"tables": {"words": own}}}},
    }[level]


@pytest.mark.parametrize("level", ["instance", "database", "table"])
async def test_the_allow_setting_grants_at_every_level(open_ds, level):
    ds = await open_ds(allow_in(level, {"id": "reader"}))
    assert await compat.can_enrich(ds, READER, "words", "words")
    assert await compat.can_enrich(ds, ROOT, "words", "words")
    assert not await compat.can_enrich(ds, {"id": "other"}, "words", "words")
    assert not await compat.can_enrich(ds, None, "words", "words")
    assert await compat.can_enrich(ds, READER, "words", "other") is (level != "table")


async def test_a_narrower_allow_block_replaces_a_wider_one(open_ds):
    wide, narrow = allow_in("instance", {"id": "*"}), allow_in("table", {"id": "reader"})
    ds = await open_ds(wide | narrow)
    assert await compat.can_enrich(ds, READER, "words", "words")
    assert not await compat.can_enrich(ds, {"id": "other"}, "words", "words")
    assert await compat.can_enrich(ds, {"id": "other"}, "words", "else")
    assert await compat.can_enrich(ds, ROOT, "words", "words")


async def test_an_allow_block_finds_its_table_in_any_letters(open_ds):
    for spelt in ("words", "WORDS", "Words"):
        block = {"plugins": {"datasette-ingest": {"allow": {"id": "reader"}}}}
        ds = await open_ds({"databases": {"words": {"tables": {spelt: block}}}})
        for asked in ("words", "WORDS", "wordS"):
            assert await compat.can_enrich(ds, READER, "words", asked)
            assert not await compat.can_enrich(ds, {"id": "other"}, "words", asked)


async def test_of_several_blocks_of_one_table_each_must_let_an_actor_in(open_ds):
    def block(allow: Any) -> dict[str, Any]:
        return {"plugins": {"datasette-ingest": {"allow": allow}}}

    both = {"id": ["reader", "other"]}
    for first, second in ((both, {"id": "reader"}), ({"id": "reader"}, both), (False, both), (both, {})):
        tables = {"words": block(first), "Words": block(second)}
        ds = await open_ds(allow_in("instance", {"id": "*"}) | {"databases": {"words": {"tables": tables}}})
        assert await compat.can_enrich(ds, READER, "words", "words") is ({"id": "reader"} in (first, second))
        assert not await compat.can_enrich(ds, {"id": "other"}, "words", "words")
        assert await compat.can_enrich(ds, {"id": "other"}, "words", "else")


async def test_other_letters_are_other_tables_beyond_ascii(open_ds):
    ds = await open_ds(
        {"databases": {"words": {"tables": {"wörds": {"plugins": {"datasette-ingest": {"allow": True}}}}}}}
    )
    assert await compat.can_enrich(ds, None, "words", "wörds")
    assert await compat.can_enrich(ds, None, "words", "WöRDS")
    assert not await compat.can_enrich(ds, None, "words", "WÖRDS")


async def test_without_a_setting_only_root_enriches(ds):
    assert await compat.can_enrich(ds, ROOT, "words", "words")
    assert not await compat.can_enrich(ds, READER, "words", "words")
    assert not await compat.can_enrich(ds, None, "words", "words")


@pytest.mark.parametrize("block", [False, {}, None])
async def test_an_allow_that_lets_nobody_in_lets_nobody_in(open_ds, block):
    ds = await open_ds(allow_in("instance", block))
    assert not await compat.can_enrich(ds, READER, "words", "words")
    assert await compat.can_enrich(ds, ROOT, "words", "words")


async def test_the_0_65_answer_is_never_false_for_enrich_table(open_ds):
    ds = await open_ds(allow_in("instance", {"id": "reader"}))
    for actor in (None, READER, ROOT, {"id": "other"}):
        answer = await access.grant_enrich_table(ds, actor, "enrich-table", ("words", "words"))
        assert answer in (None, True)
        assert await access.grant_enrich_table(ds, actor, "view-table", ("words", "words")) is None


async def test_the_main_menu_points_to_the_jobs_for_whoever_may_enrich_anything(open_ds):
    for level in ("instance", "database", "table"):
        ds = await open_ds(allow_in(level, {"id": "reader"}))
        assert await access.may_enrich_somewhere(ds, READER)
        assert await access.may_enrich_somewhere(ds, ROOT)
        assert not await access.may_enrich_somewhere(ds, {"id": "other"})
        assert not await access.may_enrich_somewhere(ds, None)


# ---- rows of a table that were loaded as requests ------------------------------------------------------------------

LOADED = ["ingest_request", "ingest_pending", "ingest_hits", "ingest_file_result", "_enrichment_loaded"]


async def load(datasette: Any, sql: str) -> None:
    arguments = ["ingest", "load", datasette.databases["words"].path, "--sql", sql, "--source", "words"]
    done = await asyncio.to_thread(CliRunner().invoke, datasette_cli, arguments)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize(
    "sql",
    [
        "select id, 'http://h/' || word as url from words",
        "select 1 as id, 'http://h/' || count(*) as url from WORDS",
        "with w as (select word from seen) select word as id, 'http://h/' || word as url from w",
        "select 1 as id, 'http://h/1' as url where exists (select 1 from words)",
        "select id, 'http://h/' || s as url from (select rowid as id, s from words_fts where s match 'o*')",
    ],
)
async def test_rows_of_a_private_table_are_private_as_requests(open_ds, sql):
    ds = await open_ds(plugin() | PRIVATE_WORDS)
    run(
        ds,
        "create view seen as select * from words",
        "create virtual table words_fts using fts5(s)",
        "insert into words_fts select word from words",
    )
    await load(ds, sql)
    closed = dict.fromkeys(LOADED, 200 if "words_fts" in sql else 403)
    assert {table: await status(ds, table) for table in LOADED} == closed
    assert {table: await status(ds, table, ROOT) for table in LOADED} == dict.fromkeys(LOADED, 200)


async def test_requests_of_a_private_table_stay_private_after_a_job_over_them(open_ds):
    ds = await open_ds(plugin() | PRIVATE_WORDS)
    await load(ds, "select id, 'http://h/' || word as url from words")
    await start(ds, table="ingest_request", config={"column": "base_url"})
    assert {table: await status(ds, table, READER) for table in LOADED} == dict.fromkeys(LOADED, 403)


async def test_what_was_loaded_from_a_public_table_is_public_and_only_root_writes_our_own_tables(open_ds):
    ds = await open_ds(plugin())
    await load(ds, "select id, 'http://h/' || word as url from words")
    await load(ds, "select source_id as id, base_url as url from ingest_request")
    assert {table: await status(ds, table) for table in LOADED} == dict.fromkeys(LOADED, 200)
