"""`datasette ingest demo`: a first look that cannot go wrong."""

from __future__ import annotations

import asyncio
import http.cookiejar
import pathlib
import re
import signal
import socket
import sys
import urllib.request

import pytest

from datasette_ingest.demo.site import ROWS

from ..conftest import rows
from .conftest import Cli

OUTCOMES = {"success": 7, "blocked-wall": 1, "invalid-url": 1, "no-pdf-link": 1, "terminal-bad-status": 1}
STATUSES = [
    "success",
    "success",
    "success",
    "blocked-wall",
    "terminal-bad-status",
    "success",
    "success",
    "no-pdf-link",
    "success",
    "success",
    "invalid-url",
]


def test_the_demo_answers_every_sample_row_and_shows_how_each_ended(
    cli: Cli, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = cli("demo")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    counted = dict(re.findall(r"^([a-z-]+) +(\d+) +[\d.]+%$", result.stdout, re.MULTILINE))
    assert {word: int(number) for word, number in counted.items()} == OUTCOMES
    for number, (row, status) in enumerate(zip(ROWS, STATUSES, strict=True), 1):
        assert re.search(rf"^{number} +{re.escape(row.title)} +{row.wanted} +{status}\b", result.stdout, re.MULTILINE)
    assert "11 of 11 rows answered" in result.stdout
    assert result.stdout.rstrip().endswith("Open it in a browser: datasette ingest-demo.db --root --open")
    written = rows(tmp_path / "ingest-demo.db", "select ingest_status, ingest_hit from papers order by id")
    assert written == [(status, int(status == "success")) for status in STATUSES]


def test_a_second_demo_in_one_folder_leaves_the_first_alone(
    cli: Cli, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ingest-demo.db").write_bytes(b"kept as it is")
    result = cli("demo")
    assert result.exit_code == 0, result.output
    assert "datasette ingest-demo-2.db --root --open" in result.stdout
    assert (tmp_path / "ingest-demo.db").read_bytes() == b"kept as it is"
    assert rows(tmp_path / "ingest-demo-2.db", "select count(*) from papers where ingest_status is not null") == [(11,)]


def test_a_path_that_exists_is_refused_and_kept(cli: Cli, papers: pathlib.Path) -> None:
    before = papers.read_bytes()
    result = cli("demo", papers)
    assert result.exit_code == 1
    assert result.stderr == f"Error: {papers} already exists. Give another path, or delete it first\n"
    assert papers.read_bytes() == before


def test_a_folder_that_does_not_exist_is_named(cli: Cli, tmp_path: pathlib.Path) -> None:
    result = cli("demo", tmp_path / "nowhere" / "demo.db")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: Cannot write {tmp_path}/nowhere/demo.db")


def test_a_port_that_is_taken_is_named_before_anything_is_made(cli: Cli, tmp_path: pathlib.Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = cli("demo", tmp_path / "demo.db", "--serve", "--port", port)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: Port {port} cannot be used")
    assert "--port" in result.stderr
    assert not (tmp_path / "demo.db").exists()


async def test_serve_opens_datasette_on_the_result_with_a_link_that_signs_in(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-m", "datasette", "ingest", "demo", "demo.db", "--serve", "--port", "0"]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        link = await asyncio.wait_for(_link(process.stdout), 30)
        page = await asyncio.to_thread(_signed_in, link, "/demo/papers")
        assert "Enrich selected rows" in page
        process.send_signal(signal.SIGINT)
        _, errors = await asyncio.wait_for(process.communicate(), 30)
        assert (process.returncode, errors) == (0, b"")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _link(output: asyncio.StreamReader | None) -> str:
    assert output is not None
    async for line in output:
        if b"/-/auth-token" in line:
            return line.decode().strip()
    raise AssertionError("the demo ended without a link")


def _signed_in(link: str, path: str) -> str:
    """The page as whoever followed the link sees it."""
    browser = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    )
    browser.open(link).close()
    base = link.partition("/-/")[0]
    with browser.open(base + path) as response:
        return str(response.read().decode())
