"""A dry run shows what a job would write, and writes nothing."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import datetime
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import pydantic
import pytest

from datasette_ingest import BatchOutcome, Cancel, ColumnField, Defer, Enrichment, Pause, RowDefer, RowUpdate, compat
from datasette_ingest.jobs.engine import server
from datasette_ingest.jobs.errors import BadConfig, BadSelection, NotAllowed
from datasette_ingest.jobs.service import dry_run, permissions

from ...conftest import ROOT, registered, serving


class Config(pydantic.BaseModel):
    column: str = ColumnField(title="Column")
    output: str = "shouted"


class Shout(Enrichment):
    """Upper-cases a title; `paper 2` is an error."""

    slug, name = "shout", "Shout"
    Config = Config

    def outcome_column(self, config: Any) -> str:
        return "how"

    async def enrich_row(self, row: Any, config: Any) -> dict[str, Any]:
        if row[config.column] == "paper 2":
            raise ValueError("<b>two</b>")
        return {config.output: row[config.column].upper(), "how": "success"}


def batchwise(method: Callable[..., Any], **more: Any) -> Enrichment:
    """An enrichment of batches that does this."""
    attributes = {"slug": "batchwise", "name": "Batchwise", "Config": Config, "enrich_batch": method, **more}
    return type("Batchwise", (Enrichment,), attributes)()


def snapshot(path: Any) -> tuple[list[str], bytes]:
    """Everything in the file: as SQL, and its bytes."""
    with contextlib.closing(sqlite3.connect(path)) as conn:
        return list(conn.iterdump()), path.read_bytes()


async def attempt(datasette: Any, enrichment: Enrichment, *, database: str = "data", **given: Any) -> dry_run.DryRun:
    asked = {"config": {"column": "title"}, "actor": ROOT, **given}
    papers = await permissions.require_table(datasette, asked["actor"], database, "papers")
    return await dry_run.run(datasette, papers, enrichment=enrichment, **asked)


async def test_rows_errors_and_outcomes_are_shown_as_a_job_would_write_them(db_path):
    async with serving(db_path) as datasette:
        tried = await attempt(datasette, Shout())
    one, two, three = tried.rows
    assert (one.key, one.values, one.before, one.outcome) == (
        1,
        {"shouted": "PAPER 1", "how": "success"},
        {},
        "success",
    )
    assert (two.key, two.outcome, two.error) == (2, "error", "ValueError: <b>two</b>")
    assert three.values["shouted"] == "PAPER 3"
    assert tried.stopped is None


async def test_the_present_value_is_shown_beside_the_one_that_would_be_written(db_path):
    async with serving(db_path) as datasette:
        tried = await attempt(datasette, Shout(), config={"column": "title", "output": "Title"}, filters="id=3")
    assert [(row.values["Title"], row.before) for row in tried.rows] == [("PAPER 3", {"Title": "paper 3"})]


class Writes(Shout):
    """Tries every way to write, and keeps what it was told."""

    def __init__(self) -> None:
        self.refusals: list[str] = []

    async def initialize(self, db: Any, job: Any) -> None:  # type: ignore[override]
        assert job.is_dry_run

    async def enrich_batch(self, rows: Any, pks: Any, db: Any, job: Any, datasette: Any) -> BatchOutcome:  # type: ignore[override]
        def insert(conn: sqlite3.Connection) -> None:
            conn.execute("insert into papers (title) values ('stray')")

        attempts = (compat.write(db, insert), db.execute_write("delete from papers"), db.execute_write_fn(insert))
        for answer in await asyncio.gather(*attempts, return_exceptions=True):
            assert isinstance(answer, sqlite3.OperationalError)
            self.refusals.append(str(answer))
        count = await compat.read(db, lambda conn: conn.execute("select count(*) from papers").fetchone()[0])
        looked_up = await job.cache.get_or_set("key", lambda: asyncio.sleep(0, {"found": count}), ttl=60)
        again = await job.cache.get_or_set("key", lambda: asyncio.sleep(0, "never asked"))
        job.state["seen"] = 1
        job.add("asked", 1)
        return BatchOutcome(
            [RowUpdate(pk, {"count": looked_up["found"], "same": again == looked_up}) for pk in pks],
            [],
            [insert],
            {"success": len(pks)},
            7,
        )


@pytest.mark.parametrize("where", ["file", "memory"])
async def test_nothing_in_the_database_changes_whatever_the_enrichment_tries(db_path, where):
    enrichment = Writes()
    before = snapshot(db_path)
    async with serving(db_path) as datasette:
        name = "data"
        if where == "memory":
            db, name = datasette.add_memory_database("shared_words"), "shared_words"
            await compat.write(
                db, lambda conn: conn.executescript("create table papers (id integer primary key, title);")
            )
            await compat.write(db, lambda conn: conn.executemany("insert into papers (title) values (?)", ["a", "b"]))
        db = datasette.get_database(name)
        state = "select (select count(*) from papers), (select group_concat(sql) from sqlite_master)"
        as_it_was = await compat.read(db, lambda conn: tuple(conn.execute(state).fetchone()))
        version = await compat.read(db, lambda conn: conn.execute("pragma data_version").fetchone()[0])
        tried = await attempt(datasette, enrichment, database=name)
        assert len(enrichment.refusals) == 3, enrichment.refusals
        assert all(row.values["same"] is True for row in tried.rows)
        assert tried.cost_nanodollars == 7
        assert await compat.read(db, lambda conn: tuple(conn.execute(state).fetchone())) == as_it_was
        assert await compat.read(db, lambda conn: conn.execute("pragma data_version").fetchone()[0]) == version
        # and the database can be written to as before
        await compat.write(db, lambda conn: conn.execute("create table after_all (x)"))
        await compat.write(db, lambda conn: conn.execute("drop table after_all"))
    assert snapshot(db_path)[0] == before[0]


class WritesApart(Shout):
    """Asks the database for connections of its own."""

    async def enrich_batch(self, rows: Any, pks: Any, db: Any) -> BatchOutcome:  # type: ignore[override]
        def insert(conn: sqlite3.Connection) -> None:
            conn.execute("insert into papers (title) values ('stray')")
            conn.commit()

        with pytest.raises(dry_run.DryRunWrites):
            await db.execute_isolated_fn(insert)
        with pytest.raises(dry_run.DryRunWrites):
            db.connect(write=True)
        with contextlib.closing(db.connect()) as reading, pytest.raises(sqlite3.OperationalError):
            insert(reading)
        return BatchOutcome([RowUpdate(pk, {"refused": 1}) for pk in pks])


async def test_no_connection_that_writes_is_to_be_had(db_path):
    before = snapshot(db_path)
    async with serving(db_path) as datasette:
        tried = await attempt(datasette, WritesApart())
    assert [(row.values, row.error) for row in tried.rows] == [({"refused": 1}, None)] * 3
    assert snapshot(db_path) == before


async def test_values_are_shown_as_they_would_be_stored_and_refused_where_they_could_not_be(db_path):
    values = iter([{"x": {"a": [1]}}, {"x": object()}, {"x": "half \udcff"}])

    async def enrich_batch(self: Any, rows: Any, pks: Any) -> BatchOutcome:
        return BatchOutcome([RowUpdate(pk, next(values)) for pk in pks])

    async with serving(db_path) as datasette:
        one, two, three = (await attempt(datasette, batchwise(enrich_batch))).rows
    assert (one.values, one.error) == ({"x": '{"a": [1]}'}, None)
    assert (two.values, two.outcome, two.error) == ({}, "error", "TypeError: a object cannot be stored in SQLite")
    assert (three.values, three.outcome) == ({}, "error")


@pytest.mark.parametrize("where", ["rows", "initialize"])
async def test_an_enrichment_that_leaves_the_program_ends_its_dry_run_alone(db_path, where):
    async def leave(self: Any, **asked: Any) -> BatchOutcome:
        raise SystemExit(3)

    async def enrich_batch(self: Any, rows: Any) -> BatchOutcome:
        raise SystemExit(3)

    async with serving(db_path) as datasette:
        tried = await attempt(datasette, batchwise(enrich_batch, **({"initialize": leave} if where != "rows" else {})))
    said = tried.rows[0].error if where == "rows" else tried.stopped
    assert "SystemExit: 3" in (said or "")


@pytest.mark.slow
async def test_a_dry_run_that_never_starts_leaves_no_thread_behind(db_path):
    async def make() -> None:
        raise AssertionError("it has no turn")

    with server._ONE_AT_A_TIME:
        promised = server._in_a_thread(make, seconds=0.01)
        await asyncio.to_thread(concurrent.futures.wait, [promised], 10)
        assert promised.cancelled()


async def test_the_file_is_the_same_to_the_byte(db_path):
    before = snapshot(db_path)
    async with serving(db_path) as datasette:
        await attempt(datasette, Writes())
    assert snapshot(db_path) == before


async def test_batches_are_as_large_as_in_a_job(db_path):
    sizes = []

    async def enrich_batch(self: Any, rows: Any, pks: Any) -> BatchOutcome:
        sizes.append(len(rows))
        return BatchOutcome([RowUpdate(pk, {"n": 1}) for pk in pks], [], outcomes={"odd-word": len(rows)})

    async with serving(db_path) as datasette:
        tried = await attempt(datasette, batchwise(enrich_batch, batch_size=2))
    assert sizes == [2, 1]
    assert [row.outcome for row in tried.rows] == ["odd-word"] * 3


@pytest.mark.parametrize("wish", [Pause("The service is closed"), Cancel("It makes no sense")])
async def test_a_pause_or_cancel_of_the_enrichments_is_shown(db_path, wish):
    async def enrich_batch(self: Any, rows: Any) -> BatchOutcome:
        raise wish

    async with serving(db_path) as datasette:
        tried = await attempt(datasette, batchwise(enrich_batch))
    assert tried.stopped == wish.reason
    assert [row.error for row in tried.rows] == ["No answer"] * 3


async def test_a_row_that_would_be_put_off_is_shown_with_the_reason(db_path):
    until = datetime.datetime(2999, 1, 1, tzinfo=datetime.timezone.utc)

    async def enrich_batch(self: Any, rows: Any, pks: Any, job: Any) -> BatchOutcome:
        with job.waiting():
            deferred = [RowDefer(pks[0], until, "The service asked us to wait")]
        return BatchOutcome(updates=[RowUpdate(pks[1], {"shouted": job.deferrals + job.workers})], deferred=deferred)

    async def initialize(self: Any) -> None:
        raise Defer(until, "The service opens later")

    async with serving(db_path) as datasette:
        tried = await attempt(datasette, batchwise(enrich_batch))
        not_begun = await attempt(datasette, batchwise(enrich_batch, initialize=initialize))
    assert not_begun.stopped == "The service opens later"
    assert tried.rows[0].error == "Deferred until 2999-01-01 00:00:00 UTC: The service asked us to wait"
    assert tried.rows[1].values == {"shouted": 1}


async def test_an_enrichment_that_cannot_begin_says_why(db_path):
    async def initialize(self: Any, **asked: Any) -> None:
        raise RuntimeError("no key")

    async def enrich_batch(self: Any, rows: Any) -> BatchOutcome:
        raise AssertionError("never called")

    async with serving(db_path) as datasette:
        tried = await attempt(datasette, batchwise(enrich_batch, initialize=initialize))
    assert tried.stopped == "Batchwise could not start: RuntimeError: no key"


async def test_rows_that_come_back_in_time_are_shown_and_the_rest_is_cancelled(db_path):
    ended = []

    async def enrich_batch(self: Any, rows: Any, pks: Any) -> BatchOutcome:
        try:
            if pks != [1]:
                await asyncio.Event().wait()
        finally:
            ended.append(pks[0])
        return BatchOutcome([RowUpdate(1, {"n": 1})])

    async def close(self: Any, **asked: Any) -> None:
        ended.append("closed")

    async with serving(db_path) as datasette:
        tried = await attempt(
            datasette, batchwise(enrich_batch, batch_size=1, max_open_batches=3, close=close), seconds=1
        )
    assert [(row.values, row.error) for row in tried.rows] == [({"n": 1}, None), ({}, "No answer"), ({}, "No answer")]
    assert tried.stopped == "Not all rows were answered within 1 s"
    assert sorted(map(str, ended)) == ["1", "2", "3", "closed"]


async def test_whoever_leaves_cancels_the_dry_run(db_path):
    began, ended = threading.Event(), threading.Event()

    async def enrich_batch(self: Any, rows: Any) -> BatchOutcome:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError("unreachable")

    async with serving(db_path) as datasette:
        trying = asyncio.ensure_future(attempt(datasette, batchwise(enrich_batch)))
        await asyncio.to_thread(began.wait, 20)
        trying.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trying
        assert await asyncio.to_thread(ended.wait, 20)


async def test_code_that_blocks_does_not_stop_the_pages(db_path):
    entered, let_go = threading.Event(), threading.Event()

    async def enrich_batch(self: Any, rows: Any) -> None:
        entered.set()
        let_go.wait(20)

    async with serving(db_path) as datasette:
        trying = asyncio.ensure_future(attempt(datasette, batchwise(enrich_batch)))
        await asyncio.to_thread(entered.wait, 20)
        page = await datasette.client.get("/data/papers.json")  # this loop is free
        assert page.status_code == 200
        let_go.set()
        assert len((await trying).rows) == 3


async def test_it_runs_on_the_loop_of_the_jobs_where_there_is_one(db_path):
    loops = []

    class Where(Shout):
        async def enrich_row(self, row: Any, config: Any) -> None:
            loops.append(threading.current_thread().name)

    async with serving(db_path) as datasette:
        with registered(Where()):
            started, stopping = asyncio.Event(), asyncio.Event()
            messages = iter(["lifespan.startup", "lifespan.shutdown"])

            async def receive() -> dict[str, str]:
                message = next(messages)
                if message == "lifespan.shutdown":
                    started.set()
                    await stopping.wait()
                return {"type": message}

            async def application(scope: Any, receive: Any, send: Any) -> None:
                await receive()
                await receive()

            serving_ = asyncio.ensure_future(server.wrap(datasette, application)({"type": "lifespan"}, receive, None))
            await started.wait()
            host = server._WORKERS[datasette]
            while host.loop is None:
                await asyncio.sleep(0)
            await attempt(datasette, Where())
            stopping.set()
            await serving_
    assert set(loops) == {"ingest-jobs"}


async def test_what_could_not_be_started_is_not_tried(db_path):
    async with serving(db_path) as datasette:
        with pytest.raises(NotAllowed):
            await attempt(datasette, Shout(), actor={"id": "reader"})
        with pytest.raises(BadConfig):
            await attempt(datasette, Shout(), config={"column": "nope"})
        with pytest.raises(BadSelection):
            await attempt(datasette, Shout(), filters="nope=1")
        assert (await attempt(datasette, Shout(), filters="id=99")).stopped == "No row is selected"


async def test_only_a_few_run_at_a_time(db_path, monkeypatch):
    monkeypatch.setattr(dry_run, "MOST_AT_ONCE", 0)
    async with serving(db_path) as datasette:
        with pytest.raises(dry_run.TooManyDryRuns) as refused:
            await attempt(datasette, Shout())
    assert refused.value.status == 429


@pytest.mark.parametrize(("output", "said"), [("ID", "is the key by which"), ("", "without a name"), ("oid", "hide")])
async def test_a_column_that_a_job_could_not_write_is_an_error_as_it_is_in_the_job(db_path, output, said):
    async with serving(db_path) as datasette:
        found = await attempt(datasette, Shout(), config={"column": "title", "output": output})
    assert said in found.rows[0].error and found.rows[0].outcome == "error"
