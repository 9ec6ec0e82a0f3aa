"""Dumps as tests need them, and what a load of them gives."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from datasette_ingest.ingest import schema
from datasette_ingest.ingest.load.load import Load, Plan, Refusal, files_of
from datasette_ingest.ingest.load.rows import Given
from datasette_ingest.ingest.load.table import Columns
from datasette_ingest.ingest.load.where import Where
from datasette_ingest.ingest.load.write import TABLES, TABLES_OF_RESULTS, Written, write_batch

GIVEN = Given(source="there", created="2026-11-30T12:00:00Z")


@dataclass
class Loaded:
    """How a load ended."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)
    stopped: str | None = None
    written: Written = field(default_factory=Written)

    @property
    def urls(self) -> list[str]:
        return [row[1] for row in self.rows]

    @property
    def refused_lines(self) -> list[int]:
        return [line for line, _ in self.refused]


def load(
    content: bytes | Path,
    format: str = "jsonl",
    *,
    where: Sequence[str] = (),
    columns: Columns | None = None,
    **given: Any,
) -> Loaded:
    """What is read of this content of standard input, or of this file."""
    loaded = Loaded()

    def refuse(refusal: Refusal) -> None:
        loaded.refused.append((refusal.line, refusal.reason))

    plan = Plan(
        format,
        replace(GIVEN, **given),
        Where.parse(where, has_locations=format in ("unpaywall", "openalex")),
        columns or Columns(),
    )
    paths, stdin = (files_of(content), None) if isinstance(content, Path) else ([], io.BytesIO(content))
    reading = Load(plan, paths, refuse, stdin=stdin)
    for batch in reading.batches():
        loaded.rows += batch.rows or [result.row for result in batch.results]
    loaded.stopped = reading.stopped
    return loaded


def lines(*values: Any) -> bytes:
    """JSON lines; text stands as it is."""
    return b"".join(
        (value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()) + b"\n"
        for value in values
    )


def request(number: int = 1, **others: Any) -> dict[str, Any]:
    return {
        "ingest_type": "pdf",
        "base_url": f"http://h/{number}.pdf",
        "source": "doaj",
        "source_id": str(number),
        **others,
    }


def place(**fields: Any) -> dict[str, Any]:
    """A location as Unpaywall has it."""
    usual = {
        "url": None,
        "url_for_pdf": None,
        "url_for_landing_page": None,
        "is_best": False,
        "host_type": "repository",
    }
    return {**usual, "license": None, "version": None, **fields}


def unpaywall(doi: str, *places: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {
        "doi": doi,
        "doi_url": f"https://doi.org/{doi}",
        "title": "Herons of the lower river",
        "genre": "journal-article",
        "is_oa": bool(places),
        "oa_status": "green" if places else "closed",
        "best_oa_location": next((each for each in places if each["is_best"]), None),
        "oa_locations": list(places),
        "year": 2020,
        **others,
    }


def database() -> sqlite3.Connection:
    conn = sqlite3.connect(":memory:", isolation_level=None)
    schema.migrate(conn, (*TABLES, *TABLES_OF_RESULTS))
    return conn


def write(conn: sqlite3.Connection, content: bytes, format: str, **given: Any) -> Written:
    """Load into a database, one batch."""
    plan = Plan(format, replace(GIVEN, **given))
    total = Written()
    for batch in Load(plan, [], lambda _: None, stdin=io.BytesIO(content)).batches():
        total += write_batch(conn, batch, most=None, mostly_known=total.mostly_known)
    return total


def all_rows(conn: sqlite3.Connection, table: str = "ingest_request") -> Iterable[Any]:
    return conn.execute(f"select * from {table}").fetchall()
