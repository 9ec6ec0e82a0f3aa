"""ingest_request: who said that a file is at a URL."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias

from ...sqlite import iso_utc
from ..cells import cell_key
from ..json_object import json_text
from ..model import IngestRequest

TABLE = "ingest_request"
COLUMNS = ("ingest_type", "base_url", "source", "source_id", "actor", "created", "release_stage", "request")
KEY = COLUMNS[:4]

RequestRow: TypeAlias = "tuple[Any, Any, Any, Any, str, str, str | None, str | None]"
"""A row, in the order of COLUMNS. The parts of its key are texts, or what is bound as one (see cells.cell_key). The last
is JSON of the fields that have no column."""

_WITH_COLUMN = frozenset(
    {"ingest_type", "base_url", "source", "source_id", "actor", "release_stage"}
    | {"link_source", "link_source_id", "ingest_request_source"}
)
"""Fields of a request's JSON that are columns of their own, under each of their names."""

_INSERT = f"""
insert into {TABLE} ({", ".join(COLUMNS)})
values (cast(? as text), cast(? as text), cast(? as text), cast(? as text), ?, ?, ?, ?)
on conflict do nothing
"""


def write_request(conn: sqlite3.Connection, request: IngestRequest, *, now: datetime) -> None:
    """Record a request, unless it is recorded already. One for a blank cell is not. The table exists."""
    row = row_of(request, created=iso_utc(now))
    if row is not None:
        conn.execute(_INSERT, row)


def row_of(request: IngestRequest, *, created: str) -> RequestRow | None:
    """The row of a request; None for a blank cell.

    :param created: when it was recorded, ISO 8601
    """
    base_url = cell_key(request.base_url)
    if base_url is None:
        return None
    others = other_fields(request.to_json())
    return (
        request.ingest_type,
        base_url,
        cell_key(request.source) or "",
        cell_key(request.source_id) or "",
        request.actor,
        created,
        request.release_stage,
        json.dumps(others) if others else None,
    )


def other_fields(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a request's JSON that have no column of their own."""
    return {name: value for name, value in document.items() if name not in _WITH_COLUMN}


def request_of(row: Mapping[str, Any]) -> IngestRequest:
    """The request of a row, which has all of the columns.

    :raises ValueError: when the column `request` holds no request's JSON: another program wrote it
    """
    named = {name: row[name] for name in COLUMNS if name in _WITH_COLUMN and row[name] is not None}
    return IngestRequest.from_json({**json_object(row["request"]), **named})


def further_fields(text: str | None) -> IngestRequest:
    """A request with the fields that have no column of their own, and none of the others.

    :param text: the column `request`
    :raises ValueError: as `request_of`
    """
    if not text:
        return _NOTHING
    return replace(IngestRequest.from_json({**json_object(text), "ingest_type": "", "base_url": ""}), received=None)


_NOTHING = IngestRequest("", "")


def json_object(text: str | None) -> dict[str, Any]:
    """The JSON object of the column `request`. Raises ValueError for any other text."""
    value = json.loads(text) if text else {}
    if not isinstance(value, dict):
        raise ValueError("the column request holds JSON that is no object")
    return value


# ---- many rows ---------------------------------------------------------------------------------------------------

_UNKNOWN = f"""
select key from temp.json_each(:keys) where not exists (
  select 1 from {TABLE} where ingest_type = :ingest_type and base_url = json_extract(value, '$[0]')
    and source = :source and source_id = json_extract(value, '$[1]'))
"""


def insert_rows(conn: sqlite3.Connection, rows: Sequence[RequestRow]) -> int:
    """Record those of the rows that are new, the first of several with one key. Returns how many. The table exists.

    The rows are best in the order of their URLs, so that each page of the key's index is visited once.
    """
    return conn.executemany(_INSERT, rows).rowcount


def unknown_rows(conn: sqlite3.Connection, rows: Sequence[RequestRow]) -> list[RequestRow]:
    """Those of the rows, whose keys are texts, that are not in the table, in their order; the first of each key.

    Where most are known this is faster than `insert_rows`, which visits the ends of the table, too.
    """
    found: list[int] = []
    for (ingest_type, source), places in _groups(rows).items():
        keys = json_text([(rows[place][1], rows[place][3]) for place in places])
        given = {"keys": keys, "ingest_type": ingest_type, "source": source}
        found += [places[at] for (at,) in conn.execute(_UNKNOWN, given)]
    first: dict[tuple[Any, ...], RequestRow] = {}
    for place in sorted(found):
        first.setdefault(rows[place][:4], rows[place])
    return list(first.values())


def _groups(rows: Sequence[RequestRow]) -> dict[tuple[str, str], list[int]]:
    """(type, source) -> the places of its rows, in the order of their URLs."""
    groups: dict[tuple[str, str], list[int]] = {}
    urls = [row[1] for row in rows]
    for place in sorted(range(len(rows)), key=urls.__getitem__):
        groups.setdefault((rows[place][0], rows[place][2]), []).append(place)
    return groups
