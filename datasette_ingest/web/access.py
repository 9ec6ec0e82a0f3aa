"""Who may view a database's jobs and our tables, and what this plugin tells Datasette's permission system. Who may
enrich a table is decided in `jobs.service.permissions`."""

from __future__ import annotations

import asyncio
import contextvars
import json
import sqlite3
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from datasette.utils import actor_matches_allow

from .. import compat
from ..jobs import store
from ..jobs.errors import NotAllowed, TableNotFound
from ..jobs.owned_tables import ENGINE_PREFIX, JOBS_TABLE, owned, source_of_shadow
from ..jobs.selection import has_free_sql
from ..jobs.service.permissions import Actor
from ..sqlite import SHADOW_PREFIX, columns, fold

T = TypeVar("T")


# ---- databases --------------------------------------------------------------------------------------------------


async def require_database(datasette: Any, actor: Actor, database: str) -> None:
    """Refuse those who may not view the database; a missing one looks the same to all but root.

    :raises NotAllowed, TableNotFound:
    """
    if database not in datasette.databases:
        if compat.is_root(datasette, actor):
            raise TableNotFound(f"There is no database {database}. The home page lists them")
    elif await compat.can_view(datasette, actor, database):
        return
    raise NotAllowed("There is no such database, or you may not see it")


# ---- who may read the results -----------------------------------------------------------------------------------


_judging_sources: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "datasette_ingest_judging_sources", default=False
)
"""Set while Datasette is asked about source tables. Our own rule is off then: after a job over one of our tables, that
table's visibility would depend on itself."""


async def _apart(question: Coroutine[Any, Any, T]) -> T:
    """Ask with our own rule off. A fresh context, so that Datasette's permission cache of the request is not filled
    with these answers."""
    context = contextvars.Context()
    context.run(_judging_sources.set, True)
    return await context.run(asyncio.ensure_future, question)


@dataclass
class Answers:
    """Which tables are hidden from whom, kept for one request, which asks about every table of a page. Closed when the
    request ends, so that a task that it started asks again."""

    hidden: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    is_open: bool = True


_answers: contextvars.ContextVar[Answers | None] = contextvars.ContextVar("datasette_ingest_answers", default=None)


def remembering(app: Any) -> Any:
    """ASGI middleware: each HTTP request works out once which tables are hidden from whom."""

    async def remembered(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        answers = Answers()
        token = _answers.set(answers)
        try:
            await app(scope, receive, send)
        finally:
            answers.is_open = False
            _answers.reset(token)

    return remembered


async def hidden_from(datasette: Any, actor: Actor, database: str) -> list[str]:
    """The names of our tables and views in this database whose contents the actor may not read."""
    answers = _answers.get()
    if answers is None or not answers.is_open:
        return await _hidden_from(datasette, actor, database)
    key = (database, json.dumps(actor, sort_keys=True, default=repr))
    if key not in answers.hidden:
        answers.hidden[key] = await _hidden_from(datasette, actor, database)
    return answers.hidden[key]


async def _hidden_from(datasette: Any, actor: Actor, database: str) -> list[str]:
    db = datasette.databases.get(database)
    if db is None or not _may_hold_ours(db) or compat.plugin_config(datasette).get("publish_results") is True:
        return []
    source_by_name = {name: source_of_shadow(name) for name in await compat.read(db, owned)}
    if not source_by_name:
        return []
    with_jobs, has_sql = await compat.read(db, lambda conn: (store.tables_with_jobs(conn), _has_stored_sql(conn)))

    async def judge() -> list[str]:
        sources = {*with_jobs, *(source for source in source_by_name.values() if source is not None)}
        seen = {source: await compat.can_view(datasette, actor, database, source) for source in sources}
        sees_all = all(seen[source] for source in with_jobs)
        # a person's SQL in the jobs table is for those who may execute SQL
        sees_jobs = not has_sql or await compat.can_execute_sql(datasette, actor, database)
        return [
            name
            for name, source in source_by_name.items()
            if not (sees_all if source is None else seen[source]) or (fold(name) == JOBS_TABLE and not sees_jobs)
        ]

    return await _apart(judge())


def _may_hold_ours(db: Any) -> bool:
    """Whether the database may hold tables of ours. Each connection to a memory database without a name sees an empty
    one of its own."""
    return db.name not in compat.INTERNAL_DATABASES and not (db.is_memory and not db.memory_name)


def _has_stored_sql(conn: sqlite3.Connection) -> bool:
    """Whether the stored filters of a job contain a person's SQL."""
    if "filter_querystring" not in columns(conn, JOBS_TABLE):
        return False
    sql = f"select distinct filter_querystring from {JOBS_TABLE} where filter_querystring like '%where%'"
    return any(has_free_sql(querystring) for (querystring,) in conn.execute(sql))


# ---- what Datasette's permission hooks ask -------------------------------------------------------------------------


async def grant_enrich_table(datasette: Any, actor: Actor, action: str, resource: Any) -> bool | None:
    """The answer to `permission_allowed` for `enrich-table`: True for root and the `allow` setting, else None.

    Must be asked first: where Datasette has this hook, the last answer wins, and another plugin may have one.
    """
    if action != compat.ENRICH_ACTION or not isinstance(resource, tuple):
        return None
    database, table = resource
    if compat.is_root(datasette, actor):
        return True
    if fold(table).startswith(ENGINE_PREFIX):
        return None
    for block in (_block(datasette, database, table), _block(datasette, database), _block(datasette)):
        if block is not None:
            return True if actor_matches_allow(actor, block) else None
    return None


async def guard_results(datasette: Any, actor: Actor, action: str, resource: Any) -> bool | None:
    """The answer to `permission_allowed` for `view-table`: False for tables of ours that are hidden from the actor.

    Must be asked last, so that no broader grant opens what a source table keeps closed.
    """
    if action != "view-table" or not isinstance(resource, tuple) or _judging_sources.get():
        return None
    database, table = resource
    return False if fold(table) in map(fold, await hidden_from(datasette, actor, database)) else None


def hidden_metadata(database: str | None, key: str | None, table: str | None) -> dict[str, Any]:
    """What `get_metadata` adds, so that lists hide our tables whose names begin with an underscore. Datasette hides every
    table whose name begins with that of a hidden one; where it lacks this hook, it hides underscores by itself."""
    if database is None or key is not None or table is not None:
        return {}
    hidden = {name: {"hidden": True} for name in (ENGINE_PREFIX, SHADOW_PREFIX)}
    return {"databases": {database: {"tables": hidden}}}


async def permission_rules(datasette: Any, actor: Actor, action: str) -> list[Any]:
    """The answer to `permission_resources_sql`: grants of the `allow` setting, and denials for our tables."""
    if _judging_sources.get():
        return []
    if action == "view-table":
        hidden: list[compat.Rule] = []
        for name in list(datasette.databases):
            try:
                hidden += [(name, table, False) for table in await hidden_from(datasette, actor, name)]
            except compat.Unavailable:  # noqa: PERF203 - which of its tables are ours is not known now; others go on
                hidden.append((name, None, False))
        return compat.permission_sql(action, hidden)
    if compat.is_root(datasette, actor) or not compat.is_table_action(datasette, action):
        return []
    rules = _allow_rules(datasette, actor) if action == compat.ENRICH_ACTION else []
    return compat.permission_sql(action, rules + await _engine_tables(datasette))


async def _engine_tables(datasette: Any) -> list[compat.Rule]:
    """Denials of the `_enrichment_*` tables of every database: nobody but root writes to them. Of a database that cannot be
    read now, of all its tables."""
    denied: list[compat.Rule] = []
    for name, db in list(datasette.databases.items()):
        if not _may_hold_ours(db):
            continue
        try:
            tables = await compat.read(db, owned)
        except compat.Unavailable:
            denied.append((name, None, False))
        else:
            denied += [(name, table, False) for table in tables if fold(table).startswith(ENGINE_PREFIX)]
    return denied


# ---- the `allow` setting ----------------------------------------------------------------------------------------


def _block(datasette: Any, database: str | None = None, table: str | None = None) -> Any:
    """The allow block that is written at exactly this level; None where there is none."""
    if database is None:
        config = compat.plugin_config(datasette)
    else:
        config = datasette.plugin_config("datasette-ingest", database=database, table=table, fallback=False) or {}
    return config.get("allow")


def _allow_rules(datasette: Any, actor: Actor) -> list[compat.Rule]:
    """The setting as rules, most general first. A level is spelled out only where it differs from the one above, so
    that a grant of Datasette's own `permissions:` block is never undone by a block of ours that is silent on it."""
    rules: list[compat.Rule] = []

    def judge(database: str | None, table: str | None, inherited: bool) -> bool:
        block = _block(datasette, database, table)
        if block is None:
            return inherited
        allowed = bool(actor_matches_allow(actor, block))
        if allowed != inherited:
            rules.append((database, table, allowed))
        return allowed

    everywhere = judge(None, None, False)
    for database, tables in compat.configured_tables(datasette).items():
        in_database = judge(database, None, everywhere)
        for table in tables:
            judge(database, table, in_database)
    return rules


async def may_enrich_somewhere(datasette: Any, actor: Actor) -> bool:
    """Whether the main menu should point to the jobs. Where Datasette cannot list what a permission allows, the setting
    alone counts: who has the permission from another plugin finds the jobs by the table's menu."""
    if compat.is_root(datasette, actor):
        return True
    listed = await compat.may_enrich_somewhere(datasette, actor)
    return any(allowed for _, _, allowed in _allow_rules(datasette, actor)) if listed is None else listed
