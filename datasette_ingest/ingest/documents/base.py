"""Processor: what is read from a file that was found, while its body is open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ..facts import Fact
from ..fetch.base import Resource
from ..model import IngestRequest
from .pool import ProcessPool


@dataclass(frozen=True)
class ProcessContext:
    """What a processor may use beside the body."""

    request: IngestRequest
    pool: ProcessPool
    """For work that takes CPU time or memory that a hostile file decides."""


@dataclass(frozen=True)
class Processor:
    """One kind of fact about a file.

    `process` returns None where it has nothing to say. An exception that it raises is an error of the row: what a file
    can bring about is for the fact to say, in a status of its own.
    """

    name: str
    version: str
    mimetypes: frozenset[str]
    """Types by content that it reads."""
    process: Callable[[Resource, ProcessContext], Awaitable[Fact | None]]
    ingest_types: frozenset[str] | None = None
    """Types of rows whose files it reads; None: all."""

    def takes(self, resource: Resource, ingest_type: str) -> bool:
        return resource.mimetype in self.mimetypes and (self.ingest_types is None or ingest_type in self.ingest_types)
