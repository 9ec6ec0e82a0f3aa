"""Processor: what is read from a file that was found, while its body is open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..facts import Fact, FullText
from ..files import TEXT
from ..http.body import Body
from ..model import IngestRequest
from ..settings import CrawlSettings
from .pool import ProcessPool


@dataclass(frozen=True)
class Document:
    """A file that is read: as it was fetched, or as it was kept."""

    body: Body
    """Open; who made it closes it."""
    url: str
    """Where it was found."""
    content_type: str = ""
    """The Content-Type header, for its charset only; empty where it is not known any more."""

    @property
    def mimetype(self) -> str:
        """The type by content."""
        return self.body.mimetype


StoredFacts: TypeAlias = "Callable[[str, str], Awaitable[Mapping[str, Any] | None]]"
"""(table of facts, SHA-1 of a file) -> what an earlier reading has stored there: column -> value; None for nothing."""


async def nothing_stored(table: str, sha1hex: str) -> None:
    """The StoredFacts of a caller that keeps none."""


async def nothing_open() -> None:
    """Closes a processor that holds nothing open."""


@dataclass(frozen=True)
class ProcessContext:
    """What a processor may use beside the file."""

    request: IngestRequest
    sha1hex: str
    """Of the body. All that is read from it has this key."""
    settings: CrawlSettings
    pool: ProcessPool
    """For work that takes CPU time or memory that a hostile file decides."""
    stored: StoredFacts = nothing_stored
    """For a processor whose work is dear: what is known of the file already."""


@dataclass(frozen=True)
class DerivedFile:
    """A file that was made of another one, to be kept under the SHA-1 of the other."""

    kind: str
    """`xml`, `tei`, `text` or `thumbnail`."""
    mimetype: str
    content: bytes


@dataclass(frozen=True)
class Findings:
    """What a processor found in one file."""

    facts: tuple[Fact, ...] = ()
    files: tuple[DerivedFile, ...] = ()


def full_text(text: str | None, context: ProcessContext) -> Findings:
    """The words of a file, as a row and as a file; nothing where there is no text, or none is wanted."""
    if text is None or not context.settings.fulltext:
        return Findings()
    return Findings((FullText(context.sha1hex, text),), (DerivedFile("text", TEXT, text.encode()),))


@dataclass(frozen=True)
class Processor:
    """One reader of files.

    `process` returns None where it has nothing to say. An exception that it raises is an error of the row: what a file
    can bring about is for the fact to say, in a status of its own.
    """

    name: str
    version: str
    """Another one makes a later pass over kept files read them again."""
    mimetypes: frozenset[str]
    """Types by content that it reads."""
    process: Callable[[Document, ProcessContext], Awaitable[Findings | None]]
    tables: tuple[str, ...] = ()
    """Tables that its facts are rows of. The first has the column `processor`."""
    ingest_types: frozenset[str] | None = None
    """Types of rows whose files it reads; None: all."""
    aclose: Callable[[], Awaitable[None]] = nothing_open
    """Closes what it holds open, such as connections. Whoever made it calls this at the end."""

    @property
    def label(self) -> str:
        """`pdf/1`: what facts say of where they come from."""
        return f"{self.name}/{self.version}"

    def takes(self, mimetype: str, ingest_type: str) -> bool:
        return mimetype in self.mimetypes and (self.ingest_types is None or ingest_type in self.ingest_types)
