"""The engine's values and its pure decisions: jobs, batches, outcomes, and which state may follow which."""

from __future__ import annotations

import datetime
import hashlib
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal

import pydantic

from ..sqlite import stamp
from .errors import Defer

NANODOLLARS_PER_100TH_CENT = 100_000
"""1/100 cent is $0.0001; a nanodollar is $0.000000001."""
FIRST_STAMP = "0001-01-01T00:00:00.000Z"
LAST_STAMP = "9999-12-31T23:59:59.000Z"
OUTSIDE = "9999-12-31T23:59:59.999Z"
"""Stands for no time: a reservation that only an answer from outside ends. After every time."""


class JobStatus(str, Enum):
    """Where a job is in its life. The words are datasette-enrichments' own."""

    PENDING = "pending"  # waits for a worker: just added, or resumed
    RUNNING = "running"  # a worker has begun; may outlive that worker
    PAUSED = "paused"  # waits for a person, or for `resume_at`
    CANCELLED = "cancelled"  # given up; `cancel_reason` says why
    FINISHED = "finished"  # every row was answered

    @property
    def is_final(self) -> bool:
        return not TRANSITIONS[self]


TRANSITIONS: Mapping[JobStatus, frozenset[JobStatus]] = {
    JobStatus.PENDING: frozenset({JobStatus.RUNNING, JobStatus.PAUSED, JobStatus.CANCELLED}),
    JobStatus.RUNNING: frozenset({JobStatus.PAUSED, JobStatus.CANCELLED, JobStatus.FINISHED}),
    JobStatus.PAUSED: frozenset({JobStatus.PENDING, JobStatus.RUNNING, JobStatus.CANCELLED}),
    JobStatus.CANCELLED: frozenset(),
    JobStatus.FINISHED: frozenset(),
}


LARGEST_OPTION = 2**31 - 1
"""The largest number that an option may have."""


class JobOptions(pydantic.BaseModel):
    """How a job runs, as a person or a program chooses it. What is None is as the enrichment has it."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", strict=True)

    batch_size: int | None = pydantic.Field(
        None, ge=1, le=LARGEST_OPTION, title="Rows per batch", description="How many rows the enrichment gets at once"
    )
    max_open_batches: int | None = pydantic.Field(
        None,
        ge=1,
        le=LARGEST_OPTION,
        title="Batches at once",
        description="How many batches one process works on at a time",
    )
    max_errors: int | None = pydantic.Field(
        None,
        ge=0,
        le=LARGEST_OPTION,
        title="Stop after errors",
        description="Cancel the job when more rows than this are in error",
    )
    budget_100ths_cent: int | None = pydantic.Field(
        None,
        ge=0,
        le=LARGEST_OPTION,
        title="Budget in 1/100 cent",
        description="Pause the job when it has cost this much",
    )
    output: Literal["columns", "shadow"] | None = pydantic.Field(
        None,
        title="Where results go",
        description="columns: the enriched rows; shadow: the table _enrichments_<table>",
    )

    def as_dict(self) -> dict[str, Any]:
        """The options that are set."""
        return self.model_dump(exclude_none=True)


class StoredOptions(JobOptions):
    """The options as they are stored with a job. `settings`: plugin settings that a command was given for this job;
    whoever resumes it uses them too."""

    settings: Mapping[str, Any] | None = None

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> StoredOptions:
        """The stored options; names that this version does not know are left out, values are not checked again."""
        return cls.model_construct(**{name: value for name, value in values.items() if name in cls.model_fields})


@dataclass(frozen=True)
class Job:
    """One row of `_enrichment_jobs`, JSON columns decoded (`stored_row.job_of`). Times are ISO 8601 texts in UTC."""

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
    row_count: int
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
    selection: str | None
    waits_until: str | None
    """While all of its open rows are put off: the time of the first; None while any is at work."""
    table_key: str | None = None
    """The key of its table when it was added, as `keyset.describe` writes it; None for a job of an earlier version."""
    damage: str | None = None
    """Why a job of ours cannot be run: what another program has left in its row. A sentence."""
    is_counted: bool = True
    """Whether `row_count` is exact; before, it is the least number."""
    hides_filters: bool = False
    """Whether its filters, which stand here without their values, name what the reader may not see."""

    @property
    def origin(self) -> tuple[Any, ...]:
        """What tells this job from another one that has been given its number."""
        return self.enrichment, self.table_name, self.selection, self.started_at

    @property
    def retries(self) -> dict[str, int]:
        """Its misses by how soon they are tried again, as the enrichment counted them: `{"later": 12}`."""
        return {
            name.removeprefix(RETRIES): count
            for name, count in self.state.items()
            if name.startswith(RETRIES) and type(count) is int and count >= 0
        }

    @property
    def cases(self) -> dict[str, int]:
        """Its rows by the cases of their outcome words, as the enrichment counted them: `{"refused:404": 12}`."""
        return {
            name.removeprefix(CASES): count
            for name, count in self.state.items()
            if name.startswith(CASES) and type(count) is int and count > 0
        }

    @property
    def percent(self) -> float:
        """Share of the rows answered, 0 to 100, one decimal; rows that were added while it ran never push it past 100.
        0 while the rows are not counted."""
        if self.status is JobStatus.FINISHED or self.row_count <= 0 or not self.is_counted:
            return 100.0 if self.status is JobStatus.FINISHED else 0.0
        return min(100.0, int(1000 * self.done_count / self.row_count) / 10)


CASES = "case_"
"""Counters in a job's notes whose names begin with it count rows by the cases of their words: `case_refused:404`."""
RETRIES = "retry_"
"""Counters in a job's notes whose names begin with it count its misses by how soon they are tried again: `retry_later`."""


@dataclass(frozen=True)
class RequestKey:
    """Who asked for a new job, under which idempotency key, and a digest (SHA-256, hex) of what was asked."""

    actor_id: str | None
    key: str
    digest: str

    @classmethod
    def of(cls, actor_id: str | None, key: str, *asked: Any) -> RequestKey:
        """The key of a request for these JSON values. The order of object keys does not matter."""
        text = json.dumps(asked, sort_keys=True, default=str)
        return cls(actor_id, key, hashlib.sha256(text.encode()).hexdigest())


@dataclass(frozen=True)
class StartRequest:
    """A job to start, as a form, a program or a command asks for it.

    `filters`: a Datasette query string, '' for all rows. `config` and `options`: the enrichment's settings and the
    job's (JobOptions), not checked yet. `key`: an idempotency key of the actor's: the same request sent again with it
    gives the first one's job. `settings`: plugin settings for this job, from whoever has the database file, never from
    a web request.
    """

    table: str
    enrichment: str
    filters: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    actor: dict[str, Any] | None = None
    key: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def actor_id(self) -> str | None:
        return actor_id(self.actor)

    @property
    def request_key(self) -> RequestKey | None:
        """The idempotency key with all that it stands for; None where there is none."""
        if self.key is None:
            return None
        asked = ("start", self.table, self.enrichment, self.filters, dict(self.config), dict(self.options))
        return RequestKey.of(self.actor_id, self.key, *asked)


def actor_id(actor: Mapping[str, Any] | None) -> str | None:
    """The id under which an actor is stored with a job; None for a visitor who is not signed in."""
    given = None if actor is None else actor.get("id")
    return None if given is None else str(given)


@dataclass(frozen=True)
class Batch:
    """An open reservation: the rows whose keys lie in (start_cursor, end_cursor], leased to one owner.

    `crashes` counts the processes that ended while they held it (column `deaths`); `exclusive_crashes` those that ended
    while it was their only batch (column `attempts`); `deferrals` how often it was put off by a Defer that counts.
    """

    id: int
    job_id: int
    start_cursor: str | None
    end_cursor: str
    row_count: int
    crashes: int = 0
    exclusive_crashes: int = 0
    deferrals: int = 0


@dataclass(frozen=True)
class RowUpdate:
    """Columns to write onto one row. `key` is the row's key as the engine handed it out in `pks`."""

    key: Any
    values: Mapping[str, Any]


@dataclass(frozen=True)
class RowError:
    """One row that could not be enriched. `message` is a sentence; `traceback` is folded away on the job page."""

    key: Any
    message: str
    traceback: str | None = None


@dataclass(frozen=True)
class RowDefer:
    """One row that is put off until a time. The fields are those of `Defer`."""

    key: Any
    until: datetime.datetime | None
    reason: str
    counts: bool = True
    ticket: str | None = None


MOST_REASON_CHARACTERS = 500
"""Longest reason of a deferral that is stored, since each reservation holds it."""


@dataclass(frozen=True)
class Deferral:
    """A Defer in the form in which it is stored. `not_before` is a time as `stamp` writes it."""

    not_before: str
    reason: str
    counts: bool = True
    ticket: str | None = None

    @classmethod
    def of(cls, asked: Defer | RowDefer) -> Deferral:
        """:raises TypeError: when its time is no datetime, or its ticket no text, or it has neither
        :raises ValueError: when its ticket holds half of a surrogate pair"""
        if asked.ticket is not None:
            if not isinstance(asked.ticket, str):
                raise TypeError(f"a ticket must be a text, not {asked.ticket!r}")
            asked.ticket.encode()
        reason = str(asked.reason)
        if len(reason) > MOST_REASON_CHARACTERS:
            reason = reason[: MOST_REASON_CHARACTERS - 1] + "…"
        is_outside = asked.until is None and asked.ticket is not None
        until = OUTSIDE if is_outside else stamp_of(asked.until)  # type: ignore[arg-type]
        return cls(until, reason, bool(asked.counts), asked.ticket)


@dataclass(frozen=True)
class RowFailure:
    """Why one row could not be enriched."""

    message: str
    traceback: str | None = None


@dataclass
class BatchResult:
    """What is to be written for the first `rows` rows of a batch. Rows are named by their number in the batch.

    `updates` is empty, or holds the columns to write row by row: None or nothing where a row stays as it is.
    `deferred` names rows that are not answered yet.
    """

    rows: int
    updates: list[Mapping[str, Any] | None] = field(default_factory=list)
    errors: dict[int, RowFailure] = field(default_factory=dict)
    writes: Sequence[Callable[[sqlite3.Connection], Any]] = ()
    outcomes: dict[str, int] = field(default_factory=dict)
    cost_nanodollars: int = 0
    state: dict[str, Any] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    deferred: dict[int, Deferral] = field(default_factory=dict)

    @property
    def unanswered(self) -> dict[int, Deferral]:
        """The deferred rows that are not in error as well: a row in error is answered."""
        return {number: deferral for number, deferral in self.deferred.items() if number not in self.errors}

    def failed(self, message: str, detail: str | None = None) -> BatchResult:
        """The same rows, all in error: nothing else of the batch is written, but what it cost was paid."""
        return BatchResult(
            self.rows,
            errors={number: RowFailure(message, detail) for number in range(self.rows)},
            cost_nanodollars=self.cost_nanodollars,
        )


@dataclass(frozen=True)
class Wait:
    """Rows of a job that are put off for one reason. `until` is when the first of them may be tried again; None where they
    wait for answers from outside."""

    reason: str
    until: str | None
    rows: int


@dataclass(frozen=True)
class BatchOutcome:
    """What an enrichment wants written for one batch; the engine writes it in the transaction that moves the cursor.

    `updates` and `errors` name rows by key. `writes` are called with the open sqlite3 connection: they neither commit
    nor wait. `outcomes` counts rows by outcome word; when empty, rows without an error count as `success`, others as
    `error`. `cost_nanodollars` is what the batch cost, in 10^-9 dollar. `deferred` names rows that are not answered yet.
    """

    updates: Sequence[RowUpdate] = ()
    errors: Sequence[RowError] = ()
    writes: Sequence[Callable[[sqlite3.Connection], Any]] = ()
    outcomes: Mapping[str, int] = field(default_factory=dict)
    cost_nanodollars: int = 0
    deferred: Sequence[RowDefer] = ()


@dataclass(frozen=True)
class RelatedRows:
    """Rows of another table that show how a row came to its outcome.

    `label`: the text of the link to them. `columns`: column of `table` -> SQL for its value, over the enriched table's
    row. `sort`: the column that orders them; None: by key.
    """

    label: str
    table: str
    columns: Mapping[str, str]
    sort: str | None = None


@dataclass(frozen=True)
class SavedCopy:
    """A page elsewhere that shows what was found for a row, such as a web archive's capture.

    `url` and `taken` are SQL over the enriched table's row, for its http(s) address and for the day, which begins with
    `YYYYMMDD`; NULL where there is none. `label` says what it is.
    """

    label: str
    url: str
    taken: str


@dataclass(frozen=True)
class Failures:
    """SQL that finds the rows of a job that have no success, and describes each. Expressions are over the enriched
    table's row: columns as `"table"."column"`, parameters by name.

    `outcome`: the row's outcome word, NULL for a row without one; None takes the outcome column. `columns`: further
    columns of the download, name -> expression; `message` is the sentence that explains the outcome, `code` a number
    that tells its cases apart. `related`: rows of
    other tables that tell more. `row_columns`: the table's own columns that tell what the row is about. `copy`: what the
    row's page links to, with success or without.
    """

    outcome: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    related: tuple[RelatedRows, ...] = ()
    row_columns: tuple[str, ...] = ()
    copy: SavedCopy | None = None


@dataclass(frozen=True)
class Word:
    """An outcome word for people: when a row gets it and what to do, sentences. `label`: what a case of a word is called.
    `where`: conditions on the code column that select the case, as (operator of a table's page, value)."""

    meaning: str
    advice: str = ""
    label: str = ""
    where: tuple[tuple[str, str], ...] = ()

    @property
    def sentences(self) -> str:
        return " ".join(filter(None, (self.meaning, self.advice))).replace("`", "")


@dataclass(frozen=True)
class Event:
    """One line of a job's log. `at` is an ISO time, None where a foreign writer gave none."""

    at: str | None
    message: str


def event_message(status: JobStatus, *, by: str | None, reason: str | None = None, resume_at: str | None = None) -> str:
    """What the log says when a job comes into this state.

    :param by: who brought it there; None: the engine
    :param reason: a sentence, for a pause or a cancellation
    """
    detail = f": {reason}" if reason else ""
    if status is JobStatus.PENDING:
        return f"Resumed by {by}" if by else "Waits for a worker"
    if status is JobStatus.RUNNING:
        return "A worker began"
    if status is JobStatus.FINISHED:
        return "Finished: every row was answered"
    if status is JobStatus.CANCELLED:
        return f"Cancelled by {by}{detail}" if by else f"Cancelled{detail}"
    until = f". It goes on by itself at {resume_at}" if resume_at else ""
    return f"Paused by {by}{detail}" if by else f"Paused by itself{detail}{until}"


@dataclass(frozen=True)
class Decision:
    """A step of the job's life, decided from its counters."""

    status: JobStatus
    reason: str | None = None
    resume_at: str | None = None


def over_the_error_limit(job: Job, max_errors: int | None) -> Decision | None:
    """The decision to give up once more than `max_errors` rows are in error; None goes on."""
    if max_errors is None or job.error_count <= max_errors:
        return None
    return Decision(JobStatus.CANCELLED, f"{job.error_count} rows are in error, more than the limit of {max_errors}")


def over_the_budget(job: Job, price_nanodollars: int | None) -> Decision | None:
    """The decision to pause before a batch of this price, or, where no price is announced, once the budget is used."""
    budget = job.options.budget_100ths_cent
    if budget is None:
        return None
    limit = budget * NANODOLLARS_PER_100TH_CENT
    spent = job.cost_nanodollars
    if price_nanodollars is None:
        if spent < limit:
            return None
        return Decision(JobStatus.PAUSED, f"The budget of {dollars(limit)} is used: {dollars(spent)} spent")
    if spent + price_nanodollars <= limit:
        return None
    return Decision(
        JobStatus.PAUSED,
        f"The next rows cost {dollars(price_nanodollars)}, which would pass the budget of {dollars(limit)}: "
        f"{dollars(spent)} spent",
    )


def dollars(nanodollars: int) -> str:
    """An exact amount for people: `$0.0105`, at least two decimals."""
    whole, rest = divmod(nanodollars, 10**9)
    decimals = f"{rest:09d}".rstrip("0")
    return f"${whole}.{decimals:0<2}"


def cost_100ths_cent(nanodollars: int) -> int:
    """Nanodollars in 1/100 cent, rounded up."""
    return -(-nanodollars // NANODOLLARS_PER_100TH_CENT)


def stamp_of(moment: datetime.datetime) -> str:
    """A datetime as `stamp` writes it, without a zone read as UTC. What no UTC time can say becomes the first or the
    last one that a stamp can.

    :raises TypeError: for what is no datetime
    """
    if not isinstance(moment, datetime.datetime):
        raise TypeError(f"a time must be a datetime, not {moment!r}")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.timezone.utc)
    try:
        return stamp(moment.timestamp())
    except (OverflowError, ValueError):
        return LAST_STAMP if moment.year > 1970 else FIRST_STAMP
