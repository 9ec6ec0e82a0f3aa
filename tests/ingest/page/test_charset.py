"""The encoding of a page, as browsers find it."""

from __future__ import annotations

import encodings.aliases
import pathlib
import pkgutil
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest.page.charset import html_encoding, prescan, python_encoding

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
        wanted = python_encoding(label.encode())
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


CODECS = sorted({module.name for module in pkgutil.iter_modules(encodings.__path__)} | {*encodings.aliases.aliases})
"""All that Python knows by name: text encodings, and codecs that are none."""


@pytest.mark.parametrize("place", ["header", "quoted header", "meta", "http-equiv"])
def test_no_codec_of_python_stops_a_page(place: str) -> None:
    text = b"<p>a b</p>"
    for name in CODECS:
        spellings = {name, name.replace("_", "-"), name.upper()}
        for label in (spelling.encode() for spelling in spellings):
            content_type = {"header": b"text/html; charset=" + label, "quoted header": b'x; charset="' + label + b'"'}
            meta = {
                "meta": b"<meta charset=" + label + b">",
                "http-equiv": b'<meta http-equiv=content-type content="text/html; charset=' + label + b'">',
            }
            page = meta.get(place, b"") + text
            encoding, skip = html_encoding(page, content_type.get(place, b"").decode())
            assert isinstance(page[skip:].decode(encoding, "replace"), str), label


@pytest.mark.parametrize(
    "label",
    [
        *("base64", "hex", "rot13", "zlib", "bz2", "uu", "quopri", "idna", "punycode", "unicode_escape", "undefined"),
        *(
            "raw_unicode_escape",
            "utf-7",
            "utf-8-sig",
            "utf-32",
            "cp037",
            "cp437",
            "mbcs",
            "charmap",
            "utf_8",
            "utf8mb4",
        ),
        *("iso2022_kr", "hz", "hz-gb-2312", "replacement", "", "\u212aoi8-r", "utf-8;", "nonsense"),
    ],
)
def test_a_label_that_the_standard_does_not_have_was_not_sent(label: str) -> None:
    assert python_encoding(label.encode()) is None


@pytest.mark.parametrize(
    ("label", "encoding"),
    [
        ("latin1", "cp1252"),
        (" US-ASCII\n", "cp1252"),
        ("x-sjis", "cp932"),
        ("ks_c_5601-1987", "cp949"),
        ("GB_2312-80", "gb18030"),
        ("tis-620", "cp874"),
        ("logical", "iso8859-8"),
        ("unicode", "utf-16-le"),
        ("x-x-big5", "big5hkscs"),
        ("dos-874", "cp874"),
        ("x-mac-ukrainian", "mac-cyrillic"),
        ("x-user-defined", "cp1252"),
    ],
)
def test_a_label_of_the_standard_is_known_in_any_case(label: str, encoding: str) -> None:
    assert python_encoding(label.encode()) == encoding
