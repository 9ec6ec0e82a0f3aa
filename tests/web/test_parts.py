"""Ranges and conditions of HTTP."""

from __future__ import annotations

import pytest

from datasette_ingest.web.parts import Part, asked_for

SIZE, TAG = 100, '"abc"'
WHOLE = Part(200, 0, 100)


def get(size: int = SIZE, method: str = "GET", **headers: str) -> Part:
    return asked_for(method, {name.replace("_", "-"): value for name, value in headers.items()}, size, TAG)


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ("bytes=0-0", Part(206, 0, 1)),
        ("bytes=10-19", Part(206, 10, 20)),
        ("bytes=10-", Part(206, 10, 100)),
        ("bytes=99-500", Part(206, 99, 100)),
        ("bytes=-5", Part(206, 95, 100)),
        ("bytes=-500", Part(206, 0, 100)),
        ("bytes=0-" + "9" * 30, Part(206, 0, 100)),
        (" Bytes = 1-2 ", Part(206, 1, 3)),
        ("bytes=,1-2,", Part(206, 1, 3)),
        ("bytes=100-", Part(416)),
        ("bytes=" + "9" * 30 + "-", Part(416)),
        ("bytes=-0", Part(416)),
        ("bytes=0-1,5-6", WHOLE),
        ("bytes=-1,-2", WHOLE),
        ("bytes=5-4", WHOLE),
        ("bytes=-", WHOLE),
        ("bytes=", WHOLE),
        ("bytes", WHOLE),
        ("bytes=a-b", WHOLE),
        ("bytes=1 - 2", WHOLE),
        ("bytes=+1-2", WHOLE),
        ("bytes=٣-٤", WHOLE),
        ("lines=1-2", WHOLE),
        ("", WHOLE),
    ],
)
def test_one_range_gets_its_bytes_and_what_is_none_the_whole_file(asked: str, part: Part) -> None:
    assert get(range=asked) == part


@pytest.mark.parametrize(
    ("asked", "part"), [("bytes=0-", Part(416)), ("bytes=-5", Part(200)), ("bytes=-0", Part(416)), ("", Part(200))]
)
def test_an_empty_file_has_no_first_byte(asked: str, part: Part) -> None:
    assert get(size=0, range=asked) == part


def test_what_a_browser_has_is_not_sent_again() -> None:
    for tags in ('"abc"', 'W/"abc"', '"x", "abc"', "*", '"x",W/"abc"', '"a,b", "abc"'):
        assert get(if_none_match=tags) == Part(304) == get(method="HEAD", if_none_match=tags, range="bytes=0-1")
    for tags in ('"x"', "abc", "", '"abc', '"ABC"'):
        assert get(if_none_match=tags) == WHOLE


def test_a_range_of_another_version_gets_the_whole_file() -> None:
    assert get(range="bytes=0-1", if_range='"abc"') == Part(206, 0, 2)
    for other in ('"x"', 'W/"abc"', "Tue, 01 Dec 2026 12:00:00 GMT", ""):
        assert get(range="bytes=0-1", if_range=other) == WHOLE


def test_a_condition_that_is_not_met_gets_nothing() -> None:
    assert get(if_match='"x"') == Part(412) == get(if_match='W/"abc"')
    assert get(if_match='"x", "abc"') == WHOLE == get(if_match="*")


def test_head_asks_for_no_range() -> None:
    assert get(method="HEAD", range="bytes=0-1") == WHOLE


@pytest.mark.parametrize(
    ("part", "headers"),
    [
        (WHOLE, {"Accept-Ranges": "bytes", "Content-Length": "100"}),
        (Part(206, 5, 9), {"Accept-Ranges": "bytes", "Content-Length": "4", "Content-Range": "bytes 5-8/100"}),
        (Part(416), {"Accept-Ranges": "bytes", "Content-Length": "0", "Content-Range": "bytes */100"}),
        (Part(304), {}),
        (Part(412), {}),
    ],
)
def test_an_answer_says_which_part_it_is(part: Part, headers: dict[str, str]) -> None:
    assert part.headers(SIZE) == headers
