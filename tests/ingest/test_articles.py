"""Real articles, served under the hosts and paths that their own pages name."""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from datasette_ingest.ingest.model import IngestRequest, IngestResult

from .origin import Origin, redirect, reply
from .rerouted import Rerouted

BMC = "http://www.biomedcentral.com/1471-2164/13/425"
PLOS = "http://www.plosbiology.org/article/info%3Adoi%2F10.1371%2Fjournal.pbio.1001461"
ELIFE = "http://elife.elifesciences.org/content/2/e00160"
PLOS_FILE = "/article/fetchObjectAttachment.action?uri=info%3Adoi%2F10.1371%2Fjournal.pbio.1001461&representation="


def handlers_of(fixtures: pathlib.Path) -> dict[str, Any]:
    """An origin's handlers: each article's files under the paths that the pages name."""

    def file(name: str, content_type: str) -> bytes:
        return reply((fixtures / "articles" / name).read_bytes(), content_type=content_type)

    return {
        "/1471-2164/13/425": file("bmc.html", "text/html; charset=utf-8"),
        "/bmcgenomics/content/pdf/1471-2164-13-425.pdf": file("bmc.pdf", "application/pdf"),
        "/bmcgenomics/content/download/xml/1471-2164-13-425.xml": file("bmc.xml", "text/xml"),
        "/article/info%3Adoi%2F10.1371%2Fjournal.pbio.1001461": file("plos_pbio_1001461.html", "text/html"),
        "/10.1371/journal.pbio.1001461.pdf": redirect("http://www.plosbiology.org" + PLOS_FILE + "PDF"),
        PLOS_FILE + "PDF": file("plos_pbio_1001461.pdf", "application/octet-stream"),
        PLOS_FILE + "XML": file("plos_pbio_1001461.xml", "text/xml"),
        "/content/2/e00160": file("elife_00160.html", "text/html; charset=utf-8"),
        "/elife-source-xml/10.7554/eLife.00160": file("elife_00160.xml", "text/plain"),
    }


async def resolve_to_loopback(host: str, port: int) -> list[str]:
    """The articles' hosts, and no other, live on loopback."""
    assert host.endswith((".biomedcentral.com", ".plosbiology.org", ".plos.org", ".elifesciences.org")), host
    return ["127.0.0.1"]


@pytest_asyncio.fixture
async def library(fixtures: pathlib.Path, make_crawler: Any) -> AsyncIterator[Any]:
    """A crawler whose resolver knows the articles' hosts, all of them one origin."""
    async with Origin(handlers_of(fixtures)) as site:
        crawler = make_crawler(transport=Rerouted(resolve_to_loopback, site.port))

        async def ask(url: str, ingest_type: str) -> IngestResult:
            return await crawler.ingest(IngestRequest(ingest_type, url))

        yield ask


def sha1_of(fixtures: pathlib.Path, name: str) -> str:
    return hashlib.sha1((fixtures / "articles" / name).read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("url", "ingest_type", "name", "mimetype"),
    [
        (BMC, "pdf", "bmc.pdf", "application/pdf"),
        (BMC, "xml", "bmc.xml", "application/xml"),
        (PLOS, "pdf", "plos_pbio_1001461.pdf", "application/pdf"),
        (PLOS, "xml", "plos_pbio_1001461.xml", "application/jats+xml"),
        (ELIFE, "xml", "elife_00160.xml", "application/jats+xml"),
    ],
)
async def test_a_landing_page_alone_leads_to_the_file(
    library: Any, fixtures: pathlib.Path, url: str, ingest_type: str, name: str, mimetype: str
) -> None:
    result = await library(url, ingest_type)
    assert (result.status, result.terminal_sha1hex) == ("success", sha1_of(fixtures, name))
    assert result.file_meta.mimetype == mimetype
    assert result.file_meta.size_bytes == (fixtures / "articles" / name).stat().st_size


async def test_the_repeated_link_of_bmc_is_one_candidate(library: Any) -> None:
    result = await library(BMC, "pdf")
    assert [c.rule for c in result.candidates if c.outcome == "success"] == ["citation_pdf_url"]
    assert len(result.hops) == 2


async def test_the_link_of_plos_leads_over_another_host(library: Any) -> None:
    result = await library(PLOS, "pdf")
    assert [hop.split("/")[2] for hop in result.hops] == ["www.plosbiology.org", "dx.plos.org", "www.plosbiology.org"]


async def test_the_pages_of_bmc_and_plos_are_themselves_the_article(library: Any, fixtures: pathlib.Path) -> None:
    bmc, plos = await library(BMC, "html"), await library(PLOS, "html")
    assert (bmc.status, bmc.terminal_sha1hex) == ("success", sha1_of(fixtures, "bmc.html"))
    assert (plos.status, plos.terminal_sha1hex) == ("success", sha1_of(fixtures, "plos_pbio_1001461.html"))


async def test_a_pdf_that_is_gone_is_told_by_its_link(library: Any) -> None:
    result = await library(ELIFE, "pdf")
    assert (result.status, result.terminal_status_code) == ("terminal-bad-status", 404)
    assert result.terminal_url == "http://elife.elifesciences.org/content/2/e00160.full-text.pdf"
