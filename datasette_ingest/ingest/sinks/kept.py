"""KeptFiles: the files of a store by kind and SHA-1."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from .base import Content, Files
from .layout import BODY, StoredFile, folder_of, key_of, named_by


class KeptFiles:
    """A sink whose files can be read again. Each method raises StoreError where the place cannot be used.

    :param place: where it is, for messages
    """

    def __init__(self, files: Files, place: str) -> None:
        self._files = files
        self.place = place

    async def prepare(self) -> None:
        """Find out whether files can be kept, before any is fetched."""
        await self._files.prepare()

    async def keep(self, kind: str, sha1hex: str, mimetype: str, content: Content) -> None:
        """Keep a file. One that is there is not written again, unless it is another one: then it is replaced at once."""
        await self._files.write(key_of(kind, sha1hex, mimetype), content, is_fixed=kind == BODY)

    async def find(self, kind: str, sha1hex: str, mimetype: str | None = None) -> StoredFile | None:
        """The file of this kind; None where none is kept.

        :param mimetype: its type, if it is known: then it is found by its name. Another version may have called it otherwise
        """
        if mimetype is not None:
            key = key_of(kind, sha1hex, mimetype)
            size = await self._files.size(key)
            if size is not None:
                return StoredFile(key, size, 0.0)
        found = [
            file
            async for files in self._files.list(folder_of(kind, sha1hex))
            for file in files
            if named_by(file.key) == (kind, sha1hex)
        ]
        return min(found, key=lambda file: file.key, default=None)

    async def read(self, file: StoredFile, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        """The bytes from `start` up to `stop`, or to the end, a piece at a time."""
        stop = file.size if stop is None else min(stop, file.size)
        while start < stop:
            piece = await self._files.read(file.key, start, min(start + self._files.piece_bytes, stop))
            start += len(piece)
            yield piece

    def list(self) -> AsyncIterator[Sequence[StoredFile]]:
        """Every file of the store, whatever it is, some at a time, in any order."""
        return self._files.list()

    async def aclose(self) -> None:
        await self._files.aclose()
