"""Crawler.ingest(request) -> IngestResult: the main flow of one row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone

from .crawl_state import CrawlState, Outcome, describe
from .documents.base import Document, Findings, ProcessContext, Processor, StoredFacts, nothing_stored
from .documents.pool import ProcessPool
from .documents.registry import processors_of
from .errors import Begun, HashMismatch, IngestError, InvalidUrl, NotImplementedUrl, PutOff, WrongMimetype
from .facts import FileMeta
from .fetch import ARCHIVES, SOURCES
from .fetch.base import (
    FetchRequest,
    FetchSource,
    FetchTrace,
    Resource,
    Resumable,
    SourceSetup,
    refusal,
    standing,
)
from .fetch.captures import capture_in
from .fetch.memory import Memory
from .fetch.spn2_captures import Spn2Captures
from .fetch.wayback import CapturesOnly, WaybackSource, timestamp_of
from .files import HTML_TYPES
from .follow import follow, judge, page_source, was_replaced
from .http.client import AnyTransport, Client
from .http.connect import Resolve
from .http.politeness import Hosts, Pace, ServiceRates
from .linkcheck.checker import LinkChecker
from .model import IngestRequest, IngestResult, digest_name
from .policy import Policy
from .settings import CrawlSettings
from .sinks import sinks_of
from .sinks.base import Sink
from .types import IngestType, ingest_type
from .urls import clean_cell, mask, without_fragment

WAITS_FOR = "waits for "
"""Before a row's type and URL: under this key it is remembered what the row waits for, as a Begun."""
WAITS_SECONDS = 3600.0
"""How long that is remembered once it is due."""


class Crawler:
    """Answers rows. All rows share its connections, its politeness and its robots rules, so one process has one.

    :param resolve: replaces the system's resolver: `async (host, port) -> list of addresses`
    :param transport: an `httpx.AsyncBaseTransport` that sends the requests instead of our own, which is the one that
        checks addresses
    :param clock: returns the UTC time that results carry
    :param processors: read the files that are found; None: those of the settings
    :param pool: processes that crawlers share; None: it has some of its own, which are closed with it
    :param sinks: keep the files that are found; None: those of the settings. They are closed with the crawler
    :param patience: seconds that a row may wait for its turn at a host. `ingest` raises PutOff when the turn is further
        away. None: no limit
    :param processes: returns how many crawlers share the hosts now, in all processes. Each asks a host that many times
        less often
    :param is_ours: whether only this process asks a host. Other hosts are shared, and a row that is redirected to one
        before its first page is handed on: `ingest` raises Elsewhere. None: all hosts are shared, and no row is handed on
    :param on_back_off: called with (host, seconds) when a host has asked us to wait
    :param services: the pace of archives and other services, which crawlers of one process share
    :param spn2_captures: the captures that this process has begun, likewise
    :raises ValueError: for a malformed network, or a source without its keys
    """

    def __init__(
        self,
        settings: CrawlSettings,
        *,
        resolve: Resolve | None = None,
        transport: AnyTransport | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        processors: Sequence[Processor] | None = None,
        pool: ProcessPool | None = None,
        sinks: Sequence[Sink] | None = None,
        patience: float | None = None,
        processes: Callable[[], int] = lambda: 1,
        is_ours: Callable[[str], bool] | None = None,
        on_back_off: Callable[[str, float], None] = lambda host, seconds: None,
        services: ServiceRates | None = None,
        spn2_captures: Spn2Captures | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self._policy = Policy(settings.blocklist, settings.allow_networks)
        own = Pace(settings.per_host_concurrency, settings.per_host_delay)
        shared = Pace(settings.per_host_concurrency, settings.per_host_delay, processes)
        pace = shared if is_ours is None else lambda host: own if is_ours(host) else shared
        self.hosts = Hosts(pace, on_back_off=on_back_off)
        self._client = Client(
            settings, self._policy, hosts=self.hosts, clock=clock, resolve=resolve, transport=transport
        )
        self._setup = SourceSetup(
            settings,
            self._policy,
            self._client,
            services or ServiceRates(),
            clock,
            spn2_captures or Spn2Captures(),
            patience,
            transport,
            is_ours,
        )
        self._sources = {name: SOURCES[name](self._setup) for name in settings.sources}
        self._archive: FetchSource = self._sources.get(WaybackSource.name) or WaybackSource(self._setup)
        self._processors = processors_of(settings) if processors is None else processors
        self._sinks = sinks_of(settings) if sinks is None else sinks
        self._owns_pool = pool is None
        self.pool = pool or ProcessPool()
        self.links = LinkChecker(self._setup, self.pool)
        """Checks links in the turns of this crawler."""

    async def ingest(
        self,
        request: IngestRequest,
        *,
        back_offs: int = 0,
        sources: Sequence[str] | None = None,
        memory: Memory | None = None,
        stored: StoredFacts = nothing_stored,
    ) -> IngestResult:
        """Answer one row. May be called for thousands of rows at once.

        What a server, a URL or a cell does is never an exception, but a part of the result.

        :param back_offs: how often PutOffs that count were raised for this row before
        :param sources: names of configured sources; they are asked in this order instead of the configured one
        :param memory: what earlier tries have left. The caller keeps what has changed in it afterwards, also when the row
            is put off
        :param stored: what earlier rows have found out about a file
        :raises PutOff: when the row's turn at a host is further away than `patience`, or a source has begun something
        """
        memory = memory or Memory()
        chosen = self._chosen(sources, request)
        state = CrawlState(request, self._policy, self._in_order(chosen), back_offs, chosen, memory, stored)
        try:
            kind = _kind(request)
            href = without_fragment(clean_cell(request.base_url, doi_resolver=self.settings.doi_resolver))
            _check_as_of(request)
        except IngestError as error:
            return state.result(Outcome(error, asked=False))
        capture = capture_in(href, self.settings.wayback_url)
        if capture is not None:
            # Its links are asked for there, too.
            state.as_of = capture.near
            state.sources = [self._archive, *(other for other in state.sources if other.name != self._archive.name)]
        key = f"{WAITS_FOR}{kind.name} {mask(href)}"
        try:
            await self._resume(state, key)
            return state.result(await kind.answer(self, state, kind, href))
        except PutOff as put_off:
            if put_off.begun is not None:
                memory.keep(key, put_off.begun, seconds=put_off.seconds + WAITS_SECONDS)
            raise

    async def _resume(self, state: CrawlState, key: str) -> None:
        """Go on with what the row waits for, before its pages are fetched again.

        :raises PutOff: while that has not ended
        """
        resumable = {source.name: source for source in state.sources if isinstance(source, Resumable)}
        waits_for = await state.memory.get(key) if resumable else None
        if waits_for is None:
            return
        begun = Begun(*waits_for)
        if begun.source in resumable:
            await resumable[begun.source].resume(state.fetch_request(begun.url))
        state.memory.forget(key)

    async def visit(self, state: CrawlState, kind: IngestType, href: str) -> Outcome:
        """Fetch one URL of a row. The answer is the file, or a page whose links are followed, or a miss.

        Where a source has something else than what was there, such as a login page, the sources after it are asked.
        """
        state.pages += 1
        sources, asked = state.sources, FetchRequest(href)
        misses: list[tuple[str, Outcome]] = []
        while True:
            trace = FetchTrace()
            try:
                async with state.fetch(href, trace, mimetypes=kind.mimetypes, sources=sources) as resource:
                    found, outcome = resource.url, await self._examine(state, kind, resource)
            except IngestError as error:
                found, outcome = None, Outcome(error, trace.terminal, asked=bool(trace.hops))
            if outcome.error is None:
                return outcome
            misses.append((trace.via or "", outcome))
            sources = _after(sources, trace.via)
            is_gone = found is not None and was_replaced(outcome.error, outcome.terminal, found, href)
            if not is_gone or not sources or refusal(sources, asked) is not None:
                return _standing(misses)

    async def close_idle(self) -> None:
        """Close connections that are kept for later requests: another process may ask their hosts from now on."""
        await self._client.close_idle()

    async def aclose(self) -> None:
        """Close every connection, remove every temporary file, end every process."""
        for source in (*self._sources.values(), self._archive):
            await source.aclose()
        await self.links.aclose()
        for sink in self._sinks:
            await sink.aclose()
        for processor in self._processors:
            await processor.aclose()
        await self._client.aclose()
        if self._owns_pool:
            await self.pool.aclose()

    async def _examine(self, state: CrawlState, kind: IngestType, resource: Resource) -> Outcome:
        warnings: tuple[str, ...] = ()
        try:
            if resource.mimetype in HTML_TYPES:
                source = await page_source(resource)
                obstacle = None
                if resource.mimetype in kind.mimetypes:
                    obstacle = await judge(self, state, kind, resource, source)
                if obstacle is not None or resource.mimetype not in kind.mimetypes:
                    return await follow(self, state, kind, resource, source, obstacle)
            elif resource.mimetype in kind.mimetypes:
                warnings = await kind.check(resource)
            else:
                raise _wrong_type(kind, resource)
        except IngestError as error:
            return await describe(resource, error)
        return await self._process(state, kind, resource, await describe(resource, warnings=warnings))

    async def _process(self, state: CrawlState, kind: IngestType, resource: Resource, outcome: Outcome) -> Outcome:
        """Check the digests of a file of the wanted type; then read facts from it and keep its body."""
        (file_meta,) = outcome.facts
        assert isinstance(file_meta, FileMeta)
        mismatch = _mismatch(state.request, file_meta, resource)
        if mismatch is not None:
            return replace(outcome, error=mismatch)
        document = Document(resource.body, resource.url, resource.content_type)
        context = ProcessContext(state.request, file_meta.sha1hex, self.settings, self.pool, state.stored)
        found = [
            await processor.process(document, context) or Findings()
            for processor in self._processors
            if processor.takes(document.mimetype, kind.name)
        ]
        for sink in self._sinks:
            await sink.keep("body", file_meta.sha1hex, file_meta.mimetype, resource.body)
            for file in (file for findings in found for file in findings.files):
                await sink.keep(file.kind, file_meta.sha1hex, file.mimetype, file.content)
        return replace(outcome, facts=(file_meta, *(fact for findings in found for fact in findings.facts)))

    def _chosen(self, names: Sequence[str] | None, request: IngestRequest) -> tuple[str, ...]:
        """The names of the sources to ask. Captures of the past are passed over where a source after them asks anew, if
        that is wanted."""
        chosen = tuple(self.settings.sources if names is None else names)
        if not request.force_recrawl:
            return chosen
        return tuple(name for at, name in enumerate(chosen) if name not in ARCHIVES or ARCHIVES.issuperset(chosen[at:]))

    def _in_order(self, chosen: Sequence[str]) -> Sequence[FetchSource]:
        """The sources to ask. The address of a capture is answered by the archive in any case."""
        sources = [self._sources[name] for name in chosen]
        if self._archive in sources:
            return sources
        return [*sources, CapturesOnly(self._archive, self.settings.wayback_url)]


def _after(sources: Sequence[FetchSource], name: str | None) -> Sequence[FetchSource]:
    """The sources that come after the one of this name."""
    names = [source.name for source in sources]
    return sources[names.index(name) + 1 :] if name in names else ()


def _standing(misses: Sequence[tuple[str, Outcome]]) -> Outcome:
    """The outcome of a URL that no source had."""
    place, error = standing([(name, outcome.error) for name, outcome in misses if outcome.error is not None])
    return replace(misses[place][1], error=error)


def _check_as_of(request: IngestRequest) -> None:
    try:
        if request.as_of is not None:
            timestamp_of(request.as_of)
    except ValueError as error:
        raise InvalidUrl(f"as_of: {error}") from error


def _kind(request: IngestRequest) -> IngestType:
    try:
        return ingest_type(request.ingest_type)
    except KeyError as error:
        raise NotImplementedUrl(f"no such ingest type: {str(request.ingest_type)[:40]!r}") from error


def _wrong_type(kind: IngestType, resource: Resource) -> IngestError:
    return WrongMimetype(f"a file of type {resource.mimetype} where {kind.name} was wanted, at {mask(resource.url)}")


def _mismatch(request: IngestRequest, file_meta: FileMeta, resource: Resource) -> IngestError | None:
    """The error of a file that has another digest than the request says; None if there is none."""
    for name, wanted in (request.expect_hash or {}).items():
        found = file_meta.digests.get(digest_name(name))
        if found is not None and isinstance(wanted, str) and found != wanted.strip().lower():
            return HashMismatch(f"the file at {mask(resource.url)} has the {name} {found}, not {wanted}")
    return None
