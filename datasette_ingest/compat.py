"""The only file that knows which Datasette line is running: permissions, root, events, search, reads and writes.

The lines are told apart by features, never by versions.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import dataclasses
import functools
import inspect
import json
import logging
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from datasette.utils import detect_fts, sqlite_timelimit
from datasette.utils.asgi import Forbidden, Request

if TYPE_CHECKING:  # Datasette loads its plugins while it is being imported itself
    from datasette.app import Datasette
    from datasette.database import Database

log = logging.getLogger(__name__)
T = TypeVar("T")

ENRICH_ACTION = "enrich-table"
INTERNAL_DATABASES = frozenset({"_internal"})


class Busy(Exception):
    """Another program held the database's write lock all the time we waited."""


class Interrupted(Exception):
    """A query ran into its time limit."""


def is_1_0(datasette: Any) -> bool:
    """Whether this is the 1.0 line (resources, SQL-based permissions)."""
    return hasattr(datasette, "allowed")


def open_datasette(
    paths: list[str], *, config: Mapping[str, Any] | None = None, with_root: bool = False, **kwargs: Any
) -> Datasette:
    """A Datasette instance on these files.

    :param config: the configuration, as in datasette.yaml
    :param with_root: the actor `root` may do everything, as with `datasette --root`
    """
    from datasette.app import Datasette

    key = "config" if is_1_0(Datasette) else "metadata"
    datasette = Datasette(paths, **{key: dict(config or {})}, **kwargs)
    if with_root:
        datasette.root_enabled = True
    return datasette


def close(datasette: Any) -> None:
    """Stop an instance's threads and close its connections, as far as this line can."""
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


def fake_request(path_and_query: str, actor: dict[str, Any] | None) -> Request:
    """A GET request of this actor that did not come over the network."""
    request = Request.fake(path_and_query)
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
    """

    def limited(conn: sqlite3.Connection) -> T:
        if limit_ms is None:
            return fn(conn)
        try:
            with sqlite_timelimit(conn, limit_ms):
                return fn(conn)
        except sqlite3.OperationalError as problem:
            if problem.args == ("interrupted",):
                raise Interrupted(f"the query took longer than {limit_ms / 1000:g} s") from None
            raise

    if db.is_memory and db.is_mutable:
        return await write(db, limited)
    result: T = await db.execute_fn(limited)
    return result


def is_busy(problem: BaseException) -> bool:
    """Whether this exception says that another connection holds the lock."""
    return _is_one_of(problem, {5, 6}, ("is locked",))  # SQLITE_BUSY, SQLITE_LOCKED


def may_pass(problem: BaseException) -> bool:
    """Whether waiting may help: a lock, or want of memory, disk or the file (SQLITE_NOMEM, IOERR, FULL, CANTOPEN)."""
    if isinstance(problem, (Busy, MemoryError)):
        return True
    texts = ("is locked", "out of memory", "disk I/O error", "disk is full", "unable to open")
    return _is_one_of(problem, {5, 6, 7, 10, 13, 14}, texts)


def _is_one_of(problem: BaseException, codes: set[int], texts: tuple[str, ...]) -> bool:
    if not isinstance(problem, sqlite3.OperationalError):
        return False
    code = getattr(problem, "sqlite_errorcode", None)  # since Python 3.11
    if code is not None:
        return code & 0xFF in codes
    return any(text in str(problem) for text in texts)


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
    :raises Busy: when the last try found the database locked
    """
    kind: Any = type(db)
    remaining = iter(pauses)
    while True:
        result, problem = await db.execute_write_fn(lambda conn: _transaction(conn, fn), **_without_transaction(kind))
        if problem is None:
            return result  # type: ignore[no-any-return]
        pause = next(remaining, None) if may_retry(problem) else None
        if pause is None:
            if is_busy(problem):
                raise Busy(f"The database {db.name} is locked by another program") from problem
            raise problem
        if pause >= LOGGED_PAUSE_SECONDS:
            log.warning("the database %s: %s; next try in %g s", db.name, problem, pause)
        await sleep(pause)


@functools.cache
def _without_transaction(kind: Any) -> dict[str, bool]:
    """What tells `execute_write_fn` to begin no transaction of its own, where it would."""
    return {"transaction": False} if "transaction" in inspect.signature(kind.execute_write_fn).parameters else {}


def _transaction(conn: sqlite3.Connection, fn: Callable[[sqlite3.Connection], T]) -> tuple[T | None, Exception | None]:
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
            conn.execute("commit")
        return result, None
    except Exception as problem:  # noqa: BLE001 - handed to the caller, who raises it
        if conn.in_transaction:
            conn.execute("rollback")
        return None, problem


def connect_for_writing(db: Any) -> sqlite3.Connection | None:
    """A new autocommitting connection to the database's file; None for a memory database, which no other process can
    see."""
    if db.is_memory or not db.path:
        return None
    return sqlite3.connect(str(db.path), timeout=5.0, isolation_level=None, check_same_thread=False)
