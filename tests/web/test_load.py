"""What a visitor sends who means to hold the server: permission comes before the body, and every refusal is a sentence."""

from __future__ import annotations

import asyncio
import html
import json
import re
import sqlite3
import weakref
from urllib.parse import urlencode

import pytest
from datasette.utils.asgi import Forbidden, Request

from datasette_ingest.jobs import selection
from datasette_ingest.jobs.errors import JobError, TooMany
from datasette_ingest.jobs.service import dry_run, selection_preview, turns
from datasette_ingest.web import form, requests, routes

from .. import virtual
from .conftest import READER, ROOT, cookies_of, get, post_json, start

FORM = "/-/ingest/words/words/shout"
JOBS = "/-/ingest-jobs/words"
JOB = f"{JOBS}/1"
FORM_TYPE = "application/x-www-form-urlencoded"


async def post(ds, path, body, actor=ROOT, kind=FORM_TYPE):
    """A POST of the form as a page sends it, past the CSRF token of the 0.65 line."""
    headers = {"Content-Type": kind, "Sec-Fetch-Site": "same-origin"}
    return await ds.client.post(path, content=body, headers=headers, cookies=cookies_of(ds, actor))


# ---- permission first -------------------------------------------------------------------------------------------


class Unread:
    """A request's body that nobody may read."""

    async def __call__(self):
        pytest.fail("the body was read before permission was asked")


CHANGES = [
    (JOBS, "application/json"),
    *(
        (f"{JOB}/{step}", kind)
        for step in ("pause", "resume", "cancel", "retry")
        for kind in (FORM_TYPE, "application/json")
    ),
    *((f"{FORM}{step}", FORM_TYPE) for step in ("", "/preview", "/try")),
]


@pytest.mark.parametrize("path, kind", CHANGES, ids=[f"{path} {kind.partition('/')[2]}" for path, kind in CHANGES])
async def test_no_body_is_read_of_who_may_not(open_ds, path, kind):
    ds = await open_ds({"databases": {"words": {"allow": {"id": "root"}}}})
    await start(ds)
    for actor in (None, READER):
        answer = await ask_view(ds, path, kind, actor)
        assert answer in (403, 404)


async def ask_view(ds, path, kind, actor):
    """The status of our view's answer to a POST whose body raises when it is read. The 0.65 line's own CSRF check, which
    reads forms, stands before the view and is left out."""
    for pattern, view in routes.routes():
        if match := re.match(pattern, path):
            scope = {
                "type": "http",
                "method": "POST",
                "path": path,
                "raw_path": path.encode(),
                "query_string": b"",
                "headers": [(b"content-type", kind.encode()), (b"sec-fetch-site", b"same-origin")],
                "url_route": {"kwargs": match.groupdict()},
                "actor": actor,
                "scheme": "http",
                "csrftoken": lambda: "",
            }
            try:
                return (await view(ds, Request(scope, Unread()))).status
            except Forbidden:
                return 403
    pytest.fail(f"no view at {path}")


async def test_every_change_of_the_api_is_among_those(ds):
    paths = {
        path.replace("{database}", "words").replace("{id}", "1")
        for path, method, _ in routes.operations()
        if method == "post"
    }
    assert paths <= {path for path, _ in CHANGES}


async def test_who_may_enrich_one_table_starts_jobs_there_and_nowhere_else(open_ds):
    own = {"plugins": {"datasette-ingest": {"allow": {"id": "reader"}}}}
    ds = await open_ds({"databases": {"words": {"tables": {"words": own}}}})
    await ds.databases["words"].execute_write("create table other (id integer primary key, word text)")
    job = {"enrichment": "shout", "config": {"column": "word"}}
    assert (await post_json(ds, JOBS, {"table": "words", **job}, READER)).status_code == 201
    assert (await post_json(ds, JOBS, {"table": "other", **job}, READER)).status_code == 403


async def test_root_hears_that_a_table_is_missing_also_where_there_is_none(open_ds, tmp_path):
    sqlite3.connect(tmp_path / "empty.db").execute("vacuum")
    ds = await open_ds(paths=[str(tmp_path / "empty.db")])
    assert (
        await post_json(ds, "/-/ingest-jobs/empty", {"table": "words", "enrichment": "shout"}, ROOT)
    ).status_code == 404
    assert (await post_json(ds, "/-/ingest-jobs/empty", {"table": "words", "enrichment": "shout"})).status_code == 403


# ---- what the form's steps are sent -----------------------------------------------------------------------------

DEEP = "[" * 100_000
HOSTILE = {
    "a field twice": ("config.column=word&config.column=year", "'config.column' comes more than once"),
    "a row twice": ("config.column=word&tick._row%3D1=1&tick._row%3D1=1", "'tick._row=1' comes more than once"),
    "NUL": ("config.column=word&config.output=a%00b", "it has a NUL character"),
    "NUL in a name": ("col%00umn=word", "it has a NUL character"),
    "not UTF-8": ("config.column=%ff", "is not a form"),
    "raw bytes": (b"config.column=\xff\xfe", "is not a form"),
    "very many fields": ("&".join(f"f{n}=1" for n in range(1001)), "Max number of fields exceeded"),
    "a deep trail": (urlencode({"trail": DEEP}), "There is no such page of rows"),
    "a trail of numbers": (urlencode({"trail": "[1]"}), "There is no such page of rows"),
    "a trail of an object": (urlencode({"trail": '{"a": 1}'}), "There is no such page of rows"),
    "a page that is none": (urlencode({"trail": json.dumps(["", DEEP])}), "There is no such page of rows"),
    "a page beyond all numbers": (
        urlencode({"trail": json.dumps(["", '[["integer", "' + 5000 * "9" + '"]]'])}),
        "There is no such page of rows",
    ),
    "a ticked row of another kind": (urlencode({"ticked": "_where=1"}), "The ticked rows cannot be read"),
    "very many ticked rows": (urlencode({"ticked": "&".join(["_row=1"] * 20_000)}), "More than 10,000 rows are ticked"),
}


@pytest.mark.parametrize("step", ["/preview", "/try", ""])
@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_form_is_a_400_with_a_sentence(ds, name, step):
    body, sentence = HOSTILE[name]
    answer = await post_past_csrf(ds, FORM + step, body)
    shown = html.unescape(answer.text)
    if name.startswith("a page") and step != "/preview":  # which page of rows is shown does not matter there
        assert answer.status_code < 500
    else:
        assert (answer.status_code, sentence in shown) == (400, True), shown[-3000:]


@pytest.mark.parametrize(
    "options, fault",
    [
        ({"option.batch_size": 5000 * "9"}, "Rows per batch"),
        ({"option.batch_size": "1e400"}, "Rows per batch"),
        ({"option.max_errors": "[[[1]]]"}, "Stop after errors"),
        ({"config.mood": "furious"}, "mood"),
        ({"config.column": "no such"}, "column"),
    ],
)
@pytest.mark.parametrize("step", ["/try", ""])
async def test_settings_of_the_wrong_kind_are_a_400(ds, options, fault, step):
    answer = await post_past_csrf(ds, FORM + step, urlencode({"config.column": "word", **options}))
    assert answer.status_code == 400, answer.text[-2000:]


async def test_a_json_body_with_a_key_twice_is_a_400(ds):
    body = b'{"table": "words", "table": "words", "enrichment": "shout"}'
    answer = await post(ds, JOBS, body, kind="application/json")
    assert (answer.status_code, answer.json()["error"]) == (400, "The body is not JSON: 'table' comes more than once")


TOKENS = weakref.WeakKeyDictionary()


async def token_of(ds):
    """The CSRF token of the 0.65 line, '' on the other."""
    if ds not in TOKENS:
        shown = await ds.client.get("/-/logout", cookies=cookies_of(ds, ROOT))
        TOKENS[ds] = shown.cookies.get("ds_csrftoken") or ""
    return TOKENS[ds]


async def post_past_csrf(ds, path, body):
    """A form with that token in a header, whatever else is in it."""
    token = await token_of(ds)
    headers = {"Content-Type": FORM_TYPE, "Sec-Fetch-Site": "same-origin", "x-csrftoken": token}
    cookies = {**cookies_of(ds, ROOT), "ds_csrftoken": token}
    return await ds.client.post(path, content=body, headers=headers, cookies=cookies)


# ---- filters ----------------------------------------------------------------------------------------------------

TOO_MANY = "id__in=" + ",".join(map(str, range(1001)))


@pytest.mark.parametrize("path", ["/-/ingest/words/words", "/-/ingest/words/words.json", FORM, f"{FORM}.json"])
async def test_too_many_values_of_a_filter_are_a_400(ds, path):
    answer = await get(ds, f"{path}?{TOO_MANY}", ROOT)
    assert answer.status_code == 400 and "1,001 values; 1,000 is the most" in html.unescape(answer.text)


async def test_a_start_with_filters_that_are_too_long_is_a_400(ds):
    body = {"table": "words", "enrichment": "shout", "config": {"column": "word"}, "filters": "word=" + 70_000 * "x"}
    answer = await post_json(ds, JOBS, body, ROOT)
    assert (answer.status_code, answer.json()["error"]) == (
        400,
        "These filters are longer than 64 kB. Choose fewer or shorter ones",
    )


# ---- slow questions ---------------------------------------------------------------------------------------------

ENDLESS = urlencode(
    {"_where": "id = (with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n)"}
)


@pytest.fixture
def short_waits(monkeypatch):
    for module, name in (
        (selection, "WAIT_MS"),
        (selection_preview, "QUICK_MS"),
        (form, "QUICK_MS"),
        (form, "SLOW_MS"),
    ):
        monkeypatch.setattr(module, name, 60.0)


async def test_what_counts_for_too_long_can_be_started_and_the_page_says_so(ds, short_waits):
    page = await get(ds, f"{FORM}?{ENDLESS}", ROOT)
    assert page.status_code == 200 and "all rows that match" in page.text
    body = {"table": "words", "enrichment": "shout", "config": {"column": "word"}, "filters": ENDLESS}
    answer = await post_json(ds, JOBS, body, ROOT)
    job = answer.json()["job"]
    assert (answer.status_code, job["row_count"], job["is_counted"], job["percent"], job["eta_seconds"]) == (
        (201, 0, False, 0.0, None)
    )
    shown = (await get(ds, JOB, ROOT)).text
    assert '<span data-live="row_count">at least 0</span>' in shown and '<span data-live="percent">–</span>' in shown
    listed = await get(ds, "/-/ingest/words/words.json?word__contains=word", ROOT)
    assert listed.json()["count"] == 4


@pytest.mark.parametrize(
    "ask",
    [
        lambda ds: get(ds, "/-/ingest/words/words", ROOT),
        lambda ds: get(ds, "/-/ingest/words/words.json", ROOT),
        lambda ds: get(ds, FORM, ROOT),
        lambda ds: get(ds, f"{FORM}.json", ROOT),
        lambda ds: post_json(ds, JOBS, {"table": "words", "enrichment": "shout", "config": {"column": "word"}}, ROOT),
        lambda ds: post_past_csrf(ds, f"{FORM}/preview", "config.column=word"),
        lambda ds: post_past_csrf(ds, f"{FORM}/try", "config.column=word"),
        lambda ds: post_past_csrf(ds, FORM, "config.column=word"),
    ],
    ids=["choose", "choose as JSON", "form", "form as JSON", "start as JSON", "preview", "try", "start"],
)
async def test_more_than_a_few_of_one_actor_at_once_are_a_429_that_says_when(ds, ask, monkeypatch):
    monkeypatch.setattr(turns, "MOST_OF_ONE_ACTOR", 1)
    await token_of(ds)
    async with turns.turn(ds, ROOT):
        answer = await ask(ds)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "2")
    assert "requests of yours are being answered already" in html.unescape(answer.text)


async def test_every_operation_that_may_be_refused_so_says_it_in_the_document(ds):
    described = (await get(ds, "/-/ingest-api.json", ROOT)).json()
    refusing = {
        operation["operationId"]
        for methods in described["paths"].values()
        for operation in methods.values()
        if "429" in operation["responses"]
    }
    assert refusing == {
        "listEnrichments",
        "getSettings",
        "startJob",
        "retryJob",
        "getStats",
        "search",
        "getLinksReport",
    }
    assert "Retry-After" in described["components"]["responses"]["429"]["headers"]


async def test_a_person_tests_rows_once_at_a_time(ds, shout):
    shout.held.set()
    first = asyncio.ensure_future(post_past_csrf(ds, f"{FORM}/try", "config.column=word"))
    while not dry_run._RUNNING.get(ds):
        await asyncio.sleep(0.01)
    second = await post_past_csrf(ds, f"{FORM}/try", "config.column=word")
    assert second.status_code == 429 and second.headers["retry-after"] == "30"
    assert "You are testing rows already" in html.unescape(second.text)
    shout.held.clear()
    assert (await first).status_code == 200
    assert (await post_past_csrf(ds, f"{FORM}/try", "config.column=word")).status_code == 200


@pytest.mark.parametrize(
    "filters",
    [
        "id__in=" + 30_000 * "[",
        "id__in=" + 1_000 * '{"a":',
        "_through=" + 30_000 * "[",
        "_through=7",
        '_through={"table": 7, "column": [], "value": {}}',
        "id=" + 5_000 * "9",
        "id__gte=" + 5_000 * "9",
        "id__gt=9223372036854775808",
        "id__in=[9223372036854775808]",
        "id__in=[1e999]",
        "id__in=[" + 5_000 * "9" + "]",
        "id__in=[NaN, Infinity]",
        "id__between=1",
        "word=%00",
        "wo%00rd=1",
        "word=%ff",
        "word=%ED%A0%80",
        "_where=%00",
        "_row=%00",
        "_row=" + 5_000 * "9",
        "_rowid=" + 5_000 * "9",
        "_ingest_failed=" + 5_000 * "9",
        "_ingest_status=x&_ingest_job=" + 5_000 * "9",
        "_ingest_retry=1&_ingest_scope=" + 5_000 * "x",
        "_search=%00",
        "id__gte=1&id__gte=" + 400 * "2&id__gte=",
    ],
    ids=lambda text: text[:30],
)
async def test_hostile_filters_are_answered_and_never_a_fault(ds, filters):
    body = {"table": "words", "enrichment": "shout", "config": {"column": "word"}, "filters": filters}
    for answer in (
        await get(ds, f"{FORM}.json?{filters}", ROOT),
        await post_past_csrf(ds, f"{FORM}/preview?{filters}", "config.column=word"),
        await post_past_csrf(ds, f"{FORM}/try?{filters}", "config.column=word"),
        await post_json(ds, JOBS, body, ROOT),
    ):
        assert answer.status_code in (200, 201, 400), answer.text[-1500:]


# ---- large bodies -----------------------------------------------------------------------------------------------


class Slowly:
    """A body that never comes to its end."""

    def __init__(self):
        self.is_asked = asyncio.Event()

    async def __call__(self):
        self.is_asked.set()
        await asyncio.Event().wait()


def large(receive, length="1000000"):
    headers = [(b"content-type", b"application/json"), *([(b"content-length", length.encode())] if length else [])]
    return Request({"type": "http", "method": "POST", "headers": headers}, receive)


@pytest.mark.parametrize("length", ["1000000", "", "nonsense"])
def test_large_bodies_are_received_one_at_a_time_and_none_waits_for_long(length):
    async def main(clock):
        slow, other = Slowly(), Slowly()
        first = asyncio.ensure_future(requests.json_object(large(slow, length)))
        await slow.is_asked.wait()
        with pytest.raises(TooMany, match="Other large requests are being received"):
            await requests.json_object(large(other, length))
        assert not other.is_asked.is_set() and clock.elapsed == requests.LARGE_BODY_SECONDS
        assert await requests.json_object(large(at_once, "2")) == {}
        with pytest.raises(JobError, match="The body did not arrive within 30 s"):
            await first
        assert await requests.json_object(large(at_once, length)) == {}

    virtual.run(main)


async def at_once():
    return {"type": "http.request", "body": b"{}", "more_body": False}
