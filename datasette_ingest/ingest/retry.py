"""When a miss is tried again: the waits of each retry class."""

from __future__ import annotations

from datetime import datetime, timedelta

from .errors import RetryClass

MAX_ATTEMPTS = 10
"""After so many tries a miss is not tried again by itself."""

LONGEST_WAIT = timedelta(days=30)
"""A server's Retry-After counts up to this."""

WAITS: dict[RetryClass, tuple[timedelta, timedelta] | None] = {
    RetryClass.NOW: (timedelta(seconds=60), timedelta(hours=8)),
    RetryClass.SOON: (timedelta(hours=8), timedelta(days=8)),
    RetryClass.LATER: (LONGEST_WAIT, LONGEST_WAIT),
    RetryClass.NEVER: None,
}
"""First and longest wait of each class. The wait doubles with every attempt."""


def next_try(retry: RetryClass, attempts: int, *, now: datetime, retry_after: float | None = None) -> datetime | None:
    """When a miss is due again, or None for never.

    `attempts` counts the tries so far, this one included. `retry_after` is the pause that the server asked for, in
    seconds. It replaces the wait of class NOW, and lengthens the wait of the other classes.
    """
    waits = WAITS[retry]
    if waits is None or attempts >= MAX_ATTEMPTS:
        return None
    first, longest = waits
    wait: timedelta = min(first * 2 ** (max(attempts, 1) - 1), longest)
    if retry_after is not None:
        asked = timedelta(seconds=min(retry_after, LONGEST_WAIT.total_seconds()))
        wait = asked if retry is RetryClass.NOW else max(wait, asked)
    return now + wait
