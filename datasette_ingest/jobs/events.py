"""Datasette's events (1.0) for jobs: one for each step, from the process that took it, after its transaction.

A process that is killed between the transaction and the event emits none; no event is emitted twice.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from typing import Any

from .. import compat
from .model import Job, JobStatus

log = logging.getLogger(__name__)

LISTENER_SECONDS = 5.0
"""How long other plugins may take over one event before the job continues without them."""

STEPS = {
    JobStatus.PENDING: "started",
    JobStatus.FINISHED: "finished",
    JobStatus.CANCELLED: "cancelled",
    JobStatus.PAUSED: "paused",
}

_PAGE_LOOPS: weakref.WeakKeyDictionary[Any, asyncio.AbstractEventLoop] = weakref.WeakKeyDictionary()


def emit_on(datasette: Any, loop: asyncio.AbstractEventLoop) -> None:
    """Emit this instance's events on the loop that serves its pages, whichever thread runs its jobs."""
    _PAGE_LOOPS[datasette] = loop


async def emit(datasette: Any, job: Job, actor: dict[str, Any] | None = None) -> None:
    """Emit the event of the state that the job is in: it was started, has ended, or has paused by itself.

    A plugin that fails or does not return is logged; the job continues.

    :param actor: who took the step; None where the engine did, on behalf of the person who started the job
    """
    if not compat.has_events(datasette):
        return
    event = compat.track_job(
        datasette,
        STEPS[job.status],
        actor=actor if actor is not None or job.actor_id is None else {"id": job.actor_id},
        job_id=job.id,
        database=job.database_name,
        table=job.table_name,
        enrichment=job.enrichment,
        row_count=job.row_count,
        done_count=job.done_count,
        error_count=job.error_count,
        outcomes=dict(job.outcomes),
        reason=job.cancel_reason or job.pause_reason,
        resume_at=job.resume_at,
    )
    loop = _PAGE_LOOPS.get(datasette)
    try:
        if loop is None or loop is asyncio.get_running_loop() or not loop.is_running():
            await asyncio.wait_for(event, LISTENER_SECONDS)
        else:
            emitted = asyncio.run_coroutine_threadsafe(event, loop)
            await asyncio.wait_for(asyncio.wrap_future(emitted), LISTENER_SECONDS)
    except Exception:
        log.exception("job %s of %s: a plugin failed on the event", job.id, job.database_name)
