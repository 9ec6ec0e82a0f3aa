"""A kept file as an open Body, to be read like one that was just fetched."""

from __future__ import annotations

from ..files import HEAD_BYTES, TAIL_BYTES, Digester
from ..http.body import SPILL_BYTES, Body, Spool, in_thread
from .kept import KeptFiles
from .layout import StoredFile


async def open_kept(kept: KeptFiles, file: StoredFile, spool: Spool) -> Body:
    """The file's bytes: in memory, or in the spool if they are many. Whoever gets it closes it.

    :raises StoreError: when the store cannot be read
    """
    if file.size <= SPILL_BYTES:
        return Body(pieces=[piece async for piece in kept.read(file)], size=file.size)
    reserved = await spool.reserve(file.size)
    disk, digester, head, tail = spool.open(), Digester(), b"", b""
    try:
        async for piece in kept.read(file):

            def write(piece: bytes = piece) -> None:
                disk.write(piece)
                digester.update(piece)

            await in_thread(write)
            head, tail = (head + piece[:HEAD_BYTES])[:HEAD_BYTES], (tail + piece)[-TAIL_BYTES:]
        await in_thread(disk.flush)
    except BaseException:
        disk.close()
        spool.release(reserved)
        raise
    return Body(
        file=disk,
        size=file.size,
        digests=digester.result(),
        head=head,
        tail=tail,
        release=lambda: spool.release(reserved),
    )
