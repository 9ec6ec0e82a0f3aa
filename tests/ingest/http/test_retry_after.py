"""Retry-After in every form in which servers send it."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest.http.retry_after import LONGEST, retry_after

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        (b"", None),
        (b"  ", None),
        (b"soon", None),
        (b"1e9", None),
        (b"120", 120.0),
        (b" 120 ", 120.0),
        (b"0", 0.0),
        (b"-5", 0.0),
        (b"1.5", 1.5),
        (b"9" * 40, LONGEST),
        (b"Mon, 30 Nov 2026 12:01:00 GMT", 60.0),
        (b"Monday, 30-Nov-26 12:01:00 GMT", 60.0),
        (b"Mon Nov 30 12:01:00 2026", 60.0),
        (b"Mon, 30 Nov 2026 11:00:00 GMT", 0.0),
        (b"Fri, 31 Dec 9999 23:59:59 GMT", LONGEST),
        (b"Mon, 99 Nov 2026 12:01:00 GMT", None),
        (b"\xff\xfe", None),
    ],
)
def test_a_wish_is_read_and_clamped(value: bytes | None, seconds: float | None) -> None:
    assert retry_after(value, now=NOW) == seconds


@given(st.binary(max_size=60))
def test_no_value_does_anything_but_give_seconds_or_nothing(value: bytes) -> None:
    seconds = retry_after(value, now=NOW)
    assert seconds is None or 0 <= seconds <= LONGEST
