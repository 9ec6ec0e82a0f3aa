"""What a link says, what its address says and where it stands decide together, and the record says so."""

from __future__ import annotations

import pytest

from datasette_ingest.ingest.page.read import Page, read_page

URL = "https://journal.example.org/article/4711"


def page(body: str, *, target: str = "pdf", head: str = "") -> Page:
    return read_page(f"<html><head>{head}</head><body>{body}</body></html>".encode(), URL, "", target=target)


def urls(body: str, *, target: str = "pdf", head: str = "") -> list[str]:
    return [
        found.url.removeprefix("https://journal.example.org")
        for found in page(body, target=target, head=head).candidates
    ]


@pytest.mark.parametrize(
    "body",
    [
        '<a href="/f">PDF</a>',
        '<a href="/f">[PDF, 1.2 MB]</a>',
        '<a href="/f.pdf">Download</a>',
        '<a href="/download/4711">Full text</a>',
        '<a href="/f.pdf"><img src="pdf.png" alt="PDF"></a>',
        '<a href="/f" type="application/pdf">Article</a>',
        "<button onclick=\"window.open('/f.pdf')\">Download PDF</button>",
        '<a href="#" data-pdf-url="/f.pdf">Get PDF</a>',
        "<a href=\"javascript:openFile('/f.pdf')\">PDF</a>",
        '<form action="/download/f.pdf"><input type="submit" value="PDF"></form>',
        '<a href="/f">Скачать PDF</a>',
        '<a href="/f">全文下载 PDF</a>',
        '<a href="/f">ダウンロード PDF</a>',
        '<a href="/f">Tam metin (PDF)</a>',
        '<a href="/f">تحميل PDF</a>',
        '<a href="/f">Unduh PDF</a>',
        '<noscript><a href="/f.pdf">PDF</a></noscript>',
    ],
)
def test_a_link_to_the_work_is_tried(body: str) -> None:
    assert len(urls(body)) == 1


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('<a href="/f.pdf">Supplementary material (PDF)</a>', "supplementary"),
        ('<a href="/f.pdf">Author guidelines (PDF)</a>', "guidelines"),
        ('<a href="/supplement/f.pdf">PDF</a>', "path says supplement"),
        ('<footer><a href="/privacy.pdf">PDF</a></footer>', "path says privacy"),
        ('<div class="related-articles"><a class="pdf" href="/f.pdf">PDF</a></div>', "in related"),
        ('<section><h2>References</h2><p><a href="/f.pdf">PDF</a></p></section>', "under 'references'"),
        ('<section><h3>Literatur</h3><ol><li><a href="/f.pdf">PDF</a></ol></section>', "under 'literatur'"),
        ("".join(f'<p><a href="/article/{n}/pdf">PDF</a></p>' for n in range(5)), "one of 5 alike"),
        ('<a href="/f.csv">Download the file</a><a href="/g.pdf" class="pdf">Cover</a>', "cover"),
    ],
)
def test_a_link_to_something_else_is_left_with_the_reason(body: str, why: str) -> None:
    found = page(body)
    assert found.candidates == ()
    if found.rejected:
        assert why in found.rejected[0].reason


def test_the_same_button_on_a_list_is_the_works_own_where_it_names_the_work() -> None:
    buttons = "".join(f'<p><a class="pdf" href="/article/{n}/pdf">PDF</a></p>' for n in (4709, 4710, 4711, 4712))
    assert urls(buttons) == ["/article/4711/pdf"]


def test_a_doi_in_the_head_tells_the_works_own_links() -> None:
    head = '<meta name="citation_doi" content="10.5555/abc.99">'
    buttons = "".join(f'<p><a href="/doi/pdf/10.5555/abc.{n}">PDF</a></p>' for n in (97, 98, 99))
    assert urls(buttons, head=head)[0] == "/doi/pdf/10.5555/abc.99"


def test_a_file_named_like_the_title_is_preferred_to_others() -> None:
    body = '<h1>Tides of the northern estuary</h1><a href="/a.pdf">Annual weather notes.pdf</a><a href="/b.pdf">Tides of the northern estuary.pdf</a>'
    assert urls(body, head="<title>Tides of the northern estuary</title>")[0] == "/b.pdf"


def test_a_supplement_that_a_rule_finds_comes_after_the_work() -> None:
    head = '<meta name="eprints.document_url" content="/7/2/supplement.pdf"><meta name="eprints.document_url" content="/7/1/paper.pdf">'
    assert urls("", head=head) == ["/7/1/paper.pdf", "/7/2/supplement.pdf"]


def test_the_page_itself_is_the_last_resort() -> None:
    head = f'<meta name="citation_pdf_url" content="{URL}">'
    assert urls('<a href="/f">PDF</a>', head=head) == ["/f", "/article/4711"]


def test_a_viewer_gives_away_its_file() -> None:
    body = (
        '<iframe src="/lib/pdf.js/web/viewer.html?file=https%3A%2F%2Fjournal.example.org%2Fdl%2F9.pdf#page=2"></iframe>'
    )
    assert urls(body)[0] == "/dl/9.pdf"


@pytest.mark.parametrize(
    ("body", "target", "url"),
    [
        ('<a href="/x">XML</a>', "xml", "/x"),
        ('<a href="/x.xml" download>Download JATS XML</a>', "xml", "/x.xml"),
        ('<a href="/x">Full text (HTML)</a>', "html", "/x"),
        ('<a href="/article/4711/full">Full text</a>', "html", "/article/4711/full"),
        ('<a href="/x">Volltext</a><a href="/y.pdf">PDF</a>', "html", "/x"),
    ],
)
def test_other_types_have_words_of_their_own(body: str, target: str, url: str) -> None:
    assert urls(body, target=target) == [url]


def test_a_resolver_of_identifiers_leads_nowhere() -> None:
    assert urls('<a href="https://doi.org/10.5555/abc.pdf">Full text PDF</a>') == []


def test_typed_links_of_the_answer_count_like_those_of_the_page() -> None:
    found = read_page(b"<p>x", URL, "", target="pdf", links=('</f>; rel="item"; type="application/pdf"',))
    assert [c.url for c in found.candidates] == ["https://journal.example.org/f"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('<h3>More by this author</h3><p><a class="pdf" href="/article/download/77/1">PDF</a></p>', "under 'more by"),
        ('<h3>Readers also enjoyed</h3><p><a class="pdf" href="/article/download/77/1">PDF</a></p>', "under 'readers"),
        ('<embed src="/files/supplement_1.pdf" type="application/pdf">', "its name says supplement"),
        ('<iframe src="/files/author-guidelines.pdf"></iframe>', "its name says guidelines"),
        ('<link rel="alternate" type="application/pdf" href="/files/cover.pdf">', "its name says cover"),
    ],
)
def test_the_only_file_of_a_page_may_still_be_another_works(body: str, reason: str) -> None:
    head = '<meta name="citation_title" content="Salt in rivers">'
    page = read_page(
        f"{head}<p>An abstract</p>{body}".encode(), "https://j.example.org/article/view/1234", "", target="pdf"
    )
    assert page.candidates == ()
    assert reason in page.rejected[0].reason


def test_the_latest_paper_on_a_home_page_is_not_the_one_that_was_asked_for() -> None:
    body = b'<p>Latest: <a href="/article/view/9/1">Full text PDF</a></p>'
    assert read_page(body, "https://j.example.org/en/", "", target="pdf").candidates == ()
    assert read_page(body, "https://j.example.org/en/soil", "", target="pdf").candidates
