"""What can go wrong with a job, and what an enrichment raises to stop it or to put a row off."""

from __future__ import annotations

import datetime

from ..masking import mask


class Pause(Exception):
    """Raised by an enrichment: give the batch back and pause the job.

    :param reason: a sentence for the job page
    :param resume_at: when the job may go on by itself; None waits for a person. Naive times are read as UTC
    """

    def __init__(self, reason: str, resume_at: datetime.datetime | None = None) -> None:
        super().__init__(reason)
        self.reason = mask(reason)
        self.resume_at = resume_at


class Cancel(Exception):
    """Raised by an enrichment: give up the whole job.

    :param reason: a sentence for the job page
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = mask(reason)


class Defer(Exception):
    """Raised by an enrichment: put this row (`enrich_row`) or this batch (`enrich_batch`) off until a time.

    Its reservation is stored with that time and belongs to nobody until then: it takes no memory and no place among the
    open batches. The first cycle after the time reserves it again, before new rows.

    :param until: when the row may be tried again; naive times are read as UTC. None, with a ticket: never, since an answer
        comes from outside
    :param reason: a sentence for the job page, the same for all rows that wait for the same thing
    :param counts: whether `job.deferrals` of the next try counts this one
    :param ticket: a name by which the reservation may be completed from outside, before or after `until`
    """

    def __init__(
        self, until: datetime.datetime | None, reason: str, *, counts: bool = True, ticket: str | None = None
    ) -> None:
        super().__init__(reason)
        self.until = until
        self.reason = mask(reason)
        self.counts = counts
        self.ticket = ticket


def message_of(problem: BaseException) -> str:
    """The text of an exception, or the name of its type where it has none."""
    return str(problem) or type(problem).__name__


class JobError(Exception):
    """A request about a job that cannot be met. `status` is the HTTP status; `details` holds one message a field."""

    status = 400

    def __init__(self, message: str, details: list[str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = details or []


class JobNotFound(JobError):
    """No job of that number in this database."""

    status = 404


class TableNotFound(JobError):
    """No table of that name in this database, or none that the actor may see."""

    status = 404


class NotAllowed(JobError):
    """The actor may not do this."""

    status = 403


class IllegalTransition(JobError):
    """The job's state does not permit the step: resume a finished job, pause a cancelled one."""

    status = 409


class KeyReused(JobError):
    """The idempotency key of an earlier request came with another one."""

    status = 422


class TooMany(JobError):
    """Others do the same at this moment. `retry_after`: seconds after which another try is worth it."""

    status = 429
    retry_after = 2


class BadSelection(JobError):
    """The filters, table or database cannot be enriched; the message names what is wrong."""


class BadConfig(JobError):
    """The enrichment's settings or the job's options do not validate."""


class TableTaken(JobError):
    """A job would write to a table or view that a user made, or needs the name of one for an index. `kind`: what has the
    name: `table`, `view`, `index`. `way_out`: what else may be done about it."""

    def __init__(self, kind: str, name: str, way_out: str = "") -> None:
        super().__init__(
            f"This job would write to {name!r}, but the database has {'an' if kind == 'index' else 'a'} {kind} of that "
            f"name that no enrichment made. {'Drop' if kind == 'index' else 'Rename'} that {kind}, then start the job "
            f"again{', or ' if way_out else ''}{way_out}"
        )
        self.kind, self.name = kind, name


class DatabaseUnavailable(JobError):
    """The database cannot be read or written now: locked, read-only, full, gone, damaged. The message says which."""

    status = 503
