"""What becomes of a hit that is a page: its main text, and the list of what it loads."""

from __future__ import annotations

import hashlib
import pathlib
from typing import Any

import pytest

from datasette_ingest.ingest.documents import html as processor
from datasette_ingest.ingest.documents.pool import OutOfTime
from datasette_ingest.ingest.documents.registry import processors_of
from datasette_ingest.ingest.model import IngestRequest
from datasette_ingest.ingest.settings import CrawlSettings

from ..origin import Origin, html, pdf

pytestmark = pytest.mark.processors

WORK = '<meta name="citation_title" content="Salt"><meta name="citation_author" content="Marsh, A.">'
SENTENCE = "Sea water tastes of salt, and the farther from a river's mouth it is taken the more it does so. "
ARTICLE = (
    f"<nav><a href='/'>Home of the journal</a></nav><article><h1>Salt</h1><h2>Introduction</h2><p>{SENTENCE * 20}</p>"
    f"<h2>Methods</h2><p>{SENTENCE * 20}</p></article><img src='figure.png'>"
    "<script src='https://www.google-analytics.com/a.js'></script>"
)


def body_of(response: bytes) -> bytes:
    return response.partition(b"\r\n\r\n")[2]


async def ask(crawler: Any, pages: dict[str, bytes], ingest_type: str = "html") -> Any:
    async with Origin(pages) as site:
        result = await crawler.ingest(IngestRequest(ingest_type, site.url("/a/b")))
        return result, site


async def test_facts_of_the_page_and_of_its_text_are_one(make_reading_crawler: Any) -> None:
    page = html(WORK, ARTICLE)
    result, site = await ask(make_reading_crawler(), {"/a/b": page})
    assert result.hit
    assert result.to_json()["html_meta"] == {
        "sha1hex": hashlib.sha1(body_of(page)).hexdigest(),
        "scope": "article",
        "word_count": len((SENTENCE * 40).split()) + 3,
        "biblio": {"title": "Salt", "authors": [{"name": "Marsh, A."}]},
        "status": "success",
        "resources": [{"type": "image", "url": site.url("/a/figure.png")}],
        "processor": "html/1",
    }
    assert result.fulltext.sha1hex == result.terminal_sha1hex
    assert SENTENCE.strip() in result.fulltext.text and "Home of the journal" not in result.fulltext.text


async def test_the_page_that_led_to_it_names_the_work_of_a_page_that_does_not(make_reading_crawler: Any) -> None:
    landing = html(WORK + '<meta name="citation_fulltext_html_url" content="/full">', "<h2>Abstract</h2><p>Short.</p>")
    result, site = await ask(make_reading_crawler(), {"/a/b": landing, "/full": html("", ARTICLE)})
    assert result.hit and result.terminal_url == site.url("/full")
    meta = result.html_meta
    assert (meta.sha1hex, meta.scope, meta.biblio["title"]) == (result.terminal_sha1hex, "article", "Salt")
    assert result.fulltext.text.count(SENTENCE.strip()) == 40


async def test_a_page_on_the_way_to_another_file_is_no_full_text(make_reading_crawler: Any) -> None:
    page = html(WORK + '<meta name="citation_pdf_url" content="/p">', ARTICLE)
    result, _ = await ask(make_reading_crawler(), {"/a/b": page, "/p": pdf()}, "pdf")
    assert result.hit and result.fulltext is None
    assert result.html_meta.processor is None and result.html_meta.resources == ()


async def test_without_trafilatura_the_text_is_plain_and_that_is_said(
    make_reading_crawler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "has_trafilatura", lambda: False)
    result, _ = await ask(make_reading_crawler(), {"/a/b": html(WORK, ARTICLE)})
    assert (result.html_meta.status, result.html_meta.processor) == ("success-plain", "html-plain/1")
    assert result.fulltext.text.split("\n\n")[:3] == ["Salt", "Introduction", (SENTENCE * 20).strip()]


async def test_hosts_that_are_left_out_are_those_of_the_users_own_list(
    make_reading_crawler: Any, tmp_path: pathlib.Path
) -> None:
    mine = tmp_path / "hosts"
    mine.write_text("127.0.0.1 localhost\n0.0.0.0 images.example\n")
    page = html(WORK, ARTICLE + '<img src="https://cdn.images.example/x.png">')
    result, site = await ask(make_reading_crawler(trackers_file=str(mine)), {"/a/b": page})
    assert [found["url"] for found in result.html_meta.resources] == [
        site.url("/a/figure.png"),
        "https://www.google-analytics.com/a.js",
    ]


async def test_of_a_page_that_loads_very_much_the_beginning_is_listed(make_reading_crawler: Any) -> None:
    images = "".join(f'<img src="{number}.png">' for number in range(processor.MAX_RESOURCES + 10))
    result, site = await ask(make_reading_crawler(), {"/a/b": html(WORK, ARTICLE + images)})
    assert len(result.html_meta.resources) == processor.MAX_RESOURCES
    assert result.html_meta.resources[1] == {"type": "image", "url": site.url("/a/0.png")}


async def test_a_reading_that_does_not_end_leaves_what_the_page_was_judged_by(make_reading_crawler: Any) -> None:
    crawler = make_reading_crawler()
    crawler.pool.problem = OutOfTime("60 s")
    result, _ = await ask(crawler, {"/a/b": html(WORK, ARTICLE)})
    assert result.hit and (result.html_meta.status, result.html_meta.scope) == ("error-timeout", "article")
    assert result.fulltext is None


async def test_a_page_that_the_library_does_not_end_with_has_its_plain_text(make_reading_crawler: Any) -> None:
    crawler = make_reading_crawler()
    run = crawler.pool.run

    async def without_the_library(function: Any, *args: Any, **limits: Any) -> Any:
        if getattr(function, "func", None) is processor.read_html and function.args[-1]:
            raise OutOfTime("60 s")
        return await run(function, *args, **limits)

    crawler.pool.run = without_the_library
    result, site = await ask(crawler, {"/a/b": html(WORK, ARTICLE)})
    assert result.hit and result.html_meta.status == "error-timeout"
    assert SENTENCE.strip() in result.fulltext.text
    assert result.html_meta.resources == ({"type": "image", "url": site.url("/a/figure.png")},)


async def test_a_page_without_words_in_the_part_that_is_read_is_not_called_empty(
    make_reading_crawler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "PARSE_BYTES", 60)
    result, _ = await ask(make_reading_crawler(), {"/a/b": html(WORK, ARTICLE)})
    assert result.hit and (result.html_meta.status, result.fulltext) == ("text-too-large", None)


async def test_of_a_page_longer_than_is_read_the_beginning_is_kept(
    make_reading_crawler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = html(WORK, ARTICLE)
    monkeypatch.setattr(processor, "PARSE_BYTES", len(body_of(page)) - 300)
    result, _ = await ask(make_reading_crawler(), {"/a/b": page})
    assert result.hit and result.html_meta.status == "text-too-large"
    assert SENTENCE.strip() in result.fulltext.text


async def test_a_page_is_read_in_a_process_of_the_pool(make_crawler: Any) -> None:
    crawler = make_crawler(processors=processors_of(CrawlSettings()))
    result, _ = await ask(crawler, {"/a/b": html(WORK, ARTICLE)})
    assert (result.html_meta.status, result.html_meta.processor) == ("success", "html/1")
    assert SENTENCE.strip() in result.fulltext.text
