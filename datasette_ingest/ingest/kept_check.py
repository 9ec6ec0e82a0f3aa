"""Compare a store with the tables of the databases that it serves. Memory does not grow with the number of files."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from types import TracebackType

from ..sqlite import escape_surrogates
from .errors import StoreError
from .sinks import KeptFiles
from .sinks.layout import BODY, StoredFile, is_unfinished, named_by
from .store import bodies

FAULTS: Mapping[str, str] = {
    "missing": "the tables name it, and it is not in the store",
    "damaged": "its size or SHA-1 is another one",
    "unfinished": "a process ended while it wrote it, or is writing it now",
    "orphan": "none of these databases names it; another one may",
}
READ_AT_ONCE = 8
"""Files that are read at once to take their SHA-1."""


@dataclass(frozen=True)
class Fault:
    """What is wrong with one file."""

    fault: str
    """A key of FAULTS."""
    kind: str | None
    sha1hex: str | None
    key: str | None
    """Its name in the store; None for a missing one."""
    size: int | None
    expected: int | None = None
    """The size that the tables say, where that is what is wrong."""


@dataclass(frozen=True)
class Totals:
    """`files` and `bytes` of the store, `named` bodies of the tables, `others`: files of no store's name."""

    files: int
    bytes: int
    named: int
    others: int


class StoreCheck:
    """First `read_tables` of each database, then `read_store`: so a file that is named was kept before it was looked for.

    Notes are kept in a temporary database on disk, which is gone afterwards.
    """

    def __init__(self) -> None:
        self._notes = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._notes.executescript(_NOTES)
        self._began = time.time()

    def read_tables(self, conn: sqlite3.Connection) -> None:
        """Note what the tables of a database name."""
        with self._notes:
            self._notes.execute("begin")
            self._notes.executemany(_NAME, bodies.names(conn))
            self._notes.executemany("insert or ignore into wanted values (?, ?)", bodies.wanted(conn))

    async def read_store(self, store: KeptFiles, *, reads_files: bool = False) -> None:
        """Note what is in the store.

        :param reads_files: also whether each body still has its SHA-1
        :raises StoreError: when the store cannot be read
        """
        async for files in store.list():
            with self._notes:
                self._notes.execute("begin")
                self._notes.executemany("insert or replace into stored values (?, ?, ?, ?, ?, ?, 0)", map(_note, files))
        while reads_files:
            some = self._notes.execute(_UNREAD, [READ_AT_ONCE]).fetchall()
            if not some:
                return
            found = await asyncio.gather(
                *(_is_whole(store, StoredFile(key, size, 0.0), sha1) for key, sha1, size in some)
            )
            states = [(1 if is_whole else -1, key) for is_whole, (key, _, _) in zip(found, some, strict=True)]
            self._notes.executemany("update stored set state = ? where key = ?", states)

    def counts(self) -> dict[str, int]:
        """How many files have each fault."""
        return {
            fault: self._notes.execute(f"select count(*) from ({sql})", self._times).fetchone()[0]
            for fault, sql in _SQL.items()
        }

    def faults(self, fault: str, limit: int = -1) -> Iterator[Fault]:
        """The files with this fault, at most `limit` of them, in the order of their names."""
        with closing(self._notes.execute(f"{_SQL[fault]} limit {limit:d}", self._times)) as rows:
            for row in rows:
                yield Fault(fault, *row)

    def totals(self) -> Totals:
        return Totals(*self._notes.execute(_TOTALS).fetchone())

    def __enter__(self) -> StoreCheck:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._notes.close()

    @property
    def _times(self) -> dict[str, float]:
        return {"began": self._began}


def _note(file: StoredFile) -> tuple[str, str | None, str | None, int, float, int]:
    kind, sha1hex = named_by(file.key) or (None, None)
    return escape_surrogates(file.key) or "", kind, sha1hex, file.size, file.modified, is_unfinished(file.key)


async def _is_whole(store: KeptFiles, file: StoredFile, sha1hex: str) -> bool:
    """Whether a body has its SHA-1. One that cannot be read, where the store can, has not."""
    digest = hashlib.sha1(usedforsecurity=False)
    try:
        async for piece in store.read(file):
            digest.update(piece)
    except StoreError as problem:
        if problem.passes or await store.find(BODY, sha1hex) is None:
            raise
        return False
    return digest.hexdigest() == sha1hex


_NOTES = """
create table named (sha1hex text primary key, size integer) without rowid;
create table wanted (kind text, sha1hex text, primary key (kind, sha1hex)) without rowid;
create table stored (key text primary key, kind text, sha1hex text, size integer, modified real, is_unfinished integer,
  state integer) without rowid;
create index stored_sha1hex on stored (sha1hex, kind);
create index stored_state on stored (state) where kind = 'body';
"""
"""`state`: 1 for a body that has its SHA-1, -1 for one that has not, 0 where it was not read."""
_NAME = """
insert into named values (?, ?) on conflict (sha1hex) do update set size = coalesce(size, excluded.size)
"""
_UNREAD = "select key, sha1hex, size from stored where state = 0 and kind = 'body' limit ?"
_SQL: Mapping[str, str] = {
    "missing": """
select w.kind, w.sha1hex, null, null from wanted w
where not exists (select 1 from stored s where s.sha1hex = w.sha1hex and s.kind = w.kind) order by w.kind, w.sha1hex""",
    "damaged": """
select s.kind, s.sha1hex, s.key, s.size, case when n.size <> s.size then n.size end from stored s
left join named n on n.sha1hex = s.sha1hex
where s.kind = 'body' and (s.state = -1 or n.size <> s.size) order by s.key""",
    "unfinished": "select kind, sha1hex, key, size from stored where is_unfinished order by key",
    "orphan": """
select s.kind, s.sha1hex, s.key, s.size from stored s
where s.kind is not null and s.modified <= :began
  and not exists (select 1 from named n where n.sha1hex = s.sha1hex) order by s.key""",
}
"""What was written after the tables were read is not judged to be an orphan: its row may be there by now."""
_TOTALS = """
select count(kind), coalesce(sum(size) filter (where kind is not null), 0), (select count(*) from named),
  count(*) filter (where kind is null and not is_unfinished) from stored
"""
