"""What a process of the fleet has done and how it is: numbers in Prometheus' text format, and whether it works.

https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

_READ_SECONDS = 5.0
_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass
class Metrics:
    """Numbers of one process, by name and labels. `gauges` are asked for when they are read."""

    prefix: str
    counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = field(default_factory=Counter)
    gauges: dict[str, Callable[[], float]] = field(default_factory=dict)
    trouble: Callable[[], str | None] = lambda: None
    """Why the process does not work now; None if it does."""

    def add(self, name: str, number: int = 1, **labels: str) -> None:
        """Count something that happens."""
        self.counts[name, tuple(sorted(labels.items()))] += number

    def total(self, name: str) -> int:
        """A count, over all labels."""
        return sum(number for (each, _), number in self.counts.items() if each == name)

    def text(self) -> str:
        """All numbers as Prometheus reads them."""
        lines: list[str] = []
        for name in sorted({name for name, _ in self.counts}):
            lines.append(f"# TYPE {self.prefix}_{name}_total counter")
            found = sorted((labels, number) for (each, labels), number in self.counts.items() if each == name)
            lines += [f"{self.prefix}_{name}_total{_labels(labels)} {number}" for labels, number in found]
        for name, read in sorted(self.gauges.items()):
            lines += [f"# TYPE {self.prefix}_{name} gauge", f"{self.prefix}_{name} {read():g}"]
        return "\n".join(lines) + "\n"


STALLED_SECONDS = 60.0
"""A process that has something to do and has ended none of it for so long says so."""


@dataclass
class Progress:
    """Whether anything goes on. Times are those of one clock, in seconds."""

    count: int = 0
    """What was done so far."""
    _seen: tuple[int, int] = (0, 0)
    _since: float | None = None
    """Since when there is something to do and none of it was done; None while that is not so."""

    def look(self, now: float, also_done: int, *, has_work: bool) -> None:
        """Called every few seconds. `also_done`: a second number that changes with what is done."""
        seen = (self.count, also_done)
        if not has_work or seen != self._seen:
            self._since = None
        if has_work and self._since is None:
            self._since = now
        self._seen = seen

    def stalled(self, now: float) -> float | None:
        """For how many seconds nothing has been done, if that is long."""
        seconds = 0.0 if self._since is None else now - self._since
        return seconds if seconds >= STALLED_SECONDS else None


def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    written = (f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{','.join(written)}}}" if labels else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


@contextlib.asynccontextmanager
async def serving(metrics: Metrics, host: str, port: int) -> AsyncIterator[int]:
    """Answer `GET /metrics` and `GET /health` while the block lasts; gives the port.

    `/health` is 200, or 503 with the trouble.

    :param port: 0 for any that is free
    :raises OSError: for an address that cannot be used
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _READ_SECONDS)
            writer.write(_response(metrics, head))
            await asyncio.wait_for(writer.drain(), _READ_SECONDS)
        writer.close()

    server = await asyncio.start_server(answer, host, port, limit=16 * 1024)
    async with server:
        yield server.sockets[0].getsockname()[1]


def _response(metrics: Metrics, head: bytes) -> bytes:
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    answers: Mapping[bytes, Callable[[], tuple[str, str]]] = {
        b"/metrics": lambda: ("200 OK", metrics.text()),
        b"/health": lambda: _health(metrics.trouble()),
    }
    if method not in (b"GET", b"HEAD"):
        status, text = "405 Method Not Allowed", "GET only\n"
    else:
        status, text = answers.get(path, lambda: ("404 Not Found", "/metrics or /health\n"))()
    body = text.encode()
    lines = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {_TYPE}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        "",
        "",
    )
    return "\r\n".join(lines).encode() + (b"" if method == b"HEAD" else body)


def _health(trouble: str | None) -> tuple[str, str]:
    return ("200 OK", "ok\n") if trouble is None else ("503 Service Unavailable", f"{trouble}\n")
