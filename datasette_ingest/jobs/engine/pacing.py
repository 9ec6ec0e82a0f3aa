"""When a runner commits, and when it reads its job's row between two transactions."""

from __future__ import annotations

import asyncio
import math

COMMIT_SECONDS = 0.25
"""A slow enrichment's results are committed no more often than this."""
LOOK_SECONDS = 0.4
"""How often the job's status is read between transactions: a pause takes effect within a second."""
WAITING_LOOK_SECONDS = 1.0
"""The same while all open rows of the job are deferred."""
THROTTLED_CYCLE_SECONDS = 0.1
THROTTLED_ROWS = 1000
"""In a server, a job whose cycles take less than THROTTLED_CYCLE_SECONDS reserves at most THROTTLED_ROWS rows at once:
shorter cycles delay pages less."""


class Pacing:
    """Measures a runner's transactions on the event loop's clock.

    `cycle_seconds`: from the transaction before last to the last.
    """

    def __init__(self) -> None:
        self.cycle_seconds = math.inf
        self._committed = 0.0
        self._looked = 0.0

    def commit(self) -> None:
        """A transaction has just ended."""
        now = _now()
        self.cycle_seconds, self._committed, self._looked = now - self._committed, now, now

    def since_commit(self) -> float:
        """Seconds since the last transaction."""
        return _now() - self._committed

    def until_commit(self) -> float:
        """Seconds until the next transaction may come; 0 or less: it may come now."""
        return COMMIT_SECONDS - self.since_commit()

    def look(self, is_waiting: bool) -> bool:
        """Whether it is time to read the job's row; counted as read then."""
        if _now() - self._looked < look_seconds(is_waiting):
            return False
        self._looked = _now()
        return True

    def look_now(self) -> None:
        """Make the next `look` true."""
        self._looked = -math.inf


def look_seconds(is_waiting: bool) -> float:
    """:param is_waiting: all open rows of the job are deferred"""
    return WAITING_LOOK_SECONDS if is_waiting else LOOK_SECONDS


def throttled(batches: int, batch_size: int, cycle_seconds: float) -> int:
    """How many of `batches` a job may keep open beside pages that are served in the same process."""
    if cycle_seconds >= THROTTLED_CYCLE_SECONDS:
        return batches
    return min(batches, max(1, THROTTLED_ROWS // batch_size))


def _now() -> float:
    return asyncio.get_running_loop().time()
