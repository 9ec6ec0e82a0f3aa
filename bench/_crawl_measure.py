"""What a crawl cost the process that ran it: time on the clock, processor time, memory. Standard library only."""

from __future__ import annotations

import pathlib
import resource
import sys
import time


class Watch:
    """Time and processor time (user and system, all threads) of a block."""

    def __enter__(self) -> Watch:
        self._cpu, self._clock = _cpu(), time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self._cpu, self._clock = _cpu() - self._cpu, time.perf_counter() - self._clock

    def seen(self) -> dict[str, float]:
        return {"seconds": self._clock, "cpu_seconds": self._cpu, "peak_mb": peak_mb()}


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak_mb() -> float:
    """The most memory that this process held at once, in MiB.

    On Linux from /proc: the figure of getrusage also counts what the process held before it became this program.
    """
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text("ascii").splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (1024 * 1024 if sys.platform == "darwin" else 1024)
