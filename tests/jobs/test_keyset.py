"""Keyset pages give every row of any table exactly once, in order, wherever they are cut."""

import contextlib
import sqlite3

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasette_ingest.jobs import keyset
from datasette_ingest.jobs.errors import BadSelection
from datasette_ingest.sqlite import quote

NAMES = [
    "a",
    "b",
    "Rowid",
    "x y",
    'q"uote',
    "per%cent",
    "que?stion",
    "{brace}",
    "select",
    "ü",
    "semi;colon",
    ":p0",
    "oid",
]
TYPES = ["integer", "int", "text", "blob", "real", "numeric", "", "varchar(9)", "any", "boolean", "decimal(4,2)"]
COLLATIONS = ["", " collate nocase", " collate rtrim", " collate binary"]
VALUES = st.one_of(
    st.none(),
    st.integers(-3, 3),
    st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1, 2**53 - 1, 2**53]),
    st.sampled_from([0.0, -0.0, 0.5, 1.0, float("inf"), float("-inf"), 1e300, 2.0**53]),
    st.sampled_from(["", "a", "A", "a ", "b", "1", "1.0", "x\0y", "ü", "Ü", "\uffff", "\U0001f600"]),
    st.sampled_from([b"", b"a", b"\0", b"\xff", b"1"]),
    st.sampled_from([keyset.RawText(b"\xff\xfe"), keyset.RawText(b"a\xff")]),
)


@st.composite
def tables(draw):
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique_by=str.lower))
    width = draw(st.integers(0, min(3, len(names))))
    columns, keys = [], []
    for number, name in enumerate(names):
        quoted = quote(name)
        kind, collation = draw(st.sampled_from(TYPES)), draw(st.sampled_from(COLLATIONS))
        columns.append(f"{quoted} {kind}{collation}")
        if number < width:
            keys.append(f"{quoted}{draw(st.sampled_from(COLLATIONS))}{draw(st.sampled_from(['', ' desc', ' asc']))}")
    keys = draw(st.permutations(keys))
    if keys:
        columns.append(f"primary key ({', '.join(keys)})")
    without_rowid = bool(keys) and draw(st.booleans())
    sql = f"create table t ({', '.join(columns)}){' without rowid' if without_rowid else ''}"
    if draw(st.integers(0, 7)) == 0:
        sql = f"create table t ({quote(names[0])} integer primary key {draw(st.sampled_from(['', 'desc']))})"
        names = names[:1]
    rows = draw(st.lists(st.tuples(*[VALUES] * len(names)), max_size=14))
    return sql, names, rows


def build(sql, names, rows):
    conn = sqlite3.connect(":memory:", isolation_level=None)
    try:
        conn.execute(sql)
    except sqlite3.OperationalError:
        return None
    for row in rows:
        slots = ", ".join("cast(? as text)" if isinstance(value, keyset.RawText) else "?" for value in row)
        bound = [value.content if isinstance(value, keyset.RawText) else value for value in row]
        try:
            conn.execute(f"insert into t ({', '.join(map(quote, names))}) values ({slots})", bound)
        except (sqlite3.IntegrityError, sqlite3.OperationalError):
            continue
    return conn


@settings(max_examples=800, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tables(), st.integers(1, 7), st.data())
def test_pages_of_any_size_give_every_row_once_in_order(table, size, data):
    conn = build(*table)
    if conn is None:
        return
    key = keyset.table_key(conn, "t")
    names = table[1]
    whole = keyset.page(conn, key, names, "", {})
    assert len(whole) == conn.execute("select count(*) from t").fetchone()[0]
    seen, after, cuts = [], None, [None]
    while rows := keyset.page(conn, key, names, "", {}, after, None, size).rows:
        seen.extend(rows)
        after = keyset.load(keyset.dump(key.cursor_of(rows[-1][len(names) :])))
        cuts.append(after)
    assert repr(seen) == repr(whole.rows)
    start = data.draw(st.integers(0, len(cuts) - 1))
    stop = data.draw(st.integers(0, len(cuts) - 1))
    low, high = sorted((start, stop))
    inside = keyset.page(conn, key, names, "", {}, cuts[low], cuts[high]).rows if cuts[high] is not None else []
    assert repr(inside) == repr(whole.rows[low * size : high * size])
    for row in whole.rows:
        found = conn.execute(
            f"select count(*) from t where {key.where_row()}",
            [v.content if isinstance(v, keyset.RawText) else v for v in key.locator(row[len(names) :])],
        ).fetchone()[0]
        assert found == 1 or any(isinstance(value, keyset.RawText) for value in row[len(names) :])
    publics = [key.public(row[len(names) :]) for row in whole.rows]
    assert len({repr(public) for public in publics}) == len(publics)


@settings(max_examples=300, deadline=None)
@given(tables())
def test_no_page_needs_a_temporary_b_tree_or_a_scan(table):
    conn = build(*table)
    if conn is None:
        return
    key = keyset.table_key(conn, "t")
    rows = keyset.page(conn, key, [], "", {}).rows
    for row in rows[:3]:
        for condition, values in keyset.pieces(conn, key, key.cursor_of(row), None):
            sql = f"explain query plan select * from t where {condition} order by {key.order_by} limit 3"
            bound = [v.content if isinstance(v, keyset.RawText) else v for v in values]
            plan = " ".join(str(line[3]) for line in conn.execute(sql.replace(keyset.SLOT, "?"), bound))
            assert "B-TREE" not in plan, plan
            # SQLite walks past leading NULLs once, on its way to the first key that is not NULL
            assert "SEARCH" in plan or condition.endswith("is not null"), plan


def test_a_cursor_is_readable_and_keeps_type_and_bytes():
    key = (None, 5, 0.1, "ä", b"\xff", keyset.RawText(b"\xfe"))
    assert keyset.load(keyset.dump(key)) == key
    assert keyset.dump((5, "a")) == '[["integer", "5"], ["text", "a"]]'


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "5", '[["integer", 5]]', '[["integer", "x"]]', '[["odd", "1"]]', "null"]
)
def test_a_corrupt_cursor_is_an_error_not_a_guess(text):
    with pytest.raises(ValueError):
        keyset.load(text)


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("create view t as select 1 as a", "is a view"),
        ("create virtual table t using fts5(a)", "is a virtual table"),
        ("create table other (a)", "There is no table"),
        ("create table t (rowid text, _rowid_ text, oid text)", "cannot be told apart"),
    ],
)
def test_what_cannot_be_paged_is_refused_by_name(sql, says):
    conn = sqlite3.connect(":memory:")
    conn.execute(sql)
    with pytest.raises(BadSelection, match=says):
        keyset.table_key(conn, "t")


def test_a_key_that_hides_the_rowid_and_repeats_null_is_refused():
    conn = sqlite3.connect(":memory:")
    conn.execute("create table t (rowid text primary key, _rowid_ text, oid text)")
    conn.execute("insert into t values (null, 1, 1), (null, 1, 1)")
    with pytest.raises(BadSelection, match="cannot be told apart"):
        keyset.table_key(conn, "t")


@given(
    keys=st.lists(
        st.one_of(
            st.none(), st.integers(-5, 5), st.floats(allow_nan=False), st.text(max_size=2), st.binary(max_size=2)
        ),
        min_size=2,
        max_size=6,
        unique_by=repr,
    )
)
@pytest.mark.parametrize(
    "declared", ["k primary key", "k collate nocase primary key", "k, id integer, primary key (k desc)", "k"]
)
def test_which_of_two_cursors_comes_first_is_as_in_the_order_of_the_rows(declared, keys):
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        conn.execute(f"create table t ({declared})")
        conn.executemany("insert or ignore into t (k) values (?)", [(key,) for key in keys])
        key = keyset.table_key(conn, "t")
        page = keyset.page(conn, key, [], "", {})
        cursors = [key.cursor_of(page.key(number)) for number in range(len(page))]
        for place, one in enumerate(cursors):
            for other_place, other in enumerate(cursors):
                assert keyset.precedes(conn, key, one, other) == (place < other_place)
