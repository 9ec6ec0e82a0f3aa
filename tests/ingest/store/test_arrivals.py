"""Results in any order, each any number of times, leave the rows that the order of their times leaves."""

from __future__ import annotations

import sqlite3
from datetime import datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest import schema, store
from datasette_ingest.ingest.model import IngestResult
from datasette_ingest.ingest.store.arrivals import write_in_order

BEGAN = datetime(2026, 5, 1, tzinfo=timezone.utc)
URLS = ("https://a.example/1", "https://a.example/2")
SHA1 = "%040x"


def result(status: str, *, url: str = URLS[0], number: int = 0, rank: int = 0) -> IngestResult:
    """A result with a file of its own if it is a hit, and candidates."""
    sha1 = SHA1 % (number + 1)
    document = {
        "request": {"ingest_type": "pdf", "base_url": url},
        "hit": status == "success",
        "status": status,
        "hops": [url],
        "terminal": {"terminal_url": f"{url}/{number}", "terminal_status_code": 200},
        "candidates": [{"rank": 1, "url": f"{url}/{rank}", "rule": "r", "outcome": status}],
    }
    if status == "success":
        document["terminal"]["terminal_sha1hex"] = sha1
        document["file_meta"] = {
            "sha1hex": sha1,
            "sha256hex": "0" * 64,
            "md5hex": "0" * 32,
            "size_bytes": number,
            "mimetype": "application/pdf",
        }
    else:
        document["error_message"] = f"{status} {number}"
    return IngestResult.from_json(document)


def moment(seconds: int) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def tables() -> sqlite3.Connection:
    conn = sqlite3.connect(":memory:")
    schema.migrate(conn, schema.PERSIST_TABLES)
    return conn


def contents(conn: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    """All rows but for their places in the order of writes."""
    result_columns = [name for name in schema.TABLES["ingest_file_result"].names if name != "seq"]
    names = {
        "ingest_file_result": ", ".join(result_columns),
        "ingest_candidate": "*",
        "file_meta": "*",
        "_enrichment_result_try": "ingest_type, base_url, place, is_row",
    }
    return {
        table: conn.execute(f"select {shown} from {table} order by 1, 2, 3").fetchall()
        for table, shown in names.items()
    }


STATUSES = (
    "success",
    "terminal-bad-status",
    "no-pdf-link",
    "gateway-timeout",
    "rate-limited",
    "blocked-captcha",
    "invalid-url",
)
ARRIVALS = st.lists(
    st.tuples(st.sampled_from(STATUSES), st.sampled_from(URLS), st.integers(0, 6), st.integers(0, 3)), max_size=9
).flatmap(
    lambda each: st.tuples(st.just(each), st.permutations(each), st.lists(st.sampled_from(each or [None]), max_size=4))
)


@given(ARRIVALS)
def test_no_order_and_no_redelivery_changes_the_rows(arrivals) -> None:
    given, shuffled, again = arrivals

    def written(order):
        conn = tables()
        for each in filter(None, order):
            status, url, second, number = each
            write_in_order(conn, result(status, url=url, number=number), when=moment(second))
        return contents(conn)

    sorted_by_time = sorted(given, key=lambda each: each[2])
    assert written(shuffled) == written(sorted_by_time) == written([*shuffled, *again])


def test_in_the_order_of_their_times_results_are_written_as_ever() -> None:
    ours, plain = tables(), tables()
    for second, status in enumerate(
        ["gateway-timeout", "success", "gateway-timeout", "gateway-timeout", "invalid-url", "gateway-timeout"]
    ):
        each = result(status, number=second)
        write_in_order(ours, each, when=moment(second))
        store.write(plain, each, job_id=None, now=moment(second))
        expected = contents(plain)
        assert contents(ours) | {"_enrichment_result_try": []} == expected


def test_a_hit_that_comes_after_a_later_failure_is_not_hidden_by_it() -> None:
    conn = tables()
    assert write_in_order(conn, result("gateway-timeout"), when=moment(5))
    assert write_in_order(conn, result("success"), when=moment(1))
    assert not write_in_order(conn, result("gateway-timeout"), when=moment(5))
    sql = "select hit, status, error_message, updated, attempts from ingest_file_result"
    assert conn.execute(sql).fetchall() == [(1, "success", "gateway-timeout 0", "2026-05-01T00:00:05Z", 1)]


def test_what_a_job_has_written_stays_where_an_older_result_comes() -> None:
    conn = tables()
    store.write(conn, result("gateway-timeout", number=1), job_id=7, now=moment(5))
    assert not write_in_order(conn, result("success"), when=moment(1))
    assert write_in_order(conn, result("gateway-timeout", number=2), when=moment(6))
    assert conn.execute("select status, attempts, job_id from ingest_file_result").fetchall() == [
        ("gateway-timeout", 2, None)
    ]


def test_a_row_that_something_else_has_changed_is_not_made_again_from_what_is_kept() -> None:
    conn = tables()
    write_in_order(conn, result("gateway-timeout"), when=moment(5))
    store.write(conn, result("success", number=3), job_id=7, now=moment(9))
    assert not write_in_order(conn, result("gateway-timeout", number=1), when=moment(4))
    assert conn.execute("select status, job_id from ingest_file_result").fetchall() == [("success", 7)]


def test_a_hit_needs_nothing_kept() -> None:
    conn = tables()
    for second, status in enumerate(["gateway-timeout", "gateway-timeout", "success"]):
        write_in_order(conn, result(status, number=second), when=moment(second))
    assert conn.execute("select count(*) from _enrichment_result_try").fetchall() == [(0,)]
