"""The rows of a table by what the last check of their links found: the dead first, a page at a time, in the order of the key."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...jobs import keyset
from ...jobs.errors import JobError
from ...sqlite import columns, fold, quote
from ...sqlite import text as literal
from ..linkcheck.verdict import BY_URGENCY, LinkStatus
from ..store.links import TABLE, has_links

FRAGMENT = "fragment missing"
"""The section of links that are ok, but for the place in the page."""
SECTIONS: Mapping[str, str] = {
    **{status.value: f"status = {literal(status.value)}" for status in BY_URGENCY},
    FRAGMENT: f"status = {literal(LinkStatus.OK.value)} and fragment = 'missing'",
}
"""What a report lists, in this order: name -> condition on ingest_link."""
FOUND = ("status", "url", "status_code", "fragment", "reason", "checked", "archive_url")
"""The columns of ingest_link that a report shows."""
TITLES = ("title", "name", "label", "titel", "titre", "título", "titulo", "caption", "heading")


@dataclass(frozen=True)
class Place:
    """Where a page begins: in this section, behind this key."""

    section: str
    after: keyset.Key | None = None

    @classmethod
    def read(cls, text: str | None) -> Place:
        """:raises JobError: for text that `write` did not make"""
        if text is None:
            return cls(next(iter(SECTIONS)))
        section, _, cursor = text.partition(":")
        try:
            if section in SECTIONS:
                return cls(section, keyset.load(cursor) if cursor else None)
        except ValueError:
            pass
        raise JobError("_next: expected the `next` of the page before")

    def write(self) -> str:
        return f"{self.section}:{'' if self.after is None else keyset.dump(self.after)}"


@dataclass(frozen=True)
class LinkRow:
    """One row: its key, what the title column and the link's cell hold, and the columns FOUND of the check."""

    key: Any
    title: Any
    link: Any
    section: str
    found: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class LinkTable:
    """A table whose links were checked: `column` has them, `title` tells what a row is about (None: no column does)."""

    name: str
    column: str
    title: str | None

    def page(self, conn: sqlite3.Connection, place: Place, limit: int) -> tuple[list[LinkRow], Place | None]:
        """(Rows from a place on, where the next page begins; None on the last page).

        :raises ValueError: for a place in a table of another key
        """
        rows: list[LinkRow] = []
        if not has_links(conn):
            return rows, None
        key = keyset.table_key(conn, self.name)
        names = list(SECTIONS)
        after = place.after
        for section in names[names.index(place.section) :]:
            found = keyset.page_of_terms(
                conn, key, self._terms(), self._where(SECTIONS[section]), {}, after, None, limit + 1 - len(rows)
            )
            for number, (title, link, *values) in enumerate(row[: found.width] for row in found.rows):
                if len(rows) == limit:
                    before = found.key(number - 1) if number else None
                    return rows, Place(section, None if before is None else key.cursor_of(before)) if number else Place(
                        section
                    )
                rows.append(
                    LinkRow(key.public(found.key(number)), title, link, section, dict(zip(FOUND, values, strict=True)))
                )
            after = None
        return rows, None

    def counts(self, conn: sqlite3.Connection) -> dict[str, int]:
        """Section, or another status -> its rows; `not checked`: rows with a link that was not checked as it stands."""
        cell = self._cell
        condition = " ".join(f"when {condition} then {literal(name)}" for name, condition in SECTIONS.items())
        if not has_links(conn):
            return {}
        rows = conn.execute(
            f"select case {condition} else coalesce(status, 'not checked') end, count(*) from {quote(self.name)} "
            f"left join {TABLE} on base_url = {cell} where trim(coalesce({cell}, '')) <> '' group by 1"
        )
        found = {str(row[0]): int(row[1]) for row in rows}
        order = [*SECTIONS, LinkStatus.OK.value, "not checked"]
        return {name: found[name] for name in order if name in found}

    def key_columns(self, conn: sqlite3.Connection) -> tuple[str, ...]:
        return keyset.table_key(conn, self.name).columns

    @property
    def _cell(self) -> str:
        return f"cast({keyset.qualified(self.name, self.column)} as text)"

    def _terms(self) -> list[str]:
        title = "null" if self.title is None else keyset.qualified(self.name, self.title)
        found = (f"(select {name} from {TABLE} where base_url = {self._cell})" for name in FOUND)
        return [title, keyset.qualified(self.name, self.column), *found]

    def _where(self, condition: str) -> str:
        return f"(exists (select 1 from {TABLE} where base_url = {self._cell} and {condition}))"


def title_column(conn: sqlite3.Connection, table: str, wanted: str | None, without: Sequence[str]) -> str | None:
    """The column that tells what a row is about: the wanted one, or the first that is called a title.

    :raises JobError: when there is no such column
    """
    present = {fold(name): name for name in columns(conn, table)}
    if wanted is not None:
        if fold(wanted) not in present:
            raise JobError(f"_title: {table} has no column {wanted!r}")
        return present[fold(wanted)]
    taken = set(map(fold, without))
    named = [name for title in TITLES for key, name in present.items() if title == key and key not in taken]
    parts = [name for key, name in present.items() if key.rpartition("_")[2] in TITLES and key not in taken]
    return next(iter([*named, *parts]), None)
