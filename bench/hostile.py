"""How other pages fare while a visitor who may enrich, but not execute SQL, does the worst that they can.

Each attack is tried with ten requests in parallel, over and over, while an unrelated page is asked. Printed for each: how
long that page took (p95), the statuses of the answers, and the memory of the server's process at its peak, with that of its
children beside it.

    python bench/hostile.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import re
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from urllib.parse import urlencode

import httpx
from itsdangerous import URLSafeSerializer

AT_ONCE = 10
PAGE_MIB = 16
SECRET = "hostile"
BOB, EVE = {"id": "bob"}, {"id": "eve"}
CONFIG = {
    "databases": {"data": {"allow_sql": False}},
    "plugins": {
        "datasette-ingest": {
            "allow": {"id": "bob"},
            "allow_networks": ["127.0.0.0/8"],
            "per_host_delay": 0,
            "per_host_concurrency": 10,
            "robots": "ignore",
        }
    },
}

Ask = Callable[[int], Awaitable[httpx.Response]]


# ---- what is attacked -------------------------------------------------------------------------------------------


def make_database(path: pathlib.Path, rows: int, site: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("create table papers (id integer primary key, body text, url text)")
        conn.execute(
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < ?) "
            "insert into papers select i, hex(zeroblob(100)) || i, 'http://a.example/' || i from n",
            [rows],
        )
        for table, path_, number in (("large", "", AT_ONCE), ("few", "slow/", 50)):
            conn.execute(f"create table {table} (id integer primary key, url text)")
            urls = [(f"{site}/{path_}{each}",) for each in range(number)]
            conn.executemany(f"insert into {table} (url) values (?)", urls)
        conn.execute("create table other (id integer primary key, word text)")
        conn.executemany("insert into other (word) values (?)", [(f"word {number}",) for number in range(100)])


@contextlib.asynccontextmanager
async def large_pages() -> AsyncIterator[str]:
    """A site whose every page has PAGE_MIB; what is under /slow/ never ends."""
    head = b"<html><head><title>A work</title></head><body>"
    link = b"<p class='x'>Some <b>words</b> and <a href='/a/b?c=d'>a link to a PDF</a>.</p>\n"
    page = head + link * ((PAGE_MIB * 2**20) // len(link))

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            request = await reader.readuntil(b"\r\n\r\n")
            if b"/slow/" in request:
                await reader.read()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(page))
            writer.write(page)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


@contextlib.asynccontextmanager
async def served(folder: pathlib.Path) -> AsyncIterator[tuple[str, int]]:
    """The server's address and process id."""
    from datasette.app import Datasette

    option = "-c" if hasattr(Datasette, "allowed") else "-m"
    (folder / "config.json").write_text(json.dumps(CONFIG))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-m", "datasette", "serve", "data.db", option, "config.json"]  # noqa: RUF005
        + ["--secret", SECRET, "--port", str(port)],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).resolve().parents[1])},
    )
    base = f"http://127.0.0.1:{port}"
    try:
        async with httpx.AsyncClient() as client:
            for _ in range(300):
                with contextlib.suppress(httpx.HTTPError):
                    await client.get(f"{base}/-/versions.json")
                    break
                await asyncio.sleep(0.1)
        yield base, process.pid
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()


def visitor(base: str, actor: dict[str, str]) -> httpx.AsyncClient:
    cookie = URLSafeSerializer(SECRET, "actor").dumps({"a": actor})
    return httpx.AsyncClient(
        base_url=base, cookies={"ds_actor": cookie}, headers={"Sec-Fetch-Site": "same-origin"}, timeout=120.0
    )


# ---- memory -----------------------------------------------------------------------------------------------------


def peak_mb(pid: int) -> int:
    return _status(pid, "VmHWM")


def children_mb(pid: int) -> int:
    """Resident memory of all children now."""
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return sum(_status(int(child), "VmRSS") for child in found.stdout.split())


def _status(pid: int, name: str) -> int:
    with contextlib.suppress(OSError):
        found = re.search(rf"{name}:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) // 1024 if found else 0
    return 0


# ---- attacks ----------------------------------------------------------------------------------------------------

FORM = "/-/ingest/data/papers/ingest"
JOBS = "/-/ingest-jobs/data"


def slow_filters(number: int) -> str:
    """200 conditions on each row; no two requests have the same."""
    return urlencode([("body__notlike", f"%x{number}.{each}%") for each in range(200)])


def attacks(bob: httpx.AsyncClient, eve: httpx.AsyncClient, token: str) -> dict[str, Ask]:
    headers = {"x-csrftoken": token, "content-type": "application/x-www-form-urlencoded"}
    filled = urlencode({"config.url_column": "url"})

    as_json = {"content-type": "application/json"}

    def body(filters: str, table: str = "papers") -> bytes:
        config = {"url_column": "url"}
        return json.dumps({"table": table, "enrichment": "ingest", "config": config, "filters": filters}).encode()

    def start(sent: bytes, who: httpx.AsyncClient = bob) -> Any:
        return who.post(JOBS, content=sent, headers=as_json)

    def send(step: str, number: int) -> Any:
        return bob.post(f"{FORM}/{step}?{slow_filters(number)}", content=filled, headers=headers)

    many = body("id__in=" + ",".join(map(str, range(10_000, 50_000))))
    longer = body("&".join(f"body__notlike={number}" for number in range(75_000)))
    rows = body("&".join(f"_row={number}" for number in range(5_000)), "other")
    few = body("", "few")
    deep = b"[" * 1_000_000
    return {
        "form": lambda n: bob.get(f"{FORM}?{slow_filters(n)}"),
        "form as JSON": lambda n: bob.get(f"{FORM}.json?{slow_filters(n)}"),
        "choose": lambda n: bob.get(f"/-/ingest/data/papers?{slow_filters(n)}"),
        "preview": lambda n: send("preview", n),
        "try": lambda n: send("try", n),
        "80 kB of values": lambda n: start(many),
        "2 MB of filters": lambda n: start(longer),
        "5,000 single rows": lambda n: start(rows),
        "1 MB of nested JSON": lambda n: bob.post(JOBS, content=deep, headers=as_json),
        "2 MB without permission": lambda n: start(longer, who=eve),
        "starts": lambda n: start(body(slow_filters(n))),
        "40 jobs": lambda n: start(few),
        "retry": lambda n: bob.post(f"{JOBS}/1/retry", json={}),
    }


# ---- measuring --------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def page_times(base: str) -> AsyncIterator[list[float]]:
    """Seconds that an unrelated page took, asked again and again by a process of its own while the block lasts; filled
    in at its end."""
    times: list[float] = []
    asking = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ASKING, f"{base}/data/other?_size=5", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert asking.stdout is not None
    await asking.stdout.readline()
    try:
        yield times
    finally:
        out, _ = await asking.communicate(b"")  # the end of its input ends it
        times.extend(json.loads(out))


ASKING = """
import http.client, json, sys, threading, time, urllib.parse
url, over, times = urllib.parse.urlsplit(sys.argv[1]), threading.Event(), []
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
print("begun", flush=True)
while not over.is_set() or len(times) < 20:
    began = time.perf_counter()
    connection = http.client.HTTPConnection(url.hostname, url.port, timeout=120)
    connection.request("GET", f"{url.path}?{url.query}")
    response = connection.getresponse()
    response.read()
    assert response.status == 200, response.status
    times.append(time.perf_counter() - began)
    connection.close()
    time.sleep(0.05)
print(json.dumps(times))
"""


async def under_attack(
    base: str, ask: Ask, seconds: float, most: int | None = None
) -> tuple[list[float], Counter[Any]]:
    """The page's times while ten at once ask; the statuses of their answers."""
    answers, numbers = Counter[Any](), iter(range(10**9))
    end = time.monotonic() + seconds

    async def attack() -> None:
        while time.monotonic() < end and (most is None or sum(answers.values()) < most):
            try:
                answers[(await ask(next(numbers))).status_code] += 1
            except httpx.HTTPError as problem:  # an answer came before the body was read
                answers[type(problem).__name__] += 1
            await asyncio.sleep(0.01)

    async with page_times(base) as times:
        await asyncio.gather(*(attack() for _ in range(AT_ONCE)))
    return times, answers


async def crawl(base: str, bob: httpx.AsyncClient, pid: int) -> tuple[list[float], Counter[Any], int]:
    """Ten rows of large pages; also the children's memory at its peak."""
    most = 0
    async with page_times(base) as times:
        started = await bob.post(JOBS, json={"table": "large", "enrichment": "ingest", "config": {"url_column": "url"}})
        url = started.json()["job"]["url"]
        while not (found := (await bob.get(f"{url}.json")).json()["job"])["is_final"]:
            most = max(most, children_mb(pid))
            await asyncio.sleep(0.2)
    return times, Counter(found["outcomes"]), most


async def measure(is_quick: bool) -> dict[str, Any]:
    seconds, rows = (4.0, 200_000) if is_quick else (15.0, 1_000_000)
    results: dict[str, Any] = {}

    def note(pid: int, attack: str, times: list[float], answers: Counter[Any], children: int = 0) -> None:
        results[attack] = {
            "p95_s": round(statistics.quantiles(times, n=20)[-1], 3),
            "worst_s": round(max(times), 3),
            "peak_mb": peak_mb(pid),
            "children_mb": children,
            "answers": {str(key): number for key, number in answers.most_common()},
            "load": os.getloadavg()[0],
        }
        show(attack, results[attack])

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        async with large_pages() as site:
            make_database(folder / "data.db", rows, site)
            async with served(folder) as (base, pid), visitor(base, BOB) as bob, visitor(base, EVE) as eve:
                token = (await bob.get(FORM)).cookies.get("ds_csrftoken") or ""
                note(pid, "one page asked by ten", *(await under_attack(base, lambda n: bob.get("/data/other"), 2.0)))
                note(pid, f"pages of {PAGE_MIB} MB", *(await crawl(base, bob, pid)))
                for attack, ask in attacks(bob, eve, token).items():
                    most = 40 if attack in ("40 jobs", "starts") else None
                    note(pid, attack, *(await under_attack(base, ask, seconds, most)))
    return results


def show(attack: str, found: dict[str, Any]) -> None:
    answers = ", ".join(f"{number} x {key}" for key, number in found["answers"].items())
    print(
        f"{attack:<24} p95 {found['p95_s']:6.3f} s  worst {found['worst_s']:6.3f} s  {found['peak_mb']:5} MB"
        f" (+{found['children_mb']} MB)  load {found['load']:5.1f}  {answers}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rows, shorter attacks")
    parser.add_argument("--json", action="store_true", help="print one object as the last line")
    given = parser.parse_args()
    results = asyncio.run(measure(given.quick))
    worst, peak = max(each["p95_s"] for each in results.values()), max(each["peak_mb"] for each in results.values())
    print(f"\nworst p95 {worst} s, peak {peak} MB")
    if given.json:
        print(json.dumps({"p95_s": worst, "peak_mb": peak, "attacks": results}))


if __name__ == "__main__":
    main()
