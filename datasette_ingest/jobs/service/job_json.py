"""A job as JSON, for the API and the command line."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence
from typing import Any, Literal

import pydantic

from ... import compat, sqlite
from .. import leases, results_log
from ..model import TRANSITIONS, Event, Job, JobStatus, StoredOptions
from ..selection import Selection
from .outcomes import successes

Step = Literal["pause", "resume", "cancel", "retry"]
STEPS: dict[Step, JobStatus] = {"pause": JobStatus.PAUSED, "resume": JobStatus.PENDING, "cancel": JobStatus.CANCELLED}
"""Steps that move a job, and the state that each leads to."""


class Parts(pydantic.BaseModel):
    """The rows answered, as the bar shows them."""

    success: int
    other: int
    error: int


class StoredSelection(pydantic.BaseModel):
    """The filters as SQL with named parameters, each value as JSON text of a typed list of one, and in words."""

    where: str
    params: dict[str, str]
    is_free_sql: bool
    columns: list[str]
    description: str = ""


class WaitJson(pydantic.BaseModel):
    """Rows that wait for one reason. `until`: the ISO time at which the first of them is tried again; null where
    they wait for answers from outside."""

    model_config = pydantic.ConfigDict(from_attributes=True)

    reason: str
    until: str | None
    rows: int


class LogLine(pydantic.BaseModel):
    """A line of a job's log. `at` is an ISO time, null where another program wrote none."""

    at: str | None
    message: str


class JobJson(pydantic.BaseModel):
    """A job: the columns of its row in `_enrichment_jobs`, JSON decoded, and what follows from them."""

    model_config = pydantic.ConfigDict(use_enum_values=True)

    id: int
    status: JobStatus
    enrichment: str
    database_name: str
    table_name: str
    filter_querystring: str
    config: dict[str, Any]
    started_at: str | None
    finished_at: str | None
    cancel_reason: str | None
    next_cursor: str | None
    row_count: int = pydantic.Field(description="How many rows it has; while `is_counted` is false, at least so many")
    is_counted: bool = pydantic.Field(
        description="False while the rows are being counted beside the work: `percent` is 0 and `eta_seconds` null"
    )
    error_count: int
    done_count: int
    actor_id: str | None
    cost_100ths_cent: int
    state: dict[str, Any]
    resume_at: str | None
    options: StoredOptions
    outcomes: dict[str, int]
    cost_nanodollars: int
    pause_reason: str | None
    retries: dict[str, int] = pydantic.Field(
        description="Its misses by how soon they are tried again: now (minutes), soon (hours), later (30 days), never"
    )
    selection: StoredSelection | None = pydantic.Field(
        description="The filters as SQL; null where they may hold a person's own SQL"
    )
    table_key: str | None = pydantic.Field(description="The key of its table when it was added, in words")
    damage: str | None = pydantic.Field(
        description="What is wrong with its row, which another program has damaged; null as a rule"
    )
    hides_filters: bool = pydantic.Field(
        description="Whether the filters stand here without their values, since they name what the reader may not see"
    )
    percent: float = pydantic.Field(ge=0, le=100, description="Share of the rows that are answered")
    parts: Parts
    is_final: bool = pydantic.Field(description="True when it is finished or cancelled: stop asking")
    actions: list[Step] = pydantic.Field(description="What may be done to it now")
    url: str = pydantic.Field(description="The address of its page")
    rows_per_second: float | None = pydantic.Field(description="Its speed; null where it is not running")
    eta_seconds: float | None = pydantic.Field(description="How long it may still take; null where that is unknown")
    open_batches: int = pydantic.Field(description="Reservations that are being worked on")
    waits_until: str | None = pydantic.Field(
        description="Where all remaining rows wait: the ISO time at which the first of them is tried again"
    )
    waits: list[WaitJson] = pydantic.Field(
        description=f"What its rows wait for, at most {leases.MOST_WAITS} reasons, those of the most rows first"
    )
    events: list[LogLine] = pydantic.Field(
        default=[], description="The last lines of its log, newest first; only where one job was asked for"
    )

    def as_dict(self) -> dict[str, Any]:
        """The job's keys; options that are not set, and events that were not asked for, are left out."""
        shown: dict[str, Any] = sqlite.json_value(self.model_dump(exclude_unset=True))
        return shown


async def progress_of(db: Any, jobs: Sequence[Job]) -> list[results_log.Progress]:
    """How fast each of these jobs is, and what it waits for: one read for all that are not over."""

    def read(conn: sqlite3.Connection) -> list[results_log.Progress]:
        return [idle if job.status.is_final else results_log.progress(conn, job, time.time()) for job in jobs]

    idle = results_log.Progress(None, None, 0, [])
    return [idle] * len(jobs) if all(job.status.is_final for job in jobs) else await compat.read(db, read)


def job_json(job: Job, url: str, progress: results_log.Progress, *, events: Sequence[Event] | None = None) -> JobJson:
    """A job that the actor may see, as JSON.

    :param url: the address of its page
    """
    given: dict[str, Any] = vars(job) | {
        "selection": _own_selection(job),
        "percent": job.percent,
        "parts": parts(job),
        "retries": job.retries,
        "is_final": job.status.is_final,
        "actions": possible_steps(job),
        "url": url,
        "rows_per_second": progress.rows_per_second if job.status is JobStatus.RUNNING else None,
        "eta_seconds": progress.eta_seconds,
        "open_batches": progress.open_batches,
        "waits_until": job.waits_until if progress.waits else None,
        "waits": progress.waits,
    }
    if events is not None:
        given["events"] = [LogLine(at=event.at, message=event.message) for event in events]
    return JobJson(**given)


def possible_steps(job: Job) -> list[Step]:
    """What a person may do to the job in its present state."""
    if job.status.is_final:
        return ["retry"]
    return [step for step, status in STEPS.items() if status in TRANSITIONS[job.status]]


def parts(job: Job) -> Parts:
    """The rows that were answered: successes, other outcomes, errors. Never more than were answered."""
    success = min(successes(job), job.done_count)
    error = min(job.error_count, job.done_count - success)
    return Parts(success=success, other=job.done_count - success - error, error=error)


def _own_selection(job: Job) -> dict[str, Any] | None:
    """The selection as SQL, unless it may hold a person's own: that of a retry holds its job's, which no filter shows."""
    if not job.selection:
        return None
    try:
        Selection.load(job.selection, "")
    except ValueError:  # damaged: the job says so
        return None
    stored: dict[str, Any] = json.loads(job.selection)
    return None if stored["is_free_sql"] else stored
