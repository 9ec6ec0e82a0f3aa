"""One job in this process: the crawler that it shares, stored results, and hosts that asked us to wait."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from ... import compat
from ...jobs.errors import Pause
from ...sqlite import iso_utc
from .. import schema, store
from ..cells import cell_key
from ..crawler import Crawler
from ..documents.pool import ProcessPool
from ..errors import OF_SETTINGS, PutOff, RetryClass, StoreError, retry_of_status
from ..fetch.memory import Memory
from ..fetch.spn2 import MEMORY_KEY, remembered
from ..fetch.spn2_captures import Spn2Captures
from ..http.politeness import LONGEST_BACK_OFF, ServiceRates
from ..http.waiting import wait_idle
from ..model import IngestRequest, IngestResult
from ..retry import MAX_ATTEMPTS, next_try
from ..settings import CrawlSettings
from ..store import StoredResult
from .fleet import AtFleet, FleetDesk, request_for_fleet

Write: TypeAlias = "Callable[[sqlite3.Connection], Any]"


@dataclass(frozen=True)
class Answered:
    """What is known of a URL: what was stored of it, and the result of a crawl, if there was one, with its time.

    Rows that share a crawl all bring its result; that of `job_id`, whose row asked, is written once.
    """

    stored: StoredResult | None
    result: IngestResult | None = None
    at: datetime | None = None
    job_id: int | None = None

    @property
    def seen(self) -> StoredResult | IngestResult:
        """What counts from now on: a failure that may pass does not replace a hit."""
        if self.result is not None and not store.keeps_hit(self.stored, self.result):
            return self.result
        assert self.stored is not None
        return self.stored

    @property
    def retry_class(self) -> RetryClass:
        """How soon a miss is tried again by itself."""
        before = 0 if self.stored is None or self.stored.hit else self.stored.attempts
        if self.result is not None:
            return self.result.next_try_class if before + 1 < MAX_ATTEMPTS else RetryClass.NEVER
        assert self.stored is not None
        if self.stored.next_try is None:
            return RetryClass.NEVER
        return retry_of_status(self.stored.status, self.stored.terminal_status_code)


PATIENCE = 60.0
"""Seconds that a row may wait for its turn at a host. A row whose turn is further away is deferred."""
KEPT = timedelta(minutes=15)
"""How long an answer is shared by rows that cannot read it from the database yet."""
PRUNE_SECONDS = 600.0
"""How often a job that remembers things deletes those that have expired."""
BACK_OFF = "back off "
"""Prefix of the shared cache's keys under which the time is stored until which a host gets no request."""


STORE_SECONDS = 300.0
"""How long a job pauses whose files cannot be kept for a reason that may pass."""


def utc_now() -> datetime:
    return datetime.fromtimestamp(time.time(), timezone.utc)


def pause_for(problem: StoreError) -> Pause:
    """The pause of a job whose files cannot be kept: until a time if that may pass, else until a person has mended it."""
    return Pause(str(problem), utc_now() + timedelta(seconds=STORE_SECONDS) if problem.passes else None)


class SharedCrawler:
    """A crawler that jobs of this process share, so that its politeness holds for all of them.

    :param crawlers: returns how many crawlers this process has: jobs with other settings have others
    :param services: the pace of archives and other services, which all crawlers of the process share
    :param pool: the processes that read files, likewise
    """

    def __init__(
        self,
        settings: CrawlSettings,
        make_crawler: Callable[..., Crawler],
        crawlers: Callable[[], int],
        services: ServiceRates,
        spn2_captures: Spn2Captures,
        pool: ProcessPool,
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
            pool=pool,
        )

    def _sharers(self) -> int:
        """Crawlers that may ask the same hosts: those of this process, in each process on the file."""
        return max((session.job.workers for session in self.sessions), default=1) * max(1, self._crawlers())

    def _note_back_off(self, host: str, seconds: float) -> None:
        for session in self.sessions:
            session.back_offs[host] = time.time() + seconds


class Answer(Protocol):
    """What rows may share: `result` is None where nothing was asked."""

    @property
    def result(self) -> Any: ...


AnswerT = TypeVar("AnswerT", bound=Answer)


class SharedAnswers(Generic[AnswerT]):
    """Answers that several rows share: one crawl for all rows with one URL, whichever jobs of this process they belong to.

    While a row crawls, the others wait for it. An answer is also kept until rows can read it from the database.
    """

    _MOST_KEPT = 1000

    def __init__(self) -> None:
        self._open: dict[Hashable, asyncio.Future[AnswerT | None]] = {}
        self._kept: dict[Hashable, AnswerT] = {}

    async def get(
        self, key: Hashable, crawl: Callable[[], Awaitable[AnswerT]], is_usable: Callable[[AnswerT], bool]
    ) -> AnswerT:
        """The kept answer if it is usable, that of a crawl that is open, or that of `crawl`."""
        while (running := self._open.get(key)) is not None:
            shared = await wait_idle(asyncio.shield(running))
            if shared is not None and is_usable(shared):
                return shared
        kept = self._kept.get(key)
        if kept is not None and is_usable(kept):
            return kept
        future: asyncio.Future[AnswerT | None] = asyncio.get_running_loop().create_future()
        self._open[key] = future
        answered = None
        try:
            answered = await crawl()
        finally:  # without an answer, the next row that waits crawls
            del self._open[key]
            future.set_result(answered)
        if answered.result is not None:
            self._kept.pop(key, None)
            self._kept[key] = answered
            if len(self._kept) > self._MOST_KEPT:
                del self._kept[next(iter(self._kept))]
        return answered


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
    force: bool = False
    answers: SharedAnswers[Answered] = field(default_factory=SharedAnswers)
    runs: int = 0
    back_offs: dict[str, float] = field(default_factory=dict)
    """Host -> until when it gets no request, in seconds since 1970; only what is not stored yet."""
    fleet: FleetDesk | None = None
    """Who crawls in the place of the crawler, but for what asks no host."""
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

    async def answer(self, request: IngestRequest, deferrals: int, memory: Memory) -> Answered | AtFleet | PutOff:
        """What is known of the request's URL, that it is for the fleet, or until when it must wait.

        :raises Pause: where the file cannot be kept, as no other one can, or the fleet refuses
        """

        async def crawl() -> Answered:
            result = await self.shared.crawler.ingest(
                request, back_offs=deferrals, memory=memory, stored=self.stored_fact
            )
            return Answered(stored, result, utc_now(), self.job.id)

        stored = await self._results.get(request.ingest_type, request.base_url) if self.has_results else None
        if self._counts(stored):
            return Answered(stored)
        if self.fleet is not None:
            if self.fleet.refusal is not None:
                raise Pause(self.fleet.refusal)
            published = request_for_fleet(request, self.shared.crawler.settings.doi_resolver)
            if published is not None:
                return AtFleet.of(published)
        try:
            return await self.answers.get(self._key(request), crawl, lambda answered: self._is_usable(answered, stored))
        except PutOff as put_off:
            return put_off
        except StoreError as problem:
            raise pause_for(problem) from None

    async def stored_fact(self, table: str, sha1hex: str) -> Mapping[str, Any] | None:
        """What an earlier reading of a file has stored in a table of facts."""
        return await compat.read(
            self.db, lambda conn: store.stored_fact(conn, table, sha1hex, self.target.table_prefix)
        )

    def _counts(self, stored: StoredResult | None) -> bool:
        """Whether a stored result is used instead of a request. A job that was told to fetch again does so once a URL."""
        if self.force and stored is not None and stored.job_id == self.job.id:
            return True
        sources = self.shared.crawler.settings.sources
        now = utc_now()
        is_own = self.fleet is not None and stored is not None and stored.job_id == self.job.id
        if is_own and stored is not None and stored.updated > iso_utc(now - KEPT):
            return True  # as rows of one crawler share its answer
        return store.is_fresh(stored, max_age_days=self.max_age_days, now=now, sources=sources, force=self.force)

    def _is_usable(self, answered: Answered, stored: StoredResult | None) -> bool:
        """Whether another row's answer is used instead of a request.

        :param stored: what is stored now. Where that is this answer or a later one, it decides, and not what is kept
        """
        result, at, now = answered.result, answered.at, utc_now()
        if result is None or at is None:
            return self._counts(answered.stored)
        is_own = answered.job_id == self.job.id
        if stored is not None and (
            stored.updated > iso_utc(at) or (stored.updated == iso_utc(at) and stored.job_id == answered.job_id)
        ):
            return False
        due = None if result.hit else next_try(result.next_try_class, 1, now=at, retry_after=result.retry_after)
        if not is_own and (self.force or result.status in OF_SETTINGS or (due is None and self.max_age_days <= 0)):
            return False
        return at <= now < min(at + KEPT, due or at + KEPT)

    def _key(self, request: IngestRequest) -> Hashable:
        """What requests have in common that share an answer: the URL, and what is expected of the file."""
        expected = repr((request.expect_hash, request.as_of, request.max_capture_age_days))
        return (
            id(self.shared),
            self.db.name,
            self.target.table_prefix,
            request.ingest_type,
            cell_key(request.base_url),
            expected,
        )

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
        self._answers: SharedAnswers[Answered] = SharedAnswers()
        self._services = ServiceRates(self._processes)
        self._pool = ProcessPool()

    def _processes(self) -> int:
        """Processes that work on the same jobs, and so ask the same services."""
        return max((session.job.workers for session in self._sessions.values()), default=1)

    def of(self, job: Any, db: Any) -> Session:
        return self._sessions[db.name, job.id]

    async def begin(
        self,
        job: Any,
        db: Any,
        settings: CrawlSettings,
        max_age_days: float,
        target: Target,
        *,
        force: bool = False,
        fleet: FleetDesk | None = None,
    ) -> None:
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
                    self._pool,
                )
            crawler = self._crawlers[settings]
            session = Session(crawler, job, db, has_results, max_age_days, target, force, self._answers)
            session.shared.sessions.append(session)
            self._sessions[db.name, job.id] = session
        session.job = job
        session.fleet = fleet
        session.runs += 1
        session.keep_back_offs(back_offs)

    async def end(self, job: Any, db: Any) -> bool:
        """A runner stops working on a job. The last one closes what only this job uses.

        :returns: whether it was the last one
        """
        session = self.of(job, db)
        session.runs -= 1
        if session.runs:
            return False
        del self._sessions[db.name, job.id]
        shared = session.shared
        shared.sessions.remove(session)
        shared.crawler.hosts.forget_promises()
        self._spn2_captures.forget_promises()
        self._services.forget_promises()
        if not shared.sessions:
            del self._crawlers[shared.crawler.settings]
            await shared.crawler.aclose()
            if not self._crawlers:
                pool, self._pool = self._pool, ProcessPool()
                await pool.aclose()
        return True
