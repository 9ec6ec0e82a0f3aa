"""A stored result is exported as the crawler gave it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from datasette_ingest.ingest import store
from datasette_ingest.ingest.export.documents import line, masked
from datasette_ingest.ingest.facts import Cdx, HtmlMeta
from datasette_ingest.ingest.model import CandidateOutcome, FileEntry, Fileset, IngestRequest, IngestResult, Terminal

from .kit import NOON, PDF, Library, hit, miss, url

UPDATED = {"updated": "2026-11-30T12:00:00Z"}
PAGE = HtmlMeta("4" * 40, scope="landing-page", word_count=12, biblio={"title": "Tides", "doi": "10.1234/a"})
CAPTURE = Cdx(url(1), "20261130120000", PDF.sha1hex, "ABC", "application/pdf", "a.warc.gz", 10, 20)
FILES = Fileset(
    "dataverse",
    "doi:10.1234/d",
    (FileEntry("a/b.csv", url(5), 7, {"md5": "5" * 32}, "text/csv", "success", PDF.sha1hex), FileEntry("c.csv")),
    (PDF,),
)
WHOLE = replace(
    hit(1),
    sources=("live", "wayback"),
    hop_sources=("live",),
    terminal=Terminal(url(1), "20261130120000", 200, PDF.sha1hex, "https://web.archive.example/1"),
    cdx=CAPTURE,
    html_meta=PAGE,
    warnings=("missing-eof",),
    via="wayback",
    candidates=(
        CandidateOutcome(1, url(1), "citation_pdf_url", "success", 200),
        CandidateOutcome(2, url(2), "x", "not-tried"),
    ),
)
DATASET = IngestResult(
    IngestRequest("dataset", url(9)), True, "success", fileset=FILES, terminal=Terminal(url(9)), via="live"
)


@pytest.mark.parametrize(
    "result",
    [
        hit(1),
        WHOLE,
        DATASET,
        miss(2),
        miss(2, "skip-url-blocklist", via="live"),
        miss(2, "no-capture", terminal={"terminal_url": url(3), "terminal_dt": None, "terminal_status_code": None}),
        miss(2, "terminal-bad-status", error_message="gone", hops=[url(2)], via="live"),
    ],
    ids=lambda result: result.status,
)
def test_what_the_crawler_gave_is_what_is_exported(library: Library, result: IngestResult) -> None:
    library.result(result)
    (document,), _ = library.export()
    given = {
        **result.to_json(),
        "request": {"ingest_type": result.request.ingest_type, "base_url": result.request.base_url},
    }
    assert document == {**given, **UPDATED}
    assert IngestResult.from_json(document) == IngestResult.from_json({**given, **UPDATED})


def test_a_request_is_exported_as_it_was_received(library: Library) -> None:
    given = {
        "ingest_type": "pdf",
        "base_url": url(1),
        "source": "doi",
        "source_id": "1",
        "oa_status": "gold",
        "mine": [1],
    }
    with library.writing() as conn:
        store.write_request(conn, IngestRequest.from_json(given), now=NOON)
    library.result(hit(1))
    (document,), _ = library.export()
    assert document["request"] == {**given, "actor": "unknown"}


@pytest.mark.parametrize("stored", ["[]", "{", "7", '{"deep": ' + "[" * 50 + "]" * 50 + "}"])
def test_what_another_program_stored_does_not_end_an_export(library: Library, stored: str) -> None:
    library.request(1)
    library.result(hit(1))
    library.sql("update ingest_request set request = ?", stored)
    library.sql("update ingest_file_result set hops = ?, warnings = ?, sources = ?", stored, stored, stored)
    library.sql("update file_meta set md5hex = ?", stored)
    (document,), _ = library.export()
    assert document["hit"] and "file_meta" not in document and "hops" not in document


@pytest.mark.parametrize(
    "column", ["updated", "status", "terminal_url", "terminal_dt", "terminal_sha1hex", "error_message", "hops"]
)
@pytest.mark.parametrize("value", [b"\0\xff", b"[1", 7, 2**63 - 1])
def test_a_column_of_results_that_holds_no_text_does_not_end_an_export(
    library: Library, column: str, value: object
) -> None:
    library.result(hit(1, candidates=(CandidateOutcome(1, url(1), "x", "success"),)))
    library.sql(f"update ingest_file_result set {column} = ?", value)
    library.sql("update ingest_candidate set reason = ?", value)
    (document,), _ = library.export()
    assert json.loads(line(document, passwords=False))["request"]["base_url"] == url(1)


def test_passwords_are_masked_in_every_text() -> None:
    secret = "http://ann:s3cret@h/"
    document = {
        "base_url": "http://ann:s3 cret@h/",
        "list": [secret, {"message": f"at {secret}"}],
        "number": 7,
        secret: 8,
    }
    assert "cret" not in line(document, passwords=False)
    assert masked(document)["number"] == 7
    assert line(document, passwords=True).count("cret") == 4


def test_a_line_has_escapes_for_what_is_no_unicode() -> None:
    assert line({"message": "a\ud800b"}, passwords=False) == '{"message":"a\\\\ud800b"}\n'
