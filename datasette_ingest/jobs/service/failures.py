"""The rows that a job missed: what each is called, how it ended, and what was said of it. Read a page at a time, the
first of them by reason, or one alone."""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ... import compat, sqlite
from .. import keyset, registry, selection, store
from ..engine.output import ShadowTarget
from ..enrichment import Enrichment
from ..keyset import Key, TableKey
from ..model import Evidence, Job, Missed
from .outcomes import HIT, lasting_filters, outcome_home, stored_config

log = logging.getLogger(__name__)

PAGE_ROWS = 1000
PAGE_LIMIT_MS = 60_000.0
MESSAGE = "message"
LOOKED_AT = 1000
"""Missed rows that are put in order by their reasons."""
_ADDRESS = re.compile(r"https?://\S+")


@dataclass(frozen=True)
class MissedRows:
    """A query for the missed rows of a job, in the order of the table's key.

    A row is missed when it is in error in the job, or when another word than `success` stands for it now; `names` are
    the columns of the answer: the key's, what the enrichment adds, `outcome`, `message`. `where` selects the missed
    rows, `answered` those of them that are not in error. `is_narrowed`: only rows that the job had selected; otherwise
    its filters depend on what it wrote, and the whole table is read.
    """

    job_id: int
    key: TableKey
    names: tuple[str, ...]
    terms: tuple[str, ...]
    where: str
    answered: str
    params: dict[str, Any]
    is_narrowed: bool


@dataclass(frozen=True)
class Reason:
    """Missed rows of one outcome of which the same is said. In `message`, None where nothing is said, an address in
    which they differ is left out. `keys`: the first of them."""

    outcome: str
    message: str | None
    count: int
    keys: tuple[Any, ...]


@dataclass(frozen=True)
class Reasons:
    """The reasons of the first `looked_at` missed rows, the most frequent first. `is_all`: there are no more rows."""

    reasons: tuple[Reason, ...] = ()
    looked_at: int = 0
    is_all: bool = True


@dataclass(frozen=True)
class Explained:
    """How one row ended, what was said of it, and the rows of other tables that tell more: (evidence, values of its
    columns)."""

    outcome: str
    message: str | None
    evidence: tuple[tuple[Evidence, dict[str, Any]], ...] = ()


@dataclass(frozen=True)
class _Words:
    """How the words of a job are read over its table: `terms` are SQL for what the enrichment adds (called `extra`), the
    outcome and the message, with the parameters `params`."""

    key: TableKey
    extra: tuple[str, ...]
    terms: tuple[str, ...]
    params: dict[str, Any]
    evidence: tuple[Evidence, ...]

    @property
    def outcome(self) -> str:
        return self.terms[-2]


async def _words(db: Any, job: Job, enrichment: Enrichment | None) -> _Words:
    """:raises JobError: when the table is gone"""

    def look(conn: sqlite3.Connection) -> _Words:
        key = keyset.table_key(conn, job.table_name)
        told = _usable(conn, job, _told(job, enrichment))
        outcome = _outcome(conn, job, enrichment, key, told)
        extra = {name: term for name, term in told.columns.items() if name not in key.columns and name != MESSAGE}
        terms = (*extra.values(), outcome, told.columns.get(MESSAGE, "null"))
        return _Words(key, tuple(extra), terms, dict(told.params), told.evidence)

    return await compat.read(db, look)


async def missed_rows(datasette: Any, db: Any, job: Job, actor: dict[str, Any] | None) -> MissedRows:
    """The query, made for this actor.

    :raises JobError: when the table is gone, or its rows are not this actor's to select
    """
    enrichment = (await registry.enrichments(datasette)).get(job.enrichment)
    words, home = await _words(db, job, enrichment), outcome_home(job, enrichment)
    written = home.written if home is not None and home.table == job.table_name else ()
    within = lasting_filters(job.filter_querystring, written)
    selected = await selection.resolve(datasette, db, job.table_name, within, actor)
    failed = await selection.resolve(datasette, db, job.table_name, f"_ingest_failed={job.id}", actor)
    (selected_where,), selected_params = selection.renamed("s_", [selected.where], dict(selected.params))
    (failed_where,), failed_params = selection.renamed("f_", [failed.where], dict(failed.params))
    among = f"{selected_where} and " if selected_where else ""
    other = f"({words.outcome}) is not null and ({words.outcome}) <> '{HIT}'"
    return MissedRows(
        job_id=job.id,
        key=words.key,
        names=(*words.key.columns, *words.extra, "outcome", MESSAGE),
        terms=words.terms,
        where=f"({among}({other} or {failed_where}))",
        answered=f"({among}{other} and not {failed_where})",
        params={**selected_params, **failed_params, **words.params},
        is_narrowed=within == job.filter_querystring,
    )


def _told(job: Job, enrichment: Enrichment | None) -> Missed:
    """What the enrichment says of its missed rows, its parameters renamed so that no filter's is overwritten. Nothing
    where it fails: rows and their jobs are shown all the same."""
    config = stored_config(job, enrichment)
    if enrichment is None or config is None:
        return Missed()
    try:
        return _renamed(job, enrichment, config)
    except Exception:
        log.exception("The enrichment %s cannot say what it missed", enrichment.slug)
        return Missed()


def _renamed(job: Job, enrichment: Enrichment, config: Any) -> Missed:
    given = enrichment.missed(config, job.table_name) or Missed(
        columns={name: keyset.qualified(job.table_name, name) for name in enrichment.columns(config) or ()}
    )
    behind = [term for evidence in given.evidence for term in evidence.columns.values()]
    asked = [*given.columns.values(), given.outcome or "null", *behind]
    renamed, params = selection.renamed("m_", asked, dict(given.params))
    terms = iter(renamed)
    columns = {name: next(terms) for name in given.columns}
    outcome = next(terms)
    evidence = tuple(replace(each, columns={name: next(terms) for name in each.columns}) for each in given.evidence)
    return Missed(outcome if given.outcome else None, columns, params, evidence)


def _usable(conn: sqlite3.Connection, job: Job, told: Missed) -> Missed:
    """The same, or nothing where its tables do not stand: a job that never began has not made them."""
    behind = [term for evidence in told.evidence for term in evidence.columns.values()]
    terms = ", ".join(filter(None, [*told.columns.values(), told.outcome, *behind])) or "null"
    try:
        conn.execute(f"select {terms} from {keyset.quote(job.table_name)} limit 0", dict(told.params))
    except sqlite3.Error:
        return Missed()
    return told


def _outcome(conn: sqlite3.Connection, job: Job, enrichment: Enrichment | None, key: TableKey, told: Missed) -> str:
    """SQL for a row's outcome word; `null` where the job wrote none."""
    if told.outcome is not None:
        return told.outcome
    home = outcome_home(job, enrichment)
    if home is None or sqlite.fold(home.column) not in map(sqlite.fold, sqlite.columns(conn, home.table)):
        return "null"
    if home.table == job.table_name:
        return keyset.qualified(home.table, home.column)
    return ShadowTarget(key).value_beside(home.column)


async def reasons(db: Any, rows: MissedRows, *, keys: int, limit_ms: float) -> Reasons | None:
    """Why the first of the rows were missed, those in error apart; None when finding out takes longer than `limit_ms`.

    :param keys: how many rows are named for a reason
    """

    def read(conn: sqlite3.Connection) -> Reasons:
        page = keyset.page_of_terms(
            conn, rows.key, rows.terms, rows.answered, rows.params, after=None, upto=None, limit=LOOKED_AT + 1
        )
        found = page.slice(0, LOOKED_AT)
        told = [
            (str(row[len(rows.terms) - 2]), row[len(rows.terms) - 1], rows.key.public(found.key(number)))
            for number, row in enumerate(found.rows)
        ]
        return Reasons(by_reason(told, keys=keys), len(found), len(page) <= LOOKED_AT)

    try:
        return await compat.read(db, read, limit_ms=limit_ms)
    except compat.Interrupted:
        return None


def by_reason(told: Sequence[tuple[str, Any, Any]], *, keys: int) -> tuple[Reason, ...]:
    """(outcome, message, key) of rows -> their reasons, the most frequent first."""
    groups: dict[tuple[str, str | None], list[tuple[Any, Any]]] = {}
    for outcome, message, key in told:
        common = None if message is None else _ADDRESS.sub("…", str(message))
        groups.setdefault((outcome, common), []).append((message, key))
    found = [
        Reason(
            outcome,
            str(rows[0][0]) if common is not None and len({message for message, _ in rows}) == 1 else common,
            len(rows),
            tuple(key for _, key in rows[:keys]),
        )
        for (outcome, common), rows in groups.items()
    ]
    return tuple(sorted(found, key=lambda reason: (-reason.count, reason.outcome, reason.message or "")))


async def explained(
    datasette: Any, db: Any, job: Job, actor: dict[str, Any] | None, picked: str, *, limit_ms: float
) -> Explained | None:
    """What the job says of a row, whether it had selected it or not; None where the row was not missed, or finding out
    takes longer than `limit_ms`.

    :param picked: the filter that selects the row alone, `_row=5`
    :raises JobError: when the table is gone, or there can be no such row
    """
    words = await _words(db, job, (await registry.enrichments(datasette)).get(job.enrichment))
    row = await selection.resolve(datasette, db, job.table_name, picked, actor)
    terms = [*words.terms, *(term for each in words.evidence for term in each.columns.values())]

    def read(conn: sqlite3.Connection) -> Explained | None:
        page = keyset.page_of_terms(conn, words.key, terms, row.where, {**row.params, **words.params}, limit=1)
        if not len(page):
            return None
        values = iter(page.rows[0][len(words.extra) : len(terms)])
        outcome, message = next(values), next(values)
        failure = store.error_messages(conn, job.id, [keyset.dump(page.key(0))])
        if failure:
            return Explained("error", next(iter(failure.values())))
        if outcome is None or outcome == HIT:
            return None
        behind = [(each, {name: next(values) for name in each.columns}) for each in words.evidence]
        found = tuple(each for each in behind if _exists(conn, *each))
        return Explained(str(outcome), None if message is None else str(message), found)

    try:
        return await compat.read(db, read, limit_ms=limit_ms)
    except compat.Interrupted:
        return None


def _exists(conn: sqlite3.Connection, evidence: Evidence, values: dict[str, Any]) -> bool:
    """Whether there is anything to read."""
    where = " and ".join(f"{keyset.quote(name)} = ?" for name in values)
    try:
        found = conn.execute(f"select 1 from {keyset.quote(evidence.table)} where {where} limit 1", [*values.values()])
    except sqlite3.OperationalError:  # the table was never made
        return False
    return found.fetchone() is not None


async def pages(db: Any, rows: MissedRows) -> AsyncIterator[list[list[Any]]]:
    """Every missed row once, as lists of values in the order of `names`."""
    after: Key | None = None
    while True:
        place = after
        page, after = await compat.read(db, lambda conn: _read(conn, rows, place), limit_ms=PAGE_LIMIT_MS)  # noqa: B023
        if page:
            yield page
        if after is None:
            return


def _read(conn: sqlite3.Connection, rows: MissedRows, after: Key | None) -> tuple[list[list[Any]], Key | None]:
    """A page, and the cursor behind its last row; None for the cursor when it is the last page."""
    page = keyset.page_of_terms(conn, rows.key, rows.terms, rows.where, rows.params, after, None, PAGE_ROWS)
    keys = [page.key(number) for number in range(len(page))]
    marks = [keyset.dump(key) for key in keys]
    failed = store.error_messages(conn, rows.job_id, marks)
    found = [
        _answered(rows, key, page.rows[number], failed.get(mark))
        for number, (key, mark) in enumerate(zip(keys, marks, strict=True))
    ]
    return found, rows.key.cursor_of(keys[-1]) if len(page) == PAGE_ROWS else None


def _answered(rows: MissedRows, key: Key, values: Sequence[Any], failure: str | None) -> list[Any]:
    public = rows.key.public(key)
    parts = list(public)[: len(rows.key.columns)] if isinstance(public, tuple) else [public]
    told = list(values[: len(rows.terms)])
    if failure is not None:
        told[-2:] = ["error", failure]
    return [*parts, *told]
