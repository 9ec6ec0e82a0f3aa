"""Load: the requests of files in one format, batch by batch, and what was counted on the way."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from ..store.requests import RequestRow
from . import jsonl, openalex, results, separated, sniff, unpaywall
from .errors import BadInput, Refused
from .lines import Block, blocks
from .results import LoadedResult
from .rows import Given, ReadEach, Reader
from .stream import Source
from .table import Columns, RowReader, row_reader
from .where import Where

READERS: dict[str, Callable[[Given, Where | None], Reader]] = {
    "unpaywall": unpaywall.UnpaywallReader,
    "openalex": openalex.OpenAlexReader,
    "jsonl": jsonl.RequestReader,
}
"""A change of what a reader makes of a line needs another VERSION."""
VERSION = 1
"""Part of the digests by which blocks are known again."""
FORMATS = (*READERS, *sniff.DELIMITERS, "results")
WITH_LOCATIONS = frozenset({"unpaywall", "openalex"})
"""Formats whose records have several locations, and whose name is the source where none is given."""

BATCH_ROWS = 60_000
"""Requests of one transaction. More make fewer visits to each page of the table, and take more memory."""
BATCH_BYTES = 24 << 20
"""Bytes of requests of one transaction."""
RESULT_ROWS = 1000
"""Results of one transaction: each is some rows of several tables."""


@dataclass(frozen=True)
class Refusal:
    """A line that was not loaded, and why. `file` is empty where there is only one."""

    file: str
    line: int
    reason: str


@dataclass(frozen=True)
class Loaded:
    """A block that was loaded: the digest of its content, its lines, those of them that are not blank, its requests."""

    digest: str
    count: int
    lines: int
    requests: int


@dataclass
class Batch:
    """What is written in one transaction. A batch of results has their requests in `results` only.

    `blocks`: where the rows are from, if they are all of the rows of whole blocks. `known`: requests of blocks between
    them that are known to be in the table.
    """

    rows: list[RequestRow] = field(default_factory=list)
    results: list[LoadedResult] = field(default_factory=list)
    blocks: list[Loaded] = field(default_factory=list)
    known: int = 0

    weight: int = 0
    """Bytes of the rows' JSON."""

    def add(self, rows: Sequence[RequestRow]) -> None:
        self.rows.extend(rows)
        self.weight += sum(len(row[7] or "") for row in rows)

    @property
    def is_full(self) -> bool:
        number = len(self.rows) + self.known
        return number >= BATCH_ROWS or self.weight >= BATCH_BYTES or len(self.results) >= RESULT_ROWS


@dataclass(frozen=True)
class Plan:
    """What is to be read, and how."""

    format: str
    given: Given
    where: Where | None = None
    columns: Columns = field(default_factory=Columns)

    def digest(self, content: bytes) -> str:
        """What a block of lines, read by this plan, is known by: hexadecimal."""
        given = (VERSION, self.format, self.given.source, self.given.ingest_type, self.given.only_type, self.where)
        digest = hashlib.sha1(repr(given).encode(), usedforsecurity=False)
        digest.update(content)
        return digest.hexdigest()


Look = Callable[[str], Loaded | None]
"""The digest of a block -> what it held, if all its requests are in the table."""


class Load:
    """Reads files one after another, or standard input, or rows of a query.

    :param paths: the files, see `files_of`; none for the others
    :param on_refused: called for each line that is refused
    :param look: finds blocks that need not be read again; None: there are none
    """

    def __init__(
        self,
        plan: Plan,
        paths: Sequence[Path],
        on_refused: Callable[[Refusal], None],
        *,
        stdin: BinaryIO | None = None,
        look: Look | None = None,
    ) -> None:
        self.lines = 0
        """Lines, or rows of a table, that were read; blank ones and heads apart."""
        self.refused = 0
        """Lines among them that are no requests."""
        self.stopped: str | None = None
        """Why reading ended before the end of the input."""
        self.size = sum(path.stat().st_size for path in paths) if paths else None
        """Bytes of all files; None where they are not known."""
        self._plan = plan
        self._paths = paths
        self._on_refused = on_refused
        self._stdin = stdin
        self._look = look
        self._name = ""
        self._before = 0
        self._source: Source | None = None
        self._batch = Batch()

    @property
    def position(self) -> int:
        """Bytes of the files that were read, as they are stored."""
        return self._before + (self._source.position if self._source else 0)

    def batches(self) -> Iterator[Batch]:
        """The requests in batches. Where the input is bad, the requests before it come first; then `stopped` is set."""
        stopped = None
        try:
            for path in self._paths or (None,):
                self._name = "standard input" if path is None else str(path)
                yield from self._of_file(path)
        except BadInput as problem:
            at = f", line {problem.line:,}" if problem.line else ""
            stopped = f"{self._name}{at}: {problem}"
        if self._batch != Batch():
            yield self._take()
        self.stopped = stopped

    def _of_file(self, path: Path | None) -> Iterator[Batch]:
        self._source = Source.open(path) if path is not None else Source(self._stdin or io.BytesIO(), "-", None)
        try:
            yield from self._of_lines(_Numbered(self._source), self._name if len(self._paths) > 1 else "")
        finally:
            self._before += self._source.position
            self._source.close()
            self._source = None

    def _of_lines(self, lines: _Numbered, file: str) -> Iterator[Batch]:
        begin = _peeked(lines)
        if begin is None:
            if len(self._paths) > 1:
                return  # a part of a snapshot
            raise BadInput("it is empty")
        sniff.check(begin.lines, self._plan.format)
        whole = chain([begin], lines)
        if self._plan.format in sniff.DELIMITERS:
            yield from self._of_table(whole, sniff.DELIMITERS[self._plan.format], file)
        elif self._plan.format == "results":
            for block in whole:
                self._read_lines(block, self._take_result, file)
                if self._batch.is_full:
                    yield self._take()
        else:
            reader = READERS[self._plan.format](self._plan.given, self._plan.where)
            for block in whole:
                self._read_block(block, reader, file)
                if self._batch.is_full:
                    yield self._take()

    def _read_block(self, block: Block, reader: Reader, file: str) -> None:
        digest = self._plan.digest(block.content) if self._look is not None else None
        before = self._look(digest) if self._look is not None and digest is not None else None
        if before is not None:
            block.count = before.count
            self.lines += before.lines
            self._batch.known += before.requests
            return
        lines, rows, refused = self.lines, len(self._batch.rows), self.refused
        try:
            if block.bad:
                raise ReadEach
            self._batch.add(reader.all_lines(block.lines))
            self.lines += block.count
        except (ReadEach, Refused):
            self._read_lines(block, lambda line: self._batch.add(reader.line(line)), file)
        if digest is not None and self.refused == refused:
            requests = len(self._batch.rows) - rows
            self._batch.blocks.append(Loaded(digest, block.count, self.lines - lines, requests))

    def _read_lines(self, block: Block, take: Callable[[bytes], None], file: str) -> None:
        for place, line in enumerate(block.lines):
            reason = None
            if not line:
                reason = block.bad.get(place)
            elif not line.isspace():
                self.lines += 1
                try:
                    take(line)
                except Refused as problem:
                    reason = str(problem)
            if reason is not None:
                if block.is_last_open and reason.startswith("not JSON"):
                    raise BadInput("the line is cut: the file ends within it", block.first)
                self._refuse(file, block.first + place, reason)

    def _take_result(self, line: bytes) -> None:
        result = results.read_result(line, self._plan.given, self._plan.where)
        if result is not None:
            self._batch.results.append(result)

    def _of_table(self, whole: Iterable[Block], delimiter: str, file: str) -> Iterator[Batch]:
        rows = separated.rows(whole, delimiter)
        head = next(rows, None)
        if head is None:
            raise BadInput("it has no head with the names of the columns")
        if head.bad is not None:
            raise BadInput(f"the head cannot be read: {head.bad}", head.number)
        yield from self._of_rows(((row.number, row.cells, row.bad) for row in rows), self._reader(head.cells), file)

    def of_rows(self, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[Batch]:
        """The requests of a table's rows, as `batches`. Their numbers count from 1.

        :raises BadInput: where its columns do not make requests
        """
        yield from self._of_rows(((n, row, None) for n, row in enumerate(rows, 1)), self._reader(head), "")
        if self._batch.rows:
            yield self._take()

    def _reader(self, head: Sequence[str]) -> RowReader:
        return row_reader(head, self._plan.columns.found(head, self._plan.given), self._plan.given, self._plan.where)

    def _of_rows(
        self, rows: Iterable[tuple[int, Sequence[Any], str | None]], read: RowReader, file: str
    ) -> Iterator[Batch]:
        for number, cells, bad in rows:
            self.lines += bad is None
            try:
                if bad is not None:
                    raise Refused(bad)
                self._batch.add(read(cells))
            except Refused as problem:
                self._refuse(file, number, str(problem))
            if self._batch.is_full:
                yield self._take()

    def _refuse(self, file: str, line: int, reason: str) -> None:
        self.refused += 1
        self._on_refused(Refusal(file, line, reason))

    def _take(self) -> Batch:
        batch, self._batch = self._batch, Batch()
        return batch


class _Numbered:
    """The lines of a source, in blocks. Bad input is located at the line after the last one that was read."""

    def __init__(self, source: Source) -> None:
        self._blocks = blocks(source)
        self._last: Block | None = None

    def __iter__(self) -> Iterator[Block]:
        return self

    def __next__(self) -> Block:
        try:
            block = next(self._blocks)
        except BadInput as problem:
            last = self._last
            raise BadInput(str(problem), None if last is None else last.first + last.count) from None
        self._last = block
        return block


def _peeked(lines: Iterator[Block]) -> Block | None:
    """The first block with any text in it, blank lines before it left out; None where there is none."""
    return next((block for block in lines if block.bad or any(line.strip() for line in block.lines)), None)


def files_of(path: Path) -> list[Path]:
    """The file, or the files named `part_…` in a folder and its folders, as OpenAlex's snapshot has them.

    :raises BadInput: for a folder without such files
    """
    if not path.is_dir():
        return [path]
    found = sorted(each for each in path.rglob("part_*") if each.is_file())
    if not found:
        raise BadInput(f"the folder {path} has no files named part_…, as a snapshot of OpenAlex has them")
    return found
