"""Parse one HTTP/1.1 response: bytes in, head and body pieces out. Does no I/O.

Follows RFC 9112, and accepts what Chromium accepts where a malformed response has one clear meaning:

- accepted: blank lines before the status line, bare LF, folded headers, lines without a colon (ignored), blanks
  before a colon, no reason phrase, codes up to 999, equal repeated lengths, chunked named twice, chunk sizes with
  blanks or extensions, a chunked body with a Content-Length, bytes after the body (ignored; the connection is closed)
- refused: HTTP/0.9, ICY, NUL in the head, Content-Lengths that differ or are not numbers, unknown transfer codings,
  chunks longer than their size or with size lines longer than their data, heads and trailers beyond the limits, more than MAX_INTERIM interim responses
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum, auto

from ..errors import BadHttp, TruncatedBody

MAX_HEAD_BYTES = 256 * 1024
MAX_HEADERS = 512
MAX_INTERIM = 16
MAX_CHUNK_LINE = 4096
FREE_CHUNK_LINE = 16
MAX_EXCESS = 16 * 1024
"""Most bytes of size lines beyond FREE_CHUNK_LINE a chunk and twice its data, the rule of Go's net/http: a server could
otherwise make us read without end by chunks with long extensions."""
MAX_LENGTH_DIGITS = 18

_STATUS_LINE = re.compile(rb"HTTP/(\d)\.(\d)[ \t]+([1-9]\d\d)(?:[ \t]+([^\x00]*)|)", re.IGNORECASE)
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_CHUNK_SIZE = re.compile(rb"[ \t]*([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\x00]*)?")
_WITHOUT_BODY = (204, 304)
_CODINGS = (b"chunked", b"identity", b"gzip", b"x-gzip", b"deflate")
_HTTP2_SETTINGS = re.compile(rb"\x00.{2}\x04\x00\x00{4}", re.DOTALL)


class Http2Response(BadHttp, status=BadHttp.status, retry=BadHttp.retry):
    """The server answers in HTTP/2: its first bytes are a SETTINGS frame (RFC 9113, 3.4)."""


class Head:
    """Status and headers of a response. Names and values are the bytes received, without surrounding blanks."""

    __slots__ = ("_values", "headers", "http10", "reason", "status")

    def __init__(
        self, status: int, headers: Sequence[tuple[bytes, bytes]], reason: bytes = b"", *, http10: bool = False
    ) -> None:
        self.status = status
        self.headers = headers
        self.reason = reason
        self.http10 = http10
        self._values: dict[bytes, list[bytes]] | None = None

    def get_all(self, name: bytes) -> list[bytes]:
        """All values of a header, in order; `name` in lower case."""
        if self._values is None:
            self._values = {}
            for key, value in self.headers:
                self._values.setdefault(key.lower(), []).append(value)
        return self._values.get(name, [])

    def get(self, name: bytes) -> bytes | None:
        """The first value of a header; `name` in lower case."""
        values = self.get_all(name)
        return values[0] if values else None

    def tokens(self, name: bytes) -> list[bytes]:
        """The members of a comma-separated header in lower case, from all its lines."""
        return _tokens(self.get_all(name))


def _tokens(values: Iterable[bytes]) -> list[bytes]:
    return [token for value in values for item in value.split(b",") if (token := item.strip().lower())]


class _Expect(Enum):
    HEAD = auto()
    LENGTH = auto()
    CHUNK_SIZE = auto()
    CHUNK_DATA = auto()
    CHUNK_END = auto()
    TRAILER = auto()
    CLOSE = auto()
    NOTHING = auto()


class ResponseParser:
    """Parses one response. `without_body`: the response to a HEAD or CONNECT request."""

    def __init__(self, *, without_body: bool = False) -> None:
        self.head: Head | None = None
        self.complete = False
        self.ends_with_connection = False
        """The body has neither a length nor chunks: the end of the connection is its end."""
        self._without_body = without_body
        self._expect = _Expect.HEAD
        self._head_bytes = bytearray()
        self._buffer = b""
        """The beginning of a line between chunks."""
        self._searched = 0
        self._blanks = 0
        self._excess = 0
        self._remaining = 0
        self._interim = 0
        self._trailer_bytes = 0
        self._keep_alive = False
        self._surplus = False

    @property
    def reusable(self) -> bool:
        """Whether the connection can take another request."""
        return self.complete and self._keep_alive and not self._surplus

    def feed(self, data: bytes) -> list[bytes]:
        """Parse received bytes and return the body pieces in them. Raises BadHttp."""
        if self._expect is _Expect.HEAD:
            self._head_bytes += data
            if not self._read_head():
                return []
            data, self._head_bytes = bytes(self._head_bytes), bytearray()
        if self._expect is _Expect.LENGTH:
            return self._take_length(data)
        if self._expect is _Expect.CLOSE:
            return [data] if data else []
        if self._expect is _Expect.NOTHING:
            self._surplus = self._surplus or bool(data)
            return []
        return self._take_chunks(data)

    def eof(self) -> None:
        """The server closed the connection. Raises BadHttp or TruncatedBody if the response is incomplete."""
        if self._expect is _Expect.CLOSE or self._expect is _Expect.TRAILER:
            self._finish()
        elif self._expect is _Expect.HEAD:
            raise BadHttp("the server closed the connection within the response's head")
        elif not self.complete:
            raise TruncatedBody("the server closed the connection before the end of the body")

    # Head

    def _read_head(self) -> bool:
        while True:
            if not self._searched and bytes(self._head_bytes[:1]) in (b"\r", b"\n"):
                kept = self._head_bytes.lstrip(b"\r\n")
                self._blanks += len(self._head_bytes) - len(kept)
                self._head_bytes = kept
            check_start(self._head_bytes)
            end = _HEAD_END.search(self._head_bytes, max(self._searched - 3, 0))
            if self._blanks + (end.start() if end else len(self._head_bytes)) > MAX_HEAD_BYTES:
                raise BadHttp(f"the response's head is longer than {MAX_HEAD_BYTES} bytes")
            if end is None:
                self._searched = len(self._head_bytes)
                return False
            head = parse_head(bytes(self._head_bytes[: end.start()]))
            del self._head_bytes[: end.end()]
            self._searched = 0
            if head.status >= 200:
                self._choose_framing(head)
                self.head = head
                return True
            self._interim += 1
            if head.status == 101 or self._interim > MAX_INTERIM:
                raise BadHttp(f"an interim response ({head.status}) instead of the final one")

    def _choose_framing(self, head: Head) -> None:
        fields: dict[bytes, list[bytes]] = {b"connection": [], b"transfer-encoding": [], b"content-length": []}
        for name, value in head.headers:
            if (key := name.lower()) in fields:
                fields[key].append(value)
        connection = _tokens(fields[b"connection"])
        self._keep_alive = b"close" not in connection and (not head.http10 or b"keep-alive" in connection)
        codings = _tokens(fields[b"transfer-encoding"])
        unknown = next((coding for coding in codings if coding not in _CODINGS), None)
        if unknown is not None:
            raise BadHttp(f"an unknown transfer coding: {unknown[:40]!r}")
        if self._without_body or head.status in _WITHOUT_BODY:
            self._finish()
        elif b"chunked" in codings:
            if fields[b"content-length"]:
                self._keep_alive = False
            self._expect = _Expect.CHUNK_SIZE
        else:
            length = _content_length(fields[b"content-length"])
            if length is None:
                self._keep_alive = False
                self.ends_with_connection = True
                self._expect = _Expect.CLOSE
            elif length == 0:
                self._finish()
            else:
                self._remaining = length
                self._expect = _Expect.LENGTH

    # Body

    def _take_length(self, data: bytes) -> list[bytes]:
        piece = data if len(data) <= self._remaining else data[: self._remaining]
        self._remaining -= len(piece)
        self._surplus = len(piece) < len(data)
        if self._remaining == 0:
            self._finish()
        return [piece] if piece else []

    def _take_chunks(self, data: bytes) -> list[bytes]:
        if self._buffer:
            data, self._buffer = self._buffer + data, b""
        pieces: list[bytes] = []
        position, end = 0, len(data)
        while position < end:
            if self._expect is _Expect.CHUNK_DATA:
                piece = data[position : position + self._remaining]
                pieces.append(piece)
                position += len(piece)
                self._remaining -= len(piece)
                if self._remaining == 0:
                    self._expect = _Expect.CHUNK_END
                continue
            if self._expect is _Expect.NOTHING:
                self._surplus = True
                break
            newline = data.find(b"\n", position)
            if newline < 0 or newline - position > MAX_CHUNK_LINE:
                if end - position > MAX_CHUNK_LINE:
                    raise BadHttp("a chunk's size line has no end")
                if self._expect is _Expect.CHUNK_END and data[position : position + 1] not in (b"\r", b"\n"):
                    raise BadHttp("a chunk is longer than its size says")
                self._buffer = data[position:]
                break
            self._take_line(data[position:newline].removesuffix(b"\r"))
            position = newline + 1
        return pieces

    def _take_line(self, line: bytes) -> None:
        if self._expect is _Expect.CHUNK_END:
            if line:
                raise BadHttp("a chunk is longer than its size says")
            self._expect = _Expect.CHUNK_SIZE
        elif self._expect is _Expect.CHUNK_SIZE:
            size = _CHUNK_SIZE.fullmatch(line)
            if size is None:
                raise BadHttp(f"a chunk's size is not a number: {line[:40]!r}")
            self._remaining = int(size[1], 16)
            self._excess = max(0, self._excess + len(line) + 2 - FREE_CHUNK_LINE - 2 * self._remaining)
            if self._excess > MAX_EXCESS:
                raise BadHttp("the size lines of the chunks are longer than their data")
            self._expect = _Expect.CHUNK_DATA if self._remaining else _Expect.TRAILER
        elif not line:
            self._finish()
        else:
            self._trailer_bytes += len(line) + 2
            if self._trailer_bytes > MAX_HEAD_BYTES:
                raise BadHttp(f"the trailer is longer than {MAX_HEAD_BYTES} bytes")

    def _finish(self) -> None:
        self._expect = _Expect.NOTHING
        self.complete = True


def check_start(data: bytes | bytearray) -> None:
    """Raise Http2Response or BadHttp if a response that begins with these bytes cannot be HTTP/1."""
    start = data[:5].upper()
    if start != b"HTTP/"[: len(start)]:
        kind = Http2Response if _HTTP2_SETTINGS.match(data) else BadHttp
        raise kind("the response does not begin with HTTP/1")


def parse_head(raw: bytes) -> Head:
    """Parse the status line and the headers, without the blank line after them. Raises BadHttp."""
    if b"\x00" in raw:
        raise BadHttp("the response's head contains a NUL byte")
    lines = raw.replace(b"\r\n", b"\n").split(b"\n")
    status = _STATUS_LINE.fullmatch(lines[0].rstrip(b"\r \t"))
    if status is None or status[1] != b"1":
        raise BadHttp(f"the response's first line is not an HTTP/1 status line: {lines[0][:60]!r}")
    if len(lines) > MAX_HEADERS:
        raise BadHttp(f"the response has more than {MAX_HEADERS} header lines")
    return Head(int(status[3]), _headers(lines[1:]), status[4] or b"", http10=status[2] == b"0")


def _headers(lines: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    headers: list[tuple[bytes, bytes]] = []
    for line in lines:
        if line[:1] in (b" ", b"\t") and headers:
            name, value = headers[-1]
            headers[-1] = (name, (value + b" " + line.strip(b" \t\r")).strip())
            continue
        name, colon, value = line.partition(b":")
        name = name.strip(b" \t\r")
        if colon and name:
            headers.append((name, value.strip(b" \t\r")))
    return headers


def _content_length(values: list[bytes]) -> int | None:
    members = {item.strip() for value in values for item in value.split(b",")} - {b""}
    if not members:
        return None
    if not all(member.isdigit() and len(member) <= MAX_LENGTH_DIGITS for member in members):
        raise BadHttp(f"Content-Length is not a number: {b', '.join(sorted(members))[:60]!r}")
    lengths = {int(member) for member in members}
    if len(lengths) > 1:
        raise BadHttp("the response has two different Content-Lengths")
    return lengths.pop()
