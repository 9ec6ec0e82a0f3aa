"""A person searches a word, sees it in its sentence beside the first page, opens the file, and finds it in the table."""

from __future__ import annotations

import pathlib
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from datasette_ingest.ingest.settings import CrawlSettings
from datasette_ingest.ingest.sinks import store_of

from .conftest import ROOT, in_a_loop
from .test_browser import Served, browser  # noqa: F401 - a fixture
from .test_search import Archive, sha1

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PDF = b"""%PDF-1.4
1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj
2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj
3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 280]>>endobj
trailer<</Root 1 0 R>>
%%EOF
"""


def picture(width: int = 200, height: int = 280) -> bytes:
    """A grey page as PNG (https://www.w3.org/TR/png/)."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    lines = (b"\0" + b"\xdd" * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


@pytest.fixture
def served(tmp_path: pathlib.Path) -> Iterator[Served]:
    archive = Archive(tmp_path / "works.db")
    archive.document(
        1, "Light and heat. The mitochondrion makes energy for the cell, by <i>night</i> and day.", "Of cells"
    )
    archive.document(2, "The cell again.", "Of more cells")
    archive.sql("update ingest_thumbnail set content = ?, mimetype = 'image/png'", picture())
    archive.sql(
        "insert into file_meta (sha1hex, size_bytes, mimetype) values (?, ?, 'application/pdf')", sha1(1), len(PDF)
    )
    root = str(tmp_path / "store")
    store = store_of(CrawlSettings(store=root))
    assert store is not None
    in_a_loop(lambda: store.keep("body", sha1(1), "application/pdf", PDF))
    here = Served(archive.path, {"plugins": {"datasette-ingest": {"run_jobs": False, "store": root}}})
    yield here
    here.stop()


@pytest.mark.parametrize("width", [360, 1280])
def test_from_a_word_to_the_file_and_its_row(browser: Any, served: Served, width: int) -> None:  # noqa: F811 - the fixture
    context = browser.new_context(viewport={"width": width, "height": 800})
    context.add_cookies([served.cookie(ROOT)])
    page = context.new_page()
    page.goto(f"{served.origin}/-/ingest-search/works")
    page.get_by_label("Words in the files").fill("mitochondri* energy")
    page.keyboard.press("Enter")
    page.wait_for_url("**?q=*")
    found = page.locator(".ingest-documents > li")
    assert found.count() == 1
    assert found.locator("mark").all_inner_texts() == ["mitochondrion", "energy"]
    assert "by <i>night</i> and day." in found.inner_text()
    page.wait_for_function("document.querySelector('.ingest-page1 img')?.naturalWidth === 200")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    link = found.get_by_role("link", name="Of cells")
    answer = context.request.get(served.origin + str(link.get_attribute("href")))
    assert (answer.status, answer.headers["content-type"], answer.body()) == (200, "application/pdf", PDF)
    assert answer.headers["content-disposition"].startswith("inline")

    found.get_by_role("link", name="11", exact=True).click()
    cell = page.locator("td.col-ingest_terminal_sha1hex")
    assert str(cell.locator("a").get_attribute("href")).endswith(f"/-/ingest-body/works/{sha1(1)}")
    page.wait_for_function("document.querySelector('td .ingest-page1 img')?.naturalWidth === 200")
    assert page.locator("td.col-ingest_status .ingest-good").get_attribute("title") == "The wanted file was found."
    context.close()
