"""What is written of a request."""

from __future__ import annotations

import json
import sqlite3
from datetime import datetime, timedelta, timezone

from datasette_ingest.ingest import store
from datasette_ingest.ingest.model import IngestRequest

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=timezone.utc)
URL = "http://h/p.pdf"


def test_a_request_is_recorded_once_and_stays_as_it_was(conn: sqlite3.Connection) -> None:
    request = IngestRequest("pdf", URL, "doaj", "1", "someone", ext_ids={"doi": "10.1234/abc"})
    store.write_request(conn, request, now=NOW)
    store.write_request(conn, IngestRequest("pdf", URL, "doaj", "1", "another"), now=NOW + timedelta(days=1))
    store.write_request(conn, IngestRequest("pdf", " ", "doaj", "2"), now=NOW)
    rows = [
        tuple(found) for found in conn.execute("select source, source_id, actor, created, request from ingest_request")
    ]
    assert rows == [("doaj", "1", "someone", "2026-11-30T12:00:00Z", '{"ext_ids": {"doi": "10.1234/abc"}}')]


def test_everything_that_has_no_column_is_in_the_json(conn: sqlite3.Connection) -> None:
    request = IngestRequest(
        "pdf",
        URL,
        "unpaywall",
        "1",
        release_stage="accepted",
        ext_ids={"doi": "10.1234/abc"},
        expect_hash={"sha1": "a" * 40},
        oa_status="green",
        edit_extra={"a": [1]},
    )
    store.write_request(conn, request, now=NOW)
    stage, rest = conn.execute("select release_stage, request from ingest_request").fetchone()
    assert stage == "accepted"
    assert json.loads(rest) == {
        "ext_ids": {"doi": "10.1234/abc"},
        "expect_hash": {"sha1": "a" * 40},
        "oa_status": "green",
        "edit_extra": {"a": [1]},
    }


def test_a_request_that_came_as_json_keeps_what_is_not_known_here(conn: sqlite3.Connection) -> None:
    document = {"ingest_type": "file", "base_url": URL, "link_source": "doaj", "link_source_id": "7", "priority": 3}
    store.write_request(conn, IngestRequest.from_json(document), now=NOW)
    row = conn.execute("select ingest_type, source, source_id, request from ingest_request").fetchone()
    assert tuple(row) == ("pdf", "doaj", "7", '{"priority": 3}')


def test_a_row_of_the_table_is_read_back_as_the_request(conn: sqlite3.Connection) -> None:
    request = IngestRequest("pdf", URL, "doaj", "1", ext_ids={"doi": "10.1234/abc"}, as_of="20200101000000")
    store.write_request(conn, request, now=NOW)
    row = dict(conn.execute("select * from ingest_request").fetchone())
    assert IngestRequest.from_json({**json.loads(row["request"]), **row}) == request


def test_a_source_id_that_is_not_unicode_is_recorded_by_its_bytes(conn: sqlite3.Connection) -> None:
    store.write_request(conn, IngestRequest("pdf", URL, "doaj", "\udcff"), now=NOW)
    kind, raw = conn.execute("select typeof(source_id), cast(source_id as blob) from ingest_request").fetchone()
    assert (kind, raw) == ("text", b"\xff")
