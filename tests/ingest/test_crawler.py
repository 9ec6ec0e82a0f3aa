"""From a cell to a verdict: what real servers, pages and tables have been seen to do."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import sqlite3
from datetime import datetime, timezone
from typing import Any

import pytest

from datasette_ingest.ingest import schema, store
from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.errors import STATUSES, SUCCESS
from datasette_ingest.ingest.linkrule import LinkRule, Place
from datasette_ingest.ingest.model import IngestRequest, RetryClass
from datasette_ingest.ingest.settings import CrawlSettings

from .origin import PDF, Origin, Raw, Request, gzipped, html, pdf, redirect, reply

pytestmark = pytest.mark.both_loops

SHA1 = hashlib.sha1(PDF).hexdigest()
OK = b"HTTP/1.1 200 OK\r\n"


def meta(url: str, name: str = "citation_pdf_url") -> str:
    return f'<meta name="{name}" content="{url}">'


# A direct hit, and what a result holds


async def test_a_pdf_is_a_hit_and_is_described(ingest: Any) -> None:
    async with Origin({"/p.pdf": pdf()}) as site:
        result = await ingest(site.url("/p.pdf"))
    assert (result.hit, result.status, result.via) == (True, SUCCESS, "live")
    assert (result.terminal_url, result.terminal_status_code) == (site.url("/p.pdf"), 200)
    assert result.terminal_sha1hex == SHA1
    assert len(result.terminal_dt) == 14
    assert result.hops == (site.url("/p.pdf"),)
    assert result.file_meta.to_json() == {
        "size_bytes": len(PDF),
        "sha1hex": SHA1,
        "sha256hex": hashlib.sha256(PDF).hexdigest(),
        "md5hex": hashlib.md5(PDF).hexdigest(),
        "mimetype": "application/pdf",
    }


async def test_a_result_as_json_leaves_out_what_is_not_known(ingest: Any) -> None:
    result = await ingest(None, source="demo", source_id="1")
    assert result.to_json() == {
        "request": {"ingest_type": "pdf", "base_url": None, "source": "demo", "source_id": "1", "actor": "unknown"},
        "hit": False,
        "status": "invalid-url",
        "error_message": "the cell is empty",
    }


async def test_the_old_name_file_asks_for_a_pdf(ingest: Any) -> None:
    async with Origin({"/p.pdf": pdf()}) as site:
        assert (await ingest(site.url("/p.pdf"), "file")).hit


async def test_a_type_that_nobody_knows_is_an_outcome_too(ingest: Any) -> None:
    assert (await ingest("http://h/", "hologram")).status == "not-implemented"


async def test_credentials_are_sent_and_never_shown(ingest: Any) -> None:
    async with Origin({"/p.pdf": pdf(), "/page": html(meta("/missing.pdf"))}) as site:
        with_password = site.url("/p.pdf").replace("http://", "http://user:secret@")
        result = await ingest(with_password)
        assert site.requests[-1].headers["authorization"] == "Basic dXNlcjpzZWNyZXQ="
        miss = await ingest(site.url("/page").replace("http://", "http://user:secret@"))
    assert result.hit and not miss.hit
    for found in (result, miss):
        shown = found.to_json()
        del shown["request"]
        assert "secret" not in str(shown)
    assert result.request.base_url == with_password


@pytest.mark.parametrize(
    "settings",
    [
        {"sources": ("live", "gopher")},
        {"sources": ()},
        {"http2": True, "proxy": "http://proxy.example/"},
        {"robots": "maybe"},
        {"concurrency": 0},
        {"user_agent": "x\r\nCookie: y"},
        {"timeout": 0},
        {"allow_networks": ("nonsense",)},
        {"proxy": "nonsense"},
        {"doi_resolver": "ftp://h/"},
    ],
)
def test_settings_that_cannot_be_kept_are_refused_at_once(settings: Any) -> None:
    with pytest.raises(ValueError):
        Crawler(CrawlSettings(**settings))


async def test_a_fragment_is_the_readers_business(ingest: Any) -> None:
    async with Origin({"/p.pdf": pdf()}) as site:
        result = await ingest(site.url("/p.pdf#page=3"))
    assert (result.terminal_url, result.hops) == (site.url("/p.pdf"), (site.url("/p.pdf"),))
    assert result.request.base_url == site.url("/p.pdf#page=3")


# Cells


@pytest.mark.parametrize("cell", [None, "", "   ", 42, 3.5, b"\xff\xfe", "None", "n/a", "10.1234"])
async def test_a_dirty_cell_ends_without_a_request(ingest: Any, cell: Any) -> None:
    result = await ingest(cell)
    assert (result.status, result.hit, result.hops, result.terminal_url) == ("invalid-url", False, (), None)
    assert result.request.base_url is cell


async def test_blanks_around_a_url_are_no_part_of_it(ingest: Any) -> None:
    async with Origin({"/p.pdf": pdf()}) as site:
        cell = f" {site.url('/p.pdf')}\r\n"
        result = await ingest(cell)
    assert result.hit and result.request.base_url == cell


@pytest.mark.parametrize(
    "cell", ["10.1234/abc", "DOI: 10.1234/ABC", "https://dx.doi.org/10.1234/abc", "info:doi/10.1234/abc"]
)
async def test_a_doi_goes_to_the_configured_resolver_once(make_crawler: Any, cell: str) -> None:
    async with Origin({"/10.1234/abc": redirect("/p.pdf"), "/p.pdf": pdf()}) as site:
        crawler = make_crawler(doi_resolver=site.url("/"))
        result = await crawler.ingest(IngestRequest("pdf", cell))
    assert result.hit
    assert result.hops == (site.url("/10.1234/abc"), site.url("/p.pdf"))


# Landing pages


@pytest.mark.parametrize(
    ("content", "path"),
    [
        ("/download/pdf", "/download/pdf"),
        ("download/pdf", "/a/download/pdf"),
        ("\n   /download/pdf  \n", "/download/pdf"),
        ("/download/a b.pdf", "/download/a%20b.pdf"),
        ("/download/a&amp;b.pdf", "/download/a&b.pdf"),
        ("?format=pdf", "/a/b?format=pdf"),
    ],
)
async def test_a_link_may_be_relative_and_untidy(ingest: Any, content: str, path: str) -> None:
    async with Origin({"/a/b": html(meta(content)), path: pdf()}) as site:
        result = await ingest(site.url("/a/b"))
    assert (result.status, result.terminal_url) == (SUCCESS, site.url(path))


async def test_the_second_link_counts_when_the_first_is_outdated(ingest: Any) -> None:
    async with Origin({"/a/b": html(meta("/old.pdf") + meta("/new.pdf")), "/new.pdf": pdf()}) as site:
        result = await ingest(site.url("/a/b"))
    assert (result.hit, result.terminal_url) == (True, site.url("/new.pdf"))
    assert [(c.rank, c.url, c.rule, c.outcome, c.status_code) for c in result.candidates] == [
        (1, site.url("/old.pdf"), "citation_pdf_url", "terminal-bad-status", 404),
        (2, site.url("/new.pdf"), "citation_pdf_url", SUCCESS, 200),
    ]
    assert result.hops == (site.url("/a/b"), site.url("/old.pdf"), site.url("/new.pdf"))


async def test_a_row_takes_the_reason_of_its_best_link(ingest: Any) -> None:
    async with Origin({"/a/b": html(meta("/old.pdf"))}) as site:
        result = await ingest(site.url("/a/b"))
    assert (result.status, result.terminal_url, result.terminal_status_code) == (
        "terminal-bad-status",
        site.url("/old.pdf"),
        404,
    )
    assert site.url("/old.pdf") in result.error_message


async def test_a_repeated_link_is_one_candidate(ingest: Any) -> None:
    async with Origin({"/a/b": html(meta("/p.pdf") * 3 + meta("/p.pdf#page=2")), "/p.pdf": pdf()}) as site:
        result = await ingest(site.url("/a/b"))
    assert len(result.candidates) == 1
    assert site.targets == ["/a/b", "/p.pdf"]


async def test_links_that_were_not_needed_are_recorded_as_not_tried(ingest: Any) -> None:
    head = meta("/1.pdf") + '<link rel="alternate" type="application/pdf" href="/2.pdf">'
    async with Origin({"/a/b": html(head), "/1.pdf": pdf()}) as site:
        result = await ingest(site.url("/a/b"))
    assert [(c.rule, c.outcome) for c in result.candidates] == [
        ("citation_pdf_url", SUCCESS),
        ("link-alternate (application/pdf)", "not-tried"),
    ]


@pytest.mark.parametrize(
    ("base", "path"),
    [
        ('<base href="/forum/">', "/forum/1.pdf"),
        ('<base href="/forum/"><base href="/other/">', "/forum/1.pdf"),
        ('<base target="_top"><base href="/forum/">', "/forum/1.pdf"),
        ('<base href="">', "/a/1.pdf"),
        ('<base href="javascript:void(0)">', "/a/1.pdf"),
    ],
)
async def test_the_first_usable_base_element_decides(ingest: Any, base: str, path: str) -> None:
    async with Origin({"/a/b": html(base, '<a class="pdf" href="1.pdf">PDF</a>'), path: pdf()}) as site:
        result = await ingest(site.url("/a/b"))
    assert (result.status, result.terminal_url) == (SUCCESS, site.url(path))


@pytest.mark.parametrize(
    "content",
    ["0; url=\n  /x/1.pdf", "0; URL='/x/1.pdf'", '0;Url="/x/1.pdf"', "0, url=/x/1.pdf", "0 url=/x/1.pdf", "3;/x/1.pdf", "0;url = /x/1.pdf"],
)  # fmt: skip
async def test_a_meta_refresh_is_followed_however_it_is_spelt(ingest: Any, content: str) -> None:
    escaped = content.replace('"', "&quot;")
    async with Origin({"/a/b": html(f'<meta HTTP-EQUIV="ReFresh" content="{escaped}">'), "/x/1.pdf": pdf()}) as site:
        result = await ingest(site.url("/a/b"))
    assert (result.status, result.terminal_url) == (SUCCESS, site.url("/x/1.pdf"))


async def test_a_link_may_lead_over_another_page(ingest: Any) -> None:
    async with Origin(
        {
            "/a/b": html(meta("/viewer")),
            "/viewer": html("", '<iframe src="/real.pdf"></iframe>'),
            "/real.pdf": pdf(),
        }
    ) as site:
        result = await ingest(site.url("/a/b"))
    assert (result.hit, result.terminal_url) == (True, site.url("/real.pdf"))
    assert [c.outcome for c in result.candidates] == [SUCCESS, SUCCESS]


async def test_a_page_that_links_to_itself_is_a_link_loop(ingest: Any) -> None:
    async with Origin({"/a/b": html(meta("/a/b#pdf"))}) as site:
        result = await ingest(site.url("/a/b"))
    assert (result.status, site.targets) == ("link-loop", ["/a/b"])


async def test_pages_that_lead_on_for_ever_end_at_the_limit(make_crawler: Any) -> None:
    pages: dict[str, Any] = {f"/{n}": html(meta(f"/{n + 1}")) for n in range(20)}
    async with Origin(pages) as site:
        result = await make_crawler(max_hops=4, max_candidates=10).ingest(IngestRequest("pdf", site.url("/0")))
        assert (result.status, site.targets) == ("max-hops-exceeded", ["/0", "/1", "/2", "/3"])
        site.requests.clear()
        result = await make_crawler().ingest(IngestRequest("pdf", site.url("/0")))
    assert (result.status, len(site.targets)) == ("max-hops-exceeded", 6)
    assert result.candidates[-1].outcome == "not-tried"


async def test_as_many_pages_as_are_allowed_still_make_a_hit(make_crawler: Any) -> None:
    pages: dict[str, Any] = {f"/{n}": html(meta(f"/{n + 1}")) for n in range(7)}
    async with Origin({**pages, "/7": pdf()}) as site:
        result = await make_crawler(max_hops=8, max_candidates=7).ingest(IngestRequest("pdf", site.url("/0")))
    assert (result.status, len(result.hops)) == (SUCCESS, 8)


async def test_no_more_links_are_asked_than_allowed(make_crawler: Any) -> None:
    async with Origin({"/a/b": html("".join(meta(f"/{n}.pdf") for n in range(9)))}) as site:
        result = await make_crawler(max_candidates=3).ingest(IngestRequest("pdf", site.url("/a/b")))
    assert site.targets == ["/a/b", "/0.pdf", "/1.pdf", "/2.pdf"]
    assert [c.outcome for c in result.candidates] == ["terminal-bad-status"] * 3 + ["not-tried"] * 6
    assert (result.status, result.terminal_url) == ("terminal-bad-status", site.url("/0.pdf"))


async def test_a_page_without_a_link_is_told_by_the_type_that_was_wanted(ingest: Any) -> None:
    async with Origin({"/a/b": html("", "<p>" + "word " * 100)}) as site:
        pdf_result = await ingest(site.url("/a/b"), "pdf")
        xml_result = await ingest(site.url("/a/b"), "xml")
    assert (pdf_result.status, pdf_result.terminal_sha1hex, pdf_result.terminal_status_code) == (
        "no-pdf-link",
        None,
        200,
    )
    assert xml_result.status == "wrong-mimetype" and "no link" in xml_result.error_message
    assert xml_result.file_meta.mimetype == "text/html"


@pytest.mark.parametrize(
    ("link", "status"),
    [
        ("ftp://h/p.pdf", "bad-scheme"),
        ("http://[::bad/p.pdf", "invalid-url"),
        ("http://10.0.0.1/p.pdf", "forbidden-address"),
        ("http://www.facebook.com/p.pdf", "skip-url-blocklist"),
        ("/login?next=p.pdf", "skip-wall"),
    ],
)
async def test_a_link_that_may_not_be_followed_is_recorded_with_the_reason(ingest: Any, link: str, status: str) -> None:
    async with Origin({"/a/b": html(meta(link))}) as site:
        result = await ingest(site.url("/a/b"))
    assert (result.status, result.terminal_url) == (status, site.url("/a/b"))
    assert [c.outcome for c in result.candidates] == [status]
    assert site.targets == ["/a/b"] and result.hops == (site.url("/a/b"),)


async def test_links_are_tried_by_what_speaks_for_them_and_the_record_says_it(ingest: Any) -> None:
    body = (
        '<a href="/s1.pdf">Supplementary PDF</a><a href="/view/4711">Full text</a>'
        '<a class="pdf" href="/download/4711.pdf">Download PDF</a>'
    )
    head = '<meta name="citation_title" content="Salt">'
    site_pages = {"/article/4711": html(head, body), "/view/4711": html("", "<p>x"), "/s1.pdf": pdf()}
    async with Origin(site_pages | {"/download/4711.pdf": pdf()}) as site:
        result = await ingest(site.url("/article/4711"))
    assert result.hit and result.terminal_url == site.url("/download/4711.pdf")
    first, second = result.candidates
    assert (first.outcome, second.outcome) == (SUCCESS, "not-tried")
    assert "says pdf" in first.reason and "names the page's id" in first.reason
    assert "/s1.pdf" not in site.targets


async def test_a_missed_row_tells_which_links_were_not_worth_a_request(ingest: Any) -> None:
    async with Origin({"/a/b": html("", '<a href="/s1.pdf">Supplementary material (PDF)</a>' * 2)}) as site:
        result = await ingest(site.url("/a/b"))
    assert result.status == "no-pdf-link" and site.targets == ["/a/b"]
    assert [(c.url, c.outcome) for c in result.candidates] == [(site.url("/s1.pdf"), "not-tried")]
    assert "not: supplementary" in result.candidates[0].reason


async def test_typed_links_in_the_answers_headers_are_followed(ingest: Any) -> None:
    page = reply(b"<p>A record", headers={"Link": '</p>; rel="item"; type="application/pdf"'})
    async with Origin({"/a/b": page, "/p": pdf()}) as site:
        result = await ingest(site.url("/a/b"))
    assert result.hit and result.candidates[0].rule == "link-item (application/pdf)"


async def test_a_rule_of_the_users_own_leads_to_the_file(make_crawler: Any) -> None:
    own = LinkRule("ours", "pdf", Place.ANCHOR, "get-it")
    async with Origin({"/a/b": html("", '<a class="get-it" href="/p">Here</a>'), "/p": pdf()}) as site:
        result = await make_crawler(rules=(own,)).ingest(IngestRequest("pdf", site.url("/a/b")))
    assert result.hit and result.candidates[0].rule == "ours"


async def test_a_frameset_is_looked_through(ingest: Any) -> None:
    frames = reply(b'<html><frameset cols="20,*"><frame src="/nav"><frame src="/main"></frameset></html>')
    async with Origin({"/a/b": frames, "/main": html(meta("/p")), "/p": pdf()}) as site:
        result = await ingest(site.url("/a/b"))
    assert result.hit and site.targets == ["/a/b", "/nav", "/main", "/p"]


# What the page says of its work

WORK = (
    '<meta name="citation_title" content="Salt in estuaries"><meta name="citation_author" content="Marsh, A.">'
    '<meta name="citation_doi" content="10.5555/salt.1">'
)


async def test_the_page_that_led_to_the_file_says_what_work_it_is(ingest: Any) -> None:
    page = html(WORK + meta("/p.pdf"))
    async with Origin({"/a/b": page, "/p.pdf": pdf()}) as site:
        result = await ingest(site.url("/a/b"), ext_ids={"doi": "https://doi.org/10.5555/SALT.1"})
    assert result.hit and result.warnings == ()
    assert result.html_meta.sha1hex == hashlib.sha1(page.partition(b"\r\n\r\n")[2]).hexdigest()
    assert result.html_meta.biblio == {
        "title": "Salt in estuaries",
        "authors": [{"name": "Marsh, A."}],
        "doi": "10.5555/salt.1",
    }
    assert result.to_json()["html_meta"]["biblio"]["doi"] == "10.5555/salt.1"


async def test_a_page_about_another_work_than_expected_is_a_hit_with_a_warning(ingest: Any) -> None:
    async with Origin({"/a/b": html(WORK + meta("/p.pdf")), "/p.pdf": pdf()}) as site:
        other = await ingest(site.url("/a/b"), ext_ids={"doi": "10.5555/pepper.2"})
        version = await ingest(site.url("/a/b"), ext_ids={"doi": "10.5555/salt.1.v2"})
    assert other.hit and other.warnings == ("doi-mismatch",)
    assert version.hit and version.warnings == ()


async def test_the_first_page_that_names_a_work_counts(ingest: Any) -> None:
    pages = {
        "/a/b": html('<meta http-equiv="refresh" content="0; url=/c">', title="Moved"),
        "/c": html(WORK + '<meta name="citation_pdf_url" content="/viewer">'),
        "/viewer": html(WORK.replace("Salt", "Pepper") + meta("/p.pdf")),
    }
    async with Origin(pages | {"/p.pdf": pdf()}) as site:
        result = await ingest(site.url("/a/b"))
    assert result.hit and result.html_meta.biblio["title"] == "Salt in estuaries"


async def test_a_miss_keeps_what_its_page_said_and_what_kind_of_page_it_was(ingest: Any) -> None:
    async with Origin({"/a/b": html(WORK, "<p>An abstract of the work. " * 20)}) as site:
        result = await ingest(site.url("/a/b"))
    assert result.status == "no-pdf-link"
    assert result.html_meta.scope == "landing-page" and result.html_meta.word_count == 100


async def test_a_page_that_names_no_work_leaves_nothing(ingest: Any) -> None:
    async with Origin({"/a/b": html(meta("/p.pdf")), "/p.pdf": pdf()}) as site:
        result = await ingest(site.url("/a/b"))
    assert result.hit and result.html_meta is None


# Redirects


@pytest.mark.parametrize(
    ("location", "path"),
    [
        (b"/\xc3\xa9tude.pdf", "/%C3%A9tude.pdf"),
        (b"/\xe9tude.pdf", "/%E9tude.pdf"),
        (b"/my paper.pdf", "/my%20paper.pdf"),
        (b" /p.pdf ", "/p.pdf"),
        (b"/a+b.pdf", "/a+b.pdf"),
        (b"/p.pdf#page=3", "/p.pdf"),
        (b"p.pdf", "/a/p.pdf"),
        (b"\\p.pdf", "/p.pdf"),
        (b"/x?u=http://elsewhere/y", "/x?u=http://elsewhere/y"),
    ],
)
async def test_a_redirect_is_read_byte_by_byte(ingest: Any, location: bytes, path: str) -> None:
    async with Origin({"/a/b": redirect(location), path: pdf()}) as site:
        result = await ingest(site.url("/a/b"))
    assert (result.status, site.targets) == (SUCCESS, ["/a/b", path])
    assert result.terminal_url == site.url(path) and result.terminal_url.isascii()


async def test_three_slashes_lead_to_another_host_as_in_browsers(ingest: Any) -> None:
    async with Origin({"/p.pdf": pdf()}, host="127.0.0.2") as other, Origin() as site:
        site.handlers["/a/b"] = redirect(f"///{other.host}:{other.port}/p.pdf")
        result = await ingest(site.url("/a/b"))
    assert (result.status, result.terminal_url) == (SUCCESS, other.url("/p.pdf"))
    assert site.targets == ["/a/b"]


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent", "399 Odd"]
)
async def test_every_3xx_with_a_location_is_followed(ingest: Any, status: str) -> None:
    async with Origin({"/a/b": redirect("/p.pdf", status=status), "/p.pdf": pdf()}) as site:
        assert (await ingest(site.url("/a/b"))).hit


async def test_of_two_locations_the_first_counts(ingest: Any) -> None:
    twice = b"HTTP/1.1 302 Found\r\nLocation: /p.pdf\r\nLocation: /q.pdf\r\nContent-Length: 0\r\n\r\n"
    async with Origin({"/a/b": twice, "/p.pdf": pdf()}) as site:
        assert (await ingest(site.url("/a/b"))).terminal_url == site.url("/p.pdf")


@pytest.mark.parametrize("location", [None, b"", b"   ", b"http://", b"http://[::1/", b"//"])
async def test_a_redirect_to_nowhere_is_a_bad_redirect(ingest: Any, location: bytes | None) -> None:
    headers = {} if location is None else {"Location": location}
    async with Origin({"/a/b": reply(status="302 Found", headers=headers)}) as site:
        result = await ingest(site.url("/a/b"))
    assert (result.status, result.terminal_url, result.terminal_status_code) == ("bad-redirect", site.url("/a/b"), 302)


@pytest.mark.parametrize("location", ["ftp://h/x", "file:///etc/passwd", "data:text/html,x", "javascript:alert(1)"])
async def test_a_redirect_out_of_http_is_a_bad_scheme(ingest: Any, location: str) -> None:
    async with Origin({"/a/b": redirect(location)}) as site:
        result = await ingest(site.url("/a/b"))
    assert (result.status, result.terminal_url) == ("bad-scheme", site.url("/a/b"))


async def test_a_redirect_back_is_a_loop_whatever_its_fragment(ingest: Any) -> None:
    async with Origin({"/a/b": redirect("/c#1"), "/c": redirect("/a/b#2")}) as site:
        result = await ingest(site.url("/a/b"))
    assert (result.status, site.targets) == ("redirect-loop", ["/a/b", "/c"])


async def test_a_page_that_waits_for_its_cookie_is_no_loop(ingest: Any) -> None:
    async def gate(request: Request, writer: asyncio.StreamWriter) -> None:
        seen = request.headers.get("cookie") == "seen=1"
        writer.write(pdf() if seen else redirect("/a/b", headers={"Set-Cookie": "seen=1; Path=/"}))

    async with Origin({"/a/b": gate}) as site:
        first = await ingest(site.url("/a/b"))
        assert (first.status, len(site.targets)) == (SUCCESS, 2)
        await ingest(site.url("/a/b"))
        assert "cookie" not in site.requests[2].headers, "the second row must begin without the first one's cookies"


async def test_a_redirect_to_itself_without_a_cookie_is_a_loop_at_once(ingest: Any) -> None:
    async with Origin({"/a/b": redirect("/a/b")}) as site:
        result = await ingest(site.url("/a/b"))
    assert (result.status, len(site.targets)) == ("redirect-loop", 1)


async def test_redirects_for_ever_end_at_the_limit(make_crawler: Any) -> None:
    pages: dict[str, Any] = {f"/{n}": redirect(f"/{n + 1}") for n in range(30)}
    async with Origin(pages) as site:
        result = await make_crawler(max_redirects=3).ingest(IngestRequest("pdf", site.url("/0")))
    assert (result.status, site.targets) == ("too-many-redirects", ["/0", "/1", "/2", "/3"])
    assert result.terminal_url == site.url("/3")


async def test_cookies_of_a_landing_page_go_with_its_link_and_stay_in_the_row(ingest: Any) -> None:
    page = reply(
        f"<html><head>{meta('/p.pdf')}</head></html>".encode(), headers={"Set-Cookie": "sid=abc; Path=/; HttpOnly"}
    )
    async with Origin({"/a/b": page, "/p.pdf": pdf()}) as site:
        assert (await ingest(site.url("/a/b"))).hit
        assert site.requests[-1].headers["cookie"] == "sid=abc"
        await ingest(site.url("/p.pdf"))
        assert "cookie" not in site.requests[-1].headers


@pytest.mark.parametrize("address", ["169.254.169.254/latest/meta-data/", "10.0.0.1/", "[::1]/", "2130706434/", "0x7f.2/", "[::ffff:10.0.0.1]/"])  # fmt: skip
async def test_a_redirect_into_private_space_ends_before_a_connection(make_crawler: Any, address: str) -> None:
    async with Origin({"/a/b": redirect(f"http://{address}")}) as site:
        crawler = make_crawler(allow_networks=(site.network,))
        result = await crawler.ingest(IngestRequest("pdf", site.url("/a/b")))
    assert (result.status, result.terminal_url) == ("forbidden-address", site.url("/a/b"))
    assert result.hops == (site.url("/a/b"),)


# Bodies


@pytest.mark.parametrize("content_type", ["application/octet-stream", "application/x-download", "text/html", None])
async def test_a_pdf_under_any_label_is_a_pdf(ingest: Any, content_type: str | None) -> None:
    answer = reply(PDF, content_type=content_type, headers={"Content-Disposition": "attachment; filename=x"})
    async with Origin({"/p": answer}) as site:
        result = await ingest(site.url("/p"))
    assert (result.status, result.file_meta.mimetype) == (SUCCESS, "application/pdf")


@pytest.mark.parametrize("junk", [b"\n", b" " * 20, b"Warning: x in /y.php on line 3\n", b"j" * 900])
async def test_bytes_before_the_header_belong_to_the_file(ingest: Any, junk: bytes) -> None:
    async with Origin({"/p.pdf": pdf(junk + PDF)}) as site:
        result = await ingest(site.url("/p.pdf"))
    assert (result.status, result.terminal_sha1hex) == (SUCCESS, hashlib.sha1(junk + PDF).hexdigest())


async def test_a_pdf_far_behind_junk_is_none(ingest: Any) -> None:
    async with Origin({"/p.pdf": pdf(b"junk " * 1000 + PDF)}) as site:
        assert (await ingest(site.url("/p.pdf"))).status == "wrong-mimetype"


async def test_a_captcha_called_pdf_is_no_hit(ingest: Any) -> None:
    page = (
        b'<html><body><form><div class="g-recaptcha"></div>Please confirm that you are not a robot</form></body></html>'
    )
    async with Origin({"/p.pdf": reply(page, content_type="application/pdf")}) as site:
        result = await ingest(site.url("/p.pdf"))
    assert (result.status, result.hit) == ("blocked-captcha", False)


async def test_html_called_pdf_leads_on_if_it_says_where(ingest: Any) -> None:
    page = f"<html><head>{meta('/real.pdf')}</head></html>".encode()
    async with Origin({"/p.pdf": reply(page, content_type="application/pdf"), "/real.pdf": pdf()}) as site:
        assert (await ingest(site.url("/p.pdf"))).terminal_url == site.url("/real.pdf")


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Content-Length: 5000\r\n\r\n" + PDF,
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + b"%x\r\n" % len(PDF) + PDF + b"\r\n",
        OK + b"\r\n" + PDF[:-8],
        OK + b"Content-Encoding: gzip\r\nContent-Length: 60\r\n\r\n" + gzipped(PDF)[:60],
    ],
)
async def test_a_body_that_ends_early_is_truncated_and_due_again_soon(ingest: Any, answer: bytes) -> None:
    async with Origin({"/p.pdf": Raw(answer)}) as site:
        result = await ingest(site.url("/p.pdf"))
    assert (result.status, result.hit, result.next_try_class) == ("truncated-body", False, RetryClass.SOON)
    assert (result.terminal_url, result.terminal_status_code) == (site.url("/p.pdf"), 200)


async def test_a_pdf_without_its_end_mark_but_with_all_its_bytes_is_a_hit_with_a_warning(ingest: Any) -> None:
    async with Origin({"/p.pdf": pdf(PDF[:-8])}) as site:
        result = await ingest(site.url("/p.pdf"))
    assert (result.status, result.warnings) == (SUCCESS, ("missing-eof",))


@pytest.mark.parametrize(
    ("body", "status"),
    [(PDF, SUCCESS), (gzipped(PDF), SUCCESS), (b"\x00garbage\x01" * 50, "bad-gzip-encoding")],
)
async def test_a_gzip_label_is_believed_only_as_far_as_the_bytes_are(ingest: Any, body: bytes, status: str) -> None:
    async with Origin({"/p.pdf": reply(body, headers={"Content-Encoding": "gzip"})}) as site:
        result = await ingest(site.url("/p.pdf"))
    assert result.status == status
    assert result.terminal_sha1hex == (SHA1 if status == SUCCESS else None)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (reply(b""), "empty-blob"),
        (reply(status="204 No Content"), "empty-blob"),
        (reply(b"x", status="404 Not Found"), "terminal-bad-status"),
        (reply(b"x", status="999 Denied"), "terminal-bad-status"),
        (reply(status="304 Not Modified"), "bad-redirect"),
        (reply(b"\x89PNG\r\n\x1a\n"), "wrong-mimetype"),
        (reply(b"x", headers={"Content-Encoding": "x-secret"}), "bad-encoding"),
        (Raw(b"nonsense\r\n\r\n"), "bad-http"),
        (Raw(b""), "connect-error"),
        (Raw(b"", "reset"), "connect-error"),
        (Raw(OK + b"Content-Le"), "bad-http"),
        (Raw(OK + b"Content-Length: 900\r\n\r\n%PDF-", "reset"), "truncated-body"),
    ],
)
async def test_every_broken_answer_has_its_own_name(ingest: Any, answer: Any, status: str) -> None:
    async with Origin({"/p.pdf": answer}) as site:
        result = await ingest(site.url("/p.pdf"))
    assert (result.status, result.hit) == (status, False)
    assert site.url("/p.pdf") in result.error_message
    assert status in STATUSES


@pytest.mark.parametrize(("code", "retry"), [(404, "later"), (410, "never"), (403, "never"), (429, "soon"), (500, "soon"), (503, "soon")])  # fmt: skip
async def test_the_code_decides_when_a_bad_status_is_due_again(ingest: Any, code: int, retry: str) -> None:
    async with Origin({"/x": reply(b"x", status=f"{code} X")}) as site:
        assert (await ingest(site.url("/x"))).next_try_class.value == retry


async def test_a_body_without_an_end_stops_at_the_limit(make_crawler: Any) -> None:
    async def endless(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            await writer.drain()

    async with Origin({"/p.pdf": endless, "/next.pdf": pdf()}) as site:
        crawler = make_crawler(max_body_bytes=4 * 1024 * 1024)
        assert (await crawler.ingest(IngestRequest("pdf", site.url("/p.pdf")))).status == "body-too-large"
        assert (await crawler.ingest(IngestRequest("pdf", site.url("/next.pdf")))).hit


async def test_a_body_that_drips_stops_at_the_deadline(make_crawler: Any) -> None:
    async def drip(request: Request, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"\r\n%PDF-1.4\n")
        while not writer.is_closing():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with Origin({"/p.pdf": drip, "/next.pdf": pdf()}) as site:
        crawler = make_crawler(timeout=0.3, deadline=0.4)
        result = await crawler.ingest(IngestRequest("pdf", site.url("/p.pdf")))
        assert (result.status, result.terminal_status_code) == ("read-timeout", 200)
        assert (await crawler.ingest(IngestRequest("pdf", site.url("/next.pdf")))).hit


async def test_silence_is_a_read_timeout(make_crawler: Any) -> None:
    async with Origin({"/p.pdf": Raw(b"", "hang")}) as site:
        result = await make_crawler(timeout=0.2).ingest(IngestRequest("pdf", site.url("/p.pdf")))
    assert (result.status, result.terminal_url, result.hops) == ("read-timeout", None, (site.url("/p.pdf"),))


async def test_a_file_with_another_digest_than_expected_is_a_mismatch_that_keeps_its_facts(ingest: Any) -> None:
    async with Origin({"/p.pdf": pdf()}) as site:
        result = await ingest(site.url("/p.pdf"), expect_hash={"sha1": "0" * 40})
        right = await ingest(site.url("/p.pdf"), expect_hash={"sha1": SHA1.upper()})
    assert (result.status, result.hit, result.terminal_sha1hex) == ("hash-mismatch", False, SHA1)
    assert result.file_meta.size_bytes == len(PDF)
    assert right.hit


# XML and HTML


@pytest.mark.parametrize(
    ("document", "status"),
    [
        (b'\xef\xbb\xbf<?xml version="1.0" encoding="ISO-8859-1"?><article><p>\xc3\xa9</p></article>', SUCCESS),
        (b'<article article-type="x"><front/><body>no declaration</body></article>', SUCCESS),
        (b'<?xml version="1.0"?><TEI xmlns="http://www.tei-c.org/ns/1.0"><text/></TEI>', SUCCESS),
        (b'<!DOCTYPE article [<!ENTITY x SYSTEM "file:///etc/hostname">]><article><p>&x;</p></article>', SUCCESS),
        (b'<?xml version="1.0"?><article><p>never closed</article>', "xml-parse-error"),
        (b'<?xml version="1.0"?><article>' + b"<a>" * 5000, "xml-parse-error"),
        (b'<?xml version="1.0"?><rss version="2.0"></rss>', "wrong-mimetype"),
        (PDF, "wrong-mimetype"),
    ],
)  # fmt: skip
async def test_xml_is_a_hit_when_it_is_well_formed_full_text(ingest: Any, document: bytes, status: str) -> None:
    async with Origin({"/x": reply(document, content_type="text/plain")}) as site:
        result = await ingest(site.url("/x"), "xml")
    assert result.status == status
    assert result.terminal_sha1hex == hashlib.sha1(document).hexdigest()


async def test_a_landing_page_leads_to_its_xml(ingest: Any) -> None:
    jats = b"<article article-type='x'><front/></article>"
    async with Origin({"/a/b": html(meta("/x.xml", "citation_xml_url")), "/x.xml": reply(jats)}) as site:
        result = await ingest(site.url("/a/b"), "xml")
    assert (result.hit, result.file_meta.mimetype) == (True, "application/jats+xml")


ARTICLE = "<h1>On lupins</h1><h2>Introduction</h2><p>" + "word " * 200 + "</p><h2>Methods</h2><p>" + "word " * 100


async def test_a_page_that_is_the_article_is_the_hit(ingest: Any) -> None:
    async with Origin({"/a/b": html("", ARTICLE)}) as site:
        result = await ingest(site.url("/a/b"), "html")
    assert (result.status, result.terminal_url) == (SUCCESS, site.url("/a/b"))


async def test_a_landing_page_leads_to_the_article(ingest: Any) -> None:
    landing = html(meta("/full", "citation_fulltext_html_url"), "<p>An abstract of a few words.</p>")
    full = html(meta("/full/", "citation_fulltext_html_url"), "<p>" + "word " * 50)
    async with Origin({"/a/b": landing, "/full": full}) as site:
        result = await ingest(site.url("/a/b"), "html")
    assert (result.status, result.terminal_url) == (SUCCESS, site.url("/full"))


async def test_a_landing_page_without_the_article_is_of_the_wrong_scope(ingest: Any) -> None:
    async with Origin({"/a/b": html(meta("A title", "citation_title"), "<p>" + "word " * 100)}) as site:
        result = await ingest(site.url("/a/b"), "html")
    assert (result.status, result.file_meta.mimetype) == ("wrong-scope", "text/html")


async def test_a_page_without_an_element_is_not_html(ingest: Any) -> None:
    async with Origin({"/a/b": reply(b"<!-- nothing but a comment -->")}) as site:
        assert (await ingest(site.url("/a/b"), "html")).status == "html-parse-error"


# Walls


async def test_a_redirect_to_a_login_is_a_wall(ingest: Any) -> None:
    login = html("", '<form>Password <input type="password"></form>', title="Sign in")
    async with Origin({"/p.pdf": redirect("/user/login?next=/p.pdf"), "/user/login": login}) as site:
        result = await ingest(site.url("/p.pdf"))
    assert (result.status, result.terminal_url) == ("blocked-wall", site.url("/user/login?next=/p.pdf"))


async def test_a_login_behind_a_link_is_what_became_of_the_link(ingest: Any) -> None:
    login = html("", '<h1>Log in</h1><form><input type="password"></form>')
    async with Origin({"/a/b": html(meta("/p.pdf")), "/p.pdf": login}) as site:
        result = await ingest(site.url("/a/b"))
    assert (result.status, [c.outcome for c in result.candidates]) == ("blocked-wall", ["blocked-wall"])


async def test_whatever_a_page_says_can_be_stored_and_holds_nobodys_password(ingest: Any) -> None:
    head = (
        '<meta name="citation_title" content="T"><meta name="citation_doi" content="10.1234/x">'
        '<meta name="dc.rights" content="https://u:secret@h/license">'
        '<meta name="citation_pdf_url" content="//u:secret@[h/x.pdf">'
    )
    body = '<script>x = {"pdfUrl": "http://[\\ud800"}</script><a href="sftp://u:secret@h/x.pdf">PDF</a>'
    async with Origin({"/a": html(head, body)}) as site:
        result = await ingest(site.url("/a"))
    with contextlib.closing(sqlite3.connect(":memory:")) as conn:
        schema.migrate(conn)
        store.write(conn, result, job_id=1, now=datetime(2026, 11, 30, tzinfo=timezone.utc))
        written = "\n".join(conn.iterdump())
    assert "secret" not in written
    assert len(result.candidates) == 2
    assert result.html_meta.biblio["licence"] == "https://***@h/license"


async def test_digests_and_identifiers_of_odd_types_say_nothing(ingest: Any) -> None:
    async with Origin({"/a": html(meta("/p.pdf") + meta("10.1234/x", "citation_doi")), "/p.pdf": pdf()}) as site:
        result = await ingest(site.url("/a"), ext_ids={"doi": 5}, expect_hash={"sha1": None, "SHA-1": SHA1.upper()})
        wrong = await ingest(site.url("/p.pdf"), expect_hash={"SHA-256": "0" * 64})
    assert (result.hit, result.warnings) == (True, ())
    assert wrong.status == "hash-mismatch"
