"""Filters mean what the table page shows, are checked for who asks, and never mean more by mistake."""

from __future__ import annotations

import re
import sqlite3
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest import compat
from datasette_ingest.jobs import selection
from datasette_ingest.jobs.errors import BadSelection, NotAllowed
from datasette_ingest.jobs.selection import Selection, has_free_sql
from datasette_ingest.jobs.service import permissions, selection_preview

from ..conftest import ROOT, registered, rows, serving
from .kit import by_row, start, table


async def select(datasette, filters, name="papers", actor=ROOT):
    """The keys that the filters select."""
    chosen = await permissions.require_table(datasette, actor, "data", name)
    found = await selection_preview.open_preview(datasette, chosen, filters=filters, actor=actor)
    [key] = found.key.columns
    return [row[key] for row in (await selection_preview.rows(found, limit=100)).rows]


async def refused(datasette, filters, name="papers", actor=ROOT):
    with pytest.raises(BadSelection) as caught:
        await select(datasette, filters, name, actor)
    return caught.value.message


@pytest.mark.parametrize(
    "filters, keys",
    [
        ("", [1, 2, 3, 4, 5]),
        ("?id=2", [2]),
        ("id__gt=2&id__lt=5", [3, 4]),
        ("id=1&id=2", []),
        ("id__in=1,3", [1, 3]),
        ('id__in=["1","3"]', [1, 3]),
        ("id__notin=1,3", [2, 4, 5]),
        ("title__contains=r+3", [3]),
        ("title__isnull=1", []),
        ("title__notblank=1&title__startswith=paper", [1, 2, 3, 4, 5]),
        ("_where=id+%3D+1+or+id+%3D+4", [1, 4]),
        ("_where=id+%3D+1+or+id+%3D+4&id__lt=4", [1, 4]),  # joined without parentheses, as Datasette joins them
        ("_row=2&_row=5", [2, 5]),
        ("_row=2&_rowid=4", [2, 4]),
        ("_row=99", []),
        ("_sort=title&_sort_desc=id&_next=3&_size=1&_col=title&_nocol=id&_shape=array&_facet=title", [1, 2, 3, 4, 5]),
        (
            "_facet_array=title&_facet_date=id&_label=on&_labels=on&_extra=x&_nocount=1&_trace=1&_ttl=0&_json=a",
            [1, 2, 3, 4, 5],
        ),
    ],
)
async def test_filters_select_what_the_table_page_shows(db_path, filters, keys):
    async with serving(db_path) as datasette:
        assert await select(datasette, filters) == keys


@pytest.mark.parametrize(
    "filters, said",
    [
        ("nosuch=1", "names no column"),
        ("nosuch__gt=1", "names no column"),
        ("id__nosuchop=1", "nosuchop"),
        ("_nosuch=1", "_nosuch"),
        ("_retry=1", "Unknown filter '_retry'"),
        ("_facets=title", "Unknown filter '_facets'"),
        ("_facet_foo=title", "Unknown filter '_facet_foo'"),
        ("_facet_size__gt=1", "Unknown filter '_facet_size__gt'"),
        ("_ingest_failed__in=1", "Unknown filter '_ingest_failed__in'"),
        ("_sort_dsc=id", "_sort_dsc"),
        ("_search=x", "no full-text search"),
        ("_search_title=x", "no full-text search"),
        ("_where=nosuch+%3D+1", "no such column"),
        ("_where=1+%3D+", "SQLite does not understand"),
        ("_where=id+%3D+:nobody", "SQLite does not understand"),
        ("_where=id+%3D+%3F", "SQLite does not understand"),
        ("_where=1)+or+(1", "SQLite does not understand"),
        ("_where=1+--", "SQLite does not understand"),
        ("_where=1%3B+drop+table+papers", "SQLite does not understand"),
        ("_where=1+%2F*", "SQLite does not understand"),
        ("_where=1+union+select+1", "SQLite does not understand"),
        ("_where=1%00", "SQLite does not understand"),
        ("_where=json_extract(title,'$')", "fail on some row"),
        ("_through=%7B%7D", "Datasette does not understand"),
        ("_through=junk", "Datasette does not understand"),
        ("_row=1,2", "_row"),
        ("_rowid=x", "_rowid"),
        ("_rowid=99999999999999999999", "_rowid"),
        ("_ingest_failed=x", "_ingest_failed"),
        ("_ingest_failed=1", "_ingest_failed"),
        ("_ingest_status=success", "_ingest"),
        ("_ingest_status=success&_ingest_job=9", "_ingest_job"),
        ("_ingest_job=9", "_ingest_job"),
        ("_ingest_scope=errors", "_ingest_scope"),
        ("_ingest_retry=9", "_ingest_retry"),
        ("id__in=[1", "not a JSON list"),
        ('id__in=[{"a":1}]', "not a JSON list"),
    ],
)
async def test_a_filter_that_would_be_dropped_or_misread_is_refused_by_name(db_path, filters, said):
    async with serving(db_path) as datasette:
        assert said in await refused(datasette, filters)
    assert rows(db_path, "select count(*) from papers") == [(5,)]


async def test_free_sql_is_for_those_who_may_execute_sql(db_path):
    async with serving(db_path, databases={"data": {"allow_sql": {"id": "root"}}}, plugin={"allow": True}) as datasette:
        curious = {"id": "curious"}
        assert await select(datasette, "_where=id+%3D+1") == [1]
        if not compat.is_1_0(datasette):  # there `allow` is a setting of the 0.65 line
            with pytest.raises(NotAllowed):
                await select(datasette, "_where=id+%3D+1", actor=curious)
            assert await select(datasette, "id=1", actor=curious) == [1]


async def test_underscored_columns_are_filtered_by_name_and_operator(tmp_path):
    path = tmp_path / "data.db"
    table(
        path,
        "create table papers (_id integer primary key, _where text, a__b text)",
        "insert into papers values (7, 'x', 'y')",
    )
    async with serving(path) as datasette:
        assert await select(datasette, "_id__exact=7&_where__exact=x&a__b__exact=y") == [7]
        assert await select(datasette, "_id__exact=8") == []
        assert await select(datasette, "_row=7") == [7]
        assert "_id__exact" in await refused(datasette, "_id=7")


LIKE_KEYS = [
    "_facet_status",
    "_facet",
    "_facet_array",
    "_facets",
    "_sort",
    "_sort_desc",
    "_sorted",
    "_size",
    "_next",
    "_col",
]
LIKE_KEYS += [
    "_row",
    "_rowid",
    "_rows",
    "_ingest_failed",
    "_ingest_status",
    "_ingested",
    "_search_x",
    "_search",
    "_where",
]
LIKE_KEYS += ["_through", "_trace", "_again", "_", "__", "_a__contains"]


@pytest.mark.parametrize("column", LIKE_KEYS)
async def test_a_column_that_is_named_like_a_key_is_filtered_with_every_operator(tmp_path, column):
    path = tmp_path / "data.db"
    table(
        path,
        f'create table papers (id integer primary key, "{column}" text)',
        "insert into papers values (1, 'open'), (2, 'closed'), (3, null)",
    )
    async with serving(path) as datasette:
        for filters, keys in [
            ("__exact=open", [1]),
            ("__contains=los", [2]),
            ("__isnull=1", [3]),
            ("__not=open", [2]),
            ("__in=open,closed", [1, 2]),
            ("__endswith=d", [2]),
        ]:
            assert await select(datasette, column + filters) == keys
        assert "unknown operator" in await refused(datasette, f"{column}__nosuch=1")
        for filters in (column + "=closed", column.upper() + "=closed"):
            try:
                kept = await select(datasette, filters)
            except BadSelection:
                continue
            assert kept == ([] if filters.startswith("_row=") else [1, 2, 3])  # the row of the key `closed`
            assert filters.partition("=")[0] in selection.DISPLAY_KEYS | {"_facet_array", "_row"}


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        ("_search=snow&_search=whale", "_search is given 2 times"),
        ("_search=snow&_search_title=whale", "Beside _search the filter _search_title would not count"),
        ("_search_title=snow&_search_title=whale", "_search_title is given 2 times"),
        ("_search=snow&_searchmode=raw&_searchmode=escaped", "_searchmode is given 2 times"),
        ("_ingest_status=a&_ingest_status=b&_ingest_job=1", "_ingest_status is given 2 times"),
    ],
)
async def test_a_filter_of_which_only_one_would_count_is_refused(tmp_path, filters, said):
    path = tmp_path / "data.db"
    table(path, "create table papers (id integer primary key, title text)", "insert into papers values (1, 'snow')")
    table(path, 'create virtual table papers_fts using fts5 (title, content="papers")')
    async with serving(path) as datasette:
        assert said in await refused(datasette, filters)


async def test_search_and_through_join_with_column_filters_without_sharing_parameters(tmp_path):
    path = tmp_path / "data.db"
    table(
        path,
        "create table papers (id integer primary key, title text)",
        "insert into papers values (1, 'whale song'), (2, 'whale fall'), (3, 'snow')",
        'create virtual table papers_fts using fts5 (title, content="papers")',
        "insert into papers_fts (rowid, title) select id, title from papers",
        "create table tags (id integer primary key, paper integer references papers(id), word text)",
        "insert into tags values (1, 1, 'blue'), (2, 3, 'blue'), (3, 2, 'red')",
    )
    through = quote_plus('{"table":"tags","column":"word","value":"blue"}')
    async with serving(path) as datasette:
        assert await select(datasette, "_search=whale") == [1, 2]
        assert await select(datasette, "_search=whale&id=2") == [2]
        assert await select(datasette, f"_through={through}") == [1, 3]
        assert await select(datasette, f"_through={through}&title=snow") == [3]
        assert await select(datasette, f"_through={through}&_search=whale&id__lt=3&_where=id+%3E+0") == [1]


async def test_search_uses_the_index_that_the_configuration_names(tmp_path):
    path = tmp_path / "data.db"
    table(
        path,
        "create table papers (id integer primary key, title text)",
        "insert into papers values (1, 'whale song'), (2, 'snow')",
        "create virtual table titles using fts5 (title)",  # nothing in the schema says which table it is for
        "insert into titles (rowid, title) select id, title from papers",
    )
    configured = {"databases": {"data": {"tables": {"papers": {"fts_table": "titles"}}}}}
    async with serving(path) as datasette:
        assert "no full-text search" in await refused(datasette, "_search=whale")
    async with serving(path, **configured) as datasette:
        assert await select(datasette, "_search=whale") == [1]
        assert await select(datasette, "_search_title=snow") == [2]
        assert (await datasette.client.get("/data/papers.json?_search=whale&_shape=arrays")).json()["rows"] == [
            [1, "whale song"]
        ]


async def test_names_with_slashes_quotes_and_marks_work(tmp_path):
    path = tmp_path / "data.db"
    name, column = 'foo/bar\'s "x" ?#%.~ü :p0', 'a/b\'s "c" ?:p0 {x} ü'
    with sqlite3.connect(path) as conn:
        quoted = column.replace('"', '""')
        conn.execute(f'create table "{name.replace(chr(34), chr(34) * 2)}" ("{quoted}" text primary key)')
        conn.executemany(
            f'insert into "{name.replace(chr(34), chr(34) * 2)}" values (?)', [("a/b",), ("c,d",), ('e"',)]
        )
    conn.close()
    async with serving(path) as datasette:
        assert await select(datasette, f"{quote_plus(column)}=c,d", name) == ["c,d"]
        assert await select(datasette, "_row=a~2Fb&_row=c~2Cd&_row=e~22", name) == ["a/b", "c,d", 'e"']


async def test_the_exact_count_goes_past_ten_thousand_and_one(tmp_path):
    path = tmp_path / "data.db"
    table(
        path,
        "create table papers (n integer)",
        "with recursive c (n) as (select 1 union all select n + 1 from c where n < 10002) insert into papers select n from c",
    )
    async with serving(path) as datasette:
        papers = await permissions.require_table(datasette, ROOT, "data", "papers")
        found = await selection_preview.open_preview(datasette, papers, actor=ROOT)
        assert (await selection_preview.count(found), found.selection.description) == (10_002, "")


@pytest.mark.parametrize(
    ("filters", "description"),
    [
        ("", ""),
        ("id__gte=2&title=a%26b", 'id ≥ 2 and title = "a&b"'),
        ("_row=5", "1 selected row"),
        ("_row=1&_row=2&_rowid=3&id__lt=9", "id < 9 and 3 selected rows"),
        ("_ingest_failed=1", "in error in job 1"),
        ("_ingest_retry=1", "to be retried after job 1 (errors)"),
    ],
)
async def test_a_job_keeps_a_description_of_its_filters(db_path, filters, description):
    with registered(by_row(lambda row: None)):
        async with serving(db_path) as datasette:
            await start(datasette)
            job = await start(datasette, filters=filters)
    assert Selection.load(job.selection, job.filter_querystring).description == description


async def test_a_start_does_not_wait_for_filters_that_count_for_too_long(db_path, monkeypatch):
    async with serving(db_path) as datasette:
        db = datasette.get_database("data")
        slow = Selection(
            where="(select count(*) from papers a, papers b, papers c, papers d, papers e, papers f, papers g, papers h, papers i, papers j, papers k)"
        )
        assert await selection.count(db, "papers", slow, limit_ms=50) is None
        forever = "(with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n)"
        with registered(by_row(lambda row: None)):
            job = await start(datasette, filters=f"_where={quote_plus(forever)}")
        assert (job.row_count, job.is_counted) == (0, False)


MANY = ",".join(map(str, range(1001)))


@pytest.mark.parametrize(
    "filters, problem",
    [
        (f"id__in={MANY}", "The filter 'id__in' has 1,001 values; 1,000 is the most"),
        (f"id__notin=[{MANY}]", "The filter 'id__notin' has 1,001 values; 1,000 is the most"),
        ("&".join(["id__gte=1"] * 900 + ["id__lt=3"] * 200), "These are more than 1,000 filters. Choose fewer"),
        ("title=" + 70_000 * "x", "These filters are longer than 64 kB. Choose fewer or shorter ones"),
        ("title=" + 25_000 * "€", "These filters are longer than 64 kB. Choose fewer or shorter ones"),
        (
            "_where=" + "+or+".join(["id=1"] * 20_000),
            "These filters are longer than 64 kB. Choose fewer or shorter ones",
        ),
        ("_facet=" + 70_000 * "x", "These filters are longer than 64 kB. Choose fewer or shorter ones"),
        ("&" * 2_000_000, "These are more than 10,000 filters or single rows. Choose fewer"),
        ("&".join(["_row=1"] * 20_000), "These are more than 10,000 filters or single rows. Choose fewer"),
        ("&".join(f"_row={n}" for n in range(5001)), "5,001 rows are selected; 5,000 is the most"),
    ],
    ids=["list", "JSON list", "pairs", "text", "bytes", "SQL", "display key", "separators", "one row", "rows"],
)
async def test_more_filters_than_a_job_may_have_are_refused_with_their_number(db_path, filters, problem):
    with registered(by_row(lambda row: None)):
        async with serving(db_path) as datasette:
            with pytest.raises(BadSelection, match=re.escape(problem)):
                await start(datasette, filters=filters)


async def test_as_many_filters_as_a_job_may_have_select_their_rows(db_path):
    with registered(by_row(lambda row: None)):
        async with serving(db_path) as datasette:
            by_list = await start(datasette, filters="id__in=" + ",".join(map(str, range(1000))))
            by_row_ = await start(datasette, filters="&".join(f"_row={n:020}" for n in range(3, 5003)))
        assert (by_list.row_count, by_row_.row_count) == (5, 3)


@given(
    st.dictionaries(
        st.from_regex(r"[a-z]\w{0,5}", fullmatch=True),
        st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.text(), st.binary(), st.floats(allow_nan=False)),
    ),
    st.booleans(),
)
def test_a_stored_selection_reads_back_as_it_was(params, is_free_sql):
    stored = Selection("a=1", "(x)", params, "", is_free_sql, ("a", "b"))
    assert Selection.load(stored.dump(), "a=1") == stored


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"where": 1}', "null"])
def test_a_stored_selection_that_is_none_is_refused(text):
    with pytest.raises(ValueError):
        Selection.load(text, "")


@pytest.mark.parametrize(
    "querystring, kept",
    [
        ("?a=1&_sort=b", "a=1"),
        ("_facet_size=3&_facet=x&_facet_array=y&_facet_date=z", ""),
        ("_facet_size=3&_facet_foo=x", "_facet_foo=x"),
        ("_again=3&_retry=4&a=1", "a=1"),
        (
            "_facets=x&_facet_size__gt=3&_sort_desc__isnull=1&_size__in=1",
            "_facets=x&_facet_size__gt=3&_sort_desc__isnull=1&_size__in=1",
        ),
        ("a=&b=x%26y&a=2", "a=&b=x%26y&a=2"),
        ("_where=1&_col=x", "_where=1"),
    ],
)
def test_only_what_selects_is_kept(querystring, kept):
    assert selection.filter_arguments(querystring) == kept
    assert selection.has_free_sql(querystring) == ("_where" in kept)


async def test_a_table_that_no_job_can_work_on_is_refused_with_the_reason(tmp_path):
    path = tmp_path / "data.db"
    table(
        path,
        "create table papers (id integer primary key, title text)",
        "create view shelf as select * from papers",
        "create virtual table words using fts5 (word)",
        "create table hidden (rowid, _rowid_, oid)",
    )
    async with serving(path) as datasette:
        assert "is a view" in await refused(datasette, "", "shelf")
        assert "virtual table" in await refused(datasette, "", "words")
        assert "virtual table" in await refused(datasette, "", "words_content")
        assert "cannot be told apart" in await refused(datasette, "", "hidden")


@pytest.mark.parametrize("querystring", ["_where=1", "?_where=1", "a=1&_where", "%5Fwhere=1", "a=1&_%77here=x%3D1"])
def test_a_persons_own_sql_is_known_however_it_is_spelt(querystring):
    assert has_free_sql(querystring)


@pytest.mark.parametrize("querystring", ["", "where=1", "a=_where", "a=1%26_where=1", "_where__exact=1", "+_where=1"])
def test_other_filters_are_no_sql_of_a_persons_own(querystring):
    assert not has_free_sql(querystring)
