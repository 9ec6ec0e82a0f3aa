"""URLs as browsers read them, and cells as people leave them."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest import urls
from datasette_ingest.ingest.errors import BadScheme, InvalidUrl

RESOLVER = "https://resolver.example/"


def wpt_cases(folder: pathlib.Path) -> list[dict[str, Any]]:
    names = ("urltestdata.json", "ada_extra_urltestdata.json", "ada_long_urltestdata.json")
    return [
        case
        for name in names
        for case in json.loads((folder / "url" / name).read_text("utf-8", "surrogatepass"))
        if isinstance(case, dict)
    ]


def test_every_http_case_of_the_web_platform_tests_serialises_as_it_should(fixtures: pathlib.Path) -> None:
    cases = [c for c in wpt_cases(fixtures) if not c.get("failure") and c["href"].startswith(("http:", "https:"))]
    assert len(cases) > 250
    assert [urls.parse(case["input"], case.get("base")) for case in cases] == [case["href"] for case in cases]


def test_every_host_of_the_toascii_tests_becomes_the_right_host_or_is_refused(fixtures: pathlib.Path) -> None:
    cases = [c for c in json.loads((fixtures / "url" / "toascii.json").read_text()) if isinstance(c, dict)]
    wrong = []
    for case in cases:
        try:
            host = urls.split(urls.parse(f"https://{case['input']}/x")).host
        except InvalidUrl:
            host = None
        if host != case["output"]:
            wrong.append((case["input"], host, case["output"]))
    assert len(cases) > 80
    assert wrong == []


def test_every_invalid_case_of_the_web_platform_tests_is_refused(fixtures: pathlib.Path) -> None:
    cases = [case for case in wpt_cases(fixtures) if case.get("failure")]
    assert len(cases) > 250
    for case in cases:
        with pytest.raises((InvalidUrl, BadScheme)):
            urls.parse(case["input"], case.get("base"))


@pytest.mark.parametrize(
    "spelling",
    [
        "10.1234/abc",
        "doi:10.1234/abc",
        "DOI: 10.1234/ABC",
        "doi 10.1234/abc",
        "https://dx.doi.org/10.1234/abc",
        "http://doi.org/10.1234/abc",
        "https://www.doi.org/10.1234/ABC",
        "info:doi/10.1234/abc",
        "urn:doi:10.1234/abc",
        "doi.org/10.1234/abc",
        "  10.1234/abc\n",
    ],
)
def test_a_doi_in_any_spelling_is_asked_of_the_configured_resolver(spelling: str) -> None:
    assert urls.clean_cell(spelling, doi_resolver=RESOLVER) == "https://resolver.example/10.1234/abc"


def test_characters_of_a_doi_that_mean_something_in_urls_are_escaped() -> None:
    old_style = urls.clean_cell("10.1002/(SICI)1<2::AID-X>3.0.CO;2-Q", doi_resolver=RESOLVER)
    assert old_style.lower() == "https://resolver.example/10.1002/(sici)1%3c2::aid-x%3e3.0.co;2-q"
    cleaned = urls.clean_cell("10.1002/a#b?c%d", doi_resolver=RESOLVER)
    assert cleaned.lower() == "https://resolver.example/10.1002/a%23b%3fc%25d"


@pytest.mark.parametrize(
    "cell",
    [None, "", "   ", "\u00a0\ufeff", 42, 3.5, True, b"\xff\xfe", b"", "None", "n/a", "10.1234", "10.1234/", "http://",
     "http://exa mple.org/", "//host/path", "/path", "http://[::1", "http://h:99999/", "x" * 20_000, "\ud800"],
)  # fmt: skip
def test_a_dirty_cell_is_an_invalid_url(cell: Any) -> None:
    with pytest.raises(InvalidUrl):
        urls.clean_cell(cell, doi_resolver=RESOLVER)


@pytest.mark.parametrize("cell", ["ftp://h/p.pdf", "file:///etc/passwd", "data:text/html,x", "mailto:a@b.example"])
def test_other_schemes_are_named_as_such(cell: str) -> None:
    with pytest.raises(BadScheme):
        urls.clean_cell(cell, doi_resolver=RESOLVER)


@pytest.mark.parametrize(
    ("cell", "url"),
    [
        (" http://S/p.pdf\r\n", "http://s/p.pdf"),
        ("HTTP://Example.ORG:80/a b", "http://example.org/a%20b"),
        ("http:/example.org/x", "http://example.org/x"),
        ("http://example.org\\x", "http://example.org/x"),
        ("http://bücher.example/ü", "http://xn--bcher-kva.example/%C3%BC"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://１２７.0.0.1/", "http://127.0.0.1/"),
        (b"http://example.org/p.pdf", "http://example.org/p.pdf"),
        ("http://h/caf\udce9.pdf", "http://h/caf%E9.pdf"),
    ],
)
def test_a_cell_is_read_as_a_browser_would(cell: Any, url: str) -> None:
    assert urls.clean_cell(cell, doi_resolver=RESOLVER) == url


@pytest.mark.parametrize(
    ("reference", "url"),
    [
        (b"/\xc3\xa9tude.pdf", "http://s/%C3%A9tude.pdf"),
        (b"/\xe9tude.pdf", "http://s/%E9tude.pdf"),
        (b"/my paper.pdf", "http://s/my%20paper.pdf"),
        (b" /p.pdf ", "http://s/p.pdf"),
        (b"/a+b.pdf", "http://s/a+b.pdf"),
        (b"///S2/p.pdf", "http://s2/p.pdf"),
        (b"//s2/p.pdf", "http://s2/p.pdf"),
        (b"\\\\s2\\p.pdf", "http://s2/p.pdf"),
        (b"c?d", "http://s/a/c?d"),
        (b"?q", "http://s/a/b?q"),
        (b"/x?u=http://other/", "http://s/x?u=http://other/"),
        (b"http:rel", "http://s/a/rel"),
    ],
)
def test_header_bytes_are_joined_as_browsers_join_them(reference: bytes, url: str) -> None:
    assert urls.join("http://s/a/b", reference) == url


def test_credentials_are_masked_wherever_a_url_stands_in_a_text() -> None:
    text = "see http://user:pw@host/x?y=a@b and https://me@h/ but not a@b.example"
    assert urls.mask(text) == "see http://***@host/x?y=a@b and https://***@h/ but not a@b.example"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://www.h/a/", "https://h/a", True),
        ("http://h/a#x", "http://h/a#y", True),
        ("http://h/a?x", "http://h/a?y", False),
        ("http://wwwx.h/a", "http://x.h/a", False),
        ("http://h/www.a", "http://h/a", False),
    ],
)
def test_pages_are_compared_by_what_publishers_mean(one: str, other: str, same: bool) -> None:
    assert urls.same_page(one, other) is same


@given(st.text(max_size=200) | st.binary(max_size=200) | st.integers() | st.floats() | st.none())
def test_no_cell_does_anything_but_give_a_url_or_say_why_not(cell: Any) -> None:
    try:
        url = urls.clean_cell(cell, doi_resolver=RESOLVER)
    except (InvalidUrl, BadScheme):
        return
    assert url.isascii()
    assert urls.parse(url) == url


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("//u:secret@h/x", "//***@h/x"),
        ("sftp://u:secret@h/x", "sftp://***@h/x"),
        ("https:\\\\u:secret@h", "https:\\\\***@h"),
        ("see '//u:secret@h'", "see '//***@h'"),
        ("https://h/a//b@c", "https://h/a//b@c"),
        ("https://h/x?y=z@w", "https://h/x?y=z@w"),
        ("mailto:a@b.example", "mailto:a@b.example"),
    ],
)
def test_credentials_are_masked_in_references_and_of_every_scheme(text: str, masked: str) -> None:
    assert urls.mask(text) == masked


def test_a_text_is_a_url_to_ask_for_only_as_it_is_asked_for() -> None:
    assert urls.is_href("http://h/a")
    assert not any(map(urls.is_href, ["http://h", "http://[", "HTTP://h/", "/a", "ftp://h/", " http://h/"]))
