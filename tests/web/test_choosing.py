"""From a table's page to a job: choosing an enrichment, its form, and starting."""

from __future__ import annotations

import html
import re

import pytest

from datasette_ingest import compat
from datasette_ingest.jobs import control
from datasette_ingest.testing import run_until_idle

from .conftest import READER, ROOT, get, make_words, post_form

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
    job = await control.find(ds, "words", 1, actor=ROOT)
    assert job.config == {"column": "word", "output": "loud", "mood": "calm", "strict": False}
    assert job.options.as_dict() == {"batch_size": 1}
    assert (job.filter_querystring, job.row_count, job.actor_id) == ("year__gte=2003", 3, "root")


async def test_two_clicks_on_the_button_start_one_job(ds):
    for _ in range(2):
        sent = await post_form(ds, FORM, FORM, {**FIELDS, "key": "the-key-of-this-form"}, ROOT)
        assert sent.headers["location"] == "/-/ingest-jobs/words/1"
    assert len(await control.listing(ds, "words", actor=ROOT)) == 1


async def test_what_is_wrong_stands_at_its_field_and_what_was_typed_is_kept(ds):
    wrong = {**FIELDS, "config.output": '"><b>', "config.column": "", "config.mood": "calm", "option.batch_size": "two"}
    sent = await post_form(ds, FORM, FORM, wrong, ROOT)
    assert sent.status_code == 400
    assert 'value="&#34;&gt;&lt;b&gt;"' in sent.text
    assert 'value="two"' in sent.text
    assert re.search(r'id="ingest-option-batch_size"[^>]*aria-invalid="true"', sent.text)
    assert '<details class="ingest-fold" open>' in sent.text
    assert await control.listing(ds, "words", actor=ROOT) == []


async def test_a_view_and_an_unknown_enrichment_are_refused_with_a_reason(ds):
    view = await get(ds, "/-/ingest/words/quiet", ROOT)
    assert view.status_code == 400
    assert "quiet is a view" in view.text
    unknown = await get(ds, "/-/ingest/words/words/whisper.json", ROOT)
    assert unknown.status_code == 404
    refusal = unknown.json()
    assert (refusal["ok"], refusal["status"], refusal["errors"]) == (False, 404, [refusal["error"]])
    assert "'whisper'" in refusal["error"]


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
    assert await control.listing(ds, "words", actor=ROOT) == []


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
