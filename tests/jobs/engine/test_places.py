"""Jobs that run at once are bounded, and the places are shared fairly between actors."""

from __future__ import annotations

import asyncio
import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest import Defer
from datasette_ingest.jobs.engine.places import SLICE_SECONDS, Contender, Holder, share
from datasette_ingest.jobs.model import JobStatus, StartRequest
from datasette_ingest.jobs.service import control, queries

from ... import virtual
from ...conftest import ROOT, registered, rows, serving
from ..kit import at_work, by_row, look, start, table

UTC = datetime.timezone.utc


def holder(number, actor, **more):
    return Holder(("d", number), actor, **{"since": 0.0, **more})


def contender(number, actor, **more):
    return Contender(("d", number), actor, (0, "", ("d", number)), **more)


def ids(marks):
    return [mark[1] for mark in marks]


def shares(holders, contenders, *, most=2, now=0.0, served=None):
    found = share(holders, contenders, most=most, now=now, served=served or {})
    return ids(found.start), ids(found.leave), ids(found.wait)


# ---- the decision ----------------------------------------------------------------------------------------------


def test_free_places_go_round_the_actors_and_within_an_actor_to_the_oldest_job():
    asked = [*(contender(number, "ada") for number in (1, 2, 3)), contender(4, "bob"), contender(5, None)]
    assert shares([], asked, most=4) == ([1, 4, 5, 2], [], [3])


def test_who_was_served_longest_ago_comes_first():
    assert shares([], [contender(1, "ada"), contender(2, "bob")], most=1, served={"ada": 7, "bob": 3})[0] == [2]


def test_without_a_bound_every_job_has_a_place():
    assert shares([], [contender(number, "ada") for number in range(50)], most=None)[0] == list(range(50))


def test_a_deferred_job_leaves_its_place_when_another_waits_and_keeps_it_otherwise():
    holders = [holder(1, "ada", is_deferred=True), holder(2, "ada")]
    assert shares(holders, []) == ([], [], [])
    assert shares(holders, [contender(3, "ada")]) == ([], [1], [3])
    assert shares(holders, [contender(3, "ada", is_deferred=True)]) == ([], [], [])


def test_an_actor_without_a_place_gets_one_of_an_actor_who_has_two():
    holders = [holder(1, "ada", since=1.0), holder(2, "ada", since=2.0)]
    assert shares(holders, [contender(3, "bob")]) == ([], [2], [3])
    assert shares(holders, [contender(3, "ada")]) == ([], [], [3])


def test_with_more_actors_than_places_each_has_one_for_a_while():
    holders = [holder(1, "ada", since=5.0), holder(2, "bob", since=9.0)]
    assert shares(holders, [contender(3, "cy")], now=SLICE_SECONDS)[1] == []
    assert shares(holders, [contender(3, "cy")], now=SLICE_SECONDS + 5.0)[1] == [1]


def test_no_second_job_leaves_for_one_that_waits():
    holders = [holder(1, "ada", is_leaving=True), holder(2, "ada")]
    assert shares(holders, [contender(3, "bob")]) == ([], [], [3])


actors = st.sampled_from(["ada", "bob", None])


@given(
    st.lists(st.tuples(actors, st.booleans(), st.booleans(), st.floats(0, 2000)), max_size=6),
    st.lists(st.tuples(actors, st.booleans()), max_size=8),
    st.integers(1, 6),
)
def test_never_more_than_the_bound_and_no_free_place_while_somebody_waits(held, asked, most):
    holders = [
        holder(number, actor, is_deferred=deferred, is_leaving=leaving, since=since)
        for number, (actor, deferred, leaving, since) in enumerate(held[:most])
    ]
    contenders = [
        contender(100 + number, actor, is_deferred=deferred) for number, (actor, deferred) in enumerate(asked)
    ]
    found = share(holders, contenders, most=most, now=1000.0, served={})
    assert len(holders) + len(found.start) == min(most, len(holders) + len(contenders))
    assert set(found.wait) <= {each.mark for each in contenders if not each.is_deferred} - set(found.start)
    assert set(found.leave) <= {each.mark for each in holders if not each.is_leaving}
    promised = sum(each.is_leaving for each in holders) + len(found.leave)
    assert promised <= max(sum(each.is_leaving for each in holders), len(found.wait))


# ---- a worker --------------------------------------------------------------------------------------------------


async def until(condition, *, seconds=300):
    for _ in range(seconds):
        if await condition():
            return
        await asyncio.sleep(1.0)
    pytest.fail("it never came to that")


def two_databases(tmp_path):
    paths = [tmp_path / "data.db", tmp_path / "more.db"]
    for path in paths:
        table(path, "create table papers (id integer primary key)", "insert into papers values (1), (2)")
    return paths


def test_so_many_jobs_run_at_once_over_all_databases_and_the_others_are_pending_and_say_why(tmp_path):
    gate, running, most_seen = asyncio.Event(), set(), []

    async def enrich(row, job):
        running.add((job.id, id(job)))
        most_seen.append(len(running))
        await gate.wait()
        running.discard((job.id, id(job)))
        return {"copied": row["id"]}

    async def main(clock):
        with registered(with_job(enrich)):
            async with serving(*two_databases(tmp_path)) as datasette:
                jobs = [await start(datasette) for _ in range(3)]
                others = [
                    await control.start(datasette, "more", StartRequest("papers", "e", actor=ROOT)) for _ in range(3)
                ]
                async with at_work(datasette, clock, max_running_jobs=2) as worker:
                    await asyncio.sleep(5.0)
                    counts = [count for _, count in await statuses(tmp_path)]
                    assert len(worker.runners) == 2 and sum(counts) == 6
                    waiting = [job for job in jobs if (await look(datasette, job)).status is JobStatus.PENDING]
                    assert waiting
                    [event, *_] = await queries.events(datasette.get_database("data"), waiting[0], limit=5)
                    assert event.message == "Waits for a place: 2 jobs may run at once, and as many do"
                    gate.set()

                    async def all_over():
                        ended = [await look(datasette, job) for job in jobs]
                        ended += [await queries.find(datasette, "more", job.id, actor=ROOT) for job in others]
                        return all(job.status is JobStatus.FINISHED for job in ended)

                    await until(all_over)

    virtual.run(main)
    assert max(most_seen) <= 2
    for path in (tmp_path / "data.db", tmp_path / "more.db"):
        assert rows(path, "select sum(done_count), sum(error_count) from _enrichment_jobs") == [(6, 0)]


async def statuses(tmp_path):
    return [
        each
        for name in ("data", "more")
        for each in rows(tmp_path / f"{name}.db", "select status, count(*) from _enrichment_jobs group by 1")
    ]


def with_job(enrich):
    made = by_row(enrich, batch_size=1, max_open_batches=1)

    async def enrich_row(self, row, config, job):
        return await enrich(row, job)

    type(made).enrich_row = enrich_row
    return made


def test_a_person_with_one_job_does_not_wait_for_another_persons_many(db_path):
    order = []

    async def enrich(row, job):
        if job.actor_id not in order:
            order.append(job.actor_id)
        await asyncio.sleep(1000.0 if job.actor_id == "root" else 0.0)
        return {f"copied{job.id}": row["id"]}

    allow = {"allow": {"id": ["root", "bob"]}}

    async def main(clock):
        with registered(with_job(enrich)):
            async with serving(db_path, plugin=allow, **compat_allow()) as datasette:
                for _ in range(4):
                    await start(datasette)
                async with at_work(datasette, clock, max_running_jobs=2):
                    await asyncio.sleep(5.0)
                    theirs = await start(datasette, actor={"id": "bob"})

                    async def over():
                        return (await look(datasette, theirs)).status is JobStatus.FINISHED

                    await until(over)
                    took = clock.elapsed
                    left = rows(db_path, "select status, count(*) from _enrichment_jobs group by 1 order by 1")
                return took, left

    took, left = virtual.run(main)
    assert took < 1000.0, "the rows of root's jobs take longer than that"
    assert sorted(order) == ["bob", "root"] and ("finished", 1) in left


def compat_allow():
    return {"permissions": {"enrich-table": {"id": ["root", "bob"]}}}


@pytest.mark.slow
def test_a_job_whose_rows_all_wait_gives_its_place_to_another_and_goes_on_in_time(db_path):
    async def main(clock):
        async def enrich(row, job):
            if job.id == 1 and not job.deferrals:
                raise Defer(datetime.datetime.fromtimestamp(clock() + 3600.0, UTC), "The host rests")
            return {"copied": row["id"]}

        with registered(with_job(enrich)):
            async with serving(db_path) as datasette:
                first = await start(datasette)
                async with at_work(datasette, clock, max_running_jobs=1):

                    async def waits():
                        return (await look(datasette, first)).waits_until is not None

                    await until(waits)
                    second = await start(datasette)

                    async def over():
                        return (await look(datasette, second)).status is JobStatus.FINISHED

                    await until(over)
                    took, waiting = clock.elapsed, await look(datasette, first)

                    async def first_over():
                        return (await look(datasette, first)).status is JobStatus.FINISHED

                    await until(first_over, seconds=4000)
                return took, waiting, await look(datasette, first)

    took, waiting, ended = virtual.run(main)
    assert took < 3600.0 and waiting.status is JobStatus.RUNNING and waiting.waits_until is not None
    assert (ended.status, ended.done_count, ended.error_count) == (JobStatus.FINISHED, 5, 0)


def test_a_restart_runs_no_more_jobs_than_before(db_path):
    seen = []

    async def enrich(row, job):
        await asyncio.sleep(1.0)
        return {f"copied{job.id}": row["id"]}

    async def main(clock):
        with registered(with_job(enrich)):
            async with serving(db_path) as datasette:
                jobs = [await start(datasette) for _ in range(5)]
                async with at_work(datasette, clock):
                    await asyncio.sleep(2.0)
            assert rows(db_path, "select status, count(*) from _enrichment_jobs group by 1") == [("running", 5)]
            async with serving(db_path) as datasette:
                async with at_work(datasette, clock, max_running_jobs=2) as worker:

                    async def all_over():
                        seen.append(len(worker.runners))
                        return all([(await look(datasette, job)).status is JobStatus.FINISHED for job in jobs])

                    await until(all_over)
                return [await look(datasette, job) for job in jobs]

    jobs = virtual.run(main)
    assert max(seen) == 2 and [job.done_count for job in jobs] == [5] * 5
    assert rows(db_path, "select count(*) from _enrichment_batches") == [(0,)]
