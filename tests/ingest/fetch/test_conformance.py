"""One site asked for through every source: the verdicts are the same.

A source joins with a class in WORLDS that serves SITE its way.
"""

from __future__ import annotations

import contextlib
import gzip
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from unittest import mock
from urllib.parse import urljoin

import pytest

from datasette_ingest.ingest import settings
from datasette_ingest.ingest.fetch import spn2 as spn2_source
from datasette_ingest.ingest.model import IngestRequest, IngestResult

from ..conftest import MakeCrawler
from ..origin import PDF, Origin, reply
from .fakes.archive import FakeArchive
from .fakes.spn import CapturingArchive, Play

TIME = "20200101000000"


@dataclass(frozen=True)
class Page:
    """What the site answers at a path."""

    body: bytes = b""
    status: int = 200
    content_type: str = "text/html"
    headers: Mapping[str, str] = field(default_factory=dict)

    def reply(self) -> bytes:
        return reply(self.body, status=f"{self.status} So", content_type=self.content_type, headers=self.headers)


def pdf(body: bytes = PDF, **headers: str) -> Page:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Page(body, content_type="application/pdf", headers=named)


def to(location: str, status: int = 302) -> Page:
    return Page(status=status, headers={"Location": location})


def html(head: str = "", body: str = "") -> Page:
    return Page(f"<!doctype html><html><head>{head}</head><body>{body}</body></html>".encode())


JATS = b'<?xml version="1.0"?><article><front><article-meta/></front><body><p>x</p></body></article>'
WORDS = "Tides rise and fall by the pull of the moon, as everybody at the coast has seen. " * 120

SITE: dict[str, Page] = {
    "/a.pdf": pdf(),
    "/packed.pdf": pdf(gzip.compress(PDF), Content_Encoding="gzip"),
    "/unlabelled.pdf": pdf(gzip.compress(PDF)),
    "/mislabelled.pdf": pdf(PDF, Content_Encoding="gzip"),
    "/as-html.pdf": Page(PDF),
    "/cut.pdf": pdf(PDF[:40] + b"x" * 3000),
    "/large.pdf": pdf(PDF + b" " * 200_000),
    "/empty.pdf": pdf(b""),
    "/picture.png": Page(b"\x89PNG\r\n\x1a\n" + b"0" * 100, content_type="image/png"),
    "/a.xml": Page(JATS, content_type="text/xml"),
    "/broken.xml": Page(JATS[:-10], content_type="text/xml"),
    "/landing": html('<meta name="citation_pdf_url" content="/a.pdf">'),
    "/base": html('<base href="/files/"><meta name="citation_pdf_url" content="../a.pdf">'),
    "/linked": Page(b"<html><head></head><body>x</body></html>", headers={"Link": '</a.pdf>; rel="item"; type="application/pdf"'}),
    "/dangling": html('<meta name="citation_pdf_url" content="/none.pdf">'),
    "/circle": html('<meta name="citation_pdf_url" content="/circle">'),
    "/nothing": html(body="Nothing to see"),
    "/article": html("<title>Tides</title>", f"<article><h1>Tides</h1><p>{WORDS}</p></article>"),
    "/no-such": html("<title>Page not found</title>", "<h1>404 Not Found</h1><p>The page you requested was not found.</p>"),
    "/checked": html("<title>Just a moment...</title>", '<form id="challenge-form" action="/cdn-cgi/challenge">x</form>'),
    "/gone": Page(b"<p>gone", 410),
    "/forbidden": Page(b"<p>no", 403),
    "/broken": Page(b"<p>error", 503),
    "/to-a": to("/a.pdf"),
    "/to-a-301": to("a.pdf", 301),
    "/to-landing": to("/landing", 303),
    "/to-itself": to("/to-itself"),
    "/to-and": to("/to-fro"),
    "/to-fro": to("/to-and"),
    "/to-none": to("/none.pdf"),
    "/to-nowhere": Page(status=302),
    "/to-ftp": to("ftp://h.example/a.pdf"),
    "/to-listed": to("/listed.pdf"),
    "/to-login": to("/login?from=a"),
    "/login?from=a": html("<title>Sign in</title>", "<h1>Sign in</h1><form><input type=password></form>"),
    "/listed.pdf": pdf(),
}  # fmt: skip


class World(Protocol):
    """Serves the site through one source."""

    def __call__(self, pages: Mapping[str, Page]) -> contextlib.AbstractAsyncContextManager[tuple[str, dict[str, Any]]]:
        """(the site's address, settings that ask for it through the source)."""


@contextlib.asynccontextmanager
async def live(pages: Mapping[str, Page]) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    async with Origin({path: page.reply() for path, page in pages.items()}) as site:
        yield site.url(""), {"sources": ("live",)}


def capture(archive: FakeArchive, pages: Mapping[str, Page], path: str, address: str, time: str) -> None:
    """Put what the site answers at a path into an archive."""
    page = pages.get(path, Page(b"<h1>Nothing here</h1>", 404))
    headers = {("X-Archive-Orig-Link" if name == "Link" else name): value for name, value in page.headers.items()}
    location = headers.pop("Location", None)
    archive.add(
        address + path,
        time,
        page.body,
        status=page.status,
        mimetype=page.content_type,
        headers=headers,
        location=None if location is None else location.encode(),
    )


@contextlib.asynccontextmanager
async def wayback(pages: Mapping[str, Page]) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    address, archive = "http://site.example", FakeArchive()
    for path in (*pages, "/none.pdf"):
        capture(archive, pages, path, address, TIME)
    async with Origin(archive) as site:
        yield address, archive.settings(site)


@contextlib.asynccontextmanager
async def spn2(pages: Mapping[str, Page]) -> AsyncIterator[tuple[str, dict[str, Any]]]:
    address = "http://site.example"

    def visited(url: str) -> str | None:
        """Where the service's browser ends; None: it gives up."""
        for _ in range(5):
            page = pages.get(url.removeprefix(address))
            if page is None or "Location" not in page.headers:
                return url
            url = urljoin(url, page.headers["Location"])
        return None

    plays = {}
    for path in pages:
        final = visited(address + path)
        plays[address + path] = Play(0, final=final, code=None if final else "too-many-redirects")
    archive = CapturingArchive(
        plays, lambda url, time: capture(archive, pages, url.removeprefix(address), address, time)
    )
    # Captures are finished at once.
    with mock.patch.object(spn2_source, "FIRST_POLL", 0.0):
        async with Origin(archive) as site:
            yield address, archive.settings(site)


WORLDS: dict[str, World] = {"live": live, "wayback": wayback, "spn2": spn2}
OTHER_WORDS = {"spn2": {"/to-itself": "too-many-redirects", "/to-and": "too-many-redirects", "/to-ftp": "spn2-no-ftp"}}
"""What the capture service says of redirects that it follows itself."""

VERDICTS = [
    ("pdf", "/a.pdf", "success"),
    ("pdf", "/packed.pdf", "success"),
    ("pdf", "/unlabelled.pdf", "success"),
    ("pdf", "/mislabelled.pdf", "success"),
    ("pdf", "/as-html.pdf", "success"),
    ("pdf", "/cut.pdf", "success"),
    ("pdf", "/large.pdf", "body-too-large"),
    ("pdf", "/empty.pdf", "empty-blob"),
    ("pdf", "/picture.png", "wrong-mimetype"),
    ("pdf", "/landing", "success"),
    ("pdf", "/base", "success"),
    ("pdf", "/linked", "success"),
    ("pdf", "/dangling", "terminal-bad-status"),
    ("pdf", "/circle", "link-loop"),
    ("pdf", "/nothing", "no-pdf-link"),
    ("pdf", "/no-such", "soft-404"),
    ("pdf", "/checked", "blocked-captcha"),
    ("pdf", "/gone", "terminal-bad-status"),
    ("pdf", "/forbidden", "terminal-bad-status"),
    ("pdf", "/broken", "terminal-bad-status"),
    ("pdf", "/to-a", "success"),
    ("pdf", "/to-a-301", "success"),
    ("pdf", "/to-landing", "success"),
    ("pdf", "/to-itself", "redirect-loop"),
    ("pdf", "/to-and", "redirect-loop"),
    ("pdf", "/to-none", "terminal-bad-status"),
    ("pdf", "/to-nowhere", "bad-redirect"),
    ("pdf", "/to-ftp", "bad-scheme"),
    ("pdf", "/to-listed", "skip-url-blocklist"),
    ("pdf", "/to-login", "blocked-wall"),
    ("xml", "/a.xml", "success"),
    ("xml", "/broken.xml", "xml-parse-error"),
    ("xml", "/a.pdf", "wrong-mimetype"),
    ("html", "/article", "success"),
    ("html", "/no-such", "soft-404"),
    ("html", "/nothing", "wrong-scope"),
]


def test_every_source_is_tried() -> None:
    assert set(WORLDS) == set(settings.SOURCES)


@pytest.mark.parametrize("source", WORLDS)
@pytest.mark.parametrize(("kind", "path", "status"), VERDICTS)
async def test_the_same_site_gives_the_same_verdict(
    make_crawler: MakeCrawler, source: str, kind: str, path: str, status: str
) -> None:
    async with WORLDS[source](SITE) as (address, how):
        crawler = make_crawler(**how, max_body_bytes=100_000, blocklist=("/listed",))
        result: IngestResult = await crawler.ingest(IngestRequest(kind, address + path))
    assert (result.status, result.via) == (OTHER_WORDS.get(source, {}).get(path, status), source)
    assert result.hops[0] == address + path
    if result.hit:
        assert result.file_meta is not None and result.terminal is not None
        assert result.terminal.status_code == 200 and result.hops[-1] == result.terminal_url
        assert result.file_meta.size_bytes in (len(PDF), len(JATS), len(SITE[path].body))
    elif path in ("/gone", "/forbidden", "/broken", "/to-none"):
        assert result.terminal_status_code in (403, 404, 410, 503)
