"""Only what is new is written; a dry run counts the same and writes nothing."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest.load import query
from datasette_ingest.ingest.load.errors import BadInput
from datasette_ingest.ingest.load.load import Batch, Load, Plan
from datasette_ingest.ingest.load.write import DryRun, Written, write_batch
from datasette_ingest.ingest.store.requests import request_of

from .kit import GIVEN, all_rows, database, lines, load, request, write

ROWS = load(lines(*(request(number, ext_ids={"n": number}) for number in range(1, 7)))).rows


def test_what_is_in_the_table_stays_as_it_is() -> None:
    conn = database()
    assert write(conn, lines(request(1), request(2)), "jsonl", created="2026-01-01T00:00:00Z") == Written(2, 0)
    assert write(conn, lines(request(2), request(3), request(3, actor="x")), "jsonl") == Written(1, 2)
    found = conn.execute("select source_id, created, actor from ingest_request order by 1").fetchall()
    assert found == [
        ("1", "2026-01-01T00:00:00Z", "unknown"),
        ("2", "2026-01-01T00:00:00Z", "unknown"),
        ("3", GIVEN.created, "unknown"),
    ]


@pytest.mark.parametrize("name", ["ingest_type", "base_url", "source", "source_id"])
def test_each_part_of_the_key_makes_a_request_another(name: str) -> None:
    conn = database()
    others = {"ingest_type": "xml"}
    write(conn, lines(request(1), request(1, **{name: others.get(name, "other")})), "jsonl")
    assert len(list(all_rows(conn))) == 2


PICKED = st.lists(st.sampled_from(ROWS), max_size=12)


@given(before=PICKED, batch=PICKED, most=st.none() | st.integers(1, 5), expectation=st.booleans())
def test_counts_are_those_of_the_rows(before: Any, batch: Any, most: int | None, expectation: bool) -> None:
    conn = database()
    write_batch(conn, Batch(list(before)), most=None, mostly_known=False)
    present = set(before)
    wanted, taken = Written(), []
    for row in batch:
        if wanted.new == most:
            break
        is_new = row not in present and row not in taken
        wanted += Written(int(is_new), int(not is_new))
        taken += [row] if is_new else []
    dry = DryRun(conn).add(Batch(list(batch)), most)
    written = write_batch(conn, Batch(list(batch)), most=most, mostly_known=expectation)
    kept = {row[:4] for row in all_rows(conn)}
    assert kept == {row[:4] for row in (*present, *taken)}
    assert (written.new, dry.new) == (wanted.new, wanted.new)
    if most is None or wanted.new < most:
        assert (written, dry) == (wanted, wanted)


def test_a_dry_run_counts_a_request_once_over_all_batches(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    sqlite3.connect(path).close()
    dry = DryRun(query.read_only(path))
    assert dry.add(Batch(ROWS[:3]), None) == Written(3, 0)
    assert dry.add(Batch(ROWS), None) == Written(3, 3)
    assert not sqlite3.connect(path).execute("select * from sqlite_master").fetchall()


def test_a_row_is_the_request_that_it_was_made_from() -> None:
    document = request(1, actor="me", ext_ids={"doi": "10.1/a"}, expect_hash={"sha1": "a" * 40}, more=[1])
    conn = database()
    write(conn, lines(document), "jsonl")
    conn.row_factory = sqlite3.Row
    assert request_of(dict(conn.execute("select * from ingest_request").fetchone())).to_json() == document


# Results


def result(number: int = 1, **others: Any) -> dict[str, Any]:
    return {
        "request": {
            "ingest_type": "pdf",
            "base_url": f"http://h/{number}",
            "link_source": "oai",
            "link_source_id": "1",
        },
        "hit": True,
        "status": "success",
        "hops": [f"http://h/{number}", f"http://h/{number}.pdf"],
        "terminal": {
            "terminal_url": f"http://h/{number}.pdf",
            "terminal_dt": "20240102030405",
            "terminal_status_code": 200,
            "terminal_sha1hex": "a" * 40,
        },
        "file_meta": {
            "sha1hex": "a" * 40,
            "sha256hex": "b" * 64,
            "md5hex": "c" * 32,
            "size_bytes": 7,
            "mimetype": "application/pdf",
        },
        **others,
    }


def test_results_come_along_with_their_requests() -> None:
    conn = database()
    assert write(conn, lines(result()), "results") == Written(1, 0, 1)
    assert conn.execute("select base_url, source, source_id from ingest_request").fetchall() == [
        ("http://h/1", "oai", "1")
    ]
    stored = "select base_url, hit, status, terminal_url, terminal_sha1hex, updated, next_try from ingest_file_result"
    assert conn.execute(stored).fetchall() == [
        ("http://h/1", 1, "success", "http://h/1.pdf", "a" * 40, "2024-01-02T03:04:05Z", None)
    ]
    assert conn.execute("select sha1hex, size_bytes from file_meta").fetchall() == [("a" * 40, 7)]


def test_facts_of_every_kind_come_along_with_their_result() -> None:
    """All of the fields of a result that are a row of a table, also in a database that had no such table."""
    digest = {"sha1hex": "a" * 40}
    facts = {
        "pdf_meta": {
            **digest,
            "status": "success",
            "page_count": 3,
            "metadata": {"title": "Salt"},
            "processor": "pdf/1",
        },
        "xml_meta": {
            **digest,
            "status": "success",
            "dialect": "jats",
            "biblio": {"title": "Salt"},
            "processor": "xml/1",
        },
        "html_meta": {**digest, "resources": [{"type": "image", "url": "http://h/i"}], "processor": "html/1"},
        "grobid": {
            **digest,
            "status": "success",
            "status_code": 200,
            "metadata": {"title": "Salt"},
            "xml_url": "tei/aa",
        },
        "cdx": {**digest, "url": "http://h/1.pdf", "datetime": "20240102030405", "mimetype": "application/pdf"},
    }
    conn = database()
    write(conn, lines(result(**facts)), "results")
    conn.row_factory = sqlite3.Row
    for table, fact in facts.items():
        [row] = conn.execute(f"select * from {table}").fetchall()
        packed = {key: json.dumps(value) if isinstance(value, dict | list) else value for key, value in fact.items()}
        assert {key: row[key] for key in fact} == packed, table


def test_a_result_that_is_stored_stays() -> None:
    conn = database()
    write(conn, lines(result()), "results")
    miss = result(hit=False, status="no-pdf", terminal=None, file_meta=None)
    assert write(conn, lines(miss), "results") == Written(0, 1, 0)
    assert conn.execute("select hit from ingest_file_result").fetchall() == [(1,)]


def test_a_miss_is_due_when_its_class_says_so_and_old_words_are_ours() -> None:
    conn = database()
    miss = result(hit=False, status="null-body", terminal=None, file_meta=None, updated="2026-01-01T00:00:00Z")
    write(conn, lines(miss), "results")
    assert conn.execute("select status, next_try from ingest_file_result").fetchall() == [
        ("empty-blob", "2026-01-31T00:00:00Z")
    ]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"hit": "perhaps"}, "hit: Input should be a valid boolean"),
        ({"hit": False}, "hit is false and status 'success'"),
        (
            {"terminal": {"terminal_url": "x", "terminal_sha1hex": "zz"}},
            "terminal.terminal_sha1hex: String should match",
        ),
        (
            {"request": {"ingest_type": "pdf", "base_url": "x", "link_source": "a", "link_source_id": " "}},
            "source_id is missing or blank",
        ),
        (
            {"request": {"ingest_type": "pdf", "base_url": "http://***@h/", "source": "a", "source_id": "b"}},
            "base_url has *** in the place of a password: export it with --passwords",
        ),
        ({"updated": "yesterday"}, "updated is 'yesterday', which is no time"),
    ],
)
def test_a_line_that_is_no_result_is_refused(fields: dict[str, Any], reason: str) -> None:
    loaded = load(lines(result(1), result(2, **fields), result(3)), "results")
    assert loaded.urls == ["http://h/1", "http://h/3"]
    ((line, said),) = loaded.refused
    assert (line, said[: len(reason)]) == (2, reason)


# Queries


def test_rows_of_a_query_are_requests(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as conn:
        conn.execute("create table papers (id integer primary key, link, doi)")
        conn.executemany(
            "insert into papers (link, doi) values (?, ?)",
            [("http://h/1", None), (None, "10.1/b"), (b"http://h/3", None), (b"\xff", None), (2.5, None), (None, None)],
        )
    refused = []
    reading = Load(Plan("", GIVEN), [], refused.append)
    queried = query.rows_of(path, "select id, link, doi from papers order by id; -- all")
    (batch,) = reading.of_rows(queried.head, queried.rows)
    assert [row[1:4] for row in batch.rows] == [
        ("http://h/1", "there", "1"),
        ("10.1/b", "there", "2"),
        ("http://h/3", "there", "3"),
        ("2.5", "there", "5"),
    ]
    assert [(each.line, each.reason) for each in refused] == [
        (4, "a value is bytes that are not UTF-8"),
        (6, "link is missing or blank"),
    ]


@pytest.mark.parametrize("sql", ["select", "drop table papers", "select 1; select 2", "select * from nowhere", ""])
def test_what_is_no_query_is_refused(sql: str, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as conn:
        conn.execute("create table papers (id)")
    with pytest.raises(BadInput, match="the query cannot be run"):
        query.rows_of(path, sql)
    assert sqlite3.connect(path).execute("select count(*) from papers").fetchone() == (0,)


def test_a_table_can_be_loaded_into_while_its_own_rows_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as conn:
        conn.execute("create table papers (url)")
        conn.executemany("insert into papers values (?)", [(f"http://h/{n}",) for n in range(1000)])
    queried = query.rows_of(path, "select url from papers")
    head, rows = queried.head, queried.rows
    next(rows)
    with sqlite3.connect(path, timeout=0) as conn:
        conn.execute("delete from papers")
    assert (head, len(list(rows))) == (["url"], 999)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"error_message": "\ud800"}, "half of a surrogate pair"),
        ({"hops": ["http://h/\udc00"]}, "half of a surrogate pair"),
        ({"html_biblio": {"title": "\ud800"}}, "half of a surrogate pair"),
        ({"\ud800": 1}, "half of a surrogate pair"),
        ({"terminal": {"terminal_url": "http://h/", "terminal_status_code": 2**63}}, "too large for an integer"),
    ],
)
def test_a_result_that_sqlite_cannot_hold_is_refused_with_its_line(fields: dict[str, Any], reason: str) -> None:
    conn = database()
    content = lines(result(1), json.dumps({**result(2), **fields}).encode(), result(3))
    loaded = load(content, "results")
    ((line, said),) = loaded.refused
    assert line == 2 and reason in said
    assert write(conn, content, "results").new_results == 2
