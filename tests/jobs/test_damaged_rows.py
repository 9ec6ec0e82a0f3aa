"""Rows of ours that another program has damaged: the job is given up with the reason, and everything else stays up."""

from __future__ import annotations

import asyncio
import json
import pathlib
from typing import Any

import pytest

from datasette_ingest.jobs.errors import IllegalTransition
from datasette_ingest.jobs.model import JobStatus
from datasette_ingest.jobs.service import control
from datasette_ingest.testing import run_until_idle

from ..conftest import ROOT, registered, rows, serving
from .kit import by_row, execute, start, table, to_the_end

COPY = by_row(lambda row: {"copied": row["id"]})

GARBAGE: dict[str, list[Any]] = {
    "row_count": ["many", -1, 2.5, b"\xff", None],
    "done_count": ["'; drop table papers", -(2**63), None],
    "error_count": [b"", "x"],
    "cost_100ths_cent": ["free", None],
    "cost_nanodollars": [1.5],
    "config": ["{", "[]", "5", None, b"{}", b"\xff\xfe", ""],
    "options": ["{", '{"batch_size": "all"}', '{"output": "nowhere"}', '{"batch_size": -1}', None, b"x"],
    "selection": ["{", "[1]", '{"where": 5, "params": {}, "columns": [], "is_free_sql": false}', "{}", None, b"\x00"],
    "state": ["no state", "[" * 5000, None],
    "outcomes": ["{", '{"success": "all"}', '{"success": -1}', None],
    "status": ["working", "", None, 5, b"pending"],
    "next_cursor": ["junk", "[]", "", 7, b"\xff"],
    "table_name": [None, "", 5, b"papers", "no such table"],
    "enrichment": [None, b"e", ""],
    "started_at": ["yesterday", 5, b"x"],
    "finished_at": ["2026-13-45T99:99:99Z"],
    "resume_at": ["soon"],
    "waits_until": ["later", b"\xff"],
    "cancel_reason": [b"\xff"],
    "pause_reason": [b"\xff"],
    "table_key": ["garbage", b"\x01"],
    "filter_querystring": [b"\xff"],
    "id": [0, -3],
}
CASES = [(column, value) for column, values in GARBAGE.items() for value in values]
PAGES = ("", ".json", "/errors", "/errors.json", "/missed.csv")


def damage(path: pathlib.Path, column: str, value: Any) -> None:
    """Write garbage into the row of the only job, as another program could that ignores our triggers."""
    table(path, "drop trigger _enrichment_jobs_renumbered")
    import contextlib
    import sqlite3

    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("pragma writable_schema = off")
        conn.execute(f"update _enrichment_jobs set {column} = ?", [value])


async def pages_stay_up(datasette: Any, job_id: int, *more: str) -> None:
    cookies = {"ds_actor": datasette.sign({"a": ROOT}, "actor")}
    ours = [f"/-/ingest-jobs/data/{job_id}{page}" for page in PAGES]
    for address in [*ours, "/-/ingest-jobs", "/-/ingest-jobs.json", "/-/ingest-jobs/data.json", "/data/papers", *more]:
        answer = await datasette.client.get(address, cookies=cookies)
        assert answer.status_code in (200, 400, 404), (address, answer.status_code, answer.text[:500])
        if "/-/ingest-jobs" in address.split("?")[0] and not address.endswith(("csv", "errors")):
            assert answer.status_code in (200, 404), (address, answer.text[:500])
        if answer.status_code == 200 and address.endswith(".json"):
            json.loads(answer.text)


@pytest.mark.parametrize("column, value", CASES)
async def test_a_pending_job_is_given_up_with_the_reason_and_pages_stay_up(
    db_path: pathlib.Path, column: str, value: Any
) -> None:
    with registered(COPY):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            damage(db_path, column, value)
            number = value if column == "id" else job.id
            await pages_stay_up(datasette, number)
            await asyncio.wait_for(run_until_idle(datasette), 30)
            await pages_stay_up(datasette, number)
            good = await to_the_end(datasette, await start(datasette))
    assert (good.status, good.done_count) == (JobStatus.FINISHED, 5)
    [(status, reason)] = rows(db_path, "select status, cancel_reason from _enrichment_jobs where id <> ?", good.id)
    assert status == "cancelled" and isinstance(reason, str)
    named = {"table_name": "table", "next_cursor": "position", "table_key": "key"}.get(column, column)
    assert column in reason or named in reason, reason
    assert rows(db_path, "select count(*) from _enrichment_batches") == [(0,)]


@pytest.mark.parametrize(
    "column, value",
    [
        ("row_count", "many"),
        ("state", "garbage"),
        ("outcomes", None),
        ("selection", "{"),
        ("status", "odd"),
        ("options", ""),
    ],
)
async def test_a_running_job_that_is_damaged_stops_and_says_why(db_path: pathlib.Path, column: str, value: Any) -> None:
    async def enrich(row: Any) -> Any:
        if row["id"] == 2:
            await asyncio.to_thread(damage, db_path, column, value)
        return {"copied": row["id"]}

    with registered(by_row(enrich, batch_size=1, max_open_batches=1)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
            await pages_stay_up(datasette, job.id)
    assert job.status is JobStatus.CANCELLED
    assert f"its {column} should be" in str(job.cancel_reason) or "filters" in str(job.cancel_reason)
    assert len(rows(db_path, "select 1 from papers where copied is not null")) <= 2


async def test_a_paused_job_that_is_damaged_is_given_up_at_the_next_start(db_path: pathlib.Path) -> None:
    with registered(COPY):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            await control.pause(datasette, "data", job.id, actor=ROOT)
            damage(db_path, "config", "{")
            job = await to_the_end(datasette, job)
            assert job.status is JobStatus.CANCELLED and "its config should be an object in JSON" in str(
                job.cancel_reason
            )
            with pytest.raises(IllegalTransition, match="Start a new job"):
                await control.retry(datasette, "data", job.id, actor=ROOT)


async def test_the_row_of_another_plugins_job_is_never_judged(db_path: pathlib.Path) -> None:
    with registered(COPY):
        async with serving(db_path) as datasette:
            await to_the_end(datasette, await start(datasette))
            table(
                db_path,
                "insert into _enrichment_jobs (status, enrichment, table_name, config, row_count) "
                "values ('odd', 'e', 'papers', 'garbage', 'many')",
            )
            await asyncio.wait_for(run_until_idle(datasette), 30)
            await pages_stay_up(datasette, 2)
    assert rows(db_path, "select status, config, row_count, cancel_reason from _enrichment_jobs where id = 2") == [
        ("odd", "garbage", "many", None)
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "update _enrichment_errors set error = x'ff00', row_pks = x'ff', traceback = 5, created_at = x'ff'",
        "update _enrichment_errors set error = null, row_pks = 5, row_key = x'ff', created_at = null",
        "update _enrichment_errors set row_pks = '[[[', row_key = 'junk', error = 1e999",
        "update _enrichment_progress set timestamp_ms_2025 = 'then', message = x'ff'",
        "update _enrichment_progress set timestamp_ms_2025 = 9e18, success_count = 'all', error_count = x'00'",
        "insert into _enrichment_progress (job_id, timestamp_ms_2025, message) values (1, 9223372036854775807, 5)",
        "insert into _enrichment_batches (job_id, not_before, defer_reason, row_count) values (1, 'later', x'ff', 'x')",
        "insert into _enrichment_batches (job_id, not_before, leased_by, end_cursor) values (1, x'ff', 5, 5)",
        "insert into _enrichment_errors (job_id, error) values ('x', 'y'), (null, null), (1, null)",
    ],
)
async def test_damaged_rows_of_a_jobs_history_leave_its_pages_up(db_path: pathlib.Path, sql: str) -> None:
    def enrich(row: Any) -> Any:
        if row["id"] % 2:
            raise RuntimeError("odd")
        return {"copied": row["id"]}

    with registered(by_row(enrich)):
        async with serving(db_path) as datasette:
            job = await to_the_end(datasette, await start(datasette))
            assert job.error_count == 3
            await execute(datasette, sql)
            await execute(datasette, "update _enrichment_jobs set status = 'paused'")
            await pages_stay_up(datasette, 1, "/data/papers?_ingest_failed=1")
            await execute(datasette, "update _enrichment_jobs set status = 'finished'")
            await pages_stay_up(datasette, 1)


@pytest.mark.parametrize(
    "values",
    [
        {"end_cursor": None},
        {"end_cursor": 5},
        {"end_cursor": "junk"},
        {"start_cursor": b"\xff"},
        {"not_before": "a while ago", "end_cursor": '[["integer", "2"]]'},
        {"deaths": "three", "attempts": b"", "end_cursor": '[["integer", "2"]]'},
    ],
)
async def test_a_damaged_reservation_ends_its_job_or_is_worked_off(db_path: pathlib.Path, values: Any) -> None:
    with registered(COPY):
        async with serving(db_path) as datasette:
            job = await start(datasette)
            columns = {"job_id": job.id, "row_count": 2, **values}
            names, slots = ", ".join(columns), ", ".join("?" * len(columns))
            await execute(datasette, f"insert into _enrichment_batches ({names}) values ({slots})", *columns.values())
            await execute(datasette, 'update _enrichment_jobs set next_cursor = \'[["integer", "2"]]\'')
            job = await to_the_end(datasette, job)
    if job.status is JobStatus.FINISHED:
        assert job.done_count == 5
    else:
        assert job.status is JobStatus.CANCELLED and job.cancel_reason
    assert rows(db_path, "select count(*) from _enrichment_batches") == [(0,)]
