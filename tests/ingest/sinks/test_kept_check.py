"""A store against the tables of the databases that it serves."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import sqlite3
from typing import Any

import pytest

from datasette_ingest import sqlite
from datasette_ingest.ingest import kept_check, schema
from datasette_ingest.ingest.errors import StoreError
from datasette_ingest.ingest.files import digest
from datasette_ingest.ingest.kept_check import FAULTS, Fault, StoreCheck
from datasette_ingest.ingest.settings import CrawlSettings
from datasette_ingest.ingest.sinks import KeptFiles, store_of

from ..export.kit import Library
from ..origin import PDF


def sha1(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def bodies(number: int) -> list[bytes]:
    return [PDF + b"%%%d\n" % each for each in range(number)]


def key(data: bytes) -> str:
    return f"body/{sha1(data)[:2]}/{sha1(data)[2:4]}/{sha1(data)}.pdf"


@pytest.fixture
def library(tmp_path: pathlib.Path) -> Library:
    return Library(tmp_path / "works.db")


def hits(library: Library, *found: bytes, kind: str = "pdf", prefix: str = "") -> None:
    """A hit for each of these bodies."""
    with library.writing() as conn:
        sqlite.migrate(conn, schema.specs(schema.RESULT_TABLES, prefix=prefix))
        results = schema.under_prefix(conn, prefix)
        for data in found:
            digest([data]).meta("application/pdf").write(results, updated="2026-12-01T12:00:00Z")
            results.execute(
                "insert into ingest_file_result (ingest_type, base_url, updated, hit, status, terminal_sha1hex)"
                " values (?, ?, '2026-12-01T12:00:00Z', 1, 'success', ?)",
                [kind, f"http://h/{sha1(data)}", sha1(data)],
            )


async def compared(store: KeptFiles, *libraries: Library, reads_files: bool = False) -> dict[str, list[Fault]]:
    with StoreCheck() as notes:
        for each in libraries:
            with contextlib.closing(sqlite3.connect(each.path)) as conn:
                notes.read_tables(conn)
        await notes.read_store(store, reads_files=reads_files)
        found = {fault: list(notes.faults(fault)) for fault in FAULTS}
        assert notes.counts() == {fault: len(files) for fault, files in found.items()}
        return {fault: files for fault, files in found.items() if files}


async def keep(store: KeptFiles, *found: bytes) -> None:
    for data in found:
        await store.keep("body", sha1(data), "application/pdf", data)


async def test_where_all_is_well_nothing_is_said(kept: KeptFiles, library: Library) -> None:
    hits(library, *bodies(3))
    await keep(kept, *bodies(3))
    assert await compared(kept, library, reads_files=True) == {}


async def test_each_fault_is_told_with_the_file_that_has_it(kept: KeptFiles, library: Library) -> None:
    whole, lost, cut, changed, unnamed = bodies(5)
    hits(library, whole, lost, cut, changed)
    await keep(kept, whole, unnamed)
    await kept.keep("body", sha1(cut), "application/pdf", cut[:-1])
    await kept.keep("body", sha1(changed), "application/pdf", bytes(len(changed)))
    await kept.keep("text", sha1(whole), "text/plain", b"words")
    await kept.keep("text", sha1(unnamed), "text/plain", b"words")
    unnamed_text = key(unnamed).replace("body/", "text/").replace(".pdf", ".txt")
    found = await compared(kept, library, reads_files=True)
    by_key = sorted(
        [
            Fault("damaged", "body", sha1(cut), key(cut), len(cut) - 1, len(cut)),
            Fault("damaged", "body", sha1(changed), key(changed), len(changed)),
        ],
        key=lambda fault: str(fault.key),
    )
    assert found == {
        "missing": [Fault("missing", "body", sha1(lost), None, None)],
        "damaged": by_key,
        "orphan": [
            Fault("orphan", "body", sha1(unnamed), key(unnamed), len(unnamed)),
            Fault("orphan", "text", sha1(unnamed), unnamed_text, 5),
        ],
    }
    without_reading = await compared(kept, library)
    assert [fault.sha1hex for fault in without_reading["damaged"]] == [sha1(cut)]


async def test_databases_that_share_a_store_are_read_together(
    kept: KeptFiles,
    library: Library,
    tmp_path: pathlib.Path,
) -> None:
    one, two, both = bodies(3)
    other = Library(tmp_path / "other.db")
    hits(library, one, both)
    hits(other, two, both, prefix="second_")
    await keep(kept, one, two, both)
    assert [fault.sha1hex for fault in (await compared(kept, library))["orphan"]] == [sha1(two)]
    assert await compared(kept, library, other) == {}


async def test_only_hits_that_are_one_file_need_one(kept: KeptFiles, library: Library) -> None:
    (dataset,) = bodies(1)
    hits(library, dataset, kind="dataset")
    with library.writing() as conn:
        digest([b"of a miss"]).meta("text/html").write(conn, updated="")
    await kept.keep("body", sha1(b"of a miss"), "text/html", b"of a miss")
    assert await compared(kept, library) == {}, "a file that was the answer of a hit once is named by its facts"


async def test_what_was_made_of_a_file_is_missed_where_the_tables_say_it_is_kept(
    kept: KeptFiles,
    library: Library,
) -> None:
    (data,) = bodies(1)
    hits(library, data)
    await keep(kept, data)
    library.sql("insert into xml_meta (sha1hex, status) values (?, 'success'), ('f', 'xml-parse-error')", sha1(data))
    library.sql(
        "insert into grobid (sha1hex, status, xml_url) values (?, 'success', 'tei/…'), ('e', 'success', null)",
        sha1(data),
    )
    found = await compared(kept, library)
    assert [fault.kind for fault in found["missing"]] == ["tei", "xml"]
    await kept.keep("tei", sha1(data), "application/tei+xml", b"<TEI/>")
    await kept.keep("xml", sha1(data), "application/xml", b"<article/>")
    assert await compared(kept, library) == {}


async def test_half_written_files_and_those_of_others_are_told_apart(tmp_path: pathlib.Path, library: Library) -> None:
    root = tmp_path / "store"
    store = store_of(CrawlSettings(store=str(root)))
    assert store is not None
    (data,) = bodies(1)
    hits(library, data)
    await keep(store, data)
    (root / "body" / "notes.txt").write_text("mine")
    leftover = root / f"{key(data).rpartition('/')[0]}/.{sha1(data)}.pdf.0123456789abcdef.part"
    leftover.write_bytes(b"half")
    with StoreCheck() as notes:
        await notes.read_store(store)
        totals = notes.totals()
        assert (totals.files, totals.bytes, totals.others) == (1, len(data), 1)
    found = await compared(store, library)
    assert found == {"unfinished": [Fault("unfinished", None, None, leftover.relative_to(root).as_posix(), 4)]}


async def test_names_that_are_no_text_are_told_as_text(tmp_path: pathlib.Path, library: Library) -> None:
    root = tmp_path / "store"
    (root / "body").mkdir(parents=True)
    pathlib.Path(os.fsdecode(os.fsencode(root / "body") + b"/.\xff.part")).write_bytes(b"")
    store = store_of(CrawlSettings(store=str(root)))
    assert store is not None
    hits(library, *bodies(1))
    library.sql("update ingest_file_result set terminal_sha1hex = x'41'")
    library.sql("update file_meta set size_bytes = 'many', sha1hex = x'42'")
    found = await compared(store, library)
    assert found == {
        "missing": [Fault("missing", "body", "A", None, None)],
        "unfinished": [Fault("unfinished", None, None, "body/.\\udcff.part", 0)],
    }


async def test_a_file_that_was_kept_after_the_tables_were_read_is_no_orphan(
    kept: KeptFiles,
    library: Library,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept_check.time, "time", lambda: 1_000_000_000.0)
    await keep(kept, *bodies(1))
    assert await compared(kept, library) == {}


async def test_a_service_that_is_gone_while_files_are_read_makes_none_of_them_damaged(
    kept: KeptFiles,
    library: Library,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await keep(kept, *bodies(2))
    hits(library, *bodies(2))
    passes = True

    async def refuse(self: Any, key: str, start: int, stop: int) -> bytes:
        raise StoreError("no answer", passes=passes)

    monkeypatch.setattr(type(kept._files), "read", refuse)
    with pytest.raises(StoreError, match="no answer"):
        await compared(kept, library, reads_files=True)
    passes = False
    assert len((await compared(kept, library, reads_files=True))["damaged"]) == 2, "where the store is there"
