"""Who may view a database's jobs and our tables, and what this plugin tells Datasette's permission system. Who may
enrich a table is decided in `jobs.service.permissions`."""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from datasette.utils import actor_matches_allow

from .. import compat
from ..jobs import store
from ..jobs.engine.output import SHADOW_PREFIX
from ..jobs.errors import NotAllowed, TableNotFound
from .owned_tables import (
    ENGINE_PREFIX,
    JOBS_TABLE,
    ascii_lower,
    has_stored_sql,
    may_be_ours,
    our_tables,
    source_of_shadow,
)

Actor = Mapping[str, Any] | None
T = TypeVar("T")

NOT_WRITING = frozenset({"view-table"})
"""The table actions of Datasette that change nothing."""


# ---- databases --------------------------------------------------------------------------------------------------


def is_root(datasette: Any, actor: Actor) -> bool:
    """Whether this is Datasette's root. The 1.0 line trusts that name only with `--root`."""
    return actor is not None and actor.get("id") == "root" and bool(getattr(datasette, "root_enabled", True))


async def require_database(datasette: Any, actor: Actor, database: str) -> None:
    """Refuse those who may not view the database; a missing one looks the same to all but root.

    :raises NotAllowed, TableNotFound:
    """
    if database not in datasette.databases:
        if is_root(datasette, actor):
            raise TableNotFound(f"There is no database {database}. The home page lists those that there are")
    elif await compat.can_view(datasette, _plain(actor), database):
        return
    raise NotAllowed("There is no such database, or you may not see it")


def _plain(actor: Actor) -> dict[str, Any] | None:
    return dict(actor) if actor is not None else None


# ---- who may read the results -----------------------------------------------------------------------------------


_judging_sources: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "datasette_ingest_judging_sources", default=False
)
"""Set while we ask Datasette about source tables. Our own rule is then silent: a job over one of our tables would
otherwise make that table's visibility depend on itself."""


async def _apart(question: Callable[[], Awaitable[T]]) -> T:
    """The answer to a question asked with our own rule silent, in a context of its own: answers that Datasette keeps
    for the length of a request must not be those of a half-blind moment."""
    context = contextvars.Context()
    context.run(_judging_sources.set, True)

    async def ask() -> T:
        return await question()

    return await context.run(asyncio.ensure_future, ask())


@dataclass
class Answers:
    """What was found out during one request, which asks about every table of a page. Closed with it, so that a task
    which the request started never relies on old answers."""

    hidden: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    is_open: bool = True


_answers: contextvars.ContextVar[Answers | None] = contextvars.ContextVar("datasette_ingest_answers", default=None)


def remembering(app: Any) -> Any:
    """ASGI middleware: within one HTTP request, who may read what in a database is found out once."""

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
    if db is None or database in compat.INTERNAL_DATABASES or _published(datasette):
        return []
    if db.is_memory and not db.memory_name:  # each connection sees an empty one of its own
        return []
    ours = await compat.read(db, our_tables)
    if not ours:
        return []
    sources = await compat.read(db, store.tables_with_jobs)
    shadowed = [source for source in map(source_of_shadow, ours) if source is not None]
    seen = await _visible(datasette, actor, database, {*sources, *shadowed})
    sees_all = all(seen[source] for source in sources)
    sees_jobs = await _may_read_filters(datasette, actor, db)
    return [
        name
        for name in ours
        if not _readable(name, sees_all, seen) or (ascii_lower(name) == JOBS_TABLE and not sees_jobs)
    ]


async def _may_read_filters(datasette: Any, actor: Actor, db: Any) -> bool:
    """Whether the jobs table may be shown: a person's SQL in it only to those who may execute SQL themselves."""
    if not await compat.read(db, has_stored_sql):
        return True
    return await _apart(lambda: compat.can_execute_sql(datasette, _plain(actor), db.name))


def _readable(name: str, sees_all: bool, seen: Mapping[str, bool]) -> bool:
    source = source_of_shadow(name)
    return seen[source] if source is not None else sees_all


async def _visible(datasette: Any, actor: Actor, database: str, tables: Iterable[str]) -> dict[str, bool]:
    async def judge() -> dict[str, bool]:
        return {table: await compat.can_view(datasette, _plain(actor), database, table) for table in tables}

    return await _apart(judge)


def _published(datasette: Any) -> bool:
    return compat.plugin_config(datasette).get("publish_results") is True


# ---- the 0.65 line ----------------------------------------------------------------------------------------------


async def grant_enrich_table(datasette: Any, actor: Actor, action: str, resource: Any) -> bool | None:
    """The answer to `permission_allowed` for `enrich-table`: True for root and the `allow` setting, else None.

    To be asked first: on the 0.65 line the last answer wins, and another plugin's policy may have one.
    """
    if action != compat.ENRICH_ACTION or not isinstance(resource, tuple):
        return None
    database, table = resource
    if is_root(datasette, actor):
        return True
    if ascii_lower(table).startswith(ENGINE_PREFIX):
        return None
    for block in (_block(datasette, database, table), _block(datasette, database), _block(datasette)):
        if block is not None:
            return True if actor_matches_allow(_plain(actor), block) else None
    return None


async def guard_results(datasette: Any, actor: Actor, action: str, resource: Any) -> bool | None:
    """The answer to `permission_allowed` for `view-table`: False for our tables where a source is not theirs to see.

    To be asked last, so that no broader grant opens what the source table keeps closed.
    """
    if action != "view-table" or not isinstance(resource, tuple) or _judging_sources.get():
        return None
    database, table = resource
    if not may_be_ours(table):
        return None
    folded = ascii_lower(table)
    hidden = await hidden_from(datasette, actor, database)
    return False if folded in map(ascii_lower, hidden) else None


def hidden_metadata(database: str | None, key: str | None, table: str | None) -> dict[str, Any]:
    """What `get_metadata` adds so that the 0.65 line lists our underscored tables as hidden; 1.0 does it by itself.

    Datasette hides every table whose name begins with a hidden one's.
    """
    if database is None or key is not None or table is not None:
        return {}
    hidden = {name: {"hidden": True} for name in (ENGINE_PREFIX, SHADOW_PREFIX)}
    return {"databases": {database: {"tables": hidden}}}


# ---- the 1.0 line -----------------------------------------------------------------------------------------------


def actions(datasette: Any) -> list[Any]:
    """What `register_actions` returns: the one action of this plugin."""
    from datasette.permissions import Action
    from datasette.resources import TableResource

    return [
        Action(
            name=compat.ENRICH_ACTION,
            abbr=None,
            description="Run enrichment jobs over the rows of a table",
            resource_class=TableResource,
        )
    ]


async def permission_rules(datasette: Any, actor: Actor, action: str) -> list[Any]:
    """What `permission_resources_sql` returns: grants from the `allow` setting, and denials for our tables."""
    if _judging_sources.get():
        return []
    if action == "view-table":
        return _rules(action, [(*pair, 0) for pair in await _hidden_everywhere(datasette, actor)])
    if not _is_table_action(datasette, action):
        return []
    rows: list[tuple[str | None, str | None, int]] = []
    if action == compat.ENRICH_ACTION and not is_root(datasette, actor):
        rows.extend(_allow_rules(datasette, actor))
    if action not in NOT_WRITING and not is_root(datasette, actor):
        rows.extend((*pair, 0) for pair in await _engine_tables(datasette))
    return _rules(action, rows)


def _is_table_action(datasette: Any, action: str) -> bool:
    from datasette.resources import TableResource

    known = datasette.actions.get(action)
    return known is not None and known.resource_class is TableResource


async def _hidden_everywhere(datasette: Any, actor: Actor) -> list[tuple[str, str]]:
    return [(name, table) for name in list(datasette.databases) for table in await hidden_from(datasette, actor, name)]


async def _engine_tables(datasette: Any) -> list[tuple[str, str]]:
    """The `_enrichment_*` tables of every database: nobody but root writes to them."""
    found: list[tuple[str, str]] = []
    for name, db in list(datasette.databases.items()):
        if name in compat.INTERNAL_DATABASES or (db.is_memory and not db.memory_name):
            continue
        tables = await compat.read(db, our_tables)
        found.extend((name, table) for table in tables if ascii_lower(table).startswith(ENGINE_PREFIX))
    return found


def _rules(action: str, rows: list[tuple[str | None, str | None, int]]) -> list[Any]:
    from datasette.permissions import PermissionSQL

    if not rows:
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
            params={parameter: json.dumps(rows)},
        )
    ]


# ---- the `allow` setting ----------------------------------------------------------------------------------------


def _block(datasette: Any, database: str | None = None, table: str | None = None) -> Any:
    """The allow block that is written at exactly this level; None where there is none."""
    if database is None:
        config = compat.plugin_config(datasette)
    else:
        config = datasette.plugin_config("datasette-ingest", database=database, table=table, fallback=False) or {}
    return config.get("allow")


def _allow_rules(datasette: Any, actor: Actor) -> list[tuple[str | None, str | None, int]]:
    """The setting as rules, most general first. A level is spelled out only where it differs from the one above, so
    that a grant of Datasette's own `permissions:` block is never undone by a block of ours that is silent on it."""
    rules: list[tuple[str | None, str | None, int]] = []

    def judge(database: str | None, table: str | None, inherited: bool) -> bool:
        block = _block(datasette, database, table)
        if block is None:
            return inherited
        allowed = bool(actor_matches_allow(_plain(actor), block))
        if allowed != inherited:
            rules.append((database, table, int(allowed)))
        return allowed

    everywhere = judge(None, None, False)
    for database, config in ((datasette.config or {}).get("databases") or {}).items():
        in_database = judge(database, None, everywhere)
        for table in (config or {}).get("tables") or {}:
            judge(database, table, in_database)
    return rules


async def may_enrich_somewhere(datasette: Any, actor: Actor) -> bool:
    """Whether the main menu should point to the jobs. The 0.65 line cannot list a permission's tables: there the
    setting itself is read, and who has the permission from another plugin finds the jobs by the table's menu."""
    if is_root(datasette, actor):
        return True
    if compat.is_1_0(datasette):
        page = await datasette.allowed_resources(compat.ENRICH_ACTION, _plain(actor), limit=1)
        return bool(page.resources)
    levels = [(None, None), *((name, None) for name in datasette.databases)]
    tables = ((datasette.metadata("databases") or {}).items()) if datasette.metadata("databases") else ()
    levels += [(name, table) for name, config in tables for table in (config or {}).get("tables") or {}]
    blocks = (_block(datasette, database, table) for database, table in levels)
    return any(block is not None and actor_matches_allow(_plain(actor), block) for block in blocks)
