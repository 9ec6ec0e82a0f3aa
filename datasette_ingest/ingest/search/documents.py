"""The documents that a query finds, and what is known of each. Functions of a connection; they only read."""

from __future__ import annotations

import html
import json
import re
import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...sqlite import kind, made
from ..schema import stands, under_prefix
from ..urls import is_href, split

TEXTS, RESULTS, REQUESTS, THUMBNAILS = "ingest_fulltext", "ingest_file_result", "ingest_request", "ingest_thumbnail"
SNIPPET_WORDS = 40
"""FTS5 gives at most 64."""
LOOKED_AT = 100
"""Results of one file that are looked at: a file may be the answer to any number of links."""


class Place(NamedTuple):
    """Where a document is in the order of a search: `rank` is BM25, the best the lowest; None where documents are in the
    order of their numbers."""

    rank: float | None
    number: int


@dataclass(frozen=True)
class Document:
    """A file whose words are in the index. `url` is where it was found, None where no result names it; `found`, when."""

    number: int
    sha1hex: str
    title: str | None
    ingest_type: str | None
    url: str | None
    found: str | None
    mimetype: str | None
    page_count: int | None
    word_count: int | None
    has_thumbnail: bool


def prefixes(conn: sqlite3.Connection) -> list[str]:
    """The prefixes of the sets of our tables that have words to search in; '' is the set without one."""
    found = sorted(name.removesuffix(TEXTS) for name in made(conn) if name.endswith(TEXTS))
    return [
        prefix for prefix in found if stands(under_prefix(conn, prefix), TEXTS) and kind(conn, f"{prefix}{TEXTS}_fts")
    ]


def filled(conn: sqlite3.Connection) -> list[str]:
    """Those of them whose tables hold a text."""
    first = f"select 1 from {TEXTS} limit 1"
    return [prefix for prefix in prefixes(conn) if under_prefix(conn, prefix).execute(first).fetchone()]


def find(conn: sqlite3.Connection, match: str, after: Place | None, limit: int, *, ranked: bool) -> list[Place]:
    """The documents that an FTS5 query finds, from the one behind `after` on: the best first, or, without ranks, in the
    order of their numbers. To rank them, all that the query finds are looked at."""
    if not ranked:
        number = -(2**63) if after is None else after.number
        sql = f"select rowid from {TEXTS}_fts where {TEXTS}_fts match ? and rowid > ? order by rowid limit ?"
        return [Place(None, row[0]) for row in conn.execute(sql, [match, number, limit])]
    # `limit -1` keeps the subquery apart, so that a rank is worked out once, and FTS5 does not take `rank` for its own
    behind = "" if after is None else "where (place, number) > (:rank, :number)"
    sql = f"""
    select place, number from (
      select rank place, rowid number from {TEXTS}_fts where {TEXTS}_fts match :match limit -1
    ) {behind} order by place, number limit :limit
    """
    given = {"match": match, "limit": limit, **({} if after is None else after._asdict())}
    return [Place(*row) for row in conn.execute(sql, given)]


def count(conn: sqlite3.Connection, match: str) -> int:
    """How many documents the query finds."""
    sql = f"select count(*) from {TEXTS}_fts where {TEXTS}_fts match ?"
    return int(conn.execute(sql, [match]).fetchone()[0])


def describe(conn: sqlite3.Connection, places: Sequence[Place]) -> list[Document]:
    """What is known of these documents, in their order. One whose text is gone by now is left out."""
    known = {
        name: stands(conn, name)
        for name in (RESULTS, THUMBNAILS, "file_meta", "pdf_meta", "xml_meta", "html_meta", "grobid")
    }
    numbers = [place.number for place in places]
    slots = ", ".join("?" * len(numbers))
    digests = dict(conn.execute(f"select id, sha1hex from {TEXTS} where id in ({slots})", numbers).fetchall())
    there = [number for number in numbers if digests.get(number) is not None]
    return [_document(conn, str(digests[number]), number, known) for number in there]


def _document(conn: sqlite3.Connection, sha1hex: str, number: int, known: Mapping[str, bool]) -> Document:
    def row(table: str, *columns: str, sha1: str | None = sha1hex) -> Sequence[Any]:
        found = None
        if known[table] and sha1 is not None:
            sql = f"select {', '.join(columns)} from {table} where sha1hex = ?"
            found = conn.execute(sql, [sha1]).fetchone()
        return (None,) * len(columns) if found is None else tuple(found)

    ingest_type, url, found, landing = _result(conn, sha1hex) if known[RESULTS] else (None,) * 4
    pages, pdf_words, pdf = row("pdf_meta", "page_count", "word_count", "metadata")
    xml_words, xml = row("xml_meta", "word_count", "biblio")
    html_words, page = row("html_meta", "word_count", "biblio")
    [mimetype] = row("file_meta", "mimetype")
    [tei] = row("grobid", "metadata")
    [landing_page] = row("html_meta", "biblio", sha1=landing)
    [thumbnail] = row(THUMBNAILS, "sha1hex")
    titles = (title_in(each) for each in (landing_page, tei, xml, page, pdf))
    return Document(
        number,
        sha1hex,
        next(filter(None, titles), None),
        ingest_type,
        url,
        found,
        mimetype,
        pages,
        next((words for words in (pdf_words, xml_words, html_words) if words is not None), None),
        thumbnail is not None,
    )


def _result(conn: sqlite3.Connection, sha1hex: str) -> Sequence[Any]:
    """(type, URL, when it was found, SHA-1 of its landing page) of the newest result that this file is the hit of."""
    sql = f"""
    select ingest_type, terminal_url, updated, landing_sha1hex from (
      select * from {RESULTS} where terminal_sha1hex = ? limit {LOOKED_AT}
    ) order by hit desc, updated desc limit 1
    """
    return conn.execute(sql, [sha1hex]).fetchone() or (None,) * 4


def requests_for(conn: sqlite3.Connection, sha1hex: str, limit: int) -> list[tuple[str, str, str, str]]:
    """The keys of requests for links that led to this file: type, URL, source, identifier at the source."""
    if not (stands(conn, RESULTS) and stands(conn, REQUESTS)):
        return []
    sql = f"""
    select q.ingest_type, q.base_url, q.source, q.source_id from (
      select ingest_type, base_url from {RESULTS} where terminal_sha1hex = ? and hit = 1 limit {LOOKED_AT}
    ) r cross join {REQUESTS} q on q.ingest_type = r.ingest_type and q.base_url = r.base_url limit ?
    """
    return [tuple(map(str, row)) for row in conn.execute(sql, [sha1hex, limit])]  # type: ignore[misc]


# ---- words --------------------------------------------------------------------------------------------------------


def snippets(conn: sqlite3.Connection, match: str, numbers: Sequence[int]) -> dict[int, str]:
    """Number -> words of the document around those that were searched for, as HTML: escaped, those words in `mark`
    elements. The texts, which are there, are read from end to end. The marks are random, so that no text has them."""
    begin, end = (secrets.token_hex(8) for _ in range(2))
    # `+rowid`: the query is worked out once, not once for each document; that of `a*` takes long
    sql = f"""
    select rowid, snippet({TEXTS}_fts, 0, ?, ?, '…', {SNIPPET_WORDS}) from {TEXTS}_fts
    where {TEXTS}_fts match ? and +rowid in ({", ".join("?" * len(numbers))})
    """
    return {
        number: html.escape(" ".join(_clean(words or "").split())).replace(begin, "<mark>").replace(end, "</mark>")
        for number, words in conn.execute(sql, [begin, end, match, *numbers])
    }


_UNSHOWN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff\u202a-\u202e\u2066-\u2069]")
"""Characters that show nothing, or change the direction of what follows."""


def _clean(words: str) -> str:
    return _UNSHOWN.sub("", words)


_FILE_NAME = re.compile(
    r"^(untitled|microsoft (word|powerpoint|excel) - .*|[^ ]*\.(docx?|dvi|indd|pdf|ps|qxd|rtf|tex))$", re.I
)
"""Titles that programs give to files that have none."""


def title_in(metadata: Any) -> str | None:
    """The title in an object of metadata in JSON; None where there is none that a person wrote."""
    try:
        found = json.loads(metadata) if isinstance(metadata, str) else None
    except (ValueError, RecursionError):  # another program wrote it
        return None
    title = found.get("title") if isinstance(found, dict) else None
    if not isinstance(title, str):
        return None
    words = " ".join(_clean(title).split())
    return words if any(map(str.isalpha, words)) and not _FILE_NAME.match(words) else None


def host_of(url: str) -> str | None:
    """The host of a URL that a page may lead to; None for any other."""
    return split(url).host if is_href(url) else None
