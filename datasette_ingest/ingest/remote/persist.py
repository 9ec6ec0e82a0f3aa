"""Results of a topic into a database, from any producer: the rows of a batch and its offsets in one transaction."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timezone
from typing import Any, TypeAlias

from ...sqlite import iso, iso_utc
from ..load.errors import Refused
from ..load.results import LoadedResult, result_of
from ..model import IngestRequest
from ..schema import PERSIST_TABLES
from ..store import offsets
from ..store.arrivals import write_in_order
from ..store.offsets import Place
from ..store.requests import TABLE as REQUESTS
from .client import Brokers, Consumer, Producer
from .health import Metrics
from .messages import GIVEN, DeadLetter, ResultMessage, Unreadable
from .reading import PlacedReader, mark_of
from .record import Partition, Record
from .settings import KafkaSettings
from .topics import topics_of

log = logging.getLogger(__name__)

Write: TypeAlias = "Callable[[Callable[[sqlite3.Connection], Any]], Awaitable[Any]]"
"""Calls a function of a connection in one transaction."""

READER = "persist"
"""Under this name the database says how far results were read."""
TABLES = PERSIST_TABLES
MOST_AT_ONCE = 1000
"""Messages of one transaction."""
POLL_SECONDS = 0.5
MOST_AHEAD_SECONDS = 24 * 3600.0
"""How far the clock of whoever sends a result may be ahead of ours."""

_SAME_CLAIM = f"""
insert into {REQUESTS} (ingest_type, base_url, source, source_id, actor, created, release_stage, request)
values (cast(? as text), cast(? as text), cast(? as text), cast(? as text), ?, ?, ?, ?)
on conflict do update set created = excluded.created where excluded.created < created and actor = excluded.actor
  and release_stage is excluded.release_stage and request is excluded.request
"""


class Persister:
    """Reads results until it has caught up, or for ever.

    :param write: writes to the database, which has TABLES
    :param read: reads from it
    :param say: is told in a sentence what a person should know
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        *,
        read: Write,
        write: Write,
        say: Callable[[str], None] = log.info,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.topics = topics_of(kafka)
        self.counts: Counter[str] = Counter()
        """Of messages: `read`, `new` (a row was changed), `known`, `unreadable`; `lost`: deleted unread."""
        self.left = 0
        """Messages that were on the topic when it was last looked at, and are not read yet."""
        self.metrics = Metrics("ingest_persist")
        self._brokers = Brokers(kafka, say=say)
        self._read, self._write, self._say, self._clock = read, write, say, clock
        self._is_ready = False
        self.metrics.trouble = self._trouble
        self.metrics.gauges |= {
            "messages_left": lambda: self.left,
            "kafka_up": lambda: float(self._brokers.unreachable_since is None),
        }

    def _trouble(self) -> str | None:
        if self._brokers.unreachable_since is not None:
            return "Kafka cannot be reached"
        return None if self._is_ready else "starting"

    async def run(self, stop: asyncio.Event, *, forever: bool, on_progress: Callable[[], None] = lambda: None) -> None:
        """Write what is on the topic into the database, until `stop` is set, or all is written that was on the topic at
        the beginning.

        :raises KafkaRefused: when the brokers do not let us
        """
        stopping = asyncio.ensure_future(stop.wait())
        working = asyncio.ensure_future(self._work(stop, forever, on_progress))
        try:
            await asyncio.wait({stopping, working}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done() and not self._is_ready:  # it waits for the brokers
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)
                return
            await working
        finally:
            stopping.cancel()

    async def _work(self, stop: asyncio.Event, forever: bool, on_progress: Callable[[], None]) -> None:
        results = self.topics.results.name
        await self._brokers.make_topics([self.topics.results, self.topics.dead])
        known = await self._read(lambda conn: offsets.places(conn, READER, results))
        async with self._brokers.producer() as producer, self._brokers.consumer([results]) as consumer:
            reader = PlacedReader(consumer, self._say)
            await reader.begin({Partition(results, number): place for number, place in known.items()})
            self.counts["lost"] = reader.lost
            ends = await consumer.ends()
            self._is_ready = True
            while not stop.is_set():
                records = await reader.poll(seconds=POLL_SECONDS, most=MOST_AT_ONCE)
                if records or reader.anew:
                    await self._persist(reader, records, producer)
                if not records and not forever and await reader.is_at(ends):
                    return
                if forever and not records:
                    ends = await consumer.ends()
                await self._count_left(consumer, ends)
                on_progress()

    async def _count_left(self, consumer: Consumer, ends: dict[Partition, int]) -> None:
        at = [end - await consumer.position(partition) for partition, end in ends.items()]
        self.left = sum(max(0, each) for each in at)

    async def _persist(self, reader: PlacedReader, records: Sequence[Record], producer: Producer) -> None:
        given: list[tuple[LoadedResult, bool]] = []
        for record in records:
            read_one = read_record(record)
            if isinstance(read_one, str):
                await self._bury(record, read_one, producer)
            else:
                given.append(read_one)
        read = places_after(records)
        anew = [partition.number for partition in reader.anew]

        def write(conn: sqlite3.Connection) -> int:
            offsets.forget(conn, READER, self.topics.results.name, anew)
            new = sum(write_one(conn, loaded, is_ours=is_ours) for loaded, is_ours in given)
            offsets.advance(conn, READER, self.topics.results.name, read)
            return new

        new = await self._write(write)
        reader.anew.clear()
        self.counts.update(read=len(records), new=new, known=len(given) - new)
        self.metrics.add("results_read", len(records))
        self.metrics.add("results_new", new)

    async def _bury(self, record: Record, reason: str, producer: Producer) -> None:
        letter = DeadLetter.of(record, reason, when=iso(int(self._clock())))
        await producer.send(self.topics.dead.name, letter.encode())
        self.counts["unreadable"] += 1
        self.metrics.add("results_unreadable")
        self._say(f"{record.place} cannot be read and went to {self.topics.dead.name}: {reason[:200]}")


def places_after(records: Iterable[Record]) -> dict[int, Place]:
    """Partition -> how far it is read once these records are done."""
    last = {record.partition.number: record for record in records}
    return {number: Place(record.offset + 1, mark_of(record)) for number, record in last.items()}


def read_record(record: Record) -> tuple[LoadedResult, bool] | str:
    """(the result of a message, whether its request names who says that the file is there), or why it cannot be read.

    One that does not say when it came, as those of other programs, came when it was sent.
    """
    try:
        document, ticket = ResultMessage.decode(record)
        if document.get("updated") is None and document.get("timestamp") is None:
            document["updated"] = iso_utc(datetime.fromtimestamp(int(record.timestamp), timezone.utc))
        loaded = result_of(document, GIVEN)
    except (Unreadable, Refused) as problem:
        return str(problem)
    if loaded is not None and loaded.when.timestamp() > time.time() + MOST_AHEAD_SECONDS:
        return f"it is from {iso_utc(loaded.when)}, which is to come: it would hide all results until then"
    if loaded is None:
        return "the type of its request is not wanted"
    request: IngestRequest = loaded.result.request
    return loaded, ticket is None and bool(request.source and request.source_id)


def write_one(conn: sqlite3.Connection, loaded: LoadedResult, *, is_ours: bool) -> bool:
    """Write one result, and its request where it is a claim of its own. The tables exist. Whether the result was new."""
    if is_ours:
        conn.execute(_SAME_CLAIM, (*loaded.row[:5], iso_utc(loaded.when), *loaded.row[6:]))
    return write_in_order(conn, loaded.result, when=loaded.when)
