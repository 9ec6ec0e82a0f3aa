"""Facts: what is known about one body. Each is a part of the result's JSON and a row of a table, keyed by SHA-1."""

from __future__ import annotations

import json
import operator
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import Field

from ..sqlite import upsert
from .json_object import IfKnown, JsonObject, Md5Hex, Sha1Hex, Sha256Hex


class Fact(Protocol):
    """What a processor adds to a result. A new kind of fact is a JsonObject of this form, and a field of IngestResult
    that its `file_facts` lists."""

    key: ClassVar[str]
    """Its field in IngestResult, its key in the result's JSON, and its table."""

    def to_json(self) -> dict[str, Any]: ...

    def write(self, conn: sqlite3.Connection, *, updated: str) -> None:
        """Write its row, in the caller's transaction. `updated` is the time now, ISO 8601 UTC. The table exists."""


@dataclass(frozen=True, slots=True)
class FileMeta(JsonObject):
    """Identity of a body after transfer and content decoding."""

    key: ClassVar[str] = "file_meta"

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
        upsert(conn, self.key, {"sha1hex": self.sha1hex}, values)


@dataclass(frozen=True, slots=True)
class HtmlMeta(JsonObject):
    """A page and the work that it describes: the page that is a hit, or the one that led to it."""

    key: ClassVar[str] = "html_meta"

    sha1hex: Sha1Hex
    """Of the page's own body."""
    scope: IfKnown[str] = None
    """What the page is: `article`, `landing-page`, …, or the status slug of what was served instead. Left out if only
    its head was read."""
    word_count: IfKnown[int] = None
    """Words of its own text, without navigation. Left out if only its head was read."""
    biblio: Annotated[Mapping[str, Any], Field(exclude_if=operator.not_)] = field(default_factory=dict)
    """Bibliographic facts, as Biblio.to_json gives them."""
    status: str = "success"
    """How reading the page ended."""

    def write(self, conn: sqlite3.Connection, *, updated: str) -> None:
        """What an earlier reading of the same bytes found stays where this one did not look."""
        values = {
            "updated": updated,
            "status": self.status,
            "scope": self.scope,
            "word_count": self.word_count,
            "biblio": json.dumps(dict(self.biblio), ensure_ascii=False) if self.biblio else None,
        }
        upsert(conn, self.key, {"sha1hex": self.sha1hex}, values, keep=("scope", "word_count", "biblio"))


@dataclass(frozen=True, slots=True)
class Cdx(JsonObject):
    """An archive's index entry of a capture."""

    key: ClassVar[str] = "cdx"

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
        upsert(conn, self.key, {"url": self.url, "datetime": self.datetime}, values, keep=tuple(values))
