"""From a table's page to a job: choosing an enrichment, its form, and starting."""

from __future__ import annotations

import asyncio
import html
import re

import pydantic
import pytest

from datasette_ingest import compat
from datasette_ingest.jobs.service import queries, selection_preview
from datasette_ingest.testing import run_until_idle
from datasette_ingest.web import requests

from .conftest import READER, ROOT, cookies_of, get, make_words, post_form, start

CHOOSE = "/-/ingest/words/words"
FORM = "/-/ingest/words/words/shout"
FIELDS = {"config.column": "word", "config.output": "loud", "config.mood": "calm"}


async def test_the_page_offers_each_enrichment_for_the_rows_that_the_table_page_showed(ds):
    page = await get(ds, f"{CHOOSE}?year__gte=2003&_sort=id&_size=2", ROOT)
    assert page.status_code == 200
    assert 'href="/-/ingest/words/words/shout?year__gte=2003"' in page.text
    assert "3 rows" in page.text
    assert "Upper-case a column" in page.text


async def test_the_same_as_json(ds):
    body = (await get(ds, f"{CHOOSE}.json?year__gte=2003&_sort=id", ROOT)).json()
    assert body["ok"] is True
    assert (body["database"], body["table"], body["count"], body["filters"]) == ("words", "words", 3, "year__gte=2003")
    assert body["rows"][0] == {"id": 3, "word": "word 3", "year": 2003}
    offered = {enrichment["slug"]: enrichment for enrichment in body["enrichments"]}
    assert offered["shout"] == {
        "slug": "shout",
        "name": "Shout",
        "description": "Upper-case a column",
        "url": f"{FORM}?year__gte=2003",
    }


async def test_the_form_shows_what_will_run_on_which_rows_with_which_guesses(ds):
    page = await get(ds, f"{FORM}?year__gte=2003", ROOT)
    assert page.status_code == 200
    assert re.search(r'<option value="word" selected>word</option>', page.text)
    assert re.search(r'name="config.output" value="shouted"|name="config.output"[^>]*value="shouted"', page.text)
    assert 'value="Enrich 3 rows"' in page.text
    assert "Longest word" in page.text
    assert "word 3" in page.text
    folded = page.text[page.text.index('<details class="ingest-fold"') :]
    assert 'name="config.mood"' in folded
    assert 'name="option.batch_size"' in folded
    assert 'name="config.output"' not in folded


async def test_the_form_as_json_has_schema_and_guesses(ds):
    body = (await get(ds, f"{FORM}.json", ROOT)).json()
    assert body["defaults"] == {"column": "word"}
    assert body["facts"] == {"Longest word": 6}
    assert body["schema"]["properties"]["output"]["default"] == "shouted"


async def test_the_form_starts_the_job_and_goes_to_it(ds):
    sent = await post_form(ds, FORM, f"{FORM}?year__gte=2003", {**FIELDS, "option.batch_size": "1"}, ROOT)
    assert sent.status_code == 303
    assert sent.headers["location"] == "/-/ingest-jobs/words/1"
    job = await queries.find(ds, "words", 1, actor=ROOT)
    assert job.config == {"column": "word", "output": "loud", "mood": "calm", "strict": False}
    assert job.options.as_dict() == {"batch_size": 1}
    assert (job.filter_querystring, job.row_count, job.actor_id) == ("year__gte=2003", 3, "root")


async def test_two_clicks_on_the_button_start_one_job(ds):
    for _ in range(2):
        sent = await post_form(ds, FORM, FORM, {**FIELDS, "key": "the-key-of-this-form"}, ROOT)
        assert sent.headers["location"] == "/-/ingest-jobs/words/1"
    assert len(await queries.list_jobs(ds, "words", actor=ROOT)) == 1


async def test_what_is_wrong_stands_at_its_field_and_what_was_typed_is_kept(ds):
    wrong = {**FIELDS, "config.output": '"><b>', "config.column": "", "config.mood": "calm", "option.batch_size": "two"}
    sent = await post_form(ds, FORM, FORM, wrong, ROOT)
    assert sent.status_code == 400
    assert 'value="&#34;&gt;&lt;b&gt;"' in sent.text
    assert 'value="two"' in sent.text
    assert re.search(r'id="ingest-option-batch_size"[^>]*aria-invalid="true"', sent.text)
    assert '<details class="ingest-fold" open>' in sent.text
    assert await queries.list_jobs(ds, "words", actor=ROOT) == []


async def test_a_view_and_an_unknown_enrichment_are_refused_with_a_reason(ds):
    view = await get(ds, "/-/ingest/words/quiet", ROOT)
    assert view.status_code == 400
    assert "quiet is a view" in view.text
    unknown = await get(ds, "/-/ingest/words/words/whisper.json", ROOT)
    assert unknown.status_code == 404
    refusal = unknown.json()
    assert (refusal["ok"], refusal["status"], refusal["errors"]) == (False, 404, [refusal["error"]])
    assert "'whisper'" in refusal["error"]
    assert "you may not see it" not in (await get(ds, "/-/ingest/words/words/whisper", ROOT)).text
    assert "you may not see it" in (await get(ds, "/-/ingest/words/whispers/shout", ROOT)).text


async def test_a_misspelt_filter_is_a_400_that_names_it(ds):
    page = await get(ds, f"{FORM}?yaer=2003", ROOT)
    assert page.status_code == 400
    assert "yaer" in page.text
    assert (await get(ds, f"{CHOOSE}.json?year__nosuchop=1", ROOT)).status_code == 400


async def test_an_immutable_database_is_refused(open_ds, tmp_path, ds):
    frozen = await open_ds(paths=[], immutables=[str(tmp_path / "words.db")])
    for path in (CHOOSE, FORM):
        page = await get(frozen, path, ROOT)
        assert page.status_code == 400
        assert "immutable" in page.text


@pytest.mark.parametrize("path", [CHOOSE, FORM, "/-/ingest/words/nope", "/-/ingest/nope/nope/shout"])
async def test_who_may_not_enrich_learns_nothing(ds, path):
    for actor in (None, READER):
        assert (await get(ds, path, actor)).status_code == 403
        refused = await get(ds, f"{path}.json", actor)
        assert refused.status_code == 403
        assert refused.json()["status"] == 403
        assert "shout" not in refused.text.lower()


async def test_a_form_without_its_token_starts_nothing(ds):
    headers = {"Sec-Fetch-Site": "cross-site"} if compat.is_1_0(ds) else {}
    cookies = {"ds_actor": ds.sign({"a": ROOT}, "actor")}
    sent = await ds.client.post(FORM, data=FIELDS, cookies=cookies, headers=headers)
    assert sent.status_code == 403
    assert await queries.list_jobs(ds, "words", actor=ROOT) == []


async def test_a_body_that_is_no_form_is_refused(ds):
    sent = await ds.client.post(FORM, content=b"{}", headers={"Content-Type": "application/json"})
    assert sent.status_code == 403
    sent = await ds.client.put(FORM, cookies={"ds_actor": ds.sign({"a": ROOT}, "actor")})
    assert sent.status_code in (403, 405)


NASTY = "x/y.z #?%~'\"&<b>é"


async def test_a_table_of_any_name_is_found_previewed_started_and_shown(open_ds, tmp_path):
    path = tmp_path / "words.db"
    make_words(path, table=NASTY)
    ds = await open_ds()
    chosen = await get(ds, ds.urls.path(f"/-/ingest/words/{tilde(NASTY)}"), ROOT)
    assert chosen.status_code == 200
    assert "<b>é" not in chosen.text
    form = html.unescape(re.search(r'<a href="([^"]+)"><strong>Shout<', chosen.text)[1])
    sent = await post_form(ds, form, form, FIELDS, ROOT)
    assert sent.status_code == 303
    await run_until_idle(ds)
    job = await get(ds, sent.headers["location"], ROOT)
    assert job.status_code == 200
    assert "<b>é" not in job.text
    table_page = html.unescape(re.search(r"<h1>[^<]*<a href=\"([^\"]+)\"", job.text)[1])
    assert (await get(ds, table_page, ROOT)).status_code == 200
    shown = (await get(ds, f"{table_page}.json?_shape=array", ROOT)).json()
    assert [row["loud"] for row in shown] == ["WORD 1", "WORD 2", "WORD 3", "WORD 4", None]


def tilde(name: str) -> str:
    from datasette.utils import tilde_encode

    return tilde_encode(name)


async def test_base_url_stands_once_in_every_link_and_redirect(open_ds):
    ds = await open_ds(settings={"base_url": "/prefix/"})
    form = await get(ds, FORM, ROOT)
    sent = await post_form(ds, FORM, FORM, FIELDS, ROOT)
    assert sent.headers["location"] == "/prefix/-/ingest-jobs/words/1"
    pages = [
        form.text,
        (await get(ds, CHOOSE, ROOT)).text,
        (await get(ds, "/-/ingest-jobs/words/1", ROOT)).text,
        (await get(ds, "/-/ingest-jobs", ROOT)).text,
        (await get(ds, "/words/words", ROOT)).text,
    ]
    for text in pages:
        addresses = re.findall(r'(?:href|src|action)="(/[^"]*)"', text)
        assert [address for address in addresses if address.count("/prefix/") != 1] == []
        assert any("ingest" in address for address in addresses)


async def test_a_preview_that_fails_does_not_stand_between_a_person_and_the_form(ds, shout, monkeypatch):
    async def broken(rows, config):
        raise RuntimeError("no preview today")

    monkeypatch.setattr(shout, "preview", broken)
    page = await get(ds, FORM, ROOT)
    assert page.status_code == 200
    assert "Longest word" not in page.text


# ---- what a person sees before the job --------------------------------------------------------------------------


async def send(ds, step, fields, actor=ROOT, filters=""):
    return await post_form(ds, FORM, f"{FORM}/{step}{filters}", {**FIELDS, **fields}, actor)


def hidden(text: str) -> dict[str, str]:
    """The form's hidden fields."""
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', text)
    return {name: html.unescape(value) for name, value in found if name != "csrftoken"}


def offered(text: str) -> list[str]:
    """The rows that can be ticked, and those that are."""
    return [html.unescape(name) for name in re.findall(r'name="tick\.([^"]+)"', text)]


def ticked(text: str) -> list[str]:
    return [html.unescape(name) for name in re.findall(r'name="tick\.([^"]+)"[^>]* checked', text)]


@pytest.fixture
async def many(open_ds, tmp_path):
    """47 words: three pages to leaf through."""
    make_words(tmp_path / "words.db", rows=47)
    return await open_ds()


async def test_ticks_are_kept_while_the_pages_are_leafed_through_and_start_a_job_of_just_these_rows(many):
    first = await get(many, FORM, ROOT)
    assert offered(first.text) == [f"_row={n}" for n in range(1, 21)]
    second = await send(
        many, "preview", {**hidden(first.text), "tick._row=3": "1", "tick._row=20": "1", "turn": "next"}
    )
    assert offered(second.text) == [f"_row={n}" for n in range(21, 41)]
    assert "2 selected rows" in second.text
    assert 'value="Enrich 2 selected rows"' in second.text
    third = await send(many, "preview", {**hidden(second.text), "tick._row=40": "1", "turn": "next"})
    assert offered(third.text) == [f"_row={n}" for n in range(41, 48)]
    assert 'value="next"' not in third.text
    back = await send(many, "preview", {**hidden(third.text), "turn": "back"})
    assert ticked(back.text) == ["_row=40"]
    first_again = await send(many, "preview", {**hidden(back.text), "tick._row=40": "1", "turn": "back"})
    assert ticked(first_again.text) == ["_row=3", "_row=20"]
    sent = await post_form(many, FORM, FORM, {**FIELDS, **hidden(first_again.text), "tick._row=20": "1"}, ROOT)
    job = await queries.find(many, "words", int(sent.headers["location"].rsplit("/", 1)[1]), actor=ROOT)
    assert (job.row_count, job.filter_querystring) == (2, "_row=20&_row=40")
    await run_until_idle(many)
    rows = (await get(many, "/words/words.json?_shape=array&loud__notnull=1", ROOT)).json()
    assert [row["id"] for row in rows] == [20, 40]


async def test_a_button_unticks_all(many):
    cleared = await send(many, "preview", {"ticked": "_row=1&_row=30", "turn": "clear"})
    assert 'value="Enrich 47 rows"' in cleared.text
    assert hidden(cleared.text)["ticked"] == ""


async def test_thousands_of_ticked_rows_travel_in_the_body_and_become_one_job(open_ds, tmp_path):
    make_words(tmp_path / "words.db", rows=6_000)
    ds = await open_ds()
    ticked = "&".join(f"_row={n}" for n in range(1, 4_001, 2))
    shown = await send(ds, "preview", {"ticked": ticked})
    assert "2,000 selected rows" in shown.text
    assert "Show them in the table" not in shown.text  # no address is that long
    sent = await post_form(ds, FORM, FORM, {**FIELDS, "ticked": ticked}, ROOT)
    assert sent.status_code == 303
    assert (await queries.find(ds, "words", 1, actor=ROOT)).row_count == 2_000


async def test_more_than_can_be_ticked_is_said_and_nothing_is_lost(many):
    ticked = "&".join(f"_row={n}" for n in range(5_001))
    shown = await send(many, "preview", {"ticked": ticked})
    assert shown.status_code == 200
    assert "5,001 rows are ticked; 5,000 is the most" in shown.text
    assert hidden(shown.text)["ticked"] == ticked
    sent = await post_form(many, FORM, FORM, {**FIELDS, "ticked": ticked}, ROOT)
    assert sent.status_code == 400
    assert "5,000 is the most" in sent.text
    assert await queries.list_jobs(many, "words", actor=ROOT) == []


async def test_what_no_form_of_ours_sends_is_refused(many):
    for fields in ({"ticked": "_where=1"}, {"trail": "[1]"}, {"trail": '["nonsense"]'}):
        assert (await send(many, "preview", fields)).status_code == 400


async def test_the_preview_follows_the_settings(ds):
    by_word = await send(ds, "preview", {"config.column": "word"})
    by_year = await send(ds, "preview", {"config.column": "year"})
    longest = [re.search(r"<dt>Longest word</dt><dd>(\d+)</dd>", page.text)[1] for page in (by_word, by_year)]
    assert longest == ["6", "4"]
    assert 'value="loud"' in by_year.text  # what was typed is kept


async def test_the_preview_of_wrong_settings_shows_the_rows_all_the_same(ds):
    shown = await send(ds, "preview", {"config.column": "", "config.mood": "furious"})
    assert shown.status_code == 200
    assert "5 rows" in shown.text
    assert "Longest word" not in shown.text


async def test_only_columns_that_tell_rows_apart_are_shown_and_never_what_a_job_wrote(ds):
    await post_form(ds, FORM, FORM, FIELDS, ROOT)
    await run_until_idle(ds)
    page = await get(ds, FORM, ROOT)
    heads = re.findall(r'<th scope="col">([a-z_]+)</th>', page.text)
    assert heads == ["id", "word", "year", "loud"]  # Shout says nothing of `loud`; its outcome column is known


async def test_counting_that_takes_long_is_left_for_later(ds, monkeypatch):
    async def unknown(chosen, limit_ms):
        return None if limit_ms == selection_preview.QUICK_MS else await real(chosen, limit_ms)

    real = selection_preview.count
    monkeypatch.setattr(selection_preview, "count", unknown)
    page = await get(ds, FORM, ROOT)
    assert page.status_code == 200
    assert "Counting rows…" in page.text
    assert "data-incomplete" in page.text
    assert 'value="Enrich all rows that match"' in page.text
    assert "5 rows" in (await send(ds, "preview", {})).text
    assert (await get(ds, f"{FORM}.json", ROOT)).json()["count"] == 5


async def test_no_row_and_no_column_that_fits_are_said_with_the_next_step(open_ds, tmp_path):
    make_words(tmp_path / "words.db", table="bare")
    ds = await open_ds()
    nothing = await get(ds, "/-/ingest/words/bare/shout?year=1", ROOT)
    assert "No rows match" in nothing.text
    assert "remove a filter" in nothing.text
    assert re.search(r'value="Enrich 0 rows"\s+disabled', nothing.text)
    unguessed = await get(ds, "/-/ingest/words/bare/shout", ROOT)
    assert "Choose a column for: Column." in unguessed.text


async def test_the_settings_and_the_options_are_found_wrong_together(ds):
    sent = await post_form(ds, FORM, FORM, {**FIELDS, "config.mood": "furious", "option.batch_size": "0"}, ROOT)
    assert sent.text.count('aria-invalid="true"') == 2
    assert sent.text.count("autofocus") == 1
    assert '<a href="#ingest-config-mood">Mood</a>' in sent.text


async def test_changed_after_going_back_the_same_form_starts_another_job(ds):
    for column in ("word", "word", "year"):
        await post_form(ds, FORM, FORM, {**FIELDS, "config.column": column, "key": "the-key-of-this-form"}, ROOT)
    assert len(await queries.list_jobs(ds, "words", actor=ROOT)) == 2


# ---- trying a few rows ------------------------------------------------------------------------------------------


async def test_trying_shows_what_would_be_written_and_writes_nothing(ds, tmp_path):
    before = (tmp_path / "words.db").read_bytes()
    shown = await send(ds, "try", {"config.output": "word"}, filters="?id__gte=3")
    assert shown.status_code == 200
    assert "3 rows tried" in shown.text
    assert "Nothing was written" in shown.text
    assert re.search(r"<del>word 3</del>\s*WORD 3", shown.text)
    assert "ValueError: &lt;b&gt;no&lt;/b&gt; word &amp; no voice" in shown.text
    assert 'href="/words/words/3"' in shown.text
    assert (tmp_path / "words.db").read_bytes() == before
    assert await queries.list_jobs(ds, "words", actor=ROOT) == []


async def test_ticked_rows_are_the_ones_that_are_tried(ds):
    shown = await send(ds, "try", {"tick._row=4": "1"})
    assert "1 row tried" in shown.text
    assert "WORD 4" in shown.text
    assert ticked(shown.text) == ["_row=4"]


async def test_wrong_settings_are_said_at_their_fields_before_anything_is_tried(ds):
    sent = await send(ds, "try", {"config.mood": "furious"})
    assert sent.status_code == 400
    assert re.search(r'id="ingest-config-mood"[^>]*aria-invalid="true"', sent.text)


async def test_a_price_is_told_before_it_is_paid(ds, shout, monkeypatch):
    monkeypatch.setattr(shout, "price_nanodollars", lambda rows, config: 250_000 * len(rows), raising=False)
    page = await get(ds, FORM, ROOT)
    assert "Try 3 rows for $0.00075" in page.text
    assert "about $0.00125" in page.text


async def test_both_steps_need_the_permission_a_form_and_this_site(ds):
    for step in ("preview", "try"):
        assert (await get(ds, f"{FORM}/{step}", ROOT)).status_code == 405
        for actor in (None, READER):
            refused = await ds.client.post(
                f"{FORM}/{step}", data=FIELDS, cookies={} if actor is None else cookies_of(ds, actor)
            )
            assert refused.status_code == 403
        foreign = await ds.client.post(
            f"{FORM}/{step}", data=FIELDS, cookies=cookies_of(ds, ROOT), headers={"Sec-Fetch-Site": "cross-site"}
        )
        assert foreign.status_code == 403


async def test_whoever_leaves_cancels_the_dry_run():
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    class Left:
        async def receive(self):
            return {"type": "http.disconnect"}

    with pytest.raises(requests.Disconnected):
        await requests.while_connected(Left(), work())
    assert ended.is_set()


async def test_what_was_asked_for_as_a_password_is_not_told_to_whoever_runs_the_job_again(ds, shout, monkeypatch):
    class Config(type(shout).Config):
        token: str = pydantic.Field("", json_schema_extra={"widget": "password"})

    monkeypatch.setattr(type(shout), "Config", Config)
    await start(ds, config={"column": "word", "token": "open sesame"})
    for path in (f"{FORM}.json?_again=1", f"{FORM}?_again=1", "/-/ingest-api.json"):
        sent = await get(ds, path, ROOT)
        assert sent.status_code == 200
        assert "open sesame" not in sent.text, path
