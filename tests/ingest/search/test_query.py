"""Whatever is typed is a valid query, and words, phrases and operators mean what they say."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from datasette_ingest.ingest.search.query import MOST_CHARACTERS, MOST_NESTED, Query, parse

TEXTS = {
    1: "open access to cell biology",
    2: "access denied, cells open",
    3: "non-small cell lung cancer",
    4: "全文検索 を 使う",
    5: "search and rescue",
}


@pytest.fixture(scope="module")
def index() -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        conn.execute('create virtual table texts using fts5(text, tokenize="unicode61 remove_diacritics 2")')
        conn.executemany("insert into texts (rowid, text) values (?, ?)", TEXTS.items())
        yield conn


def found(index: sqlite3.Connection, typed: str) -> list[int]:
    match = parse(typed).match
    return [row[0] for row in index.execute("select rowid from texts where texts match ? order by 1", [match])]


@pytest.mark.parametrize(
    ("typed", "numbers"),
    [
        ("open access", [1, 2]),
        ('"open access"', [1]),
        ("“open access”", [1]),  # as a word processor writes it
        ('"open access', [1]),
        ("cell*", [1, 2, 3]),
        ('"access d"*', [2]),
        ("ÓPEN", [1, 2]),
        ("non-small", [3]),
        ("text:cell", []),  # no column filter
        ("-cell", [1, 3]),  # no minus
        ("cell NOT biology", [3]),
        ("denied OR cancer", [2, 3]),
        ("(denied OR cancer) cell*", [2, 3]),
        ("cell (biology OR lung) NOT open", [3]),
        ("open NOT cell biology", [2]),  # as in FTS5, words side by side bind closest
        ("search and", [5]),  # a small "and" is a word
        ("AND rescue", [5]),  # nothing to combine with: AND is a word
        ("cell 🎉", [1, 3]),
        ("cell\0lung", [3]),
        ("全文*", [4]),
        ("((((cell", [1, 3]),
        ("()cell", [1, 3]),
        ("cell ) lung (", [3]),
        ("NEAR(open access)", []),
        ('""', None),
        ("*", None),
        ("🎉 — ", None),
        ("", None),
    ],
)
def test_what_is_typed_finds_what_it_says(index: sqlite3.Connection, typed: str, numbers: list[int] | None) -> None:
    if numbers is None:
        assert parse(typed) == Query("")
    else:
        assert found(index, typed) == numbers


OPERATORS = [
    "a",
    "b*",
    '"',
    '"c d"',
    "(",
    ")",
    "AND",
    "OR",
    "NOT",
    "NEAR",
    "*",
    "-",
    ":",
    "^",
    "+",
    "{",
    "}",
    "\\",
    "'",
    "\0",
]
WORDS = ["\ud800", "🎉", "全文", "½", "\ufffe", "a:b", "a-b", "a.b", "--", ";", ",", "{a b}:"]
PIECES = st.lists(st.sampled_from([*OPERATORS, *WORDS]), max_size=40)


@given(st.one_of(st.text(max_size=60), PIECES.map(" ".join), PIECES.map("".join)))
@example("(" * (MOST_CHARACTERS // 2) + "a" + ")" * (MOST_CHARACTERS // 2))
@example("a NOT " * (MOST_CHARACTERS // 6) + "a")
@example("a " * (MOST_CHARACTERS // 2))
@example('"' * MOST_CHARACTERS)
@example("a OR b AND c NOT (" * MOST_NESTED + "a" + ")" * MOST_NESTED)
@example("(a b) " * (MOST_CHARACTERS // 6))
def test_fts5_takes_every_query(index: sqlite3.Connection, typed: str) -> None:
    query = parse(typed)
    if query.match:
        found(index, typed)
