"""What is known of one partition of requests: which offsets are done, and what a worker that died may have been at.

Workers answer messages of a partition in any order, and commit the offset before which all are done. Before a worker
begins a message, it says in the topic `open` how far it may have begun (a Note). A process that ends in order says that,
too. So the next owner of the partition knows whether a process died there, and at which messages. It begins those a few
at a time. If it dies as well, the next one begins them one by one, and the message with which that one dies is the cause.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

import msgspec

from ..json_object import json_text

SUSPECTS_AT_ONCE = 8
"""Messages of one partition at once that a process may have died with."""
ALONE_AFTER = 2
"""After so many deaths in a row they are begun one by one."""


class Offsets:
    """Which messages of a partition are done.

    :param start: the offset of the first message that is not done
    """

    def __init__(self, start: int) -> None:
        self._next = start
        self._open: OrderedDict[int, None] = OrderedDict()

    def begin(self, offset: int) -> None:
        """A message was read. Raises ValueError for an offset that is not after those before."""
        if offset < self._next:
            raise ValueError(f"offset {offset} was read before: the next is {self._next} or later")
        self._open[offset] = None
        self._next = offset + 1

    def finish(self, offset: int) -> None:
        """A message is done: answered, handed on, parked or dead. Raises KeyError for one that is not open."""
        del self._open[offset]

    @property
    def committable(self) -> int:
        """All messages before this offset are done."""
        return next(iter(self._open), self._next)

    def __len__(self) -> int:
        """How many messages are not done."""
        return len(self._open)


@dataclass(frozen=True)
class Note:
    """What the owner of a partition says in the topic `open`, before it begins what it says."""

    until: int
    """It may have begun any message before this offset that is not committed."""
    deaths: int = 0
    """How many owners in a row have died before these messages were done."""
    alone: int | None = None
    """The message that the owner has begun with no other of the partition, and no other suspect of the process."""
    clean: bool = False
    """Whether the owner has handed the partition back."""
    rests: Mapping[str, float] = field(default_factory=dict)
    """Hosts that have asked to be left until a time, in seconds since 1970."""

    def encode(self) -> bytes:
        return json_text(asdict(self)).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> Note | None:
        """None for what is no note."""
        try:
            return msgspec.json.decode(value or b"", type=cls)
        except msgspec.MsgspecError:
            return None


@dataclass(frozen=True)
class Takeover:
    """How a new owner goes on."""

    note: Note
    """What it says first."""
    culprit: int | None = None
    """The offset of a message with which owners die: it is not begun again."""

    def at_once(self, offset: int) -> int | None:
        """How many messages of the partition may be begun at once, if this one is among them. None: any number."""
        if not self.note.deaths or offset >= self.note.until:
            return None
        return SUSPECTS_AT_ONCE if self.note.deaths < ALONE_AFTER else 1


def take_over(note: Note | None, committed: int) -> Takeover:
    """How to go on in a partition.

    :param note: what the last owner has said; None if there was none
    :param committed: all messages before this offset are done
    """
    if note is None:
        return Takeover(Note(committed))
    if note.until <= committed:  # all that was begun is done
        return Takeover(Note(committed, rests=note.rests))
    if note.clean:
        return Takeover(replace(note, clean=False, alone=None))
    culprit = note.alone if note.alone is not None and note.alone >= committed else None
    deaths = 0 if culprit is not None else note.deaths + 1
    return Takeover(replace(note, deaths=deaths, alone=None), culprit)
