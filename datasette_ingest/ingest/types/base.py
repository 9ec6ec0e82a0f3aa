"""IngestType: what kind of file is wanted, as a value."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ..errors import IngestError
from ..fetch.base import Resource
from ..page.read import Page


async def nothing_to_check(resource: Resource) -> tuple[str, ...]:
    """The check of a type that content sniffing alone decides."""
    return ()


def page_is_not_it(page: Page) -> IngestError | None:
    """The judgement of a type whose files are no pages. Never asked, since no page has such a MIME type."""
    raise AssertionError(f"a page is not judged for this type: {page.url}")


@dataclass(frozen=True)
class IngestType:
    """A kind of file and the tests that make one a hit."""

    name: str
    """Also the `target` of the link rules that lead to it."""
    mimetypes: frozenset[str]
    """Types by content that it may have."""
    no_link: Callable[[str], IngestError]
    """What to say of a page, named by its URL, that leads nowhere."""
    check: Callable[[Resource], Awaitable[tuple[str, ...]]] = nothing_to_check
    """Looks at the whole file; returns warnings that go beside a hit, raises IngestError if it is none after all."""
    is_page: bool = False
    """Whether the file is itself a page that may also lead on."""
    judge: Callable[[Page], IngestError | None] = page_is_not_it
    """For pages: None if this page is the work, else why not."""
    has_files: bool = False
    """Whether it is no single file but a list of them, which the landing page stands for."""
