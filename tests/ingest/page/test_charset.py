"""The encoding of a page, as browsers find it."""

from __future__ import annotations

import pathlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from w3lib.encoding import resolve_encoding

from datasette_ingest.ingest.page.charset import html_encoding, prescan

_CASE = re.compile(rb"#data\n(.*?)\n#encoding\n(.*?)\n", re.DOTALL)


def cases(folder: pathlib.Path) -> list[tuple[bytes, str]]:
    found = []
    for name in ("encoding__tests1.dat", "tests2.dat"):
        data = (folder / "html-encoding" / name).read_bytes() + b"\n"
        found += [(page, label.decode().strip()) for page, label in _CASE.findall(data)]
    return found


def test_most_of_the_html5lib_cases_are_decided_as_browsers_decide(fixtures: pathlib.Path) -> None:
    wrong = []
    for page, label in cases(fixtures):
        wanted = resolve_encoding(label)
        found, _ = html_encoding(page)
        # A page of plain ASCII is UTF-8 to us where browsers say windows-1252: the text is the same.
        same_text = page.decode(found, "replace") == page.decode(wanted or "cp1252", "replace")
        if found != wanted and not (same_text and wanted == "cp1252"):
            wrong.append((page[:80], label, found))
    assert len(cases(fixtures)) >= 81
    assert len(wrong) <= 81 - 67, wrong


@pytest.mark.parametrize(
    ("page", "content_type", "encoding"),
    [
        (b"<p>caf\xc3\xa9", "", "utf-8"),
        (b"<p>caf\xe9", "", "cp1252"),
        (b"\xef\xbb\xbf<meta charset=latin1>", "text/html; charset=latin1", "utf-8"),
        (b"<meta charset=koi8-r>", "text/html; charset=UTF-8", "utf-8"),
        (b"<meta charset=koi8-r>", "text/html; charset=nonsense", "koi8-r"),
        (b"<meta charset=koi8-r>", "text/html", "koi8-r"),
        (b'<meta content="text/html; charset=koi8-r" http-equiv=Content-Type>', "", "koi8-r"),
        (b'<meta name="description" content="charset=koi8-r">', "", "utf-8"),
        (b"<!-- <meta charset=koi8-r> --><meta charset=big5>", "", "big5hkscs"),
        (b"<meta charset=utf-16>", "", "utf-8"),
        (b'<script>"<meta charset=koi8-r>"</script>', 'text/html; charset="utf-8"', "utf-8"),
    ],
)
def test_bom_then_transport_then_page_then_guess(page: bytes, content_type: str, encoding: str) -> None:
    assert html_encoding(page, content_type)[0] == encoding


def test_a_bom_is_no_part_of_the_text() -> None:
    for page, text in ((b"\xef\xbb\xbf<p>x", "<p>x"), ("<p>é".encode("utf-16"), "<p>é")):
        encoding, skip = html_encoding(page)
        assert page[skip:].decode(encoding) == text


@given(st.binary(max_size=500))
def test_no_bytes_stop_the_prescan(data: bytes) -> None:
    prescan(data)
    prescan(b"<meta " + data)
    encoding, skip = html_encoding(data)
    assert isinstance(data[skip:].decode(encoding, "replace"), str)
