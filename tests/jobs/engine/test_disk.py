"""One database that cannot be used fails alone: it is logged once, looked at again later, its pages say why, jobs of
other databases go on, and nothing is lost. The faults are the file system's own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pathlib
import shutil
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from datasette_ingest import compat
from datasette_ingest.jobs.engine import rests, runner
from datasette_ingest.jobs.engine.worker import Worker
from datasette_ingest.jobs.model import StartRequest
from datasette_ingest.jobs.service import control

from ...conftest import ROOT, registered, rows, serving
from .. import disks
from ..kit import PATIENCE_SECONDS, by_row, counting, quick, table

PAPERS = (
    "create table papers (id integer primary key, title text)",
    "insert into papers (title) values ('a'), ('b'), ('c'), ('d'), ('e')",
)
COPY = by_row(lambda row: {"copied": row["id"]}, batch_size=1)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "RETRY_SECONDS", (0.02,))
    monkeypatch.setattr(rests, "FIRST_REST_SECONDS", 0.05)
    monkeypatch.setattr(rests, "LONGEST_REST_SECONDS", 0.2)


@contextlib.asynccontextmanager
async def working(datasette: Any) -> AsyncIterator[Worker]:
    """A worker that runs meanwhile."""
    made = Worker(datasette, timing=quick(), poll_seconds=0.02)
    task = asyncio.create_task(made.run_forever())
    try:
        yield made
    finally:
        made.stop()
        await asyncio.wait_for(task, PATIENCE_SECONDS)


async def until(what: Callable[[], Any]) -> None:
    async def wait() -> None:
        while not what():
            await asyncio.sleep(0.01)

    await asyncio.wait_for(wait(), PATIENCE_SECONDS)


def status(path: pathlib.Path) -> str:
    return str(rows(path, "select status from _enrichment_jobs")[0][0])


async def added(path: pathlib.Path) -> None:
    """A job that waits for a worker."""
    async with serving(path) as datasette:
        await control.start(datasette, path.stem, StartRequest("papers", "e", actor=ROOT))


@contextlib.contextmanager
def ours(made: Any = COPY) -> Iterator[None]:
    with registered(made):
        yield


def warnings_of(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    return [
        record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and f"database {name} " in record.getMessage()
    ]


async def steps_say_why(datasette: Any, name: str, why: str, steps: tuple[str, ...] = ("pause", "cancel")) -> None:
    cookies = {"ds_actor": datasette.sign({"a": ROOT}, "actor")}
    here = f"/-/ingest-jobs/{name}"
    start = {"table": "papers", "enrichment": "e"}
    for address, body in [*((f"{here}/1/{step}", {}) for step in steps), (here, start)]:
        headers = {"sec-fetch-site": "same-origin"}
        answer = await datasette.client.post(address, json=body, cookies=cookies, headers=headers)
        assert answer.status_code == 503, (address, answer.text)
        assert why in answer.json()["error"]
    if not compat.is_1_0(datasette):
        return
    answer = await datasette.client.post(f"{here}/1/{steps[0]}", data={"x": ""}, cookies=cookies, headers=headers)
    assert answer.status_code == 503 and why.replace("'", "&#39;") in answer.text


@contextlib.asynccontextmanager
async def one_of_two(bad: pathlib.Path, good: pathlib.Path) -> AsyncIterator[Any]:
    """Datasette and a worker over two databases, the first of which cannot be used. Leaves when a job that was added
    to the second one meanwhile is finished."""
    async with serving(bad, good) as datasette, working(datasette):
        yield datasette
        await until(lambda: status(bad) == "finished")


async def goes_on(datasette: Any, good: pathlib.Path) -> None:
    await control.start(datasette, good.stem, StartRequest("papers", "e", actor=ROOT))
    await until(lambda: status(good) == "finished")
    cookies = {"ds_actor": datasette.sign({"a": ROOT}, "actor")}
    for address in ("/-/ingest-jobs", "/-/ingest-jobs.json", f"/-/ingest-jobs/{good.stem}"):  # Datasette's own need all
        answer = await datasette.client.get(address, cookies=cookies)
        assert answer.status_code == 200, (address, answer.text[:1000])


def every_row_once(path: pathlib.Path) -> None:
    assert rows(path, "select status, done_count, error_count from _enrichment_jobs") == [("finished", 5, 0)]
    assert rows(path, "select id, copied from papers") == [(number, number) for number in range(1, 6)]
    assert rows(path, "select count(*) from _enrichment_batches") == [(0,)]


async def everything_is_loaded(path: pathlib.Path) -> None:
    """Run a job and show a page, so that nothing more is imported by a user who may not read Python's own files."""
    with ours():
        await added(path)
        async with serving(path) as datasette, working(datasette):
            await goes_on(datasette, path)


# ---- permissions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["file", "folder"])
async def test_a_file_or_folder_that_may_not_be_written(
    what: str, db_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    await everything_is_loaded(db_path)
    with ours(), disks.permissions_that_hold() as folder:
        (folder / "locked").mkdir()
        bad, good = folder / "locked" / "bad.db", folder / "good.db"
        for path in (bad, good):
            table(path, *PAPERS)
        await added(bad)
        closed = bad if what == "file" else bad.parent
        closed.chmod(0o444 if what == "file" else 0o555)
        async with one_of_two(bad, good) as datasette:
            await goes_on(datasette, good)
            await steps_say_why(datasette, "bad", "may not be written" if what == "file" else "bad ")
            assert len(warnings_of(caplog, "bad")) == 1
            closed.chmod(0o755)
        every_row_once(bad)


async def test_a_folder_that_is_closed_while_a_job_runs_costs_no_row_a_second_try(db_path: pathlib.Path) -> None:
    given: Counter[int] = Counter()

    async def enrich(row: Any) -> Any:
        given[row["id"]] += 1
        if row["id"] == 2:
            bad.parent.chmod(0o555)
        return {"copied": row["id"]}

    await everything_is_loaded(db_path)
    with ours(by_row(enrich, batch_size=1, max_open_batches=1)), disks.permissions_that_hold() as folder:
        (folder / "locked").mkdir()
        bad, good = folder / "locked" / "bad.db", folder / "good.db"
        for path in (bad, good):
            table(path, *PAPERS)
        counting(bad)
        await added(bad)
        async with one_of_two(bad, good) as datasette:
            await until(lambda: given[2])
            await goes_on(datasette, good)
            assert status(bad) == "running"
            bad.parent.chmod(0o755)
        every_row_once(bad)
        assert sorted(rows(bad, "select row from writes")) == [(number,) for number in range(1, 6)]


# ---- disks --------------------------------------------------------------------------------------------------------


async def test_a_disk_that_is_mounted_read_only(db_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    with ours(), disks.small_disk("4m") as folder:
        bad = folder / "bad.db"
        table(bad, *PAPERS)
        await added(bad)
        disks.remount(folder, "ro")
        async with one_of_two(bad, db_path) as datasette:
            await goes_on(datasette, db_path)
            await steps_say_why(datasette, "bad", "may not be written")
            assert len(warnings_of(caplog, "bad")) == 1
            disks.remount(folder, "rw")
        every_row_once(bad)


async def test_a_disk_that_is_full(db_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    with ours(), disks.small_disk("1m") as folder:
        bad, filler = folder / "bad.db", folder / "filler"
        table(bad, *PAPERS)
        await added(bad)
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
        async with one_of_two(bad, db_path) as datasette:
            await goes_on(datasette, db_path)
            await steps_say_why(datasette, "bad", "its disk is full", ("cancel",))
            assert len(warnings_of(caplog, "bad")) == 1
            filler.unlink()
        every_row_once(bad)


async def test_a_disk_that_fills_up_while_a_job_runs_costs_no_row_a_second_try(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given: Counter[int] = Counter()
    big = "x" * 60_000

    def enrich(row: Any) -> Any:
        given[row["id"]] += 1
        return {"copied": row["id"], "text": big}

    with ours(by_row(enrich, batch_size=1)), disks.small_disk("1m") as folder:
        bad, filler = folder / "bad.db", folder / "filler"
        table(bad, *PAPERS)
        await added(bad)
        free = shutil.disk_usage(folder).free
        filler.write_bytes(b"x" * (free - 150_000))
        async with serving(bad) as datasette, working(datasette):
            await until(lambda: warnings_of(caplog, "bad"))
            assert status(bad) == "running"
            filler.unlink()
            await until(lambda: status(bad) == "finished")
        every_row_once(bad)
    assert given == dict.fromkeys(range(1, 6), 1)


# ---- the file ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("journal, how", [("delete", "replaced"), ("delete", "deleted"), ("wal", "deleted")])
async def test_a_file_that_is_replaced_or_deleted_under_the_server(
    db_path: pathlib.Path, tmp_path: pathlib.Path, journal: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad, aside = tmp_path / "bad.db", tmp_path / "aside"
    table(bad, *PAPERS)
    taken: list[int] = []

    async def enrich(row: Any) -> Any:
        taken.append(row["id"])
        if len(taken) == 2:
            bad.rename(aside)
            if how == "replaced":
                table(bad, "create table papers (id integer primary key)")
        return {"copied": row["id"]}

    with contextlib.closing(sqlite3.connect(bad)) as conn:
        conn.execute(f"pragma journal_mode = {journal}")
    with ours(by_row(enrich, batch_size=1, max_open_batches=1)):
        await added(bad)
        async with serving(bad, db_path) as datasette, working(datasette):
            await until(lambda: warnings_of(caplog, "bad"))
            await goes_on(datasette, db_path)
            await steps_say_why(datasette, "bad", "is gone from its place" if how == "deleted" else "was replaced")
            assert len(warnings_of(caplog, "bad")) == 1
            if how == "replaced":
                assert [name for (name,) in rows(bad, "select name from sqlite_master")] == ["papers"]
            else:
                assert not bad.exists()
            aside.rename(bad)
            await until(lambda: status(bad) == "finished")
        every_row_once(bad)


@pytest.mark.parametrize("page", [1, "papers"])
async def test_a_file_with_damaged_pages(
    db_path: pathlib.Path, tmp_path: pathlib.Path, page: Any, caplog: pytest.LogCaptureFixture
) -> None:
    bad = tmp_path / "bad.db"
    table(bad, *PAPERS)
    with ours():
        await added(bad)
        whole = bytearray(bad.read_bytes())
        if page == "papers":
            page = rows(bad, "select rootpage from sqlite_master where name = 'papers'")[0][0]
        damaged = bytearray(whole)
        damaged[(page - 1) * 4096 : page * 4096] = b"\xee" * 4096
        whole[24:28] = whole[92:96] = b"\x7f\0\0\0"  # the file's change counter: connections read a changed file anew
        async with serving(bad, db_path) as datasette:
            bad.write_bytes(damaged)
            async with working(datasette):
                await until(lambda: warnings_of(caplog, "bad"))
                await goes_on(datasette, db_path)
                assert len(warnings_of(caplog, "bad")) == 1
                bad.write_bytes(whole)
                await until(lambda: status(bad) == "finished")
        every_row_once(bad)


@pytest.mark.slow
async def test_a_lock_of_minutes(
    db_path: pathlib.Path, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    bad = tmp_path / "bad.db"
    table(bad, *PAPERS)
    with ours():
        await added(bad)
        async with serving(bad, db_path) as datasette:
            db = datasette.get_database("bad")
            await compat.write(db, lambda conn: conn.execute("pragma busy_timeout = 20").fetchall())
            with contextlib.closing(sqlite3.connect(bad, isolation_level=None)) as other:
                other.execute("begin exclusive")
                async with working(datasette):
                    await goes_on(datasette, db_path)
                    other.execute("rollback")
                    await until(lambda: status(bad) == "finished")
        every_row_once(bad)


# ---- when it is looked at again ------------------------------------------------------------------------------------


def test_a_database_rests_longer_each_time_and_begins_anew_when_it_was_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rests, "FIRST_REST_SECONDS", 1.0)
    monkeypatch.setattr(rests, "LONGEST_REST_SECONDS", 30.0)
    now = [0.0]
    kept = rests.Rests(lambda: now[0])

    def rested() -> float:
        kept.rest("data")
        began = now[0]
        while kept.is_resting("data"):
            now[0] += 0.5
        return now[0] - began

    assert [rested() for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert not kept.is_resting("other")
    now[0] += 1000
    assert rested() == 1


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disks, "_mount", lambda *arguments: "permission denied")
    monkeypatch.delenv("INGEST_REQUIRE_ALL", raising=False)
    with pytest.raises(pytest.skip.Exception, match="mount a file system"), disks.small_disk("1m"):
        pass
    monkeypatch.setenv("INGEST_REQUIRE_ALL", "1")
    with pytest.raises(pytest.fail.Exception, match="mount a file system"), disks.small_disk("1m"):
        pass
