"""A kept file as an open Body, to be read like one that was just fetched."""

from __future__ import annotations

from ..errors import IngestError, StoreError
from ..http.body import Body, BodyWriter, Spool
from ..http.decode import Decoder
from .kept import KeptFiles
from .layout import StoredFile


class Damaged(Exception):
    """A kept file has other bytes than its name says."""


async def open_kept(kept: KeptFiles, file: StoredFile, sha1hex: str, spool: Spool) -> Body:
    """The file's bytes: in memory, or in the spool if they are many. Whoever gets it closes it.

    :raises Damaged: when they are not those of the SHA-1
    :raises StoreError: when the store cannot be read
    """
    writer = BodyWriter(Decoder([], keep_gzip=True), spool, max_bytes=max(file.size, 1), expected=file.size)
    try:
        async for piece in kept.read(file):
            writer.take(piece)
            if writer.backlogged:
                await writer.drain()
        body = await writer.finish()
    except StoreError:
        raise
    except IngestError as problem:
        raise Damaged(f"the kept file {file.key} is damaged: {problem}") from problem
    finally:
        writer.abandon()
    if (await body.digests()).sha1hex != sha1hex:
        body.close()
        raise Damaged(f"the kept file {file.key} is damaged: its SHA-1 is another one")
    return body
