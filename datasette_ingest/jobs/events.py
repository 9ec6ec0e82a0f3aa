"""What other plugins are told of a job: Datasette's events (1.0), one a step, from the process that took the step.

A step is told after its transaction, so a process that is killed between the two tells nobody; nothing is told twice.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from typing import Any

from .. import compat
from .model import Job, JobStatus

log = logging.getLogger(__name__)

LISTENING_SECONDS = 5.0
"""How long other plugins may take over one event before the job goes on without them."""

STEPS = {
    JobStatus.PENDING: "started",
    JobStatus.FINISHED: "finished",
    JobStatus.CANCELLED: "cancelled",
    JobStatus.PAUSED: "paused",
}

_HOMES: weakref.WeakKeyDictionary[Any, asyncio.AbstractEventLoop] = weakref.WeakKeyDictionary()


def listen_on(datasette: Any, loop: asyncio.AbstractEventLoop) -> None:
    """Let plugins of this instance hear of jobs on the loop that its pages are served on, whichever thread runs them."""
    _HOMES[datasette] = loop


async def announce(datasette: Any, job: Job, actor: dict[str, Any] | None = None) -> None:
    """Tell other plugins that the job was added, has ended, or has paused by itself: by the state that it is in now.

    A plugin that fails or does not come back is logged and harms nobody.

    :param actor: who took the step; None where the engine did, for whoever started the job
    """
    if not compat.has_events(datasette):
        return
    behind = actor if actor is not None or job.actor_id is None else {"id": job.actor_id}
    telling = compat.track_job(
        datasette,
        STEPS[job.status],
        actor=behind,
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
    home = _HOMES.get(datasette)
    try:
        if home is None or home is asyncio.get_running_loop() or not home.is_running():
            await asyncio.wait_for(telling, LISTENING_SECONDS)
        else:
            heard = asyncio.run_coroutine_threadsafe(telling, home)
            await asyncio.wait_for(asyncio.wrap_future(heard), LISTENING_SECONDS)
    except Exception:
        log.exception("job %s of %s: a plugin failed on the event", job.id, job.database_name)
