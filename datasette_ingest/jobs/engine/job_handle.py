"""The job as an enrichment sees it while it works on one batch."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from ..cache import Cache
from ..model import Job


class WorkClock:
    """How long a batch has been at work, in seconds. It stops while any task of the batch is inside `JobHandle.waiting`.

    :param now: a clock; the event loop's `time`
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.began = now()
        self._waiting = 0
        self._stopped_at = 0.0

    def seconds(self) -> float:
        """May be called from any thread."""
        return self._stopped_at if self._waiting else self._now() - self.began

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """The time inside is not counted. Re-entrant, also from several tasks."""
        if not self._waiting:
            self._stopped_at = self.seconds()
        self._waiting += 1
        try:
            yield
        finally:
            if self._waiting == 1:
                self.began = self._now() - self._stopped_at  # first: another thread may read in between
            self._waiting -= 1


@dataclass
class Peers:
    """How many processes work on a database file, this one included."""

    workers: int = 1


class JobHandle:
    """The job as an enrichment sees it while it works on one batch.

    `state` is the job's JSON notes; keys set here are merged into the stored notes when the batch is committed.
    `settings` are plugin settings that were given for this job. `is_dry_run`: a few rows are enriched to be shown; there
    is no such job, and nothing is written.
    """

    is_dry_run = False

    def __init__(self, job: Job, cache: Cache, peers: Peers | None = None, deferrals: int = 0) -> None:
        self.id = job.id
        self.deferrals = deferrals
        """How often this batch was put off before, by a Defer that counts."""
        self.clock = WorkClock(time.monotonic)
        self._peers = peers or Peers()
        self.actor_id = job.actor_id
        self.cache = cache
        self.settings: Mapping[str, Any] = job.options.settings or {}
        self.state: dict[str, Any] = dict(job.state)
        self._before = {key: _as_text(value) for key, value in job.state.items()}
        self._counters: dict[str, int] = {}
        self._spent = 0

    def add(self, name: str, number: int) -> None:
        """Add to a counter in the job's notes. Additions of concurrent batches are summed."""
        self._counters[name] = self._counters.get(name, 0) + number

    def spend(self, nanodollars: int) -> None:
        """Add to what the job has cost, in 10^-9 dollar, as soon as it is spent: it is kept also where this batch ends in
        a Pause, a Cancel, a Defer or an error. What is added here is not part of `BatchOutcome.cost_nanodollars`.

        :raises TypeError: for what is no whole number, 0 or more
        """
        if not isinstance(nanodollars, int) or isinstance(nanodollars, bool) or nanodollars < 0:
            raise TypeError(f"a cost must be a whole number of nanodollars, not {nanodollars!r}")
        self._spent += nanodollars

    @property
    def workers(self) -> int:
        """Processes that hold reservations in this database file now, this one included: a limit that all of them share
        is divided by it."""
        return self._peers.workers

    def waiting(self) -> AbstractContextManager[None]:
        """A context for waiting (a queue, a rate limit): its time does not count as work, which `batch_seconds`
        limits. While any task of the batch is inside, the batch waits."""
        return self.clock.stopped()

    @property
    def has_spent(self) -> bool:
        """Whether `spend` was called since the last `take_spent`."""
        return self._spent > 0

    def take_spent(self) -> int:
        """What was spent since the last take."""
        spent, self._spent = self._spent, 0
        return spent

    def take(self) -> tuple[dict[str, Any], dict[str, int]]:
        """What changed since the last take: (keys set, counters added)."""
        texts = {str(key): _as_text(value) for key, value in self.state.items()}
        changed = {key: json.loads(text) for key, text in texts.items() if self._before.get(key) != text}
        self._before = texts
        counters, self._counters = self._counters, {}
        return changed, counters


def _as_text(value: Any) -> str:
    """A note as JSON; a value that JSON cannot hold as its text."""
    try:
        return json.dumps(value, default=str)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(repr(value)[:1000])
