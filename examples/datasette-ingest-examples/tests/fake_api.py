"""A translation API on loopback that does as a test tells it."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class FakeApi:
    """`refuses`: texts that get a 422. `limits`: Retry-After values, each of which turns one request away with a 429.
    `fails_with`: a status for every request. `asked`: the texts that were translated. `keys`: the keys presented.
    `answers`: the status of every answer and when it was given, in seconds of a monotonic clock.
    """

    url: str = ""
    refuses: set[str] = field(default_factory=set)
    limits: list[str] = field(default_factory=list)
    fails_with: int | None = None
    asked: list[str] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    answers: list[tuple[int, float]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, text: str, language: str) -> tuple[int, dict[str, str], Any]:
        """(status, headers, JSON) for one request."""
        with self.lock:
            if self.fails_with is not None:
                return self.fails_with, {}, {"error": "no"}
            if self.limits:
                return 429, {"Retry-After": self.limits.pop(0)}, {"error": "slow down"}
            if text in self.refuses:
                return 422, {}, {"error": "not a text"}
            self.asked.append(text)
            return 200, {}, {"translation": f"{text} in {language}"}


@contextlib.contextmanager
def serving() -> Iterator[FakeApi]:
    """The API on a free port of loopback while the block lasts."""
    api = FakeApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            api.keys.add(self.headers["Authorization"].removeprefix("Bearer "))
            status, headers, content = api.answer(asked["text"], asked["language"])
            body = json.dumps(content).encode()
            api.answers.append((status, time.monotonic()))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: a test's output is its own."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    api.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
