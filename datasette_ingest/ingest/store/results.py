"""ingest_file_result: what happened to a URL last, and whether that still counts."""

from __future__ import annotations

import fnmatch
import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from ...sqlite import columns, iso_utc, upsert
from ..cells import cell_key
from ..errors import OF_SETTINGS, RateLimited, RetryClass
from ..model import LIVE_ONLY, IngestResult
from ..retry import next_try
from ..schema import TABLES, name_of

OF_SETTINGS_SQL = f"status in ({', '.join(repr(slug) for slug in sorted(OF_SETTINGS))})"
"""Whether our own settings decided a row of ingest_file_result."""

_RECORD_FAILED_TRY = """
update ingest_file_result set updated = :updated, error_message = :error_message, attempts = :attempts,
  next_try = :next_try, job_id = :job_id
where ingest_type = :ingest_type and base_url = cast(:base_url as text)
"""


@dataclass(frozen=True)
class StoredResult:
    """A row of ingest_file_result, which may be used instead of another request. Times are ISO 8601 UTC."""

    hit: bool
    status: str
    terminal_url: str | None
    terminal_dt: str | None
    terminal_status_code: int | None
    terminal_sha1hex: str | None
    error_message: str | None
    updated: str
    attempts: int
    next_try: str | None
    job_id: int | None = None
    archive_url: str | None = None
    sources: tuple[str, ...] = LIVE_ONLY
    warnings: tuple[str, ...] = ()


def _select(there: Collection[str]) -> str:
    """The query for one result. `there`: the columns of the table; an older version made it with fewer."""
    shown = (column.name if column.name in there else "null" for column in fields(StoredResult))
    return f"""
    select {", ".join(shown)} from ingest_file_result where ingest_type = ? and base_url = cast(? as text)
    """


_SELECT = _select([column.name for column in fields(StoredResult)])


NEXT_SEQ = """
select max(coalesce((select max(seq) from ingest_file_result), 0) + 1,
  cast((julianday('now') - 2440587.5) * 86400000000 as integer))
"""
"""The next place in the order of writes: above every one that was given, also to a row that was removed since, since no
place is before the time (microseconds since 1970)."""


def stored_result(conn: sqlite3.Connection, ingest_type: str, base_url: Any) -> StoredResult | None:
    """What is stored of a cell's URL, or None. The table exists; before a job writes to it, it may lack new columns."""
    key = [ingest_type, cell_key(base_url)]
    try:
        row = conn.execute(_SELECT, key).fetchone()
    except sqlite3.OperationalError:
        row = conn.execute(_select(columns(conn, name_of(conn, "ingest_file_result"))), key).fetchone()
    if row is None:
        return None
    hit, *others = row
    others[-2] = tuple(json.loads(others[-2])) if others[-2] else LIVE_ONLY
    others[-1] = tuple(json.loads(others[-1] or "[]"))
    return StoredResult(bool(hit), *others)


def write_file_result(
    conn: sqlite3.Connection, key: Mapping[str, Any], result: IngestResult, *, job_id: int | None, now: datetime
) -> bool:
    """Replace the stored result, or record a failure that may pass beside a hit, which stays. Returns whether it was
    replaced. `attempts` counts the tries since the last hit."""
    before = stored_result(conn, key["ingest_type"], key["base_url"])
    attempts = 1 if result.hit else _attempts_after(before, result)
    due = None
    if not result.hit:
        due = next_try(result.next_try_class, attempts, now=now, retry_after=result.retry_after)
    attempt = {
        "updated": iso_utc(now),
        "error_message": result.error_message,
        "attempts": attempts,
        "next_try": None if due is None else iso_utc(due),
        "job_id": job_id,
    }
    if keeps_hit(before, result):
        conn.execute(_RECORD_FAILED_TRY, {**key, **attempt, "error_message": result.error_message or result.status})
        return False
    answer = {
        "hit": int(result.hit),
        "status": result.status,
        "terminal_url": result.terminal_url,
        "terminal_dt": result.terminal_dt,
        "terminal_status_code": result.terminal_status_code,
        "terminal_sha1hex": result.terminal_sha1hex,
        "warnings": json.dumps(result.warnings) if result.warnings else None,
        "hops": json.dumps(result.hops) if result.hops else None,
        "via": result.via,
        "archive_url": result.archive_url,
        "sources": None if result.sources == LIVE_ONLY else json.dumps(result.sources),
        "hop_sources": json.dumps(result.hop_sources) if result.hop_sources else None,
        "landing_sha1hex": None if result.html_meta is None else result.html_meta.sha1hex,
        "seq": conn.execute(NEXT_SEQ).fetchone()[0],
    }
    upsert(conn, "ingest_file_result", key, {**attempt, **answer})
    return True


def has_result_of(conn: sqlite3.Connection, key: Mapping[str, Any], *, job_id: int | None, now: datetime) -> bool:
    """Whether the stored result with this key was written by this job at this time."""
    stored = stored_result(conn, key["ingest_type"], key["base_url"])
    return stored is not None and (stored.job_id, stored.updated) == (job_id, iso_utc(now))


def keeps_hit(stored: StoredResult | None, result: IngestResult) -> bool:
    """Whether this is a failure that may pass, of a URL that is a hit: it is then only recorded beside the hit."""
    return stored is not None and stored.hit and not result.hit and result.next_try_class is not RetryClass.NEVER


def _attempts_after(before: StoredResult | None, result: IngestResult) -> int:
    if before is None or (before.hit and before.error_message is None):
        return 1
    was_asked = (
        bool(result.hops) or result.status != RateLimited.status
    )  # its host may have been told to rest by another
    return before.attempts + was_asked


def has_results(conn: sqlite3.Connection, prefix: str = "") -> bool:
    """Whether this database has a table of results, and not a user's own table of its name.

    :param prefix: begins the names of the tables of results
    """
    return TABLES["ingest_file_result"].fits(conn, f"{prefix}ingest_file_result")


def is_fresh(
    stored: StoredResult | None,
    *,
    max_age_days: float,
    now: datetime,
    sources: Sequence[str] = LIVE_ONLY,
    force: bool = False,
) -> bool:
    """Whether a stored result still counts, so that its URL is not asked again.

    A miss that has a next try counts until then: its rest time, whatever `max_age_days` says. A hit or a final miss counts
    until it is `max_age_days` old; with 0 none does. Never does one that our own settings decided, since no request is
    needed to decide it anew, nor a miss where one of `sources` was not to be asked. With `force`, by which a person asks for
    another try now, none does.
    """
    if stored is None or force or stored.status in OF_SETTINGS:
        return False
    if not stored.hit and not set(sources) <= set(stored.sources):
        return False
    if stored.next_try is not None:
        return iso_utc(now) < stored.next_try
    if max_age_days <= 0:
        return False
    return stored.updated > _since(now, max_age_days) and fnmatch.fnmatchcase(stored.updated, _TIME)


def count_fresh(
    conn: sqlite3.Connection,
    links_sql: str,
    params: Mapping[str, Any],
    *,
    max_age_days: float,
    now: datetime,
    sources: Sequence[str] = LIVE_ONLY,
    prefix: str = "",
    force: bool = False,
) -> int:
    """How many rows of a query (columns `ingest_type`, `base_url`) have a result that is fresh by `is_fresh`. The table
    exists.

    :param prefix: begins the names of the tables of results
    """
    if force:
        return 0
    sources_sql = "r.sources" if "sources" in columns(conn, f"{prefix}ingest_file_result") else "null"
    sql = f"""
    select count(*) from ({links_sql}) links
    join {prefix}ingest_file_result r on r.ingest_type = links.ingest_type and r.base_url = cast(links.base_url as text)
    where not {OF_SETTINGS_SQL} and
      (r.hit or not exists (
        select 1 from temp.json_each(:_sources) wanted
        where wanted.value not in (select value from temp.json_each(coalesce({sources_sql}, :_live_only)))
      )) and
      case when r.next_try is not null then r.next_try > :_now
        else :_days > 0 and r.updated > :_since and r.updated glob :_time end
    """
    ours = {
        "_now": iso_utc(now),
        "_since": _since(now, max_age_days),
        "_time": _TIME,
        "_days": max_age_days,
        "_sources": json.dumps(list(sources)),
        "_live_only": json.dumps(LIVE_ONLY),
    }
    return int(conn.execute(sql, {**params, **ours}).fetchone()[0])


_TIME = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]Z"
"""Glob of a time of ours. Another program may have written something else."""


def _since(now: datetime, max_age_days: float) -> str:
    """The time before which a result is too old; "" for never."""
    try:
        return iso_utc(now - timedelta(days=max_age_days))
    except OverflowError:
        return ""
