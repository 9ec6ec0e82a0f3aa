"""What may be committed, and how the next owner of a partition goes on after one that died."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest.remote.takeover import SUSPECTS_AT_ONCE, Note, Offsets, take_over


@given(st.lists(st.integers(0, 30), unique=True).map(sorted), st.randoms())
def test_what_may_be_committed_is_the_prefix_that_is_done(offsets: list[int], random: object) -> None:
    tracked, done = Offsets(0), set()
    for offset in offsets:
        tracked.begin(offset)
    order = list(offsets)
    random.shuffle(order)  # type: ignore[attr-defined]
    for offset in order:
        tracked.finish(offset)
        done.add(offset)
        left = [each for each in offsets if each not in done]
        assert tracked.committable == (left[0] if left else offsets[-1] + 1)
        assert len(tracked) == len(left)


def test_an_offset_is_begun_and_finished_once() -> None:
    tracked = Offsets(5)
    tracked.begin(7)
    with pytest.raises(ValueError, match="offset 7 was read before"):
        tracked.begin(7)
    tracked.finish(7)
    with pytest.raises(KeyError):
        tracked.finish(7)
    assert tracked.committable == 8


@given(st.builds(Note, st.integers(0), st.integers(0), st.none() | st.integers(0), st.booleans()))
def test_a_note_is_read_as_it_was_said(note: Note) -> None:
    assert Note.decode(note.encode()) == note


@pytest.mark.parametrize("value", [None, b"", b"[]", b'{"until": "x"}', b"\xff"])
def test_what_is_no_note_is_as_if_nothing_had_been_said(value: bytes | None) -> None:
    assert Note.decode(value) is None


def test_a_partition_that_was_handed_back_goes_on_at_full_speed() -> None:
    went_on = take_over(Note(100, clean=True, rests={"a.example": 9.0}), committed=40)
    assert went_on.at_once(40) is None
    assert went_on.note == Note(100, rests={"a.example": 9.0})


def test_a_death_after_all_was_done_is_no_suspicion() -> None:
    assert take_over(Note(40, deaths=1), committed=40).at_once(40) is None


def test_the_message_with_which_processes_die_is_found_and_not_begun_again() -> None:
    """Message 57 of 40 … 99 ends whichever process begins it."""
    note, committed, tries = Note(100), 40, 0
    while (state := take_over(note, committed)).culprit is None:
        tries += 1
        note = state.note
        if state.at_once(committed) == 1:  # those before it are done one by one
            committed, note = 57, Note(note.until, note.deaths, alone=57)
    assert (state.culprit, tries) == (57, 2)
    assert state.at_once(58) is None


def test_suspects_are_begun_a_few_at_a_time_and_what_comes_after_them_is_not_held_up() -> None:
    once = take_over(Note(100), committed=40)
    assert (once.at_once(99), once.at_once(100)) == (SUSPECTS_AT_ONCE, None)
    twice = take_over(once.note, committed=41)
    assert (twice.at_once(99), twice.at_once(100)) == (1, None)


def test_a_message_that_was_begun_alone_and_is_done_is_no_culprit() -> None:
    state = take_over(Note(100, deaths=2, alone=56), committed=57)
    assert (state.culprit, state.note.deaths) == (None, 3)
