"""All SQL on the tables of results: plain functions of an open connection that neither commit nor await."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from .errors import OF_SETTINGS, RetryClass
from .model import Fileset, HtmlMeta, IngestRequest, IngestResult, StoredResult, iso_utc, next_try
from .schema import TABLES
from .types import has_files

_SELECT_RESULT = """
select hit, status, terminal_url, terminal_dt, terminal_status_code, terminal_sha1hex, error_message, updated,
  attempts, next_try, warnings
from ingest_file_result where ingest_type = ? and base_url = cast(? as text)
"""

_REPLACE_RESULT = """
insert into ingest_file_result (ingest_type, base_url, updated, hit, status, terminal_url, terminal_dt,
  terminal_status_code, terminal_sha1hex, error_message, warnings, hops, via, attempts, next_try, job_id,
  landing_sha1hex)
values (?, cast(? as text), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict (ingest_type, base_url) do update set updated = excluded.updated, hit = excluded.hit,
  status = excluded.status, terminal_url = excluded.terminal_url, terminal_dt = excluded.terminal_dt,
  terminal_status_code = excluded.terminal_status_code, terminal_sha1hex = excluded.terminal_sha1hex,
  error_message = excluded.error_message, warnings = excluded.warnings, hops = excluded.hops, via = excluded.via,
  attempts = excluded.attempts, next_try = excluded.next_try, job_id = excluded.job_id,
  landing_sha1hex = excluded.landing_sha1hex
"""

_RECORD_FAILED_TRY = """
update ingest_file_result set updated = ?, error_message = ?, attempts = ?, next_try = ?, job_id = ?
where ingest_type = ? and base_url = cast(? as text)
"""

_INSERT_REQUEST = """
insert into ingest_request (ingest_type, base_url, source, source_id, actor, created, release_stage, request)
values (?, cast(? as text), ?, ?, ?, ?, ?, ?) on conflict do nothing
"""

_DELETE_CANDIDATES = "delete from ingest_candidate where ingest_type = ? and base_url = cast(? as text)"

_INSERT_CANDIDATE = """
insert into ingest_candidate (ingest_type, base_url, rank, url, rule, outcome, status_code, reason)
values (?, cast(? as text), ?, ?, ?, ?, ?, ?)
"""

_REPLACE_HTML_META = """
insert into html_meta (sha1hex, updated, status, scope, word_count, biblio) values (?, ?, ?, ?, ?, ?)
on conflict (sha1hex) do update set updated = excluded.updated, status = excluded.status,
  scope = coalesce(excluded.scope, scope), word_count = coalesce(excluded.word_count, word_count),
  biblio = coalesce(excluded.biblio, biblio)
"""

_DELETE_FILESET = "delete from ingest_fileset where ingest_type = ? and base_url = cast(? as text)"

_INSERT_FILESET = """
insert into ingest_fileset (ingest_type, base_url, platform, platform_id, file_count, total_size, manifest)
values (?, cast(? as text), ?, ?, ?, ?, ?)
"""

_REPLACE_FILE_META = """
insert into file_meta (sha1hex, sha256hex, md5hex, size_bytes, mimetype) values (?, ?, ?, ?, ?)
on conflict (sha1hex) do update set sha256hex = excluded.sha256hex, md5hex = excluded.md5hex,
  size_bytes = excluded.size_bytes, mimetype = excluded.mimetype
"""


def write_result(conn: sqlite3.Connection, result: IngestResult, *, job_id: int | None, now: datetime) -> None:
    """Record what happened to one URL; tables by `schema.migrate`, for datasets those of FILESET_TABLES too.

    A failure that may pass never hides a hit: it is only noted beside it. `attempts` counts the tries since the last
    hit, or the hit itself. A blank cell writes nothing, for there is no URL to key it by.
    """
    key = cell_text(result.request.base_url)
    if key is None:
        return
    ingest_type = result.request.ingest_type
    before = _stored(conn, ingest_type, key)
    attempts = 1 if result.hit else _attempts_after(before)
    due = next_try(result.next_try_class, attempts, now=now, retry_after=result.retry_after)
    due_text = iso_utc(due) if due is not None and not result.hit else None
    files = () if result.fileset is None else result.fileset.files
    metas = (meta for meta in (result.file_meta, *(file.meta for file in files)) if meta is not None)
    conn.executemany(_REPLACE_FILE_META, ((m.sha1hex, m.sha256hex, m.md5hex, m.size_bytes, m.mimetype) for m in metas))
    if keeps_hit(before, result):
        message = result.error_message or result.status
        conn.execute(_RECORD_FAILED_TRY, [iso_utc(now), message, attempts, due_text, job_id, ingest_type, key])
        return
    conn.execute(
        _REPLACE_RESULT,
        [
            ingest_type,
            key,
            iso_utc(now),
            int(result.hit),
            result.status,
            result.terminal_url,
            result.terminal_dt,
            result.terminal_status_code,
            result.terminal_sha1hex,
            result.error_message,
            json.dumps(result.warnings) if result.warnings else None,
            json.dumps(result.hops) if result.hops else None,
            result.via,
            attempts,
            due_text,
            job_id,
            None if result.html_meta is None else result.html_meta.sha1hex,
        ],
    )
    if result.html_meta is not None:
        write_html_meta(conn, result.html_meta, now=now)
    conn.execute(_DELETE_CANDIDATES, [ingest_type, key])
    conn.executemany(
        _INSERT_CANDIDATE,
        [
            (ingest_type, key, c.rank, c.url, c.rule, c.outcome, c.status_code, c.reason or None)
            for c in result.candidates
        ],
    )
    if has_files(ingest_type):
        _write_fileset(conn, ingest_type, key, result.fileset)


def write_html_meta(conn: sqlite3.Connection, meta: HtmlMeta, *, now: datetime) -> None:
    """Record what a page says. What an earlier look at the same bytes saw, and this one did not look at, stays."""
    biblio = json.dumps(dict(meta.biblio), ensure_ascii=False) if meta.biblio else None
    conn.execute(_REPLACE_HTML_META, [meta.sha1hex, iso_utc(now), meta.status, meta.scope, meta.word_count, biblio])


def _write_fileset(conn: sqlite3.Connection, ingest_type: str, key: str | bytes, fileset: Fileset | None) -> None:
    """The dataset's list of files as it is now; none where the last answer has none."""
    conn.execute(_DELETE_FILESET, [ingest_type, key])
    if fileset is None:
        return
    manifest = json.dumps([file.to_json() for file in fileset.files])
    about = [fileset.platform, fileset.platform_id, len(fileset.files), fileset.total_size, manifest]
    conn.execute(_INSERT_FILESET, [ingest_type, key, *about])


def stored_result(conn: sqlite3.Connection, ingest_type: str, base_url: Any) -> StoredResult | None:
    """What is known of a URL, or None. The table must exist."""
    key = cell_text(base_url)
    return None if key is None else _stored(conn, ingest_type, key)


def is_fresh(stored: StoredResult | None, *, max_age_days: float, now: datetime) -> bool:
    """Whether a stored answer is still good: a hit or a final miss younger than `max_age_days`, any other miss until
    its next try is due. With `max_age_days` = 0 nothing is, and never what our own settings decided."""
    if stored is None or max_age_days <= 0 or stored.status in OF_SETTINGS:
        return False
    if stored.next_try is not None:
        return iso_utc(now) < stored.next_try
    updated = _moment(stored.updated)
    return updated is not None and now - updated < timedelta(days=max_age_days)


OF_SETTINGS_SQL = f"r.status in ({', '.join(repr(slug) for slug in sorted(OF_SETTINGS))})"
"""Whether our own settings decided a result `r`."""


def count_fresh(
    conn: sqlite3.Connection, links_sql: str, params: Mapping[str, Any], *, max_age_days: float, now: datetime
) -> int:
    """For how many rows of a query (columns `ingest_type`, `base_url`) a stored answer is still good, as `is_fresh` says
    of one. The table must exist."""
    sql = f"""
    select count(*) from ({links_sql}) links
    join ingest_file_result r on r.ingest_type = links.ingest_type and r.base_url = cast(links.base_url as text)
    where not {OF_SETTINGS_SQL} and
      case when r.next_try is not null then r.next_try > :_now else r.updated > :_since and r.updated glob :_time end
    """
    times = {"_now": iso_utc(now), "_since": iso_utc(now - timedelta(days=max_age_days)), "_time": _TIME_GLOB}
    return 0 if max_age_days <= 0 else int(conn.execute(sql, {**params, **times}).fetchone()[0])


_TIME_GLOB = "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]Z"


def has_results(conn: sqlite3.Connection) -> bool:
    """Whether this database has a table of results, and not a user's own table of its name."""
    return TABLES["ingest_file_result"].fits(conn, "ingest_file_result")


def keeps_hit(stored: StoredResult | None, result: IngestResult) -> bool:
    """Whether this failure is only noted beside a hit, since it may pass."""
    return stored is not None and stored.hit and not result.hit and result.next_try_class is not RetryClass.NEVER


def write_request(conn: sqlite3.Connection, request: IngestRequest, *, now: datetime) -> None:
    """Record who asked for what; a request that is there already stays as it is. A blank cell writes nothing."""
    key = cell_text(request.base_url)
    if key is None:
        return
    conn.execute(
        _INSERT_REQUEST,
        [
            request.ingest_type,
            key,
            request.source,
            request.source_id,
            request.actor,
            iso_utc(now),
            request.release_stage,
            json.dumps({"ext_ids": dict(request.ext_ids)}) if request.ext_ids else None,
        ],
    )


def cell_text(value: Any) -> str | bytes | None:
    """The text that keys a cell's row, or None for a blank one. Bind it as `cast(? as text)`.

    Text that is not Unicode (a cell of invalid UTF-8 arrives with lone surrogates) comes back as its bytes, which
    the driver could not bind as text.
    """
    if value is None:
        return None
    if isinstance(value, (bytes, bytearray, memoryview)):
        raw = bytes(value)
        return raw if raw.strip() else None
    text = value if isinstance(value, str) else str(value)
    if not text.strip():
        return None
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return _surrogate_bytes(text)
    return text


def _surrogate_bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _stored(conn: sqlite3.Connection, ingest_type: str, key: str | bytes) -> StoredResult | None:
    cursor = conn.execute(_SELECT_RESULT, [ingest_type, key])
    row = cursor.fetchone()
    if row is None:
        return None
    hit, status, url, dt, code, sha1, message, updated, attempts, due, warnings = tuple(row)
    slugs = tuple(json.loads(warnings)) if warnings else ()
    return StoredResult(bool(hit), status, url, dt, code, sha1, message, updated, attempts, due, slugs)


def _attempts_after(before: StoredResult | None) -> int:
    if before is None or (before.hit and before.error_message is None):
        return 1
    return before.attempts + 1


def _moment(text: str) -> datetime | None:
    """A time of ours; None for what somebody else may have written there."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return None
