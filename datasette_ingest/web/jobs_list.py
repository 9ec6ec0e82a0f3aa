"""The list of jobs: of one database or of all, newest first, a page at a time. Also as JSON."""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from datasette.utils import tilde_decode, tilde_encode
from datasette.utils.asgi import Response

from .. import compat
from ..jobs import registry
from ..jobs.errors import JobError
from ..jobs.model import Job, JobStatus, StartRequest
from ..jobs.service import control, permissions, queries
from ..jobs.service.job_json import JobJson, job_json, progress_of
from ..jobs.service.permissions import Actor
from . import access, api, requests
from .api import JobsQuery
from .responses import as_json, render
from .urls import Links

JOBS_A_PAGE = 50


# ---- pages of several databases ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cursor:
    """Where the next page begins: for each database, the id of the last job that was shown."""

    before: Mapping[str, int] = field(default_factory=dict)

    def write(self) -> str:
        return ",".join(f"{tilde_encode(name)}:{number}" for name, number in sorted(self.before.items()))

    @classmethod
    def read(cls, text: str | None) -> Cursor:
        """:raises JobError: for text that `write` did not make"""
        before = {}
        for part in text.split(",") if text else []:
            name, colon, number = part.rpartition(":")
            last = requests.natural(number)
            if not colon or last is None:
                raise JobError("_next: expected the `next` of the page before")
            before[tilde_decode(name)] = last
        return cls(before)


@dataclass(frozen=True)
class Page:
    """One page of jobs with the database of each; `next` is the cursor's text, None on the last page. `unavailable`: of
    several databases those that cannot be read now, each with a sentence that says why."""

    jobs: Sequence[tuple[str, Job]]
    next: str | None
    unavailable: Mapping[str, str] = field(default_factory=dict)


async def newest(datasette: Any, databases: Sequence[str], actor: Actor, query: JobsQuery, limit: int) -> Page:
    """The next `limit` jobs that the actor may see. Within a database they are in the order of their ids.

    :raises compat.Unavailable: when the only database cannot be read
    """
    cursor, lists, unavailable = Cursor.read(query.next), [], {}
    for name in databases:
        wanted: dict[str, Any] = {"table": query.table, "status": query.status, "enrichment": query.enrichment}
        since = cursor.before.get(name)
        try:
            found = await queries.list_jobs(datasette, name, actor=actor, **wanted, before=since, limit=limit + 1)
        except sqlite3.DatabaseError as problem:
            if len(databases) == 1:
                raise
            unavailable[name] = str(compat.unavailable(datasette.databases[name], problem) or problem)
            continue
        lists.append([(name, job) for job in found])
    merged = list(heapq.merge(*lists, key=lambda pair: pair[1].started_at or "", reverse=True))
    shown = merged[:limit]
    if len(merged) <= limit:
        return Page(shown, None, unavailable)
    before = dict(cursor.before)
    for name, job in shown:
        before[name] = job.id
    return Page(shown, Cursor(before).write(), unavailable)


# ---- the views --------------------------------------------------------------------------------------------------


async def jobs(datasette: Any, request: Any) -> Response:
    """The jobs that the actor may see, of one database or of all; a JSON POST starts one."""
    database = requests.database_of(datasette, request) if "database" in request.url_vars else None
    requests.require_method(request, *(["GET"] if database is None else ["GET", "POST"]))
    if database is not None and request.method == "POST":
        return await _start(datasette, request, database)
    await access.require_lists(datasette, request.actor, database)
    query = api.query_of(JobsQuery, request)
    everywhere = [name for name in datasette.databases if name not in compat.INTERNAL_DATABASES]
    databases = everywhere if database is None else [database]
    found = await newest(datasette, databases, request.actor, query, JOBS_A_PAGE)
    links, conditions = Links(datasette), query.as_dict()
    next_url = links.jobs(database, **conditions, _next=found.next) if found.next else None
    shown = await _as_models(datasette, found.jobs)
    unavailable = [
        why for name, why in found.unavailable.items() if await compat.can_view(datasette, request.actor, name)
    ]
    if requests.wants_json(request):
        listed = [job for _, job in shown]
        return as_json(api.Jobs(ok=True, jobs=listed, next=found.next, next_url=next_url, unavailable=unavailable))
    names = {slug: enrichment.name for slug, enrichment in (await registry.enrichments(datasette)).items()}
    context = {
        "jobs": [(name, job.as_dict()) for name, job in shown],
        "names": names,
        "next_url": next_url,
        "query": query,
        "unavailable": unavailable,
        "choices": await _choices(
            datasette, request, [name for name in databases if name not in found.unavailable], query, names
        ),
        "first_url": links.jobs(database, **conditions) if query.next else None,
    }
    return await render(datasette, request, "ingest_jobs.html", context, database=database)


async def as_model(datasette: Any, database: str, job: Job, **more: Any) -> JobJson:
    """A job that the actor may see, as JSON has it."""
    [progress] = await progress_of(datasette.databases[database], [job])
    return job_json(job, Links(datasette).job(database, job.id), progress, **more)


async def _as_models(datasette: Any, jobs: Sequence[tuple[str, Job]]) -> list[tuple[str, JobJson]]:
    """The same of jobs of several databases, in their order: one read a database."""
    links, made = Links(datasette), {}
    for database in {name: None for name, _ in jobs}:
        here = [job for name, job in jobs if name == database]
        for job, progress in zip(here, await progress_of(datasette.databases[database], here), strict=True):
            made[database, job.id] = job_json(job, links.job(database, job.id), progress)
    return [(name, made[name, job.id]) for name, job in jobs]


async def _choices(
    datasette: Any, request: Any, databases: list[str], query: JobsQuery, names: Mapping[str, str]
) -> dict[str, list[Any]]:
    """What the list can be narrowed to: (value, label) pairs. What is chosen now is among them, whatever it is."""
    tables = {query.table} if query.table else set()
    for name in databases:
        tables |= await queries.visible_tables(datasette, name, actor=request.actor)
    known = {**({query.enrichment: query.enrichment} if query.enrichment else {}), **names}
    return {
        "status": [(status.value, status.value) for status in JobStatus],
        "table": [(table, table) for table in sorted(tables)],
        "enrichment": sorted(known.items(), key=lambda choice: choice[1]),
    }


async def _start(datasette: Any, request: Any, database: str) -> Response:
    await permissions.require_any_table(datasette, request.actor, database)
    if requests.media_type(request.headers) != requests.JSON_TYPE:
        raise requests.UnsupportedMediaType("Send the job as JSON, with Content-Type: application/json")
    start = StartRequest(
        **api.parse(api.Start, await requests.json_object(request)).model_dump(),
        actor=request.actor,
        key=requests.idempotency_key(request.headers),
    )
    return await created(datasette, database, await control.start(datasette, database, start))


async def created(datasette: Any, database: str, job: Job) -> Response:
    """201 with a new job."""
    shown = await as_model(datasette, database, job)
    return as_json(api.OneJob(ok=True, job=shown), status=201, headers={"Location": shown.url})
