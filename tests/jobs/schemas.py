"""Tables as strangers make them, from a seed: keys, names, constraints and triggers of all kinds, and odd values."""

from __future__ import annotations

import contextlib
import pathlib
import random
import sqlite3
from dataclasses import dataclass, field
from typing import Any

from datasette_ingest.jobs import keyset
from datasette_ingest.sqlite import fold, quote

NUMBER = "row number"
"""The column by which a test tells the rows apart."""
OUT = "out"
"""The column that is written."""

TABLE_NAMES = [
    "t",
    "e",
    "r",
    "foo/bar",
    'q"uote',
    "per%cent ?",
    "select",
    "ü:p0",
    "a\nb",
    "\ufeffx",
    " led",
    "main.t",
    "-- x",
]
COLUMN_NAMES = [
    *("a", "b", "id", "rowid", "_rowid_", "oid", "RowID", "OID", "message", "outcome", "next_try", "terminal_url"),
    *(
        "select",
        'q"',
        "x y",
        "a\nb",
        "",
        " ",
        "\ufeff",
        "\u200f",
        "ü",
        "?1",
        ":p0",
        "_key0",
        "[c]",
        "a'b",
        "job_id",
        "_source_rowid",
    ),
]
TYPES = ["", "integer", "int", "text", "real", "blob", "numeric", "varchar(10)", "datetime", "any"]
STRICT_TYPES = ["integer", "int", "text", "real", "blob", "any"]
COLLATIONS = ["", "", "", " collate nocase", " collate rtrim"]
VALUES = [
    *(0, 1, -1, 2, 5, 2**53 + 1, 2**63 - 1, -(2**63), 0.1, -0.0, 1e300, float("inf"), float("-inf")),
    *("", "a", "A", "a ", "0", "1", "5", "é", "a\0b", "a\nb", "\ufeff", "🎈", "~", ","),
    *(b"", b"a", b"\xff\x00", keyset.RawText(b"\xff"), keyset.RawText(b"a\xff"), None, None),
]
REFUSED = f'new."{NUMBER}" % 4 = 3'
TRIGGERS = {
    "ignores": "before update on {t} when {when} begin select raise(ignore); end",
    "aborts": "before update on {t} when {when} begin select raise(abort, 'no'); end",
    "fails": "before update on {t} when {when} begin select raise(fail, 'no'); end",
    "rolls back": "before update on {t} when {when} begin select raise(rollback, 'no'); end",
    "deletes before": 'before update on {t} when {when} begin delete from {t} where "{n}" = new."{n}"; end',
    "deletes after": 'after update on {t} when {when} begin delete from {t} where "{n}" = new."{n}"; end',
    "moves": 'after update on {t} when {when} begin update {t} set {key} = 77000 + "{n}" where "{n}" = new."{n}"; end',
    "logs": 'after update on {t} begin insert into log values (new."{n}"); end',
}
OUT_COLUMNS = [
    *(None, None, None, "{out}", "{out} integer", "{OUT} text", "{out} integer not null default -1", "{out} unique"),
    *(
        "{out} integer check ({out} % 4 <> 3)",
        "{out} integer references parents (id)",
        "{out} references parents (id) deferrable initially deferred",
        "{out} blob collate nocase",
    ),
    *("{out} integer as (1)", '{out} as ("{n}" + 1) stored'),
]


@dataclass
class Schema:
    """A table (or something else of its name) as SQL, and what may be expected of it."""

    seed: int
    table: str
    statements: list[str] = field(default_factory=list)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def build(self, path: pathlib.Path) -> bool:
        """Make it; False where SQLite does not take the definition."""
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as conn:
            conn.execute("pragma journal_mode = memory")
            conn.execute("pragma synchronous = off")
            conn.execute("begin")
            conn.execute("create table log (n)")
            conn.execute("create table writes (n)")
            conn.execute("create table parents (id integer primary key)")
            conn.executemany("insert into parents values (?)", [(number,) for number in range(40) if number % 4 != 3])
            first, *others = self.statements
            try:
                conn.execute(first)
            except sqlite3.OperationalError:
                return False
            into = ", ".join(map(quote, [*self.names, NUMBER]))
            for number, row in enumerate(self.rows):
                slots = ", ".join("cast(? as text)" if isinstance(value, keyset.RawText) else "?" for value in row)
                bound = [value.content if isinstance(value, keyset.RawText) else value for value in row]
                with contextlib.suppress(sqlite3.IntegrityError):
                    conn.execute(
                        f"insert into {quote(self.table)} ({into}) values ({', '.join([slots, '?'] if slots else ['?'])})",
                        [*bound, number],
                    )
            for sql in others:
                conn.execute(sql)
            conn.execute("commit")
        return True


def schema_of(seed: int) -> Schema:
    """The table of this seed, always the same."""
    chance = random.Random(seed)
    table = chance.choice(TABLE_NAMES)
    made = Schema(seed, table)
    if chance.random() < 0.06:
        return _something_else(chance, made)
    strict = chance.random() < 0.2
    by_fold = {fold(name): name for name in chance.sample(COLUMN_NAMES, chance.randint(1, 5))}
    names = list(by_fold.values())
    columns, readable = [], []
    types = [chance.choice(STRICT_TYPES if strict else TYPES) for _ in names]
    for name, kind in zip(names, types, strict=True):
        if chance.random() < 0.15:
            columns.append(
                f"{quote(name)} {kind} as ({chance.choice(['1', repr('x'), quote(NUMBER)])}){chance.choice(['', ' stored'])}"
            )
            continue
        unique = chance.choice(["", "", "", "", " unique", " not null default 'd'"])
        columns.append(f"{quote(name)} {kind}{chance.choice(COLLATIONS)}{unique}")
        readable.append(name)
    columns.append(f"{quote(NUMBER)} integer")
    if (out := chance.choice(OUT_COLUMNS)) is not None:
        columns.append(out.format(out=OUT, OUT=OUT.upper(), n=NUMBER))
    if chance.random() < 0.02:
        columns += [f"c{number} text" for number in range(chance.randint(1990, 2000) - len(columns))]
    without_rowid = ""
    key = chance.sample(readable, chance.randint(0, len(readable)))
    if key and len(key) == 1 and chance.random() < 0.3:
        place = next(place for place, sql in enumerate(columns) if sql.startswith(quote(key[0]) + " "))
        columns[place] = f"{quote(key[0])} integer primary key{chance.choice(['', ' desc'])}"
        if not strict and chance.random() < 0.2:
            without_rowid = "without rowid"
    elif key:
        parts = [f"{quote(name)}{chance.choice(COLLATIONS)}{chance.choice(['', ' desc'])}" for name in key]
        columns.append(f"primary key ({', '.join(parts)})")
        without_rowid = chance.choice(["", "without rowid"])
    kinds = ", ".join(filter(None, ["strict" if strict else "", without_rowid]))
    made.statements.append(f"create table {quote(table)} ({', '.join(columns)}) {kinds}")
    made.names = readable
    made.rows = [tuple(chance.choice(VALUES) for _ in readable) for _ in range(chance.choice([0, 1, 7, 12]))]
    for name in chance.sample(sorted(TRIGGERS), chance.choice([0, 0, 1, 2])):
        if name == "moves" and not key:
            continue
        target = quote(key[0]) if key else ""
        sql = TRIGGERS[name].format(t=quote(table), when=REFUSED, n=NUMBER, key=target)
        made.statements.append(f"create trigger {quote(name)} {sql}")
    made.statements.append(
        f"create trigger counts after update on {quote(table)} begin insert into writes values (new.{quote(NUMBER)}); end"
    )
    return made


def _something_else(chance: random.Random, made: Schema) -> Schema:
    """What cannot be enriched: views, with triggers that would take an update or without, and virtual tables."""
    name = quote(made.table)
    made.statements = chance.choice(
        [
            [f"create view {name} as select id, id as {quote(NUMBER)} from parents"],
            [
                f"create view {name} as select id, id as {quote(NUMBER)} from parents",
                f"create trigger instead instead of update on {name} begin select 1; end",
            ],
            [f"create virtual table {name} using fts5(a, {quote('b')})"],
            [f"create virtual table {name} using rtree(id, low, high)"],
            [f"create table {name} (rowid, oid as (1), _rowid_ text)"],
        ]
    )
    return made
