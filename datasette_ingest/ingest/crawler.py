"""Crawler.ingest(request) -> IngestResult: the main flow of one row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timezone

from .crawl_state import CrawlState, Outcome, describe
from .documents import PROCESSORS
from .documents.base import ProcessContext, Processor
from .documents.pool import ProcessPool
from .errors import HashMismatch, IngestError, NotImplementedUrl, WrongMimetype
from .facts import FileMeta
from .fetch import SOURCES
from .fetch.base import FetchSource, FetchTrace, Resource
from .files import HTML_TYPES
from .follow import follow, judge, page_source
from .http.client import AnyTransport, Client
from .http.connect import Resolve
from .http.politeness import Hosts, Pace
from .model import IngestRequest, IngestResult, digest_name
from .policy import Policy
from .settings import CrawlSettings
from .sinks.base import Sink
from .types import IngestType, ingest_type
from .urls import clean_cell, mask, without_fragment


class Crawler:
    """Answers rows. All rows share its connections, its politeness and its robots rules, so one process has one.

    :param resolve: replaces the system's resolver: `async (host, port) -> list of addresses`
    :param transport: an `httpx.AsyncBaseTransport` that sends the requests instead of our own, which is the one that
        checks addresses
    :param clock: returns the UTC time that results carry
    :param processors: read facts from the files that are found
    :param sinks: keep the bodies of the files that are found
    :param patience: seconds that a row may wait for its turn at a host. `ingest` raises PutOff when the turn is further
        away. None: no limit
    :param processes: returns how many crawlers share the hosts now, in all processes. Each asks a host that many times
        less often
    :param on_back_off: called with (host, seconds) when a host has asked us to wait
    :raises ValueError: for a malformed network
    """

    def __init__(
        self,
        settings: CrawlSettings,
        *,
        resolve: Resolve | None = None,
        transport: AnyTransport | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
        processors: Sequence[Processor] = PROCESSORS,
        sinks: Sequence[Sink] = (),
        patience: float | None = None,
        processes: Callable[[], int] = lambda: 1,
        on_back_off: Callable[[str, float], None] = lambda host, seconds: None,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self._policy = Policy(settings.blocklist, settings.allow_networks)
        pace = Pace(settings.per_host_concurrency, settings.per_host_delay, processes)
        self.hosts = Hosts(pace, on_back_off=on_back_off)
        self._client = Client(
            settings, self._policy, hosts=self.hosts, clock=clock, resolve=resolve, transport=transport
        )
        self._sources = {
            name: SOURCES[name](settings, self._policy, self._client, clock=clock, patience=patience)
            for name in settings.sources
        }
        self._processors = processors
        self._sinks = sinks
        self.pool = ProcessPool()

    async def ingest(
        self, request: IngestRequest, *, back_offs: int = 0, sources: Sequence[str] | None = None
    ) -> IngestResult:
        """Answer one row. May be called for thousands of rows at once.

        What a server, a URL or a cell does is never an exception, but a part of the result.

        :param back_offs: how often PutOffs that count were raised for this row before
        :param sources: names of configured sources; they are asked in this order instead of the configured one
        :raises PutOff: when the row's turn at a host is further away than `patience`
        """
        state = CrawlState(request, self._policy, self._in_order(sources), back_offs)
        try:
            kind = _kind(request)
            href = without_fragment(clean_cell(request.base_url, doi_resolver=self.settings.doi_resolver))
        except IngestError as error:
            return state.result(Outcome(error, asked=False))
        return state.result(await kind.answer(self, state, kind, href))

    async def visit(self, state: CrawlState, kind: IngestType, href: str) -> Outcome:
        """Fetch one URL of a row. The answer is the file, or a page whose links are followed, or a miss."""
        trace = FetchTrace()
        state.pages += 1
        try:
            async with state.fetch(href, trace) as resource:
                return await self._examine(state, kind, resource)
        except IngestError as error:
            return Outcome(error, trace.terminal, asked=bool(trace.hops))

    async def aclose(self) -> None:
        """Close every connection, remove every temporary file, end every process."""
        for source in self._sources.values():
            await source.aclose()
        await self._client.aclose()
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
        context = ProcessContext(state.request, self.pool)
        found = [
            await processor.process(resource, context)
            for processor in self._processors
            if processor.takes(resource, kind.name)
        ]
        for sink in self._sinks:
            await sink.keep(resource.body, file_meta, kind.name)
        facts = [fact for fact in found if fact is not None]
        return replace(outcome, facts=(file_meta, *facts)) if facts else outcome

    def _in_order(self, names: Sequence[str] | None) -> Sequence[FetchSource]:
        return [self._sources[name] for name in (self.settings.sources if names is None else names)]


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
