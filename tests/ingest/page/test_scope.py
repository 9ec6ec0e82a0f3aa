"""Is a page the article, or about it?"""

from __future__ import annotations

import pytest

from datasette_ingest.ingest.page.interstitials import interstitial
from datasette_ingest.ingest.page.read import read_page
from datasette_ingest.ingest.page.scope import judge, scope_of

from .test_interstitial_pages import PageFile, page_files


def words(count: int) -> str:
    return "<p>" + "word " * count + "</p>"


SECTIONS = "<h2>1. Introduction</h2>" + words(120) + "<h2>Results and discussion</h2>" + words(120)


def fulltext(url: str) -> str:
    return f'<meta name="citation_fulltext_html_url" content="{url}">'


@pytest.mark.parametrize(
    ("url", "head", "body", "status"),
    [
        ("http://www.h/a/", fulltext("https://h/a"), words(50), None),
        ("http://h/a", fulltext("/full"), words(3000), "wrong-scope"),
        ("http://h/a", fulltext("/full") + fulltext("/a"), words(3000), "wrong-scope"),
        ("http://h/a", fulltext("http://h/a"), words(5), "wrong-scope"),
        ("http://h/a", "", words(1300), None),
        ("http://h/a", "", SECTIONS, None),
        ("http://h/a", "", "<h2>Introduction</h2>" + words(300), "unknown-scope"),
        ("http://h/a", "", words(10), "wrong-scope"),
        ("http://h/", "", words(3000), "wrong-scope"),
        ("http://h/a", '<meta name="citation_title" content="x">', words(150), "wrong-scope"),
        ("http://h/a", "", words(150), "unknown-scope"),
        ("http://h/a", "", "<nav>" + words(2000) + "</nav>" + words(100), "unknown-scope"),
        ("http://h/a", "", "<script>" + "word " * 2000 + "</script>" + words(100), "unknown-scope"),
    ],
)
def test_a_page_is_judged_by_what_it_says_of_itself_then_by_its_text(
    url: str, head: str, body: str, status: str | None
) -> None:
    page = read_page(f"<html><head>{head}</head><body>{body}</body></html>".encode(), url, "", target="html")
    found = judge(page)
    assert (found.status if found else None) == status
    if found is not None:
        assert url in found.message


def test_a_link_to_the_full_text_makes_a_landing_page() -> None:
    page = read_page(f'<a href="/full">Full text (HTML)</a>{words(100)}'.encode(), "http://h/a", "", target="html")
    found = judge(page)
    assert found is not None and found.status == "wrong-scope"


ARTICLES = page_files("articles")
NOT_ARTICLES = page_files("not_articles")


@pytest.mark.parametrize("file", ARTICLES, ids=lambda file: file.name)
def test_a_page_that_is_the_article_is_the_hit(file: PageFile) -> None:
    page = read_page(file.data, file.url, "text/html; charset=utf-8", target="html")
    found = judge(page)
    assert found is None, found


@pytest.mark.parametrize("file", NOT_ARTICLES, ids=lambda file: file.name)
def test_a_page_about_it_is_none_and_says_why(file: PageFile) -> None:
    page = read_page(file.data, file.url, "text/html; charset=utf-8", target="html")
    found = judge(page)
    assert found is not None
    assert found.status == file.status
    assert scope_of(page).scope.value == file.scope, found
    assert file.url in found.message


def test_no_article_and_no_landing_page_is_taken_for_an_interstitial() -> None:
    for file in (*ARTICLES, *NOT_ARTICLES):
        text = read_page(file.data, file.url, "", target="html").text
        assert text is not None
        assert file.scope == "stub" or interstitial(file.url, text) is None, file.name
