"""Requests that wait: in which partition of the topic `later`, and what becomes of those whose wait is over.

All messages of one partition wait equally long, so the first one is always the next that is due: a reader holds the
partition until then, and nothing behind it is late. A longer wait is several waits in turn.
"""

from __future__ import annotations

WAITS = (5.0, 30.0, 120.0, 600.0, 3600.0, 6 * 3600.0)
"""Seconds that a message stays in partition 0, 1, … of the topic."""


def partition_for(seconds: float) -> int:
    """The partition for a message that is to wait so long: the longest wait that is not too long, else the shortest."""
    fitting = [number for number, wait in enumerate(WAITS) if wait <= seconds]
    return fitting[-1] if fitting else 0


def due(sent: float, number: int) -> float:
    """When a message that was sent into a partition at a time leaves it. Seconds since 1970, as both."""
    return sent + WAITS[number]
