"""Ours: the crawler fetches each PDF from a server on loopback and its processor reads it. Prints pages, the seconds of
processor time of this process and its pool, and how long the event loop was blocked by one callback at most."""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import time
from typing import Any

from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.model import IngestRequest
from datasette_ingest.ingest.settings import CrawlSettings

CONCURRENCY = 32


class Longest:
    """Times each callback of the event loop: by the clock, and in processor time of its thread, which other programs on the
    machine do not lengthen."""

    def __init__(self) -> None:
        self.clock_ms = self.cpu_ms = 0.0
        run = asyncio.Handle._run

        def timed(handle: Any) -> None:
            clock, cpu = time.perf_counter(), time.thread_time()
            run(handle)
            self.clock_ms = max(self.clock_ms, 1000 * (time.perf_counter() - clock))
            self.cpu_ms = max(self.cpu_ms, 1000 * (time.thread_time() - cpu))

        asyncio.Handle._run = timed  # type: ignore[method-assign]


def cpu_seconds() -> float:
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


async def main(address: str, names: list[str]) -> None:
    settings = CrawlSettings(allow_networks=("127.0.0.0/8",), robots="ignore", concurrency=CONCURRENCY,
                             per_host_concurrency=CONCURRENCY, per_host_delay=0)  # fmt: skip
    crawler = Crawler(settings)
    turns = asyncio.Semaphore(CONCURRENCY)
    pages = 0

    async def one(name: str) -> None:
        nonlocal pages
        async with turns:
            result = await crawler.ingest(IngestRequest("pdf", f"{address}/{name}"))
        assert result.pdf_meta is not None and result.fulltext is not None and result.thumbnail is not None, result
        assert result.pdf_meta.status == "success", result.pdf_meta
        pages += result.pdf_meta.page_count or 0

    longest, began, clock = Longest(), cpu_seconds(), time.perf_counter()
    await asyncio.gather(*map(one, names))
    took = time.perf_counter() - clock
    await crawler.aclose()  # the system counts the time of processes that have ended
    print(json.dumps({"pages": pages, "cpu": cpu_seconds() - began, "seconds": took,
                      "blocked_ms": longest.clock_ms, "blocked_cpu_ms": longest.cpu_ms}))  # fmt: skip


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
