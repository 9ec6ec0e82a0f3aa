"""Where row updates go: onto the row itself, or beside it into `_enrichments_<table>`, keyed by the row's key."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ... import text
from ...sqlite import SHADOW_PREFIX, column_limit, columns, fold, make, quote
from .. import keyset
from ..errors import BadConfig
from ..keyset import ROWID_NAMES, Key, TableKey

SOURCE_ROWID = "_source_rowid"
"""In a shadow table: the source row's rowid where a part of its declared key is NULL, which no key can tell apart."""


class NotWritten(ValueError):
    """SQLite took an update without an error, and the row does not hold it. The message says why."""


class RowTarget:
    """The table that was read. `fits_all`: `sql` can find every row of it by key. `key_columns`: what an enrichment may
    not write, since it tells the rows apart. `has_triggers`: the user's own may undo what is written. `orphaned`: SQL
    true of a row that breaks a deferred foreign key, which SQLite would only notice at the commit."""

    has_triggers = False
    orphaned: str | None = None
    _is_prepared = False

    def __init__(self, key: TableKey) -> None:
        self.table = key.table
        self.fits_all = key.rowid is not None
        self.key_columns = key.columns if key.parts or key.columns[0] not in ROWID_NAMES else ()
        self._key = key

    def prepare(self, conn: sqlite3.Connection) -> None:
        """Make sure that the table exists, and look at its triggers and keys; once, since a plan ends with the schema."""
        if self._is_prepared:
            return
        self._is_prepared = True
        sql = "select 1 from sqlite_master where type = 'trigger' and tbl_name = ? collate nocase"
        self.has_triggers = conn.execute(sql, [self.table]).fetchone() is not None
        self.orphaned = _orphaned(conn, self.table)

    def sql(self, names: Sequence[str]) -> str:
        """One statement for many rows; its parameters come from `bound`."""
        return f"update {quote(self.table)} set {_sets(names)} where {self._key.where_row()}"

    def bound(
        self, names: Sequence[str], rows: Iterable[Any], keys: Iterable[tuple[Any, ...]], width: int
    ) -> Iterator[Any]:
        """The parameters of each row: its values and its key. `keys` are page rows whose key begins at `width`."""
        if self._key.rowid is None:
            return ((*map(row.__getitem__, names), *key[width:]) for row, key in zip(rows, keys, strict=False))
        if len(names) == 1:
            name = names[0]
            return ((row[name], key[-1]) for row, key in zip(rows, keys, strict=False))
        return ((*map(row.__getitem__, names), key[-1]) for row, key in zip(rows, keys, strict=False))

    def fits(self, key: Key) -> bool:
        """Whether `sql` can find this row."""
        return self._key.rowid is not None or not _has_raw_text(key)

    def holds(self, conn: sqlite3.Connection, key: Key) -> bool:
        """Whether there is a row of this key."""
        return keyset.has_row(conn, self._key, key)

    def write_one(self, conn: sqlite3.Connection, names: Sequence[str], values: Sequence[Any], key: Key) -> None:
        """Write one row whatever its key.

        :raises NotWritten: when the row is gone, or a trigger ignores the update, deletes the row or changes its key
        """
        sql = f"update {quote(self.table)} set {_sets(names)} where {self._key.where_row(key)}"
        changed = conn.execute(sql, [*values, *self._key.locator(key)]).rowcount
        if changed != 1:
            if self.holds(conn, key):
                raise NotWritten(f"A trigger of the table {self.table!r} ignored the update, so nothing was written")
            raise NotWritten("The row is gone: it was deleted, or its key was changed, before its results were written")
        if self.has_triggers and not self.holds(conn, key):
            raise NotWritten(
                f"A trigger of the table {self.table!r} deleted the row or changed its key when the results were "
                "written, so they were taken back"
            )
        if self.orphaned and keyset.has_row(conn, self._key, key, self.orphaned):
            raise sqlite3.IntegrityError("FOREIGN KEY constraint failed")


class ShadowTarget:
    """The table `_enrichments_<table>` beside the source, which stays untouched. Methods as in RowTarget."""

    has_triggers = False
    orphaned: str | None = None

    def __init__(self, key: TableKey) -> None:
        self.table = SHADOW_PREFIX + key.table
        self._key = key
        self._columns = key.columns
        self._is_rowid = self.fits_all = not key.parts
        taken = set(map(fold, key.columns))
        names = itertools.accumulate(
            itertools.repeat("_"), initial=SOURCE_ROWID
        )  # a key may have a column of that name
        self._source_rowid = next(name for name in names if name not in taken)
        self.key_columns = (*key.columns, *(() if self._is_rowid else (self._source_rowid,)))

    def prepare(self, conn: sqlite3.Connection) -> None:
        if columns(conn, self.table):
            return
        if self._is_rowid:
            make(conn, self.table, f"create table {quote(self.table)} ({quote(self._columns[0])} integer primary key)")
            return
        kinds = dict(conn.execute("select name, type from temp.pragma_table_info(?)", [self._key.table]).fetchall())
        parts = [
            f"{quote(name)} {_plain_type(kinds.get(name, ''))} collate {self._key.parts[place].collation}"
            for name, place in zip(self._columns, self._key.declared, strict=True)
        ]
        names = ", ".join(map(quote, self._columns))
        parts += [f"{quote(self._source_rowid)} integer unique", f"unique ({names})"]
        make(conn, self.table, f"create table {quote(self.table)} ({', '.join(parts)})")

    def where_source_row(self, column: str, slot: str) -> str:
        """SQL true of a source row beside which `column` holds the value in `slot`."""
        shadow = quote(self.table)
        return f"exists (select 1 from {shadow} where {self._is_beside()} and {shadow}.{quote(column)} = {slot})"

    def value_beside(self, column: str) -> str:
        """SQL for what `column` holds beside a source row; NULL where nothing is."""
        shadow = quote(self.table)
        return f"(select {shadow}.{quote(column)} from {shadow} where {self._is_beside()} limit 1)"

    def _is_beside(self) -> str:
        """SQL true of the row of this table that belongs to a source row."""
        shadow, source = quote(self.table), self._key
        if self._is_rowid:
            same = f"{shadow}.{quote(self._columns[0])} = {source.rowid}"
        else:
            pairs = zip(self._columns, self._key.declared, strict=True)
            same = " and ".join(f"{shadow}.{quote(name)} = {source.parts[place].expression}" for name, place in pairs)
            if source.rowid is not None:
                same = f"(({same}) or {shadow}.{quote(self._source_rowid)} = {source.rowid})"
        return same

    def sql(self, names: Sequence[str]) -> str:
        keys = [quote(name) for name in self._columns]
        columns = ", ".join([*keys, *map(quote, names)])
        slots = ", ".join("?" for _ in range(len(keys) + len(names)))
        sets = ", ".join(f"{quote(name)} = excluded.{quote(name)}" for name in names)
        return (
            f"insert into {quote(self.table)} ({columns}) values ({slots}) "
            f"on conflict ({', '.join(keys)}) do update set {sets}"
        )

    def bound(
        self, names: Sequence[str], rows: Iterable[Any], keys: Iterable[tuple[Any, ...]], width: int
    ) -> Iterator[Any]:
        if self._is_rowid:
            return ((key[-1], *map(row.__getitem__, names)) for row, key in zip(rows, keys, strict=False))
        places = [width + place for place in self._key.declared]
        return (
            (*(key[place] for place in places), *map(row.__getitem__, names))
            for row, key in zip(rows, keys, strict=False)
        )

    def fits(self, key: Key) -> bool:
        return self._is_rowid or not (_has_raw_text(key) or (self._key.rowid is not None and None in key[:-1]))

    def write_one(self, conn: sqlite3.Connection, names: Sequence[str], values: Sequence[Any], key: Key) -> None:
        if self._write_one(conn, names, values, key) != 1:
            raise NotWritten(f"A trigger of the table {self.table!r} ignored the row, so nothing was written")

    def _write_one(self, conn: sqlite3.Connection, names: Sequence[str], values: Sequence[Any], key: Key) -> int:
        """How many rows were written."""
        if self.fits(key):
            row = dict(zip(names, values, strict=True))
            return conn.execute(self.sql(names), next(self.bound(names, [row], [key], 0))).rowcount
        parts = {quote(name): key[place] for name, place in zip(self._columns, self._key.declared, strict=True)}
        found: dict[str, Any] = {quote(self._source_rowid): key[-1]} if None in parts.values() else parts
        slots = {
            name: "+cast(? as text)" if isinstance(v, keyset.RawText) else "?" for name, v in (parts | found).items()
        }
        where = " and ".join(f"{name} is {slots[name]}" for name in found)
        updated = conn.execute(
            f"update {quote(self.table)} set {_sets(names)} where {where}", [*values, *map(_bytes, found.values())]
        )
        if updated.rowcount == 0:
            written = parts | found
            columns = ", ".join([*written, *map(quote, names)])
            marks = ", ".join([*(slots[name] for name in written), *("?" for _ in names)])
            updated = conn.execute(
                f"insert into {quote(self.table)} ({columns}) values ({marks})",
                [*map(_bytes, written.values()), *values],
            )
        return updated.rowcount

    def holds(self, conn: sqlite3.Connection, key: Key) -> bool:
        return True


Target: TypeAlias = RowTarget | ShadowTarget


def _orphaned(conn: sqlite3.Connection, table: str) -> str | None:
    """SQL true of a row whose deferred foreign key has no parent; None where the table has none, or SQLite does not
    check them."""
    (definition,) = conn.execute("select sql from sqlite_master where type = 'table' and name = ?", [table]).fetchone()
    if "deferr" not in definition.lower() or not conn.execute("pragma foreign_keys").fetchone()[0]:
        return None
    by_id: dict[int, list[tuple[str, str, str]]] = {}
    for number, place, parent, own, theirs in conn.execute(
        'select id, seq, "table", "from", "to" from temp.pragma_foreign_key_list(?) order by id, seq', [table]
    ).fetchall():
        if theirs is None:  # the parent's primary key
            key = conn.execute(
                "select name from temp.pragma_table_info(?) where pk = ?", [parent, place + 1]
            ).fetchone()
            theirs = "rowid" if key is None else key[0]
        by_id.setdefault(number, []).append((parent, own, theirs))
    terms, other = [], quote(f"parent of {table}")  # a name that the table does not have
    for columns_ in by_id.values():
        child = [(keyset.qualified(table, own), theirs) for _, own, theirs in columns_]
        known = " and ".join(f"{own} is not null" for own, _ in child)
        same = " and ".join(f"{other}.{quote(theirs)} = {own}" for own, theirs in child)
        terms.append(f"({known} and not exists (select 1 from {quote(columns_[0][0])} as {other} where {same}))")
    return f"({' or '.join(terms)})" if terms else None


# ---- which columns an enrichment may write -----------------------------------------------------------------------


def present_columns(conn: sqlite3.Connection, target: Target) -> dict[str, bool]:
    """The columns of the target's table, folded, and whether each is generated; none where it is not made yet."""
    found = conn.execute("select name, hidden in (2, 3) from temp.pragma_table_xinfo(?)", [target.table])
    return {fold(name): bool(is_generated) for name, is_generated in found}


def column_faults(
    conn: sqlite3.Connection, target: Target, names: Iterable[str], generated: Mapping[str, bool]
) -> dict[str, str]:
    """Those of these columns that cannot be written, each with the reason as a sentence.

    :param generated: from `present_columns`
    """
    keys = set(map(fold, target.key_columns))
    width = len(generated) or len(keys)
    room = column_limit(conn) - width
    faults, new = {}, set()
    for name in dict.fromkeys(names):
        fault = _name_fault(name)
        if fault is None and fold(name) in keys:
            fault = (
                f"The column {name!r} is the key by which the rows of {target.table!r} are found: it cannot be written"
            )
        elif fault is None and generated.get(fold(name)):
            fault = f"The column {name!r} is generated: SQLite computes it, so it cannot be written"
        elif fault is None and fold(name) not in generated:
            new.add(fold(name))
            if fold(name) in ROWID_NAMES:
                fault = f"A column called {name!r} would hide the number by which SQLite finds the row"
            elif len(new) > room:
                fault = _no_room(target, width, name)
        if fault is not None:
            faults[name] = fault
    return faults


def twins(names: Sequence[str]) -> str | None:
    """What is wrong where two of the names are one column."""
    spelled: dict[str, str] = {}
    for name in names:
        other = spelled.setdefault(fold(name), name)
        if other != name:
            return f"{other!r} and {name!r} are the same column to SQLite"
    return None


def check_columns(conn: sqlite3.Connection, target: Target, names: Sequence[str]) -> None:
    """Make sure that a job can write these columns.

    :raises BadConfig: `details` says of each why it cannot
    """
    faults = [*dict.fromkeys(column_faults(conn, target, names, present_columns(conn, target)).values())]
    if (fault := twins(names)) is not None:
        faults.append(fault)
    if faults:
        raise BadConfig("; ".join(faults), faults)


def _no_room(target: Target, width: int, name: str) -> str:
    way_out = ". Write the results into a table of their own: output shadow" if isinstance(target, RowTarget) else ""
    return (
        f"There is no room for the column {name!r}: SQLite takes no more columns in the table {target.table!r}, which "
        f"has {text.counted(width, 'column')}{way_out}"
    )


def _name_fault(name: Any) -> str | None:
    if not isinstance(name, str):
        return f"The name of a column must be text, not {name!r}"
    if not name:
        return "A column without a name cannot be written"
    if "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name):
        return f"SQLite takes no column of the name {name!r}"
    return None


def _sets(names: Sequence[str]) -> str:
    return ", ".join(f"{quote(name)} = ?" for name in names)


def _bytes(value: Any) -> Any:
    return value.content if isinstance(value, keyset.RawText) else value


def _has_raw_text(key: Key) -> bool:
    return any(isinstance(value, keyset.RawText) for value in key)


def _plain_type(declared: str) -> str:
    """A declared type as a quoted word, so that no odd one can break the statement; its affinity stays."""
    return quote(declared) if declared else ""
