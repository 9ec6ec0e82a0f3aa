"""Results that come in any order, each perhaps several times: the rows are always those of the order of their times.

For each URL the rows depend on the results since its newest hit. A hit says everything by itself, so most URLs need no
more than their row. Of the others the results are kept in _enrichment_result_try. Where one comes that is older than
another, the row is made again: from the row of the hit, or from none, by all that came after it in turn.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ...sqlite import from_iso, iso_utc, upsert
from ..cells import cell_key
from ..facts import FileMeta
from ..json_object import json_text
from ..model import IngestResult
from ..schema import stands
from . import write

TABLE = "_enrichment_result_try"
_RESULTS = "ingest_file_result"
_OF_KEY = "where ingest_type = :ingest_type and base_url = cast(:base_url as text)"


@dataclass(frozen=True)
class Try:
    """A result of a URL. `place`: its time and what tells it from others of that time; texts in the order of results.

    `row`: the row of ingest_file_result from which the later ones go on, if it is the first; else `result`.
    """

    place: str
    row: Mapping[str, Any] | None = None
    result: IngestResult | None = None

    @property
    def when(self) -> datetime:
        return datetime.fromtimestamp(from_iso(self.place.partition(" ")[0]), timezone.utc)


def place_of(result: IngestResult, when: datetime) -> str:
    """Where a result of this time stands among those of its URL."""
    told = (result.terminal_url, result.terminal_dt, result.terminal_sha1hex, result.status, result.error_message)
    return _place(iso_utc(when), result.hit, told)


def _place_of_row(row: Mapping[str, Any]) -> str:
    told = (row["terminal_url"], row["terminal_dt"], row["terminal_sha1hex"], row["status"], row["error_message"])
    return _place(row["updated"], row["hit"], told)


def _place(updated: str, hit: bool, told: tuple[str | None, ...]) -> str:
    return f"{updated} {int(hit)} {hashlib.sha1(json.dumps(told).encode(), usedforsecurity=False).hexdigest()}"


def write_in_order(conn: sqlite3.Connection, result: IngestResult, *, when: datetime) -> bool:
    """Record a result that came at a time, whatever came before it. The tables exist. Whether anything changed in its row:
    not by one that was recorded, nor by one from before the newest hit."""
    base_url = cell_key(result.request.base_url)
    if base_url is None:
        return False
    key = {"ingest_type": result.request.ingest_type, "base_url": base_url}
    new = Try(place_of(result, when), result=result)
    row = _row(conn, key)
    tries = _tries(conn, key, row)
    if row is not None and not tries:
        tries = [Try(_place_of_row(row), row=row)]
    is_known = any(each.place == new.place for each in tries)
    if is_known or (tries and tries[0].row is not None and new.place < tries[0].place):
        _write_files(conn, result, when)
        return False
    later = [each for each in tries if each.place > new.place]
    if not later:
        _write(conn, new)
    else:
        _restore(conn, key, None if result.hit else tries[0].row)
        before = [] if result.hit else [each for each in tries if each.place < new.place and each.row is None]
        for each in (*before, new):
            _write(conn, each)
    if result.hit:
        kept = [Try(new.place, row=_row(conn, key)), *later] if later else []
    else:
        kept = sorted([*tries, new], key=lambda each: each.place)
    for each in later:
        _write(conn, each)
    _keep(conn, key, kept)
    return True


def _write(conn: sqlite3.Connection, each: Try) -> None:
    assert each.result is not None
    write(conn, each.result, job_id=None, now=each.when)


def _write_files(conn: sqlite3.Connection, result: IngestResult, when: datetime) -> None:
    """What is known about the files that came: it is true whether or not the result counts."""
    for fact in result.file_facts:
        if isinstance(fact, FileMeta) or stands(conn, fact.table):
            fact.write(conn, updated=iso_utc(when))


def _row(conn: sqlite3.Connection, key: Mapping[str, Any]) -> dict[str, Any] | None:
    cursor = conn.execute(f"select * from {_RESULTS} {_OF_KEY}", key)
    names = [column[0] for column in cursor.description]
    row = cursor.fetchone()
    return None if row is None else dict(zip(names, tuple(row), strict=True))


def _restore(conn: sqlite3.Connection, key: Mapping[str, Any], row: Mapping[str, Any] | None) -> None:
    """Put the row back to what it was; None: there was none."""
    if row is None:
        conn.execute(f"delete from {_RESULTS} {_OF_KEY}", key)
    else:
        upsert(conn, _RESULTS, key, {name: value for name, value in row.items() if name not in key})


def _tries(conn: sqlite3.Connection, key: Mapping[str, Any], row: Mapping[str, Any] | None) -> list[Try]:
    """The results that are kept for a URL, in order; none where something else has changed its row since."""
    found = []
    sql = f"select place, is_row, content from {TABLE} {_OF_KEY} order by place"
    for place, is_row, content in conn.execute(sql, key):
        document = json.loads(zlib.decompress(content))
        found.append(Try(place, row=document) if is_row else Try(place, result=IngestResult.from_json(document)))
    is_ours = bool(found) and row is not None and row["updated"] == found[-1].place.partition(" ")[0]
    return found if is_ours else []


def _keep(conn: sqlite3.Connection, key: Mapping[str, Any], tries: list[Try]) -> None:
    conn.execute(f"delete from {TABLE} {_OF_KEY}", key)
    rows = []
    for each in tries:
        document = each.row if each.result is None else each.result.to_json()
        content = zlib.compress(json_text(document).encode())
        rows.append((key["ingest_type"], key["base_url"], each.place, each.result is None, content))
    conn.executemany(
        f"insert into {TABLE} (ingest_type, base_url, place, is_row, content) values (?, cast(? as text), ?, ?, ?)",
        rows,
    )
