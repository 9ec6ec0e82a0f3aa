"""The bytes of a file or of standard input, decompressed: gzip and Zstandard, recognised by their first bytes."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from .errors import BadInput

CHUNK = 1 << 20
"""Bytes that are read, and at most decompressed, at once."""

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = tuple(bytes([0x50 + n]) + b"\x2a\x4d\x18" for n in range(16))
"""Frames that carry no content; `pzstd` begins with one (RFC 8878, 3.1.2)."""

_OTHERS: tuple[tuple[bytes, str], ...] = (
    (b"BZh", "compressed with bzip2: bzcat {file} | {load}"),
    (b"\xfd7zXZ\x00", "compressed with xz: xzcat {file} | {load}"),
    (b"\x04\x22\x4d\x18", "compressed with lz4: lz4cat {file} | {load}"),
    (b"LZIP", "compressed with lzip: lzip -dc {file} | {load}"),
    (b"\x1f\x9d", "compressed with compress: zcat {file} | {load}"),
    (b"\x1f\xa0", "compressed with compress: zcat {file} | {load}"),
    (b"PK\x03\x04", "a zip archive: unzip -p {file} | {load}"),
    (b"PK\x05\x06", "a zip archive without files"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive: 7z x -so {file} | {load}"),
    (b"Rar!", "a RAR archive: unrar p -inul {file} | {load}"),
    (b"PAR1", "a Parquet file: convert it to CSV or JSON lines first"),
    (b"SQLite format 3\x00", "a SQLite database: to load from the database itself, give --sql"),
    (b"%PDF-", "a PDF"),
    (b"\xff\xfe", "text in UTF-16: iconv -f UTF-16 -t UTF-8 {file} | {load}"),
    (b"\xfe\xff", "text in UTF-16: iconv -f UTF-16 -t UTF-8 {file} | {load}"),
)
"""First bytes of what cannot be read, and what it is."""

UTF8_BOM = b"\xef\xbb\xbf"


class Decoder(Protocol):
    """Decompresses piece by piece."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The content of this piece, in parts of about CHUNK bytes."""

    def end(self) -> None:
        """Called after the last piece. Raises BadInput if the content is cut."""


class Plain:
    """Content that is not compressed."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data

    def end(self) -> None:
        pass


class Gzip:
    """One or more gzip members (RFC 1952). Zeros after the last are padding; anything else there is corrupt."""

    def __init__(self) -> None:
        self._member: Any = None
        self._held = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        data = self._held + data
        self._held = b""
        while data:
            if self._member is None:
                data = data.lstrip(b"\0")
                if not data:
                    return
                if not _GZIP.startswith(data[:2]):
                    raise BadInput("corrupt gzip data: something else follows the compressed content")
                if len(data) < 2:
                    self._held = data
                    return
                self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)
            try:
                content = self._member.decompress(data, CHUNK)
            except zlib.error as problem:
                raise BadInput(f"corrupt gzip data ({problem})") from None
            if content:
                yield content
            data = self._member.unconsumed_tail
            if self._member.eof:
                data, self._member = self._member.unused_data, None

    def end(self) -> None:
        if self._member is not None or self._held:
            raise BadInput("the gzip data is cut: its end is missing")


class Zstd:
    """One or more Zstandard frames (RFC 8878)."""

    _STEP = 512
    """Bytes decompressed at once. The library cannot limit its output, and 3 bytes can expand to 128 KiB (RFC 8878,
    3.1.1.2), so this many give 22 MB at most."""
    _HISTORY = 1 << 27
    """Bytes that a frame may look back on, as `zstd` itself allows without `--long=31`."""

    def __init__(self) -> None:
        try:
            import zstandard
        except ImportError:
            raise BadInput(
                "compressed with Zstandard, which needs an extra: pip install 'datasette-ingest[compression]'"
            ) from None
        self._library = zstandard
        self._frame: Any = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        parts: list[bytes] = []
        size = 0
        for begin in range(0, len(data), self._STEP):
            for content in self._decompress(data[begin : begin + self._STEP]):
                parts.append(content)
                size += len(content)
                if size >= CHUNK:
                    yield b"".join(parts)
                    parts, size = [], 0
        if parts:
            yield b"".join(parts)

    def _decompress(self, piece: bytes) -> Iterator[bytes]:
        while piece:
            if self._frame is None:
                self._frame = self._library.ZstdDecompressor(max_window_size=self._HISTORY).decompressobj()
            try:
                yield self._frame.decompress(piece)
            except self._library.ZstdError as problem:
                raise BadInput(f"corrupt Zstandard data ({problem})") from None
            piece = b""
            if self._frame.eof:
                piece, self._frame = self._frame.unused_data, None

    def end(self) -> None:
        if self._frame is not None:
            raise BadInput("the Zstandard data is cut: its end is missing")


def decoder_for(head: bytes, name: str) -> Decoder:
    """What decompresses content that begins with these bytes.

    :param head: the first bytes, at least 8 where there are so many
    :param name: the file, as a command may name it
    :raises BadInput: for content of another kind, which it names
    """
    if head.startswith(_GZIP):
        return Gzip()
    if head.startswith((_ZSTD, *_ZSTD_SKIPPABLE)):
        return Zstd()
    refuse_foreign(head, name)
    return Plain()


def refuse_foreign(head: bytes, name: str) -> None:
    """Refuse content of which the first bytes say that it is no text.

    :raises BadInput: with the kind and, where there is one, a command that converts it
    """
    for magic, kind in _OTHERS:
        if head.startswith(magic):
            what, _, command = kind.partition(": ")
            hint = f". Load it with: {command}".replace("{file}", name) if "{load}" in command else ""
            hint = hint.replace("{load}", "datasette ingest load DB - …")
            raise BadInput(f"it is {what}{hint or (': ' + command if command else '')}")


class Source:
    """A file or standard input. Iterating gives its decompressed content in pieces.

    :param size: its size in bytes as it is stored; None for standard input
    """

    def __init__(self, file: BinaryIO, name: str, size: int | None) -> None:
        self.name = name
        self.size = size
        self.position = 0
        """Bytes read so far, as they are stored."""
        self._file = file

    @classmethod
    def open(cls, path: Path) -> Source:
        """:raises BadInput: when it cannot be opened"""
        try:
            file = path.open("rb", buffering=0)
            return cls(io.BufferedReader(file, CHUNK), path.name, os.fstat(file.fileno()).st_size)
        except OSError as problem:
            raise BadInput(f"it cannot be read ({problem.strerror})") from None

    def close(self) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[bytes]:
        """:raises BadInput: for content that is cut, corrupt or no text; what came before is good"""
        data = self._read()
        while len(data) < 8 and (more := self._read()):
            data += more
        decoder = decoder_for(data, self.name)
        is_first = True
        while data:
            for content in decoder.feed(data):
                if is_first and not isinstance(decoder, Plain):
                    if content.startswith((_GZIP, _ZSTD, *_ZSTD_SKIPPABLE)):
                        raise BadInput("it is compressed twice: decompress it once before it is loaded")
                    refuse_foreign(content, self.name)
                is_first = False
                yield content
            data = self._read()
        decoder.end()

    def _read(self) -> bytes:
        try:
            data = self._file.read(CHUNK)
        except OSError as problem:
            raise BadInput(f"it cannot be read any further ({problem.strerror})") from None
        self.position += len(data)
        return data
