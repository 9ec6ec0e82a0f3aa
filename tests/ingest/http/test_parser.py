"""One response's bytes, right and wrong, cut wherever the network likes."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest.errors import BadHttp, TruncatedBody
from datasette_ingest.ingest.http.parser import MAX_HEAD_BYTES, ResponseParser

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def read(data: bytes, *, step: int | None = None, eof: bool = True) -> tuple[ResponseParser, bytes]:
    parser = ResponseParser()
    body = b""
    for start in range(0, len(data), step or len(data) or 1):
        body += b"".join(parser.feed(data[start : start + (step or len(data))]))
    if eof and not parser.complete:
        parser.eof()
    return parser, body


ACCEPTED = {
    "a length": (OK + b"Content-Length: 5\r\n\r\nhello", b"hello"),
    "no length": (OK + b"\r\nhello", b"hello"),
    "an empty length": (OK + b"Content-Length:\r\n\r\nhello", b"hello"),
    "chunks": (CHUNKED + b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", b"hello"),
    "a chunk size with trailing blanks": (CHUNKED + b"5  \r\nhello\r\n0\r\n\r\n", b"hello"),
    "chunk extensions": (CHUNKED + b"5;a=b\r\nhello\r\n0;x\r\n\r\n", b"hello"),
    "bare LF in chunks": (CHUNKED + b"5\nhello\n0\n\n", b"hello"),
    "a trailer": (CHUNKED + b"5\r\nhello\r\n0\r\nX: y\r\n\r\n", b"hello"),
    "no blank line after the last chunk": (CHUNKED + b"5\r\nhello\r\n0\r\n", b"hello"),
    "chunked beside a length": (
        OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"hello"),
    "chunked twice": (
        OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", b"hello"),
    "identity as coding": (OK + b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    "equal lengths": (OK + b"Content-Length: 5\r\nContent-Length: 5, 5\r\n\r\nhello", b"hello"),
    "a folded header": (OK + b"X: a\r\n b\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    "bare LF": (b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", b"hello"),
    "no reason": (b"HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    "status 999": (b"HTTP/1.1 999 No\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    "a line without a colon": (OK + b"nonsense\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
    "blanks before the colon": (OK + b"Content-Length : 5\r\n\r\nhello", b"hello"),
    "blank lines before the status": (b"\r\n\r\n" + OK + b"Content-Length: 5\r\n\r\nhello", b"hello"),
    "interim answers": (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK + b"Content-Length: 5\r\n\r\nhello", b"hello"),
    "a body longer than its length": (OK + b"Content-Length: 5\r\n\r\nhello and more", b"hello"),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\nhello", b"hello"),
    "lower case": (b"http/1.1 200 ok\r\ncontent-length: 5\r\n\r\nhello", b"hello"),
    "no body": (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
}  # fmt: skip

BROKEN = {
    "nothing like HTTP": b"SSH-2.0-OpenSSH_9\r\n",
    "HTTP/0.9": b"<html>hello</html>",
    "ICY": b"ICY 200 OK\r\n\r\n",
    "HTTP/2 in clear": b"HTTP/2.0 200 OK\r\n\r\n",
    "no status code": b"HTTP/1.1 OK\r\n\r\n",
    "a code of two digits": b"HTTP/1.1 20 OK\r\n\r\n",
    "a code that begins with zero": b"HTTP/1.1 099 OK\r\n\r\n",
    "a NUL in the head": OK + b"X: a\0b\r\n\r\n",
    "a head that is cut": OK + b"Content-Le",
    "a length that is no number": OK + b"Content-Length: five\r\n\r\nhello",
    "a negative length": OK + b"Content-Length: -5\r\n\r\nhello",
    "lengths that differ": OK + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "an unknown coding": OK + b"Transfer-Encoding: x-secret\r\n\r\nhello",
    "a chunk size that is no number": CHUNKED + b"zz\r\nhello\r\n0\r\n\r\n",
    "a negative chunk size": CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n",
    "a chunk longer than its size": CHUNKED + b"3\r\nhello\r\n0\r\n\r\n",
    "a chunk size of many digits": CHUNKED + b"f" * 17 + b"\r\n",
    "a chunk line without an end": CHUNKED + b"5;" + b"x" * 5000,
    "endless interim answers": b"HTTP/1.1 100 Continue\r\n\r\n" * 50,
    "switching protocols": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "a head beyond the limit": OK + b"X: " + b"y" * (MAX_HEAD_BYTES + 10),
    "too many headers": OK + b"X: y\r\n" * 600 + b"\r\n",
    "a trailer beyond the limit": CHUNKED + b"0\r\n" + b"X: y\r\n" * 60_000,
}

CUT = {
    "a short body": OK + b"Content-Length: 5000\r\n\r\nhello",
    "a cut chunk": CHUNKED + b"50\r\nhello",
    "no last chunk": CHUNKED + b"5\r\nhello\r\n",
    "a cut chunk size": CHUNKED + b"5\r\nhello\r\n1",
}


@pytest.mark.parametrize("step", [None, 1, 7])
@pytest.mark.parametrize("case", ACCEPTED)
def test_what_browsers_accept_is_accepted(case: str, step: int | None) -> None:
    data, body = ACCEPTED[case]
    parser, found = read(data, step=step)
    assert (found, parser.complete) == (body, True)


@pytest.mark.parametrize("step", [None, 100])
@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_http_is_bad_http(case: str, step: int | None) -> None:
    with pytest.raises(BadHttp):
        read(BROKEN[case], step=step)


@pytest.mark.parametrize("case", CUT)
def test_what_ends_too_early_is_truncated(case: str) -> None:
    with pytest.raises(TruncatedBody):
        read(CUT[case])


@pytest.mark.parametrize(
    ("data", "reusable"),
    [
        (OK + b"Content-Length: 5\r\n\r\nhello", True),
        (OK + b"Content-Length: 5\r\nConnection: close\r\n\r\nhello", False),
        (OK + b"Content-Length: 5\r\n\r\nhello!", False),
        (OK + b"\r\nhello", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: Keep-Alive\r\n\r\nhello", True),
        (CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", True),
        (CHUNKED + b"5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n", False),
        (OK + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", False),
    ],
)
def test_a_connection_is_kept_only_where_nothing_is_left_on_it(data: bytes, reusable: bool) -> None:
    assert read(data)[0].reusable is reusable


def test_raw_header_bytes_reach_the_caller() -> None:
    parser, _ = read(b"HTTP/1.1 302 Found\r\nLocation:  /\xe9 x \r\nLocation: /y\r\nContent-Length: 0\r\n\r\n")
    assert parser.head is not None
    assert parser.head.get_all(b"location") == [b"/\xe9 x", b"/y"]


@given(st.binary(max_size=400), st.integers(1, 50))
def test_no_bytes_after_a_status_line_do_anything_but_parse_or_be_refused(data: bytes, step: int) -> None:
    for start in (OK, CHUNKED, b""):
        with contextlib.suppress(BadHttp, TruncatedBody):
            read(start + data, step=step)


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8), st.integers(1, 40))
def test_chunks_come_back_whole_however_they_are_cut(pieces: list[bytes], step: int) -> None:
    data = CHUNKED + b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    assert read(data, step=step)[1] == b"".join(pieces)


def test_a_head_and_blank_lines_before_it_are_limited_however_they_arrive() -> None:
    for step in (1, 7, 100_000):
        parser, sent = ResponseParser(), b"\r\n" * (MAX_HEAD_BYTES // 2 + 10)
        with pytest.raises(BadHttp, match="head is longer"):
            for at in range(0, len(sent), step):
                parser.feed(sent[at : at + step])


def test_chunks_of_one_byte_are_a_body() -> None:
    parser = ResponseParser()
    pieces = parser.feed(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 50_000 + b"0\r\n\r\n"
    )
    assert b"".join(pieces) == b"x" * 50_000 and parser.complete


@pytest.mark.parametrize("size", [1, 2])
def test_size_lines_that_are_longer_than_their_data_are_refused_in_the_end(size: int) -> None:
    parser = ResponseParser()
    parser.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunk = b"%d;" % size + b"e" * 100 + b"\r\n" + b"x" * size + b"\r\n"
    for _ in range(100):
        parser.feed(chunk)
    with pytest.raises(BadHttp, match="longer than their data"):
        parser.feed(chunk * 1000)


def test_long_size_lines_before_much_data_are_read() -> None:
    parser = ResponseParser()
    parser.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(1000):
        parser.feed(b"400;signature=" + b"e" * 200 + b"\r\n" + b"x" * 1024 + b"\r\n")
    parser.feed(b"0\r\n\r\n")
    assert parser.complete
