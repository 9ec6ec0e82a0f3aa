"""ReplaceEnrichment: writes the new addresses of links that have moved for good into their column, and keeps the old ones."""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import compat
from ...jobs.enrichment import Enrichment, Row, Selected
from ...jobs.keyset import RawText, qualified, table_key
from ...jobs.model import BatchOutcome, RowUpdate, Word
from ...sqlite import Specs, columns, fold, quote
from .. import schema
from ..linkcheck.verdict import LinkStatus
from ..store.links import StoredLink, stored_link
from ..urls import is_href, mask, resolve, same_host
from . import sql
from .links_config import ReplaceConfig

REPLACED, NOT_MOVED, NOT_CHECKED = "replaced", "not moved", "not checked"
KEPT = "to be done by hand"
WORDS = {
    REPLACED: Word("The cell has the new address now, and a column keeps the old one."),
    NOT_MOVED: Word("The link has not moved, or the cell holds another link than was checked."),
    NOT_CHECKED: Word("The link was never checked.", "Run Check links first."),
    KEPT: Word("The new address is not one to write by itself.", "Look at the row, and correct the cell by hand."),
}
EXAMPLES = 3

_SESSION = re.compile(
    r"[?&;](?:[\w-]*(?:session|sess|token|signature|credential|ticket)[\w-]*|sid|sig|auth|apikey|api_key|key|x-amz-[\w-]+)=",
    re.IGNORECASE,
)
"""What an address has that is one visitor's, or opens a door for a while."""


class ReplaceEnrichment(Enrichment):
    """Replaces moved addresses. Only where the cell still is what was checked."""

    slug = "links-replace"
    name = "Replace moved addresses"
    description = (
        "Write the new address of links that have moved for good, and keep the old one in a column. After “Check links”"
    )
    batch_size = 1
    max_open_batches = 100
    Config = ReplaceConfig
    words = WORDS
    successes = frozenset({REPLACED, NOT_MOVED, NOT_CHECKED})

    def columns(self, config: ReplaceConfig) -> list[str]:
        return [config.url_column]

    def column_types(self, config: ReplaceConfig) -> Mapping[str, str]:
        return {config.before: "text"}

    def tables(self, config: ReplaceConfig) -> Specs:
        return schema.specs(schema.LINK_TABLES)

    def check_output(self, config: ReplaceConfig, columns: Sequence[str]) -> None:
        if fold(config.before) == fold(config.url_column):
            raise ValueError("before_column: the old links need a column of their own")

    async def defaults(self, db: Any, table: str) -> dict[str, Any]:
        """The column whose name or values look like links."""
        return {"url_column": await compat.read(db, lambda conn: sql.guess_url_column(conn, table))}

    async def preview(  # type: ignore[override]
        self, rows: Sequence[Row], config: ReplaceConfig, selected: Selected
    ) -> Mapping[str, Any]:
        def look(conn: sqlite3.Connection) -> list[tuple[str, str | None, Any]]:
            cells = [row.get(config.url_column) for row in rows]
            return [(*replacement(cell, stored_link(conn, cell), config), cell) for cell in cells]

        found = await selected.read(look)
        if not found:
            return {}
        is_whole = selected.count is not None and len(rows) >= selected.count
        of_the_first = "" if is_whole else f" (of the first {len(rows):,} rows)"
        changes = [f"{cell} → {new}" for word, new, cell in found if word == REPLACED]
        facts: dict[str, Any] = {
            f"What would happen{of_the_first}": dict(Counter(word for word, *_ in found).most_common())
        }
        for number, change in enumerate(changes[:EXAMPLES], 1):
            facts[f"Example {number}"] = change
        return facts

    async def enrich_batch(
        self, rows: Sequence[Row], pks: Sequence[Any], config: ReplaceConfig, job: Any, db: Any, table: str
    ) -> BatchOutcome:
        cells = [row[config.url_column] for row in rows]
        stored = await compat.read(db, lambda conn: [stored_link(conn, cell) for cell in cells])
        words: Counter[str] = Counter()
        updates, writes = [], []
        for cell, link, pk in zip(cells, stored, pks, strict=True):
            word, new = replacement(cell, link, config)
            words[word] += 1
            if new is None:
                continue
            if job.is_dry_run:
                updates.append(RowUpdate(pk, {config.url_column: new, config.before: cell}))
            else:
                writes.append(replacing(table, config, pk, cell, new))
        return BatchOutcome(updates, writes=writes, outcomes=words)


def replacement(cell: Any, link: StoredLink | None, config: ReplaceConfig) -> tuple[str, str | None]:
    """What is done with a row, as an outcome word, and the new address if it gets one.

    An address with a password, or with something that is one visitor's, is never written, and a link with a password is
    not touched: a person has to look.
    """
    if link is None:
        return NOT_CHECKED, None
    new = link.url
    if link.status != LinkStatus.MOVED.value or new is None or not isinstance(cell, str) or cell.strip() == new:
        return NOT_MOVED, None
    old = resolve(cell.strip())
    if old is None or not is_href(new):
        return NOT_MOVED, None
    has_secret = (
        mask(cell) != cell or "***" in new or mask(new) != new or (_SESSION.search(new) and not _SESSION.search(old))
    )
    if has_secret or not (config.hosts_may_change or same_host(old, new)):
        return KEPT, None
    return REPLACED, new


def replacing(table: str, config: ReplaceConfig, pk: Any, old: str, new: str) -> Callable[[sqlite3.Connection], None]:
    """A write that replaces one row's link. It raises ValueError where the cell is not what it was."""

    def replace(conn: sqlite3.Connection) -> None:
        key = table_key(conn, table)
        values = pk if isinstance(pk, tuple) else (pk,)
        names = [qualified(table, name) for name in key.columns] if key.parts else [str(key.rowid)]
        if len(values) > len(names):  # a key with a NULL in it, and the rowid that tells its rows apart
            names.append(str(key.rowid))
        there = " and ".join(
            f"{name} is {'cast(? as text)' if isinstance(value, RawText) else '?'}"
            for name, value in zip(names, values, strict=True)
        )
        bound = [value.content if isinstance(value, RawText) else value for value in values]
        if fold(config.before) not in map(fold, columns(conn, table)):
            conn.execute(f"alter table {quote(table)} add column {quote(config.before)} text")
        link, before = quote(config.url_column), quote(config.before)
        changed = conn.execute(
            f"update {quote(table)} set {before} = coalesce({before}, {link}), {link} = ? where {there} and {link} is ?",
            [new, *bound, old],
        ).rowcount
        if changed != 1:
            raise ValueError("the link was changed since it was read: check it again")

    return replace
