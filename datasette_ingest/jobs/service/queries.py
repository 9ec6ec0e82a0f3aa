"""Find, list and read jobs. `find`, `list_jobs`, `visible_tables` and `count_running` check the actor; the others read
of a job that one of these returned."""

from __future__ import annotations

import dataclasses
import logging
import sqlite3
import time
from typing import Any
from urllib.parse import parse_qsl, urlencode

from ... import compat
from .. import leases, results_log, selection, store
from ..errors import JobNotFound
from ..model import Event, Job, Wait
from ..results_log import ErrorGroups, JobErrorRow
from .permissions import Actor, may_see_jobs

log = logging.getLogger(__name__)


async def find(datasette: Any, database: str, job_id: int, *, actor: Actor = None) -> Job:
    """:raises JobNotFound: when there is no such job, or none that the actor may see"""
    job = None
    db = datasette.databases.get(database)
    if db is not None and compat.why_not_enrichable(db) is None and 0 < job_id < 2**63:
        job = await compat.read(db, lambda conn: store.find_job(conn, job_id))
    if job is None or not await may_see_jobs(datasette, actor, database, job.table_name):
        raise JobNotFound(f"There is no job {job_id} in {database}")
    return await redacted(datasette, actor, job)


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
    jobs = await compat.read(
        datasette.databases[database],
        lambda conn: store.list_jobs(
            conn, tables=visible, status=status, enrichment=enrichment, before=before, limit=limit
        ),
    )
    return [await redacted(datasette, actor, job) for job in jobs]


async def visible_tables(datasette: Any, database: str, *, actor: Actor, among: str | None = None) -> set[str]:
    """The tables of the database that ever had a job and whose jobs the actor may see.

    :param among: only this table
    """
    db = datasette.databases.get(database)
    if db is None or compat.why_not_enrichable(db) is not None:
        return set()
    tables = await compat.read(db, store.tables_with_jobs)
    wanted = tables if among is None else [name for name in tables if name == among]
    return {name for name in wanted if await may_see_jobs(datasette, actor, database, name)}


async def count_running(datasette: Any, *, actor: Actor) -> int:
    """How many jobs are running, in all databases, that the actor may see: one short query a database."""
    number = 0
    for name, db in compat.databases(datasette).items():
        try:
            tables = await compat.read(db, store.running_jobs)
            seen = [count for table, count in tables.items() if await may_see_jobs(datasette, actor, name, table)]
        except sqlite3.DatabaseError as problem:
            log.debug("cannot read the jobs of %s: %s", name, problem)
            continue
        number += sum(seen)
    return number


async def redacted(datasette: Any, actor: Actor, job: Job) -> Job:
    """The job without a stored `_where` for those who may not execute SQL."""
    if not selection.has_free_sql(job.filter_querystring) or await compat.can_execute_sql(
        datasette, actor, job.database_name
    ):
        return job
    kept = [(k, v if k != "_where" else "…") for k, v in parse_qsl(job.filter_querystring, keep_blank_values=True)]
    return dataclasses.replace(job, filter_querystring=urlencode(kept), selection=None)


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
    return await compat.read(db, lambda conn: results_log.list_events(conn, job.id, limit=limit))
