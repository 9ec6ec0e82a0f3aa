"""Crawlers for tests: quick, allowed to reach loopback, and checked to leave nothing open."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import hypothesis
import jsonschema
import pytest
import pytest_asyncio
import uvloop

from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.model import IngestRequest, IngestResult, json_schema
from datasette_ingest.ingest.settings import CrawlSettings

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile("ingest", deadline=None)
hypothesis.settings.load_profile("ingest")

EXTRA = inspect.signature(Crawler).parameters.keys() - {"settings"}


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """uvicorn runs on uvloop wherever it is installed, so what opens sockets is tested on both loops (`both_loops`)."""
    loops = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
    return loops if item.get_closest_marker("both_loops") else {"asyncio": asyncio.new_event_loop}


MakeCrawler = Callable[..., Crawler]

QUICK: dict[str, Any] = {
    "user_agent": "datasette-ingest/test",
    "per_host_delay": 0.0,
    "per_host_concurrency": 8,
    "robots": "ignore",
    "allow_networks": ("127.0.0.0/8",),
    "timeout": 2.0,
    "deadline": 5.0,
}

RESULT_SCHEMA = jsonschema.Draft202012Validator(json_schema("result"))


@pytest.fixture(autouse=True)
def every_result_is_valid_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a test makes a crawler answer: its JSON is of the published form, and is read back as the same result."""
    ingest = Crawler.ingest

    async def checked(self: Crawler, request: IngestRequest, **how: Any) -> IngestResult:
        result = await ingest(self, request, **how)
        document = json.loads(json.dumps(result.to_json(), allow_nan=False))
        RESULT_SCHEMA.validate(document)
        assert replace(IngestResult.from_json(document), request=request) == replace(
            result, fulltext=None, thumbnail=None
        )
        return result

    monkeypatch.setattr(Crawler, "ingest", checked)


@pytest_asyncio.fixture
async def make_crawler() -> AsyncIterator[MakeCrawler]:
    """`make_crawler(**settings)`; what the Crawler takes beside its settings by the same names."""
    made: list[Crawler] = []

    def make(**given: Any) -> Crawler:
        extra = {name: given.pop(name) for name in EXTRA & given.keys()}
        crawler = Crawler(CrawlSettings(**{**QUICK, **given}), **extra)
        made.append(crawler)
        return crawler

    yield make
    for crawler in made:
        await crawler.aclose()
        assert crawler._client.open_connections == 0, "a connection was left open"
        assert crawler._client.spooled == 0, "a spooled body was left behind"
        assert crawler._client.under_way == 0, "a request was left under way"


@pytest_asyncio.fixture
async def ingest(make_crawler: MakeCrawler) -> Callable[..., Any]:
    """`await ingest(url, "pdf")` with one quick crawler for the whole test."""
    crawler = make_crawler()

    async def ask(base_url: Any, ingest_type: str = "pdf", **fields: Any) -> IngestResult:
        return await crawler.ingest(IngestRequest(ingest_type, base_url, **fields))

    return ask
