"""Follow the links of a page, best first, until one leads to the file."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from . import reading
from .crawl_state import Attempts, CrawlState, Outcome, describe
from .errors import (
    BlockedCaptcha,
    BlockedCookie,
    BlockedForbidden,
    BlockedRobots,
    BlockedWall,
    HashMismatch,
    IngestError,
    JsRequired,
    MaxHopsExceeded,
    NoPdfLink,
    RateLimited,
    SkipWall,
    Soft404,
    TruncatedBody,
    WrongMimetype,
    WrongScope,
)
from .fetch.base import Resource
from .http.body import in_thread
from .model import Candidate, Terminal
from .page.interstitials import interstitial
from .page.links.find import Tie
from .page.read import PARSE_BYTES, Page, read_page
from .settings import CrawlSettings
from .types import IngestType
from .types.base import Crawl
from .urls import is_home_page, mask

PageRead = tuple[Page, IngestError | None]
"""A page, and what was served instead of it, if its text was read."""


class PageSource:
    """A page to be read. A large one is read at once, its head and all of it, and its bytes are let go, since the links
    of its head may take long.

    :param data: its first bytes, up to PARSE_BYTES
    :param sha1hex: SHA-1 of the whole page
    """

    def __init__(self, data: bytes, sha1hex: str) -> None:
        self.sha1hex = sha1hex
        self._data = data
        self._kept: tuple[PageRead, PageRead] | None = None

    async def read(self, crawl: Crawl, kind: IngestType, resource: Resource, *, head_only: bool) -> PageRead:
        """:raises IngestError: if it is no page, or takes too much time or memory"""
        read = partial(
            _read,
            self._data,
            resource.url,
            resource.content_type,
            target=kind.name,
            links=tuple(resource.links),
            rules=crawl.settings.rules,
        )
        size = len(self._data)
        if self._kept is None and reading.is_large(size):
            self._kept = await reading.read_page(crawl.pool, size, resource.url, partial(_twice, read))
            self._data = b""
        if self._kept is not None:
            return self._kept[0 if head_only else 1]
        return await reading.read_page(crawl.pool, size, resource.url, partial(read, head_only=head_only))


def _read(data: bytes, url: str, content_type: str, **more: Any) -> PageRead:
    page = read_page(data, url, content_type, **more)
    return page, _blocked(page)


def _blocked(page: Page) -> IngestError | None:
    return None if page.text is None else interstitial(page.url, page.text, is_gate=page.is_gate)


def _twice(read: Callable[..., PageRead]) -> tuple[PageRead, PageRead]:
    """The page by its head alone, and all of it."""
    return read(head_only=True), read(head_only=False)


async def page_source(resource: Resource) -> PageSource:
    body = resource.body

    def read() -> PageSource:
        data = body.read(PARSE_BYTES)
        return PageSource(data, hashlib.sha1(data, usedforsecurity=False).hexdigest())

    if body.size <= reading.INLINE_BYTES:
        return read()
    source = await in_thread(read)
    if body.size > PARSE_BYTES:  # not all of it was read
        source.sha1hex = (await body.digests()).sha1hex
    return source


async def judge(
    crawl: Crawl, state: CrawlState, kind: IngestType, resource: Resource, source: PageSource
) -> IngestError | None:
    """Why a page is not the wanted file; None if it is. Records what it says of its work."""
    page, blocked = await source.read(crawl, kind, resource, head_only=False)
    obstacle = blocked or kind.judge(page)
    state.note_page(page, source.sha1hex, blocked, is_hit=obstacle is None)
    return obstacle


async def follow(
    crawl: Crawl,
    state: CrawlState,
    kind: IngestType,
    resource: Resource,
    source: PageSource,
    obstacle: IngestError | None,
) -> Outcome:
    """Follow the page's links. If none is a hit: how the best one that was requested ended, or why there is none.

    :param obstacle: why the page itself is not the file, if it could have been
    """
    settings, attempts = crawl.settings, Attempts()
    needed, doubtful = Tie.NONE, list[Candidate]()
    # Its links may lead to bodies that need the disk it takes.
    resource.body.close()
    for head_only in (True, False):
        try:
            page, blocked = await source.read(crawl, kind, resource, head_only=head_only)
        except IngestError as error:
            return await describe(resource, error)
        state.note_page(page, source.sha1hex, blocked)
        if isinstance(blocked, BlockedCaptcha):
            # What it offers as the way on is how it is passed.
            return await describe(resource, blocked)
        for candidate in page.candidates:
            if candidate in attempts.left or state.knows(candidate):
                continue
            if page.ties[candidate.url] < needed:
                doubtful.append(replace(candidate, reason=f"{_DOUBTFUL}{candidate.reason and ', '}{candidate.reason}"))
                continue
            if state.links >= settings.max_candidates or state.pages >= settings.max_hops:
                attempts.left.append(candidate)
                continue
            outcome = await _try(crawl, state, kind, candidate)
            if outcome.error is None:
                state.record_untried(page.candidates)
                return outcome
            attempts.note(outcome)
            needed = max(needed, _tie_needed(page.ties[candidate.url], outcome.error))
    state.record_untried((*doubtful, *attempts.left, *page.rejected))
    if attempts.best is not None:
        return attempts.best if attempts.best.terminal else replace(attempts.best, terminal=resource.terminal)
    if attempts.left:
        return Outcome(_over_the_limit(settings, resource.url, attempts.left[0]), resource.terminal)
    reason = obstacle or blocked or kind.no_link(_where(page))
    if isinstance(reason, NoPdfLink):
        return Outcome(reason, resource.terminal)
    return await describe(resource, reason)


_REPLACED = (
    BlockedCaptcha,
    BlockedCookie,
    BlockedForbidden,
    BlockedWall,
    HashMismatch,
    JsRequired,
    Soft404,
    TruncatedBody,
)
_WITHOUT_FILE = (NoPdfLink, WrongMimetype, WrongScope)


def was_replaced(error: IngestError, terminal: Terminal | None, found: str, href: str) -> bool:
    """Whether something else was served than what was at a URL, so that another source may still have that: a page
    that says that it is gone, an obstacle, another version of the file, the home page.

    :param terminal: the last answer of the URL's outcome; that of a link on the page does not count
    :param found: the URL that answered
    """
    if terminal is None or terminal.url != found:
        return False
    if isinstance(error, _WITHOUT_FILE):
        return is_home_page(found) and not is_home_page(href)
    return isinstance(error, _REPLACED)


async def _try(crawl: Crawl, state: CrawlState, kind: IngestType, candidate: Candidate) -> Outcome:
    place = state.open_record(candidate)
    refusal = state.refuse(candidate.url)
    if refusal is not None:
        outcome = Outcome(refusal, asked=False)
    else:
        state.links += 1
        outcome = await crawl.visit(state, kind, candidate.url)
    state.close_record(place, outcome)
    return outcome


_DOUBTFUL = "not: the work's own file cannot be had, and nothing shows that this is the work"
_REFUSALS = (BlockedCaptcha, BlockedCookie, BlockedForbidden, BlockedRobots, BlockedWall, RateLimited, SkipWall)
_REFUSING_CODES = frozenset({401, 402, 403, 407, 429, 451})


def _tie_needed(tie: Tie, error: IngestError) -> Tie:
    """What must show that another file of the page is the work, after one with this tie ended so.

    Where the work's own file is refused, what else the page offers are its licence, its permissions, its forms. Where it
    is only gone, its link may be out of date, and another that calls itself the file is worth a try.
    """
    if isinstance(error, _REFUSALS) or error.status_code in _REFUSING_CODES:
        return Tie.OWN
    return Tie.PLAIN if tie is Tie.NAMED else Tie.NONE


def _where(page: Page) -> str:
    """The page's URL, and how many of its links were not worth a request."""
    number = len(page.rejected)
    beside = f" (not tried: {number} other link{'s' if number > 1 else ''})" if number else ""
    return mask(page.url) + beside


def _over_the_limit(settings: CrawlSettings, url: str, candidate: Candidate) -> IngestError:
    return MaxHopsExceeded(
        f"the page {mask(url)} leads on to {mask(candidate.url)}, beyond {settings.max_candidates} links"
        f" or {settings.max_hops} pages for a row"
    )
