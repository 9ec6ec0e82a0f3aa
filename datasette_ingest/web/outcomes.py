"""What jobs left in a table: which columns they wrote, and how often each outcome word stands there. Never slow."""

from __future__ import annotations

import logging
import sqlite3
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from .. import compat
from ..jobs import registry, store
from ..jobs.enrichment import Enrichment
from ..jobs.keyset import qualified, quote
from ..jobs.model import Job
from ..sqlite import fold
from .urls import Links, column_filter

log = logging.getLogger(__name__)

LOOKED_AT_JOBS = 10
COUNT_MS = 50.0
"""How long a table's page may wait for its outcomes to be counted."""
SLOW_SECONDS = 600.0
"""How long a table that took longer is not counted again."""
SHOWN_WORDS = 6
SHOWN_ENRICHMENTS = 3
"""Enrichments that a table's page, or a row's, tells of."""

_SLOW: weakref.WeakKeyDictionary[Any, dict[tuple[str, str], float]] = weakref.WeakKeyDictionary()
"""database -> (table, column) -> when it turned out to be slow."""


@dataclass(frozen=True)
class Written:
    """What one job writes: its columns in lower case, and where its outcome words stand (None: nowhere)."""

    job: Job
    enrichment: Enrichment
    columns: frozenset[str]
    outcome_column: str | None
    output: str


@dataclass(frozen=True)
class Word:
    """An outcome, how many rows have it, and the table's page with just these."""

    word: str
    number: int
    url: str


@dataclass(frozen=True)
class Summary:
    """The outcomes of one enrichment, the successes first. `unanswered`: the rows without a word, None where there are
    none. `as_of`: the job that counted them, None where they were counted just now. `more`: how many words are left
    out; `all_url` shows them."""

    name: str
    words: tuple[Word, ...]
    unanswered: Word | None
    more: int
    all_url: str | None
    as_of: int | None
    job_url: str | None


async def written(datasette: Any, db: Any, table: str) -> list[Written]:
    """What the latest jobs over a table write, newest first; asks nobody's permission."""
    try:
        jobs = await compat.read(db, lambda conn: store.list_jobs(conn, tables=[table], limit=LOOKED_AT_JOBS))
    except sqlite3.DatabaseError as problem:
        log.warning("cannot look for jobs in %s: %s", db.name, problem)
        return []
    known = await registry.enrichments(datasette)
    return [found for job in jobs if (found := _written(job, known)) is not None]


def _written(job: Job, known: Mapping[str, Enrichment]) -> Written | None:
    enrichment = known.get(job.enrichment)
    if enrichment is None:
        return None
    try:
        config = enrichment.Config(**job.config)
        columns = frozenset(map(fold, enrichment.column_types(config)))
        outcome, output = enrichment.outcome_column(config), job.options.output or enrichment.output(config)
    except Exception:  # settings of another version, a stranger's fault: the table's page is shown all the same
        log.debug("job %s of %s: its columns are not known", job.id, job.enrichment, exc_info=True)
        return None
    return Written(job, enrichment, columns | ({fold(outcome)} if outcome else frozenset()), outcome, output)


async def summaries(datasette: Any, database: str, table: str) -> list[Summary]:
    """The outcomes that stand in the table, an entry for each enrichment and column. For whoever may view the table."""
    db = datasette.databases.get(database)
    if db is None or (db.is_memory and not db.memory_name):
        return []
    found: list[Summary] = []
    for one in latest(await written(datasette, db, table)):
        summary = await _summary(datasette, db, table, one) if one.outcome_column is not None else None
        if summary is not None:
            found.append(summary)
        if len(found) == SHOWN_ENRICHMENTS:
            break
    return found


def latest(jobs: Iterable[Written]) -> Iterator[Written]:
    """Of jobs, newest first, the newest of each enrichment and place that has answered a row."""
    seen: set[tuple[str, str | None, str]] = set()
    for one in jobs:
        mark = (one.enrichment.slug, one.outcome_column, one.output)
        if mark not in seen and one.job.done_count:
            seen.add(mark)
            yield one


async def _summary(datasette: Any, db: Any, table: str, one: Written) -> Summary | None:
    links, column = Links(datasette), one.outcome_column or ""
    counts, as_of = await _counts(db, table, column, one)
    if not any(word is not None for word in counts):
        return None

    def address(word: str) -> str:
        if as_of is None:
            return links.table(db.name, table, column_filter(column, word))
        return links.table(db.name, table, urlencode({"_ingest_status": word, "_ingest_job": as_of}))

    ranked = sorted(
        ((word, number) for word, number in counts.items() if word is not None),
        key=lambda each: (each[0] != "success", -each[1], each[0]),
    )
    words = tuple(Word(word, number, address(word)) for word, number in ranked[:SHOWN_WORDS] if word != "error")
    blank = counts.get(None)
    return Summary(
        one.enrichment.name,
        words,
        Word("", blank, links.table(db.name, table, urlencode({f"{column}__isnull": 1}))) if blank else None,
        max(0, len(ranked) - SHOWN_WORDS),
        links.table(db.name, table, urlencode({"_facet": column})) if as_of is None else None,
        as_of,
        links.job(db.name, as_of) if as_of is not None else None,
    )


async def _counts(db: Any, table: str, column: str, one: Written) -> tuple[Mapping[Any, int], int | None]:
    """How many rows have each word (None: without one), and the job that counted them, if they are not counted now."""
    counted = await _count(db, table, column) if one.output == "columns" else None
    return (one.job.outcomes, one.job.id) if counted is None else (counted, None)


async def _count(db: Any, table: str, column: str) -> dict[str | None, int] | None:
    """How many rows hold each word; None where that cannot be said at once."""
    slow = _SLOW.setdefault(db, {})
    if time.monotonic() - slow.get((table, column), -SLOW_SECONDS) < SLOW_SECONDS:
        return None

    def count(conn: sqlite3.Connection) -> dict[str | None, int]:
        name = qualified(table, column)
        rows = conn.execute(f"select {name}, count(*) from {quote(table)} group by 1").fetchall()
        return {None if row[0] is None else str(row[0]): row[1] for row in rows}

    try:
        return await compat.read(db, count, limit_ms=COUNT_MS)
    except compat.Interrupted:
        slow[table, column] = time.monotonic()
        return None
    except sqlite3.Error:  # the column is gone
        return {}
