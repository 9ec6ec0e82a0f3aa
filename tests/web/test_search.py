"""The search in the words of files: its page, its JSON, who may use it, and what leads to it."""

from __future__ import annotations

import asyncio
import html
import json
import pathlib
import re
import sqlite3
from typing import Any

import pytest
from datasette.utils import tilde_encode

from datasette_ingest.ingest import schema
from datasette_ingest.ingest.pages import bodies, document_rows, search
from datasette_ingest.ingest.search import documents
from datasette_ingest.ingest.settings import CrawlSettings
from datasette_ingest.ingest.sinks import KeptFiles, store_of
from datasette_ingest.jobs import schema as engine
from datasette_ingest.sqlite import make, migrate

from ..ingest.export.kit import Library
from .conftest import READER, ROOT, get

PAPERS = """create table papers (id integer primary key, url text, ingest_hit integer, ingest_status text,
  ingest_terminal_url text, ingest_terminal_dt text, ingest_terminal_status_code integer, ingest_terminal_sha1hex text)"""


def sha1(number: int) -> str:
    return f"{number:040x}"


class Archive(Library):
    """A database `works` with documents, and a table `papers` whose links led to them."""

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__(path)
        with self.writing() as conn:
            engine.migrate(conn)
            conn.execute(PAPERS)
        self.job("papers")

    def job(self, table: str) -> None:
        self.sql(
            "insert into _enrichment_jobs (status, enrichment, table_name) values ('finished', 'ingest', ?)", table
        )

    def document(self, number: int, text: str, title: str | None = None, *, row: bool = True) -> None:
        url = f"https://host{number}.example/{number}.pdf"
        self.sql("insert into ingest_fulltext (id, sha1hex, text) values (?, ?, ?)", number, sha1(number), text)
        self.sql(
            "insert into ingest_file_result (ingest_type, base_url, updated, hit, status, terminal_url, terminal_sha1hex) "
            "values ('pdf', ?, '2026-12-01T00:00:00Z', 1, 'success', ?, ?)",
            f"http://h/{number}.pdf",
            url,
            sha1(number),
        )
        if title is not None:
            self.sql(
                "insert into pdf_meta (sha1hex, page_count, word_count, metadata) values (?, 12, 3456, ?)",
                sha1(number),
                json.dumps({"title": title}),
            )
            self.sql("insert into ingest_thumbnail (sha1hex, content) values (?, x'00')", sha1(number))
        if row:
            self.sql(
                "insert into papers values (?, ?, 1, 'success', ?, '20261201000000', 200, ?)",
                10 + number,
                f"http://h/{number}.pdf",
                url,
                sha1(number),
            )


@pytest.fixture
def archive(tmp_path: pathlib.Path) -> Archive:
    made = Archive(tmp_path / "works.db")
    made.document(1, "The cell is <b>small</b>. " * 3, "Of <cells>")
    made.document(2, "A cell, and a lung.", row=False)
    made.document(3, "Nothing of the kind.")
    return made


async def asked(datasette: Any, query: str, actor: Any = ROOT) -> Any:
    return (await get(datasette, f"/-/ingest-search/works.json?{query}", actor)).json()


def words(page: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", page[page.index("<form class=") :]).split())


async def test_a_word_finds_its_documents_the_best_first(open_ds: Any, archive: Archive) -> None:
    found = await asked(await open_ds(paths=[str(archive.path)]), "q=cell")
    assert (found["ok"], found["count"], found["next"], found["is_ranked"]) == (True, 2, None, True)
    first, second = found["documents"]
    assert first == {
        "sha1hex": sha1(1),
        "title": "Of <cells>",
        "snippet": " ".join(["The <mark>cell</mark> is &lt;b&gt;small&lt;/b&gt;."] * 3),
        "ingest_type": "pdf",
        "url": "https://host1.example/1.pdf",
        "found": "2026-12-01T00:00:00Z",
        "page_count": 12,
        "word_count": 3456,
        "file_url": None,
        "thumbnail_url": f"/-/ingest-thumbnail/works/{sha1(1)}",
        "rows": [{"table": "papers", "row": "11", "url": "/works/papers/11"}],
        "more_rows": {},
    }
    assert (second["title"], second["thumbnail_url"], second["rows"]) == (None, None, [])


async def test_the_page_shows_them(open_ds: Any, archive: Archive) -> None:
    page = (await get(await open_ds(paths=[str(archive.path)]), "/-/ingest-search/works?q=cell", ROOT)).text
    assert '<h2><a href="https://host1.example/1.pdf">Of &lt;cells&gt;</a></h2>' in page
    assert '<h2><a href="https://host2.example/2.pdf">https://host2.example/2.pdf</a></h2>' in page  # no title is known
    assert f'<img src="/-/ingest-thumbnail/works/{sha1(1)}" alt="" loading="lazy">' in page
    assert '<a href="/works/papers/11">11</a>' in page
    assert "The <mark>cell</mark> is &lt;b&gt;small&lt;/b&gt;." in page
    assert "2 files." in words(page) and "12 pages · 3,456 words" in words(page)


async def test_requests_for_a_document_are_rows_too(open_ds: Any, archive: Archive) -> None:
    for number in range(8):
        archive.request(2, f"10.1/{number}")
    archive.request(1, "10.1/a b")
    found = await asked(await open_ds(paths=[str(archive.path)]), "q=lung")
    [document] = found["documents"]
    assert document["rows"][0] == {
        "table": "ingest_request",
        "row": "doi 10.1/0",
        "url": "/works/ingest_request/pdf,http~3A~2F~2Fh~2F2~2Epdf,doi,10~2E1~2F0",
    }
    assert len(document["rows"]) == 5
    assert document["more_rows"] == {"ingest_request": "/works/ingest_request?base_url__exact=http%3A%2F%2Fh%2F2.pdf"}


async def test_every_document_is_on_one_page_of_several(open_ds: Any, archive: Archive) -> None:
    for number in range(4, 60):
        archive.document(number, f"cell {'x ' * (number % 7)}")
    datasette, seen, query = await open_ds(paths=[str(archive.path)]), [], "q=cell"
    while query:
        found = await asked(datasette, query)
        seen += [each["sha1hex"] for each in found["documents"]]
        assert found["count"] == 58
        query = (found["next_url"] or "").partition("?")[2]
    assert sorted(seen) == [sha1(number) for number in (1, 2, *range(4, 60))]
    page = (await get(datasette, "/-/ingest-search/works?q=cell", ROOT)).text
    assert "58 files, the best first." in words(page) and "Next page" in words(page)


@pytest.mark.parametrize("place", ["1e999,3", "nan,3", "x", "1,2,3", "-", "99999999999999999999", "0x1,3", "1.5,"])
async def test_a_place_that_no_page_gave_is_refused(open_ds: Any, archive: Archive, place: str) -> None:
    answer = await get(
        await open_ds(paths=[str(archive.path)]), f"/-/ingest-search/works.json?q=cell&_next={place}", ROOT
    )
    assert (answer.status_code, answer.json()["error"]) == (400, "_next: expected the `next` of the page before")


@pytest.mark.parametrize(
    "typed",
    [
        '"',
        "AND",
        "a AND",
        "cell%00lung",
        "*",
        "(",
        "%F0%9F%8E%89",
        "%E5%85%A8%E6%96%87",
        "%ED%A0%80",
        "text:cell",
        "%22%22%22",
        "-",
        "NOT",
    ],
)
async def test_whatever_is_typed_is_answered(open_ds: Any, archive: Archive, typed: str) -> None:
    datasette = await open_ds(paths=[str(archive.path)])
    assert (await asked(datasette, f"q={typed}"))["ok"] is True
    assert (await get(datasette, f"/-/ingest-search/works?q={typed}", ROOT)).status_code == 200


async def test_a_query_that_is_too_long_is_refused_with_the_limit(open_ds: Any, archive: Archive) -> None:
    answer = await get(await open_ds(paths=[str(archive.path)]), f"/-/ingest-search/works.json?q={'a' * 10_000}", ROOT)
    assert answer.status_code == 400 and "1000" in answer.json()["error"]


async def test_a_page_without_a_word_and_one_without_a_match_say_so(open_ds: Any, archive: Archive) -> None:
    datasette = await open_ds(paths=[str(archive.path)])
    assert "There is no word in “—”." in words((await get(datasette, "/-/ingest-search/works?q=%E2%80%94", ROOT)).text)
    assert "No file has “zebra”." in words((await get(datasette, "/-/ingest-search/works?q=zebra", ROOT)).text)
    assert "<ol" not in (await get(datasette, "/-/ingest-search/works", ROOT)).text


async def test_a_database_without_texts_says_how_to_get_some(open_ds: Any) -> None:
    datasette = await open_ds()
    page = await get(datasette, "/-/ingest-search/words?q=cell", ROOT)
    assert page.status_code == 200 and "No texts are kept in this database yet." in words(page.text)
    assert (await get(datasette, "/-/ingest-search/words.json?q=cell", ROOT)).json()["documents"] == []


async def test_every_address_has_the_base_url_once_and_names_of_any_kind(open_ds: Any, tmp_path: pathlib.Path) -> None:
    archive = Archive(tmp_path / "wör ks+1.db")
    for number in range(21):
        archive.document(number + 1, "cell", "Of cells")
    datasette = await open_ds(paths=[str(archive.path)], settings={"base_url": "/pre/"})
    name = tilde_encode("wör ks+1")
    found = (await get(datasette, f"/-/ingest-search/{name}.json?q=%22cell%22+OR+%C3%B6", ROOT)).json()
    assert found["documents"][0]["rows"][0]["url"] == f"/pre/{name}/papers/11"
    assert found["documents"][0]["thumbnail_url"] == f"/pre/-/ingest-thumbnail/{name}/{sha1(1)}"
    assert found["next_url"].startswith(f"/pre/-/ingest-search/{name}?q=%22cell%22+OR+%C3%B6&_next=")
    page = (await get(datasette, f"/-/ingest-search/{name}?q=cell", ROOT)).text
    assert f'action="/pre/-/ingest-search/{name}"' in page and "/pre/pre/" not in page


# ---- time -----------------------------------------------------------------------------------------------------------


def slow(conn: sqlite3.Connection) -> Any:
    return conn.execute(
        "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"
    ).fetchall()


async def test_documents_that_cannot_be_ranked_in_time_come_in_the_order_of_their_numbers(
    open_ds: Any, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = documents.find
    monkeypatch.setattr(search, "SEARCH_MS", 100.0)
    monkeypatch.setattr(search, "PAGE_DOCUMENTS", 1)
    monkeypatch.setattr(
        documents, "find", lambda conn, *args, ranked: slow(conn) if ranked else find(conn, *args, ranked=ranked)
    )
    monkeypatch.setattr(documents, "count", lambda conn, match: slow(conn))
    datasette = await open_ds(paths=[str(archive.path)])
    found = await asked(datasette, "q=cell")
    assert (found["is_ranked"], found["count"], found["next"]) == (False, None, "1")
    found = await asked(datasette, "q=cell&_next=1")
    assert [each["sha1hex"] for each in found["documents"]] == [sha1(2)] and found["next"] is None
    assert (
        "Ranking takes longer than a second here" in (await get(datasette, "/-/ingest-search/works?q=cell", ROOT)).text
    )
    answer = await get(datasette, "/-/ingest-search/works.json?q=cell&_next=-1.5,1", ROOT)
    assert (answer.status_code, answer.json()["error"]) == (400, search.TOO_SLOW)


async def test_files_whose_words_cannot_be_shown_in_time_come_without_them(
    open_ds: Any, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SEARCH_MS", 100.0)
    monkeypatch.setattr(documents, "snippets", lambda conn, match, numbers: slow(conn))
    datasette = await open_ds(paths=[str(archive.path)])
    assert [each["snippet"] for each in (await asked(datasette, "q=cell"))["documents"]] == [None, None]
    assert "Of &lt;cells&gt;" in (await get(datasette, "/-/ingest-search/works?q=cell", ROOT)).text


async def test_a_table_that_takes_too_long_is_named_and_left_alone_for_a_while(
    open_ds: Any, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []
    monkeypatch.setattr(document_rows, "TABLE_MS", 50.0)
    monkeypatch.setattr(document_rows, "_rows", lambda conn, column, digests: tried.append(column.table) or slow(conn))
    datasette = await open_ds(paths=[str(archive.path)])
    for _ in range(2):
        found = await asked(datasette, "q=cell")
        assert found["unsearched"] == ["papers"] and len(found["documents"]) == 2
    assert tried == ["papers"]
    page = (await get(datasette, "/-/ingest-search/works?q=cell", ROOT)).text
    assert 'create index "papers_ingest_terminal_sha1hex" on "papers" ("ingest_terminal_sha1hex")' in html.unescape(
        page
    )


# ---- rows of any table ----------------------------------------------------------------------------------------------


async def test_rows_are_found_by_any_prefix_and_beside_their_table_whatever_their_key(
    open_ds: Any, archive: Archive
) -> None:
    names = ["hit", "status", "terminal_url", "terminal_dt", "terminal_status_code", "terminal_sha1hex"]
    written = ", ".join(f"x_{name}" for name in names)
    archive.sql(f'create table "od/d" (a text, b text, {written}, primary key (a, b)) without rowid')
    archive.sql('insert into "od/d" (a, b, x_terminal_sha1hex) values (?, ?, ?)', "a,1", "b", sha1(2))
    archive.job("od/d")
    archive.sql("create table beside (name text primary key, url text)")
    archive.sql("insert into beside values ('n1', ''), (null, '')")
    archive.job("beside")
    with archive.writing() as conn:
        make(conn, "_enrichments_beside", f"create table _enrichments_beside (name text, _source_rowid, {written})")
    archive.sql(
        "insert into _enrichments_beside (name, x_terminal_sha1hex) values ('n1', ?), (null, ?)", sha1(2), sha1(2)
    )
    archive.sql("create table mine (id integer primary key, ingest_terminal_sha1hex text)")  # of no job
    archive.sql("insert into mine values (1, ?)", sha1(2))
    [document] = (await asked(await open_ds(paths=[str(archive.path)]), "q=lung"))["documents"]
    assert document["rows"] == [
        {"table": "beside", "row": "n1", "url": "/works/beside/n1"},
        {"table": "beside", "row": "NULL", "url": None},
        {"table": "od/d", "row": "a,1, b", "url": "/works/od~2Fd/a~2C1,b"},
    ]


async def test_of_many_rows_some_are_shown_and_all_are_a_link(open_ds: Any, archive: Archive) -> None:
    for number in range(100, 120):
        archive.sql("insert into papers (id, ingest_terminal_sha1hex) values (?, ?)", number, sha1(2))
    [document] = (await asked(await open_ds(paths=[str(archive.path)]), "q=lung"))["documents"]
    assert [row["row"] for row in document["rows"]] == ["100", "101", "102", "103", "104"]
    assert document["more_rows"] == {"papers": f"/works/papers?ingest_terminal_sha1hex__exact={sha1(2)}"}


async def test_tables_under_a_prefix_are_searched_on_request(open_ds: Any, archive: Archive) -> None:
    with archive.writing() as conn:
        migrate(conn, schema.specs([*schema.TABLES, *schema.VIEWS], prefix="new_"))
        conn.execute("insert into new_ingest_fulltext (sha1hex, text) values (?, 'another cell')", [sha1(9)])
    datasette = await open_ds(paths=[str(archive.path)])
    assert [each["sha1hex"] for each in (await asked(datasette, "q=cell&prefix=new_"))["documents"]] == [sha1(9)]
    assert (await asked(datasette, "q=cell"))["count"] == 2
    assert "new_ingest_fulltext</option>" in (await get(datasette, "/-/ingest-search/works", ROOT)).text
    refused = await get(datasette, "/-/ingest-search/works.json?q=cell&prefix=x", ROOT)
    assert refused.status_code == 400 and "'', 'new_'" in refused.json()["error"]


# ---- who may ----------------------------------------------------------------------------------------------------------


def closed(*tables: str, **plugin: Any) -> dict[str, Any]:
    about = {"works": {"tables": {table: {"allow": {"id": "root"}} for table in tables}}}
    return {"databases": about, "plugins": {"datasette-ingest": plugin}}


INDEX = (
    "ingest_fulltext",
    "ingest_fulltext_fts",
    *(f"ingest_fulltext_fts_{part}" for part in ("data", "idx", "docsize", "config")),
)


async def test_texts_and_every_part_of_their_index_are_as_closed_as_the_tables_of_the_jobs(
    open_ds: Any, archive: Archive
) -> None:
    datasette = await open_ds(closed("papers"), paths=[str(archive.path)])
    for name in (*INDEX, "ingest_documents"):
        for path in (
            f"/works/{name}",
            f"/works/{name}.json",
            f"/works/{name}.json?_search=cell",
            f"/works/{name}.csv",
            f"/works/{name}/1.json",
        ):
            assert (await get(datasette, path, READER)).status_code == 403, path
    for name in ("ingest_fulltext", "ingest_fulltext_fts", "ingest_documents"):
        assert (await get(datasette, f"/works/{name}.json", ROOT)).status_code == 200, name
    listed = (await get(datasette, "/works.json", READER)).json()
    assert not {each["name"] for each in [*listed["tables"], *listed["views"]]} & {*INDEX, "ingest_documents"}


async def test_only_who_may_read_the_results_may_search(open_ds: Any, archive: Archive) -> None:
    datasette = await open_ds(closed("papers"), paths=[str(archive.path)])
    for path in ("/-/ingest-search/works.json?q=cell", "/-/ingest-search/works?q=cell"):
        assert (await get(datasette, path, READER)).status_code == 403
        assert (await get(datasette, path, ROOT)).status_code == 200
    private, missing = [
        (await get(datasette, f"/-/ingest-search/{name}.json", READER)).text for name in ("works", "no")
    ]
    assert private == missing


@pytest.mark.parametrize("table", ["ingest_fulltext", "ingest_fulltext_fts", "ingest_file_result"])
async def test_a_table_that_is_closed_by_itself_closes_the_search_in_it(
    open_ds: Any, archive: Archive, table: str
) -> None:
    with archive.writing() as conn:
        migrate(conn, schema.specs([*schema.TABLES, *schema.VIEWS], prefix="new_"))
        conn.execute("insert into new_ingest_fulltext (sha1hex, text) values (?, 'another cell')", [sha1(9)])
    for prefix, other in (("", "new_"), ("new_", "")):
        datasette = await open_ds(closed(prefix + table), paths=[str(archive.path)])
        path = "/-/ingest-search/works.json?q=cell&prefix="
        if prefix:
            assert (await get(datasette, path + prefix, READER)).status_code == 403
            assert (await get(datasette, path + prefix, ROOT)).status_code == 200
            assert (await get(datasette, path + other, READER)).status_code == 200
        else:
            assert (await get(datasette, path, READER)).status_code == 403
            assert (await get(datasette, path + other, READER)).status_code == 200
        assert "/-/ingest-search/works" in (await get(datasette, "/works", READER)).text


async def test_without_the_index_there_is_nothing_to_search(open_ds: Any, archive: Archive) -> None:
    archive.sql("drop table ingest_fulltext_fts")
    page = await get(await open_ds(paths=[str(archive.path)]), "/-/ingest-search/works?q=cell", ROOT)
    assert page.status_code == 200 and "No texts are kept" in words(page.text)


async def test_published_results_name_no_rows_of_private_tables(open_ds: Any, archive: Archive) -> None:
    archive.request(1, "10.1/a")
    for tables in (("papers", "ingest_request"), ("ingest_request",), ("papers",)):
        datasette = await open_ds(closed(*tables, publish_results=True), paths=[str(archive.path)])
        found = await asked(datasette, "q=small", READER)
        assert {row["table"] for row in found["documents"][0]["rows"]} == {"papers", "ingest_request"} - set(tables)


# ---- what leads to it -------------------------------------------------------------------------------------------------


async def test_menus_lead_to_it_where_there_is_something_to_search(open_ds: Any, archive: Archive) -> None:
    archive.sql("create table other (id integer primary key)")
    datasette = await open_ds(closed("papers"), paths=[str(archive.path)])
    for path in (
        "/works",
        "/works/papers",
        "/works/ingest_file_result",
        "/works/ingest_documents",
        "/-/ingest-stats/works",
    ):
        assert "/-/ingest-search/works" in (await get(datasette, path, ROOT)).text, path
    assert "/-/ingest-search/works" not in (await get(datasette, "/works/other", ROOT)).text
    assert "/-/ingest-search/works" not in (await get(datasette, "/works", READER)).text
    archive.sql("delete from ingest_fulltext")
    assert "/-/ingest-search/works" not in (await get(datasette, "/works/papers", ROOT)).text


# ---- Datasette's own search ---------------------------------------------------------------------------------------------


async def test_datasettes_own_search_box_finds_texts(open_ds: Any, archive: Archive) -> None:
    datasette = await open_ds(paths=[str(archive.path)])
    found = (await get(datasette, "/works/ingest_fulltext.json?_search=lung&_shape=array", ROOT)).json()
    assert [row["id"] for row in found] == [2]
    assert 'name="_search"' in (await get(datasette, "/works/ingest_fulltext", ROOT)).text


async def test_with_two_lines_of_configuration_it_searches_the_view(open_ds: Any, archive: Archive) -> None:
    about = {"ingest_documents": {"fts_table": "ingest_fulltext_fts", "fts_pk": "id"}}
    datasette = await open_ds({"databases": {"works": {"tables": about}}}, paths=[str(archive.path)])
    found = (await get(datasette, "/works/ingest_documents.json?_search=lung&_shape=array", ROOT)).json()
    assert [(row["id"], row["base_url"], row["beginning"]) for row in found] == [
        (2, "http://h/2.pdf", "A cell, and a lung.")
    ]


# ---- kept files -----------------------------------------------------------------------------------------------------------


async def test_a_title_leads_to_the_file_where_it_is_kept(
    open_ds: Any, archive: Archive, tmp_path: pathlib.Path
) -> None:
    root = str(tmp_path / "store")
    store = store_of(CrawlSettings(store=root))
    assert store is not None
    await store.keep("body", sha1(1), "application/pdf", b"%PDF-1.4")
    datasette = await open_ds({"plugins": {"datasette-ingest": {"store": root}}}, paths=[str(archive.path)])
    kept, other = (await asked(datasette, "q=cell"))["documents"]
    assert (kept["file_url"], other["file_url"]) == (f"/-/ingest-body/works/{sha1(1)}", None)
    page = (await get(datasette, "/-/ingest-search/works?q=cell", ROOT)).text
    assert f'<h2><a href="/-/ingest-body/works/{sha1(1)}">Of &lt;cells&gt;</a></h2>' in page
    assert '<h2><a href="https://host2.example/2.pdf">' in page


async def test_a_store_that_does_not_answer_leaves_the_addresses(
    open_ds: Any, archive: Archive, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*args: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(KeptFiles, "find", never)
    monkeypatch.setattr(bodies, "KEPT_SECONDS", 0.01)
    config = {"plugins": {"datasette-ingest": {"store": str(tmp_path / "store")}}}
    found = await asked(await open_ds(config, paths=[str(archive.path)]), "q=cell")
    assert [each["file_url"] for each in found["documents"]] == [None, None]
