"""What goes wrong around a job: the disk, the lock, the clock, the table, other plugins, other jobs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sqlite3
import time

import pytest

from datasette_ingest import Cancel, Pause, compat
from datasette_ingest.jobs.engine import runner
from datasette_ingest.jobs.engine.exclusive import ExclusiveRuns
from datasette_ingest.jobs.engine.runner import Runner, Timing, WorkerContext
from datasette_ingest.jobs.engine.worker import Worker
from datasette_ingest.jobs.model import JobStatus
from datasette_ingest.jobs.owner import Liveness, new_owner
from datasette_ingest.jobs.service import control
from datasette_ingest.sqlite import stamp
from datasette_ingest.testing import run_until_idle

from ...conftest import ROOT, registered, rows, serving
from ..kit import books, by_batch, by_row, counting, execute, look, quick, start, table, to_the_end

COPY = by_row(lambda row: {"copied": row["id"]})


@pytest.fixture
def copy():
    with registered(COPY):
        yield


def impatient(monkeypatch):
    """Tries again after moments instead of seconds."""
    monkeypatch.setitem(compat.write.__kwdefaults__, "pauses", (0.01, 0.01))
    monkeypatch.setattr(runner, "RETRY_SECONDS", (0.02,))


async def hasten(datasette):
    """SQLite waits for a lock no longer than a moment."""
    await execute(datasette, "pragma busy_timeout = 20")


# ---- the machine ------------------------------------------------------------------------------------------------


async def test_a_full_disk_is_waited_for_and_costs_no_row(db_path, monkeypatch):
    impatient(monkeypatch)
    big = "x" * 50_000
    with registered(by_row(lambda row: {"copied": big})):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            pages = rows(db_path, "pragma page_count")[0][0]
            await execute(datasette, f"pragma max_page_count = {pages + 20}")
            running = asyncio.create_task(run_until_idle(datasette))
            await asyncio.sleep(0.5)
            stuck = await look(datasette, job)
            assert (stuck.status, stuck.error_count) == (JobStatus.RUNNING, 0) and stuck.done_count < 5
            await execute(datasette, "pragma max_page_count = 1000000")
            await asyncio.wait_for(running, 10)
            job = await look(datasette, job)
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 5, 0)
    assert rows(db_path, "select count(*) from papers where length(copied) = 50000") == [(5,)]


async def test_a_lock_that_comes_in_the_middle_is_waited_for_and_costs_no_row(db_path, monkeypatch):
    impatient(monkeypatch)
    counting(db_path)
    with contextlib.closing(sqlite3.connect(db_path, isolation_level=None)) as other:

        async def enrich(row):
            if row["id"] == 3:
                other.execute("begin immediate")
                asyncio.get_running_loop().call_later(0.5, other.execute, "rollback")
            return {"copied": row["id"]}

        with registered(by_row(enrich, batch_size=1, max_open_batches=1)):
            async with serving(db_path) as datasette:
                job = await start(datasette)
                await hasten(datasette)
                before = time.monotonic()
                job = await to_the_end(datasette, job)
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 5, 0)
    assert time.monotonic() - before >= 0.5
    assert sorted(rows(db_path, "select row from writes")) == [(n,) for n in range(1, 6)]


async def test_a_lock_that_outlasts_our_patience_as_a_job_begins_does_not_cancel_it(db_path, copy, monkeypatch):
    impatient(monkeypatch)
    tries = []
    with contextlib.closing(sqlite3.connect(db_path, isolation_level=None)) as other:

        def is_busy(problem):
            tries.append(problem)
            if len(tries) == 2 * len(runner.RETRY_SECONDS) + runner.RETRIES_WHILE_STOPPING:
                other.execute("rollback")
            return real(problem)

        async with serving(db_path) as datasette:
            job = await start(datasette)
            await hasten(datasette)
            other.execute("begin immediate")
            real = compat.is_busy
            monkeypatch.setattr(compat, "is_busy", is_busy)
            job = await to_the_end(datasette, job)
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 5, 0)
    assert len(tries) > 5


async def test_another_writer_with_a_short_timeout_gets_its_turn_while_a_job_runs(tmp_path):
    path = tmp_path / "data.db"
    table(
        path,
        "create table papers (id integer primary key)",
        "create table other (n)",
        "with recursive c (n) as (select 1 union all select n + 1 from c where n < 10002) insert into papers select n from c",
    )

    async def write_again_and_again():
        def one():
            with contextlib.closing(sqlite3.connect(path, timeout=0.3)) as conn, conn:
                conn.execute("insert into other values (1)")

        while not job_task.done():
            await asyncio.to_thread(one)
            written.append(1)
            await asyncio.sleep(0.002)

    written = []
    with registered(by_row(lambda row: {"copied": row["id"]}, batch_size=500)):
        async with serving(path) as datasette:
            job = await start(datasette)
            assert job.row_count == 10_002
            seen = []
            worker = Worker(
                datasette, timing=quick(), poll_seconds=0.05, on_update=lambda job: seen.append(job.percent)
            )
            job_task = asyncio.create_task(worker.run_until_idle())
            await write_again_and_again()
            await job_task
            job = await look(datasette, job)
    assert (job.status, job.done_count, job.percent) == (JobStatus.FINISHED, 10_002, 100.0)
    assert rows(path, "select count(*) from other") == [(len(written),)] and written
    assert max(seen) <= 100.0 and seen == sorted(seen)


@pytest.mark.parametrize("shift", [-3600.0, 3600.0])
async def test_a_clock_that_is_set_changes_nothing(db_path, shift):
    counting(db_path)

    class Clock:
        now = time.time()

        def __call__(self):
            return self.now

    clock = Clock()

    def enrich(row):
        if row["id"] == 3:
            clock.now += shift
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=1)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette), timing=quick(clock=clock))
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 5, 0)
    assert sorted(rows(db_path, "select row from writes")) == [(n,) for n in range(1, 6)]


@pytest.mark.parametrize("leased_until", ["2000-01-01T00:00:00.000Z", "2100-01-01T00:00:00.000Z", None])
async def test_a_lease_of_another_host_that_is_over_or_beyond_all_measure_is_free(db_path, copy, leased_until):
    async with serving(db_path) as datasette:
        job = await start(datasette)
        await left_behind(datasette, job, "far:away:1:1:ab", leased_until)
        job = await to_the_end(datasette, job)
    assert books(db_path) == ("finished", 5, 0, 0)


async def left_behind(datasette, job, owner, leased_until, **more):
    """A reservation of the rows 1 to 2, and the job's cursor behind it."""
    await execute(datasette, "update _enrichment_jobs set status = 'running', next_cursor = '[[\"integer\", \"2\"]]'")
    values = {"deaths": 0, "attempts": 0, "alone": 0, **more}
    await execute(
        datasette,
        "insert into _enrichment_batches (job_id, end_cursor, row_count, leased_by, leased_until, deaths, attempts, alone) "
        'values (?, \'[["integer", "2"]]\', 2, ?, ?, ?, ?, ?)',
        job.id,
        owner,
        leased_until,
        *values.values(),
    )


async def test_a_lease_of_a_living_process_is_waited_for_and_then_the_job_ends(db_path, copy):
    async with serving(db_path) as datasette:
        job = await start(datasette)
        await left_behind(datasette, job, "far:away:1:1:ab", stamp(time.time() + 1.0))
        before = time.monotonic()
        job = await to_the_end(datasette, job, timing=quick(lease_seconds=2.0))
    assert books(db_path) == ("finished", 5, 0, 0) and time.monotonic() - before > 0.8


# ---- deadly rows ------------------------------------------------------------------------------------------------


async def test_a_reservation_that_outlived_two_processes_runs_alone(db_path):
    at_work, most = set(), []

    async def enrich(row):
        at_work.add(row["id"])
        await asyncio.sleep(0.05)
        most.append((row["id"], len(at_work)))
        at_work.discard(row["id"])
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=1, max_open_batches=5)):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            await left_behind(datasette, job, None, None, deaths=2)
            job = await to_the_end(datasette, job)
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 5, 0)
    assert dict(most)[1] == dict(most)[2] == 1 and max(count for _, count in most) > 1


@pytest.mark.parametrize("attempts, errors", [(2, 0), (3, 1)])
async def test_a_row_is_given_up_only_after_three_deaths_while_it_was_alone(db_path, copy, attempts, errors):
    async with serving(db_path) as datasette:
        job = await start(datasette)
        await left_behind(datasette, job, None, None, deaths=4, attempts=attempts)
        await execute(datasette, "delete from papers where id = 2")
        job = await to_the_end(datasette, job)
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 4, errors)


async def test_a_clean_stop_while_a_poison_batch_runs_alone_is_no_crash(db_path):
    entered = asyncio.Event()

    async def enrich(row):
        entered.set()
        await asyncio.sleep(30)

    with registered(by_row(enrich)):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            await left_behind(datasette, job, None, None, deaths=2)
            worker = Worker(datasette, timing=quick(), poll_seconds=0.05)
            task = asyncio.create_task(worker.run_forever())
            await asyncio.wait_for(entered.wait(), 5)
            worker.stop()
            await asyncio.wait_for(task, 5)
    assert rows(db_path, "select leased_by, deaths, attempts from _enrichment_batches order by id limit 1") == [
        (None, 2, 0)
    ]


async def test_a_stop_that_arrives_during_a_transaction_leaves_nothing_leased(db_path, copy):
    async with serving(db_path) as datasette:
        job = await start(datasette, options={"batch_size": 1, "max_open_batches": 1})

        def stop(job):
            if job.status is JobStatus.RUNNING and job.next_cursor:
                one.stop()

        worker = WorkerContext(datasette, new_owner(), quick(), ExclusiveRuns(), on_update=stop)
        one = Runner(worker, datasette.get_database("data"), job, COPY)
        await asyncio.wait_for(one.run(), 5)
    assert rows(db_path, "select count(*) from _enrichment_batches where leased_by is not null") == [(0,)]


# ---- the table changes under the job -----------------------------------------------------------------------------


async def test_a_row_that_is_deleted_while_it_is_worked_on_is_an_error_and_one_that_nobody_has_read_is_not(db_path):
    async def enrich(row):
        if row["id"] == 1:
            await execute(job_datasette, "delete from papers where id in (2, 4)")
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=2, max_open_batches=1)):
        async with serving(db_path) as job_datasette:
            job = await to_the_end(job_datasette, await start(job_datasette))
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 4, 1) and job.percent == 100.0
    assert rows(db_path, "select id, copied from papers") == [(1, 1), (3, 3), (5, 5)]
    [(message,)] = rows(db_path, "select error from _enrichment_errors")
    assert message.startswith("The row is gone")


async def test_rows_added_ahead_are_enriched_and_behind_are_not(db_path):
    async def enrich(row):
        if row["id"] == 3:
            await execute(job_datasette, "insert into papers (id) values (-1), (6), (7)")
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=1, max_open_batches=1)):
        async with serving(db_path) as job_datasette:
            job = await to_the_end(job_datasette, await start(job_datasette))
    assert (job.status, job.row_count, job.done_count, job.percent) == (JobStatus.FINISHED, 5, 7, 100.0)
    assert rows(db_path, "select id from papers where copied is null") == [(-1,)]


async def test_columns_gained_and_lost_in_the_middle_are_no_fault(db_path):
    counting(db_path)

    async def enrich(row):
        if row["id"] == 2:
            await execute(job_datasette, "alter table papers add column more text default 'x'")
        if row["id"] == 4:
            await execute(job_datasette, "alter table papers drop column more")
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=1, max_open_batches=1)):
        async with serving(db_path) as job_datasette:
            job = await to_the_end(job_datasette, await start(job_datasette))
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 5, 0)
    assert sorted(rows(db_path, "select row from writes")) == [(n,) for n in range(1, 6)]


@pytest.mark.parametrize(
    "change, said",
    [
        ("drop table papers", "is gone"),
        ("alter table papers rename to books", "is gone"),
        ("alter table papers drop column title", "has no column 'title'"),
    ],
)
async def test_what_the_job_needs_is_taken_away_in_the_middle(db_path, change, said):
    async def enrich(row):
        if row["id"] == 2:
            await execute(job_datasette, change)
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=1, max_open_batches=1)):
        async with serving(db_path) as job_datasette:
            await start(job_datasette, filters="title__contains=paper")
            await asyncio.wait_for(run_until_idle(job_datasette), 10)
    [(status, reason)] = rows(db_path, "select status, cancel_reason from _enrichment_jobs")
    assert status == "cancelled" and said in reason
    assert books(db_path)[3] == 0


@pytest.mark.parametrize(
    "cursor, said",
    [
        ("junk", "stored position cannot be read"),
        ("[]", "stored position cannot be read"),
        ('[["text", 5]]', "stored position cannot be read"),
        ('[["integer", "x"]]', "stored position cannot be read"),
        ('[["blob", "***"]]', "stored position cannot be read"),
        ('[["integer", "1"], ["integer", "2"], ["integer", "3"]]', "stored position cannot be used"),
    ],
)
@pytest.mark.parametrize("filters", ["", "_where=1"])
async def test_a_corrupt_position_cancels_the_job_with_the_reason(db_path, copy, cursor, said, filters):
    async with serving(db_path) as datasette:
        job = await start(datasette, filters=filters)
        await execute(datasette, "update _enrichment_jobs set next_cursor = ?", cursor)
        job = await to_the_end(datasette, job)
    assert job.status is JobStatus.CANCELLED and said in job.cancel_reason


LOST = "Runner._read_then_start: whatever the read raises, the unread batch counts as answered and its rows are lost"


@pytest.mark.parametrize("filters", ["", "_where=1"])
async def test_a_corrupt_reservation_cancels_the_job_with_the_reason(db_path, copy, filters):
    async with serving(db_path) as datasette:
        job = await start(datasette, filters=filters)
        await left_behind(datasette, job, None, None)
        await execute(datasette, "update _enrichment_batches set end_cursor = 'junk'")
        job = await to_the_end(datasette, job)
    assert job.status is JobStatus.CANCELLED and job.cancel_reason
    assert books(db_path)[3] == 0


async def test_free_sql_that_fails_on_a_row_of_an_old_reservation_ends_the_job_with_the_reason(db_path, copy):
    async with serving(db_path) as datasette:
        await execute(datasette, "update papers set title = '{}'")
        job = await start(datasette, filters="_where=json_extract(title%2C'%24')+is+not+null")
        await left_behind(datasette, job, None, None)
        await execute(datasette, "update papers set title = 'no json' where id = 2")
        job = await to_the_end(datasette, job)
    assert job.status is JobStatus.CANCELLED and "malformed JSON" in job.cancel_reason


async def test_a_job_whose_row_is_deleted_ends_quietly(db_path):
    async def enrich(row):
        if row["id"] == 2:
            await execute(job_datasette, "delete from _enrichment_jobs")
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=1, max_open_batches=1)):
        async with serving(db_path) as job_datasette:
            await start(job_datasette)
            await asyncio.wait_for(run_until_idle(job_datasette), 10)
    assert rows(db_path, "select count(copied) from papers")[0][0] <= 2


# ---- shapes of tables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "definition, insert",
    [
        ("create table papers (id text)", "insert into papers values ('a'), ('b'), ('c')"),
        (
            "create table papers (id integer primary key, title text) strict",
            "insert into papers (id) values (1), (2), (3)",
        ),
        (
            "create table papers (id text primary key, n as (length(id)), m as (id || 'x') stored)",
            "insert into papers (id) values ('a/b'), ('c\"d'), ('e''f')",
        ),
        (
            "create table papers (id any, v any, primary key (id)) strict, without rowid",
            "insert into papers (id) values (1), ('1'), (x'31')",
        ),
        (
            "create table papers (id text primary key) without rowid",
            "insert into papers values (cast(x'ff' as text)), (cast(x'fe61' as text)), ('z')",
        ),
        (
            "create table papers (id text primary key)",
            "insert into papers values (cast(x'ff' as text)), (null), (null)",
        ),
        (
            "create table papers (id)",
            "insert into papers values (9223372036854775807), (-9223372036854775808), (9007199254740993)",
        ),
        (
            "create table papers (id, b, primary key (id, b))",
            "insert into papers values (null, 1), (null, 1), (1e999, 'x')",
        ),
    ],
)
async def test_tables_of_any_shape_are_enriched_once_a_row(tmp_path, definition, insert):
    path = tmp_path / "data.db"
    table(path, definition, insert, "create table writes (id)")
    table(path, "create trigger counts after update on papers begin insert into writes values (quote(new.id)); end")
    with registered(by_row(lambda row: {"copied": "yes"}, batch_size=1)):
        async with serving(path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 3, 0)
    assert rows(path, "select count(*) from papers where copied = 'yes'") == [(3,)]
    assert rows(path, "select count(*) from writes") == [(3,)]


async def test_a_table_with_a_slash_and_a_quote_in_its_name_runs(tmp_path, copy):
    path = tmp_path / "data.db"
    table(
        path,
        'create table "foo/bar\'s ""x""" (id integer primary key)',
        'insert into "foo/bar\'s ""x""" values (1), (2)',
    )
    async with serving(path) as datasette:
        job = await to_the_end(datasette, await start(datasette, 'foo/bar\'s "x"'))
    assert (job.status, job.done_count, job.table_name) == (JobStatus.FINISHED, 2, 'foo/bar\'s "x"')
    assert rows(path, 'select copied from "foo/bar\'s ""x"""') == [(1,), (2,)]


async def test_a_filter_on_the_column_that_the_job_writes_still_visits_every_row(db_path):
    table(db_path, "alter table papers add column copied")
    with registered(by_row(lambda row: {"copied": row["id"]}, batch_size=2)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette, filters="copied__isnull=1"))
    assert (job.status, job.row_count, job.done_count) == (JobStatus.FINISHED, 5, 5)


async def test_two_jobs_on_one_table_both_finish(db_path):
    counting(db_path)
    with registered(by_row(lambda row: {"copied": row["id"]}, batch_size=1)):
        async with serving(db_path) as datasette:
            first, second = await start(datasette), await start(datasette, filters="id__gt=2")
            await to_the_end(datasette, first)
            found = [await look(datasette, job) for job in (first, second)]
    assert [(job.status, job.done_count) for job in found] == [(JobStatus.FINISHED, 5), (JobStatus.FINISHED, 3)]
    assert rows(db_path, "select count(*) from writes") == [(8,)]


# ---- enrichments that misbehave around the rows ------------------------------------------------------------------


def with_stage(stage, problem, log):
    async def fail(self):
        log.append(stage)
        if problem is not None:
            raise problem

    made = by_row(lambda row: {"copied": row["id"]})
    setattr(type(made), stage, fail)
    return made


async def test_an_enrichment_that_cannot_begin_cancels_the_job_with_the_reason(db_path):
    with registered(with_stage("initialize", RuntimeError("no key"), [])):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.cancel_reason) == (JobStatus.CANCELLED, "E could not begin: RuntimeError: no key")
    assert job.done_count == 0


async def test_an_enrichment_that_pauses_while_it_begins_pauses_the_job(db_path):
    with registered(with_stage("initialize", Pause("out of tokens"), [])):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.pause_reason, job.done_count) == (JobStatus.PAUSED, "out of tokens", 0)


async def test_an_enrichment_that_cancels_while_it_begins_cancels_the_job(db_path):
    with registered(with_stage("initialize", Cancel("wrong table"), [])):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.cancel_reason) == (JobStatus.CANCELLED, "wrong table")


async def test_an_enrichment_that_cannot_end_keeps_the_rows_and_gives_the_reason(db_path):
    with registered(with_stage("finalize", RuntimeError("no report"), [])):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert job.status is JobStatus.CANCELLED and "no report" in job.cancel_reason
    assert (job.done_count, rows(db_path, "select count(copied) from papers")) == (5, [(5,)])


async def test_an_enrichment_that_pauses_at_the_end_pauses_the_job_and_ends_it_later(db_path):
    log = []
    made = with_stage("finalize", Pause("the service sleeps"), log)
    with registered(made):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
            assert (job.status, job.pause_reason, job.done_count) == (JobStatus.PAUSED, "the service sleeps", 5)

            async def nothing(self):
                log.append("ended")

            type(made).finalize = nothing
            await control.resume(datasette, "data", job.id, actor=ROOT)
            job = await to_the_end(datasette, job)
    assert (job.status, job.done_count, log) == (JobStatus.FINISHED, 5, ["finalize", "ended"])


async def test_an_enrichment_that_cannot_close_is_logged_and_the_job_is_finished(db_path, caplog):
    log = []
    with registered(with_stage("close", RuntimeError("still open"), log)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, log) == (JobStatus.FINISHED, ["close"])
    assert "e could not close" in caplog.text


async def test_close_follows_every_begin_also_where_the_job_is_cancelled(db_path):
    log = []
    made = with_stage("close", None, log)

    async def enrich_row(self, row, config):
        raise Cancel("enough")

    type(made).enrich_row = enrich_row
    with registered(made):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, log) == (JobStatus.CANCELLED, ["close"])


async def test_every_row_fails_and_the_limit_holds(tmp_path):
    path = tmp_path / "data.db"
    table(
        path,
        "create table papers (id integer primary key)",
        "with recursive c (n) as (select 1 union all select n + 1 from c where n < 40) insert into papers select n from c",
    )
    with registered(by_row(lambda row: 1 / 0, batch_size=1, max_open_batches=1)):
        async with serving(path) as datasette:
            job = await to_the_end(datasette, await start(datasette, options={"max_errors": 5}))
    assert (job.status, job.error_count, job.done_count) == (JobStatus.CANCELLED, 6, 6)
    assert job.cancel_reason == "6 rows are in error, more than the limit of 5"


async def test_an_enrichment_that_is_no_longer_installed_leaves_its_job_as_it_is(db_path):
    with registered(COPY):
        async with serving(db_path) as datasette:
            job = await start(datasette)
    async with serving(db_path) as datasette:
        await asyncio.wait_for(run_until_idle(datasette), 10)
        found = await look(datasette, job)
        assert (found.status, found.done_count) == (JobStatus.PENDING, 0)
    with registered(COPY):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, job)
    assert (job.status, job.done_count) == (JobStatus.FINISHED, 5)


async def test_stored_settings_that_no_longer_fit_cancel_the_job_with_the_reason(db_path, shout):
    async with serving(db_path) as datasette:
        job = await start(datasette, enrichment="shout", config={"column": "title"})
        await execute(datasette, "update _enrichment_jobs set config = '{\"column\": [1]}'")
        job = await to_the_end(datasette, job)
    assert job.status is JobStatus.CANCELLED and "stored settings do not fit" in job.cancel_reason


# ---- beside the older plugin -------------------------------------------------------------------------------------

OLD_TABLES = [
    "create table _enrichment_jobs (id integer primary key, status text, enrichment text, database_name text, "
    "table_name text, filter_querystring text, config text, started_at text, finished_at text, cancel_reason text, "
    "next_cursor text, row_count integer, error_count integer, done_count integer, actor_id text, cost_100ths_cent integer)",
    "create table _enrichment_errors (id integer primary key, job_id integer references _enrichment_jobs(id), "
    "created_at text, row_pks text, error text)",
]
OLD_JOB = (
    "insert into _enrichment_jobs (status, enrichment, database_name, table_name, filter_querystring, config, "
    "row_count, error_count, done_count, next_cursor) values ('running', '{}', 'data', 'papers', '{}', '{{}}', 5, 0, 2, '2')"
)


async def test_a_running_job_of_another_plugin_is_adopted_and_left_alone(db_path, copy, caplog):
    table(db_path, *OLD_TABLES, OLD_JOB.format("someone-elses", ""))
    async with serving(db_path) as datasette:
        await asyncio.wait_for(run_until_idle(datasette), 10)
        job = await to_the_end(datasette, await start(datasette))
    assert (job.id, job.status, job.done_count) == (2, JobStatus.FINISHED, 5)
    assert rows(db_path, "select status, done_count, next_cursor from _enrichment_jobs where id = 1") == [
        ("running", 2, "2")
    ]
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_job_of_another_plugin_that_shares_our_slug_is_left_alone_and_its_table_adopted(db_path, copy):
    table(db_path, *OLD_TABLES, OLD_JOB.format("e", ""))
    async with serving(db_path) as datasette:
        await asyncio.wait_for(run_until_idle(datasette), 10)
    assert rows(db_path, "select status, done_count, next_cursor from _enrichment_jobs") == [("running", 2, "2")]
    columns = {name for (name,) in rows(db_path, "select name from pragma_table_info('_enrichment_jobs')")}
    assert {"state", "options", "outcomes", "cost_nanodollars", "resume_at"} <= columns


async def test_a_pause_written_by_another_program_takes_effect(db_path):
    async def enrich(row):
        if row["id"] == 2:
            with contextlib.closing(sqlite3.connect(db_path)) as conn, conn:
                conn.execute("update _enrichment_jobs set status = 'paused'")
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=1, max_open_batches=1)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
            assert (job.status, job.done_count) == (JobStatus.PAUSED, 2)
            await execute(datasette, "update _enrichment_jobs set status = 'running'")
            job = await to_the_end(datasette, job)
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 5, 0)


async def test_counts_and_settings_are_never_null(db_path, copy):
    async with serving(db_path) as datasette:
        await start(datasette)
        columns = (
            "row_count, error_count, done_count, cost_100ths_cent, cost_nanodollars, config, state, options, outcomes"
        )
        [found] = rows(db_path, f"select {columns} from _enrichment_jobs")
        assert found == (5, 0, 0, 0, 0, "{}", "{}", "{}", "{}") and json.loads(found[5]) == {}


async def test_nobody_else_is_judged_alive_by_default():
    assert Timing().liveness("far:away:1:1:ab") is Liveness.UNKNOWN


async def test_an_empty_batch_form_answers_nothing_and_still_counts(db_path):
    with registered(by_batch(lambda given, pks: None)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.done_count, job.outcomes) == (JobStatus.FINISHED, 5, {"success": 5})
