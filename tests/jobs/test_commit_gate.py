"""A commit and a long read in one process: nobody else waits for both."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading

import pytest

from datasette_ingest import compat
from datasette_ingest.compat import commit_gate

from ..conftest import serving


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    monkeypatch.setattr(commit_gate, "PATIENCE_SECONDS", 60.0)


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


def insert(conn):
    conn.execute("create table more (id integer)")


@pytest.mark.parametrize("mode", ["delete", "truncate", "persist"])
async def test_other_reads_begin_while_a_commit_waits_for_a_long_one(db_path, mode):
    with contextlib.closing(sqlite3.connect(db_path)) as conn:
        conn.execute(f"pragma journal_mode={mode}")
    async with serving(db_path) as datasette:
        db = next(iter(compat.databases(datasette).values()))
        begun, may_end = threading.Event(), threading.Event()

        def long(conn):
            conn.execute("begin")
            conn.execute("select * from sqlite_master").fetchall()
            begun.set()
            may_end.wait(60)
            conn.execute("rollback")

        reading = asyncio.ensure_future(compat.read(db, long, limit_ms=60_000))
        await until(begun.is_set)
        writing = asyncio.ensure_future(compat.write(db, insert))
        try:
            gate = commit_gate.gate_of(db)
            await until(lambda: gate._committing)
            with contextlib.closing(sqlite3.connect(db_path, timeout=0)) as other:
                other.execute("select * from sqlite_master").fetchall()
            assert not writing.done()
        finally:
            may_end.set()
        await asyncio.gather(reading, writing)
        assert (await compat.read(db, lambda conn: conn.execute("select count(*) from more").fetchone()[0])) == 0


async def test_a_long_read_begins_after_the_commit_that_waits(db_path):
    async with serving(db_path) as datasette:
        db = next(iter(compat.databases(datasette).values()))
        first, order = threading.Event(), []

        def read(name):
            def fn(conn):
                if name == "first":
                    first.wait(60)
                order.append(name)
                return conn.execute("select count(*) from sqlite_master where name = 'more'").fetchone()[0]

            return fn

        gate = commit_gate.gate_of(db)
        reads = [asyncio.ensure_future(compat.read(db, read("first"), limit_ms=60_000))]
        await until(lambda: gate._reading)
        write = asyncio.ensure_future(compat.write(db, insert))
        await until(lambda: gate._committing)
        reads.append(asyncio.ensure_future(compat.read(db, read("second"), limit_ms=60_000)))
        await compat.read(db, read("without a limit"))
        first.set()
        await write
        assert await asyncio.gather(*reads) == [0, 1]
        assert order == ["without a limit", "first", "second"]


async def test_neither_waits_for_ever(db_path, monkeypatch):
    monkeypatch.setattr(commit_gate, "PATIENCE_SECONDS", 0.01)
    gate = commit_gate.CommitGate()
    with contextlib.closing(sqlite3.connect(db_path)) as conn:
        with gate.reading(), gate.committing(conn):
            pass
        with gate.committing(conn), gate.reading():
            pass
    assert (gate._reading, gate._committing) == (0, 0)


async def test_with_a_write_ahead_log_nothing_waits(db_path):
    with contextlib.closing(sqlite3.connect(db_path)) as conn:
        conn.execute("pragma journal_mode=wal")
        gate = commit_gate.CommitGate()
        with gate.reading(), gate.committing(conn), gate.reading():
            pass
