"""The look-up cache: one computation a key, values that outlive the process, nothing stale."""

from __future__ import annotations

import asyncio
import sqlite3
import threading

import pytest

from datasette_ingest import compat
from datasette_ingest.jobs import cache
from datasette_ingest.jobs.cache import Cache

from ..conftest import registered, rows, serving
from .kit import by_row, start, to_the_end


class Clock:
    now = 1_800_000_000.0

    def __call__(self):
        return self.now


@pytest.fixture
async def db(db_path):
    async with serving(db_path) as datasette:
        yield datasette.get_database("data")


def counted(value):
    calls = []

    async def compute():
        calls.append(1)
        await asyncio.sleep(0.02)
        return value

    return compute, calls


async def test_callers_at_the_same_time_share_one_computation(db):
    compute, calls = counted({"doi": "10.1/x", "n": [1, None, "ü"]})
    looks = [Cache(db, "e").get_or_set("k", compute) for _ in range(10)]
    assert await asyncio.gather(*looks) == [{"doi": "10.1/x", "n": [1, None, "ü"]}] * 10
    assert await Cache(db, "e").get_or_set("k", compute) == {"doi": "10.1/x", "n": [1, None, "ü"]}
    assert len(calls) == 1


async def test_a_stored_null_is_a_value(db):
    compute, calls = counted(None)
    assert [await Cache(db, "e").get_or_set("k", compute) for _ in range(2)] == [None, None]
    assert len(calls) == 1


async def test_another_enrichment_has_values_of_its_own(db):
    assert await Cache(db, "a").get_or_set("k", counted(1)[0]) == 1
    assert await Cache(db, "b").get_or_set("k", counted(2)[0]) == 2


async def test_a_value_expires_when_its_time_is_over_and_not_before(db):
    clock, (compute, calls) = Clock(), counted("v")
    kept = Cache(db, "e", clock)
    await kept.get_or_set("k", compute, ttl=60)
    clock.now += 59.9
    await kept.get_or_set("k", compute, ttl=60)
    assert len(calls) == 1
    clock.now += 0.2
    await kept.get_or_set("k", compute, ttl=60)
    assert len(calls) == 2


async def test_values_survive_a_restart(db_path):
    compute, calls = counted([1])
    for _ in range(2):
        async with serving(db_path) as datasette:
            assert await Cache(datasette.get_database("data"), "e").get_or_set("k", compute) == [1]
    assert len(calls) == 1


async def test_what_the_computation_raises_reaches_every_caller_and_nothing_is_stored(db):
    async def fail():
        await asyncio.sleep(0.02)
        raise LookupError("no such DOI")

    looks = await asyncio.gather(*(Cache(db, "e").get_or_set("k", fail) for _ in range(3)), return_exceptions=True)
    assert [str(problem) for problem in looks] == ["no such DOI"] * 3
    assert await Cache(db, "e").get_or_set("k", counted("now")[0]) == "now"


async def test_a_value_that_is_no_json_is_refused(db):
    with pytest.raises(TypeError):
        await Cache(db, "e").get_or_set("k", counted({1, 2})[0])
    assert await Cache(db, "e").get_or_set("k", counted(1)[0]) == 1


async def test_a_caller_that_is_called_off_takes_nobody_with_it(db):
    compute, calls = counted("v")
    tasks = [asyncio.create_task(Cache(db, "e").get_or_set("k", compute)) for _ in range(4)]
    await asyncio.sleep(0.005)
    tasks[0].cancel()
    tasks[2].cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [found[1], found[3]] == ["v", "v"] and len(calls) == 1
    assert all(isinstance(found[n], asyncio.CancelledError) for n in (0, 2))


async def test_a_page_and_a_job_on_two_event_loops_may_want_one_key_at_the_same_time(db):
    begun, found = threading.Event(), []

    async def slow():
        begun.set()
        await asyncio.sleep(0.2)
        return "v"

    def elsewhere():
        begun.wait(5)
        found.append(asyncio.run(Cache(db, "e").get_or_set("k", slow)))

    other = threading.Thread(target=elsewhere)
    other.start()
    found.append(await Cache(db, "e").get_or_set("k", slow))
    await asyncio.to_thread(other.join, 10)
    assert found == ["v", "v"]


async def test_only_what_has_expired_is_pruned(db):
    clock = Clock()
    for key, ttl in [("short", 10), ("long", 1000), ("for good", None)]:
        await Cache(db, "e", clock).get_or_set(key, counted(key)[0], ttl=ttl)
    assert await compat.write(db, lambda conn: cache.prune(conn, clock.now + 11)) == 1
    assert await compat.write(db, lambda conn: cache.prune(conn, clock.now + 11)) == 0
    keys = await db.execute("select key from _enrichment_cache order by key")
    assert [row[0] for row in keys.rows] == ["for good", "long"]


def test_a_database_without_a_cache_has_nothing_to_prune_or_find():
    conn = sqlite3.connect(":memory:")
    assert (cache.prune(conn, 0.0), cache.get(conn, "e", "k", 0.0)) == (0, None)
    conn.close()


async def test_a_job_computes_a_key_once_however_many_batches_ask(db_path):
    calls = []

    async def compute():
        calls.append(1)
        await asyncio.sleep(0.02)
        return len(calls)

    async def enrich_row(self, row, config, job):
        return {"found": await job.cache.get_or_set("shared", compute)}

    made = by_row(None, batch_size=1, max_open_batches=5)
    type(made).enrich_row = enrich_row
    with registered(made):
        async with serving(db_path) as datasette:
            await to_the_end(datasette, await start(datasette))
    assert len(calls) == 1 and rows(db_path, "select distinct found from papers") == [(1,)]


async def test_values_are_stored_read_and_forgotten_within_a_transaction_of_others(db):
    clock = Clock()
    shelf, other = Cache(db, "e", clock), Cache(db, "other", clock)
    assert await shelf.get("a") is None
    await compat.write(db, shelf.storing("a", {"n": 1}, ttl=60))
    await compat.write(db, shelf.storing("b", [2], ttl=600))
    assert (await shelf.get("a"), await shelf.get("b"), await other.get("a")) == ({"n": 1}, [2], None)
    clock.now += 60
    assert await shelf.get("a") is None
    await compat.write(db, other.forgetting("b"))
    assert await shelf.get("b") == [2]
    assert await compat.write(db, shelf.pruning()) == 1
    await compat.write(db, shelf.forgetting("b"))
    assert await shelf.get("b") is None
    assert await compat.read(db, lambda conn: conn.execute("select count(*) from _enrichment_cache").fetchone()[0]) == 0


def test_there_is_nothing_to_forget_in_a_database_without_a_cache():
    conn = sqlite3.connect(":memory:")
    cache.delete(conn, "e", "a")
    conn.close()
