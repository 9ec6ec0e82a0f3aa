"""A body costs what its bytes cost, however few of them come at once."""

from __future__ import annotations

import gzip
import random
import tracemalloc
from collections.abc import Iterable

import pytest

from datasette_ingest.ingest.http.body import BodyWriter, Spool
from datasette_ingest.ingest.http.decode import Decoder

SIZE = 300_000


async def received(pieces: Iterable[bytes], *encodings: str) -> bytes:
    writer = BodyWriter(Decoder(encodings), Spool(None, 2**30), max_bytes=2**26, expected=None)
    for piece in pieces:
        writer.take(piece)
        if writer.backlogged:
            await writer.drain()
    body = await writer.finish()
    try:
        return body.read()
    finally:
        body.close()


@pytest.mark.parametrize("step", [1, 2, 3, 100])
@pytest.mark.parametrize("encoding", [None, "gzip"])
async def test_tiny_pieces_take_no_more_memory_than_their_bytes(step: int, encoding: str | None) -> None:
    content = random.Random(1).randbytes(SIZE)
    sent = content if encoding is None else gzip.compress(content)
    tracemalloc.start()
    try:
        found = await received(
            (sent[at : at + step] for at in range(0, len(sent), step)), *[encoding] if encoding else []
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == content
    assert peak < 4 * SIZE + 300_000  # the body, a copy of it, and what a bytearray keeps in reserve


async def test_a_large_body_in_tiny_pieces_goes_to_disk_whole() -> None:
    content = random.Random(2).randbytes(2_200_000)
    found = await received(content[at : at + 7] for at in range(0, len(content), 7))
    assert found == content


async def test_members_of_one_byte_are_one_body() -> None:
    assert await received([gzip.compress(b"x") * 20_000], "gzip") == b"x" * 20_000
