"""What a batch has cost before it stops: `job.spend`, and counters, in the transaction that takes the step."""

from __future__ import annotations

import datetime
import pathlib
from typing import Any

import pytest

from datasette_ingest import BatchOutcome, Cancel, Defer, Enrichment, Pause
from datasette_ingest.jobs.model import JobStatus
from datasette_ingest.jobs.service import control

from ...conftest import ROOT, registered, rows, serving
from ..kit import AnyConfig, execute, look, start, to_the_end

LATER = datetime.datetime(2100, 1, 1, tzinfo=datetime.timezone.utc)


class Dear(Enrichment):
    """Spends 1,000,000 nanodollars a row, and raises what it is told to when it comes to row 3."""

    slug, name, batch_size, max_open_batches = "e", "Dear", 5, 1
    Config = AnyConfig

    def __init__(self, problem: BaseException | None) -> None:
        self.problem = problem

    def _work(self, number: int, job: Any) -> None:
        job.spend(1_000_000)
        job.add("asked", 1)
        job.state["last"] = number
        if number == 3 and self.problem is not None:
            raise self.problem


class DearRows(Dear):
    async def enrich_row(self, row: Any, config: Any, job: Any) -> Any:  # type: ignore[override]
        self._work(row["id"], job)
        return {"copied": row["id"]}


class DearBatches(Dear):
    async def enrich_batch(self, rows: Any, job: Any) -> BatchOutcome:
        for row in rows:
            self._work(row["id"], job)
        return BatchOutcome(cost_nanodollars=500_000)


@pytest.mark.parametrize("kind", [DearRows, DearBatches])
@pytest.mark.parametrize("problem", [Pause("no money"), Cancel("no use")], ids=["pause", "cancel"])
async def test_a_step_that_an_enrichment_takes_keeps_what_was_spent(
    db_path: pathlib.Path, kind: Any, problem: BaseException
) -> None:
    with registered(kind(problem)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert job.status is (JobStatus.PAUSED if isinstance(problem, Pause) else JobStatus.CANCELLED)
    assert (job.cost_nanodollars, job.cost_100ths_cent) == (3_000_000, 30)
    assert job.state == {"asked": 3, "last": 3}
    assert job.done_count == (2 if kind is DearRows else 0)


@pytest.mark.parametrize("kind, done", [(DearRows, 4), (DearBatches, 0)])
async def test_a_defer_keeps_what_was_spent(db_path: pathlib.Path, kind: Any, done: int) -> None:
    with registered(kind(Defer(LATER, "not now"))):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.done_count) == (JobStatus.RUNNING, done)
    assert job.cost_nanodollars == (5_000_000 if kind is DearRows else 3_000_000)


@pytest.mark.parametrize("kind, cost", [(DearRows, 5_000_000), (DearBatches, 3_000_000)])
async def test_an_error_keeps_what_was_spent(db_path: pathlib.Path, kind: Any, cost: int) -> None:
    with registered(kind(RuntimeError("broken"))):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.cost_nanodollars) == (JobStatus.FINISHED, cost)


async def test_what_is_spent_adds_to_the_cost_of_the_outcome_and_is_counted_once(db_path: pathlib.Path) -> None:
    with registered(DearBatches(None)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.cost_nanodollars) == (JobStatus.FINISHED, 5_500_000)


async def test_a_pause_again_and_again_costs_what_each_try_cost(db_path: pathlib.Path) -> None:
    with registered(DearBatches(Pause("no money"))):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
            for tries in (2, 3):
                await control.resume(datasette, "data", job.id, actor=ROOT)
                job = await to_the_end(datasette, job)
                assert (job.status, job.cost_nanodollars) == (JobStatus.PAUSED, tries * 3_000_000)
    assert rows(db_path, "select leased_by, row_count from _enrichment_batches") == [(None, 5)]


async def test_a_person_who_cancels_still_pays_for_what_was_spent(db_path: pathlib.Path) -> None:
    class Slow(DearBatches):
        async def enrich_batch(self, rows: Any, job: Any) -> BatchOutcome:
            job.spend(7)
            await control.cancel(datasette, "data", job.id, actor=ROOT)
            await self.never()
            raise AssertionError

        async def never(self) -> None:
            import asyncio

            await asyncio.Event().wait()

    with registered(Slow(None)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.status, job.cost_nanodollars) == (JobStatus.CANCELLED, 7)


async def test_what_is_spent_counts_for_the_budget_while_the_batch_is_at_work(db_path: pathlib.Path) -> None:
    with registered(DearBatches(None)):
        async with serving(db_path) as datasette:
            job = await start(datasette, options={"budget_100ths_cent": 15, "batch_size": 1})
            job = await to_the_end(datasette, job)
    assert (job.status, job.done_count, job.cost_nanodollars) == (JobStatus.PAUSED, 1, 1_500_000)


async def test_nothing_is_added_for_a_batch_that_another_process_has_taken_over(db_path: pathlib.Path) -> None:
    class Taken(DearBatches):
        async def enrich_batch(self, rows: Any, job: Any) -> BatchOutcome:
            job.spend(7)
            await execute(
                datasette,
                "update _enrichment_batches set leased_by = 'far:away:1:1:ab', leased_until = '2100-01-01T00:00:00.000Z'",
            )
            raise Cancel("no use")

    with registered(Taken(None)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
            job = await look(datasette, job)
    assert (job.status, job.cost_nanodollars) == (JobStatus.CANCELLED, 0)


@pytest.mark.parametrize("cost", [-1, 1.5, True, "7", None])
async def test_a_cost_is_a_whole_number(db_path: pathlib.Path, cost: Any) -> None:
    class Wrong(DearBatches):
        async def enrich_batch(self, rows: Any, job: Any) -> BatchOutcome:
            job.spend(cost)
            return BatchOutcome()

    with registered(Wrong(None)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
    assert (job.error_count, job.cost_nanodollars) == (5, 0)
    assert "a cost must be a whole number" in rows(db_path, "select error from _enrichment_errors limit 1")[0][0]
