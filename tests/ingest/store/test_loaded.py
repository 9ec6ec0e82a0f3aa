"""Blocks of lines that were loaded before are passed over, as long as all their rows are there."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from datasette_ingest.ingest import schema
from datasette_ingest.ingest.load import load as load_module
from datasette_ingest.ingest.load.load import Load, Plan, Reader
from datasette_ingest.ingest.load.write import TABLES, Written, look_up, write_batch

from ..load.kit import GIVEN, lines, place, unpaywall

NUMBER = 3_000


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Some blocks of records, of which every second one has a URL."""
    path = tmp_path / "dump.jsonl"
    places = [[place(url_for_pdf=f"http://h/{n * 7919 % NUMBER}.pdf")] if n % 2 else [] for n in range(NUMBER)]
    path.write_bytes(lines(*(unpaywall(f"10.1/{n}", *each, abstract="x" * 900) for n, each in enumerate(places))))
    return path


@pytest.fixture
def conn(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as conn:
        schema.migrate(conn, TABLES)
        yield conn


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of records of each block that is read."""
    numbers: list[int] = []
    real = load_module.READERS["unpaywall"]

    def counting(*given: Any) -> Reader:
        reader = real(*given)
        all_lines = reader.all_lines

        def count(lines: Any) -> Any:
            numbers.append(len(lines))
            return all_lines(lines)

        monkeypatch.setattr(reader, "all_lines", count)
        return reader

    monkeypatch.setitem(load_module.READERS, "unpaywall", counting)
    return numbers


def load(conn: sqlite3.Connection, path: Path, **given: Any) -> tuple[int, Written]:
    """(lines, what was written)."""
    reading = Load(Plan("unpaywall", replace(GIVEN, **given)), [path], lambda _: None, look=look_up(conn))
    total = Written()
    for batch in reading.batches():
        conn.execute("begin")
        total += write_batch(conn, batch, most=None, mostly_known=False)
        conn.execute("commit")
    return reading.lines, total


def test_what_is_loaded_is_known_without_being_read(conn: sqlite3.Connection, dump: Path, read: list[int]) -> None:
    assert load(conn, dump) == (NUMBER, Written(NUMBER // 2, 0))
    assert sum(read) == NUMBER and len(read) > 2
    read.clear()
    assert load(conn, dump) == (NUMBER, Written(0, NUMBER // 2))
    assert read == []


@pytest.mark.parametrize(
    "change",
    [
        "delete from ingest_request where rowid = 700",
        "update ingest_request set source_id = 'x' where rowid = 700",
        "update ingest_request set rowid = 100000 where rowid = 1500",
        "update ingest_request set source_id = cast(x'ff' as text) where rowid = 3",
    ],
)
def test_a_row_that_is_changed_is_loaded_again(
    conn: sqlite3.Connection, dump: Path, read: list[int], change: str
) -> None:
    load(conn, dump)
    keys = set(conn.execute("select base_url from ingest_request"))
    conn.execute(change)
    read.clear()
    _, written = load(conn, dump)
    assert sum(read) == NUMBER
    assert written.new + written.known == NUMBER // 2
    assert set(conn.execute("select base_url from ingest_request")) == keys


def test_other_settings_make_other_requests(conn: sqlite3.Connection, dump: Path) -> None:
    load(conn, dump)
    assert load(conn, dump, source="another")[1] == Written(NUMBER // 2, 0)
    assert load(conn, dump, ingest_type="xml")[1] == Written(NUMBER // 2, 0)
    assert load(conn, dump, created="2027-01-01T00:00:00Z", actor="me")[1] == Written(0, NUMBER // 2)


def test_lines_that_are_added_are_read(conn: sqlite3.Connection, dump: Path, read: list[int]) -> None:
    load(conn, dump)
    read.clear()
    with dump.open("ab") as file:
        file.write(lines(unpaywall("10.1/new", place(url_for_pdf="http://h/new.pdf"))))
    assert load(conn, dump) == (NUMBER + 1, Written(1, NUMBER // 2))
    assert sum(read) < NUMBER // 2


def test_a_block_with_a_refused_line_is_read_again(conn: sqlite3.Connection, dump: Path, read: list[int]) -> None:
    dump.write_bytes(dump.read_bytes() + b"{}x\n" + lines(unpaywall("10.1/new")))
    refused = []
    for _ in range(2):
        read.clear()
        reading = Load(Plan("unpaywall", GIVEN), [dump], refused.append, look=look_up(conn))
        for batch in reading.batches():
            conn.execute("begin")
            write_batch(conn, batch, most=None, mostly_known=False)
            conn.execute("commit")
    assert [each.line for each in refused] == [NUMBER + 1] * 2
    assert 0 < sum(read) < NUMBER
