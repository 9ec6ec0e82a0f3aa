"""One open batch: every answer reaches its own row, and the batch is closed once, whatever the enrichment does."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from datasette_ingest import BatchOutcome, Pause, RowError, RowUpdate
from datasette_ingest.jobs.engine import batch_run, pacing
from datasette_ingest.jobs.engine.batch_run import BatchRun, JobContext
from datasette_ingest.jobs.engine.cycle import Reservation
from datasette_ingest.jobs.keyset import Page, TableKey
from datasette_ingest.jobs.model import Batch, JobStatus
from datasette_ingest.jobs.service import queries

from ...conftest import registered, rows, serving
from ..kit import AnyConfig, books, by_batch, by_row, execute, quick, start, to_the_end

KEY = TableKey("papers", (), '"papers"."id"', ("id",), ())


class NoHandle:
    """The job of a batch that asks nothing of it."""

    id, actor_id = 1, None
    has_spent = False

    def take(self):
        return {}, {}

    def take_spent(self):
        return 0


def a_batch(enrichment, number):
    page = Page([(f"paper {n}", n) for n in range(number)], 1)
    context = JobContext(None, None, enrichment, AnyConfig(), KEY, ("title",))
    return BatchRun(Reservation(Batch(1, 1, None, "", number), page), NoHandle(), context)


async def test_a_batch_whose_last_row_is_answered_before_its_task_ends_is_closed_all_the_same(monkeypatch):
    monkeypatch.setattr(batch_run, "BREATHE_SECONDS", -1.0)  # after every row others may run, the last one included
    batch = a_batch(by_row(lambda row: {"shouted": row["title"]}), 2)
    batch.start(lambda _: None)
    takes = []
    while not batch.is_over:
        await asyncio.sleep(0)
        takes.append(batch.take())
    takes.append(batch.take())
    done = [take for take in takes if take is not None]
    assert sum(take.result.rows for take in done) == 2
    assert [take.is_whole for take in done][-1] is True
    assert sum(take.is_whole for take in done) == 1


async def test_slow_rows_that_starve_the_loop_still_end_their_job(db_path, monkeypatch):
    monkeypatch.setattr(batch_run, "BREATHE_SECONDS", -1.0)
    monkeypatch.setattr(pacing, "COMMIT_SECONDS", 0.0)
    with registered(by_row(lambda row: time.sleep(0.01) or {"shouted": 1}, batch_size=1)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.done_count) == (JobStatus.FINISHED, 5)


async def test_a_row_that_refuses_to_be_called_off_does_not_shift_the_answers_of_others():
    async def enrich(row):
        if row["title"] == "paper 1":
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                return {"copied": "too late"}
        await asyncio.sleep(0.01)
        return {"copied": row["title"]}

    batch = a_batch(by_row(enrich), 4)
    batch.start(lambda _: None)
    await asyncio.sleep(0.05)
    hung, batch.task = batch.task, None
    batch.time_out(1.0)
    hung.cancel()
    batch.start(lambda _: None)
    await asyncio.wait([hung, batch.task])
    assert batch.row_values == [{"copied": "paper 0"}, None, {"copied": "paper 2"}, {"copied": "paper 3"}]


async def test_a_row_that_never_comes_back_is_an_error_and_the_rows_behind_it_go_on(db_path):
    async def enrich(row):
        await asyncio.sleep(30 if row["id"] == 2 else 0)
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=5)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette), timing=quick(batch_seconds=0.3))
            found = await queries.errors(datasette.get_database("data"), job)
    assert rows(db_path, "select id, copied from papers") == [(1, 1), (2, None), (3, 3), (4, 4), (5, 5)]
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 5, 1)
    assert [(error.row_pks, error.error) for error in found] == [([2], "No answer within batch_seconds = 0.3 s")]


async def test_a_batch_that_never_comes_back_is_an_error_and_other_batches_go_on(db_path):
    async def enrich(given, pks):
        await asyncio.sleep(30 if 3 in pks else 0)

    with registered(by_batch(enrich)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette), timing=quick(batch_seconds=0.3))
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 5, 2)


FORGOTTEN = "BatchRun._run: a task that ends without an answer is forgotten while its reservation stays ours for ever"


@pytest.mark.parametrize("problem", [asyncio.CancelledError, GeneratorExit, SystemExit])
async def test_a_row_that_raises_more_than_an_exception_does_not_block_its_job(db_path, problem):
    def enrich(row):
        if row["id"] == 2:
            raise problem
        return {"copied": row["id"]}

    with registered(by_row(enrich)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 5, 1)
    assert rows(db_path, "select copied from papers") == [(1,), (None,), (3,), (4,), (5,)]


async def test_a_batch_that_raises_more_than_an_exception_does_not_block_its_job(db_path):
    def enrich(given, pks):
        if 3 in pks:
            raise asyncio.CancelledError
        return BatchOutcome(updates=[RowUpdate(pk, {"copied": pk}) for pk in pks])

    with registered(by_batch(enrich)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 5, 2)


async def test_an_enrichment_that_asks_for_what_the_engine_lacks_ends_its_job_with_the_name(db_path):
    async def enrich_row(self, row, config, nosuch):
        return None

    made = by_row(None)
    type(made).enrich_row = enrich_row
    with registered(made):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
            found = await queries.errors(datasette.get_database("data"), job)
    assert job.status.is_final
    assert "nosuch" in (job.cancel_reason or "") + "".join(error.error for error in found)


async def test_notes_that_are_changed_in_place_are_kept(db_path):
    async def enrich_row(self, row, config, job):
        job.state.setdefault("seen", []).append(row["id"])
        await asyncio.sleep(0.3)  # every row is a commit of its own
        return None

    made = by_row(None, batch_size=3, max_open_batches=1)
    type(made).enrich_row = enrich_row
    with registered(made):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette, filters="id__lt=4"))
    assert job.state == {"seen": [1, 2, 3]}


async def test_counters_of_batches_at_work_together_all_count(db_path):
    async def enrich_row(self, row, config, job):
        await asyncio.sleep(0)
        job.add("tokens", row["id"])
        job.state["last"] = row["id"]
        return None

    made = by_row(None, batch_size=1, max_open_batches=5)
    type(made).enrich_row = enrich_row
    with registered(made):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert job.state["tokens"] == 15 and job.state["last"] in range(1, 6)


NO_JSON = "JobHandle.take gives notes that no JSON holds: the transaction fails and with it the job"


@pytest.mark.parametrize(
    "key, value",
    [
        ("plain", {1, 2}),
        ("plain", b"x"),
        ("surrogate", "\udcff"),
        pytest.param((1, 2), 3),
        pytest.param("loop", "itself"),
    ],
    ids=["a set", "bytes", "a lone surrogate", "a tuple as key", "a loop"],
)
async def test_notes_that_are_no_json_do_not_stop_the_job(db_path, key, value):
    async def enrich_row(self, row, config, job):
        if row["id"] == 1:
            job.state[key] = job.state if value == "itself" else value
        return {"copied": row["id"]}

    made = by_row(None)
    type(made).enrich_row = enrich_row
    with registered(made):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.done_count) == (JobStatus.FINISHED, 5)
    assert books(db_path)[3] == 0


@pytest.mark.parametrize(
    "outcome",
    [
        "text",
        BatchOutcome(updates=[RowUpdate(99, {"a": 1})]),
        BatchOutcome(errors=[RowError("nobody", "no")]),
        BatchOutcome(updates=[RowUpdate(1, None)]),
        BatchOutcome(writes=["not callable"]),
        pytest.param(BatchOutcome(outcomes={"success": "many"})),
        pytest.param(BatchOutcome(outcomes={None: 1})),
        pytest.param(BatchOutcome(cost_nanodollars="dear")),
        pytest.param(BatchOutcome(cost_nanodollars=0.5)),
    ],
    ids=str,
)
async def test_a_batch_outcome_that_is_none_is_the_batchs_error_with_the_reason(db_path, outcome):
    def enrich(given, pks):
        return outcome if 1 in pks else None

    with registered(by_batch(enrich)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
            found = await queries.errors(datasette.get_database("data"), job)
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 5, 2)
    assert job.outcomes == {"success": 3, "error": 2} and job.cost_nanodollars == 0
    assert [error.row_pks for error in found] == [[1], [2]] and all(error.error for error in found)


async def test_a_row_answered_with_text_is_that_rows_error_alone(db_path):
    with registered(by_row(lambda row: "no" if row["id"] == 1 else {"copied": 1})):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.done_count, job.error_count) == (5, 1)
    assert rows(db_path, "select count(copied) from papers") == [(4,)]


async def test_columns_whose_names_are_no_text_are_an_error_and_never_block(db_path):
    with registered(by_row(lambda row: {7: 1} if row["id"] == 1 else {"copied": 1})):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.done_count) == (JobStatus.FINISHED, 5)
    assert (1,) in rows(db_path, "select id from papers where copied is null")
    assert rows(db_path, "select 1 from _enrichment_errors where row_pks = '[1]'") == [(1,)]


async def test_a_message_with_bytes_that_are_no_text_is_kept_readably(db_path):
    def enrich(row):
        raise ValueError(f"cannot read {row['title']}")

    with registered(by_row(enrich)):
        async with serving(db_path) as datasette:
            await execute(datasette, "update papers set title = cast(x'61ff' as text) where id = 2")
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.done_count, job.error_count) == (JobStatus.FINISHED, 5, 5)
    [(text,)] = rows(db_path, "select error from _enrichment_errors where row_pks = '[2]'")
    assert text.startswith("ValueError: cannot read a")


async def test_an_enrichment_that_leaves_the_program_when_it_begins_ends_its_job_alone(db_path):
    async def initialize(self):
        raise SystemExit(3)

    with registered(by_row(lambda row: None, initialize=initialize)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert job.status.is_final or job.status is JobStatus.PAUSED
    assert "SystemExit: 3" in (job.cancel_reason or job.pause_reason or "")


async def test_an_outcome_word_that_no_address_could_hold_is_the_batchs_error(db_path):
    with registered(by_batch(lambda given, pks: BatchOutcome(outcomes={"half \udcff": len(pks)}))):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.outcomes, job.error_count) == (JobStatus.FINISHED, {"error": 5}, 5)


async def test_a_reason_with_bytes_that_are_no_text_pauses_the_job_and_is_kept_readably(db_path):
    def enrich(row):
        raise Pause("closed: \udcff")

    with registered(by_row(enrich)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.pause_reason) == (JobStatus.PAUSED, "closed: \\udcff")


async def test_an_outcome_word_of_the_enrichments_own_is_counted(db_path):
    def enrich(given, pks):
        return BatchOutcome(outcomes={"no-pdf-link": len(pks)}, cost_nanodollars=10 * len(pks))

    with registered(by_batch(enrich)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert job.outcomes == {"no-pdf-link": 5} and job.cost_nanodollars == 50
    assert json.loads(rows(db_path, "select outcomes from _enrichment_jobs")[0][0]) == {"no-pdf-link": 5}
