"""What an enrichment is to the engine: its settings, the methods that it may define, and the tables that it writes."""

from __future__ import annotations

import functools
import inspect
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pydantic

from .. import compat
from ..sqlite import Specs, quote
from .model import BatchOutcome, Failures, Word

Row = Mapping[str, Any]
T = TypeVar("T")

COLUMN_WIDGET = "column"


def ColumnField(default: Any = ..., **kwargs: Any) -> Any:
    """A Config field whose value is the name of one of the table's columns: a choice in the form, checked at the start.

    `ColumnField(None, …)` makes it optional. Takes what pydantic.Field takes.
    """
    extra = {"widget": COLUMN_WIDGET, **kwargs.pop("json_schema_extra", {})}
    return pydantic.Field(default, json_schema_extra=extra, **kwargs)


def column_fields(config_class: type[pydantic.BaseModel]) -> list[str]:
    """The names of the fields declared with ColumnField."""
    return [
        name
        for name, info in config_class.model_fields.items()
        if isinstance(info.json_schema_extra, dict) and info.json_schema_extra.get("widget") == COLUMN_WIDGET
    ]


@dataclass(frozen=True)
class Selected:
    """All rows of a selection, for an enrichment's preview to ask about.

    `count`: how many there are, None while that is unknown; `given`: how many of them, the first ones, the preview got.
    """

    db: Any
    table: str
    where: str
    params: Mapping[str, Any]
    count: int | None
    given: int
    limit_ms: float

    def query(self, columns: Mapping[str, str]) -> str:
        """A query for the rows, with named parameters `params`. `columns`: the name in the result -> the table's column."""
        table = quote(self.table)
        terms = ", ".join(f"{table}.{quote(column)} as {quote(name)}" for name, column in columns.items())
        return f"select {terms} from {table}" + (f" where {self.where}" if self.where else "")

    async def read(self, fn: Callable[[sqlite3.Connection], T]) -> T | None:
        """`fn(conn)` on a read connection in a thread; None when it takes longer than a waiting person should."""
        try:
            return await compat.read(self.db, fn, limit_ms=self.limit_ms)
        except compat.Interrupted:
            return None


class NoConfig(pydantic.BaseModel):
    """The settings of an enrichment that has none."""

    model_config = pydantic.ConfigDict(extra="forbid")


HIT = "success"
"""The engine's own word for a row that was enriched."""
_SUCCESSES: dict[str, frozenset[str]] = {}
"""Slug -> the outcome words that are no misses."""


def successes_of(slug: str) -> frozenset[str]:
    """The outcome words of an enrichment's jobs that are no misses, also where it is not installed any more."""
    return _SUCCESSES.get(slug, frozenset({HIT}))


COMMON_WORDS = {
    "success": Word("The row was enriched."),
    "error": Word("The enrichment failed on this row; other rows went on.", "The job's page has its error."),
}


class Enrichment:
    """Something that can be done to selected rows. Subclass it, register an instance, and the engine does the rest.

    Write `enrich_row(self, row, config)` (returns the columns to write, or None) or, for more control,
    `enrich_batch(self, rows, pks, config, …)` (returns a BatchOutcome or None). Both are coroutines and may ask by
    name for any of: `datasette, db, table, rows, pks, config, job, job_id, actor_id`.

    Raise `Defer(until, reason)` to put the row (`enrich_row`) or the batch (`enrich_batch`) off until a time,
    `Pause(reason, resume_at)` to give the batch back and pause the job, `Cancel(reason)` to give up. Any other
    exception is that row's error, or every row's of the batch.
    """

    slug: str = ""
    name: str = ""
    description: str = ""
    batch_size: int = 100
    max_open_batches: int = 2
    default_max_errors: int | None = 100
    max_deferred_rows: int = 100_000
    """Rows that a job may have deferred before it stops to read new ones."""
    Config: type[pydantic.BaseModel] = NoConfig
    words: Mapping[str, Word] = {}
    """What outcome words mean. `word:case` is a case of a word."""
    successes: frozenset[str] = frozenset({HIT})
    """The outcome words of rows that are no misses, if they are not `success`. Said by the class: pages of its jobs ask
    for it by slug."""
    report: str | None = None
    """Where a page about the results in a table is: what stands before database and table in its address, such as
    `ingest-links`."""
    when_taken: str = ""
    """What a person may do, beside renaming, where a user's own table has a name of `tables`: `set prefix`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.slug:
            _SUCCESSES[cls.slug] = cls.successes

    def columns(self, config: Any) -> Sequence[str] | None:
        """The only columns to read; None reads all. Fewer columns are faster."""
        return None

    def column_types(self, config: Any) -> Mapping[str, str]:
        """SQLite types (text, integer, real, blob) of columns it writes. Without one, a column is made for the first
        value that is not NULL."""
        return {}

    def output(self, config: Any) -> str:
        """Where row updates go: `columns` (the row itself) or `shadow` (the table `_enrichments_<table>`)."""
        return "columns"

    def tables(self, config: Any) -> Specs:
        """The tables and views that a job with these settings writes or reads beside the enriched one: name ->
        TableSpec or ViewSpec, a view after the tables that it reads.

        The engine makes them before `initialize`, and adds what later versions of the spec have. Whoever may not view
        every table that has had a job may not view them either. A job is refused where a user has such a table.
        """
        return {}

    def check_output(self, config: Any, columns: Sequence[str]) -> None:
        """Raise ValueError when this job would overwrite columns of the table that are not its own."""

    def outcome_column(self, config: Any) -> str | None:
        """The column that holds each row's outcome word, so that the job page can link an outcome to its rows."""
        return None

    def code_column(self, config: Any) -> str | None:
        """The column, beside the outcome column, of the number that tells the cases of a word apart."""
        return None

    def case(self, outcome: str, code: int | None) -> str:
        """The case of an outcome word with this number beside it, as `words` names it: `refused:404`."""
        return outcome

    def explain(self, outcome: str) -> tuple[str, Word] | None:
        """The name in `words` that explains a word or case, and what it says: that of the whole word for a case that is
        not listed. None where nothing is said."""
        known = {**COMMON_WORDS, **self.words}
        return next(((name, known[name]) for name in (outcome, outcome.partition(":")[0]) if name in known), None)

    def retry_where(self, config: Any, table: str, scope: str) -> tuple[str, Mapping[str, Any]] | None:
        """SQL (named parameters) for the rows that are worth another try beside those in error: scope `due`, those
        whose time has come; `misses`, all that may change; `pending`, also those that were never tried. None where there is no
        such scope."""
        return None

    def retry_config(self, config: Mapping[str, Any], scopes: Sequence[str]) -> Mapping[str, Any]:
        """The settings of a job that tries such rows again."""
        return config

    def most_deferred_rows(self, config: Any) -> int:
        """Rows that a job with these settings may have deferred before it stops to read new ones."""
        return self.max_deferred_rows

    def price_nanodollars(self, rows: Sequence[Row], config: Any) -> int | None:
        """What a batch will cost, in 10^-9 dollar, if that is known before it is paid."""
        return None

    async def defaults(self, db: Any, table: str) -> dict[str, Any]:
        """Config values guessed from the table, used where a person gave none."""
        return {}

    def failures(self, config: Any, table: str) -> Failures | None:
        """SQL that finds and describes a job's rows without success. None where the outcome column is enough: a row has
        no success when that column holds another word than `success`."""
        return None

    async def preview(self, rows: Sequence[Row], config: Any) -> Mapping[str, Any]:
        """Facts about a selection for the form: label -> text, number, or numbers by word (`{"a.example": 12}`).

        :param rows: the first rows of the selection, at most 2,000; `columns` says which columns are read

        May also ask by name for `datasette, db, table` and `selected` (a Selected: all rows). It runs while a person
        waits: slow questions go through `selected.read`, which has a time limit.
        """
        return {}

    async def enrich_row(self, row: Row, config: Any) -> Mapping[str, Any] | None:
        """The columns to write onto one row."""
        raise NotImplementedError(f"{type(self).__name__} has neither enrich_row nor enrich_batch")

    enrich_batch: Callable[..., Any] | None = None
    """The long form. An enrichment that has it is called a batch at a time."""

    async def initialize(self, **asked: Any) -> None:
        """Called before a process works on its first batch of the job.

        In a dry run (`job.is_dry_run`) a few rows are enriched to be shown, and nothing may be written: `db` refuses.
        """

    async def close(self, **asked: Any) -> None:
        """Called when a process lets go of the job it has initialized, however that ended."""

    async def finalize(self, **asked: Any) -> None:
        """Called when every row was answered, before the job is marked finished; again if the process dies between."""

    @property
    def is_row_by_row(self) -> bool:
        return self.enrich_batch is None


CONTEXT_NAMES = frozenset({"datasette", "db", "table", "rows", "pks", "config", "job", "job_id", "actor_id"})


@functools.lru_cache(maxsize=256)
def asked_for(function: Callable[..., Any], own: frozenset[str] = frozenset()) -> frozenset[str]:
    """Which of the engine's values a method of an enrichment names as its parameters, `own` apart.

    :raises TypeError: for a required parameter that the engine does not have
    """
    names = set()
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if name in own:
            continue
        if name in CONTEXT_NAMES:
            names.add(name)
        elif parameter.default is parameter.empty:
            raise TypeError(
                f"{function.__qualname__} asks for {name!r}; the engine can give: {', '.join(sorted(CONTEXT_NAMES))}"
            )
    return frozenset(names)


__all__ = ["BatchOutcome", "ColumnField", "Enrichment", "NoConfig", "Row", "Selected", "asked_for", "column_fields"]
