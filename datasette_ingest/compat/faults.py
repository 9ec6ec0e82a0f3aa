"""What an exception of SQLite's says: whether waiting may help, and which sentence people read."""

from __future__ import annotations

import logging
import sqlite3
import weakref
from typing import Any

from .errors import Busy, Moved, Unavailable
from .files import require_same_file

log = logging.getLogger(__name__)


_REASONS = {
    5: "is locked by another program",
    6: "is locked by another program",
    8: "may not be written: change the permissions of its file and folder, or work on a copy",
    10: "cannot be read or written: its disk reports errors",
    11: "is damaged. Restore a copy of its file",
    13: "cannot be written: its disk is full",
    14: "cannot be opened: its file or folder is missing or may not be used",
    15: "cannot be locked on its file system",
    26: "is not a SQLite database any more. Restore a copy of its file",
}
"""Primary result codes that say that a database cannot be used now (https://www.sqlite.org/rescode.html)."""
_TEXTS = {
    "is locked": 5,
    "readonly database": 8,
    "disk I/O error": 10,
    "disk is full": 13,
    "unable to open": 14,
    "locking protocol": 15,
    "not a database": 26,
    "out of memory": 7,
}
"""The same by SQLite's messages, for Python 3.10. A database that is malformed is left out: a full-text index that is out
of step says so, too."""
_CORRUPT_VTAB = 267
"""A virtual table, such as a full-text index, is out of step: no fault of the whole database."""


def primary_code(problem: BaseException) -> int | None:
    """The primary result code of an exception of sqlite3's."""
    if not isinstance(problem, sqlite3.DatabaseError):
        return None
    code = getattr(problem, "sqlite_errorcode", None)  # since Python 3.11
    if code is None:
        return next((code for text, code in _TEXTS.items() if text in str(problem)), None)
    return None if code == _CORRUPT_VTAB else code & 0xFF


def is_busy(problem: BaseException) -> bool:
    """Whether this exception says that another connection holds the lock."""
    return isinstance(problem, Busy) or primary_code(problem) in (5, 6)  # SQLITE_BUSY, SQLITE_LOCKED


def may_pass(problem: BaseException) -> bool:
    """Whether the database or the machine is at fault, not what was asked: waiting may help."""
    return isinstance(problem, (Unavailable, MemoryError)) or primary_code(problem) in (7, *_REASONS)  # SQLITE_NOMEM


def is_broken(problem: BaseException) -> bool:
    """Whether the file itself is at fault, so that somebody must put another one in its place."""
    cause = problem if problem.__cause__ is None else problem.__cause__
    return isinstance(problem, Moved) or primary_code(cause) in (11, 26)  # SQLITE_CORRUPT, SQLITE_NOTADB


def unavailable(db: Any, problem: BaseException) -> Unavailable | None:
    """The exception as a sentence about the database; None where the fault is in what was asked, or `db` only stands for
    a database, as in a dry run."""
    if isinstance(problem, Unavailable):
        return problem
    code = primary_code(problem)
    if code not in _REASONS or not is_datasettes(db) or (code == 8 and db.is_memory):  # memory is never read-only
        return None
    try:
        require_same_file(db)
    except Moved as moved:
        return moved
    return (Busy if code in (5, 6) else Unavailable)(f"The database {db.name} {_REASONS[code]}")


def is_datasettes(db: Any) -> bool:
    from datasette.database import Database

    return isinstance(db, Database)


_REPORTED: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
"""What was logged of each database since a job last got on in it."""


def report(db: Any, problem: BaseException) -> None:
    """Log that a database cannot be used: each reason once, until it has `recovered`."""
    text = str(unavailable(db, problem) or f"The database {db.name} cannot be used: {problem}")
    reported = _REPORTED.setdefault(db, set())
    if text not in reported:
        reported.add(text)
        log.warning("%s. Its jobs wait, and go on when it can be used again", text.removesuffix("."))


def recovered(db: Any) -> None:
    """A job got on in the database: what goes wrong from now on is news."""
    _REPORTED.pop(db, None)
