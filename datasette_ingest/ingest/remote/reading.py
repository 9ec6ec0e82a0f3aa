"""Reads a topic from where a database says, and finds out when the topic is not the one that was read before."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress

from ..store.offsets import Place
from .client import Consumer
from .record import Partition, Record


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
            elif place.next > end:
                start = self._is_anew(partition, first)
            elif place.next < first:
                self.lost += first - place.next
                self._say(
                    f"{partition.topic}[{partition.number}]: {first - place.next:,} messages before offset {first} were "
                    "deleted before they were read here. Read on from there; keep messages for longer than readers rest"
                )
                start = first
            else:
                start = place.next
                if place.mark is not None and place.next > first:
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
        found = []
        beginnings: dict[Partition, int] = {}
        skipped: set[Partition] = set()
        for record in await self._consumer.poll(seconds=seconds, most=most):
            partition = record.partition
            if partition in skipped:
                continue
            place = self._expected.pop(partition, None)
            if place is None or record.offset >= place.next:
                found.append(record)
            elif mark_of(record) != place.mark:
                beginnings = beginnings or await self._consumer.beginnings()
                self._consumer.seek(partition, self._is_anew(partition, beginnings[partition]))
                skipped.add(partition)
        return found

    async def is_at(self, ends: Mapping[Partition, int]) -> bool:
        """Whether all messages before these offsets were returned."""
        for partition, end in ends.items():
            with suppress(asyncio.TimeoutError):
                if await asyncio.wait_for(self._consumer.position(partition), 5.0) >= end:
                    continue
            return False
        return True
