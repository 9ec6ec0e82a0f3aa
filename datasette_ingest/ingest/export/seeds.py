"""Pending URLs for a crawler of another make: one of each."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from ..errors import IngestError
from ..schema import stands
from ..store.requests import TABLE as REQUESTS
from ..urls import clean_cell, without_fragment
from .errors import NoExport
from .feed import RESULTS
from .wanted import Wanted

PAGE = 5000

_PENDING = f"""
select base_url from {REQUESTS} q where rowid > :place and rowid <= :end {{conditions}} order by rowid
"""
_STANDS = f"""
and not exists (
  select 1 from {RESULTS} r where r.ingest_type = q.ingest_type and r.base_url = q.base_url
  and (r.next_try is null or r.next_try > strftime('%Y-%m-%dT%H:%M:%SZ', 'now')))
"""


class Seeds:
    """The URLs of requests as the view `ingest_pending` has them. `invalid`: how many cells hold no URL; `known` once all
    were read.

    :param conn: from `feed.read_only`, in autocommit mode
    """

    def __init__(self, conn: sqlite3.Connection, wanted: Wanted, *, doi_resolver: str) -> None:
        self._conn = conn
        self._wanted = wanted
        self._doi_resolver = doi_resolver
        self.invalid = 0
        if not stands(conn, REQUESTS):
            raise NoExport("There are no requests yet. Load some with: datasette ingest load DB FILE --format …")
        conn.execute("create temp table if not exists seed (url text primary key) without rowid")

    def __iter__(self) -> Iterator[str]:
        conditions = [f"and {condition}" for condition in self._wanted.of_requests]
        if self._wanted.ingest_type is not None:
            conditions.append("and q.ingest_type = :ingest_type")
        if stands(self._conn, RESULTS):
            conditions.append(_STANDS)
        sql, place = _PENDING.format(conditions=" ".join(conditions)), 0
        (last,) = self._conn.execute(f"select coalesce(max(rowid), 0) from {REQUESTS}").fetchone()
        while place < last:
            end = min(place + PAGE, last)
            rows = self._conn.execute(sql, {**self._wanted.params, "place": place, "end": end}).fetchall()
            for (base_url,) in rows:
                yield from self._new(base_url)
            place = end

    def _new(self, base_url: str) -> Iterator[str]:
        try:
            url = without_fragment(clean_cell(base_url, doi_resolver=self._doi_resolver))
        except IngestError:
            self.invalid += 1
            return
        if self._conn.execute("insert into temp.seed values (?) on conflict do nothing", [url]).rowcount:
            yield url
