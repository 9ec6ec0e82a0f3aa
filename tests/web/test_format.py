"""How numbers, times and values read."""

import pytest

from datasette_ingest import text
from datasette_ingest.web import format


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (None, ""),
        (-3, "0 s"),
        (0.4, "0 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (185, "3 min 5 s"),
        (7800, "2 h 10 min"),
        (3600 * 24 * 3 + 3600 * 4, "3 d 4 h"),
    ],
)
def test_a_duration_has_at_most_two_units(seconds, said):
    assert text.duration(seconds) == said


@pytest.mark.parametrize(
    ("per_second", "said"),
    [(None, ""), (0, "0.0 rows/s"), (0.05, "3.0 rows/min"), (2.26, "2.3 rows/s"), (12345.6, "12,346 rows/s")],
)
def test_a_rate_is_told_in_the_readable_unit(per_second, said):
    assert text.rate(per_second) == said


def test_rows_are_counted_with_their_plural():
    assert text.counted(1, "row") == "1 row"
    assert text.counted(2000, "row") == "2,000 rows"
    assert text.counted(2, "class", "classes") == "2 classes"


def test_a_moment_loses_its_letters_and_keeps_its_zone():
    assert text.moment("2026-11-30T13:36:00Z") == "2026-11-30 13:36:00 UTC"
    assert text.moment("2026-11-30T13:36:00.123Z") == "2026-11-30 13:36:00 UTC"
    assert text.moment(None) == ""


def test_a_cell_is_short_and_never_raw_bytes():
    assert format.cell(None) == ""
    assert format.cell(b"\x00\xff") == "<binary: 2 bytes>"
    assert len(format.cell("x" * 5000)) == format.CELL_LENGTH
    assert format.cell("x" * format.CELL_LENGTH) == "x" * format.CELL_LENGTH


@pytest.mark.parametrize(
    ("value", "said"), [(None, ""), (True, "yes"), (False, "no"), (["a", 1], "a, 1"), (0, "0"), ("x", "x"), ({}, "{}")]
)
def test_a_setting_is_readable(value, said):
    assert format.setting(value) == said


@pytest.mark.parametrize(
    ("words", "said"), [("Paused by ann", "Paused by ann."), ("Why?", "Why?"), ("Done. ", "Done."), ("", "")]
)
def test_a_line_ends_as_a_sentence_does(words, said):
    assert text.sentence(words) == said
