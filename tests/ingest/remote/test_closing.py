"""Whenever a task is cancelled, each producer and consumer that it made is closed, and so are their connections."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from datasette_ingest.ingest.remote import client
from datasette_ingest.ingest.remote.client import Brokers
from datasette_ingest.ingest.remote.settings import KafkaSettings
from tests import virtual


class Connections:
    """As the client of aiokafka."""

    def __init__(self) -> None:
        self.are_open = False
        self.lost = False
        """A connection whose making was cancelled is forgotten, and stays open."""
        self._get_conn_lock = asyncio.Lock()

    async def connect(self) -> None:
        async with self._get_conn_lock:
            self.lost = True
            for _ in range(3):
                await asyncio.sleep(0)
            self.lost, self.are_open = False, True

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.are_open = False


class Fetcher:
    """It connects again for as long as it runs."""

    is_closed = False

    async def close(self) -> None:
        self.is_closed = True


class Fake:
    """As a producer, a consumer or an admin client of aiokafka: stopping it begins with a mark, and takes some steps."""

    made: list[Fake]
    hangs = False

    def __init__(self, **settings: Any) -> None:
        self.client = self._client = Connections()
        self._fetcher = Fetcher()
        self.is_closed = self.is_consumer = False
        self.reading: asyncio.Task[None] | None = None
        self.made.append(self)

    async def start(self) -> None:
        """Its first connection is made before it returns, another meanwhile."""
        await self.client.connect()
        self.reading = asyncio.ensure_future(self.client.connect())
        await asyncio.sleep(0)

    async def stop(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            if self.reading is not None:
                self.reading.cancel()
                await asyncio.wait({self.reading})
            await (asyncio.sleep(3600) if self.hangs else asyncio.sleep(0))
            await self._fetcher.close()
            await self.client.close()

    close = stop

    async def describe_topics(self, names: list[str]) -> list[dict[str, Any]]:
        await asyncio.sleep(0)
        return [{"topic": name, "partitions": [0]} for name in names]

    def subscribe(self, names: list[str], listener: Any) -> None:
        self.is_consumer = True

    def assign(self, partitions: list[Any]) -> None:
        self.is_consumer = True

    async def seek_to_beginning(self) -> None:
        await asyncio.sleep(0)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Fake]:
    """What is made instead of those of aiokafka."""
    monkeypatch.setattr(Fake, "made", [], raising=False)
    for name in ("AIOKafkaProducer", "AIOKafkaConsumer", "AIOKafkaAdminClient"):
        monkeypatch.setattr(client, name, Fake)
    return Fake.made


async def use(brokers: Brokers) -> None:
    async with brokers.producer(), brokers.consumer(["a"]), brokers.consumer(["b"], group="g"):
        await asyncio.sleep(0)


STEPS = 120
"""More than `use` takes."""


def left_open(made: list[Fake]) -> list[Fake]:
    return [each for each in made if not each.is_closed or each.client.are_open or each.client.lost]


@pytest.mark.parametrize("more", [0, 1, 2, 3])
async def test_a_task_that_is_cancelled_once_or_twice_leaves_nothing_open(made: list[Fake], more: int) -> None:
    was_done = False
    for step in range(STEPS):
        task = asyncio.ensure_future(use(Brokers(KafkaSettings(bootstrap=("127.0.0.1:1",)))))
        for _ in range(step):
            await asyncio.sleep(0)
        was_done = task.done()
        task.cancel()
        for _ in range(more):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert left_open(made) == [], f"cancelled after {step} steps"
    assert was_done


def test_an_event_loop_that_ends_leaves_nothing_open(made: list[Fake]) -> None:
    async def end_after(step: int) -> None:
        asyncio.ensure_future(use(Brokers(KafkaSettings(bootstrap=("127.0.0.1:1",)))))  # noqa: RUF006
        for _ in range(step):
            await asyncio.sleep(0)

    for step in range(STEPS):
        asyncio.run(end_after(step))
        for each in made:
            each.client.lost = False  # there is no loop any more in which that could end
        assert left_open(made) == [], f"the loop ended after {step} steps"


def test_connections_are_closed_where_brokers_do_not_answer(made: list[Fake], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fake, "hangs", True)
    virtual.run(lambda clock: use(Brokers(KafkaSettings(bootstrap=("127.0.0.1:1",)))))
    assert left_open(made) == []
    assert [each._fetcher.is_closed for each in made if each.is_consumer] == [True, True]


async def test_what_cannot_start_is_closed(made: list[Fake], monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(self: Fake) -> None:
        self.client.are_open = True
        raise OSError("no")

    monkeypatch.setattr(Fake, "start", fail)
    task = asyncio.ensure_future(use(Brokers(KafkaSettings(bootstrap=("127.0.0.1:1",)))))
    while not made or not made[0].is_closed:
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert left_open(made) == []
