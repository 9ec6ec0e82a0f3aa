"""IngestType: what kind of file is wanted, as a value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ..crawl_state import CrawlState, Outcome
from ..documents.pool import ProcessPool
from ..errors import IngestError
from ..fetch.base import Resource
from ..page.read import Page
from ..settings import CrawlSettings


class Crawl(Protocol):
    """The crawler, as far as a type uses it."""

    settings: CrawlSettings
    clock: Callable[[], datetime]
    pool: ProcessPool
    """For large pages."""

    async def visit(self, state: CrawlState, kind: IngestType, href: str) -> Outcome:
        """Fetch one URL of a row; see Crawler.visit."""


async def no_check(resource: Resource) -> tuple[str, ...]:
    """The check of a type that needs none beyond content sniffing."""
    return ()


def never_asked(page: Page) -> IngestError | None:
    """The judgement of a type whose files are not pages."""
    raise AssertionError(f"a page is not judged for this type: {page.url}")


async def visit(crawl: Crawl, state: CrawlState, kind: IngestType, href: str) -> Outcome:
    """Answers a row of a type that is one file: fetch the row's URL and follow links from there."""
    refusal = state.refuse(href)
    return await crawl.visit(state, kind, href) if refusal is None else Outcome(refusal, asked=False)


@dataclass(frozen=True)
class IngestType:
    """A kind of file and the tests that make one a hit."""

    name: str
    """Also the `target` of the link rules that lead to it."""
    mimetypes: frozenset[str]
    """Types by content that it may have."""
    no_link: Callable[[str], IngestError]
    """The error of a page without a link to such a file. Called with the page's URL."""
    check: Callable[[Resource], Awaitable[tuple[str, ...]]] = no_check
    """Checks the whole file: returns warnings for a hit, or raises IngestError if it is none."""
    judge: Callable[[Page], IngestError | None] = never_asked
    """For a page of one of `mimetypes`: why it is not the work; None if it is."""
    answer: Callable[[Crawl, CrawlState, IngestType, str], Awaitable[Outcome]] = visit
    """Answers a row by its URL."""
    tables: tuple[str, ...] = ()
    """Tables of its results besides those of every type."""
