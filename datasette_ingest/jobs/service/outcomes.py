"""Where the outcome words of jobs are written, and which filters still select a job's rows after it."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from ...sqlite import SHADOW_PREFIX, fold
from .. import store
from ..engine.planning import stored_config
from ..enrichment import HIT as HIT
from ..enrichment import Enrichment
from ..enrichment import successes_of as successes_of
from ..model import Job
from ..selection import SCOPE_FILTERS, is_foreign

log = logging.getLogger(__name__)

LATEST_JOBS = 10
"""Jobs of a table that are looked at for what they wrote."""
CHANGING_FILTERS = frozenset({"_where", "_ingest_retry", "_ingest_status", *SCOPE_FILTERS})


@dataclass(frozen=True)
class JobOutput:
    """What a job writes: into `table` (its own or the shadow table) the known `columns`, folded to lower case, among
    them `outcome_column`, which holds each row's outcome word (None: there is no such column), and `code_column`, beside it,
    the number that tells cases of a word apart."""

    job: Job
    enrichment: Enrichment
    table: str
    outcome_column: str | None
    columns: frozenset[str]
    code_column: str | None = None

    @property
    def is_shadow(self) -> bool:
        return self.table != self.job.table_name


def output_of(job: Job, enrichment: Enrichment | None) -> JobOutput | None:
    """What the job writes; None where its enrichment is gone, cannot say, or no longer takes the stored settings."""
    if enrichment is None:
        return None
    try:
        config = stored_config(job, enrichment)
        is_shadow = (job.options.output or enrichment.output(config)) == "shadow"
        outcome, written = enrichment.outcome_column(config), enrichment.column_types(config)
        code = enrichment.code_column(config)
    except Exception:  # another version's settings, a fault of another plugin: pages are shown all the same
        log.debug("what job %s of %s writes is unknown", job.id, job.enrichment, exc_info=True)
        return None
    columns = frozenset(map(fold, [*written, *([outcome] if outcome else [])]))
    return JobOutput(job, enrichment, SHADOW_PREFIX * is_shadow + job.table_name, outcome, columns, code)


def latest_outputs(
    conn: sqlite3.Connection, table: str, enrichments: Mapping[str, Enrichment], *, without: Collection[int] = ()
) -> list[JobOutput]:
    """What the latest jobs over a table write, newest first, without the jobs of these ids."""
    jobs = store.list_jobs(conn, tables=[table], limit=LATEST_JOBS, without=without)
    return [output for job in jobs if (output := output_of(job, enrichments.get(job.enrichment))) is not None]


def newest_of_each(outputs: list[JobOutput]) -> Iterator[JobOutput]:
    """Of outputs, newest first, the newest of each enrichment and outcome column whose job has answered a row."""
    seen: set[tuple[str, str, str | None]] = set()
    for output in outputs:
        mark = (output.enrichment.slug, output.table, output.outcome_column)
        if mark not in seen and output.job.done_count:
            seen.add(mark)
            yield output


def lasting_filters(job: Job, output: JobOutput | None) -> str:
    """The filters of a job, if they select the same rows after it as before: '' where one of them depends on a column
    that the job writes, on what is due, or on a person's SQL or another plugin's filter, which may depend on either; or
    where the reader may not use them."""
    if job.hides_filters:
        return ""
    changing = output.columns if output is not None and not output.is_shadow else frozenset()
    for key, _ in parse_qsl(job.filter_querystring, keep_blank_values=True):
        column = fold(key)
        if key in CHANGING_FILTERS or is_foreign(key) or column in changing or column.rpartition("__")[0] in changing:
            return ""
    return job.filter_querystring


def successes(job: Job) -> int:
    """How many rows of the job are no misses and not in error."""
    return sum(job.outcomes.get(word, 0) for word in successes_of(job.enrichment))
