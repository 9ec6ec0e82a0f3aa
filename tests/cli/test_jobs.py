"""`datasette ingest jobs` and `show`: what there is, and how it goes."""

from __future__ import annotations

import pathlib

import pytest

from .conftest import Cli, Stepper, read_json, tables


@pytest.fixture
def two_jobs(cli: Cli, papers: pathlib.Path, stepper: Stepper) -> pathlib.Path:
    """Job 1 over papers, finished with two errors; job 2 over notes, paused."""
    stepper.faults = ["error", "", "error", ""]
    assert cli("run", papers, "papers", "--enrichment", "step", "--set", "word=done").exit_code == 0
    stepper.faults = ["pause"]
    assert cli("run", papers, "notes", "--enrichment", "step").exit_code == 75
    return papers


def test_jobs_lists_the_newest_first(cli: Cli, two_jobs: pathlib.Path) -> None:
    result = cli("jobs", two_jobs)
    assert result.exit_code == 0
    head, *lines = result.stdout.splitlines()
    assert head.split() == ["id", "status", "enrichment", "table", "rows", "done", "errors", "misses", "started"]
    assert [line.split()[:8] for line in lines] == [
        ["2", "paused", "step", "notes", "1", "0", "%", "0"],
        ["1", "finished", "step", "papers", "4", "100", "%", "2"],
    ]


def test_jobs_can_be_narrowed_to_a_table_a_state_and_a_number(cli: Cli, two_jobs: pathlib.Path) -> None:
    def ids(*options: str) -> list[int]:
        return [job["id"] for job in read_json(cli("jobs", two_jobs, "--json", *options))["jobs"]]

    assert ids() == [2, 1]
    assert ids("--table", "papers") == [1]
    assert ids("--status", "paused") == [2]
    assert ids("--limit", "1") == [2]
    assert ids("--table", "papers", "--status", "paused") == []


def test_jobs_says_how_to_begin_where_there_are_none(cli: Cli, papers: pathlib.Path) -> None:
    before = tables(papers)
    result = cli("jobs", papers)
    assert result.exit_code == 0
    assert result.stdout == f"No jobs yet. Start one with: datasette ingest run {papers} TABLE\n"
    assert tables(papers) == before


def test_jobs_does_not_claim_that_there_are_none_when_it_was_asked_for_some(cli: Cli, two_jobs: pathlib.Path) -> None:
    result = cli("jobs", two_jobs, "--status", "running")
    assert result.stdout == f"No jobs match. List all jobs with: datasette ingest jobs {two_jobs}\n"


def test_show_tells_state_numbers_outcomes_and_errors(cli: Cli, two_jobs: pathlib.Path) -> None:
    result = cli("show", two_jobs, 1)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert "job:      1, step over papers" in lines
    assert "status:   finished" in lines
    assert "filters:  none: all rows" in lines
    assert 'settings: word = "done"' in lines
    assert "rows:     4 of 4 answered (100 %), 2 in error" in lines
    assert [line.split() for line in lines if line.startswith(("error ", "success "))] == [
        ["success", "2", "50.0%"],
        ["error", "2", "50.0%"],
    ]
    assert lines[-3:] == [
        "Errors (2 of 2):",
        "  row 1: ValueError: the row is lame",
        "  row 3: ValueError: the row is lame",
    ]


def test_show_says_why_a_job_is_paused(cli: Cli, two_jobs: pathlib.Path) -> None:
    assert "reason:   The road is closed" in cli("show", two_jobs, 2).stdout.splitlines()


def test_show_as_json_is_the_job(cli: Cli, two_jobs: pathlib.Path) -> None:
    answer = read_json(cli("show", two_jobs, 1, "--json"))
    assert answer["ok"] is True
    assert (answer["job"]["id"], answer["job"]["error_count"]) == (1, 2)
    assert answer["job"]["url"] == "/-/ingest-jobs/papers/1"


def test_missed_writes_the_rows_without_success_as_csv(
    cli: Cli, two_jobs: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    shown = cli("missed", two_jobs, 1)
    assert shown.exit_code == 0
    assert [line.partition(",")[0] for line in shown.stdout.splitlines()] == ["id", "1", "3"]
    file = tmp_path / "missed.csv"
    assert cli("missed", two_jobs, 1, "--bom", "--column", "ID", "-o", file).exit_code == 0
    assert file.read_bytes().decode("utf-8-sig").splitlines() == shown.stdout.splitlines()
    assert file.read_bytes().startswith(b"\xef\xbb\xbf")
    refused = cli("missed", two_jobs, 1, "--column", "nothing")
    assert refused.exit_code == 1 and "has no column nothing" in refused.stderr
