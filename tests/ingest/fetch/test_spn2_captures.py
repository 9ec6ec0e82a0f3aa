"""Places for captures: how many are open, and when a row that finds none may ask again."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_ingest.ingest.fetch.cdx_rows import CdxRow
from datasette_ingest.ingest.fetch.spn2_captures import (
    FAILED_SECONDS,
    FIRST_PAUSE,
    KEPT_SECONDS,
    LIMIT_SECONDS,
    LONGEST_PAUSE,
    MOST_ENDED,
    USUAL_SECONDS,
    Spn2Capture,
    Spn2Captures,
)

NOW = 1_800_000_000.0


def begin(captures: Spn2Captures, url: str, now: float = NOW, *, limit: int = 7) -> None:
    assert captures.enter(now, limit=limit, is_back=False) == 0.0
    captures.note(url, Spn2Capture("job", now, now), now)
    captures.leave()


def end(captures: Spn2Captures, url: str, now: float, began: float = NOW) -> None:
    captures.note(url, Spn2Capture("job", began, now, ended=now, url=url), now)


def test_a_place_is_taken_until_the_capture_has_ended() -> None:
    captures = Spn2Captures()
    begin(captures, "a", limit=1)
    assert captures.open(NOW) == 1 and captures.enter(NOW, limit=1, is_back=False) > 0
    end(captures, "a", NOW + 5)
    assert captures.open(NOW + 5) == 0 and captures.enter(NOW + 5, limit=1, is_back=False) == 0.0


def test_a_place_is_taken_while_a_capture_is_being_begun() -> None:
    captures = Spn2Captures()
    assert captures.enter(NOW, limit=1, is_back=False) == 0.0
    assert captures.enter(NOW, limit=1, is_back=False) > 0
    captures.leave()
    assert captures.open(NOW) == 0


def test_a_capture_that_nobody_asks_for_frees_its_place_in_the_end() -> None:
    captures = Spn2Captures()
    begin(captures, "a")
    assert captures.open(NOW + LIMIT_SECONDS - 1) == 1 and captures.open(NOW + LIMIT_SECONDS) == 0


def test_rows_come_back_as_fast_as_places_get_free() -> None:
    captures = Spn2Captures()
    for url in "abc":
        begin(captures, url, limit=3)
    waits = [captures.enter(NOW, limit=3, is_back=False) for _ in range(30)]
    assert waits == sorted(waits) and waits[0] >= USUAL_SECONDS / 3
    assert waits[-1] == pytest.approx(USUAL_SECONDS / 3 + 9 * USUAL_SECONDS), "thirty rows are ten captures a place"
    assert captures.enter(NOW, limit=3, is_back=True) < USUAL_SECONDS, "a row that was here before goes before new ones"


def test_the_times_follow_how_long_captures_take() -> None:
    captures = Spn2Captures()
    for number in range(40):
        begin(captures, "a", NOW + 200 * number, limit=1)
        end(captures, "a", NOW + 200 * number + 100, NOW + 200 * number)
    begin(captures, "b", NOW + 9000, limit=1)
    assert captures.enter(NOW + 9000, limit=1, is_back=False) == pytest.approx(100, abs=1)


def test_a_refusal_closes_longer_each_time_until_a_capture_is_begun() -> None:
    captures, now, pauses = Spn2Captures(), NOW, []
    for _ in range(8):
        captures.refused(now, "no")
        pause = next(seconds for seconds in itertools.count() if not captures.is_closed(now + seconds))
        pauses.append(pause)
        now += pause
    assert pauses[:5] == [FIRST_PAUSE * 2**n for n in range(5)] and pauses[-1] == LONGEST_PAUSE
    captures.accepted()
    captures.refused(now, "no")
    assert not captures.is_closed(now + FIRST_PAUSE)


def test_what_the_service_asks_for_counts_when_it_is_longer() -> None:
    captures = Spn2Captures()
    captures.refused(NOW, "no", 600)
    assert captures.is_closed(NOW + 599) and not captures.is_closed(NOW + 600)
    assert captures.enter(NOW, limit=7, is_back=False) >= 600


def test_a_service_that_is_full_of_ours_waits_for_one_of_them() -> None:
    captures = Spn2Captures()
    for url in "abc":
        begin(captures, url)
    captures.full(NOW, "full")
    assert not captures.is_closed(NOW) and captures.enter(NOW, limit=7, is_back=False) > 0
    end(captures, "a", NOW + 2)
    assert captures.enter(NOW + 2, limit=7, is_back=False) == 0.0


def test_a_service_that_is_full_of_others_is_left_alone() -> None:
    captures = Spn2Captures()
    captures.enter(NOW, limit=7, is_back=False)
    captures.full(NOW, "full")
    captures.leave()
    assert captures.is_closed(NOW + FIRST_PAUSE - 1)


def test_captures_of_an_earlier_process_are_counted() -> None:
    captures = Spn2Captures()
    captures.adopt(
        {
            "open": Spn2Capture("a", NOW - 10, NOW),
            "old": Spn2Capture("b", NOW - LIMIT_SECONDS, NOW),
            "ended": Spn2Capture("c", NOW - 10, NOW, ended=NOW - 5, url="ended"),
            "tomorrow": Spn2Capture("d", NOW + 86400, NOW),
        },
        NOW,
    )
    assert captures.open(NOW) == 1


@pytest.mark.parametrize(
    ("capture", "seconds"),
    [
        (Spn2Capture("a", NOW, NOW), KEPT_SECONDS),
        (Spn2Capture("a", NOW - 100, NOW, ended=NOW, url="u", timestamp="2"), KEPT_SECONDS),
        (Spn2Capture("a", NOW - 100, NOW, ended=NOW, error="not-found"), FAILED_SECONDS),
    ],
)
def test_what_is_known_of_a_capture_counts_for_a_time(capture: Spn2Capture, seconds: float) -> None:
    assert capture.counts(NOW + seconds - 1) and not capture.counts(NOW + seconds)
    assert not capture.counts(NOW - 1000), "the clock was set back"


def test_a_capture_is_read_back_as_it_was_written() -> None:
    row = CdxRow("http://h/", "20200101000000", 200, "text/html", "x", revisits=CdxRow("http://h/", "20190101000000"))
    for capture in (
        Spn2Capture("a", NOW, NOW),
        Spn2Capture("", NOW, NOW, 3, NOW, "http://h/", "20200101000000", row),
        Spn2Capture("", NOW, NOW, ended=NOW, error="", message="no"),
    ):
        assert Spn2Capture.from_json(capture.to_json()) == capture


@given(st.lists(st.tuples(st.integers(0, 400), st.floats(0, 30)), max_size=300))
def test_what_is_kept_does_not_grow_and_places_are_never_exceeded(steps: list[tuple[int, float]]) -> None:
    captures, now = Spn2Captures(), NOW
    for number, seconds in steps:
        now += seconds
        url = str(number)
        known = captures.get(url, now)
        if known is None and captures.enter(now, limit=5, is_back=False) == 0.0:
            captures.note(url, Spn2Capture(url, now, now), now)
            captures.leave()
        elif known is not None and known.ended is None:
            end(captures, url, now, known.began)
        assert captures.open(now) <= 5
        assert len(captures) <= 5 + MOST_ENDED + 1


async def test_rows_go_on_with_a_url_one_after_the_other_and_leave_nothing() -> None:
    captures, inside, most = Spn2Captures(), 0, 0

    async def work(url: str) -> None:
        nonlocal inside, most
        async with captures.alone(url):
            inside += url == "a"
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= url == "a"

    tasks = [asyncio.ensure_future(work("a" if number % 2 else "b")) for number in range(20)]
    await asyncio.sleep(0)
    tasks[5].cancel()
    tasks[6].cancel()
    await asyncio.wait(tasks)
    assert most == 1 and not captures._locks
