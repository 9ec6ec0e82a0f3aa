"""Real processes on one file, killed with -9: every row once, counters exact, nothing left over."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import pathlib
import random
import signal
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from datasette_ingest.jobs.model import StartRequest
from datasette_ingest.jobs.service import control

from ...conftest import ROOT, registered, rows, serving
from ..entry import Number, datasette_command
from ..world import GAVE_UP

pytestmark = pytest.mark.slow

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([datasette_command.__module__])


class Fleet:
    """The processes of one test: none outlives it."""

    def __init__(self) -> None:
        self.members: list[Any] = []

    def start(self, *arguments: str) -> Any:
        process = PROCESSES.Process(target=datasette_command, args=arguments, daemon=True)
        process.start()
        self.members.append(process)
        return process

    def end(self) -> None:
        for process in self.members:
            if process.is_alive():
                process.kill()
            process.join()
            process.close()


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    processes = Fleet()
    yield processes
    processes.end()


def build(path: pathlib.Path, number: int, journal: str = "wal") -> None:
    with contextlib.closing(sqlite3.connect(path)) as conn:
        conn.execute(f"pragma journal_mode = {journal}")
        with conn:
            conn.execute("create table t (id integer primary key, n integer, copied integer, worker integer)")
            conn.executemany("insert into t (n) values (?)", [(n,) for n in range(number)])
            conn.execute("create table writes (n)")
            conn.execute("create trigger counts after update on t begin insert into writes values (new.n); end")


async def add_job(path: pathlib.Path, *, options: dict[str, Any] | None = None, **config: Any) -> int:
    with registered(Number()):
        async with serving(path) as datasette:
            job = await control.start(
                datasette,
                path.stem,
                StartRequest(
                    "t", enrichment="number", config={"column": "n", **config}, options=options or {}, actor=ROOT
                ),
            )
            return job.id


def done(path: pathlib.Path) -> int:
    return rows(path, "select done_count from _enrichment_jobs")[0][0]


def status(path: pathlib.Path) -> str:
    return rows(path, "select status from _enrichment_jobs")[0][0]


def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def assert_exact(path: pathlib.Path, number: int, *, errors: int = 0) -> None:
    """Each row was written once, and the job's books say the same."""
    assert rows(path, "select n, count(*) from writes group by n having count(*) > 1") == []
    assert rows(path, "select count(*) from t where copied is n") == [(number - errors,)]
    assert rows(path, "select count(distinct n) from writes") == [(number - errors,)]
    [(state, total, finished, failed, words)] = rows(
        path, "select status, row_count, done_count, error_count, outcomes from _enrichment_jobs"
    )
    assert (state, total, finished, failed) == ("finished", number, number, errors)
    expected = {"success": number - errors, "error": errors}
    assert json.loads(words) == {word: count for word, count in expected.items() if count}
    assert rows(path, "select count(*) from _enrichment_batches") == [(0,)]
    assert rows(path, "select sum(success_count), sum(error_count) from _enrichment_progress") == [
        (number - errors, errors)
    ]
    assert rows(path, "select count(*) from _enrichment_errors") == [(errors,)]


async def test_fifty_kills_in_one_job_of_five_thousand_rows(tmp_path, fleet):
    path, number, kills = tmp_path / "data.db", 5000, 50
    build(path, number)
    await add_job(path, nap=0.008)
    workers = [fleet.start("ingest", "work", str(path)) for _ in range(2)]
    for kill in range(kills):
        until(lambda kill=kill: done(path) >= 95 * (kill + 1) or status(path) == "finished")
        assert status(path) == "running", f"the job was over before kill {kill + 1}"
        victim = workers[kill % 2]
        victim.kill()
        victim.join()
        assert victim.exitcode == -signal.SIGKILL
        workers[kill % 2] = fleet.start("ingest", "work", str(path))
    until(lambda: status(path) == "finished")
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert_exact(path, number)


@pytest.mark.parametrize("seed", range(20))
async def test_random_runs_with_kills(tmp_path, fleet, seed):
    chance = random.Random(seed)
    path, number = tmp_path / "data.db", chance.randrange(60, 200)
    deadly = chance.choice([None, None, chance.randrange(number)])
    build(path, number, chance.choice(["wal", "delete"]))
    options = {"batch_size": chance.choice([1, 3, 10, 50]), "max_open_batches": chance.randrange(1, 4)}
    await add_job(path, options=options, nap=chance.choice([0.0, 0.002, 0.005]), deadly=deadly)
    workers = [fleet.start("ingest", "work", str(path)) for _ in range(chance.randrange(1, 3))]
    for _ in range(chance.randrange(1, 5)):
        time.sleep(chance.uniform(0.0, 0.4))
        victim = chance.choice(workers)
        victim.terminate() if chance.random() < 0.2 else victim.kill()
        victim.join()
        if status(path) == "finished":
            break
        workers.append(fleet.start("ingest", "work", str(path)))
    while status(path) != "finished":  # a deadly row ends every process that comes to it, three times alone
        worker = fleet.start("ingest", "work", str(path))
        worker.join(60)
        assert len(fleet.members) < 40
    assert_exact(path, number, errors=int(deadly is not None))
    assert [(n, error[: len(GAVE_UP)]) for n, error in rows(path, ERRORS)] == [
        (n, GAVE_UP) for n in [deadly] if n is not None
    ]


ERRORS = "select t.n, e.error from _enrichment_errors e join t on e.row_pks = '[' || t.id || ']'"


async def test_a_clean_stop_leaves_no_reservation_and_no_death(tmp_path, fleet):
    path = tmp_path / "data.db"
    build(path, 400)
    await add_job(path, nap=0.01)
    worker = fleet.start("ingest", "work", str(path))
    until(lambda: done(path) > 0)
    worker.terminate()
    worker.join(20)
    assert worker.exitcode == 130
    assert status(path) == "running"
    assert rows(path, "select sum(leased_by is not null), sum(deaths), sum(attempts) from _enrichment_batches") in (
        [(0, 0, 0)],
        [(None, None, None)],
    )
    assert rows(path, "select count(copied) from t") == [(done(path),)]


def get(socket_path: pathlib.Path, target: str) -> bytes:
    """One HTTP answer over a server's unix socket."""
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as conn:
        conn.settimeout(20)
        conn.connect(str(socket_path))
        conn.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return b"".join(iter(lambda: conn.recv(65536), b""))


def serves(socket_path: pathlib.Path) -> bool:
    try:
        return get(socket_path, "/-/versions.json").startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def start_server(fleet: Fleet, path: pathlib.Path, place: pathlib.Path, **plugin: Any) -> pathlib.Path:
    """A Datasette server on the file; the unix socket on which it answers."""
    configuration = place / "metadata.json"
    configuration.write_text(json.dumps({"plugins": {"datasette-ingest": plugin}}))
    place_of_socket = place / "server.sock"
    fleet.start("serve", str(path), "-m", str(configuration), "--uds", str(place_of_socket))
    until(lambda: serves(place_of_socket))
    return place_of_socket


async def test_a_server_and_a_worker_share_one_job(tmp_path, fleet):
    path = tmp_path / "data.db"
    build(path, 600)
    await add_job(path, nap=0.01)
    start_server(fleet, path, tmp_path)
    until(lambda: done(path) > 0)
    fleet.start("ingest", "work", str(path))
    until(lambda: status(path) == "finished")
    assert_exact(path, 600)
    assert len(rows(path, "select distinct worker from t")) == 2


async def test_a_server_that_is_told_not_to_leaves_jobs_to_the_workers(tmp_path, fleet):
    path = tmp_path / "data.db"
    build(path, 40)
    await add_job(path)
    server = start_server(fleet, path, tmp_path, run_jobs=False)
    time.sleep(0.5)
    assert (status(path), done(path)) == ("pending", 0)
    worker = fleet.start("ingest", "work", str(path))
    until(lambda: status(path) == "finished")
    assert_exact(path, 40)
    assert rows(path, "select distinct worker from t") == [(worker.pid,)]
    assert serves(server)


async def test_a_page_is_answered_while_an_enrichment_blocks_inside_the_server(tmp_path, fleet):
    path = tmp_path / "data.db"
    build(path, 3)
    await add_job(path, nap=1.5)
    server = start_server(fleet, path, tmp_path)
    until(lambda: status(path) == "running")
    assert get(server, "/data/t.json").startswith(b"HTTP/1.1 200")
    assert status(path) == "running"  # the page did not wait for the end of it
    until(lambda: status(path) == "finished")
    assert_exact(path, 3)
