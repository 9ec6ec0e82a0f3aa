"""The process behind ProcessPool: reads calls from standard input and writes their results to standard output."""

from __future__ import annotations

import contextlib
import os
import pickle

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

HEADER_BYTES = 8
"""Each message is preceded by its length."""

NICENESS = 5
"""What waits for a processor goes before: the server answers its pages first."""


def main(memory_bytes: int) -> None:
    """Work until standard input ends."""
    calls, results = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # What a function reads and prints is none of it.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    if resource is not None:
        _limit(resource.RLIMIT_AS, _memory_in_use() + memory_bytes)
        _limit(resource.RLIMIT_CORE, 0)  # a crash is expected, and its image as large as the limit
    while len(header := calls.read(HEADER_BYTES)) == HEADER_BYTES:
        answer = _answer(calls.read(int.from_bytes(header, "big")))
        try:
            results.write(len(answer).to_bytes(HEADER_BYTES, "big") + answer)
            results.flush()
        except BrokenPipeError:
            os._exit(0)  # the pool's own process is gone


def _answer(call: bytes) -> bytes:
    """(what the function returned, what it raised), pickled."""
    try:
        function, args, seconds = pickle.loads(call)
        if resource is not None:
            # Its pool kills it in time, unless the pool's own process is gone.
            used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
            _limit(resource.RLIMIT_CPU, int(used + seconds) + 2)
        return pickle.dumps((function(*args), None))
    except Exception as problem:  # noqa: BLE001 - the caller raises it
        return pickle.dumps((None, _portable(problem)))


def _portable(problem: Exception) -> Exception:
    """An exception that can be sent: itself, if it is the same on the other side."""
    with contextlib.suppress(Exception):
        if type(pickle.loads(pickle.dumps(problem))) is type(problem):
            return problem
    return RuntimeError(f"{type(problem).__name__}: {problem}")


def _limit(what: int, value: int) -> None:
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _memory_in_use() -> int:
    """Address space in bytes; 0 where the system does not tell."""
    with contextlib.suppress(OSError), open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0
