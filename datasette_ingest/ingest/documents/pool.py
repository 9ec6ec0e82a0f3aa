"""ProcessPool: CPU work on strangers' files, in processes that a hostile file may fill, stall or crash."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pickle
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from typing import Any, TypeVar

from ..http.waiting import wait_idle
from ..model import MIB
from .worker import HEADER_BYTES

T = TypeVar("T")

ENDING_SECONDS = 5.0
"""How long a process may take to end that has closed its output."""
MOST_TRIES = 3
"""How many processes are given one call, if others end them."""
_ENDED_BY_OTHERS = frozenset({-9, -15})
"""SIGKILL and SIGTERM: no function ends like this, and its limits end it otherwise. Windows has no such codes."""
_PACKAGE = __name__.partition(".")[0]
_START = """\
import json, sys, types
sys.path[:], name, folders, memory_bytes = json.loads(sys.argv[1])
sys.modules[name] = package = types.ModuleType(name)
package.__path__ = folders
from datasette_ingest.ingest.documents.worker import main
main(memory_bytes)
"""
"""The package is there without what its own module imports, which is all of Datasette: a process starts in a tenth of the
time, and imports what its functions need."""


class ProcessError(Exception):
    """The function did not come to an end: a limit, or a crash."""

    status = "error-crash"
    """What the fact about a file says whose reading ended so."""


class OutOfTime(ProcessError):
    """It took longer than allowed."""

    status = "error-timeout"


class OutOfMemory(ProcessError):
    """It needed more memory than allowed, or aborted."""

    status = "error-memory"


class ProcessDied(ProcessError):
    """Its process crashed."""


class ProcessKilled(ProcessDied):
    """Others ended its process, such as a system that is short of memory: that says nothing about the function."""


class ProcessPool:
    """Processes that start on first use. One that breaks a limit is killed and replaced by the next call; one that others
    end is replaced at once.

    :param processes: how many may work at once; None: one for each CPU
    :param seconds: longest duration of one call
    :param memory_bytes: memory of one process beyond what it has when it starts. Linux enforces it
    """

    def __init__(self, processes: int | None = None, *, seconds: float = 60.0, memory_bytes: int = 1024 * MIB) -> None:
        self._free = asyncio.Semaphore(processes or os.cpu_count() or 1)
        self._seconds = seconds
        self._memory_bytes = memory_bytes
        self._idle: list[Process] = []
        self._busy: set[Process] = set()
        self._is_closed = False

    async def run(self, function: Callable[..., T], *args: Any, seconds: float | None = None) -> T:
        """What a module's function returns for these arguments; all of them can be pickled.

        :param seconds: longest duration of this call, if it is shorter than that of any
        :raises ProcessError: when a limit or a crash ended it
        :raises Exception: what the function raises
        """
        seconds = self._seconds if seconds is None else min(seconds, self._seconds)
        await wait_idle(self._free.acquire())
        try:
            request = pickle.dumps((function, args, seconds))  # not before: it is a copy of the file
            answer = await self._answer(request, seconds)
        finally:
            self._free.release()
        value, problem = pickle.loads(answer)
        if isinstance(problem, MemoryError):
            raise OutOfMemory(f"more than {self._memory_bytes // MIB} MiB")
        if problem is not None:
            raise problem
        result: T = value
        return result

    async def aclose(self) -> None:
        """End every process."""
        self._is_closed = True
        processes, self._idle = [*self._idle, *self._busy], []
        await asyncio.gather(*map(_kill, processes))

    async def _answer(self, request: bytes, seconds: float) -> bytes:
        """What a process answers to a call. Where others end it, another process is asked."""
        for _ in range(MOST_TRIES - 1):
            with contextlib.suppress(ProcessKilled):
                return await self._ask(await self._take(), request, seconds)
            if self._is_closed:
                raise ProcessKilled("its pool was closed")
        return await self._ask(await self._take(), request, seconds)

    async def _ask(self, process: Process, request: bytes, seconds: float) -> bytes:
        self._busy.add(process)
        try:
            answer = await asyncio.wait_for(_call(process, request), seconds)
        except asyncio.TimeoutError:
            await _kill(process)
            raise OutOfTime(f"no end within {seconds:g} s") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise await self._death(process) from None
        except BaseException:
            await _kill(process)
            raise
        finally:
            self._busy.discard(process)
        self._idle.append(process)
        return answer

    async def _death(self, process: Process) -> ProcessError:
        """How a process ended that was not ended here."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), ENDING_SECONDS)
        code = process.returncode
        await _kill(process)
        if code == -signal.SIGABRT:
            # Native code has no exceptions for it. PDFium and C++ itself end like this.
            return OutOfMemory(f"aborted: most likely for want of more than {self._memory_bytes // MIB} MiB")
        if code in _ENDED_BY_OTHERS:
            return ProcessKilled(f"others ended its process, with code {code}")
        return ProcessDied(f"the process ended with code {code}")

    async def _take(self) -> Process:
        while self._idle:
            process = self._idle.pop()
            if process.returncode is None:
                return process
        start = json.dumps([sys.path, _PACKAGE, list(sys.modules[_PACKAGE].__path__), self._memory_bytes])
        return await asyncio.create_subprocess_exec(sys.executable, "-c", _START, start, stdin=PIPE, stdout=PIPE)


async def _call(process: Process, request: bytes) -> bytes:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(len(request).to_bytes(HEADER_BYTES, "big"))
    process.stdin.write(request)
    await process.stdin.drain()
    size = int.from_bytes(await process.stdout.readexactly(HEADER_BYTES), "big")
    return await process.stdout.readexactly(size)


async def _kill(process: Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()
