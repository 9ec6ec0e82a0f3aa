"""What becomes of a hit that is XML: facts, words to search, and a copy in UTF-8 to keep."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from datetime import datetime, timezone
from typing import Any

import pytest

from datasette_ingest.ingest import schema, store
from datasette_ingest.ingest.documents import xml
from datasette_ingest.ingest.documents.pool import OutOfMemory, OutOfTime, ProcessDied, ProcessError
from datasette_ingest.ingest.documents.registry import processors_of, tables_of
from datasette_ingest.ingest.files import JATS, XML
from datasette_ingest.ingest.http.body import Body
from datasette_ingest.ingest.model import IngestRequest
from datasette_ingest.ingest.settings import CrawlSettings

from ..origin import Origin, pdf, reply

pytestmark = pytest.mark.processors

ARTICLE = """<?xml version="1.0" encoding="KOI8-R"?><!DOCTYPE article [<!ENTITY sea "море">]>
<article article-type="x"><front><article-meta><article-id pub-id-type="doi">10.5555/Salt</article-id><title-group>
<article-title>Соль</article-title></title-group></article-meta></front><body><p>Солёное &sea;.</p></body></article>""".encode(
    "koi8-r"
)


class Collecting:
    def __init__(self) -> None:
        self.kept: list[tuple[str, str, str, bytes]] = []

    async def keep(self, kind: str, sha1hex: str, mimetype: str, content: Body | bytes) -> None:
        self.kept.append((kind, sha1hex, mimetype, content if isinstance(content, bytes) else content.read()))

    async def aclose(self) -> None: ...


async def ask(crawler: Any, body: bytes, content_type: str = "application/xml") -> Any:
    async with Origin({"/x": reply(body, content_type=content_type)}) as site:
        return await crawler.ingest(IngestRequest("xml", site.url("/x")))


async def test_facts_text_and_copy_have_the_digest_of_the_bytes_that_came(make_reading_crawler: Any) -> None:
    sink, sha1hex = Collecting(), hashlib.sha1(ARTICLE).hexdigest()
    result = await ask(make_reading_crawler(sinks=[sink]), ARTICLE)
    assert result.hit and result.terminal_sha1hex == sha1hex
    assert result.to_json()["xml_meta"] == {
        "sha1hex": sha1hex,
        "status": "success",
        "dialect": "jats",
        "encoding": "koi8-r",
        "word_count": 3,
        "biblio": {"title": "Соль", "doi": "10.5555/salt"},
        "processor": "xml/1",
    }
    assert (result.fulltext.sha1hex, result.fulltext.text) == (sha1hex, "Соль\n\nСолёное море.")
    body, words, copy = sink.kept
    assert words == ("text", sha1hex, "text/plain", result.fulltext.text.encode())
    assert body == ("body", sha1hex, JATS, ARTICLE)
    assert copy[:3] == ("xml", sha1hex, JATS) and "<p>Солёное море.</p>" in copy[3].decode()


async def test_a_word_of_the_text_finds_the_document(make_reading_crawler: Any) -> None:
    result = await ask(make_reading_crawler(), ARTICLE)
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        tables = tables_of(CrawlSettings(), frozenset({XML}), "xml")
        schema.migrate(conn, (*schema.RESULT_TABLES, *tables))
        store.write(conn, result, job_id=1, now=datetime.now(timezone.utc))
        found = conn.execute(
            "select dialect, json_extract(biblio, '$.doi') from ingest_fulltext_fts(?) as f"
            " join ingest_fulltext as t on t.rowid = f.rowid join xml_meta using (sha1hex)",
            ["море"],
        ).fetchall()
    assert found == [("jats", "10.5555/salt")]


async def test_the_header_says_the_encoding_of_a_document_that_does_not(make_reading_crawler: Any) -> None:
    document = "<r>соль</r>".encode("koi8-r")
    labelled = await ask(make_reading_crawler(), document, "application/xml; charset=koi8-r")
    without = await ask(make_reading_crawler(), document)
    assert (labelled.xml_meta.encoding, labelled.fulltext.text) == ("koi8-r", "соль")
    assert without.status == "xml-parse-error" and "is not in the encoding utf-8" in without.error_message


async def test_another_vocabulary_is_a_hit_too(make_reading_crawler: Any) -> None:
    result = await ask(make_reading_crawler(), b"<!DOCTYPE art SYSTEM 'a.dtd'><art><bdy><p>Salt.</p></bdy></art>")
    assert result.hit and (result.xml_meta.dialect, result.fulltext.text) == ("other", "Salt.")


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (OutOfTime("60 s"), "error-timeout"),
        (OutOfMemory("1 GiB"), "error-memory"),
        (ProcessDied("-11"), "error-crash"),
        (ProcessError("?"), "error-crash"),
    ],
)
async def test_a_reading_that_does_not_end_is_said_of_the_file_and_the_row_is_a_hit(
    make_reading_crawler: Any, problem: Exception, status: str
) -> None:
    crawler = make_reading_crawler()
    crawler.pool.problem = problem
    result = await ask(crawler, ARTICLE)
    assert result.hit and result.xml_meta.to_json() == {
        "sha1hex": hashlib.sha1(ARTICLE).hexdigest(),
        "status": status,
        "processor": "xml/1",
    }


async def test_a_document_that_is_too_large_is_kept_and_not_read(
    make_reading_crawler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xml, "MAX_BYTES", len(ARTICLE) - 1)
    sink = Collecting()
    result = await ask(make_reading_crawler(sinks=[sink]), ARTICLE)
    assert result.hit and (result.xml_meta.status, result.fulltext) == ("too-large", None)
    assert [kind for kind, *_ in sink.kept] == ["body"]


async def test_the_words_are_kept_only_if_that_is_wanted(make_reading_crawler: Any) -> None:
    result = await ask(make_reading_crawler(fulltext=False), ARTICLE)
    assert result.xml_meta.word_count == 3 and result.fulltext is None
    assert "ingest_fulltext" not in tables_of(CrawlSettings(fulltext=False), frozenset({XML}), "xml")


async def test_a_pdf_is_none_of_its_business(make_reading_crawler: Any) -> None:
    async with Origin({"/p": pdf()}) as site:
        result = await make_reading_crawler().ingest(IngestRequest("pdf", site.url("/p")))
    assert result.hit and result.xml_meta is None


async def test_a_document_is_read_in_a_process_of_the_pool(make_crawler: Any) -> None:
    result = await ask(make_crawler(processors=processors_of(CrawlSettings())), ARTICLE)
    assert (result.xml_meta.status, result.fulltext.text) == ("success", "Соль\n\nСолёное море.")
