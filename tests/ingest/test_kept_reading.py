"""A later pass over kept files: what is missing is read, once, whenever it was interrupted."""

from __future__ import annotations

import contextlib
import hashlib
import pathlib
import sqlite3
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest

from datasette_ingest.ingest import kept_reading, schema, store
from datasette_ingest.ingest.documents import registry
from datasette_ingest.ingest.documents.base import DerivedFile, Document, Findings, ProcessContext, Processor
from datasette_ingest.ingest.facts import FileMeta, FullText, PdfMeta
from datasette_ingest.ingest.files import PDF
from datasette_ingest.ingest.http.body import SPILL_BYTES
from datasette_ingest.ingest.kept_reading import KeptReading, Progress
from datasette_ingest.ingest.model import IngestRequest, IngestResult, Terminal
from datasette_ingest.ingest.settings import CrawlSettings
from datasette_ingest.ingest.sinks import KeptFiles, store_of

NOW = datetime(2026, 1, 2, tzinfo=timezone.utc)


class Archive:
    """A database and a store with some PDFs, and a processor that notes what it reads."""

    def __init__(self, folder: pathlib.Path, conn: sqlite3.Connection) -> None:
        self.conn = conn
        self.settings = CrawlSettings(store=str(folder / "files"), max_spool_bytes=16 * SPILL_BYTES)
        kept = store_of(self.settings)
        assert kept is not None
        self.kept: KeptFiles = kept
        self.seen: list[str] = []
        self.version = "1"
        self.fails_at: bytes | None = None
        self.prefix = ""

    def processor(self, settings: CrawlSettings) -> Processor:
        label = f"pdf/{self.version}"

        async def process(document: Document, context: ProcessContext) -> Findings:
            data = document.body.read()
            if self.fails_at is not None and self.fails_at in data:
                raise ValueError("no such font")
            self.seen.append(f"{context.request.base_url} at {document.url}, {document.mimetype}")
            words = data[9:60].decode("ascii", "replace")
            facts = (PdfMeta(context.sha1hex, word_count=len(words), processor=label), FullText(context.sha1hex, words))
            return Findings(facts, (DerivedFile("text", "text/plain", words.encode()),))

        tables = ("pdf_meta", "ingest_fulltext")
        return Processor("pdf", self.version, frozenset({PDF}), process, tables=tables)

    async def add(self, name: str, *, ingest_type: str = "pdf", size: int = 0, hit: bool = True) -> str:
        """A hit at /name whose body is kept; its SHA-1."""
        data = f"%PDF-1.7 {name} ".encode() + bytes(size) + b"%%EOF"
        sha1hex = hashlib.sha1(data).hexdigest()
        await self.kept.keep("body", sha1hex, PDF, data)
        request = IngestRequest(ingest_type, f"https://example.org/{name}")
        result = IngestResult(
            request=request,
            hit=hit,
            status="success" if hit else "wrong-mimetype",
            terminal=Terminal(f"https://files.example.org/{name}", "20260102000000", 200, sha1hex),
            file_meta=FileMeta(sha1hex, "0" * 64, "0" * 32, len(data), PDF),
        )
        store.write(self.conn, result, job_id=1, now=NOW)
        return sha1hex

    async def read_all(self, **how: Any) -> Progress:
        reading = KeptReading(self.settings, self.kept, **how)

        async def read(look: Any) -> Any:
            return look(schema.under_prefix(self.conn, self.prefix))

        async def write(change: Any) -> None:
            with self.conn:
                self.conn.execute("begin immediate")
                change(schema.under_prefix(self.conn, self.prefix))

        schema.migrate(self.conn, reading.tables)
        return await reading.run(read, write)

    def texts(self) -> list[str]:
        return [text.split()[0] for (text,) in self.conn.execute("select text from ingest_fulltext order by text")]


@pytest.fixture
def archive(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Archive]:
    with contextlib.closing(sqlite3.connect(tmp_path / "data.db", isolation_level=None)) as conn:
        schema.migrate(conn, schema.RESULT_TABLES)
        archive = Archive(tmp_path, conn)
        monkeypatch.setattr(registry, "PROCESSORS", (archive.processor,))
        yield archive


async def test_what_is_missing_is_read_once_and_again_by_another_version(archive: Archive) -> None:
    for name in ("a", "b", "c"):
        await archive.add(name)
    progress = await archive.read_all()
    assert (progress.looked_at, progress.read, progress.position) == (3, 3, 1.0)
    assert progress.statuses == {"pdf_meta success": 3}
    assert sorted(archive.seen)[0] == "https://example.org/a at https://files.example.org/a, application/pdf"
    assert archive.texts() == ["a", "b", "c"]
    assert (await archive.read_all()).read == 0
    assert (await archive.read_all(again=True)).read == 3
    archive.conn.execute("delete from pdf_meta where rowid = (select min(rowid) from pdf_meta)")
    assert (await archive.read_all()).read == 1
    archive.version = "2"
    assert (await archive.read_all()).read == 3
    assert archive.conn.execute("select distinct processor from pdf_meta").fetchall() == [("pdf/2",)]


async def test_what_is_made_of_a_file_is_kept_beside_it(archive: Archive) -> None:
    sha1hex = await archive.add("a")
    await archive.read_all()
    assert await archive.kept.find("text", sha1hex, "text/plain") is not None


async def test_only_hits_of_the_right_type_are_read(archive: Archive) -> None:
    await archive.add("miss", hit=False)
    await archive.add("other")
    archive.conn.execute("update file_meta set mimetype = 'text/html'")
    assert (await archive.read_all()).read == 0
    archive.conn.execute("delete from file_meta")
    assert (await archive.read_all()).read == 1, "the type of a file that is not known is found out"


async def test_one_file_behind_several_urls_is_read_once(archive: Archive) -> None:
    sha1hex = await archive.add("a")
    archive.conn.execute(
        "insert into ingest_file_result (ingest_type, base_url, updated, hit, status, terminal_sha1hex) "
        "values ('pdf', 'https://example.org/0', '', 1, 'success', ?), ('pdf', 'https://example.org/z', '', 1, 'success', ?)",
        [sha1hex, sha1hex],
    )
    assert (await archive.read_all()).read == 1
    assert archive.seen == ["https://example.org/0 at https://example.org/0, application/pdf"]


async def test_a_pass_that_is_killed_goes_on_where_it_was(archive: Archive, monkeypatch: Any) -> None:
    monkeypatch.setattr(kept_reading, "READ_AT_ONCE", 2)
    monkeypatch.setattr(kept_reading, "LOOKED_AT_ONCE", 3)
    for number in range(7):
        await archive.add(f"paper{number}")

    def kill(progress: Progress) -> None:
        if progress.read >= 4:
            raise SystemExit

    with pytest.raises(SystemExit):
        await archive.read_all(on_progress=kill)
    assert len(archive.texts()) == 5, "what was read before the end is written"
    progress = await archive.read_all()
    assert (progress.looked_at, progress.read, len(archive.seen)) == (7, 2, 7)
    assert len(archive.texts()) == 7


async def test_a_pass_that_is_stopped_ends_after_the_files_of_one_transaction(
    archive: Archive, monkeypatch: Any
) -> None:
    monkeypatch.setattr(kept_reading, "READ_AT_ONCE", 2)
    for number in range(6):
        await archive.add(f"paper{number}")
    reading = KeptReading(archive.settings, archive.kept)

    async def read(look: Any) -> Any:
        return look(archive.conn)

    async def write(change: Any) -> None:
        schema.migrate(archive.conn, reading.tables)
        change(archive.conn)

    assert (await reading.run(read, write, is_stopped=lambda: reading.progress.read > 0)).read == 2
    assert reading.progress.position < 1.0


async def test_bodies_that_are_missing_damaged_or_unreadable_are_counted_and_the_others_read(archive: Archive) -> None:
    gone, damaged = await archive.add("gone"), await archive.add("damaged")
    broken, cut = await archive.add("broken"), await archive.add("cut")
    await archive.add("fine")
    root = pathlib.Path(archive.settings.store or "")
    paths = {path.stem: path for path in root.rglob("*.pdf")}
    paths[gone].unlink()
    paths[damaged].write_bytes(paths[damaged].read_bytes().replace(b"damaged", b"changed"))
    paths[cut].write_bytes(b"")
    archive.fails_at = b"broken"
    progress = await archive.read_all()
    assert (progress.read, progress.missing, progress.damaged, progress.errors) == (1, 1, 2, 1)
    assert progress.messages == [f"{broken}: ValueError: no such font"]
    assert archive.texts() == ["fine"]


async def test_a_large_body_is_spooled(archive: Archive) -> None:
    await archive.add("large", size=SPILL_BYTES + 5)
    assert (await archive.read_all()).read == 1


async def test_a_database_without_results_has_nothing_to_read(archive: Archive) -> None:
    archive.conn.execute("drop view if exists ingest_hits")
    archive.conn.execute("drop table ingest_file_result")
    assert (await archive.read_all()).looked_at == 0
