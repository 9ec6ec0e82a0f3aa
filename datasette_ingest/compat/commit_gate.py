"""Keeps commits and long reads of this process apart, so that nobody else waits for both.

Without a write-ahead log a commit waits until every read of the file has ended, and meanwhile SQLite lets no new read
begin (https://www.sqlite.org/lockingv3.html, PENDING): a slow count would stall every page. So a commit first waits, without
that lock, until the reads that have a time limit are over, and no new one of those begins before it.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from typing import Any

PATIENCE_SECONDS = 1.0
"""How long a commit or a long read waits for the other; then it goes on."""


class CommitGate:
    """Of one database. Used in threads that may block."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._reading = 0
        self._committing = 0

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """A read that may take long; begins when no commit waits."""
        with self._changed:
            self._changed.wait_for(lambda: not self._committing, PATIENCE_SECONDS)
            self._reading += 1
        try:
            yield
        finally:
            with self._changed:
                self._reading -= 1
                self._changed.notify_all()

    @contextlib.contextmanager
    def committing(self, conn: sqlite3.Connection) -> Iterator[None]:
        """A commit on this connection; begins when the long reads are over."""
        if conn.execute("pragma journal_mode").fetchone()[0] == "wal":
            yield
            return
        with self._changed:
            self._committing += 1
            self._changed.wait_for(lambda: not self._reading, PATIENCE_SECONDS)
        try:
            yield
        finally:
            with self._changed:
                self._committing -= 1
                self._changed.notify_all()


_GATES: weakref.WeakKeyDictionary[Any, CommitGate] = weakref.WeakKeyDictionary()


def gate_of(db: Any) -> CommitGate:
    """The gate of a Datasette database."""
    return _GATES.setdefault(db, CommitGate())
