"""Jobs of several databases as one list, newest first, a page at a time."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from datasette.utils import tilde_decode, tilde_encode

from ..jobs.errors import JobError
from ..jobs.model import Job, JobStatus
from ..jobs.service import control
from . import access, format
from .responses import natural


@dataclass(frozen=True)
class Cursor:
    """Where the next page begins: for each database, the number of the last job that was shown."""

    before: Mapping[str, int] = field(default_factory=dict)

    def write(self) -> str:
        return ",".join(f"{tilde_encode(name)}:{number}" for name, number in sorted(self.before.items()))

    @classmethod
    def read(cls, text: str | None) -> Cursor:
        """:raises JobError: for text that `write` did not make"""
        before = {}
        for part in text.split(",") if text else []:
            name, colon, number = part.rpartition(":")
            last = natural(number)
            if not colon or last is None:
                raise JobError("_next: expected what the page before gave")
            before[tilde_decode(name)] = last
        return cls(before)


@dataclass(frozen=True)
class Wanted:
    """Which jobs: of this table, in this state, of the enrichment of this slug; None: of any."""

    table: str | None = None
    status: str | None = None
    enrichment: str | None = None

    @classmethod
    def of(cls, args: Any) -> Wanted:
        """What a query string asks for; an empty value, as a form sends it, asks for nothing.

        :raises JobError: for a state that there is not
        """
        wanted = cls(args.get("table") or None, args.get("status") or None, args.get("enrichment") or None)
        known = [status.value for status in JobStatus]
        if wanted.status is not None and wanted.status not in known:
            raise JobError(f"There is no status {wanted.status!r}; write {format.summed_up(known)}")
        return wanted

    @property
    def is_everything(self) -> bool:
        return self == Wanted()

    def as_dict(self) -> dict[str, str | None]:
        return {"table": self.table, "status": self.status, "enrichment": self.enrichment}


@dataclass(frozen=True)
class Page:
    """One page of jobs with the database that each lives in; `next` is the cursor's text, None on the last page."""

    jobs: Sequence[tuple[str, Job]]
    next: str | None


async def newest(
    datasette: Any,
    databases: Sequence[str],
    actor: access.Actor,
    cursor: Cursor,
    wanted: Wanted,
    limit: int,
) -> Page:
    """The next `limit` jobs that the actor may see. Within a database they stay in the order of their numbers."""
    lists = []
    for name in databases:
        found = await control.listing(
            datasette,
            name,
            actor=dict(actor) if actor is not None else None,
            table=wanted.table,
            status=wanted.status,
            enrichment=wanted.enrichment,
            before=cursor.before.get(name),
            limit=limit + 1,
        )
        lists.append([(name, job) for job in found])
    merged = list(_merged(lists))
    shown = merged[:limit]
    if len(merged) <= limit:
        return Page(shown, None)
    before = dict(cursor.before)
    for name, job in shown:
        before[name] = job.id
    return Page(shown, Cursor(before).write())


def _merged(lists: Sequence[Sequence[tuple[str, Job]]]) -> Iterator[tuple[str, Job]]:
    return heapq.merge(*lists, key=lambda pair: pair[1].started_at or "", reverse=True)
