"""A web archive on loopback: its index (CDX) and its replay, with the faults that real ones have.

    archive = FakeArchive()
    archive.add("http://h.example/a.pdf", "20200101000000", PDF)
    async with Origin(archive) as site:
        settings = archive.settings(site)

It plays the Internet Archive: variants of a URL are listed together, the nearest capture is reached by a redirect. Its
fields make it another one.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx

from ...origin import Handler, Origin, reply

FIELDS = ("urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length")
FIELDS_11 = (*FIELDS[:6], "redirect", "robotflags", "length", "offset", "filename")
QUICK = 1e7
"""Requests in a minute: no wait."""


@dataclass
class Held:
    """A capture: the response as it came."""

    url: str
    timestamp: str
    body: bytes = b""
    status: int = 200
    mimetype: str = "text/html"
    location: bytes | None = None
    """As the replay sends it; None: the archive's address of the target."""
    target: str | None = None
    headers: Mapping[str, str | bytes] = field(default_factory=dict)
    digest: str | None = None
    repeats: Held | None = None
    """The capture whose body this revisit has."""
    is_proven: bool = True
    """Whether the replay says that it is a capture."""
    looks: int = 0
    """How often the index is asked before it lists the capture."""

    def row(self) -> dict[str, str]:
        sha1 = base64.b32encode(hashlib.sha1((self.repeats or self).body).digest()).decode()
        return {
            "urlkey": surt(self.url),
            "timestamp": self.timestamp,
            "original": self.url,
            "mimetype": "warc/revisit" if self.repeats else self.mimetype,
            "statuscode": "-" if self.repeats else str(self.status),
            "digest": sha1 if self.digest is None else self.digest,
            "redirect": "-",
            "robotflags": "-",
            "length": str(len(self.body)) if self.body else "-",
            "offset": "17",
            "filename": "warcs/one.warc.gz",
        }


def surt(url: str) -> str:
    """The key by which an index finds a URL: the same for http, https and www, and with or without a final slash."""
    parts = urlsplit(url)
    host = (parts.hostname or "").removeprefix("www.")
    port = f":{parts.port}" if parts.port not in (None, 80, 443) else ""
    path = parts.path.rstrip("/").lower() + (f"?{parts.query}" if parts.query else "")
    return ",".join(reversed(host.split("."))) + port + ")" + (path or "/")


class FakeArchive(dict[str, Handler]):
    """The handlers of an Origin: `/cdx` and `/web/…`. An entry under a whole target replaces what would be answered."""

    def __init__(self, *, fields: tuple[str, ...] = FIELDS, form: str = "json", counts_back: bool = True) -> None:
        super().__init__()
        self.held: list[Held] = []
        self.fields = fields
        self.form = form
        """`json`: a list with a header row; `lines`: an object a line, as pywb; `text`: words."""
        self.counts_back = counts_back
        """Whether a negative limit means the last rows. If not, it finds none."""
        self.extra_rows: list[list[str]] = []
        """Rows that are listed for every URL."""
        self.excluded: set[str] = set()
        """Hosts that are not shown."""
        self.faults: dict[str, list[Handler]] = {"/cdx": [], "/web": []}
        """Answers that are given instead, one after the other."""
        self.questions: list[dict[str, str]] = []
        """What the index was asked."""
        self.replayed: list[str] = []
        """`timestamp/url` of the captures that were asked for."""

    def add(self, url: str, timestamp: str, body: bytes = b"", **about: Any) -> Held:
        if body.startswith(b"%PDF"):
            about.setdefault("mimetype", "application/pdf")
        held = Held(url, timestamp, body, **about)
        self.held.append(held)
        self.held.sort(key=lambda held: (surt(held.url), held.timestamp))
        return held

    def redirect(self, url: str, timestamp: str, target: str, **about: Any) -> Held:
        return self.add(url, timestamp, status=302, target=target, **about)

    def settings(self, site: Origin, **others: Any) -> dict[str, Any]:
        """Settings of a crawler that asks this archive."""
        return {
            "sources": ("wayback",),
            "cdx_url": site.url("/cdx"),
            "wayback_url": site.url("/web"),
            "cdx_per_minute": QUICK,
            "replay_per_minute": QUICK,
            **others,
        }

    # What an Origin asks a mapping of handlers

    def get(self, target: str, default: Any = None) -> Any:
        own = super().get(target)
        if own is not None:
            return own
        path, _, query = target.partition("?")
        if path in ("/cdx", "/cdx/search/cdx"):
            return self._fault("/cdx") or self._index({name: values[-1] for name, values in parse_qs(query).items()})
        match = re.fullmatch(r"/web/(\d+)(?:[a-z]{2}_)?/(.+)", target)
        return default if match is None else self._fault("/web") or self._replay(*match.groups())

    def _fault(self, service: str) -> Handler | None:
        return self.faults[service].pop(0) if self.faults[service] else None

    # The index

    def _index(self, question: dict[str, str]) -> Handler:
        self.questions.append(question)
        key = surt(question["url"])
        if (urlsplit(question["url"]).hostname or "") in self.excluded:
            return excluded()
        rows = [held.row() for held in self.held if surt(held.url) == key and self._is_listed(held)]
        rows = [row for row in rows if question.get("from", "") <= row["timestamp"] <= question.get("to", "9")]
        if "filter" in question:
            name, _, pattern = question["filter"].partition(":")
            rows = [row for row in rows if re.fullmatch(pattern, row[name])]
        if question.get("sort") == "closest":
            near = int(question["closest"].ljust(14, "0"))
            rows.sort(key=lambda row: abs(int(row["timestamp"]) - near))
        limit = int(question.get("limit", len(rows) or 1))
        if limit < 0:
            rows = rows[limit:] if self.counts_back else []
        return self._written([*([row[name] for name in self.fields] for row in rows[: abs(limit)]), *self.extra_rows])

    def _is_listed(self, held: Held) -> bool:
        held.looks -= 1
        return held.looks < 0

    def _written(self, rows: list[list[str]]) -> bytes:
        if self.form == "text":
            return reply("".join(" ".join(row) + "\n" for row in rows).encode(), content_type="text/plain")
        if self.form == "lines":
            renamed = {"original": "url", "mimetype": "mime", "statuscode": "status"}
            names = [renamed.get(name, name) for name in self.fields]
            lines = (json.dumps(dict(zip(names, row, strict=False))) + "\n" for row in rows)
            return reply("".join(lines).encode(), content_type="text/x-ndjson")
        return reply(json.dumps([list(self.fields), *rows] if rows else []).encode(), content_type="application/json")

    # The replay

    def _replay(self, timestamp: str, url: str) -> Handler:
        self.replayed.append(f"{timestamp}/{url}")
        if (urlsplit(url).hostname or "") in self.excluded:
            return excluded()
        near = int(timestamp.ljust(14, "0"))
        same = [held for held in self.held if surt(held.url) == surt(url)]
        if not same:
            return reply(b"<h1>Not archived</h1>", status="404 Not Found")
        held = min(same, key=lambda held: (abs(int(held.timestamp) - near), held.url != url))
        if held.timestamp != timestamp:
            return reply(status="302 Found", headers={"Location": f"/web/{held.timestamp}id_/{held.url}"})
        return delivered(held)


class ArchiveTransport(httpx.AsyncBaseTransport):
    """Sends the requests to an archive, at `host`, without sockets. Other hosts answer 404, or what `web` has for the URL.
    `asked` are (the loop's time, URL) of all requests."""

    def __init__(
        self, archive: FakeArchive, web: Mapping[str, bytes] | None = None, host: str = "archive.test"
    ) -> None:
        self.archive = archive
        self.host = host
        self.web = {} if web is None else web
        self.asked: list[tuple[float, str]] = []
        self.tasks: list[int] = []
        """How many tasks there were in the process at each request."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        target = request.extensions["target"].decode()
        self.tasks.append(len(asyncio.all_tasks()))
        self.asked.append((asyncio.get_running_loop().time(), f"{request.url.host}{target}"))
        handler = self.archive.get(target) if request.url.host == self.host else self.web.get(str(request.url))
        assert handler is None or isinstance(handler, bytes)
        head, _, body = (handler or reply(status="404 Not Found")).partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        headers = [(name, value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
        return httpx.Response(int(first.split(b" ")[1]), headers=headers, stream=httpx.ByteStream(body))

    def times(self, path: str) -> list[float]:
        """When this service was asked."""
        return [time for time, url in self.asked if url.startswith(self.host + path)]


SETTINGS = {"cdx_url": "http://archive.test/cdx", "wayback_url": "http://archive.test/web"}
"""The settings of the archive behind an ArchiveTransport, with the rates that they have by default."""


def most_in(times: list[float], seconds: float) -> int:
    """The most of these times in any window of that length."""
    return max((sum(first <= time < first + seconds - 1e-6 for time in times) for first in times), default=0)


def delivered(held: Held) -> bytes:
    """What the replay answers for a capture."""
    shown = held.repeats or held
    headers: dict[str, str | bytes] = dict(shown.headers)
    if held.is_proven:
        headers["X-Archive-Src"] = "one/one.warc.gz"
        with contextlib.suppress(ValueError):  # a time that does not exist
            headers["Memento-Datetime"] = http_date(held.timestamp)
    if shown.location is not None:
        headers["Location"] = shown.location
    elif shown.target is not None:
        headers["Location"] = f"/web/{held.timestamp}id_/{shown.target}"
    return reply(shown.body, status=f"{shown.status} As captured", content_type=shown.mimetype, headers=headers)


def excluded() -> bytes:
    return reply(
        b"Blocked Site Error",
        status="403 Forbidden",
        headers={
            "X-Archive-Wayback-Runtime-Error": "org.archive.util.io.RuntimeIOException: "
            "org.archive.wayback.exception.AdministrativeAccessControlException: Blocked Site Error"
        },
    )


def http_date(timestamp: str) -> str:
    from email.utils import format_datetime

    from datasette_ingest.ingest.fetch.cdx_rows import moment

    return format_datetime(moment(timestamp), usegmt=True)
