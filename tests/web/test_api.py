"""The JSON side's own decisions: where a POST may come from, what starts a job, what a job may do next."""

from __future__ import annotations

import dataclasses

import pytest

from datasette_ingest.jobs.errors import JobError, NotAllowed
from datasette_ingest.jobs.model import Job, JobStatus
from datasette_ingest.web import api

COOKIE = {"cookie": "ds_actor=x", "host": "data.example:8001"}

JOB = Job.from_row(
    dict.fromkeys((field.name for field in dataclasses.fields(Job)), None)
    | {"id": 1, "status": "running", "row_count": 10, "done_count": 7, "error_count": 2}
    | {"outcomes": '{"success": 4, "no-pdf-link": 1, "error": 2}'}
)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "cross-site"},  # no cookie: nothing to abuse
        COOKIE | {"sec-fetch-site": "same-origin"},
        COOKIE | {"origin": "http://data.example:8001"},
        COOKIE | {"host": "data.example", "origin": "http://data.example:80"},
        COOKIE | {"host": "DATA.example", "origin": "http://data.EXAMPLE"},
    ],
)
def test_a_post_from_our_own_pages_or_without_a_cookie_is_taken(headers):
    assert api.require_own_origin(headers, "http") is None


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": ""},
        {"sec-fetch-site": "cross-site", "origin": "http://data.example:8001"},
        {"origin": "http://evil.example"},
        {"origin": "http://data.example"},
        {"origin": "https://data.example:8001"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://data.example:99999999"},
        {"origin": "http://[::1"},
        {"host": "", "origin": "null"},
    ],
)
def test_a_post_with_a_cookie_from_elsewhere_or_nowhere_is_refused(headers):
    with pytest.raises(NotAllowed):
        api.require_own_origin(COOKIE | headers, "http")


def test_a_content_type_is_read_without_its_parameters():
    assert api.media_type({"content-type": "Application/JSON; charset=utf-8"}) == "application/json"
    assert api.media_type({}) == ""


def test_a_start_needs_a_table_and_an_enrichment():
    assert api.start_from({"table": "t", "enrichment": "e"}) == api.Start("t", "e", "", {}, {})
    with pytest.raises(JobError) as caught:
        api.start_from({"table": 1, "filters": [], "config": [], "options": None, "filter": "x"})
    assert [line.split(":")[0] for line in caught.value.details] == [
        "filter", "table", "enrichment", "filters", "config", "options",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "verbs"),
    [
        ("pending", ["pause", "cancel"]),
        ("running", ["pause", "cancel"]),
        ("paused", ["resume", "cancel"]),
        ("cancelled", ["retry"]),
        ("finished", ["retry"]),
    ],
)
def test_what_can_be_done_follows_from_the_state(status, verbs):
    assert api.possible(dataclasses.replace(JOB, status=JobStatus(status))) == verbs


def test_the_bar_is_split_into_successes_errors_and_the_rest():
    assert api.parts(JOB) == {"success": 4, "other": 1, "error": 2}


def test_the_bar_never_has_more_rows_than_were_answered():
    strange = dataclasses.replace(JOB, done_count=3, error_count=9, outcomes={"success": 8})
    assert api.parts(strange) == {"success": 3, "other": 0, "error": 0}


def test_an_error_says_what_where_and_how():
    response = api.error_answer(JobError("No", ["a: no", "b: no"]))
    assert response.status == 400
    assert response.body == '{"ok": false, "error": "No", "errors": ["a: no", "b: no"], "status": 400}'
