"""Our jobs against datasette-enrichments' and against plain sqlite3, on both Datasette lines.

    python bench/jobs.py [--quick] [--json]

Every contender upper-cases one column of the same table, in turn, in processes of their own, each with its default
settings: ours through `datasette ingest run`, datasette-enrichments through its own enqueue and background task, plain
sqlite3 as keyset pages of two columns with executemany and a commit every 1,000 rows. Then a real server answers a
table page with and without a job inside. The database is in WAL mode. Shared machines are noisy: contenders alternate,
and figures are medians, ratios medians of ratios between neighbours.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

import _environments
import _page_latency
from _page_latency import Latency

HERE = pathlib.Path(__file__).resolve().parent
TABLE, PAGE_TABLE, SLUG = "papers", "pages", "shout"
PAGE_ROWS = 2_000
EPOCH_MS_2025 = 1_735_689_600_000  # 2025-01-01T00:00:00Z, where timestamp_ms_2025 begins
TENTHS = 10
HUNG_SECONDS = 300
"""A contender that takes this long, beyond what the peer is given, does not end at all."""


@dataclass(frozen=True)
class Line:
    """A Datasette line, and the release of the peer that runs on it."""

    name: str
    datasette: str
    peer: tuple[str, ...]


LINES = (
    Line("0.65", "datasette==0.65.5", ("datasette-enrichments==0.5.1",)),
    Line("1.0", "datasette==1.0a41", ("datasette-enrichments==0.6a0", "--pre")),  # what it needs is pre-released, too
)


@dataclass(frozen=True)
class Scale:
    """How much is measured. `repeats`: runs of ours and of plain sqlite3 at each size."""

    sizes: tuple[int, ...]
    repeats: tuple[int, ...]
    peer_seconds: float
    served_rows: int
    alternations: int
    requests: int
    peer_alternations: int


FULL = Scale((10_000, 100_000, 1_000_000), (5, 5, 3), 120, 1_000_000, 5, 80, 2)
QUICK = Scale((10_000, 50_000), (3, 3), 12, 300_000, 5, 20, 1)


@dataclass(frozen=True)
class Run:
    """One contender's run over one table. `command_seconds`: of the whole process, its start included."""

    rows: int
    seconds: float
    command_seconds: float = 0.0
    ms_per_batch: tuple[float | None, ...] = ()
    is_cut_off: bool = False

    @property
    def rows_s(self) -> float:
        return self.rows / self.seconds


@dataclass
class Size:
    """What was seen at one table size."""

    rows: int
    ours: list[Run] = field(default_factory=list)
    plain: list[Run] = field(default_factory=list)
    peer: Run | None = None
    ours_at_100: Run | None = None
    peer_at_1000: Run | None = None

    @property
    def rows_s(self) -> float:
        return statistics.median(run.rows_s for run in self.ours)

    @property
    def plain_rows_s(self) -> float:
        return statistics.median(run.rows_s for run in self.plain)

    @property
    def ratio_plain(self) -> float:
        """Each run of ours by the plain one beside it."""
        return statistics.median(ours.rows_s / plain.rows_s for ours, plain in zip(self.ours, self.plain, strict=True))

    @property
    def ratio_peer(self) -> float:
        assert self.peer is not None
        return self.rows_s / self.peer.rows_s


@dataclass
class Seen:
    """Everything that was seen on one Datasette line."""

    line: str
    sizes: list[Size]
    tenths: dict[str, Any]
    ours_latency: Latency
    peer_latency: Latency

    @property
    def growth(self) -> float:
        """Steps of SQLite a row in the last tenth of the largest table, by those in the first."""
        return float(self.tenths["steps"][-1] / self.tenths["steps"][0])

    def figures(self) -> dict[str, float]:
        last = self.sizes[-1]
        assert last.peer is not None
        return {
            "rows_s": round(last.rows_s),
            "peer_rows_s": round(last.peer.rows_s),
            "sqlite_rows_s": round(last.plain_rows_s),
            "ratio_peer": round(last.ratio_peer, 2),
            "ratio_sqlite": round(last.ratio_plain, 3),
            "growth": round(self.growth, 4),
            "latency_ratio_p95": round(self.ours_latency.ratio(0.95), 3),
            "server_rows_s": round(self.ours_latency.rows_s),
            "peer_server_rows_s": round(self.peer_latency.rows_s),
        }


_BYTECODE_KEPT = {
    **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    "PYTHONPYCACHEPREFIX": str(_environments.CACHE / "bytecode"),
}
"""Nobody compiles a program anew each time it runs, so no contender does; and no file is left in the project."""

# ---- the contenders --------------------------------------------------------------------------------------------


class Bench:
    """Runs contenders of one line in a scratch folder."""

    def __init__(self, line: Line, scale: Scale, folder: pathlib.Path) -> None:
        self.line = line
        self.scale = scale
        self._folder = folder
        self._with_us = _environments.environment(
            f"jobs-{line.name}", [line.datasette], editable=[_environments.PROJECT], copied=[HERE / "shout"]
        )
        self._with_peer = _environments.environment(
            f"jobs-{line.name}-peer", [line.datasette, *line.peer], copied=[HERE / "shout"]
        )

    def run(self) -> Seen:
        sizes = [self._size(rows, repeats) for rows, repeats in zip(self.scale.sizes, self.scale.repeats, strict=True)]
        tenths = self._script(self._with_us, "_our_tenths.py", self._copy(self.scale.sizes[-1]), TABLE)
        ours = self._latency(self._with_us, _page_latency.Ours(), self.scale.alternations)
        peer = self._latency(self._with_peer, _page_latency.Peer(), self.scale.peer_alternations)
        return Seen(self.line.name, sizes, tenths, ours, peer)

    def _size(self, rows: int, repeats: int) -> Size:
        size = Size(rows)
        for _ in range(repeats):
            size.ours.append(self._ours(rows))
            size.plain.append(self._plain(rows))
        size.peer = self._peer(rows)
        if rows == self.scale.sizes[0]:
            size.ours_at_100 = self._ours(rows, "--batch-size", "100")
            size.peer_at_1000 = self._peer(rows, batch_size=1000)
        return size

    def _ours(self, rows: int, *options: str) -> Run:
        path = self._copy(rows)
        began = time.perf_counter()
        output = self._execute(
            self._with_us,
            ["-m", "datasette", "ingest", "run", str(path), TABLE, "--enrichment", SLUG, "--json", *options],
        )
        command_seconds = time.perf_counter() - began
        job = json.loads(output.splitlines()[-1])
        if job["status"] != "finished" or job["done_count"] != rows:
            raise RuntimeError(f"Our job is {job['status']} after {job['done_count']} of {rows} rows")
        _check(path, rows)
        return Run(rows, _moment(job["finished_at"]) - _moment(job["started_at"]), command_seconds)

    def _plain(self, rows: int) -> Run:
        path = self._copy(rows)
        seen = self._script(self._with_us, "_plain_sqlite.py", path, TABLE)
        _check(path, rows)
        return Run(rows, seen["seconds"])

    def _peer(self, rows: int, *, batch_size: int | None = None) -> Run:
        path = self._copy(rows)
        began, wall = time.perf_counter(), time.time()
        extra = {"TZ": "UTC"}  # its progress counts from the first second of 2025 in local time
        if batch_size:
            extra["BENCH_PEER_BATCH_SIZE"] = str(batch_size)
        seen = self._script(self._with_peer, "_peer_job.py", path, TABLE, str(self.scale.peer_seconds), **extra)
        command_seconds = time.perf_counter() - began
        if seen["status"] == "finished":
            _check(path, rows)
        tenths = _ms_per_batch(path, rows, wall, batch_size or 100)
        return Run(seen["rows"], seen["seconds"], command_seconds, tenths, seen["status"] != "finished")

    def _latency(self, python: pathlib.Path, framework: _page_latency.Framework, alternations: int) -> Latency:
        return _page_latency.measure(
            python,
            self._copy(self.scale.served_rows),
            framework,
            page_table=PAGE_TABLE,
            job_table=TABLE,
            slug=SLUG,
            alternations=alternations,
            requests=self.scale.requests,
        )

    def _script(
        self, python: pathlib.Path, name: str, path: pathlib.Path, *words: str, **environ: str
    ) -> dict[str, Any]:
        output = self._execute(python, [str(HERE / name), str(path), *words], **environ)
        found: dict[str, Any] = json.loads(output.splitlines()[-1])
        return found

    def _execute(self, python: pathlib.Path, words: Sequence[str], **environ: str) -> str:
        """Run an environment's Python; its standard output."""
        done = subprocess.run(
            [str(python), *words],
            env={**_BYTECODE_KEPT, **environ},
            cwd=self._folder,  # in the project's own folder Python would find our plugin, whatever the environment
            capture_output=True,
            text=True,
            timeout=self.scale.peer_seconds + HUNG_SECONDS,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)} failed with {done.returncode}:\n{done.stderr[-2000:]}")
        return done.stdout

    def _copy(self, rows: int) -> pathlib.Path:
        """A fresh database with that many rows, the only one in the folder besides the originals."""
        original = self._folder / f"original-{rows}.db"
        if not original.exists():
            make_database(original, rows)
        for file in self._folder.glob("bench.*"):
            file.unlink()
        return pathlib.Path(shutil.copy(original, self._folder / "bench.db"))


def make_database(path: pathlib.Path, rows: int) -> None:
    """Papers to enrich, and a small table whose page is asked for."""
    with contextlib.closing(sqlite3.connect(path)) as conn:
        conn.execute("pragma journal_mode = wal")
        for table, number in ((TABLE, rows), (PAGE_TABLE, PAGE_ROWS)):
            conn.execute(f"create table {table} (id integer primary key, title text, year integer, doi text)")
            conn.executemany(
                f"insert into {table} (title, year, doi) values (?, ?, ?)",
                (
                    (f"On the enrichment of row number {n} of a table", 1950 + n % 75, f"10.1234/{n:08d}")
                    for n in range(number)
                ),
            )
        conn.commit()
        conn.execute("pragma wal_checkpoint(truncate)")


def _check(path: pathlib.Path, rows: int) -> None:
    """Every row was upper-cased: a contender that skipped some is not measured but refused."""
    with contextlib.closing(sqlite3.connect(path)) as conn:
        right = conn.execute(f"select count(*) from {TABLE} where shouted = upper(title)").fetchone()[0]
    if right != rows:
        raise RuntimeError(f"{right} of {rows} rows were upper-cased")


def _moment(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _ms_per_batch(path: pathlib.Path, rows: int, start: float, batch_size: int) -> tuple[float | None, ...]:
    """Milliseconds a batch of the peer's in each tenth of the table, from the progress that it writes after each; None
    for tenths that were not reached."""
    with contextlib.closing(sqlite3.connect(path)) as conn:
        commits = conn.execute(
            "select timestamp_ms_2025, success_count from _enrichment_progress order by id"
        ).fetchall()
    line = [(0, 1000 * start)]
    for stamp, number in commits:
        line.append((line[-1][0] + number, stamp + EPOCH_MS_2025))
    marks = [_time_at(line, rows * tenth / TENTHS) for tenth in range(TENTHS + 1)]
    batches = rows / TENTHS / batch_size
    return tuple(
        None if before is None or after is None else (after - before) / batches for before, after in pairwise(marks)
    )


def _time_at(line: list[tuple[int, float]], rows: float) -> float | None:
    """When that many rows were done, in milliseconds, between the two commits around it."""
    before = line[0]
    for point in line:
        if point[0] >= rows:
            span = point[0] - before[0]
            return before[1] + (point[1] - before[1]) * ((rows - before[0]) / span if span else 1.0)
        before = point
    return None


# ---- what is shown ---------------------------------------------------------------------------------------------


def worst(all_seen: Sequence[Seen]) -> dict[str, Any]:
    """One object over both lines: of each figure the one that speaks least for us; each line's own under `lines`."""
    by_line = {seen.line: seen.figures() for seen in all_seen}
    pick = {
        "rows_s": min,
        "peer_rows_s": max,
        "sqlite_rows_s": max,
        "ratio_peer": min,
        "ratio_sqlite": min,
        "growth": max,
        "latency_ratio_p95": max,
    }
    return {
        **{key: choose(figures[key] for figures in by_line.values()) for key, choose in pick.items()},
        "lines": by_line,
    }


def report(seen: Seen, scale: Scale) -> str:
    """One line's figures for a person."""
    lines = [f"Datasette {seen.line}", ""]
    lines.append(
        f"{'rows':>10} {'ours':>9} {'command':>9} {'peer':>9} {'plain':>9} {'x peer':>7} {'x plain':>8}   (rows/s)"
    )
    for size in seen.sizes:
        assert size.peer is not None
        command = statistics.median(run.rows / run.command_seconds for run in size.ours)
        note = (
            f"   peer stopped after {size.peer.seconds:.0f} s, {size.peer.rows:,} rows" if size.peer.is_cut_off else ""
        )
        lines.append(
            f"{size.rows:>10,} {size.rows_s:>9,.0f} {command:>9,.0f} {size.peer.rows_s:>9,.0f} {size.plain_rows_s:>9,.0f} "
            f"{size.ratio_peer:>7.1f} {size.ratio_plain:>8.2f}{note}"
        )
    first, last = seen.sizes[0], seen.sizes[-1]
    assert first.ours_at_100 is not None and first.peer_at_1000 is not None and last.peer is not None
    lines += [
        "ours: the job alone; command: the same rows by the whole command's time, the interpreter's start included",
        f"at {first.rows:,} rows: ours with 100 rows a batch {first.ours_at_100.rows_s:,.0f} rows/s, "
        f"the peer with 1,000 rows a batch {first.peer_at_1000.rows_s:,.0f} rows/s",
        "",
        f"milliseconds a batch by tenth of {last.rows:,} rows",
        f"  ours (1,000 rows a batch) {_numbers(1000 * ms for ms in seen.tenths['milliseconds'])}",
        f"  peer (100 rows a batch)   {_numbers(last.peer.ms_per_batch)}",
        f"steps of SQLite a row by tenth: {_numbers(seen.tenths['steps'])}, growth {seen.growth:.3f}",
        "",
        f"a page of 100 rows of a table of {PAGE_ROWS:,}, one client, {1000 * _page_latency.PAUSE_SECONDS:.0f} ms between "
        f"requests; the job over {scale.served_rows:,} rows in the same server",
        *_latency_lines("ours", seen.ours_latency),
        *_latency_lines("peer", seen.peer_latency),
        f"  rows/s in the server: {seen.ours_latency.rows_s / max(seen.peer_latency.rows_s, 1):.1f} x the peer's",
    ]
    return "\n".join(lines)


def _numbers(values: Iterable[float | None]) -> str:
    return " ".join("     -" if value is None else f"{value:6.2f}" for value in values)


def _latency_lines(name: str, latency: Latency) -> list[str]:
    found = []
    for share in (0.5, 0.95, 0.99):
        idle, busy = latency.pooled(share)
        found.append(f"p{100 * share:.0f} {idle:.1f} -> {busy:.1f} ms, x {latency.ratio(share):.2f}")
    number = len(latency.alternations)
    return [
        f"  {name}: {'; '.join(found)}",
        f"        (idle -> with a job, pooled; x median of {number} alternations; {latency.rows_s:,.0f} rows/s meanwhile)",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller tables; ends within 3 minutes")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--line", choices=[line.name for line in LINES], help="measure only this Datasette line")
    given = parser.parse_args()
    scale = QUICK if given.quick else FULL
    all_seen = []
    load = os.getloadavg()[0]
    for line in LINES:
        if given.line not in (None, line.name):
            continue
        with tempfile.TemporaryDirectory(prefix="bench-jobs-") as folder:
            seen = Bench(line, scale, pathlib.Path(folder)).run()
        all_seen.append(seen)
        print(report(seen, scale), end="\n\n", flush=True)
    print(f"load of the machine before {load:.1f}, after {os.getloadavg()[0]:.1f}, on {os.cpu_count()} cores")
    if given.json:
        print(json.dumps(worst(all_seen)))


if __name__ == "__main__":
    main()
