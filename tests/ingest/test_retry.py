"""When a miss is tried again."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from datasette_ingest.ingest.errors import RetryClass
from datasette_ingest.ingest.retry import next_try

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("retry", "attempts", "hours"),
    [
        (RetryClass.NOW, 1, 1 / 60),
        (RetryClass.NOW, 2, 2 / 60),
        (RetryClass.NOW, 9, 256 / 60),
        (RetryClass.SOON, 1, 8),
        (RetryClass.SOON, 3, 32),
        (RetryClass.SOON, 9, 8 * 24),
        (RetryClass.LATER, 1, 30 * 24),
        (RetryClass.LATER, 9, 30 * 24),
    ],
)
def test_waits_double_up_to_their_longest(retry: RetryClass, attempts: int, hours: float) -> None:
    due = next_try(retry, attempts, now=NOW)
    assert due is not None and abs((due - NOW).total_seconds() - hours * 3600) < 1


def test_nothing_is_due_for_ever() -> None:
    assert next_try(RetryClass.NEVER, 1, now=NOW) is None
    assert next_try(RetryClass.SOON, 10, now=NOW) is None
    far = next_try(RetryClass.NOW, 1, now=NOW, retry_after=1e12)
    assert far == NOW + timedelta(days=30)
