"""Which documents are found, in which order, and what is known of each."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from datasette_ingest import sqlite
from datasette_ingest.ingest import schema
from datasette_ingest.ingest.search import documents
from datasette_ingest.ingest.search.documents import Place

PREFIX = "old_"


@pytest.fixture(params=["", PREFIX])
def conn(request: Any) -> Iterator[Any]:
    with contextlib.closing(sqlite3.connect(":memory:")) as opened:
        sqlite.migrate(opened, schema.specs([*schema.TABLES, *schema.VIEWS], prefix=request.param))
        yield schema.under_prefix(opened, request.param)


def add(conn: Any, number: int, text: str, **result: Any) -> str:
    """A document; with a result, the hit that it is."""
    digest = f"{number:040x}"
    conn.execute("insert into ingest_fulltext (id, sha1hex, text) values (?, ?, ?)", [number, digest, text])
    if result:
        row = {"ingest_type": "pdf", "base_url": f"http://h/{number}", "updated": "2026-12-01T00:00:00Z", "hit": 1}
        row |= {"status": "success", "terminal_sha1hex": digest, **result}
        names = ", ".join(row)
        conn.execute(f"insert into ingest_file_result ({names}) values ({', '.join('?' * len(row))})", [*row.values()])
    return digest


def pages(conn: Any, match: str, *, ranked: bool, limit: int = 2) -> list[int]:
    found: list[Place] = []
    while page := documents.find(conn, match, found[-1] if found else None, limit, ranked=ranked):
        found += page
    return [place.number for place in found]


def test_the_best_come_first_and_pages_give_each_once(conn: Any) -> None:
    for number in range(1, 8):
        add(conn, number, "cell " * (number if number < 6 else 1) + "and other words " * 10)
    assert pages(conn, '"cell"', ranked=True) == [5, 4, 3, 2, 1, 6, 7]
    assert pages(conn, '"cell"', ranked=False) == [1, 2, 3, 4, 5, 6, 7]
    assert documents.count(conn, '"cell"') == 7


def test_a_snippet_is_text_whatever_the_text_holds(conn: Any) -> None:
    add(conn, 1, "before <script>alert('x')</script> & <mark>cell</mark> \x02\ufffe\u202e after")
    assert documents.snippets(conn, '"cell"', [1])[1] == (
        "before &lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; &lt;mark&gt;<mark>cell</mark>&lt;/mark&gt; after"
    )


def test_all_that_is_known_of_a_document(conn: Any) -> None:
    digest = add(conn, 1, "a cell", terminal_url="https://h/1.pdf", landing_sha1hex="f" * 40)
    conn.execute(
        "insert into pdf_meta (sha1hex, page_count, word_count, metadata) values (?, 3, 2, ?)",
        [digest, '{"title": "x"}'],
    )
    conn.execute("insert into html_meta (sha1hex, biblio) values (?, ?)", ["f" * 40, '{"title": "Of\\n cells"}'])
    conn.execute("insert into ingest_thumbnail (sha1hex, content) values (?, x'00')", [digest])
    [found] = documents.describe(conn, [Place(None, 1)])
    assert (found.title, found.url, found.ingest_type) == ("Of cells", "https://h/1.pdf", "pdf")
    assert (found.page_count, found.word_count, found.has_thumbnail) == (3, 2, True)


def test_a_document_without_anything_else_and_one_that_is_gone(conn: Any) -> None:
    add(conn, 1, "a cell")
    found = documents.describe(conn, [Place(None, 1), Place(None, 2)])
    assert [(each.number, each.title, each.url, each.has_thumbnail) for each in found] == [(1, None, None, False)]


def test_of_many_results_for_one_file_the_newest_hit_names_it(conn: Any) -> None:
    digest = add(conn, 1, "a cell", terminal_url="https://h/old.pdf", updated="2020-01-01T00:00:00Z")
    for number, more in enumerate(
        ({"terminal_url": "https://h/new.pdf"}, {"terminal_url": "https://h/miss", "hit": 0}), 2
    ):
        add(conn, number, "other", terminal_sha1hex=digest, **{"updated": f"202{number}-01-01T00:00:00Z", **more})
    [found] = documents.describe(conn, [Place(None, 1)])
    assert found.url == "https://h/new.pdf"


@pytest.mark.parametrize(
    ("metadata", "title"),
    [
        ('{"title": "Of cells"}', "Of cells"),
        ('{"title": "Microsoft Word - paper.doc"}', None),
        ('{"title": "paper_final2.docx"}', None),
        ('{"title": "untitled"}', None),
        ('{"title": " 123 "}', None),
        ('{"title": ["a"]}', None),
        ('{"title"', None),
        ("[" * 100_000, None),
        (b"{}", None),
        (None, None),
    ],
)
def test_a_title_is_one_that_a_person_wrote(metadata: Any, title: str | None) -> None:
    assert documents.title_in(metadata) == title


@pytest.mark.parametrize(
    ("url", "host"),
    [("https://h.example/a", "h.example"), ("javascript:alert(1)", None), ("ftp://h/", None), ("not a url", None)],
)
def test_only_addresses_on_the_web_are_linked(url: str, host: str | None) -> None:
    assert documents.host_of(url) == host


def test_the_view_joins_texts_to_results(conn: Any) -> None:
    digest = add(conn, 1, "a cell", terminal_url="https://h/1.pdf", landing_sha1hex="f" * 40)
    add(conn, 2, "not found any more")
    conn.execute("insert into html_meta (sha1hex, biblio) values (?, ?)", ["f" * 40, '{"title": "Of cells"}'])
    conn.execute("insert into xml_meta (sha1hex, word_count, biblio) values (?, 2, ?)", [digest, "no JSON"])
    sql = "select id, base_url, terminal_url, sha1hex, title, page_count, word_count, beginning from ingest_documents"
    assert conn.execute(sql).fetchall() == [(1, "http://h/1", "https://h/1.pdf", digest, "Of cells", None, 2, "a cell")]
