"""The file of a database: its path, connections to it, and whether it still is the one that was opened."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import sqlite3
import weakref
from typing import Any, TypeAlias
from urllib.parse import unquote_to_bytes

from .enrichable import databases
from .errors import Moved

FileId: TypeAlias = "tuple[int, int] | str | int"
_OPENED: weakref.WeakKeyDictionary[Any, FileId] = weakref.WeakKeyDictionary()
"""The file of each database as it was first seen. Datasette keeps connections to that one open."""


def file_uri(path: str | os.PathLike[str]) -> str:
    """The URI by which SQLite opens exactly this file (https://www.sqlite.org/uri.html)."""
    return pathlib.Path(path).absolute().as_uri()


def file_of(db: Any) -> str | None:
    """The path of the file that SQLite opens for this database; None for one in memory. Datasette's own databases open
    what SQLite reads in their path: `a%20b.db` is the file `a b.db`."""
    if db.is_memory or not db.path:
        return None
    file: str | None = getattr(db, "file", None)
    return file or os.fsdecode(unquote_to_bytes(os.fsencode(re.split(r"[?#]", db.path, maxsplit=1)[0])))


def connect_to(path: str | os.PathLike[str], **kwargs: Any) -> sqlite3.Connection:
    """A new connection to this file, which must exist, with the arguments of `sqlite3.connect`."""
    conn: sqlite3.Connection = sqlite3.connect(file_uri(path) + "?mode=rw", uri=True, **kwargs)
    return conn


def connect_for_writing(db: Any) -> sqlite3.Connection | None:
    """A new autocommitting connection to the database's file; None for a memory database, which no other process can
    see."""
    path = file_of(db)
    return None if path is None else connect_to(path, timeout=5.0, isolation_level=None, check_same_thread=False)


def file_id(db: Any) -> FileId | None:
    """What is the same for two databases if they are one: device and inode of the file, the name of a memory database.
    None where the file is gone."""
    path = file_of(db)
    if path is None:
        return str(db.memory_name) if db.memory_name else id(db)
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def remember_files(datasette: Any) -> None:
    """Note which file each database is, before connections to it are opened."""
    for db in databases(datasette).values():
        found = file_id(db)
        if found is not None:
            _OPENED.setdefault(db, found)


def require_same_file(db: Any) -> None:
    """Make sure that the database's path still leads to the file that was opened.

    :raises Moved: when that file was moved, deleted or replaced
    """
    now = file_id(db)
    if now is not None and _OPENED.setdefault(db, now) == now:
        return
    what = "is gone from its place" if now is None else "was replaced by another one"
    raise Moved(f"The file of the database {db.name} {what} while this program has it open. Put it back, or restart")


def roll_back(db: Any) -> bool:
    """Undo the transaction that a killed process left in the file, if there is one. Connections for reading may not, and
    refuse to read until then (https://www.sqlite.org/lockingv3.html#hot_journals). Blocks for as long as SQLite waits for
    a lock.

    :returns: whether no journal is there any more
    """
    path = file_of(db)
    if path is None or not db.is_mutable:
        return False
    if not os.path.exists(f"{os.path.realpath(path)}-journal"):
        return True
    try:
        require_same_file(db)
        with contextlib.closing(connect_to(path, timeout=5.0)) as conn:
            conn.execute("select 1 from sqlite_master").fetchone()
    except (sqlite3.Error, Moved):
        return False
    return True
