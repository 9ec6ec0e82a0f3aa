"""Writes one batch's answers into the user's database: columns, row updates, an enrichment's own writes.

Everything here runs inside the caller's transaction, each batch behind a savepoint of its own. A row that the user's
own constraints, triggers or types refuse becomes that row's error; other rows stand.
"""

from __future__ import annotations

import datetime
import decimal
import json
import sqlite3
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from . import cursor
from .cursor import Key, TableKey, quote

PLAIN = (str, int, float, bytes, type(None))
REFUSALS = (sqlite3.Error, OverflowError, UnicodeEncodeError, ValueError, TypeError)


class RolledBack(Exception):
    """The user's own trigger or constraint said ROLLBACK: the whole transaction is gone, not only this row.

    `row` is the culprit's number in the batch; None when one of the enrichment's own writes did it, UNKNOWN when rows
    were written together: write them singly and it shows.
    """

    UNKNOWN = -1

    def __init__(self, batch_id: int, row: int | None, problem: BaseException) -> None:
        super().__init__(_sentence(problem))
        self.batch_id = batch_id
        self.row = row


@dataclass(frozen=True)
class Failure:
    """Why one row could not be enriched."""

    message: str
    traceback: str | None = None


@dataclass
class Answer:
    """What is to be written for the first `rows` rows of a batch. Rows are named by their number in the batch."""

    rows: int
    updates: list[tuple[int, Mapping[str, Any]]] = field(default_factory=list)
    errors: dict[int, Failure] = field(default_factory=dict)
    writes: Sequence[Callable[[sqlite3.Connection], Any]] = ()
    outcomes: dict[str, int] = field(default_factory=dict)
    cost_nanodollars: int = 0
    state: dict[str, Any] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)

    def failed(self, message: str, detail: str | None = None) -> Answer:
        """The same rows, all in error: nothing else of the batch is written, but what it cost was paid."""
        return Answer(
            self.rows,
            errors={number: Failure(message, detail) for number in range(self.rows)},
            cost_nanodollars=self.cost_nanodollars,
        )


@dataclass(frozen=True)
class Target:
    """The table that takes the updates and how its rows are found."""

    table: str
    where_row: str
    locator: Callable[[Key], tuple[Any, ...]]

    @classmethod
    def of(cls, key: TableKey) -> Target:
        return cls(key.table, key.where_row(), key.locator)


def write_answer(
    conn: sqlite3.Connection, target: Target, batch_id: int, page: cursor.Page, answer: Answer, *, singly: bool = False
) -> Answer:
    """Write one batch's answer behind a savepoint; returns the answer with the errors that writing added.

    :param singly: row by row, so that a row which ends the transaction is known by its number

    :raises RolledBack: when the user's own schema ended the transaction
    """
    conn.execute("savepoint answer")
    try:
        for write in answer.writes:
            write(conn)
        _create_columns(conn, target.table, [values for _, values in answer.updates])
        refused = _update(conn, target, batch_id, page, answer.updates, singly=singly)
    except RolledBack:
        raise
    except Exception as problem:
        if not conn.in_transaction:
            raise RolledBack(batch_id, None, problem) from problem
        conn.execute("rollback to answer")
        conn.execute("release answer")
        return answer.failed(_sentence(problem), traceback.format_exc())
    conn.execute("release answer")
    if not refused:
        return answer
    return _with_refusals(answer, refused)


def _with_refusals(answer: Answer, refused: dict[int, Failure]) -> Answer:
    """Rows that could not be written count as errors, not as what the enrichment said of them."""
    outcomes = dict(answer.outcomes)
    if outcomes and set(outcomes) <= {"success", "error"}:
        outcomes["success"] = outcomes.get("success", 0) - len(refused)
        outcomes["error"] = outcomes.get("error", 0) + len(refused)
    return Answer(
        answer.rows,
        answer.updates,
        {**answer.errors, **refused},
        answer.writes,
        {word: count for word, count in outcomes.items() if count > 0},
        answer.cost_nanodollars,
        answer.state,
        answer.counters,
    )


# ---- columns ---------------------------------------------------------------------------------------------------


def _create_columns(conn: sqlite3.Connection, table: str, values: Sequence[Mapping[str, Any]]) -> None:
    """Add the columns that the updates name and the table lacks; SQLite compares names without ASCII case."""
    wanted: dict[str, str] = {}
    for names in {tuple(mapping) for mapping in values}:
        for name in names:
            wanted.setdefault(_folded(name), name)
    if not wanted:
        return
    present = {_folded(row[0]) for row in conn.execute("select name from pragma_table_xinfo(?)", [table])}
    for name in (name for folded, name in wanted.items() if folded not in present):
        kind = column_type(mapping[name] for mapping in values if name in mapping)
        conn.execute(f"alter table {quote(table)} add column {quote(name)} {kind}")


def column_type(values: Iterable[Any]) -> str:
    """The SQLite type that holds all these values as they are; TEXT where nothing is known."""
    kinds = {_kind(value) for value in values if value is not None}
    if not kinds:
        return "text"
    if kinds == {"integer"}:
        return "integer"
    if kinds <= {"integer", "real"}:
        return "real"
    return kinds.pop() if len(kinds) == 1 else "text"


def _kind(value: Any) -> str:
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "real"
    return "blob" if isinstance(value, (bytes, bytearray, memoryview)) else "text"


def _folded(name: str) -> str:
    return "".join(chr(ord(letter) + 32) if "A" <= letter <= "Z" else letter for letter in name)


# ---- rows ------------------------------------------------------------------------------------------------------


def _update(
    conn: sqlite3.Connection,
    target: Target,
    batch_id: int,
    page: cursor.Page,
    updates: Sequence[tuple[int, Mapping[str, Any]]],
    *,
    singly: bool,
) -> dict[int, Failure]:
    refused: dict[int, Failure] = {}
    for names, group in groupby(updates, key=lambda update: tuple(update[1])):
        if not names:
            continue
        rows = list(group)
        sql = f"update {quote(target.table)} set {', '.join(f'{quote(n)} = ?' for n in names)} where {target.where_row}"
        if singly or not _update_together(conn, sql, target, batch_id, page, rows):
            refused |= _update_singly(conn, sql, target, batch_id, page, rows)
    return refused


def _update_together(
    conn: sqlite3.Connection,
    sql: str,
    target: Target,
    batch_id: int,
    page: cursor.Page,
    rows: Sequence[tuple[int, Mapping[str, Any]]],
) -> bool:
    """Whether all rows were written; when one is refused, none is."""
    conn.execute("savepoint many")
    try:
        conn.executemany(sql, _parameters(target, page, rows))
    except REFUSALS as problem:
        if not conn.in_transaction:
            raise RolledBack(batch_id, RolledBack.UNKNOWN, problem) from problem
        conn.execute("rollback to many")
        return False
    finally:
        if conn.in_transaction:
            conn.execute("release many")
    return True


def _parameters(
    target: Target, page: cursor.Page, rows: Sequence[tuple[int, Mapping[str, Any]]]
) -> Iterator[tuple[Any, ...]]:
    for number, values in rows:
        yield (*values.values(), *target.locator(page.key(number)))


def _update_singly(
    conn: sqlite3.Connection,
    sql: str,
    target: Target,
    batch_id: int,
    page: cursor.Page,
    rows: Sequence[tuple[int, Mapping[str, Any]]],
) -> dict[int, Failure]:
    refused = {}
    for number, values in rows:
        conn.execute("savepoint one")
        try:
            conn.execute(sql, (*map(storable, values.values()), *target.locator(page.key(number))))
        except REFUSALS as problem:
            if not conn.in_transaction:
                raise RolledBack(batch_id, number, problem) from problem
            conn.execute("rollback to one")
            refused[number] = Failure(_sentence(problem))
        conn.execute("release one")
    return refused


def storable(value: Any) -> Any:
    """A value as SQLite takes it: containers as JSON, times as ISO 8601, decimals as text.

    :raises TypeError: for anything else, naming its type
    """
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (Mapping, list, tuple)):
        return json.dumps(value, ensure_ascii=False, default=str)
    raise TypeError(f"a {type(value).__name__} cannot be stored in SQLite")


def _sentence(problem: BaseException) -> str:
    return str(problem) or type(problem).__name__
