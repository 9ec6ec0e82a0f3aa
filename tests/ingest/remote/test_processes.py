"""Workers in processes of their own: one is killed, one is stopped and comes back, and nothing is lost."""

from __future__ import annotations

import pathlib
import signal
import time

import pytest

from ..origin import redirect
from .brokers import Broker
from .processes import CountingSite, collect, hosts, publish, workers

OPTIONS = ("-s", "per_host_delay", "0", "-s", "per_host_concurrency", "2")
CAME = 120.0
"""Seconds without any result after which a test gives up."""


@pytest.mark.slow
async def test_each_request_is_answered_although_a_worker_is_killed_and_another_leaves_and_comes_back(
    broker: Broker, tmp_path: pathlib.Path
) -> None:
    kafka = broker.settings(partitions=12)
    site = CountingSite(hosts(20), seconds=0.2)
    site.handlers["/go/"] = lambda path: redirect(
        f"http://{site.hosts[int(path[4:]) * 7 % 20]}:{site.port}{path[3:]}.pdf"
    )
    async with site.serving():
        urls = [url if n % 4 else url.replace(f"/{n}.pdf", f"/go/{n}") for n, url in enumerate(site.urls(440))]
        with workers(kafka, tmp_path, 3, *OPTIONS) as (steady, killed, returning):
            for each in (steady, killed, returning):
                each.start()
            for each in (steady, killed, returning):
                await each.is_working("4 of 12")
            await publish(kafka, urls[:400])
            steps = [(100, killed, signal.SIGKILL), (200, returning, signal.SIGTERM)]

            def on_count(count: int) -> None:
                while steps and count >= steps[0][0]:
                    _, worker, number = steps.pop(0)
                    worker.send(number)

            await collect(kafka, 400, seconds=CAME, on_count=on_count)
            assert await returning.ended() == 0
            await returning.start().is_working()
            await publish(kafka, urls[400:])
            found = await collect(kafka, len(urls), seconds=CAME)
            for each in (steady, returning):
                began = time.monotonic()
                each.send(signal.SIGTERM)
                assert await each.ended() == 0
                assert time.monotonic() - began < 10
    assert set(found.by_url) == set(urls)
    assert set(found.statuses) == {"success"}
    assert max(site.most_requests.values()) <= 2
    assert max(site.most_connections.values()) <= 2
