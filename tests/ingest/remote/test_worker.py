"""A worker against a real broker and sites that a function plays: each request gets one result, or a dead letter."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from aiokafka import AIOKafkaProducer

from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.model import IngestRequest
from datasette_ingest.ingest.remote.client import Brokers
from datasette_ingest.ingest.remote.messages import EXCERPT_BYTES, DeadLetter, Delivery, RequestMessage, ResultMessage
from datasette_ingest.ingest.remote.record import Message, Record
from datasette_ingest.ingest.remote.settings import KafkaSettings
from datasette_ingest.ingest.remote.topics import Topics, topics_of
from datasette_ingest.ingest.remote.worker import Worker
from datasette_ingest.ingest.settings import CrawlSettings

from ..origin import PDF
from .brokers import Broker

QUICK = CrawlSettings(per_host_delay=0.0, robots="ignore")
RESOLVER = QUICK.doi_resolver


def site(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, content=PDF, headers={"content-type": "application/pdf"})


@dataclass
class Fleet:
    """Topics of its own, and what a test does with them."""

    kafka: KafkaSettings
    brokers: Brokers
    topics: Topics
    said: list[str] = field(default_factory=list)

    async def send(self, *messages: Message | RequestMessage | str) -> None:
        """Send requests: for a text that of its URL."""
        async with self.brokers.producer() as producer:
            for each in messages:
                message = RequestMessage(IngestRequest("pdf", each, "s", "1")) if isinstance(each, str) else each
                encoded = message.encode(RESOLVER) if isinstance(message, RequestMessage) else message
                await producer.send(self.topics.requests.name, encoded)

    @contextlib.asynccontextmanager
    async def working(
        self, answer: Callable[[httpx.Request], Any] = site, crawl: CrawlSettings = QUICK, **how: Any
    ) -> AsyncIterator[Worker]:
        """A worker that works while the block lasts."""

        def make_crawler(settings: CrawlSettings, **given: Any) -> Crawler:
            return Crawler(settings, transport=httpx.MockTransport(answer), **given)

        worker = Worker(self.kafka, crawl, **{"make_crawler": make_crawler, "say": self.said.append, **how})
        stop = asyncio.Event()
        running = asyncio.ensure_future(worker.run(stop))
        try:
            yield worker
        finally:
            stop.set()
            await running

    async def read(self, topic: str, number: int) -> list[Record]:
        """The first so many messages of a topic."""
        found: list[Record] = []
        async with self.brokers.consumer([topic]) as consumer:
            while len(found) < number:
                found += await consumer.poll(seconds=0.2, most=500)
        return found

    async def results(self, number: int) -> list[tuple[str, str, str | None]]:
        """(URL, status, ticket) of the first so many results, sorted."""
        read = [ResultMessage.decode(each) for each in await self.read(self.topics.results.name, number)]
        return sorted((document["request"]["base_url"], document["status"], ticket) for document, ticket in read)

    async def dead(self, number: int) -> list[DeadLetter]:
        return [DeadLetter.decode(each) for each in await self.read(self.topics.dead.name, number)]


@pytest.fixture
async def fleet(broker: Broker) -> Fleet:
    kafka = broker.settings()
    brokers, topics = Brokers(kafka), topics_of(kafka)
    await brokers.make_topics(topics.of_worker)
    return Fleet(kafka, brokers, topics)


@pytest.mark.slow
async def test_each_request_gets_a_result_which_brings_its_ticket(fleet: Fleet) -> None:
    urls = [f"https://host{number % 3}.example/{number}.pdf" for number in range(12)]
    ticketed = RequestMessage(IngestRequest("pdf", "no link", "s", "1"), Delivery(ticket="t1"))
    await fleet.send(*urls, ticketed)
    async with fleet.working() as worker:
        found = await fleet.results(13)
    assert found == sorted([*((url, "success", None) for url in urls), ("no link", "invalid-url", "t1")])
    assert worker.metrics.total("results") == 13


GOOD = "https://a.example/good.pdf"
POISON = {
    "not JSON: Expecting": b"{nonsense",
    "not JSON: 'utf-8' codec": b'{"base_url": "\xff"}',
    "ingest_type is 'film'": b'{"base_url": "https://a.example/", "ingest_type": "film"}',
    "base_url: Field required": b'{"ingest_type": "pdf"}',
    "at most 1,048,576 are read": b'{"base_url": "https://a.example/%s"}' % (b"x" * 10_000_000),
    "schema_version is 2": b'{"base_url": "https://a.example/", "schema_version": 2}',
    "the message is empty": None,
    "Expected `object`": b"[1]",
    "base_url contains a NUL": b'{"base_url": "https://a.example/\\u0000"}',
    "nested too deeply": b'{"base_url": ' + b"[" * 100_000,
    "half of a surrogate pair": b'{"base_url": "https://a.example/\\ud800"}',
}


@pytest.mark.slow
async def test_what_cannot_be_read_goes_to_the_dead_topic_and_its_partition_goes_on(fleet: Fleet) -> None:
    async with other_producer(fleet.kafka) as send:
        for value in POISON.values():
            await send(fleet.topics.requests.name, value, key=b"a.example")
        await send(fleet.topics.requests.name, b'{"base_url": "https://a.example/"}', partition=0)
        await send(fleet.topics.requests.name, b'{"base_url": "%s"}' % GOOD.encode(), key=b"a.example")
    async with fleet.working():
        assert await fleet.results(1) == [(GOOD, "success", None)]
        keyless, *letters = sorted(await fleet.dead(len(POISON) + 1), key=lambda each: (each.key or "", each.offset))
    assert "has no key" in keyless.reason and keyless.key is None
    assert [reason in letter.reason for reason, letter in zip(POISON, letters, strict=True)] == [True] * len(POISON)
    for value, letter in zip(POISON.values(), letters, strict=True):
        assert (letter.topic, letter.message_bytes) == (fleet.topics.requests.name, len(value or b""))
        assert letter.message == (value or b"")[:EXCERPT_BYTES].decode("utf-8", "replace")


@contextlib.asynccontextmanager
async def other_producer(kafka: KafkaSettings) -> AsyncIterator[Callable[..., Any]]:
    """What another program sends with."""
    producer = AIOKafkaProducer(bootstrap_servers=list(kafka.bootstrap), max_request_size=20 * 2**20)
    await producer.start()
    try:
        yield producer.send_and_wait
    finally:
        await producer.stop()


@pytest.mark.slow
async def test_what_was_answered_is_not_asked_again_by_the_next_worker(fleet: Fleet) -> None:
    asked: list[str] = []

    def noted(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return site(request)

    for name in ("one", "two"):
        await fleet.send(f"https://a.example/{name}.pdf")
        async with fleet.working(noted):
            await fleet.results(len(asked) + 1)
    assert asked == ["https://a.example/one.pdf", "https://a.example/two.pdf"]
