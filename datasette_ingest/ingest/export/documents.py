"""A stored result as FileIngestResult, from all the tables that hold a part of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from typing import Any, TypeVar

import pydantic

from ...masking import has_at_sign, mask, mask_url
from ...sqlite import columns, json_cell, json_value
from ..cells import cell_key
from ..facts import Cdx, FileMeta, Grobid, HtmlMeta, PdfMeta, XmlMeta
from ..json_object import JsonObject, json_text
from ..model import LIVE_ONLY, CandidateOutcome, FileEntry, Fileset, IngestRequest, IngestResult, Terminal
from ..schema import TABLES, name_of, stands
from ..store.requests import json_object
from .feed import Row, as_text

_Fact = TypeVar("_Fact", bound=JsonObject)

URLS = frozenset({"base_url", "terminal_url", "url", "archive_url"})
"""Keys whose texts are meant as one URL."""


class Documents:
    """Builds the documents of rows.

    :param conn: from `feed.read_only`, in the transaction that the row was read in
    """

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._conn = conn
        self._tables = {name for name in TABLES if stands(conn, name)}

    def result(self, row: Row) -> IngestResult:
        """A hit with a later failed try is the hit alone. What another program stored in a form that is not ours is left
        out."""
        hit, sha1hex = bool(row["hit"]), row["terminal_sha1hex"]
        key = (row["ingest_type"], row["base_url"])
        terminal = None
        if row["terminal_url"] is not None:
            terminal = Terminal(
                row["terminal_url"], row["terminal_dt"], row["terminal_status_code"], sha1hex, row["archive_url"]
            )
        return IngestResult(
            request_of(row),
            hit,
            row["status"],
            error_message=None if hit else row["error_message"],
            hops=_texts(row["hops"]),
            sources=_texts(row["sources"]) or LIVE_ONLY,
            hop_sources=_texts(row["hop_sources"]),
            terminal=terminal,
            file_meta=self._fact(FileMeta, "sha1hex", sha1hex),
            cdx=self._capture(row["terminal_url"], row["terminal_dt"]),
            fileset=self._fileset(key),
            html_meta=self._fact(HtmlMeta, "sha1hex", row["landing_sha1hex"]),
            pdf_meta=self._fact(PdfMeta, "sha1hex", sha1hex),
            xml_meta=self._fact(XmlMeta, "sha1hex", sha1hex),
            grobid=self._fact(Grobid, "sha1hex", sha1hex),
            warnings=_texts(row["warnings"]) if hit else (),
            via=row["via"],
            candidates=self._candidates(key),
            updated=row["updated"],
        )

    def pages_of_pdf(self, sha1hex: str | None) -> int | None:
        """How many pages a PDF has, where that was read."""
        if sha1hex is None or "page_count" not in columns(self._conn, name_of(self._conn, "pdf_meta")):
            return None
        sql = "select page_count from pdf_meta where sha1hex = cast(? as text)"
        row = self._conn.execute(sql, [cell_key(sha1hex)]).fetchone()
        return None if row is None else row[0]

    def _capture(self, url: str | None, datetime: str | None) -> Cdx | None:
        if datetime is None or "cdx" not in self._tables:
            return None
        return self._read(Cdx, "cdx", "url = cast(? as text) and datetime = cast(? as text)", url, datetime)

    def _fact(self, kind: type[_Fact], column: str, value: str | None) -> _Fact | None:
        table: str = kind.table  # type: ignore[attr-defined]
        if value is None or table not in self._tables:
            return None
        return self._read(kind, table, f"{column} = cast(? as text)", value)

    def _read(self, kind: type[_Fact], table: str, where: str, *params: Any) -> _Fact | None:
        cursor = self._conn.execute(f"select * from {table} where {where}", list(map(cell_key, params)))
        row = cursor.fetchone()
        if row is None:
            return None
        given = dict(zip((column[0] for column in cursor.description), row, strict=True))
        known = {name: _plain(value) for name, value in given.items() if value is not None}
        try:
            return kind.from_json(known)
        except pydantic.ValidationError:
            return None

    def _candidates(self, key: tuple[str, str]) -> tuple[CandidateOutcome, ...]:
        if "ingest_candidate" not in self._tables:
            return ()
        sql = """
        select rank, url, rule, outcome, status_code, reason from ingest_candidate
        where ingest_type = cast(? as text) and base_url = cast(? as text) order by rank
        """
        return tuple(CandidateOutcome(*map(as_text, row)) for row in self._conn.execute(sql, list(map(cell_key, key))))

    def _fileset(self, key: tuple[str, str]) -> Fileset | None:
        if "ingest_fileset" not in self._tables:
            return None
        sql = """
        select platform, platform_id, manifest from ingest_fileset
        where ingest_type = cast(? as text) and base_url = cast(? as text)
        """
        row = self._conn.execute(sql, list(map(cell_key, key))).fetchone()
        if row is None:
            return None
        try:
            files = tuple(FileEntry.from_json(entry) for entry in json.loads(row[2] or "[]"))
        except (ValueError, TypeError):
            return None
        metas = (self._fact(FileMeta, "sha1hex", entry.sha1hex) for entry in files)
        return Fileset(row[0], row[1], files, tuple(meta for meta in metas if meta is not None))


def _plain(value: Any) -> Any:
    """A column's value; a JSON object or list as that."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _texts(stored: str | None) -> tuple[str, ...]:
    try:
        values = json.loads(stored) if stored else []
    except ValueError:
        return ()
    return tuple(value for value in values if isinstance(value, str)) if isinstance(values, list) else ()


def request_of(row: Row) -> IngestRequest:
    """The request of a row, as it was received; of a result without a request, its type and URL."""
    base_url = row["base_url"]
    try:
        others = json_object(row["request"])
    except ValueError:
        others = {}
    named = {name: row[name] for name in ("source", "source_id", "actor", "release_stage") if row[name] is not None}
    document = {
        **others,
        "ingest_type": row["ingest_type"],
        "base_url": json_cell(base_url),
        **named,
    }
    return IngestRequest(row["ingest_type"], base_url, received=document)


# ---- as lines ---------------------------------------------------------------------------------------------------


def line(document: Mapping[str, Any], *, passwords: bool) -> str:
    """The document as a line of JSON.

    :param passwords: whether users and passwords stay in its URLs
    """
    text = _encoded(document)
    return text if passwords or not has_at_sign(text) else _encoded(masked(document))


def _encoded(document: Mapping[str, Any]) -> str:
    try:
        return json_text(document) + "\n"
    except UnicodeEncodeError:
        return json_text(json_value(document)) + "\n"


def masked(value: Any, key: str = "") -> Any:
    """A JSON value with `***` for users and passwords in all its texts and names."""
    if isinstance(value, str):
        return mask_url(value) if key in URLS else mask(value)
    if isinstance(value, dict):
        return {mask(name): masked(item, name) for name, item in value.items()}
    return [masked(item, key) for item in value] if isinstance(value, list) else value
