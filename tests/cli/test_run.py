"""`datasette ingest run`: a job from start to end, and the exit code that tells a script how it went."""

from __future__ import annotations

import asyncio
import json
import pathlib
import signal
import time

import pytest

from datasette_ingest.cli.signals import Interruption
from datasette_ingest.sqlite import from_iso
from datasette_ingest.text import moment

from ..conftest import rows
from .conftest import QUICK, Cli, Stepper, read_json


def test_a_finished_run_writes_every_row_and_exits_0(cli: Cli, papers: pathlib.Path, site: str) -> None:
    result = cli("run", papers, "papers", "--url-column", "url", *QUICK)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == [
        "outcome              rows  share",
        "success                 2  50.0%",
        "blocked-wall            1  25.0%",
        "terminal-bad-status     1  25.0%",
        "Job 1 is finished: 4 of 4 rows answered.",
    ]
    assert rows(papers, "select ingest_hit, ingest_status, ingest_terminal_url from papers order by id") == [
        (1, "success", f"{site}/files/herons.pdf"),
        (1, "success", f"{site}/files/tides.pdf"),
        (0, "terminal-bad-status", f"{site}/articles/lost"),
        (0, "blocked-wall", f"{site}/login"),
    ]


def test_the_url_column_is_guessed(cli: Cli, papers: pathlib.Path) -> None:
    result = cli("run", papers, "papers", "--json", *QUICK)
    assert result.exit_code == 0, result.output
    assert read_json(result)["config"]["url_column"] == "url"


def test_json_prints_the_job_and_nothing_else(cli: Cli, papers: pathlib.Path) -> None:
    result = cli("run", papers, "papers", "--json", *QUICK)
    job = read_json(result)
    assert (job["status"], job["is_final"], job["done_count"], job["percent"]) == ("finished", True, 4, 100.0)
    assert job["outcomes"] == {"success": 2, "blocked-wall": 1, "terminal-bad-status": 1}
    assert result.stderr == ""


def test_a_filter_selects_the_rows_and_the_others_stay_as_they_were(cli: Cli, papers: pathlib.Path) -> None:
    result = cli("run", papers, "papers", "--filter", "year__gte=2022&_sort=year", *QUICK)
    assert result.exit_code == 0, result.output
    assert "2 of 2 rows answered" in result.stdout
    assert rows(papers, "select id from papers where ingest_status is null order by id") == [(1,), (2,)]


def test_set_reaches_the_enrichment(cli: Cli, papers: pathlib.Path) -> None:
    assert cli("run", papers, "papers", "--set", "prefix=found_", *QUICK).exit_code == 0
    assert rows(papers, "select found_status from papers where id = 1") == [("success",)]


def test_output_none_leaves_the_table_as_it_is(cli: Cli, papers: pathlib.Path) -> None:
    columns = rows(papers, "select name from pragma_table_info('papers')")
    assert cli("run", papers, "papers", "--set", "output=none", *QUICK).exit_code == 0
    assert rows(papers, "select name from pragma_table_info('papers')") == columns
    assert rows(papers, "select count(*) from ingest_file_result") == [(4,)]


def test_the_wanted_type_decides_what_is_a_hit(cli: Cli, papers: pathlib.Path) -> None:
    result = cli("run", papers, "papers", "--type", "xml", "--filter", "id=1", *QUICK)
    assert result.exit_code == 0, result.output
    assert rows(papers, "select ingest_status from papers where id = 1") == [("wrong-mimetype",)]


def test_a_job_setting_is_stored_with_the_job_and_a_permission_of_the_process_never(
    cli: Cli, papers: pathlib.Path
) -> None:
    assert cli("run", papers, "papers", "-s", "max_candidates", "2", *QUICK).exit_code == 0
    ((options,),) = rows(papers, "select options from _enrichment_jobs")
    assert json.loads(options)["settings"] == {"max_candidates": 2, "per_host_delay": 0}


def test_settings_are_read_from_a_configuration_file(cli: Cli, papers: pathlib.Path, tmp_path: pathlib.Path) -> None:
    config = tmp_path / "datasette.yaml"
    config.write_text(
        "plugins:\n  datasette-ingest:\n    allow_networks: [127.0.0.0/8]\n    per_host_delay: 0\n", encoding="utf-8"
    )
    assert cli("run", papers, "papers", "-c", config).exit_code == 0
    assert rows(papers, "select count(*) from papers where ingest_status = 'success'") == [(2,)]


def test_without_permission_no_row_reaches_loopback(cli: Cli, papers: pathlib.Path) -> None:
    assert cli("run", papers, "papers").exit_code == 0
    assert rows(papers, "select distinct ingest_status from papers") == [("forbidden-address",)]


def test_a_second_run_uses_what_is_known(cli: Cli, papers: pathlib.Path) -> None:
    cli("run", papers, "papers", *QUICK)
    before = rows(papers, "select base_url, updated, attempts from ingest_file_result order by base_url")
    result = cli("run", papers, "papers")  # no permission for loopback: a request would end as forbidden-address
    assert "success                 2" in result.stdout
    assert rows(papers, "select base_url, updated, attempts from ingest_file_result order by base_url") == before


def test_too_many_errors_cancel_the_job_and_exit_1(cli: Cli, papers: pathlib.Path, stepper: Stepper) -> None:
    stepper.faults = ["error"] * 4
    result = cli("run", papers, "papers", "--enrichment", "step", "--max-errors", "1", "--batch-size", "1")
    assert result.exit_code == 1
    assert "Job 1 was cancelled: 2 rows are in error, more than the limit of 1." in result.stdout


def test_errors_below_the_limit_leave_the_run_a_success(cli: Cli, papers: pathlib.Path, stepper: Stepper) -> None:
    stepper.faults = ["error"]
    result = cli("run", papers, "papers", "--enrichment", "step")
    assert result.exit_code == 0, result.output
    assert "Job 1 is finished: 4 of 4 rows answered, 1 in error." in result.stdout


def test_a_job_that_pauses_itself_exits_75_and_says_how_to_go_on(
    cli: Cli, papers: pathlib.Path, stepper: Stepper
) -> None:
    stepper.faults = ["", "pause"]
    result = cli("run", papers, "papers", "--enrichment", "step")
    assert result.exit_code == 75
    assert "Job 1 is paused: The road is closed." in result.stdout
    assert result.stdout.endswith(f"Resume it with: datasette ingest resume {papers} 1\n")
    assert rows(papers, "select id from papers where mark is not null") == [(1,)]


def test_a_short_rest_is_waited_for(cli: Cli, papers: pathlib.Path, stepper: Stepper) -> None:
    stepper.faults = ["rest 0.3"]
    result = cli("run", papers, "papers", "--enrichment", "step")
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith("Paused until ")
    assert result.stderr.endswith(": A short rest\n")
    assert rows(papers, "select count(*) from papers where mark is not null") == [(4,)]


def test_no_wait_leaves_a_resting_job_and_exits_75(cli: Cli, papers: pathlib.Path, stepper: Stepper) -> None:
    stepper.faults = ["rest 3600"]
    result = cli("run", papers, "papers", "--enrichment", "step", "--no-wait", "--json")
    assert result.exit_code == 75
    job = read_json(result)
    assert (job["status"], job["pause_reason"]) == ("paused", "A short rest")
    assert from_iso(job["resume_at"]) > from_iso(job["started_at"]) + 3000


def test_a_row_that_is_put_off_is_waited_for(cli: Cli, papers: pathlib.Path, stepper: Stepper) -> None:
    stepper.faults = ["defer 0.3"]
    result = cli("run", papers, "papers", "--enrichment", "step")
    assert result.exit_code == 0, result.output
    assert "  waits until " in result.stderr
    assert rows(papers, "select count(*) from papers where mark is not null") == [(4,)]


def test_no_wait_leaves_a_job_whose_rows_wait_to_others_and_exits_75(
    cli: Cli, papers: pathlib.Path, stepper: Stepper
) -> None:
    stepper.faults = ["defer 3600", "defer 7200"]
    result = cli("run", papers, "papers", "--enrichment", "step", "--no-wait")
    assert result.exit_code == 75
    ((until, status),) = rows(papers, "select waits_until, status from _enrichment_jobs")
    assert status == "running" and from_iso(until) > time.time() + 3000
    assert f"Job 1 waits until {moment(until)}: A short rest. 2 of 4 rows answered." in result.stdout
    assert result.stdout.endswith(f"Run it with: datasette ingest work {papers}\n")
    job = read_json(cli("show", papers, "1", "--json"))["job"]
    assert (job["waits_until"], job["waits"]) == (until, [{"reason": "A short rest", "until": until, "rows": 2}])
    assert f"running, waits until {moment(until)}" in cli("jobs", papers).stdout
    assert f"Rows that wait:\n  2 until {moment(until)}: A short rest" in cli("show", papers, "1").stdout


def test_work_waits_for_rows_that_were_put_off(cli: Cli, papers: pathlib.Path, stepper: Stepper) -> None:
    stepper.faults = ["defer 2", "defer 2"]
    assert cli("run", papers, "papers", "--enrichment", "step", "--no-wait").exit_code == 75
    assert cli("work", papers).exit_code == 0
    assert rows(papers, "select status, done_count from _enrichment_jobs") == [("finished", 4)]


def test_ctrl_c_ends_a_rest_at_once_and_exits_130(
    cli: Cli, papers: pathlib.Path, stepper: Stepper, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper.faults = ["rest 3600"]
    wait = Interruption.wait

    async def wait_and_be_interrupted(self: Interruption, seconds: float) -> bool:
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        return await wait(self, seconds)

    monkeypatch.setattr(Interruption, "wait", wait_and_be_interrupted)
    result = cli("run", papers, "papers", "--enrichment", "step")
    assert result.exit_code == 130
    assert result.stderr.startswith("Paused until ")
    assert "It resumes by itself at " in result.stdout


def test_an_empty_selection_is_a_finished_job(cli: Cli, papers: pathlib.Path) -> None:
    result = cli("run", papers, "papers", "--filter", "year=1900", *QUICK)
    assert result.exit_code == 0, result.output
    assert result.stdout == "No rows were selected.\nJob 1 is finished: 0 of 0 rows answered.\n"


def test_a_path_with_a_space_can_be_copied_from_the_message(
    cli: Cli, papers: pathlib.Path, tmp_path: pathlib.Path, stepper: Stepper
) -> None:
    spaced = papers.rename(tmp_path / "my papers.db")
    stepper.faults = ["pause"]
    assert f"datasette ingest resume '{spaced}' 1" in cli("run", spaced, "papers", "--enrichment", "step").stdout
