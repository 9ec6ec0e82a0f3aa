"""The captures of a web archive: which one is taken, how redirects are followed, what is a miss."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from datasette_ingest.ingest.fetch.wayback import timestamp_of
from datasette_ingest.ingest.model import IngestRequest, IngestResult

from ..conftest import MakeCrawler
from ..origin import PDF, Origin, Raw, reply
from .fakes.archive import FIELDS_11, FakeArchive, Held, delivered

A, B = "http://h.example/a.pdf", "https://h.example/b.pdf"
T = "20200101000000"
LATER = "20210101000000"


class Past:
    """An archive, and a crawler that asks it."""

    def __init__(self, make_crawler: MakeCrawler) -> None:
        self.archive = FakeArchive()
        self.make_crawler = make_crawler
        self.settings: dict[str, Any] = {}

    async def ask(self, url: str = A, kind: str = "pdf", **request: Any) -> IngestResult:
        async with Origin(self.archive) as self.site:
            crawler = self.make_crawler(**self.archive.settings(self.site, **self.settings))
            return await crawler.ingest(IngestRequest(kind, url, **request))


@pytest_asyncio.fixture
async def past(make_crawler: MakeCrawler) -> AsyncIterator[Past]:
    yield Past(make_crawler)


# What a capture is


async def test_a_capture_is_a_hit_with_its_time_its_index_entry_and_its_address(past: Past) -> None:
    past.archive.fields = FIELDS_11
    past.archive.add(A, T, PDF)
    result = await past.ask()
    assert (result.status, result.via, result.hops) == ("success", "wayback", (A,))
    assert (result.terminal_url, result.terminal_dt, result.terminal_status_code) == (A, T, 200)
    assert result.terminal is not None
    assert result.terminal.archive_url == past.site.url(f"/web/{T}/{A}")
    cdx = result.cdx
    assert cdx is not None and result.revisit_cdx is None
    assert (cdx.url, cdx.datetime, cdx.mimetype) == (A, T, "application/pdf")
    assert cdx.sha1hex == cdx.cdx_sha1hex == result.terminal_sha1hex
    assert (cdx.warc_path, cdx.warc_offset, cdx.warc_csize) == ("warcs/one.warc.gz", 17, len(PDF))


async def test_a_digest_of_other_bytes_is_kept_beside_that_of_the_body(past: Past) -> None:
    past.archive.add(A, T, PDF, digest="A" * 32)
    result = await past.ask()
    assert result.hit and result.cdx is not None
    assert (result.cdx.cdx_sha1hex, result.cdx.sha1hex) == ("0" * 40, result.terminal_sha1hex)


@pytest.mark.parametrize("form", ["json", "lines", "text"])
@pytest.mark.parametrize("counts_back", [True, False])
@pytest.mark.parametrize("fields", [FakeArchive().fields, FIELDS_11], ids=["7 columns", "11 columns"])
async def test_the_newest_of_many_captures_is_taken_whatever_the_server(
    past: Past, form: str, counts_back: bool, fields: tuple[str, ...]
) -> None:
    past.archive.form, past.archive.counts_back, past.archive.fields = form, counts_back, fields
    for year in range(1960, 2021):
        past.archive.add(A, f"{year}0101000000", PDF)
    result = await past.ask()
    assert (result.status, result.terminal_dt) == ("success", T)


async def test_rows_of_rubbish_are_passed_over(past: Past) -> None:
    past.archive.add(A, T, PDF)
    past.archive.extra_rows = [
        [],
        ["-"] * 7,
        ["example,h)/a.pdf", "20000800241623", A, "text/html", "200", "-", "-"],
        ["example,h)/a.pdf", LATER],
        ["example,h)/a.pdf", "2021", A, "text/html", "200", "-", "-"],
    ]
    past.archive.extra_rows.sort(key=len, reverse=True)
    assert (await past.ask()).terminal_dt == T


@pytest.mark.parametrize(
    ("rows", "taken"),
    [
        # (url, time, status, type); the first is the one that is wanted
        ([(A, T, 200, "application/pdf"), (A, "20190101000000", 200, "application/pdf")], 0),
        ([("https://h.example/a.pdf", LATER, 302, "text/html"), (A, T, 200, "application/pdf")], 1),
        ([("http://www.h.example/a.pdf", LATER, 200, "application/pdf"), (A, T, 200, "application/pdf")], 1),
        ([(A, LATER, 404, "text/html"), (A, T, 200, "application/pdf")], 1),
        ([(A, LATER, 503, "text/html"), ("https://h.example/a.pdf", T, 200, "application/pdf")], 1),
        ([(A, LATER, 200, "text/html"), (A, T, 200, "application/pdf")], 1),
        ([("http://h.example:80/a.pdf", T, 200, "application/pdf")], 0),
    ],
)
async def test_a_good_capture_of_the_url_itself_comes_first(
    past: Past, rows: list[tuple[str, str, int, str]], taken: int
) -> None:
    for url, time, status, mimetype in rows:
        past.archive.add(url, time, PDF if mimetype == "application/pdf" else b"<p>", status=status, mimetype=mimetype)
    result = await past.ask()
    assert result.hit and result.cdx is not None
    assert (result.cdx.url, result.terminal_dt) == (rows[taken][0], rows[taken][1])


async def test_a_revisit_has_the_body_of_the_capture_that_it_repeats(past: Past) -> None:
    first = past.archive.add("https://h.example/a.pdf", T, PDF)
    past.archive.add(A, LATER, repeats=first)
    result = await past.ask()
    assert (result.status, result.terminal_dt) == ("success", LATER)
    assert result.cdx is not None and result.revisit_cdx is not None
    assert (result.cdx.datetime, result.revisit_cdx.datetime) == (T, LATER)
    assert result.cdx.sha1hex == result.revisit_cdx.sha1hex == result.terminal_sha1hex


async def test_a_revisit_of_an_unknown_capture_is_asked_for_all_the_same(past: Past) -> None:
    past.archive.add(A, T, repeats=Held(A, "20100101000000", PDF, mimetype="application/pdf"))
    assert (await past.ask()).status == "success"


async def test_a_row_of_a_revisit_of_a_server_error_is_no_hit(past: Past) -> None:
    past.archive.add(A, T, repeats=Held(A, "20100101000000", b"<p>", status=503))
    assert (await past.ask()).status == "wayback-content-error"


# Times


@pytest.mark.parametrize(
    ("as_of", "taken"), [("2016", "20150101000000"), ("2018-12-31", "20190101000000"), ("2030-01-01T00:00:00Z", T)]
)
async def test_the_capture_nearest_to_a_date(past: Past, as_of: str, taken: str) -> None:
    for time in ("20150101000000", "20190101000000", T):
        past.archive.add(A, time, PDF)
    assert (await past.ask(as_of=as_of)).terminal_dt == taken


async def test_a_date_that_is_none_is_said(past: Past) -> None:
    result = await past.ask(as_of="last week")
    assert (result.status, result.error_message) == (
        "invalid-url",
        "as_of: 'last week' is not a date; write it as 2020-03-31",
    )


@pytest.mark.parametrize("text", ["2020", "202003", "2020-03-01", "2020-03-01T10:20", "2020-03-01 10:20:30.5Z", T])
def test_dates_in_usual_forms_are_read(text: str) -> None:
    assert timestamp_of(text).startswith("2020")


@pytest.mark.parametrize(
    "text", ["", "20", "2020-13", "2020-02-30", "1 May 2020", "2020-01-01T25:00", "0000", "２０２０"]
)
def test_other_dates_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a date; write it as"):
        timestamp_of(text)


@pytest.mark.parametrize("where", ["setting", "request"])
async def test_a_capture_that_is_too_old_counts_as_missing(past: Past, where: str) -> None:
    past.archive.add(A, T, PDF)
    past.settings = {"max_capture_age_days": 30.0} if where == "setting" else {}
    result = await past.ask(max_capture_age_days=30.0 if where == "request" else None)
    assert (result.status, result.terminal_url, result.terminal_dt) == ("no-capture", A, None)
    assert "is of 1 January 2020, which is too old" in str(result.error_message)
    assert not past.archive.replayed


async def test_the_requests_own_age_goes_before_the_setting(past: Past) -> None:
    past.archive.add(A, T, PDF)
    past.settings = {"max_capture_age_days": 30.0}
    assert (await past.ask(max_capture_age_days=1e9)).hit


async def test_a_revisit_makes_an_old_capture_young_again(past: Past) -> None:
    first = past.archive.add(A, "20100101000000", PDF)
    past.archive.add(A, LATER, repeats=first)
    past.settings = {"max_capture_age_days": 365.25 * 12}
    assert (await past.ask()).terminal_dt == LATER


# Redirects


async def test_archived_redirects_are_followed_near_their_time(past: Past) -> None:
    past.archive.redirect(A, T, B)
    past.archive.add(B, "20200101000005", PDF)
    past.archive.add(B, LATER, PDF + b" ")
    result = await past.ask()
    assert (result.status, result.hops) == ("success", (A, B))
    assert (result.terminal_url, result.terminal_dt) == (B, "20200101000005")


@pytest.mark.parametrize(
    ("location", "target"),
    [
        (b"https://h.example/b.pdf", B),
        (b"/b.pdf", "http://h.example/b.pdf"),
        (b"b.pdf", "http://h.example/b.pdf"),
        (b"//h.example/b.pdf", "http://h.example/b.pdf"),
        (b"/web/20200101000000id_/h.example/b.pdf", "http://h.example/b.pdf"),
        (b"//web.archive.org/web/20200101000000id_/https://h.example/b.pdf", B),
        (b"https://web.archive.org/web/20200101000000id_/https:/h.example/b.pdf", B),
        (b"/web/20200101000000id_//b.pdf", "http://h.example/b.pdf"),
        (b"/web/20200101000000/https%3A%2F%2Fh.example%2Fb.pdf", B),
        ("/ü.pdf".encode(), "http://h.example/%C3%BC.pdf"),
        ("/ü.pdf".encode("latin-1"), "http://h.example/%FC.pdf"),
        (b"/web/20200101000000id_/http://h.example/\xfc.pdf", "http://h.example/%FC.pdf"),
        (b"/b.pdf?to=http://other.example/", "http://h.example/b.pdf?to=http://other.example/"),
    ],
)
async def test_a_captured_location_is_read_in_every_form(past: Past, location: bytes, target: str) -> None:
    past.archive.redirect(A, T, "", location=location)
    past.archive.add(target, T, PDF)
    result = await past.ask()
    assert (result.status, result.hops) == ("success", (A, target))


@pytest.mark.parametrize(
    ("location", "status"),
    [
        (None, "bad-redirect"),
        (b"  ", "bad-redirect"),
        (b"http://[", "bad-redirect"),
        (b"ftp://h.example/b", "bad-scheme"),
    ],
)
async def test_a_captured_redirect_to_nowhere(past: Past, location: bytes | None, status: str) -> None:
    past.archive.add(A, T, status=302, location=location)
    assert (await past.ask()).status == status


@pytest.mark.parametrize(
    ("headers", "status"), [({"X-Archive-Redirect-Reason": "found capture"}, "success"), ({}, "wayback-error")]
)
async def test_a_redirect_says_by_its_reason_that_it_is_a_capture(
    past: Past, headers: dict[str, str | bytes], status: str
) -> None:
    past.archive.redirect(A, T, B, is_proven=False, headers=headers)
    past.archive.add(B, T, PDF)
    assert (await past.ask()).status == status


async def test_the_reason_of_a_redirect_proves_no_page(past: Past) -> None:
    past.archive.add(A, T, PDF, is_proven=False, headers={"X-Archive-Redirect-Reason": "found capture"})
    assert (await past.ask()).status == "wayback-error"


async def test_neither_index_nor_replay_is_asked_to_compress(past: Past) -> None:
    past.archive.add(A, T, PDF)
    assert (await past.ask()).hit
    assert [(one.target[:4], one.headers["accept-encoding"]) for one in past.site.requests] == [
        ("/cdx", "identity"),
        ("/web", "identity"),
    ]


async def test_the_target_of_a_redirect_that_was_not_captured_is_what_is_missing(past: Past) -> None:
    past.archive.redirect(A, T, B)
    result = await past.ask()
    assert (result.status, result.hops) == ("no-capture", (A, B))
    assert (result.terminal_url, result.terminal_dt, result.terminal_status_code) == (B, None, None)


async def test_redirects_in_a_circle(past: Past) -> None:
    past.archive.redirect(A, T, B)
    past.archive.redirect(B, T, A)
    assert (await past.ask()).status == "redirect-loop"


async def test_a_redirect_from_http_to_https_is_none_in_a_circle(past: Past) -> None:
    past.archive.redirect(A, T, "https://h.example/a.pdf")
    past.archive.add("https://h.example/a.pdf", T, PDF)
    result = await past.ask()
    assert (result.status, result.hops) == ("success", (A, "https://h.example/a.pdf"))
    assert len(past.archive.questions) == 1, "both were listed at once"


async def test_25_redirects_are_followed_and_no_more(past: Past) -> None:
    for number in range(26):
        past.archive.redirect(f"http://h.example/{number}", T, f"http://h.example/{number + 1}")
    past.archive.add("http://h.example/26", T, PDF)
    assert (await past.ask("http://h.example/1")).status == "success"
    assert (await past.ask("http://h.example/0")).status == "redirects-exceeded"


async def test_a_redirect_to_a_url_that_is_refused_ends_there(past: Past) -> None:
    past.settings = {"blocklist": ("/b.pdf",)}
    past.archive.redirect(A, T, B)
    past.archive.add(B, T, PDF)
    assert (await past.ask()).status == "skip-url-blocklist"


async def test_the_nearest_capture_is_taken_where_the_archive_leads_to_it(past: Past) -> None:
    past.archive.add(A, T, PDF)
    past.archive[f"/web/{T}id_/{A}"] = reply(
        status="302 Found", headers={"Location": f"/web/20200101000009id_/{A}"}, content_type=None
    )
    past.archive[f"/web/20200101000009id_/{A}"] = delivered(Held(A, "20200101000009", PDF, mimetype="application/pdf"))
    result = await past.ask()
    assert (result.status, result.terminal_dt, result.hops) == ("success", "20200101000009", (A,))


# What the archive does not deliver


async def test_what_was_never_captured(past: Past) -> None:
    result = await past.ask()
    assert (result.status, result.via, result.hops) == ("no-capture", "wayback", (A,))
    assert (result.terminal_url, result.terminal_dt) == (A, None)


async def test_a_captured_error_is_an_error_with_its_capture(past: Past) -> None:
    past.archive.add(A, T, b"<p>", status=404)
    result = await past.ask()
    assert (result.status, result.terminal_status_code, result.terminal_dt) == ("terminal-bad-status", 404, T)
    assert result.terminal is not None and result.terminal.archive_url == past.site.url(f"/web/{T}/{A}")
    assert not past.archive.replayed


async def test_a_site_that_is_excluded_by_the_index(past: Past) -> None:
    past.archive.excluded = {"h.example"}
    result = await past.ask()
    assert (result.status, result.next_try_class) == ("wayback-content-error", "never")
    assert len(past.archive.questions) == 1


@pytest.mark.parametrize(
    "answer",
    [
        reply(
            b"no", status="403 Forbidden", headers={"X-Archive-Wayback-Runtime-Error": "x RobotAccessControlException"}
        ),
        reply(b"<html><p>This URL has been excluded from the Wayback Machine.</p></html>"),
    ],
)
async def test_a_site_that_is_excluded_by_the_replay(past: Past, answer: bytes) -> None:
    past.archive.add(A, T, PDF)
    past.archive[f"/web/{T}id_/{A}"] = answer
    assert (await past.ask()).status == "wayback-content-error"


@pytest.mark.parametrize(
    "answer",
    [
        reply(PDF, content_type="application/pdf"),
        reply(b"<p>", status="404 Not Found"),
        reply(b"<p>", status="502 Bad Gateway"),
        reply(status="302 Found", headers={"Location": "https://h.example/b.pdf"}),
        Raw(b"HTTP/1.1 200 OK\r\nX-Archive-Src: one.warc\r\nContent-Length: 5000\r\n\r\n%PDF-1.4"),
        Raw(b"nonsense\r\n\r\n"),
        Raw(b"", "reset"),
    ],
    ids=["no proof", "lost", "502", "redirect without proof", "short", "no HTTP", "reset"],
)
async def test_what_is_not_the_capture_is_tried_again_later(past: Past, answer: Any) -> None:
    past.archive.add(A, T, PDF)
    past.archive[f"/web/{T}id_/{A}"] = answer
    result = await past.ask()
    assert (result.status, result.next_try_class) == ("wayback-error", "soon")


async def test_a_captured_503_behind_an_index_row_of_a_200(past: Past) -> None:
    past.archive.add(A, T, PDF)
    past.archive[f"/web/{T}id_/{A}"] = delivered(Held(A, T, b"<p>", status=503))
    assert (await past.ask()).status == "wayback-content-error"


async def test_an_archive_that_fails_twice_is_asked_a_third_time(past: Past) -> None:
    past.archive.add(A, T, PDF)
    past.archive.faults = {
        "/cdx": [reply(b"", status="504 Gateway Timeout"), Raw(b"", "reset")],
        "/web": [reply(b"", status="503 Busy"), reply(b"", status="500 No")],
    }
    assert (await past.ask()).status == "success"


@pytest.mark.parametrize(
    "answer",
    [
        reply(b"<html>We are down</html>"),
        reply(b'[["urlkey", "timestamp"'),
        reply(b"no idea"),
        reply(b'{"error": "boom"}\n'),
        reply(b"bad", status="400 Bad Request"),
        reply(b"", status="503 Busy"),
        reply(b"[1, 2]"),
    ],
)
async def test_an_index_that_cannot_be_read_is_tried_again_later(past: Past, answer: bytes) -> None:
    past.archive.add(A, T, PDF)
    past.archive.faults["/cdx"] = [answer] * 3
    result = await past.ask()
    assert (result.status, result.next_try_class, result.terminal) == ("cdx-error", "soon", None)


# Encodings


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Encoding": ""},
        {"Content-Encoding": "gzip"},
        {"Content-Encoding": "gzip, gzip"},
        {},
        {"Content-Encoding": "x"},
    ],
)
@pytest.mark.parametrize("is_packed", [True, False])
async def test_the_bytes_say_how_they_are_encoded(past: Past, headers: dict[str, str], is_packed: bool) -> None:
    body = gzip.compress(PDF) if is_packed else PDF
    past.archive.add(A, T, body, headers=headers, mimetype="application/pdf")
    result = await past.ask()
    assert result.hit and result.file_meta is not None and result.file_meta.size_bytes == len(PDF)


@pytest.mark.parametrize("is_packed", [True, False])
async def test_the_archives_copy_of_a_label_counts(past: Past, is_packed: bool) -> None:
    brotli = pytest.importorskip("brotli")
    text = b"%PDF-1.4\n" + b"words " * 100 + b"\n%%EOF\n"
    past.archive.add(
        A,
        T,
        brotli.compress(text) if is_packed else text,
        headers={"Content-Encoding": "", "X-Archive-Orig-Content-Encoding": "br"},
        mimetype="application/pdf",
    )
    result = await past.ask()
    assert result.hit and result.file_meta is not None and result.file_meta.size_bytes == len(text)


async def test_a_body_is_limited_as_ever(past: Past) -> None:
    past.settings = {"max_body_bytes": 1000}
    past.archive.add(A, T, PDF + b" " * 1000)
    assert (await past.ask()).status == "body-too-large"


async def test_a_large_body_goes_to_disk_as_ever(past: Past) -> None:
    body = PDF[:-6] + b"%" + b"x" * 3_000_000 + b"\n%%EOF\n"
    past.archive.add(A, T, body)
    result = await past.ask()
    assert result.hit and result.file_meta is not None and result.file_meta.size_bytes == len(body)


async def test_an_empty_capture(past: Past) -> None:
    past.archive.add(A, T, b"")
    assert (await past.ask()).status == "empty-blob"


# Addresses of captures, and what is refused


@pytest.mark.parametrize(
    "url",
    [
        f"https://web.archive.org/web/{T}/{A}",
        f"http://web.archive.org/web/{T}id_/{A}",
        f"https://web.archive.org/web/2020if_/{A}",
        f"https://www.web.archive.org/{T}/{A}",
        f"https://web.archive.org/web/{T}/h.example/a.pdf",
    ],
)
@pytest.mark.parametrize("sources", [("live",), ("wayback",), ("live", "wayback")])
async def test_the_address_of_a_capture_is_that_capture(past: Past, url: str, sources: tuple[str, ...]) -> None:
    past.archive.add(A, T, PDF)
    past.archive.add(A, LATER, PDF + b" ")
    past.settings = {"sources": sources}
    result = await past.ask(url)
    assert (result.status, result.via, result.terminal_url, result.terminal_dt) == ("success", "wayback", A, T)
    assert result.hops == (url, A) and not past.archive.questions


async def test_the_links_of_a_captured_page_are_those_of_its_time(past: Past) -> None:
    page = b'<html><head><meta name="citation_pdf_url" content="/a.pdf"></head><body>x</body></html>'
    past.archive.add("http://h.example/", T, page)
    past.archive.add(A, "20200101000003", PDF)
    past.archive.add(A, LATER, PDF)
    past.settings = {"sources": ("live",)}
    result = await past.ask(f"https://web.archive.org/web/{T}/http://h.example/")
    assert (result.status, result.terminal_dt) == ("success", "20200101000003")


async def test_an_address_of_a_capture_that_does_not_exist(past: Past) -> None:
    result = await past.ask(f"https://web.archive.org/web/{T}/{A}")
    assert (result.status, result.terminal_url) == ("no-capture", A)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("https://archive.org/details/frogs", "give the address of a file, archive.org/download/ITEM/FILE"),
        ("https://web.archive.org/web/*/http://h.example/", "give the address of a capture"),
        ("https://archive.org/about/", "give the address of a capture"),
        ("https://web.archive.org/", "give the address of a capture"),
    ],
)
@pytest.mark.parametrize("sources", [("live",), ("wayback",)])
async def test_other_pages_of_the_archive_say_why_not(
    past: Past, url: str, says: str, sources: tuple[str, ...]
) -> None:
    past.settings = {"sources": sources}
    result = await past.ask(url)
    assert (result.status, result.hops) == ("not-implemented", ())
    assert says in str(result.error_message)


@pytest.mark.parametrize(
    "url", ["http://10.0.0.1/a", "http://2130706433/", "http://[::1]/", "http://localhost/a", "http://x.localhost/"]
)
@pytest.mark.parametrize("prefix", ["", f"https://web.archive.org/web/{T}/"])
async def test_no_archive_is_told_of_a_private_address(past: Past, url: str, prefix: str) -> None:
    past.settings = {"allow_networks": ()}
    result = await past.ask(prefix + url)
    assert (result.status, result.hops, past.archive.questions) == ("forbidden-address", (), [])


async def test_the_blocklist_holds_for_captures(past: Past) -> None:
    past.settings = {"blocklist": ("h.example",)}
    for url in (A, f"https://web.archive.org/web/{T}/{A}"):
        assert (await past.ask(url)).status == "skip-url-blocklist"
    assert not past.archive.questions and not past.archive.replayed


@pytest.mark.parametrize("url", ["http://me:secret@h.example/a.pdf", "https://secret@h.example/a.pdf"])
@pytest.mark.parametrize("before", ["", "https://web.archive.org/web/2020/"])
async def test_no_password_in_a_url_is_told_to_an_archive(past: Past, url: str, before: str) -> None:
    past.archive.add(A, T, PDF)
    result = await past.ask(before + url)
    assert result.status == "not-implemented"
    assert (past.archive.questions, past.archive.replayed) == ([], [])
    assert "secret" not in (result.error_message or "")


async def test_a_link_with_a_password_is_not_told_to_an_archive(past: Past) -> None:
    page = b'<head><meta name="citation_pdf_url" content="http://me:secret@h.example/a.pdf"></head>'
    past.archive.add("http://h.example/page", T, page, mimetype="text/html")
    past.archive.add(A, T, PDF)
    result = await past.ask("http://h.example/page")
    assert result.status == "not-implemented"
    assert not any("secret" in text for text in [*map(str, past.archive.questions), *past.archive.replayed])


@pytest.mark.parametrize("time", ["20000800241623", "20201301000000", "9999999999999"])
async def test_links_of_a_capture_of_a_time_that_does_not_exist_are_asked_for(past: Past, time: str) -> None:
    past.archive.add("http://h.example/page", time, b'<head><meta name="citation_pdf_url" content="/a.pdf"></head>')
    past.archive.add(A, T, PDF)
    result = await past.ask(f"https://web.archive.org/web/{time}/http://h.example/page")
    assert (result.status, result.terminal_dt) == ("success", T)


@pytest.mark.parametrize("time", ["20000800241623", "20201301000000"])
async def test_redirects_of_a_capture_of_a_time_that_does_not_exist_are_followed(past: Past, time: str) -> None:
    past.archive.redirect("http://h.example/old", time, "https://h.example/old")
    past.archive.add("https://h.example/old", T, PDF)
    result = await past.ask(f"https://web.archive.org/web/{time}/http://h.example/old")
    assert (result.status, result.terminal_dt) == ("success", T)


@pytest.mark.parametrize("time", ["2", "0", "20191", "1999"])
async def test_links_of_an_address_with_a_part_of_a_time_are_asked_for(past: Past, time: str) -> None:
    past.archive.add("http://h.example/page", T, b'<head><meta name="citation_pdf_url" content="/a.pdf"></head>')
    past.archive.add(A, T, PDF)
    result = await past.ask(f"https://web.archive.org/web/{time}/http://h.example/page")
    assert (result.status, result.terminal_dt) == ("success", T)


async def test_a_capture_of_which_the_archive_says_no_time_is_no_capture(past: Past) -> None:
    past.archive.add(A, "00000000000000", PDF)
    result = await past.ask(f"https://web.archive.org/web/00000000000000/{A}")
    assert result.status == "wayback-error"
