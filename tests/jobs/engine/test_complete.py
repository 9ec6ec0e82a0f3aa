"""Rows that were put off with a ticket are answered from outside: once, and only while nobody works on them."""

from __future__ import annotations

import asyncio
import contextlib
import datetime

import pytest

from datasette_ingest import BatchOutcome, Defer, RowDefer, RowError, RowUpdate, complete
from datasette_ingest.jobs.engine.worker import Worker
from datasette_ingest.jobs.model import Deferral, JobStatus
from datasette_ingest.jobs.service import control, queries

from ... import virtual
from ...conftest import ROOT, registered, rows, serving
from ..kit import books, by_batch, counting, execute, look, start, table
from .test_defer import UTC, at_work, moment, reservations, waiting

FOR_EVER = datetime.datetime(9000, 1, 1, tzinfo=UTC)


def asked_elsewhere(**attributes):
    """An enrichment whose rows wait for an answer from outside; `.until`: when it asks again."""

    async def enrich_batch(self, rows, pks, config, job):
        if job.deferrals:
            return BatchOutcome(updates=[RowUpdate(pk, {"copied": -pk}) for pk in pks])
        return BatchOutcome(deferred=[RowDefer(pk, self.until, "the fleet has it", ticket=f"row {pk}") for pk in pks])

    made = by_batch(None, **attributes)
    type(made).enrich_batch = enrich_batch
    made.until = FOR_EVER
    return made


def answer(*pks, **more):
    return BatchOutcome(updates=[RowUpdate(pk, {"copied": pk}) for pk in pks], **more)


@contextlib.asynccontextmanager
async def all_put_off(db_path, clock, made=None, **options):
    """(datasette, job): every row waits, and no process works."""
    with registered(made or asked_elsewhere()):
        async with serving(db_path) as datasette:
            job = await start(datasette, **options)
            await Worker(datasette, timing=clock.timing()).run_until_idle(waits=False)
            yield datasette, job


def test_a_row_is_answered_once_and_the_job_ends_when_all_are(db_path):
    counting(db_path)

    async def main(clock):
        async with all_put_off(db_path, clock) as (datasette, job):
            async with at_work(datasette, clock) as worker:
                await waiting(worker)
                said = [await complete(datasette, "data", f"row {n}", answer(n), clock=clock) for n in (2, 2, 9)]
                early = await look(datasette, job), len(reservations(db_path))
                for n in (1, 3, 4):
                    await complete(datasette, "data", f"row {n}", answer(n, cost_nanodollars=5), clock=clock)
                await complete(
                    datasette,
                    "data",
                    "row 5",
                    BatchOutcome(errors=[RowError(5, "the fleet lost it")], writes=[note]),
                    clock=clock,
                )
                while not (ended := await look(datasette, job)).status.is_final:
                    await asyncio.sleep(0.5)
            return said, early, ended

    def note(conn):
        conn.execute("create table notes (said)")

    said, (early, held), ended = virtual.run(main)
    assert said == [True, False, False]
    assert (early.status, early.done_count, held) == (JobStatus.RUNNING, 1, 4)
    assert (ended.status, ended.outcomes) == (JobStatus.FINISHED, {"success": 4, "error": 1})
    assert (ended.done_count, ended.error_count, ended.cost_nanodollars) == (5, 1, 15)
    assert rows(db_path, "select row from writes order by 1") == [(1,), (2,), (3,), (4,)]
    assert rows(db_path, "select error from _enrichment_errors") == [("the fleet lost it",)]
    assert rows(db_path, "select count(*) from notes") == [(0,)]


def test_what_a_process_works_on_is_not_answered_from_outside(db_path):
    async def main(clock):
        held = asyncio.Event()

        async def enrich_batch(self, rows, pks, config, job):
            if not job.deferrals:
                raise Defer(moment(clock() + 5.0), "soon", ticket=f"batch {pks[0]}")
            if 1 in pks:
                await held.wait()
            return answer(*pks)

        made = by_batch(None)
        type(made).enrich_batch = enrich_batch
        async with all_put_off(db_path, clock, made) as (datasette, job), at_work(datasette, clock):
            await asyncio.sleep(10.0)
            refused = await complete(datasette, "data", "batch 1", answer(1, 2), clock=clock)
            held.set()
            while not (ended := await look(datasette, job)).status.is_final:
                await asyncio.sleep(0.5)
            return refused, await complete(datasette, "data", "batch 1", answer(1, 2), clock=clock), ended

    refused, again, ended = virtual.run(main)
    assert (refused, again) == (False, False)
    assert ended.outcomes == {"success": 5}


def test_a_ticket_is_good_after_its_time_and_after_a_process_gave_the_row_back(db_path):
    made = asked_elsewhere()

    async def main(clock):
        made.until = moment(clock() + 5.0)
        async with all_put_off(db_path, clock, made, filters="id=1") as (datasette, job):
            await asyncio.sleep(10.0)
            await execute(datasette, "update _enrichment_batches set not_before = null")
            assert await complete(datasette, "data", "row 1", answer(1), clock=clock)
            await Worker(datasette, timing=clock.timing()).run_until_idle()
            return await look(datasette, job)

    assert virtual.run(main).outcomes == {"success": 1}
    assert rows(db_path, "select copied from papers where id = 1") == [(1,)]


@pytest.mark.parametrize("act", ["pause", "cancel"])
def test_a_paused_job_takes_answers_and_a_cancelled_one_does_not(db_path, act):
    async def main(clock):
        async with all_put_off(db_path, clock) as (datasette, job):
            await getattr(control, act)(datasette, "data", job.id, actor=ROOT)
            said = [await complete(datasette, "data", f"row {n}", answer(n), clock=clock) for n in range(1, 6)]
            if act == "pause":
                await control.resume(datasette, "data", job.id, actor=ROOT)
                await Worker(datasette, timing=clock.timing()).run_until_idle()
            return said, await look(datasette, job)

    said, job = virtual.run(main)
    if act == "pause":
        assert said == [True] * 5 and (job.status, job.done_count) == (JobStatus.FINISHED, 5)
    else:
        assert said == [False] * 5 and (job.status, job.done_count) == (JobStatus.CANCELLED, 0)


def test_the_limit_of_errors_holds_for_answers_from_outside(db_path):
    async def main(clock):
        async with all_put_off(db_path, clock, options={"max_errors": 1}) as (datasette, job):
            said = [
                await complete(datasette, "data", f"row {n}", BatchOutcome(errors=[RowError(n, "no")]), clock=clock)
                for n in (1, 2, 3)
            ]
            return said, await look(datasette, job)

    said, job = virtual.run(main)
    assert said == [True, True, False]
    assert (job.status, job.error_count) == (JobStatus.CANCELLED, 2)
    assert "more than the limit of 1" in job.cancel_reason and reservations(db_path) == []


def test_an_answer_may_put_its_rows_off_again(db_path):
    async def main(clock):
        async with all_put_off(db_path, clock, filters="id__lte=2") as (datasette, job):
            later = RowDefer(1, moment(clock() + 30.0), "the fleet is asked again", ticket="second")
            assert await complete(datasette, "data", "row 1", BatchOutcome(deferred=[later]), clock=clock)
            held = reservations(db_path)
            assert not await complete(datasette, "data", "row 1", answer(1), clock=clock)
            assert await complete(datasette, "data", "second", answer(1), clock=clock)
            assert await complete(datasette, "data", "row 2", answer(2), clock=clock)
            await Worker(datasette, timing=clock.timing()).run_until_idle()
            return held, await look(datasette, job)

    held, job = virtual.run(main)
    assert (1, 0, "the fleet is asked again", 2, "second") in held
    assert (job.status, job.outcomes) == (JobStatus.FINISHED, {"success": 2})


def test_rows_that_the_table_refuses_are_errors_and_a_trigger_that_rolls_back_harms_no_other_row(db_path):
    table(
        db_path,
        "alter table papers add column copied",
        "create trigger refuses before update on papers when new.id in (1, 2) "
        "begin select case new.id when 1 then raise(abort, 'no') else raise(rollback, 'never') end; end",
    )

    async def main(clock):
        async with all_put_off(db_path, clock) as (datasette, job):
            said = [await complete(datasette, "data", f"row {n}", answer(n), clock=clock) for n in range(1, 6)]
            await Worker(datasette, timing=clock.timing()).run_until_idle()
            return said, await look(datasette, job)

    said, job = virtual.run(main)
    assert said == [True] * 5
    assert (job.status, job.outcomes) == (JobStatus.FINISHED, {"success": 3, "error": 2})
    assert rows(db_path, "select error from _enrichment_errors order by 1") == [("never",), ("no",)]


def test_an_answer_that_names_other_rows_or_is_none_writes_nothing(db_path):
    async def main(clock):
        async with all_put_off(db_path, clock) as (datasette, _):
            assert not await complete(datasette, "data", "row 1", answer(2), clock=clock)
            with pytest.raises(TypeError):
                await complete(datasette, "data", "row 1", {"copied": 1}, clock=clock)
            await execute(datasette, "delete from papers where id = 3")
            assert not await complete(datasette, "data", "row 3", answer(3), clock=clock)
            return len(reservations(db_path))

    assert virtual.run(main) == 5
    assert books(db_path) == ("running", 0, 0, 5)


async def test_where_no_job_ever_ran_no_ticket_is_known(db_path):
    async with serving(db_path) as datasette:
        assert await complete(datasette, "data", "any", answer(1)) is False


def test_filters_with_sql_of_a_persons_own_are_read_again_outside_the_transaction(db_path):
    async def main(clock):
        async with all_put_off(db_path, clock, filters="_where=id+%3C+3") as (datasette, job):
            said = [await complete(datasette, "data", f"row {n}", answer(n), clock=clock) for n in (1, 2, 3)]
            await Worker(datasette, timing=clock.timing()).run_until_idle()
            return said, await look(datasette, job)

    said, job = virtual.run(main)
    assert said == [True, True, False] and (job.status, job.outcomes) == (JobStatus.FINISHED, {"success": 2})


def test_of_many_answers_at_once_each_is_written_once(db_path):
    counting(db_path)

    async def main(clock):
        async with all_put_off(db_path, clock) as (datasette, job), at_work(datasette, clock):
            said = await asyncio.gather(
                *(complete(datasette, "data", f"row {n}", answer(n), clock=clock) for n in (1, 2, 3, 4, 5) * 3)
            )
            while not (ended := await look(datasette, job)).status.is_final:
                await asyncio.sleep(0.5)
            return said, ended

    said, job = virtual.run(main)
    assert sum(said) == 5 and job.outcomes == {"success": 5}
    assert rows(db_path, "select row from writes order by 1") == [(n,) for n in range(1, 6)]


def test_rows_that_only_an_answer_ends_wait_for_no_time_and_a_function_may_make_it(db_path):
    counting(db_path)

    async def enrich_batch(self, rows, pks, config, job):
        if pks == [5]:
            self.again.append(5)
        if self.again.count(5) > 1:
            return answer(5)
        return BatchOutcome(deferred=[RowDefer(pk, None, "the fleet has it", ticket=f"row {pk}") for pk in pks])

    made = by_batch(None, batch_size=1, max_deferred_rows=3)
    type(made).enrich_batch = enrich_batch
    made.again = []

    def from_rows(conn, deferred):
        if deferred.pks == [5]:
            return BatchOutcome(deferred=[RowDefer(5, moment(0.0), "again", counts=False)])
        assert tuple(conn.execute("select count(*) from papers").fetchone()) == (5,)
        deferred.counters["answers"] = len(deferred.rows)
        return answer(*deferred.pks)

    async def main(clock):
        with registered(made):
            async with serving(db_path) as datasette, at_work(datasette, clock) as worker:
                job = await start(datasette)
                await waiting(worker)
                seen = await look(datasette, job), reservations(db_path), await queries.waits(worker_db(datasette), job)
                while not (ended := await look(datasette, job)).status.is_final:
                    for number in range(1, 6):
                        await complete(datasette, "data", f"row {number}", from_rows, clock=clock)
                    await asyncio.sleep(0.5)
                return seen, ended

    (early, held, waits), ended = virtual.run(main)
    assert (early.status, early.waits_until, len(held)) == (JobStatus.RUNNING, None, 3)
    assert [(wait.reason, wait.until, wait.rows) for wait in waits] == [("the fleet has it", None, 3)]
    assert (ended.status, ended.outcomes, ended.state["answers"]) == (JobStatus.FINISHED, {"success": 5}, 4)


def worker_db(datasette):
    return datasette.get_database("data")


@pytest.mark.parametrize("ticket", [None, 3])
def test_a_row_without_time_and_ticket_is_in_error(ticket):
    with pytest.raises(TypeError):
        Deferral.of(RowDefer(1, None, "when?", ticket=ticket))
