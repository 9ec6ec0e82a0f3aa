"""Which kept files the tables of a database name: a hit its body, and rows of facts what was made of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...sqlite import made, quote
from ..schema import TABLES
from ..types import INGEST_TYPES

BODIES = ("file_meta", "ingest_file_result")
"""The tables that name bodies."""
THUMBNAILS = ("ingest_thumbnail",)


@dataclass(frozen=True)
class NamedBody:
    """What the tables know of a body."""

    size: int | None = None
    mimetype: str | None = None


def standing(conn: sqlite3.Connection, names: Iterable[str]) -> list[str]:
    """The tables of results of these names, also those whose names begin with the `table_prefix` of a job. A user's own
    tables are none of them."""
    ours = sorted(made(conn))
    return [table for name in names for table in ours if table.endswith(name) and TABLES[name].fits(conn, table)]


def named_body(conn: sqlite3.Connection, tables: Sequence[str], sha1hex: str) -> NamedBody | None:
    """What is known of the body of this SHA-1; None where none of the tables names it.

    :param tables: from `standing`, of BODIES
    """
    is_named = False
    for table in tables:
        if table.endswith(BODIES[0]):
            sql = f"select size_bytes, mimetype from {quote(table)} where sha1hex = ?"
            found = conn.execute(sql, [sha1hex]).fetchone()
            if found is not None:
                return NamedBody(*found)
        else:
            sql = f"select 1 from {quote(table)} where terminal_sha1hex = ? and hit = 1 limit 1"
            is_named = is_named or conn.execute(sql, [sha1hex]).fetchone() is not None
    return NamedBody() if is_named else None


def thumbnail(conn: sqlite3.Connection, tables: Sequence[str], sha1hex: str) -> bytes | None:
    """The picture of the first page of the file of this SHA-1.

    :param tables: from `standing`, of THUMBNAILS
    """
    for table in tables:
        found = conn.execute(f"select content from {quote(table)} where sha1hex = ?", [sha1hex]).fetchone()
        if found is not None and isinstance(found[0], bytes):
            return found[0]
    return None


def names(conn: sqlite3.Connection) -> Iterator[tuple[str, int | None]]:
    """(SHA-1, size in bytes if it is known) of every body that the tables name. One may come more than once."""
    for table in standing(conn, BODIES):
        if table.endswith(BODIES[0]):
            yield from conn.execute(
                f"select cast(sha1hex as text), cast(size_bytes as integer) from {quote(table)} where sha1hex is not null"
            )
        else:
            yield from conn.execute(
                f"select cast(terminal_sha1hex as text), null from {quote(table)} where {_HAS_BODY}"
            )


def wanted(conn: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """(kind, SHA-1) of every file that should be kept where there was a store from the beginning. As above."""
    for name, kind, column, condition in (
        ("ingest_file_result", "body", "terminal_sha1hex", _HAS_BODY),
        ("xml_meta", "xml", "sha1hex", "status = 'success'"),
        ("grobid", "tei", "sha1hex", "xml_url is not null"),
    ):
        for table in standing(conn, [name]):
            sql = f"select '{kind}', cast({column} as text) from {quote(table)} where {condition} and {column} is not null"
            yield from conn.execute(sql)


_OF_ONE_FILE = ", ".join(repr(name) for name, kind in INGEST_TYPES.items() if kind.mimetypes)
_HAS_BODY = f"hit = 1 and terminal_sha1hex is not null and ingest_type in ({_OF_ONE_FILE})"
