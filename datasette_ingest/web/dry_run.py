"""A few rows tried from the form: run while somebody waits, called off when they leave, shown as a page says it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from ..jobs.enrichment import Enrichment
from ..jobs.errors import JobError
from ..jobs.model import dollars
from ..jobs.service import dry_run
from ..jobs.service.dry_run import Trial, TriedRow
from ..sqlite import SHADOW_PREFIX
from . import access, format, responses
from .urls import Links, row_path

T = TypeVar("T")


class Gone(JobError):
    """Whoever asked has closed the connection: nobody reads the answer."""


async def run(
    datasette: Any,
    request: Any,
    target: access.Target,
    enrichment: Enrichment,
    filters: str,
    config: Mapping[str, Any],
) -> dict[str, Any]:
    """Try the first rows; what the template shows of it.

    :raises JobError: when such a job could not be started either
    """
    tried = await dry_run.try_rows(
        datasette,
        target.database,
        target.table,
        enrichment=enrichment,
        filters=filters,
        config=config,
        actor=request.actor,
    )
    return shown(Links(datasette), target, tried)


async def until_gone(request: Any, work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns; it is called off when the client closes the connection.

    :raises Gone: then
    """
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(responses.left(request))
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Gone("The trial was called off")
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.wait([working, leaving])


def shown(links: Links, target: access.Target, tried: Trial) -> dict[str, Any]:
    """The trial as the page shows it: cells for reading, rows linked to their pages."""
    return {
        "rows": [_row(links, target, row) for row in tried.rows],
        "stopped": tried.stopped,
        "cost": dollars(tried.cost_nanodollars) if tried.cost_nanodollars else None,
        "place": f"into the table {SHADOW_PREFIX}{target.table}" if tried.output == "shadow" else "onto the row",
        "is_shadow": tried.output == "shadow",
    }


def _row(links: Links, target: access.Target, row: TriedRow) -> dict[str, Any]:
    return {
        "key": row_path(row.key) or format.cell(str(row.key)),
        "url": links.row(target.database, target.table, row.key),
        "outcome": row.outcome,
        "error": row.error,
        "values": [
            {
                "name": name,
                "value": format.cell(value),
                "is_empty": value is None,
                "is_new": name not in row.before,
                "is_changed": name in row.before and row.before[name] != value,
                "before": format.cell(row.before.get(name)),
            }
            for name, value in row.values.items()
        ],
    }
