"""CSV, TSV and rows of a query."""

from __future__ import annotations

import json

import pytest

from datasette_ingest.ingest.load.table import Columns

from .kit import load


def test_columns_are_guessed_from_the_head() -> None:
    content = b"ID,Title,URL,DOI,release_stage\n7,Herons,http://h/1.pdf,10.1/a,accepted\n8,Tides,,10.1/b,\n"
    loaded = load(content, "csv")
    assert [row[:4] + row[6:7] for row in loaded.rows] == [
        ("pdf", "http://h/1.pdf", "there", "7", "accepted"),
        ("pdf", "10.1/b", "there", "8", None),
    ]
    assert json.loads(loaded.rows[0][7]) == {"ext_ids": {"doi": "10.1/a"}}


@pytest.mark.parametrize("format", ["csv", "tsv"])
def test_a_column_of_dois_is_enough(format: str) -> None:
    loaded = load(b"doi\n10.1/a\n\n10.1/b\n", format)
    assert [row[1:4] for row in loaded.rows] == [("10.1/a", "there", "10.1/a"), ("10.1/b", "there", "10.1/b")]


def test_columns_that_are_named_count() -> None:
    content = b"url\tfull\tkind\tfrom\tkey\nx\thttp://h/1\tXML \tdoaj\tk\n"
    columns = Columns(url="full", type="kind", source="from", source_id="key")
    (row,) = load(content, "tsv", columns=columns).rows
    assert row[:4] == ("xml", "http://h/1", "doaj", "k")


def test_a_given_source_is_not_overridden_by_a_column_that_is_guessed() -> None:
    content = b"url,source\nhttp://h/1,Journal of Herons\n"
    assert load(content, "csv").rows[0][2] == "there"
    assert load(content, "csv", source=None).rows[0][2] == "Journal of Herons"


@pytest.mark.parametrize(
    ("content", "columns", "said"),
    [
        (b"title,year\na,1\n", Columns(), "no column seems to hold URLs or DOIs; name one with --url-column"),
        (b"url,url\na,b\n", Columns(), "more than one column is named 'url'"),
        (b"url\na\n", Columns(doi="DOI"), "there is no column 'DOI'; the columns are 'url'"),
        (b'"url\na\n', Columns(), "the head cannot be read: a quote is not closed"),
        (b"url;doi\na;b\n", Columns(), "The columns are 'url;doi'"),
    ],
)
def test_a_head_that_does_not_do_is_refused(content: bytes, columns: Columns, said: str) -> None:
    loaded = load(content, "csv", columns=columns)
    assert loaded.stopped is not None and said in loaded.stopped


def test_columns_of_one_name_that_are_not_used_do_not_matter() -> None:
    assert load(b"url,note,note\nhttp://h/1,a,b\n", "csv").urls == ["http://h/1"]


def test_a_cell_may_go_over_lines_and_a_row_that_cannot_be_read_costs_one_line() -> None:
    content = (
        b'url,id,note\nhttp://h/1,1,"two\nlines, ""quoted"""\nhttp://h/2,2\nhttp://h/3,3,"open\n'
        b"http://h/4,4,\nhttp://h/5,\xff,\nhttp://h/6,6,\nhttp://h/7, ,\n"
    )
    loaded = load(content, "csv")
    assert loaded.urls == ["http://h/1", "http://h/4", "http://h/6"]
    assert loaded.refused == [
        (4, "2 cells, where the head has 3"),
        (5, "a quote is not closed"),
        (7, "not UTF-8"),
        (9, "id is missing or blank"),
    ]


def test_a_quote_that_is_never_closed_loses_nothing_after_it() -> None:
    rows = b"".join(b"http://h/%d\n" % number for number in range(5_000))
    loaded = load(b'url\n"http://h/open\n' + rows, "csv")
    assert len(loaded.rows) == 5_000
    assert loaded.refused_lines == [2]


def test_nul_characters_and_carriage_returns() -> None:
    loaded = load(b"\xef\xbb\xbfurl,id\r\nhttp://h/1,1\r\nhttp://h/\0,2\r\nhttp://h/3,3\r\n", "csv")
    assert (loaded.urls, loaded.refused_lines) == (["http://h/1", "http://h/3"], [3])


def test_rows_of_another_type_are_left_out() -> None:
    content = b"url,ingest_type\nhttp://h/1,pdf\nhttp://h/2,xml\nhttp://h/3,\nhttp://h/4,src\n"
    loaded = load(content, "csv", ingest_type="xml", only_type="xml")
    assert [(row[0], row[1]) for row in loaded.rows] == [("xml", "http://h/2"), ("xml", "http://h/3")]
    assert loaded.refused_lines == [5]
