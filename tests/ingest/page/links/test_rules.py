"""Every rule finds its example, and none finds what it should not."""

from __future__ import annotations

import json
import time

import pytest

from datasette_ingest.ingest.linkrule import LinkRule, UrlRewrite
from datasette_ingest.ingest.page.links.find import refresh_target
from datasette_ingest.ingest.page.links.rules import built_in_rules, rewrites
from datasette_ingest.ingest.page.read import read_page
from datasette_ingest.ingest.types import INGEST_TYPES

PAGE = "http://example.org/a/b"


def links(body: str, target: str = "pdf", *, head: str = "") -> list[tuple[str, str]]:
    page = read_page(f"<html><head>{head}</head><body>{body}</body></html>".encode(), PAGE, "", target=target)
    return [(candidate.rule, candidate.url) for candidate in page.candidates]


@pytest.mark.parametrize("rule", built_in_rules(), ids=lambda rule: rule.name)
def test_a_rule_finds_its_example(rule: LinkRule) -> None:
    page = read_page(rule.example.encode(), rule.example_page, "", target=rule.target or "pdf")
    assert (rule.name, rule.example_found) in [(found.rule, found.url) for found in page.candidates]


@pytest.mark.parametrize("rewrite", rewrites(), ids=lambda rewrite: rewrite.name)
def test_a_wrapped_file_comes_before_its_wrapper(rewrite: UrlRewrite) -> None:
    head = f'<meta name="citation_pdf_url" content="{rewrite.example}">'
    urls = [url for _, url in links("", head=head)]
    assert urls.index(rewrite.example_found) < urls.index(rewrite.example)


def test_names_of_rules_are_unique_and_targets_are_types() -> None:
    rules = built_in_rules()
    assert len({rule.name for rule in rules}) == len(rules)
    assert {rule.target for rule in rules} <= {"", *INGEST_TYPES}


@pytest.mark.parametrize(
    "html",
    [
        '<a href="/s1.pdf">Supplementary PDF</a>',
        '<a href="/fig.pdf">Figure 1 (PDF)</a>',
        '<a href="/policy.pdf">Open access policy PDF</a>',
        '<a href="/toc.pdf">Table of contents (PDF)</a>',
        '<ol class="references"><li>Smith et al. 2012 <a href="/ref.pdf">PDF</a></ol>',
        '<section><h2>References</h2><p>Smith 2012 <a href="/ref.pdf">PDF</a></section>',
        '<a class="pdf" href="/s1.pdf">Supplementary material</a>',
        '<a href="javascript:openPdf()">PDF</a>',
        '<a href="#pdf">PDF</a>',
        "<a>PDF</a>",
        "<a href>PDF</a>",
        "<p>The PDF is on request.</p>",
        '<a href="/long.pdf">' + "PDF " * 60 + "</a>",
    ],
)
def test_a_link_to_something_else_is_no_candidate(html: str) -> None:
    assert links(html) == []


@pytest.mark.parametrize(
    "html",
    [
        '<a href="/found">PDF</a>',
        '<a href="/found"><span>Download</span> <b>PDF</b> (1.2 MB)</a>',
        '<a href="/found" title="Download article PDF"><img src="x.png"></a>',
        '<a href="/found" aria-label="View PDF"><svg></svg></a>',
        '<a href="/found">Télécharger le PDF</a>',
        '<a href="/found">Volltext (PDF)</a>',
        '<a href="/found">Texto completo (PDF)</a>',
        '<a href="/found" class="obj_galley_link pdf">Full Text</a>',
        '<iframe src="/x/found.pdf#page=1"></iframe><a href="/found">PDF</a>',
    ],
)
def test_a_link_that_says_so_is_a_candidate(html: str) -> None:
    assert "http://example.org/found" in [url for _, url in links(html)]


def test_metadata_comes_before_anchors_and_a_url_counts_once() -> None:
    found = links('<a href="/two">Download PDF</a>', head='<meta content="/one" name="Citation_PDF_URL">')
    assert found == [("citation_pdf_url", "http://example.org/one"), ("link", "http://example.org/two")]


def test_a_translation_of_the_page_is_no_full_text() -> None:
    head = '<link rel="alternate" hreflang="de" type="text/html" href="/de">'
    assert links("", "html", head=head) == []


def test_other_types_links_are_not_taken() -> None:
    head = (
        '<meta name="citation_pdf_url" content="/p.pdf"><link rel="alternate" type="application/rss+xml" href="/rss">'
    )
    assert links("", "xml", head=head) == []


def test_what_is_no_url_stays_as_it_was_written() -> None:
    assert links("", head='<meta name="citation_pdf_url" content="ftp://h/p.pdf">') == [
        ("citation_pdf_url", "ftp://h/p.pdf")
    ]


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("0;url=/x", "/x"),
        ("0; URL='/x'", "/x"),
        ('5,Url="/x" junk', "/x"),
        ("0 url=/x", "/x"),
        ("0;/x", "/x"),
        ("0;url = /x", "/x"),
        ("0.5;url=/x", "/x"),
        (".5;url=/x", "/x"),
        ("0; url=\n /x", "/x"),
        ("0; url=/x?url=y", "/x?url=y"),
        ("0", None),
        ("", None),
        ("0;", None),
        ("0;url=", None),
        ("url=/x", None),
        ("9999;url=/x", None),
        ("99999999999999999999;url=/x", None),
        ("x;url=/x", None),
    ],
)
def test_a_refresh_is_read_as_the_standard_says(content: str, target: str | None) -> None:
    assert refresh_target(content) == target


def test_a_refresh_for_readers_without_scripts_is_not_followed() -> None:
    assert links('<noscript><meta http-equiv="refresh" content="0;url=/nojs"></noscript>') == []


def test_a_head_alone_gives_the_same_metadata() -> None:
    metas = b'<meta name="citation_title" content="T"><meta name="citation_pdf_url" content="/p.pdf">'
    data = b"<head>" + metas + b'</head><body><a href="/q">PDF</a></body>'
    page = read_page(data, PAGE, "", target="pdf", head_only=True)
    assert [candidate.url for candidate in page.candidates] == ["http://example.org/p.pdf"]
    assert page.text is None


@pytest.mark.parametrize(
    "html",
    [
        "<p>words and words</p>" * 200_000,
        '<a href="/x/1">one of many links</a>\n' * 50_000,
        "<div>" * 100_000,
        '<a title="' + "PDF " * 500_000 + '" href="/x">',
        "<title>" + "404 " * 200_000,
        "<h1>" * 30_000,
        "<noscript>" * 20_000 + "enable",
    ],
    ids=["5 MB", "50,000 links", "deep", "a long title", "a long head", "nested headings", "nested noscript"],
)
def test_a_huge_page_is_read_in_a_time_that_grows_with_its_size_alone(html: str) -> None:
    begin = time.process_time()
    assert read_page(html.encode(), PAGE, "", target="pdf").text is not None
    # about half a second; a rule whose time grows with the square of the page would take minutes
    assert time.process_time() - begin < 20


OWN = {"@type": "ScholarlyArticle", "@id": PAGE, "name": "Salt in rivers"}


def _with_file(number: int, **more: str) -> dict[str, object]:
    file = {"encodingFormat": "application/pdf", "contentUrl": f"/{number}.pdf"}
    return {"@type": "ScholarlyArticle", "encoding": file, **more}


@pytest.mark.parametrize(
    ("nodes", "found"),
    [
        ([OWN, _with_file(1, url="/article/1")], []),
        ([_with_file(1), _with_file(2)], []),
        ([_with_file(1, url=PAGE + "/"), _with_file(2)], ["http://example.org/1.pdf"]),
        ([{"@type": "ScholarlyArticle"}, _with_file(2)], ["http://example.org/2.pdf"]),
        ([{"@type": "WebPage", "@id": PAGE}, _with_file(2)], ["http://example.org/2.pdf"]),
    ],
)
def test_of_several_works_in_json_ld_the_pages_own_counts(nodes: list[object], found: list[str]) -> None:
    script = f'<script type="application/ld+json">{json.dumps({"@graph": nodes})}</script>'
    assert [url for _, url in links("", head=script)] == found


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ('[{"pdfUrl": "/91.pdf"}, {"pdfUrl": "/92.pdf"}]', []),
        ('[{"pdfUrl": "/91.pdf"}, {"pdfUrl": "http://example.org/91.pdf"}]', ["http://example.org/91.pdf"]),
        ('[{"pdfUrl": "/b/91.pdf"}, {"pdfUrl": "/no.pdf"}]', ["http://example.org/b/91.pdf"]),
    ],
)
def test_what_a_script_says_of_several_works_is_said_of_none(script: str, found: list[str]) -> None:
    data = f"<script>x = {script}</script><meta name='citation_doi' content='10.1234/b/91'><p>x".encode()
    assert [candidate.url for candidate in read_page(data, PAGE, "", target="pdf").candidates] == found


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("/a\\ud83d\\ude00", "http://example.org/a%F0%9F%98%80"),
        ("/a\\ud800", "http://example.org/a%EF%BF%BD"),
        ("http://[\\ud800", "http://[\ufffd"),
    ],
)
def test_halves_of_characters_in_a_script_are_no_halves_in_the_record(written: str, url: str) -> None:
    assert links(f'<script>x = {{"pdfUrl": "{written}"}}</script>') == [("pdf-url-in-script", url)]
