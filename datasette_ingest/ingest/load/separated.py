"""CSV and TSV: lines -> rows of cells, each with the number of its first line (RFC 4180)."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .lines import Block

MOST_LINES = 1000
"""Lines of one row. A longer row is a quote that was never closed."""


@dataclass(frozen=True)
class Line:
    """`bad` says why it cannot be read; `text` is then empty."""

    number: int
    text: str
    bad: str | None


@dataclass(frozen=True)
class Row:
    """One row: the number of its first line, and its cells. `bad` says why it has none."""

    number: int
    cells: list[str]
    bad: str | None = None


class _Lines:
    """Lines as `csv.reader` asks for them. Remembers those of the present row, so that they can be read again."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self._blocks = iter(blocks)
        self._next: deque[Line] = deque()
        self.row: list[Line] = []

    def peek(self) -> Line | None:
        while not self._next:
            block = next(self._blocks, None)
            if block is None:
                return None
            for place, line in enumerate(block.lines):
                text = line.decode("utf-8").removesuffix("\r")
                self._next.append(Line(block.first + place, text, block.bad.get(place)))
        return self._next[0]

    def take(self) -> Line:
        return self._next.popleft()

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self.peek()
        if line is None or line.bad is not None or len(self.row) >= MOST_LINES:
            raise StopIteration  # the end of what a row can consist of
        self.row.append(self.take())
        return line.text + "\n"

    def put_back(self) -> Line:
        """The first line of the present row; the others will be read again."""
        first, *others = self.row
        self._next.extendleft(reversed(others))
        return first


def rows(blocks: Iterable[Block], delimiter: str) -> Iterator[Row]:
    """The rows of these lines; lines without any text are left out.

    A row that cannot be read costs its first line only: after a quote that is never closed the next line is a row.
    """
    lines = _Lines(blocks)
    while (line := lines.peek()) is not None:
        if line.bad is not None or not line.text:
            lines.take()
            if line.bad is not None:
                yield Row(line.number, [], line.bad)
            continue
        lines.row = []
        try:
            cells = next(csv.reader(lines, delimiter=delimiter, strict=True))
        except (csv.Error, StopIteration) as problem:
            reason = "a quote is not closed" if "end of data" in str(problem) else str(problem)
            yield Row(lines.put_back().number, [], reason)
            continue
        yield Row(line.number, cells)
