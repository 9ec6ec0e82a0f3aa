"""For tests of enrichments: run jobs to their end without a server and without sleeping."""

from __future__ import annotations

from typing import Any

from .jobs.owner import liveness
from .jobs.runner import Timing
from .jobs.worker import Worker


async def run_until_idle(datasette: Any, *, timing: Timing | None = None) -> None:
    """Run every job that is runnable in this instance's databases until none is left.

    A job that paused stays paused; one with a `resume_at` in the future is not waited for.
    """
    await datasette.invoke_startup()
    await Worker(datasette, timing=timing or Timing(liveness=liveness), poll_seconds=0.05).run_until_idle()
