"""What a worker holds: partitions of requests, the requests themselves, and partitions of parked requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace

from .messages import RequestMessage
from .outbox import Outbox
from .parking import due
from .record import Partition, Record
from .takeover import Note, Offsets, Takeover

AHEAD = 200
"""How far beyond what was read a note says that messages may have been begun, so that not every read needs one."""
MOVED_AT_ONCE = 50
"""Parked requests that are sent on together. So many may be sent twice when the partition goes to another worker."""


class Owned:
    """A partition of the requests, from its assignment to its revocation.

    :param last: what the owner before has said
    :param start: the offset of the first message that is not done
    :param alone: held by a request that is begun with no other suspect of the process
    """

    def __init__(
        self,
        partition: Partition,
        takeover: Takeover,
        last: Note | None,
        start: int,
        outbox: Outbox,
        alone: asyncio.Lock,
    ) -> None:
        self.partition = partition
        self.culprit = takeover.culprit
        self.offsets = Offsets(start)
        self.committed = start
        self.note = takeover.note
        self.is_leaving = False
        """Whether it is being handed back: nothing more is begun."""
        self._takeover = takeover
        self._told = last
        """The note that was said last."""
        self._telling = asyncio.Lock()
        self._outbox = outbox
        self._alone = alone
        self._suspects = asyncio.Semaphore(takeover.at_once(start) or 1)

    @property
    def number(self) -> int:
        return self.partition.number

    @property
    def next(self) -> int:
        """The offset to commit."""
        return self.offsets.committable

    async def tell(self) -> None:
        """Say the note, if it has changed. One after the other, so that the last one that is said is the newest."""
        async with self._telling:
            if self.note != self._told:
                note = self.note
                await self._outbox.tell(self.number, note)
                self._told = note

    async def expect(self, last: int) -> None:
        """Say that messages up to this offset may be begun."""
        if last >= self.note.until:
            is_suspect = self.next < self._takeover.note.until
            self.note = replace(self.note, until=last + 1 + AHEAD, deaths=self.note.deaths if is_suspect else 0)
        await self.tell()

    @contextlib.asynccontextmanager
    async def turn(self, offset: int) -> AsyncIterator[None]:
        """The right to begin a message. Few of those with which a process may have died are begun at once."""
        at_once = self._takeover.at_once(offset)
        if at_once is None:
            yield
        elif at_once > 1:
            async with self._suspects:
                yield
        else:
            async with self._suspects, self._alone:
                self.note = replace(self.note, alone=offset)
                await self.tell()
                try:
                    yield
                finally:
                    self.note = replace(self.note, alone=None)
                await self.tell()


@dataclass(eq=False)
class Parked:
    """A partition of the parked requests, and those of its messages that were read."""

    partition: Partition
    committed: int
    next: int
    """The offset to commit: that of the first message that is not done."""
    waiting: deque[Record] = field(default_factory=deque)
    moving: asyncio.Task[None] | None = None

    def is_due(self, now: float) -> bool:
        """Whether the time of the first message is over. No other's is over before."""
        return bool(self.waiting) and due(self.waiting[0].timestamp, self.partition.number) <= now

    async def move(self, outbox: Outbox, clock: Callable[[], float]) -> None:
        """Send on all whose time is over."""
        while self.is_due(clock()):
            batch: list[Record] = []
            while self.is_due(clock()) and len(batch) < MOVED_AT_ONCE:
                batch.append(self.waiting.popleft())
            await asyncio.gather(*map(outbox.unpark, batch))
            self.next = batch[-1].offset + 1


@dataclass(eq=False)
class Held:
    """A request that the worker holds. Mutable."""

    owned: Owned
    record: Record
    message: RequestMessage
    host: str
    task: asyncio.Task[None] | None = None
    waits: int = 0
    """How many of its fetches wait for their turn."""
    is_answered: bool = False
    """Whether it asks no hosts any more: what became of it is being stored."""
    is_called_back: bool = False
    """Whether it is begun anew if its task ends by cancellation."""

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Around each wait for a turn."""
        self.waits += 1
        try:
            yield
        finally:
            self.waits -= 1

    def again(self) -> Held:
        """The same request, not begun."""
        return Held(self.owned, self.record, self.message, self.host)
