"""Who may see and run the filters of a stored job: those who may see all that the filters name. The one place of the
rule, for pages, JSON, retries, filters of ours on other pages, and the table of jobs itself."""

from __future__ import annotations

import functools
import json
import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple

from ... import compat
from .. import facts, selection, store
from ..model import Job


class Named(NamedTuple):
    """What a filter of a job over `table` names: for `_through` a table, for a retry a job's number, for another plugin's
    filter its value; SQL and searches are alike whatever they say."""

    table: str
    key: str
    what: str


async def may_use(datasette: Any, actor: dict[str, Any] | None, db: Any, table: str, querystring: str) -> bool:
    """Whether the actor, who may see the jobs of this table, may see and run these filters of one of them."""
    return await may_use_all(datasette, actor, db, [(table, querystring)])


async def may_use_all(
    datasette: Any, actor: dict[str, Any] | None, db: Any, filters: Iterable[tuple[str, str]]
) -> bool:
    """The same for the filters of several jobs, each with its table. A retry names what its job names.

    What cannot be found out any more (a dropped table, a deleted job, a plugin that is gone) is root's.
    """
    is_root, met, named = compat.is_root(datasette, actor), set[Named](), _named(filters)
    while named:
        retried = [each for each in named if each.key == "_ingest_retry"]
        for each in named.difference(retried):
            if not await _may_see(datasette, actor, db, each):
                return False
        jobs = await compat.read(db, functools.partial(_jobs, retried=retried)) if retried else []
        if None in jobs and not is_root:
            return False
        met |= named
        named = _named((job.table_name, job.filter_querystring) for job in jobs if job is not None) - met
    return True


def _named(filters: Iterable[tuple[str, str]]) -> set[Named]:
    return {
        Named(table, key, _what(key, value)) for table, text in filters for key, value in selection.naming_more(text)
    }


def _what(key: str, value: str) -> str:
    if key == "_through":
        return _through_table(value)
    return "" if key == "_where" or key.startswith("_search") else value


def _jobs(conn: sqlite3.Connection, retried: Iterable[Named]) -> list[Job | None]:
    numbers = (each.what if each.what.isascii() and each.what.isdecimal() else "0" for each in retried)
    return [store.find_job(conn, int(number)) if len(number) < 19 else None for number in numbers]


async def _may_see(datasette: Any, actor: dict[str, Any] | None, db: Any, named: Named) -> bool:
    table, key, what = named
    if key == "_where":
        return await compat.can_execute_sql(datasette, actor, db.name)
    if key == "_through":
        return await _may_view(datasette, actor, db, what)
    if key == "_search" or key.startswith("_search_"):
        index = await compat.fts_table(datasette, db, table)
        return index is None or await _may_view(datasette, actor, db, index)
    if compat.is_root(datasette, actor):
        return True
    return await selection.may_use_foreign(datasette, db, table, key, what, actor)


async def _may_view(datasette: Any, actor: dict[str, Any] | None, db: Any, table: str) -> bool:
    return table in await facts.visible(datasette, actor, db.name, [table])


def _through_table(value: str) -> str:
    """The table that a `_through` names; '', which is none, where it names none."""
    try:
        named = json.loads(value)
    except (ValueError, RecursionError):
        return ""
    table = named.get("table") if isinstance(named, dict) else None
    return table if isinstance(table, str) else ""
