"""Names as people read them."""

from __future__ import annotations

import pytest

from datasette_ingest import text


@pytest.mark.parametrize("name", ["papers", "my papers", "Größe", "论文", "a'b", 'say "x"', "per%cent", "a/b"])
def test_a_name_that_can_be_read_is_shown_as_it_is(name: str) -> None:
    assert text.name(name) == name


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("", "''"),
        (" id", "' id'"),
        ("id\u00a0", "'id\\xa0'"),
        ("a\nb", "'a\\nb'"),
        ("\ufeffid", "'\\ufeffid'"),
        ("a\u200fb", "'a\\u200fb'"),
        ("a\0b", "'a\\x00b'"),
        ("a\udc80", "'a\\udc80'"),
        ("a\u2028b", "'a\\u2028b'"),
    ],
)
def test_a_name_that_hides_something_is_quoted_and_escaped(name: str, shown: str) -> None:
    assert text.name(name) == shown
