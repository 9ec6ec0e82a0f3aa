"""Who may view a database's jobs and our tables, and what this plugin tells Datasette's permission system. Who may
enrich a table is decided in `jobs.service.permissions`."""

from __future__ import annotations

import asyncio
import contextvars
import json
from collections.abc import Collection, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from datasette.utils import actor_matches_allow

from .. import compat
from ..jobs import facts
from ..jobs.errors import NotAllowed, TableNotFound
from ..jobs.owned_tables import ENGINE_PREFIX, JOBS_TABLE, source_of_shadow
from ..jobs.service import permissions, queries
from ..jobs.service.filter_rights import may_use_all
from ..jobs.service.permissions import Actor
from ..sqlite import SHADOW_PREFIX, fold

T = TypeVar("T")


# ---- databases --------------------------------------------------------------------------------------------------


async def require_lists(datasette: Any, actor: Actor, database: str | None) -> None:
    """Refuse the list of jobs of this database, of all where it is None, to those who may neither view that nor see any
    job in it: who has rights on single tables only may see their jobs. A missing database looks like a private one to
    all but root.

    :raises NotAllowed, TableNotFound:
    """
    if database is not None and database not in datasette.databases:
        if compat.is_root(datasette, actor):
            raise TableNotFound(f"There is no database {database}. The home page lists them")
    elif await compat.can_view(datasette, actor, database):
        return
    for name in datasette.databases if database is None else [database]:
        if await queries.visible_tables(datasette, name, actor=actor):
            return
    raise NotAllowed(
        "You may not view this Datasette" if database is None else "There is no such database, or you may not see it"
    )


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
    context.run(facts.memory.set, facts.memory.get())
    return await context.run(asyncio.ensure_future, question)


@dataclass
class Answers:
    """Which tables are hidden from whom, kept for one request, which asks about every table of a page. Closed when the
    request ends, so that a task that it started asks again."""

    hidden: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    is_open: bool = True


_answers: contextvars.ContextVar[Answers | None] = contextvars.ContextVar("datasette_ingest_answers", default=None)


def remembering(app: Any) -> Any:
    """ASGI middleware: each HTTP request works out once which tables are hidden from whom, and one that only reads reads
    once what decides it."""

    async def remembered(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        answers = Answers()
        memory = facts.Memory(is_open=scope.get("method") in ("GET", "HEAD"))
        token, memory_token = _answers.set(answers), facts.memory.set(memory)
        try:
            await app(scope, receive, send)
        finally:
            answers.is_open = memory.is_open = False
            _answers.reset(token)
            facts.memory.reset(memory_token)

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


async def require_results(datasette: Any, actor: Actor, database: str, tables: Collection[str]) -> None:
    """Refuse numbers of these tables of results to those who may not read them all. A missing database looks like a
    private one to all but root.

    :raises NotAllowed, TableNotFound:
    """
    if database not in datasette.databases or database in compat.INTERNAL_DATABASES:
        if compat.is_root(datasette, actor):
            raise TableNotFound(f"There is no database {database}. The home page lists them")
    elif await compat.can_view(datasette, actor, database):
        # Also where the tables are not there yet: whether they are is not for everybody.
        hidden = await hidden_from(datasette, actor, database)
        is_closed = any(source_of_shadow(name) is None and fold(name) != JOBS_TABLE for name in hidden)
        if not is_closed and all([await compat.can_view(datasette, actor, database, table) for table in tables]):
            return
    raise NotAllowed("There is no such database, or you may not read its results")


async def _hidden_from(datasette: Any, actor: Actor, database: str) -> list[str]:
    db = datasette.databases.get(database)
    if db is None or not _may_hold_ours(db) or compat.plugin_config(datasette).get("publish_results") is True:
        return []
    known = await facts.of(db)
    source_by_name = {name: source_of_shadow(name) for name in known.ours}
    if not source_by_name:
        return []
    # The sources of our tables, among them the table of jobs where it is gone: nobody knows the others then.
    with_jobs = known.with_jobs + known.loaded + ([] if known.knows_jobs else [JOBS_TABLE])

    async def judge() -> list[str]:
        named = {*with_jobs, *(source for source in source_by_name.values() if source is not None)}
        seen = await facts.visible(datasette, actor, database, named)
        orphaned = set(map(fold, await permissions.orphans(datasette, actor, db)))
        seen = {source for source in seen if fold(source) not in orphaned}
        sees_all = seen.issuperset(with_jobs)
        sees_filters = sees_all and await may_use_all(datasette, actor, db, known.filters)
        return [
            name
            for name, source in source_by_name.items()
            if not (sees_all if source is None else source in seen) or (fold(name) == JOBS_TABLE and not sees_filters)
        ]

    return await _apart(judge())


def _may_hold_ours(db: Any) -> bool:
    """Whether the database may hold tables of ours. Each connection to a memory database without a name sees an empty
    one of its own."""
    return db.name not in compat.INTERNAL_DATABASES and not (db.is_memory and not db.memory_name)


# ---- what Datasette's permission hooks ask -------------------------------------------------------------------------


async def grant_enrich_table(datasette: Any, actor: Actor, action: str, resource: Any) -> bool | None:
    """The answer to `permission_allowed` for `enrich-table`: True for root and the `allow` setting, else None.

    Must be asked first: where Datasette has this hook, the last answer wins, and another plugin may have one.
    """
    if action != compat.ENRICH_ACTION or not isinstance(resource, tuple):
        return None
    database, table = resource
    if not _is_within_restrictions(actor, action, database, table):
        return None
    if compat.acts_for_root(datasette, actor):
        return True
    if fold(table).startswith(ENGINE_PREFIX):
        return None
    for blocks in (_blocks(datasette, database, table), _blocks(datasette, database), _blocks(datasette)):
        if blocks:
            return True if _lets_in(actor, blocks) else None
    return None


def _is_within_restrictions(actor: Actor, action: str, database: str, table: str) -> bool:
    """Whether the actor's restrictions (`_r`), if they have any, include this action on this table. The 1.0 line checks
    them itself; 0.65 knows none.

    https://docs.datasette.io/en/latest/authentication.html#restricting-the-actions-that-a-token-can-perform
    """
    restrictions = None if actor is None else actor.get("_r")
    if restrictions is None:
        return True
    tables = restrictions.get("r", {}).get(database, {}).items()
    lists = [restrictions.get("a", []), restrictions.get("d", {}).get(database, [])]
    lists += [actions for name, actions in tables if fold(name) == fold(table)]
    return any(action in actions for actions in lists)


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
    rules: list[compat.Rule] = []
    if action == compat.ENRICH_ACTION:
        rules = _allow_rules(datasette, actor)
        rules += [(*pair, False) for pair in await compat.tables_out_of_sight(datasette, actor)]
    return compat.permission_sql(action, rules + await _engine_tables(datasette))


async def _engine_tables(datasette: Any) -> list[compat.Rule]:
    """Denials of the `_enrichment_*` tables of every database: nobody but root writes to them. Of a database that cannot be
    read now, of all its tables."""
    denied: list[compat.Rule] = []
    for name, db in list(datasette.databases.items()):
        if not _may_hold_ours(db):
            continue
        try:
            tables = (await facts.of(db)).ours
        except compat.Unavailable:
            denied.append((name, None, False))
        else:
            denied += [(name, table, False) for table in tables if fold(table).startswith(ENGINE_PREFIX)]
    return denied


# ---- the `allow` setting ----------------------------------------------------------------------------------------


def _blocks(datasette: Any, database: str | None = None, table: str | None = None) -> list[Any]:
    """The allow blocks that are written at exactly this level. A table may be spelled in several ways; as in Datasette's
    own configuration, each of its blocks must let an actor in."""
    if database is None:
        configs = [compat.plugin_config(datasette)]
    else:
        known = compat.configured_tables(datasette).get(database, [])
        names = [None] if table is None else [name for name in known if fold(name) == fold(table)]
        configs = [
            datasette.plugin_config("datasette-ingest", database=database, table=name, fallback=False) or {}
            for name in names
        ]
    return [config["allow"] for config in configs if config.get("allow") is not None]


def _lets_in(actor: Actor, blocks: list[Any]) -> bool:
    return all(actor_matches_allow(actor, block) for block in blocks)


def _allow_rules(datasette: Any, actor: Actor) -> list[compat.Rule]:
    """The setting as rules, most general first. A level is spelled out only where it differs from the one above, so
    that a grant of Datasette's own `permissions:` block is never undone by a block of ours that is silent on it."""
    rules: list[compat.Rule] = []

    def judge(database: str | None, table: str | None, inherited: bool) -> bool:
        blocks = _blocks(datasette, database, table)
        allowed = _lets_in(actor, blocks) if blocks else inherited
        if allowed != inherited:
            rules.append((database, table, allowed))
        return allowed

    everywhere = judge(None, None, False)
    for database, tables in compat.configured_tables(datasette).items():
        in_database = judge(database, None, everywhere)
        for table in dict.fromkeys(map(fold, tables)):
            judge(database, table, in_database)
    return rules


async def may_enrich_somewhere(datasette: Any, actor: Actor) -> bool:
    """Whether the main menu should point to the jobs. Where Datasette cannot list what a permission allows, the setting
    alone counts: who has the permission from another plugin finds the jobs by the table's menu."""
    if compat.is_root(datasette, actor):
        return True
    listed = await compat.may_enrich_somewhere(datasette, actor)
    return any(allowed for _, _, allowed in _allow_rules(datasette, actor)) if listed is None else listed
