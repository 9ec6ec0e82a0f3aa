"""The index of an archive: rows in every form, the choice among them, and the two questions."""

from __future__ import annotations

import base64
import hashlib
import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest.errors import CdxError, NoCapture
from datasette_ingest.ingest.fetch.captures import Capture, capture_in, replay_url
from datasette_ingest.ingest.fetch.cdx import CdxClient
from datasette_ingest.ingest.fetch.cdx_rows import (
    CdxRow,
    UnreadableRows,
    best,
    is_variant,
    moment,
    read_rows,
    sha1hex_of,
)
from datasette_ingest.ingest.urls import parse, resolve, without_fragment

from ..conftest import MakeCrawler
from ..origin import PDF, Origin, reply
from .fakes.archive import FIELDS, FIELDS_11, FakeArchive

A = "http://h.example/a.pdf"
T = "20200101000000"
SHA1 = base64.b32encode(hashlib.sha1(PDF).digest()).decode()
SHA1_HEX = hashlib.sha1(PDF).hexdigest()
ROW_7 = ["example,h)/a.pdf", T, A, "application/pdf", "200", SHA1, "77"]
ROW_11 = [*ROW_7[:6], "-", "-", "77", "5", "one.warc.gz"]
PLAIN = CdxRow(A, T, 200, "application/pdf", SHA1, 77)
FULL = CdxRow(A, T, 200, "application/pdf", SHA1, 77, 5, "one.warc.gz")


# Forms


@pytest.mark.parametrize(
    ("text", "row"),
    [
        (json.dumps([list(FIELDS), ROW_7]), PLAIN),
        (json.dumps([list(FIELDS_11), ROW_11]), FULL),
        (json.dumps([list(FIELDS)[::-1], ROW_7[::-1]]), PLAIN),
        (json.dumps([ROW_7]), PLAIN),
        (json.dumps([ROW_11]), FULL),
        (json.dumps([list(FIELDS), ROW_7, [], ["com%2Ch%29 20200101"]]), PLAIN),
        (" ".join(ROW_7), PLAIN),
        (" ".join(ROW_11) + "\n", FULL),
        (" ".join(ROW_7) + "\n\ncom%2Ch%29+20200101\n", PLAIN),
        (" CDX N b a m s k r M S V g\n" + " ".join(ROW_11), FULL),
        (" CDX N b a m s k r V g\n" + " ".join([*ROW_11[:7], *ROW_11[9:]]), CdxRow(A, T, 200, "application/pdf", SHA1, None, 5, "one.warc.gz")),
        (" ".join(FIELDS) + "\n" + " ".join(ROW_7), PLAIN),
        (json.dumps(dict(zip(FIELDS_11, ROW_11, strict=True))), FULL),
        (json.dumps({"timestamp": T, "url": A, "mime": "application/pdf", "status": "200", "digest": SHA1, "length": 77}), PLAIN),
        (f"example,h)/a.pdf {T} " + json.dumps({"url": A, "mime": "application/pdf", "status": "200", "digest": SHA1, "length": "77"}), PLAIN),
        (json.dumps([dict(zip(FIELDS, ROW_7, strict=True))]), PLAIN),
        ("\ufeff\r\n" + " ".join(ROW_7) + "\r\n", PLAIN),
    ],
)  # fmt: skip
def test_a_row_is_read_in_every_form(text: str, row: CdxRow) -> None:
    assert read_rows(text) == [row]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n",
        "[]",
        "[[]]",
        json.dumps([list(FIELDS)]),
        '{"message": "No Captures found for: h"}',
        " CDX N b a m s k r M S V g",
    ],
)
def test_nothing_is_no_rows(text: str) -> None:
    assert read_rows(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "<html>",
        "oops",
        "[[",
        "[1]",
        '{"error": "x"}',
        "Blocked Site Error\n",
        '{"timestamp"',
        "[" * 200_000,
        '{"a":' * 99_999,
    ],
)
def test_what_is_no_list_of_captures_is_said(text: str) -> None:
    with pytest.raises(UnreadableRows):
        read_rows(text)


@pytest.mark.parametrize("columns", [7, 11])
def test_blanks_within_a_url_are_part_of_it(columns: int) -> None:
    row = [*(ROW_7 if columns == 7 else ROW_11)]
    row[2] = "http://h.example/a b 200 c d e f.pdf"
    (found,) = read_rows(" ".join(row))
    assert (found.url, found.status, found.digest) == (row[2], 200, SHA1)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"statuscode": "-"}, None),
        ({"statuscode": "-", "original": "ftp://h.example/a.pdf"}, 226),
        ({"statuscode": 301}, 301),
        ({"statuscode": ""}, None),
        ({"statuscode": "two hundred"}, None),
        ({"digest": "-", "length": "-"}, 200),
        ({"length": "0", "mimetype": "-"}, 200),
        ({"original": "data:text/plain,a b"}, 200),
        ({"original": "mailto:a@h.example"}, 200),
        ({"original": None}, False),
        ({"timestamp": "2020"}, False),
        ({"timestamp": "20200230000000"}, False),
        ({"timestamp": "20000800241623"}, False),
        ({"timestamp": None}, False),
    ],
)
def test_odd_values_are_survived(changes: dict[str, Any], status: Any) -> None:
    found = read_rows(json.dumps({**dict(zip(FIELDS, ROW_7, strict=True)), **changes}))
    assert [row.status for row in found] == ([] if status is False else [status])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(string.printable, max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from([*FIELDS_11, "url", "mime", "status"]), inner, max_size=6)
    ),
    max_leaves=20,
)


@given(
    st.one_of(
        st.text(max_size=300),
        json_values.map(json.dumps),
        st.lists(st.sampled_from([*ROW_11, "\n", " ", "-"])).map(" ".join),
    )
)
def test_any_text_gives_rows_or_is_said_to_be_unreadable(text: str) -> None:
    try:
        rows = read_rows(text)
    except UnreadableRows:
        return
    for row in rows:
        assert len(row.timestamp) == 14 and row.captured_at == moment(row.timestamp)
    if rows:
        assert best(rows, A) in rows and best(rows, A, near=moment(T)) in rows


@pytest.mark.parametrize(
    ("digest", "found"),
    [
        (SHA1, SHA1_HEX),
        (f"sha1:{SHA1.lower()}", SHA1_HEX),
        ("AB" * 20, "ab" * 20),
        ("sha-256:00", None),
        ("1" * 32, None),
        ("error", None),
        (None, None),
    ],
)
def test_digests_are_read_where_they_are_sha1(digest: str | None, found: str | None) -> None:
    assert sha1hex_of(digest) == found


# The choice


def test_the_nearest_counts_more_than_the_status_where_a_time_is_wanted() -> None:
    rows = [
        CdxRow(A, "20150101000000", 302),
        CdxRow(A, "20200101000000", 200),
        CdxRow(A, "20150102000000", 404),
        CdxRow("https://h.example/a.pdf", "20150101000000", 200),
    ]
    assert best(rows, A, near=moment("2015")) == rows[0]
    assert best(rows, A) == rows[1]
    assert best(rows[2:], A) == rows[3], "a good capture of a variant rather than an error"
    assert best([], A) is None


@pytest.mark.parametrize(
    ("captured", "is_one"),
    [
        ("https://www.h.example/a.pdf", True),
        ("http://h.example:80/a.pdf", True),
        ("http://h.example/a.pdf/", True),
        ("http://h.example//a.pdf", True),
        ("http://h.example/b.pdf", False),
        ("http://h.example/a.pdf?x", False),
        ("not a url", False),
    ],
)
def test_variants_of_a_url(captured: str, is_one: bool) -> None:
    assert is_variant(captured, A) is is_one


# Addresses of captures


@pytest.mark.parametrize(
    ("address", "capture"),
    [
        (f"https://web.archive.org/web/{T}/{A}", Capture(T, A)),
        (f"https://web.archive.org/web/{T}id_/{A}", Capture(T, A)),
        (f"http://web.archive.org:80/web/{T}im_/{A}", Capture(T, A)),
        (f"https://archive.org/web/2020/{A}", Capture("2020", A)),
        ("https://web.archive.org/web/2020/http:/h.example/a.pdf", Capture("2020", A)),
        ("https://web.archive.org/web/2020/h.example/a.pdf", Capture("2020", A)),
        ("https://web.archive.org/web/2020/http%3A%2F%2Fh.example%2Fa.pdf", Capture("2020", A)),
        (f"https://web.archive.org/web/2020/{A}?x=https://y.example/", Capture("2020", f"{A}?x=https://y.example/")),
        (f"https://own.example:8080/crawl/{T}mp_/{A}", Capture(T, A)),
        (f"https://own.example:8080/other/{T}/{A}", None),
        (f"https://web.archive.org/web/*/{A}", None),
        (f"https://web.archive.org/web/{A}", None),
        (f"https://web.archive.org/web/{T}9/{A}", None),
        ("https://web.archive.org/web/2020/", None),
        ("https://archive.org/details/2020", None),
        (f"https://example.org/web/{T}/{A}", None),
    ],
)
def test_addresses_of_captures_are_read(address: str, capture: Capture | None) -> None:
    assert capture_in(parse(address), "https://own.example:8080/crawl/") == capture


@given(st.text(st.characters(blacklist_categories=["Cs"]), max_size=60), st.from_regex("[0-9]{14}", fullmatch=True))
def test_the_address_that_is_written_is_read_again(path: str, timestamp: str) -> None:
    url = resolve("http://h.example/" + path)
    if url is None:
        return
    url = without_fragment(url)
    base = "https://own.example/crawl"
    assert capture_in(replay_url(base, timestamp, url), base) == Capture(timestamp, url)


# Questions


async def ask(make_crawler: MakeCrawler, archive: FakeArchive, question: Any) -> Any:
    async with Origin(archive) as site:
        crawler = make_crawler(**archive.settings(site))
        index: CdxClient = crawler._sources["wayback"].index  # type: ignore[attr-defined]
        return await question(index)


async def test_a_fresh_capture_is_found_by_its_time_once_it_is_listed(make_crawler: MakeCrawler) -> None:
    archive = FakeArchive()
    archive.add("https://h.example/a.pdf/", T, PDF, looks=2)
    archive.add("http://h.example/b.pdf", T, PDF)

    async def question(index: CdxClient) -> list[Any]:
        return [await index.exact(A, T) for _ in range(3)]

    first, second, third = await ask(make_crawler, archive, question)
    assert (first, second, third.url) == (None, None, "https://h.example/a.pdf/")


async def test_of_two_captures_of_one_second_the_status_tells(make_crawler: MakeCrawler) -> None:
    archive = FakeArchive()
    archive.redirect(A, T, "https://h.example/a.pdf")
    archive.add("https://h.example/a.pdf", T, PDF)

    async def question(index: CdxClient) -> list[int | None]:
        rows = await index.exact(A, T), await index.exact(A, T, status=200), await index.exact(A, T, status=404)
        return [row and row.status for row in rows]

    assert await ask(make_crawler, archive, question) == [302, 200, None]


async def test_a_server_that_has_shown_what_it_understands_is_asked_once(make_crawler: MakeCrawler) -> None:
    archive = FakeArchive()
    archive.add(A, T, PDF)

    async def question(index: CdxClient) -> None:
        await index.captures(A)
        for _ in range(3):
            with pytest.raises(NoCapture):
                await index.captures("http://none.example/")

    await ask(make_crawler, archive, question)
    assert [asked["limit"] for asked in archive.questions] == ["-40"] * 4


async def test_a_server_without_negative_limits_is_not_asked_for_one_again(make_crawler: MakeCrawler) -> None:
    archive = FakeArchive(counts_back=False)
    archive.add(A, T, PDF)

    async def question(index: CdxClient) -> None:
        for _ in range(3):
            await index.captures(A)

    await ask(make_crawler, archive, question)
    assert [asked.get("limit") for asked in archive.questions] == ["-40", None, None, None]


async def test_a_query_within_the_url_is_part_of_the_question(make_crawler: MakeCrawler) -> None:
    url = "http://h.example/a.pdf?x=1&limit=5#no"
    archive = FakeArchive()
    archive.add("http://h.example/a.pdf?x=1&limit=5", T, PDF)
    (row,) = await ask(make_crawler, archive, lambda index: index.captures(url))
    assert row.url == "http://h.example/a.pdf?x=1&limit=5"


async def test_an_endless_list_is_an_error(make_crawler: MakeCrawler) -> None:
    archive = FakeArchive()
    archive.faults["/cdx"] = [reply(b"x" * (17 * 1024 * 1024))]
    with pytest.raises(CdxError):
        await ask(make_crawler, archive, lambda index: index.captures(A))


def test_what_is_no_text_is_as_if_it_was_not_there() -> None:
    row = {"timestamp": T, "original": A, "filename": "\ud800.warc", "digest": "\udfff", "mimetype": "a\ud800"}
    rows = read_rows(json.dumps([list(row), list(row.values())]))
    assert [(one.url, one.filename, one.digest, one.mimetype) for one in rows] == [(A, None, None, None)]
    assert read_rows(json.dumps([[*row][:2], [T, A + "\ud800"]])) == []


@pytest.mark.parametrize(
    ("said", "read"), [("0", 0), (17, 17), ("9" * 30, None), ("9" * 5000, None), ("-5", None), ("٣", None)]
)
def test_a_place_that_no_file_has_is_as_if_it_was_not_there(said: Any, read: int | None) -> None:
    (row,) = read_rows(json.dumps({"timestamp": T, "original": A, "offset": said}))
    assert row.offset == read
