"""Kept files and pictures of first pages, for those who may read the results.

What strangers' servers sent is shown by the browser only where it is a PDF; all else is a download of no type. Only what
the tables of the database name is looked for, so that nobody learns what other databases keep.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import sqlite3
import weakref
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from datasette.utils.asgi import AsgiStream

from ... import compat, settings
from ...jobs.errors import JobError
from ...text import counted
from ...web import access, requests
from ...web.parts import asked_for
from ..errors import StoreError
from ..files import EXTENSIONS, HEAD_BYTES, PDF, TAIL_BYTES, UNKNOWN, sniff
from ..sinks import KeptFiles, store_of
from ..sinks.layout import BODY
from ..store import bodies

log = logging.getLogger(__name__)

PICTURES = frozenset({"image/png", "image/jpeg", "image/webp"})
SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cache-Control": "private",
}
KEPT_SECONDS = 1.0
"""How long a page waits for the store to say which of its files are kept."""
_SHA1 = re.compile(r"[0-9a-f]{40}")
_STORES: weakref.WeakKeyDictionary[Any, KeptFiles | None] = weakref.WeakKeyDictionary()

T = TypeVar("T")


class NotKept(JobError):
    """No file of that SHA-1, or none that this database names."""

    status = 404


class StoreUnavailable(JobError):
    """The store cannot be read now."""

    status = 503


@dataclass(frozen=True)
class File:
    """What is answered with.

    :param pieces: (start, stop) -> the bytes from `start` up to `stop`
    :param is_shown: whether a browser may show it
    """

    name: str
    mimetype: str
    size: int
    digest: str
    pieces: Callable[[int, int], AsyncIterator[bytes]]
    is_shown: bool


async def body(datasette: Any, request: Any) -> AsgiStream:
    sha1hex, known = await _found(datasette, request, bodies.BODIES, bodies.named_body)
    try:
        file = await _kept(_store(datasette), sha1hex, known)
    except StoreError as problem:
        log.error("%s", problem)
        raise StoreUnavailable("Kept files cannot be read now. The server's log says why") from problem
    return _answer(request, file)


async def thumbnail(datasette: Any, request: Any) -> AsgiStream:
    sha1hex, picture = await _found(datasette, request, bodies.THUMBNAILS, bodies.thumbnail)

    async def pieces(start: int, stop: int) -> AsyncIterator[bytes]:
        yield picture[start:stop]

    digest = hashlib.sha1(picture, usedforsecurity=False).hexdigest()
    mimetype = sniff(picture[:HEAD_BYTES], picture[-TAIL_BYTES:])
    return _answer(request, File(sha1hex, mimetype, len(picture), digest, pieces, mimetype in PICTURES))


async def _found(
    datasette: Any, request: Any, names: tuple[str, ...], find: Callable[[Any, Sequence[str], str], T | None]
) -> tuple[str, T]:
    """(the SHA-1 of the address, what the tables of the database have under it)

    :raises NotAllowed: for those who may not read the results, whatever the SHA-1
    :raises NotKept: where no table names it
    """
    requests.require_method(request, "GET")
    database, sha1hex = requests.database_of(datasette, request), request.url_vars["sha1"].lower()
    await access.require_results(datasette, request.actor, database, ())
    db = datasette.databases[database]

    def look(conn: sqlite3.Connection) -> tuple[list[str], T | None]:
        tables = bodies.standing(conn, names)
        return tables, find(conn, tables, sha1hex) if _SHA1.fullmatch(sha1hex) else None

    tables, found = await compat.read(db, look)
    await access.require_results(datasette, request.actor, database, tables)
    if found is None:
        raise NotKept("No file of this database has that SHA-1")
    return sha1hex, found


async def kept_among(datasette: Any, files: Mapping[str, str | None]) -> set[str]:
    """Those of these files, SHA-1 -> type, that are kept, as far as the store says so in time."""
    store = _store(datasette)
    if store is None or not files:
        return set()
    asked = [store.find(BODY, sha1hex, mimetype) for sha1hex, mimetype in files.items()]
    try:
        found = await asyncio.wait_for(asyncio.gather(*asked), KEPT_SECONDS)
    except (StoreError, asyncio.TimeoutError, TimeoutError) as problem:
        log.warning("whether files are kept is not known now: %s", problem or "the store does not answer")
        return set()
    return {sha1hex for sha1hex, file in zip(files, found, strict=True) if file is not None}


def _store(datasette: Any) -> KeptFiles | None:
    if datasette not in _STORES:
        _STORES[datasette] = store_of(settings.load(compat.plugin_config(datasette)), is_waited_for=True)
    return _STORES[datasette]


async def _kept(store: KeptFiles | None, sha1hex: str, known: bodies.NamedBody) -> File:
    kept = None if store is None else await store.find(BODY, sha1hex, known.mimetype)
    if store is None or kept is None:
        raise NotKept("This file is not kept")
    if known.size not in (None, kept.size):
        raise NotKept(f"The kept file is damaged: it has {counted(kept.size, 'byte')}, not {known.size}")
    head = await _bytes(store.read(kept, 0, HEAD_BYTES))
    tail = await _bytes(store.read(kept, max(0, kept.size - TAIL_BYTES)))
    mimetype = sniff(head, tail)
    return File(sha1hex, mimetype, kept.size, sha1hex, partial(store.read, kept), mimetype == PDF)


async def _bytes(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


def _answer(request: Any, file: File) -> AsgiStream:
    """The part of the file that is asked for, sent while it is read, until the client disconnects."""
    etag = f'"{file.digest}"'
    part = asked_for(request.method, request.headers, file.size, etag)

    async def write(writer: Any) -> None:
        if request.method == "HEAD" or part.start == part.stop:
            return
        leaving = asyncio.ensure_future(requests.disconnected(request))
        try:
            async for piece in file.pieces(part.start, part.stop):
                if leaving.done():
                    return
                await writer.send({"type": "http.response.body", "body": piece, "more_body": True})
        finally:
            leaving.cancel()

    name = f"{file.name}{EXTENSIONS[file.mimetype]}"
    shown = "inline" if file.is_shown else "attachment"
    headers = {**SAFE, "ETag": etag, "Content-Disposition": f'{shown}; filename="{name}"', **part.headers(file.size)}
    return AsgiStream(write, part.status, headers, content_type=file.mimetype if file.is_shown else UNKNOWN)
