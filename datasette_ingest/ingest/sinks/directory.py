"""Directory: files in a folder. A file is written beside its place, made durable, and then moved there."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import islice

from ..errors import StoreError
from ..http.body import in_thread
from ..model import MIB
from .base import Content, pieces_of, size_of
from .layout import KINDS, UNFINISHED, StoredFile

LISTED_AT_ONCE = 1000
_HEX_BYTE = re.compile(r"[0-9a-f]{2}")
_NO_SYNC = frozenset({errno.EINVAL, errno.ENOTSUP, errno.ENOSYS})
"""What file systems say that cannot make a folder durable by itself."""


class Directory:
    """Files below the folder `root`, which is made if the one that holds it is there.

    Where a disk is unmounted while it is used, files are not written to the empty folder that is there then.
    """

    piece_bytes = 1 * MIB

    def __init__(self, root: str) -> None:
        self._root = root
        self._identity: tuple[int, int] | None = None
        self._durable: set[str] = set()
        """Folders that are in the folders that hold them, also after a crash."""

    async def prepare(self) -> None:
        def try_to_write() -> None:
            with self._told("written"):
                self._check_root()
                trial = os.path.join(self._root, _unfinished_name("trial"))
                try:
                    with open(trial, "xb") as file:
                        file.write(b"\0")
                        file.flush()
                        os.fsync(file.fileno())
                finally:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(trial)

        await in_thread(try_to_write)

    async def write(self, key: str, content: Content, *, is_fixed: bool) -> None:
        await in_thread(lambda: self._write(key, content, is_fixed))

    async def size(self, key: str) -> int | None:
        def look() -> int | None:
            with self._told("read"):
                return _file_size(self._path(key))

        return await in_thread(look)

    async def read(self, key: str, start: int, stop: int) -> bytes:
        def take() -> bytes:
            with self._told("read"), open(self._path(key), "rb", buffering=0) as file:
                file.seek(start)
                taken = bytearray()
                while len(taken) < stop - start and (piece := file.read(stop - start - len(taken))):
                    taken += piece
            if len(taken) < stop - start:
                raise StoreError(f"The file {key} of the store {self._root} is shorter than it was a moment ago")
            return bytes(taken)

        return await in_thread(take)

    async def list(self, folder: str = "") -> AsyncIterator[Sequence[StoredFile]]:
        walk = self._walk(folder)

        def some() -> list[StoredFile]:
            with self._told("read"):
                if not folder:
                    os.stat(self._root)  # one that is not there is no empty store
                return list(islice(walk, LISTED_AT_ONCE))

        while files := await in_thread(some):
            yield files

    async def aclose(self) -> None:
        """Nothing is open between calls."""

    # In a thread

    def _path(self, key: str) -> str:
        return os.path.join(self._root, *key.split("/"))

    def _check_root(self) -> None:
        """Make the root if it was never used and is missing, and see that it is not another folder since."""
        if self._identity is None:
            with contextlib.suppress(FileExistsError):
                os.mkdir(self._root)
                _sync_folder(os.path.dirname(self._root))
        found = os.stat(self._root)
        identity = found.st_dev, found.st_ino
        if self._identity not in (None, identity) and not any(map(os.path.isdir, map(self._path, KINDS))):
            raise StoreError(f"The store {self._root} is another, empty folder than before: was its disk unmounted?")
        self._identity = identity

    def _write(self, key: str, content: Content, is_fixed: bool) -> None:
        path, size = self._path(key), size_of(content)
        folder, name = os.path.split(path)
        with self._told("written"):
            self._check_root()
            self._make_folders(folder)
            if _file_size(path) == size and (is_fixed or _is_same(path, content)):
                # The process that wrote it may not have come to this, and a row is about to name the file.
                _sync_folder(folder)
                return
            beside = os.path.join(folder, _unfinished_name(name))
            try:
                with open(beside, "xb") as file:
                    for piece in pieces_of(content):
                        file.write(piece)
                    if file.tell() != size:
                        raise StoreError(
                            f"Of {size} bytes for {key} only {file.tell()} could be read; nothing was kept"
                        )
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(beside, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(beside)
                raise
            _sync_folder(folder)

    def _make_folders(self, folder: str) -> None:
        """Make the folders from the root to this one, each durable in the one that holds it."""
        if folder in self._durable and os.path.isdir(folder):
            return
        holder = self._root
        for part in os.path.relpath(folder, self._root).split(os.sep):
            inner = os.path.join(holder, part)
            with contextlib.suppress(FileExistsError):
                os.mkdir(inner)
            if inner not in self._durable:  # another process may have made it, and not come to this
                _sync_folder(holder)
                self._durable.add(inner)
            holder = inner

    def _walk(self, folder: str) -> Iterator[StoredFile]:
        """Every file. Folders that no store makes are not entered; each is listed as a file of no size."""
        depth = folder.count("/")
        for entry in _entries(self._path(folder)):
            key = folder + entry.name
            is_ours = (depth == 0 and entry.name in KINDS) or (0 < depth < 3 and _HEX_BYTE.fullmatch(entry.name))
            with contextlib.suppress(FileNotFoundError):  # moved or removed since
                found = entry.stat()
                if is_ours and stat.S_ISDIR(found.st_mode):
                    yield from self._walk(f"{key}/")
                else:
                    yield StoredFile(key, found.st_size if stat.S_ISREG(found.st_mode) else 0, found.st_mtime)

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """What the system says, as a StoreError."""
        try:
            yield
        except OSError as problem:
            raise StoreError(f"The store {self._root} cannot be {what}: {problem.strerror or problem}") from problem


def _unfinished_name(name: str) -> str:
    return f".{name}.{uuid.uuid4().hex[:16]}{UNFINISHED}"


def _file_size(path: str) -> int | None:
    """None where there is no file."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _is_same(path: str, content: Content) -> bool:
    """Whether the file, which has the size of the content, has its bytes."""
    with open(path, "rb") as file:
        return all(file.read(len(piece)) == piece for piece in pieces_of(content))


def _entries(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as found:
            return sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _sync_folder(path: str) -> None:
    """Make the names in a folder durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as problem:
        if problem.errno not in _NO_SYNC:
            raise
    finally:
        os.close(handle)
