"""Records for fatcat: what is in one, and which hits are left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from datasette_ingest.ingest.export.fatcat import REASONS, LeftOut, record_of
from datasette_ingest.ingest.facts import Cdx, HtmlMeta
from datasette_ingest.ingest.model import IngestRequest, IngestResult, Terminal

from .kit import PDF, hit, url

DOI = {"ext_ids": {"doi": "https://doi.org/10.1234/A"}}


def result(request: dict[str, Any], **more: Any) -> IngestResult:
    given = {"ingest_type": "pdf", "base_url": url(1), "source": "doi", "source_id": "10.1234/A", **request}
    return replace(hit(1), request=IngestRequest.from_json(given), **more)


def test_a_record_has_the_file_where_it_is_and_the_work_it_belongs_to() -> None:
    assert record_of(result(DOI | {"actor": "unpaywall", "release_stage": "accepted"}), pages=None) == {
        "sha1": PDF.sha1hex,
        "sha256": PDF.sha256hex,
        "md5": PDF.md5hex,
        "size": 1234,
        "mimetype": "application/pdf",
        "urls": [{"url": url(1), "rel": "publisher"}],
        "release_ids": [],
        "ext_ids": {"doi": "10.1234/a"},
        "release_stage": "accepted",
        "dois": ["10.1234/a"],
        "cdx": [{"url": url(1)}],
        "edit_extra": {"ingest_request_source": "unpaywall", "link_source": "doi", "link_source_id": "10.1234/a"},
    }


def test_a_release_that_is_known_by_its_identifier_is_named_by_it() -> None:
    found = record_of(result({"fatcat": {"release_ident": "abc", "edit_extra": {"a": 1}}, "source": "pmc"}), pages=9)
    assert (found["release_ids"], found["urls"][0]["rel"], found["edit_extra"]["a"]) == (["abc"], "web", 1)
    assert "dois" not in found


def test_a_capture_is_a_url_only_where_an_archive_delivered_it() -> None:
    archived = result(
        DOI | {"rel": "repository"},
        terminal=Terminal(url(1), "20261130120000", 200, PDF.sha1hex, "https://web.archive.org/web/20261130120000/x"),
        cdx=Cdx(url(1), "20261130120000"),
    )
    found = record_of(archived, pages=None)
    assert [each["rel"] for each in found["urls"]] == ["repository", "webarchive"]
    assert found["cdx"] == [{"url": url(1), "dt": "20261130120000"}]


OTHER_WORK = HtmlMeta("4" * 40, biblio={"title": "Tides", "doi": "10.1234/other", "authors": [{"name": "Ann"}]})


@pytest.mark.parametrize(
    ("reason", "request_", "more", "pages"),
    [
        ("other-type", {**DOI, "ingest_type": "html"}, {}, None),
        ("no-file-meta", DOI, {"file_meta": None}, None),
        ("no-file-meta", DOI, {"file_meta": replace(PDF, size_bytes=0)}, None),
        ("wrong-mimetype", DOI, {"file_meta": replace(PDF, mimetype="text/html")}, None),
        ("no-release", {}, {}, None),
        ("no-release", {"ext_ids": {"doi": "no doi", "isbn": "1"}}, {}, None),
        ("hash-mismatch", {**DOI, "expect_hash": {"SHA-1": "9" * 40}}, {}, None),
        ("doi-mismatch", DOI, {"html_meta": OTHER_WORK}, None),
        ("doi-mismatch", DOI, {"warnings": ("doi-mismatch",)}, None),
        ("single-page", DOI, {}, 1),
        ("bad-request", {**DOI, "received": None}, {}, None),
        ("no-url", DOI, {"terminal": Terminal("http://***@h/1.pdf")}, None),
    ],
)
def test_why_a_hit_is_left_out(reason: str, request_: dict[str, Any], more: dict[str, Any], pages: int | None) -> None:
    given = result({name: value for name, value in request_.items() if name != "received"}, **more)
    if reason == "bad-request":
        given = replace(
            given, request=replace(given.request, received={"ingest_type": "pdf", "base_url": "x", "ext_ids": 7})
        )
    with pytest.raises(LeftOut, match=f"^{reason}$"):
        record_of(given, pages=pages)
    assert reason in REASONS


@pytest.mark.parametrize(
    "request_",
    [
        DOI | {"expect_hash": {"sha1": PDF.sha1hex.upper(), "crc32": "0"}},
        {"ext_ids": {"doi": "10.1234/other"}},
        {"ext_ids": {"arxiv": "2001.00001"}, "ingest_type": "file"},
    ],
)
def test_what_agrees_is_handed_on(request_: dict[str, Any]) -> None:
    assert record_of(result(request_, html_meta=OTHER_WORK if "10.1234/other" in str(request_) else None), pages=2)
