"""Rows without success: the query for a job's, their reasons, and a report on one row."""

from __future__ import annotations

import itertools
import logging
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ... import compat, sqlite
from ...text import day
from ...text import name as text_name
from .. import keyset, registry, selection
from ..engine.output import ShadowTarget
from ..engine.planning import stored_config
from ..enrichment import Enrichment, successes_of
from ..errors import BadSelection, JobError
from ..keyset import Key, TableKey
from ..model import Failures, Job, RelatedRows, SavedCopy
from . import row_filters
from .outcomes import JobOutput, lasting_filters, latest_outputs, newest_of_each, output_of
from .permissions import Actor, ids_of_orphans

log = logging.getLogger(__name__)

PAGE_ROWS = 1000
PAGE_LIMIT_MS = 60_000.0
OUTCOME, MESSAGE, CODE = "outcome", "message", "code"
ROW_KEY, ERROR_JOB = "ingest_row_key", "error_job"
"""Names in SQL: our function of a row's key, and the parameter for the job whose errors are meant."""
GROUPED_ROWS = 1000
"""Rows without success that are grouped by reason."""
_VARYING = re.compile(r"https?://\S+|\S+\.[^\W\d]+\b|\d+")
"""What differs in messages of one kind: addresses, names of hosts, numbers."""


# ---- what is read of a row -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowTerms:
    """SQL over a row of the enriched table: further columns, the outcome word, its code, the message, the message of its error in
    the job (NULL where it has none), related rows. `names`: what the key's columns, the further ones, the outcome and
    the message are called, no two alike."""

    key: TableKey
    names: tuple[str, ...]
    columns: tuple[str, ...]
    outcome: str
    code: str
    message: str
    error: str
    params: dict[str, Any]
    related: tuple[RelatedRows, ...]
    copy: SavedCopy | None

    @property
    def selected(self) -> tuple[str, ...]:
        return (*self.columns, self.outcome, self.code, self.message, self.error)

    def page(
        self,
        conn: sqlite3.Connection,
        where: str,
        params: Mapping[str, Any],
        *,
        more: Sequence[str] = (),
        after: Key | None = None,
        limit: int | None = None,
    ) -> keyset.Page:
        """Rows with `selected` and `more`, in the order of the table's key."""
        conn.create_function(ROW_KEY, -1, _low_row_key)
        return keyset.page_of_terms(conn, self.key, (*self.selected, *more), where, params, after, None, limit)


def _terms(conn: sqlite3.Connection, job: Job, enrichment: Enrichment | None, chosen: Sequence[str] = ()) -> RowTerms:
    """:param chosen: further columns of the table
    :raises JobError: when the table is gone, or has no such column
    """
    key = keyset.table_key(conn, job.table_name)
    stated = _usable(conn, job, _stated(job, enrichment))
    taken = set(map(sqlite.fold, key.columns))
    own = []
    for name in (*stated.row_columns, *_columns_of(conn, job.table_name, chosen)):
        if sqlite.fold(name) not in taken:
            taken.add(sqlite.fold(name))
            own.append(name)
    facts = {name: term for name, term in stated.columns.items() if name != MESSAGE}
    return RowTerms(
        key,
        _apart([*key.columns, *own], [*facts, OUTCOME, MESSAGE]),
        (*(keyset.qualified(key.table, name) for name in own), *facts.values()),
        stated.outcome or _outcome_term(conn, output_of(job, enrichment), key),
        stated.columns.get(CODE, "null"),
        stated.columns.get(MESSAGE, "null"),
        _error_term(key) if keyset.has_key(conn, job.table_name, job.table_key) else "null",
        {**stated.params, ERROR_JOB: job.id},
        stated.related,
        stated.copy,
    )


def _columns_of(conn: sqlite3.Connection, table: str, chosen: Sequence[str]) -> list[str]:
    """These columns as the table spells them.

    :raises BadSelection: for one that it has not
    """
    there = {sqlite.fold(name): name for name in sqlite.columns(conn, table)}
    missing = [name for name in chosen if sqlite.fold(name) not in there]
    if missing:
        raise BadSelection(f"The table {text_name(table)} has no column {text_name(missing[0])}")
    return [there[sqlite.fold(name)] for name in chosen]


def _apart(columns: Sequence[str], ours: Sequence[str]) -> tuple[str, ...]:
    """The table's columns under their names, and ours, which get a number where a name is taken: `message_2`."""
    taken, names = set(map(sqlite.fold, columns)), list(columns)
    for name in ours:
        numbered = (f"{name}_{number}" for number in itertools.count(2))
        free = name if sqlite.fold(name) not in taken else next(n for n in numbered if sqlite.fold(n) not in taken)
        taken.add(sqlite.fold(free))
        names.append(free)
    return tuple(names)


# The errors of a job are found by their row's key as it is stored (`row_key`), by index: so many errors cost as many
# look-ups. The rowid at the end of a declared key does not count, since VACUUM may renumber rows.


def _error_term(key: TableKey) -> str:
    """SQL for the message of the row's error in the job ERROR_JOB; NULL for a row that is not in error."""
    if key.parts:
        typed = ", ".join(
            f"typeof({term}), case typeof({term}) when 'text' then cast({term} as blob) else {term} end"
            for term in key.reads
        )
        low = f"{ROW_KEY}({int(key.rowid is not None)}, {typed})"
    else:
        low = f"""'[["integer", "' || {key.rowid} || '"]]'"""
    return (
        f"(select coalesce(_enrichment_errors.error, '') from _enrichment_errors where job_id = :{ERROR_JOB} "
        f"and row_key >= {low} and row_key <= {low} || '~' order by row_key desc limit 1)"
    )


def _low_row_key(has_rowid: int, *typed: Any) -> str:
    """The beginning of a row's stored key; the whole where its rowid belongs to it. `typed`: type and value of each part
    in turn, text as its bytes."""
    pairs = zip(typed[::2], typed[1::2], strict=True)
    key = tuple(keyset.text_or_raw(bytes(value)) if kind == "text" else value for kind, value in pairs)
    if has_rowid and None not in key[:-1]:
        return keyset.dump(key[:-1]).removesuffix("]") + ", "
    return keyset.dump(key)


def _stated(job: Job, enrichment: Enrichment | None) -> Failures:
    """What the enrichment says of its rows without success; nothing where it fails to: the job is shown all the same."""
    if enrichment is None:
        return Failures()
    try:
        config = stored_config(job, enrichment)
        stated = enrichment.failures(config, job.table_name)
        if stated is None:
            read = enrichment.columns(config) or ()
            stated = Failures(row_columns=tuple(dict.fromkeys(read)))
        return _renamed(stated)
    except JobError:
        return Failures()
    except Exception:
        log.exception("The enrichment %s cannot describe its failures", enrichment.slug)
        return Failures()


def _expressions(stated: Failures) -> list[str]:
    related = [term for each in stated.related for term in each.columns.values()]
    copy = [] if stated.copy is None else [stated.copy.url, stated.copy.taken]
    return [*stated.columns.values(), stated.outcome or "null", *related, *copy]


def _renamed(stated: Failures) -> Failures:
    """The same with parameters of its own names, so that no filter's are overwritten."""
    renamed, params = selection.renamed("m_", _expressions(stated), dict(stated.params))
    terms = iter(renamed)
    columns, outcome = {name: next(terms) for name in stated.columns}, next(terms)
    related = tuple(replace(each, columns={name: next(terms) for name in each.columns}) for each in stated.related)
    copy = stated.copy and replace(stated.copy, url=next(terms), taken=next(terms))
    return Failures(outcome if stated.outcome else None, columns, params, related, stated.row_columns, copy)


def _usable(conn: sqlite3.Connection, job: Job, stated: Failures) -> Failures:
    """The same, or nothing where its tables do not exist: a job that never began has not made them."""
    try:
        own = [keyset.qualified(job.table_name, name) for name in stated.row_columns]
        terms = ", ".join([*_expressions(stated), *own])
        conn.execute(f"select {terms} from {sqlite.quote(job.table_name)} limit 0", dict(stated.params))
    except sqlite3.Error:
        # A table of an earlier version has no copies yet.
        return Failures() if stated.copy is None else _usable(conn, job, replace(stated, copy=None))
    return stated


def _outcome_term(conn: sqlite3.Connection, output: JobOutput | None, key: TableKey) -> str:
    """SQL for a row's outcome word; `null` where the job wrote none."""
    if output is None or output.outcome_column is None:
        return "null"
    column = output.outcome_column
    if sqlite.fold(column) not in map(sqlite.fold, sqlite.columns(conn, output.table)):
        return "null"
    if not output.is_shadow:
        return keyset.qualified(output.table, column)
    target = ShadowTarget(key)
    return target.value_beside(column) if target.has_key(conn) else "null"


# ---- the rows of a job -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FailureQuery:
    """A query for a job's rows without success, in the order of the table's key: those in error in the job, and those
    that now have another outcome word than `success`.

    `where` selects all of these rows, `answered` those that are not in error. `is_narrowed`: only rows that the job had
    selected; otherwise its filters depend on what it wrote, and the whole table is read. `case`: what `Enrichment.case` says.
    """

    terms: RowTerms
    where: str
    answered: str
    params: dict[str, Any]
    is_narrowed: bool
    case: Callable[[str, Any], str]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the answer: the key's, what the enrichment adds, `outcome`, `message`."""
        return self.terms.names

    def page(
        self, conn: sqlite3.Connection, where: str, *, after: Key | None = None, limit: int | None = None
    ) -> keyset.Page:
        return self.terms.page(conn, where, self.params, after=after, limit=limit)


async def failure_query(
    datasette: Any, db: Any, job: Job, actor: dict[str, Any] | None, *, columns: Sequence[str] = ()
) -> FailureQuery:
    """The query, with the job's filters checked for this actor.

    :param columns: columns of the table that stand in the answer beside the key
    :param job: from `queries.find`, which has checked the actor
    :raises JobError: when the table is gone or has another key, to which its errors would name other rows, or the actor
        may not select its rows
    """
    enrichment = (await registry.enrichments(datasette)).get(job.enrichment)

    def read(conn: sqlite3.Connection) -> RowTerms:
        if job.error_count:
            keyset.require_key(conn, job.table_name, job.table_key)
        return _terms(conn, job, enrichment, columns)

    terms = await compat.read(db, read)
    within = lasting_filters(job, output_of(job, enrichment))
    selected = await selection.resolve(datasette, db, job.table_name, within, actor)
    (selected_where,), selected_params = selection.renamed("s_", [selected.where], dict(selected.params))
    among = f"{selected_where} and " if selected_where else ""
    good = ", ".join(sqlite.text(word) for word in sorted(successes_of(job.enrichment)))
    other = f"({terms.outcome}) is not null and ({terms.outcome}) not in ({good})"
    return FailureQuery(
        terms,
        where=f"({among}({other} or {terms.error} is not null))",
        answered=f"({among}{other} and {terms.error} is null)",
        params={**selected_params, **terms.params},
        is_narrowed=within == job.filter_querystring,
        case=_case_of(enrichment),
    )


def _case_of(enrichment: Enrichment | None) -> Callable[[str, Any], str]:
    def case(outcome: str, code: Any) -> str:
        return outcome if enrichment is None else enrichment.case(outcome, code if isinstance(code, int) else None)

    return case


async def pages(db: Any, query: FailureQuery) -> AsyncIterator[list[list[Any]]]:
    """Every row once, as lists of values in the order of `names`."""
    after: Key | None = None

    def read(conn: sqlite3.Connection) -> tuple[list[list[Any]], Key | None]:
        """A page, and the cursor behind its last row, None on the last page."""
        page, table_key = query.page(conn, query.where, after=after, limit=PAGE_ROWS), query.terms.key
        found = []
        for number, row in enumerate(page.rows):
            public = table_key.public(page.key(number))
            *values, outcome, _, message, error = row[: page.width]
            ended = [outcome, message] if error is None else ["error", error]
            parts = public[: len(table_key.columns)] if isinstance(public, tuple) else (public,)
            found.append([*parts, *values, *ended])
        return found, table_key.cursor_of(page.key(len(page) - 1)) if len(page) == PAGE_ROWS else None

    while True:
        page, after = await compat.read(db, read, limit_ms=PAGE_LIMIT_MS)
        if page:
            yield page
        if after is None:
            return


# ---- by reason -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reason:
    """Rows of the same case of an outcome word, whose messages differ in addresses, names of hosts and numbers only.
    `message`: that of the first row, None where there is none; `is_example`: others have another. `keys`: the first of
    the rows."""

    outcome: str
    case: str
    message: str | None
    is_example: bool
    count: int
    keys: tuple[Any, ...]


@dataclass(frozen=True)
class Reasons:
    """The reasons of the first `grouped` rows, the most frequent first. `is_all`: there are no more rows."""

    reasons: tuple[Reason, ...] = ()
    grouped: int = 0
    is_all: bool = True


async def reasons(db: Any, query: FailureQuery, *, keys: int, limit_ms: float) -> Reasons | None:
    """Why the first of the rows have no success, without those in error; None when it takes longer than `limit_ms`.

    :param keys: how many rows are named for each reason
    """

    def read(conn: sqlite3.Connection) -> Reasons:
        page = query.page(conn, query.answered, limit=GROUPED_ROWS + 1)
        first, width = page.slice(0, GROUPED_ROWS), page.width
        rows = [
            (outcome, query.case(outcome, row[width - 3]), row[width - 2], query.terms.key.public(first.key(number)))
            for number, row in enumerate(first.rows)
            for outcome in [str(row[width - 4])]
        ]
        return Reasons(by_reason(rows, keys=keys), len(first), len(page) <= GROUPED_ROWS)

    try:
        return await compat.read(db, read, limit_ms=limit_ms)
    except compat.Interrupted:
        return None


def by_reason(rows: Iterable[tuple[str, str, Any, Any]], *, keys: int) -> tuple[Reason, ...]:
    """(outcome, case, message, key) of rows -> their reasons, the most frequent first."""
    groups: dict[tuple[str, str, str | None], list[tuple[Any, Any]]] = {}
    for outcome, case, message, key in rows:
        common = None if message is None else _VARYING.sub("…", str(message))
        groups.setdefault((outcome, case, common), []).append((message, key))
    found = [
        Reason(
            outcome,
            case,
            None if common is None else str(members[0][0]),
            len({message for message, _ in members}) > 1,
            len(members),
            tuple(key for _, key in members[:keys]),
        )
        for (outcome, case, common), members in groups.items()
    ]
    return tuple(sorted(found, key=lambda reason: (-reason.count, reason.outcome, reason.message or "")))


# ---- one row ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowReport:
    """How a row ended in the latest job of an enrichment, without success or with a copy: `outcome`, `message`, and the
    related rows that exist, each with the values of its columns.

    `code` tells the cases of the outcome word apart. `copy` is (label, address, day) of a page elsewhere that shows what was found.
    """

    output: JobOutput
    outcome: str
    message: str | None
    code: Any = None
    related: tuple[tuple[RelatedRows, dict[str, Any]], ...] = ()
    copy: tuple[str, str, str] | None = None

    @property
    def case(self) -> str:
        return _case_of(self.output.enrichment)(self.outcome, self.code)

    @property
    def is_success(self) -> bool:
        return self.outcome in successes_of(self.output.job.enrichment)


async def row_reports(
    datasette: Any, db: Any, table: str, row: str, *, actor: Actor, limit_ms: float, most: int
) -> list[RowReport]:
    """The reports on one row, at most `most`, from the latest job of each enrichment, whether it had selected the row
    or not; none when reading takes longer than `limit_ms`.

    :param table: one that the actor may enrich
    :param row: the row's key as `_row=` has it
    """
    enrichments = await registry.enrichments(datasette)
    without = await ids_of_orphans(datasette, actor, db)

    def read(conn: sqlite3.Connection) -> list[RowReport]:
        reports: list[RowReport] = []
        for output in newest_of_each(latest_outputs(conn, table, enrichments, without=without)):
            report = _row_report(conn, output, row) if len(reports) < most else None
            if report is not None:
                reports.append(report)
        return reports

    try:
        return await compat.read(db, read, limit_ms=limit_ms)
    except (compat.Interrupted, sqlite3.Error, JobError, ValueError) as problem:
        log.debug("there is no report on the row %s of %s: %s", row, table, problem)
        return []


def _row_report(conn: sqlite3.Connection, output: JobOutput, row: str) -> RowReport | None:
    terms, found = _terms(conn, output.job, output.enrichment), row_filters.Conditions()
    if not terms.key.has_pages:
        return None
    row_filters.add_rows(conn, terms.key, [row], [], found)
    more = [term for each in terms.related for term in each.columns.values()]
    more += [] if terms.copy is None else [terms.copy.url, terms.copy.taken]
    where, params = f"({found.clauses[0]})", {**found.params, **terms.params}
    page = terms.page(conn, where, params, more=more, limit=1)
    if not len(page):
        return None
    values = iter(page.rows[0][len(terms.columns) : page.width])
    outcome, code, message, error = next(values), next(values), next(values), next(values)
    if error is not None:
        return RowReport(output, "error", error)
    related = [(each, {name: next(values) for name in each.columns}) for each in terms.related]
    copy = None if terms.copy is None else _copy(terms.copy.label, next(values), next(values))
    if outcome is None or outcome in successes_of(output.job.enrichment):
        return None if copy is None or outcome is None else RowReport(output, str(outcome), None, copy=copy)
    existing = tuple(each for each in related if _exists(conn, *each))
    return RowReport(output, str(outcome), None if message is None else str(message), code, existing, copy)


def _copy(label: str, url: Any, taken: Any) -> tuple[str, str, str] | None:
    """A copy that may be linked to; None for an address that is not http or https."""
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        return None
    return label, url, day(str(taken))


def _exists(conn: sqlite3.Connection, related: RelatedRows, values: dict[str, Any]) -> bool:
    where = " and ".join(f"{sqlite.quote(name)} = ?" for name in values)
    try:
        found = conn.execute(f"select 1 from {sqlite.quote(related.table)} where {where} limit 1", [*values.values()])
    except sqlite3.OperationalError:  # the table was never made
        return False
    return found.fetchone() is not None
