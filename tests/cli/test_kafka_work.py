"""`kafka work`: what it needs, what it says when that is missing, and how it ends."""

from __future__ import annotations

import importlib.util
import pathlib
import signal
import time

import httpx
import pytest

from ..ingest.remote.brokers import Broker, free_port, running
from ..ingest.remote.processes import WorkerProcess
from .conftest import Cli

NOWHERE = '{"bootstrap": "127.0.0.1:9"}'


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "The setting kafka is missing. Give it with -c FILE, or as -s kafka"),
        (("-s", "kafka", "{}"), "kafka: bootstrap: name at least one broker"),
        (("-s", "kafka", '{"bootstrap": "h:1", "group": 1}'), "kafka: there is no 'group'; write bootstrap, prefix"),
        (("-s", "kafka", NOWHERE, "--metrics", "9464"), "'9464' is no address: write it as HOST:PORT"),
        (("-s", "kafka", NOWHERE, "--metrics", "h:99999"), "'h:99999' is no address"),
        (("-s", "kafka", NOWHERE, "--source", "spn2"), "the source spn2 needs the settings spn2_access_key"),
    ],
)
def test_wrong_usage_is_said(cli: Cli, arguments: tuple[str, ...], sentence: str) -> None:
    result = cli("kafka", "work", *arguments)
    assert result.exit_code == 2 and sentence in result.stderr


def test_a_missing_library_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = cli("kafka", "work", "-s", "kafka", NOWHERE)
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: A library is missing: pip install 'datasette-ingest[kafka]'\n",
    )


def test_an_address_that_is_taken_is_said(cli: Cli) -> None:
    with running() as broker:
        result = cli("kafka", "work", "-s", "kafka", NOWHERE, "--metrics", broker.address)
    assert result.exit_code == 1 and f"{broker.address} cannot be used" in result.stderr


@pytest.mark.slow
async def test_a_worker_says_that_it_waits_for_kafka_and_ends_when_it_is_told(tmp_path: pathlib.Path) -> None:
    port = free_port()
    worker = WorkerProcess(Broker().settings(), tmp_path / "log", ("--metrics", f"127.0.0.1:{port}")).start()
    try:
        until = time.monotonic() + 60
        while "cannot be reached" not in worker.said and time.monotonic() < until:
            time.sleep(0.05)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            health = await client.get("/health")
            assert (health.status_code, health.text) == (503, "Kafka cannot be reached\n")
            assert "ingest_fleet_kafka_up 0\n" in (await client.get("/metrics")).text
        worker.send(signal.SIGTERM)
        assert await worker.ended() == 0
    finally:
        worker.stop()
    numbers, waits, end = worker.said.splitlines()
    assert numbers == f"Numbers: http://127.0.0.1:{port}/metrics"
    assert (
        waits.endswith(" (no broker answers). Waiting for it; nothing is lost") and end == "0 results, 0 parked, 0 dead"
    )
