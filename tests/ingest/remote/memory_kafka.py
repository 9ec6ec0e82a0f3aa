"""Brokers that are this process' memory: what `client.Brokers` does, in virtual time, with outages and deaths at will."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from datasette_ingest.ingest.remote.client import Evicted, Listener
from datasette_ingest.ingest.remote.record import Message, Partition, Record
from datasette_ingest.ingest.remote.routing import partition_of
from datasette_ingest.ingest.remote.topics import Topic


@dataclass
class MemoryKafka:
    """Topics and groups. `clock`: seconds since 1970."""

    clock: Callable[[], float]
    logs: dict[Partition, list[Record]] = field(default_factory=dict)
    committed: dict[Partition, int] = field(default_factory=dict)
    members: list[MemoryConsumer] = field(default_factory=list)
    is_down: bool = False
    tells_late: bool = False
    """Whether what the group has committed is told in the step in which messages come, which is the worst moment."""

    def brokers(self, say: Callable[[str], None] = lambda sentence: None) -> MemoryBrokers:
        """The brokers as one process sees them."""
        return MemoryBrokers(self, say)

    def partitions(self, topic: str) -> list[Partition]:
        return sorted(each for each in self.logs if each.topic == topic)

    def append(self, partition: Partition, message: Message) -> None:
        log = self.logs[partition]
        log.append(Record(partition, len(log), message.key, message.value, dict(message.headers), self.clock()))

    def send(self, topic: str, message: Message) -> None:
        """Append a message as any producer does."""
        number = partition_of(message.key, len(self.partitions(topic)))
        self.append(Partition(topic, number), message)

    def records(self, topic: str) -> list[Record]:
        return [record for partition in self.partitions(topic) for record in self.logs[partition]]

    async def rebalance(self) -> None:
        """All members give their partitions back, and get others."""
        for member in self.members:
            if member.mine and not member.is_lost:
                await member.listener.revoked(list(member.mine))
        await self.assign()

    async def assign(self) -> None:
        present = [member for member in self.members if not member.is_lost]
        for place, member in enumerate(present):
            topics = sorted(member.topics)
            every = [partition for topic in topics for partition in self.partitions(topic)]
            member.mine = {each: self.committed.get(each, 0) for each in every[place :: len(present)]}
            member.paused.clear()
        for member in present:
            await member.listener.assigned(list(member.mine))


class MemoryBrokers:
    """As `client.Brokers`. `killed`: the process is dead, and nothing that it does reaches anyone."""

    def __init__(self, kafka: MemoryKafka, say: Callable[[str], None]) -> None:
        self.kafka = kafka
        self.say = say
        self.unreachable_since: float | None = None
        self.killed = asyncio.Event()
        self.member: MemoryConsumer | None = None

    async def make_topics(self, topics: Iterable[Topic]) -> dict[str, int]:
        counts = {}
        for topic in topics:
            for number in range(topic.partitions):
                self.kafka.logs.setdefault(Partition(topic.name, number), [])
            counts[topic.name] = topic.partitions
        return counts

    @contextlib.asynccontextmanager
    async def producer(self) -> AsyncIterator[MemoryProducer]:
        yield MemoryProducer(self)

    @contextlib.asynccontextmanager
    async def consumer(self, topics: Iterable[str], *, group: str, listener: Listener) -> AsyncIterator[Any]:
        self.member = MemoryConsumer(self, set(topics), listener)
        self.kafka.members.append(self.member)
        joining = asyncio.ensure_future(self.kafka.rebalance())
        try:
            yield self.member
        finally:
            await joining
            if self.member in self.kafka.members:
                self.kafka.members.remove(self.member)
                if not self.is_killed:
                    self.member.mine = {}
                    await self.kafka.rebalance()

    async def last_messages(self, topic: str) -> dict[int, Record]:
        return {
            each.number: self.kafka.logs[each][-1] for each in self.kafka.partitions(topic) if self.kafka.logs[each]
        }

    @property
    def is_killed(self) -> bool:
        return self.killed.is_set()

    async def reached(self) -> None:
        """Wait until there is an answer."""
        if self.is_killed:
            await asyncio.Event().wait()
        while self.kafka.is_down:
            self.unreachable_since = 0.0
            await asyncio.sleep(0.25)
        self.unreachable_since = None

    def kill(self) -> None:
        """The process dies; the group learns of it."""
        self.killed.set()
        assert self.member is not None
        self.kafka.members.remove(self.member)
        self.member.mine = {}


class MemoryProducer:
    def __init__(self, brokers: MemoryBrokers) -> None:
        self._brokers = brokers

    async def send(self, topic: str, message: Message, *, partition: int | None = None) -> None:
        await self._brokers.reached()
        kafka = self._brokers.kafka
        number = partition_of(message.key, len(kafka.partitions(topic))) if partition is None else partition
        kafka.append(Partition(topic, number), message)
        await asyncio.sleep(0.001)


class MemoryConsumer:
    """`mine`: its partitions, and the offset that it reads next. `is_lost`: the group took them, and it does not know."""

    def __init__(self, brokers: MemoryBrokers, topics: set[str], listener: Listener) -> None:
        self.brokers = brokers
        self.topics = topics
        self.listener = listener
        self.mine: dict[Partition, int] = {}
        self.paused: set[Partition] = set()
        self.is_lost = False
        self._polled = asyncio.Event()
        """Set when the next poll returns messages."""

    async def poll(self, *, seconds: float, most: int) -> list[Record]:
        await asyncio.sleep(0)
        kafka = self.brokers.kafka
        found: list[Record] = []
        if not kafka.is_down and not self.is_lost:
            for partition in sorted(self.mine.keys() - self.paused):
                news = kafka.logs[partition][self.mine[partition] :][: most - len(found)]
                self.mine[partition] += len(news)
                found += news
        if not found:
            await asyncio.sleep(seconds)
            return found
        self._polled.set()
        self._polled = asyncio.Event()
        return found

    async def commit(self, offsets: Mapping[Partition, int], *, seconds: float = 10.0) -> bool:
        if self.brokers.is_killed:
            return False
        if self.brokers.kafka.is_down:
            self.brokers.unreachable_since = 0.0
            await asyncio.sleep(seconds)
            return False
        if self.is_lost:
            raise Evicted("UNKNOWN_MEMBER_ID")
        self.brokers.unreachable_since = None
        self.brokers.kafka.committed.update(offsets)
        return True

    async def committed(self, partition: Partition) -> int | None:
        if self.brokers.kafka.tells_late:
            polled = self._polled
            asyncio.get_running_loop().call_later(5, polled.set)
            await polled.wait()
        return self.brokers.kafka.committed.get(partition)

    async def beginnings(self) -> dict[Partition, int]:
        return dict.fromkeys(self.mine, 0)

    def assignment(self) -> set[Partition]:
        return set(self.mine)

    def seek(self, partition: Partition, offset: int) -> None:
        self.mine[partition] = offset

    def pause(self, partitions: Iterable[Partition]) -> None:
        self.paused.update(partitions)

    def resume(self, partitions: Iterable[Partition]) -> None:
        self.paused.difference_update(partitions)
