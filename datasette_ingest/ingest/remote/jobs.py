"""A database's rows at the fleet: their requests are published, and their results are handed to whoever keeps the rows."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..load.results import LoadedResult
from ..model import IngestRequest
from ..store.offsets import Place
from .client import Brokers, KafkaRefused, Producer, TooLarge
from .messages import DeadLetter, Delivery, RequestMessage, Unreadable
from .persist import places_after, read_record
from .reading import PlacedReader
from .record import Partition, Record
from .settings import KafkaSettings
from .topics import MAX_REQUEST_BYTES, topics_of

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.25
"""How often it is looked for requests that are to be published."""
MOST_AT_ONCE = 500
RETRY_SECONDS = 2.0
"""How long to rest where the database cannot be used."""


@dataclass(frozen=True)
class Dead:
    """What became of a request that the fleet could not answer."""

    reason: str


class Desk(Protocol):
    """What keeps the rows: a database. Every step may be taken again after a crash."""

    async def places(self, topic: str) -> Mapping[int, Place]:
        """Partition -> how far the topic was read."""

    async def advance(self, topic: str, read: Mapping[int, Place], anew: Collection[int]) -> None:
        """Note how far it is read. Partitions of `anew` are those of another topic now."""

    async def unpublished(self, most: int) -> Sequence[tuple[str, IngestRequest]]:
        """(ticket, request) of some that wait to be published. No other process gets them for a while."""

    async def published(self, tickets: Collection[str]) -> None:
        """Note that these were."""

    async def publish_again(self) -> None:
        """Results may have been lost: all requests without one wait to be published again."""

    async def known(self, tickets: Collection[str]) -> Collection[str]:
        """Those of the tickets whose rows wait here."""

    async def answer(self, ticket: str, given: LoadedResult | Dead) -> None:
        """Answer the rows that wait for this ticket, if there are any."""

    def say(self, sentence: str) -> None:
        """Tell whoever looks at the jobs."""

    async def refused(self, sentence: str) -> None:
        """Nothing can be published until a person changes something."""


class FleetLink:
    """Publishes and reads while it is open. Brokers that cannot be reached are waited for.

    First it is noted where the results end, and only then is anything published: no result comes before the place from
    which results are read. A request is noted as published after it was; a process that is killed between publishes it
    again, and the second result finds no row that waits.
    """

    def __init__(self, kafka: KafkaSettings, desk: Desk, *, doi_resolver: str) -> None:
        self._desk = desk
        self._resolver = doi_resolver
        self._topics = topics_of(kafka)
        self._brokers = Brokers(kafka, say=desk.say)
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._task = asyncio.create_task(self._until_refused())

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _until_refused(self) -> None:
        while True:
            try:
                await self._work()
            except KafkaRefused as problem:
                await self._desk.refused(str(problem))
                return
            except Exception:
                log.exception("the link to the fleet failed; it is opened again")
            await asyncio.sleep(RETRY_SECONDS)

    async def _work(self) -> None:
        topics = (self._topics.results, self._topics.dead)
        await self._brokers.make_topics((self._topics.requests, *topics))
        async with (
            self._brokers.producer() as producer,
            self._brokers.consumer([topic.name for topic in topics]) as consumer,
        ):
            reader = PlacedReader(consumer, self._desk.say)
            known = {
                Partition(topic.name, number): place
                for topic in topics
                for number, place in (await self._desk.places(topic.name)).items()
            }
            starts = await reader.begin(known, new_at_end=True)
            await self._note(reader, {partition: Place(offset) for partition, offset in starts.items()})
            loops = [asyncio.ensure_future(self._read(reader)), asyncio.ensure_future(self._publish(producer))]
            try:
                ended, _ = await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    task.result()
            finally:
                for task in loops:
                    task.cancel()
                await asyncio.gather(*loops, return_exceptions=True)

    async def _publish(self, producer: Producer) -> None:
        while True:
            found = await self._desk.unpublished(MOST_AT_ONCE)
            if found:
                sent = await asyncio.gather(*(self._send(producer, *each) for each in found))
                await self._desk.published([ticket for ticket in sent if ticket is not None])
            if len(found) < MOST_AT_ONCE:
                await asyncio.sleep(LOOK_SECONDS)

    async def _send(self, producer: Producer, ticket: str, request: IngestRequest) -> str | None:
        """Publish a request; its ticket, or None where it was answered here since it cannot be."""
        message = RequestMessage(request, Delivery(ticket=ticket)).encode(self._resolver)
        size = len(message.value or b"")
        try:
            if size > MAX_REQUEST_BYTES:
                raise TooLarge(f"a request of {size:,} bytes is too large for the fleet")
            await producer.send(self._topics.requests.name, message)
        except TooLarge as problem:
            await self._desk.answer(ticket, Dead(str(problem)))
            return None
        return ticket

    async def _read(self, reader: PlacedReader) -> None:
        while True:
            records = await reader.poll(seconds=LOOK_SECONDS, most=MOST_AT_ONCE)
            ticketed = [(ticket, record) for record in records if (ticket := ticket_of(record)) is not None]
            known = await self._desk.known({ticket for ticket, _ in ticketed})
            for ticket, record in ticketed:
                if ticket in known:
                    await self._desk.answer(ticket, self._given(record))
            if records or reader.anew or reader.lost:
                by_topic: dict[str, list[Record]] = {}
                for record in records:
                    by_topic.setdefault(record.partition.topic, []).append(record)
                read = {
                    Partition(topic, number): place
                    for topic, each in by_topic.items()
                    for number, place in places_after(each).items()
                }
                await self._note(reader, read)

    def _given(self, record: Record) -> LoadedResult | Dead:
        if record.partition.topic == self._topics.dead.name:
            with contextlib.suppress(Unreadable):
                return Dead(f"The fleet could not answer: {DeadLetter.decode(record).reason}")
            return Dead("The fleet could not answer, and its reason cannot be read")
        found = read_record(record)
        return Dead(f"The fleet's answer cannot be read: {found}") if isinstance(found, str) else found[0]

    async def _note(self, reader: PlacedReader, read: Mapping[Partition, Place]) -> None:
        """Note how far the topics are read; where results may have been lost, their requests are published again."""
        if reader.anew or reader.lost:
            await self._desk.publish_again()
        for topic in (self._topics.results.name, self._topics.dead.name):
            anew = [partition.number for partition in reader.anew if partition.topic == topic]
            places = {partition.number: place for partition, place in read.items() if partition.topic == topic}
            if anew or places:
                await self._desk.advance(topic, places, anew)
        reader.anew.clear()
        reader.lost = 0


def ticket_of(record: Record) -> str | None:
    """The ticket that a message brings back; None for one that brings none."""
    try:
        return Delivery.read(record.headers).ticket
    except Unreadable:
        return None
