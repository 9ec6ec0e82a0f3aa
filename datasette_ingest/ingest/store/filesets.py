"""ingest_fileset: the files of a dataset."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any

from ...sqlite import upsert
from ..model import Fileset

TABLE = "ingest_fileset"
_DELETE = "delete from ingest_fileset where ingest_type = :ingest_type and base_url = cast(:base_url as text)"


def write_fileset(conn: sqlite3.Connection, key: Mapping[str, Any], fileset: Fileset | None) -> None:
    """Replace the stored list of the result with this key (`ingest_type`, `base_url`); None removes it."""
    if fileset is None:
        conn.execute(_DELETE, key)
        return
    values = {
        "platform": fileset.platform,
        "platform_id": fileset.platform_id,
        "file_count": fileset.file_count,
        "total_size": fileset.total_size,
        "manifest": json.dumps(fileset.to_json()["manifest"]),
    }
    upsert(conn, TABLE, key, values)
