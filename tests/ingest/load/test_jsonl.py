"""JSON lines of requests: the fast way gives what IngestRequest gives."""

from __future__ import annotations

import json
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest.model import IngestRequest
from datasette_ingest.ingest.store.requests import row_of
from datasette_ingest.ingest.types import INGEST_TYPES

from .kit import GIVEN, lines, load, request
from .test_unpaywall import TEXT, plain


def test_sandcrawlers_names_and_fields_of_its_own_are_taken() -> None:
    document = {
        "ingest_type": "file",
        "base_url": "http://h/1.pdf",
        "link_source": "oai",
        "link_source_id": "oai:1",
        "ingest_request_source": "bulk",
        "release_stage": "accepted",
        "ext_ids": {"doi": "10.1/a"},
        "something": [1, None],
    }
    (row,) = load(lines(document)).rows
    assert row[:7] == ("pdf", "http://h/1.pdf", "oai", "oai:1", "bulk", GIVEN.created, "accepted")
    assert json.loads(row[7]) == {"ext_ids": {"doi": "10.1/a"}, "something": [1, None]}


def test_what_is_missing_is_what_was_given_for_all() -> None:
    (row,) = load(
        lines({"base_url": "http://h/1.xml", "source_id": "1", "source": None}), ingest_type="xml", actor="me"
    ).rows
    assert row == ("xml", "http://h/1.xml", "there", "1", "me", GIVEN.created, None, None)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"base_url": " "}, "base_url is missing or blank"),
        ({"base_url": None}, "base_url is missing or blank"),
        ({"source_id": ""}, "source_id is missing or blank"),
        ({"source_id": 7}, "source_id: Input should be a valid string"),
        ({"base_url": {"a": 1}}, "base_url: Value error, not a cell"),
        ({"ingest_type": "src"}, "ingest_type is 'src'; known are pdf"),
        ({"ext_ids": [1]}, "ext_ids: Input should be a valid dictionary"),
        ({"base_url": "http://h/\0"}, "base_url contains a NUL character"),
        ({"base_url": "http://h/\ud800"}, "a text is not Unicode"),
    ],
)
def test_a_line_that_is_no_request_is_refused(fields: dict[str, Any], reason: str) -> None:
    content = b"\n".join(json.dumps(each).encode() for each in (request(1), request(2, **fields), request(3)))
    loaded = load(content)
    assert loaded.urls == ["http://h/1.pdf", "http://h/3.pdf"]
    ((line, said),) = loaded.refused
    assert (line, said[: len(reason)]) == (2, reason)


def test_a_number_as_a_url_is_the_text_that_sqlite_makes_of_it() -> None:
    assert load(lines(request(base_url=1e20), request(base_url=42))).urls == ["1.0e+20", "42"]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
REQUESTS = st.fixed_dictionaries(
    {"ingest_type": st.sampled_from([*INGEST_TYPES, "file"]), "base_url": TEXT, "source": TEXT, "source_id": TEXT},
    optional={
        "link_source": TEXT,
        "actor": TEXT,
        "ingest_request_source": TEXT,
        "release_stage": VALUES,
        "force_recrawl": VALUES,
        "ext_ids": VALUES,
        "expect_hash": VALUES,
        "max_capture_age_days": VALUES,
        "oa_status": VALUES,
        "created": VALUES,
        "more": VALUES,
    },
)


@given(document=REQUESTS)
def test_rows_are_those_of_the_model(document: dict[str, Any]) -> None:
    loaded = load(lines(document))
    try:
        request = IngestRequest.from_json(document)
    except pydantic.ValidationError:
        assert loaded.refused_lines == [1]
        return
    if any(document[name].isspace() for name in ("base_url", "source", "source_id")):
        assert loaded.refused_lines == [1]
        return
    assert [plain(row) for row in loaded.rows] == [plain(row_of(request, created=GIVEN.created))]
