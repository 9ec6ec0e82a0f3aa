"""Reads kept files of hits whose facts are missing, or were read by another version of their processor."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

from .documents.base import Document, Findings, ProcessContext, Processor
from .documents.pool import ProcessPool
from .documents.registry import processors_of
from .errors import StoreError
from .facts import Fact
from .http.body import Spool
from .model import IngestRequest
from .settings import CrawlSettings
from .sinks import KeptFiles
from .sinks.layout import BODY
from .sinks.opened import Damaged, open_kept
from .store.documents import Hit, hits_after, write_facts

LOOKED_AT_ONCE = 500
"""Files of a page of hits."""
READ_AT_ONCE = 16
"""Files that are read before their facts are written, in one transaction."""
MOST_MESSAGES = 100

Read = Callable[[Callable[[sqlite3.Connection], list[Hit]]], Awaitable[list[Hit]]]
"""Runs a function of a read connection."""
Write = Callable[[Callable[[sqlite3.Connection], None]], Awaitable[None]]
"""Runs a function of a connection in a transaction, in which the tables of results exist."""


@dataclass
class Progress:
    """What was done so far."""

    looked_at: int = 0
    """Hits, each for one type of row."""
    read: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    """By `table status`: how reading ended."""
    missing: int = 0
    """Bodies that are not in the store."""
    damaged: int = 0
    """Bodies with another SHA-1 than their name."""
    errors: int = 0
    """Files that a processor failed to read."""
    messages: list[str] = field(default_factory=list)
    """A line for each of the first of them."""
    position: float = 0.0
    """The share of all SHA-1s that was passed, from 0 to 1."""


class KeptReading:
    """One pass over the hits of a database, in the order of their SHA-1. It may end anywhere: what was written is not read
    again by the next one.

    :param again: read also what was read by the present version
    :param on_progress: called after each group of files
    """

    def __init__(
        self,
        settings: CrawlSettings,
        kept: KeptFiles,
        *,
        again: bool = False,
        on_progress: Callable[[Progress], None] = lambda progress: None,
    ) -> None:
        self._settings = settings
        self._kept = kept
        self._again = again
        self._on_progress = on_progress
        self._processors = processors_of(settings)
        self._pool = ProcessPool()
        self._spool = Spool(settings.spool_dir, settings.max_spool_bytes)
        self.progress = Progress()

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that it writes."""
        return tuple(dict.fromkeys(table for processor in self._processors for table in processor.tables))

    async def run(self, read: Read, write: Write, *, is_stopped: Callable[[], bool] = lambda: False) -> Progress:
        """:param is_stopped: whether to end after the files that are read now
        :raises StoreError: when the store cannot be read or written"""
        labelled = tuple(dict.fromkeys(processor.tables[0] for processor in self._processors))
        last = ""
        try:
            while not is_stopped():
                page = await read(lambda conn, after=last: hits_after(conn, after, LOOKED_AT_ONCE, labelled))  # type: ignore[misc]
                if not page:
                    self.progress.position = 1.0
                    break
                await self._read_page(page, write, is_stopped)
                last = page[-1].sha1hex
            self._on_progress(self.progress)
            return self.progress
        finally:
            for processor in self._processors:
                await processor.aclose()
            await self._pool.aclose()

    async def _read_page(self, page: Sequence[Hit], write: Write, is_stopped: Callable[[], bool]) -> None:
        wanted = [(hit, self._wanted(hit)) for hit in page]
        due = [(hit, processors) for hit, processors in wanted if processors]
        for start in range(0, len(due), READ_AT_ONCE):
            if is_stopped():
                return
            group = due[start : start + READ_AT_ONCE]
            found = await asyncio.gather(*(self._read(hit, processors) for hit, processors in group))
            facts = [fact for each in found for fact in each]
            if facts:
                now = datetime.now(timezone.utc)
                await write(lambda conn, facts=facts, now=now: write_facts(conn, facts, now=now))  # type: ignore[misc]
            self._told(group[-1][0])
        self.progress.looked_at += len(page)
        self._told(page[-1])

    def _told(self, hit: Hit) -> None:
        self.progress.position = int(hit.sha1hex[:8], 16) / 2**32
        self._on_progress(self.progress)

    def _wanted(self, hit: Hit) -> list[Processor]:
        """The processors that have to read it, if it is of their types where its type is not known."""
        return [
            processor
            for processor in self._processors
            if (hit.mimetype is None or processor.takes(hit.mimetype, hit.ingest_type))
            and (self._again or hit.labels.get(processor.tables[0]) != processor.label)
        ]

    async def _read(self, hit: Hit, processors: Sequence[Processor]) -> list[Fact]:
        """The facts of one file. The files that were made of it are kept before."""
        file = await self._kept.find(BODY, hit.sha1hex, hit.mimetype)
        if file is None:
            self.progress.missing += 1
            return []
        try:
            body = await open_kept(self._kept, file, hit.sha1hex, self._spool)
        except Damaged:
            self.progress.damaged += 1
            return []
        try:
            document = Document(body, hit.url)
            request = IngestRequest(hit.ingest_type, hit.base_url)
            context = ProcessContext(request, hit.sha1hex, self._settings, self._pool)
            found = [
                await processor.process(document, context) or Findings()
                for processor in processors
                if processor.takes(document.mimetype, hit.ingest_type)
            ]
            for derived in (file for findings in found for file in findings.files):
                await self._kept.keep(derived.kind, hit.sha1hex, derived.mimetype, derived.content)
        except StoreError:
            raise
        except Exception as problem:  # noqa: BLE001 - the other files are read
            self.progress.errors += 1
            if len(self.progress.messages) < MOST_MESSAGES:
                self.progress.messages.append(f"{hit.sha1hex}: {type(problem).__name__}: {problem}")
            return []
        finally:
            body.close()
        facts = [fact for findings in found for fact in findings.facts]
        self.progress.read += bool(found)
        self.progress.statuses.update(f"{fact.table} {fact.status}" for fact in facts if hasattr(fact, "status"))
        return facts


def failed(progress: Progress) -> bool:
    """Whether facts are still missing that should be there."""
    return bool(progress.missing or progress.damaged or progress.errors)
