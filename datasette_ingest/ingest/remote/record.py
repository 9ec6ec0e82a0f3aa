"""What goes through a broker: a Message that is to be sent, and a Record as it was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Partition(NamedTuple):
    """One partition of a topic."""

    topic: str
    number: int


@dataclass(frozen=True)
class Message:
    """A message to send. A value of None deletes what a compacted topic has under the key."""

    key: bytes
    value: bytes | None
    headers: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Record:
    """A message that was read, and where it was."""

    partition: Partition
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Mapping[str, bytes] = field(default_factory=dict)
    timestamp: float = 0.0
    """When it was sent, in seconds since 1970, by the sender's clock."""

    @property
    def place(self) -> str:
        """Topic, partition and offset, for a person."""
        return f"{self.partition.topic}[{self.partition.number}]@{self.offset}"

    @property
    def message(self) -> Message:
        """The same message, to be sent again."""
        return Message(self.key or b"", self.value, self.headers)
