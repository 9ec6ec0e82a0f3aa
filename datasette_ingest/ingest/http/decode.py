"""Decode Content-Encoding within limits. The label counts only if the bytes fit it; else they pass as they are.

The reader says how many bytes it takes, so that a decompression bomb never unpacks more than that at once.
"""

from __future__ import annotations

import importlib
import zlib
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from ..errors import BadEncoding, BadGzipEncoding, TruncatedBody
from ..files import JSON, TEXT, UNKNOWN, sniff

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

MAX_LAYERS = 5
"""Content encodings of one body; more are refused."""
MAX_UNDECLARED = 2
"""Layers of gzip that are decoded without a label."""

_ALIASES = {"x-gzip": "gzip", "x-deflate": "deflate", "zlib": "deflate"}
_PLAIN = ("identity", "none", "utf-8", "binary", "8bit")
_WINDOW = {"gzip": 31, "deflate": 15, "raw": -15}
# First bytes needed to tell an encoding from plain content: a magic number, or enough to recognise the content.
_MARKED: dict[str | None, int] = {None: 2, "gzip": 2, "zstd": 4}
_UNMARKED = 64
# Input given to a decompressor at once: it bounds the input that zlib keeps, as `limit` bounds the output.
_STEP = 64 * 1024


class _Source(Protocol):
    def read(self, limit: int) -> bytes: ...

    @property
    def ended(self) -> bool: ...


class _Received:
    """Received bytes that were not read yet."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._closed = False
        self.size = 0

    def feed(self, data: bytes) -> None:
        self._pieces.append(data)
        self.size += len(data)

    def close(self) -> None:
        self._closed = True

    def read(self, limit: int) -> bytes:
        if not self._pieces:
            return b""
        piece = self._pieces.popleft()
        if len(piece) > limit:
            self._pieces.appendleft(piece[limit:])
            piece = piece[:limit]
        self.size -= len(piece)
        return piece

    @property
    def ended(self) -> bool:
        return self._closed and not self._pieces


class _Layer:
    """One encoding. Checks the first bytes before it trusts its label."""

    def __init__(self, source: _Source, label: str | None, *, lenient: bool = False) -> None:
        self.source = source
        self.label = label
        self._lenient = lenient
        self._needed = _MARKED.get(label, _UNMARKED)
        self._pending = b""
        self._decided = False
        self._inflate: Any = None
        self._finished = False
        self._more_inside = False
        self._between_members = False
        self.encoding: str | None = None
        self.mislabelled = False

    def read(self, limit: int) -> bytes:
        """Up to `limit` decoded bytes; b"" when more input is needed. Raises BadEncoding or BadGzipEncoding."""
        if not self._decided and not self._decide():
            return b""
        if self._inflate is None:
            return self._take(limit)
        return self._unpack(limit)

    @property
    def ended(self) -> bool:
        if not self._decided or self._pending or not self.source.ended:
            return False
        if self._inflate is None or self._finished or self._between_members:
            return True
        return not (self._more_inside or self._inflate.unconsumed_tail)

    @property
    def truncated(self) -> bool:
        """Whether the encoding's end mark is missing."""
        return self._inflate is not None and not self._finished and not self._between_members

    @property
    def is_plain(self) -> bool:
        """Whether all further bytes pass through unchanged, so that this layer can be skipped."""
        return self._decided and self._inflate is None and not self._pending

    def _take(self, limit: int) -> bytes:
        if not self._pending:
            return self.source.read(limit)
        piece, self._pending = self._pending[:limit], self._pending[limit:]
        return piece

    def _decide(self) -> bool:
        while len(self._pending) < self._needed and (more := self.source.read(_STEP)):
            self._pending += more
        if len(self._pending) < self._needed and not self.source.ended:
            return False
        self._decided = True
        self.encoding = self._recognise(self._pending)
        self.mislabelled = self.label is not None and self.encoding is None and bool(self._pending)
        if self.encoding is not None:
            self._inflate = _decompressor(self.encoding)
        return True

    def _recognise(self, start: bytes) -> str | None:
        if not start:
            return None
        if start.startswith(GZIP_MAGIC):
            return "gzip"
        if self.label is None or self.label == "gzip":
            return None
        if self.label == "deflate":
            if len(start) >= 2 and start[0] & 0x0F == 8 and (start[0] << 8 | start[1]) % 31 == 0:
                return "deflate"
            # Raw deflate has no magic number: trust the label unless the bytes are a known type or do not inflate.
            return "raw" if sniff(start) == UNKNOWN or (not _is_known(start) and _inflates(start)) else None
        if self.label == "zstd" and not start.startswith(ZSTD_MAGIC):
            return None
        if self.label == "br" and (_is_known(start) or (self._lenient and sniff(start) != UNKNOWN)):
            return None
        return self.label

    def _unpack(self, limit: int) -> bytes:
        while not self._finished:
            if self._between_members and not self._next_member():
                return b""
            data = self._inflate.unconsumed_tail or self._take(_STEP)
            if not data and not self._more_inside:
                return b""
            try:
                piece = self._inflate.decompress(data, limit)
            except _DECODE_ERRORS as error:
                self._fail(error)
            # The decompressor may hold more output although it has consumed all input.
            self._more_inside = len(piece) >= limit and not self._inflate.eof
            if self._inflate.eof:
                self._pending = self._inflate.unused_data + self._pending
                self._between_members = True
            if piece:
                return bytes(piece)
        return self._skip_rest()

    def _next_member(self) -> bool:
        """Whether another gzip member follows. Anything else after the end mark is ignored."""
        while len(self._pending) < len(GZIP_MAGIC) and (more := self.source.read(_STEP)):
            self._pending += more
        if len(self._pending) < len(GZIP_MAGIC) and not self.source.ended:
            return False
        self._between_members = False
        if self.encoding == "gzip" and self._pending.startswith(GZIP_MAGIC):
            self._inflate = _decompressor("gzip")
            return True
        self._finished = True
        self._pending = b""
        return False

    def _skip_rest(self) -> bytes:
        """Ignore what follows the end mark, as browsers do."""
        while self.source.read(_STEP):
            pass
        return b""

    def _fail(self, error: Exception) -> None:
        if self.encoding == "gzip":
            raise BadGzipEncoding(f"the body begins as gzip and does not decompress ({error})") from error
        raise BadEncoding(
            f"the body does not decompress as its Content-Encoding {self.label!r} says ({error})"
        ) from error


class Decoder:
    """Feed received bytes, read decoded bytes.

    `encodings` are the labels in the order in which they were applied. `keep_gzip`: gzip without a label stays as it
    is, since the body is a .gz file. `lenient`: labels may be wrong, so unknown ones do not count.
    """

    def __init__(self, encodings: Sequence[str], *, keep_gzip: bool = False, lenient: bool = False) -> None:
        labels = [_ALIASES.get(label, label) for label in encodings]
        labels = [label for label in labels if label not in _PLAIN and (label in _KNOWN or not lenient)]
        if len(labels) > MAX_LAYERS:
            raise BadEncoding(f"the body has {len(labels)} content encodings; at most {MAX_LAYERS} are decoded")
        unknown = next((label for label in labels if label not in _KNOWN), None)
        if unknown is not None:
            raise BadEncoding(f"an unknown Content-Encoding: {unknown[:40]!r}")
        self._lenient = lenient
        self._received = _Received()
        self.labelled: list[_Layer] = []
        source: _Source = self._received
        for label in reversed(labels):
            layer = _Layer(source, label, lenient=lenient)
            self.labelled.append(layer)
            source = layer
        self._guessed: list[_Layer] = []
        for _ in range(0 if keep_gzip else MAX_UNDECLARED):
            layer = _Layer(source, None)
            self._guessed.append(layer)
            source = layer
        self._top: _Source = source

    def feed(self, data: bytes) -> None:
        self._received.feed(data)

    def close(self) -> None:
        """End of the input."""
        self._received.close()

    @property
    def waiting(self) -> int:
        """Bytes that were fed and not read yet."""
        return self._received.size

    @property
    def packed(self) -> bool:
        """Whether any layer decodes something."""
        return any(layer.encoding is not None for layer in (*self.labelled, *self._guessed))

    @property
    def mislabelled(self) -> str | None:
        """The label of an encoding that the bytes do not have, or None."""
        return None if self._lenient else next((layer.label for layer in self.labelled if layer.mislabelled), None)

    def read(self, limit: int) -> bytes:
        """Up to `limit` decoded bytes; b"" if more input is needed, or, after `close`, at the end."""
        while isinstance(self._top, _Layer) and self._top.is_plain:
            self._top = self._top.source
        return self._top.read(limit)

    def finish(self, *, size: int) -> None:
        """Check after the last read for missing ends. `size`: decoded bytes. Raises TruncatedBody or BadGzipEncoding."""
        if any(layer.truncated for layer in self.labelled):
            raise TruncatedBody("the body ends before the end of its compression")
        if any(layer.truncated for layer in self._guessed):
            raise TruncatedBody("the body is gzip and ends too early")
        if size == 0 and any(layer.encoding == "gzip" for layer in self._guessed):
            raise BadGzipEncoding("the body is an empty gzip file")


def _is_known(start: bytes) -> bool:
    """Whether the bytes begin a known file type. Text and JSON do not count: compressed bytes can look like them."""
    return sniff(start) not in (UNKNOWN, TEXT, JSON)


def _inflates(start: bytes) -> bool:
    try:
        zlib.decompressobj(-15).decompress(start, 1024)
    except zlib.error:
        return False
    return True


class _Brotli:
    """The brotli package with zlib's interface."""

    def __init__(self, module: Any) -> None:
        self._decoder = module.Decompressor()
        self.unused_data = b""
        self._tail = b""

    @property
    def unconsumed_tail(self) -> bytes:
        return self._tail

    @property
    def eof(self) -> bool:
        return bool(self._decoder.is_finished())

    def decompress(self, data: bytes, limit: int) -> bytes:
        piece = bytes(self._decoder.process(data if data is not self._tail else b"", output_buffer_limit=limit))
        # While it holds output back it takes no input; the marker makes the caller ask again.
        self._tail = b"" if self._decoder.can_accept_more_data() else _MORE
        return piece


_MORE = b"\x00"


class _Zstd:
    """The zstandard package with zlib's interface. It cannot limit its output, so it gets few input bytes at once."""

    # A block of 3 bytes can decompress to 128 KiB (RFC 8878, 3.1.1.2).
    _INPUT = 32

    def __init__(self, module: Any) -> None:
        self._decoder = module.ZstdDecompressor(max_window_size=8 * 1024 * 1024).decompressobj()
        self.unconsumed_tail = b""

    @property
    def unused_data(self) -> bytes:
        return bytes(self._decoder.unused_data)

    @property
    def eof(self) -> bool:
        return bool(self._decoder.eof)

    def decompress(self, data: bytes, limit: int) -> bytes:
        piece = b""
        while data and not piece and not self.eof:
            piece = bytes(self._decoder.decompress(data[: self._INPUT]))
            data = data[self._INPUT :]
        self.unconsumed_tail = b"" if self.eof else data
        return piece


def _decompressor(encoding: str) -> Any:
    wrap, module = {"br": (_Brotli, _brotli), "zstd": (_Zstd, _zstandard)}.get(encoding, (None, None))
    if wrap is None:
        return zlib.decompressobj(_WINDOW[encoding])
    if module is None:
        raise BadEncoding(f"Content-Encoding {encoding!r} needs a library: pip install 'datasette-ingest[compression]'")
    return wrap(module)


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


_brotli, _zstandard = _library("brotli"), _library("zstandard")
if _brotli is not None and not hasattr(_brotli.Decompressor, "can_accept_more_data"):
    _brotli = None  # before 1.2 its output cannot be limited
_DECODE_ERRORS: tuple[type[Exception], ...] = (
    zlib.error,
    *([_brotli.error] if _brotli else []),
    *([_zstandard.ZstdError] if _zstandard else []),
)
_KNOWN = frozenset({"gzip", "deflate", "br", "zstd"})

OFFERED = b"gzip, deflate" + (b", br" if _brotli else b"") + (b", zstd" if _zstandard else b"")
"""The Accept-Encoding header: what can be decoded with the libraries that are installed."""
