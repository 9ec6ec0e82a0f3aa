"""A row of `_enrichment_jobs` as a Job, whatever another program has left in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pydantic

from ..sqlite import from_iso
from .model import Job, JobStatus, StoredOptions

MOST_SHOWN = 80
"""Longest value of a damaged column that is shown as it is."""


def job_of(row: Mapping[str, Any]) -> Job:
    """The job of a row, a mapping of the table's columns. What cannot be read reads as nothing, and is the job's `damage`
    unless another plugin added it."""
    stored = _Row(row)
    values = {column: read(stored, column) for column, read in _READERS.items()}
    is_ours = row["selection"] is not None or values["table_key"] is not None
    return Job(**values, damage=stored.damage if is_ours else None)


class _Row:
    """Reads a row column by column. `damage`: a sentence on the first column that does not hold what it should."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self._row = row
        self._present = frozenset(row.keys())
        self.damage: str | None = None

    def _bad(self, column: str, expected: str) -> None:
        value = self._row[column]
        found = repr(value if len(repr(value)) <= MOST_SHOWN else type(value).__name__)
        self.damage = (
            self.damage or f"The row of this job is damaged: its {column} should be {expected}, and is {found}"
        )

    def text(self, column: str) -> str | None:
        """A text or NULL."""
        value = self._row[column] if column in self._present else None
        if value is None or isinstance(value, str):
            return value
        self._bad(column, "text")
        return None

    def name(self, column: str) -> str:
        """A text that is not empty."""
        value = self._row[column]
        if isinstance(value, str) and value:
            return value
        self._bad(column, "a name")
        return ""

    def words(self, column: str) -> str:
        """A text; NULL is the empty one."""
        return self.text(column) or ""

    def count(self, column: str) -> int:
        """A whole number, 0 or more."""
        value = self._row[column]
        if isinstance(value, int) and value >= 0:
            return value
        self._bad(column, "a whole number, 0 or more")
        return 0

    def is_counted(self, column: str) -> bool:
        """True unless it is 0."""
        return column not in self._present or self._row[column] != 0

    def number(self, column: str) -> int:
        """A job's own number."""
        value: int = self._row[column]
        if value < 1:
            self._bad(column, "1 or more")
        return value

    def status(self, column: str) -> JobStatus:
        """A job in a state that does not exist counts as given up."""
        try:
            return JobStatus(self._row[column])
        except ValueError:
            self._bad(column, "one of " + ", ".join(status.value for status in JobStatus))
            return JobStatus.CANCELLED

    def time(self, column: str) -> str | None:
        """An ISO 8601 time or NULL."""
        value = self._row[column] if column in self._present else None
        try:
            if value is not None:
                from_iso(value)
        except (ValueError, TypeError, AttributeError, OverflowError):
            self._bad(column, "a time")
            return None
        return value

    def cursor(self, column: str) -> str | None:
        """A text that is not empty, or NULL; what it says is checked when it is used."""
        value = self._row[column]
        if value is None or (isinstance(value, str) and value):
            return value
        self._bad(column, "a position")
        return None

    def object(self, column: str) -> dict[str, Any]:
        """An object in JSON."""
        value = self._row[column]
        try:
            found = json.loads(value) if isinstance(value, str) else None
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            return found
        self._bad(column, "an object in JSON")
        return {}

    def selection(self, column: str) -> str | None:
        """An object in JSON, as its text."""
        return self._row[column] if self.object(column) or self._row[column] == "{}" else None

    def options(self, column: str) -> StoredOptions:
        given = self.object(column)
        try:
            StoredOptions.model_validate(given)
        except pydantic.ValidationError as problem:
            known = [error for error in problem.errors() if error["type"] != "extra_forbidden"]
            if known:
                self._bad(column, "options of a job")
                return StoredOptions.read({})
        return StoredOptions.read(given)

    def counts(self, column: str) -> dict[str, int]:
        """Numbers of rows by outcome word."""
        given = self.object(column)
        counted = {word: number for word, number in given.items() if type(number) is int and number >= 0}
        if len(counted) < len(given):
            self._bad(column, "numbers of rows by outcome")
        return counted


_READERS: Mapping[str, Callable[[_Row, str], Any]] = {
    "id": _Row.number,
    "status": _Row.status,
    "enrichment": _Row.name,
    "database_name": _Row.words,
    "table_name": _Row.name,
    "filter_querystring": _Row.words,
    "config": _Row.object,
    "started_at": _Row.time,
    "finished_at": _Row.time,
    "cancel_reason": _Row.text,
    "next_cursor": _Row.cursor,
    "row_count": _Row.count,
    "error_count": _Row.count,
    "done_count": _Row.count,
    "actor_id": _Row.text,
    "cost_100ths_cent": _Row.count,
    "state": _Row.object,
    "resume_at": _Row.time,
    "options": _Row.options,
    "outcomes": _Row.counts,
    "cost_nanodollars": _Row.count,
    "pause_reason": _Row.text,
    "selection": _Row.selection,
    "waits_until": _Row.time,
    "table_key": _Row.text,
    "is_counted": _Row.is_counted,
}
