"""Find, list and read jobs. `find`, `list_jobs`, `visible_tables` and `count_running` check the actor; the others read
of a job that one of these returned."""

from __future__ import annotations

import dataclasses
import logging
import re
import sqlite3
import time
from functools import partial
from typing import Any

from ... import compat
from ...sqlite import fold
from .. import facts, keyset, leases, results_log, selection, store
from ..errors import BadSelection, JobNotFound
from ..model import Event, Job, Wait
from ..results_log import ErrorGroups, JobErrorRow
from . import filter_rights
from .permissions import Actor, ids_of_orphans, may_see_jobs, tables_with_visible_jobs

log = logging.getLogger(__name__)


async def find(datasette: Any, database: str, job_id: int, *, actor: Actor = None) -> Job:
    """:raises JobNotFound: when there is no such job, or none that the actor may see"""
    job = None
    db = datasette.databases.get(database)
    if db is not None and compat.why_not_enrichable(db) is None and 0 < job_id < 2**63:
        compat.require_same_file(db)
        job = await compat.read(db, lambda conn: store.find_job(conn, job_id))
    # asked for a job that does not exist, too: the answer takes as long
    may_see = await may_see_jobs(datasette, actor, database, "" if job is None else job.table_name)
    if job is None or not may_see or job_id in await ids_of_orphans(datasette, actor, db):
        raise JobNotFound(f"There is no job {job_id} in {database}")
    return await redacted(datasette, actor, db, job)


async def list_jobs(
    datasette: Any,
    database: str,
    *,
    actor: Actor = None,
    table: str | None = None,
    status: str | None = None,
    enrichment: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[Job]:
    """The jobs of a database that the actor may see, newest first.

    :param before: the id of the last job of the page before
    """
    visible = await visible_tables(datasette, database, actor=actor, among=table)
    if not visible:
        return []
    db = datasette.databases[database]
    without = await ids_of_orphans(datasette, actor, db)
    jobs = await compat.read(
        db,
        lambda conn: store.list_jobs(
            conn, tables=visible, status=status, enrichment=enrichment, before=before, limit=limit, without=without
        ),
    )
    return [await redacted(datasette, actor, db, job) for job in jobs]


async def visible_tables(datasette: Any, database: str, *, actor: Actor, among: str | None = None) -> set[str]:
    """The tables of the database that ever had a job and whose jobs the actor may see.

    :param among: only this table
    """
    db = datasette.databases.get(database)
    if db is None or compat.why_not_enrichable(db) is not None:
        return set()
    compat.require_same_file(db)
    known = await facts.of(db)
    tables = known.with_jobs if known.is_readable else await compat.read(db, store.tables_with_jobs)
    wanted = tables if among is None else [name for name in tables if fold(name) == fold(among)]
    return await tables_with_visible_jobs(datasette, actor, database, wanted)


async def count_running(datasette: Any, *, actor: Actor) -> int:
    """How many jobs are running, in all databases, that the actor may see: one short query a database."""
    number = 0
    for name, db in compat.databases(datasette).items():
        try:
            without = await ids_of_orphans(datasette, actor, db)
            tables = await compat.read(db, partial(store.running_jobs, without=without))
            visible = await tables_with_visible_jobs(datasette, actor, name, tables)
        except sqlite3.DatabaseError as problem:
            log.debug("cannot read the jobs of %s: %s", name, problem)
            continue
        number += sum(count for table, count in tables.items() if table in visible)
    return number


async def redacted(datasette: Any, actor: Actor, db: Any, job: Job) -> Job:
    """The job; without the values of its filters for those who may not use them."""
    filters = job.filter_querystring
    if await filter_rights.may_use(datasette, actor, db, job.table_name, filters):
        return job
    return dataclasses.replace(
        job,
        filter_querystring=selection.masked(filters),
        selection=None,
        cancel_reason=_without_sql(job.cancel_reason or "") or None,
        hides_filters=True,
    )


_FAULT = re.compile(
    r"(SQLite refused the job's work|cannot be read|SQLite does not understand these filters|fail on some row): .*",
    re.DOTALL,
)


def _without_sql(message: str) -> str:
    """A line of a job's without SQLite's words for a fault in its filters, which name what the filters name."""
    return _FAULT.sub(r"\1", message)


async def has_row_pages(db: Any, job: Job) -> bool:
    """Whether Datasette's row pages find the rows of a job by the keys that it stored; False where its table is gone or
    has another key."""

    def read(conn: sqlite3.Connection) -> bool:
        has_pages = keyset.table_key(conn, job.table_name).has_pages
        return has_pages and keyset.has_key(conn, job.table_name, job.table_key)

    try:
        return await compat.read(db, read)
    except BadSelection:
        return False


# ---- of a job that was found -----------------------------------------------------------------------------------


async def errors(
    db: Any, job: Job, *, after: int | None = None, limit: int = 100, like: int | None = None
) -> list[JobErrorRow]:
    """The job's errors, oldest first.

    :param after: the id of the last error of the page before
    :param like: the id of an error: only those with its message
    """
    return await compat.read(
        db, lambda conn: results_log.list_errors(conn, job.id, after=after, limit=limit, like=like)
    )


async def error_groups(db: Any, job: Job, *, groups: int, keys: int) -> ErrorGroups:
    """The job's errors by message, `groups` messages with `keys` rows each."""
    return await compat.read(db, lambda conn: results_log.group_errors(conn, job.id, groups=groups, keys=keys))


async def waits(db: Any, job: Job) -> list[Wait]:
    """What the job's deferred rows wait for, the most rows first."""
    return await compat.read(db, lambda conn: leases.waits(conn, job.id, time.time()))


async def events(db: Any, job: Job, *, limit: int) -> list[Event]:
    """The job's log, newest first."""
    lines = await compat.read(db, lambda conn: results_log.list_events(conn, job.id, limit=limit))
    if not job.hides_filters:
        return lines
    return [dataclasses.replace(line, message=_without_sql(line.message)) for line in lines]
