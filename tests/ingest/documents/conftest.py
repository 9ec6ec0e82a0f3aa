"""Crawlers with the processors of their settings, and a pool without processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.documents.registry import processors_of
from datasette_ingest.ingest.settings import CrawlSettings


class Here:
    """Stands for a ProcessPool, and does its work at once in this process. With `problem` no call comes to an end."""

    def __init__(self) -> None:
        self.problem: Exception | None = None

    async def run(self, function: Callable[..., Any], *args: Any, seconds: float | None = None) -> Any:
        if self.problem is not None:
            raise self.problem
        return function(*args)

    async def aclose(self) -> None: ...


@pytest.fixture
def make_reading_crawler(make_crawler: Any) -> Any:
    """As `make_crawler`, with processors and `crawler.pool` a Here."""

    def make(**given: Any) -> Crawler:
        settings = CrawlSettings(**{name: value for name, value in given.items() if name != "sinks"})
        crawler: Crawler = make_crawler(**given, processors=processors_of(settings), pool=Here())
        return crawler

    return make
