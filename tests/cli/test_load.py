"""Five hundred rows, ten of them slow: nobody waits for an unrelated slow row, and every answer is kept twice alike."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import sqlite3
from typing import Any

from datasette_ingest.ingest.enrichment.rows import RESULT_COLUMNS

from ..conftest import rows
from ..ingest.origin import Origin, Request, pdf
from .conftest import Cli

QUICK_HOSTS, SLOW_HOSTS, ROWS = 10, 10, 500
LONGEST_HOLD = 20.0
"""Seconds after which a slow page answers all the same, so that a run which does wait ends and fails."""


class Slow:
    """Pages that keep back their answer until all ten are asked for and every quick row has been answered."""

    def __init__(self, quick: list[Origin], quick_rows: int) -> None:
        self.open = self.most = 0
        self.gave_up = 0
        self._quick = quick
        self._quick_rows = quick_rows

    def _is_time(self) -> bool:
        return self.most == SLOW_HOSTS and sum(len(site.targets) for site in self._quick) == self._quick_rows

    async def answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self.most = max(self.most, self.open)
        until = asyncio.get_running_loop().time() + LONGEST_HOLD
        while not self._is_time():
            await asyncio.sleep(0.01)
            if asyncio.get_running_loop().time() > until:
                self.gave_up += 1
                break
        self.open -= 1
        writer.write(pdf())


async def test_slow_hosts_are_waited_for_together_and_every_row_agrees_with_its_result(
    cli: Cli, tmp_path: pathlib.Path
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        quick = [Origin(host=f"127.0.0.{20 + number}") for number in range(QUICK_HOSTS)]
        per_host = (ROWS - SLOW_HOSTS) // QUICK_HOSTS
        slow = Slow(quick, per_host * QUICK_HOSTS)
        for site in quick:
            site.handlers = {f"/{n}.pdf": pdf() for n in range(0, per_host, 2)}  # the others are missing
            await stack.enter_async_context(site)
        held = [Origin({"/slow.pdf": slow.answer}, host=f"127.0.0.{2 + number}") for number in range(SLOW_HOSTS)]
        for site in held:
            await stack.enter_async_context(site)
        urls = [site.url("/slow.pdf") for site in held[:5]]
        urls += [site.url(f"/{n}.pdf") for n in range(per_host) for site in quick]
        urls += [site.url("/slow.pdf") for site in held[5:]]
        path = _table(tmp_path / "papers.db", urls)

        arguments: list[Any] = ["run", path, "papers", "--url-column", "url", "--allow-network", "127.0.0.0/8"]
        result = await asyncio.to_thread(cli, *arguments, "-s", "per_host_delay", "0")

    assert result.exit_code == 0, result.output
    assert (slow.most, slow.gave_up) == (SLOW_HOSTS, 0)
    hits = SLOW_HOSTS + QUICK_HOSTS * len(range(0, per_host, 2))
    assert rows(path, "select ingest_status, count(*) from papers group by 1 order by 1") == [
        ("success", hits),
        ("terminal-bad-status", ROWS - hits),
    ]
    assert rows(path, "select done_count, error_count, row_count from _enrichment_jobs") == [(ROWS, 0, ROWS)]
    assert rows(path, "select count(*) from ingest_file_result") == [(ROWS,)]
    differ = " or ".join(f"p.ingest_{name} is not r.{name}" for name in RESULT_COLUMNS)
    join = "papers p left join ingest_file_result r on r.base_url = p.url and r.ingest_type = 'pdf'"
    assert rows(path, f"select p.id from {join} where r.base_url is null or {differ}") == []


def _table(path: pathlib.Path, urls: list[str]) -> pathlib.Path:
    assert len(urls) == len(set(urls)) == ROWS
    with contextlib.closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("create table papers (id integer primary key, url text)")
        conn.executemany("insert into papers (url) values (?)", [(url,) for url in urls])
    return path
