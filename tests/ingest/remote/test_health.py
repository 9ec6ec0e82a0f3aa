"""Numbers for Prometheus, and whether a process works."""

from __future__ import annotations

import httpx

from datasette_ingest.ingest.remote.health import Metrics, serving


def test_counts_and_gauges_are_written_as_prometheus_reads_them() -> None:
    metrics = Metrics("fleet", gauges={"partitions": lambda: 4})
    metrics.add("results", status="success")
    metrics.add("results", 2, status='odd "\n\\')
    assert metrics.text() == (
        "# TYPE fleet_results_total counter\n"
        'fleet_results_total{status="odd \\"\\n\\\\"} 2\n'
        'fleet_results_total{status="success"} 1\n'
        "# TYPE fleet_partitions gauge\n"
        "fleet_partitions 4\n"
    )
    assert metrics.total("results") == 3


async def test_health_says_what_is_wrong_and_other_addresses_are_refused() -> None:
    metrics = Metrics("fleet")
    async with (
        serving(metrics, "127.0.0.1", 0) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client,
    ):
        assert (await client.get("/health")).text == "ok\n"
        metrics.trouble = lambda: "Kafka cannot be reached"
        unwell = await client.get("/health")
        assert (unwell.status_code, unwell.text) == (503, "Kafka cannot be reached\n")
        assert (await client.get("/metrics?x")).headers["content-type"].startswith("text/plain; version=0.0.4")
        assert [(await client.get("/")).status_code, (await client.post("/metrics")).status_code] == [404, 405]
        assert (await client.head("/health")).content == b""
