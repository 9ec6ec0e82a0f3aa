"""Writes the result of one batch into the user's database: columns, row updates, an enrichment's own writes.

Everything here runs inside the caller's transaction, each batch behind a savepoint of its own. A row that the user's
own constraints, triggers or types refuse becomes that row's error; other rows stand.
"""

from __future__ import annotations

import datetime
import decimal
import json
import sqlite3
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ... import compat
from ...sqlite import fold, json_value, quote
from .. import keyset
from ..errors import message_of
from ..model import BatchResult, RowFailure
from .output import Target, column_faults, present_columns, twins

PLAIN = (str, int, float, bytes, type(None))
PLAIN_TYPES = frozenset({*PLAIN, bool})
REFUSALS = (sqlite3.Error, OverflowError, UnicodeEncodeError, ValueError, TypeError)


class RolledBack(Exception):
    """A trigger or constraint of the user rolled back the whole transaction, not only this row.

    `row` is the culprit's number in the batch; None when one of the enrichment's own writes did it, UNKNOWN when rows
    were written together: write them singly and it shows.
    """

    UNKNOWN = -1

    def __init__(self, batch_id: int, row: int | None, problem: BaseException) -> None:
        super().__init__(message_of(problem))
        self.batch_id = batch_id
        self.row = row


def write_result(
    conn: sqlite3.Connection,
    target: Target,
    batch_id: int,
    page: keyset.Page,
    result: BatchResult,
    *,
    types: Mapping[str, str],
    singly: bool = False,
) -> BatchResult:
    """Write one batch's result behind a savepoint; returns the result with the errors that writing added.

    :param types: SQLite types of columns that may have to be created, where the enrichment declares them
    :param singly: row by row, so that a row which ends the transaction is known by its number

    :raises RolledBack: when the user's own schema ended the transaction
    """
    refused: dict[int, RowFailure] = {}
    conn.execute("savepoint batch")
    try:
        for write in result.writes:
            write(conn)
        groups = _groups(result.updates)
        if groups:
            target.prepare(conn)
            groups, refused = _with_columns(conn, target, result.updates, groups, types)
        for group in groups:
            together = not (singly or target.orphaned) and (
                target.fits_all or all(target.fits(page.key(n)) for n in group.numbers)
            )
            if not together or not _update_together(conn, target, batch_id, page, result.updates, group):
                refused |= _update_singly(conn, target, batch_id, page, result.updates, group)
    except RolledBack:
        raise
    except Exception as problem:
        _raise_unless_the_rows_fault(problem)
        if not conn.in_transaction:
            raise RolledBack(batch_id, None, problem) from problem
        conn.execute("rollback to batch")
        conn.execute("release batch")
        return result.failed(message_of(problem), traceback.format_exc())
    conn.execute("release batch")
    if not refused:
        return result
    return _with_refusals(result, refused)


def _with_refusals(result: BatchResult, refused: dict[int, RowFailure]) -> BatchResult:
    """Rows that could not be written count as errors, not as what the enrichment said of them."""
    outcomes = dict(result.outcomes)
    if outcomes and set(outcomes) <= {"success", "error"}:
        outcomes["success"] = outcomes.get("success", 0) - len(refused.keys() - result.deferred.keys())
        outcomes["error"] = outcomes.get("error", 0) + len(refused)
    kept = {word: count for word, count in outcomes.items() if count > 0}
    return replace(result, errors={**result.errors, **refused}, outcomes=kept)


# ---- columns ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Group:
    """Rows that write the same columns."""

    names: tuple[str, ...]
    numbers: Sequence[int]


def _groups(updates: Sequence[Mapping[str, Any] | None]) -> list[_Group]:
    """The rows by the columns they write; nearly always one group, which is found without looking at every name."""
    if not updates:
        return []
    first = updates[0]
    if first:
        names, size = tuple(first), len(first)
        name = names[0]
        if all(row is not None and len(row) == size and name in row for row in updates) and (
            size == 1 or all(row.keys() == first.keys() for row in updates if row is not None)
        ):
            return [_Group(names, range(len(updates)))]
    found: dict[tuple[str, ...], list[int]] = {}
    for number, row in enumerate(updates):
        if row:
            found.setdefault(tuple(sorted(row, key=str)), []).append(number)
    return [_Group(names, numbers) for names, numbers in found.items()]


def _with_columns(
    conn: sqlite3.Connection,
    target: Target,
    updates: Sequence[Mapping[str, Any] | None],
    groups: Sequence[_Group],
    types: Mapping[str, str],
) -> tuple[list[_Group], dict[int, RowFailure]]:
    """Add the columns that the updates name and the table lacks; SQLite compares names without ASCII case.

    A column that so far would hold nothing but NULLs, of a type that nobody declared, waits for its first value: the
    groups come back without it. Rows that name a column which cannot be written come back as errors.
    """
    present = present_columns(conn, target)
    groups, refused = _writable(conn, target, groups, present)
    waiting = set()
    for name in {fold(name): name for group in groups for name in group.names if fold(name) not in present}.values():
        kind = types.get(name) or column_type(row[name] for row in updates if row and name in row)
        if kind is None:
            waiting.add(name)
        else:
            conn.execute(f"alter table {quote(target.table)} add column {quote(name)} {kind}")
    if not waiting:
        return groups, refused
    kept = [_Group(tuple(name for name in group.names if name not in waiting), group.numbers) for group in groups]
    return [group for group in kept if group.names], refused


def _writable(
    conn: sqlite3.Connection, target: Target, groups: Sequence[_Group], present: Mapping[str, bool]
) -> tuple[list[_Group], dict[int, RowFailure]]:
    """The groups whose columns can be written, and the rows of the others with the reason."""
    faults = column_faults(conn, target, (name for group in groups for name in group.names), present)
    kept: list[_Group] = []
    refused: dict[int, RowFailure] = {}
    for group in groups:
        fault = next((faults[name] for name in group.names if name in faults), None) or twins(group.names)
        if fault is None:
            kept.append(group)
        else:
            refused |= dict.fromkeys(group.numbers, RowFailure(fault))
    return kept, refused


def column_type(values: Iterable[Any]) -> str | None:
    """The SQLite type that holds all these values as they are; None where all of them are NULL."""
    kinds = {_kind(value) for value in values if value is not None}
    if not kinds:
        return None
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


# ---- rows ------------------------------------------------------------------------------------------------------


def _update_together(
    conn: sqlite3.Connection,
    target: Target,
    batch_id: int,
    page: keyset.Page,
    updates: Sequence[Mapping[str, Any] | None],
    group: _Group,
) -> bool:
    """Whether all rows of the group were written; when one is refused or not changed, none is."""
    is_everything = len(group.numbers) == len(page)
    keys = page.rows if is_everything else page.picked(group.numbers)
    rows = updates if is_everything else [updates[number] for number in group.numbers]
    conn.execute("savepoint many")
    try:
        bound = target.bound(group.names, _storable(rows, group), keys, page.width)
        written = conn.executemany(target.sql(group.names), bound).rowcount == len(keys)
        if not written or (target.has_triggers and not all(target.holds(conn, page.key(n)) for n in group.numbers)):
            conn.execute("rollback to many")
            return False
    except REFUSALS as problem:
        _raise_unless_the_rows_fault(problem)
        if not conn.in_transaction:
            raise RolledBack(batch_id, RolledBack.UNKNOWN, problem) from problem
        conn.execute("rollback to many")
        return False
    finally:
        if conn.in_transaction:
            conn.execute("release many")
    return True


def _storable(rows: Sequence[Any], group: _Group) -> Sequence[Any]:
    """The rows with values as SQLite takes them. Python's own adapters would write times in another form, with a
    warning since Python 3.12."""
    if all({type(row[name]) for row in rows} <= PLAIN_TYPES for name in group.names):
        return rows
    return [{name: storable(row[name]) for name in group.names} for row in rows]


def _update_singly(
    conn: sqlite3.Connection,
    target: Target,
    batch_id: int,
    page: keyset.Page,
    updates: Sequence[Mapping[str, Any] | None],
    group: _Group,
) -> dict[int, RowFailure]:
    refused = {}
    for number in group.numbers:
        values = updates[number] or {}
        conn.execute("savepoint one")
        try:
            target.write_one(conn, group.names, [storable(values[name]) for name in group.names], page.key(number))
        except REFUSALS as problem:
            _raise_unless_the_rows_fault(problem)
            if not conn.in_transaction:
                raise RolledBack(batch_id, number, problem) from problem
            conn.execute("rollback to one")
            refused[number] = RowFailure(message_of(problem))
        conn.execute("release one")
    return refused


def _raise_unless_the_rows_fault(problem: Exception) -> None:
    """Raise errors that no row causes, such as a full disk or a lock: the whole cycle is retried."""
    if compat.may_pass(problem):
        raise problem


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
        return json.dumps(json_value(value), ensure_ascii=False, default=str)
    raise TypeError(f"a {type(value).__name__} cannot be stored in SQLite")
