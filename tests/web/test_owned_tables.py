"""Which tables are ours."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from datasette_ingest.web.owned_tables import has_stored_sql, may_be_ours, our_tables, source_of_shadow


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("_enrichment_jobs", True),
        ("_Enrichments_X", True),
        ("INGEST_HITS", True),
        ("ingest_fulltext_fts_idx", True),
        ("cdx", True),
        ("ingested", False),
        ("enrichment_jobs", False),
        ("İngest_hits", False),
        ("_enrichmentjobs", False),
    ],
)
def test_names_fold_as_sqlite_folds_them(name, ours):
    assert may_be_ours(name) is ours


def tables_of(*statements: str) -> list[str]:
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        for statement in statements:
            conn.execute(statement)
        return sorted(our_tables(conn))


JOBS = "create table _enrichment_jobs (id integer primary key)"
CDX = "create table cdx (url, datetime, cdx_sha1hex, warc_path)"


def test_without_jobs_nothing_is_ours():
    assert tables_of("create table ingest_request (x)", CDX) == []


def test_a_common_word_is_ours_only_with_our_columns():
    assert tables_of(JOBS, CDX) == ["_enrichment_jobs", "cdx"]
    assert tables_of(JOBS, "create table cdx (url, note)", "create table papers (id)") == ["_enrichment_jobs"]


def test_views_and_the_pieces_of_the_full_text_index_count():
    found = tables_of(
        JOBS,
        "create view ingest_hits as select 1 as x",
        "create virtual table ingest_fulltext_fts using fts5(text)",
    )
    assert {"ingest_hits", "ingest_fulltext_fts", "ingest_fulltext_fts_data"} <= set(found)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("_enrichments_papers", "papers"),
        ("_ENRICHMENTS_Papers", "Papers"),
        ("_enrichment_jobs", None),
        ("papers", None),
    ],
)
def test_a_shadow_table_names_its_source(name, source):
    assert source_of_shadow(name) == source


@pytest.mark.parametrize(
    ("filters", "holds"),
    [("", False), (None, False), ("where__exact=1", False), ("year=1&_where=1%3D1", True), ("note=_where", False)],
)
def test_a_persons_sql_is_found_among_the_filters_of_any_job(filters, holds):
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        conn.execute("create table _enrichment_jobs (id integer primary key, filter_querystring text)")
        conn.executemany("insert into _enrichment_jobs (filter_querystring) values (?)", [("year=2020",), (filters,)])
        assert has_stored_sql(conn) is holds
