"""What a person sees while a job runs and when it has ended."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence

import click

from ..ingest.kept_reading import Progress
from ..jobs.enrichment import successes_of
from ..jobs.model import Job, JobStatus, Wait, dollars
from ..text import duration, moment, total
from .output import redraw
from .tables import text_table

BAR_WIDTH = 28
LEAST_BAR = 5
"""A bar of fewer characters tells nothing."""
QUIET_SECONDS = 15.0
"""How often a line is written where there is no terminal."""


class StatusLine:
    """One line on standard error that follows work; without a terminal, a new line every QUIET_SECONDS."""

    def __init__(self, *, is_silent: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._is_silent = is_silent
        self._clock = clock
        self._began = clock()
        self._shown = -QUIET_SECONDS if _is_terminal() else clock()
        self._is_drawn = False

    def end(self) -> None:
        """End the line, so that other output can follow."""
        if self._is_drawn:
            click.echo(err=True)
            self._is_drawn = False

    def _is_time(self, *, is_news: bool = False) -> bool:
        """Whether the line should be drawn now. News are shown at once."""
        if self._is_silent:
            return False
        now = self._clock()
        if now - self._shown < (0.1 if _is_terminal() else QUIET_SECONDS) and not is_news:
            return False
        self._shown = now
        return True

    def _draw(self, parts: Sequence[str], percent: float | None, *, is_last: bool = False) -> None:
        """Draw the line, at most as wide as the terminal: the bar gives way before the numbers do.

        :param percent: of the work that is done; None where that is not known
        :param is_last: the work has ended: where there is no terminal, what follows says so
        """
        is_terminal = _is_terminal()
        facts = "  ".join(parts)
        columns = _columns() if is_terminal else None
        room = 0 if percent is None else BAR_WIDTH if columns is None else min(BAR_WIDTH, columns - len(facts) - 1)
        text = f"{_bar(percent, room)} {facts}" if percent is not None and room >= LEAST_BAR else facts.lstrip()
        if is_terminal:
            redraw(text[:columns])
            self._is_drawn = True
        elif not is_last:
            click.echo(text, err=True)


class ProgressLine(StatusLine):
    """Follows a job."""

    def __init__(self, *, is_silent: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(is_silent=is_silent, clock=clock)
        self._first: int | None = None
        self._waits_until: str | None = None

    def update(self, job: Job) -> None:
        """Show the job's present state."""
        if self._first is None:
            self._first = job.done_count
        is_news = job.status.is_final or job.waits_until not in (None, self._waits_until)
        if self._is_time(is_news=is_news):
            self._waits_until = job.waits_until
            self._draw(self._parts(job), job.percent, is_last=job.status.is_final)

    def _parts(self, job: Job) -> list[str]:
        speed = (job.done_count - (self._first or 0)) / max(self._clock() - self._began, 0.001)
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
        return parts


class LoadLine(StatusLine):
    """Follows a load, by bytes where their number is known."""

    def update(self, position: int, size: int | None, counts: str) -> None:
        """:param counts: what was loaded, in words"""
        if not self._is_time():
            return
        parts = [f"{position / 1e6:,.1f} MB"]
        if size:
            left = (size - position) * (self._clock() - self._began) / max(position, 1)
            parts = [f"{100 * position / size:5.1f} %", f"{parts[0]} of {size / 1e6:,.1f} MB"]
            parts += [f"{duration(left)} left"] if left >= 1 else []
        self._draw([*parts, counts], 100 * position / size if size else None)


class ReadingLine(StatusLine):
    """Follows the reading of kept files."""

    def update(self, progress: Progress) -> None:
        if self._is_time():
            speed = progress.read / max(self._clock() - self._began, 0.001)
            parts = [
                f"{100 * progress.position:5.1f} %",
                f"{progress.looked_at:,} hits looked at",
                f"{progress.read:,} read",
            ]
            parts += [f"{speed:,.1f} files/s"] if speed >= 0.05 else []
            parts += [f"{progress.missing:,} missing"] if progress.missing else []
            self._draw(parts, 100 * progress.position)


class CountLine(StatusLine):
    """Follows a command whose end is not known, by counts in words."""

    def update(self, *counts: str) -> None:
        if self._is_time():
            self._draw(counts, None)


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
        if job.row_count == 0:
            return "No rows were selected."
        return "No row was answered." if job.status.is_final else "No row has been answered yet."
    answered, good = sum(job.outcomes.values()), successes_of(job.enrichment)
    ranked = sorted(job.outcomes.items(), key=lambda item: (item[0] not in good, -item[1], item[0]))
    rows = [(word, f"{number:,}", f"{100 * number / answered:.1f}%") for word, number in ranked]
    return text_table(("outcome", "rows", "share"), rows, right=("rows", "share"))


def retries_text(job: Job) -> str:
    """Its misses by how soon they are tried again: `3 soon, 12 later`."""
    order = ("now", "soon", "later", "never")
    return ", ".join(f"{job.retries[name]:,} {name}" for name in order if job.retries.get(name))


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
