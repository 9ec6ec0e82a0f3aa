"""One job in this process: the crawler that it shares, stored results, and hosts that asked us to wait."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, TypeAlias

from ... import compat
from .. import schema, store
from ..crawler import Crawler
from ..errors import PutOff
from ..fetch.memory import Memory
from ..fetch.spn2 import MEMORY_KEY, remembered
from ..fetch.spn2_captures import Spn2Captures
from ..http.politeness import LONGEST_BACK_OFF, ServiceRates
from ..model import IngestRequest, IngestResult
from ..settings import CrawlSettings
from ..store import StoredResult

Write: TypeAlias = "Callable[[sqlite3.Connection], Any]"
Answered: TypeAlias = "tuple[StoredResult | None, IngestResult | None]"
"""(the stored result of a URL, the result of a crawl; None if the stored one is fresh enough)."""

PATIENCE = 60.0
"""Seconds that a row may wait for its turn at a host. A row whose turn is further away is deferred."""
PRUNE_SECONDS = 600.0
"""How often a job that remembers things deletes those that have expired."""
BACK_OFF = "back off "
"""Prefix of the shared cache's keys under which the time is stored until which a host gets no request."""


def utc_now() -> datetime:
    return datetime.fromtimestamp(time.time(), timezone.utc)


class SharedCrawler:
    """A crawler that jobs of this process share, so that its politeness holds for all of them.

    :param crawlers: returns how many crawlers this process has: jobs with other settings have others
    :param services: the pace of archives and other services, which all crawlers of the process share
    """

    def __init__(
        self,
        settings: CrawlSettings,
        make_crawler: Callable[..., Crawler],
        crawlers: Callable[[], int],
        services: ServiceRates,
        spn2_captures: Spn2Captures,
    ) -> None:
        self.sessions: list[Session] = []
        self._crawlers = crawlers
        self.crawler = make_crawler(
            settings,
            patience=PATIENCE,
            processes=self._sharers,
            on_back_off=self._note_back_off,
            services=services,
            spn2_captures=spn2_captures,
        )

    def _sharers(self) -> int:
        """Crawlers that may ask the same hosts: those of this process, in each process on the file."""
        return max((session.job.workers for session in self.sessions), default=1) * max(1, self._crawlers())

    def _note_back_off(self, host: str, seconds: float) -> None:
        for session in self.sessions:
            session.back_offs[host] = time.time() + seconds


class ResultReader:
    """Reads stored results. Requests of the same moment are read together, since each read takes a thread.

    `more(conn)` is called in the same read, and `take` with what it returned.
    """

    def __init__(
        self, db: Any, prefix: str, more: Callable[[sqlite3.Connection], Any], take: Callable[[Any], None]
    ) -> None:
        self._db = db
        self._prefix = prefix
        self._more = more
        self._take = take
        self._asked: list[tuple[str, Any, asyncio.Future[StoredResult | None]]] = []
        self._reading: set[asyncio.Task[None]] = set()

    async def get(self, ingest_type: str, base_url: Any) -> StoredResult | None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[StoredResult | None] = loop.create_future()
        if not self._asked:
            loop.call_soon(self._read)
        self._asked.append((ingest_type, base_url, future))
        return await future

    def _read(self) -> None:
        asked, self._asked = self._asked, []
        task = asyncio.create_task(self._read_all(asked))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _read_all(self, asked: list[tuple[str, Any, asyncio.Future[StoredResult | None]]]) -> None:
        def look(conn: sqlite3.Connection) -> tuple[Any, list[StoredResult | None]]:
            results = schema.under_prefix(conn, self._prefix)
            return self._more(conn), [store.stored_result(results, kind, url) for kind, url, _ in asked]

        try:
            more, found = await compat.read(self._db, look)
            self._take(more)
        except Exception as problem:  # noqa: BLE001 - each caller raises it
            for _, _, future in asked:
                if not future.done():
                    future.set_exception(problem)
            return
        for (_, _, future), stored in zip(asked, found, strict=True):
            if not future.done():
                future.set_result(stored)


@dataclass(frozen=True)
class Target:
    """What a job writes, and where."""

    columns: tuple[str, ...] = ()
    """Of each row, without their prefix."""
    table_prefix: str = ""
    """Begins the names of the tables of results."""


@dataclass(eq=False)
class Session:
    """One job in this process. `runs` counts the runners that share it; `job` is the newest one's handle."""

    shared: SharedCrawler
    job: Any
    db: Any
    has_results: bool
    max_age_days: float
    target: Target = Target()
    runs: int = 0
    back_offs: dict[str, float] = field(default_factory=dict)
    """Host -> until when it gets no request, in seconds since 1970; only what is not stored yet."""
    prune_at: float = 0.0
    """When what has expired is deleted next."""

    def __post_init__(self) -> None:
        self._results = ResultReader(
            self.db, self.target.table_prefix, lambda conn: self.job.cache.stored(conn, BACK_OFF), self.keep_back_offs
        )

    def memory(self) -> Memory:
        """What earlier tries have left for one that begins now."""
        return Memory(self.job.cache.get, is_lasting=not self.job.is_dry_run)

    def storing(self, memory: Memory) -> list[Write]:
        """Writes that store what a try has changed in its memory, and now and then delete what has expired."""
        cache = self.job.cache
        writes = [
            cache.forgetting(key) if value is None else cache.storing(key, value, ttl=seconds)
            for key, (value, seconds) in memory.changes.items()
        ]
        if writes and time.time() >= self.prune_at:
            self.prune_at = time.time() + PRUNE_SECONDS
            writes.append(cache.pruning())
        return writes

    async def answer(self, request: IngestRequest, deferrals: int, memory: Memory) -> Answered | PutOff:
        stored = await self._results.get(request.ingest_type, request.base_url) if self.has_results else None
        sources = self.shared.crawler.settings.sources
        if store.is_fresh(stored, max_age_days=self.max_age_days, now=utc_now(), sources=sources):
            return stored, None
        try:
            return stored, await self.shared.crawler.ingest(request, back_offs=deferrals, memory=memory)
        except PutOff as put_off:
            return put_off

    # Stored, so that they survive a restart and other processes on the file know them.

    def keep_back_offs(self, stored: Mapping[str, float]) -> None:
        """Send no request to hosts that asked another process, or an earlier one, to wait."""
        now = time.time()
        for key, until in stored.items():
            if 0 < until - now <= 2 * LONGEST_BACK_OFF:  # further away only where the clock was set back since
                self.shared.crawler.hosts.limiter(key.removeprefix(BACK_OFF)).back_off(until - now)

    def take_back_offs(self) -> list[Callable[[sqlite3.Connection], None]]:
        """Writes that store what is not stored yet."""
        back_offs, self.back_offs = self.back_offs, {}
        now = time.time()
        return [self.job.cache.storing(BACK_OFF + host, until, ttl=until - now) for host, until in back_offs.items()]


class Sessions:
    """The jobs of this process. Those with the same crawl settings share a crawler."""

    def __init__(self, make_crawler: Callable[..., Crawler]) -> None:
        self._make_crawler = make_crawler
        self._spn2_captures = Spn2Captures()
        self._crawlers: dict[CrawlSettings, SharedCrawler] = {}
        self._sessions: dict[tuple[str, int], Session] = {}
        self._services = ServiceRates(self._processes)

    def _processes(self) -> int:
        """Processes that work on the same jobs, and so ask the same services."""
        return max((session.job.workers for session in self._sessions.values()), default=1)

    def of(self, job: Any, db: Any) -> Session:
        return self._sessions[db.name, job.id]

    async def begin(self, job: Any, db: Any, settings: CrawlSettings, max_age_days: float, target: Target) -> None:
        """A runner starts working on a job."""
        has_results, back_offs, captures = await compat.read(
            db,
            lambda conn: (
                store.has_results(conn, target.table_prefix),
                *(job.cache.stored(conn, prefix) for prefix in (BACK_OFF, MEMORY_KEY)),
            ),
        )
        self._spn2_captures.adopt(remembered(captures), time.time())
        session = self._sessions.get((db.name, job.id))
        if session is None:
            if settings not in self._crawlers:
                self._crawlers[settings] = SharedCrawler(
                    settings,
                    self._make_crawler,
                    lambda: len(self._crawlers),
                    self._services,
                    self._spn2_captures,
                )
            session = Session(self._crawlers[settings], job, db, has_results, max_age_days, target)
            session.shared.sessions.append(session)
            self._sessions[db.name, job.id] = session
        session.job = job
        session.runs += 1
        session.keep_back_offs(back_offs)

    async def end(self, job: Any, db: Any) -> None:
        """A runner stops working on a job. The last one closes what only this job uses."""
        session = self.of(job, db)
        session.runs -= 1
        if session.runs:
            return
        del self._sessions[db.name, job.id]
        shared = session.shared
        shared.sessions.remove(session)
        shared.crawler.hosts.forget_promises()
        self._spn2_captures.forget_promises()
        self._services.forget_promises()
        if not shared.sessions:
            del self._crawlers[shared.crawler.settings]
            await shared.crawler.aclose()
