"""Pages as articles: their main text, and every file that they load."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import trafilatura
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest.documents.html_reading import HtmlRead, read_html

URL = "https://host.example/a/b"

# name: a sentence of the text
ARTICLES = {
    "bmc.html": "is a minor legume crop characterized by its high seed protein content.",
    "elife_00160.html": "Planar cell polarity (PCP) requires the asymmetric sorting of distinct signal",
    "plos_pbio_1001461.html": "We have previously shown that during pregnancy the E-twenty-six (ETS) transcription factor",
    "plos_pone_0035089.html": "Livestock movements in Great Britain are well recorded,",
}


def read(page: str, *, with_trafilatura: bool = True, url: str = URL) -> HtmlRead:
    return read_html(page.encode(), url, "text/html; charset=utf-8", with_trafilatura)


@pytest.mark.parametrize("with_trafilatura", [True, False])
@pytest.mark.parametrize("name", ARTICLES)
def test_the_text_of_an_article_is_found_with_the_library_and_without(
    fixtures: pathlib.Path, name: str, with_trafilatura: bool
) -> None:
    page = (fixtures / "articles" / name).read_bytes()
    found = read_html(page, URL, "text/html", with_trafilatura)
    assert found.status == ("success" if with_trafilatura else "success-plain")
    assert ARTICLES[name] in found.text


LOADED = {
    '<img src="x.png">': [("image", "https://host.example/a/x.png")],
    '<img src=" x.png ">': [("image", "https://host.example/a/x.png")],
    '<img src="/x.png#top"><img src="x.png"><img src="/x.png">': [
        ("image", "https://host.example/x.png"),
        ("image", "https://host.example/a/x.png"),
    ],
    '<base href="https://cdn.example/d/"><img src="x.png">': [("image", "https://cdn.example/d/x.png")],
    '<img src="data:image/png;base64,AA" data-src="x.png">': [("image", "https://host.example/a/x.png")],
    '<img srcset="a.png, b.png 2x">': [
        ("image", "https://host.example/a/a.png"),
        ("image", "https://host.example/a/b.png"),
    ],
    '<img srcset=" a,b.png 100w,c.png 200w , d.png,">': [
        ("image", "https://host.example/a/a,b.png"),
        ("image", "https://host.example/a/c.png"),
        ("image", "https://host.example/a/d.png"),
    ],
    '<picture><source srcset="a.webp"><img src="a.png"></picture>': [
        ("image", "https://host.example/a/a.webp"),
        ("image", "https://host.example/a/a.png"),
    ],
    '<video poster="p.png"><source src="v.mp4"><track src="t.vtt"></video>': [
        ("image", "https://host.example/a/p.png"),
        ("media", "https://host.example/a/v.mp4"),
        ("media", "https://host.example/a/t.vtt"),
    ],
    '<audio src="//cdn.example/a.mp3"></audio>': [("media", "https://cdn.example/a.mp3")],
    '<object data="o.swf"></object><embed src="e.pdf">': [
        ("media", "https://host.example/a/o.swf"),
        ("media", "https://host.example/a/e.pdf"),
    ],
    '<svg><image xlink:href="s.png"></image></svg>': [("image", "https://host.example/a/s.png")],
    '<link rel="Stylesheet" href="s.css"><link rel="alternate stylesheet" href="t.css">': [
        ("style", "https://host.example/a/s.css"),
        ("style", "https://host.example/a/t.css"),
    ],
    '<link rel="preload" as="font" href="f.woff2"><link rel="shortcut icon" href="i.ico"><link rel="canonical" href="c">': [
        ("font", "https://host.example/a/f.woff2"),
        ("image", "https://host.example/a/i.ico"),
    ],
    '<script src="s.js"></script><script>var a = "x.png"</script><link rel="modulepreload" href="m.js">': [
        ("script", "https://host.example/a/s.js"),
        ("script", "https://host.example/a/m.js"),
    ],
    '<iframe src="f.html"></iframe><iframe src="about:blank"></iframe><iframe src="javascript:0"></iframe>': [
        ("frame", "https://host.example/a/f.html")
    ],
    "<style>@import \"i.css\"; @import url(j.css); a { background: url( 'b.png' ) } @font-face { src: url(f.woff?v=1) }</style>": [
        ("style", "https://host.example/a/i.css"),
        ("style", "https://host.example/a/j.css"),
        ("image", "https://host.example/a/b.png"),
        ("font", "https://host.example/a/f.woff?v=1"),
    ],
    '<div style="background-image: url(&quot;b.png&quot;)">x</div><table background="t.gif"></table>': [
        ("image", "https://host.example/a/b.png"),
        ("image", "https://host.example/a/t.gif"),
    ],
    '<input type="image" src="i.png"><input src="j.png"><a href="x.png">x</a>': [
        ("image", "https://host.example/a/i.png")
    ],
    '<img src="https://user:secret@host.example/x.png"><img src=""><img src="ftp://host.example/x"><img>': [
        ("image", "https://***@host.example/x.png")
    ],
}


@pytest.mark.parametrize("page", LOADED)
def test_what_a_page_loads_is_listed_in_its_order(page: str) -> None:
    assert [(found["type"], found["url"]) for found in read(page).resources] == LOADED[page]


@pytest.mark.parametrize("page", ["", "   ", "\x00", "<img src='x.png'>", "<script>words</script>"])
@pytest.mark.parametrize("with_trafilatura", [True, False])
def test_a_page_without_a_text_of_its_own_is_empty(page: str, with_trafilatura: bool) -> None:
    found = read(page, with_trafilatura=with_trafilatura)
    assert (found.status, found.text) == ("empty-xml", "")


def test_a_page_that_the_library_fails_on_is_read_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **named: Any) -> str:
        raise AttributeError("of None")

    monkeypatch.setattr(trafilatura, "extract", fail)
    found = read("<article><p>Salt and water.</p></article><img src='x.png'>")
    assert (found.status, found.text, len(found.resources)) == ("trafilatura-parse-error", "Salt and water.", 1)


@pytest.mark.parametrize(
    "inside", ["\x01", "\x1b", "\ufffe", "\uffff", "&#1;", "&#8;", "&#xFFFF;", "<!-- \x02 -->", "<a:b\x01>", "\x00"]
)
@pytest.mark.parametrize("with_trafilatura", [True, False])
def test_no_single_character_costs_a_page_its_text(inside: str, with_trafilatura: bool) -> None:
    words = "Salt water freezes later than sweet water does. " * 20
    found = read(f"<article><p>{words}{inside}</p><p>The end.</p></article>", with_trafilatura=with_trafilatura)
    assert words.strip() in found.text and "The end." in found.text
    assert not set(found.text) & set("\x00\x01\x02\x08\x1b\ufffe\uffff")


def test_the_encoding_is_the_one_that_a_browser_would_take() -> None:
    words = "Солёная вода, как известно всем, замерзает позже пресной. " * 20
    page = f'<html><head><meta charset="windows-1251"></head><body><p>{words}</p></body></html>'.encode("cp1251")
    for with_trafilatura in (True, False):
        assert words.strip() in read_html(page, URL, "text/html", with_trafilatura).text


@given(st.text("<>/=\"'aimgscript styledv,; \n\x00url(@)&", max_size=300))
def test_no_page_breaks_the_reading(page: str) -> None:
    for with_trafilatura in (True, False):
        read(page, with_trafilatura=with_trafilatura)


@pytest.mark.parametrize(
    "page", ["<div>" * 100_000 + "x", "<img srcset='" + "," * 100_000 + "'>", "<style>" + "@import " * 100_000]
)
def test_a_hostile_page_is_read_too(page: str) -> None:
    assert read(page, with_trafilatura=False).status in ("empty-xml", "success-plain")
