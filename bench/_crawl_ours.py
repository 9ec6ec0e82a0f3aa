"""Our whole job path over a table of URLs, in a process of its own; prints what it saw as JSON.

    python _crawl_ours.py DB TABLE SETTINGS [--profile]

SETTINGS: JSON of plugin settings. `--profile` adds where the event loop's thread spent its time.
"""

from __future__ import annotations

import asyncio
import contextlib
import cProfile
import json
import pathlib
import pstats
import sqlite3
import sys
import time
from typing import Any

import _crawl_measure
import datasette.app  # noqa: F401 - Datasette loads its plugins, ours among them, before anything else asks for ours

from datasette_ingest import compat
from datasette_ingest.jobs.model import StartRequest
from datasette_ingest.jobs.service import control, queries
from datasette_ingest.jobs.service.permissions import ROOT
from datasette_ingest.testing import run_until_idle

EPOCH_MS_2025 = 1_735_689_600_000  # 2025-01-01T00:00:00Z, where timestamp_ms_2025 begins
MOST = 0.99
"""The share of rows that is waited for where one page in a hundred hangs."""


async def crawl(path: str, table: str, settings: dict[str, Any], profile: cProfile.Profile | None) -> dict[str, Any]:
    datasette = compat.open_datasette([path], config={"plugins": {"datasette-ingest": settings}}, with_root=True)
    await datasette.invoke_startup()
    database = pathlib.Path(path).stem
    try:
        with _crawl_measure.Watch() as watch:
            began, loop_began = time.time(), time.thread_time()
            job = await control.start(
                datasette, database, StartRequest(table, enrichment="ingest", config={"url_column": "url"}, actor=ROOT)
            )
            if profile is not None:
                profile.enable()
            await run_until_idle(datasette)
            if profile is not None:
                profile.disable()
            loop_seconds = time.thread_time() - loop_began
        job = await queries.find(datasette, database, job.id, actor=ROOT)
    finally:
        compat.close(datasette)
    return {
        **watch.seen(),
        "loop_cpu_seconds": loop_seconds,
        "most_seconds": seconds_until(path, MOST, began),
        "outcomes": job.outcomes,
        "status": job.status.value,
    }


def seconds_until(path: str, share: float, began: float) -> float:
    """When so large a share of the rows was committed, in seconds from `began`, a time of day."""
    with contextlib.closing(sqlite3.connect(path)) as conn:
        commits = conn.execute(
            "select timestamp_ms_2025, success_count + error_count from _enrichment_progress order by id"
        ).fetchall()
    wanted = share * sum(number for _, number in commits)
    for stamp, number in commits:
        wanted -= number
        if wanted <= 0:
            return float((stamp + EPOCH_MS_2025) / 1000 - began)
    raise AssertionError("unreachable: the commits sum up to all rows")


def shares(profile: cProfile.Profile) -> dict[str, float]:
    """Shares of the loop thread's own time, by what the code is for."""
    spent: dict[str, float] = {}
    for (file, _, name), (_, _, own, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        part = _part(file.replace("\\", "/"), name)
        spent[part] = spent.get(part, 0.0) + own
    spent.pop("waiting", None)
    whole = sum(spent.values())
    return {part: own / whole for part, own in sorted(spent.items(), key=lambda item: -item[1])}


def _part(file: str, name: str) -> str:
    for mark, part in _BY_NAME:
        if mark in name:
            return part
    for mark, part in _BY_FILE:
        if mark in file:
            return part
    return "other Python"


_BY_NAME = (
    ("select.epoll", "waiting"),
    ("_socket.socket", "sockets (system calls)"),
    ("_ssl.", "TLS"),
    ("_hashlib.HASH", "digests"),
    ("lxml", "HTML (lxml)"),
    ("etree", "HTML (lxml)"),
    ("XPath", "HTML (lxml)"),
    ("ada_url", "URLs"),
)
_BY_FILE = (
    ("datasette_ingest/ingest/http/", "ours: HTTP"),
    ("datasette_ingest/ingest/page/", "ours: reading pages"),
    ("datasette_ingest/ingest/", "ours: the rest of the crawler"),
    ("datasette_ingest/jobs/", "ours: the job engine"),
    ("datasette_ingest/", "ours: the porch"),
    ("ada_url", "URLs"),
    ("/httpx/", "httpx"),
    ("asyncio/", "asyncio"),
)


def main() -> None:
    path, table, settings, *more = sys.argv[1:]
    profile = cProfile.Profile() if "--profile" in more else None
    seen: dict[str, Any] = asyncio.run(crawl(path, table, json.loads(settings), profile))
    if profile is not None:
        seen["shares"] = shares(profile)
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
