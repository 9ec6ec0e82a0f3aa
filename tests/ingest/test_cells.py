"""A cell as JSON and as the key of its result."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest.cells import cell_key, cell_of_json, json_of_cell

INTEGERS = st.integers(-(2**63), 2**63 - 1)
SURROGATES = st.text(st.characters(exclude_categories=()))
CELLS = SURROGATES | st.binary() | INTEGERS | st.floats(allow_nan=False, allow_infinity=False) | st.none()


@given(CELLS)
def test_every_cell_is_read_back_as_it_was(cell: Any) -> None:
    text = json.dumps(json_of_cell(cell), allow_nan=False)
    read = cell_of_json(json.loads(text))
    assert (type(read), read) == (type(cell), cell)


@pytest.mark.parametrize(("cell", "text"), [(float("inf"), "Inf"), (float("-inf"), "-Inf")])
def test_infinity_is_the_text_that_sqlite_makes_of_it(cell: float, text: str) -> None:
    assert json_of_cell(cell) == text
    assert as_text(cell) == text


@pytest.mark.parametrize("given", [bytearray(b"\xff"), memoryview(b"\xff")])
def test_bytes_of_any_kind_are_base64(given: Any) -> None:
    assert json_of_cell(given) == {"$base64": True, "encoded": "/w=="}


@pytest.mark.parametrize(
    "value",
    [
        True,
        [],
        {},
        {"$base64": True},
        {"$base64": 1, "encoded": "/w=="},
        {"$base64": True, "encoded": "/w=="} | {"x": 1},
        {"$base64": True, "encoded": "no base64"},
        {"$base64": True, "encoded": "é"},
        2**63,
        float("nan"),
    ],
)
def test_what_no_cell_holds_is_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        cell_of_json(value)


def as_text(cell: Any) -> Any:
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        return conn.execute("select cast(? as text)", [cell]).fetchone()[0]


@given(INTEGERS | st.floats(allow_nan=False))
def test_a_number_is_keyed_by_the_text_that_a_query_over_its_column_has(cell: float) -> None:
    assert as_text(cell_key(cell)) == as_text(cell)


@given(SURROGATES | st.binary())
def test_any_text_and_any_bytes_can_be_bound_unless_blank(cell: str | bytes) -> None:
    key = cell_key(cell)
    assert (key is None) == (not cell.strip())
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        assert conn.execute("select typeof(cast(? as text))", [key]).fetchone()[0] == (
            "null" if key is None else "text"
        )
