"""Pages that were made to keep a reader busy are read in a time that grows with their size alone, and what is taken
from them has a limit. Without it each of these takes minutes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from datasette_ingest.ingest.datasets.manifest import read_dataset_page
from datasette_ingest.ingest.page.biblio import MAX_AUTHORS
from datasette_ingest.ingest.page.interstitials import interstitial
from datasette_ingest.ingest.page.links.find import MAX_CANDIDATES_OF_PAGE, MAX_REJECTED_OF_PAGE
from datasette_ingest.ingest.page.read import Page, read_page
from datasette_ingest.ingest.page.scope import html_meta, judge
from datasette_ingest.ingest.page.text import MAX_ATTRIBUTE_TEXT, MAX_NAME

PAGE = "http://example.org/articles/b"


def ld(value: Any) -> str:
    return f'<script type="application/ld+json">{json.dumps(value)}</script>'


def many(unit: str, times: int) -> str:
    return "".join(unit.replace("N", str(number)) for number in range(times))


WORK = {"@type": "ScholarlyArticle", "@id": "a"}
PAGES = {
    "links to files in the head": many("<meta name=citation_pdf_url content=/N.pdf>", 60_000),
    "typed links": many("<link rel=item type=application/pdf href=/N.pdf>", 60_000),
    "frames": many("<iframe src=/N.pdf></iframe>", 60_000),
    "a frameset": f"<frameset>{many('<frame src=/N>', 60_000)}</frameset>",
    "hidden fields": many("<input type=hidden name=redirecturl value=http://x.org/N>", 60_000),
    "refreshes": many('<meta http-equiv=refresh content="0; url=/N">', 60_000),
    "files of one work": ld(WORK | {"encoding": [{"contentUrl": f"/{number}.pdf"} for number in range(60_000)]}),
    "an author again and again": ld([WORK | {"author": ["b"] * 300_000}, {"@type": "Person", "@id": "b", "name": "B"}]),
    "a work that is part of itself": ld(WORK | {"isPartOf": ["a"] * 300_000}),
    "authors without a name": f'<meta name=citation_author content="{";" * 3_000_000}">',
    "blanks for numbers": f'<meta name=citation_issn content="{" " * 290}">' * 5000,
    "nothing but issn": f'<meta name=citation_issn content="{"issn" * 75}">' * 5000,
    "a title of many parts": f"<title>{'a | ' * 700_000}</title><p>x",
    "a long heading": f"<h1>{'access denied ' * 200_000}</h1><p>x",
    "marks round links": f"<div {many('data-xN=a ', 5000)}>{'<p><a href=x.pdf>pdf</a></p>' * 1000}</div>",
    "names of containers": many(f'<div class="{"c" * 280}N">a</div>', 20_000),
    "text before links": f"<div>{'é' * 2_000_000}{many('<a href=/N.pdf>pdf</a><h2>N</h2>', 1000)}</div>",
    "addresses": many(f'<a href="/{"-a_1" * 3000}N.pdf">pdf</a>', 500),
    "anchors in anchors": "<object><a href=x.pdf>" * 120 + "<b> </b>" * 60_000,
    "headings in headings": "<h2><div>" * 120 + "<b> </b>" * 60_000,
    "navigation round everything": "<nav>" * 240 + "<p>x</p>" * 60_000 + "<h1>y</h1>",
    "fields in fields": "<fieldset>" * 240 + "<p>word</p>" * 60_000,
    "beginnings of words for scripts": f"<noscript>{'activ' * 2000}</noscript><script>x</script><p>{'activ' * 2000}",
    "a block of marks": f"<p>{'; ' * 1_000_000}",
}


def read_all(html: str, target: str) -> Page:
    """A page, and all that is asked about it."""
    page = read_page(html.encode(), PAGE, "text/html; charset=utf-8", target=target)
    assert page.text is not None
    obstacle = interstitial(page.url, page.text)
    judge(page)
    json.dumps(html_meta(page, page.biblio, sha1hex="0" * 40, obstacle=obstacle).to_json()).encode()
    return page


@pytest.mark.parametrize("target", ["pdf", "xml"])
@pytest.mark.parametrize("html", PAGES.values(), ids=PAGES.keys())
def test_what_is_taken_from_a_page_has_a_limit(html: str, target: str) -> None:
    page = read_all(html, target)
    assert len(page.candidates) <= MAX_CANDIDATES_OF_PAGE
    assert len(page.rejected) <= MAX_REJECTED_OF_PAGE
    assert len(page.biblio.authors) <= MAX_AUTHORS
    assert page.text is not None
    assert max(len(page.text.title), len(page.text.first_heading)) <= MAX_NAME
    assert len(page.text.attribute_text) <= MAX_ATTRIBUTE_TEXT


@pytest.mark.parametrize("html", PAGES.values(), ids=PAGES.keys())
def test_so_has_what_is_taken_from_a_datasets_page(html: str) -> None:
    assert read_dataset_page(html.encode(), PAGE, "").url == PAGE


@pytest.mark.parametrize("written", ["http://[::1", "http://", "https://h:99999/x", "http://u:p@[/x"])
def test_a_link_that_is_no_url_does_not_stop_a_page_from_being_judged(written: str) -> None:
    assert read_all(f'<meta name="citation_fulltext_html_url" content="{written}"><p>x', "html").candidates
    read_all(f'<meta name="citation_pdf_url" content="{written}"><a href="{written}">PDF</a>', "pdf")
