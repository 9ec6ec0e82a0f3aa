"""Cells of Datasette's own pages that hold results: a status as a badge, the SHA-1 of a file with its first page.

A cell is rendered before it is known who looks at it (Datasette 0.65 does not say), and one at a time. So what needs the
database is rendered as a `DocumentCell`, and all of them are completed by one query when the page is.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import re
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from markupsafe import Markup, escape

from ... import compat
from ...jobs import facts
from ...jobs.errors import JobError
from ...jobs.owned_tables import source_of_shadow
from ...sqlite import columns, fold, quote
from ...web import access
from ...web.urls import Links
from ..advice import case_of
from ..enrichment import IngestEnrichment
from ..enrichment.sql import result_columns
from ..enrichment.words import WORDS
from ..errors import NOT_TRIED, STATUSES, SUCCESS, RetryClass, Spn2Error, retry_of_status
from ..schema import TABLES, VIEWS
from ..search.documents import THUMBNAILS

log = logging.getLogger(__name__)

_SHA1 = re.compile(r"[0-9a-f]{40}")
_STATUS_COLUMNS = {"ingest_file_result": "status", "ingest_candidate": "outcome"}
"""Those of our own tables that hold statuses of rows."""
_DIGESTS = frozenset({"sha1hex", "terminal_sha1hex"})
_PICTURE = "content"
MOST_AT_ONCE = 500
"""SHA-1s in one query: SQLite's own limit of parameters was 999 once."""


@dataclass(frozen=True)
class Ours:
    """The columns of a table, view or query, folded, that hold SHA-1s of files, statuses, and pictures."""

    digests: frozenset[str] = frozenset()
    statuses: frozenset[str] = frozenset()
    pictures: frozenset[str] = frozenset()


@dataclass
class _Page:
    """What is known while one request is answered. `waiting`: database -> cells to be completed."""

    tables: dict[tuple[str, str | tuple[str, ...]], Ours] = field(default_factory=dict)
    waiting: dict[str, list[DocumentCell]] = field(default_factory=dict)
    has_cells: bool = False


_page: contextvars.ContextVar[_Page | None] = contextvars.ContextVar("datasette_ingest_cells", default=None)


class DocumentCell(Markup):
    """The SHA-1 of a file. As text it is that alone; on a page it is what `complete` has made of it."""

    shown: Markup | None = None
    sha1hex: str = ""
    is_picture: bool = False

    def __html__(self) -> Any:
        return str(self) if self.shown is None else self.shown


def remembering(app: Any) -> Any:
    """ASGI middleware: the cells of a request are completed together."""

    async def remembered(scope: Any, receive: Any, send: Any) -> None:
        token = _page.set(_Page())
        try:
            await app(scope, receive, send)
        finally:
            _page.reset(token)

    return remembered


# ---- rendering ----------------------------------------------------------------------------------------------------


def render(datasette: Any, database: str, table: str | None, row: Any, column: str, value: Any) -> Any:
    """What `render_cell` returns: None for a cell that is none of ours. What asks the database first is a function, since
    Datasette calls none if another plugin has rendered the cell."""
    page = _page.get()
    if page is None or not (_may_be_status(column, value) or _may_be_file(column, value)):
        return None
    return partial(_render, page, datasette, database, table, row, column, value)


def _may_be_status(column: str, value: Any) -> bool:
    return fold(column).endswith(("status", "outcome")) and isinstance(value, str) and _is_status(value)


def _may_be_file(column: str, value: Any) -> bool:
    name = fold(column)
    if name == _PICTURE:
        return isinstance(value, bytes)
    return name.endswith("sha1hex") and isinstance(value, str) and _SHA1.fullmatch(value) is not None


async def _render(
    page: _Page, datasette: Any, database: str, table: str | None, row: Any, column: str, value: Any
) -> Markup | None:
    names = tuple(row.keys()) if table is None else ()
    place = (database, names if table is None else table)
    if place not in page.tables:
        page.tables[place] = Ours()
        with _as_they_are(database):
            page.tables[place] = await _ours(datasette, database, table, names)
    ours, name = page.tables[place], fold(column)
    if name in ours.statuses and isinstance(value, str):
        page.has_cells = True
        return badge(value, _code_beside(row, name), Links(datasette).words(IngestEnrichment.slug, ""))
    if name in ours.digests:
        return _waiting(page, database, str(value), value, is_picture=False)
    sha1hex = row["sha1hex"] if name in ours.pictures and "sha1hex" in row.keys() else None  # noqa: SIM118 - no dict
    if isinstance(sha1hex, str) and _SHA1.fullmatch(sha1hex):
        return _waiting(page, database, f"<Binary: {len(value):,} bytes>", sha1hex, is_picture=True)
    return None


def _waiting(page: _Page, database: str, text: str, sha1hex: str, *, is_picture: bool) -> DocumentCell:
    cell = DocumentCell(escape(text))
    cell.sha1hex, cell.is_picture = sha1hex, is_picture
    page.waiting.setdefault(database, []).append(cell)
    page.has_cells = True
    return cell


@contextlib.contextmanager
def _as_they_are(database: str) -> Iterator[None]:
    """Cells stay as they are where the database cannot be asked now."""
    try:
        yield
    except sqlite3.DatabaseError as problem:
        log.warning("cannot read the results of %s: %s", database, problem)


async def _ours(datasette: Any, database: str, table: str | None, names: Sequence[str]) -> Ours:
    """Which columns are ours: of our own tables, by name; of a table that had a job, of those beside it, and of a view or
    a query, those of a whole set that an ingest writes."""
    db = datasette.databases.get(database)
    if db is None or database in compat.INTERNAL_DATABASES or (db.is_memory and not db.memory_name):
        return Ours()
    known = await facts.of(db)
    if not known.ours:
        return Ours()
    if table is None:
        return _of_set(names)
    folded = fold(table)
    if folded in map(fold, known.ours) and source_of_shadow(table) is None:
        return _of_own(folded)
    is_table = folded in known.tables
    if is_table and source_of_shadow(table) is None and folded not in map(fold, known.with_jobs):
        return Ours()
    return _of_set(await compat.read(db, lambda conn: columns(conn, table)))


def _of_own(table: str) -> Ours:
    """Of one of our own tables or views, whatever the prefix of its name."""
    name = next((name for name in sorted({*TABLES, *VIEWS}, key=len, reverse=True) if table.endswith(name)), None)
    if name is None:
        return Ours()
    return Ours(
        _DIGESTS,
        frozenset({_STATUS_COLUMNS[name]} if name in _STATUS_COLUMNS else ()),
        frozenset({_PICTURE} if name == THUMBNAILS else ()),
    )


def _of_set(names: Sequence[str]) -> Ours:
    written = result_columns(names)
    return Ours(
        frozenset(name for name in written if name.endswith("terminal_sha1hex")),
        frozenset(name for name in written if name.endswith("status")),
    )


# ---- statuses -----------------------------------------------------------------------------------------------------


def _is_status(word: str) -> bool:
    return word in (SUCCESS, NOT_TRIED) or word in STATUSES or word.startswith(Spn2Error.PREFIX)


def _code_beside(row: Any, column: str) -> int | None:
    """The HTTP status in the row of a status, whose column has this name, folded."""
    prefix = column.removesuffix("status").removesuffix("outcome")
    wanted = (f"{prefix}terminal_status_code", f"{prefix}status_code")
    codes = (row[name] for name in row.keys() if fold(name) in wanted)  # noqa: SIM118 - no dict
    return next((code for code in codes if isinstance(code, int)), None)


@lru_cache(maxsize=1024)
def badge(status: str, status_code: int | None, words_url: str) -> Markup:
    """The word, coloured by whether it is a success or worth another try later; its meaning, and what to do, as title.
    It leads to the same sentences on a page of all words."""
    name = case_of(status, status_code)
    word = WORDS.get(name) or WORDS[name.partition(":")[0]]
    anchor = name if name in WORDS else name.partition(":")[0]
    is_due = retry_of_status(status, status_code) is not RetryClass.NEVER
    kind = " ingest-good" if status == SUCCESS else " ingest-due" if is_due else ""
    return Markup('<a class="ingest-status-badge{}" href="{}#{}" title="{}">{}</a>').format(
        kind, words_url, anchor, word.sentences, status
    )


# ---- completing a page --------------------------------------------------------------------------------------------


async def complete(datasette: Any, request: Any) -> dict[str, Any]:
    """What `extra_template_vars` returns, nothing; on the way it completes the cells of the page that is made now."""
    page = _page.get()
    if page is None or request is None:
        return {}
    waiting, page.waiting = page.waiting, {}
    keeps_files = bool(compat.plugin_config(datasette).get("store"))
    for database, cells in waiting.items():
        pictures = None
        with _as_they_are(database):
            pictures = await _pictures(datasette, request.actor, database, {cell.sha1hex for cell in cells})
        if pictures is not None:
            links = Links(datasette)
            for cell in cells:
                cell.shown = _shown(links, database, cell, cell.sha1hex in pictures, keeps_files)
    return {}


def stylesheets(datasette: Any) -> list[str]:
    """What `extra_css_urls` returns: ours, on a page that has such cells."""
    page = _page.get()
    return [Links(datasette).static("ingest.css")] if page is not None and page.has_cells else []


async def _pictures(datasette: Any, actor: Any, database: str, digests: Collection[str]) -> set[str] | None:
    """Those of the files that have a picture of their first page; None where the actor may not read the results."""
    db = datasette.databases[database]
    tables = [name for name in (await facts.of(db)).ours if fold(name).endswith(THUMBNAILS)]
    tables = [name for name in tables if source_of_shadow(name) is None]
    try:
        await access.require_results(datasette, actor, database, tables)
    except JobError:
        return None

    def read(conn: sqlite3.Connection) -> set[str]:
        wanted = sorted(digests)
        return {
            row[0]
            for name in tables
            for start in range(0, len(wanted), MOST_AT_ONCE)
            for row in conn.execute(
                f"select sha1hex from {quote(name)} where sha1hex in "
                f"({', '.join('?' * len(wanted[start : start + MOST_AT_ONCE]))})",
                wanted[start : start + MOST_AT_ONCE],
            )
        }

    return await compat.read(db, read) if tables else set()


def _shown(links: Links, database: str, cell: DocumentCell, has_picture: bool, keeps_files: bool) -> Markup | None:
    """The first page, which leads to the file where files are kept, and the SHA-1; None where there is neither."""
    if not (has_picture or (keeps_files and not cell.is_picture)):
        return None
    picture = Markup('<img src="{}" alt="First page" loading="lazy">').format(links.thumbnail(database, cell.sha1hex))
    inner = (picture if has_picture else Markup("")) + (Markup("") if cell.is_picture else escape(cell.sha1hex))
    address = links.body(database, cell.sha1hex) if keeps_files else None
    if address is None:
        return Markup('<span class="ingest-page1">{}</span>').format(inner)
    return Markup('<a class="ingest-page1" href="{}">{}</a>').format(address, inner)
