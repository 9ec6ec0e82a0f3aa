"""Who may see and run the filters of a stored job: those who may see all that the filters name. The one place of the
rule, for pages, JSON, retries, filters of ours on other pages, and the table of jobs itself."""

from __future__ import annotations

import json
from typing import Any

from ... import compat
from .. import selection, sources, store

MOST_RETRIES = 100
"""How long a chain of retries of retries may be for anybody but root to see its filters."""


async def may_use(
    datasette: Any, actor: dict[str, Any] | None, db: Any, table: str, querystring: str, *, depth: int = 0
) -> bool:
    """Whether the actor, who may see the jobs of this table, may see and run these filters of one of them.

    What cannot be found out any more (a dropped table, a deleted job, a plugin that is gone) is root's.
    """
    for key, value in selection.naming_more(querystring):
        if not await _may_use(datasette, actor, db, table, key, value, depth):
            return False
    return True


async def _may_use(
    datasette: Any, actor: dict[str, Any] | None, db: Any, table: str, key: str, value: str, depth: int
) -> bool:
    if key == "_where":
        return await compat.can_execute_sql(datasette, actor, db.name)
    if key == "_through":
        return await _may_view(datasette, actor, db, _through_table(value))
    if key == "_search" or key.startswith("_search_"):
        index = await compat.fts_table(datasette, db, table)
        return index is None or await _may_view(datasette, actor, db, index)
    if key == "_ingest_retry" and depth < MOST_RETRIES:
        number = int(value) if value.isascii() and value.isdecimal() and len(value) < 19 else 0
        job = await compat.read(db, lambda conn: store.find_job(conn, number))
        if job is not None:
            return await may_use(datasette, actor, db, job.table_name, job.filter_querystring, depth=depth + 1)
    if compat.is_root(datasette, actor):
        return True
    return selection.is_foreign(key) and await selection.may_use_foreign(datasette, db, table, key, value, actor)


async def _may_view(datasette: Any, actor: dict[str, Any] | None, db: Any, table: str) -> bool:
    return table in await sources.visible(datasette, actor, db.name, [table])


def _through_table(value: str) -> str:
    """The table that a `_through` names; '', which is none, where it names none."""
    try:
        named = json.loads(value)
    except (ValueError, RecursionError):
        return ""
    table = named.get("table") if isinstance(named, dict) else None
    return table if isinstance(table, str) else ""
