"""A thread that renews the leases of a worker's open batches and names what blocks the event loop.

It has connections of its own, so that neither an enrichment that never waits nor a long write lets a lease end while
the work goes on. A batch that has worked longer than its time limit is not renewed: the next process may have it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from ... import compat
from .. import leases
from .runner import Runner, Timing

log = logging.getLogger(__name__)

BLOCKED_CPU_SECONDS = 1.0
"""An event loop that uses so much processor time before it runs another callback is blocked. Time on the clock says
less: on a busy machine a healthy loop waits for the processor."""
BLOCKED_SECONDS = 10.0
"""One that runs no other callback for so long is blocked even without processor time: by a sleep, a lock, a file."""
GRACE_SECONDS = 5.0
"""How long the lease of a batch is renewed beyond its time limit, in which the runner gives it up itself."""


def _cpu_clock_of_this_thread() -> Callable[[], float]:
    """A clock of the processor time of the calling thread, in seconds, for any thread to read. Where the system has
    none: that of the whole process, which is never less."""
    try:
        clock = time.pthread_getcpuclockid(threading.get_ident())
        time.clock_gettime(clock)
    except (AttributeError, OSError):
        return time.process_time
    return lambda: time.clock_gettime(clock)


class Heartbeat:
    """Renews and watches while a worker works.

    :param runners: the worker's runners, as they come and go
    """

    def __init__(self, owner: str, timing: Timing, runners: Mapping[tuple[str, int], Runner]) -> None:
        self._owner = owner
        self._timing = timing
        self._runners = runners
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop_thread: int | None = None
        self._cpu: Callable[[], float] = time.process_time
        self._asked: tuple[float, float] | None = None  # (time, processor time) of a callback that has not run yet
        self._reported = False
        self._connections: dict[str, sqlite3.Connection | None] = {}

    def start(self) -> None:
        """Begin, from the thread and the running event loop that are to be watched."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._cpu = _cpu_clock_of_this_thread()
        self._thread = threading.Thread(target=self._beat, name="ingest-heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=10)
        for connection in self._connections.values():
            if connection is not None:
                connection.close()

    def _beat(self) -> None:
        every = self._timing.lease_seconds / 4
        renewed = time.monotonic()
        while not self._stop.wait(min(0.25, every)):
            self._check_the_loop()
            if time.monotonic() - renewed >= every:
                renewed = time.monotonic()
                self._renew()

    def _check_the_loop(self) -> None:
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        now, cpu, asked = time.monotonic(), self._cpu(), self._asked
        if asked is None:
            self._asked = (now, cpu)
            with contextlib.suppress(RuntimeError):  # closed meanwhile
                loop.call_soon_threadsafe(self._callback_ran)
            return
        lag, used = now - asked[0], cpu - asked[1]
        if not self._reported and (used > BLOCKED_CPU_SECONDS or lag > BLOCKED_SECONDS):
            self._reported = True
            log.error(
                "%s blocks the event loop, for %.1f s now, %.1f s of it on the processor:\n%s",
                self._running_jobs(),
                lag,
                used,
                self._stack(),
            )

    def _callback_ran(self) -> None:
        self._asked = None
        self._reported = False

    def _running_jobs(self) -> str:
        names = {
            f"the enrichment {runner.enrichment.slug} (job {runner.job.id} of {runner.db.name})"
            for runner in list(self._runners.values())
        }
        return " or ".join(sorted(names)) or "something"

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._loop_thread or 0)
        return "".join(traceback.format_stack(frame)[-6:]) if frame is not None else "(no stack)"

    def _renew(self) -> None:
        limit = self._timing.batch_seconds
        until = self._timing.clock() + self._timing.lease_seconds
        # values(), not items(): a tuple made for each item lets the garbage collector run, and with it other threads,
        # which change the very dict.
        for runner in list(self._runners.values()):
            at_work = list(runner.open_batches.values())
            ids = [item.reservation.batch.id for item in at_work if item.worked() < limit + GRACE_SECONDS]
            if not ids:
                continue
            try:
                connection = self._connection(runner.db)
                if connection is not None:
                    leases.renew(connection, self._owner, ids, until)
            except sqlite3.DatabaseError as problem:
                compat.report(runner.db, problem)
                self._forget(runner.db)

    def _connection(self, db: Any) -> sqlite3.Connection | None:
        compat.require_same_file(db)
        if db.name not in self._connections:
            self._connections[db.name] = compat.connect_for_writing(db)
        return self._connections[db.name]

    def _forget(self, db: Any) -> None:
        """Close the connection: the next one may be able to write where this one cannot."""
        connection = self._connections.pop(db.name, None)
        if connection is not None:
            connection.close()
