"""The results that are wanted, each with every request for it, in the order in which they were written.

A page is read in one transaction, so each result is whole, and no lock is held while it is written. `ingest_file_result.seq` grows
with every commit: a result that changes meanwhile moves behind the place that is read, so none is passed over.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from ...sqlite import columns
from ..schema import name_of, stands
from ..store.requests import COLUMNS as REQUEST_COLUMNS
from ..store.requests import TABLE as REQUESTS
from ..store.results import NEXT_SEQ
from .errors import NoExport
from .wanted import Cursor, Wanted, digest_of

T = TypeVar("T")

RESULTS = "ingest_file_result"
_UNNUMBERED = "(seq is null or seq >= '')"
"""SQL: no place, or a text or bytes of another program, which SQLite sorts after all numbers."""
PAGE = 500
"""Rows of a page."""
NO_MORE = 2**63 - 1
"""Above every rowid: all requests of the result were read."""

Row: TypeAlias = Mapping[str, Any]
"""Every column of a result, and those of its request that are not in the result; `source` is None where there is none."""

_OF_REQUEST = REQUEST_COLUMNS[2:]


def read_only(conn: sqlite3.Connection) -> sqlite3.Connection:
    """The connection, so that text that is not UTF-8 has lone surrogates for its bytes."""
    conn.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
    return conn


def as_text(value: Any) -> Any:
    """A value of our tables, which have no bytes of ours: those that another program stored are read as text."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def needs_numbers(conn: sqlite3.Connection) -> bool:
    """Whether results have no place in the order of writes: an older version, or another program, wrote them."""
    if "seq" not in columns(conn, name_of(conn, RESULTS)):
        return True
    return conn.execute(f"select 1 from {RESULTS} where {_UNNUMBERED} limit 1").fetchone() is not None


def number(conn: sqlite3.Connection) -> None:
    """Give each result a place. The table is up to date."""
    (first,) = conn.execute(NEXT_SEQ).fetchone()
    conn.execute(f"update {RESULTS} set seq = ? + rowid where {_UNNUMBERED}", [first])


class Feed:
    """One export. `cursor`, when all rows were read, is where the next export goes on.

    :param conn: from `read_only`, in autocommit mode, for this alone
    :param after: where an earlier export ended
    :raises NoExport: when there are no results, or `after` is not of this database
    """

    def __init__(self, conn: sqlite3.Connection, wanted: Wanted, after: Cursor | None, *, purpose: str) -> None:
        self._conn = conn
        self._wanted = wanted
        if not stands(conn, RESULTS):
            raise NoExport("There are no results yet. Make some with: datasette ingest run DB TABLE")
        self._has_requests = stands(conn, REQUESTS)
        if after is not None:
            after.require(wanted.digest(purpose))
            self._require_ours(after)
        self._after = after or Cursor()
        last = self._one(f"select max(rowid) from {REQUESTS}") if self._has_requests else None
        self.cursor = Cursor(self._after.seq, last or 0, self._mark(last or 0), wanted.digest(purpose))

    def pages(self, build: Callable[[Row], T]) -> Iterator[list[T]]:
        """What `build` makes of each row, a page at a time. It is called in the transaction in which the row is read;
        none is open while the caller has a page, however long it takes to write it."""
        yield from self._changed(build)
        if self._has_requests and self._after.seq:
            yield from self._newly_requested(build)

    def _changed(self, build: Callable[[Row], T]) -> Iterator[list[T]]:
        """Results that were written since, with all requests that were there when this export began."""
        place, request, is_last = self._after.seq, NO_MORE, False
        behind = "(r.seq > :place or q.rowid > :request)" if self._has_requests else "r.seq > :place"
        sql = self._query(self._select, ["r.seq >= :place", behind], "r.seq, q_rowid")
        while not is_last:
            with self._snapshot():
                rows = self._rows(sql, place=place, request=request)
                is_last = len(rows) < PAGE
                if is_last:  # all that there is was looked at
                    place = max(place, self._one(f"select max(seq) from {RESULTS}") or 0)
                else:
                    place, request = rows[-1]["seq"], rows[-1]["q_rowid"] or NO_MORE
                page = [build(row) for row in rows]
            yield page
        self.cursor = replace(self.cursor, seq=place)

    def _newly_requested(self, build: Callable[[Row], T]) -> Iterator[list[T]]:
        """Results that were exported before, with the requests that have come since."""
        place, is_last = self._after.request, False
        sql = self._query(self._select_of_requests, ["q.rowid > :request", "r.seq <= :place"], "q.rowid")
        while not is_last:
            with self._snapshot():
                rows = self._rows(sql, place=self._after.seq, request=place)
                is_last = len(rows) < PAGE
                place = place if is_last else rows[-1]["q_rowid"]
                page = [build(row) for row in rows]
            yield page

    def _query(self, select: str, conditions: Sequence[str], order: str) -> str:
        of_requests = self._wanted.of_requests
        if of_requests and not self._has_requests:
            of_requests = ["0"]
        where = " and ".join([*conditions, *self._wanted.of_results, *of_requests])
        return f"{select} where {where} order by {order} limit {PAGE}"

    def _rows(self, sql: str, **params: int) -> list[Row]:
        cursor = self._conn.execute(sql, {**self._wanted.params, "last_request": self.cursor.request, **params})
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, map(as_text, row), strict=True)) for row in cursor]

    @property
    def _select(self) -> str:
        if not self._has_requests:
            nothing = ", ".join(f"null {name}" for name in ("q_rowid", *_OF_REQUEST))
            return f"select r.*, {nothing} from {RESULTS} r"
        same = "q.ingest_type = r.ingest_type and q.base_url = r.base_url and q.rowid <= :last_request"
        # Where a request is needed SQLite would take the left join for an inner one, and read the requests first.
        join = "cross join" if self._wanted.of_requests else "left join"
        return f"select r.*, {_REQUEST} from {RESULTS} r {join} {REQUESTS} q on {same}"

    @property
    def _select_of_requests(self) -> str:
        # The cross join keeps SQLite from reading all results: new requests are few.
        same = "q.ingest_type = r.ingest_type and q.base_url = r.base_url and q.rowid <= :last_request"
        return f"select r.*, {_REQUEST} from {REQUESTS} q cross join {RESULTS} r on {same}"

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[None]:
        self._conn.execute("begin")
        try:
            yield
        finally:
            self._conn.execute("rollback")

    def _one(self, sql: str, *params: Any) -> Any:
        return self._conn.execute(sql, params).fetchone()[0]

    def _mark(self, rowid: int) -> str:
        """Digest of the request with this rowid; '' where there is none."""
        if not rowid or not self._has_requests:
            return ""
        row = self._conn.execute(
            f"select ingest_type, base_url, source, source_id, created from {REQUESTS} where rowid = ?", [rowid]
        ).fetchone()
        return "" if row is None else digest_of(*row)

    def _require_ours(self, after: Cursor) -> None:
        next_seq = self._one(NEXT_SEQ)
        if after.seq >= next_seq or after.mark != self._mark(after.request):
            raise NoExport(
                "The cursor is of another database, or requests were removed since. Export all without --since, or give "
                "a time instead of the cursor"
            )


_REQUEST = ", ".join(["q.rowid q_rowid", *(f"q.{name}" for name in _OF_REQUEST)])
