"""Each text is asked for once, within the API's limits; the API's moods are not the rows' errors."""

from datetime import datetime, timedelta, timezone

import pytest
from datasette_ingest.testing import table_of

from datasette_ingest_examples.translate import ADDRESS_VARIABLE, LONGEST_REST, REST, SECRET, resume_time

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=timezone.utc)
CONFIG = {"column": "title", "language": "fr"}


def titles(*texts):
    return [{"id": number, "title": text} for number, text in enumerate(texts, 1)]


async def test_a_column_is_translated_with_the_key_from_the_environment(api):
    async with table_of(titles("one", None, "two"), pk="id") as table:
        job = await table.run("translate", CONFIG)
        assert (job.status.value, job.outcomes) == ("finished", {"success": 3})
        assert [row["translated"] for row in await table.rows()] == ["one in fr", None, "two in fr"]
    assert api.keys == {"key-1"}


async def test_a_text_is_asked_for_once_in_all_its_rows_and_in_later_jobs(api):
    async with table_of(titles("one", "one", "one")) as table:
        await table.run("translate", CONFIG, options={"batch_size": 1, "max_open_batches": 3})
        await table.run("translate", CONFIG)
        assert [row["translated"] for row in await table.rows()] == ["one in fr"] * 3
    assert api.asked == ["one"]


async def test_another_language_is_another_question(api):
    async with table_of(titles("one")) as table:
        await table.run("translate", CONFIG)
        await table.run("translate", {**CONFIG, "language": "de"})
        assert [row["translated"] for row in await table.rows()] == ["one in de"]


async def test_a_text_that_the_api_refuses_is_its_rows_error(api):
    api.refuses = {"\N{SKULL}"}
    async with table_of(titles("one", "\N{SKULL}", "two"), pk="id") as table:
        job = await table.run("translate", CONFIG)
        [error] = await table.errors(job)
        assert [row["translated"] for row in await table.rows()] == ["one in fr", None, "two in fr"]
    assert (job.status.value, job.outcomes) == ("finished", {"success": 2, "error": 1})
    assert error.row_pks == [2] and error.error.startswith("The API answered 422")


@pytest.mark.parametrize(
    ("status", "message"), [(500, "The API answered 500"), (302, "The API answered 302"), (200, "cannot be read")]
)
async def test_an_answer_that_makes_no_sense_is_its_rows_error(api, status, message):
    api.fails_with = status
    async with table_of(titles("one"), pk="id") as table:
        job = await table.run("translate", CONFIG)
        [error] = await table.errors(job)
    assert (job.status.value, job.outcomes) == ("finished", {"error": 1})
    assert message in error.error


async def test_an_api_that_is_closed_for_a_while_gets_a_rest(api):
    api.fails_with = 503
    async with table_of(titles("one")) as table:
        job = await table.run("translate", CONFIG)
    assert (job.status.value, job.error_count) == ("paused", 0) and job.resume_at is not None


async def test_over_the_limit_the_job_pauses_for_as_long_as_the_api_says_then_goes_on_by_itself(api):
    api.limits = ["120"]
    async with table_of(titles("one", "two")) as table:
        job = await table.run("translate", CONFIG)
        assert (job.status.value, job.pause_reason) == ("paused", "The API asks for a rest")
        waits = datetime.fromisoformat(job.resume_at.replace("Z", "+00:00")) - datetime.now(timezone.utc)
        assert timedelta(seconds=60) < waits <= timedelta(seconds=120)
        job = await table.resume_when_due(job)
        assert (job.status.value, job.done_count, job.error_count) == ("finished", 2, 0)
        assert [row["translated"] for row in await table.rows()] == ["one in fr", "two in fr"]


async def test_what_was_answered_before_the_limit_is_not_asked_for_again(api):
    async with table_of(titles("one", "two", "three")) as table:
        api.answer, plain = limited_after(api, 2), api.answer
        job = await table.run("translate", CONFIG)
        assert (job.status.value, job.done_count) == ("paused", 0)
        api.answer = plain
        job = await table.resume_when_due(job)
        assert (job.status.value, job.done_count) == ("finished", 3)
    assert api.asked == ["one", "two", "three"]


def limited_after(api, number):
    plain = api.answer
    return lambda *asked: (429, {}, {}) if len(api.asked) == number else plain(*asked)


async def test_a_key_that_the_api_does_not_take_waits_for_a_person(api):
    api.fails_with = 401
    async with table_of(titles("one")) as table:
        job = await table.run("translate", CONFIG)
        assert (job.status.value, job.resume_at, job.error_count) == ("paused", None, 0)
        assert SECRET in job.pause_reason
        api.fails_with = None
        job = await table.resume(job)
        assert (job.status.value, job.done_count) == ("finished", 1)


async def test_an_api_that_is_not_there_is_nobodys_error(api, monkeypatch):
    monkeypatch.setenv(ADDRESS_VARIABLE, "http://127.0.0.1:1")
    async with table_of(titles("one")) as table:
        job = await table.run("translate", CONFIG)
    assert (job.status.value, job.error_count) == ("paused", 0)
    assert job.pause_reason == "The API cannot be reached (ConnectError)" and job.resume_at is not None


@pytest.mark.parametrize("variable", [ADDRESS_VARIABLE, f"DATASETTE_SECRETS_{SECRET}"])
async def test_what_is_not_configured_stops_the_job_before_its_first_row(api, monkeypatch, variable):
    monkeypatch.delenv(variable)
    async with table_of(titles("one")) as table:
        job = await table.run("translate", CONFIG)
    assert (job.status.value, job.done_count, job.error_count) == ("cancelled", 0, 0)
    assert variable in job.cancel_reason
    assert not api.asked


@pytest.mark.parametrize(
    ("header", "rest"),
    [
        ("0", timedelta(0)),
        ("90", timedelta(seconds=90)),
        ("Sun, 01 Mar 2026 12:05:00 GMT", timedelta(minutes=5)),
        ("Sun, 01 Mar 2026 13:05:00 +0100", timedelta(minutes=5)),
        ("Sun, 01 Mar 2026 12:05:00 -0000", timedelta(minutes=5)),
        ("Sun, 01 Mar 2026 11:00:00 GMT", timedelta(0)),
        ("9" * 30, LONGEST_REST),
        ("Sun, 01 Mar 2099 12:00:00 GMT", LONGEST_REST),
        ("-5", REST),
        ("²", REST),
        ("soon", REST),
        ("", REST),
        (None, REST),
    ],
)
def test_the_rest_is_what_the_api_asks_for_within_reason(header, rest):
    assert resume_time(header, NOW) == NOW + rest
