"""Search in the words of the files that were found: a page, and JSON."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pydantic
from datasette.utils.asgi import Response

from ... import compat
from ...jobs import facts
from ...jobs.errors import JobError, NotAllowed
from ...jobs.service import turns
from ...jobs.service.permissions import Actor
from ...sqlite import fold, quote
from ...web import access, api, requests
from ...web.responses import as_json, render
from ...web.urls import Links, column_filter
from ..schema import under_prefix
from ..search import documents
from ..search.documents import REQUESTS, RESULTS, TEXTS, Document, Place
from ..search.query import MOST_CHARACTERS, parse
from . import bodies
from .document_rows import ROWS_SHOWN, FoundRows, rows_of

T = TypeVar("T")

PAGE_DOCUMENTS = 20
SEARCH_MS = 1000.0
"""How long documents may be ranked, and how long they may be described."""
COUNT_MS = 200.0
"""How long the documents may be counted."""
TOO_SLOW = "This search takes longer than a second. Search for rarer words, or for more of them"


class SearchQuery(api.Taken):
    """What to search for."""

    model_config = pydantic.ConfigDict(extra="ignore")

    q: str | None = pydantic.Field(
        None,
        max_length=MOST_CHARACTERS,
        description='Words that must all occur; `"a phrase"`, `begin*`, `AND`, `OR`, `NOT` and parentheses',
    )
    prefix: str | None = pydantic.Field(None, description="The `table_prefix` of the tables to search in")
    next: str | None = pydantic.Field(None, alias="_next", description="`next` of the page before")


class RowOf(pydantic.BaseModel):
    """A row whose link led to the document."""

    table: str
    row: str = pydantic.Field(description="Its key; of a request, its source and identifier")
    url: str | None = pydantic.Field(description="Its page; null where no address can name the row")


class DocumentFound(pydantic.BaseModel):
    sha1hex: str
    title: str | None
    snippet: str | None = pydantic.Field(
        description="HTML: words of the text, those that were found in `mark` elements; null where that takes too long"
    )
    ingest_type: str | None
    url: str | None = pydantic.Field(description="Where it was found")
    found: str | None = pydantic.Field(description="When, ISO 8601")
    page_count: int | None
    word_count: int | None
    file_url: str | None = pydantic.Field(description="Its file, where files are kept")
    thumbnail_url: str | None = pydantic.Field(description="A picture of its first page")
    rows: list[RowOf] = pydantic.Field(
        description=f"Rows that you may view whose link led to it, at most {ROWS_SHOWN} of a table"
    )
    more_rows: dict[str, str] = pydantic.Field(description="Table that has more of them -> the address of them all")


class Documents(api.Answer):
    """A page of documents, the best first. `next` and `next_url` lead to the following one; null on the last."""

    database: str
    q: str
    match: str = pydantic.Field(description="The query as FTS5 takes it; '' if there is no word in it")
    is_ranked: bool = pydantic.Field(description="False where too many documents match: they come as they were added")
    count: int | None = pydantic.Field(description="How many documents match; null where counting takes too long")
    documents: list[DocumentFound]
    unsearched: list[str] = pydantic.Field(
        description="Tables whose rows were not looked for, since that takes too long without an index"
    )
    next: str | None
    next_url: str | None


async def search(datasette: Any, request: Any) -> Response:
    requests.require_method(request, "GET")
    database = requests.database_of(datasette, request)
    await access.require_results(datasette, request.actor, database, ())
    asked = api.query_of(SearchQuery, request)
    after, query, db = _place(asked.next), parse(asked.q or ""), datasette.databases[database]
    found, rows = _Found(), FoundRows()
    sets = await compat.read(db, documents.prefixes)
    prefix = _one_of(sets, asked.prefix)
    await access.require_results(datasette, request.actor, database, _searched(prefix or ""))
    async with turns.turn(datasette, request.actor):
        if query.match and prefix is not None:
            found = await _find(db, prefix, query.match, after)
            rows = await rows_of(datasette, request.actor, database, [each.sha1hex for each in found.documents])
    if not await compat.can_view(datasette, request.actor, database, f"{prefix or ''}{REQUESTS}"):
        found.requests.clear()
    kept = await bodies.kept_among(datasette, {each.sha1hex: each.mimetype for each in found.documents})
    links = Links(datasette)
    shown = [_shown(links, database, prefix or "", each, found, rows, each.sha1hex in kept) for each in found.documents]
    again = {"q": asked.q, "prefix": asked.prefix}
    next_ = None if found.last is None else _written(found.last)
    answer = Documents(
        ok=True,
        database=database,
        q=asked.q or "",
        match=query.match,
        is_ranked=found.is_ranked,
        count=found.count,
        documents=shown,
        unsearched=list(dict.fromkeys(column.table for column in rows.unsearched)),
        next=next_,
        next_url=None if next_ is None else links.search(database, **again, _next=next_),
    )
    if requests.wants_json(request):
        return as_json(answer)
    context = {
        "answer": answer,
        "hosts": {each.url: documents.host_of(each.url) for each in shown if each.url},
        "found_in": {each.sha1hex: _by_table(each.rows) for each in shown},
        "unsearched": rows.unsearched,
        "first_url": links.search(database, **again) if after else None,
        "prefixes": sets,
        "prefix": prefix,
        "results": f"{prefix or ''}{RESULTS}",
        "quote": quote,
        "most_characters": MOST_CHARACTERS,
    }
    return await render(datasette, request, "ingest_search.html", context, database=database)


def _searched(prefix: str) -> tuple[str, ...]:
    """The tables of a set that are read: as for Datasette's own search, the index among them."""
    return tuple(prefix + name for name in (TEXTS, f"{TEXTS}_fts", RESULTS))


# ---- finding ------------------------------------------------------------------------------------------------------


@dataclass
class _Found:
    """What was found for one page. `snippets`: number of a document -> HTML; none where making them takes too long.
    `requests`: SHA-1 -> keys of requests. `last`: where the next page begins; None on the last one."""

    documents: Sequence[Document] = ()
    snippets: Mapping[int, str] = field(default_factory=dict)
    requests: dict[str, list[tuple[str, str, str, str]]] = field(default_factory=dict)
    last: Place | None = None
    is_ranked: bool = True
    count: int | None = 0


async def _find(db: Any, prefix: str, match: str, after: Place | None) -> _Found:
    """A page of documents, the best first. On a first page whose documents cannot be ranked in time, and on those behind
    it, they come in the order of their numbers.

    :raises JobError: when the documents themselves are not found in time
    """

    async def read(fn: Callable[[sqlite3.Connection], T], limit_ms: float = SEARCH_MS) -> T:
        return await compat.read(db, lambda conn: fn(under_prefix(conn, prefix)), limit_ms=limit_ms)

    async def find(is_ranked: bool) -> list[Place]:
        return await read(lambda conn: documents.find(conn, match, after, PAGE_DOCUMENTS + 1, ranked=is_ranked))

    def describe(conn: sqlite3.Connection) -> tuple[list[Document], dict[str, list[tuple[str, str, str, str]]]]:
        known = documents.describe(conn, places[:PAGE_DOCUMENTS])
        return known, {each.sha1hex: documents.requests_for(conn, each.sha1hex, ROWS_SHOWN + 1) for each in known}

    found = _Found(is_ranked=after is None or after.rank is not None)
    try:
        try:
            places = await find(found.is_ranked)
        except compat.Interrupted:
            if after is not None:
                raise
            found.is_ranked = False
            places = await find(False)
        found.documents, found.requests = await read(describe)
    except compat.Interrupted:
        raise JobError(TOO_SLOW) from None
    numbers = [each.number for each in found.documents]
    with contextlib.suppress(compat.Interrupted):
        found.snippets = await read(lambda conn: documents.snippets(conn, match, numbers))
    found.last = places[PAGE_DOCUMENTS - 1] if len(places) > PAGE_DOCUMENTS else None
    if after is None and found.last is None:
        found.count = len(places)
    else:
        try:
            found.count = await read(lambda conn: documents.count(conn, match), COUNT_MS)
        except compat.Interrupted:
            found.count = None
    return found


def _one_of(sets: Sequence[str], asked: str | None) -> str | None:
    """The prefix of the tables to search in; None where there are none.

    :raises JobError: for a prefix that no such tables have
    """
    if asked is None:
        return sets[0] if sets else None
    if asked.lower() not in sets:
        raise JobError(f"prefix: no tables with texts have it; it can be {', '.join(map(repr, sets)) or 'left out'}")
    return asked.lower()


_PLACE = re.compile(r"(?:(-?[0-9]{1,20}(?:\.[0-9]{1,20})?(?:e-[0-9]{1,3})?),)?(-?[0-9]{1,19})")


def _written(place: Place) -> str:
    return str(place.number) if place.rank is None else f"{place.rank!r},{place.number}"


def _place(text: str | None) -> Place | None:
    """:raises JobError: for what `_written` did not write"""
    match = None if text is None else _PLACE.fullmatch(text)
    if text is not None and (match is None or abs(int(match[2])) >= 2**63):
        raise JobError("_next: expected the `next` of the page before")
    return None if match is None else Place(None if match[1] is None else float(match[1]), int(match[2]))


# ---- showing ------------------------------------------------------------------------------------------------------


def _shown(
    links: Links, database: str, prefix: str, document: Document, found: _Found, rows: FoundRows, is_kept: bool
) -> DocumentFound:
    digest = document.sha1hex
    shown, more = {}, {}
    for column, keys in rows.rows.get(digest, {}).items():
        for row in links.rows(database, column.table, keys[:ROWS_SHOWN], column.has_pages):
            shown[column.table, row["label"]] = row["url"]
        if len(keys) > ROWS_SHOWN:
            more[column.table] = links.table(database, column.written, column_filter(column.name, digest))
    asked = found.requests.get(digest, [])
    for key in asked[:ROWS_SHOWN]:
        shown[prefix + REQUESTS, f"{key[2]} {key[3]}"] = links.row(database, prefix + REQUESTS, key)
    if len(asked) > ROWS_SHOWN:
        more[prefix + REQUESTS] = links.table(database, prefix + REQUESTS, column_filter("base_url", asked[0][1]))
    return DocumentFound(
        sha1hex=digest,
        title=document.title,
        snippet=found.snippets.get(document.number),
        ingest_type=document.ingest_type,
        url=document.url,
        found=document.found,
        page_count=document.page_count,
        word_count=document.word_count,
        file_url=links.body(database, digest) if is_kept else None,
        thumbnail_url=links.thumbnail(database, digest) if document.has_thumbnail else None,
        rows=[RowOf(table=table, row=label, url=url) for (table, label), url in shown.items()],
        more_rows=more,
    )


def _by_table(rows: Sequence[RowOf]) -> dict[str, list[RowOf]]:
    found: dict[str, list[RowOf]] = {}
    for row in rows:
        found.setdefault(row.table, []).append(row)
    return found


# ---- links to it --------------------------------------------------------------------------------------------------


async def database_links(datasette: Any, actor: Actor, database: str) -> list[dict[str, str]]:
    """Items for a database's menu: this page, where there are texts to search that the actor may read."""
    if not await is_searchable(datasette, actor, database):
        return []
    return [
        {
            "href": Links(datasette).search(database),
            "label": "Search the full text",
            "description": "Find words in the files behind the links",
        }
    ]


async def table_links(datasette: Any, actor: Actor, database: str, table: str) -> list[dict[str, str]]:
    """The same for the menu of a table whose links were followed, and of our own tables and views."""
    db = datasette.databases.get(database)
    if db is None or database in compat.INTERNAL_DATABASES:
        return []
    known = await facts.of(db)
    is_about = fold(table) in map(fold, [*known.with_jobs, *known.ours])
    return await database_links(datasette, actor, database) if is_about else []


async def is_searchable(datasette: Any, actor: Actor, database: str) -> bool:
    """Whether there is a text to search that the actor may read."""
    db = datasette.databases.get(database)
    if db is None or database in compat.INTERNAL_DATABASES:
        return False
    if not any(fold(name).endswith(TEXTS) for name in (await facts.of(db)).ours):
        return False
    for prefix in await compat.read(db, documents.filled):
        with contextlib.suppress(NotAllowed):
            await access.require_results(datasette, actor, database, _searched(prefix))
            return True
    return False
