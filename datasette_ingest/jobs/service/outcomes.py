"""Where a job's outcome words stand, and which of its filters still select the rows that they selected before it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import pydantic

from ...sqlite import SHADOW_PREFIX, fold
from ..enrichment import Enrichment
from ..model import Job

HIT = "success"
"""The engine's own word for a row that went well."""
MOVING_FILTERS = frozenset({"_where", "_ingest_retry", "_ingest_status"})


@dataclass(frozen=True)
class OutcomeHome:
    """The table and column in which each row's outcome stands, and the columns that are known to be written there."""

    table: str
    column: str
    written: frozenset[str]


def stored_config(job: Job, enrichment: Enrichment | None) -> Any:
    """The job's settings as the enrichment's Config; None where it is gone or an older version wrote them."""
    try:
        return enrichment.Config.model_validate(job.config) if enrichment else None
    except pydantic.ValidationError:
        return None


def outcome_home(job: Job, enrichment: Enrichment | None) -> OutcomeHome | None:
    """Where the outcomes of this job stand; None where its enrichment writes none."""
    config = stored_config(job, enrichment)
    if enrichment is None or config is None:
        return None
    output = job.options.output or enrichment.output(config)
    homes = {"columns": job.table_name, "shadow": SHADOW_PREFIX + job.table_name}
    table, column = homes.get(output), enrichment.outcome_column(config)
    if table is None or column is None:
        return None
    return OutcomeHome(table, column, frozenset({column, *enrichment.column_types(config)}))


def lasting_filters(querystring: str, written: Collection[str]) -> str:
    """The filters of a job, if they select the same rows after it as before: '' where one of them depends on a column
    that the job writes, on what is due, or on SQL of a person's own, which may depend on either."""
    changing = {fold(column) for column in written}
    for key, _ in parse_qsl(querystring, keep_blank_values=True):
        column = fold(key)
        if key in MOVING_FILTERS or column in changing or column.rpartition("__")[0] in changing:
            return ""
    return querystring
