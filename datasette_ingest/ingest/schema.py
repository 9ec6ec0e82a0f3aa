"""The tables and views of results. One is created when a job that writes it begins."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, cast

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
        later={"m002_pushed": {"pushed": "text"}},
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
        later={
            "m002_landing_page": {"landing_sha1hex": "text"},
            "m003_archive": {"archive_url": "text", "sources": "text", "hop_sources": "text"},
            "m004_sequence": {"seq": "integer"},
            "m005_sequence_index": "create index if not exists idx_ingest_file_result_seq on ingest_file_result (seq)",
        },
    ),
    "ingest_link": TableSpec(
        {
            "base_url": "text primary key",
            "checked": "text not null",
            "status": "text not null",
            "url": "text",
            "status_code": "integer",
            "fragment": "text",
            "reason": "text",
            "archive_url": "text",
            "attempts": "integer not null default 1",
            "next_try": "text",
            "job_id": "integer",
        },
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
        later={"m002_processor": {"processor": "text"}},
    ),
    "pdf_meta": TableSpec(
        {
            "sha1hex": "text primary key",
            "updated": "text",
            "status": "text",
            "has_page0_thumbnail": "integer",
            "page_count": "integer",
            "word_count": "integer",
            "page0_height": "real",
            "page0_width": "real",
            "permanent_id": "text",
            "pdf_created": "text",
            "pdf_version": "text",
            "metadata": "text",
            "processor": "text",
        },
    ),
    "xml_meta": TableSpec(
        {
            "sha1hex": "text primary key",
            "updated": "text",
            "status": "text",
            "dialect": "text",
            "encoding": "text",
            "word_count": "integer",
            "biblio": "text",
            "processor": "text",
        },
    ),
    "grobid": TableSpec(
        {
            "sha1hex": "text primary key",
            "updated": "text",
            "grobid_version": "text",
            "status_code": "integer",
            "status": "text",
            "fatcat_release": "text",
            "metadata": "text",
            "xml_url": "text",
            "processor": "text",
        },
    ),
    "ingest_thumbnail": TableSpec(
        {
            "sha1hex": "text primary key",
            "mimetype": "text",
            "width": "integer",
            "height": "integer",
            "content": "blob",
        },
    ),
    "ingest_fulltext": TableSpec(
        {"id": "integer primary key", "sha1hex": "text unique", "text": "text"},
        later={
            "m002_index": """create virtual table if not exists ingest_fulltext_fts using fts5(
  text, content="ingest_fulltext", content_rowid="id", tokenize="unicode61 remove_diacritics 2")""",
            "m003_indexed": "insert into ingest_fulltext_fts (ingest_fulltext_fts) values ('rebuild')",
            "m004_inserted": """create trigger if not exists ingest_fulltext_inserted after insert on ingest_fulltext begin
  insert into ingest_fulltext_fts (rowid, text) values (new.id, new.text);
end""",
            "m005_deleted": """create trigger if not exists ingest_fulltext_deleted after delete on ingest_fulltext begin
  insert into ingest_fulltext_fts (ingest_fulltext_fts, rowid, text) values ('delete', old.id, old.text);
end""",
            "m006_updated": """create trigger if not exists ingest_fulltext_updated after update on ingest_fulltext
when old.id is not new.id or old.text is not new.text begin
  insert into ingest_fulltext_fts (ingest_fulltext_fts, rowid, text) values ('delete', old.id, old.text);
  insert into ingest_fulltext_fts (rowid, text) values (new.id, new.text);
end""",
        },
    ),
    "cdx": TableSpec(
        {
            "url": "text",
            "datetime": "text",
            "sha1hex": "text",
            "cdx_sha1hex": "text",
            "mimetype": "text",
            "warc_path": "text",
            "warc_csize": "integer",
            "warc_offset": "integer",
        },
        primary_key=("url", "datetime"),
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
    "_enrichment_loaded_from": TableSpec({"table_name": "text primary key"}),
    "_enrichment_topic_offset": TableSpec(
        {
            "reader": "text not null",
            "topic": "text not null",
            "partition": "integer not null",
            "next_offset": "integer not null",
            "mark": "text",
        },
        primary_key=("reader", "topic", "partition"),
    ),
    "_enrichment_result_try": TableSpec(
        {
            "ingest_type": "text not null",
            "base_url": "text not null",
            "place": "text not null",
            "is_row": "integer",
            "content": "blob",
        },
        primary_key=("ingest_type", "base_url", "place"),
    ),
    "_enrichment_fleet_request": TableSpec(
        {
            "ticket": "text primary key",
            "job_id": "integer",
            "digest": "text",
            "request": "text",
            "published": "text",
            "claimed_until": "text",
        },
        indexes={
            "idx_enrichment_fleet_request_digest": "digest",
            "idx_enrichment_fleet_request_published": "published",
        },
    ),
    "_enrichment_fleet_row": TableSpec(
        {"ticket": "text primary key", "request": "text", "job_id": "integer"},
        indexes={"idx_enrichment_fleet_row_request": "request"},
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
    "ingest_documents": ViewSpec(
        reads=("ingest_fulltext", "ingest_file_result", "file_meta", "html_meta", "pdf_meta", "xml_meta"),
        select="""select t.id, r.ingest_type, r.base_url, r.terminal_url, r.terminal_dt, t.sha1hex, f.mimetype, f.size_bytes,
  coalesce(
    case when json_valid(l.biblio) then json_extract(l.biblio, '$.title') end,
    case when json_valid(x.biblio) then json_extract(x.biblio, '$.title') end,
    case when json_valid(h.biblio) then json_extract(h.biblio, '$.title') end,
    case when json_valid(p.metadata) then json_extract(p.metadata, '$.title') end
  ) as title,
  p.page_count, coalesce(p.word_count, x.word_count, h.word_count) as word_count, substr(t.text, 1, 300) as beginning
from ingest_fulltext t
join ingest_file_result r on r.terminal_sha1hex = t.sha1hex and r.hit = 1
left join file_meta f on f.sha1hex = t.sha1hex
left join html_meta l on l.sha1hex = r.landing_sha1hex
left join xml_meta x on x.sha1hex = t.sha1hex
left join html_meta h on h.sha1hex = t.sha1hex
left join pdf_meta p on p.sha1hex = t.sha1hex""",
    ),
}

RESULT_TABLES = ("ingest_file_result", "ingest_candidate", "file_meta", "html_meta")
"""What writing one result needs."""
LINK_TABLES = ("ingest_link",)
"""What checking links needs."""
ARCHIVE_TABLES = ("cdx",)
"""What writing the results of an archive needs beside them."""
FILESET_TABLES = ("ingest_fileset",)
"""What writing one dataset's result needs beside them."""
DOCUMENT_TABLES = ("pdf_meta", "xml_meta", "grobid", "ingest_fulltext", "ingest_thumbnail")
"""What is read from the files themselves: each only where a processor writes it."""
FACTS_IN_RESULTS = ("pdf_meta", "xml_meta", "grobid", "cdx")
"""Further facts that the JSON of a result has."""
VIEWS_OF = {"ingest_fulltext": "ingest_documents"}
"""Table -> the view that is made with it."""
REQUEST_TABLES = ("ingest_request", "ingest_pending", "ingest_hits")
"""What recording requests needs beside the tables of results."""
PERSIST_TABLES = (
    *RESULT_TABLES,
    *ARCHIVE_TABLES,
    *FILESET_TABLES,
    *DOCUMENT_TABLES,
    *VIEWS_OF.values(),
    *REQUEST_TABLES,
    "_enrichment_topic_offset",
    "_enrichment_result_try",
)
"""What results of any kind need that come from a topic."""
FLEET_TABLES = ("_enrichment_topic_offset", "_enrichment_fleet_request", "_enrichment_fleet_row")
"""What a job over a fleet needs beside the tables of results."""


def specs(names: Iterable[str], *, prefix: str = "") -> dict[str, TableSpec | ViewSpec]:
    """The named tables and views, each after the tables that it reads.

    :param prefix: begins the name that each has in the database
    :raises KeyError: for an unknown name
    """
    found: dict[str, TableSpec | ViewSpec] = {}
    for name in names:
        if name in VIEWS:
            found |= {table: TABLES[table] for table in VIEWS[name].reads} | {name: VIEWS[name]}
        else:
            found[name] = TABLES[name]
    return {prefix + name: _under_prefix(spec, prefix) for name, spec in found.items()}


# ---- under other names -------------------------------------------------------------------------------------------
# Where a user's own tables have our names, a job may give its tables a prefix (`table_prefix`). The SQL in `store` is
# written with the plain names; on a connection from `under_prefix` they mean the tables with the prefix.


def under_prefix(conn: sqlite3.Connection, prefix: str) -> sqlite3.Connection:
    """The connection for functions of `store`, which then read and write the tables whose names begin with the prefix."""
    return cast(sqlite3.Connection, _PrefixedTables(conn, prefix)) if prefix else conn


def name_of(conn: sqlite3.Connection, name: str) -> str:
    """What a table or view of ours is called on this connection."""
    return (conn.prefix if isinstance(conn, _PrefixedTables) else "") + name


def stands(conn: sqlite3.Connection, name: str) -> bool:
    """Whether this table is there, and not a user's own of its name."""
    return TABLES[name].fits(conn, name_of(conn, name))


class _PrefixedTables:
    def __init__(self, conn: sqlite3.Connection, prefix: str) -> None:
        self._conn = conn
        self.prefix = prefix

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        return self._conn.execute(_with_prefix(sql, self.prefix), *args)

    def create_function(self, *args: Any, **kwargs: Any) -> None:
        self._conn.create_function(*args, **kwargs)

    def executemany(self, sql: str, rows: Iterable[Any]) -> sqlite3.Cursor:
        return self._conn.executemany(_with_prefix(sql, self.prefix), rows)


_PARTS = [part for spec in TABLES.values() for part in spec.part_names]
_OUR_NAMES = re.compile(rf"\b(?:{'|'.join([*TABLES, *VIEWS, *_PARTS])})\b")
_INDEX_NAME = re.compile(r"(?<=index if not exists )\w+")


@lru_cache
def _with_prefix(sql: str, prefix: str) -> str:
    return _OUR_NAMES.sub(lambda name: prefix + name[0], sql)


def _under_prefix(spec: TableSpec | ViewSpec, prefix: str) -> TableSpec | ViewSpec:
    if isinstance(spec, ViewSpec):
        return ViewSpec(tuple(prefix + name for name in spec.reads), _with_prefix(spec.select, prefix), spec.step)
    later = {
        step: _INDEX_NAME.sub(lambda name: prefix + name[0], _with_prefix(change, prefix))
        if isinstance(change, str)
        else change
        for step, change in spec.later.items()
    }
    indexes = {prefix + name: indexed for name, indexed in spec.indexes.items()}
    return TableSpec(spec.columns, spec.primary_key, indexes, later)


def migrate(conn: sqlite3.Connection, names: Iterable[str] = RESULT_TABLES) -> None:
    """Create the named tables and views, or bring them up to date; see sqlite.migrate."""
    sqlite.migrate(conn, specs(names))
