"""A real Datasette server with a job inside, and the time its table page takes meanwhile."""

from __future__ import annotations

import contextlib
import http.client
import json
import pathlib
import socket
import sqlite3
import statistics
import subprocess
import time
import urllib.parse
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

START_SECONDS = 30
PAUSE_SECONDS = 0.025
"""Between two requests of the one client: a busy site, yet one whose server is not saturated by the client alone."""
SECRET = "bench"


@dataclass(frozen=True)
class Phase:
    """Milliseconds of each page, sorted; rows that the job did a second meanwhile (0 when none ran)."""

    milliseconds: tuple[float, ...]
    rows_s: float = 0.0

    def percentile(self, share: float) -> float:
        place = min(len(self.milliseconds) - 1, round(share * (len(self.milliseconds) - 1)))
        return self.milliseconds[place]


@dataclass(frozen=True)
class Alternation:
    """Idle, then the same with a job inside."""

    idle: Phase
    busy: Phase

    def ratio(self, share: float) -> float:
        return self.busy.percentile(share) / self.idle.percentile(share)


@dataclass(frozen=True)
class Latency:
    """What the alternations show together."""

    alternations: tuple[Alternation, ...]

    def ratio(self, share: float) -> float:
        """Median of the alternations' ratios at that percentile."""
        return statistics.median(each.ratio(share) for each in self.alternations)

    def pooled(self, share: float) -> tuple[float, float]:
        """(idle, with the job) milliseconds at that percentile, all alternations together."""
        idle = Phase(tuple(sorted(ms for each in self.alternations for ms in each.idle.milliseconds)))
        busy = Phase(tuple(sorted(ms for each in self.alternations for ms in each.busy.milliseconds)))
        return idle.percentile(share), busy.percentile(share)

    @property
    def rows_s(self) -> float:
        return statistics.median(each.busy.rows_s for each in self.alternations)


class Server:
    """A Datasette process that serves one database file to a signed-in root."""

    def __init__(self, python: pathlib.Path, path: pathlib.Path, port: int, cookie: str) -> None:
        self.path = path
        self._python = python
        self._client = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._cookie = cookie

    def get(self, path: str) -> bytes:
        """The page as a stranger sees it."""
        self._client.request("GET", path)
        response = self._client.getresponse()
        body = response.read()
        if response.status != 200:
            raise RuntimeError(f"GET {path}: {response.status} {body[:200]!r}")
        return body

    def post(self, path: str, body: bytes, content_type: str, cookies: Mapping[str, str] | None = None) -> bytes:
        """Act as root, from the site's own page; the body, or the Location of a redirect."""
        crumbs = {"ds_actor": self._cookie, **(cookies or {})}
        headers = {
            "Content-Type": content_type,
            "Cookie": "; ".join(f"{name}={value}" for name, value in crumbs.items()),
            "Sec-Fetch-Site": "same-origin",
        }
        self._client.request("POST", path, body, headers)
        response = self._client.getresponse()
        answer = response.read()
        if response.status not in (200, 201, 302):
            raise RuntimeError(f"POST {path}: {response.status} {answer[:200]!r}")
        return str(response.headers["Location"]).encode() if response.status == 302 else answer

    def form_token(self, path: str) -> str | None:
        """The CSRF token that a page with a form sets as a cookie; None on a line that needs none."""
        self._client.request("GET", path, headers={"Cookie": f"ds_actor={self._cookie}"})
        response = self._client.getresponse()
        response.read()
        for header in response.headers.get_all("Set-Cookie") or []:
            name, _, value = header.partition(";")[0].partition("=")
            if name == "ds_csrftoken":
                return value
        return None

    def post_form(self, path: str, token_page: str) -> bytes:
        token = self.form_token(token_page)
        body = urllib.parse.urlencode({"csrftoken": token} if token else {}).encode()
        cookies = {"ds_csrftoken": token} if token else {}
        return self.post(path, body, "application/x-www-form-urlencoded", cookies)

    def job(self, job_id: int) -> tuple[str, int]:
        """(status, rows done), read from the file: nothing is asked of the server."""
        with contextlib.closing(sqlite3.connect(self.path, timeout=10)) as conn:
            row = conn.execute("select status, done_count from _enrichment_jobs where id = ?", [job_id]).fetchone()
        return str(row[0]), int(row[1])


@contextlib.contextmanager
def serving(python: pathlib.Path, path: pathlib.Path) -> Iterator[Server]:
    """A server with the plugins of that environment, stopped at the end."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    sign = f"from datasette.app import Datasette; print(Datasette([], secret={SECRET!r}).sign({{'a': {{'id': 'root'}}}}, 'actor'))"
    here = path.parent  # in the project's own folder Python would find our plugin, whatever the environment
    cookie = subprocess.run(
        [str(python), "-c", sign], cwd=here, check=True, capture_output=True, text=True
    ).stdout.strip()
    command = [str(python), "-m", "datasette", str(path), "--root", "--secret", SECRET, "--port", str(port)]
    log = path.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=here, stdout=output, stderr=output)
    try:
        _await_port(port, process, log)
        yield Server(python, path, port, cookie)
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_port(port: int, process: subprocess.Popen[bytes], log: pathlib.Path) -> None:
    until = time.monotonic() + START_SECONDS
    while not _answers(port):
        if time.monotonic() > until or process.poll() is not None:
            raise RuntimeError(f"The server did not start: {log.read_text('utf-8', 'replace')[-500:]}")
        time.sleep(0.05)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


class Framework(ABC):
    """How a person starts and stops a job of one enrichment framework in a server."""

    @abstractmethod
    def start(self, server: Server, table: str, slug: str) -> int: ...

    @abstractmethod
    def cancel(self, server: Server, job_id: int) -> None: ...


class Ours(Framework):
    def start(self, server: Server, table: str, slug: str) -> int:
        body = json.dumps({"table": table, "enrichment": slug}).encode()
        answer = server.post(f"/-/ingest-jobs/{server.path.stem}", body, "application/json")
        return int(json.loads(answer)["job"]["id"])

    def cancel(self, server: Server, job_id: int) -> None:
        server.post(f"/-/ingest-jobs/{server.path.stem}/{job_id}/cancel", b"{}", "application/json")


class Peer(Framework):
    def start(self, server: Server, table: str, slug: str) -> int:
        form = f"/-/enrich/{server.path.stem}/{table}/{slug}"
        return int(server.post_form(form, form).rpartition(b"=")[2])

    def cancel(self, server: Server, job_id: int) -> None:
        job = f"/-/enrich/{server.path.stem}/-/jobs/{job_id}"
        server.post_form(f"{job}/cancel", job)


class RunningJob:
    """A job that is started again whenever it is over, so that a measurement may take as long as it needs."""

    def __init__(self, server: Server, framework: Framework, table: str, slug: str) -> None:
        self._server = server
        self._framework = framework
        self._what = (table, slug)
        self._before = 0
        self._id = framework.start(server, *self._what)
        self._await_first_rows()

    def rows(self) -> int:
        """Rows done so far, by every start."""
        status, done = self._server.job(self._id)
        if status == "finished":
            self._before += done
            self._id = self._framework.start(self._server, *self._what)
            done = 0
        elif status not in ("pending", "running"):
            raise RuntimeError(f"The job is {status}")
        return self._before + done

    def stop(self) -> None:
        status, _ = self._server.job(self._id)
        if status in ("pending", "running"):
            self._framework.cancel(self._server, self._id)

    def _await_first_rows(self) -> None:
        until = time.monotonic() + START_SECONDS
        while self._server.job(self._id)[1] == 0:
            if time.monotonic() > until:
                raise RuntimeError(f"The job did no row within {START_SECONDS} s")
            time.sleep(0.01)


def pages(server: Server, path: str, requests: int, job: RunningJob | None = None) -> Phase:
    """Ask for a page again and again, with a pause between."""
    times = []
    began, rows = time.perf_counter(), job.rows() if job else 0
    for _ in range(requests):
        asked = time.perf_counter()
        server.get(path)
        times.append(1000 * (time.perf_counter() - asked))
        if job:
            job.rows()
        time.sleep(PAUSE_SECONDS)
    rows_s = (job.rows() - rows) / (time.perf_counter() - began) if job else 0.0
    return Phase(tuple(sorted(times)), rows_s)


def measure(
    python: pathlib.Path,
    path: pathlib.Path,
    framework: Framework,
    *,
    page_table: str,
    job_table: str,
    slug: str,
    alternations: int,
    requests: int,
) -> Latency:
    """Idle and busy in turn, in one server. The first requests and the first job's new column are not counted."""
    page = f"/{path.stem}/{page_table}"
    found = []
    with serving(python, path) as server:
        pages(server, page, 5)
        for _ in range(alternations):
            idle = pages(server, page, requests)
            job = RunningJob(server, framework, job_table, slug)
            busy = pages(server, page, requests, job)
            job.stop()
            time.sleep(0.3)
            found.append(Alternation(idle, busy))
    return Latency(tuple(found))
