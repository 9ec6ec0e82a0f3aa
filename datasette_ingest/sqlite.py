"""SQLite for all parts of the package: names, columns, times, values as JSON, upserts, and the tables that it makes."""

from __future__ import annotations

import base64
import math
import re
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

SHADOW_PREFIX = "_enrichments_"
"""Begins the name of the table that holds the results of the table whose name follows."""

# ---- names and columns -----------------------------------------------------------------------------------------
# Queries name SQLite's own tables of functions as `temp.json_each(…)`, `temp.pragma_table_info(…)`: a table of a user's
# that has the bare name would take its place.

_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def quote(name: str) -> str:
    """An identifier for use in SQL."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def fold(name: str) -> str:
    """A name as SQLite compares it: ASCII letters in lower case, other letters as they are."""
    return name.lower() if name.isascii() else name.translate(_ASCII_LOWER)


def columns(conn: sqlite3.Connection, table: str, *, hidden: bool = False) -> list[str]:
    """The columns of a table or view in their order, generated ones included; none where it does not exist.

    :param hidden: also those of a virtual table that `select *` leaves out
    """
    sql = "select name from temp.pragma_table_xinfo(?)" + ("" if hidden else " where hidden != 1")
    return [row[0] for row in conn.execute(sql, [table])]


def column_limit(conn: sqlite3.Connection) -> int:
    """The most columns that a table or the result of a query may have here (https://www.sqlite.org/limits.html, 2)."""
    if hasattr(conn, "getlimit"):  # since Python 3.11
        return conn.getlimit(sqlite3.SQLITE_LIMIT_COLUMN)
    compiled = (
        row[0].partition("=") for row in conn.execute("select compile_options from temp.pragma_compile_options")
    )
    return next((int(value) for name, _, value in compiled if name == "MAX_COLUMN"), 2000)


def kind(conn: sqlite3.Connection, name: str) -> str | None:
    """`table`, `view` or `index`, which share their names; None where nothing of that name exists."""
    sql = "select type from sqlite_master where type <> 'trigger' and name = ? collate nocase"
    found = conn.execute(sql, [name]).fetchone()
    return None if found is None else str(found[0])


# ---- times -----------------------------------------------------------------------------------------------------

_NO_PUNCTUATION = str.maketrans("", "", "-T:")


def iso(seconds: float) -> str:
    """Seconds since 1970 as `2026-11-30T13:36:00Z`; fractions are kept to the millisecond where there are any."""
    moment = datetime.fromtimestamp(round(seconds, 3), timezone.utc)
    return moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")


def stamp(seconds: float) -> str:
    """`iso` always with milliseconds, so that such texts compare as their times do."""
    text = iso(seconds)
    return text if "." in text else text.replace("Z", ".000Z")


def from_iso(text: str) -> float:
    """Seconds since 1970 of an ISO 8601 time; without a zone it is UTC.

    :raises ValueError: for other text
    """
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return moment.timestamp()


def iso_utc(moment: datetime) -> str:
    """`2026-11-30T13:42:56Z`: whole seconds, the form of every time in the tables of results but for terminal_dt."""
    return moment.astimezone(timezone.utc).isoformat()[:19] + "Z"


def digits14(moment: datetime) -> str:
    """`20261130134256`: the web archives' form of a time."""
    return moment.astimezone(timezone.utc).isoformat()[:19].translate(_NO_PUNCTUATION)


# ---- values ----------------------------------------------------------------------------------------------------


def escape_surrogates(text: str | None) -> str | None:
    """Escape lone surrogates, which SQLite refuses: a message may quote a cell that is not UTF-8."""
    return None if text is None else text.encode("utf-8", "backslashreplace").decode("utf-8")


LARGEST_EXACT = 2**53 - 1
"""JSON readers may take a number as a double, which holds integers up to this one exactly (RFC 8259, 6)."""


def json_cell(value: Any) -> Any:
    """A cell as JSON in which nothing is lost: bytes, and text that is not UTF-8, in Datasette's
    `{"$base64": true, "encoded": …}`; integers that a double cannot hold and infinities as the text that SQLite casts
    them to; everything else as it is."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return json_bytes(value)
    if isinstance(value, str) and not _is_unicode(value):
        return json_bytes(_bytes_of(value))
    if isinstance(value, int) and abs(value) > LARGEST_EXACT:
        return str(value)
    return json_value(value)


def json_bytes(content: bytes | bytearray | memoryview) -> dict[str, Any]:
    """Bytes in Datasette's form."""
    return {"$base64": True, "encoded": base64.b64encode(content).decode("ascii")}


def json_value(value: Any) -> Any:
    """A value as JSON that every reader takes: `Inf`, `-Inf` and `NaN` for numbers that JSON cannot write, lone
    surrogates escaped. Containers are walked through."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value).title().replace("Nan", "NaN")
    if isinstance(value, str):
        return escape_surrogates(value)
    if isinstance(value, Mapping):
        return {json_value(key): json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    return value


def _bytes_of(text: str) -> bytes:
    """The bytes of a text that was not UTF-8 when it was read."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


# ---- tables and views that this package makes --------------------------------------------------------------------
# The steps that were taken stand in `_sqlite_migrations`, each in the transaction that took it. So a table or view of
# a name that has a history there is ours; any other one is a user's own.

RECORDS: str = Migrations.migrations_table
Step = Callable[[Database], Any]


@dataclass(frozen=True)
class TableSpec:
    """A table, as the steps of its history make it. A column or a step that has been released is never edited.

    :param columns: name -> SQL type and constraints, of the columns that it began with (step `m001_create`)
    :param primary_key: its columns, where no column says `primary key` itself
    :param indexes: name -> the columns, as SQL, of the indexes that it began with
    :param later: name of a step (`m002_…`, `m003_…`) -> the columns that it adds, or an SQL statement. A step does no
        harm when it is taken again.
    """

    columns: Mapping[str, str]
    primary_key: tuple[str, ...] = ()
    indexes: Mapping[str, str] = field(default_factory=dict)
    later: Mapping[str, Mapping[str, str] | str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """The names of its columns today."""
        later = [column for change in self.later.values() if not isinstance(change, str) for column in change]
        return [*self.columns, *later]

    def steps(self, name: str) -> dict[str, Step]:
        """The steps that make the table `name`, in order."""
        later = {step: partial(self._add_later, name, change) for step, change in self.later.items()}
        return {"m001_create": partial(self._create, name), **later}

    @property
    def index_names(self) -> list[str]:
        """The names of its indexes today."""
        later = (_INDEX.match(change) for change in self.later.values() if isinstance(change, str))
        return [*self.indexes, *(match[1] for match in later if match is not None)]

    @property
    def part_names(self) -> list[str]:
        """The names of the full-text indexes and triggers that belong to it today."""
        later = (_PART.match(change) for change in self.later.values() if isinstance(change, str))
        return [match[1] for match in later if match is not None]

    def stands(self, conn: sqlite3.Connection, name: str, taken: Iterable[str]) -> bool:
        """Whether the table has every column, full-text index and trigger that these steps made."""
        present = set(map(fold, columns(conn, name)))
        taken = set(taken)
        parts = self.part_names if self.later.keys() <= taken else ()
        return all(self._added.get(step, frozenset()) <= present for step in taken) and all(
            _has_part(conn, name, part) for part in parts
        )

    @cached_property
    def _added(self) -> dict[str, frozenset[str]]:
        """The columns that each step adds, folded."""
        later = {step: () if isinstance(change, str) else change for step, change in self.later.items()}
        return {step: frozenset(map(fold, change)) for step, change in {"m001_create": self.columns, **later}.items()}

    def fits(self, conn: sqlite3.Connection, name: str) -> bool:
        """Whether what exists under the name is a table with the columns that this one began with."""
        return kind(conn, name) == "table" and self.stands(conn, name, ["m001_create"])

    def _create(self, name: str, db: Database) -> None:
        parts = [f"{quote(column)} {definition}" for column, definition in self.columns.items()]
        if self.primary_key:
            parts.append(f"primary key ({', '.join(map(quote, self.primary_key))})")
        db.conn.execute(f"create table if not exists {quote(name)} (\n  " + ",\n  ".join(parts) + "\n)")
        _add_columns(db.conn, name, self.columns)
        for index, indexed in self.indexes.items():
            db.conn.execute(f"create index if not exists {quote(index)} on {quote(name)} ({indexed})")

    def _add_later(self, name: str, change: Mapping[str, str] | str, db: Database) -> None:
        if isinstance(change, str):
            db.conn.execute(change)
        else:
            _add_columns(db.conn, name, change)


_INDEX = re.compile(r"create (?:unique )?index if not exists (\w+) on ", re.IGNORECASE)
_PART = re.compile(r"create (?:virtual table|trigger) if not exists (\w+)\s", re.IGNORECASE)


def _has_part(conn: sqlite3.Connection, table: str, part: str) -> bool:
    """Whether there is a full-text index, or a trigger of the table, of this name."""
    sql = """
    select 1 from sqlite_master where name = ? collate nocase
    and (type = 'trigger' and tbl_name = ? collate nocase or sql like 'create virtual table%')
    """
    return conn.execute(sql, [part, table]).fetchone() is not None


def _add_columns(conn: sqlite3.Connection, table: str, wanted: Mapping[str, str]) -> None:
    """Add those of the columns that the table lacks. SQLite can add no key to a table that exists."""
    present = set(map(fold, columns(conn, table)))
    for column, definition in wanted.items():
        if fold(column) not in present:
            definition = definition.replace(" primary key", "")
            conn.execute(f"alter table {quote(table)} add column {quote(column)} {definition}")


@dataclass(frozen=True)
class ViewSpec:
    """A view. `reads`: the tables that must exist; `select`: its query; `step`: the step that gave it this query."""

    reads: tuple[str, ...]
    select: str
    step: str = "m001_create"
    index_names: ClassVar[Sequence[str]] = ()
    part_names: ClassVar[Sequence[str]] = ()

    def steps(self, name: str) -> dict[str, Step]:
        return {self.step: partial(self._create, name)}

    def stands(self, conn: sqlite3.Connection, name: str, taken: Iterable[str]) -> bool:
        """Whether the view has this query, if the step that gave it was taken."""
        sql = "select sql from sqlite_master where type = 'view' and name = ? collate nocase"
        found = conn.execute(sql, [name]).fetchone()
        return self.step not in taken or (found is not None and found[0].endswith(self.select))

    def fits(self, conn: sqlite3.Connection, name: str) -> bool:
        """Whether what exists under the name is a view."""
        return kind(conn, name) == "view"

    def _create(self, name: str, db: Database) -> None:
        db.conn.execute(f"drop view if exists {quote(name)}")
        db.conn.execute(f"create view {quote(name)} as\n{self.select}")


Specs = Mapping[str, TableSpec | ViewSpec]


def migrate(conn: sqlite3.Connection, specs: Specs) -> None:
    """Create these tables and views, or take the steps of their history that have not been taken yet.

    Runs inside the caller's transaction if one is open and leaves it open. What exists under such a name must be ours.
    """
    taken = _taken(conn)
    for name, spec in specs.items():
        if not _is_current(conn, name, spec, taken):
            is_lost = not spec.stands(conn, name, taken.get(_history_of(name), ()))
            _take(conn, name, spec.steps(name), anew=is_lost)


def make(conn: sqlite3.Connection, name: str, sql: str) -> None:
    """Create a table by a statement of its own, and begin its history."""
    _take(conn, name, {"m001_create": lambda db: db.conn.execute(sql)}, anew=True)


def _take(conn: sqlite3.Connection, name: str, steps: Mapping[str, Step], *, anew: bool) -> None:
    history = Migrations(_history_of(name))
    for step, take in steps.items():
        history(name=step)(take)
    if anew and columns(conn, history.migrations_table):
        conn.execute(f"delete from {history.migrations_table} where migration_set = ?", [history.name])
    history.apply(Database(conn, recursive_triggers=False, execute_plugins=False))


def stranger(conn: sqlite3.Connection, specs: Specs, *, adopts: Collection[str] = ()) -> str | None:
    """The name of a table, view or index that stands where one of these belongs, or where their histories are kept, and
    that was not made here; None where nothing does.

    :param adopts: tables that are ours without a history
    """
    if kind(conn, RECORDS) is not None and not _keeps_histories(conn):
        return RECORDS
    names = made(conn)
    for name, spec in specs.items():
        is_ours = name in adopts or (fold(name) in names and spec.fits(conn, name))
        if kind(conn, name) is not None and not is_ours:
            return name
        for index in spec.index_names:
            if not all(is_of_it for (is_of_it,) in conn.execute(_INDEX_OF, [name, index])):
                return index
        for part in spec.part_names:
            if kind(conn, part) is not None and not (fold(name) in names and _has_part(conn, name, part)):
                return part
    return None


_INDEX_OF = """select type = 'index' and tbl_name = ? collate nocase from sqlite_master
where type <> 'trigger' and name = ? collate nocase"""


def _keeps_histories(conn: sqlite3.Connection) -> bool:
    """Whether `_sqlite_migrations` is sqlite-utils' table, which several programs may share."""
    present = set(map(fold, columns(conn, RECORDS)))
    return kind(conn, RECORDS) == "table" and present >= {"migration_set", "name", "applied_at"}


def is_current(conn: sqlite3.Connection, specs: Specs) -> bool:
    """Whether these tables and views exist and all their steps have been taken."""
    taken = _taken(conn)
    return all(_is_current(conn, name, spec, taken) for name, spec in specs.items())


def made(conn: sqlite3.Connection) -> set[str]:
    """The names, folded, of the tables and views that were made here by `migrate` or `make`, by earlier versions too."""
    return {fold(history.removeprefix(_PREFIX)) for history in _taken(conn) if history.startswith(_PREFIX)}


def forget(conn: sqlite3.Connection) -> None:
    """Delete the histories of all tables and views that were made here: none of them exists any more."""
    if columns(conn, Migrations.migrations_table):
        sql = f"delete from {Migrations.migrations_table} where substr(migration_set, 1, ?) = ?"
        conn.execute(sql, [len(_PREFIX), _PREFIX])


def _is_current(conn: sqlite3.Connection, name: str, spec: TableSpec | ViewSpec, taken: Mapping[str, set[str]]) -> bool:
    here = taken.get(_history_of(name), set())
    return here >= spec.steps(name).keys() and spec.stands(conn, name, here)


_PREFIX = "datasette_ingest."


def _history_of(name: str) -> str:
    return _PREFIX + name


def _taken(conn: sqlite3.Connection) -> dict[str, set[str]]:
    """The steps that have been taken in this database, by history."""
    found: dict[str, set[str]] = {}
    if _keeps_histories(conn):
        for history, step in conn.execute(f"select migration_set, name from {Migrations.migrations_table}"):
            found.setdefault(history, set()).add(step)
    return found


# ---- rows -----------------------------------------------------------------------------------------------------


def upsert(
    conn: sqlite3.Connection,
    table: str,
    key: Mapping[str, Any],
    values: Mapping[str, Any],
    *,
    keep: Collection[str] = (),
) -> None:
    """Write one row. `key` are its key columns, all of them texts, which may be bound as bytes; `values` the others.

    Columns in `keep` are not overwritten by NULL.

    :raises sqlite3.IntegrityError: when a trigger keeps the row from being written
    """
    sql = _upsert_sql(table, tuple(key), tuple(values), frozenset(keep))
    if conn.execute(sql, [*key.values(), *values.values()]).rowcount != 1:
        raise sqlite3.IntegrityError(f"A trigger of the table {table!r} ignored the row, so nothing was written")


@lru_cache
def _upsert_sql(table: str, key: tuple[str, ...], values: tuple[str, ...], keep: frozenset[str]) -> str:
    places = ["cast(? as text)"] * len(key) + ["?"] * len(values)
    changes = [
        f"{name} = coalesce(excluded.{name}, {name})" if name in keep else f"{name} = excluded.{name}"
        for name in values
    ]
    return (
        f"insert into {table} ({', '.join(key + values)}) values ({', '.join(places)})"
        f" on conflict ({', '.join(key)}) do update set {', '.join(changes)}"
    )
