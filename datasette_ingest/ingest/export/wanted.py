"""Which results are exported, and where an export goes on."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

from .errors import NoExport


@dataclass(frozen=True)
class Wanted:
    """Conditions that an exported result meets, all of them; None for any."""

    source: str | None = None
    """The source of its request. Results without a request have none."""
    ingest_type: str | None = None
    hit: bool | None = None
    statuses: tuple[str, ...] = ()
    since: str | None = None
    """The earliest `updated`, ISO 8601 UTC."""

    @property
    def of_results(self) -> list[str]:
        """Conditions on `r`, a row of ingest_file_result, with the parameters of `params`. The plus signs keep SQLite from
        reading the rows in another order, which it would have to sort again for each page."""
        return [
            condition
            for condition, value in (
                ("+r.ingest_type = :ingest_type", self.ingest_type),
                ("r.hit = :hit", self.hit),
                ("r.status in (select value from temp.json_each(:statuses))", self.statuses or None),
                ("r.updated >= :since", self.since),
            )
            if value is not None
        ]

    @property
    def of_requests(self) -> list[str]:
        """Conditions on `q`, a row of ingest_request."""
        return [] if self.source is None else ["q.source = :source"]

    @property
    def params(self) -> Mapping[str, Any]:
        return {
            "source": self.source,
            "ingest_type": self.ingest_type,
            "hit": self.hit,
            "statuses": json.dumps(self.statuses),
            "since": self.since,
        }

    def digest(self, purpose: str) -> str:
        """The same for the same conditions, `since` apart: a cursor says since when.

        :param purpose: what else must be the same
        """
        return digest_of(purpose, *astuple(self)[:-1])


@dataclass(frozen=True)
class Cursor:
    """Where an export has ended, and the next one goes on."""

    seq: int = 0
    """The results up to this `seq` have been exported."""
    request: int = 0
    """The requests up to this rowid were there."""
    mark: str = ""
    """Digest of the request with that rowid. Rowids of rows that were removed are given again."""
    wanted: str = ""
    """`Wanted.digest` of that export."""

    def write(self) -> str:
        return f"c{self.seq}-{self.request}-{self.mark}-{self.wanted}"

    @classmethod
    def read(cls, text: str) -> Cursor | None:
        """None for a text that is no cursor."""
        match = _CURSOR.fullmatch(text.strip())
        return None if match is None else cls(int(match[1]), int(match[2]), match[3], match[4])

    def require(self, wanted: str) -> None:
        """:raises NoExport: when the cursor is of an export with other conditions"""
        if self.wanted != wanted:
            raise NoExport(
                "The cursor is of an export with another --format, --source, --type, --hit or --status. Give the same "
                "ones, or a time instead of the cursor"
            )


_CURSOR = re.compile(r"c(\d{1,19})-(\d{1,19})-([0-9a-f]*)-([0-9a-f]{8})", re.ASCII)


def digest_of(*parts: Any) -> str:
    """Eight hexadecimal digits that differ, most likely, where the parts do."""
    return hashlib.sha1(repr(parts).encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()[:8]
