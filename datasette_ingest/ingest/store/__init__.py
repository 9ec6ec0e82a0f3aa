"""The tables of results. Every function takes an open connection, and neither commits nor awaits."""

from __future__ import annotations

import sqlite3
from datetime import datetime

from ...sqlite import iso_utc
from ..cells import cell_key
from ..facts import FileMeta
from ..model import IngestResult
from ..schema import stands
from ..types import tables_of
from .candidates import write_candidates
from .facts import stored_fact
from .filesets import TABLE as FILESET_TABLE
from .filesets import write_fileset
from .requests import further_fields, write_request
from .results import (
    OF_SETTINGS_SQL,
    StoredResult,
    count_fresh,
    has_result_of,
    has_results,
    is_fresh,
    keeps_hit,
    stored_result,
    write_file_result,
)

__all__ = [
    "OF_SETTINGS_SQL",
    "StoredResult",
    "count_fresh",
    "further_fields",
    "has_results",
    "is_fresh",
    "keeps_hit",
    "stored_fact",
    "stored_result",
    "write",
    "write_request",
]


def write(
    conn: sqlite3.Connection, result: IngestResult, *, job_id: int | None, now: datetime, is_shared: bool = False
) -> None:
    """Record what happened to one URL. The tables exist: `schema.migrate`, for datasets FILESET_TABLES, too.

    :param now: when the result came
    :param is_shared: several rows bring this result, with the same job and time: the first one writes it

    A failure that may pass never hides a hit: it is recorded beside the hit, whose page, candidates and files stay. A
    blank cell writes nothing, for there is no URL to key it by.
    """
    base_url = cell_key(result.request.base_url)
    if base_url is None:
        return
    key = {"ingest_type": result.request.ingest_type, "base_url": base_url}
    if is_shared and has_result_of(conn, key, job_id=job_id, now=now):
        return
    updated = iso_utc(now)
    for fact in result.file_facts:
        # A cell may hold the address of a capture where no archive is asked otherwise, and there is no table for it.
        if isinstance(fact, FileMeta) or stands(conn, fact.table):
            fact.write(conn, updated=updated)
    if not write_file_result(conn, key, result, job_id=job_id, now=now):
        return
    if result.html_meta is not None:
        result.html_meta.write(conn, updated=updated)
    write_candidates(conn, key, result.candidates)
    if FILESET_TABLE in tables_of(result.request.ingest_type):
        write_fileset(conn, key, result.fileset)
