"""Lines of a stream of bytes, in blocks: with their numbers, and within a limit of memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from .stream import UTF8_BOM

LONGEST_LINE = 16 << 20
"""Bytes of the longest line that is read. A record of Unpaywall has some thousand, one of OpenAlex up to a million."""


@dataclass
class Block:
    """Consecutive lines. `content` is them, joined by line ends; `first` is the number of the first one, from 1.

    `bad`: place in `lines` -> why that line cannot be read. The line itself is then empty.
    """

    first: int
    content: bytes
    bad: dict[int, str] = field(default_factory=dict)
    is_last_open: bool = False
    """Whether the last line has no line end: the file ends with it."""

    @cached_property
    def lines(self) -> list[bytes]:
        lines = self.content.split(b"\n")
        for place in self.bad:
            lines[place] = b""
        return lines

    @cached_property
    def count(self) -> int:
        """The number of lines. Who knows it may set it, which saves the time of counting."""
        return len(self.lines)


def blocks(chunks: Iterable[bytes], *, longest: int = LONGEST_LINE) -> Iterator[Block]:
    """The lines of these chunks, a block for each chunk. A byte order mark at the beginning is left out."""
    number = 1
    begun: list[bytes] = []  # the beginning of a line that has not ended yet
    held = 0  # its length; past `longest` the line itself is dropped
    is_start = True
    for chunk in chunks:
        if is_start:
            chunk, is_start = chunk.removeprefix(UTF8_BOM), False
        end = chunk.rfind(b"\n")
        if end >= 0:
            whole = b"".join([*begun, memoryview(chunk)[:end]])
            block = _block(number, whole, held > longest, longest)
            yield block
            number += block.count
            begun, held = [], 0
        tail = chunk[end + 1 :]
        held += len(tail)
        if held > longest:
            begun.clear()
        elif tail:
            begun.append(tail)
    if held:
        block = _block(number, b"".join(begun), held > longest, longest)
        block.is_last_open = True
        yield block


def _block(number: int, content: bytes, is_first_dropped: bool, longest: int) -> Block:
    bad: dict[int, str] = {}
    reason = f"longer than {longest:,} bytes"
    if len(content) > longest:
        bad = {place: reason for place, line in enumerate(content.split(b"\n")) if len(line) > longest}
    if is_first_dropped:
        bad[0] = reason
    if not _is_utf8(content):  # checked here: a reader that skips fields does not notice
        for place, line in enumerate(content.split(b"\n")):
            if not _is_utf8(line):
                bad.setdefault(place, "not UTF-8")
    return Block(number, content, bad)


def _is_utf8(content: bytes) -> bool:
    if content.isascii():
        return True
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
