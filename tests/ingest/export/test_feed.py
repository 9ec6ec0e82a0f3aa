"""An export that is continued: every result with every request, once for each time that it has changed."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from datasette_ingest.ingest.export import feed
from datasette_ingest.ingest.export.errors import NoExport
from datasette_ingest.ingest.export.wanted import Cursor, Wanted

from .kit import NOON, Library, hit, keys, miss, url


def test_a_result_has_a_line_for_each_of_its_requests_and_one_of_its_own_without(library: Library) -> None:
    for source_id in ("1", "2"):
        library.request(7, source_id)
    library.result(hit(7))
    library.result(miss(8))
    found, _ = library.export()
    assert keys(found) == [(url(7), "1", "success"), (url(7), "2", "success"), (url(8), None, "no-pdf-link")]


def test_the_next_export_has_what_came_in_the_same_second(library: Library) -> None:
    library.result(hit(1))
    _, cursor = library.export()
    library.result(hit(2))
    found, cursor = library.export(cursor)
    assert keys(found) == [(url(2), None, "success")]
    assert library.export(cursor)[0] == []


def test_the_next_export_has_results_that_are_dated_earlier(library: Library) -> None:
    library.result(hit(1))
    _, cursor = library.export()
    library.result(hit(2), now=NOON - timedelta(days=900))
    assert keys(library.export(cursor)[0]) == [(url(2), None, "success")]


def test_the_next_export_has_an_older_result_that_was_requested_since(library: Library) -> None:
    library.request(1, "1")
    library.result(hit(1))
    _, cursor = library.export()
    library.request(1, "2")
    library.request(9, "1")  # not tried yet
    found, cursor = library.export(cursor)
    assert keys(found) == [(url(1), "2", "success")]
    assert library.export(cursor)[0] == []


def test_a_result_that_changed_comes_again_and_a_failed_try_beside_a_hit_is_no_change(library: Library) -> None:
    library.result(hit(1))
    library.result(miss(2))
    _, cursor = library.export()
    library.result(miss(1, "read-timeout"))
    library.result(hit(2))
    assert keys(library.export(cursor)[0]) == [(url(2), None, "success")]
    (one, _), _ = library.export()
    assert "error_message" not in one and one["hit"]


def test_a_result_that_changes_while_it_is_read_is_not_passed_over(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "PAGE", 2)
    for number in range(5):
        library.result(miss(number))
    seen = []
    for page in library.feed().pages(lambda row: (row["base_url"], row["status"])):
        seen += page
        if len(seen) == 2:  # one has been read, and one has not
            library.result(hit(0))
            library.result(hit(4))
    assert seen[2:] == [(url(2), "no-pdf-link"), (url(3), "no-pdf-link"), (url(0), "success"), (url(4), "success")]


def test_requests_of_one_result_may_fill_several_pages(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "PAGE", 2)
    for number in range(5):
        library.request(1, f"{number}")
    for number in (0, 1, 2):
        library.result(hit(number))
    found, cursor = library.export()
    everything = [(url(0), None), *((url(1), f"{number}") for number in range(5)), (url(2), None)]
    assert [key[:2] for key in keys(found)] == sorted(everything, key=repr)
    for number in range(5, 10):
        library.request(1, f"{number}")
    assert [key[1] for key in keys(library.export(cursor)[0])] == ["5", "6", "7", "8", "9"]


def test_whatever_is_written_between_exports_each_version_comes_exactly_once(library: Library) -> None:
    chance = random.Random(4711)
    version: dict[int, str] = {}
    requests: dict[int, set[str]] = {}
    new: set[tuple[str, str | None, str]] = set()
    cursor = None
    for step in range(400):
        number = chance.randrange(6)
        match chance.choice(["request", "hit", "miss", "export"]):
            case "request" if number in requests or number not in version:
                library.request(number, f"r{step}")
                requests.setdefault(number, set()).add(f"r{step}")
                if number in version:
                    new.add((url(number), f"r{step}", version[number]))
            case "hit" | "miss" as kind:
                status = "success" if kind == "hit" else chance.choice(["wrong-mimetype", "bad-http"])
                library.result(hit(number) if kind == "hit" else miss(number, status))
                version[number] = status
                new = {each for each in new if each[0] != url(number)}
                new |= {(url(number), source_id, status) for source_id in requests.get(number, {None})}
            case "export":
                found, cursor = library.export(cursor)
                assert keys(found) == sorted(new, key=repr)
                new = set()


def test_results_of_an_earlier_version_are_numbered_once(library: Library) -> None:
    for number in range(3):
        library.result(hit(number))
    library.sql("update ingest_file_result set seq = null")
    with library.writing() as conn:
        assert feed.needs_numbers(conn)
        feed.number(conn)
        assert not feed.needs_numbers(conn)
    found, cursor = library.export()
    assert len(found) == 3
    library.result(hit(3))
    assert keys(library.export(cursor)[0]) == [(url(3), None, "success")]


@pytest.mark.parametrize("place", ["x", b"\xff", None])
def test_a_place_that_is_no_number_is_replaced(library: Library, place: object) -> None:
    library.result(hit(1))
    library.result(hit(2))
    library.sql("update ingest_file_result set seq = ? where base_url = ?", place, url(1))
    with library.writing() as conn:
        assert feed.needs_numbers(conn)
        feed.number(conn)
        assert not feed.needs_numbers(conn)
    found, cursor = library.export()
    assert len(found) == 2 and library.export(cursor)[0] == []


def test_the_place_of_a_result_that_was_removed_is_not_given_again(library: Library) -> None:
    library.result(hit(1))
    _, cursor = library.export()
    library.sql("delete from ingest_file_result")
    library.result(hit(2))
    assert keys(library.export(cursor)[0]) == [(url(2), None, "success")]


def test_a_cursor_of_other_conditions_is_refused(library: Library) -> None:
    library.result(hit(1))
    _, cursor = library.export()
    with pytest.raises(NoExport, match="another --format"):
        library.export(cursor, Wanted(hit=True))


def test_a_cursor_is_refused_when_requests_were_removed_since_or_it_is_of_another_database(library: Library) -> None:
    library.request(1, "1")
    library.result(hit(1))
    _, cursor = library.export()
    library.sql("delete from ingest_request")
    library.request(1, "2")  # under the same rowid
    with pytest.raises(NoExport, match="removed since"):
        library.export(cursor)
    read = Cursor.read(cursor)
    assert read is not None
    ahead = Cursor(read.seq + 10**15, 0, "", read.wanted)
    with pytest.raises(NoExport, match="another database"):
        library.export(ahead.write())


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (Wanted(), [1, 2, 3]),
        (Wanted(hit=True), [1]),
        (Wanted(hit=False), [2, 3]),
        (Wanted(statuses=("bad-http", "success")), [1, 3]),
        (Wanted(source="doaj"), [3]),
        (Wanted(ingest_type="xml"), []),
        (Wanted(since="2026-11-30T12:00:01Z"), [3]),
    ],
)
def test_conditions(library: Library, wanted: Wanted, numbers: list[int]) -> None:
    library.request(3, source="doaj")
    library.result(hit(1))
    library.result(miss(2))
    library.result(miss(3, "bad-http"), now=NOON + timedelta(seconds=1))
    assert [each[0] for each in keys(library.export(wanted=wanted)[0])] == [url(number) for number in numbers]


def test_without_results_there_is_nothing_to_export(library: Library) -> None:
    library.sql("drop table ingest_file_result")
    with pytest.raises(NoExport, match="no results yet"):
        library.feed()


@pytest.mark.parametrize(
    "wanted", [Wanted(), Wanted(source="doi"), Wanted("doi", "pdf", True, ("success",), "2026-11-30T12:00:00Z")]
)
def test_a_page_is_read_in_the_order_of_writes_without_sorting_what_follows(library: Library, wanted: Wanted) -> None:
    for number in range(50):
        library.request(number)
        library.result(hit(number))
    asked: list[str] = []
    conn = library.reading()
    conn.set_trace_callback(asked.append)
    rows = library.feed(wanted=wanted, conn=conn)
    assert sum(len(page) for page in rows.pages(lambda row: row)) == 50
    with library.writing() as conn:
        conn.execute("analyze")
        (select,) = {sql for sql in asked if sql.lstrip().startswith("select r.*")}
        plan = [row[3] for row in conn.execute(f"explain query plan {select}")]
    assert plan[0].startswith("SEARCH r USING INDEX idx_ingest_file_result_seq")
    assert "USE TEMP B-TREE FOR ORDER BY" not in plan
