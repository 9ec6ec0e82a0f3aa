"""The key of a table, typed cursors over it, and keyset pages: every row exactly once, whatever its key holds."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .. import sqlite
from ..sqlite import fold, quote
from .errors import BadSelection


@dataclass(frozen=True)
class RawText:
    """A text whose bytes are not UTF-8, as SQLite stores it."""

    content: bytes


KeyValue: TypeAlias = "int | float | str | bytes | RawText | None"
Key: TypeAlias = tuple[KeyValue, ...]


@dataclass(frozen=True)
class KeyPart:
    """One term of a table's order. `expression` is quoted SQL."""

    expression: str
    collation: str
    descending: bool = False
    nullable: bool = True

    @property
    def order(self) -> str:
        return f"{self.expression} collate {self.collation}{' desc' if self.descending else ''}"


@dataclass(frozen=True)
class TableKey:
    """How a table's rows are told apart, ordered and found again.

    `parts` are the declared key in index order (empty: none but the rowid). `rowid` is the name by which the rowid can
    be read, or None (WITHOUT ROWID). `columns` are the declared key's column names in declared order, or those that
    stand for it (`rowid`). `declared[i]` is the position in `parts` of `columns[i]`.
    """

    table: str
    parts: tuple[KeyPart, ...]
    rowid: str | None
    columns: tuple[str, ...]
    declared: tuple[int, ...]

    @property
    def has_pages(self) -> bool:
        """Whether Datasette's row pages find these rows: without a key it asks for `rowid`, whatever that is here."""
        return self.rowid not in [f"{quote(self.table)}.{name}" for name in ROWID_NAMES[1:]] or bool(self.parts)

    @property
    def order_by(self) -> str:
        terms = [part.order for part in self.parts]
        if self.rowid is not None:
            terms.append(self.rowid)
        return ", ".join(terms)

    @property
    def reads(self) -> list[str]:
        """The SQL terms that a page selects first: the parts, then the rowid where there is one."""
        return [part.expression for part in self.parts] + ([self.rowid] if self.rowid is not None else [])

    def public(self, key: Key) -> Any:
        """The key as an enrichment sees it: one value, or a tuple in declared order; the rowid is added where a part
        is NULL, so that it stays unique."""
        if not self.parts:
            return key[0]
        values: tuple[Any, ...] = tuple(key[position] for position in self.declared)
        if self.rowid is not None and None in values:
            return (*values, key[-1])
        return values[0] if len(values) == 1 else values

    def cursor_of(self, key: Key) -> Key:
        """The part of a row's key that a cursor needs: the rowid counts only where another part is NULL."""
        if self.parts and self.rowid is not None and None not in key[:-1]:
            return key[:-1]
        return key

    def where_row(self, key: Key | None = None) -> str:
        """SQL that finds one row by positional parameters; `locator` gives them. Without `key` it fits every row but
        those whose key holds text that is not UTF-8."""
        if self.rowid is not None:
            return f"{self.rowid} = ?"
        slots = [_slot(value) for value in key or (None,) * len(self.parts)]
        terms = (_equals(part, slot) for part, slot in zip(self.parts, slots, strict=True))
        return " and ".join(terms).replace(SLOT, "?")

    def locator(self, key: Key) -> tuple[Any, ...]:
        if self.rowid is not None:
            return (key[-1],)
        return tuple(value.content if isinstance(value, RawText) else value for value in key)


def qualified(table: str, column: str) -> str:
    """A column of a table in SQL. Never the bare name: SQLite reads a quoted name that is no column as a string."""
    return f"{quote(table)}.{quote(column)}"


def table_key(conn: sqlite3.Connection, table: str) -> TableKey:
    """Find out how the rows of `table` are keyed.

    :raises BadSelection: for a view, a virtual table, a table that does not exist, or one whose rows cannot be told
        apart (its columns take all three names of the rowid and it has no key)
    """
    kind = conn.execute(
        "select type, sql from sqlite_master where name = ? and type in ('table', 'view')", [table]
    ).fetchone()
    if kind is None:
        raise BadSelection(f"There is no table {table!r} in this database")
    if kind[0] == "view":
        raise BadSelection(f"{table!r} is a view: results cannot be written onto its rows. Enrich the table behind it")
    without_rowid, virtual = _table_kind(conn, table, kind[1] or "")
    if virtual:
        raise BadSelection(f"{table!r} is a virtual table: columns cannot be added to it")
    columns = conn.execute('select name, pk, "notnull" from temp.pragma_table_info(?) order by cid', [table]).fetchall()
    declared = [name for name, position, _ in sorted(columns, key=lambda column: column[1]) if position]
    rowid_name = _rowid_name(conn, table)
    rowid = None if without_rowid or rowid_name is None else f"{quote(table)}.{rowid_name}"
    index = conn.execute("select name from temp.pragma_index_list(?) where origin = 'pk'", [table]).fetchone()
    if index is None:
        if declared:  # an integer primary key: another name of the rowid
            return TableKey(table, (), qualified(table, declared[0]), (declared[0],), ())
        if rowid is None or rowid_name is None:
            raise BadSelection(
                f"The rows of {table!r} cannot be told apart: it has no key, and its columns hide the rowid"
            )
        return TableKey(table, (), rowid, (rowid_name,), ())
    terms = conn.execute(
        'select name, "desc", coll from temp.pragma_index_xinfo(?) where key = 1 order by seqno', [index[0]]
    ).fetchall()
    never_null = {name for name, _, notnull in columns if notnull or without_rowid}
    parts = tuple(
        KeyPart(qualified(table, name), quote(collation), bool(descending), name not in never_null)
        for name, descending, collation in terms
    )
    names = [term[0] for term in terms]
    key = TableKey(table, parts, rowid, tuple(declared), tuple(names.index(name) for name in declared))
    if rowid is None and not without_rowid:
        unknown = " or ".join(f"{part.expression} is null" for part in parts)
        if conn.execute(f"select 1 from {quote(table)} where {unknown} limit 1").fetchone():
            raise BadSelection(
                f"The rows of {table!r} cannot be told apart: keys are NULL, and its columns hide the rowid"
            )
    return key


def _table_kind(conn: sqlite3.Connection, table: str, sql: str) -> tuple[bool, bool]:
    """(WITHOUT ROWID, virtual or a virtual table's shadow)."""
    if sqlite3.sqlite_version_info >= (3, 37):
        kind, without_rowid = conn.execute(
            "select type, wr from temp.pragma_table_list where schema = 'main' and name = ?", [table]
        ).fetchone()
        return bool(without_rowid), kind in ("virtual", "shadow")
    if sql.lstrip().lower().startswith("create virtual"):
        return False, True
    try:  # older SQLite: a WITHOUT ROWID table has no column of any of the rowid's names
        conn.execute(f"select _rowid_ from {quote(table)} limit 0")
    except sqlite3.OperationalError:
        return True, False
    return False, False


# ---- a key in words ------------------------------------------------------------------------------------------------


def describe(conn: sqlite3.Connection, table: str) -> str:
    """The key of a table in one line, equal only where stored cursors mean the same rows: its columns in order, each
    with affinity, collation and direction, and the form of the table. Such as `id INTEGER, alias of the rowid` or
    `name TEXT collate NOCASE, WITHOUT ROWID, STRICT`.

    :raises BadSelection: as `table_key`
    """
    key = table_key(conn, table)
    without_rowid, is_strict = _form(conn, table)
    types = dict(conn.execute("select name, type from temp.pragma_table_info(?)", [table]).fetchall())
    if key.parts:
        places = sorted((position, name) for name, position in zip(key.columns, key.declared, strict=True))
        words = [
            " ".join(
                [
                    quote(fold(name)),
                    affinity(types[name]),
                    f"collate {fold(key.parts[place].collation)}",
                    *(["desc"] if key.parts[place].descending else []),
                ]
            )
            for place, name in places
        ]
    elif key.columns[0] in types:
        words = [f"{quote(fold(key.columns[0]))} INTEGER, alias of the rowid"]
    else:
        words = ["the rowid"]
    return ", ".join([*words, *(["WITHOUT ROWID"] if without_rowid else []), *(["STRICT"] if is_strict else [])])


def affinity(declared: str) -> str:
    """The affinity of a column of this declared type (https://www.sqlite.org/datatype3.html, 3.1)."""
    kind = declared.upper()
    if "INT" in kind:
        return "INTEGER"
    if any(word in kind for word in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if "BLOB" in kind or not kind:
        return "BLOB"
    return "REAL" if any(word in kind for word in ("REAL", "FLOA", "DOUB")) else "NUMERIC"


def has_key(conn: sqlite3.Connection, table: str, described: str | None) -> bool:
    """Whether the table has the key that `describe` found before; None is any key."""
    return described is None or describe(conn, table) == described


def require_key(conn: sqlite3.Connection, table: str, described: str | None) -> None:
    """Make sure that the table has the key that `describe` found before; None is any key.

    :raises BadSelection: when it has another one
    """
    if not has_key(conn, table, described):
        raise BadSelection(
            f"The key of {table!r} has changed since the job was added, so its rows cannot be told from those that were "
            f"answered. It was ({described}) and is ({describe(conn, table)}). Start a new job"
        )


def _form(conn: sqlite3.Connection, table: str) -> tuple[bool, bool]:
    """(WITHOUT ROWID, STRICT)."""
    if sqlite3.sqlite_version_info >= (3, 37):
        sql = "select wr, strict from temp.pragma_table_list where schema = 'main' and name = ? collate nocase"
        without_rowid, is_strict = conn.execute(sql, [table]).fetchone()
        return bool(without_rowid), bool(is_strict)
    return _table_kind(conn, table, "")[0], False


ROWID_NAMES = ("rowid", "_rowid_", "oid")
"""What SQLite calls a row's number where no column has that name (https://www.sqlite.org/lang_createtable.html#rowid)."""


def _rowid_name(conn: sqlite3.Connection, table: str) -> str | None:
    """The name by which a table's rowid can be read: not that of any column, generated ones included."""
    taken = set(map(fold, sqlite.columns(conn, table, hidden=True)))
    return next((name for name in ROWID_NAMES if name not in taken), None)


# ---- cursors as JSON -------------------------------------------------------------------------------------------


def dump(key: Key) -> str:
    """A cursor as readable JSON: `[["integer", "5"], ["text", "a"]]`. Every value SQLite can store keeps type and bytes."""
    return json.dumps([_tagged(value) for value in key], ensure_ascii=True)


def load(text: str) -> Key:
    """The cursor that `dump` wrote.

    :raises ValueError: for anything else
    """
    try:
        items = json.loads(text) if isinstance(text, str) else None
    except RecursionError:
        items = None
    if not isinstance(items, list) or not items:
        raise ValueError(f"not a cursor: {text[:80]!r}")
    return tuple(_untagged(item) for item in items)


def _tagged(value: KeyValue) -> list[str]:
    if value is None:
        return ["null"]
    if isinstance(value, int):
        return ["integer", str(value)]
    if isinstance(value, float):
        return ["real", value.hex()]
    if isinstance(value, str):
        return ["text", value]
    if isinstance(value, bytes):
        return ["blob", base64.b64encode(value).decode("ascii")]
    return ["text-bytes", base64.b64encode(value.content).decode("ascii")]


def _untagged(item: Any) -> KeyValue:
    match item:
        case ["null"]:
            return None
        case ["integer", str(text)]:
            return int(text)
        case ["real", str(text)]:
            return float.fromhex(text)
        case ["text", str(text)]:
            return text
        case ["blob", str(text)]:
            return base64.b64decode(text, validate=True)
        case ["text-bytes", str(text)]:
            return RawText(base64.b64decode(text, validate=True))
    raise ValueError(f"not a cursor part: {item!r}")


# ---- pages -----------------------------------------------------------------------------------------------------

SLOT = "\0"
"""Stands for a parameter in a condition under construction: no identifier can hold a NUL, but any can hold a `?`."""

Piece = tuple[str, tuple[KeyValue, ...]]
"""A condition and the values of its slots, a conjunction of equalities and at most one range: SQLite searches the key's
index with it. Pieces are read one after another; an OR or a row value was seen to lose rows."""


@dataclass(frozen=True)
class Page:
    """Rows in key order. Each holds the `width` columns that were asked for, then its key (parts, then the rowid)."""

    rows: list[tuple[Any, ...]]
    width: int

    def __len__(self) -> int:
        return len(self.rows)

    def key(self, number: int) -> Key:
        return self.rows[number][self.width :]

    def picked(self, numbers: Iterable[int]) -> list[tuple[Any, ...]]:
        return [self.rows[number] for number in numbers]

    def slice(self, start: int, stop: int) -> Page:
        return Page(self.rows[start:stop], self.width)


def pieces(conn: sqlite3.Connection, key: TableKey, after: Key | None, upto: Key | None) -> list[Piece]:
    """The conditions that together select the rows in (after, upto], in the key's order; None is an open end.

    :raises ValueError: for a cursor that cannot be of this key
    """
    parts = _full_parts(key)
    if after is None and upto is None:
        return [("1", ())]
    for bound in (after, upto):
        if bound is not None and not max(1, len(key.parts)) <= len(bound) <= len(parts):
            raise ValueError(f"the cursor {dump(bound)} is not of the key of {key.table!r}")
    if after is None:
        assert upto is not None
        return _rising(parts, upto, 0)
    if upto is None:
        return _falling(parts, after, 0)
    shared = _shared_prefix(conn, parts, after, upto)
    if shared == min(len(after), len(upto)):
        return []
    if len(parts) == 1 and after[0] is not None and upto[0] is not None and not parts[0].descending:
        (above, low), (below, high) = _compare(parts[0], ">", after[0]), _compare(parts[0], "<=", upto[0])
        return [(f"{above} and {below}", (*low, *high))]
    return [
        *_falling(parts, after, shared + 1),
        *(
            _conjunction(parts, after[:shared], middle)
            for middle in _between(parts[shared], after[shared], upto[shared])
        ),
        *_rising(parts, upto, shared + 1),
    ]


def page(
    conn: sqlite3.Connection,
    key: TableKey,
    columns: Sequence[str],
    where: str,
    params: Mapping[str, Any],
    after: Key | None = None,
    upto: Key | None = None,
    limit: int | None = None,
) -> Page:
    """Up to `limit` rows in (after, upto] that satisfy `where`, in key order.

    :param where: an SQL condition in parentheses with named parameters, or '' for all rows
    """
    terms = [qualified(key.table, column) for column in columns]
    return page_of_terms(conn, key, terms, where, params, after, upto, limit)


def page_of_terms(
    conn: sqlite3.Connection,
    key: TableKey,
    terms: Sequence[str],
    where: str,
    params: Mapping[str, Any],
    after: Key | None = None,
    upto: Key | None = None,
    limit: int | None = None,
) -> Page:
    """The same, reading SQL expressions over the row instead of columns."""
    rows: list[tuple[Any, ...]] = []
    for piece in pieces(conn, key, after, upto):
        left = -1 if limit is None else limit - len(rows)
        if left == 0:
            break
        rows.extend(_read(conn, key, terms, where, params, piece, left))
    return Page(rows, len(terms))


def count(
    conn: sqlite3.Connection,
    key: TableKey,
    where: str,
    params: Mapping[str, Any],
    after: Key | None = None,
    upto: Key | None = None,
) -> int:
    """How many rows in (after, upto] satisfy `where`; see `page`."""
    number = 0
    for piece in pieces(conn, key, after, upto):
        rest, arguments = _from(key, where, params, piece)
        number += int(conn.execute(f"select count(*) {rest}", arguments).fetchone()[0])
    return number


def precedes(conn: sqlite3.Connection, key: TableKey, one: Key, other: Key) -> bool:
    """Whether the cursor `one` comes before `other` in the order of the key."""
    parts = list(zip(_full_parts(key), one, other, strict=False))
    slots = [[f":{side}{number}" for number in range(len(parts))] for side in ("one", "other")]
    arguments: dict[str, Any] = {}
    for number, (_, *values) in enumerate(parts):
        for side, value in enumerate(values):
            name = slots[side][number]
            arguments[name[1:]] = value.content if isinstance(value, RawText) else value
            slots[side][number] = (f"cast({name} as text)" if isinstance(value, RawText) else name) + f" as k{number}"
    order = [
        f"k{number} collate {part.collation}{' desc' if part.descending else ''}"
        for number, (part, *_) in enumerate(parts)
    ]
    sides = " union all ".join(f"select {which} as side, {', '.join(named)}" for which, named in enumerate(slots))
    first = conn.execute(f"select side from ({sides}) order by {', '.join(order)}, side desc limit 1", arguments)
    return bool(first.fetchone()[0] == 0)


def _from(key: TableKey, where: str, params: Mapping[str, Any], piece: Piece) -> tuple[str, dict[str, Any]]:
    """The rows of a piece that satisfy `where`, as SQL with named parameters."""
    condition, values = piece
    arguments = dict(params)
    for number, value in enumerate(values):
        condition = condition.replace(SLOT, f":_key{number}", 1)
        arguments[f"_key{number}"] = value.content if isinstance(value, RawText) else value
    return f"from {quote(key.table)} where {where + ' and ' if where else ''}{condition}", arguments


def _read(
    conn: sqlite3.Connection,
    key: TableKey,
    told: Sequence[str],
    where: str,
    params: Mapping[str, Any],
    piece: Piece,
    limit: int,
) -> list[tuple[Any, ...]]:
    rows, arguments = _from(key, where, params, piece)
    terms = [*told, *key.reads]
    rest = f"{rows} order by {key.order_by} limit {limit}"
    try:
        with plain_text(conn) as cursor:
            return _select(cursor, terms, rest, arguments)
    except sqlite3.OperationalError as problem:
        if "decode to utf-8" not in str(problem).lower():
            raise
    width = len(told)
    with plain_text(conn, text_or_raw) as cursor:  # some text of the page is not UTF-8
        found = _select(cursor, terms, rest, arguments)
    return [(*map(_readable, row[:width]), *row[width:]) for row in found]


def _select(
    cursor: sqlite3.Cursor, terms: Sequence[str], rest: str, arguments: dict[str, Any]
) -> list[tuple[Any, ...]]:
    """The rows of one query, or of several over the same rows where SQLite takes no query so wide."""
    most = sqlite.column_limit(cursor.connection)
    if len(terms) <= most:
        return cursor.execute(f"select {', '.join(terms)} {rest}", arguments).fetchall()
    cursor.execute("savepoint wide")
    try:
        parts = [
            cursor.execute(f"select {', '.join(terms[start : start + most])} {rest}", arguments).fetchall()
            for start in range(0, len(terms), most)
        ]
    finally:
        cursor.execute("release wide")
    return [tuple(itertools.chain(*pieces)) for pieces in zip(*parts, strict=True)]


def text_or_raw(content: bytes) -> str | RawText:
    """A text that SQLite stores as these bytes."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return RawText(content)


def _readable(value: Any) -> Any:
    """Bytes that are not UTF-8 as lone surrogates: a reader can tell, and can have the bytes back."""
    return value.content.decode("utf-8", "surrogateescape") if isinstance(value, RawText) else value


@contextlib.contextmanager
def plain_text(conn: sqlite3.Connection, factory: Callable[[bytes], Any] = str) -> Iterator[sqlite3.Cursor]:
    """A cursor that gives tuples and decodes text in C, since Datasette's own text_factory is a Python call a cell; or
    by `factory`."""
    before = conn.text_factory
    conn.text_factory = factory
    cursor = conn.cursor()
    cursor.row_factory = None
    try:
        yield cursor
    finally:
        conn.text_factory = before
        cursor.close()


def _full_parts(key: TableKey) -> tuple[KeyPart, ...]:
    if key.rowid is None:
        return key.parts
    return (*key.parts, KeyPart(key.rowid, "binary", nullable=False))


def _slot(value: KeyValue) -> str:
    return f"+cast({SLOT} as text)" if isinstance(value, RawText) else SLOT


def _equals(part: KeyPart, slot: str) -> str:
    return f"{part.expression} = {slot} collate {part.collation}"


def _compare(part: KeyPart, operator: str, value: KeyValue) -> Piece:
    return f"{part.expression} {operator} {_slot(value)} collate {part.collation}", (value,)


def _null(part: KeyPart, test: str = "is null") -> Piece:
    return f"{part.expression} collate {part.collation} {test}", ()


def _equal(part: KeyPart, value: KeyValue) -> Piece:
    return _null(part) if value is None else _compare(part, "=", value)


def _behind(part: KeyPart, value: KeyValue) -> list[Piece]:
    """What follows `value` in the part's order; NULLs stand first, in a descending part last."""
    if value is None:
        return [] if part.descending else [_null(part, "is not null")]
    if part.descending:
        return [_compare(part, "<", value), *([_null(part)] if part.nullable else [])]
    return [_compare(part, ">", value)]


def _before(part: KeyPart, value: KeyValue) -> list[Piece]:
    if value is None:
        return [_null(part, "is not null")] if part.descending else []
    if part.descending:
        return [_compare(part, ">", value)]
    return [*([_null(part)] if part.nullable else []), _compare(part, "<", value)]


def _between(part: KeyPart, low: KeyValue, high: KeyValue) -> list[Piece]:
    """What lies strictly between two different values, `low` first in the part's order."""
    bounds = []
    if low is not None:
        bounds.append(_compare(part, "<" if part.descending else ">", low))
    if high is not None:
        bounds.append(_compare(part, ">" if part.descending else "<", high))
    return [(" and ".join(sql for sql, _ in bounds), tuple(value for _, values in bounds for value in values))]


def _conjunction(parts: Sequence[KeyPart], prefix: Key, last: Piece | None) -> Piece:
    terms = [_equal(part, value) for part, value in zip(parts, prefix, strict=False)]
    if last is not None:
        terms.append(last)
    return " and ".join(sql for sql, _ in terms), tuple(value for _, values in terms for value in values)


def _falling(parts: Sequence[KeyPart], bound: Key, depth: int) -> list[Piece]:
    """Everything behind `bound` that shares its first `depth` values: deepest prefix first."""
    return [
        _conjunction(parts, bound[:level], piece)
        for level in range(len(bound) - 1, depth - 1, -1)
        for piece in _behind(parts[level], bound[level])
    ]


def _rising(parts: Sequence[KeyPart], bound: Key, depth: int) -> list[Piece]:
    """Everything up to and including `bound` that shares its first `depth` values."""
    found = [
        _conjunction(parts, bound[:level], piece)
        for level in range(depth, len(bound))
        for piece in _before(parts[level], bound[level])
    ]
    return [*found, _conjunction(parts, bound, None)]


def _shared_prefix(conn: sqlite3.Connection, parts: Sequence[KeyPart], one: Key, other: Key) -> int:
    """How many leading values are equal by their column's collation: SQLite decides, Python's comparison differs."""
    for number, (part, left, right) in enumerate(zip(parts, one, other, strict=False)):
        if left is None or right is None:
            if left is not right:
                return number
            continue
        bound = [value.content if isinstance(value, RawText) else value for value in (left, right)]
        sql = f"select {_slot(left)} = {_slot(right)} collate {part.collation}".replace(SLOT, "?")
        if not conn.execute(sql, bound).fetchone()[0]:
            return number
    return min(len(one), len(other))


def has_row(conn: sqlite3.Connection, key: TableKey, whole: Key, where: str = "1") -> bool:
    """Whether there is a row of this key, and it satisfies an SQL condition without parameters."""
    condition, bound = _conjunction(_full_parts(key), whole, None)
    sql = f"select 1 from {quote(key.table)} where {condition.replace(SLOT, '?')} and {where} limit 1"
    return conn.execute(sql, [v.content if isinstance(v, RawText) else v for v in bound]).fetchone() is not None


def rowids_at(conn: sqlite3.Connection, key: TableKey, values: Key) -> list[int]:
    """The rowids of the rows whose declared key is exactly `values` (in the key's index order)."""
    condition, bound = _conjunction(key.parts, values, None)
    sql = f"select {key.rowid} from {quote(key.table)} where {condition.replace(SLOT, '?')}"
    return [row[0] for row in conn.execute(sql, [v.content if isinstance(v, RawText) else v for v in bound])]
