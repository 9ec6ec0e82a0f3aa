"""Reads a topic from where a database says, and finds out when the topic is not the one that was read before."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress

from ..store.offsets import Place
from .client import Consumer
from .record import Partition, Record

MOST_DOUBTS = 3
"""After so many polls without any message, one that should stand at the end of a partition is not there."""


def mark_of(record: Record) -> str:
    """What tells a message from others that may have had its offset: its time in milliseconds and a digest."""
    digest = hashlib.sha1((record.key or b"") + b"\0" + (record.value or b""), usedforsecurity=False)
    return f"{round(record.timestamp * 1000)}-{digest.hexdigest()[:16]}"


class PlacedReader:
    """Reads all partitions of a consumer without a group.

    :param say: is told in a sentence of messages that are gone unread, and of topics that were made anew
    """

    def __init__(self, consumer: Consumer, say: Callable[[str], None]) -> None:
        self._consumer = consumer
        self._say = say
        self._expected: dict[Partition, Place] = {}
        self._doubtful: set[Partition] = set()
        """Those of them that may end before the message with the mark."""
        self._doubts = 0
        self.anew: set[Partition] = set()
        """Partitions whose stored places are another topic's: to be forgotten with the next write."""
        self.lost = 0
        """Messages that were deleted unread, as far as that is known."""

    async def begin(self, places: Mapping[Partition, Place], *, new_at_end: bool = False) -> dict[Partition, int]:
        """Go to where reading goes on. The offsets from which each partition is read.

        :param new_at_end: a partition that has no place is read from its end, not from its beginning
        """
        beginnings, ends = await self._consumer.beginnings(), await self._consumer.ends()
        starts = {}
        for partition in sorted(ends):
            place, first, end = places.get(partition), beginnings[partition], ends[partition]
            if place is None:
                start = end if new_at_end else first
            elif place.next < first:
                self.lost += first - place.next
                self._say(
                    f"{partition.topic}[{partition.number}]: {first - place.next:,} messages before offset {first} were "
                    "deleted before they were read here. Read on from there; keep messages for longer than readers rest"
                )
                start = first
            else:
                start = place.next
                if place.next > end:
                    if place.mark is None:
                        start = self._is_anew(partition, first)
                    else:  # brokers may not know their ends well: it is so if no message stands there
                        self._doubtful.add(partition)
                if start == place.next > first and place.mark is not None:
                    self._expected[partition] = place
                    self._consumer.seek(partition, place.next - 1)
                    starts[partition] = start
                    continue
            self._consumer.seek(partition, start)
            starts[partition] = start
        return starts

    def _is_anew(self, partition: Partition, first: int) -> int:
        self.anew.add(partition)
        self._say(
            f"{partition.topic}[{partition.number}] is not what was read before: it was made anew. Read from its beginning; "
            "results that are known already change nothing"
        )
        return first

    async def poll(self, *, seconds: float, most: int) -> list[Record]:
        """The next messages; none after so many seconds without any."""
        found: list[Record] = []
        others: set[Partition] = set()
        polled = await self._consumer.poll(seconds=seconds, most=most)
        for record in polled:
            partition = record.partition
            place = None if partition in others else self._expected.pop(partition, None)
            self._doubtful.discard(partition)
            if place is not None and record.offset < place.next and mark_of(record) != place.mark:
                others.add(partition)
            elif partition not in others and (place is None or record.offset >= place.next):
                found.append(record)
        if self._doubtful and not polled:
            self._doubts += 1
            if self._doubts >= MOST_DOUBTS:
                others |= self._doubtful
                self._doubtful.clear()
        if others:
            beginnings = await self._consumer.beginnings()
            for partition in others:
                self._expected.pop(partition, None)
                self._consumer.seek(partition, self._is_anew(partition, beginnings[partition]))
        return found

    async def is_at(self, ends: Mapping[Partition, int]) -> bool:
        """Whether all messages before these offsets were returned."""
        if self._doubtful:
            return False
        for partition, end in ends.items():
            with suppress(asyncio.TimeoutError):
                if await asyncio.wait_for(self._consumer.position(partition), 5.0) >= end:
                    continue
            return False
        return True
