"""Several sources: the first that takes a URL and has it answers, and what it says of itself is the result's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest

from datasette_ingest.ingest import crawler, settings
from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.errors import (
    CdxError,
    ConnectError,
    IngestError,
    InvalidHostResolution,
    NoCapture,
    NotImplementedUrl,
    PutOff,
    SkipUrlBlocklist,
    TerminalBadStatus,
)
from datasette_ingest.ingest.fetch import SOURCES
from datasette_ingest.ingest.fetch.base import FetchRequest, FetchTrace, Resource, fetch_first, refusal
from datasette_ingest.ingest.http.body import Body
from datasette_ingest.ingest.model import IngestRequest, Terminal
from datasette_ingest.ingest.settings import CrawlSettings

from ..origin import PDF

LONG_AGO = datetime(2001, 2, 3, 4, 5, 6, tzinfo=timezone.utc)
LANDING = b'<html><head><meta name="citation_pdf_url" content="/a.pdf"></head></html>'


class Held:
    """A source that has these bodies, by URL; an exception instead of a body is raised."""

    def __init__(self, name: str, has: dict[str, bytes | Exception], takes: Callable[[str], bool] = bool) -> None:
        self.name = name
        self.has = has
        self.takes = takes
        self.asked: list[FetchRequest] = []
        self.is_closed = False

    def refuse(self, request: FetchRequest) -> IngestError | None:
        return None if self.takes(request.url) else NotImplementedUrl(f"{self.name} does not take {request.url}")

    async def fetch(self, request: FetchRequest, trace: FetchTrace) -> Resource:
        self.asked.append(request)
        trace.hops.append(request.url)
        body = self.has.get(request.url, TerminalBadStatus("gone", status_code=404))
        if isinstance(body, Exception):
            trace.terminal = Terminal(request.url, "20010203040506", getattr(body, "status_code", None))
            raise body
        return Resource(request.url, 200, self.name, LONG_AGO, Body(pieces=[body], size=len(body)), "text/html")

    async def aclose(self) -> None:
        self.is_closed = True


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Crawler]:
    """A crawler over these sources, in this order."""

    def made(*sources: Held, **given: Any) -> Crawler:
        names = tuple(source.name for source in sources)
        monkeypatch.setattr(settings, "SOURCES", names)
        registry = {source.name: lambda *_, source=source, **__: source for source in sources}
        monkeypatch.setattr(crawler, "SOURCES", registry)
        return Crawler(CrawlSettings(sources=names), **given)

    return made


async def ask(crawler: Crawler, url: str, **how: Any) -> Any:
    try:
        return await crawler.ingest(IngestRequest("pdf", url), **how)
    finally:
        await crawler.aclose()


# fetch_first


async def test_a_miss_of_one_source_leads_to_the_next(make: Any) -> None:
    first, second = Held("first", {}), Held("second", {"http://h/a": PDF})
    trace = FetchTrace()
    resource = await fetch_first([first, second], FetchRequest("http://h/a"), trace)
    assert (resource.via, trace.via, trace.hops) == ("second", "second", ["http://h/a"] * 2)


MISSES: dict[str, Exception] = {
    "no-capture": NoCapture("none"),
    "gone": TerminalBadStatus("gone", status_code=410),
    "404": TerminalBadStatus("missing", status_code=404),
    "no address": InvalidHostResolution("no address"),
    "refused": ConnectError("refused"),
    "index": CdxError("out of order"),
    "listed": SkipUrlBlocklist("on the blocklist"),
}


@pytest.mark.parametrize(
    ("first", "second", "stands"),
    [
        ("404", "no-capture", "404"),
        ("no-capture", "404", "404"),
        ("no-capture", "no-capture", "no-capture"),
        ("refused", "404", "refused"),
        ("404", "index", "index"),
        ("index", "refused", "refused"),
        ("gone", "no address", "no address"),
        ("404", "no address", "no address"),
        ("gone", "no-capture", "gone"),
    ],
)
async def test_of_several_misses_the_one_that_is_tried_again_soonest_stands(
    first: str, second: str, stands: str
) -> None:
    url = "http://h/a"
    sources = [
        Held("first", {url: MISSES[first]}),
        Held("second", {url: MISSES[second]}),
        Held("never", {}, lambda _: False),
    ]
    trace = FetchTrace()
    with pytest.raises(type(MISSES[stands])) as raised:
        await fetch_first(sources, FetchRequest(url), trace)
    assert (trace.via, trace.hop_sources) == ("second", ["first", "second"])
    assert trace.terminal == Terminal(url, "20010203040506", getattr(MISSES[stands], "status_code", None))
    assert str(MISSES[first]) in str(raised.value) and str(MISSES[second]) in str(raised.value)


async def test_what_our_own_settings_refuse_is_not_asked_for_elsewhere() -> None:
    first, second = Held("first", {"http://h/a": MISSES["listed"]}), Held("second", {"http://h/a": PDF})
    with pytest.raises(SkipUrlBlocklist):
        await fetch_first([first, second], FetchRequest("http://h/a"), FetchTrace())
    assert not second.asked


async def test_a_source_that_does_not_take_a_url_is_not_asked() -> None:
    first, second = Held("first", {}, lambda _: False), Held("second", {}, lambda _: False)
    request, trace = FetchRequest("http://h/a"), FetchTrace()
    refused = refusal([first, second], request)
    assert refused is not None and "first does not take" in refused.message
    with pytest.raises(NotImplementedUrl, match="first does not take"):
        await fetch_first([first, second], request, trace)
    assert (trace.via, first.asked, second.asked) == (None, [], [])
    assert refusal([first, Held("third", {})], request) is None


async def test_a_source_that_puts_a_row_off_is_not_passed_over() -> None:
    first, second = Held("first", {"http://h/a": PutOff(60, "later", counts=True)}), Held("second", {})
    with pytest.raises(PutOff):
        await fetch_first([first, second], FetchRequest("http://h/a"), FetchTrace())
    assert not second.asked


# The crawler over its sources


async def test_time_and_source_of_a_result_are_those_of_its_file_hop_by_hop(make: Any) -> None:
    archive, live = Held("archive", {"http://h/a": LANDING}), Held("live", {"http://h/a.pdf": PDF})
    result = await ask(make(archive, live), "http://h/a")
    assert (result.status, result.via, result.terminal_dt) == ("success", "live", "20010203040506")
    assert result.hops == ("http://h/a", "http://h/a.pdf", "http://h/a.pdf")
    assert archive.is_closed and live.is_closed


async def test_a_miss_names_the_last_source_that_was_asked(make: Any) -> None:
    archive, live = Held("archive", {"http://h/a": LANDING}), Held("live", {})
    result = await ask(make(archive, live), "http://h/a")
    assert (result.status, result.via) == ("terminal-bad-status", "live")


async def test_a_url_that_no_source_takes_is_answered_without_a_source(make: Any) -> None:
    result = await ask(make(Held("archive", {}, lambda url: "web" in url)), "http://h/a")
    assert (result.status, result.via, result.hops) == ("not-implemented", None, ())


async def test_a_call_may_choose_the_order(make: Any) -> None:
    archive, live = Held("archive", {"http://h/a.pdf": PDF}), Held("live", {"http://h/a.pdf": PDF})
    result = await ask(make(archive, live), "http://h/a.pdf", sources=("live", "archive"))
    assert (result.via, archive.asked) == ("live", [])


async def test_a_request_carries_what_an_archive_has_to_know(make: Any) -> None:
    archive = Held("archive", {"http://h/a.pdf": PDF})
    crawler = make(archive)
    await crawler.ingest(
        IngestRequest("pdf", "http://h/a.pdf", as_of="20200101", max_capture_age_days=30.0, force_recrawl=True)
    )
    await crawler.aclose()
    (request,) = archive.asked
    assert (request.as_of, request.max_capture_age_days, request.force_recrawl) == ("20200101", 30.0, True)


def test_the_setting_knows_the_sources_that_there_are() -> None:
    assert set(settings.SOURCES) == set(SOURCES)


# The live web


@pytest.mark.parametrize(
    ("url", "of_datasets", "refused"),
    [
        ("http://web.archive.org/web/2020/http://h/", True, True),
        ("http://archive.org/details/x", True, True),
        ("http://archive.org/metadata/x", True, False),
        ("http://archive.org/metadata/x", False, True),
        ("http://h/a", False, False),
        ("http://facebook.com/a", False, True),
    ],
)
async def test_the_live_web_is_not_asked_for_what_an_archive_holds(
    make_crawler: Any, url: str, of_datasets: bool, refused: bool
) -> None:
    live = make_crawler()._sources["live"]
    assert (live.refuse(FetchRequest(url, for_dataset=of_datasets)) is not None) is refused
