"""Requests and results as JSON: written, read, and described by a JSON Schema."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest.errors import STATUSES, SUCCESS, RetryClass, retry_of_status
from datasette_ingest.ingest.facts import FileMeta, HtmlMeta
from datasette_ingest.ingest.model import (
    CandidateOutcome,
    FileEntry,
    Fileset,
    IngestRequest,
    IngestResult,
    Terminal,
    json_schema,
)

from .test_cells import CELLS, SURROGATES

TEXTS = st.none() | SURROGATES
NAMES = st.sampled_from(["doi", "pmcid", "sha1", "x"])
OBJECTS = st.none() | st.dictionaries(NAMES, st.none() | st.text() | st.integers() | st.lists(st.text()))
COUNTS = st.none() | st.integers(0, 2**53)
SHA1 = st.text("0123456789abcdef", min_size=40, max_size=40)

REQUESTS = st.builds(
    IngestRequest,
    ingest_type=st.sampled_from(["pdf", "xml", "html", "dataset", "hologram"]),
    base_url=CELLS,
    source=SURROGATES,
    source_id=SURROGATES,
    actor=st.text(),
    release_stage=TEXTS,
    force_recrawl=st.booleans(),
    ext_ids=OBJECTS,
    fatcat=OBJECTS,
    expect_hash=OBJECTS,
    as_of=TEXTS,
    max_capture_age_days=st.none() | st.floats(0, 1e6),
    rel=TEXTS,
    oa_status=TEXTS,
    edit_extra=OBJECTS,
    received=st.none(),
)
METAS = st.builds(
    FileMeta,
    sha1hex=SHA1,
    sha256hex=st.just("b" * 64),
    md5hex=st.just("c" * 32),
    size_bytes=st.integers(0, 2**53),
    mimetype=st.text(),
)
ENTRIES = st.builds(
    FileEntry,
    path=st.text(),
    url=TEXTS,
    size=COUNTS,
    checksums=st.dictionaries(NAMES, st.text()),
    mimetype=TEXTS,
    status=st.sampled_from(sorted(STATUSES)),
    sha1hex=st.none() | SHA1,
)
FILESETS = st.builds(
    Fileset, st.text(), TEXTS, st.lists(ENTRIES, max_size=3).map(tuple), st.lists(METAS, max_size=2).map(tuple)
)
TERMINALS = st.builds(
    Terminal,
    url=st.text(),
    dt=st.none() | st.just("20261130134256"),
    status_code=st.none() | st.integers(100, 599),
    sha1hex=st.none() | SHA1,
)
HTML_METAS = st.builds(
    HtmlMeta, SHA1, scope=TEXTS, word_count=COUNTS, biblio=OBJECTS.map(lambda value: value or {}), status=st.text()
)


@st.composite
def results(draw: st.DrawFn) -> IngestResult:
    """Results as the crawler makes them: a miss has the retry class of its status."""
    status = draw(st.sampled_from([SUCCESS, *STATUSES, "spn2-error:celery", "spn2-error:blocked-url"]))
    terminal = draw(st.none() | TERMINALS)
    code = None if terminal is None else terminal.status_code
    return IngestResult(
        draw(REQUESTS),
        status == SUCCESS,
        status,
        draw(TEXTS),
        hops=tuple(draw(st.lists(st.text()))),
        terminal=terminal,
        file_meta=draw(st.none() | METAS),
        fileset=draw(st.none() | FILESETS),
        html_meta=draw(st.none() | HTML_METAS),
        warnings=tuple(draw(st.lists(st.text()))),
        via=draw(TEXTS),
        candidates=(CandidateOutcome(1, "http://h/", "rule", "not-tried"),) if draw(st.booleans()) else (),
        retry_after=draw(st.none() | st.floats(0, 1e6)),
        next_try_class=RetryClass.NEVER if status == SUCCESS else retry_of_status(status, code),
    )


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value.to_json(), allow_nan=False))


def check(name: Any, document: Any) -> None:
    jsonschema.Draft202012Validator(json_schema(name)).validate(document)


@given(REQUESTS)
def test_a_request_is_read_back_as_it_was(request: IngestRequest) -> None:
    document = through_json(request)
    assert IngestRequest.from_json(document) == request
    check("request", document)


@given(results())
def test_a_result_is_read_back_as_it_was(result: IngestResult) -> None:
    document = through_json(result)
    assert IngestResult.from_json(document) == result
    check("result", document)


def test_a_request_as_json_has_its_key_and_what_was_given() -> None:
    assert IngestRequest("pdf", "http://h/").to_json() == {
        "ingest_type": "pdf",
        "base_url": "http://h/",
        "source": "",
        "source_id": "",
        "actor": "unknown",
    }


def test_a_request_in_sandcrawlers_words_is_understood_and_kept_verbatim() -> None:
    document = {
        "ingest_type": "file",
        "base_url": "http://h/",
        "link_source": "doaj",
        "link_source_id": "7",
        "ingest_request_source": "bulk",
        "ext_ids": {"doi": "10.1234/x", "pmcid": None},
        "priority": {"anything": [1]},
    }
    request = IngestRequest.from_json(document)
    assert (request.ingest_type, request.source, request.source_id, request.actor) == ("pdf", "doaj", "7", "bulk")
    assert request.to_json() == document
    result = IngestResult(request, False, "no-pdf-link")
    assert result.to_json()["request"] == document
    assert IngestResult.from_json(result.to_json()).request.to_json() == document


def test_a_result_in_sandcrawlers_words_is_understood() -> None:
    result = IngestResult.from_json(
        {
            "request": {"ingest_type": "pdf", "base_url": "http://h/"},
            "hit": False,
            "status": "terminal-bad-status",
            "terminal": {"terminal_url": "http://h/", "terminal_dt": None, "terminal_status_code": 503},
            "html_biblio": {"title": "ignored"},
        }
    )
    assert (result.terminal_url, result.terminal_dt, result.terminal_status_code) == ("http://h/", None, 503)
    assert result.next_try_class is RetryClass.SOON


def test_the_answer_that_a_miss_is_named_after_decides_when_it_is_tried_again() -> None:
    """The terminal of a dataset's miss may be its landing page, while the platform's API failed."""
    api = CandidateOutcome(1, "http://api/", "figshare-api", "platform-http-error", 503)
    miss = IngestResult(
        IngestRequest("dataset", "http://h/"),
        False,
        "platform-http-error",
        terminal=Terminal("http://h/", "20261130134256", 200),
        candidates=(api,),
    )
    assert IngestResult.from_json(miss.to_json()).next_try_class is RetryClass.SOON


def test_a_terminal_keeps_its_nulls_and_a_file_its_own() -> None:
    """Readers of such results expect an answer that never came to be named with null."""
    miss = IngestResult(IngestRequest("pdf", "http://h/"), False, "read-timeout", terminal=Terminal("http://h/"))
    assert miss.to_json()["terminal"] == {
        "terminal_url": "http://h/",
        "terminal_dt": None,
        "terminal_status_code": None,
        "terminal_sha1hex": None,
    }
    assert FileEntry("a").to_json() == {
        "path": "a",
        "url": None,
        "size": None,
        "checksums": {},
        "mimetype": None,
        "status": "not-tried",
    }


def test_a_page_stands_in_the_results_json() -> None:
    page = HtmlMeta("d" * 40, "landing-page", 312, {"title": "Zwölf Hecken", "doi": "10.5555/x"})
    hit = IngestResult(IngestRequest("pdf", "http://h/"), True, SUCCESS, html_meta=page)
    assert hit.to_json()["html_meta"] == {
        "sha1hex": "d" * 40,
        "status": "success",
        "scope": "landing-page",
        "word_count": 312,
        "biblio": {"title": "Zwölf Hecken", "doi": "10.5555/x"},
    }
    assert HtmlMeta("d" * 40).to_json() == {"sha1hex": "d" * 40, "status": "success"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"hit": "perhaps"}, "hit"),
        ({"status": None}, "status"),
        ({"request": {"ingest_type": "pdf"}}, "base_url"),
        ({"request": {"ingest_type": "pdf", "base_url": True}}, "base_url"),
        ({"terminal": {"terminal_dt": "20261130134256"}}, "terminal_url"),
        ({"terminal": {"terminal_url": "u", "terminal_dt": "yesterday"}}, "terminal_dt"),
        ({"file_meta": {"sha1hex": "ABC"}}, "sha1hex"),
        ({"hops": "http://h/"}, "hops"),
    ],
)
def test_what_is_no_result_is_refused_by_the_name_of_its_field(change: dict[str, Any], field: str) -> None:
    document = {"request": {"ingest_type": "pdf", "base_url": "http://h/"}, "hit": False, "status": "no-pdf-link"}
    IngestResult.from_json(document)
    with pytest.raises(pydantic.ValidationError, match=field):
        IngestResult.from_json(document | change)


@pytest.mark.parametrize("name", ["request", "result"])
def test_the_schema_is_one_and_describes_the_fields(name: Any) -> None:
    schema = json_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "received" not in json.dumps(schema)
    properties = schema["properties"] if name == "request" else schema["$defs"]["IngestRequest"]["properties"]
    assert properties["max_capture_age_days"]["description"] == "An archive's older capture counts as missing."
    with pytest.raises(jsonschema.ValidationError):
        check(name, {"ingest_type": "pdf"})


def test_a_received_request_is_changed_for_its_readers_only_on_purpose() -> None:
    request = IngestRequest.from_json({"ingest_type": "pdf", "base_url": "http://h/"})
    assert replace(request, actor="me").to_json() == {"ingest_type": "pdf", "base_url": "http://h/"}
    assert replace(request, actor="me", received=None).to_json()["actor"] == "me"
