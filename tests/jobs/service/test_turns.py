"""Requests that query chosen rows take turns: a few of one actor, never all threads, and nobody waits for long."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from datasette_ingest.jobs.errors import TooMany
from datasette_ingest.jobs.service import turns

from ... import virtual

ADA, BOB = {"id": "ada"}, {"id": "bob"}


class Server:
    """As much of a Datasette as turns ask about."""

    def __init__(self, threads=3):
        self.threads = threads

    def setting(self, name):
        assert name == "num_sql_threads"
        return self.threads


async def ask(server, actor, log, seconds=1.0):
    async with turns.turn(server, actor):
        log.append(((actor or {}).get("id"), "in"))
        await asyncio.sleep(seconds)
        log.append(((actor or {}).get("id"), "out"))


def together(log):
    """The most that were at it at once."""
    now = most = 0
    for _, what in log:
        now += 1 if what == "in" else -1
        most = max(most, now)
    return most


@pytest.mark.parametrize("threads, most", [(0, 1), (1, 1), (2, 1), (3, 2), (8, 7)])
def test_one_thread_is_left_for_other_pages(threads, most):
    async def main(clock):
        server, log = Server(threads), []
        await asyncio.gather(*(ask(server, {"id": str(number)}, log, 0.1) for number in range(20)))
        assert len(log) == 40 and together(log) == most

    virtual.run(main)


def test_one_actor_leaves_a_turn_to_others():
    async def main(clock):
        server, log = Server(), []
        many = [asyncio.ensure_future(ask(server, ADA, log)) for _ in range(4)]
        await asyncio.sleep(0.1)
        await ask(server, BOB, log)
        await asyncio.gather(*many)
        assert log[:4] == [("ada", "in"), ("bob", "in"), ("ada", "out"), ("ada", "in")]

    virtual.run(main)


@pytest.mark.parametrize("actor", [ADA, None, {"name": "no id"}])
def test_more_than_a_few_of_one_actor_are_refused_at_once_and_let_in_later(actor):
    async def main(clock):
        server, log = Server(), []
        few = [asyncio.ensure_future(ask(server, actor, log, 0.5)) for _ in range(turns.MOST_OF_ONE_ACTOR)]
        await asyncio.sleep(0)
        with pytest.raises(TooMany, match="6 requests of yours are being answered already") as refused:
            await ask(server, actor, log)
        assert (refused.value.status, refused.value.retry_after, clock.elapsed) == (429, 2, 0.0)
        await asyncio.gather(*few)
        await ask(server, actor, log)

    virtual.run(main)


def test_who_gets_no_turn_for_long_is_refused_and_holds_nothing():
    async def main(clock):
        server, log = Server(2), []
        slow = asyncio.ensure_future(ask(server, ADA, log, 60.0))
        await asyncio.sleep(0.1)
        with pytest.raises(TooMany, match="The database is busy with other requests"):
            await ask(server, BOB, log)
        assert 5.0 <= clock.elapsed < 6.0
        await slow
        await ask(server, BOB, log)

    virtual.run(main)


def test_who_leaves_while_waiting_gives_the_turn_to_the_next():
    async def main(clock):
        server, log = Server(2), []
        first, second, third = (asyncio.ensure_future(ask(server, ADA, log)) for _ in range(3))
        await asyncio.sleep(0.1)
        second.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await second
        await asyncio.gather(first, third)
        assert together(log) == 1 and len(log) == 4

    virtual.run(main)
