"""Reservations that another program deletes, or a trigger of the user's: every row is answered once all the same."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from datasette_ingest import complete
from datasette_ingest.jobs.engine.worker import Worker
from datasette_ingest.jobs.service import control

from ... import virtual
from ...conftest import ROOT, registered, rows, serving
from ..kit import books, by_batch, by_row, counting, execute, look, start, table, to_the_end
from .test_complete import all_put_off, answer
from .test_defer import reservations

ALL = "delete from _enrichment_batches"
THIRD = '[["integer", "3"]]'


def each_row_once(db_path):
    assert books(db_path) == ("finished", 5, 0, 0)
    assert rows(db_path, "select id, copied from papers order by id") == [(n, n) for n in range(1, 6)]
    assert rows(db_path, "select row, count(*) from writes group by 1") == [(n, 1) for n in range(1, 6)]


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize(
    "sql", [ALL, "delete from _enrichment_batches where leased_by is not null", f"{ALL} where 1 = id"]
)
@pytest.mark.parametrize("when", [1, 3, 5])
async def test_deleted_by_another_program_while_a_row_is_worked_on(db_path, size, sql, when):
    counting(db_path)

    def enrich(row):
        if row["id"] == when:
            table(db_path, sql)
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=size, max_open_batches=2)):
        async with serving(db_path) as datasette:
            await to_the_end(datasette, await start(datasette))
    each_row_once(db_path)


@pytest.mark.parametrize("event", ["update on papers", "insert on _enrichment_progress", "update on _enrichment_jobs"])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("is_by_row", [True, False])
async def test_deleted_by_a_trigger_whenever_the_job_writes(db_path, event, moment, is_by_row):
    counting(db_path)
    if is_by_row:
        made = by_row(lambda row: {"copied": row["id"]}, max_open_batches=2)
    else:
        made = by_batch(lambda rows, pks: answer(*pks), max_open_batches=2)
    with registered(made):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            await execute(datasette, f"create trigger theirs {moment} {event} begin {ALL}; end")
            await to_the_end(datasette, job)
    each_row_once(db_path)


@pytest.mark.parametrize("deaths", [0, 2])
async def test_deleted_while_nobody_holds_them(db_path, deaths):
    """Given back at a pause, among them poison batches, which are bisected."""
    counting(db_path)
    with registered(by_row(lambda row: {"copied": row["id"]}, batch_size=3)):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            await control.pause(datasette, "data", job.id, actor=ROOT)
            await execute(
                datasette,
                "insert into _enrichment_batches (job_id, start_cursor, end_cursor, row_count, deaths, attempts) "
                "values (?, null, ?, 3, ?, ?)",
                job.id,
                THIRD,
                deaths,
                deaths // 2,
            )
            await execute(datasette, "update _enrichment_jobs set next_cursor = ?", THIRD)
            table(db_path, ALL)
            await control.resume(datasette, "data", job.id, actor=ROOT)
            await to_the_end(datasette, job)
    each_row_once(db_path)


def test_deleted_while_they_are_put_off_and_then_answered_from_outside(db_path):
    counting(db_path)

    async def main(clock):
        async with all_put_off(db_path, clock) as (datasette, job):
            table(db_path, ALL)
            held = len(reservations(db_path))
            said = [await complete(datasette, "data", f"row {n}", answer(n), clock=clock) for n in range(1, 6)]
            await Worker(datasette, timing=clock.timing()).run_until_idle(waits=False)
            return held, said, await look(datasette, job)

    held, said, _ = virtual.run(main)
    assert held == 5 and said == [True] * 5
    each_row_once(db_path)


@pytest.mark.parametrize("foreign_keys", ["on", "off"])
async def test_those_of_a_job_that_is_over_or_deleted_go(db_path, foreign_keys):
    with registered(by_row(lambda row: {"copied": row["id"]})):
        async with serving(db_path) as datasette:
            for _ in range(2):
                job = await start(datasette)
                await control.pause(datasette, "data", job.id, actor=ROOT)
                await execute(
                    datasette, "insert into _enrichment_batches (job_id, end_cursor) values (?, '[3]')", job.id
                )
    with contextlib.closing(sqlite3.connect(db_path)) as conn, conn:
        conn.execute(f"pragma foreign_keys = {foreign_keys}")
        conn.execute(ALL)
        assert conn.execute("select count(*) from _enrichment_batches").fetchone() == (2,)
        conn.execute("delete from _enrichment_jobs where id = 1")
        assert conn.execute("select job_id from _enrichment_batches").fetchall() == [(2,)]
        conn.execute("update _enrichment_jobs set status = 'cancelled'")
        conn.execute(ALL)
        assert conn.execute("select count(*) from _enrichment_batches").fetchone() == (0,)
