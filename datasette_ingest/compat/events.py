"""Events of jobs, which other plugins follow."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any


def has_events(datasette: Any) -> bool:
    """Whether Datasette has events, which plugins can follow."""
    return hasattr(datasette, "track_event")


@functools.cache
def job_events() -> dict[str, type[Any]]:
    """The event classes of jobs, by step; none where Datasette has no events."""
    try:
        from datasette.events import Event
    except ImportError:
        return {}

    @dataclasses.dataclass
    class JobEvent(Event):  # type: ignore[misc, unused-ignore]
        """A step of a job. Counts are numbers of rows; `outcomes` counts them by outcome word.

        `reason` says why it was cancelled or has paused; `resume_at` (ISO 8601) when it goes on by itself.
        """

        job_id: int
        database: str
        table: str
        enrichment: str
        row_count: int
        done_count: int
        error_count: int
        outcomes: dict[str, int]
        reason: str | None
        resume_at: str | None

    def kind(step: str, doc: str) -> type[Any]:
        name = f"ingest-job-{step}"
        return type(
            f"Job{step.capitalize()}Event", (JobEvent,), {"name": name, "__doc__": f"Event name: ``{name}``\n\n{doc}"}
        )

    return {
        "started": kind("started", "A job was added."),
        "finished": kind("finished", "Every row of a job was answered."),
        "cancelled": kind("cancelled", "A job was given up, by a person or by itself."),
        "paused": kind("paused", "A job has paused by itself."),
    }


async def track_job(datasette: Any, step: str, *, actor: dict[str, Any] | None, **facts: Any) -> None:
    """Send the event of a step, one of `job_events`."""
    await datasette.track_event(job_events()[step](actor=actor, **facts))
