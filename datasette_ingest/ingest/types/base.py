"""IngestType: what kind of file is wanted, as a value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from ..crawl_state import CrawlState, Verdict
from ..errors import IngestError
from ..fetch.base import Resource
from ..page.read import Page
from ..settings import CrawlSettings


class Crawl(Protocol):
    """What a type's way to an answer needs of the crawler."""

    settings: CrawlSettings
    clock: Callable[[], datetime]

    async def visit(self, state: CrawlState, kind: IngestType, href: str) -> Verdict:
        """Fetch a URL; it is the file, or its links are followed."""


async def no_check(resource: Resource) -> tuple[str, ...]:
    """For a type that content sniffing alone decides."""
    return ()


def never_asked(page: Page) -> IngestError | None:
    """For a type whose files are no pages."""
    raise AssertionError(f"a page is not judged for this type: {page.url}")


async def visit(crawl: Crawl, state: CrawlState, kind: IngestType, href: str) -> Verdict:
    """The way to one file: the row's URL, and links from there."""
    refusal = state.refuse(href)
    return await crawl.visit(state, kind, href) if refusal is None else Verdict(refusal, asked=False)


@dataclass(frozen=True)
class IngestType:
    """A kind of file and the tests that make one a hit."""

    name: str
    """Also the `target` of the link rules that lead to it."""
    mimetypes: frozenset[str]
    """Types by content that it may have."""
    no_link: Callable[[str], IngestError]
    """What to say of a page, named by its URL, that leads nowhere."""
    check: Callable[[Resource], Awaitable[tuple[str, ...]]] = no_check
    """Looks at the whole file; returns warnings that go beside a hit, raises IngestError if it is none after all."""
    judge: Callable[[Page], IngestError | None] = never_asked
    """For a page of one of `mimetypes`: None if it is the work, else why not."""
    answer: Callable[[Crawl, CrawlState, IngestType, str], Awaitable[Verdict]] = visit
    """Answers a row by its URL."""
    tables: tuple[str, ...] = ()
    """Tables for its results beside those of every type."""
