"""A database of requests and results, written as jobs and loads write them."""

from __future__ import annotations

import pathlib
import sqlite3
from datetime import datetime, timezone
from typing import Any

from datasette_ingest.ingest import schema, store
from datasette_ingest.ingest.export import feed
from datasette_ingest.ingest.export.documents import Documents
from datasette_ingest.ingest.export.feed import Feed
from datasette_ingest.ingest.export.wanted import Cursor, Wanted
from datasette_ingest.ingest.facts import FileMeta
from datasette_ingest.ingest.model import IngestRequest, IngestResult, Terminal

NOON = datetime(2026, 11, 30, 12, tzinfo=timezone.utc)
PDF = FileMeta("1" * 40, "2" * 64, "3" * 32, 1234, "application/pdf")


def url(number: int) -> str:
    return f"http://h/{number}.pdf"


def hit(number: int, **more: Any) -> IngestResult:
    """A PDF was found at the URL of this number."""
    given = {"via": "live", **more}
    terminal = Terminal(url(number), "20261130120000", 200, PDF.sha1hex)
    return IngestResult(
        IngestRequest("pdf", url(number)),
        True,
        "success",
        hops=(url(number),),
        terminal=terminal,
        file_meta=PDF,
        **given,
    )


def miss(number: int, status: str = "no-pdf-link", **more: Any) -> IngestResult:
    return IngestResult.from_json(
        {"request": {"ingest_type": "pdf", "base_url": url(number)}, "hit": False, "status": status, **more}
    )


class Library:
    """The file of a database. Each write is a transaction."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        with self.writing() as conn:
            schema.migrate(conn, [*schema.TABLES, *schema.VIEWS])

    def writing(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path)

    def request(self, number: int, source_id: str = "1", source: str = "doi", **more: Any) -> None:
        with self.writing() as conn:
            request = IngestRequest("pdf", url(number), source, source_id, **more)
            store.write_request(conn, request, now=NOON)

    def result(self, result: IngestResult, now: datetime = NOON) -> None:
        with self.writing() as conn:
            store.write(conn, result, job_id=None, now=now)

    def sql(self, sql: str, *params: Any) -> None:
        with self.writing() as conn:
            conn.execute(sql, params)

    def reading(self) -> sqlite3.Connection:
        return feed.read_only(sqlite3.connect(self.path, isolation_level=None))

    def feed(
        self,
        since: str | None = None,
        wanted: Wanted = Wanted(),  # noqa: B008 - it is frozen
        conn: sqlite3.Connection | None = None,
    ) -> Feed:
        after = None if since is None else Cursor.read(since)
        return Feed(conn or self.reading(), wanted, after, purpose="results")

    def export(self, since: str | None = None, wanted: Wanted = Wanted()) -> tuple[list[dict[str, Any]], str]:  # noqa: B008
        """(the documents, the cursor)"""
        rows = self.feed(since, wanted)
        stored = Documents(self.reading())
        found = [each for page in rows.pages(lambda row: stored.result(row).to_json()) for each in page]
        return found, rows.cursor.write()


def keys(documents: list[dict[str, Any]]) -> list[tuple[str, str | None, str]]:
    """(URL, identifier at the source, status) of documents, sorted."""
    found = [(each["request"]["base_url"], each["request"].get("source_id"), each["status"]) for each in documents]
    return sorted(found, key=repr)
