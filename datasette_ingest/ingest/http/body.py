"""A response's body: decoded as it arrives, kept in memory or on disk, within limits of size and ratio."""

from __future__ import annotations

import asyncio
import copy
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, TypeVar

from ..errors import BadGzipEncoding, BodyTooLarge, EmptyBlob
from ..files import HEAD_BYTES, TAIL_BYTES, UNKNOWN, Digester, Digests, digest, sniff
from ..model import MIB
from .budget import Budget
from .decode import Decoder

SPILL_BYTES = 2 * MIB
"""Larger bodies go to disk."""
INLINE_BYTES = 256 * 1024
"""Work on fewer bytes than this is done on the event loop; a thread would cost more than it saves."""
BACKLOG_BYTES = 1 * MIB
"""Bytes that may wait to be written before `backlogged` is true."""
RATIO_FREE_BYTES = 8 * MIB
MAX_RATIO = 200
"""Most decoded bytes for each received byte, once RATIO_FREE_BYTES are decoded: text has 20 at most, bombs 1,000."""
_READ = 1 * MIB

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Run CPU or disk work in a thread. If the caller is cancelled, CancelledError is raised when the work has ended.

    A thread cannot be stopped, and the caller must not close the file that it still writes.
    """
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
        raise


class Spool(Budget):
    """Disk space for large bodies, shared by all fetches. A body reserves all that it may need before its first byte.

    If bodies reserved bit by bit, half-written ones could wait for each other for ever.
    """

    def __init__(self, directory: str | None, max_bytes: int) -> None:
        super().__init__(max_bytes)
        self._directory = directory

    def open(self) -> BinaryIO:
        """A temporary file without a name: the system deletes it when it is closed or the process ends."""
        return tempfile.TemporaryFile(dir=self._directory, prefix="datasette-ingest-")


class Body:
    """A complete, decoded body. Each holder has its own handle and closes it; the last one to close frees the disk."""

    def __init__(
        self,
        *,
        pieces: Sequence[bytes] = (),
        file: BinaryIO | None = None,
        size: int,
        digests: Digests | None = None,
        head: bytes = b"",
        tail: bytes = b"",
        release: Callable[[], None] | None = None,
    ) -> None:
        self.size = size
        self.is_cut = False
        """Whether it is only the first bytes of a longer one."""
        self._data = b"".join(pieces) if file is None else None
        self._file = file
        self._digests = digests
        self._holders = _Holders()
        self._open = True
        self.head = head if self._data is None else self._data[:HEAD_BYTES]
        self.tail = tail if self._data is None else self._data[-TAIL_BYTES:]
        self.mimetype = sniff(self.head, self.tail)
        self._finalizer: weakref.finalize[[BinaryIO, Callable[[], None] | None], _Holders] | None = None
        if file is not None:
            self._finalizer = weakref.finalize(self._holders, _close, file, release)
            self._finalizer.atexit = False

    @property
    def path(self) -> str | None:
        """Where other processes of this user can open it while this handle is open; None where it is in memory, or where the
        system has no such paths."""
        if self._file is None or not os.path.isdir("/proc/self/fd"):
            return None
        return f"/proc/{os.getpid()}/fd/{self._file.fileno()}"

    async def digests(self) -> Digests:
        """The three digests and the size. Computed once; available after `close` as well."""
        if self._digests is None:
            data = self._data or b""
            if len(data) <= INLINE_BYTES:
                self._digests = digest([data])
            else:
                self._digests = await in_thread(lambda: digest([data]))
        return self._digests

    def read(self, limit: int | None = None) -> bytes:
        """The body, or its first `limit` bytes."""
        if self._data is not None:
            return self._data if limit is None else self._data[:limit]
        return b"".join(self.pieces(limit))

    def pieces(self, limit: int | None = None) -> Iterator[bytes]:
        """The body, or its first `limit` bytes, piece by piece. Reads from disk: iterate in a thread if it is large."""
        if self._file is None:
            yield self._data or b""
            return
        # pread, so that two readers of a shared body keep their own positions.
        position, handle, end = 0, self._file.fileno(), self.size if limit is None else min(limit, self.size)
        while position < end and (piece := os.pread(handle, min(_READ, end - position), position)):
            position += len(piece)
            yield piece

    def share(self) -> Body:
        """A handle for another holder."""
        handle = copy.copy(self)
        handle._open = True
        self._holders.count += 1
        return handle

    def close(self) -> None:
        """Close this handle. May be called more than once."""
        if not self._open:
            return
        self._open = False
        self._holders.count -= 1
        if self._holders.count == 0 and self._finalizer is not None:
            self._finalizer()


class _Holders:
    def __init__(self) -> None:
        self.count = 1


def _close(file: BinaryIO, release: Callable[[], None] | None) -> None:
    file.close()
    if release is not None:
        release()


class BodyWriter:
    """Makes a Body of received bytes. `take` does not wait; while `backlogged` is true, call `drain` before more.

    Raises BodyTooLarge, BadEncoding, BadGzipEncoding or TruncatedBody as soon as the bytes show it. `max_bytes` limits
    the received and the decoded bytes; `expected` is the announced length. `cut`: of a longer body the first `max_bytes` are
    taken, and `full` is true when no more are wanted.
    """

    def __init__(
        self, decoder: Decoder, spool: Spool, *, max_bytes: int, expected: int | None, cut: bool = False
    ) -> None:
        self._decoder = decoder
        self._spool = spool
        self._max_bytes = max_bytes
        self._expected = expected
        self._cut = cut
        self.full = False
        self._held = bytearray()  # not a list: objects for single bytes take many times their size
        self._size = 0
        self._received = 0
        self._reserved = 0
        self._file: BinaryIO | None = None
        self._digester: Digester | None = None
        self._head = b""
        self._tail = b""
        if expected is not None and expected > max_bytes and not cut:
            raise BodyTooLarge(f"the body announces {expected} bytes; {max_bytes} are allowed")

    @property
    def backlogged(self) -> bool:
        return (
            len(self._held) > SPILL_BYTES
            or (self._file is not None and len(self._held) > BACKLOG_BYTES)
            or self._behind
        )

    @property
    def _behind(self) -> bool:
        return self._decoder.waiting > 0 and not self.full

    def take(self, data: bytes) -> None:
        """Take received bytes."""
        if self._cut and self._received + len(data) > self._max_bytes:
            data, self.full = data[: self._max_bytes - self._received], True
        self._received += len(data)
        if self._received > self._max_bytes:
            raise BodyTooLarge(f"the body is longer than the {self._max_bytes} bytes allowed")
        behind = self._behind
        self._decoder.feed(data)
        if not behind:
            self._decode(INLINE_BYTES if self._decoder.packed else len(data))

    async def drain(self) -> None:
        """Decode what was taken, and write it to disk if it is much."""
        while self._behind or len(self._held) > SPILL_BYTES or (self._file is not None and self._held):
            if len(self._held) > SPILL_BYTES or self._file is not None:
                await self._spill()
            if self._behind:
                await in_thread(lambda: self._decode(BACKLOG_BYTES))

    async def finish(self) -> Body:
        """Return the Body after its last byte was taken. Raises what only the end shows: TruncatedBody, EmptyBlob."""
        if not self.full:
            self._decoder.close()
        if self._decode(INLINE_BYTES) >= INLINE_BYTES:
            while await in_thread(lambda: self._decode(BACKLOG_BYTES)):
                await self.drain()
        if not self.full:
            self._decoder.finish(size=self._size)
        if self._size == 0:
            raise EmptyBlob("the body is empty")
        if self._file is None and len(self._held) <= SPILL_BYTES:
            body = Body(pieces=[bytes(self._held)], size=self._size)
        else:
            await self._spill()
            body = self._spilled()
        body.is_cut = self.full
        if self._decoder.mislabelled == "gzip" and body.mimetype == UNKNOWN:
            body.close()
            raise BadGzipEncoding("the body is labelled gzip, but is neither gzip nor a known file type")
        return body

    def abandon(self) -> None:
        """Drop what was taken, unless `finish` returned it. May be called more than once."""
        file, self._file = self._file, None
        self._held.clear()
        if file is not None:
            file.close()
        reserved, self._reserved = self._reserved, 0
        if reserved:
            self._spool.release(reserved)

    def _decode(self, budget: int) -> int:
        """Decode about `budget` bytes and return how many."""
        done = 0
        while done < budget and (piece := self._decoder.read(min(budget - done, _READ))):
            done += len(piece)
            self._size += len(piece)
            if self._cut and self._size > self._max_bytes:
                self._held += piece[: len(piece) - (self._size - self._max_bytes)]
                self._size, self.full = self._max_bytes, True
                return 0
            if self._size > self._max_bytes:
                raise BodyTooLarge(f"the body decompresses to more than the {self._max_bytes} bytes allowed")
            if self._size > RATIO_FREE_BYTES and self._size > MAX_RATIO * self._received:
                raise BodyTooLarge(f"the body decompresses to more than {MAX_RATIO} times its size")
            self._held += piece
        return done

    async def _spill(self) -> None:
        if self._file is None:
            plain = self._expected is not None and not self._decoder.packed
            wanted = self._expected if plain and self._expected is not None else self._max_bytes
            self._reserved = await self._spool.reserve(wanted)
            self._file = self._spool.open()
        if self._size > self._reserved:
            raise BodyTooLarge("the body is larger than all of max_spool_bytes")
        held, self._held = bytes(self._held), bytearray()
        file = self._file
        await in_thread(lambda: self._write(file, held))

    def _write(self, file: BinaryIO, piece: bytes) -> None:
        digester = self._digester = self._digester or Digester()
        file.write(piece)
        digester.update(piece)
        if len(self._head) < HEAD_BYTES:
            self._head = (self._head + piece)[:HEAD_BYTES]
        self._tail = (self._tail + piece[-TAIL_BYTES:])[-TAIL_BYTES:]
        file.flush()

    def _spilled(self) -> Body:
        file, self._file = self._file, None
        digester, self._digester = self._digester or Digester(), None
        reserved, self._reserved = self._reserved, 0
        spool, size = self._spool, self._size
        spool.release(reserved - size)
        return Body(
            file=file,
            size=size,
            digests=digester.result(),
            head=self._head,
            tail=self._tail,
            release=lambda: spool.release(size),
        )
