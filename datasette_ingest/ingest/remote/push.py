"""Pending requests of a database to the fleet: each once, as a mark in its row says."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from ...sqlite import iso
from ..model import IngestRequest
from ..schema import REQUEST_TABLES, RESULT_TABLES
from ..store.requests import COLUMNS, TABLE, request_of
from .client import Brokers, TooLarge
from .messages import RequestMessage
from .settings import KafkaSettings
from .topics import MAX_REQUEST_BYTES, topics_of

log = logging.getLogger(__name__)

Call: TypeAlias = "Callable[[Callable[[sqlite3.Connection], Any]], Awaitable[Any]]"
"""Calls a function of a connection: in one transaction, or to read."""

TABLES = (*REQUEST_TABLES, *RESULT_TABLES)
PAGE = 500
"""Requests that are read, sent and marked together."""
MOST_REFUSED = 100
"""Sentences that are kept about requests that cannot be sent."""

_PENDING = f"""
select q.rowid as number, {", ".join(f"q.{name}" for name in COLUMNS)} from {TABLE} q
left join ingest_file_result r on r.ingest_type = q.ingest_type and r.base_url = q.base_url
where (q.ingest_type, q.base_url, q.source, q.source_id) > (?, ?, ?, ?)
  and (r.base_url is null or r.next_try <= ?)
  and (q.pushed is null or q.pushed <= r.updated or (? and q.pushed < ?))
order by q.ingest_type, q.base_url, q.source, q.source_id limit {PAGE}
"""
"""A request is pending where its URL has no result, or its next try is due: as in the view ingest_pending. One that was
answered since it was sent may be sent again."""


@dataclass(frozen=True)
class _Page:
    rows: Sequence[dict[str, Any]]

    @property
    def end(self) -> tuple[Any, ...]:
        last = self.rows[-1]
        return tuple(last[name] for name in ("ingest_type", "base_url", "source", "source_id"))


class Push:
    """Sends the pending requests of a database that has TABLES.

    :param doi_resolver: as the workers have it
    :param again: also those that were sent before and are not answered
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        *,
        read: Call,
        write: Call,
        doi_resolver: str,
        again: bool = False,
        limit: int | None = None,
        say: Callable[[str], None] = log.info,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.counts: Counter[str] = Counter()
        """`sent` messages; `shared`: requests whose URL was sent for another one; `refused`."""
        self.refused: list[str] = []
        self._kafka, self._read, self._write, self._say, self._clock = kafka, read, write, say, clock
        self._resolver, self._again, self._limit = doi_resolver, again, limit
        self._last: Hashable = None

    async def run(self, stop: asyncio.Event, *, on_progress: Callable[[], None] = lambda: None) -> None:
        """Send them, page by page, until none is left or `stop` is set.

        A page is sent, then marked. A process that is killed between leaves its page to be sent a second time.

        :raises KafkaRefused: when the brokers do not let us
        """
        topics = topics_of(self._kafka)
        brokers = Brokers(self._kafka, say=self._say)
        await brokers.make_topics([topics.requests])
        began, after = iso(int(self._clock())), ("", "", "", "")
        async with brokers.producer() as producer:

            async def send(request: IngestRequest) -> None:
                message = RequestMessage(request).encode(self._resolver)
                if len(message.value or b"") > MAX_REQUEST_BYTES:
                    raise TooLarge(f"its JSON is longer than {MAX_REQUEST_BYTES:,} bytes")
                await producer.send(topics.requests.name, message)

            while not stop.is_set():
                page = await self._read(partial(self._page, after=after, began=began))
                if not page.rows:
                    return
                sent, shared = await self._send(page, send)
                now = iso(int(self._clock()))
                await self._write(partial(_mark, numbers=[(now, number) for number in (*sent, *shared)]))
                self.counts.update(sent=len(sent), shared=len(shared))
                on_progress()
                after = page.end
                if self._limit is not None and self.counts["sent"] >= self._limit:
                    return

    def _page(self, conn: sqlite3.Connection, *, after: tuple[Any, ...], began: str) -> _Page:
        cursor = conn.cursor()
        cursor.row_factory = None
        cursor.execute(_PENDING, [*after, iso(int(self._clock())), self._again, began])
        names = [column[0] for column in cursor.description]
        return _Page([dict(zip(names, row, strict=True)) for row in cursor])

    async def _send(self, page: _Page, send: Callable[[IngestRequest], Awaitable[None]]) -> tuple[list[int], list[int]]:
        """(the rowids of requests that were sent, of those whose URL was sent for their neighbour)."""
        groups: list[tuple[IngestRequest, list[int]]] = []
        shared: list[int] = []
        last, was_sent = self._last, True  # the last one of the page before
        for row in page.rows:
            try:
                request = request_of(row)
            except ValueError as problem:
                self._refuse(row["base_url"], f"its column request cannot be read: {problem}")
                continue
            expected = repr((request.expect_hash, request.as_of, request.max_capture_age_days, request.force_recrawl))
            key = (row["ingest_type"], row["base_url"], expected)
            if key != last:
                if self._limit is not None and self.counts["sent"] + len(groups) >= self._limit:
                    break
                groups.append((request, []))
                last, was_sent = key, False
            (shared if was_sent else groups[-1][1]).append(row["number"])
        ends = await asyncio.gather(*(send(request) for request, _ in groups), return_exceptions=True)
        sent = []
        for (request, numbers), end in zip(groups, ends, strict=True):
            if isinstance(end, TooLarge):
                self._refuse(request.base_url, str(end))
            elif isinstance(end, BaseException):
                raise end
            else:
                sent.append(numbers[0])
                shared += numbers[1:]
        self._last = last if not groups or not isinstance(ends[-1], BaseException) else None
        return sent, shared

    def _refuse(self, base_url: Any, reason: str) -> None:
        self.counts["refused"] += 1
        if len(self.refused) < MOST_REFUSED:
            self.refused.append(f"{str(base_url)[:100]}: {reason.splitlines()[0][:200]}")


def _mark(conn: sqlite3.Connection, *, numbers: Sequence[tuple[str, int]]) -> None:
    conn.executemany(f"update {TABLE} set pushed = ? where rowid = ?", numbers)
