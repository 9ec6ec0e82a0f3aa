"""Our crawler against Scrapy and against a bare client loop: landing page -> link -> PDF -> three digests -> a row.

    python bench/crawl.py [--quick] [--json]
    python bench/crawl.py --against CHECKOUT [--pairs 5] [--rows 2000]

A site on 20 loopback addresses, served by nginx: pages of 30 kB, PDFs of 200 kB, every fifth row behind a redirect; over
HTTP, over TLS, and over TLS with a new connection for every request. Ours is the whole job path: a table of URLs, a
job, a worker; politeness is off on all sides, 64 requests at once. Each contender runs in a process and an environment
of its own, in turn. Machines are shared and noisy, so what is compared is chains per second of processor time (user and
system, all threads of the process, from the first request to the last row): it hardly depends on what else runs.

`--against` compares this checkout with another one of the same project, in pairs of runs, both in the environment of
the Python that runs this script, which needs the test extra.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import _crawl_site
import _environments

HERE = pathlib.Path(__file__).resolve().parent
TABLE = "papers"
CONCURRENCY = 64
HANG_EVERY = 100
MANNERLY_DELAY = 0.2
HUNG_SECONDS = 3600
POLITENESS_OFF: dict[str, Any] = {
    "allow_networks": ["127.0.0.0/8"],
    "robots": "ignore",
    "concurrency": CONCURRENCY,
    "per_host_concurrency": CONCURRENCY,
    "per_host_delay": 0,
}
MANNERLY: dict[str, Any] = {**POLITENESS_OFF, "per_host_concurrency": 2, "per_host_delay": MANNERLY_DELAY}

OURS, TUNED, PLAIN, BARE = "ours", "Scrapy, tuned", "Scrapy as it comes", "aiohttp, a bare loop"
SCHEME_NAMES = {"http": "HTTP", "https": "TLS", "https-new": "TLS, new connections"}


@dataclass(frozen=True)
class Scale:
    """How many rows each contender is given. `hanging_repeats`: alternations of tables with and without such pages."""

    rows: dict[str, int]
    plain_rows: int
    hanging_rows: int
    hanging_repeats: int
    rows_per_host: int
    profiled_rows: int


FULL = Scale({"http": 20_000, "https": 4_000, "https-new": 4_000}, 4_000, 6_000, 2, 50, 2_000)
QUICK = Scale({"http": 1_500, "https": 300, "https-new": 300}, 300, 1_500, 1, 12, 300)


@dataclass(frozen=True)
class Run:
    """One contender's run over one table."""

    rows: int
    seconds: float
    cpu_seconds: float
    peak_mb: float
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def chains_s(self) -> float:
        return self.rows / self.seconds

    @property
    def chains_cpu_s(self) -> float:
        return self.rows / self.cpu_seconds


@dataclass
class Seen:
    """Every run, by scheme and contender."""

    runs: dict[tuple[str, str], Run] = field(default_factory=dict)
    smooth: list[Run] = field(default_factory=list)
    hanging: list[Run] = field(default_factory=list)
    shuffled: Run | None = None
    sorted: Run | None = None
    profiled: Run | None = None

    def ratio(self, scheme: str, contender: str) -> float:
        """Chains per second of processor time, ours by the contender's."""
        return self.runs[scheme, OURS].chains_cpu_s / self.runs[scheme, contender].chains_cpu_s

    @property
    def hanging_loss(self) -> float:
        """The share of throughput that hanging pages cost, while they hang beside others."""
        return 1 - best_rows_s(self.hanging) / best_rows_s(self.smooth)

    def figures(self) -> dict[str, float]:
        return {
            "chains_cpu_s": round(self.runs["http", OURS].chains_cpu_s),
            "scrapy_chains_cpu_s": round(self.runs["http", TUNED].chains_cpu_s),
            "ratio_scrapy": round(self.ratio("http", TUNED), 2),
            "ratio_scrapy_tls": round(self.ratio("https-new", TUNED), 2),
            "peak_mb": round(self.runs["http", OURS].peak_mb),
            "scrapy_peak_mb": round(self.runs["http", TUNED].peak_mb),
            "hanging_loss": round(self.hanging_loss, 3),
        }


def best_rows_s(runs: Sequence[Run]) -> float:
    """Rows per second until nearly all were committed, in the best of these runs: what else runs on the machine only
    ever takes away."""
    return max(run.rows / float(run.more["most_seconds"]) for run in runs)


# ---- the contenders --------------------------------------------------------------------------------------------


class Bench:
    """Runs contenders against a site that is being served, in a scratch folder."""

    def __init__(self, site: _crawl_site.Site, folder: pathlib.Path, pythons: dict[str, pathlib.Path]) -> None:
        self._site = site
        self._folder = folder
        self._pythons = pythons

    def run(self, scale: Scale) -> Seen:
        seen = Seen()
        for scheme, rows in scale.rows.items():
            for contender in (OURS, TUNED):
                seen.runs[scheme, contender] = self._crawl(contender, scheme, rows)
        seen.runs["http", PLAIN] = self._crawl(PLAIN, "http", scale.plain_rows)
        seen.runs["http", BARE] = self._crawl(BARE, "http", scale.rows["http"])
        for hang_every, found in (
            (0, seen.smooth),
            *((HANG_EVERY, seen.hanging), (0, seen.smooth)) * scale.hanging_repeats,
        ):
            urls = self._site.urls("http", scale.hanging_rows, hang_every=hang_every)
            found.append(self._ours(urls, POLITENESS_OFF))
        urls = self._site.urls("http", scale.rows_per_host * len(_crawl_site.HOSTS))
        seen.sorted = self._ours(sorted(urls), MANNERLY)
        seen.shuffled = self._ours(random.Random(1).sample(urls, len(urls)), MANNERLY)
        seen.profiled = self._ours(self._site.urls("http", scale.profiled_rows), POLITENESS_OFF, "--profile")
        return seen

    def _crawl(self, contender: str, scheme: str, rows: int) -> Run:
        urls = self._site.urls(scheme, rows)
        if contender == OURS:
            return self._ours(urls, POLITENESS_OFF)
        if contender == BARE:
            return self._other(BARE, "_crawl_bare.py", urls)
        return self._other(contender, "_crawl_scrapy.py", urls, "tuned" if contender == TUNED else "plain")

    def _ours(self, urls: Sequence[str], settings: dict[str, Any], *more: str) -> Run:
        path = self._table(urls)
        run = self._execute(OURS, "_crawl_ours.py", path, len(urls), json.dumps(settings), *more)
        if run.more["status"] != "finished" or run.more["outcomes"] != {"success": len(urls)}:
            raise RuntimeError(f"Our job is {run.more['status']} with {run.more['outcomes']}")
        _check(path, len(urls), f"select ingest_terminal_sha1hex from {TABLE}")
        return run

    def _other(self, contender: str, script: str, urls: Sequence[str], *more: str) -> Run:
        path = self._table(urls)
        run = self._execute(contender, script, path, len(urls), str(CONCURRENCY), *more)
        _check(path, len(urls), "select sha1 from found")
        return run

    def ours_of(self, checkout: pathlib.Path, rows: int) -> Run:
        """Our job path as the code of a checkout does it."""
        path = self._table(self._site.urls("http", rows))
        run = self._execute(OURS, checkout / "bench" / "_crawl_ours.py", path, rows, json.dumps(POLITENESS_OFF))
        _check(path, rows, f"select ingest_terminal_sha1hex from {TABLE}")
        return run

    def _execute(self, contender: str, script: str | pathlib.Path, path: pathlib.Path, rows: int, *words: str) -> Run:
        script = HERE / script
        variables = {"SSL_CERT_FILE": str(self._site.certificate), "PYTHONPATH": str(script.parent.parent)}
        done = subprocess.run(
            [str(self._pythons[contender]), str(script), str(path), TABLE, *words],
            env={**os.environ, **_BYTECODE_ELSEWHERE, **variables},
            cwd=self._folder,  # in the project's own folder Python would find our plugin, whatever the environment
            capture_output=True,
            text=True,
            timeout=HUNG_SECONDS,
        )
        if done.returncode:
            raise RuntimeError(f"{contender} failed with {done.returncode}:\n{done.stderr[-2000:]}")
        seen = json.loads(done.stdout.splitlines()[-1])
        run = Run(rows, seen.pop("seconds"), seen.pop("cpu_seconds"), seen.pop("peak_mb"), seen)
        print(f"{contender}: {rows:,} rows in {run.seconds:.1f} s", file=sys.stderr, flush=True)
        return run

    def _table(self, urls: Sequence[str]) -> pathlib.Path:
        """A fresh database with a table of these URLs."""
        for file in self._folder.glob("bench.db*"):
            file.unlink()
        path = self._folder / "bench.db"
        with contextlib.closing(sqlite3.connect(path)) as conn, conn:
            conn.execute("pragma journal_mode = wal")
            conn.execute(f"create table {TABLE} (id integer primary key, url text)")
            conn.executemany(f"insert into {TABLE} (url) values (?)", ((url,) for url in urls))
        return path


_BYTECODE_ELSEWHERE = {"PYTHONPYCACHEPREFIX": str(_environments.CACHE / "bytecode")}


def _check(path: pathlib.Path, rows: int, digests: str) -> None:
    """Every row has the digest of a PDF of the site: a contender that skipped some is not measured but refused."""
    with contextlib.closing(sqlite3.connect(path)) as conn:
        found = [digest for (digest,) in conn.execute(digests) if digest is not None]
    if len(found) != rows or len(set(found)) != min(rows, _crawl_site.BODIES):
        raise RuntimeError(f"{len(found)} of {rows} rows have a digest, {len(set(found))} digests are distinct")


def pythons() -> dict[str, pathlib.Path]:
    """The contenders' environments."""
    scrapy = _environments.environment("crawl-scrapy", ["scrapy==2.19.0"])
    return {
        OURS: _environments.environment("crawl-ours", ["datasette==0.65.5"], editable=[_environments.PROJECT]),
        TUNED: scrapy,
        PLAIN: scrapy,
        BARE: _environments.environment("crawl-bare", ["aiohttp==3.14.5", "lxml==6.1.3", "trustme==1.2.1"]),
    }


# ---- what is shown ---------------------------------------------------------------------------------------------


def report(seen: Seen) -> str:
    """The figures for a person."""
    assert seen.sorted is not None and seen.shuffled is not None
    lines = [
        f"{'':<22}{'':<24}{'rows':>8}{'chains/s':>10}{'CPU s/1,000':>13}{'chains/CPU s':>14}{'peak MB':>9}{'ours is':>9}"
    ]
    for (scheme, contender), run in seen.runs.items():
        ratio = "" if contender == OURS else f"x {seen.ratio(scheme, contender):.2f}"
        lines.append(
            f"{SCHEME_NAMES[scheme]:<22}{contender:<24}{run.rows:>8,}{run.chains_s:>10,.0f}"
            f"{1000 * run.cpu_seconds / run.rows:>13.2f}{run.chains_cpu_s:>14,.0f}"
            f"{run.peak_mb:>9.0f}{ratio:>9}"
        )
    lines += [
        "a chain: page, link, PDF, sha1, sha256, md5, row in SQLite; ours is: chains per second of processor time, by the",
        "contender's. Over TLS we verify certificates and Scrapy, as it comes, does not.",
        "",
        f"1 page in {HANG_EVERY} hangs for {_crawl_site.HANG_SECONDS:.0f} s: {best_rows_s(seen.hanging):,.0f} rows/s to the "
        f"99th percent, {best_rows_s(seen.smooth):,.0f} where none hangs (the best of {len(seen.hanging)} and "
        f"{len(seen.smooth)} runs); loss {100 * seen.hanging_loss:.1f} %",
        f"{MANNERLY_DELAY} s between requests to a host, {seen.sorted.rows:,} rows of {len(_crawl_site.HOSTS)} hosts: "
        f"{seen.sorted.chains_s:.1f} chains/s sorted by host, {seen.shuffled.chains_s:.1f} shuffled",
        "",
        *_limits(seen),
    ]
    return "\n".join(lines)


def _limits(seen: Seen) -> list[str]:
    """What our speed hangs on: a core's time, and whose."""
    assert seen.profiled is not None
    lines = ["what limits us"]
    for scheme in SCHEME_NAMES:
        run = seen.runs[scheme, OURS]
        busy, loop = run.cpu_seconds / run.seconds, run.more["loop_cpu_seconds"] / run.seconds
        what = (
            "the event loop's one core"
            if loop > 0.8
            else "the machine: others had the processor, or nginx did not answer"
        )
        lines.append(
            f"  {SCHEME_NAMES[scheme]}: {what}; {100 * busy:.0f} % of a core used, "
            f"{100 * loop:.0f} % by the event loop, the rest by SQLite's threads"
        )
    shares = ", ".join(f"{part} {100 * share:.0f} %" for part, share in seen.profiled.more["shares"].items())
    return [*lines, f"  the event loop's time over HTTP, under a profiler: {shares}"]


def compare(bench: Bench, other: pathlib.Path, pairs: int, rows: int) -> str:
    """Chains per second of processor time of the other checkout and of this one, in pairs of runs."""
    lines, ratios = [f"{'pair':<6}{'other':>8}{'this':>8}{'ratio':>8}   chains per second of processor time"], []
    for pair in range(pairs):
        # Whoever runs second may find the machine warmer: they take turns.
        order = [other, _environments.PROJECT][:: 1 if pair % 2 else -1]
        runs = {checkout: bench.ours_of(checkout, rows).chains_cpu_s for checkout in order}
        ratios.append(runs[_environments.PROJECT] / runs[other])
        lines.append(f"{pair + 1:<6}{runs[other]:>8.1f}{runs[_environments.PROJECT]:>8.1f}{ratios[-1]:>8.3f}")
    return "\n".join([*lines, f"median ratio {statistics.median(ratios):.3f}"])


def main() -> None:
    here = pathlib.Path(sys.executable)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller tables; ends within 3 minutes")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--against", type=pathlib.Path, metavar="CHECKOUT", help="compare with another checkout only")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs for --against")
    parser.add_argument("--rows", type=int, default=2_000, help="rows of each run for --against")
    given = parser.parse_args()
    found = pythons() if given.against is None else {OURS: here, BARE: here}

    def make_certificates(folder: pathlib.Path, names: Sequence[str]) -> None:
        subprocess.run([str(found[BARE]), "-m", "trustme", "--quiet", "--dir", str(folder), "-i", *names], check=True)

    with tempfile.TemporaryDirectory(prefix="bench-crawl-") as name:
        folder = pathlib.Path(name)
        try:
            with _crawl_site.served(folder, make_certificates) as site:
                bench = Bench(site, folder, found)
                if given.against is not None:
                    print(compare(bench, given.against.resolve(), given.pairs, given.rows))
                    return
                seen = bench.run(QUICK if given.quick else FULL)
        except _crawl_site.NoSite as problem:
            sys.exit(str(problem))
    print(report(seen), flush=True)
    if given.json:
        print(json.dumps(seen.figures()))


if __name__ == "__main__":
    main()
