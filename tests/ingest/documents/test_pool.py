"""CPU work in processes of its own: what loops, eats memory or dies harms nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pathlib
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from datasette_ingest.ingest.documents.pool import (
    MOST_TRIES,
    OutOfMemory,
    OutOfTime,
    ProcessDied,
    ProcessKilled,
    ProcessPool,
)

from . import work

MIB = 1024 * 1024


@pytest_asyncio.fixture
async def pool() -> AsyncIterator[ProcessPool]:
    pool = ProcessPool(1, seconds=60.0, memory_bytes=256 * MIB)
    yield pool
    await pool.aclose()


async def test_a_process_is_used_again(pool: ProcessPool) -> None:
    assert await pool.run(work.add, 1, 2) == 3
    assert await pool.run(work.process_id) == await pool.run(work.process_id) != os.getpid()


async def test_a_process_imports_what_its_functions_need_and_no_server(pool: ProcessPool) -> None:
    assert await pool.run(work.add, 1, 2) == 3
    assert not {"datasette", "pydantic", "asyncio"} & await pool.run(work.imported)


async def test_a_call_may_have_less_time_than_others(pool: ProcessPool) -> None:
    with pytest.raises(OutOfTime, match=r"within 0\.2 s"):
        await pool.run(work.sleep_for_ever, seconds=0.2)


async def test_what_a_function_raises_is_raised(pool: ProcessPool) -> None:
    with pytest.raises(ValueError, match="not a number"):
        await pool.run(work.fail)
    with pytest.raises(RuntimeError, match="Odd: 1 and 2"):
        await pool.run(work.fail_oddly)
    assert await pool.run(work.read_input) == ""


@pytest.mark.parametrize("function", [work.loop_for_ever, work.sleep_for_ever])
async def test_a_function_that_does_not_end_is_killed_and_the_next_call_works(function: Any) -> None:
    pool = ProcessPool(1, seconds=60.0)
    before = await pool.run(work.process_id)
    pool._seconds = 0.2
    with pytest.raises(OutOfTime):
        await pool.run(function)
    pool._seconds = 60.0
    assert await pool.run(work.process_id) != before
    await pool.aclose()
    _assert_gone(before)


async def test_a_function_that_eats_memory_fails_alone(pool: ProcessPool) -> None:
    with pytest.raises(OutOfMemory):
        await pool.run(work.eat_memory)
    assert await pool.run(work.add, 1, 2) == 3


@pytest.mark.parametrize("function", [work.crash, work.leave])
async def test_a_process_that_dies_is_replaced(pool: ProcessPool, function: Any) -> None:
    with pytest.raises(ProcessDied):
        await pool.run(function)
    assert await pool.run(work.add, 1, 2) == 3


@pytest.mark.parametrize("code", [signal.SIGKILL, signal.SIGTERM])
async def test_a_call_whose_process_others_end_is_made_again(
    pool: ProcessPool, code: int, tmp_path: pathlib.Path
) -> None:
    before = await pool.run(work.process_id)
    assert await pool.run(work.be_killed_once, str(tmp_path / "note"), code) != before


async def test_a_call_whose_processes_are_always_ended_is_given_up(pool: ProcessPool, tmp_path: pathlib.Path) -> None:
    note = tmp_path / "note"
    with pytest.raises(ProcessKilled):
        await pool.run(work.be_killed, str(note))
    assert note.stat().st_size == MOST_TRIES
    assert await pool.run(work.add, 1, 2) == 3


async def test_an_idle_process_that_others_ended_is_replaced(pool: ProcessPool) -> None:
    before = await pool.run(work.process_id)
    os.kill(before, signal.SIGKILL)
    assert await pool.run(work.process_id) != before


async def test_a_call_at_work_when_its_pool_is_closed_is_not_made_again(pool: ProcessPool) -> None:
    await pool.run(work.process_id)
    call = asyncio.ensure_future(pool.run(work.sleep_for_ever))
    while not pool._busy:
        await asyncio.sleep(0)
    await pool.aclose()
    with pytest.raises(ProcessKilled):
        await call


async def test_a_cancelled_call_leaves_no_process_at_work(pool: ProcessPool) -> None:
    before = await pool.run(work.process_id)
    call = asyncio.ensure_future(pool.run(work.sleep_for_ever))
    while not pool._busy:
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    _assert_gone(before)
    assert await pool.run(work.add, 1, 2) == 3


async def test_calls_beyond_the_number_of_processes_wait(pool: ProcessPool) -> None:
    ids = await asyncio.gather(*(pool.run(work.process_id) for _ in range(5)))
    assert len(set(ids)) == 1


async def test_closing_ends_idle_processes_and_one_that_was_never_used_has_none() -> None:
    await ProcessPool().aclose()
    pool = ProcessPool(1)
    number = await pool.run(work.process_id)
    await pool.aclose()
    _assert_gone(number)


def _assert_gone(process_id: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process_id, 0)
        raise AssertionError(f"process {process_id} is still there")
