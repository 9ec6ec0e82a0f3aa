"""The tables and views of results. One is created when a job that writes it begins."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from .. import sqlite
from ..sqlite import TableSpec, ViewSpec

TABLES: dict[str, TableSpec] = {
    "ingest_request": TableSpec(
        {
            "ingest_type": "text not null",
            "base_url": "text not null",
            "source": "text not null",
            "source_id": "text not null",
            "actor": "text not null default 'unknown'",
            "created": "text not null",
            "release_stage": "text",
            "request": "text",
        },
        primary_key=("ingest_type", "base_url", "source", "source_id"),
    ),
    "ingest_file_result": TableSpec(
        {
            "ingest_type": "text not null",
            "base_url": "text not null",
            "updated": "text not null",
            "hit": "integer not null check (hit in (0, 1))",
            "status": "text not null",
            "terminal_url": "text",
            "terminal_dt": "text",
            "terminal_status_code": "integer",
            "terminal_sha1hex": "text",
            "error_message": "text",
            "warnings": "text",
            "hops": "text",
            "via": "text",
            "attempts": "integer not null default 1",
            "next_try": "text",
            "job_id": "integer",
        },
        primary_key=("ingest_type", "base_url"),
        indexes={
            "idx_ingest_file_result_terminal_url": "terminal_url",
            "idx_ingest_file_result_terminal_sha1hex": "terminal_sha1hex",
        },
        later={"m002_landing_page": {"landing_sha1hex": "text"}},
    ),
    "ingest_candidate": TableSpec(
        {
            "ingest_type": "text",
            "base_url": "text",
            "rank": "integer",
            "url": "text",
            "rule": "text",
            "outcome": "text",
            "status_code": "integer",
            "reason": "text",
        },
        primary_key=("ingest_type", "base_url", "rank"),
    ),
    "file_meta": TableSpec(
        {
            "sha1hex": "text primary key",
            "sha256hex": "text",
            "md5hex": "text",
            "size_bytes": "integer",
            "mimetype": "text",
        },
    ),
    "html_meta": TableSpec(
        {
            "sha1hex": "text primary key",
            "updated": "text",
            "status": "text",
            "scope": "text",
            "word_count": "integer",
            "biblio": "text",
            "resources": "text",
        },
    ),
    "ingest_fileset": TableSpec(
        {
            "ingest_type": "text",
            "base_url": "text",
            "platform": "text",
            "platform_id": "text",
            "file_count": "integer",
            "total_size": "integer",
            "manifest": "text",
        },
        primary_key=("ingest_type", "base_url"),
    ),
    "_enrichment_loaded": TableSpec(
        {
            "digest": "text primary key",
            "lines": "integer",
            "records": "integer",
            "requests": "integer",
            "first_rowid": "integer",
            "last_rowid": "integer",
            "keys": "text",
            "loaded": "text",
        },
    ),
}
VIEWS: dict[str, ViewSpec] = {
    "ingest_pending": ViewSpec(
        reads=("ingest_request", "ingest_file_result"),
        select="""select q.* from ingest_request q
left join ingest_file_result r on r.ingest_type = q.ingest_type and r.base_url = q.base_url
where r.base_url is null or r.next_try <= strftime('%Y-%m-%dT%H:%M:%SZ', 'now')""",
    ),
    "ingest_hits": ViewSpec(
        reads=("ingest_request", "ingest_file_result", "file_meta"),
        select="""select q.ingest_type, q.base_url, q.source, q.source_id, q.actor, q.created, q.release_stage, q.request,
  r.updated, r.terminal_url, r.terminal_dt, r.terminal_status_code, r.terminal_sha1hex, r.warnings, r.via,
  f.sha256hex, f.md5hex, f.size_bytes, f.mimetype
from ingest_file_result r
join ingest_request q on q.ingest_type = r.ingest_type and q.base_url = r.base_url
left join file_meta f on f.sha1hex = r.terminal_sha1hex
where r.hit = 1""",
    ),
}

RESULT_TABLES = ("ingest_file_result", "ingest_candidate", "file_meta", "html_meta")
"""What writing one result needs."""
FILESET_TABLES = ("ingest_fileset",)
"""What writing one dataset's result needs beside them."""
REQUEST_TABLES = ("ingest_request", "ingest_pending", "ingest_hits")
"""What recording requests needs beside the tables of results."""


def specs(names: Iterable[str]) -> dict[str, TableSpec | ViewSpec]:
    """The named tables and views, each after the tables that it reads.

    :raises KeyError: for an unknown name
    """
    found: dict[str, TableSpec | ViewSpec] = {}
    for name in names:
        if name in VIEWS:
            found |= {table: TABLES[table] for table in VIEWS[name].reads} | {name: VIEWS[name]}
        else:
            found[name] = TABLES[name]
    return found


def migrate(conn: sqlite3.Connection, names: Iterable[str] = RESULT_TABLES) -> None:
    """Create the named tables and views, or bring them up to date; see sqlite.migrate."""
    sqlite.migrate(conn, specs(names))
