"""A real archive that others wrote: pywb, over a WARC file that warcio wrote, as a crawl by Heritrix would be handed over.

It is installed apart, since it wants other versions of libraries: INGEST_PYWB names the folder of an environment with
`pywb==2.10.0`; without it `.ci-env-pywb` is looked for, and `wayback` on the PATH.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import os
import pathlib
import shutil
import socket
import sqlite3
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from datasette_ingest.ingest.enrichment import IngestEnrichment
from datasette_ingest.ingest.model import IngestResult
from datasette_ingest.jobs import registry
from datasette_ingest.jobs.model import StartRequest
from datasette_ingest.jobs.service import control
from datasette_ingest.testing import run_until_idle

from ...conftest import ROOT, missing, rows, serving
from ..conftest import MakeCrawler
from ..enrichment.test_waiting import table
from ..origin import PDF
from .fakes.archive import QUICK

WRITER = pathlib.Path(__file__).with_name("write_warc.py")
LANDING = b'<html><head><meta name="citation_pdf_url" content="/files/1.pdf"><meta name="citation_title" content="Tides"><meta name="citation_doi" content="10.5555/tides"></head><body>x</body></html>'
JOURNAL = "https://journal.example"


def environment() -> pathlib.Path | None:
    """The folder with pywb's commands."""
    root = pathlib.Path(__file__).resolve().parents[3]
    named = os.environ.get("INGEST_PYWB")
    for folder in (pathlib.Path(named) / "bin" if named else None, root / ".ci-env-pywb" / "bin"):
        if folder is not None and (folder / "wayback").exists():
            return folder
    found = shutil.which("wayback")
    return pathlib.Path(found).parent if found and shutil.which("wb-manager") else None


def record(url: str, date: str, status: str = "200 OK", body: bytes = b"", **headers: str) -> dict[str, Any]:
    pairs = [[name.replace("_", "-"), value] for name, value in headers.items()]
    return {"url": url, "date": date, "status": status, "headers": pairs, "body": base64.b64encode(body).decode()}


RECORDS = [
    record("http://doi.example/1", "2019-05-01T00:00:00Z", "302 Found", Location=f"{JOURNAL}/article?from=http://doi.example/"),
    record(f"{JOURNAL}/article?from=http://doi.example/", "2019-05-01T00:00:02Z", "301 Moved", Location="/tides"),
    record(f"{JOURNAL}/tides", "2019-05-01T00:00:03Z", body=LANDING, Content_Type="text/html"),
    record(f"{JOURNAL}/files/1.pdf", "2019-05-01T00:00:09Z", body=PDF, Content_Type="application/pdf"),
    record("https://repeat.example/a.pdf", "2018-01-01T00:00:00Z", body=PDF, Content_Type="application/pdf"),
    {**record("https://repeat.example/a.pdf", "2021-01-01T00:00:00Z", Content_Type="application/pdf"), "repeats": 4},
    record("http://both.example/a.pdf", "2020-01-01T00:00:00Z", "301 Moved", Location="https://both.example/a.pdf"),
    record("https://both.example/a.pdf", "2020-01-01T00:00:00Z", body=PDF, Content_Type="application/pdf"),
    record("http://www.old.example/a.pdf", "2016-01-01T00:00:00Z", body=PDF, Content_Type="application/pdf"),
    record("http://old.example/a.pdf", "2017-01-01T00:00:00Z", body=PDF + b"%2017\n", Content_Type="application/pdf"),
    record("http://gone.example/a.pdf", "2020-01-01T00:00:00Z", "404 Not Found", body=b"<p>gone", Content_Type="text/html"),
    record("http://dead-end.example/", "2020-01-01T00:00:00Z", "302 Found", Location="http://nowhere.example/a.pdf"),
    record("http://packed.example/a.pdf", "2020-01-01T00:00:00Z", body=gzip.compress(PDF), Content_Type="application/pdf", Content_Encoding="gzip"),
    record("http://unlabelled.example/a.pdf", "2020-01-01T00:00:00Z", body=gzip.compress(PDF), Content_Type="application/pdf"),
    *(record("http://often.example/a.pdf", f"{year}-01-01T00:00:00Z", body=PDF + b"%%%d\n" % year, Content_Type="application/pdf") for year in range(1970, 2021)),
]  # fmt: skip


@pytest.fixture(scope="module")
def pywb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The settings that ask a running pywb with a collection of RECORDS."""
    commands = environment()
    if commands is None:
        missing("pywb")
        raise AssertionError("unreachable")
    folder = tmp_path_factory.mktemp("pywb")
    quiet: dict[str, Any] = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    given = {"input": json.dumps(RECORDS).encode()}
    subprocess.run([commands / "python", WRITER, folder / "crawl.warc.gz"], check=True, **given, **quiet)
    subprocess.run([commands / "wb-manager", "init", "crawl"], check=True, **quiet)
    subprocess.run([commands / "wb-manager", "add", "crawl", "crawl.warc.gz"], check=True, **quiet)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([commands / "wayback", "-b", "127.0.0.1", "-p", str(port)], **quiet)
    base = f"http://127.0.0.1:{port}/crawl"
    try:
        _wait_for(f"{base}/cdx?url=http://nothing.example/", server)
        yield {
            "sources": ("wayback",),
            "cdx_url": f"{base}/cdx",
            "wayback_url": base,
            "cdx_per_minute": QUICK,
            "replay_per_minute": QUICK,
            "timeout": 30.0,
            "deadline": 60.0,
        }
    finally:
        server.terminate()
        server.wait()


def _wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert server.poll() is None, "pywb ended"
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.1)
    raise AssertionError("pywb does not answer")


@pytest.fixture
def ask(pywb: dict[str, Any], make_crawler: MakeCrawler) -> Any:
    from datasette_ingest.ingest.model import IngestRequest

    crawler = make_crawler(**pywb)

    async def asked(url: str, **request: Any) -> IngestResult:
        return await crawler.ingest(IngestRequest("pdf", url, **request))

    return asked


async def test_a_chain_of_redirects_and_a_landing_page_lead_to_the_pdf(ask: Any) -> None:
    result = await ask("http://doi.example/1")
    assert (result.status, result.via, result.terminal_dt) == ("success", "wayback", "20190501000009")
    assert result.hops == (
        "http://doi.example/1",
        f"{JOURNAL}/article?from=http://doi.example/",
        f"{JOURNAL}/tides",
        f"{JOURNAL}/files/1.pdf",
    )
    assert result.file_meta.size_bytes == len(PDF) and result.html_meta.biblio["title"] == "Tides"
    assert result.cdx.sha1hex == result.cdx.cdx_sha1hex and result.cdx.warc_path == "crawl.warc.gz"
    assert result.cdx.warc_offset and result.cdx.warc_csize


async def test_a_revisit_has_the_bytes_of_the_first(ask: Any) -> None:
    result = await ask("https://repeat.example/a.pdf", as_of="2022")
    assert (result.status, result.terminal_dt, result.file_meta.size_bytes) == ("success", "20210101000000", len(PDF))
    assert (result.cdx.datetime, result.revisit_cdx.datetime) == ("20180101000000", "20210101000000")


async def test_http_that_redirects_to_https_is_no_circle(ask: Any) -> None:
    result = await ask("http://both.example/a.pdf")
    assert (result.status, result.terminal_url) == ("success", "https://both.example/a.pdf")


@pytest.mark.parametrize(
    ("url", "year"), [("http://www.old.example/a.pdf", "2016"), ("http://old.example/a.pdf", "2017")]
)
async def test_the_url_itself_goes_before_its_variants(ask: Any, url: str, year: str) -> None:
    result = await ask(url)
    assert (result.status, result.terminal_dt, result.cdx.url) == ("success", f"{year}0101000000", url)


@pytest.mark.parametrize("host", ["packed", "unlabelled"])
async def test_a_packed_body_is_unpacked(ask: Any, host: str) -> None:
    result = await ask(f"http://{host}.example/a.pdf")
    assert (result.status, result.file_meta.size_bytes) == ("success", len(PDF))


async def test_of_51_captures_the_newest_is_taken_or_the_one_near_a_date(ask: Any) -> None:
    assert (await ask("http://often.example/a.pdf")).terminal_dt == "20200101000000"
    assert (await ask("http://often.example/a.pdf", as_of="1983-02")).terminal_dt == "19830101000000"


async def test_what_is_missing_and_what_was_gone(ask: Any) -> None:
    missing = await ask("http://nothing.example/a.pdf")
    assert (missing.status, missing.terminal_url) == ("no-capture", "http://nothing.example/a.pdf")
    gone = await ask("http://gone.example/a.pdf")
    assert (gone.status, gone.terminal_status_code, gone.terminal_dt) == ("terminal-bad-status", 404, "20200101000000")
    nowhere = await ask("http://dead-end.example/")
    assert (nowhere.status, nowhere.terminal_url) == ("no-capture", "http://nowhere.example/a.pdf")


async def test_the_address_of_a_capture_is_that_capture(ask: Any, pywb: dict[str, Any]) -> None:
    for address in (
        f"{pywb['wayback_url']}/20180101000000/https://repeat.example/a.pdf",
        "https://web.archive.org/web/2018/https://repeat.example/a.pdf",
        "https://web.archive.org/web/20190501000000/http://doi.example/1",
    ):
        result = await ask(address)
        assert (result.status, result.via) == ("success", "wayback"), address


async def test_the_address_for_people_shows_the_capture(ask: Any) -> None:
    result = await ask("http://old.example/a.pdf")
    with urllib.request.urlopen(result.terminal.archive_url) as shown:
        assert b"2017" in shown.read()


async def test_a_crawl_by_others_answers_a_table(pywb: dict[str, Any], tmp_path: pathlib.Path) -> None:
    """Seeds out, a crawl by Heritrix, its WARC files in pywb, and a job that asks there."""
    path = tmp_path / "data.db"
    seeds = ["http://doi.example/1", "http://both.example/a.pdf", "http://nothing.example/a.pdf"]
    table(path, seeds)
    with contextlib.closing(sqlite3.connect(path)) as conn:
        assert [url for (url,) in conn.execute("select url from papers order by id")] == seeds
    plugin = {name: list(value) if isinstance(value, tuple) else value for name, value in pywb.items()}
    async with serving(path, plugin=plugin) as datasette:
        assert isinstance((await registry.enrichments(datasette))["ingest"], IngestEnrichment)
        request = StartRequest("papers", enrichment="ingest", config={"url_column": "url"}, actor=ROOT)
        await control.start(datasette, "data", request)
        await run_until_idle(datasette)
    found = rows(path, "select ingest_status, ingest_archive_url from papers order by id")
    assert [status for status, _ in found] == ["success", "success", "no-capture"]
    assert found[0][1] == f"{pywb['wayback_url']}/20190501000009/{JOURNAL}/files/1.pdf"
