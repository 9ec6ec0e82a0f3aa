"""Who may see, who may enrich: `enrich-table`, root and restricted tokens, and rules as SQL."""

from __future__ import annotations

import contextlib
import contextvars
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from datasette.utils.asgi import Forbidden

from .line import is_1_0

ENRICH_ACTION = "enrich-table"


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
