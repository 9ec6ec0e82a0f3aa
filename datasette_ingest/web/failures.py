"""Why rows were missed: by reason on a job's page, and of one row above it on its own page."""

from __future__ import annotations

import logging
import sqlite3
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from .. import compat
from ..jobs.errors import JobError
from ..jobs.model import Evidence, Job, JobStatus
from ..jobs.service import control, failures
from ..jobs.service.failures import Explained
from . import access, api, format, outcomes
from .job_view import row_links
from .outcomes import Written
from .urls import Links

log = logging.getLogger(__name__)

JOB_MS = 150.0
"""How long a job's page may wait for the reasons."""
ROW_MS = 50.0
"""How long a row's page may wait for its own."""
SHOWN_REASONS = 10
LINKED_ROWS = 12


@dataclass(frozen=True)
class Why:
    """The reasons of a job's missed rows, the most frequent first; None where finding out takes too long. `others`: how
    many more reasons there are; `looked_at`: the rows that were looked at, if those were not all. `is_whole_table`: the
    job's filters do not find its rows any more, so all missed rows of the table count."""

    reasons: list[dict[str, Any]] | None
    others: int = 0
    looked_at: int | None = None
    is_whole_table: bool = False


async def of_job(
    datasette: Any, database: str, job: Job, actor: access.Actor, addresses: Mapping[str, str | None]
) -> Why | None:
    """Why the job missed rows, once it no longer works; None where nothing more than the outcome is known of any.

    :param addresses: outcome -> the page of its rows
    """
    is_still = job.status.is_final or job.status is JobStatus.PAUSED
    if not is_still or not api.parts(job)["other"]:
        return None
    if job.error_count > control.EXACTLY_COUNTED_ERRORS:
        return Why(None)
    try:
        rows = await control.missed_rows(datasette, database, job, actor=dict(actor) if actor is not None else None)
        found = await failures.reasons(datasette.databases[database], rows, keys=LINKED_ROWS, limit_ms=JOB_MS)
    except (JobError, sqlite3.Error) as problem:  # the table has changed since; its job is shown all the same
        log.debug("the reasons of job %s in %s are not known: %s", job.id, database, problem)
        return None
    if found is None:
        return Why(None)
    if not any(reason.message for reason in found.reasons):
        return None
    links = Links(datasette)
    single = Counter(reason.outcome for reason in found.reasons)
    shown = [
        {
            "outcome": reason.outcome,
            "message": format.sentence(reason.message or ""),
            "count": reason.count,
            "rows": row_links(links, database, job.table_name, reason.keys),
            "more": reason.count - len(reason.keys),
            "more_url": addresses.get(reason.outcome) if single[reason.outcome] == 1 else None,
        }
        for reason in found.reasons[:SHOWN_REASONS]
    ]
    return Why(shown, len(found.reasons) - len(shown), None if found.is_all else found.looked_at, not rows.is_narrowed)


async def of_row(datasette: Any, actor: access.Actor, database: str, table: str, path: str) -> list[dict[str, Any]]:
    """What each enrichment missed in this row: outcome, message, links to what is behind it, and to another try.

    :param path: the row's key as it stands in the address of its page
    """
    found: list[dict[str, Any]] = []
    for one in outcomes.latest(await outcomes.written(datasette, datasette.databases[database], table)):
        told = await _explained(datasette, actor, database, one, path)
        if told is not None:
            found.append(told)
        if len(found) == outcomes.SHOWN_ENRICHMENTS:
            break
    return found


async def _explained(
    datasette: Any, actor: access.Actor, database: str, one: Written, path: str
) -> dict[str, Any] | None:
    db, picked = datasette.databases[database], f"_row={quote(path, safe='')}"
    plain = dict(actor) if actor is not None else None
    try:
        told = await failures.explained(datasette, db, one.job, plain, picked, limit_ms=ROW_MS)
    except Exception as problem:  # noqa: BLE001 - a stranger's code may fail: the row's own page is shown all the same
        log.debug("what %s missed in the row %s of %s is not known: %s", one.enrichment.slug, path, database, problem)
        return None
    if told is None:
        return None
    links = Links(datasette)
    return {
        "name": one.enrichment.name,
        "outcome": told.outcome,
        "message": format.sentence(told.message or ""),
        "links": await _evidence(datasette, plain, database, told),
        "again_url": links.again(database, one.job.table_name, one.enrichment.slug, picked, one.job.id, is_retry=True),
    }


async def _evidence(
    datasette: Any, actor: dict[str, Any] | None, database: str, told: Explained
) -> list[dict[str, str]]:
    """Links to the rows of other tables that tell more, as far as the actor may see them."""
    links = Links(datasette)
    return [
        {"label": evidence.label, "url": links.table(database, evidence.table, _query(evidence, values))}
        for evidence, values in told.evidence
        if await compat.can_view(datasette, actor, database, evidence.table)
    ]


def _query(evidence: Evidence, values: dict[str, Any]) -> str:
    pairs = [(f"{name}__exact", value) for name, value in values.items()]
    return urlencode([*pairs, *([("_sort", evidence.sort)] if evidence.sort else [])], errors="surrogatepass")
