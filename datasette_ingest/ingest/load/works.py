"""Lines of an index, each a work with the places where it can be read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

import msgspec

from ..store.requests import RequestRow
from .rows import Given, ReadEach, converted, decoded, decoded_all
from .where import Where

W = TypeVar("W")


class WorksReader(ABC, Generic[W]):
    """A reader of such lines, for one index."""

    kind: type[W]
    """The fields of a work that are read."""
    locations: ClassVar[str]
    """The key of its places."""

    def __init__(self, given: Given, where: Where | None) -> None:
        self.given = given
        self.where = where
        self._decoder = msgspec.json.Decoder(self.kind)

    def line(self, line: bytes) -> Sequence[RequestRow]:
        if self.where is None:
            return self.rows(decoded(line, self._decoder, self.kind))
        wanted = self.where.filter(line, self.locations)
        return () if wanted is None else self.rows(converted(wanted, self.kind))

    def all_lines(self, lines: Sequence[bytes]) -> Sequence[RequestRow]:
        if self.where is not None:
            raise ReadEach
        return [row for work in decoded_all(lines, self._decoder) for row in self.rows(work)]

    @abstractmethod
    def rows(self, work: W) -> Sequence[RequestRow]:
        """The requests for one work. Raises Refused."""
