"""An earlier job's settings and picked rows, for the form that starts another job like it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..jobs.enrichment import Enrichment
from ..jobs.errors import JobError
from ..jobs.service import control
from . import ticked_rows
from .responses import number_of


@dataclass(frozen=True)
class Settings:
    """The enrichment's settings and the job's own options, by name; `picked`: the rows that the job was about, where
    they were picked one by one."""

    config: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    picked: tuple[str, ...] = ()


async def settings(datasette: Any, request: Any, database: str, table: str, enrichment: Enrichment) -> Settings:
    """Those of the job that `?_again=` names, or that a retry of the job `?_retry=` would have; none where none is
    named.

    :raises JobNotFound: when there is no such job, or none that the actor may see
    :raises JobError: for a job over another table or of another enrichment
    """
    name = "_retry" if "_retry" in request.args else "_again"
    job_id = number_of(request.args.get(name), name)
    if job_id is None:
        return Settings()
    job = await control.find(datasette, database, job_id, actor=request.actor)
    if (job.table_name, job.enrichment) != (table, enrichment.slug):
        raise JobError(f"{name}: job {job_id} is about other rows: {job.enrichment} over {job.table_name}")
    config = enrichment.retry_config(job.config, ["misses"]) if name == "_retry" else job.config
    return Settings(config, job.options.as_dict(), ticked_rows.only_picks(job.filter_querystring))
