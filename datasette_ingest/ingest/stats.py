"""Numbers of requests and results: by source, type, status, host and day. Functions of a connection; they only read."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .errors import IngestError
from .schema import stands
from .urls import clean_cell, split

RESULTS, REQUESTS = "ingest_file_result", "ingest_request"
_START = """
case when url glob 'http://[a-z0-9]*' or url glob 'https://[a-z0-9]*'
  then substr(url, 1, 8 + coalesce(nullif(instr(substr(url, 9), '/'), 0), length(url))) else url end
"""
"""SQL: the URL up to the slash that ends its host, where it is written plainly."""
HOSTS = 20
"""Hosts that are named."""
MOST_DAYS = 366
"""Days of the curve, the last ones."""


@dataclass(frozen=True)
class Requested:
    """Requests of one source for one type, and what became of their URLs."""

    source: str
    ingest_type: str
    requests: int
    tried: int
    hits: int


@dataclass(frozen=True)
class Ended:
    """Results with one status. `due`: whose next try has come."""

    status: str
    ingest_type: str
    results: int
    due: int


@dataclass(frozen=True)
class FailingHost:
    """Results without a hit whose last URL was at this host. `status`: the most frequent of theirs, of `of_status`."""

    host: str
    misses: int
    status: str
    of_status: int


@dataclass(frozen=True)
class Day:
    """Results whose last try was up to the end of this day (UTC)."""

    day: str
    tried: int
    hits: int


def has_any(conn: sqlite3.Connection) -> bool:
    """Whether there is a table of requests or results."""
    return any(stands(conn, name) for name in (REQUESTS, RESULTS))


def requested(conn: sqlite3.Connection) -> list[Requested]:
    """By source and type, the most requests first."""
    if not stands(conn, REQUESTS):
        return []
    result, join = "0", ""
    if _has_results(conn):
        result = "r.base_url is not null"
        join = f"left join {RESULTS} r on r.ingest_type = q.ingest_type and r.base_url = q.base_url"
    hit = "r.hit" if join else "0"
    sql = f"""
    select q.source, q.ingest_type, count(*), sum({result}), sum(coalesce({hit}, 0)) from {REQUESTS} q {join}
    group by 1, 2 order by 3 desc, 1, 2
    """
    return [Requested(*row) for row in conn.execute(sql)]


def ended(conn: sqlite3.Connection) -> list[Ended]:
    """By status and type, the most results first."""
    if not _has_results(conn):
        return []
    sql = f"""
    select status, ingest_type, count(*), sum(next_try is not null and next_try <= strftime('%Y-%m-%dT%H:%M:%SZ', 'now'))
    from {RESULTS} group by 1, 2 order by 3 desc, 1, 2
    """
    return [Ended(*row) for row in conn.execute(sql)]


def failing_hosts(conn: sqlite3.Connection, *, limit: int = HOSTS) -> list[FailingHost]:
    """The hosts with the most misses."""
    if not _has_results(conn):
        return []
    conn.create_function("ingest_host", 1, _host, deterministic=True)
    # The function is called once for each start of a URL: that is what makes a million results a matter of a second.
    sql = f"""
    select host, sum(n), status, max(n) from (
      select ingest_host(start) host, status, sum(n) n from (
        select {_START} start, status, count(*) n from (
          select coalesce(terminal_url, base_url) url, status from {RESULTS} where hit = 0
        ) group by 1, 2
      ) group by 1, 2
    ) where host is not null group by host order by 2 desc, 1 limit {limit}
    """
    return [FailingHost(*row) for row in conn.execute(sql)]


def days(conn: sqlite3.Connection) -> list[Day]:
    """The curve: how many results there were at the end of each day on which one came, and how many hits."""
    if not _has_results(conn):
        return []
    sql = f"select substr(updated, 1, 10), count(*), sum(hit) from {RESULTS} group by 1 order by 1"
    found, tried, hits = [], 0, 0
    for day, new, new_hits in conn.execute(sql):
        tried, hits = tried + new, hits + new_hits
        found.append(Day(day, tried, hits))
    return found[-MOST_DAYS:]


PARTS: Mapping[str, Callable[[sqlite3.Connection], Sequence[Any]]] = {
    "statuses": ended,
    "days": days,
    "hosts": failing_hosts,
    "requests": requested,
}
"""Name -> what counts it, the quickest first. Each is one query, which may be cut."""


def _has_results(conn: sqlite3.Connection) -> bool:
    return stands(conn, RESULTS)


@lru_cache(maxsize=4096)
def _host(cell: Any) -> str | None:
    """The host of a URL, or of a cell that may be a DOI; None where there is none."""
    try:
        return split(clean_cell(cell, doi_resolver="https://doi.org/")).host
    except IngestError:
        return None
