"""The client against a real broker: what is sent is read, once per group, from where it was committed."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from datasette_ingest.ingest.model import IngestRequest
from datasette_ingest.ingest.remote.client import Brokers, Consumer
from datasette_ingest.ingest.remote.messages import Delivery, RequestMessage
from datasette_ingest.ingest.remote.record import Message, Partition, Record
from datasette_ingest.ingest.remote.settings import KafkaSettings
from datasette_ingest.ingest.remote.topics import topics_of

from .brokers import Broker

RESOLVER = "https://doi.org/"


async def read(consumer: Consumer, number: int) -> list[Record]:
    found: list[Record] = []
    while len(found) < number:
        found += await consumer.poll(seconds=0.5, most=100)
    return found


async def test_a_request_is_sent_and_read_as_it_was(broker: Broker) -> None:
    kafka = broker.settings()
    brokers, topics = Brokers(kafka), topics_of(kafka)
    assert await brokers.make_topics(topics.of_worker) == {topic.name: topic.partitions for topic in topics.of_worker}
    request = IngestRequest.from_json(
        {
            "ingest_type": "pdf",
            "base_url": "https://host.example/p",
            "link_source": "doaj",
            "link_source_id": "7",
            "x": 1,
        }
    )
    sent = RequestMessage(request, Delivery(ticket="t1", memory={"a": ([1], 2.0)}))
    async with brokers.producer() as producer:
        await producer.send(topics.requests.name, sent.encode(RESOLVER))
    async with brokers.consumer([topics.requests.name]) as consumer:
        (record,) = await read(consumer, 1)
    found = RequestMessage.decode(record)
    assert (record.key, found) == (b"host.example", sent)
    assert found.request.to_json() == request.to_json()
    assert (found.request.source, found.request.source_id) == ("doaj", "7")


@pytest.mark.slow
async def test_a_group_goes_on_where_it_has_committed(broker: Broker) -> None:
    kafka = broker.settings(partitions=1)
    brokers, topic = Brokers(kafka), topics_of(kafka).requests
    await brokers.make_topics([topic])
    async with brokers.producer() as producer:
        for each in (b"1", b"2", b"3"):
            await producer.send(topic.name, Message(b"key", each))
    async with brokers.consumer([topic.name], group="workers") as consumer:
        first, *_ = await read(consumer, 3)
        assert await consumer.committed(first.partition) is None
        assert await consumer.commit({first.partition: first.offset + 1})
        assert await consumer.committed(first.partition) == 1
    async with brokers.consumer([topic.name], group="workers") as consumer:
        assert [record.value for record in await read(consumer, 2)] == [b"2", b"3"]


async def test_a_consumer_without_a_group_reads_from_where_it_is_told(broker: Broker) -> None:
    kafka = broker.settings(partitions=1)
    brokers, topic = Brokers(kafka), topics_of(kafka).requests
    await brokers.make_topics([topic])
    async with brokers.producer() as producer:
        for each in (b"1", b"2", b"3"):
            await producer.send(topic.name, Message(b"key", each))
    async with brokers.consumer([topic.name]) as consumer:
        (partition,) = consumer.assignment()
        assert (await consumer.beginnings(), await consumer.ends()) == ({partition: 0}, {partition: 3})
        consumer.seek(partition, 2)
        assert [record.value for record in await read(consumer, 1)] == [b"3"]
        assert await consumer.position(partition) == 3


async def test_the_last_message_of_each_partition_is_found(broker: Broker) -> None:
    kafka = broker.settings()
    brokers, topic = Brokers(kafka), topics_of(kafka).open
    await brokers.make_topics([topic])
    async with brokers.producer() as producer:
        for number, key in ((0, b"a"), (2, b"b"), (0, b"c")):
            await producer.send(topic.name, Message(key, b"{}"), partition=number)
    found = await brokers.last_messages(topic.name)
    assert {number: record.key for number, record in found.items()} == {0: b"c", 2: b"b"}


class Ends:
    """A consumer of one partition with one message at an offset, which says another end."""

    def __init__(self, topic: str, *, at: int, end: int) -> None:
        self.partition = Partition(topic, 0)
        self.at, self.end, self.next = at, end, 0

    async def ends(self) -> dict[Partition, int]:
        return {self.partition: self.end}

    def seek(self, partition: Partition, offset: int) -> None:
        self.next = offset

    async def poll(self, *, seconds: float, most: int) -> list[Record]:
        if self.next > self.at:
            return []
        self.next = self.at + 1
        return [Record(self.partition, self.at, b"0", b"{}", {}, 0.0)]


@pytest.mark.parametrize("at", [0, 7, 17, 18, 19])
async def test_the_last_message_is_found_also_where_the_end_that_brokers_say_is_another(at: int) -> None:
    class Known(Brokers):
        @contextlib.asynccontextmanager
        async def consumer(self, topics: Any, **how: Any) -> AsyncIterator[Any]:
            yield Ends(*topics, at=at, end=20)

    found = await Known(KafkaSettings(bootstrap=("memory:1",))).last_messages("open")
    assert {number: record.offset for number, record in found.items()} == {0: at}


async def test_where_no_message_is_there_the_search_ends() -> None:
    class Known(Brokers):
        @contextlib.asynccontextmanager
        async def consumer(self, topics: Any, **how: Any) -> AsyncIterator[Any]:
            yield Ends(*topics, at=-1, end=2000)

    assert await Known(KafkaSettings(bootstrap=("memory:1",))).last_messages("open") == {}
