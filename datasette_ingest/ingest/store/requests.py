"""ingest_request: who said that a file is at a URL."""

from __future__ import annotations

import json
import sqlite3
from datetime import datetime

from ...sqlite import iso_utc
from ..cells import cell_key
from ..model import IngestRequest

_COLUMNS = ("ingest_type", "base_url", "source", "source_id", "actor", "release_stage")
_SANDCRAWLER_NAMES = ("link_source", "link_source_id", "ingest_request_source")

_INSERT = """
insert into ingest_request (ingest_type, base_url, source, source_id, actor, created, release_stage, request)
values (:ingest_type, cast(:base_url as text), cast(:source as text), cast(:source_id as text), :actor, :created, :release_stage, :request)
on conflict do nothing
"""


def write_request(conn: sqlite3.Connection, request: IngestRequest, *, now: datetime) -> None:
    """Record a request, unless it is recorded already. One for a blank cell is not. The table exists.

    The column `request` gets the fields that have no column of their own, as JSON.
    """
    base_url = cell_key(request.base_url)
    if base_url is None:
        return
    others = {name: value for name, value in request.to_json().items() if name not in _COLUMNS + _SANDCRAWLER_NAMES}
    row = {
        "ingest_type": request.ingest_type,
        "base_url": base_url,
        "source": cell_key(request.source) or "",
        "source_id": cell_key(request.source_id) or "",
        "actor": request.actor,
        "created": iso_utc(now),
        "release_stage": request.release_stage,
        "request": json.dumps(others) if others else None,
    }
    conn.execute(_INSERT, row)
