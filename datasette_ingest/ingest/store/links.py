"""ingest_link: what the last check of each link found. Every function takes an open connection, and neither commits nor awaits."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...sqlite import columns, iso_utc, upsert
from ..cells import cell_key
from ..linkcheck.verdict import LinkStatus, Verdict
from ..retry import next_try

TABLE = "ingest_link"


@dataclass(frozen=True)
class StoredLink:
    """A row of ingest_link. Times are ISO 8601 UTC."""

    checked: str
    status: str
    url: str | None
    status_code: int | None
    fragment: str | None
    reason: str | None
    archive_url: str | None
    attempts: int
    next_try: str | None
    job_id: int | None


_SELECT = f"""select checked, status, url, status_code, fragment, reason, archive_url, attempts, next_try, job_id
from {TABLE} where base_url = cast(? as text)"""


def has_links(conn: sqlite3.Connection) -> bool:
    """Whether any link was ever checked in this database."""
    return bool(columns(conn, TABLE))


def stored_link(conn: sqlite3.Connection, cell: Any) -> StoredLink | None:
    """What is stored of a cell's link; None where nothing is."""
    row = conn.execute(_SELECT, [cell_key(cell)]).fetchone() if has_links(conn) else None
    return None if row is None else StoredLink(*row)


def as_stored(verdict: Verdict, *, before: StoredLink | None, job_id: int | None, now: datetime) -> StoredLink:
    """The row of a verdict.

    :param before: what was stored of the link
    """
    was_unsure = before is not None and before.status == LinkStatus.UNSURE.value
    attempts = before.attempts + 1 if before is not None and was_unsure else 1
    due = None
    if verdict.status is LinkStatus.UNSURE:
        due = next_try(verdict.retry, attempts, now=now, retry_after=verdict.retry_after)
    return StoredLink(
        checked=iso_utc(now),
        status=verdict.status.value,
        url=verdict.url,
        status_code=verdict.code,
        fragment=None if verdict.fragment is None else verdict.fragment.value,
        reason=verdict.reason,
        archive_url=verdict.archive_url,
        attempts=attempts,
        next_try=None if due is None else iso_utc(due),
        job_id=job_id,
    )


def write_link(conn: sqlite3.Connection, cell: Any, link: StoredLink) -> None:
    """Record a check. A blank cell writes nothing, for there is no link to key it by."""
    key = cell_key(cell)
    if key is not None:
        upsert(conn, TABLE, {"base_url": key}, vars(link))
