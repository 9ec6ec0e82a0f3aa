"""Content-Encoding: labels that are right, wrong, missing, doubled, and bodies that are bombs."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tracemalloc
import zlib
from typing import Any

import brotli
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from datasette_ingest.ingest.errors import BadEncoding, BadGzipEncoding, BodyTooLarge, IngestError, TruncatedBody
from datasette_ingest.ingest.files import JSON, TEXT, UNKNOWN, sniff
from datasette_ingest.ingest.http.body import BodyWriter, Spool
from datasette_ingest.ingest.http.decode import Decoder

from ..origin import PDF, Origin, gzipped, reply

MIB = 1024 * 1024


def decode(data: bytes, *labels: str, step: int | None = None, limit: int = 1000, keep_gzip: bool = False) -> bytes:
    decoder = Decoder(labels, keep_gzip=keep_gzip)
    out = b""
    for start in range(0, len(data), step or len(data) or 1):
        decoder.feed(data[start : start + (step or len(data))])
        while piece := decoder.read(limit):
            assert len(piece) <= limit
            out += piece
    decoder.close()
    while piece := decoder.read(limit):
        out += piece
    decoder.finish(size=len(out))
    return out


def raw_deflate(data: bytes) -> bytes:
    squeezer = zlib.compressobj(wbits=-15)
    return squeezer.compress(data) + squeezer.flush()


PROSE = b"The quick brown fox. " * 200


@pytest.mark.parametrize("step", [None, 1, 13])
@pytest.mark.parametrize(
    ("data", "labels"),
    [
        (PDF, []),
        (PDF, ["identity"]),
        (PDF, ["gzip"]),
        (PDF, ["deflate"]),
        (gzipped(PDF), ["gzip"]),
        (gzipped(PDF), ["x-gzip"]),
        (gzipped(PDF), ["deflate"]),
        (gzipped(PDF), []),
        (gzipped(gzipped(PDF)), ["gzip"]),
        (gzipped(gzipped(PDF)), ["gzip", "gzip"]),
        (gzipped(zlib.compress(PDF)), ["deflate", "gzip"]),
        (zlib.compress(PDF), ["deflate"]),
        (raw_deflate(PDF), ["deflate"]),
        (gzipped(PDF) + b"junk after the end", ["gzip"]),
        (gzipped(PDF[:20]) + gzipped(PDF[20:]), ["gzip"]),
        (gzipped(PDF) + b"\0" * 100, []),
    ],
)
def test_a_body_is_what_was_packed_whatever_the_label_says(data: bytes, labels: list[str], step: int | None) -> None:
    assert decode(data, *labels, step=step) == PDF


def test_a_gz_file_that_is_meant_as_one_stays_packed() -> None:
    packed = gzipped(PDF)
    assert decode(packed, keep_gzip=True) == packed
    assert decode(gzipped(packed), "gzip", keep_gzip=True) == packed


@pytest.mark.parametrize("labels", [["gzip"], []])
def test_gzip_that_ends_early_is_truncated(labels: list[str]) -> None:
    with pytest.raises(TruncatedBody):
        decode(gzipped(PROSE)[:-20], *labels)


def test_gzip_that_is_broken_inside_is_bad_gzip() -> None:
    packed = bytearray(gzipped(PROSE))
    packed[20:30] = b"\xff" * 10
    with pytest.raises(BadGzipEncoding):
        decode(bytes(packed), "gzip")


def test_undeclared_gzip_of_nothing_is_bad_gzip() -> None:
    with pytest.raises(BadGzipEncoding):
        decode(gzipped(b""))


@pytest.mark.parametrize("labels", [["x-secret"], ["gzip"] * 6])
def test_unknown_and_endless_encodings_are_refused(labels: list[str]) -> None:
    with pytest.raises(BadEncoding):
        Decoder(labels)


@given(st.binary(max_size=3000), st.integers(1, 300), st.integers(1, 500), st.sampled_from(["gzip", "deflate", "raw"]))
def test_whatever_is_packed_comes_back_however_it_is_cut(data: bytes, step: int, limit: int, how: str) -> None:
    pack = {"gzip": gzipped, "deflate": zlib.compress, "raw": raw_deflate}[how]
    packed = pack(data)
    # Raw deflate has no mark; where its bytes are by chance a file's, nobody could tell.
    assume(how != "raw" or sniff(packed) in (UNKNOWN, TEXT, JSON))
    # Random bytes may begin as gzip themselves.
    assume(not data.startswith(b"\x1f\x8b"))
    assert decode(packed, "gzip" if how == "gzip" else "deflate", step=step, limit=limit) == data


@given(st.binary(max_size=300), st.lists(st.sampled_from(["gzip", "deflate", "br", "zstd"]), max_size=3))
def test_no_bytes_under_any_label_do_anything_but_decode_or_be_refused(data: bytes, labels: list[str]) -> None:
    try:
        decode(data, *labels)
    except (BadEncoding, BadGzipEncoding, TruncatedBody):
        return


async def receive(data: bytes, *labels: str) -> str | int:
    """The size of a decoded body, or the slug of why there is none."""
    spool = Spool(None, 256 * MIB)
    writer = None
    try:
        writer = BodyWriter(Decoder(labels), spool, max_bytes=128 * MIB, expected=len(data))
        for start in range(0, len(data), 65536):
            writer.take(data[start : start + 65536])
            await writer.drain()
        body = await writer.finish()
    except IngestError as error:
        return error.status
    finally:
        if writer is not None:
            writer.abandon()
    body.close()
    assert spool.used == 0
    return body.size


VERDICTS: dict[str, tuple[list[str], str | int]] = {
    "bomb-br.bin": (["br"], "body-too-large"),
    "bomb-deflate.bin": (["deflate"], "body-too-large"),
    "bomb-gzip.bin": (["gzip"], "body-too-large"),
    "bomb-zstd.bin": (["zstd"], "body-too-large"),
    "feed-sample1.tar": ([], 20480),
    "feed-sample1.xml": ([], 9950),
    "feed-sample1.xml.bz2": ([], 1430),
    "feed-sample1.xml.gz": ([], 9950),
    "feed-sample1.zip": ([], 1260),
    "html-br.bin": (["br"], 27_000),
    "html-gzip-deflate-gzip.bin": (["gzip", "deflate", "gzip"], 27_000),
    "html-gzip-deflate.bin": (["deflate", "gzip"], 27_000),
    "html-gzip.bin": (["gzip"], 27_000),
    "html-rawdeflate.bin": (["deflate"], 27_000),
    "html-zlibdeflate.bin": (["deflate"], 27_000),
    "html-zstd-static-content-size.bin": (["zstd"], 27_000),
    "html-zstd-static-no-content-size.bin": (["zstd"], 27_000),
    "html-zstd-streaming-no-content-size.bin": (["zstd"], 27_000),
    "truncated-crc-error-short.gz": (["gzip"], "truncated-body"),
    "truncated-crc-error.gz": (["gzip"], "truncated-body"),
    "unexpected-eof-output.txt": ([], 16782),
    "unexpected-eof.gz": (["gzip"], "truncated-body"),
}


@pytest.mark.parametrize("name", VERDICTS)
async def test_real_compressed_bodies_end_with_the_right_verdict_in_little_memory(
    fixtures: pathlib.Path, name: str
) -> None:
    data = (fixtures / "compressed" / name).read_bytes()
    labels, expected = VERDICTS[name]
    tracemalloc.start()
    try:
        found = await receive(data, *labels)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 * MIB
    if isinstance(expected, int) and expected == 27_000:
        assert isinstance(found, int) and found > 20_000
    else:
        assert found == expected


WITHOUT_LIBRARIES = """
import sys
sys.modules["brotli"] = sys.modules["zstandard"] = None
from datasette_ingest.ingest.errors import BadEncoding
from datasette_ingest.ingest.http.decode import OFFERED, Decoder
for label, magic in (("br", b""), ("zstd", b"\\x28\\xb5\\x2f\\xfd")):
    decoder = Decoder([label])
    decoder.feed(magic + bytes(64))
    try:
        decoder.read(1)
    except BadEncoding as error:
        print(error)
print(OFFERED.decode())
"""


def test_without_their_libraries_brotli_and_zstd_are_not_offered_and_the_error_names_the_extra() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_LIBRARIES], capture_output=True, text=True, check=True)
    *errors, offered = done.stdout.splitlines()
    assert offered == "gzip, deflate"
    assert len(errors) == 2 and all("pip install 'datasette-ingest[compression]'" in error for error in errors)


async def test_what_can_be_decoded_is_offered(ingest: Any) -> None:
    async with Origin({"/p.pdf": reply(brotli.compress(PDF), headers={"Content-Encoding": "br"})}) as site:
        assert (await ingest(site.url("/p.pdf"))).hit
    assert site.requests[0].headers["accept-encoding"] == "gzip, deflate, br, zstd"


async def test_an_announced_length_beyond_the_limit_is_refused_before_a_byte_is_read() -> None:
    with pytest.raises(BodyTooLarge):
        BodyWriter(Decoder([]), Spool(None, MIB), max_bytes=100, expected=101)
