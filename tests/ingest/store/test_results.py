"""What is written of a result, and when a stored one is still good."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from datasette_ingest.ingest import store
from datasette_ingest.ingest.errors import RetryClass
from datasette_ingest.ingest.facts import Cdx, FileMeta, HtmlMeta
from datasette_ingest.ingest.model import CandidateOutcome, IngestRequest, IngestResult, Terminal

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=timezone.utc)
URL = "http://h/p.pdf"


def hit(url: Any = URL) -> IngestResult:
    return IngestResult(
        IngestRequest("pdf", url),
        True,
        "success",
        hops=(URL,),
        terminal=Terminal(URL, "20261130120000", 200, "a" * 40),
        file_meta=FileMeta("a" * 40, "b" * 64, "c" * 32, 10, "application/pdf"),
        warnings=("missing-eof",),
        via="live",
        candidates=(CandidateOutcome(1, URL, "citation_pdf_url", "success", 200),),
    )


def miss(status: str, retry: RetryClass, url: Any = URL, **fields: Any) -> IngestResult:
    return IngestResult(
        IngestRequest("pdf", url), False, status, status + ".", next_try_class=retry, via="live", **fields
    )


def write(conn: sqlite3.Connection, result: IngestResult, *, days: float = 0) -> None:
    store.write(conn, result, job_id=7, now=NOW + timedelta(days=days))


def row(conn: sqlite3.Connection) -> dict[str, Any]:
    return dict(conn.execute("select * from ingest_file_result").fetchone())


def fresh(conn: sqlite3.Connection, *, days: float = 0, max_age_days: float = 30, url: Any = URL) -> Any:
    stored = store.stored_result(conn, "pdf", url)
    good = store.is_fresh(stored, max_age_days=max_age_days, now=NOW + timedelta(days=days))
    return stored if good else None


def test_a_hit_is_written_whole(conn: sqlite3.Connection) -> None:
    write(conn, hit())
    stored = row(conn)
    assert stored.pop("seq") > 1_700_000_000_000_000  # microseconds
    assert stored == {
        "ingest_type": "pdf",
        "base_url": URL,
        "updated": "2026-11-30T12:00:00Z",
        "hit": 1,
        "status": "success",
        "terminal_url": URL,
        "terminal_dt": "20261130120000",
        "terminal_status_code": 200,
        "terminal_sha1hex": "a" * 40,
        "error_message": None,
        "warnings": json.dumps(["missing-eof"]),
        "hops": json.dumps([URL]),
        "via": "live",
        "attempts": 1,
        "next_try": None,
        "job_id": 7,
        "landing_sha1hex": None,
        "archive_url": None,
        "sources": None,
        "hop_sources": None,
    }
    assert tuple(conn.execute("select * from file_meta").fetchone()) == (
        "a" * 40,
        "b" * 64,
        "c" * 32,
        10,
        "application/pdf",
    )
    assert [tuple(r) for r in conn.execute("select rank, url, rule, outcome, status_code from ingest_candidate")] == [
        (1, URL, "citation_pdf_url", "success", 200)
    ]


PAGE = HtmlMeta("d" * 40, "landing-page", 312, {"title": "Zwölf Hecken", "doi": "10.5555/x"})


def html_meta(conn: sqlite3.Connection) -> dict[str, Any]:
    return dict(conn.execute("select * from html_meta").fetchone())


def test_what_a_page_says_is_written_under_its_own_digest_and_the_result_names_it(conn: sqlite3.Connection) -> None:
    write(conn, replace(hit(), html_meta=PAGE))
    assert html_meta(conn) == {
        "sha1hex": "d" * 40,
        "updated": "2026-11-30T12:00:00Z",
        "status": "success",
        "scope": "landing-page",
        "word_count": 312,
        "biblio": '{"title": "Zwölf Hecken", "doi": "10.5555/x"}',
        "resources": None,
        "processor": None,
    }
    assert (row(conn)["landing_sha1hex"], row(conn)["terminal_sha1hex"]) == ("d" * 40, "a" * 40)


def test_a_look_at_the_head_alone_takes_nothing_back(conn: sqlite3.Connection) -> None:
    PAGE.write(conn, updated="2026-11-30T12:00:00Z")
    HtmlMeta("d" * 40).write(conn, updated="2026-12-01T12:00:00Z")
    found = html_meta(conn)
    assert (found["scope"], found["word_count"]) == ("landing-page", 312)
    assert (found["updated"], json.loads(found["biblio"])["doi"]) == ("2026-12-01T12:00:00Z", "10.5555/x")


def test_a_failure_beside_a_hit_leaves_the_hits_page(conn: sqlite3.Connection) -> None:
    write(conn, replace(hit(), html_meta=PAGE))
    other = miss("read-timeout", RetryClass.SOON, html_meta=HtmlMeta("e" * 40, "unknown", 5))
    write(conn, other, days=40)
    assert row(conn)["landing_sha1hex"] == "d" * 40
    assert conn.execute("select count(*) from html_meta").fetchone()[0] == 1


@pytest.mark.parametrize("retry", [RetryClass.NOW, RetryClass.SOON, RetryClass.LATER])
def test_a_failure_that_may_pass_never_hides_a_hit(conn: sqlite3.Connection, retry: RetryClass) -> None:
    write(conn, hit())
    write(conn, miss("read-timeout", retry), days=40)
    found = row(conn)
    assert (found["hit"], found["status"], found["terminal_sha1hex"]) == (1, "success", "a" * 40)
    assert (found["error_message"], found["attempts"], found["updated"]) == ("read-timeout.", 1, "2027-01-09T12:00:00Z")
    assert found["next_try"] is not None
    assert conn.execute("select count(*) from ingest_candidate").fetchone()[0] == 1


def test_the_body_of_a_failure_beside_a_hit_is_known_all_the_same(conn: sqlite3.Connection) -> None:
    write(conn, hit())
    cut = FileMeta("f" * 40, "b" * 64, "c" * 32, 9, "application/pdf")
    write(conn, miss("truncated-body", RetryClass.SOON, file_meta=cut), days=40)
    assert [sha1 for (sha1,) in conn.execute("select sha1hex from file_meta order by sha1hex")] == ["a" * 40, "f" * 40]


def test_a_final_failure_replaces_a_hit_and_its_candidates(conn: sqlite3.Connection) -> None:
    write(conn, hit())
    write(conn, miss("wrong-mimetype", RetryClass.NEVER))
    found = row(conn)
    assert (found["hit"], found["status"], found["terminal_sha1hex"]) == (0, "wrong-mimetype", None)
    assert conn.execute("select count(*) from ingest_candidate").fetchone()[0] == 0


def test_attempts_count_failures_and_a_hit_begins_anew(conn: sqlite3.Connection) -> None:
    for expected in (1, 2, 3):
        write(conn, miss("connect-error", RetryClass.SOON))
        assert row(conn)["attempts"] == expected
    write(conn, hit())
    assert row(conn)["attempts"] == 1
    write(conn, miss("connect-error", RetryClass.SOON))
    write(conn, miss("connect-error", RetryClass.SOON))
    assert row(conn)["attempts"] == 2


def test_a_link_whose_host_rests_is_not_tried_while_nothing_is_asked(conn: sqlite3.Connection) -> None:
    write(conn, miss("rate-limited", RetryClass.NOW, hops=(URL,)))
    for day in (1, 2, 3):
        write(conn, miss("rate-limited", RetryClass.NOW), days=day)
    found = row(conn)
    assert (found["attempts"], found["updated"]) == (1, "2026-12-03T12:00:00Z")
    write(conn, miss("rate-limited", RetryClass.NOW, hops=(URL,)), days=4)
    assert row(conn)["attempts"] == 2


@pytest.mark.parametrize("cell", [None, "", "   ", b""])
def test_a_blank_cell_leaves_no_row(conn: sqlite3.Connection, cell: Any) -> None:
    write(conn, miss("invalid-url", RetryClass.NEVER, cell))
    assert conn.execute("select count(*) from ingest_file_result").fetchone()[0] == 0
    assert fresh(conn, url=cell) is None


@pytest.mark.parametrize(
    "cell", ["None", " http://h/ \r\n", "x\0y", "\udcff\udcfe", "\ud800", b"\xff\xfe", 42, 3.5, "é" * 9]
)
def test_any_other_cell_keeps_its_own_row_whatever_its_bytes(conn: sqlite3.Connection, cell: Any) -> None:
    write(conn, miss("invalid-url", RetryClass.NEVER, cell))
    write(conn, miss("invalid-url", RetryClass.NEVER, cell))
    assert conn.execute("select typeof(base_url), count(*) from ingest_file_result").fetchone()[:] == ("text", 1)
    assert fresh(conn, url=cell).status == "invalid-url"


@pytest.mark.parametrize(
    ("result", "days", "good"),
    [
        (hit(), 29, True),
        (hit(), 31, False),
        (miss("wrong-mimetype", RetryClass.NEVER), 29, True),
        (miss("wrong-mimetype", RetryClass.NEVER), 31, False),
        (miss("connect-error", RetryClass.SOON), 0.3, True),
        (miss("connect-error", RetryClass.SOON), 0.4, False),
        (miss("no-pdf-link", RetryClass.LATER), 29, True),
        (miss("no-pdf-link", RetryClass.LATER), 31, False),
        (miss("rate-limited", RetryClass.NOW, retry_after=7200), 0.08, True),
        (miss("rate-limited", RetryClass.NOW, retry_after=7200), 0.09, False),
    ],
)
def test_a_stored_answer_is_good_for_its_time(
    conn: sqlite3.Connection, result: IngestResult, days: float, good: bool
) -> None:
    write(conn, result)
    found = fresh(conn, days=days)
    assert (found is not None) is good
    rests = good and row(conn)["next_try"] is not None
    assert (fresh(conn, days=days, max_age_days=0) is not None) is rests
    stored = store.stored_result(conn, "pdf", URL)
    assert not store.is_fresh(stored, max_age_days=30, now=NOW + timedelta(days=days), force=True)
    if found is not None:
        assert (found.hit, found.status) == (result.hit, result.status)


def test_nothing_stored_is_nothing_fresh(conn: sqlite3.Connection) -> None:
    assert fresh(conn) is None


def test_a_noted_failure_is_told_from_one_that_replaces(conn: sqlite3.Connection) -> None:
    write(conn, hit())
    stored = store.stored_result(conn, "pdf", URL)
    assert store.keeps_hit(stored, miss("read-timeout", RetryClass.SOON))
    assert not store.keeps_hit(stored, miss("wrong-mimetype", RetryClass.NEVER))
    assert not store.keeps_hit(stored, hit())
    assert not store.keeps_hit(None, miss("read-timeout", RetryClass.SOON))


def test_writing_neither_commits_nor_needs_more_than_the_connection(conn: sqlite3.Connection) -> None:
    write(conn, hit())
    assert conn.in_transaction
    conn.rollback()
    assert conn.execute("select count(*) from ingest_file_result").fetchone()[0] == 0


@pytest.mark.parametrize("cell", [3.5, 1e20, -1e-9, 2**53, float("inf")])
def test_a_number_is_stored_under_the_text_by_which_queries_look_for_it(conn: sqlite3.Connection, cell: float) -> None:
    write(conn, miss("invalid-url", RetryClass.NEVER, cell))
    links = "select 'pdf' as ingest_type, :cell as base_url"
    assert store.count_fresh(conn, links, {"cell": cell}, max_age_days=30, now=NOW) == 1


@pytest.mark.parametrize("days", [1e6, 1e12])
def test_an_age_beyond_all_times_is_no_limit(conn: sqlite3.Connection, days: float) -> None:
    write(conn, hit())
    links = f"select 'pdf' as ingest_type, '{URL}' as base_url"
    assert store.count_fresh(conn, links, {}, max_age_days=days, now=NOW) == 1
    assert fresh(conn, max_age_days=days) is not None
    conn.execute("update ingest_file_result set updated = 'yesterday'")
    assert store.count_fresh(conn, links, {}, max_age_days=days, now=NOW) == 0
    assert fresh(conn, max_age_days=days) is None


def test_a_result_that_several_rows_bring_is_written_once(conn: sqlite3.Connection) -> None:
    late = miss("connect-error", RetryClass.SOON)
    for _ in range(3):
        store.write(conn, late, job_id=7, now=NOW, is_shared=True)
    assert row(conn)["attempts"] == 1
    store.write(conn, late, job_id=8, now=NOW, is_shared=True)
    store.write(conn, late, job_id=8, now=NOW + timedelta(days=1), is_shared=True)
    assert row(conn)["attempts"] == 3


def test_a_capture_is_written_with_its_address_and_its_index_entry(conn: sqlite3.Connection) -> None:
    address = f"https://web.archive.org/web/20200101000000/{URL}"
    first = Cdx(URL, "20200101000000", sha1hex="a" * 40, cdx_sha1hex="b" * 40, warc_path="one.warc.gz", warc_csize=7)
    write(
        conn,
        replace(
            hit(),
            via="wayback",
            terminal=Terminal(URL, "20200101000000", 200, "a" * 40, archive_url=address),
            hop_sources=("live", "wayback"),
            cdx=first,
            revisit_cdx=replace(first, datetime="20210101000000"),
        ),
    )
    assert (row(conn)["archive_url"], row(conn)["hop_sources"]) == (address, '["live", "wayback"]')
    found = conn.execute("select datetime, cdx_sha1hex, warc_csize from cdx order by 1").fetchall()
    assert [tuple(entry) for entry in found] == [("20200101000000", "b" * 40, 7), ("20210101000000", "b" * 40, 7)]
    write(conn, replace(hit(), cdx=Cdx(URL, "20200101000000")))
    assert conn.execute("select warc_path from cdx order by datetime limit 1").fetchone()[0] == "one.warc.gz"


@pytest.mark.parametrize(
    ("asked", "sources", "good"),
    [
        (("live",), ("live",), True),
        (("live",), ("live", "wayback"), False),
        (("live", "wayback"), ("wayback", "live"), True),
        (("wayback",), ("live",), False),
        (("live", "wayback"), ("live",), True),
    ],
)
def test_a_miss_counts_only_where_all_sources_were_to_be_asked(
    conn: sqlite3.Connection, asked: tuple[str, ...], sources: tuple[str, ...], good: bool
) -> None:
    links = "select 'pdf' as ingest_type, :url as base_url"
    for result, expected in (
        (miss("no-pdf-link", RetryClass.LATER, sources=asked), good),
        (replace(hit(), sources=asked), True),
    ):
        write(conn, result)
        stored = store.stored_result(conn, "pdf", URL)
        assert store.is_fresh(stored, max_age_days=30, now=NOW, sources=sources) is expected
        counted = store.count_fresh(conn, links, {"url": URL}, max_age_days=30, now=NOW, sources=sources)
        assert counted == expected
