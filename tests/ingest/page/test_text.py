"""The facts about a page's text."""

from __future__ import annotations

import pytest

from datasette_ingest.ingest.page.html import parse_html
from datasette_ingest.ingest.page.read import read_page
from datasette_ingest.ingest.page.text import MAX_ELEMENTS, PageText, count_words, read_text

PROSE = "<p>" + "Lupins grow on poor soils and feed people and cattle alike. " * 4 + "</p>"
ENTRY = "Hallberg, I., &amp; Osei, K. (2010). Rotation and yield. Invented Fields, 12(3), 1–9."


def text_of(body: str, *, head: str = "") -> PageText:
    data = f"<html><head>{head}</head><body>{body}</body></html>".encode()
    text = read_page(data, "http://h/a", "text/html; charset=utf-8", target="html").text
    assert text is not None
    return text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("one two  three\n", 3),
        ("", 0),
        ("羽扇豆轮作研究方法", 5),
        ("輪作と収量 の 関係", 7),
        ("ข้าวหอมมะลิไทย", 3),
        ("دورة زراعية", 2),
        ("севооборот и урожай", 3),
    ],
)
def test_words_are_counted_in_languages_without_blanks_too(text: str, words: int) -> None:
    assert count_words(text) == words


@pytest.mark.parametrize(
    "boilerplate",
    [
        "<nav>{}</nav>",
        "<aside>{}</aside>",
        '<div class="col-4 sidebar-right">{}</div>',
        '<div id="onetrust-consent-sdk">{}</div>',
        '<div role="navigation">{}</div>',
        '<section class="related-articles">{}</section>',
        '<div id="comments" class="comments-area">{}</div>',
        '<div class="modal fade">{}</div>',
        "<form>{}</form>",
        '<nav><div class="menu">{}</div></nav>',
    ],
)
def test_boilerplate_is_not_the_pages_own_text_and_counts_once(boilerplate: str) -> None:
    text = text_of(boilerplate.format("<span>one two three</span>") + PROSE)
    assert (text.words, text.all_words, text.prose) == (44, 47, 44)


@pytest.mark.parametrize(
    "frame",
    [
        '<div class="has-sidebar">{}</div>',
        '<div class="sidebar-layout">{}</div>',
        '<div class="footer-none menu"><h1>Lupins</h1>{}</div>',
        '<form id="aspnetForm">{}' + PROSE * 4 + "</form>",
    ],
)
def test_what_holds_the_page_is_no_boilerplate(frame: str) -> None:
    assert text_of(frame.format(PROSE)).prose >= 44


def test_what_only_scripts_and_styles_hold_is_not_seen() -> None:
    text = text_of("<script>one two</script><style>a b</style><noscript>Enable JavaScript</noscript><p>word")
    assert (text.all_words, text.scripts, text.noscript) == (1, 1, "enable javascript")


@pytest.mark.parametrize(
    "abstract",
    [
        '<section class="item abstract"><h2>Abstract</h2>{}</section>',
        "<h2>Abstract</h2>{}<h2>Availability</h2>",
        "<h2>Resumen</h2><h3>Métodos</h3>{}<h2>Texto</h2>",
        "<p><b>摘要</b></p>{}<p>关键词：轮作</p>",
        "<p><strong>Zusammenfassung</strong></p>{}<p>Schlüsselwörter: Lupine</p>",
    ],
)
def test_an_abstract_is_no_running_text_of_an_article(abstract: str) -> None:
    text = text_of(abstract.format(PROSE))
    assert text.has_abstract and text.abstract_words >= 44
    assert (text.prose, text.sections) == (0, frozenset())


@pytest.mark.parametrize(
    "references",
    [
        '<ol class="references">{}</ol>',
        '<div id="reference-list">{}</div>',
        "<h2>References</h2>{}",
        "<h2>Список литературы</h2>{}",
        "<p><b>LITERATURE CITED</b></p>{}",
        "{}",
    ],
)
def test_references_are_entries_not_text(references: str) -> None:
    text = text_of(references.format(f"<li>{ENTRY}</li>" * 5) + "<h2>Text</h2>" + PROSE)
    assert (text.references, text.prose) == (5, 44)


def test_paragraphs_are_found_in_pages_without_elements_for_them() -> None:
    prose = "Lupins grow on poor soils and feed people and cattle alike. " * 4
    text = text_of("<font>" + "<br><br>\n".join([prose] * 3) + "</font>")
    assert (text.paragraphs, text.prose) == (3, 132)


def test_sections_are_headings_numbered_or_not_and_in_bold() -> None:
    text = text_of(
        f"<h2>1. Introduction</h2>{PROSE}<p><b>Methods</b></p>{PROSE}<h3>四、讨论</h3>{PROSE}<h2>Lupins</h2>"
    )
    assert text.sections == {"1. introduction", "methods", "四、讨论"}


def test_titles_that_are_links_are_counted_outside_reference_lists() -> None:
    title = '<h3><a href="/article/{}">Root depth in dry valleys</a></h3>'
    text = text_of("".join(title.format(n) for n in range(6)) + '<h3><a href="#s">A part of this page</a></h3>')
    assert text.link_titles == 6


def test_a_password_field_in_a_side_column_does_not_ask_for_one() -> None:
    field = '<input type="password" name="p">'
    aside, main = text_of(f"<aside>{field}</aside>{PROSE}"), text_of(f"<form>{field}</form>")
    assert (aside.has_password, aside.asks_password) == (True, False)
    assert (main.has_password, main.asks_password) == (True, True)


@pytest.mark.parametrize(
    ("head", "described"),
    [
        ('<meta name="citation_title" content="x">', True),
        ('<meta name="eprints.title" content="x">', True),
        ('<meta name="DC.Title" content="x"><meta name="DC.Creator" content="y">', True),
        ('<meta name="DC.Title" content="x">', False),
        ('<meta property="og:title" content="x">', False),
    ],
)
def test_metadata_of_a_work_is_told_from_that_of_any_page(head: str, described: bool) -> None:
    assert text_of(PROSE, head=head).has_citation is described


@pytest.mark.parametrize(
    ("html", "words"),
    [
        ('<div class="sidebar">' * 30_000 + "word", 0),
        ('<div class="sidebar"><h1>' * 5_000, 0),
        ('<a href="/x">' * 50_000 + "word", 1),
        ("<p>" + "word <br>" * 20_000, 20_000),
        ('<div class="' + "a-" * 100_000 + '">word', 1),
        ("<h2>Abstract</h2><p>x</p>" * 20_000, 40_000),
        ("[1] " * 300_000, 300_000),
        ("A" * 1_000_000, 1),
    ],
    ids=[
        "nested boilerplate",
        "boilerplate with headings",
        "links",
        "breaks",
        "a long class",
        "headings",
        "marks",
        "a word",
    ],
)
def test_hostile_pages_are_read_to_their_end(html: str, words: int) -> None:
    # In milliseconds; a step that grows with the square of the page would take minutes.
    root = parse_html(f"<html><body>{html}".encode(), "")
    assert read_text(root, has_citation=False).words == words


def test_of_a_page_without_end_so_many_elements_are_read() -> None:
    root = parse_html(b"<p>word</p>" * (MAX_ELEMENTS + 1000), "")
    assert MAX_ELEMENTS - 10 < read_text(root, has_citation=False).words < MAX_ELEMENTS
