"""Which rows are ticked, and which page is shown, after a form of the preview was sent."""

from __future__ import annotations

import json

import pytest

from datasette_ingest.jobs.errors import BadSelection
from datasette_ingest.web import ticked_rows
from datasette_ingest.web.ticked_rows import Picking


def form(picked: str = "", shown: str = "", ticked: tuple[str, ...] = (), **more: str) -> dict[str, str]:
    return {"picked": picked, "shown": shown, **{f"tick.{each}": "1" for each in ticked}, **more}


def test_nothing_ticked_means_the_whole_selection():
    assert ticked_rows.from_form({}) == Picking()
    assert Picking().filters("year=2020") == "year=2020"


def test_ticked_rows_alone_are_the_selection():
    sent = ticked_rows.from_form(form(ticked=("_row=5", "_rowid=7")))
    assert sent.picked == ("_row=5", "_rowid=7")
    assert sent.filters("year=2020&_row=9") == "_row=5&_rowid=7"


def test_what_was_ticked_on_other_pages_is_kept_and_what_was_unticked_on_this_one_is_not():
    sent = ticked_rows.from_form(
        form("_row=1&_row=5&_row=6", shown="_row=5&_row=6&_row=7", ticked=("_row=6", "_row=7"))
    )
    assert sent.picked == ("_row=1", "_row=6", "_row=7")


def test_very_many_ticks_are_read_at_once():
    many = "&".join(f"_row={number}" for number in range(ticked_rows.MOST_NAMED))
    assert ticked_rows.from_form(form(many, shown=many)).picked == ()
    with pytest.raises(BadSelection, match="is the most"):
        ticked_rows.from_form(form(f"{many}&_row=x"))


def test_all_can_be_unticked_at_once():
    assert ticked_rows.from_form(form("_row=1", ticked=("_row=2",), turn="clear")).picked == ()


def test_keys_of_any_spelling_survive():
    odd = "_row=a~2Fb%2Cc%2B%26"
    assert ticked_rows.from_form(form(odd, shown=odd, ticked=(odd,))).picked == (odd,)
    assert ticked_rows.from_form(form("_row=")).picked == ("_row=",)


def test_pages_turn_forward_and_back():
    first = ticked_rows.from_form(form(next="c1", turn="next"))
    assert (first.cursor, first.is_first_page) == ("c1", False)
    second = ticked_rows.from_form(form(trail=first.trail_text, next="c2", turn="next"))
    assert second.trail == ("", "c1", "c2")
    back = ticked_rows.from_form(form(trail=second.trail_text, next="c3", turn="back"))
    assert back.cursor == "c1"
    assert ticked_rows.from_form(form(trail='[""]', turn="back")).is_first_page
    assert ticked_rows.from_form(form(trail=second.trail_text, next="c3")).cursor == "c2"


@pytest.mark.parametrize(
    "sent",
    [
        {"picked": "year=2020"},
        {"picked": "_where=1"},
        {"tick._where=1": "1"},
        {"shown": "%ff=1"},
        {"trail": "nonsense"},
        {"trail": "[]"},
        {"trail": "[1]"},
        {"trail": json.dumps({"a": 1})},
        {"trail": "[" * 100_000},
    ],
)
def test_fields_that_no_form_of_ours_sends_are_refused(sent):
    with pytest.raises(BadSelection):
        ticked_rows.from_form(sent)


def test_a_querystring_of_single_rows_is_told_from_any_other():
    assert ticked_rows.only_picks("_row=1&_rowid=2&_row=1") == ("_row=1", "_rowid=2")
    assert (
        ticked_rows.only_picks("") == ticked_rows.only_picks("_row=1&year=2") == ticked_rows.only_picks("%ff=1") == ()
    )
