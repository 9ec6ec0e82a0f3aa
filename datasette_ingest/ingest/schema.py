"""The tables of results: their columns as data, and the migrations that create them when they are first needed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlite_utils import Database, Migrations


@dataclass(frozen=True)
class TableSpec:
    """A table of ours: column definitions in order, its key, and the columns that want an index."""

    columns: Mapping[str, str]
    primary_key: tuple[str, ...] = ()
    """Empty where a column definition says `primary key` itself."""
    indexes: tuple[str, ...] = ()

    def create_sql(self, name: str) -> str:
        parts = [f"[{column}] {definition}" for column, definition in self.columns.items()]
        if self.primary_key:
            parts.append(f"primary key ({', '.join(f'[{column}]' for column in self.primary_key)})")
        return f"create table if not exists [{name}] (\n  " + ",\n  ".join(parts) + "\n)"


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
            "landing_sha1hex": "text",
        },
        primary_key=("ingest_type", "base_url"),
        indexes=("terminal_url", "terminal_sha1hex"),
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
}
"""Name -> table. A table is created when something is first written to it."""

VIEWS: dict[str, tuple[tuple[str, ...], str]] = {
    "ingest_pending": (
        ("ingest_request", "ingest_file_result"),
        """create view if not exists ingest_pending as
select q.* from ingest_request q
left join ingest_file_result r on r.ingest_type = q.ingest_type and r.base_url = q.base_url
where r.base_url is null or r.next_try <= strftime('%Y-%m-%dT%H:%M:%SZ', 'now')""",
    ),
    "ingest_hits": (
        ("ingest_request", "ingest_file_result", "file_meta"),
        """create view if not exists ingest_hits as
select q.ingest_type, q.base_url, q.source, q.source_id, q.actor, q.created, q.release_stage, q.request,
  r.updated, r.terminal_url, r.terminal_dt, r.terminal_status_code, r.terminal_sha1hex, r.warnings, r.via,
  f.sha256hex, f.md5hex, f.size_bytes, f.mimetype
from ingest_file_result r
join ingest_request q on q.ingest_type = r.ingest_type and q.base_url = r.base_url
left join file_meta f on f.sha1hex = r.terminal_sha1hex
where r.hit = 1""",
    ),
}
"""Name -> the tables it reads and its SQL."""

RESULT_TABLES = ("ingest_file_result", "ingest_candidate", "file_meta", "html_meta")
"""What writing one result needs."""
FILESET_TABLES = ("ingest_fileset",)
"""What writing one dataset's result needs beside them."""


def migrate(conn: sqlite3.Connection, names: Iterable[str] = RESULT_TABLES) -> None:
    """Create the named tables and views, or add what an existing table of that name lacks.

    Runs inside the caller's transaction if one is open and leaves it open; without one, each step is a transaction
    of its own. Unknown names are a KeyError.
    """
    db = Database(conn, recursive_triggers=False, execute_plugins=False)
    for name in names:
        for needed in (*(VIEWS[name][0] if name in VIEWS else ()), name):
            _apply(db, needed)


def _apply(db: Database, name: str) -> None:
    migrations = _migrations(name)
    present = db.conn.execute("select 1 from sqlite_master where name = ?", [name]).fetchone()
    if present is None and migrations.applied(db):
        # Somebody dropped it: its history begins anew.
        db.execute("delete from _sqlite_migrations where migration_set = ?", [migrations.name])
    migrations.apply(db)


def _migrations(name: str) -> Migrations:
    """The history of one table or view. A table that has grown by columns since it was made gets them in a step that
    is named after their number; other changes are appended here."""
    migrations = Migrations(f"datasette_ingest.{name}")

    if name in VIEWS:

        def create_view(db: Database) -> None:
            db.conn.execute(VIEWS[name][1])

        migrations(name="create")(create_view)
        return migrations

    spec = TABLES[name]

    def create_table(db: Database) -> None:
        db.conn.execute(spec.create_sql(name))
        _add_missing_columns(db.conn, name, spec)
        _add_missing_key(db.conn, name, spec)
        for column in spec.indexes:
            db.conn.execute(f"create index if not exists [idx_{name}_{column}] on [{name}] ([{column}])")

    def add_columns(db: Database) -> None:
        _add_missing_columns(db.conn, name, spec)

    migrations(name="create")(create_table)
    migrations(name=f"{len(spec.columns)} columns")(add_columns)
    return migrations


def _add_missing_columns(conn: sqlite3.Connection, name: str, spec: TableSpec) -> None:
    present = {str(row[0]).lower() for row in conn.execute("select name from pragma_table_info(?)", [name])}
    for column, definition in spec.columns.items():
        if column not in present:
            # SQLite adds neither a key nor a NOT NULL without a default to rows that exist.
            kind = definition.split()[0] if "not null" in definition and "default" not in definition else definition
            conn.execute(f"alter table [{name}] add column [{column}] {kind.replace(' primary key', '')}")


def _add_missing_key(conn: sqlite3.Connection, name: str, spec: TableSpec) -> None:
    """A table of that name that somebody else made has another key; results are found, and replaced, by ours."""
    key = spec.primary_key or tuple(column for column, kind in spec.columns.items() if "primary key" in kind)
    if set(key) in _unique_columns(conn, name):
        return
    columns = ", ".join(f"[{column}]" for column in key)
    conn.execute(f"create unique index if not exists [idx_{name}_key] on [{name}] ({columns})")


def _unique_columns(conn: sqlite3.Connection, name: str) -> list[set[str]]:
    """The columns, lower-case, of the table's key and of each unique index that holds for all its rows."""
    key = {str(row[0]).lower() for row in conn.execute("select name from pragma_table_info(?) where pk", [name])}
    indexes = conn.execute("select name from pragma_index_list(?) where [unique] and not partial", [name]).fetchall()
    return [key] + [
        {str(row[0]).lower() for row in conn.execute("select name from pragma_index_info(?)", [index[0]])}
        for index in indexes
    ]
