"""A fleet in processes of its own, and a site of many hosts that counts who asks it. For the slow tests and the bench."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from datasette_ingest.ingest.model import IngestRequest
from datasette_ingest.ingest.remote.client import Brokers
from datasette_ingest.ingest.remote.messages import RequestMessage, ResultMessage
from datasette_ingest.ingest.remote.settings import KafkaSettings
from datasette_ingest.ingest.remote.topics import topics_of

from ..origin import PDF

if TYPE_CHECKING:
    from typing_extensions import Self

PROJECT = pathlib.Path(__file__).resolve().parents[3]


def hosts(number: int) -> list[str]:
    """So many addresses of loopback, each a host to a crawler."""
    return [f"127.0.{1 + each // 250}.{1 + each % 250}" for each in range(number)]


@dataclass
class CountingSite:
    """A server on many hosts whose every path is a PDF, after some seconds.

    `most_requests` and `most_connections`: the most that a host ever had at once.
    """

    hosts: list[str]
    seconds: float = 0.0
    asked: Counter[str] = field(default_factory=Counter)
    """URL -> how often it was asked for."""
    most_requests: Counter[str] = field(default_factory=Counter)
    most_connections: Counter[str] = field(default_factory=Counter)
    handlers: dict[str, Callable[[str], bytes]] = field(default_factory=dict)
    """Path prefix -> the response of a host and path, in the place of the PDF."""
    port: int = 0

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[CountingSite]:
        self._requests: Counter[str] = Counter()
        self._connections: Counter[str] = Counter()
        servers, tasks = [], set()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.ensure_future(self._serve(reader, writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        for host in self.hosts:
            server = await asyncio.start_server(accept, host, self.port, backlog=256)
            self.port = server.sockets[0].getsockname()[1]
            servers.append(server)
        try:
            yield self
        finally:
            for server in servers:
                server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def urls(self, number: int) -> list[str]:
        """So many URLs, hosts in turn."""
        return [f"http://{self.hosts[n % len(self.hosts)]}:{self.port}/{n}.pdf" for n in range(number)]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = writer.get_extra_info("sockname")[0]
        self._connections[host] += 1
        self.most_connections[host] = max(self.most_connections[host], self._connections[host])
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1].decode()
                self._requests[host] += 1
                self.most_requests[host] = max(self.most_requests[host], self._requests[host])
                self.asked[f"http://{host}:{self.port}{path}"] += 1
                try:
                    if self.seconds:
                        await asyncio.sleep(self.seconds)
                finally:
                    self._requests[host] -= 1
                writer.write(self._answer(path))
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._connections[host] -= 1
            writer.close()

    def _answer(self, path: str) -> bytes:
        for prefix, handler in self.handlers.items():
            if path.startswith(prefix):
                return handler(path)
        return b"HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\nContent-Length: %d\r\n\r\n%s" % (len(PDF), PDF)


@dataclass
class WorkerProcess:
    """`datasette ingest kafka work` in a process."""

    kafka: KafkaSettings
    log: pathlib.Path
    options: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    log_start: int = 0

    def words(self) -> list[str]:
        return ["work", "--allow-network", "127.0.0.0/8", "-s", "robots", "ignore", *self.options]

    def start(self) -> Self:
        self.log_start = self.log.stat().st_size if self.log.exists() else 0
        given = self.kafka.model_dump(mode="json", exclude_defaults=True)
        command = [
            sys.executable,
            "-m",
            "datasette",
            "ingest",
            "kafka",
            *self.words(),
            "-s",
            "kafka",
            json.dumps(given),
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": str(PROJECT)}, cwd=PROJECT
            )
        return self

    @property
    def said(self) -> str:
        """What this process has said, not those before it."""
        return self.log.read_bytes()[self.log_start :].decode()

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def stop(self) -> None:
        """Kill it, if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    close = stop

    async def ended(self, seconds: float = 60.0) -> int:
        """Wait for its end; the exit code."""
        assert self.process is not None
        until = time.monotonic() + seconds
        while (code := self.process.poll()) is None:
            if time.monotonic() > until:
                raise TimeoutError(f"a worker does not end; it said: {self.said[-2000:]}")
            await asyncio.sleep(0.05)
        return code

    async def is_working(self, partitions: str = "", seconds: float = 60.0) -> None:
        """Wait until it has said that it works on (so many) partitions."""
        until = time.monotonic() + seconds
        while f"Working on {partitions}" not in self.said:
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > until:
                raise TimeoutError(f"a worker does not begin; it said: {self.said[-2000:]}")
            await asyncio.sleep(0.05)


@dataclass
class Persist(WorkerProcess):
    """`datasette ingest kafka persist` in a process."""

    database: pathlib.Path = pathlib.Path()
    forever: bool = True

    def words(self) -> list[str]:
        return ["persist", str(self.database), *(["--forever"] if self.forever else [])]


@contextlib.contextmanager
def workers(kafka: KafkaSettings, folder: pathlib.Path, number: int, *options: str) -> Iterator[list[WorkerProcess]]:
    """So many workers, not started; those that run are killed at the end of the block."""
    made = [WorkerProcess(kafka, folder / f"worker{each}.log", options) for each in range(number)]
    try:
        yield made
    finally:
        for each in made:
            each.stop()


async def publish(kafka: KafkaSettings, urls: list[str]) -> None:
    """Send a request for each URL."""
    brokers, topics = Brokers(kafka), topics_of(kafka)
    await brokers.make_topics(topics.of_worker)
    async with brokers.producer() as producer:
        for at in range(0, len(urls), 500):
            requests = [RequestMessage(IngestRequest("pdf", url, "bench", url)) for url in urls[at : at + 500]]
            sent = (producer.send(topics.requests.name, each.encode("https://doi.org/")) for each in requests)
            await asyncio.gather(*sent)


@dataclass
class Answers:
    """Results that were read from the topic: URL -> how often, and their statuses."""

    by_url: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)


async def collect(
    kafka: KafkaSettings, number: int, *, seconds: float, on_count: Callable[[int], None] = lambda count: None
) -> Answers:
    """Read results until so many URLs have one. `on_count` is told how many have.

    :raises TimeoutError: when no new one comes for so many seconds
    """
    found = Answers()
    async with Brokers(kafka).consumer([topics_of(kafka).results.name]) as consumer:
        last = time.monotonic()
        while len(found.by_url) < number:
            before = len(found.by_url)
            for record in await consumer.poll(seconds=0.2, most=2000):
                document, _ = ResultMessage.decode(record)
                found.by_url[document["request"]["base_url"]] += 1
                found.statuses[document["status"]] += 1
            if len(found.by_url) > before:
                last = time.monotonic()
                on_count(len(found.by_url))
            if time.monotonic() - last > seconds:
                raise TimeoutError(f"{len(found.by_url)} of {number} results came, and no more for {seconds:.0f} s")
    return found
