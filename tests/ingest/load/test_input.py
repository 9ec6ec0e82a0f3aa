"""Bad input: what was good is loaded, what was not is named with its line."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from datasette_ingest.ingest.load.lines import LONGEST_LINE, blocks
from datasette_ingest.ingest.load.stream import CHUNK, Gzip, Zstd

from .kit import lines, load, place, request, unpaywall

MANY = lines(*(request(number) for number in range(1, 20_001)))
"""More than a chunk of lines."""


def zstd(content: bytes) -> bytes:
    return zstandard.compress(content)


@pytest.mark.parametrize(
    "compress",
    [
        bytes,
        gzip.compress,
        zstd,
        lambda content: gzip.compress(content[:700_000]) + gzip.compress(content[700_000:]) + bytes(512),
        lambda content: zstd(content[:700_000]) + b"\x50\x2a\x4d\x18\x02\0\0\0ab" + zstd(content[700_000:]),
    ],
    ids=["plain", "gzip", "zstd", "gzip members and padding", "zstd frames"],
)
def test_compression_is_recognised_by_content(compress: Callable[[bytes], bytes], tmp_path: Path) -> None:
    (path := tmp_path / "requests").write_bytes(compress(MANY))
    assert load(path).rows == load(compress(MANY)).rows
    assert load(path).urls == [f"http://h/{number}.pdf" for number in range(1, 20_001)]


@pytest.mark.parametrize("compress", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_a_cut_file_keeps_the_lines_before_the_cut(compress: Callable[[bytes], bytes]) -> None:
    packed = compress(MANY)
    loaded = load(packed[: len(packed) * 3 // 4])
    assert loaded.stopped is not None
    number = len(loaded.rows)
    assert 5_000 < number < 20_000
    assert loaded.urls == [f"http://h/{n}.pdf" for n in range(1, number + 1)]
    assert f"standard input, line {number + 1:,}: " in loaded.stopped
    assert "is cut" in loaded.stopped


@pytest.mark.parametrize("compress", [gzip.compress, zstd], ids=["gzip", "zstd"])
def test_a_corrupt_file_keeps_the_lines_before_the_fault(compress: Callable[[bytes], bytes]) -> None:
    packed = bytearray(compress(MANY[: len(MANY) // 2]) + compress(MANY[len(MANY) // 2 :]))
    packed[len(packed) * 3 // 4 : len(packed) * 3 // 4 + 40] = bytes(40)
    loaded = load(bytes(packed))
    assert loaded.stopped is not None and "corrupt" in loaded.stopped
    assert len(loaded.rows) >= 9_000 and not loaded.refused


def test_what_follows_gzip_and_is_no_gzip_is_corrupt() -> None:
    loaded = load(gzip.compress(MANY) + b"garbage")
    assert len(loaded.rows) == 20_000
    assert loaded.stopped == (
        "standard input, line 20,001: corrupt gzip data: something else follows the compressed content"
    )


def test_a_last_line_that_ends_within_a_value_is_a_cut() -> None:
    loaded = load(lines(request(1), request(2))[:-20])
    assert loaded.urls == ["http://h/1.pdf"]
    assert loaded.stopped == "standard input, line 2: the line is cut: the file ends within it"
    assert load(lines(request(1), request(2))[:-1]).stopped is None


def _zip(content: bytes) -> bytes:
    with zipfile.ZipFile(packed := io.BytesIO(), "w") as archive:
        archive.writestr("requests.jsonl", content)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "it is empty"),
        (b" \n\r\n\n", "it is empty"),
        (gzip.compress(b"", mtime=0), "it is empty"),
        (b"\xef\xbb\xbf", "it is empty"),
        (bz2.compress(MANY), "it is compressed with bzip2. Load it with: bzcat - | datasette ingest load DB - …"),
        (lzma.compress(MANY), "it is compressed with xz. Load it with: xzcat - |"),
        (_zip(MANY), "it is a zip archive. Load it with: unzip -p - |"),
        (gzip.compress(bz2.compress(MANY)), "it is compressed with bzip2"),
        (b"SQLite format 3\0" + bytes(84), "it is a SQLite database: to load from the database itself, give --sql"),
        (b"PAR1" + bytes(90), "it is a Parquet file: convert it to CSV or JSON lines first"),
        (MANY[:1000].decode().encode("utf-16"), "it is text in UTF-16"),
        (lines([request()]), "it is not jsonl: it looks like one JSON array, where each line must be an object"),
        (json.dumps([request()], indent=1).encode(), "it is not jsonl: it looks like one JSON array"),
        (json.dumps(request(), indent=1).encode(), "it is not jsonl: it looks like one JSON object over many lines"),
        (b"<html>\n</html>\n", "it is not jsonl: it looks like XML or HTML"),
        (lines(unpaywall("10.1/a")), "it is not jsonl: it looks like unpaywall (--format unpaywall)"),
        (lines({"id": "https://openalex.org/W1"}), "it is not jsonl: it looks like openalex (--format openalex)"),
        (lines({"request": request(), "status": "success"}), "it is not jsonl: it looks like results"),
        (b"url,doi\nhttp://h/1,10.1/a\n", "it is not jsonl: it looks like csv (--format csv)"),
        (b"url\tdoi\nhttp://h/1\t10.1/a\n", "it is not jsonl: it looks like tsv (--format tsv)"),
        (b"\x00\x01\x02\x03\x04\x05\x06\x07\x08", "it is not jsonl: its first lines are no JSON"),
        (lines({"a": 1}), "it is not jsonl: its first lines are JSON of no format that is known here"),
        (b"[" * 100_000 + b"\n", "it is not jsonl: it looks like one JSON array"),
    ],
)
def test_a_file_of_another_kind_is_refused_in_one_sentence(content: bytes, said: str) -> None:
    loaded = load(content)
    assert loaded.stopped is not None and said in loaded.stopped
    assert "\n" not in loaded.stopped
    assert not loaded.rows


@pytest.mark.parametrize("format", ["unpaywall", "openalex", "results", "csv", "tsv"])
def test_every_format_names_what_a_file_looks_like_instead(format: str) -> None:
    loaded = load(lines(request()), format)
    assert loaded.stopped is not None and f"it is not {format}: it looks like jsonl (--format jsonl)" in loaded.stopped


def test_good_lines_around_bad_ones_are_loaded() -> None:
    bad = [
        b'{"base_url": "http://h/\xff.pdf", "source_id": "1"}',
        b"\x00\x00\x00",
        b"null",
        b'{"a": ' * 50_000,
        b'{"base_url": "http://h/2.pdf", "source_id": "1"',
        b'{"base_url": "http://h/2.pdf", "source_id": "1"} {}',
        b'{"base_url": "http://h/2.pdf", "source_id": NaN}',
        request(9, title="\xff".encode("latin-1").decode("latin-1"), base_url=[]),
    ]
    loaded = load(lines(request(1), *bad, b"", b"  \r", request(2)))
    assert loaded.urls == ["http://h/1.pdf", "http://h/2.pdf"]
    assert loaded.refused_lines == list(range(2, 10))
    assert loaded.refused[0][1] == "not UTF-8"


def test_bytes_that_are_not_utf8_are_refused_wherever_they_stand() -> None:
    title = lines(unpaywall("10.1/a", place(url_for_pdf="http://h/1.pdf"))).replace(b"Herons", b"H\xe9rons")
    loaded = load(title + lines(unpaywall("10.1/b", place(url_for_pdf="http://h/2.pdf"), title="Hérons")), "unpaywall")
    assert (loaded.urls, loaded.refused) == (["http://h/2.pdf"], [(1, "not UTF-8")])


def test_line_ends_and_a_byte_order_mark_do_not_matter() -> None:
    content = b"\xef\xbb\xbf" + lines(request(1), request(2)).replace(b"\n", b"\r\n")
    assert load(content).rows == load(lines(request(1), request(2))).rows


def test_a_line_that_is_too_long_is_passed_over_in_little_memory() -> None:
    piece = b"x" * CHUNK
    chunks = [lines(request(1)), b'{"a": "', *[piece] * 100, b'"}\n' + lines(request(2))]
    held = 0
    found = []
    for block in blocks(chunks):
        held = max(held, sum(map(len, block.lines)))
        found += [(block.first + place, line, block.bad.get(place)) for place, line in enumerate(block.lines)]
    assert held < 1000
    assert [(number, bad) for number, _, bad in found] == [
        (1, None),
        (2, f"longer than {LONGEST_LINE:,} bytes"),
        (3, None),
    ]


def test_a_line_may_be_as_long_as_is_read_and_no_longer() -> None:
    fits, is_too_long = b"x" * 100, b"x" * 101
    content = b"\n".join([fits, is_too_long, fits, is_too_long])
    for size in (1, 7, 100, 101, 1000):
        chunks = [content[at : at + size] for at in range(0, len(content), size)]
        read = [(line, block.first + n) for block in blocks(chunks, longest=100) for n, line in enumerate(block.lines)]
        assert read == [(fits, 1), (b"", 2), (fits, 3), (b"", 4)], size


@pytest.mark.parametrize(("decoder", "compress"), [(Gzip, gzip.compress), (Zstd, zstd)])
def test_a_bomb_is_unpacked_in_small_parts(
    decoder: Callable[[], Gzip | Zstd], compress: Callable[[bytes], bytes]
) -> None:
    packed = compress(bytes(300 << 20))
    sizes = [len(part) for at in range(0, len(packed), CHUNK) for part in decoder().feed(packed[at : at + CHUNK])]
    assert max(sizes) <= 24 << 20
    assert sum(sizes) >= 200 << 20


def test_a_file_in_another_encoding_is_refused_line_by_line() -> None:
    latin = b"url,title\n" + "http://h/1,H\xe9rons\nhttp://h/2,Tides\n".encode("latin-1")
    loaded = load(latin, "csv")
    assert (loaded.urls, loaded.refused) == (["http://h/2"], [(2, "not UTF-8")])
    assert load("ü\nö\n".encode("latin-1")).refused == [(1, "not UTF-8"), (2, "not UTF-8")]


@pytest.mark.parametrize(
    ("format", "bad"),
    [
        ("unpaywall", rb'{"doi": "10.1/\ud800", "oa_locations": [{"url_for_pdf": "http://h/1"}]}'),
        ("unpaywall", rb'{"doi": "10.1/a", "oa_locations": [{"url_for_pdf": "http://h/\udc00"}]}'),
        ("unpaywall", rb'{"doi": "10.1/a", "oa_locations": [{"url_for_pdf": "http://h/1", "license": "cc\ud800"}]}'),
        ("unpaywall", rb'{"doi": "10.1/a", "oa_status": "\ud800", "oa_locations": [{"url_for_pdf": "http://h/1"}]}'),
        ("openalex", rb'{"id": "https://openalex.org/W\ud800", "open_access": {"oa_url": "http://h/1"}}'),
        ("jsonl", rb'{"base_url": "http://h/1", "source": "s", "source_id": "1", "ext_ids": {"doi": "\ud800"}}'),
        ("jsonl", rb'{"base_url": "http://h/1", "source": "s", "source_id": "1", "fatcat": {"\ud800": 1}}'),
        ("jsonl", rb'{"base_url": "http://h/1", "source": "s", "source_id": "\ud800"}'),
    ],
)
def test_half_of_a_surrogate_pair_anywhere_is_refused_with_its_line(format: str, bad: bytes) -> None:
    good = {
        "unpaywall": unpaywall("10.1/z", place(url_for_pdf="http://h/2")),
        "openalex": {"id": "https://openalex.org/W2", "open_access": {"oa_url": "http://h/2"}},
        "jsonl": request(2),
    }[format]
    loaded = load(lines(good, bad), format)
    assert loaded.refused == [(2, "a text is not Unicode: it contains half of a surrogate pair")]
    assert len(loaded.rows) == 1


@pytest.mark.parametrize("inner", [gzip.compress, zstd])
@pytest.mark.parametrize("outer", [gzip.compress, zstd])
def test_a_file_that_is_compressed_twice_is_named(
    inner: Callable[[bytes], bytes], outer: Callable[[bytes], bytes]
) -> None:
    loaded = load(outer(inner(MANY)))
    assert loaded.stopped == "standard input: it is compressed twice: decompress it once before it is loaded"
    assert not loaded.rows and not loaded.refused
