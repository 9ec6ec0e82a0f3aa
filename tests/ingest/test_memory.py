"""Sixty-four large bodies at once, in a process of its own: memory stays bounded."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys

import pytest

ROWS = 64
# All of it in CI; what a person waits for shows the same, since a body takes no more memory once it spills.
BODY_MIB = 100 if os.environ.get("CI") else 20
LIMIT_MIB = 400

PROGRAM = """
import asyncio, json, pathlib, re, resource, sys
from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.model import IngestRequest
from datasette_ingest.ingest.settings import CrawlSettings

async def main(base, rows):
    crawler = Crawler(CrawlSettings(user_agent="x", concurrency=rows, per_host_concurrency=rows, per_host_delay=0,
        robots="ignore", allow_networks=("127.0.0.0/8",), timeout=120, deadline=600, max_spool_bytes=16 * 2**30))
    results = await asyncio.gather(*(crawler.ingest(IngestRequest("pdf", f"{base}?{n}")) for n in range(rows)))
    await crawler.aclose()
    status = pathlib.Path("/proc/self/status")
    # Where there is no /proc: what the process that started this one held counts as well.
    peak = int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1]) if status.exists() else (
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    peak //= 1024
    print(json.dumps({"peak": peak, "statuses": sorted({r.status for r in results}),
        "sizes": sorted({r.file_meta.size_bytes for r in results if r.file_meta})}))

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


@pytest.mark.slow
async def test_many_large_bodies_at_once_stay_within_bounds() -> None:
    block = b"x" * (1024 * 1024)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = b"%PDF-1.4\n1 0 obj\n"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(head) + BODY_MIB * len(block)) + head)
        for _ in range(BODY_MIB):
            writer.write(block)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, f"http://127.0.0.1:{port}/", str(ROWS), stdout=subprocess.PIPE
        )
        out, _ = await child.communicate()
    found = json.loads(out)
    assert found["statuses"] == ["success"]
    assert found["sizes"] == [len(b"%PDF-1.4\n1 0 obj\n") + BODY_MIB * len(block)]
    assert found["peak"] < LIMIT_MIB, found
