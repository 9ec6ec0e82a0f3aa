"""Ctrl-C in a real process: what is finished stays, the job pauses, and it goes on where it was."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import signal
import sqlite3
import sys
from typing import Any

import pytest

from ..conftest import rows
from ..ingest.origin import Origin, pdf

PATIENCE = 30.0
"""Seconds until a process that does not answer fails the test."""


@pytest.fixture
async def site() -> Any:
    """An origin whose `/held.pdf` sets `reached` and answers once `released` is set."""
    site = Origin()
    site.reached, site.released = asyncio.Event(), asyncio.Event()  # type: ignore[attr-defined]

    async def held(request: Any, writer: asyncio.StreamWriter) -> None:
        site.reached.set()  # type: ignore[attr-defined]
        await site.released.wait()  # type: ignore[attr-defined]
        writer.write(pdf())

    site.handlers = {"/quick.pdf": pdf(), "/held.pdf": held}
    async with site:
        yield site


@pytest.fixture
def links(tmp_path: pathlib.Path, site: Any) -> pathlib.Path:
    """A table of a quick link and one that is held."""
    path = tmp_path / "links.db"
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("create table links (id integer primary key, url text)")
        urls = [(site.url("/quick.pdf"),), (site.url("/held.pdf"),)]
        conn.executemany("insert into links (url) values (?)", urls)
    return path


@contextlib.asynccontextmanager
async def process(*arguments: object) -> Any:
    """`datasette ingest …` in a process of its own, ended with the block."""
    command = [sys.executable, "-m", "datasette", "ingest", *map(str, arguments)]
    started = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


async def until_committed(path: pathlib.Path) -> None:
    """Wait until the quick row's result stands in the table."""

    async def look() -> None:
        while True:
            with contextlib.suppress(sqlite3.OperationalError):  # no such column yet
                if rows(path, "select 1 from links where ingest_status = 'success'"):
                    return
            await asyncio.sleep(0.02)

    await asyncio.wait_for(look(), PATIENCE)


def run_options(site: Any) -> tuple[str, ...]:
    return ("--allow-network", site.network, "-s", "per_host_delay", "0", "-s", "robots", "ignore")


async def test_ctrl_c_pauses_the_job_keeps_what_is_finished_and_exits_130(links: pathlib.Path, site: Any) -> None:
    async with process("run", links, "links", *run_options(site)) as run:
        await asyncio.wait_for(site.reached.wait(), PATIENCE)
        await until_committed(links)
        run.send_signal(signal.SIGINT)
        output, errors = await asyncio.wait_for(run.communicate(), PATIENCE)
    assert run.returncode == 130, errors
    assert b"Job 1 is paused: Interrupted. 1 of 2 rows answered." in output
    assert f"Resume it with: datasette ingest resume {links} 1" in output.decode()
    assert b"Traceback" not in errors
    assert rows(links, "select status, done_count from _enrichment_jobs") == [("paused", 1)]
    assert rows(links, "select ingest_status from links order by id") == [("success",), (None,)]
    assert rows(links, "select count(*) from _enrichment_batches where leased_by is not null") == [(0,)]

    site.released.set()
    async with process("resume", links, 1, *run_options(site)) as resume:
        output, errors = await asyncio.wait_for(resume.communicate(), PATIENCE)
    assert resume.returncode == 0, errors
    assert b"Job 1 is finished: 2 of 2 rows answered." in output
    assert site.targets.count("/quick.pdf") == 1
    assert rows(links, "select ingest_status from links order by id") == [("success",), ("success",)]


async def test_a_pause_from_another_process_takes_effect_while_a_row_is_held(links: pathlib.Path, site: Any) -> None:
    async with process("run", links, "links", *run_options(site)) as run:
        await asyncio.wait_for(site.reached.wait(), PATIENCE)
        await until_committed(links)
        async with process("pause", links, 1) as pause:
            assert await asyncio.wait_for(pause.wait(), PATIENCE) == 0
        output, errors = await asyncio.wait_for(run.communicate(), PATIENCE)
    assert run.returncode == 75, errors
    assert b"Job 1 is paused: Paused by a person." in output


async def test_a_worker_that_is_told_to_stop_gives_the_job_back(links: pathlib.Path, site: Any) -> None:
    async with process("run", links, "links", *run_options(site)) as run:
        await asyncio.wait_for(site.reached.wait(), PATIENCE)
        run.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(run.wait(), PATIENCE) == 130
    async with process("resume", links, 1, "--no-run") as resume:
        assert await asyncio.wait_for(resume.wait(), PATIENCE) == 0
    site.reached.clear()
    async with process("work", links, "--forever", *run_options(site)) as worker:
        await asyncio.wait_for(site.reached.wait(), PATIENCE)
        worker.send_signal(signal.SIGTERM)
        _, errors = await asyncio.wait_for(worker.communicate(), PATIENCE)
    assert worker.returncode == 0, errors
    assert b"Traceback" not in errors
    assert rows(links, "select status from _enrichment_jobs") == [("running",)]
    assert rows(links, "select count(*) from _enrichment_batches where leased_by is not null") == [(0,)]
