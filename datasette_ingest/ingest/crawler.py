"""Crawler.ingest(request) -> IngestResult: the main flow of one row."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from ..sqlite import digits14
from .datasets.collect import Filesets
from .errors import (
    HashMismatch,
    IngestError,
    LinkLoop,
    MaxHopsExceeded,
    NoPdfLink,
    NotImplementedUrl,
    WrongMimetype,
)
from .fetch.base import FetchSource, Resource, Trail
from .fetch.live import LiveSource
from .files import HTML_TYPES
from .http.body import in_thread
from .http.client import AnyTransport, Client
from .http.connect import Resolve
from .model import (
    Candidate,
    IngestRequest,
    IngestResult,
    Terminal,
    digest_name,
)
from .page.interstitials import interstitial
from .page.read import PAGE_INLINE_BYTES, PARSE_BYTES, Page, read_page
from .policy import Policy
from .row import Row, Tried, Verdict, refused
from .settings import CrawlSettings
from .types import IngestType, ingest_type
from .urls import clean_cell, mask, parse, without_fragment


class Crawler:
    """One crawler a process: holds the connections, the politeness and the robots rules that all rows share.

    `resolve` replaces the system's resolver: `async (host, port) -> list of addresses`. `clock` gives the UTC time
    that results carry. `transport`, an `httpx.AsyncBaseTransport`, sends the requests instead of our own, which is the
    one that checks addresses. Raises ValueError for a malformed network.
    """

    def __init__(
        self,
        settings: CrawlSettings,
        *,
        resolve: Resolve | None = None,
        transport: AnyTransport | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self.settings = settings
        self._policy = Policy(settings.blocklist, settings.allow_networks)
        self._client = Client(settings, self._policy, clock=clock, resolve=resolve, transport=transport)
        self._source: FetchSource = LiveSource(settings, self._policy, self._client, clock=clock)
        of_datasets = replace(self._policy, archive_items=True)
        self._files: FetchSource = LiveSource(settings, of_datasets, self._client, clock=clock, keep_gzip=True)
        self._filesets = Filesets(settings, of_datasets, self._files, clock=clock, waiting=self._waiting)
        self._calls = 0
        self._fetching = 0

    async def ingest(self, request: IngestRequest) -> IngestResult:
        """Answer one row. May be called for thousands of rows at once.

        Never raises for what a server, a URL or a cell does. CancelledError passes; anything else is a bug here.
        """
        self._calls += 1
        try:
            row = Row(request, _kind(request))
            href = without_fragment(clean_cell(request.base_url, doi_resolver=self.settings.doi_resolver))
            refusal = self._filesets.refuse(href) if row.kind.has_files else self._policy.refuse_link(href)
            if refusal is not None:
                raise refusal
        except IngestError as error:
            return refused(request, error)
        else:
            collect = self._filesets.collect if row.kind.has_files else self._visit
            return row.result(await collect(row, href), via=self._source.name)
        finally:
            self._calls -= 1

    def resting_until(self) -> float | None:
        """Seconds from now until the first host wakes, if every open call waits for a resting host; else None.

        A caller that gets a number may cancel its calls and come back then.
        """
        now = asyncio.get_running_loop().time()
        waiting, wakes = self._client.hosts.resting(now)
        if wakes is None or waiting < self._client.under_way or self._fetching < self._calls:
            return None
        return wakes - now

    def resting_hosts(self, whose: object) -> list[tuple[str, float]]:
        """The hosts that rest while calls made on behalf of `whose` (`on_behalf_of`) wait for them, and when by the
        loop's clock each wakes."""
        return self._client.hosts.resting_for(whose, asyncio.get_running_loop().time())

    async def aclose(self) -> None:
        """Close every connection and remove every temporary file."""
        await self._source.aclose()
        await self._files.aclose()
        await self._client.aclose()

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """While a call waits for a server, which may rest."""
        self._fetching += 1
        try:
            yield
        finally:
            self._fetching -= 1

    # One URL of a row: fetch, describe, and either it is the file or it leads on

    async def _visit(self, row: Row, href: str) -> Verdict:
        trail = Trail(goes_on=row.pages > 0)
        row.pages += 1
        try:
            with self._waiting():
                resource = await self._source.fetch(href, row.jar, trail)
        except IngestError as error:
            return Verdict(error, trail.terminal, asked=bool(trail.hops))
        finally:
            row.note_hops(href, trail.hops)
        try:
            return await self._settle(row, resource)
        finally:
            resource.body.close()

    async def _settle(self, row: Row, resource: Resource) -> Verdict:
        if resource.mimetype not in row.kind.mimetypes:
            if resource.mimetype in HTML_TYPES:
                return await self._lead_on(row, resource, await _page_source(resource), None)
            return await self._described(resource, _wrong_type(row.kind, resource))
        try:
            if row.kind.is_page:
                return await self._judge_page(row, resource)
            warnings = await row.kind.check(resource)
        except IngestError as error:
            return await self._described(resource, error)
        verdict = await self._described(resource, None, warnings)
        return _expected(row.request, verdict, resource)

    async def _judge_page(self, row: Row, resource: Resource) -> Verdict:
        source = await _page_source(resource)
        page, blocked = await self._read(row, resource, source.data, head_only=False)
        obstacle = blocked or row.kind.judge(page)
        row.note_page(page, source.sha1hex, blocked, is_hit=obstacle is None)
        if obstacle is None:
            return _expected(row.request, await self._described(resource, None), resource)
        return await self._lead_on(row, resource, source, obstacle)

    async def _described(
        self, resource: Resource, error: IngestError | None, warnings: tuple[str, ...] = ()
    ) -> Verdict:
        digests = await resource.body.digests()
        terminal = replace(_terminal(resource), sha1hex=digests.sha1hex)
        return Verdict(error, terminal, digests.meta(resource.mimetype), warnings)

    # A page: its links, best first, until one is the file

    async def _lead_on(self, row: Row, resource: Resource, source: _Source, obstacle: IngestError | None) -> Verdict:
        """Follow the page's links. Without a hit: what became of the best link that was asked, or why there is none."""
        tried = Tried()
        # Its links may lead to bodies that need the disk it takes.
        resource.body.close()
        for head_only in (True, False):
            try:
                page, blocked = await self._read(row, resource, source.data, head_only=head_only)
            except IngestError as error:
                return await self._described(resource, error)
            row.note_page(page, source.sha1hex, blocked)
            for candidate in page.candidates:
                if candidate in tried.left or row.knows(candidate):
                    continue
                if row.links >= self.settings.max_candidates or row.pages >= self.settings.max_hops:
                    tried.left.append(candidate)
                    continue
                verdict = await self._try(row, candidate)
                if verdict.error is None:
                    row.record_untried(page.candidates)
                    return verdict
                tried.note(verdict)
        row.record_untried((*tried.left, *page.rejected))
        if tried.best is not None:
            return tried.best if tried.best.terminal else replace(tried.best, terminal=_terminal(resource))
        if tried.left:
            return Verdict(_over_the_limit(self.settings, resource.url, tried.left[0]), _terminal(resource))
        reason = obstacle or blocked or row.kind.no_link(_where(page))
        if isinstance(reason, NoPdfLink):
            return Verdict(reason, _terminal(resource))
        return await self._described(resource, reason)

    async def _read(
        self, row: Row, resource: Resource, data: bytes, *, head_only: bool
    ) -> tuple[Page, IngestError | None]:
        """The page, and what stands there instead of it, if its text was read."""

        def read() -> tuple[Page, IngestError | None]:
            page = read_page(
                data,
                resource.url,
                resource.content_type,
                target=row.kind.name,
                links=resource.links,
                rules=self.settings.rules,
                head_only=head_only,
            )
            return page, interstitial(page.url, page.text) if page.text is not None else None

        return read() if len(data) <= PAGE_INLINE_BYTES else await in_thread(read)

    async def _try(self, row: Row, candidate: Candidate) -> Verdict:
        place = row.open_record(candidate)
        refusal = self._refuse(row, candidate.url)
        if refusal is not None:
            verdict = Verdict(refusal, asked=False)
        else:
            row.links += 1
            verdict = await self._visit(row, candidate.url)
        row.close_record(place, verdict)
        return verdict

    def _refuse(self, row: Row, url: str) -> IngestError | None:
        try:
            href = parse(url)
        except IngestError as error:
            return error
        if without_fragment(href) in row.seen:
            return LinkLoop(f"the link leads back to {mask(href)}, which was seen before")
        return self._policy.refuse_link(href)


def _kind(request: IngestRequest) -> IngestType:
    try:
        return ingest_type(request.ingest_type)
    except KeyError as error:
        raise NotImplementedUrl(f"no such ingest type: {str(request.ingest_type)[:40]!r}") from error


def _where(page: Page) -> str:
    """The page, and whether it has links that were not worth a request."""
    number = len(page.rejected)
    beside = f" (not tried: {number} other link{'s' if number > 1 else ''})" if number else ""
    return mask(page.url) + beside


@dataclass(frozen=True)
class _Source:
    """A page's bytes, as far as they are read, and the SHA-1 of all of them."""

    data: bytes
    sha1hex: str


async def _page_source(resource: Resource) -> _Source:
    body = resource.body

    def read() -> _Source:
        data = body.read(PARSE_BYTES)
        return _Source(data, hashlib.sha1(data, usedforsecurity=False).hexdigest())

    if body.size <= PAGE_INLINE_BYTES:
        return read()
    source = await in_thread(read)
    # Of a page of absurd length not all was read.
    return source if body.size <= PARSE_BYTES else replace(source, sha1hex=(await body.digests()).sha1hex)


def _terminal(resource: Resource) -> Terminal:
    return Terminal(resource.url, digits14(resource.received), resource.status_code)


def _wrong_type(kind: IngestType, resource: Resource) -> IngestError:
    return WrongMimetype(f"a file of type {resource.mimetype} where {kind.name} was wanted, at {mask(resource.url)}")


def _over_the_limit(settings: CrawlSettings, url: str, candidate: Candidate) -> IngestError:
    return MaxHopsExceeded(
        f"the page {mask(url)} leads on to {mask(candidate.url)}, beyond {settings.max_candidates} links"
        f" or {settings.max_hops} pages for a row"
    )


def _expected(request: IngestRequest, verdict: Verdict, resource: Resource) -> Verdict:
    """A file with another digest than the request's is not the one."""
    if not request.expect_hash or verdict.file_meta is None:
        return verdict
    own = verdict.file_meta.digests
    for name, wanted in request.expect_hash.items():
        found = own.get(digest_name(name))
        if found is not None and isinstance(wanted, str) and found != wanted.strip().lower():
            message = f"the file at {mask(resource.url)} has the {name} {found}, not {wanted}"
            return replace(verdict, error=HashMismatch(message))
    return verdict
