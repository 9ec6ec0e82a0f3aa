"""ingest_candidate: the links that were considered for a URL's last result."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

from ..model import CandidateOutcome

_DELETE = "delete from ingest_candidate where ingest_type = ? and base_url = cast(? as text)"

_INSERT = """
insert into ingest_candidate (ingest_type, base_url, rank, url, rule, outcome, status_code, reason)
values (?, cast(? as text), ?, ?, ?, ?, ?, ?)
"""


def write_candidates(conn: sqlite3.Connection, key: Mapping[str, Any], candidates: Iterable[CandidateOutcome]) -> None:
    """Replace the stored candidates of the result with this key (`ingest_type`, `base_url`)."""
    result = (key["ingest_type"], key["base_url"])
    conn.execute(_DELETE, result)
    conn.executemany(
        _INSERT, [(*result, c.rank, c.url, c.rule, c.outcome, c.status_code, c.reason) for c in candidates]
    )
