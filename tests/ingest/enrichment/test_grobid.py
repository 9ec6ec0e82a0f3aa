"""GROBID beside a crawl and as a job of its own, over real Datasette instances and a server that plays it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import pathlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from datasette_ingest.ingest.documents import grobid_api
from datasette_ingest.ingest.documents.grobid import LABEL, processor
from datasette_ingest.ingest.documents.pool import ProcessPool
from datasette_ingest.ingest.enrichment import GrobidConfig, GrobidEnrichment
from datasette_ingest.ingest.export.documents import Documents
from datasette_ingest.ingest.facts import Grobid
from datasette_ingest.ingest.sinks.layout import key_of
from datasette_ingest.jobs.errors import BadConfig
from datasette_ingest.jobs.model import Job, JobStatus, StartRequest
from datasette_ingest.jobs.service import control, dry_run, permissions, queries, selection_preview
from datasette_ingest.settings import SettingsError, load
from datasette_ingest.testing import run_until_idle

from ...conftest import ROOT, rows, serving
from ..documents.fake_grobid import TEI
from ..origin import PDF, Origin, Raw, pdf, reply
from .test_jobs import QUICK, ingest, table

READ, VERSION = "/api/processFulltextDocument", "/api/version"


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "data.db"


@pytest.fixture(autouse=True)
def _reading_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The TEI is read in this process, and of all processors only that of GROBID runs."""

    async def here(self: Any, function: Any, *args: Any, **_: Any) -> Any:
        return function(*args)

    monkeypatch.setattr(ProcessPool, "run", here)
    monkeypatch.setattr("datasette_ingest.ingest.documents.registry.PROCESSORS", (processor,))


def tei(body: bytes = TEI) -> bytes:
    return reply(body, content_type="application/xml")


def grobid(**handlers: Any) -> Origin:
    version = reply(b'{"version":"0.8.1"}', content_type="application/json")
    return Origin({VERSION: version, READ: tei(), **handlers})


def keep(store: pathlib.Path, data: bytes = PDF, sha1hex: str | None = None) -> str:
    """Keep a PDF, and return its SHA-1."""
    sha1hex = sha1hex or hashlib.sha1(data).hexdigest()
    file = store / key_of("body", sha1hex, "application/pdf")
    file.parent.mkdir(parents=True)
    file.write_bytes(data)
    return sha1hex


def works(path: pathlib.Path, *cells: Any) -> None:
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("create table papers (id integer primary key, sha1hex)")
        conn.executemany("insert into papers (sha1hex) values (?)", [(cell,) for cell in cells])


def plugin(site: Origin, store: pathlib.Path, **more: Any) -> dict[str, Any]:
    return {**QUICK, "store": str(store), "grobid_url": site.url(""), **more}


async def read(datasette: Any, filters: str = "", **config: Any) -> Job:
    request = StartRequest("papers", enrichment="grobid", filters=filters, config=config, actor=ROOT)
    job = await control.start(datasette, "data", request)
    await run_until_idle(datasette)
    return await queries.find(datasette, "data", job.id, actor=ROOT)


def facts(path: pathlib.Path) -> list[Any]:
    return rows(
        path, "select status, status_code, grobid_version, xml_url, json_extract(metadata, '$.title') from grobid"
    )


def pdfs(service: Origin) -> int:
    return service.targets.count(READ)


# Beside a crawl


async def test_the_pdf_of_a_hit_is_given_to_grobid_once_wherever_it_is_found(
    path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    async with Origin({"/a.pdf": pdf(), "/b.pdf": pdf(), "/c.pdf": pdf(PDF + b"%c")}) as site, grobid() as service:
        table(path, [site.url("/a.pdf")])
        async with serving(path, plugin=plugin(service, tmp_path / "kept")) as datasette:
            job = await ingest(datasette)
            assert (job.outcomes, pdfs(service)) == ({"success": 1}, 1)
            with contextlib.closing(sqlite3.connect(path)) as conn, conn:
                conn.execute("insert into papers (url) values (?), (?)", [site.url("/b.pdf"), site.url("/c.pdf")])
            assert (await ingest(datasette)).outcomes == {"success": 3}
    assert pdfs(service) == 2 and [each.body.count(PDF) for each in service.requests if each.method == "POST"] == [1, 1]
    assert [found[0] for found in facts(path)] == ["success"] * 2
    for sha1hex, key in rows(path, "select sha1hex, xml_url from grobid"):
        with contextlib.closing(sqlite3.connect(path)) as conn:
            exported = Documents(conn)._fact(Grobid, "sha1hex", sha1hex)
        assert exported is not None and exported.to_json()["xml_url"] == key
        assert key == key_of("tei", sha1hex, "application/tei+xml") and (tmp_path / "kept" / key).read_bytes() == TEI


async def test_a_pdf_that_an_older_grobid_has_read_is_given_to_the_new_one(
    path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    async with Origin({"/a.pdf": pdf()}) as site, grobid() as service:
        table(path, [site.url("/a.pdf")])
        async with serving(path, plugin=plugin(service, tmp_path / "kept")) as datasette:
            await ingest(datasette)
        for change in ("grobid_version = '0.7.0'", "processor = 'grobid/0'", "status = 'error'"):
            with contextlib.closing(sqlite3.connect(path)) as conn, conn:
                conn.execute(f"update grobid set {change}")
            before = pdfs(service)
            async with serving(path, plugin=plugin(service, tmp_path / "kept")) as datasette:
                await ingest(datasette, force_recrawl=True)
            assert pdfs(service) == before + 1, change
    assert rows(path, "select status, grobid_version, processor from grobid") == [("success", "0.8.1", LABEL)]


@pytest.mark.parametrize(
    ("handler", "fact"),
    [
        (reply(b"[GENERAL] x", status="500 Error"), ("error", 500)),
        (reply(status="404 Not Found"), ("error", 404)),
        (reply(b"x", status="200 OK"), ("bad-grobid-xml", 200)),
        (Raw(b"", "close"), ("error", None)),
        (Raw(b"", "hang"), ("error-timeout", -4)),
    ],
)
async def test_whatever_grobid_does_the_row_is_a_hit(
    path: pathlib.Path, tmp_path: pathlib.Path, handler: Any, fact: Any
) -> None:
    async with Origin({"/a.pdf": pdf()}) as site, grobid(**{READ: handler}) as service:
        table(path, [site.url("/a.pdf")])
        async with serving(path, plugin=plugin(service, tmp_path / "kept", grobid_timeout=0.05)) as datasette:
            job = await ingest(datasette)
    assert (job.outcomes, job.error_count) == ({"success": 1}, 0)
    assert [found[:2] for found in facts(path)] == [fact]


async def test_a_grobid_that_is_down_leaves_hits_that_a_later_job_gives_to_it(
    path: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = {f"/{number}.pdf": pdf(PDF + b"%%%d" % number) for number in range(20)}
    async with grobid() as service:
        url = service.url("")
    async with Origin(pages) as site:
        table(path, map(site.url, pages))
        async with serving(path, plugin={**QUICK, "store": str(tmp_path / "kept"), "grobid_url": url}) as datasette:
            assert (await ingest(datasette)).outcomes == {"success": 20}
    assert rows(path, "select distinct status, status_code from grobid") == [("error", None)]
    monkeypatch.setattr(grobid_api, "_GATES", type(grobid_api._GATES)())  # as in a later process
    async with grobid() as service, serving(path, plugin=plugin(service, tmp_path / "kept")) as datasette:
        job = await read(datasette, "_ingest_due=grobid")
    assert job.outcomes == {"success": 20} and {found[:3] for found in facts(path)} == {("success", 200, "0.8.1")}


async def test_a_failure_does_not_replace_what_was_read_before(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    sha1hex = keep(tmp_path / "kept")
    works(path, sha1hex)
    async with grobid() as service, serving(path, plugin=plugin(service, tmp_path / "kept")) as datasette:
        await read(datasette)
        before = facts(path)
        service.handlers[READ] = reply(b"[GENERAL] x", status="500 Error")
        assert (await read(datasette, force=True)).outcomes == {"error": 1}
    assert facts(path) == before and before[0][0] == "success"


# As a job of its own


async def test_each_row_has_an_outcome_and_each_pdf_a_row_of_facts(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    store = tmp_path / "kept"
    sha1hex = keep(store)
    html = keep(store, b"<html><title>x</title><p>x</p></html>")
    gone = "0" * 40
    works(path, sha1hex, f" {sha1hex.upper()} ", sha1hex.encode(), gone, html, None, "", "x", 12, "0" * 39)
    async with grobid() as service, serving(path, plugin=plugin(service, store)) as datasette:
        job = await read(datasette)
        assert (await read(datasette)).outcomes == job.outcomes
    assert job.outcomes == {"success": 3, "no-body": 1, "not-pdf": 1, "no-sha1": 5}
    assert pdfs(service) == 1
    assert facts(path) == [("success", 200, "0.8.1", key_of("tei", sha1hex, "application/tei+xml"), "On salt")]
    assert rows(path, "select count(*) from pragma_table_info('papers')") == [(2,)]


async def test_header_facts_come_onto_the_rows_only_if_that_is_wanted(
    path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    sha1hex = keep(tmp_path / "kept")
    works(path, sha1hex, "0" * 40)
    async with grobid() as service, serving(path, plugin=plugin(service, tmp_path / "kept")) as datasette:
        for _ in range(2):  # the second time from the table
            await read(datasette, output="columns")
            assert rows(path, "select * from papers") == [
                (1, sha1hex, "success", "On salt", "Ada Byron; Li Wei", "10.5555/salt.4", "Journal of Brine", "2019-03-07", 2),
                (2, "0" * 40, "no-body", *[None] * 6),
            ]  # fmt: skip
    assert rows(path, "select name from pragma_table_info('papers')")[-1] == ("grobid_references",)


async def test_a_kept_file_with_other_bytes_is_in_error(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    works(path, keep(tmp_path / "kept", sha1hex="1" * 40))
    async with grobid() as service, serving(path, plugin=plugin(service, tmp_path / "kept")) as datasette:
        job = await read(datasette)
    assert (job.outcomes, job.error_count, pdfs(service)) == ({"error": 1}, 1, 0)
    [(message,)] = rows(path, "select error from _enrichment_errors")
    assert "is damaged" in message


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(grobid_api, "BUSY_PAUSES", ())
    yield


@pytest.mark.usefixtures("_quick")
async def test_a_busy_grobid_puts_rows_off(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    works(path, keep(tmp_path / "kept"))
    busy = reply(status="503 Busy")
    async with grobid(**{READ: busy}) as service, serving(path, plugin=plugin(service, tmp_path / "kept")) as datasette:
        request = StartRequest("papers", enrichment="grobid", actor=ROOT)
        job = await control.start(datasette, "data", request)
        running = asyncio.ensure_future(run_until_idle(datasette))
        while not (found := await queries.find(datasette, "data", job.id, actor=ROOT)).waits_until:
            await asyncio.sleep(0)
        await control.cancel(datasette, "data", job.id, actor=ROOT)
        await running
    assert found.status is JobStatus.RUNNING and (found.done_count, found.error_count) == (0, 0)
    assert facts(path) == []


@pytest.mark.parametrize(
    ("handler", "said", "resumes"),
    [
        (reply(status="502 Bad Gateway"), "GROBID cannot be reached: it answers 502", True),
        (reply(status="404 Not Found"), "There is no GROBID at", False),
    ],
)
async def test_without_a_service_the_job_pauses_and_goes_on_where_it_was(
    path: pathlib.Path,
    tmp_path: pathlib.Path,
    handler: bytes,
    said: str,
    resumes: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    works(path, *(keep(tmp_path / "kept", PDF + b"%%%d" % number) for number in range(5)))
    gone = grobid(**{READ: handler})
    async with gone as service, serving(path, plugin=plugin(service, tmp_path / "kept")) as datasette:
        job = await read(datasette)
        assert job.status is JobStatus.PAUSED and (job.done_count, job.error_count) == (0, 0)
        assert said in (job.pause_reason or "") and (job.resume_at is not None) == resumes
        monkeypatch.setattr(grobid_api, "_GATES", type(grobid_api._GATES)())  # as after a minute
        service.handlers[READ] = tei()
        await control.resume(datasette, "data", job.id, actor=ROOT)
        await run_until_idle(datasette)
        job = await queries.find(datasette, "data", job.id, actor=ROOT)
    assert job.outcomes == {"success": 5} and [found[0] for found in facts(path)] == ["success"] * 5


async def test_rows_without_a_kept_pdf_are_answered_while_there_is_no_service(
    path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    works(path, "x", "0" * 40, keep(tmp_path / "kept", b"no PDF"))
    async with grobid() as service:
        given = plugin(service, tmp_path / "kept")
    async with serving(path, plugin=given) as datasette:
        job = await read(datasette)
    assert job.outcomes == {"no-sha1": 1, "no-body": 1, "not-pdf": 1} and job.status is JobStatus.FINISHED


async def test_the_scopes_of_a_retry_find_their_rows(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    store = tmp_path / "kept"
    digests = [keep(store, PDF + b"%%%d" % number) for number in range(5)]
    works(path, *digests, "x")
    states = [("success", 200), ("error", 500), ("error", None), ("error-timeout", -4)]
    async with grobid() as service, serving(path, plugin=plugin(service, store)) as datasette:
        await read(datasette, "id=6")
        with contextlib.closing(sqlite3.connect(path)) as conn, conn:
            for sha1hex, (status, code) in zip(digests, states, strict=False):
                values = (sha1hex, status, code, "0.8.1", LABEL)
                conn.execute(
                    "insert into grobid (sha1hex, status, status_code, grobid_version, processor) values (?, ?, ?, ?, ?)",
                    values,
                )
        enrichment = GrobidEnrichment(load(plugin(service, store)))
        with contextlib.closing(sqlite3.connect(path)) as conn:
            found = {}
            for scope in ("due", "misses", "pending"):
                condition = enrichment.retry_where(GrobidConfig(sha1_column="sha1hex"), "papers", scope)
                assert condition is not None
                found[scope] = [
                    key for (key,) in conn.execute(f"select id from papers where {condition[0]}", condition[1])
                ]
        assert found == {"due": [3, 4], "misses": [2, 3, 4], "pending": [3, 4, 5]}
        assert (await read(datasette, "_ingest_pending=grobid")).outcomes == {"success": 3}


async def test_a_row_without_success_is_explained(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    works(path, keep(tmp_path / "kept"), "0" * 40, None)
    error = reply(b"[NO_BLOCKS] empty", status="500 Error")
    async with (
        grobid(**{READ: error}) as service,
        serving(path, plugin=plugin(service, tmp_path / "kept")) as datasette,
    ):
        job = await read(datasette)
        enrichment = GrobidEnrichment(load(plugin(service, tmp_path / "kept")))
        shown = enrichment.failures(GrobidConfig(sha1_column="sha1hex"), "papers")
        terms = ", ".join([shown.outcome or "", *shown.columns.values()])
        assert rows(path, f"select {terms} from papers") == [
            ("error", "[NO_BLOCKS] empty", 500),
            ("no-body", None, None),
            ("no-sha1", None, None),
        ]
    assert job.outcomes == {"error": 1, "no-body": 1, "no-sha1": 1}
    assert json.loads(rows(path, "select metadata from grobid")[0][0])["error"] == "NO_BLOCKS"


async def test_a_dry_run_asks_and_keeps_nothing(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    store = tmp_path / "kept"
    works(path, keep(store))
    async with grobid() as service, serving(path, plugin=plugin(service, store)) as datasette:
        found = await permissions.require_table(datasette, ROOT, "data", "papers")
        enrichment = GrobidEnrichment(load(plugin(service, store)))
        config = {"sha1_column": "sha1hex", "output": "columns"}
        shown = await dry_run.run(datasette, found, enrichment=enrichment, config=config, actor=ROOT)
    assert "On salt" in str(shown) and not (store / "tei").exists()


async def test_the_form_guesses_the_column_and_says_what_will_be_done(
    path: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    sha1hex = keep(tmp_path / "kept")
    works(path, sha1hex, sha1hex, None)
    async with grobid() as service, serving(path, plugin=plugin(service, tmp_path / "kept")) as datasette:
        enrichment = GrobidEnrichment(load(plugin(service, tmp_path / "kept")))
        assert await enrichment.defaults(datasette.databases["data"], "papers") == {"sha1_column": "sha1hex"}
        await read(datasette)
        papers = await permissions.require_table(datasette, ROOT, "data", "papers")
        chosen = await selection_preview.open_preview(datasette, papers, actor=ROOT)
        config = {"sha1_column": "sha1hex"}
        said = await selection_preview.facts(datasette, chosen, enrichment, config, 3, selection_preview.SLOW_MS)
        for columns, guess in (("a, oa_terminal_sha1hex", "oa_terminal_sha1hex"), ("a", None), ("SHA1", "SHA1")):
            with contextlib.closing(sqlite3.connect(path)) as conn, conn:
                conn.execute("drop table if exists other")
                conn.execute(f"create table other ({columns})")
            assert await enrichment.defaults(datasette.databases["data"], "other") == {"sha1_column": guess}
    assert said == {
        "Different files": 1,
        "Rows without a SHA-1": 1,
        "Read already": "1: they are given to it again only if its version has changed",
        "At once": "4 (grobid_concurrency)",
    }


async def test_without_a_store_there_is_nothing_to_give(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    works(path, "0" * 40)
    async with grobid() as service, serving(path, plugin={**QUICK, "grobid_url": service.url("")}) as datasette:
        with pytest.raises(BadConfig, match="store: this setting is empty"):
            await read(datasette)


def test_an_address_with_a_password_is_not_written_into_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match=r"write an address with a password as \{\"\$env\""):
        load({"grobid_url": "http://me:salt@grobid.example"})
    monkeypatch.setenv("GROBID", "http://me:salt@grobid.example")
    found = load({"grobid_url": {"$env": "GROBID"}})
    assert found.grobid_url == "http://me:salt@grobid.example" and "salt" not in repr(found)
