"""The JSON side's own decisions: where a POST may come from, what starts a job, what a job may do next."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
from typing import Any

import pytest

from datasette_ingest import compat
from datasette_ingest.jobs.errors import JobError, NotAllowed
from datasette_ingest.jobs.model import Job, JobStatus
from datasette_ingest.jobs.service.job_json import parts, possible_steps
from datasette_ingest.jobs.stored_row import job_of
from datasette_ingest.testing import run_until_idle
from datasette_ingest.web import api, requests, responses

from .conftest import READER, ROOT, cookies_of, get, post_json, start

JOBS = "/-/ingest-jobs/words"
WORD_JOB = {"table": "words", "enrichment": "shout", "config": {"column": "word"}}

COOKIE = {"cookie": "ds_actor=x", "host": "data.example:8001"}

JOB = job_of(
    dict.fromkeys((field.name for field in dataclasses.fields(Job)), None)
    | {"id": 1, "status": "running", "row_count": 10, "done_count": 7, "error_count": 2}
    | {"outcomes": '{"success": 4, "no-pdf-link": 1, "error": 2}'}
)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer dstok_x", "host": "data.example"},
        {"authorization": "Basic cm9vdDpy", "host": "data.example"},  # curl -u
        {"sec-fetch-site": "same-origin", "authorization": "Basic cm9vdDpy"},
        {"host": "data.example", "origin": "http://data.example"},
        COOKIE | {"sec-fetch-site": "same-origin"},
        COOKIE | {"origin": "http://data.example:8001"},
        COOKIE | {"host": "data.example", "origin": "http://data.example:80"},
        COOKIE | {"host": "DATA.example", "origin": "http://data.EXAMPLE"},
    ],
)
def test_a_post_from_our_own_pages_or_of_a_program_is_taken(headers):
    assert requests.require_own_origin(headers, "http") is None


ELSEWHERE = [
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
]
KNOWN_BY = {
    "a cookie": {"cookie": "ds_actor=x"},
    "Basic authentication": {"authorization": "Basic cm9vdDpy"},
    "a token": {"authorization": "Bearer dstok_x"},
    "an address or nothing": {},
}


@pytest.mark.parametrize("known_by", KNOWN_BY)
@pytest.mark.parametrize("headers", ELSEWHERE)
def test_a_post_from_elsewhere_is_refused_whatever_the_visitor_is_known_by(headers, known_by):
    with pytest.raises(NotAllowed, match="must come from this site's own pages"):
        requests.require_own_origin({"host": "data.example:8001"} | KNOWN_BY[known_by] | headers, "http")


def test_a_cookie_from_nowhere_is_refused():
    with pytest.raises(NotAllowed, match="needs an Origin or Sec-Fetch-Site header"):
        requests.require_own_origin(COOKIE, "http")


TRUSTED = ("https://data.example.org", "http://[fd00::1]:8080")


@pytest.mark.parametrize("origin", [*TRUSTED, "https://DATA.example.org:443"])
def test_a_trusted_origin_is_this_site(origin):
    assert requests.require_own_origin(COOKIE | {"origin": origin}, "http", TRUSTED) is None
    with pytest.raises(NotAllowed):
        requests.require_own_origin(COOKIE | {"origin": origin}, "http")
    with pytest.raises(NotAllowed):  # what a browser calls another site is one
        requests.require_own_origin(COOKIE | {"origin": origin, "sec-fetch-site": "cross-site"}, "http", TRUSTED)


@pytest.mark.parametrize(
    "origin",
    [
        "https://data.example.org.evil.example",
        "http://data.example.org",
        "https://evil.example",
        "http://[fd00::1]",
        "null",
    ],
)
def test_what_only_resembles_a_trusted_origin_is_not_trusted(origin):
    with pytest.raises(NotAllowed):
        requests.require_own_origin(COOKIE | {"origin": origin}, "http", TRUSTED)


def test_an_opaque_origin_is_trusted_only_by_name_and_beside_a_cookie():
    assert requests.require_own_origin(COOKIE | {"origin": "null"}, "http", ["null"]) is None
    with pytest.raises(NotAllowed):
        requests.require_own_origin({"origin": "null", "authorization": "Basic x"}, "http", ["null"])


FORWARDED = {"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "https", "Forwarded": "host=evil.example"}


async def test_behind_a_proxy_that_changes_the_host_the_named_origin_starts_jobs(open_ds):
    settings = {"plugins": {"datasette-ingest": {"run_jobs": False, "trusted_origins": ["https://data.example.org"]}}}
    for base_url in ("/", "/archive/"):
        ds = await open_ds(settings, settings={"base_url": base_url})
        cookies = cookies_of(ds, ROOT)
        send = functools.partial(ds.client.post, JOBS, json=WORD_JOB, cookies=cookies)
        if not compat.is_1_0(ds):  # the 1.0 line compares Origin and Host itself, before any plugin
            taken = await send(headers={"Origin": "https://data.example.org", **FORWARDED})
            assert taken.status_code == 201
        taken = await send(headers={"Sec-Fetch-Site": "same-origin", "Origin": "https://data.example.org"})
        assert taken.status_code == 201
        for origin in ("https://evil.example", "null"):
            refused = await send(headers={"Origin": origin, **FORWARDED})
            assert refused.status_code == 403


async def test_where_everybody_may_enrich_another_sites_page_still_may_not(open_ds):
    ds = await open_ds({"plugins": {"datasette-ingest": {"run_jobs": False, "allow": True}}})
    form = {"config.column": "word", "config.output": "shouted", "config.mood": "calm"}
    for site, status in (("cross-site", 403), ("same-origin", 303)):
        sent = {"Sec-Fetch-Site": site}
        posted = await ds.client.post("/-/ingest/words/words/shout", data=form, headers=sent)
        assert posted.status_code == status
        told = await ds.client.post(JOBS, json=WORD_JOB, headers=sent)
        assert told.status_code == (403 if status == 403 else 201)
    assert (await ds.client.post(JOBS, json=WORD_JOB)).status_code == 201  # a program
    assert (await ds.client.post(JOBS, json=WORD_JOB, headers={"Origin": "https://evil.example"})).status_code == 403


def test_a_content_type_is_read_without_its_parameters():
    assert requests.media_type({"content-type": "Application/JSON; charset=utf-8"}) == "application/json"
    assert requests.media_type({}) == ""


def test_a_start_needs_a_table_and_an_enrichment():
    given = api.parse(api.Start, {"table": "t", "enrichment": "e"})
    assert (given.table, given.enrichment, given.filters, given.config, given.options) == ("t", "e", "", {}, {})
    with pytest.raises(JobError) as caught:
        api.parse(api.Start, {"table": 1, "filters": [], "config": [], "options": None, "filter": "x"})
    assert caught.value.details == [
        "table: write text",
        "enrichment: a value is needed",
        "filters: write text",
        "config: write an object",
        "options: write an object",
        "filter: unknown key; this request takes only table, enrichment, filters, config, options",
    ]


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
    assert possible_steps(dataclasses.replace(JOB, status=JobStatus(status))) == verbs


def test_the_bar_is_split_into_successes_errors_and_the_rest():
    assert parts(JOB).model_dump() == {"success": 4, "other": 1, "error": 2}


def test_the_bar_never_has_more_rows_than_were_answered():
    strange = dataclasses.replace(JOB, done_count=3, error_count=9, outcomes={"success": 8})
    assert parts(strange).model_dump() == {"success": 3, "other": 0, "error": 0}


def test_an_error_says_what_where_and_how():
    response = responses.error_json(JobError("No", ["a: no", "b: no"]))
    assert response.status == 400
    assert response.body == '{"ok": false, "error": "No", "errors": ["a: no", "b: no"], "status": 400}'


# ---- bodies -----------------------------------------------------------------------------------------------------


class Sent:
    """A request whose body comes in these parts."""

    def __init__(self, *parts: bytes, **headers: str) -> None:
        self.headers = headers
        self._messages = [
            {"type": "http.request", "body": part, "more_body": number < len(parts)}
            for number, part in enumerate(parts, 1)
        ]
        self.left = len(self._messages)

    async def receive(self) -> dict[str, Any]:
        self.left -= 1
        return self._messages[-1 - self.left]


async def test_a_body_comes_in_parts():
    assert await requests.json_object(Sent(b'{"a"', b": 1}")) == {"a": 1}
    assert await requests.json_object(Sent(b"")) == {}
    assert await requests.form_values(Sent(b"a=1&", b"b=%C3%A9&c=")) == {"a": "1", "b": "é", "c": ""}


async def test_a_body_that_is_too_long_is_read_no_further_than_it_must(monkeypatch):
    monkeypatch.setattr(requests, "MAX_BODY_BYTES", 10)
    announced, unannounced = Sent(b"x" * 11, **{"content-length": "11"}), Sent(b"x" * 6, b"x" * 6, b"x" * 6)
    for request, left in ((announced, 1), (unannounced, 1)):
        with pytest.raises(requests.BodyTooLarge) as caught:
            await requests.body_of(request)
        assert (caught.value.status, request.left) == (413, left)
    with pytest.raises(requests.BodyTooLarge):
        await requests.body_of(Sent(b"x", **{"content-length": "9" * 5000}))


async def test_a_length_that_is_no_number_is_not_believed(monkeypatch):
    monkeypatch.setattr(requests, "MAX_BODY_BYTES", 10)
    for length in ("", "many", "-1", "²"):
        assert await requests.body_of(Sent(b"x" * 10, **{"content-length": length})) == b"x" * 10


async def test_a_sender_who_goes_away_is_no_fault_of_ours():
    request = Sent(b"{")
    request._messages = [{"type": "http.disconnect"}]
    with pytest.raises(JobError, match="ended before its body"):
        await requests.body_of(request)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "not JSON"),
        (b"[]", "not a list"),
        (b'"x"', "not a str"),
        (b"null", "not a NoneType"),
        (b'{"a": NaN}', "no number NaN"),
        (b'{"a": -Infinity}', "no number"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
        (b'{"a": "\\ud800"}', "not Unicode"),
        (b'{"\\udfff": 1}', "not Unicode"),
        (b'{"a": "\xff"}', "not Unicode"),
        (b'{"a":' * 100_000, "nested too deeply"),
    ],
)
async def test_a_body_that_is_no_json_object_is_a_400(body, said):
    with pytest.raises(JobError, match=said) as caught:
        await requests.json_object(Sent(body))
    assert caught.value.status == 400


@pytest.mark.parametrize("body", [b"a=%FF", b"\xff=1"])
async def test_a_form_that_is_not_unicode_is_a_400(body):
    with pytest.raises(JobError, match="not a form"):
        await requests.form_values(Sent(body))


def test_unknown_keys_are_named_each():
    with pytest.raises(JobError) as caught:
        api.parse(api.Retry, {"scope": "due", "scop": 1, "x": 2})
    assert caught.value.details == [
        "scop: unknown key; this request takes only scope",
        "x: unknown key; this request takes only scope",
    ]
    with pytest.raises(JobError, match="reason: unknown key; this request takes none"):
        api.parse(api.Nothing, {"reason": ""})
    with pytest.raises(JobError, match="scope: choose 'errors', 'due' or 'misses'"):
        api.parse(api.Retry, {"scope": "everything"})


@pytest.mark.parametrize(
    ("header", "key"),
    [
        (None, None),
        ("abc", "abc"),
        (' "abc" ', "abc"),
        (r'"a\"b\\c"', r'a"b\c'),
        ("8e03978e-40d5-43dd-bc93-6894a57f9324", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
        ("x" * 255, "x" * 255),
    ],
)
def test_a_key_is_a_text_with_or_without_quotes(header, key):
    assert requests.idempotency_key({} if header is None else {"idempotency-key": header}) == key


@pytest.mark.parametrize("header", ["", " ", '""', "x" * 256, "é", "a\tb"])
def test_a_key_that_is_none_is_refused(header):
    with pytest.raises(JobError, match="Idempotency-Key: expected"):
        requests.idempotency_key({"idempotency-key": header})


# ---- asked over HTTP --------------------------------------------------------------------------------------------


async def test_a_repeated_request_gives_the_same_job_and_the_same_answer(ds):
    first, again = [await post_json(ds, JOBS, WORD_JOB, ROOT, **{"Idempotency-Key": key}) for key in ("k", '"k"')]
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.headers["location"] == again.headers["location"] == f"{JOBS}/1"
    assert first.json() == again.json()


async def test_the_order_of_keys_and_what_is_left_out_are_the_same_request(ds):
    bodies = [
        {"table": "words", "enrichment": "shout", "config": {"column": "word", "mood": "calm"}},
        {
            "options": {},
            "filters": "",
            "config": {"mood": "calm", "column": "word"},
            "enrichment": "shout",
            "table": "words",
        },
    ]
    sent = [await post_json(ds, JOBS, body, ROOT, **{"Idempotency-Key": "k"}) for body in bodies]
    assert [response.json()["job"]["id"] for response in sent] == [1, 1]


@pytest.mark.parametrize(
    "other",
    [
        {"table": "others"},
        {"enrichment": "ingest", "config": {"url_column": "word"}},
        {"filters": "id=1"},
        {"config": {"column": "word", "mood": "angry"}},
        {"options": {"batch_size": 1}},
    ],
)
async def test_a_key_that_came_with_another_request_is_a_422(ds, other):
    await ds.databases["words"].execute_write("create table others (id integer primary key, word text)")
    await post_json(ds, JOBS, WORD_JOB, ROOT, **{"Idempotency-Key": "k"})
    refused = await post_json(ds, JOBS, WORD_JOB | other, ROOT, **{"Idempotency-Key": "k"})
    assert (refused.status_code, refused.json()["status"]) == (422, 422)
    assert (await get(ds, f"{JOBS}.json", ROOT)).json()["jobs"][0]["id"] == 1


async def test_requests_at_once_with_one_key_start_one_job(ds):
    sent = await asyncio.gather(*(post_json(ds, JOBS, WORD_JOB, ROOT, **{"Idempotency-Key": "k"}) for _ in range(5)))
    assert [(response.status_code, response.json()["job"]["id"]) for response in sent] == [(201, 1)] * 5


async def test_a_repeated_retry_starts_one_job_even_when_nothing_is_left_to_retry(ds):
    await start(ds)
    await run_until_idle(ds)
    first = await post_json(ds, f"{JOBS}/1/retry", {}, ROOT, **{"Idempotency-Key": "k"})
    await ds.databases["words"].execute_write("delete from words")
    again = await post_json(ds, f"{JOBS}/1/retry", {}, ROOT, **{"Idempotency-Key": "k"})
    new = await post_json(ds, f"{JOBS}/1/retry", {}, ROOT)
    assert (first.status_code, again.status_code, new.status_code) == (201, 201, 409)
    assert first.json()["job"]["id"] == again.json()["job"]["id"] == 2


async def test_a_key_gives_no_job_to_whoever_lost_the_permission(open_ds):
    config = {"plugins": {"datasette-ingest": {"allow": {"id": "reader"}}}}
    ds = await open_ds(config)
    assert (await post_json(ds, JOBS, WORD_JOB, READER, **{"Idempotency-Key": "k"})).status_code == 201
    closed = await open_ds()
    assert (await post_json(closed, JOBS, WORD_JOB, READER, **{"Idempotency-Key": "k"})).status_code == 403


async def test_a_405_names_the_methods_that_there_are(ds):
    await start(ds)
    for path, method, allowed in (
        ("/-/ingest-jobs", "post", "GET, HEAD"),
        (JOBS, "put", "GET, POST, HEAD"),
        (f"{JOBS}.json", "post", "GET, HEAD"),
        (f"{JOBS}/1/pause", "get", "POST"),
        ("/-/ingest-api.json", "delete", "GET, HEAD"),
    ):
        response = await getattr(ds.client, method)(path)
        assert (path, response.status_code, response.headers["allow"]) == (path, 405, allowed)


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/xml", "multipart/form-data; boundary=x"])
async def test_a_body_of_another_type_is_a_415_in_json(ds, content_type):
    await start(ds)
    for path in (JOBS, f"{JOBS}/1/pause"):
        headers = {"Authorization": "Bearer none"} | ({"Content-Type": content_type} if content_type else {})
        response = await ds.client.post(path, content=b"{}", headers=headers)
        assert response.headers["content-type"].startswith("application/json")
        assert response.status_code in (403, 404, 415)  # who is asked first differs; nobody learns more
    signed_in = await _as_root_with_a_token(ds, JOBS, content_type)
    assert (signed_in.status_code, signed_in.json()["status"]) == (415, 415)


async def test_a_huge_body_is_a_413(ds):
    response = await post_json(ds, JOBS, WORD_JOB | {"filters": "x" * requests.MAX_BODY_BYTES}, ROOT)
    assert (response.status_code, response.json()["error"]) == (413, "The body is longer than 2,097,152 bytes")


async def test_a_number_that_is_none_is_a_job_that_is_not_there(ds):
    await start(ds)
    for number in ("0", "x", "1.5", "-1", "1e3", "9" * 30, "9" * 5000, "%20", "1~2E"):
        response = await get(ds, f"{JOBS}/{number}.json", ROOT)
        assert (number, response.status_code, response.json()["ok"]) == (number, 404, False)
    assert (await get(ds, f"{JOBS}.json?_next=words:{'9' * 5000}", ROOT)).status_code == 400
    assert (await get(ds, f"{JOBS}/1/errors.json?_next={'9' * 5000}", ROOT)).status_code == 400


async def _as_root_with_a_token(ds: Any, path: str, content_type: str | None) -> Any:
    """A POST by root that needs no form's token: what a body of this type gets from us, not from Datasette."""
    shown = await get(ds, "/-/messages", ROOT)
    cookies, token = cookies_of(ds, ROOT), shown.cookies.get("ds_csrftoken", "")
    headers = {"Sec-Fetch-Site": "same-origin", "x-csrftoken": token}
    if token:
        cookies["ds_csrftoken"] = token
    if content_type:
        headers["Content-Type"] = content_type
    return await ds.client.post(path, content=b"{}", cookies=cookies, headers=headers)
