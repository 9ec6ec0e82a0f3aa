"""Which rows are ticked, and which page is shown, after a form of the preview was sent."""

from __future__ import annotations

import json

import pytest

from datasette_ingest.jobs.errors import BadSelection
from datasette_ingest.web import selection
from datasette_ingest.web.selection import TickedRows


def form(before: str = "", shown: str = "", ticked: tuple[str, ...] = (), **more: str) -> dict[str, str]:
    return {"ticked": before, "shown": shown, **{f"tick.{each}": "1" for each in ticked}, **more}


def test_nothing_ticked_means_the_whole_selection():
    assert selection.ticked_rows({}) == TickedRows()
    assert TickedRows().querystring == ""


def test_ticked_rows_alone_are_the_selection():
    sent = selection.ticked_rows(form(ticked=("_row=5", "_rowid=7")))
    assert sent.filters == ("_row=5", "_rowid=7")
    assert sent.querystring == "_row=5&_rowid=7"


def test_what_was_ticked_on_other_pages_is_kept_and_what_was_unticked_on_this_one_is_not():
    sent = selection.ticked_rows(
        form("_row=1&_row=5&_row=6", shown="_row=5&_row=6&_row=7", ticked=("_row=6", "_row=7"))
    )
    assert sent.filters == ("_row=1", "_row=6", "_row=7")


def test_very_many_ticks_are_read_at_once():
    many = "&".join(f"_row={number}" for number in range(selection.MOST_READ))
    assert selection.ticked_rows(form(many, shown=many)).filters == ()
    with pytest.raises(BadSelection, match="is the most"):
        selection.ticked_rows(form(f"{many}&_row=x"))


def test_all_can_be_unticked_at_once():
    assert selection.ticked_rows(form("_row=1", ticked=("_row=2",), turn="clear")).filters == ()


def test_keys_of_any_spelling_survive():
    odd = "_row=a~2Fb%2Cc%2B%26"
    assert selection.ticked_rows(form(odd, shown=odd, ticked=(odd,))).filters == (odd,)
    assert selection.ticked_rows(form("_row=")).filters == ("_row=",)


def test_pages_turn_forward_and_back():
    first = selection.ticked_rows(form(next="c1", turn="next"))
    assert (first.cursor, first.is_first_page) == ("c1", False)
    second = selection.ticked_rows(form(trail=first.trail_text, next="c2", turn="next"))
    assert second.trail == ("", "c1", "c2")
    back = selection.ticked_rows(form(trail=second.trail_text, next="c3", turn="back"))
    assert back.cursor == "c1"
    assert selection.ticked_rows(form(trail='[""]', turn="back")).is_first_page
    assert selection.ticked_rows(form(trail=second.trail_text, next="c3")).cursor == "c2"


@pytest.mark.parametrize(
    "sent",
    [
        {"ticked": "year=2020"},
        {"ticked": "_where=1"},
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
        selection.ticked_rows(sent)


def test_a_querystring_of_single_rows_is_told_from_any_other():
    assert selection.single_rows("_row=1&_rowid=2&_row=1") == ("_row=1", "_rowid=2")
    assert selection.single_rows("") == selection.single_rows("_row=1&year=2") == selection.single_rows("%ff=1") == ()
