"""The capture service Save Page Now 2, played without a socket: places, captures, refusals and every other answer."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import httpx
import pydantic

from ...origin import PDF, Origin, Request, reply
from .archive import FIELDS, FakeArchive

SAME_SNAPSHOT = "The same snapshot had been made 4 minutes ago. You can make new capture of this URL after 1 hour."
SESSIONS = "You have already reached the limit of active sessions. Please wait for a minute and then try again."


LONGEST_CAPTURE = 150.0
"""Seconds after which a capture takes no place any more, although it may be called pending for ever."""


@dataclass(frozen=True)
class Play:
    """How the capture of a URL goes.

    `seconds`: how long it is pending. `code`: it fails with this code. `final`: where it ends; None: at the URL itself.
    `reuses`: it is an earlier capture, under another job's id.
    """

    seconds: float = 10.0
    code: str | None = None
    final: str | None = None
    reuses: bool = False
    message: str = ""


@dataclass
class Job:
    """A capture that was begun."""

    url: str
    play: Play
    began: float
    timestamp: str = ""

    def is_pending(self, now: float) -> bool:
        return now < self.began + self.play.seconds


def page() -> httpx.Response:
    return httpx.Response(200, headers={"Content-Type": "text/html"}, text="<html><title>Sign in</title></html>")


def too_many(seconds: int | None = None) -> httpx.Response:
    return httpx.Response(429, headers={} if seconds is None else {"Retry-After": str(seconds)})


@dataclass
class SavePageNow:
    """The service, and the account that asks it.

    :param places: captures that may be open at once
    :param plays: URL -> how its capture goes; `usual` for the others
    :param captured: called with (final URL, timestamp) when a capture has succeeded
    :param refuse: called before each request is answered with (method, path); what it returns is the answer instead
    """

    places: int = 8
    plays: dict[str, Play] = field(default_factory=dict)
    usual: Callable[[str], Play] = lambda url: Play()
    captured: Callable[[str, str], None] = lambda url, timestamp: None
    refuse: Callable[[str, str], httpx.Response | dict[str, Any] | None] = lambda method, path: None
    credentials: str = "LOW access:secret"
    daily: tuple[int, int] = (0, 30_000)
    jobs: dict[str, Job] = field(default_factory=dict)
    begun: Counter[str] = field(default_factory=Counter)
    most_open: int = 0
    requests: list[tuple[float, str, str]] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)
    _numbers: Any = field(default_factory=itertools.count)

    def script(self, *answers: httpx.Response | dict[str, Any] | None, path: str = "", method: str = "POST") -> None:
        """Answer the next requests of this kind so, in this order. None: as usual."""
        left = deque(answers)
        before = self.refuse

        def next_answer(asked: str, where: str) -> httpx.Response | dict[str, Any] | None:
            if left and asked == method and where.startswith(path):
                return left.popleft()
            return before(asked, where)

        self.refuse = next_answer

    def open(self) -> int:
        now = time.time()
        return sum(job.is_pending(now) and now < job.began + LONGEST_CAPTURE for job in self.jobs.values())

    def posts(self) -> int:
        return sum(method == "POST" for _, method, _ in self.requests)

    def answer(self, request: httpx.Request, path: str) -> httpx.Response:
        """The answer to a request for a path below the service's address."""
        self.requests.append((time.time(), request.method, path))
        if request.headers.get("authorization") != self.credentials:
            return httpx.Response(401, json={"message": "You need to be logged in to use Save Page Now."})
        special = self.refuse(request.method, path)
        if special is not None:
            # a response of its own each time: a body is read once
            if isinstance(special, httpx.Response):
                return httpx.Response(special.status_code, headers=special.headers, content=special.content)
            return httpx.Response(200, json=special)
        if request.method == "POST":
            form = {name: values[0] for name, values in parse_qs(request.content.decode()).items()}
            return httpx.Response(200, json=self._begin(form))
        if path == "/status/user":
            return httpx.Response(200, json=self._user())
        return httpx.Response(200, json=self._state(unquote(path.removeprefix("/status/"))))

    def _user(self) -> dict[str, int]:
        done, limit = self.daily
        return {
            "available": max(0, self.places - self.open()),
            "processing": self.open(),
            "daily_captures": done,
            "daily_captures_limit": limit,
        }

    def _begin(self, form: dict[str, str]) -> dict[str, Any]:
        self.forms.append(form)
        url, now = form["url"], time.time()
        same = [(name, job) for name, job in self.jobs.items() if job.url == url]
        for name, job in same:
            if job.is_pending(now):
                return {"url": url, "job_id": name}
            if now - job.began < 3600 and job.play.code is None:
                return {"url": url, "job_id": name, "message": SAME_SNAPSHOT}
        if self.open() >= self.places:
            return {"url": url, "message": SESSIONS}
        self.begun[url] += 1
        name = f"spn2-{next(self._numbers):040x}"
        self.jobs[name] = Job(url, self.plays.get(url) or self.usual(url), now)
        self.most_open = max(self.most_open, self.open())
        return {"url": url, "job_id": name}

    def _state(self, name: str) -> dict[str, Any]:
        now = time.time()
        job = self.jobs.get(name.removeprefix("original-"))
        if job is None or now - job.began > 3600 + job.play.seconds:
            return {"status": "error", "message": "job not found"}
        if job.is_pending(now):
            return {"status": "pending", "job_id": name, "resources": []}
        play = job.play
        if play.code is not None:
            error = {"status": "error", "job_id": name, "resources": [], "message": play.message or f"Oh: {play.code}"}
            return error | ({"status_ext": f"error:{play.code}"} if play.code else {})
        final = job.url if play.final is None else play.final
        if not job.timestamp:
            job.timestamp = time.strftime("%Y%m%d%H%M%S", time.gmtime(job.began + play.seconds))
            self.captured(final, job.timestamp)
        success = {
            "status": "success",
            "job_id": name,
            "original_url": final,
            "timestamp": job.timestamp,
            "duration_sec": play.seconds,
            "resources": [final],
            "outlinks": {},
        }
        if play.reuses and not name.startswith("original-"):
            return {**success, "timestamp": "", "original_job_id": f"original-{name}"}
        return success


class Transport(httpx.AsyncBaseTransport):
    """Sends requests to what plays the services, by the beginning of their address.

    `services`: beginning -> function of (request, the rest of the path) -> response.
    """

    def __init__(self, services: dict[str, Callable[[httpx.Request, str], httpx.Response]]) -> None:
        self.services = services

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        url = str(request.url)
        for beginning, answer in self.services.items():
            if url.startswith(beginning):
                return answer(request, urlsplit(url.removeprefix(beginning)).path)
        raise AssertionError(f"nobody plays {url}")


class QuickArchive:
    """The archive that holds the captures: its index and its replay, of any number of them.

    `late`: URL -> how often the index is asked before it lists a capture of it.
    """

    def __init__(
        self, body: Callable[[str], bytes] = lambda url: PDF, late: Callable[[str], int] = lambda url: 0
    ) -> None:
        self._body = body
        self._late = late
        self._held: dict[str, dict[str, int]] = {}

    def add(self, url: str, timestamp: str) -> None:
        self._held.setdefault(url, {})[timestamp] = self._late(url)

    def index(self, request: httpx.Request, path: str) -> httpx.Response:
        asked = dict(request.url.params)
        held = self._held.get(asked["url"], {})
        rows = []
        for timestamp in held:
            if asked.get("from", "") <= timestamp <= asked.get("to", "9"):
                held[timestamp] -= 1
                if held[timestamp] < 0:
                    rows.append(["key", timestamp, asked["url"], "application/pdf", "200", "-", "-"])
        return httpx.Response(200, json=[list(FIELDS), *rows] if rows else [])

    def replay(self, request: httpx.Request, path: str) -> httpx.Response:
        timestamp, _, url = str(request.url).partition("/web/")[2].partition("id_/")
        if timestamp not in self._held.get(url, {}):
            return httpx.Response(404, text="Not archived")
        return httpx.Response(200, content=self._body(url), headers={"X-Archive-Src": "one/one.warc.gz"})


class CapturingArchive(FakeArchive):
    """An archive on loopback with a capture service, at `/save`. Captures of URLs without a Play take no time.

    :param captured: called with (final URL, timestamp) when a capture has succeeded
    """

    def __init__(self, plays: dict[str, Play], captured: Callable[[str, str], None]) -> None:
        super().__init__()
        self.spn = SavePageNow(plays=plays, usual=lambda url: Play(0), captured=captured)

    def settings(self, site: Origin, **others: Any) -> dict[str, Any]:
        access, secret = (pydantic.SecretStr(key) for key in self.spn.credentials.removeprefix("LOW ").split(":"))
        keys = {"spn2_access_key": access, "spn2_secret_key": secret}
        return super().settings(site, **{"sources": ("spn2",), "spn2_url": site.url("/save"), **keys, **others})

    def get(self, target: str, default: Any = None) -> Any:
        return self._save if target.startswith("/save") else super().get(target, default)

    async def _save(self, request: Request, writer: asyncio.StreamWriter) -> None:
        asked = httpx.Request(
            request.method, f"http://spn{request.target}", headers=dict(request.headers), content=request.body
        )
        answer = self.spn.answer(asked, urlsplit(request.target.removeprefix("/save")).path)
        kind = answer.headers.get("content-type", "application/json")
        status = f"{answer.status_code} So"
        writer.write(reply(answer.content, status=status, content_type=kind, headers={"Connection": "close"}))
