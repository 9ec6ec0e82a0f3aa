"""Filters of our own for any table page: single rows, rows in error, rows by outcome, rows that are worth a retry."""

from __future__ import annotations

import itertools
import json
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import pydantic
from datasette.utils import tilde_decode, tilde_encode
from datasette.utils.asgi import Forbidden

from ... import compat, sqlite
from ...sqlite import fold
from .. import keyset, registry, results_log, store
from ..engine.output import ShadowTarget
from ..engine.planning import stored_config
from ..model import Job
from ..selection import OWN_FILTERS, SCOPE_FILTERS, Selection, renamed
from . import filter_rights, permissions
from .outcomes import output_of

ERRORS_TABLE = "_enrichment_errors"

MAX_ROWS = 5_000
"""The most rows that can be selected one by one: their keys travel in one request and are stored with the job."""


@dataclass
class Conditions:
    """SQL conditions to be joined by `and`, their parameters, and a description of each."""

    clauses: list[str] = field(default_factory=list)
    params: dict[str, Any] = field(default_factory=dict)
    descriptions: list[str] = field(default_factory=list)

    def add(self, clause: str, description: str) -> None:
        self.clauses.append(clause)
        self.descriptions.append(description)

    def bind(self, value: Any) -> str:
        """The SQL of a new parameter that holds this value."""
        name = f"own{len(self.params)}"
        self.params[name] = value.content if isinstance(value, keyset.RawText) else value
        return f"+cast(:{name} as text)" if isinstance(value, keyset.RawText) else f":{name}"


async def conditions(
    datasette: Any, db: Any, table: str, args: Any, *, actor: dict[str, Any] | None
) -> Conditions | None:
    """The rows that `?_row=`, `?_rowid=`, `?_ingest_failed=`, `?_ingest_status=&_ingest_job=`,
    `?_ingest_retry=&_ingest_scope=`, `?_ingest_due=` and `?_ingest_pending=` select on this table; None where none of them
    is given.

    :raises ValueError: for a key, job or scope that does not fit the table
    """
    if not any(name in args for name in OWN_FILTERS):
        return None
    key = await compat.read(db, lambda conn: keyset.table_key(conn, table))
    found = Conditions()
    if "_row" in args or "_rowid" in args:
        rows, rowids = args.getlist("_row"), args.getlist("_rowid")
        await compat.read(db, lambda conn: add_rows(conn, key, rows, rowids, found))
    for text in args.getlist("_ingest_failed"):
        job = await _job(datasette, db, table, "_ingest_failed", text, actor)
        found.add(await _failed_rows(db, key, job, found), f"in error in job {text}")
    if "_ingest_status" in args:
        await _rows_by_outcome(datasette, db, key, args, found, actor)
    if "_ingest_retry" in args:
        await _rows_to_retry(datasette, db, key, args, found, actor)
    for name, scope in SCOPE_FILTERS.items():
        if name in args:
            await _rows_in_scope(datasette, db, key, (name, scope, args.get(name)), found, actor)
    return found


async def _rows_in_scope(
    datasette: Any,
    db: Any,
    key: keyset.TableKey,
    asked_for: tuple[str, str, str],
    found: Conditions,
    actor: dict[str, Any] | None,
) -> None:
    """Rows that an enrichment, with its usual settings for this table, has not answered yet or would try again now: for
    those who may view the tables of its results.

    :param asked_for: the filter, its scope, and the slug of the enrichment
    """
    name, scope, slug = asked_for
    enrichment = (await registry.enrichments(datasette)).get(slug)
    if enrichment is None:
        raise ValueError(f"{name}={slug}: no enrichment of that name is installed")
    try:
        usual = {name: value for name, value in (await enrichment.defaults(db, key.table)).items() if value is not None}
        config = enrichment.Config(**usual)
    except pydantic.ValidationError:
        raise ValueError(f"{name}={slug}: {key.table} has no columns by which its rows could be found") from None
    asked = enrichment.retry_where(config, key.table, scope)
    if asked is None:
        raise ValueError(f"{name}={slug}: {slug} has no such rows")
    for table in enrichment.tables(config):
        if not await compat.can_view(datasette, actor, db.name, table):
            raise Forbidden(f"{name} tells about the table {table}, which you may not see")
    description = "not answered yet, or to be tried again now" if scope == "pending" else "to be tried again now"
    clauses, params = renamed(f"{scope}_", [asked[0]], dict(asked[1]))
    sql = f"select 1 from {sqlite.quote(key.table)} where {clauses[0]} limit 0"
    try:
        await compat.read(db, lambda conn: conn.execute(sql, params))
    except sqlite3.OperationalError as problem:
        if "no such table" not in str(problem):
            raise
        found.add("1" if scope == "pending" else "0", description)  # nothing has been answered in this database
        return
    found.params |= params
    found.add(clauses[0], description)


async def _job(datasette: Any, db: Any, table: str, name: str, text: str, actor: dict[str, Any] | None) -> Job:
    """The job of that number, if it was about this table and the actor may read of its rows: who may view the table of
    errors, or see the job. For all others there is no such job."""
    job = await _find(db, table, name, text)
    if not await compat.can_view(datasette, actor, db.name, ERRORS_TABLE):
        await _require(datasette, db, table, name, job, actor)
    return job


async def _find(db: Any, table: str, name: str, text: str) -> Job:
    if not (text.isascii() and text.isdecimal()) or len(text) > 19 or int(text) >= 2**63:
        raise ValueError(f"{name}={text}: write a job's number")
    job = await compat.read(db, lambda conn: store.find_job(conn, int(text)))
    if job is None or fold(job.table_name) != fold(table):
        raise _no_such_job(name, text, table)
    return job


async def _require(datasette: Any, db: Any, table: str, name: str, job: Job, actor: dict[str, Any] | None) -> None:
    is_orphan = job.id in await permissions.ids_of_orphans(datasette, actor, db)
    if is_orphan or not await permissions.may_see_jobs(datasette, actor, db.name, job.table_name):
        raise _no_such_job(name, str(job.id), table)


def _no_such_job(name: str, text: str, table: str) -> ValueError:
    return ValueError(f"{name}={text}: no such job has worked on the table {table}")


async def _rows_by_outcome(
    datasette: Any, db: Any, key: keyset.TableKey, args: Any, found: Conditions, actor: dict[str, Any] | None
) -> None:
    """Rows that now hold this outcome word where the job wrote its own: in the table itself, or in its shadow table for
    those who may view that, or see the job."""
    word, name = args.get("_ingest_status"), "_ingest_job"
    job = await _find(db, key.table, name, args.get(name) or "")
    output = output_of(job, (await registry.enrichments(datasette)).get(job.enrichment))
    if output is None or output.outcome_column is None:
        raise ValueError(f"_ingest_status={word}: job {job.id} wrote no outcomes to a column")
    if output.is_shadow:
        if not await compat.can_view(datasette, actor, db.name, output.table):
            await _require(datasette, db, key.table, name, job, actor)
        clause = ShadowTarget(key).where_source_row(output.outcome_column, found.bind(word))
    else:
        clause = f"{keyset.qualified(key.table, output.outcome_column)} = {found.bind(word)}"
    found.add(clause, f"outcome {word} in job {job.id}")


async def _rows_to_retry(
    datasette: Any, db: Any, key: keyset.TableKey, args: Any, found: Conditions, actor: dict[str, Any] | None
) -> None:
    """Rows of a job that are worth a retry, among the rows that the job had selected."""
    text, scopes = args.get("_ingest_retry"), args.getlist("_ingest_scope") or ["errors"]
    job = await _job(datasette, db, key.table, "_ingest_retry", text, actor)
    if not await filter_rights.may_use(datasette, actor, db, job.table_name, job.filter_querystring):
        raise Forbidden(f"the filters of job {job.id} name what you may not see")
    alternatives = []
    for scope in scopes:
        if scope == "errors":
            alternatives.append(await _failed_rows(db, key, job, found))
        else:
            alternatives.append(await _misses(datasette, job, scope, found))
    found.add(f"({' or '.join(alternatives)})", f"to be retried after job {job.id} ({', '.join(scopes)})")


async def _misses(datasette: Any, job: Job, scope: str, found: Conditions) -> str:
    enrichment = await registry.enrichment(datasette, job.enrichment)
    asked = enrichment.retry_where(stored_config(job, enrichment), job.table_name, scope)
    if asked is None:
        raise ValueError(f"_ingest_scope={scope}: {enrichment.slug} has no such scope")
    clauses, params = renamed(f"{scope}_", [asked[0]], dict(asked[1]))
    if job.selection:
        selected = Selection.load(job.selection, job.filter_querystring)
        if selected.where:
            within, more = renamed(f"job_{scope}_", [selected.where], dict(selected.params))
            clauses, params = clauses + within, params | more
    found.params |= params
    return f"({' and '.join(clauses)})"


def filters_of(conn: sqlite3.Connection, key: keyset.TableKey, rows: Sequence[keyset.Key]) -> list[str | None]:
    """For each row, the filter that selects it alone, encoded for an address: `_row=5`.

    `_rowid` where an address cannot hold the key or its type; None where there is no rowid either.
    """
    untyped = _untyped_columns(conn, key)
    return [_filter_of(key, row, untyped) for row in rows]


def _filter_of(key: keyset.TableKey, row: keyset.Key, untyped: frozenset[str]) -> str | None:
    if not key.parts:
        return urlencode({"_row": row[0]})
    parts = [(column, row[place]) for column, place in zip(key.columns, key.declared, strict=True)]
    is_plain = all(isinstance(value, (str, int)) and column not in untyped for column, value in parts)
    if key.rowid is not None and not is_plain:
        return urlencode({"_rowid": str(row[-1])})
    if not all(isinstance(value, (str, int, float)) for _, value in parts):
        return None
    return urlencode({"_row": ",".join(tilde_encode(str(value)) for _, value in parts)})


def _untyped_columns(conn: sqlite3.Connection, key: keyset.TableKey) -> frozenset[str]:
    """Key columns that keep 5 and '5' apart, which an address cannot (https://sqlite.org/datatype3.html, 3.1)."""
    types = {row[0]: (row[1] or "").upper() for row in conn.execute(_COLUMN_TYPES, [key.table])}
    return frozenset(
        column
        for column in key.columns
        if not (kind := types.get(column, "")) or ("BLOB" in kind and not re.search("INT|CHAR|CLOB|TEXT", kind))
    )


_COLUMN_TYPES = "select name, type from temp.pragma_table_info(?)"


def add_rows(
    conn: sqlite3.Connection, key: keyset.TableKey, rows: Sequence[str], rowids: Sequence[str], found: Conditions
) -> None:
    """Add the condition of single rows: one look-up by index for all of them, however many.

    :param rows: keys as `_row=` has them
    :raises ValueError: for a key that does not fit the table, and for more than MAX_ROWS
    """
    rows, rowids = list(dict.fromkeys(rows)), list(dict.fromkeys(rowids))
    number = len(rows) + len(rowids)
    if number > MAX_ROWS:
        raise ValueError(f"{number:,} rows are selected; {MAX_ROWS:,} is the most. Filter the table instead")
    alternatives = []
    if rows:
        wanted = [_key_parts(key, text) for text in rows]
        alternatives.append(_is_one_of(key, wanted, _untyped_columns(conn, key), found))
    if rowids:
        numbers = [_rowid(key, text) for text in rowids]
        alternatives.append(f"{key.rowid} in (select value from temp.json_each({found.bind(json.dumps(numbers))}))")
    found.add(f"({' or '.join(alternatives)})", f"{number:,} selected row{'s' if number != 1 else ''}")


def _key_parts(key: keyset.TableKey, text: str) -> list[str]:
    parts = [tilde_decode(part) for part in text.split(",")]
    if len(parts) != len(key.columns):
        raise ValueError(f"_row={text}: the key of {key.table} has {len(key.columns)} part(s)")
    return parts


def _rowid(key: keyset.TableKey, text: str) -> int:
    if key.rowid is None or not re.fullmatch(r"-?\d{1,19}", text) or not -(2**63) <= int(text) < 2**63:
        raise ValueError(f"_rowid={text}: not a rowid of {key.table}")
    return int(text)


def _is_one_of(
    key: keyset.TableKey, wanted: Sequence[Sequence[str]], untyped: frozenset[str], found: Conditions
) -> str:
    """SQL for the rows with one of these keys. A text is compared as the type of its column; a column without a type
    may hold numbers as well."""
    names = [key.rowid] if not key.parts else [keyset.qualified(key.table, column) for column in key.columns]
    spelled = [
        list(whole)
        for parts in wanted
        for whole in itertools.product(
            *(
                _meanings(part) if column in untyped and key.parts else (part,)
                for column, part in zip(key.columns, parts, strict=True)
            )
        )
    ]
    slot = found.bind(json.dumps([whole[0] for whole in spelled] if len(names) == 1 else spelled))
    if len(names) == 1:
        return f"{names[0]} in (select value from temp.json_each({slot}))"
    values = ", ".join(f"json_extract(value, '$[{number}]')" for number in range(len(names)))
    return f"({', '.join(map(str, names))}) in (select {values} from temp.json_each({slot}))"


def _meanings(text: str) -> tuple[Any, ...]:
    """A text from an address, and the number that is written the same way."""
    for number in (int, float):
        try:
            value = number(text)
        except (ValueError, OverflowError):
            continue
        if str(value) == text and (isinstance(value, float) or -(2**63) <= value < 2**63) and value - value == 0:
            return (text, value)
    return (text,)


async def _failed_rows(db: Any, key: keyset.TableKey, job: Job, found: Conditions) -> str:
    """The rows that have an error in that job, looked up by index."""
    if key.rowid is not None:  # there may be very many, so all work is done in the reading thread
        rowids = await compat.read(db, lambda conn: json.dumps(_rowids(conn, key, _failed_keys(conn, job))))
        return f"{key.rowid} in (select value from temp.json_each({found.bind(rowids)}))"
    return _any_of(
        [
            " and ".join(
                f"{part.expression} = {found.bind(value)} collate {part.collation}"
                for part, value in zip(key.parts, whole, strict=True)
            )
            for whole in await compat.read(db, lambda conn: _failed_keys(conn, job))
        ]
    )


def _failed_keys(conn: sqlite3.Connection, job: Job) -> list[keyset.Key]:
    """:raises BadSelection: where the table has another key now, to which they would name other rows"""
    found = [keyset.load(text) for text in results_log.failed_keys(conn, job.id)]
    if found:
        keyset.require_key(conn, job.table_name, job.table_key)
    return found


def _any_of(terms: Sequence[str]) -> str:
    """The terms joined by `or` as a balanced tree, since SQLite limits the depth of an expression."""
    if len(terms) < 2:
        return f"({terms[0]})" if terms else "0"
    middle = len(terms) // 2
    return f"({_any_of(terms[:middle])} or {_any_of(terms[middle:])})"


def _rowids(conn: sqlite3.Connection, key: keyset.TableKey, keys: list[keyset.Key]) -> list[int]:
    """The rowids of rows with these keys: the last value of each; for a declared key they are looked up, since VACUUM
    may have renumbered the rows."""
    found: list[int] = []
    for whole in keys:
        if not key.parts or None in whole[:-1]:
            found.append(whole[-1])  # type: ignore[arg-type]
            continue
        found.extend(keyset.rowids_at(conn, key, whole[:-1]))
    return found
