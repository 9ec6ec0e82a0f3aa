"""Spn2Source against the capture service's every answer, in virtual time; the archive that holds the captures is a stub."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, TypeVar
from unittest import mock

import httpx
import pydantic
import pytest

from datasette_ingest.ingest.errors import (
    CdxError,
    IngestError,
    NoCapture,
    PutOff,
    RetryClass,
    WaybackError,
    retry_of_status,
)
from datasette_ingest.ingest.fetch import spn2
from datasette_ingest.ingest.fetch.base import FetchRequest, FetchTrace, Resource, SourceSetup
from datasette_ingest.ingest.fetch.cdx_rows import CdxRow, moment
from datasette_ingest.ingest.fetch.memory import Memory
from datasette_ingest.ingest.fetch.spn2 import Spn2Source
from datasette_ingest.ingest.fetch.spn2_captures import LIMIT_SECONDS, Spn2Captures
from datasette_ingest.ingest.http.body import Body
from datasette_ingest.ingest.http.politeness import ServiceRates
from datasette_ingest.ingest.model import IngestRequest
from datasette_ingest.ingest.policy import Policy
from datasette_ingest.ingest.settings import CrawlSettings

from ... import virtual
from ..conftest import MakeCrawler
from ..origin import PDF, Origin
from .fakes.spn import SAME_SNAPSHOT, SESSIONS, CapturingArchive, Play, SavePageNow, Transport, page, too_many

T = TypeVar("T")
URL = "http://h.example/a"
SERVICE = "http://spn.example/save"
KEY = pydantic.SecretStr("access")
SECRET = pydantic.SecretStr("secret")


@dataclass
class Shelf:
    """The archive: the captures that were made. `late`: how often the index is asked before it lists one."""

    made: dict[tuple[str, str], int] = field(default_factory=dict)
    late: int = 0
    index_fails: bool = False
    replay_fails: bool = False
    looks: int = 0

    def __call__(self, setup: Any) -> Shelf:
        return self

    @property
    def index(self) -> Shelf:
        return self

    def add(self, url: str, timestamp: str) -> None:
        self.made[url, timestamp] = self.late

    async def exact(self, url: str, timestamp: str, *, status: int | None = None, turn: Any = None) -> CdxRow | None:
        self.looks += 1
        if self.index_fails:
            raise CdxError("the index is away")
        left = self.made.get((url, timestamp))
        if left is None or left > 0:
            self.made[url, timestamp] = (left or 1) - 1
            return None
        return CdxRow(url, timestamp, 200, "text/html")

    async def follow(self, row: CdxRow, request: FetchRequest, trace: FetchTrace, *, via: str) -> Resource:
        if self.replay_fails:
            raise WaybackError(f"the archive does not deliver {row.url}")
        body = Body(pieces=[b"<html>x</html>"], size=14)
        return Resource(row.url, 200, via, moment(row.timestamp), body, "text/html", cdx=row.record())

    async def fetch(self, request: FetchRequest, trace: FetchTrace) -> Resource:
        for url, timestamp in self.made:
            if url == request.url:
                return await self.follow(CdxRow(url, timestamp, 200), request, trace, via="wayback")
        raise NoCapture(f"nothing of {request.url}")

    async def aclose(self) -> None: ...


@dataclass
class World:
    """A capture service, an archive, and what a process knows. `stored`: what a database would hold."""

    service: SavePageNow
    shelf: Shelf
    captures: Spn2Captures = field(default_factory=Spn2Captures)
    stored: dict[str, Any] = field(default_factory=dict)
    sources: list[Spn2Source] = field(default_factory=list)

    def source(self, *, patience: float | None = 60.0, **given: Any) -> Spn2Source:
        keys = {"spn2_access_key": KEY, "spn2_secret_key": SECRET}
        settings = CrawlSettings(sources=("spn2",), spn2_url=SERVICE, **(keys | given))
        transport = Transport({SERVICE: self.service.answer})
        setup = SourceSetup(
            settings,
            Policy(),
            mock.Mock(),
            ServiceRates(),
            lambda: datetime.fromtimestamp(time.time(), timezone.utc),
            self.captures,
            patience,
            transport,
        )
        self.sources.append(Spn2Source(setup))
        return self.sources[-1]

    def memory(self) -> Memory:
        async def load(key: str) -> Any:
            return self.stored.get(key)

        return Memory(load)

    async def attempt(self, source: Spn2Source, url: str = URL, **how: Any) -> Resource:
        """One try of a row; what it remembers is stored."""
        memory = self.memory()
        try:
            return await source.fetch(FetchRequest(url, memory=memory, **how), FetchTrace())
        finally:
            for key, (value, _) in memory.changes.items():
                self.stored[key] = value

    async def until_done(self, source: Spn2Source, url: str = URL, **how: Any) -> Resource:
        """Tries of a row, each when the last one said."""
        while True:
            try:
                return await self.attempt(source, url, **how)
            except PutOff as put_off:  # noqa: PERF203 - the next try is the next turn
                await asyncio.sleep(put_off.seconds)

    async def ending(self, url: str = URL, **given: Any) -> str:
        """The status with which a row ends."""
        try:
            resource = await self.until_done(self.source(**given), url)
        except IngestError as error:
            assert URL in error.message
            return error.status
        assert resource.via == "spn2"
        return "success"


def play(main: Callable[[World], Awaitable[T]], *, shelf: Shelf | None = None, **service: Any) -> tuple[T, World]:
    """What `main` returns, run in virtual time, and the world that it left."""
    archive = shelf or Shelf()
    world = World(SavePageNow(captured=archive.add, **service), archive)

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[None]:
        try:
            yield
        finally:
            for source in world.sources:
                await source.aclose()

    async def run(clock: virtual.Clock) -> T:
        with mock.patch("time.time", clock), mock.patch.object(spn2, "WaybackSource", archive):
            async with opened():
                return await main(world)

    return virtual.run(run), world


# From the start to the capture


def test_a_url_is_captured_and_the_capture_is_the_answer() -> None:
    async def main(world: World) -> Resource:
        return await world.until_done(world.source())

    resource, world = play(main)
    assert (resource.url, resource.via, resource.status_code) == (URL, "spn2", 200)
    assert (
        resource.cdx is not None
        and resource.cdx.datetime == world.service.jobs[next(iter(world.service.jobs))].timestamp
    )
    assert world.service.forms == [
        {
            "url": URL,
            "capture_all": "1",
            "skip_first_archive": "1",
            "js_behavior_timeout": "0",
            "if_not_archived_within": "14d",
        }
    ]


def test_requests_ask_for_json_and_no_two_questions_are_alike() -> None:
    asked: list[httpx.Request] = []

    async def main(world: World) -> None:
        answer = world.service.answer

        def noted(request: httpx.Request, path: str) -> httpx.Response:
            asked.append(request)
            return answer(request, path)

        with mock.patch.object(world.service, "answer", noted):
            await world.until_done(world.source())

    play(main)
    questions = [request.url.params["_t"] for request in asked if request.method == "GET"]
    assert len(set(questions)) == len(questions) > 2
    assert {request.headers["accept"] for request in asked} == {"application/json"}


def test_a_url_that_is_to_be_fetched_again_takes_no_capture_of_days_ago() -> None:
    async def main(world: World) -> Resource:
        return await world.until_done(world.source(), force_recrawl=True)

    _, world = play(main)
    assert "if_not_archived_within" not in world.service.forms[0]


@pytest.mark.parametrize(("days", "sent"), [(3.5, "3d"), (0.2, "4h"), (100.0, "14d"), (0.03, None), (0.0, None)])
def test_the_age_that_a_capture_may_have_is_asked_for(days: float, sent: str | None) -> None:
    async def main(world: World) -> Resource:
        return await world.until_done(world.source(max_capture_age_days=days))

    _, world = play(main)
    assert world.service.forms[0].get("if_not_archived_within") == sent


def test_polls_are_further_and_further_apart() -> None:
    async def main(world: World) -> Resource:
        return await world.until_done(world.source())

    _, world = play(main, plays={URL: Play(seconds=100)})
    times = [at for at, method, path in world.service.requests if path.startswith("/status/spn2-")]
    gaps = [round(after - before) for before, after in itertools.pairwise(times)]
    assert gaps == [6, 12, 24, 30, 30]


def test_a_single_url_is_waited_for() -> None:
    async def main(world: World) -> Resource:
        return await world.attempt(world.source(patience=None))

    resource, _ = play(main, plays={URL: Play(seconds=50)})
    assert resource.via == "spn2"


def test_the_final_url_of_a_capture_is_the_answer() -> None:
    async def main(world: World) -> tuple[Resource, list[str]]:
        source, trace, memory = world.source(patience=None), FetchTrace(), world.memory()
        return await source.fetch(FetchRequest(URL, memory=memory), trace), trace.hops

    (resource, hops), _ = play(main, plays={URL: Play(final="https://h.example/b")})
    assert (resource.url, hops) == ("https://h.example/b", [URL, "https://h.example/b"])


def test_a_reused_capture_has_the_time_of_the_original() -> None:
    async def main(world: World) -> Resource:
        return await world.until_done(world.source())

    resource, world = play(main, plays={URL: Play(reuses=True)})
    assert resource.cdx is not None and len(resource.cdx.datetime) == 14
    assert any("original-" in path for _, _, path in world.service.requests)


def test_an_index_that_lists_the_capture_late_is_asked_again_for_nine_seconds() -> None:
    async def main(world: World) -> tuple[str, int]:
        return await world.ending(), world.shelf.looks

    assert play(main, shelf=Shelf(late=2))[0] == ("success", 3)
    assert play(main, shelf=Shelf(late=3))[0] == ("success", 4)
    assert play(main, shelf=Shelf(late=4))[0] == ("spn2-cdx-lookup-failure", 4)


def test_a_capture_that_the_index_lists_after_the_row_has_ended_is_not_made_again() -> None:
    async def main(world: World) -> list[str]:
        found = [await world.ending()]
        await asyncio.sleep(60)
        return [*found, await world.ending()]

    (first, second), world = play(main, shelf=Shelf(late=4))
    assert (first, second) == ("spn2-cdx-lookup-failure", "success")
    assert world.service.begun == {URL: 1}


@pytest.mark.parametrize(
    ("shelf", "status"),
    [
        (Shelf(index_fails=True), "spn2-cdx-lookup-failure"),
        (Shelf(replay_fails=True), "spn2-wayback-error"),
    ],
)
def test_a_capture_that_the_archive_does_not_give_has_a_status_of_its_own(shelf: Shelf, status: str) -> None:
    assert play(lambda world: world.ending(), shelf=shelf)[0] == status


def test_what_another_version_has_remembered_is_as_if_nothing_was() -> None:
    async def main(world: World) -> str:
        world.stored[f"spn2 {URL}"] = {"job": 5}
        assert spn2.remembered(world.stored) == {}
        return await world.ending()

    assert play(main)[0] == "success"


def test_a_row_that_has_had_a_response_gets_a_place_before_those_that_have_had_none() -> None:
    async def main(world: World) -> tuple[float, float]:
        source = world.source(spn2_concurrency=1)
        for number in range(50):
            with pytest.raises(PutOff) as new:
                await world.attempt(source, f"http://h.example/{number}")
        with pytest.raises(PutOff) as old:
            await world.attempt(source, "http://h.example/file", priority=True)
        return new.value.seconds, old.value.seconds

    (new, old), _ = play(main)
    assert new > 500 and old < 30


# Failures


@pytest.mark.parametrize(
    ("code", "status", "retry"),
    [
        ("invalid-url", "invalid-url", "never"),
        ("not-found", "not-found", "never"),
        ("no-access", "forbidden", "never"),
        ("forbidden", "forbidden", "never"),
        ("invalid-host-resolution", "invalid-host-resolution", "later"),
        ("gateway-timeout", "gateway-timeout", "soon"),
        ("read-timeout", "read-timeout", "soon"),
        ("too-many-redirects", "too-many-redirects", "never"),
        ("internal-server-error", "remote-server-error", "soon"),
        *(
            (code, f"spn2-error:{code}", "soon")
            for code in [
                "too-many-requests",
                "service-unavailable",
                "cannot-fetch",
                "no-browsers-available",
                "celery",
                "proxy-error",
                "job-failed",
                "browsing-timeout",
                "soft-time-limit-exceeded",
                "protocol-error",
                "bad-gateway",
                "capture-location-error",
                "no-captures",
                "500",
                "host-crawling-paused",
                "browser-running-error",
                "never-seen-before",
            ]
        ),
        *(
            (code, f"spn2-error:{code}", "never")
            for code in [
                "blocked-url",
                "blocked",
                "blocked-client-ip",
                "invalid-url-syntax",
                "invalid-server-response",
                "unauthorized",
                "bad-request",
                "filesize-limit",
                "ftp-access-denied",
                "method-not-allowed",
                "not-implemented",
                "http-version-not-supported",
                "network-authentication-required",
                "bandwidth-limit-exceeded",
                "unknown",
            ]
        ),
        ("", "spn2-error", "soon"),
    ],
)
def test_each_code_has_its_status_and_its_retry_class(code: str, status: str, retry: str) -> None:
    async def main(world: World) -> IngestError:
        with pytest.raises(IngestError) as caught:
            await world.until_done(world.source())
        return caught.value

    error, world = play(main, plays={URL: Play(code=code, message="Because of this")})
    assert (error.status, error.retry) == (status, RetryClass(retry))
    assert retry_of_status(status, None) is RetryClass(retry)
    assert URL in error.message and "Because of this" in error.message
    assert world.captures.open(0) == 0


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (Play(final="/cut"), "spn2-success-partial-url"),
        (Play(final=""), "spn2-success-partial-url"),
        (Play(final="ftp://h.example/a"), "spn2-no-ftp"),
        (Play(final="http://facebook.com/a"), "skip-url-blocklist"),
        (Play(seconds=10_000), "spn2-error"),
    ],
)
def test_a_capture_that_cannot_be_used_has_a_status_that_says_why(given: Play, status: str) -> None:
    async def main(world: World) -> str:
        try:
            await world.until_done(world.source())
        except IngestError as error:
            return error.status
        return "success"

    assert play(main, plays={URL: given})[0] == status


def test_a_capture_that_is_pending_for_ever_ends_after_three_minutes() -> None:
    async def main(world: World) -> float:
        began = time.time()
        assert await world.ending() == "spn2-error"
        return time.time() - began

    took, world = play(main, plays={URL: Play(seconds=10_000)})
    assert LIMIT_SECONDS <= took <= LIMIT_SECONDS + 1
    assert len(world.service.requests) < 15


@pytest.mark.parametrize(
    "answer",
    [
        page(),
        httpx.Response(502),
        httpx.Response(200, content="[" * 200_000),
        {"url": URL},
        {"status": "error", "message": "Oh"},
        {"status": "error", "status_ext": "error:blocked-url", "message": "no"},
        {},
    ],
)
def test_a_start_without_a_capture_ends_the_row(answer: Any) -> None:
    async def main(world: World) -> str:
        world.service.script(answer)
        return await world.ending()

    has_code = isinstance(answer, dict) and "status_ext" in answer
    assert play(main)[0] == ("spn2-error:blocked-url" if has_code else "spn2-error")


def test_while_the_service_is_away_other_rows_wait_and_do_not_fail() -> None:
    async def main(world: World) -> str:
        world.service.script(page(), path="/status/user", method="GET")
        assert await world.ending() == "spn2-error"
        with pytest.raises(PutOff) as caught:
            await world.attempt(world.source(), "http://h.example/b")
        assert (await world.until_done(world.source(), "http://h.example/b")).via == "spn2"
        return caught.value.reason

    reason, _ = play(main)
    assert reason.startswith("spn.example takes no captures now: it answers with a page instead of JSON")


def test_a_poll_that_fails_does_not_end_the_capture() -> None:
    async def main(world: World) -> str:
        world.service.script(page(), too_many(20), {"status": "who knows"}, path="/status/spn2-", method="GET")
        return await world.ending()

    status, world = play(main)
    assert status == "success" and world.service.begun == {URL: 1}


# Refusals


REFUSALS: dict[str, tuple[str, str, Any]] = {
    "no place": ("GET", "/status/user", {"available": 0}),
    "the last place": ("GET", "/status/user", {"available": 1}),
    "429 to the question": ("GET", "/status/user", too_many()),
    "429 to the start": ("POST", "", too_many(120)),
    "session limit": ("POST", "", {"url": URL, "message": SESSIONS}),
    "session limit as a code": ("POST", "", {"status": "error", "status_ext": "error:user-session-limit"}),
    "captures of the day": (
        "GET",
        "/status/user",
        {"available": 5, "daily_captures": 30_000, "daily_captures_limit": 30_000},
    ),
    "captures of the URL": ("POST", "", {"status": "error", "status_ext": "error:too-many-daily-captures"}),
    "bandwidth": ("POST", "", {"status": "error", "status_ext": "error:max-daily-bandwidth"}),
    "bandwidth of the host": ("POST", "", {"status": "error", "status_ext": "error:max-daily-bandwidth-host"}),
    "captures of the address": (
        "POST",
        "",
        {"status": "error", "status_ext": "error:too-many-daily-captures-from-ip"},
    ),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_refusal_puts_the_row_off_and_fails_nothing(kind: str) -> None:
    method, path, answer = REFUSALS[kind]

    async def main(world: World) -> tuple[PutOff, float, str]:
        world.service.script(answer, answer, path=path, method=method)
        source = world.source()
        with pytest.raises(PutOff) as caught:
            await world.attempt(source)
        return caught.value, time.time(), (await world.until_done(source)).via

    (put_off, now, via), world = play(main)
    assert via == "spn2" and world.service.begun == {URL: 1}
    assert not put_off.counts and put_off.begun == ("spn2", URL)
    if kind.startswith(("captures", "bandwidth")):
        assert time.gmtime(now + put_off.seconds).tm_yday != time.gmtime(now).tm_yday
        assert put_off.seconds <= 24 * 3600 + 120
    else:
        assert (120 if kind == "429 to the start" else 30) <= put_off.seconds < 150
    assert put_off.reason.startswith("spn.example") and URL not in put_off.reason


@pytest.mark.parametrize("kind", ["captures of the URL", "bandwidth of the host"])
def test_a_limit_of_one_url_stops_no_other(kind: str) -> None:
    method, path, answer = REFUSALS[kind]

    async def main(world: World) -> float:
        world.service.script(answer, path=path, method=method)
        source, began = world.source(), time.time()
        with pytest.raises(PutOff):
            await world.attempt(source)
        await world.until_done(source, "http://other.example/")
        return time.time() - began

    assert play(main)[0] < 60


def test_a_capture_that_ends_with_a_limit_is_begun_again_later() -> None:
    async def main(world: World) -> str:
        limit = {"status": "error", "status_ext": "error:user-session-limit", "message": "too many"}
        world.service.script(limit, path="/status/spn2-", method="GET")
        return await world.ending()

    assert play(main)[0] == "success"


def test_refusals_in_a_row_make_longer_pauses_and_a_capture_ends_that() -> None:
    async def main(world: World) -> list[float]:
        world.service.script(*[too_many()] * 6)
        await world.until_done(world.source())
        return [at for at, method, _ in world.service.requests if method == "POST"]

    times, _ = play(main)
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert gaps == sorted(gaps) and gaps[0] >= 30 and gaps[-1] >= 480


def test_a_single_url_is_not_kept_waiting_until_tomorrow() -> None:
    method, path, answer = REFUSALS["captures of the day"]

    async def main(world: World) -> IngestError:
        world.service.script(answer, path=path, method=method)
        with pytest.raises(IngestError) as caught:
            await world.attempt(world.source(patience=None))
        return caught.value

    error, _ = play(main)
    assert (error.status, error.retry) == ("spn2-backoff", RetryClass.NOW)
    assert error.retry_after is not None and error.retry_after > 600


def test_the_message_of_a_recent_capture_leads_to_that_capture() -> None:
    async def main(world: World) -> tuple[str, str]:
        world.service.script({"url": URL, "message": SAME_SNAPSHOT}, {"url": URL, "message": SAME_SNAPSHOT})
        missing = await world.ending()
        world.shelf.add(URL, "20260101000000")
        return missing, await world.ending()

    (missing, found), world = play(main)
    assert (missing, found) == ("spn2-recent-capture", "success")
    assert not world.service.begun


# Places


def test_no_more_captures_are_open_than_the_setting_says() -> None:
    async def main(world: World) -> list[Resource]:
        source = world.source(spn2_concurrency=3)
        return await asyncio.gather(*(world.until_done(source, f"http://h.example/{n}") for n in range(40)))

    resources, world = play(main)
    assert len({resource.url for resource in resources}) == 40
    assert world.service.most_open == 3 and world.service.begun.total() == 40


def test_no_more_captures_are_open_than_the_service_has_places_for() -> None:
    async def main(world: World) -> list[Resource]:
        source = world.source()
        return await asyncio.gather(*(world.until_done(source, f"http://h.example/{n}") for n in range(40)))

    _, world = play(main, places=4)
    assert world.service.most_open == 3, "one is left for the person whose account it is"


def test_places_are_taken_by_captures_that_nobody_has_asked_for_since() -> None:
    async def main(world: World) -> PutOff:
        source = world.source(spn2_concurrency=2)
        for n in range(2):
            with pytest.raises(PutOff):
                await world.attempt(source, f"http://h.example/{n}")
        world.captures = Spn2Captures()  # the process was killed
        world.captures.adopt(spn2.remembered(world.stored), time.time())
        with pytest.raises(PutOff) as caught:
            await world.attempt(world.source(spn2_concurrency=2), "http://h.example/9")
        return caught.value

    put_off, world = play(main)
    assert put_off.reason == "spn.example: waiting for a place for a capture"
    assert world.service.begun.total() == 2


def test_a_killed_process_asks_for_the_state_and_captures_nothing_again() -> None:
    async def main(world: World) -> Resource:
        with pytest.raises(PutOff):
            await world.attempt(world.source())
        world.captures = Spn2Captures()
        return await world.until_done(world.source())

    _, world = play(main)
    assert world.service.begun == {URL: 1} and world.service.posts() == 1


def test_a_capture_is_forgotten_when_the_service_has_forgotten_it() -> None:
    async def main(world: World) -> Resource:
        with pytest.raises(PutOff):
            await world.attempt(world.source())
        world.captures = Spn2Captures()
        await asyncio.sleep(2 * 3600)
        return await world.until_done(world.source())

    _, world = play(main)
    assert world.service.posts() == 2


def test_rows_that_want_one_url_share_one_capture_and_its_polls() -> None:
    async def main(world: World) -> list[Resource]:
        source = world.source()
        return await asyncio.gather(*(world.until_done(source) for _ in range(300)))

    resources, world = play(main)
    assert len(resources) == 300 and world.service.begun == {URL: 1} and world.service.posts() == 1
    assert len(world.service.requests) < 8


def test_rows_that_want_one_url_share_its_failure() -> None:
    async def main(world: World) -> list[str]:
        source = world.source()

        async def ending() -> str:
            try:
                await world.until_done(source)
            except IngestError as error:
                return error.status
            return "success"

        return await asyncio.gather(*(ending() for _ in range(20)))

    statuses, world = play(main, plays={URL: Play(code="not-found")})
    assert set(statuses) == {"not-found"} and world.service.posts() == 1


# What is not given to an archive


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("http://web.archive.org/web/2020/http://h/", "not-implemented"),
        ("https://archive.org/details/x", "not-implemented"),
        ("http://user:pw@h.example/a", "not-implemented"),
        ("http://127.0.0.1/a", "forbidden-address"),
        ("http://[::1]/a", "forbidden-address"),
        ("http://10.1.2.3:8080/a", "forbidden-address"),
        ("http://localhost/a", "forbidden-address"),
        ("http://intranet/a", "forbidden-address"),
        ("http://facebook.com/a", "skip-url-blocklist"),
        ("http://8.8.8.8/a", None),
        ("http://h.example/a", None),
    ],
)
def test_what_is_private_or_archived_already_is_not_captured(url: str, status: str | None) -> None:
    async def main(world: World) -> IngestError | None:
        return world.source().refuse(FetchRequest(url))

    refusal = play(main)[0]
    assert (None if refusal is None else refusal.status) == status
    assert refusal is None or "pw" not in refusal.message


def test_a_file_of_a_dataset_is_not_captured() -> None:
    async def main(world: World) -> IngestError | None:
        return world.source().refuse(FetchRequest(URL, for_dataset=True))

    refusal = play(main)[0]
    assert refusal is not None and refusal.status == "not-implemented"


# Keys


def test_without_keys_there_is_no_source() -> None:
    async def main(world: World) -> None:
        with pytest.raises(ValueError, match="spn2_access_key and spn2_secret_key"):
            world.source(spn2_secret_key=None)

    play(main)


def test_wrong_keys_are_named_as_the_reason() -> None:
    async def main(world: World) -> str:
        with pytest.raises(IngestError) as caught:
            await world.until_done(world.source())
        return caught.value.message

    message, _ = play(main, credentials="LOW other:other")
    assert "spn2_access_key and spn2_secret_key are not accepted" in message and "secret:" not in message


async def test_no_log_of_the_http_libraries_holds_the_keys(
    make_crawler: MakeCrawler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    archive = CapturingArchive({}, lambda url, time: None)
    archive.spn.credentials = "LOW accessKEY4711:secretKEY0815"
    archive.spn.captured = lambda url, time: archive.add(url, time, PDF) and None
    with mock.patch.object(spn2, "FIRST_POLL", 0.0):
        async with Origin(archive) as site:
            crawler = make_crawler(**archive.settings(site))
            result = await crawler.ingest(IngestRequest("pdf", URL))
    assert result.hit and any("httpcore" in record.name for record in caplog.records)
    assert "accessKEY4711" not in caplog.text and "secretKEY0815" not in caplog.text
    assert "KEY" not in repr(crawler.settings) + str(crawler.settings.model_dump())
