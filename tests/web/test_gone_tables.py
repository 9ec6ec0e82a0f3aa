"""What was learnt from a table stays as private as the table was, when the table is dropped or renamed."""

from __future__ import annotations

from typing import Any

import pytest

from datasette_ingest import compat
from datasette_ingest.jobs.service import control, queries
from datasette_ingest.testing import run_until_idle

from .conftest import READER, ROOT, get, start
from .test_access import OURS, PRIVATE_WORDS, plugin, run, status, with_results

CURATOR = {"id": "curator"}
CHANGES = {
    "dropped": ["drop view quiet", "drop table words"],
    "renamed": ["alter table words rename to old_words"],
    "replaced by a view": ["drop view quiet", "alter table words rename to w", "create view words as select * from w"],
    "renamed by exchange": ["drop view quiet", "create table w2 as select * from words", "drop table words"],
}


def rights(**tables: Any) -> dict[str, Any]:
    return plugin(allow={"id": "curator"}) | {"databases": {"words": {"allow_sql": False, "tables": tables}}}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("names_it", [True, False])
async def test_the_results_of_a_table_that_is_gone_are_roots(open_ds, change, names_it):
    without_sql = {"allow_sql": False}  # Datasette's SQL editor is given every table's columns
    ds = await with_results(open_ds, plugin() | PRIVATE_WORDS | without_sql)
    run(ds, *CHANGES[change])
    if not names_it:  # whoever drops a table may well remove its rights, too
        ds = await open_ds(plugin() | without_sql)
    kept = [name for name in OURS if name != "ingest_hits"]
    assert {name: await status(ds, name, READER) for name in kept} == dict.fromkeys(kept, 403)
    assert {name: await status(ds, name) for name in kept} == dict.fromkeys(kept, 403)
    assert {name: await status(ds, name, ROOT) for name in kept} == dict.fromkeys(kept, 200)
    shown = (await get(ds, "/words.json", READER)).text
    assert not [name for name in OURS if name in shown]


@pytest.mark.parametrize("change", CHANGES)
async def test_the_jobs_of_a_table_that_is_gone_are_roots(open_ds, change):
    ds = await open_ds(plugin(allow={"id": "curator"}))
    await start(ds)
    await run_until_idle(ds)
    run(ds, "create table empty (id integer primary key)")
    for page in ("", "/errors", "/missed.csv", ".json"):
        assert (await get(ds, f"/-/ingest-jobs/words/1{page}", CURATOR)).status_code == 200
    run(ds, *CHANGES[change])
    for page in ("", ".json", "/errors", "/errors.json", "/missed.csv"):
        assert (await get(ds, f"/-/ingest-jobs/words/1{page}", CURATOR)).status_code == 404
    assert (await get(ds, "/-/ingest-jobs/words.json", CURATOR)).json()["jobs"] == []
    assert (await get(ds, "/-/ingest-jobs.json?table=words", CURATOR)).json()["jobs"] == []
    assert (await get(ds, "/-/ingest-jobs/words/1", ROOT)).status_code == 200
    assert [job["id"] for job in (await get(ds, "/-/ingest-jobs.json", ROOT)).json()["jobs"]] == [1]


async def test_a_job_that_a_private_table_left_behind_and_one_that_never_was_answer_alike(open_ds):
    ds = await open_ds(rights())
    await start(ds)
    run(ds, *CHANGES["dropped"])
    gone, never = [await get(ds, f"/-/ingest-jobs/words/{number}.json", CURATOR) for number in (1, 2)]
    assert gone.text.replace("job 1", "job N") == never.text.replace("job 2", "job N")
    assert (gone.status_code, sorted(gone.headers)) == (never.status_code, sorted(never.headers))


async def test_dropping_the_tables_of_jobs_opens_no_results(open_ds):
    ds = await with_results(open_ds, plugin() | PRIVATE_WORDS)
    run(ds, *(f"drop table {name}" for name in ("_enrichment_jobs", "_enrichment_batches", "_enrichment_errors")))
    for name in ("ingest_request", "ingest_fulltext", "cdx", "_enrichments_words", "_enrichment_progress"):
        assert (name, await status(ds, name, READER)) == (name, 403)
        assert (name, await status(ds, name, ROOT)) == (name, 200)


async def test_a_table_made_anew_under_the_name_has_the_rights_of_the_name(open_ds):
    ds = await with_results(open_ds, rights(words={"allow": {"id": "root"}}))
    run(ds, *CHANGES["dropped"])
    run(ds, "create table WORDS (id integer primary key, word text)")
    assert await status(ds, "ingest_request", READER) == 403
    assert await status(ds, "ingest_request", ROOT) == 200


JOB_TABLES = ("_enrichment_jobs", "_enrichment_batches", "_enrichment_errors", "_enrichment_progress")
LOST = {
    "deleted": ["delete from _enrichment_jobs"],
    "replaced": [
        "insert or replace into _enrichment_jobs (id, status, enrichment, table_name) values (1, 'finished', 'x', 'empty')"
    ],
    "moved to another table": ["update _enrichment_jobs set table_name = 'empty'"],
    "forgotten": ["update _enrichment_jobs set private_table = null, table_name = null"],
    "dropped with their tables": [f"drop table {name}" for name in JOB_TABLES],
    "deleted by an earlier version": [
        "drop table _enrichment_sources",
        "drop trigger _enrichment_jobs_deleted",
        "delete from _enrichment_jobs",
    ],
}
SHARED = ("ingest_request", "ingest_fulltext", "cdx", "_enrichment_jobs", "_enrichment_progress")


@pytest.mark.parametrize("change", ["none", *CHANGES])
@pytest.mark.parametrize("loss", LOST)
async def test_results_keep_their_privacy_when_their_job_is_deleted(open_ds, loss, change):
    ds = await with_results(open_ds, rights(words={"allow": {"id": "root"}}))
    await run_until_idle(ds)
    run(ds, "create table empty (id integer primary key, word text)", "insert into empty (word) values ('x')")
    run(ds, "alter table ingest_request add column job_id integer", "insert into ingest_request (job_id) values (1)")
    run(ds, *CHANGES.get(change, []), *LOST[loss])
    await start(ds, table="empty")  # which makes the tables of jobs again
    assert {name: await status(ds, name, CURATOR) for name in SHARED} == dict.fromkeys(SHARED, 403)
    assert {name: await status(ds, name, ROOT) for name in SHARED} == dict.fromkeys(SHARED, 200)
    if change != "none":
        ds = await open_ds(rights())
        assert await status(ds, "ingest_request", CURATOR) == 403


async def test_a_public_table_in_the_place_of_a_private_one_opens_nothing_when_the_job_is_deleted(open_ds):
    private = await with_results(open_ds, rights(words={"allow": {"id": "root"}}))
    await run_until_idle(private)
    run(private, "drop view quiet", "delete from _enrichment_jobs", "drop table words", ANEW["alike"])
    ds = await open_ds(rights())
    for name in (*SHARED, "_enrichments_words"):
        assert (name, await status(ds, name, CURATOR)) == (name, 403)
        assert (name, await status(ds, name, ROOT)) == (name, 200)


async def test_the_results_of_a_public_table_stay_open_when_its_job_is_deleted(open_ds):
    ds = await with_results(open_ds, rights())
    run(ds, "delete from _enrichment_jobs")
    assert await status(ds, "ingest_request", READER) == 200
    await start(ds)
    assert await status(ds, "ingest_request", READER) == 200


ANEW = {
    "alike": "create table words (id integer primary key, word text, year integer)",
    "with other columns": "create table words (id integer primary key, word text)",
    "in other letters": "create table WORDS (id integer primary key, word text, year integer)",
}


@pytest.mark.parametrize("anew", ANEW)
async def test_a_public_table_in_the_place_of_a_private_one_does_not_open_its_results(open_ds, anew):
    private = await with_results(open_ds, rights(words={"allow": {"id": "root"}}))
    await run_until_idle(private)
    run(private, "drop view quiet", "drop table words", ANEW[anew], "insert into words (id, word) values (1, 'new')")
    ds = await open_ds(rights())  # the rights of the name went with the table
    name = "WORDS" if "WORDS" in ANEW[anew] else "words"
    assert (await get(ds, f"/words/{name}.json", CURATOR)).status_code == 200
    kept = [name for name in OURS if name != "ingest_hits"]
    assert {name: await status(ds, name, CURATOR) for name in kept} == dict.fromkeys(kept, 403)
    assert {name: await status(ds, name, ROOT) for name in kept} == dict.fromkeys(kept, 200)
    for page in ("", ".json", "/errors", "/errors.json", "/missed.csv"):
        assert (await get(ds, f"/-/ingest-jobs/words/1{page}", CURATOR)).status_code == 404
    assert (await get(ds, "/-/ingest-jobs/words.json", CURATOR)).json()["jobs"] == []
    assert (await get(ds, f"/words/{name}.json?_ingest_failed=1", CURATOR)).status_code == 400
    for path in (f"/words/{name}", f"/words/{name}/1", f"/-/ingest/words/{name}"):
        assert "job 1" not in (await get(ds, path, CURATOR)).text
        assert "no voice" not in (await get(ds, path, CURATOR)).text
    run(ds, "update _enrichment_jobs set status = 'running'")
    assert "running" not in (await get(ds, "/", CURATOR)).text
    assert "1 running" in (await get(ds, "/", ROOT)).text
    run(ds, "update _enrichment_jobs set status = 'finished'")
    # the new table has jobs of its own, which who may enrich it sees
    job = await start(ds, actor=CURATOR)
    assert [shown.id for shown in await queries.list_jobs(ds, "words", actor=CURATOR)] == [job.id]
    assert (await queries.find(ds, "words", job.id, actor=CURATOR)).id == job.id
    assert (await queries.find(ds, "words", 1, actor=ROOT)).id == 1


@pytest.mark.parametrize("change", ["select 1", "alter table words add column more", "create index y on words (year)"])
async def test_a_private_table_that_is_made_public_opens_its_results(open_ds, change):
    private = await with_results(open_ds, rights(words={"allow": {"id": "root"}}))
    await run_until_idle(private)
    run(private, change)
    ds = await open_ds(rights())
    assert {name: await status(ds, name, READER) for name in OURS} == dict.fromkeys(OURS, 200)
    assert (await queries.find(ds, "words", 1, actor=CURATOR)).id == 1


async def test_a_private_table_that_is_rebuilt_keeps_the_rights_of_its_name(open_ds):
    ds = await with_results(open_ds, rights(words={"allow": {"id": ["root", "curator"]}}))
    run(
        ds,
        "drop view quiet",
        "create table w as select * from words",
        "drop table words",
        "alter table w rename to words",
    )
    assert (await queries.find(ds, "words", 1, actor=CURATOR)).id == 1
    assert await status(ds, "ingest_request", CURATOR) == 200
    assert await status(ds, "ingest_request", READER) == 403


async def test_a_table_that_came_back_in_other_letters_has_its_jobs_again(open_ds):
    ds = await open_ds(rights())
    await start(ds)
    run(ds, "drop view quiet", "alter table words rename to w", "alter table w rename to Words")
    assert (await queries.find(ds, "words", 1, actor=CURATOR)).id == 1
    assert [job.id for job in await queries.list_jobs(ds, "words", actor=CURATOR, table="WORDS")] == [1]
    assert (await get(ds, "/-/ingest-jobs/words.json?table=words", CURATOR)).json()["jobs"][0]["id"] == 1


@pytest.mark.parametrize("level", ["database", "instance"])
async def test_a_database_that_is_made_private_takes_its_results_along(open_ds, level):
    await with_results(open_ds, plugin(allow={"id": "curator"}))
    closed: dict[str, Any] = {"allow": {"id": "root"}}
    ds = await open_ds(
        plugin(allow={"id": "curator"}) | (closed if level == "instance" else {"databases": {"words": closed}})
    )
    for name in OURS:
        assert (name, await status(ds, name, CURATOR)) == (name, 403)
    assert (await get(ds, "/-/ingest-jobs/words/1", CURATOR)).status_code == 404
    assert (await get(ds, "/-/ingest-jobs/words", CURATOR)).status_code == 403


async def test_nobody_steers_the_job_of_a_table_that_is_gone_but_root(open_ds):
    ds = await open_ds(rights())
    job = await start(ds)
    run(ds, *CHANGES["dropped"])
    for step in ("pause", "resume", "cancel", "retry"):
        sent = {"Sec-Fetch-Site": "same-origin"}
        cookies = {"ds_actor": ds.sign({"a": CURATOR}, "actor")}
        told = await ds.client.post(f"/-/ingest-jobs/words/{job.id}/{step}", json={}, cookies=cookies, headers=sent)
        assert (step, told.status_code) == (step, 404)
    assert (await control.cancel(ds, "words", job.id, actor=ROOT)).status == "cancelled"


async def test_a_restricted_token_of_roots_is_not_root(open_ds):
    ds = await open_ds(plugin())
    await start(ds)
    run(ds, *CHANGES["dropped"])
    for restrictions in ({}, {"a": ["view-instance", "view-database", "view-table"]}, {"a": ["enrich-table"]}):
        token = {"id": "root", "_r": restrictions}
        assert not compat.is_root(ds, token)
        assert (await get(ds, "/-/ingest-jobs/words/1", token)).status_code == 404
        assert (await get(ds, "/-/ingest-jobs/nosuch", token)).status_code == 403
    assert (await get(ds, "/-/ingest-jobs/nosuch", ROOT)).status_code == 404
