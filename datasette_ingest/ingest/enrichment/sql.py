"""SQL over the enriched table and the results of its rows: retries, rows without success, the guess of the URL column."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from ...jobs.model import Failures, RelatedRows, SavedCopy
from ...sqlite import columns, fold, quote
from .. import store
from ..cells import cell_key
from ..model import TYPE_ALIASES
from ..retry import MAX_ATTEMPTS
from ..schema import TABLES
from ..store.requests import TABLE as REQUESTS
from .config import IngestConfig
from .rows import ARCHIVE_COLUMNS, RESULT_COLUMNS, host_of

RESULTS = "ingest_file_result"
"""Never under another name in SQL beside the enriched table, which may have any name but this one."""
SAMPLE_ROWS = 50
"""Rows whose values are read for the guess of the URL column."""
LIKELY_NAMES = ("url", "link", "href", "uri", "pdf_url", "base_url", "landing_page", "landing_page_url", "doi")
LIKELY_WORDS = frozenset({"url", "urls", "link", "links", "href", "uri", "doi", "fulltext"})


REQUEST_DEFAULTS: Mapping[str, Any] = {
    "url_column": "base_url",
    "type_column": "ingest_type",
    "source_column": "source",
    "source_id_column": "source_id",
    "request_column": "request",
    "output": "none",
}
"""Settings for jobs over ingest_request: its rows are requests, and views join them with the results."""


def is_requests(conn: sqlite3.Connection, table: str) -> bool:
    """Whether the table is ingest_request, as a load makes it."""
    return fold(table) == REQUESTS and TABLES[REQUESTS].fits(conn, table)


def retry_where(config: IngestConfig, table: str, scope: str) -> tuple[str, Mapping[str, Any]]:
    """Condition for the rows whose URL has a stored miss, and its parameters.

    :param scope: `due`: the next try is due; `misses`: another try may end differently; `pending`: the next try is due,
        also one beside a hit, or nothing is stored: as in the view ingest_pending
    """
    key, params = _result_key(config, table)
    results = config.table_prefix + RESULTS
    condition = "next_try <= strftime('%Y-%m-%dT%H:%M:%SZ', 'now')"
    if scope == "pending":
        found = f"exists (select 1 from {results} where {_has_key(key, results)}"
        return f"(not {found}) or {found} and {condition}))", params
    if scope != "due":
        condition = f"(next_try is not null or attempts >= :most or {store.OF_SETTINGS_SQL})"
        params["most"] = MAX_ATTEMPTS
    return f"exists (select 1 from {results} where {_has_key(key, results)} and hit = 0 and {condition})", params


def failures(config: IngestConfig, table: str) -> Failures:
    """The outcome of each row, its link, and what its stored result says. With `output = none` the outcome is that of
    the stored result, since none is written onto the row."""
    key, params = _result_key(config, table)
    results = config.table_prefix + RESULTS

    def stored(column: str) -> str:
        return f"(select {results}.{column} from {results} where {_has_key(key, results)})"

    outcome = None
    if config.output == "none":
        is_blank = f"trim(coalesce({key['base_url']}, '')) = ''"
        outcome = f"case when {is_blank} then 'invalid-url' else {stored('status')} end"
    shown = {
        "message": stored("error_message"),
        "code": stored("terminal_status_code"),
        "terminal_url": stored("terminal_url"),
        "next_try": stored("next_try"),
    }
    related = (
        RelatedRows("Links that were tried", f"{config.table_prefix}ingest_candidate", key, sort="rank"),
        RelatedRows("The whole result", results, key),
    )
    copy = SavedCopy("Capture in a web archive", stored("archive_url"), stored("terminal_dt"))
    return Failures(outcome, shown, params, related, row_columns=(config.url_column,), copy=copy)


def type_sql(column: str | None, default: str) -> str:
    """The wanted type of a row as `rows.type_of` reads it.

    :param column: SQL for the cell that names it
    :param default: SQL for the type of rows that name none
    """
    if column is None:
        return default
    given = f"nullif(lower(trim({column})), '')"
    known = " ".join(f"when '{alias}' then '{name}'" for alias, name in TYPE_ALIASES.items())
    return f"coalesce(case {given} {known} else {given} end, {default})"


def _result_key(config: IngestConfig, table: str) -> tuple[dict[str, str], dict[str, Any]]:
    """(the key of a row's result, column -> SQL over the row; its parameters)."""
    column = config.type_column
    key = {
        "ingest_type": type_sql(f"{quote(table)}.{quote(column)}" if column else None, ":type"),
        "base_url": f"cast({quote(table)}.{quote(config.url_column)} as text)",
    }
    return key, {"type": config.ingest_type}


def _has_key(key: Mapping[str, str], results: str) -> str:
    """Condition for the row of the table `results` with this key, column -> SQL."""
    return " and ".join(f"{results}.{column} = {term}" for column, term in key.items())


def guess_url_column(conn: sqlite3.Connection, table: str) -> str | None:
    """The column that most likely holds each row's link, by the first values, then by its name. Columns that an
    ingest wrote are passed over."""
    names = columns(conn, table)
    cursor = conn.cursor()
    cursor.row_factory = None
    rows = cursor.execute(f"select * from {quote(table)} limit {SAMPLE_ROWS}").fetchall()
    names = names or [column[0] for column in cursor.description]
    ours = result_columns(names)
    best: tuple[float, int, str] | None = None
    for place, name in enumerate(names):
        if name.lower() in ours:
            continue
        cells = [row[place] for row in rows if place < len(row) and cell_key(row[place]) is not None]
        share = sum(host_of(cell, "https://doi.org/") is not None for cell in cells) / len(cells) if cells else 0.0
        named = _likeness(name)
        if share < 0.3 and not (named and not cells):
            continue
        score = (round(share, 1) + named, -place, name)
        best = max(best, score) if best is not None else score
    return best[2] if best else None


def _likeness(name: str) -> float:
    """How likely a column of this name holds links: 1 for a usual name, less where such a word is one of several."""
    if name.lower() in LIKELY_NAMES:
        return 1.0
    words = re.split(r"[\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
    return 0.5 if set(words) & LIKELY_WORDS else 0.0


def result_columns(names: Sequence[str]) -> frozenset[str]:
    """Those of a table's columns, in lower case, that an ingest wrote, whatever its prefix: the whole set is there."""
    folded = {name.lower() for name in names}
    prefixes = [name.removesuffix("terminal_sha1hex") for name in folded if name.endswith("terminal_sha1hex")]
    found = [{prefix + name for name in RESULT_COLUMNS} for prefix in prefixes]
    ours = frozenset().union(*(columns for columns in found if columns <= folded))
    return ours | {prefix + name for prefix in prefixes if prefix + "hit" in ours for name in ARCHIVE_COLUMNS} & folded
