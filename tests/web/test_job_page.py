"""The list of jobs, one job, its errors, and steering it, for people and for programs."""

from __future__ import annotations

import dataclasses
import html
import re
import time
from typing import Any

import pytest

from datasette_ingest.jobs.enrichment import Enrichment
from datasette_ingest.jobs.model import LAST_STAMP, Job
from datasette_ingest.jobs.service import control, queries
from datasette_ingest.jobs.service.outcomes import JobOutput, lasting_filters
from datasette_ingest.jobs.stored_row import job_of
from datasette_ingest.sqlite import stamp
from datasette_ingest.testing import run_until_idle
from datasette_ingest.web import job_page, jobs_list

from .conftest import READER, ROOT, get, make_words, post_form, post_json, start

JOB = "/-/ingest-jobs/words/1"
PRIVATE = {"databases": {"words": {"tables": {"words": {"allow": {"id": "root"}}}}}}


def without_server(**more: Any) -> dict[str, Any]:
    return {"plugins": {"datasette-ingest": {"run_jobs": False}}, **more}


@pytest.fixture
async def finished(ds):
    await start(ds)
    await run_until_idle(ds)
    return ds


async def test_a_program_starts_a_job_and_is_told_where_it_is(ds):
    body = {"table": "words", "enrichment": "shout", "filters": "year__gte=2003", "config": {"column": "word"}}
    sent = await post_json(ds, "/-/ingest-jobs/words", body, ROOT)
    assert sent.status_code == 201
    assert sent.headers["location"] == JOB
    job = sent.json()["job"]
    assert (job["id"], job["row_count"], job["done_count"], job["percent"]) == (1, 3, 0, 0.0)
    assert (job["status"], job["is_final"], job["url"]) == ("pending", False, JOB)
    assert job["config"] == {"column": "word", "output": "shouted", "mood": "calm", "strict": False}


async def test_the_job_has_every_column_decoded_and_what_follows_from_them(finished):
    body = (await get(finished, f"{JOB}.json", ROOT)).json()
    columns = await finished.databases["words"].execute("select name from pragma_table_info('_enrichment_jobs')")
    job = body["job"]
    assert {row[0] for row in columns.rows} - {"request_key", "request_digest", "private_table"} <= set(job)
    assert {"percent", "rows_per_second", "eta_seconds", "open_batches", "url", "is_final"} <= set(job)
    assert job["outcomes"] == {"success": 4, "error": 1}
    assert job["parts"] == {"success": 4, "other": 0, "error": 1}
    assert (job["status"], job["is_final"], job["percent"], job["actions"]) == ("finished", True, 100.0, ["retry"])
    assert job["options"] == {}


async def test_the_same_request_key_starts_one_job(ds):
    body = {"table": "words", "enrichment": "shout", "config": {"column": "word"}}
    for _ in range(2):
        sent = await post_json(ds, "/-/ingest-jobs/words", body, ROOT, **{"Idempotency-Key": "k"})
        assert (sent.status_code, sent.json()["job"]["id"]) == (201, 1)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 400, "table"),
        ([], 400, "object"),
        ({"table": "nope", "enrichment": "shout"}, 404, "nope"),
        ({"table": "quiet", "enrichment": "shout"}, 400, "view"),
        ({"table": "words", "enrichment": "whisper"}, 400, "whisper"),
        ({"table": "words", "enrichment": "shout", "config": {"column": "gone"}}, 400, "gone"),
        ({"table": "words", "enrichment": "shout", "config": {"loudness": 3}}, 400, "loudness"),
        ({"table": "words", "enrichment": "shout", "filters": "yaer=1"}, 400, "yaer"),
        ({"table": "words", "enrichment": "shout", "options": {"batch_size": 0}}, 400, "batch_size"),
        ({"table": "words", "enrichment": "shout", "colour": "red"}, 400, "colour"),
    ],
)
async def test_what_cannot_start_is_refused_by_name(ds, body, status, said):
    sent = await post_json(ds, "/-/ingest-jobs/words", body, ROOT)
    refusal = sent.json()
    assert (sent.status_code, refusal["ok"], refusal["status"]) == (status, False, status)
    assert said in refusal["error"]
    assert refusal["errors"]
    assert await queries.list_jobs(ds, "words", actor=ROOT) == []


async def test_a_body_that_is_not_json_is_a_400(ds):
    cookies = {"ds_actor": ds.sign({"a": ROOT}, "actor")}
    headers = {"Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
    for content in (b"{", b"\xff", b"[" * 100_000):
        sent = await ds.client.post("/-/ingest-jobs/words", content=content, cookies=cookies, headers=headers)
        assert (sent.status_code, sent.json()["ok"]) == (400, False)


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://evil.example"},
        {},
    ],
)
async def test_a_post_with_a_cookie_from_elsewhere_changes_nothing(ds, headers):
    await start(ds)
    cookies = {"ds_actor": ds.sign({"a": ROOT}, "actor")}
    body = {"table": "words", "enrichment": "shout", "config": {"column": "word"}}
    for path in ("/-/ingest-jobs/words", f"{JOB}/cancel"):
        headers = {"Content-Type": "application/json", **headers}
        sent = await ds.client.post(path, json=body, cookies=cookies, headers=headers)
        assert sent.status_code == 403
    jobs = await queries.list_jobs(ds, "words", actor=ROOT)
    assert [(job.id, job.status.value) for job in jobs] == [(1, "pending")]


async def test_a_post_that_is_not_json_needs_a_form(ds):
    await start(ds)
    cookies = {"ds_actor": ds.sign({"a": ROOT}, "actor")}
    for content_type in ("text/plain", "application/jsonx"):
        headers = {"Content-Type": content_type, "Sec-Fetch-Site": "same-origin"}
        sent = await ds.client.post(f"{JOB}/cancel", content=b"{}", cookies=cookies, headers=headers)
        assert sent.status_code in (403, 415)
    assert (await queries.find(ds, "words", 1, actor=ROOT)).status.value == "pending"


# ---- steering ---------------------------------------------------------------------------------------------------


async def test_a_program_pauses_resumes_and_cancels(ds):
    await start(ds)
    for verb, status in (("pause", "paused"), ("resume", "pending"), ("cancel", "cancelled")):
        sent = await post_json(ds, f"{JOB}/{verb}", {}, ROOT)
        assert (sent.status_code, sent.json()["job"]["status"]) == (200, status)


async def test_an_illegal_step_is_a_409(finished):
    for verb in ("pause", "resume", "cancel"):
        sent = await post_json(finished, f"{JOB}/{verb}", {}, ROOT)
        assert (sent.status_code, sent.json()["status"]) == (409, 409)


async def test_retry_starts_a_new_job_over_the_rows_in_error(finished):
    sent = await post_json(finished, f"{JOB}/retry", {}, ROOT)
    assert sent.status_code == 201
    assert sent.headers["location"] == "/-/ingest-jobs/words/2"
    assert (sent.json()["job"]["row_count"], sent.json()["job"]["filter_querystring"]) == (1, "_ingest_failed=1")
    wrong = await post_json(finished, f"{JOB}/retry", {"scope": "everything"}, ROOT)
    assert wrong.status_code == 400
    assert (await post_json(finished, f"{JOB}/retry", {"scope": 5}, ROOT)).status_code == 400
    misspelt = await post_json(finished, f"{JOB}/retry", {"scop": "misses"}, ROOT)
    assert (misspelt.status_code, misspelt.json()["error"]) == (
        400,
        "scop: unknown key; this request takes only scope",
    )


async def test_a_person_presses_a_button_and_is_back_on_the_job(ds):
    await start(ds)
    sent = await post_form(ds, JOB, f"{JOB}/pause", {}, ROOT)
    assert (sent.status_code, sent.headers["location"]) == (303, JOB)
    page = (await get(ds, JOB, ROOT)).text
    assert 'action="/-/ingest-jobs/words/1/resume"' in page
    assert 'action="/-/ingest-jobs/words/1/cancel"' in page
    assert 'action="/-/ingest-jobs/words/1/pause"' not in page


async def test_a_button_that_came_too_late_leads_to_the_job_as_it_is_and_says_why(finished):
    for verb in ("pause", "cancel"):
        sent = await post_form(finished, "/-/ingest/words/words/shout", f"{JOB}/{verb}", {}, ROOT)
        assert (sent.status_code, sent.headers["location"]) == (303, JOB)
        [[said, _]] = finished.unsign(sent.cookies["ds_messages"], "messages")
        assert said.startswith("Job 1 is finished")
    assert (await queries.find(finished, "words", 1, actor=ROOT)).status.value == "finished"


async def test_steps_are_taken_by_post_only(ds):
    await start(ds)
    assert (await get(ds, f"{JOB}/cancel", ROOT)).status_code == 405
    assert (await queries.find(ds, "words", 1, actor=ROOT)).status.value == "pending"


# ---- looking ----------------------------------------------------------------------------------------------------


async def test_the_page_shows_state_outcomes_errors_and_what_can_be_done(finished):
    page = (await get(finished, JOB, ROOT)).text
    assert '<span class="ingest-badge ingest-badge-finished" data-live="status">finished</span>' in page
    assert "&lt;b&gt;no&lt;/b&gt; word &amp; no voice" in page
    assert "<b>no</b>" not in page
    assert 'href="/words/words/5"' in page
    assert 'value="Retry 1 row in error"' in page
    assert "Traceback" in page


def outcome_link(page: str, word: str) -> str:
    return html.unescape(re.search(rf'<a class="ingest-outcome" id="ingest-outcome-{word}" href="([^"]+)">', page)[1])


async def test_each_outcome_links_to_its_rows(finished):
    page = (await get(finished, JOB, ROOT)).text
    link = outcome_link(page, "success")
    assert link == "/words/words?shouted_status__exact=success"
    rows = (await get(finished, link.replace("?", ".json?_shape=array&"), ROOT)).json()
    assert [row["id"] for row in rows] == [1, 2, 3, 4]
    link = outcome_link(page, "error")
    rows = (await get(finished, link.replace("?", ".json?_shape=array&"), ROOT)).json()
    assert [row["id"] for row in rows] == [5]


async def test_an_outcome_leads_to_the_rows_of_its_own_job(ds):
    for filters in ("year__lte=2002", "year__gt=2002&id__lt=5"):
        await start(ds, filters=filters)
    await run_until_idle(ds)
    for number, ids in ((1, [1, 2]), (2, [3, 4])):
        page = (await get(ds, f"/-/ingest-jobs/words/{number}", ROOT)).text
        link = outcome_link(page, "success")
        rows = (await get(ds, link.replace("?", ".json?_shape=array&"), ROOT)).json()
        assert [row["id"] for row in rows] == ids


async def test_an_outcome_beside_the_table_leads_to_the_rows_of_its_own_job(ds):
    for filters in ("year__lte=2002", "year__gt=2002"):
        await start(ds, filters=filters, options={"output": "shadow"})
    await run_until_idle(ds)
    page = (await get(ds, JOB, ROOT)).text
    link = outcome_link(page, "success")
    rows = (await get(ds, link.replace("?", ".json?_shape=array&"), ROOT)).json()
    assert [row["id"] for row in rows] == [1, 2]


@pytest.mark.parametrize(
    ("querystring", "lasting"),
    [
        ("", ""),
        ("year__gte=2020&_search=owl", "year__gte=2020&_search=owl"),
        ("_ingest_failed=3", "_ingest_failed=3"),
        ("shouted_status__exact=success", ""),
        ("year__gte=2020&SHOUTED__isnull=1", ""),
        ("shouted=A", ""),
        ("_where=shouted+is+null", ""),
        ("_ingest_retry=3&_ingest_scope=misses", ""),
        ("_ingest_status=success&_ingest_job=3", ""),
    ],
)
def test_filters_on_what_a_job_changes_do_not_find_its_rows_again(querystring, lasting):
    job = job_of(
        dict.fromkeys((field.name for field in dataclasses.fields(Job)), None)
        | {"id": 4, "status": "finished", "table_name": "words", "filter_querystring": querystring}
    )
    output = JobOutput(job, Enrichment(), "words", "shouted_status", frozenset({"shouted", "shouted_status"}))
    assert lasting_filters(job, output) == lasting


async def buttons(ds) -> dict[str, str]:
    page = (await get(ds, JOB, ROOT)).text
    return dict(re.findall(r'<input type="submit" id="ingest-([^"]+)" value="([^"]+)"', page))


async def test_a_retry_says_how_many_rows_of_which_kind_it_would_try(finished, shout, monkeypatch):
    assert await buttons(finished) == {"retry": "Retry 1 row in error"}
    worth_it = {"due": ("year < 2002", {}), "misses": ("year < 2003", {})}
    monkeypatch.setattr(type(shout), "retry_where", lambda self, config, table, scope: worth_it[scope])
    await finished.databases["words"].execute_write(
        """update _enrichment_jobs set outcomes = '{"success": 2, "hoarse": 2, "error": 1}'"""
    )
    assert await buttons(finished) == {"retry": "Retry 2: 1 in error, 1 due", "retry-misses": "Retry 2 misses"}
    sent = await post_form(finished, JOB, f"{JOB}/retry", {"scope": "misses"}, ROOT)
    assert (sent.status_code, sent.headers["location"]) == (303, "/-/ingest-jobs/words/2")
    assert (await queries.find(finished, "words", 2, actor=ROOT)).row_count == 2
    sent = await post_form(finished, JOB, f"{JOB}/retry", {}, ROOT)
    assert (await queries.find(finished, "words", 3, actor=ROOT)).row_count == 2


async def test_very_many_errors_are_not_looked_up_one_by_one_to_be_counted(finished, shout, monkeypatch):
    monkeypatch.setattr(control, "EXACTLY_COUNTED_ERRORS", 0)
    monkeypatch.setattr(type(shout), "retry_where", lambda self, config, table, scope: ("year < 2002", {}))
    await finished.databases["words"].execute_write(
        """update _enrichment_jobs set error_count = 3, outcomes = '{"hoarse": 2, "error": 3}'"""
    )
    assert (await buttons(finished))["retry"] == "Retry 4: 3 in error, 1 due"


async def test_a_job_without_anything_to_try_again_offers_no_retry(finished):
    db = finished.databases["words"]
    await db.execute_write("delete from _enrichment_errors")
    await db.execute_write("""update _enrichment_jobs set error_count = 0, outcomes = '{"success": 5}'""")
    assert await buttons(finished) == {}


async def test_a_count_that_takes_too_long_is_left_out_of_its_button(finished, shout, monkeypatch):
    forever = "(with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n) > 0"
    monkeypatch.setattr(type(shout), "retry_where", lambda *asked: (forever, {}))
    monkeypatch.setattr(job_page, "RETRY_COUNT_LIMIT_MS", 20)
    await finished.databases["words"].execute_write(
        """update _enrichment_jobs set outcomes = '{"success": 2, "hoarse": 2, "error": 1}'"""
    )
    assert await buttons(finished) == {"retry": "Retry failures"}


async def test_the_log_is_in_the_jobs_json_and_on_its_page_newest_first(ds):
    await start(ds)
    await post_json(ds, f"{JOB}/pause", {}, {"id": "root", "name": "<i>Root</i>"})
    job = (await get(ds, f"{JOB}.json", ROOT)).json()["job"]
    assert [event["message"] for event in job["events"]] == ["Paused by root", "Started by root"]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", event["at"]) for event in job["events"])
    page = (await get(ds, JOB, ROOT)).text
    assert page.index("Paused by root.") < page.index("Started by root.")


async def test_a_long_log_is_shown_in_part_and_leads_to_the_rest(ds, monkeypatch):
    monkeypatch.setattr(job_page, "EVENTS_SHOWN", 2)
    await start(ds)
    assert "The whole log" not in (await get(ds, JOB, ROOT)).text
    for verb in ("pause", "resume"):
        await post_json(ds, f"{JOB}/{verb}", {}, ROOT)
    assert len((await get(ds, f"{JOB}.json", ROOT)).json()["job"]["events"]) == 2
    link = html.unescape(re.search(r'<a href="([^"]+)">The whole log</a>', (await get(ds, JOB, ROOT)).text)[1])
    rows = (await get(ds, link.replace("?", ".json?_shape=array&"), ROOT)).json()
    assert [row["message"] for row in rows] == ["Resumed by root", "Paused by root", "Started by root"]


async def test_an_actor_or_a_reason_with_markup_is_text_in_the_log(open_ds):
    ds = await open_ds({"plugins": {"datasette-ingest": {"run_jobs": False, "allow": True}}})
    await start(ds, actor={"id": "<script>alert(1)</script>"})
    page = (await get(ds, JOB, ROOT)).text
    assert "Started by &lt;script&gt;alert(1)&lt;/script&gt;." in page and "<script>alert" not in page


async def test_what_rows_wait_for_is_shown_by_reason_the_most_rows_first(ds):
    await start(ds)
    soon, later, past = "2999-01-01T00:00:00.000Z", "2999-02-01T00:00:00.000Z", "2020-01-01T00:00:00.000Z"
    reasons = [
        ("<b>a</b>.example rests", later, 3),
        ("<b>a</b>.example rests", soon, 2),
        ("the archive is full", later, 1),
    ]
    reasons += [("is due", past, 9), *((f"reason {n:02}", later, 1) for n in range(9))]
    db = ds.databases["words"]
    for reason, until, number in reasons:
        await db.execute_write(
            "insert into _enrichment_batches (job_id, end_cursor, row_count, not_before, defer_reason) "
            "values (1, '[]', ?, ?, ?)",
            [number, until, reason],
        )
    await db.execute_write("update _enrichment_jobs set status = 'running', waits_until = ?", [soon])
    page = (await get(ds, JOB, ROOT)).text
    section = page.partition('<section id="ingest-waits"')[2].partition("</section>")[0]
    shown = re.findall(r"<li>(.*?)</li>", section)
    assert shown[0] == (
        "5 rows: <span>&lt;b&gt;a&lt;/b&gt;.example rests</span> "
        '<span class="ingest-note">until <time>2999-01-01 00:00:00 UTC</time></span>'
    )
    assert len(shown) == 10 and "is due" not in section
    assert "All remaining rows wait. The job continues by itself at <time>2999-01-01 00:00:00 UTC</time>." in page
    job = (await get(ds, f"{JOB}.json", ROOT)).json()["job"]
    assert job["waits_until"] == soon and (job["rows_per_second"], job["eta_seconds"]) == (None, None)
    assert job["waits"][:2] == [
        {"reason": "<b>a</b>.example rests", "until": soon, "rows": 5},
        {"reason": "reason 00", "until": later, "rows": 1},
    ]
    await db.execute_write("update _enrichment_batches set not_before = null where not_before > '2021'")
    await db.execute_write("update _enrichment_jobs set waits_until = ?", [past])
    job = (await get(ds, f"{JOB}.json", ROOT)).json()["job"]
    assert (job["waits_until"], job["waits"]) == (None, [])
    assert "All remaining rows wait" not in (await get(ds, JOB, ROOT)).text


async def test_running_again_opens_the_form_as_it_was(ds):
    config = {"column": "word", "output": "a<b", "mood": "angry", "strict": True}
    await start(ds, filters="year__gte=2003", config=config, options={"batch_size": 7})
    await run_until_idle(ds)
    link = html.unescape(re.search(r'id="ingest-rerun" href="([^"]+)"', (await get(ds, JOB, ROOT)).text)[1])
    assert link == "/-/ingest/words/words/shout?year__gte=2003&_again=1"
    form = (await get(ds, link, ROOT)).text
    assert 'value="a&lt;b"' in form
    assert re.search(r'name="option.batch_size"[^>]* value="7"', form)
    assert re.search(r'<option value="angry" selected', form)
    assert re.search(r'name="config.strict"[^>]* checked', form)
    assert "3 rows" in form


@pytest.mark.parametrize(("again", "status"), [("99", 404), ("x", 400), ("1", 400)])
async def test_a_job_that_is_none_or_another_tables_fills_no_form(open_ds, tmp_path, again, status):
    path = tmp_path / "words.db"
    make_words(path)
    make_words(path, table="more")
    ds = await open_ds(without_server(), paths=[str(path)])
    await start(ds, table="more")
    assert (await get(ds, f"/-/ingest/words/words/shout?_again={again}", ROOT)).status_code == status


async def test_a_hidden_condition_is_not_run_again_by_those_who_may_not_write_sql(open_ds):
    settings = {"run_jobs": False, "allow": {"id": "reader"}}
    ds = await open_ds({"plugins": {"datasette-ingest": settings}, "allow_sql": {"id": "root"}})
    await start(ds, filters="_where=year>2002")
    assert "_again" in (await get(ds, JOB, ROOT)).text
    assert "_again" not in (await get(ds, JOB, READER)).text


async def test_errors_of_one_message_are_listed_together(ds):
    await start(ds)
    await run_until_idle(ds)
    await ds.databases["words"].execute_write(
        "insert into _enrichment_errors (job_id, row_pks, error) values (1, '[1]', 'other'), (1, '[2]', 'other')"
    )
    path = f"{JOB}/errors.json?like=2"
    assert [error["row_pks"] for error in (await get(ds, path, ROOT)).json()["errors"]] == [[1], [2]]
    page = (await get(ds, f"{JOB}/errors?like=1", ROOT)).text
    assert "Only errors with the same message" in page and "other" not in page


@pytest.mark.parametrize(
    ("until", "expected"),
    [(-60, (0, 3500)), (3600, (3500, 3600)), (LAST_STAMP, None)],
    ids=["due", "in an hour", "never"],
)
async def test_a_job_takes_at_least_as_long_as_its_last_row_waits(ds, until, expected):
    await start(ds)
    await run_until_idle(ds)
    db = ds.databases["words"]
    last = until if isinstance(until, str) else stamp(time.time() + until)
    await db.execute_write("update _enrichment_jobs set status = 'running', row_count = done_count + 1")
    await db.execute_write(
        "insert into _enrichment_batches (job_id, end_cursor, row_count, not_before) values (1, '[]', 1, ?)", [last]
    )
    seconds = (await get(ds, f"{JOB}.json", ROOT)).json()["job"]["eta_seconds"]
    assert seconds is None if expected is None else expected[0] <= seconds <= expected[1]


async def test_a_paused_job_has_no_rate(ds):
    await start(ds)
    await run_until_idle(ds)
    await ds.databases["words"].execute_write("update _enrichment_jobs set status = 'paused', finished_at = null")
    job = (await get(ds, f"{JOB}.json", ROOT)).json()["job"]
    assert (job["rows_per_second"], job["eta_seconds"]) == (None, None)


async def test_the_rows_in_error_are_an_ordinary_table_page(finished):
    page = (await get(finished, JOB, ROOT)).text
    link = html.unescape(re.search(r'<a href="([^"]+)">These rows in the table</a>', page)[1])
    rows = (await get(finished, link.replace("?", ".json?_shape=array&"), ROOT)).json()
    assert [row["id"] for row in rows] == [5]


async def test_errors_are_listed_and_paged(finished, monkeypatch):
    body = (await get(finished, f"{JOB}/errors.json", ROOT)).json()
    assert [(error["row_pks"], error["error"]) for error in body["errors"]] == [
        ([5], "ValueError: <b>no</b> word & no voice")
    ]
    assert (body["next"], body["next_url"]) == (None, None)
    page = (await get(finished, f"{JOB}/errors", ROOT)).text
    assert "&lt;b&gt;no&lt;/b&gt; word" in page
    assert (await get(finished, f"{JOB}/errors?_next=x", ROOT)).status_code == 400


async def test_a_second_page_of_errors_begins_where_the_first_ended(ds, monkeypatch):
    monkeypatch.setattr(job_page, "ERRORS_A_PAGE", 2)
    await ds.databases["words"].execute_write("update words set word = null")
    await start(ds)
    await run_until_idle(ds)
    first = (await get(ds, f"{JOB}/errors.json", ROOT)).json()
    second = (await get(ds, first["next_url"].replace("errors?", "errors.json?"), ROOT)).json()
    third = (await get(ds, second["next_url"].replace("errors?", "errors.json?"), ROOT)).json()
    keys = [error["row_pks"] for body in (first, second, third) for error in body["errors"]]
    assert sorted(keys) == [[1], [2], [3], [4], [5]]
    assert third["next"] is None


async def test_the_list_is_newest_first_and_narrows_by_status_and_table(finished):
    await start(finished)
    listed = (await get(finished, "/-/ingest-jobs/words.json", ROOT)).json()
    assert [job["id"] for job in listed["jobs"]] == [2, 1]
    narrowed = {
        "status=finished": [1],
        "table=words": [2, 1],
        "table=nope": [],
        "enrichment=shout": [2, 1],
        "enrichment=nope": [],
        "status=&table=&enrichment=": [2, 1],
    }
    for query, ids in narrowed.items():
        for path in ("/-/ingest-jobs.json", "/-/ingest-jobs/words.json"):
            body = (await get(finished, f"{path}?{query}", ROOT)).json()
            assert [job["id"] for job in body["jobs"]] == ids
    assert (await get(finished, "/-/ingest-jobs?status=asleep", ROOT)).status_code == 400
    page = (await get(finished, "/-/ingest-jobs", ROOT)).text
    assert page.index("Shout #2") < page.index("Shout #1")
    page = (await get(finished, "/-/ingest-jobs?enrichment=%3Cb%3E&table=%3Ci%3E", ROOT)).text
    assert '<option value="&lt;b&gt;" selected>' in page and '<option value="&lt;i&gt;" selected>' in page


async def test_an_empty_list_says_how_to_begin_and_a_narrowed_one_how_to_see_all(ds):
    page = (await get(ds, "/-/ingest-jobs/words", ROOT)).text
    assert "Enrich selected rows" in page and 'href="/words"' in page
    await start(ds)
    page = (await get(ds, "/-/ingest-jobs/words?status=paused", ROOT)).text
    assert '<a href="/-/ingest-jobs/words">Show all jobs</a>' in page and "Enrich selected rows" not in page


async def test_the_list_offers_only_tables_whose_jobs_the_actor_may_see(open_ds):
    settings = {"run_jobs": False, "allow": {"id": ["root", "reader"]}}
    ds = await open_ds({"plugins": {"datasette-ingest": settings}, **PRIVATE})
    await start(ds)
    for path in ("/-/ingest-jobs", "/-/ingest-jobs?status=paused"):
        assert '<option value="words"' not in (await get(ds, path, READER)).text
    assert '<option value="words"' in (await get(ds, "/-/ingest-jobs", ROOT)).text


async def test_the_list_goes_on_where_it_stopped(ds, monkeypatch):
    monkeypatch.setattr(jobs_list, "JOBS_A_PAGE", 1)
    for _ in range(3):
        await start(ds)
    path, ids = "/-/ingest-jobs.json", []
    while path:
        body = (await get(ds, path, ROOT)).json()
        ids += [job["id"] for job in body["jobs"]]
        path = body["next_url"] and body["next_url"].replace("ingest-jobs?", "ingest-jobs.json?")
    assert ids == [3, 2, 1]


# ---- who sees what ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [JOB, f"{JOB}/errors", "/-/ingest-jobs/words/99", "/-/ingest-jobs/nope/1"])
async def test_a_job_that_one_may_not_see_is_not_there(finished, path):
    for actor in (None, READER):
        assert (await get(finished, path, actor)).status_code == 404
        refused = await get(finished, f"{path}.json", actor)
        assert (refused.status_code, refused.json()["ok"]) == (404, False)
    for verb in ("pause", "resume", "cancel", "retry"):
        for job in (JOB, "/-/ingest-jobs/words/99", "/-/ingest-jobs/nope/1"):
            assert (await post_json(finished, f"{job}/{verb}", {}, READER)).status_code == 404


async def test_the_list_is_empty_for_whoever_may_see_no_job(finished):
    for path in ("/-/ingest-jobs.json", "/-/ingest-jobs/words.json"):
        response = await get(finished, path)
        assert (response.status_code, response.json()["jobs"]) == (200, [])
    assert "Shout" not in (await get(finished, "/-/ingest-jobs", READER)).text


async def test_a_database_that_one_may_not_view_and_none_are_the_same_403(open_ds):
    ds = await open_ds(without_server(databases={"words": {"allow": {"id": "root"}}}))
    refusals = [(await get(ds, f"/-/ingest-jobs/{name}.json", READER)) for name in ("words", "nope")]
    assert [response.status_code for response in refusals] == [403, 403]
    assert refusals[0].json() == refusals[1].json()
    assert (await get(ds, "/-/ingest-jobs/nope.json", ROOT)).status_code == 404


async def test_enrich_table_without_the_right_to_view_shows_nothing(open_ds):
    settings = {"run_jobs": False, "allow": {"id": "reader"}}
    ds = await open_ds({"plugins": {"datasette-ingest": settings}, **PRIVATE})
    await start(ds)
    assert (await get(ds, JOB, READER)).status_code == 404
    assert (await get(ds, "/-/ingest-jobs.json", READER)).json()["jobs"] == []
    body = {"table": "words", "enrichment": "shout", "config": {"column": "word"}}
    assert (await post_json(ds, "/-/ingest-jobs/words", body, READER)).status_code == 404


async def test_a_condition_in_sql_is_shown_only_to_those_who_may_write_sql(open_ds):
    settings = {"run_jobs": False, "allow": {"id": "reader"}}
    ds = await open_ds({"plugins": {"datasette-ingest": settings}, "allow_sql": {"id": "root"}})
    await start(ds, filters="_where=year>2002")
    for path in (JOB, f"{JOB}.json", "/-/ingest-jobs.json", "/-/ingest-jobs"):
        assert "2002" not in (await get(ds, path, READER)).text
    assert "2002" in (await get(ds, JOB, ROOT)).text


async def test_answers_are_kept_by_no_cache(finished):
    for path in (JOB, f"{JOB}.json", "/-/ingest-jobs"):
        assert "no-store" in (await get(finished, path, ROOT)).headers["cache-control"]


async def test_settings_of_an_older_version_do_not_break_the_page(finished):
    await finished.databases["words"].execute_write("update _enrichment_jobs set config = '{\"colour\": 1}'")
    page = await get(finished, JOB, ROOT)
    assert page.status_code == 200
    assert "colour" in page.text


async def test_a_job_of_an_enrichment_that_is_gone_is_still_shown(finished):
    await finished.databases["words"].execute_write("update _enrichment_jobs set enrichment = 'gone<b>'")
    page = await get(finished, JOB, ROOT)
    assert page.status_code == 200
    assert "gone&lt;b&gt;" in page.text


async def test_a_job_shows_no_rate_once_it_is_over(finished):
    job = (await get(finished, f"{JOB}.json", ROOT)).json()["job"]
    assert (job["rows_per_second"], job["eta_seconds"], job["open_batches"]) == (None, None, 0)
    assert dataclasses.is_dataclass(await queries.find(finished, "words", 1, actor=ROOT))


async def test_the_page_of_many_single_rows_is_short_and_runs_them_again(open_ds, tmp_path):
    path = tmp_path / "words.db"
    make_words(path, rows=2_001)
    ds = await open_ds(without_server(), paths=[str(path)])
    picked = "&".join(f"_row={number}" for number in range(1, 2_001))
    await start(ds, filters=picked, options={"batch_size": 1_000})
    await run_until_idle(ds)
    page = (await get(ds, JOB, ROOT)).text
    assert len(page) < 20_000
    assert "<code>2,000 selected rows</code> (too long for an address)" in page
    assert "show all such rows of the table" in page
    assert outcome_link(page, "success") == "/words/words?shouted_status__exact=success"
    link = html.unescape(re.search(r'id="ingest-rerun" href="([^"]+)"', page)[1])
    assert link == "/-/ingest/words/words/shout?_again=1"
    form = (await get(ds, link, ROOT)).text
    assert "2,000 selected rows" in form and 'value="Enrich 2,000 selected rows"' in form
    assert html.unescape(re.search(r'name="ticked" value="([^"]*)"', form)[1]) == picked


async def test_filters_that_no_address_can_hold_are_not_run_again(ds):
    long = "id__in=" + ",".join(f"{number:08}" for number in range(1, 1_000))
    await start(ds, filters=long)
    await run_until_idle(ds)
    page = (await get(ds, JOB, ROOT)).text
    assert "ingest-rerun" not in page and "(too long for an address)" in page


@pytest.mark.parametrize(("status", "has_rate"), [("running", True), ("paused", False), ("pending", False)])
async def test_only_a_job_that_runs_has_a_rate_on_its_page(ds, status, has_rate):
    await start(ds)
    await ds.databases["words"].execute_write("update _enrichment_jobs set status = ?", [status])
    page = (await get(ds, JOB, ROOT)).text
    assert ('data-live="rate"' in page, 'data-live="remaining"' in page) == (has_rate, has_rate)


async def test_the_page_says_when_misses_can_be_tried_again(finished):
    await finished.databases["words"].execute_write(
        """update _enrichment_jobs set state = '{"retry_later": 1200, "retry_never": 3, "retry_now": 0}'"""
    )
    job = (await get(finished, f"{JOB}.json", ROOT)).json()["job"]
    page = (await get(finished, JOB, ROOT)).text
    assert job["retries"] == {"later": 1200, "never": 3, "now": 0}
    assert "Misses are worth another try: 1,200 in 30 days, 3 never." in page
