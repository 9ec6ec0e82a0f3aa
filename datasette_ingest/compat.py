"""The only file that knows which Datasette line is running: permissions, root, events, search, reads and writes.

The lines are told apart by features, never by versions.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import dataclasses
import functools
import inspect
import json
import logging
import os
import pathlib
import queue
import re
import sqlite3
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import unquote_to_bytes

from datasette.utils import detect_fts, sqlite_timelimit
from datasette.utils.asgi import Forbidden, Request

from .commit_gate import CommitGate

if TYPE_CHECKING:  # Datasette loads its plugins while it is being imported itself
    from datasette.app import Datasette
    from datasette.database import Database

log = logging.getLogger(__name__)
T = TypeVar("T")

ENRICH_ACTION = "enrich-table"
INTERNAL_DATABASES = frozenset({"_internal"})


class Unavailable(sqlite3.DatabaseError):
    """A database cannot be read or written now, whatever is asked of it. The message is a sentence for whoever asks."""


class Busy(Unavailable):
    """Another program held the database's lock all the time we waited."""


class Moved(Unavailable):
    """The file that was opened is not the one that stands at the database's path now: what is written would be lost."""


class Interrupted(Exception):
    """A query ran into its time limit."""


def is_1_0(datasette: Any) -> bool:
    """Whether this is the 1.0 line (resources, SQL-based permissions)."""
    return hasattr(datasette, "allowed")


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


def close(datasette: Any) -> None:
    """Stop an instance's threads and close its connections, as far as this line can. Its files are whole then: a
    connection that may write is the last one to close, since one that only reads leaves the write-ahead log behind."""
    with contextlib.ExitStack() as last:
        for db in datasette.databases.values():
            if db.is_mutable and (path := file_of(db)) is not None:
                with contextlib.suppress(sqlite3.Error):
                    conn = last.enter_context(contextlib.closing(connect_to(path)))
                    conn.execute("select 1 from sqlite_master limit 1").fetchall()
        _close_all(datasette)


def _close_all(datasette: Any) -> None:
    if hasattr(datasette, "close"):
        datasette.close()
        return
    for db in datasette.databases.values():
        db.close()
    if datasette.executor is not None:
        datasette.executor.shutdown(wait=True)


def plugin_config(datasette: Any) -> dict[str, Any]:
    """The plugin's own block of the configuration, secrets' `$env` and `$file` left as they stand."""
    for holder in ("config", "_metadata_local"):
        block = getattr(datasette, holder, None)
        if isinstance(block, dict):
            own = (block.get("plugins") or {}).get("datasette-ingest")
            if isinstance(own, dict):
                return dict(own)
    return dict(datasette.plugin_config("datasette-ingest") or {})


def configured_tables(datasette: Any) -> dict[str, list[str]]:
    """The databases that the configuration names, each with the tables that it names."""
    databases = (datasette.config or {}).get("databases") if is_1_0(datasette) else datasette.metadata("databases")
    return {name: list((block or {}).get("tables") or {}) for name, block in (databases or {}).items()}


async def fts_table(datasette: Any, db: Any, table: str) -> str | None:
    """The full-text index that `_search` uses on this table: the configured one, or one that SQLite's schema shows."""
    if is_1_0(datasette):
        configured = (await datasette.table_config(db.name, table)).get("fts_table")
    else:
        configured = datasette.table_metadata(db.name, table).get("fts_table")
    found: str | None = configured or await read(db, lambda conn: detect_fts(conn, table))
    return found


# ---- pages -----------------------------------------------------------------------------------------------------


def has_page_tops(datasette: Any) -> bool:
    """Whether plugins can add to the top of a table's page and a row's (hooks `top_table`, `top_row`)."""
    return is_1_0(datasette)


def database_color(datasette: Any, database: str | None) -> str:
    """The colour by which Datasette's pages tell databases apart, in hexadecimal: a database's own on 1.0, red on 0.65,
    blue for what is no database."""
    db = datasette.databases.get(database) if database is not None else None
    return "276890" if db is None else getattr(db, "color", "ff0000")


# ---- permissions -----------------------------------------------------------------------------------------------


def is_root(datasette: Any, actor: Mapping[str, Any] | None) -> bool:
    """Whether this is Datasette's root: not one of its tokens that is restricted to some actions (`_r`)."""
    return acts_for_root(datasette, actor) and (actor or {}).get("_r") is None


def acts_for_root(datasette: Any, actor: Mapping[str, Any] | None) -> bool:
    """Whether this is Datasette's root or a token of its, restricted or not. The 1.0 line trusts the name only with
    `--root`."""
    return actor is not None and actor.get("id") == "root" and bool(getattr(datasette, "root_enabled", True))


def table_actions() -> list[Any]:
    """`enrich-table`, as the hook `register_actions` takes it."""
    from datasette.permissions import Action
    from datasette.resources import TableResource

    return [
        Action(
            name=ENRICH_ACTION,
            abbr=None,
            description="Run enrichment jobs over the rows of a table",
            resource_class=TableResource,
        )
    ]


def is_table_action(datasette: Any, action: str) -> bool:
    """Whether this action of Datasette's or a plugin's is one on tables."""
    from datasette.resources import TableResource

    known = datasette.actions.get(action)
    return known is not None and known.resource_class is TableResource


Rule = tuple[str | None, str | None, bool]
"""Database, table (None: all), and whether the actor is allowed."""


def permission_sql(action: str, rules: list[Rule]) -> list[Any]:
    """Rules about an action, as the hook `permission_resources_sql` takes them."""
    from datasette.permissions import PermissionSQL

    if not rules:
        return []
    # Datasette merges the parameters of an action and of those that it requires: the name must be the action's own.
    parameter = f"datasette_ingest_{action.replace('-', '_')}"
    return [
        PermissionSQL(
            sql=f"""
                select json_extract(value, '$[0]') as parent, json_extract(value, '$[1]') as child,
                  json_extract(value, '$[2]') as allow, 'datasette-ingest' as reason
                from json_each(:{parameter})
            """,
            params={parameter: json.dumps(rules)},
        )
    ]


_enrich_alone: contextvars.ContextVar[bool] = contextvars.ContextVar("datasette_ingest_enrich_alone", default=False)
"""Set while we ask about `enrich-table` by itself: viewing the table is asked separately."""


@contextlib.contextmanager
def _without_viewing() -> Iterator[None]:
    token = _enrich_alone.set(True)
    try:
        yield
    finally:
        _enrich_alone.reset(token)


async def may_enrich_somewhere(datasette: Any, actor: dict[str, Any] | None) -> bool | None:
    """Whether the actor may enrich any table; None on the 0.65 line, which cannot list what a permission allows."""
    if not is_1_0(datasette):
        return None
    with _without_viewing():
        return bool((await datasette.allowed_resources(ENRICH_ACTION, actor, limit=1)).resources)


async def tables_out_of_sight(datasette: Any, actor: dict[str, Any] | None) -> list[tuple[str, str]]:
    """The tables and views that the actor may not view, where another than us asks what `enrich-table` allows: Datasette
    lists by name all that a permission allows (`/-/allowed.json`)."""
    if _enrich_alone.get():
        return []
    seen = await datasette.allowed_resources("view-table", actor=actor)
    viewable = {(resource.parent, resource.child) async for resource in seen.all()}
    known = await datasette.get_internal_database().execute(
        "select database_name, table_name from catalog_tables union select database_name, view_name from catalog_views"
    )
    return [(row[0], row[1]) for row in known.rows if (row[0], row[1]) not in viewable]


async def _is_allowed(datasette: Any, actor: dict[str, Any] | None, action: str, *resource: str) -> bool:
    """The 1.0 line's answer about the instance, a database, or a database and a table."""
    from datasette.resources import DatabaseResource, TableResource

    kind = TableResource if len(resource) == 2 else DatabaseResource
    return bool(await datasette.allowed(action=action, resource=kind(*resource) if resource else None, actor=actor))


async def can_view(
    datasette: Any, actor: dict[str, Any] | None, database: str | None = None, table: str | None = None
) -> bool:
    """Whether the actor may view the table; the database where no table is named; this Datasette where neither is."""
    if is_1_0(datasette):
        if database is None:
            return await _is_allowed(datasette, actor, "view-instance")
        if table is None:
            return await _is_allowed(datasette, actor, "view-database", database)
        return await _is_allowed(datasette, actor, "view-table", database, table)
    permissions: list[Any] = ["view-instance"]
    if database is not None:
        permissions.insert(0, ("view-database", database))
    if table is not None:
        permissions.insert(0, ("view-table", (database, table)))
    try:
        await datasette.ensure_permissions(actor, permissions)
    except Forbidden:
        return False
    return True


async def can_enrich(datasette: Any, actor: dict[str, Any] | None, database: str, table: str) -> bool:
    """Whether the actor has `enrich-table` on the table (viewing it is asked separately)."""
    if is_1_0(datasette):
        with _without_viewing():
            return await _is_allowed(datasette, actor, ENRICH_ACTION, database, table)
    return bool(await datasette.permission_allowed(actor, ENRICH_ACTION, resource=(database, table), default=False))


async def can_enrich_any(datasette: Any, actor: dict[str, Any] | None, database: str, tables: Iterable[str]) -> bool:
    """Whether the actor has `enrich-table` on the database, or on one of its tables."""
    if await can_enrich(datasette, actor, database, ""):  # whatever the table
        return True
    if is_1_0(datasette):
        with _without_viewing():
            found = await datasette.allowed_resources(ENRICH_ACTION, actor, parent=database, limit=1)
            return bool(found.resources)
    for table in tables:
        if await can_enrich(datasette, actor, database, table):
            return True
    return False


async def can_execute_sql(datasette: Any, actor: dict[str, Any] | None, database: str) -> bool:
    """Whether the actor may run SQL of their own in the database."""
    if is_1_0(datasette):
        return await _is_allowed(datasette, actor, "execute-sql", database)
    return bool(await datasette.permission_allowed(actor, "execute-sql", resource=database, default=True))


# ---- requests --------------------------------------------------------------------------------------------------


class _ParsedOnce(Request):  # type: ignore[misc, unused-ignore]
    """A request whose query string, which may hold thousands of rows, is not parsed anew by each hook that reads it."""

    @functools.cached_property
    def args(self) -> Any:
        return super().args


def fake_request(path_and_query: str, actor: dict[str, Any] | None) -> Request:
    """A GET request of this actor that did not come over the network."""
    request: Request = _ParsedOnce.fake(path_and_query)
    request.scope["actor"] = actor
    return request


# ---- events ----------------------------------------------------------------------------------------------------


def has_events(datasette: Any) -> bool:
    """Whether Datasette has events, which plugins can follow."""
    return hasattr(datasette, "track_event")


@functools.cache
def job_events() -> dict[str, type[Any]]:
    """The event classes of jobs, by step; none where Datasette has no events."""
    try:
        from datasette.events import Event
    except ImportError:
        return {}

    @dataclasses.dataclass
    class JobEvent(Event):  # type: ignore[misc, unused-ignore]
        """A step of a job. Counts are numbers of rows; `outcomes` counts them by outcome word.

        `reason` says why it was cancelled or has paused; `resume_at` (ISO 8601) when it goes on by itself.
        """

        job_id: int
        database: str
        table: str
        enrichment: str
        row_count: int
        done_count: int
        error_count: int
        outcomes: dict[str, int]
        reason: str | None
        resume_at: str | None

    def kind(step: str, doc: str) -> type[Any]:
        name = f"ingest-job-{step}"
        return type(
            f"Job{step.capitalize()}Event", (JobEvent,), {"name": name, "__doc__": f"Event name: ``{name}``\n\n{doc}"}
        )

    return {
        "started": kind("started", "A job was added."),
        "finished": kind("finished", "Every row of a job was answered."),
        "cancelled": kind("cancelled", "A job was given up, by a person or by itself."),
        "paused": kind("paused", "A job has paused by itself."),
    }


async def track_job(datasette: Any, step: str, *, actor: dict[str, Any] | None, **facts: Any) -> None:
    """Send the event of a step, one of `job_events`."""
    await datasette.track_event(job_events()[step](actor=actor, **facts))


# ---- databases -------------------------------------------------------------------------------------------------


def databases(datasette: Any) -> dict[str, Database]:
    """The databases in which jobs can run: mutable ones that several connections can share."""
    return {name: db for name, db in datasette.databases.items() if why_not_enrichable(db) is None}


def why_not_enrichable(db: Any) -> str | None:
    """Why no job can run in this database; None when one can."""
    if db.name in INTERNAL_DATABASES:
        return "Datasette's internal database cannot be enriched"
    if not db.is_mutable:
        return (
            f"The database {db.name} is immutable: Datasette was told not to change it (-i), so nothing can be written"
        )
    if db.is_memory and not db.memory_name:
        return f"The database {db.name} lives in memory without a name, so no two connections see the same rows"
    return None


async def read(db: Any, fn: Callable[[sqlite3.Connection], T], *, limit_ms: float | None = None) -> T:
    """`fn(conn)` on a read connection.

    Memory databases are read on the write connection: a shared cache refuses a read while a write is open.

    :raises Interrupted: when `limit_ms` passed
    :raises Unavailable: when the database cannot be read at all
    """

    def limited(conn: sqlite3.Connection) -> T:
        if limit_ms is None:
            return fn(conn)
        is_apart = not (db.is_memory and db.is_mutable)
        try:
            with _gate(db).reading() if is_apart else contextlib.nullcontext(), sqlite_timelimit(conn, limit_ms):
                return fn(conn)
        except sqlite3.OperationalError as problem:
            if problem.args == ("interrupted",):
                raise Interrupted(f"the query took longer than {limit_ms / 1000:g} s") from None
            raise

    if db.is_memory and db.is_mutable:
        return await write(db, limited)
    try:
        result: T = await db.execute_fn(limited)
    except sqlite3.DatabaseError as problem:
        said = unavailable(db, problem)
        if said is None or _is_write(problem):
            raise
        raise said from problem
    return result


def _is_write(problem: sqlite3.DatabaseError) -> bool:
    """Whether the connection refused to write only because it is one for reading (SQLITE_READONLY without a detail)."""
    return _code(problem) == 8 and getattr(problem, "sqlite_errorcode", 8) == 8


def is_busy(problem: BaseException) -> bool:
    """Whether this exception says that another connection holds the lock."""
    return isinstance(problem, Busy) or _code(problem) in (5, 6)  # SQLITE_BUSY, SQLITE_LOCKED


def may_pass(problem: BaseException) -> bool:
    """Whether the database or the machine is at fault, not what was asked: waiting may help."""
    return isinstance(problem, (Unavailable, MemoryError)) or _code(problem) in (7, *_REASONS)  # SQLITE_NOMEM


def is_broken(problem: BaseException) -> bool:
    """Whether the file itself is at fault, so that somebody must put another one in its place."""
    cause = problem if problem.__cause__ is None else problem.__cause__
    return isinstance(problem, Moved) or _code(cause) in (11, 26)  # SQLITE_CORRUPT, SQLITE_NOTADB


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


def _code(problem: BaseException) -> int | None:
    """The primary result code of an exception of sqlite3's."""
    if not isinstance(problem, sqlite3.DatabaseError):
        return None
    code = getattr(problem, "sqlite_errorcode", None)  # since Python 3.11
    if code is None:
        return next((code for text, code in _TEXTS.items() if text in str(problem)), None)
    return None if code == _CORRUPT_VTAB else code & 0xFF


def unavailable(db: Any, problem: BaseException) -> Unavailable | None:
    """The exception as a sentence about the database; None where the fault is in what was asked, or `db` only stands for
    a database, as in a dry run."""
    if isinstance(problem, Unavailable):
        return problem
    code = _code(problem)
    if code not in _REASONS or not _is_datasettes(db) or (code == 8 and db.is_memory):  # memory is never read-only
        return None
    try:
        require_same_file(db)
    except Moved as moved:
        return moved
    return (Busy if code in (5, 6) else Unavailable)(f"The database {db.name} {_REASONS[code]}")


def _is_datasettes(db: Any) -> bool:
    from datasette.database import Database

    return isinstance(db, Database)


# ---- which file a database is ------------------------------------------------------------------------------------

FileId: TypeAlias = "tuple[int, int] | str | int"
_OPENED: weakref.WeakKeyDictionary[Any, FileId] = weakref.WeakKeyDictionary()
"""The file of each database as it was first seen. Datasette keeps connections to that one open."""


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


BUSY_PAUSES = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
LOGGED_PAUSE_SECONDS = 5.0


async def write(
    db: Any,
    fn: Callable[[sqlite3.Connection], T],
    *,
    pauses: Iterable[float] = BUSY_PAUSES,
    may_retry: Callable[[BaseException], bool] = is_busy,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """`fn(conn)` in one transaction that began IMMEDIATE: committed when it returns, rolled back when it raises.

    Each try waits SQLite's busy timeout inside the write thread; between tries the thread is free for others.

    :param pauses: seconds before each further try
    :param may_retry: whether to try again after this exception
    :raises Unavailable: when the database could not be written at the last try
    """
    remaining = iter(pauses)
    while True:
        result, problem = await _try_to_write(db, fn)
        if problem is None:
            return result  # type: ignore[return-value]
        pause = next(remaining, None) if may_retry(problem) else None
        if pause is None:
            said = unavailable(db, problem)
            if said is None or said is problem:
                raise problem
            raise said from problem
        if pause >= LOGGED_PAUSE_SECONDS or not is_busy(problem):
            report(db, problem)
        await sleep(pause)


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


async def _try_to_write(
    db: Any, fn: Callable[[sqlite3.Connection], T], *, may_reopen: bool = True
) -> tuple[T | None, Exception | None]:
    """One try, as `_transaction`. A connection that could not be opened, or only for reading, stays so, and Datasette
    keeps it for good: it is replaced where a new one can write."""
    try:
        require_same_file(db)
        kind: Any = type(db)
        gate = _gate(db)
        result, problem = await db.execute_write_fn(
            lambda conn: _transaction(conn, fn, gate), **_without_transaction(kind)
        )
    except sqlite3.Error as failed:  # the connection could not be opened
        result, problem = None, failed
    may_help = may_reopen and problem is not None and _code(problem) in (8, 14) and _is_datasettes(db)
    if not may_help or not await asyncio.to_thread(_is_writable, db):
        return result, problem
    _reopen_for_writing(db)
    return await _try_to_write(db, fn, may_reopen=False)


def _is_writable(db: Any) -> bool:
    """Whether a new connection could write. Blocks for as long as SQLite waits for a lock."""
    try:
        conn = connect_for_writing(db)
        if conn is None:
            return False
        with contextlib.closing(conn):
            conn.execute("begin immediate")
            version = conn.execute("pragma user_version").fetchone()[0]
            conn.execute(f"pragma user_version = {version}")
            conn.execute("rollback")
    except sqlite3.Error:
        return False
    return True


def _reopen_for_writing(db: Any) -> None:
    """Let Datasette's next write open a new connection. The thread of the old one ends, or sleeps where Datasette has no
    end for it."""
    from datasette import database

    if db.ds.executor is None:
        db._write_connection = None
        return
    old, db._write_queue, db._write_thread = db._write_queue, queue.Queue(), None
    shutdown = getattr(database, "_SHUTDOWN", None)
    if shutdown is not None and old is not None:
        old.put(shutdown)


@functools.cache
def _without_transaction(kind: Any) -> dict[str, bool]:
    """What tells `execute_write_fn` to begin no transaction of its own, where it would."""
    return {"transaction": False} if "transaction" in inspect.signature(kind.execute_write_fn).parameters else {}


_GATES: weakref.WeakKeyDictionary[Any, CommitGate] = weakref.WeakKeyDictionary()


def _gate(db: Any) -> CommitGate:
    return _GATES.setdefault(db, CommitGate())


def _transaction(
    conn: sqlite3.Connection, fn: Callable[[sqlite3.Connection], T], gate: CommitGate
) -> tuple[T | None, Exception | None]:
    """The outcome and the exception as a pair: Datasette prints whatever a write function raises."""
    try:
        if conn.in_transaction:  # a stranger's write that was never committed; Datasette's next write would commit it
            conn.commit()
        conn.execute("begin immediate")
    except sqlite3.Error as problem:
        return None, problem
    try:
        result = fn(conn)
        if conn.in_transaction:
            with gate.committing(conn):
                conn.execute("commit")
        return result, None
    except Exception as problem:  # noqa: BLE001 - handed to the caller, who raises it
        if conn.in_transaction:
            with contextlib.suppress(sqlite3.Error):  # a damaged database has nothing to roll back to
                conn.execute("rollback")
        return None, problem


def connect_for_writing(db: Any) -> sqlite3.Connection | None:
    """A new autocommitting connection to the database's file; None for a memory database, which no other process can
    see."""
    path = file_of(db)
    return None if path is None else connect_to(path, timeout=5.0, isolation_level=None, check_same_thread=False)
