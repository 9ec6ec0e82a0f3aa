"""What all data platforms share: recognise a dataset by its page, and list its files by requests to an API.

A platform is a module with `recognise(landing) -> Dataset | None`. It sends nothing itself: a Dataset carries the first
ApiRequest, and reading the answer gives files and, where the list goes on, further requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from ...errors import PlatformError
from ...model import FileEntry
from ...urls import UrlParts
from ..manifest import DatasetPage, absolute

PAGE_SIZE = 100
"""Files requested at once from an API that gives its list in pages."""


@dataclass(frozen=True)
class ListingPage:
    """One page of a dataset's list of files: what one answer of an API holds."""

    files: tuple[FileEntry, ...] = ()
    more: tuple[ApiRequest, ...] = ()
    """Requests for the rest of the list."""


@dataclass(frozen=True)
class ApiRequest:
    """A URL of an API, and the reader of its answer, which is JSON of any shape. Reading may raise an IngestError."""

    url: str
    reader: Callable[[Any, str], ListingPage]
    """Called with the answer and the URL."""

    def read(self, answer: Any) -> ListingPage:
        return self.reader(answer, self.url)


@dataclass(frozen=True)
class Dataset:
    """A dataset of a platform whose API is known."""

    platform: str
    platform_id: str
    request: ApiRequest
    has_page: bool = True
    """Whether there is a landing page that may be fetched."""


@dataclass(frozen=True)
class Landing:
    """The page that a row's URL leads to."""

    url: str
    """As `urls.parse` gives it."""
    page: DatasetPage | None
    """What was found there; None if it was not fetched yet."""
    today: str
    """The date, as `2026-11-30`: embargoes until then are over."""


Recognise = Callable[[Landing], Dataset | None]
"""The dataset that a URL stands for, by the URL's form, and by the page if many installations share one form. Raises PlatformScope for what is a page of the platform and no dataset."""


def part(value: Any, *path: str) -> Any:
    """The value under these keys, one inside the other; None if one of them is missing or no object."""
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def mapping(value: Any, where: str) -> Mapping[str, Any]:
    """The object that an answer must be. Raises PlatformError."""
    if not isinstance(value, Mapping):
        raise PlatformError(f"the answer of {where} is no object")
    return value


def listed(value: Any, where: str) -> Sequence[Mapping[str, Any]]:
    """The objects of a list that an answer must have. Raises PlatformError: a list with gaps is not the whole list."""
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise PlatformError(f"the answer of {where} has no list of files")
    return value


def text(value: Any) -> str | None:
    """A text that is not blank, or a number as text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value) if abs(value) < 10**30 else None
    return value.strip() if isinstance(value, str) and value.strip() else None


def api_link(reference: Any, base: str, *, root: str) -> str:
    """A URL within the API that a platform's answer links to. Raises PlatformError for any other."""
    url = absolute(reference, base)
    if url is None or not url.startswith(root):
        raise PlatformError(f"the answer of {base} has no link to its files")
    return url


def segments(parts: UrlParts) -> list[str]:
    """The parts of a URL's path that are not empty."""
    return [segment for segment in parts.target.partition("?")[0].split("/") if segment]


def escaped(name: str, *, safe: str = "") -> str:
    """A name as part of a URL's path."""
    return quote(name, safe=safe, errors="replace")
