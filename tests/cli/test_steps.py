"""`pause`, `resume`, `cancel`, `retry`, `work`, `cache prune`: what a person does to jobs that exist."""

from __future__ import annotations

import contextlib
import json
import pathlib
import sqlite3
import time

import pytest

from datasette_ingest.jobs import cache

from ..conftest import registered, rows
from .conftest import QUICK, Cli, Stepper, read_json


@pytest.fixture
def paused(cli: Cli, papers: pathlib.Path, stepper: Stepper) -> pathlib.Path:
    """A database whose job 1 paused itself after the first of four rows."""
    stepper.faults = ["", "pause"]
    assert cli("run", papers, "papers", "--enrichment", "step").exit_code == 75
    return papers


def status(path: pathlib.Path, job: int = 1) -> str:
    ((word,),) = rows(path, "select status from _enrichment_jobs where id = ?", job)
    return str(word)


def test_resume_runs_the_job_to_its_end(cli: Cli, paused: pathlib.Path) -> None:
    result = cli("resume", paused, 1)
    assert result.exit_code == 0, result.output
    assert "Job 1 is finished: 4 of 4 rows answered." in result.stdout
    assert rows(paused, "select count(*) from papers where mark = 'seen'") == [(4,)]


def test_resume_without_running_leaves_the_job_to_a_worker(cli: Cli, paused: pathlib.Path) -> None:
    result = cli("resume", paused, 1, "--no-run")
    assert result.exit_code == 0
    assert result.stdout == f"Job 1 waits for a worker: datasette ingest work {paused}\n"
    assert status(paused) == "pending"
    assert cli("work", paused).exit_code == 0
    assert status(paused) == "finished"


def test_pause_holds_a_job_that_waits_and_says_how_to_go_on(cli: Cli, paused: pathlib.Path) -> None:
    cli("resume", paused, 1, "--no-run")
    result = cli("pause", paused, 1)
    assert result.exit_code == 0
    assert result.stdout == f"Job 1 is paused. Resume it with: datasette ingest resume {paused} 1\n"
    assert status(paused) == "paused"


def test_cancel_gives_a_job_up_and_keeps_what_it_wrote(cli: Cli, paused: pathlib.Path) -> None:
    result = cli("cancel", paused, 1)
    assert result.exit_code == 0
    assert result.stdout == "Job 1 is cancelled: 1 of 4 rows were answered.\n"
    assert rows(paused, "select id from papers where mark is not null") == [(1,)]


@pytest.mark.parametrize("verb", ["pause", "resume", "cancel"])
def test_what_a_finished_job_does_not_permit_exits_1_and_changes_nothing(
    cli: Cli, papers: pathlib.Path, stepper: Stepper, verb: str
) -> None:
    assert cli("run", papers, "papers", "--enrichment", "step").exit_code == 0
    result = cli(verb, papers, 1)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: Job 1 is finished, so it cannot be ")
    assert status(papers) == "finished"


def test_retry_starts_a_new_job_over_the_rows_in_error(cli: Cli, papers: pathlib.Path, stepper: Stepper) -> None:
    stepper.faults = ["", "error", "", "error"]
    assert cli("run", papers, "papers", "--enrichment", "step").exit_code == 0
    job = read_json(cli("retry", papers, 1, "--json"))
    assert (job["id"], job["status"], job["row_count"], job["error_count"]) == (2, "finished", 2, 0)
    assert rows(papers, "select count(*) from papers where mark = 'seen'") == [(4,)]


def test_retry_of_misses_asks_for_them_again(cli: Cli, papers: pathlib.Path) -> None:
    assert cli("run", papers, "papers", *QUICK).exit_code == 0
    job = read_json(cli("retry", papers, 1, "--scope", "misses", "--json", *QUICK))
    assert (job["id"], job["row_count"]) == (2, 1)  # a login page would not change by itself, a missing page may
    assert rows(papers, "select attempts from ingest_file_result where status = 'terminal-bad-status'") == [(2,)]


def test_what_is_given_to_a_retry_comes_before_what_was_given_to_the_job(cli: Cli, papers: pathlib.Path) -> None:
    assert cli("run", papers, "papers", *QUICK, "-s", "timeout", "7", "-s", "max_hops", "3").exit_code == 0
    cli("retry", papers, 1, "--scope", "misses", "--no-run", "-s", "timeout", "9")
    ((options,),) = rows(papers, "select options from _enrichment_jobs where id = 2")
    stored = json.loads(options)["settings"]
    assert (stored["timeout"], stored["max_hops"]) == (9, 3)


def test_two_plugins_with_one_slug_are_named_in_a_sentence(cli: Cli, papers: pathlib.Path) -> None:
    with registered(Stepper(), Stepper()):
        result = cli("run", papers, "papers", "--enrichment", "step")
    assert result.exit_code == 1
    assert "Two plugins register an enrichment 'step'" in result.stderr and "Uninstall one" in result.stderr


def test_retry_with_nothing_to_try_again_says_so(cli: Cli, papers: pathlib.Path, stepper: Stepper) -> None:
    assert cli("run", papers, "papers", "--enrichment", "step").exit_code == 0
    result = cli("retry", papers, 1)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: Job 1 has no rows in error")
    assert rows(papers, "select count(*) from _enrichment_jobs") == [(1,)]


def test_retry_without_running_adds_a_job_that_waits(cli: Cli, papers: pathlib.Path, stepper: Stepper) -> None:
    stepper.faults = ["error"]
    assert cli("run", papers, "papers", "--enrichment", "step").exit_code == 0
    assert "Job 2 waits for a worker" in cli("retry", papers, 1, "--no-run").stdout
    assert status(papers, 2) == "pending"


def test_work_runs_the_jobs_of_several_databases(
    cli: Cli, paused: pathlib.Path, tmp_path: pathlib.Path, stepper: Stepper
) -> None:
    other = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(paused)) as conn, contextlib.closing(sqlite3.connect(other)) as copy:
        conn.backup(copy)
    for path in (paused, other):
        cli("resume", path, 1, "--no-run")
    assert cli("work", paused, other).exit_code == 0
    assert (status(paused), status(other)) == ("finished", "finished")


def test_work_says_which_database_cannot_be_used_and_runs_the_others(
    cli: Cli, paused: pathlib.Path, tmp_path: pathlib.Path, stepper: Stepper, caplog: pytest.LogCaptureFixture
) -> None:
    other = tmp_path / "other.db"
    cli("resume", paused, 1, "--no-run")
    content = bytearray(paused.read_bytes())
    content[18] = 3  # the version that a writer must know; above 2, SQLite only reads (file format, 1.3.3)
    other.write_bytes(content)
    assert cli("work", other, paused).exit_code == 1
    assert (status(paused), status(other)) == ("finished", "pending")
    assert caplog.text.count("The database other may not be written") == 1


def test_work_ends_at_once_where_nothing_is_runnable(cli: Cli, paused: pathlib.Path) -> None:
    assert cli("work", paused).exit_code == 0
    assert status(paused) == "paused"


def test_cache_prune_deletes_what_has_expired_and_nothing_else(cli: Cli, papers: pathlib.Path) -> None:
    now = time.time()
    with contextlib.closing(sqlite3.connect(papers)) as conn, conn:
        cache.put(conn, "step", "old", "1", now - 20, now - 10)
        cache.put(conn, "step", "fresh", "2", now, now + 1000)
        cache.put(conn, "step", "for good", "3", now, None)
    assert cli("cache", "prune", papers).stdout == "1 expired entry deleted.\n"
    assert cli("cache", "prune", papers).stdout == "0 expired entries deleted.\n"
    assert rows(papers, "select key from _enrichment_cache order by key") == [("for good",), ("fresh",)]
