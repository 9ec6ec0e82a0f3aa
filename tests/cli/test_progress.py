"""What a person sees while a job runs and when it is over."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import pytest

from datasette_ingest.cli.progress import QUIET_SECONDS, LoadLine, ProgressLine, outcome_table, summary
from datasette_ingest.jobs.model import Job, JobStatus, Wait
from datasette_ingest.jobs.stored_row import job_of


def job(**values: Any) -> Job:
    empty = {field.name: None for field in dataclasses.fields(Job)}
    return dataclasses.replace(job_of({**empty, "id": 3, "status": "running"}), **values)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def pretend_a_terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Captured, standard error still looks like a terminal of so many columns."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", str(columns))


def test_on_a_terminal_one_line_follows_the_job(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_a_terminal(monkeypatch, columns=100)
    clock = Clock()
    line = ProgressLine(clock=clock)
    line.update(job(row_count=400, done_count=0))
    clock.now += 10
    line.update(job(row_count=400, done_count=100, error_count=2))
    line.end()
    first, second = capsys.readouterr().err.removeprefix("\r\x1b[K").split("\r\x1b[K")
    assert "0.0 %  0 of 400 rows" in first
    assert second == "███████" + "░" * 21 + "  25.0 %  100 of 400 rows  10.0 rows/s  30 s left  2 in error\n"


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (60, "███████░░░░░░░░░░░░░░░░░░░░░  25.0 %  100 of 400 rows"),
        (40, "███░░░░░░░░░░░  25.0 %  100 of 400 rows"),
        (30, "25.0 %  100 of 400 rows"),
        (20, "25.0 %  100 of 400 "),
        (2, "2"),
        (1, "2"),
    ],
)
def test_in_a_narrow_terminal_the_bar_gives_way_before_the_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int, shown: str
) -> None:
    pretend_a_terminal(monkeypatch, columns)
    ProgressLine(clock=Clock()).update(job(row_count=400, done_count=100))
    assert capsys.readouterr().err.removeprefix("\r\x1b[K") == shown


def test_a_terminal_that_cannot_draw_a_line_again_gets_new_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_a_terminal(monkeypatch, columns=80)
    monkeypatch.setenv("TERM", "dumb")
    ProgressLine(clock=Clock()).update(job(row_count=4, done_count=2, waits_until="2026-12-01T00:00:00Z"))
    assert "\x1b" not in (shown := capsys.readouterr().err) and shown.endswith("\n")


def test_without_a_terminal_a_line_comes_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    line = ProgressLine(clock=clock)
    line.update(job(row_count=400, done_count=1))
    assert capsys.readouterr().err == ""
    clock.now += QUIET_SECONDS
    line.update(job(row_count=400, done_count=300))
    text = capsys.readouterr().err
    assert "300 of 400 rows" in text
    assert "\r" not in text


def test_a_silent_line_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    line = ProgressLine(is_silent=True, clock=clock)
    clock.now += 2 * QUIET_SECONDS
    line.update(job(row_count=4, done_count=2))
    line.end()
    assert capsys.readouterr().err == ""


def test_outcomes_stand_most_frequent_first_behind_success() -> None:
    table = outcome_table(job(outcomes={"no-pdf-link": 1500, "success": 400, "soft-404": 100}))
    assert table.splitlines() == [
        "outcome       rows  share",
        "success        400  20.0%",
        "no-pdf-link  1,500  75.0%",
        "soft-404       100   5.0%",
    ]


def test_no_outcomes_are_said_in_words() -> None:
    assert outcome_table(job(row_count=0)) == "No rows were selected."
    assert outcome_table(job(row_count=5)) == "No row has been answered yet."
    assert outcome_table(job(row_count=5, status=JobStatus.CANCELLED)) == "No row was answered."


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"status": JobStatus.FINISHED}, "Job 3 is finished: 2 of 4 rows answered, 1 in error, $0.0105 spent."),
        (
            {"status": JobStatus.CANCELLED, "cancel_reason": "The table is gone"},
            "Job 3 was cancelled: The table is gone. 2 of 4 rows answered, 1 in error, $0.0105 spent.",
        ),
        (
            {"status": JobStatus.PAUSED, "pause_reason": "A rest", "resume_at": "2026-11-30T12:00:00Z"},
            "Job 3 is paused: A rest. It resumes by itself at 2026-11-30 12:00:00 UTC. 2 of 4 rows answered, 1 in "
            "error, $0.0105 spent.\nResume it with: datasette ingest resume p.db 3",
        ),
        (
            {"status": JobStatus.RUNNING, "waits_until": "2026-11-30T12:00:00.000Z"},
            "Job 3 waits until 2026-11-30 12:00:00 UTC: a.example asked us to wait. 2 of 4 rows answered, 1 in error, "
            "$0.0105 spent.\nRun it with: datasette ingest work p.db",
        ),
        (
            {"status": JobStatus.PENDING},
            "Job 3 is pending: 2 of 4 rows answered, 1 in error, $0.0105 spent.\nRun it with: datasette ingest work p.db",
        ),
    ],
)
def test_the_summary_says_how_it_ended_and_what_to_do_next(state: dict[str, Any], said: str) -> None:
    ended = job(row_count=4, done_count=2, error_count=1, cost_nanodollars=10_500_000, **state)
    waits = [Wait("a.example asked us to wait", "2026-11-30T12:00:00.000Z", 2)] if ended.waits_until else []
    assert summary(ended, "p.db", waits) == said


def test_a_wait_of_all_rows_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    line = ProgressLine(clock=Clock())
    for until in (None, "2026-11-30T12:00:00.000Z", "2026-11-30T12:00:00.000Z"):
        line.update(job(row_count=4, done_count=2, waits_until=until))
    (said,) = capsys.readouterr().err.splitlines()
    assert said.endswith("2 of 4 rows  waits until 2026-11-30 12:00:00 UTC")


def test_a_load_is_followed_by_bytes_where_their_number_is_known(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_a_terminal(monkeypatch, columns=120)
    clock = Clock()
    line = LoadLine(clock=clock)
    clock.now += 10
    line.update(2_500_000, 10_000_000, "1,000 new, 0 known")
    clock.now += 10
    line.update(5_000_000, None, "2,000 new, 0 known")
    line.end()
    first, second = capsys.readouterr().err.removeprefix("\r\x1b[K").split("\r\x1b[K")
    assert first == "███████" + "░" * 21 + "  25.0 %  2.5 MB of 10.0 MB  30 s left  1,000 new, 0 known"
    assert second == "5.0 MB  2,000 new, 0 known\n"
