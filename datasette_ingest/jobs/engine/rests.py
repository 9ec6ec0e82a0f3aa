"""Which databases a worker leaves alone for a while, since they could not be used."""

from __future__ import annotations

import math
from collections.abc import Callable

FIRST_REST_SECONDS = 1.0
LONGEST_REST_SECONDS = 30.0


class Rests:
    """Databases that could not be used, and until when they are left alone: from FIRST_REST_SECONDS on twice as long
    each time, up to LONGEST_REST_SECONDS.

    :param now: a clock
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._rests: dict[str, tuple[float, float]] = {}  # name -> (until, seconds)

    def is_resting(self, name: str) -> bool:
        return name in self._rests and self._now() < self._rests[name][0]

    @property
    def resting(self) -> list[str]:
        """The databases that are left alone now."""
        return [name for name in self._rests if self.is_resting(name)]

    def rest(self, name: str) -> None:
        """Leave the database alone, longer than before if it was not well for that long since."""
        until, seconds = self._rests.get(name, (-math.inf, 0.0))
        again = self._now() < until + 2 * seconds + LONGEST_REST_SECONDS
        seconds = min(2 * seconds, LONGEST_REST_SECONDS) if seconds and again else FIRST_REST_SECONDS
        self._rests[name] = (self._now() + seconds, seconds)
