"""What a person may do to a job, in which state, and who may do it at all."""

from __future__ import annotations

import asyncio
import datetime
import sqlite3

import pydantic
import pytest

from datasette_ingest import BatchOutcome, Cancel, ColumnField, Enrichment, Pause, compat
from datasette_ingest.jobs import results_log
from datasette_ingest.jobs.errors import (
    BadConfig,
    BadSelection,
    IllegalTransition,
    JobError,
    JobNotFound,
    KeyReused,
    NotAllowed,
    TableNotFound,
)
from datasette_ingest.jobs.model import JobStatus, StartRequest
from datasette_ingest.jobs.owner import new_owner
from datasette_ingest.jobs.registry import UnknownEnrichment
from datasette_ingest.jobs.service import control, queries
from datasette_ingest.sqlite import from_iso

from ...conftest import ROOT, registered, rows, serving
from ..kit import books, by_batch, by_row, execute, look, start, table, to_the_end

CURIOUS = {"id": "curious"}
COPY = by_row(lambda row: {"copied": row["id"]})


@pytest.fixture
def copy():
    with registered(COPY):
        yield


# ---- starting ---------------------------------------------------------------------------------------------------


class Picky(Enrichment):
    slug, name, description = "picky", "Picky", "Has settings"

    class Config(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="forbid")
        column: str = ColumnField(title="Column")
        times: int = pydantic.Field(1, ge=1, le=3)

    async def enrich_row(self, row, config):
        return {"copied": row[config.column]}


@pytest.mark.parametrize(
    "config, said",
    [
        ({}, "column: a value is needed"),
        ({"column": "nosuch"}, "column: 'papers' has no column 'nosuch'"),
        ({"column": "title", "times": 9}, "times:"),
        ({"column": "title", "times": "many"}, "times:"),
        ({"column": "title", "other": 1}, "other: there is no such setting"),
        ({"column": None}, "column:"),
    ],
)
async def test_settings_that_do_not_fit_are_refused_field_by_field_and_nothing_is_written(db_path, config, said):
    with registered(Picky()):
        async with serving(db_path) as datasette:
            with pytest.raises(BadConfig) as caught:
                await start(datasette, enrichment="picky", config=config)
    assert len(caught.value.details) == 1 and caught.value.details[0].startswith(said)
    assert rows(db_path, "select name from sqlite_master where name like '_enrichment%'") == []


@pytest.mark.parametrize(
    "options, said",
    [
        ({"batch_size": 0}, "batch_size: write 1 or more"),
        ({"batch_size": "3"}, "batch_size: write a whole number"),
        ({"batch_size": True}, "batch_size: write a whole number"),
        ({"batch_size": 2**31}, "batch_size: write 2147483647 or less"),
        ({"max_open_batches": 0}, "max_open_batches"),
        ({"max_errors": -1}, "max_errors: write 0 or more"),
        ({"budget_100ths_cent": 1.5}, "budget_100ths_cent: write a whole number"),
        ({"output": "elsewhere"}, "output: choose 'columns' or 'shadow'"),
        ({"nosuch": 1}, "nosuch: there is no such option"),
        ({"settings": {"allow_networks": ["0.0.0.0/0"]}}, "settings: there is no such option"),
    ],
)
async def test_options_out_of_range_are_refused_by_name(db_path, copy, options, said):
    async with serving(db_path) as datasette:
        with pytest.raises(BadConfig, match=said):
            await start(datasette, options=options)
    assert rows(db_path, "select name from sqlite_master where name like '_enrichment%'") == []


async def test_every_fault_of_settings_and_options_is_reported_at_once(db_path):
    with registered(Picky()):
        async with serving(db_path) as datasette:
            with pytest.raises(BadConfig) as caught:
                config = {"column": "title", "times": 9, "foo": 1, "bar": 2}
                await start(datasette, enrichment="picky", config=config, options={"batch_size": 0, "speed": 1})
    assert [fault.split(":")[0] for fault in caught.value.details] == ["foo", "bar", "times", "speed", "batch_size"]


async def test_an_enrichment_that_is_not_installed_is_refused_with_those_that_are(db_path, copy):
    async with serving(db_path) as datasette:
        with pytest.raises(UnknownEnrichment, match=r"No enrichment 'nosuch' is installed\. Installed: .*e"):
            await start(datasette, enrichment="nosuch")


@pytest.mark.parametrize("name", ["shelf", "words", "nosuch"])
async def test_what_is_no_table_is_refused_before_anything_is_written(tmp_path, copy, name):
    path = tmp_path / "data.db"
    table(
        path, "create table t (a)", "create view shelf as select * from t", "create virtual table words using fts5 (w)"
    )
    async with serving(path) as datasette:
        with pytest.raises((BadSelection, TableNotFound)) as caught:
            await start(datasette, name)
        assert caught.value.message
    assert rows(path, "select name from sqlite_master where name like '_enrichment%'") == []


async def test_an_immutable_database_is_refused_with_the_reason(db_path, copy):
    datasette = compat.open_datasette([], immutables=[str(db_path)])
    if hasattr(datasette, "root_enabled"):
        datasette.root_enabled = True
    await datasette.invoke_startup()
    try:
        with pytest.raises(BadSelection, match="immutable"):
            await start(datasette)
    finally:
        compat.close(datasette)


async def test_a_connection_that_cannot_write_is_replaced_where_a_new_one_can(db_path, copy):
    async with serving(db_path) as datasette:
        db = datasette.get_database("data")
        await db.execute_write_fn(lambda conn: conn.execute("pragma query_only = 1").fetchall())
        job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.done_count) == (JobStatus.FINISHED, 5)


async def test_a_memory_database_needs_a_name_and_with_one_it_works(copy):
    datasette = compat.open_datasette([], memory=True)
    if hasattr(datasette, "root_enabled"):
        datasette.root_enabled = True
    await datasette.invoke_startup()
    try:
        db = datasette.add_memory_database("data")
        await db.execute_write("create table papers (id integer primary key, title text)")
        await db.execute_write("insert into papers (title) values ('a'), ('b'), ('c')")
        job = await to_the_end(datasette, await start(datasette))
        assert (job.status, job.done_count) == (JobStatus.FINISHED, 3)
        assert (await db.execute("select count(copied) from papers")).rows[0][0] == 3
        await datasette.get_database("_memory").execute_write("create table papers (id integer primary key)")
        with pytest.raises(JobError) as caught:
            await control.start(datasette, "_memory", StartRequest("papers", enrichment="e", actor=ROOT))
        assert caught.value.status in (400, 403)
    finally:
        compat.close(datasette)


async def test_datasettes_own_database_is_refused(db_path, copy):
    async with serving(db_path) as datasette:
        with pytest.raises(JobError):
            await control.start(datasette, "_internal", StartRequest("databases", enrichment="e", actor=ROOT))


async def test_a_repeated_request_starts_one_job(db_path, copy):
    async with serving(db_path) as datasette:
        first = await start(datasette, key="abc")
        again = await start(datasette, key="abc")
        other = await start(datasette, key="abd")
    assert first.id == again.id != other.id
    assert rows(db_path, "select count(*) from _enrichment_jobs") == [(2,)]


@pytest.mark.parametrize("other", [{"filters": "id=1"}, {"config": {"loud": True}}, {"options": {"batch_size": 1}}])
async def test_a_key_never_stands_for_two_requests(db_path, copy, other):
    table(db_path, "create table secrets (id integer primary key)")
    async with serving(db_path) as datasette:
        await start(datasette, "papers", key="abc")
        for name, given in (("papers", other), ("secrets", {})):
            with pytest.raises(KeyReused) as caught:
                await start(datasette, name, key="abc", **given)
            assert caught.value.status == 422


async def test_keys_are_an_actors_own(db_path, copy):
    async with serving(db_path, plugin={"allow": True}) as datasette:
        jobs = [await start(datasette, key="abc", actor=actor) for actor in (ROOT, {"id": "other"}, None, None)]
    assert [job.id for job in jobs] == [1, 2, 3, 3]


async def test_starts_at_once_with_one_key_add_one_job(db_path, copy):
    async with serving(db_path) as datasette:
        jobs = await asyncio.gather(*(start(datasette, key="abc") for _ in range(5)))
        assert {job.id for job in jobs} == {1}
        assert len(await queries.list_jobs(datasette, "data", actor=ROOT)) == 1


async def test_a_repeated_start_gives_its_job_even_where_it_could_not_start_any_more(db_path, copy):
    async with serving(db_path) as datasette:
        first = await start(datasette, filters="title=paper+1", key="abc")
        await execute(datasette, "alter table papers drop column title")
        assert (await start(datasette, filters="title=paper+1", key="abc")).id == first.id


# ---- steering ---------------------------------------------------------------------------------------------------

VERBS = {"pause": control.pause, "resume": control.resume, "cancel": control.cancel}
ALLOWED = {
    JobStatus.PENDING: {"pause", "cancel"},
    JobStatus.RUNNING: {"pause", "cancel"},
    JobStatus.PAUSED: {"resume", "cancel"},
    JobStatus.CANCELLED: set(),
    JobStatus.FINISHED: set(),
}


@pytest.mark.parametrize("status", list(JobStatus))
@pytest.mark.parametrize("verb", list(VERBS))
async def test_each_step_is_allowed_where_the_table_of_states_says_so(db_path, copy, status, verb):
    async with serving(db_path) as datasette:
        job = await start(datasette)
        await execute(datasette, "update _enrichment_jobs set status = ?", status.value)
        if verb in ALLOWED[status]:
            moved = await VERBS[verb](datasette, "data", job.id, actor=ROOT)
            assert moved.status.value == {"pause": "paused", "resume": "pending", "cancel": "cancelled"}[verb]
        else:
            with pytest.raises(IllegalTransition, match=f"is (already )?{status.value}") as caught:
                await VERBS[verb](datasette, "data", job.id, actor=ROOT)
            assert caught.value.status == 409
            assert (await look(datasette, job)).status is status


async def test_a_cancelled_job_leaves_no_idle_reservation_behind(db_path, copy):
    async with serving(db_path) as datasette:
        job = await start(datasette)
        host, boot, *_ = new_owner().split(":")
        for holder in (None, f"{host}:{boot}:999999999:1:ab", "far:away:1:1:ab"):
            await execute(
                datasette,
                "insert into _enrichment_batches (job_id, end_cursor, row_count, leased_by) values (?, ?, 1, ?)",
                job.id,
                '[["integer", "1"]]',
                holder,
            )
        await control.cancel(datasette, "data", job.id, actor=ROOT)
    # whoever may still be at work keeps the right to write what it has finished
    assert rows(db_path, "select leased_by from _enrichment_batches") == [("far:away:1:1:ab",)]


async def test_pause_and_resume_inside_one_batch_enrich_every_row_once(db_path):
    table(
        db_path,
        "create table writes (row)",
        "alter table papers add column copied",
        "create trigger c after update on papers begin insert into writes values (new.id); end",
    )
    seen = []

    async def enrich(row):
        seen.append(row["id"])
        if row["id"] == 2 and len(seen) == 2:
            await control.pause(datasette, "data", 1, actor=ROOT)
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=5)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
            assert job.status is JobStatus.PAUSED
            await control.resume(datasette, "data", job.id, actor=ROOT)
            job = await to_the_end(datasette, job)
    assert (job.status, job.done_count) == (JobStatus.FINISHED, 5)
    assert sorted(rows(db_path, "select row from writes")) == [(n,) for n in range(1, 6)]


async def test_cancel_during_the_last_batch_leaves_the_job_cancelled(db_path):
    async def enrich(row):
        if row["id"] == 5:
            await control.cancel(datasette, "data", 1, actor=ROOT)
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=5)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert job.status is JobStatus.CANCELLED and job.cancel_reason == "Cancelled by a person"
    assert books(db_path)[3] == 0


@pytest.mark.parametrize(
    "resume_at, goes_on",
    [
        (None, False),
        (datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc), False),
        (datetime.datetime(2100, 1, 1), False),  # noqa: DTZ001 - a time without a zone is UTC
        (datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc), True),
        (datetime.datetime(2020, 1, 1), True),  # noqa: DTZ001
    ],
    ids=["for a person", "future", "future, naive", "past", "past, naive"],
)
@pytest.mark.parametrize("form", [by_row, by_batch])
async def test_a_pause_of_the_enrichments_gives_the_rows_back(db_path, form, resume_at, goes_on):
    calls = []

    def enrich(*_):
        calls.append(1)
        if len(calls) == 2:
            raise Pause("The service asks for patience", resume_at=resume_at)

    with registered(form(enrich, batch_size=1, max_open_batches=1)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
            if goes_on:
                assert (job.status, job.done_count, job.resume_at) == (JobStatus.FINISHED, 5, None)
                return
            assert (job.status, job.pause_reason) == (JobStatus.PAUSED, "The service asks for patience")
            expected = None if resume_at is None else 4102444800.0
            assert (None if job.resume_at is None else from_iso(job.resume_at)) == expected
            assert (job.done_count, job.error_count) == (1, 0)
            await control.resume(datasette, "data", job.id, actor=ROOT)
            job = await to_the_end(datasette, job)
    assert (job.status, job.done_count, job.error_count, len(calls)) == (JobStatus.FINISHED, 5, 0, 6)


async def test_a_pause_with_a_time_that_is_no_time_ends_in_a_reason(db_path):
    def enrich(row):
        raise Pause("soon", resume_at="soon")

    with registered(by_row(enrich)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert job.status in (JobStatus.PAUSED, JobStatus.CANCELLED)


@pytest.mark.parametrize("form", [by_row, by_batch])
async def test_a_cancellation_of_the_enrichments_gives_the_reason(db_path, form):
    def enrich(*_):
        raise Cancel("The key is not valid")

    with registered(form(enrich)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.cancel_reason, job.error_count) == (JobStatus.CANCELLED, "The key is not valid", 0)
    assert books(db_path)[3] == 0


# ---- money ------------------------------------------------------------------------------------------------------


async def test_a_budget_stops_a_batch_of_known_price_before_it_is_paid(db_path):
    paid = []

    def enrich(given, pks):
        paid.extend(pks)
        return BatchOutcome(cost_nanodollars=150_000 * len(pks))

    made = by_batch(enrich, batch_size=1, max_open_batches=1)
    type(made).price_nanodollars = lambda self, given, config: 150_000 * len(given)
    with registered(made):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette, options={"budget_100ths_cent": 5}))
            assert (job.status, job.cost_nanodollars, job.cost_100ths_cent) == (JobStatus.PAUSED, 450_000, 5)
            assert "would pass the budget of $0.0005" in job.pause_reason
            assert len(paid) == 3 == job.done_count


async def test_what_is_paid_when_the_budget_stops_the_next_batch_is_kept_and_counted(db_path):
    paid = []

    async def enrich(given, pks):
        paid.extend(pks)
        await asyncio.sleep(0.1)
        return BatchOutcome(cost_nanodollars=200_000 * len(pks))

    made = by_batch(enrich, batch_size=1, max_open_batches=2)
    type(made).price_nanodollars = lambda self, given, config: 200_000 * len(given)
    with registered(made):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette, options={"budget_100ths_cent": 7}))
    assert job.status is JobStatus.PAUSED
    assert (job.cost_nanodollars, job.done_count) == (200_000 * len(paid), len(paid))


async def test_a_budget_stops_after_the_batch_that_passed_it_where_no_price_is_announced(db_path):
    with registered(
        by_batch(lambda given, pks: BatchOutcome(cost_nanodollars=150_001), batch_size=1, max_open_batches=1)
    ):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette, options={"budget_100ths_cent": 2}))
    assert (job.status, job.cost_nanodollars, job.done_count) == (JobStatus.PAUSED, 300_002, 2)
    assert job.cost_100ths_cent == 4 and "is used: $0.000300002 spent" in job.pause_reason


async def test_a_price_that_cannot_be_told_ends_the_job_with_what_was_raised(db_path):
    def price(self, given, config):
        raise RuntimeError("no price list")

    made = by_batch(lambda given, pks: None)
    type(made).price_nanodollars = price
    with registered(made):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette, options={"budget_100ths_cent": 5}))
    assert job.status is JobStatus.CANCELLED
    assert "no price list" in job.cancel_reason and "3 times" not in job.cancel_reason


# ---- retry ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "definition",
    [
        "create table papers (id integer primary key, title)",
        "create table papers (title text primary key, id integer)",
        "create table papers (title, id integer)",
        "create table papers (a integer, title text, id integer, primary key (title, a))",
        "create table papers (id integer primary key, title text) without rowid",
        "create table papers (title text collate nocase, id integer, primary key (title desc)) without rowid",
    ],
)
async def test_retry_is_a_new_job_over_the_rows_in_error(tmp_path, definition):
    path = tmp_path / "data.db"
    table(path, definition)
    with sqlite3.connect(path) as conn:
        conn.executemany("insert into papers (id, title) values (?, ?)", [(n, f"paper {n}") for n in range(3000)])
    conn.close()
    broken = {n for n in range(3000) if n % 2}

    def enrich(row):
        if row["id"] in broken:
            raise ValueError("not today")
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=500)):
        async with serving(path) as datasette:
            job = await to_the_end(datasette, await start(datasette, options={"max_errors": 3000}))
            assert (job.status, job.error_count) == (JobStatus.FINISHED, 1500)
            broken.clear()
            again = await control.retry(datasette, "data", job.id, actor=ROOT)
            assert (again.row_count, again.id) == (1500, job.id + 1)
            again = await to_the_end(datasette, again)
            with pytest.raises(IllegalTransition, match="has no rows in error"):
                await control.retry(datasette, "data", again.id, actor=ROOT)
    assert (again.status, again.done_count, again.error_count) == (JobStatus.FINISHED, 1500, 0)
    assert rows(path, "select count(*) from papers where copied = id") == [(3000,)]


async def test_retry_of_a_running_job_or_by_an_unknown_scope_is_refused(db_path, copy):
    async with serving(db_path) as datasette:
        job = await start(datasette)
        with pytest.raises(IllegalTransition, match="is pending"):
            await control.retry(datasette, "data", job.id, actor=ROOT)
        job = await to_the_end(datasette, job)
        with pytest.raises(BadConfig, match="scope"):
            await control.retry(datasette, "data", job.id, actor=ROOT, scope="nosuch")


# ---- who may ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("actor", [None, CURIOUS], ids=["nobody", "a curious actor"])
@pytest.mark.parametrize("is_private", [True, False])
async def test_whoever_may_not_enrich_learns_nothing_from_any_verb(db_path, copy, actor, is_private):
    private = {"databases": {"data": {"allow": {"id": "root"}}}} if is_private else {}
    async with serving(db_path, **private) as datasette:
        job = await start(datasette, key="abc", filters="_where=id+%3D+1")
        for verb in (control.pause, control.resume, control.cancel, control.retry, queries.find):
            said = set()
            for number in (job.id, job.id + 1, 0, -1, 2**70):
                with pytest.raises(JobNotFound) as caught:
                    await verb(datasette, "data", number, actor=actor)
                said.add(caught.value.message.replace(str(number), "N"))
            assert len(said) == 1
        assert await queries.list_jobs(datasette, "data", actor=actor) == []
        assert await queries.list_jobs(datasette, "nosuch", actor=actor) == []
        for name in ("papers", "nosuch"):
            with pytest.raises(NotAllowed) as caught:
                await start(datasette, name, actor=actor, key="abc")
            said.add(caught.value.message.replace(name, "T"))
        assert len(said) == 2 and any("enrich-table" in message for message in said)
        assert (await look(datasette, job)).status is JobStatus.PENDING


async def test_a_stored_where_is_shown_only_to_those_who_may_execute_sql(db_path, copy):
    async with serving(db_path, databases={"data": {"allow_sql": {"id": "root"}}}, plugin={"allow": True}) as datasette:
        if compat.is_1_0(datasette):
            datasette.root_enabled = True
        job = await start(datasette, filters="_where=id+%3D+1&title__contains=a")
        assert "_where=id" in (await look(datasette, job)).filter_querystring
        if compat.is_1_0(datasette):
            return  # `allow` is a setting of the 0.65 line
        seen = await queries.find(datasette, "data", job.id, actor=CURIOUS)
        assert "id+%3D+1" not in seen.filter_querystring and "title__contains=a" in seen.filter_querystring
        assert seen.selection is None
        [listed] = await queries.list_jobs(datasette, "data", actor=CURIOUS)
        assert (listed.filter_querystring, listed.selection) == (seen.filter_querystring, None)
        await control.pause(datasette, "data", job.id, actor=ROOT)
        with pytest.raises(NotAllowed):
            await control.resume(datasette, "data", job.id, actor=CURIOUS)
        for verb in (control.cancel,):
            moved = await verb(datasette, "data", job.id, actor=CURIOUS)
            assert "id+%3D+1" not in moved.filter_querystring and moved.selection is None


async def test_a_job_of_a_private_instance_is_run_without_an_actor(db_path, copy):
    async with serving(db_path, allow={"id": "root"}) as datasette:
        job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.done_count, job.actor_id) == (JobStatus.FINISHED, 5, "root")


async def test_the_reason_of_a_job_whose_table_is_gone_can_still_be_read(db_path, copy):
    async with serving(db_path) as datasette:
        job = await start(datasette)
        await execute(datasette, "drop table papers")
        job = await to_the_end(datasette, job)
        assert (job.status, job.cancel_reason) == (
            JobStatus.CANCELLED,
            "The table 'papers' is gone: it was dropped or renamed",
        )


# ---- looking ----------------------------------------------------------------------------------------------------


async def test_lists_and_errors_are_paged(db_path):
    with registered(by_row(lambda row: 1 / 0)):
        async with serving(db_path) as datasette:
            jobs = [await start(datasette) for _ in range(3)]
            await to_the_end(datasette, jobs[0])
            first = await queries.list_jobs(datasette, "data", actor=ROOT, limit=2)
            rest = await queries.list_jobs(datasette, "data", actor=ROOT, limit=2, before=first[-1].id)
            assert [job.id for job in first + rest] == [3, 2, 1]
            assert await queries.list_jobs(datasette, "data", actor=ROOT, table="nosuch") == []
            assert len(await queries.list_jobs(datasette, "data", actor=ROOT, status="finished")) == 3
            db = datasette.get_database("data")
            page = await queries.errors(db, jobs[0], limit=3)
            more = await queries.errors(db, jobs[0], limit=3, after=page[-1].id)
            assert [error.row_pks for error in page + more] == [[1], [2], [3], [4], [5]]


def test_the_key_of_an_error_is_written_as_the_older_plugin_writes_it():
    assert (
        results_log.row_pks(5) == "[5]"
        and results_log.row_pks("a") == '["a"]'
        and results_log.row_pks(("a", 1)) == '[["a", 1]]'
    )
    assert results_log.row_pks((None, 3)) == "[[null, 3]]" and results_log.row_pks(float("inf")) == '["Inf"]'


async def test_a_batch_that_the_budget_holds_back_is_not_taken_for_the_end(db_path):
    ends = []
    made = by_batch(lambda given, pks: BatchOutcome(cost_nanodollars=200_000 * len(pks)), batch_size=5)
    type(made).price_nanodollars = lambda self, given, config: 200_000 * len(given)

    async def finalize(self):
        ends.append(1)

    type(made).finalize = finalize
    with registered(made):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette, options={"budget_100ths_cent": 7}))
    assert (job.status, job.done_count, ends) == (JobStatus.PAUSED, 0, [])
