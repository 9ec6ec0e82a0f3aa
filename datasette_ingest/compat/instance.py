"""A Datasette instance of our own, from its files to its end."""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import pathlib
import sqlite3
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from .enrichable import INTERNAL_DATABASES
from .files import connect_to, file_of, file_uri
from .line import is_1_0

if TYPE_CHECKING:  # Datasette loads its plugins while it is being imported itself
    from datasette.app import Datasette


def open_datasette(
    paths: Sequence[str],
    *,
    config: Mapping[str, Any] | None = None,
    immutables: Sequence[str] = (),
    memory: bool = False,
    with_root: bool = False,
    **kwargs: Any,
) -> Datasette:
    """A Datasette instance on exactly these files, whatever characters their names hold.

    :param config: the configuration, as in datasette.yaml
    :param immutables: files that nothing changes
    :param memory: a database `_memory` besides
    :param with_root: the actor `root` may do everything, as with `datasette --root`
    """
    from datasette.app import Datasette

    key = "config" if is_1_0(Datasette) else "metadata"
    datasette = Datasette([], **{key: dict(config or {})}, **kwargs)
    if not memory:
        datasette.remove_database("_memory")
    for is_mutable, files in ((True, paths), (False, immutables)):
        for path in files:
            database = _file_database()(datasette, path, is_mutable=is_mutable)
            name = pathlib.Path(database.path).stem
            datasette.add_database(database, name=name.lstrip("_") if name in INTERNAL_DATABASES else name)
    if with_root:
        datasette.root_enabled = True
    return datasette


@functools.cache
def _file_database() -> type[Any]:
    """Datasette's Database, for any file. Datasette writes a path into a `file:` URI as it stands, where `%20`, `?` and
    `#` mean something else, and a path that is not UTF-8 into a table, which fails."""
    from datasette.database import Database

    class FileDatabase(Database):  # type: ignore[misc, unused-ignore]
        def __init__(self, datasette: Datasette, file: str, *, is_mutable: bool) -> None:
            super().__init__(datasette, os.fsencode(file).decode("utf-8", "replace"), is_mutable=is_mutable)
            self.file = file
            """The path; `path` is the same for people to read."""

        def connect(self, write: bool = False) -> sqlite3.Connection:
            # a file that is gone is not made anew
            path = file_uri(self.file).removeprefix("file:") + ("?mode=rw" if write else "")
            conn: sqlite3.Connection = self._at(path).connect(write)
            return conn

        @property
        def size(self) -> int:
            return self._at(self.file).size  # type: ignore[no-any-return]

        @property
        def hash(self) -> str | None:
            return self._at(self.file).hash  # type: ignore[no-any-return]

        @property
        def mtime_ns(self) -> int | None:
            return self._at(self.file).mtime_ns  # type: ignore[no-any-return]

        def _at(self, path: str) -> Any:
            """Datasette's own Database with this path, which counts connections in the same list."""
            other = copy.copy(self)
            other.__class__, other.path = Database, path
            return other

    return FileDatabase


def close(datasette: Any) -> None:
    """Stop an instance's threads and close its connections, as far as this line can. Its files are whole then: a
    connection that may write is the last one to close, since one that only reads leaves the write-ahead log behind."""
    with contextlib.ExitStack() as last:
        for db in datasette.databases.values():
            if db.is_mutable and (path := file_of(db)) is not None:
                with contextlib.suppress(sqlite3.Error):
                    conn = last.enter_context(contextlib.closing(connect_to(path)))
                    conn.execute("select 1 from sqlite_master limit 1").fetchall()
        close_threads(datasette)


def close_threads(datasette: Any) -> None:
    """Stop an instance's threads and close its connections. May be called more than once."""
    if hasattr(datasette, "close"):
        datasette.close()
        return
    if datasette.executor is not None:  # before the connections: closing one under a query ends the process
        datasette.executor.shutdown(wait=True, cancel_futures=True)
    for db in datasette.databases.values():
        _end_writing(db)
        db.close()


class _LastWrite:
    """Ends the thread through which a database writes, which on the 0.65 line has no end of its own."""

    @staticmethod
    def fn(conn: sqlite3.Connection) -> NoReturn:
        conn.close()
        raise SystemExit

    @property
    def reply_queue(self) -> NoReturn:
        """Asked for where `fn` was not called, since there is no connection."""
        raise SystemExit


def _end_writing(db: Any) -> None:
    thread = db._write_thread
    if thread is not None:
        thread._invoke_excepthook = lambda _: None  # its end is meant, and is nobody's to report
        db._write_queue.put(_LastWrite())
        thread.join()
