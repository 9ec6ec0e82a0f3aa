"""What a person sees while a job runs and when it has ended."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence

import click

from ..jobs.model import Job, JobStatus, Wait, dollars
from ..text import duration, moment, total
from .output import redraw
from .tables import text_table

BAR_WIDTH = 28
LEAST_BAR = 5
"""A bar of fewer characters tells nothing."""
QUIET_SECONDS = 15.0
"""How often a line is written where there is no terminal."""


class ProgressLine:
    """One line on standard error that follows a job; without a terminal, a new line every QUIET_SECONDS."""

    def __init__(self, *, is_silent: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._is_silent = is_silent
        self._clock = clock
        self._began = clock()
        self._shown = -QUIET_SECONDS if _is_terminal() else clock()
        self._first: int | None = None
        self._waits_until: str | None = None
        self._is_drawn = False

    def update(self, job: Job) -> None:
        """Show the job's present state."""
        if self._is_silent:
            return
        if self._first is None:
            self._first = job.done_count
        now = self._clock()
        is_terminal = _is_terminal()
        is_news = job.status.is_final or job.waits_until not in (None, self._waits_until)
        if now - self._shown < (0.1 if is_terminal else QUIET_SECONDS) and not is_news:
            return
        self._shown, self._waits_until = now, job.waits_until
        text = self._text(job, now, _columns() if is_terminal else None)
        if is_terminal:
            redraw(text)
            self._is_drawn = True
        elif not job.status.is_final:
            click.echo(text, err=True)

    def end(self) -> None:
        """End the line, so that other output can follow."""
        if self._is_drawn:
            click.echo(err=True)
            self._is_drawn = False

    def _text(self, job: Job, now: float, columns: int | None) -> str:
        """The line, at most so many columns wide: the bar gives way before the numbers do."""
        speed = (job.done_count - (self._first or 0)) / max(now - self._began, 0.001)
        left = (job.row_count - job.done_count) / speed if speed > 0 and job.is_counted else None
        share = f"{job.percent:5.1f} %" if job.is_counted else "counting"
        parts = [share, f"{job.done_count:,} of {total(job.row_count, job.is_counted)} rows"]
        if speed >= 0.05:
            parts.append(f"{speed:,.1f} rows/s")
        if job.waits_until is not None:
            parts.append(f"waits until {moment(job.waits_until)}")
        elif left is not None and left >= 1 and job.status is JobStatus.RUNNING:
            parts.append(f"{duration(left)} left")
        if job.error_count:
            parts.append(f"{job.error_count:,} in error")
        facts = "  ".join(parts)
        if columns is None:
            return f"{_bar(job.percent, BAR_WIDTH)} {facts}"
        room = columns - len(facts) - 1
        return (f"{_bar(job.percent, min(BAR_WIDTH, room))} {facts}" if room >= LEAST_BAR else facts.lstrip())[:columns]


def _bar(percent: float, width: int) -> str:
    filled = int(width * percent / 100)
    return "█" * filled + "░" * (width - filled)


def _is_terminal() -> bool:
    """Whether a line on standard error can be drawn again."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _columns() -> int:
    """The width of the terminal, less the last column, where the cursor stays."""
    return max(1, shutil.get_terminal_size().columns - 1)


def outcome_table(job: Job) -> str:
    """The job's outcomes: word, rows, share; success first, then the most frequent."""
    if not job.outcomes:
        return "No rows were selected." if job.row_count == 0 else "No row has been answered yet."
    answered = sum(job.outcomes.values())
    ranked = sorted(job.outcomes.items(), key=lambda item: (item[0] != "success", -item[1], item[0]))
    rows = [(word, f"{number:,}", f"{100 * number / answered:.1f}%") for word, number in ranked]
    return text_table(("outcome", "rows", "share"), rows, right=("rows", "share"))


def summary(job: Job, db: str, waits: Sequence[Wait] = ()) -> str:
    """How the job ended, in a sentence or two, with the next command.

    :param waits: what its rows wait for
    """
    done = f"{job.done_count:,} of {total(job.row_count, job.is_counted)} rows answered"
    if job.error_count:
        done += f", {job.error_count:,} in error"
    if job.cost_nanodollars:
        done += f", {dollars(job.cost_nanodollars)} spent"
    if job.status is JobStatus.FINISHED:
        return f"Job {job.id} is finished: {done}."
    if job.status is JobStatus.CANCELLED:
        return f"Job {job.id} was cancelled: {job.cancel_reason or 'no reason given'}. {done}."
    if job.status is JobStatus.PAUSED:
        until = f" It resumes by itself at {moment(job.resume_at)}." if job.resume_at else ""
        return (
            f"Job {job.id} is paused: {job.pause_reason or 'no reason given'}.{until} {done}.\n"
            f"Resume it with: datasette ingest resume {db} {job.id}"
        )
    if job.waits_until is not None:
        reason = f": {waits[0].reason}. " if waits else ". "
        return f"Job {job.id} waits until {moment(job.waits_until)}{reason}{done}.\nRun it with: datasette ingest work {db}"
    return f"Job {job.id} is {job.status.value}: {done}.\nRun it with: datasette ingest work {db}"
