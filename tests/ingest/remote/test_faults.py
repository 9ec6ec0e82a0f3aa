"""Brokers that fail, refuse, or are gone for a while: what is sent arrives, and a person is told once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from datasette_ingest.ingest.remote.client import Brokers, KafkaRefused, Producer, TooLarge
from datasette_ingest.ingest.remote.record import Message
from datasette_ingest.ingest.remote.topics import MAX_RESULT_BYTES, MIB, topics_of

from . import brokers, mock_cluster
from .mock_cluster import PRODUCE, MockCluster

TOPIC = "faults"
NOT_LEADER, TIMED_OUT, NOT_ENOUGH_REPLICAS, TOO_LARGE, NOT_AUTHORISED = 6, 7, 19, 10, 29


@pytest.fixture
def cluster() -> Iterator[MockCluster]:
    with mock_cluster.running() as cluster:
        cluster.make_topic(TOPIC, 2)
        yield cluster


async def sent(producer: Producer, value: bytes = b"{}") -> None:
    await asyncio.wait_for(producer.send(TOPIC, Message(b"key", value)), 60)


async def values(found: Brokers) -> list[bytes | None]:
    async with found.consumer([TOPIC]) as consumer:
        ends = sum((await consumer.ends()).values())
        read: list[bytes | None] = []
        while len(read) < ends:
            read += [record.value for record in await consumer.poll(seconds=0.2, most=100)]
        return read


async def test_errors_that_pass_are_waited_for(cluster: MockCluster) -> None:
    found = Brokers(cluster.settings())
    async with found.producer() as producer:
        cluster.fail(PRODUCE, NOT_LEADER, TIMED_OUT, NOT_ENOUGH_REPLICAS)
        await sent(producer, b"1")
    assert b"1" in await values(found)


async def test_errors_that_do_not_pass_are_said(cluster: MockCluster) -> None:
    async with Brokers(cluster.settings()).producer() as producer:
        cluster.fail(PRODUCE, TOO_LARGE)
        with pytest.raises(TooLarge, match="a message of 2 bytes is too large for faults"):
            await sent(producer)
        with pytest.raises(TooLarge):
            await sent(producer, b"x" * (MAX_RESULT_BYTES + 2 * MIB))
        cluster.fail(PRODUCE, NOT_AUTHORISED)
        with pytest.raises(KafkaRefused, match="Kafka does not let us in"):
            await sent(producer)
        await sent(producer)


@pytest.mark.slow
async def test_a_broker_that_goes_away_is_waited_for_and_a_person_is_told_once(cluster: MockCluster) -> None:
    said: list[str] = []
    found = Brokers(cluster.settings(), say=said.append)
    async with found.producer() as producer:
        await sent(producer, b"before")
        cluster.go(down=True)
        sending = asyncio.ensure_future(sent(producer, b"after"))
        while not said:
            await asyncio.sleep(0.05)
        assert found.unreachable_since is not None and not sending.done()
        cluster.go(down=False)
        await sending
    assert len(said) == 2
    assert said[0].startswith(f"Kafka cannot be reached at {cluster.address} (")
    assert said[0].endswith("Waiting for it; nothing is lost") and said[1].startswith("Kafka is back after ")
    assert {b"before", b"after"} <= set(await values(found))


@pytest.mark.slow
async def test_a_broker_that_is_not_there_at_the_start_is_waited_for() -> None:
    late, said = brokers.Broker(), []
    found = Brokers(late.settings(), say=said.append)
    topic = topics_of(late.settings()).requests
    making = asyncio.ensure_future(found.make_topics([topic]))
    while not said:
        await asyncio.sleep(0.05)
    late.start()
    try:
        assert await making == {topic.name: topic.partitions}
    finally:
        late.stop()
    assert said[0].startswith("Kafka cannot be reached at ") and len(said) == 2


async def test_a_topic_that_is_missing_and_may_not_be_made_is_named(cluster: MockCluster) -> None:
    kafka = cluster.settings()
    with pytest.raises(
        KafkaRefused, match=r"Kafka has no topic ingest-prod\.ingest-file-requests, and kafka\.create_topics"
    ):
        await Brokers(kafka).make_topics([topics_of(kafka).requests])
