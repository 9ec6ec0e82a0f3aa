"""Makes a runner's plan from a stored job, checked against the tables as they are now."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable
from typing import Any

import pydantic

from ... import sqlite
from .. import keyset, owned_tables
from ..enrichment import Enrichment
from ..errors import BadSelection
from ..model import Job
from ..owner import Liveness
from ..selection import Selection
from . import cycle
from .cycle import Plan
from .output import RowTarget, ShadowTarget, Target, check_columns


def stored_config(job: Job, enrichment: Enrichment) -> Any:
    """The job's settings as the enrichment's Config.

    :raises BadSelection: when they do not fit, as after an upgrade of the enrichment
    """
    try:
        return enrichment.Config(**job.config)
    except pydantic.ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadSelection(f"The stored settings do not fit {enrichment.slug}: {where}: {first['msg']}") from None


def make_plan(
    conn: sqlite3.Connection,
    job: Job,
    enrichment: Enrichment,
    config: Any,
    *,
    owner: str,
    lease_seconds: float,
    liveness: Callable[[str], Liveness],
) -> Plan:
    """
    :raises BadSelection: when the table, a column or the job's position no longer is what the job needs
    :raises BadConfig: when a column that it writes cannot be written
    :raises TableTaken: when a user has made a table of the shadow table's name
    """
    if job.damage is not None:
        raise BadSelection(job.damage)
    present = sqlite.columns(conn, job.table_name)
    if not present:
        raise BadSelection(f"The table {job.table_name!r} is gone: it was dropped or renamed")
    if job.next_cursor:
        try:
            keyset.load(job.next_cursor)
        except ValueError:
            raise BadSelection(f"The job's stored position cannot be read: {job.next_cursor[:80]!r}") from None
    selection = stored_selection(job)
    require_columns(job.table_name, present, selection.columns)
    key = keyset.table_key(conn, job.table_name)
    keyset.require_key(conn, job.table_name, job.table_key)
    target = open_target(conn, key, enrichment, config, job.options.output)
    return Plan(
        job_id=job.id,
        key=key,
        columns=columns_to_read(job.table_name, present, enrichment, config),
        where=selection.where,
        params=dict(selection.params),
        is_free_sql=selection.is_free_sql,
        batch_size=job.options.batch_size or enrichment.batch_size,
        max_open_batches=job.options.max_open_batches or enrichment.max_open_batches,
        max_errors=enrichment.default_max_errors if job.options.max_errors is None else job.options.max_errors,
        target=target,
        owner=owner,
        lease_seconds=lease_seconds,
        liveness=liveness,
        schema_version=cycle.schema_version(conn),
        max_deferred_rows=enrichment.most_deferred_rows(config),
        column_types=enrichment.column_types(config),
        origin=job.origin,
    )


def open_target(
    conn: sqlite3.Connection, key: keyset.TableKey, enrichment: Enrichment, config: Any, output: str | None
) -> Target:
    """Where a job with these settings writes, checked as far as it is known before its first row.

    :param output: what the job's options say of it; None leaves it to the enrichment
    :raises BadConfig: when a column that it writes cannot be written
    :raises TableTaken: when a user has made a table of the shadow table's name
    """
    is_shadow = (output or enrichment.output(config)) == "shadow"
    target = ShadowTarget(key) if is_shadow else RowTarget(key)
    if is_shadow:
        owned_tables.check_shadow(conn, key.table)
    outcome = enrichment.outcome_column(config)
    named = [*enrichment.column_types(config), *([] if outcome is None else [outcome])]
    check_columns(conn, target, list(dict.fromkeys(named)))
    return target


def stored_selection(job: Job) -> Selection:
    """The job's filters as checked SQL.

    :raises BadSelection: where they were never checked
    """
    if job.selection:
        return Selection.load(job.selection, job.filter_querystring)
    if job.filter_querystring:
        raise BadSelection("The job was added without its filters being checked: start it again")
    return Selection()


def columns_to_read(table: str, present: Collection[str], enrichment: Enrichment, config: Any) -> tuple[str, ...]:
    """The columns that the enrichment reads: those that it asks for, or all that are `present` in the table.

    :raises BadSelection: for one that the table does not have
    """
    asked = enrichment.columns(config)
    columns = tuple(present if asked is None else dict.fromkeys(asked))
    require_columns(table, present, columns)
    return columns


def require_columns(table: str, present: Collection[str], names: Iterable[str]) -> None:
    """Refuse a column that is gone: SQLite would read its quoted name as a string.

    :raises BadSelection:
    """
    folded = set(map(sqlite.fold, present))
    for name in names:
        if sqlite.fold(name) not in folded:
            raise BadSelection(f"The table {table!r} has no column {name!r}")
