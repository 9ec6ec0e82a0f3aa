"""Facts: what is known about one body. Each is a part of the result's JSON and a row of a table, keyed by SHA-1."""

from __future__ import annotations

import json
import operator
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import Field

from ..sqlite import upsert
from .json_object import IfAny, IfKnown, JsonObject, Md5Hex, Sha1Hex, Sha256Hex


class Fact(Protocol):
    """What a processor adds to a result. A new kind of fact is a JsonObject of this form, and a field of IngestResult
    that its `file_facts` lists."""

    key: ClassVar[str]
    """Its field in IngestResult, and its key in the result's JSON."""
    table: ClassVar[str]

    def to_json(self) -> dict[str, Any]: ...

    def write(self, conn: sqlite3.Connection, *, updated: str) -> None:
        """Write its row, in the caller's transaction. `updated` is the time now, ISO 8601 UTC. The table exists."""


JsonMap = Annotated[Mapping[str, Any], Field(exclude_if=operator.not_)]
"""A JSON object. The JSON of what holds it leaves an empty one out."""


def json_column(value: Mapping[str, Any] | Sequence[Any]) -> str | None:
    """A JSON object or list as a column holds it; NULL for an empty one."""
    return json.dumps(value, ensure_ascii=False, default=dict) if value else None


def _write_columns(conn: sqlite3.Connection, fact: Any, updated: str, **changed: Any) -> None:
    """Write the row of a fact whose fields are the columns of its table."""
    values = {name.name: getattr(fact, name.name) for name in fields(fact) if name.name != "sha1hex"} | changed
    packed = {name: json_column(value) if isinstance(value, Mapping) else value for name, value in values.items()}
    upsert(conn, fact.table, {"sha1hex": fact.sha1hex}, {"updated": updated, **packed})


@dataclass(frozen=True, slots=True)
class FileMeta(JsonObject):
    """Identity of a body after transfer and content decoding."""

    key: ClassVar[str] = "file_meta"
    table: ClassVar[str] = "file_meta"

    sha1hex: Sha1Hex
    sha256hex: Sha256Hex
    md5hex: Md5Hex
    size_bytes: int
    mimetype: str
    """By content, not by label."""

    @property
    def digests(self) -> dict[str, str]:
        """Hex digests by the names that `model.digest_name` gives."""
        return {"md5": self.md5hex, "sha1": self.sha1hex, "sha256": self.sha256hex}

    def write(self, conn: sqlite3.Connection, *, updated: str) -> None:
        values = {
            "sha256hex": self.sha256hex,
            "md5hex": self.md5hex,
            "size_bytes": self.size_bytes,
            "mimetype": self.mimetype,
        }
        upsert(conn, self.table, {"sha1hex": self.sha1hex}, values)


@dataclass(frozen=True, slots=True)
class HtmlMeta(JsonObject):
    """A page and the work that it describes: the page that is a hit, or the one that led to it."""

    key: ClassVar[str] = "html_meta"
    table: ClassVar[str] = "html_meta"

    sha1hex: Sha1Hex
    """Of the page's own body."""
    scope: IfKnown[str] = None
    """What the page is: `article`, `landing-page`, …, or the status slug of what was served instead. Left out if only
    its head was read."""
    word_count: IfKnown[int] = None
    """Words of its own text, without navigation. Left out if only its head was read."""
    biblio: JsonMap = field(default_factory=dict)
    """Bibliographic facts, as Biblio.to_json gives them."""
    status: str = "success"
    """How reading the page ended."""
    resources: IfAny[Mapping[str, Any]] = ()
    """What the page loads: `{"type": "image", "url": …}`. Types: image, style, script, media, font, frame."""
    processor: IfKnown[str] = None
    """What read its text: `html/1`, or `html-plain/1` without trafilatura. Left out where the page was only passed
    through."""

    def beside(self, earlier: HtmlMeta | None) -> HtmlMeta:
        """This reading of a page, and what an earlier reading of the same bytes found where this one did not look."""
        if earlier is None or earlier.sha1hex != self.sha1hex:
            return self
        found = {name.name: value for name in fields(self) if (value := getattr(self, name.name))}
        return replace(earlier, **found)

    def write(self, conn: sqlite3.Connection, *, updated: str) -> None:
        """What an earlier reading of the same bytes found stays where this one did not look."""
        values = {
            "updated": updated,
            "status": self.status,
            "scope": self.scope,
            "word_count": self.word_count,
            "biblio": json_column(self.biblio),
            "resources": json_column(self.resources),
            "processor": self.processor,
        }
        keep = ("scope", "word_count", "biblio", "resources", "processor")
        upsert(conn, self.table, {"sha1hex": self.sha1hex}, values, keep=keep)


@dataclass(frozen=True, slots=True)
class PdfMeta(JsonObject):
    """What a PDF says of itself."""

    key: ClassVar[str] = "pdf_meta"
    table: ClassVar[str] = "pdf_meta"

    sha1hex: Sha1Hex
    status: str = "success"
    """How reading it ended: a word of the sub-statuses, never that of the row."""
    has_page0_thumbnail: bool = False
    page_count: IfKnown[int] = None
    word_count: IfKnown[int] = None
    """Words of its text, split at white space."""
    page0_height: IfKnown[float] = None
    """Of the first page, in points (1/72 inch)."""
    page0_width: IfKnown[float] = None
    permanent_id: IfKnown[str] = None
    """The first part of the ID in its trailer, in hex: the same in every version of the file."""
    pdf_created: IfKnown[str] = None
    """When it was made, as it says: ISO 8601."""
    pdf_version: IfKnown[str] = None
    """`1.7`"""
    metadata: JsonMap = field(default_factory=dict)
    """What else it says: `title`, `author`, `doi`, …; `encrypted`, `form`; of a text that is not all, `text_cut`, its length,
    and `text_pages`, the pages that it is of."""
    processor: IfKnown[str] = None
    """What read it: `pdf/1`."""

    def write(self, conn: sqlite3.Connection, *, updated: str) -> None:
        _write_columns(conn, self, updated, has_page0_thumbnail=int(self.has_page0_thumbnail))


@dataclass(frozen=True, slots=True)
class XmlMeta(JsonObject):
    """What an XML document is, and the work that it holds."""

    key: ClassVar[str] = "xml_meta"
    table: ClassVar[str] = "xml_meta"

    sha1hex: Sha1Hex
    """Of the bytes as they came, not of the document as UTF-8 that is kept."""
    status: str = "success"
    dialect: IfKnown[str] = None
    """`jats`, `tei`, `scielo`, or `other`."""
    encoding: IfKnown[str] = None
    """Of the bytes as they came, as they were read."""
    word_count: IfKnown[int] = None
    biblio: JsonMap = field(default_factory=dict)
    """Bibliographic facts, in the form of a page's."""
    processor: IfKnown[str] = None
    """What read it: `xml/1`."""

    def write(self, conn: sqlite3.Connection, *, updated: str) -> None:
        _write_columns(conn, self, updated)


@dataclass(frozen=True, slots=True)
class Grobid(JsonObject):
    """What GROBID made of a PDF."""

    key: ClassVar[str] = "grobid"
    table: ClassVar[str] = "grobid"

    sha1hex: Sha1Hex
    """Of the PDF."""
    status: str = "success"
    status_code: IfKnown[int] = None
    """The HTTP status of its answer; -4 if none came in time."""
    grobid_version: IfKnown[str] = None
    fatcat_release: IfKnown[str] = None
    """The fatcat release that its consolidation found."""
    metadata: JsonMap = field(default_factory=dict)
    """The header of the work: `title`, `authors`, …, and how many references there are."""
    xml_url: IfKnown[str] = None
    """The key of the TEI document in the store, where one is kept."""
    processor: IfKnown[str] = None
    """What asked it: `grobid/1`."""

    def write(self, conn: sqlite3.Connection, *, updated: str) -> None:
        """A failure does not replace what an earlier answer said."""
        if self.status != "success":
            sql = "select 1 from grobid where sha1hex = ? and status = 'success'"
            if conn.execute(sql, [self.sha1hex]).fetchone() is not None:
                return
        _write_columns(conn, self, updated)


@dataclass(frozen=True, slots=True)
class FullText(JsonObject):
    """The words of a file, to be searched. No part of a result's JSON."""

    key: ClassVar[str] = "fulltext"
    table: ClassVar[str] = "ingest_fulltext"

    sha1hex: Sha1Hex
    text: str

    def write(self, conn: sqlite3.Connection, *, updated: str) -> None:
        upsert(conn, self.table, {"sha1hex": self.sha1hex}, {"text": self.text})


@dataclass(frozen=True, slots=True)
class Thumbnail(JsonObject):
    """A picture of a file's first page. No part of a result's JSON."""

    key: ClassVar[str] = "thumbnail"
    table: ClassVar[str] = "ingest_thumbnail"

    sha1hex: Sha1Hex
    """Of the file, not of the picture."""
    mimetype: str
    width: int
    """In pixels, as is `height`."""
    height: int
    content: bytes

    def write(self, conn: sqlite3.Connection, *, updated: str) -> None:
        values = {name: getattr(self, name) for name in ("mimetype", "width", "height", "content")}
        upsert(conn, self.table, {"sha1hex": self.sha1hex}, values)


@dataclass(frozen=True, slots=True)
class Cdx(JsonObject):
    """An archive's index entry of a capture."""

    key: ClassVar[str] = "cdx"
    table: ClassVar[str] = "cdx"

    url: str
    datetime: str
    """When it was captured: 14 digits, UTC."""
    sha1hex: IfKnown[Sha1Hex] = None
    """Of the body as it was read."""
    cdx_sha1hex: IfKnown[str] = None
    """As the index says: of the body as it was transferred, perhaps compressed."""
    mimetype: IfKnown[str] = None
    """As the index says."""
    warc_path: IfKnown[str] = None
    warc_csize: IfKnown[int] = None
    warc_offset: IfKnown[int] = None

    def write(self, conn: sqlite3.Connection, *, updated: str) -> None:
        """What an earlier reading knew stays where this one does not."""
        values = {
            "sha1hex": self.sha1hex,
            "cdx_sha1hex": self.cdx_sha1hex,
            "mimetype": self.mimetype,
            "warc_path": self.warc_path,
            "warc_csize": self.warc_csize,
            "warc_offset": self.warc_offset,
        }
        upsert(conn, self.table, {"url": self.url, "datetime": self.datetime}, values, keep=tuple(values))
