"""Sink: a place that keeps files. Files: how a place reads and writes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Protocol

from ..http.body import Body
from .layout import StoredFile

Content = Body | bytes


class Sink(Protocol):
    """Keeps the body of each hit, and the files made of it, before its row is answered, so that no result names a body
    that was lost."""

    async def keep(self, kind: str, sha1hex: str, mimetype: str, content: Body | bytes) -> None:
        """Keep a file. A body is open, and stays so. An exception is an error of the row, but a StoreError: then no row
        can be answered.

        :param kind: `body`, or what was made of it: `xml`, `tei`, `text`, `thumbnail`
        :param sha1hex: of the body
        """

    async def aclose(self) -> None: ...


class Files(Protocol):
    """Files by key, in a folder or a bucket. One is there as a whole or not at all, also after a crash.

    Each method raises StoreError where the place cannot be used.
    """

    piece_bytes: int
    """How much is read at once."""

    async def prepare(self) -> None:
        """Find out whether files can be kept here."""

    async def write(self, key: str, content: Content, *, is_fixed: bool) -> None:
        """Make a file. One that is there is written again if its size differs, or, where contents are not `is_fixed` by the
        key, its bytes."""

    async def size(self, key: str) -> int | None:
        """In bytes; None where there is no such file."""

    async def read(self, key: str, start: int, stop: int) -> bytes:
        """The bytes from `start` up to `stop`, which is not beyond the end.

        :raises StoreError: also where they are not there
        """

    def list(self, folder: str = "") -> AsyncIterator[Sequence[StoredFile]]:
        """All files whose keys begin with `folder`, which is empty or ends with a slash, some at a time, in any order."""

    async def aclose(self) -> None: ...


def size_of(content: Content) -> int:
    return len(content) if isinstance(content, bytes) else content.size


def pieces_of(content: Content) -> Iterator[bytes]:
    """The bytes, a piece at a time. Reads from disk: call it in a thread."""
    return iter([content]) if isinstance(content, bytes) else content.pieces()
