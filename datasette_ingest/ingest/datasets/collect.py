"""Collect a dataset for one row: landing page -> the list of its files -> the files, within limits.

The list comes from the platform's API if its URL or page says which platform it is, else from the page itself. It is
complete when every part of it was read, every file has a URL that may be fetched, and none is restricted. Only then are
files fetched, one after the other; the outcome of each stands beside it and does not change the list.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from .. import reading
from ..crawl_state import CrawlState, Outcome
from ..documents.pool import ProcessPool
from ..errors import (
    NOT_TRIED,
    STATUSES,
    SUCCESS,
    BlockedRobots,
    BodyTooLarge,
    EmptyBlob,
    EmptyManifest,
    IngestError,
    Mismatch,
    MismatchSize,
    NoPlatformMatch,
    NotImplementedUrl,
    Platform404,
    PlatformError,
    PlatformHttpError,
    PlatformRestricted,
    RetryClass,
    TerminalBadStatus,
    TooManyFiles,
)
from ..facts import FileMeta
from ..fetch.base import FetchTrace, Resource
from ..files import HTML_TYPES, JSON, UNKNOWN, digest
from ..http.body import in_thread
from ..model import MIB, Candidate, FileEntry, Fileset, Terminal
from ..page.interstitials import interstitial
from ..page.json_ld import first_text
from ..page.read import PARSE_BYTES
from ..settings import CrawlSettings
from ..urls import mask, without_fragment
from .manifest import (
    JSON_LD,
    LINKSET,
    MAX_LISTED,
    DatasetPage,
    described_dataset,
    read_dataset_page,
    read_json,
    read_linkset,
    with_document,
)
from .platforms import Dataset, Landing, recognise

MAX_LIST_CHARACTERS = 16 * MIB
"""Names and URLs of one list together, which are kept in memory and in a row of the table."""
MAX_ANSWERS = 200
"""Answers that are read for one list."""
MAX_ANSWER_BYTES = 16 * MIB
"""Longest answer that is read: ten thousand files, described at length."""
FETCH_SECONDS = 600.0
"""How long a row may take to fetch files, pauses that servers ask for included."""
TOO_MANY = "too-many-files"
"""Warning: the dataset has more files than are fetched for a row, so none was."""
TOO_LARGE = "too-large-size"
"""Warning: the dataset is larger than what is fetched for a row; files that were not fetched are `not-tried`."""
TIMEOUT = "timeout"
"""Warning: fetching the files took too long; those that were left are `not-tried`."""
INLINE_FILES = 500
"""Lists up to this length are checked against the policy on the event loop, longer ones in a thread."""

# A landing page that could not be read may still be recognised by its URL: it is closed to robots, or an archive's.
_RECOGNISED_BY_URL = (TerminalBadStatus, EmptyBlob, BlockedRobots, NotImplementedUrl)
# Failures of an API after which the page's own list is used: it is closed to robots, elsewhere, or no such API.
_FALL_BACK_TO_PAGE = (BlockedRobots, Platform404, PlatformError, PlatformHttpError)

_ACCEPT = {JSON: f"{JSON}, */*;q=0.1"} | {kind: f"{kind}, {JSON};q=0.5, */*;q=0.1" for kind in (LINKSET, JSON_LD)}

T = TypeVar("T")


@dataclass(slots=True)
class _ListSearch:
    """The search for one row's list. Mutable, for one row."""

    state: CrawlState
    terminal: Terminal | None = None
    """The landing page's answer; the API's where no page was read."""
    via: str | None = None
    """The source that gave it."""
    answers: int = 0


class Filesets:
    """Lists and fetches datasets."""

    def __init__(self, settings: CrawlSettings, *, clock: Callable[[], datetime], pool: ProcessPool) -> None:
        self._settings = settings
        self._pool = pool
        self._clock = clock

    async def collect(self, state: CrawlState, href: str) -> Outcome:
        """The outcome of a row. A hit if the whole list is known and open to everybody."""
        search = _ListSearch(state)
        try:
            fileset = await self._find(search, href)
        except IngestError as error:
            return Outcome(error, search.terminal, asked=bool(state.hops))
        fileset = await self._apply_policy(state, fileset)
        incomplete = incomplete_reason(fileset)
        if incomplete is not None:
            return Outcome(incomplete, search.terminal, fileset=fileset)
        fileset, warnings = await self._fetched(state, fileset)
        return Outcome(None, search.terminal, search.via, warnings=warnings, fileset=fileset)

    # The list

    async def _find(self, search: _ListSearch, href: str) -> Fileset:
        landing = self._landing(href)
        dataset = recognise(landing)
        asked = href if dataset is None or dataset.has_page else dataset.request.url
        refusal = search.state.refuse(asked, for_dataset=True)
        if refusal is not None:
            raise refusal
        if dataset is None or dataset.has_page:
            landing = await self._landing_page(search, href)
            dataset = recognise(landing)
        problem: IngestError | None = None
        if dataset is not None:
            try:
                return await self._ask_platform(search, dataset)
            except _FALL_BACK_TO_PAGE as error:
                if landing.page is None or error.retry is RetryClass.SOON:
                    raise
                problem = error
        assert landing.page is not None, "what has no page is known by its URL"
        fileset = await self._ask_page(search, landing.page)
        if fileset is not None:
            return fileset
        raise problem or _why_nothing(landing.page)

    def _landing(self, url: str, page: DatasetPage | None = None) -> Landing:
        return Landing(url, page, self._clock().date().isoformat())

    async def _landing_page(self, search: _ListSearch, href: str) -> Landing:
        """Fetch the landing page. One that cannot be fetched may still be recognised by its URL."""
        trace = FetchTrace()
        search.state.pages += 1
        try:
            async with search.state.fetch(href, trace, for_dataset=True) as resource:
                search.terminal, search.via = resource.terminal, resource.via
                return self._landing(resource.url, await _read_page(resource, self._pool))
        except _RECOGNISED_BY_URL as error:
            search.terminal = trace.terminal
            url = trace.refused or (trace.terminal.url if trace.terminal else href)
            if error.status_code in (404, 410) or recognise(self._landing(url)) is None:
                raise
            # The API's answer is then the row's terminal.
            search.terminal = None
            return self._landing(url)
        except IngestError:
            search.terminal = search.terminal or trace.terminal
            raise

    async def _ask_platform(self, search: _ListSearch, dataset: Dataset) -> Fileset:
        """The list by the platform's API. Raises EmptyManifest, TooManyFiles, and what the API's answers say."""
        files: list[FileEntry] = []
        requests = deque([dataset.request])
        asked: set[str] = set()
        characters = 0
        while requests:
            request = requests.popleft()
            if request.url in asked:
                raise PlatformError(f"the list of {dataset.platform_id} leads back to {mask(request.url)}")
            asked.add(request.url)
            listing = await self._answer(search, request.url, f"{dataset.platform}-api", request.read)
            files += listing.files
            characters += sum(len(file.path) + len(file.url or "") for file in listing.files)
            requests += listing.more
            if len(files) > MAX_LISTED or characters > MAX_LIST_CHARACTERS or search.answers >= MAX_ANSWERS:
                raise TooManyFiles(f"the list of {dataset.platform_id} is longer than {MAX_LISTED} files")
        if not files:
            raise EmptyManifest(f"the dataset {dataset.platform_id} has no file, says {mask(dataset.request.url)}")
        return Fileset(dataset.platform, dataset.platform_id, tuple(files))

    async def _ask_page(self, search: _ListSearch, page: DatasetPage) -> Fileset | None:
        """The list by what the page says itself, or what it refers to for that; None if it has none."""
        fileset = _described(page)
        if fileset is not None:
            return _checked(fileset)
        for url in page.linksets():
            read = partial(read_linkset, base=url, page_url=page.url)
            files = await self._optional(search, url, "linkset", read, LINKSET)
            if files:
                return _checked(Fileset("signposting", _cited_as(page), files))
        if page.items:
            return _checked(Fileset("signposting", _cited_as(page), page.items))
        for url in page.descriptions():
            fileset = await self._optional(
                search, url, "describedby", lambda value: _described(with_document(page, value)), JSON_LD
            )
            if fileset is not None:
                return _checked(fileset)
        return None

    async def _optional(
        self, search: _ListSearch, url: str, rule: str, read: Callable[[Any], T], mimetype: str
    ) -> T | None:
        """An answer that the list can do without; None if it fails, unless a later try may succeed."""
        if search.answers >= MAX_ANSWERS:
            return None
        try:
            return await self._answer(search, url, rule, read, mimetype)
        except IngestError as error:
            if error.retry in (RetryClass.NOW, RetryClass.SOON):
                raise
            return None

    async def _answer(
        self, search: _ListSearch, url: str, rule: str, read: Callable[[Any], T], mimetype: str = JSON
    ) -> T:
        """Ask for JSON and read it, with an entry in the row's record of links."""
        place = search.state.open_record(Candidate(url, rule))
        trace = FetchTrace()
        try:
            found = await self._ask(search, url, trace, read, _ACCEPT[mimetype])
        except IngestError as error:
            search.state.close_record(place, Outcome(error, trace.terminal, asked=bool(trace.hops)))
            raise
        finally:
            if search.terminal is None:
                search.terminal, search.via = trace.terminal, trace.via
        search.state.close_record(place, Outcome(None, trace.terminal))
        return found

    async def _ask(self, search: _ListSearch, url: str, trace: FetchTrace, read: Callable[[Any], T], accept: str) -> T:
        search.answers += 1
        refusal = search.state.refuse(url, for_dataset=True)
        if refusal is not None:
            raise refusal
        try:
            async with search.state.fetch(without_fragment(url), trace, accept=accept, for_dataset=True) as resource:
                if resource.body.size > MAX_ANSWER_BYTES:
                    raise BodyTooLarge(f"an answer of {resource.body.size} bytes at {mask(url)}")
                return await _read_answer(resource, lambda data: read(read_json(data, mask(url))))
        except TerminalBadStatus as error:
            raise _api_error(error, url) from error

    # The files

    async def _apply_policy(self, state: CrawlState, fileset: Fileset) -> Fileset:
        """The list with the status beside each file whose URL is refused."""

        def admitted(file: FileEntry) -> FileEntry:
            if file.url is None or file.status != NOT_TRIED:
                return file
            refusal = state.refuse(file.url, for_dataset=True)
            return file if refusal is None else replace(file, status=refusal.status)

        def look() -> Fileset:
            return replace(fileset, files=tuple(map(admitted, fileset.files)))

        return look() if len(fileset.files) <= INLINE_FILES else await in_thread(look)

    async def _fetched(self, state: CrawlState, fileset: Fileset) -> tuple[Fileset, tuple[str, ...]]:
        """The files with the outcome of each, and warnings: the limit that kept them from being fetched, or their failures."""
        limit = limit_exceeded(fileset, self._settings)
        if limit is not None or not self._settings.max_files:
            return fileset, () if limit is None else (limit,)
        seen: list[FileEntry] = []
        metas: list[FileMeta] = []
        warnings: list[str] = []
        try:
            await asyncio.wait_for(self._fetch_each(state, fileset.files, seen, metas), FETCH_SECONDS)
        except asyncio.TimeoutError:
            warnings.append(TIMEOUT)
        if any(file.status == NOT_TRIED for file in seen):
            warnings.append(TOO_LARGE)
        warnings += sorted({file.status for file in seen} - {SUCCESS, NOT_TRIED, *warnings})
        files = (*seen, *fileset.files[len(seen) :])
        return replace(fileset, files=files, file_meta=tuple(metas)), tuple(warnings)

    async def _fetch_each(
        self, state: CrawlState, files: tuple[FileEntry, ...], seen: list[FileEntry], metas: list[FileMeta]
    ) -> None:
        left = self._settings.max_fileset_bytes
        for file in files:
            if left <= 0 or (file.size or 0) > self._settings.max_body_bytes:
                seen.append(file)
                continue
            fetched, meta = await self._fetch_file(state, file)
            seen.append(fetched)
            if meta is not None:
                metas.append(meta)
                left -= meta.size_bytes

    async def _fetch_file(self, state: CrawlState, file: FileEntry) -> tuple[FileEntry, FileMeta | None]:
        assert file.url is not None, "a file without a URL is a gap in the list"
        try:
            async with state.fetch(without_fragment(file.url), FetchTrace(), for_dataset=True) as resource:
                return _compared(file, (await resource.body.digests()).meta(resource.mimetype))
        except EmptyBlob as error:
            if file.size == 0:
                return _compared(file, digest([]).meta(UNKNOWN))
            return replace(file, status=error.status), None
        except IngestError as error:
            return replace(file, status=_restricted_if_closed(error).status), None


# Decisions


def incomplete_reason(fileset: Fileset) -> IngestError | None:
    """Why a list is not complete; None if everybody can get each of its files."""
    missing = [file for file in fileset.files if file.status != NOT_TRIED]
    if not missing:
        return None
    closed = [file for file in missing if file.status == PlatformRestricted.status]
    if closed:
        return PlatformRestricted(f"{len(closed)} of {len(fileset.files)} files are closed, as {closed[0].path!r}")
    reason = (
        "has no address" if missing[0].status == PlatformError.status else f"cannot be asked for ({missing[0].status})"
    )
    return STATUSES[missing[0].status](
        f"the file {missing[0].path!r} {reason}; {len(missing)} of {len(fileset.files)} are so"
    )


def limit_exceeded(fileset: Fileset, settings: CrawlSettings) -> str | None:
    """The warning for a dataset larger than what is fetched for a row, or None. With max_files 0 nothing is fetched, and
    there is no limit to exceed."""
    if not settings.max_files:
        return None
    if len(fileset.files) > settings.max_files:
        return TOO_MANY
    known = sum(file.size or 0 for file in fileset.files)
    return TOO_LARGE if known > settings.max_fileset_bytes else None


def difference(file: FileEntry, meta: FileMeta) -> IngestError | None:
    """How a fetched file differs from what the list says of it; None if it does not."""
    if file.size is not None and file.size != meta.size_bytes:
        return MismatchSize(f"{file.path!r} has {meta.size_bytes} bytes, not {file.size}")
    own = meta.digests
    for name, wanted in file.checksums.items():
        if own[name] != wanted:
            return Mismatch(f"{file.path!r} has the {name} {own[name]}, not {wanted}")
    return None


def _compared(file: FileEntry, meta: FileMeta) -> tuple[FileEntry, FileMeta]:
    error = difference(file, meta)
    return replace(file, sha1hex=meta.sha1hex, status=SUCCESS if error is None else error.status), meta


def _api_error(error: TerminalBadStatus, url: str) -> IngestError:
    """The outcome that an API's HTTP status stands for."""
    code = error.status_code or 0
    if code in (401, 403):
        return PlatformRestricted(f"the API refuses {mask(url)} ({code})", status_code=code)
    if code in (404, 410):
        return Platform404(f"the API knows nothing at {mask(url)} ({code})", status_code=code)
    return PlatformHttpError(f"the API answers {code} at {mask(url)}", status_code=code)


def _restricted_if_closed(error: IngestError) -> IngestError:
    if isinstance(error, TerminalBadStatus) and error.status_code in (401, 403):
        return PlatformRestricted(error.message, status_code=error.status_code)
    return error


def _checked(fileset: Fileset) -> Fileset:
    characters = sum(len(file.path) + len(file.url or "") for file in fileset.files)
    if len(fileset.files) > MAX_LISTED or characters > MAX_LIST_CHARACTERS:
        raise TooManyFiles(f"the list of {fileset.platform_id or 'a page'} is longer than {MAX_LISTED} files")
    return fileset


def _described(page: DatasetPage) -> Fileset | None:
    if not page.described:
        return None
    node = described_dataset(page.nodes, page.url) or {}
    return Fileset("json-ld", first_text(node, "identifier", "@id", "url"), page.described)


def _cited_as(page: DatasetPage) -> str | None:
    return next((mask(link.href) for link in page.links if "cite-as" in link.rels), None)


def _why_nothing(page: DatasetPage) -> IngestError:
    where = mask(page.url)
    if described_dataset(page.nodes, page.url) is not None:
        return EmptyManifest(f"the page {where} describes a dataset and lists no file of it")
    obstacle = interstitial(page.url, page.text) if page.text is not None else None
    return obstacle or NoPlatformMatch(f"no list of files is known for {where}")


# Bytes


async def _read_page(resource: Resource, pool: ProcessPool) -> DatasetPage:
    if resource.mimetype in HTML_TYPES:
        data = await _beginning(resource, PARSE_BYTES)
        work = partial(read_dataset_page, data, resource.url, resource.content_type, tuple(resource.links))
        return await reading.read_page(pool, len(data), resource.url, work)
    page = read_dataset_page(b"", resource.url, resource.content_type, resource.links)
    if resource.mimetype != JSON or resource.body.size > MAX_ANSWER_BYTES:
        return page
    try:
        return await _read_answer(resource, lambda data: with_document(page, read_json(data, mask(resource.url))))
    except PlatformError:
        return page


async def _read_answer(resource: Resource, read: Callable[[bytes], T]) -> T:
    return await reading.read_answer(resource.body.size, lambda: read(resource.body.read(MAX_ANSWER_BYTES)))


async def _beginning(resource: Resource, most: int) -> bytes:
    if resource.body.size <= reading.INLINE_BYTES:
        return resource.body.read()
    return await in_thread(lambda: resource.body.read(most))
