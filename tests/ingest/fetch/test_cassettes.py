"""Exchanges with the Internet Archive that others recorded (edgi-govdata-archiving/wayback), played again."""

from __future__ import annotations

import asyncio
import json
import pathlib
from typing import Any

import httpx
import pytest
import yaml

from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.fetch.cdx_rows import CdxRow, read_rows
from datasette_ingest.ingest.model import IngestRequest, IngestResult
from datasette_ingest.ingest.settings import CrawlSettings

BIRDS = "https://web.archive.org/web/20171124151315/https://www.fws.gov/birds/"
FIRST = {
    "raises_blocked_error": "https://web.archive.org/web/20170929002712/https://nationalpost.com/health/",
    "raises_for_mementos_that_redirect_in_a_loop": "https://web.archive.org/web/20200925075402/"
    "https://link.springer.com/article/10.1007/s00382-012-1331-2",
    "raises_no_memento_error": "https://web.archive.org/web/20170929002712/https://this-is-not-real-url.whatever/",
    "with_path_based_redirects": "https://web.archive.org/web/20201027215555/"
    "https://www.whitehouse.gov/administration/eop/ostp/about/student/faqs",
    "with_schemeless_redirects": "https://web.archive.org/web/20201102232816/"
    "https://www.census.gov/geography/gss-initiative.html",
}


class Cassette:
    """Answers each recorded request as it was answered, and others with 404.

    `any_index`: what the index answers, whatever it is asked.
    """

    def __init__(self, path: pathlib.Path, any_index: httpx.Response | None = None) -> None:
        self.any_index = any_index
        self.asked: list[str] = []
        self.answers: dict[str, httpx.Response] = {}
        for exchange in yaml.load(path.read_text("utf-8"), yaml.CSafeLoader)["interactions"]:
            said = exchange["response"]
            headers = [
                (name, value)
                for name, values in said["headers"].items()
                for value in values
                if name.lower() not in ("transfer-encoding", "connection", "content-length")
            ]
            text = said["body"]["string"]
            body = text if isinstance(text, bytes) else text.encode()
            self.answers[exchange["request"]["uri"]] = httpx.Response(
                said["status"]["code"], headers=headers, stream=httpx.ByteStream(body)
            )

    def __call__(self, request: httpx.Request) -> httpx.Response:
        url = f"https://web.archive.org{request.extensions['target'].decode()}"
        self.asked.append(url)
        if self.any_index is not None and "/cdx/" in url:
            return self.any_index
        return self.answers.get(url, httpx.Response(404))

    async def ask(self, url: str, as_of: str | None = None, **settings: Any) -> IngestResult:
        rates = {"cdx_per_minute": 1e7, "replay_per_minute": 1e7}
        crawler = Crawler(CrawlSettings(**{**rates, **settings}), transport=httpx.MockTransport(self))
        try:
            return await crawler.ingest(IngestRequest("html", url, as_of=as_of))
        finally:
            await crawler.aclose()


@pytest.mark.parametrize(
    ("name", "status", "terminal"),
    [
        ("raises_blocked_error", "wayback-content-error", None),
        ("raises_no_memento_error", "no-capture", ("https://this-is-not-real-url.whatever/", None, None)),
        (
            "raises_for_mementos_that_redirect_in_a_loop",
            "redirect-loop",
            ("https://idp.springer.com/authorize", "20200925075411", 302),
        ),
        (
            "with_path_based_redirects",
            "terminal-bad-status",
            ("https://www.whitehouse.gov/ostp/about/student/faqs", "20201027220743", 404),
        ),
        (
            "with_schemeless_redirects",
            "terminal-bad-status",
            ("https://www.census.gov/geo/gssi/", "20201102233026", 404),
        ),
        ("with_archive_url", "wrong-scope", ("https://www.fws.gov/birds/", "20171124151315", 200)),
        ("with_cdx_record", "wrong-scope", ("https://www.fws.gov/birds/", "20171124151315", 200)),
        ("with_mode", "wrong-scope", ("https://www.fws.gov/birds/", "20171124151315", 200)),
        ("with_mode_string", "wrong-scope", ("https://www.fws.gov/birds/", "20171124151315", 200)),
    ],
)
async def test_recorded_captures(fixtures: pathlib.Path, name: str, status: str, terminal: Any) -> None:
    cassette = Cassette(fixtures / "wayback" / f"test_get_memento_{name}.yaml")
    result = await cassette.ask(FIRST.get(name, BIRDS))
    found = result.terminal
    assert result.status == status
    assert terminal == (found and (found.url.partition("?")[0], found.dt, found.status_code))
    assert not set(cassette.asked) - set(cassette.answers), "only what was recorded is asked for"


def index_answers(path: pathlib.Path) -> list[httpx.Response]:
    return [answer for url, answer in Cassette(path).answers.items() if "/cdx/" in url]


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("test_search_does_not_repeat_results", [15]),
        ("test_search_with_date", [1000, 1000, 245]),
        ("test_search_with_filter_list", [10, 6]),
        ("test_memento_rate_limits", [1000]),
    ],
)
def test_recorded_lists_of_captures_are_read_to_their_end(fixtures: pathlib.Path, name: str, counts: list[int]) -> None:
    """The key of the next page, after an empty line, is no capture."""
    answers = index_answers(fixtures / "wayback" / f"{name}.yaml")
    found = [read_rows(asyncio.run(answer.aread()).decode()) for answer in answers]
    assert [len(rows) for rows in found] == counts
    assert all(row.url.startswith("http") and row.captured_at.year > 1995 for rows in found for row in rows)


async def test_a_recorded_site_that_is_blocked(fixtures: pathlib.Path) -> None:
    (answer,) = index_answers(fixtures / "wayback" / "test_search_raises_for_blocked_urls.yaml")
    cassette = Cassette(fixtures / "wayback" / "test_search_raises_for_blocked_urls.yaml", any_index=answer)
    result = await cassette.ask("https://nationalpost.com/health", sources=("wayback",))
    assert (result.status, len(cassette.asked)) == ("wayback-content-error", 1)


async def test_a_recorded_list_and_a_recorded_capture(fixtures: pathlib.Path) -> None:
    path = fixtures / "wayback" / "test_memento_rate_limits.yaml"
    (answer,) = index_answers(path)
    cassette = Cassette(path, any_index=answer)
    result = await cassette.ask("http://www.zew.de/", sources=("wayback",), as_of="1997-04-27")
    assert (result.terminal_url, result.terminal_dt, result.terminal_status_code) == (
        "http://www.zew.de/",
        "19970427191925",
        200,
    )
    assert result.cdx is not None and result.cdx.sha1hex == result.terminal_sha1hex


def test_recorded_rows_with_times_that_do_not_exist_are_left_out(fixtures: pathlib.Path) -> None:
    rows = read_rows((fixtures / "wayback" / "bad_timestamp_cdx.txt").read_text())
    assert [row.timestamp for row in rows] == ["20011120210446", "20000125210430", "20000311052312"]


def test_recorded_rows_without_a_length(fixtures: pathlib.Path) -> None:
    rows = read_rows((fixtures / "wayback" / "zero_length_cdx.txt").read_text())
    assert [row.length for row in rows] == [24186, 24028, 24116, 24217, None]


def test_recorded_answers_of_another_index_are_read(fixtures: pathlib.Path) -> None:
    """Common Crawl's: an object a line, or an object that says that there is nothing."""
    found: list[CdxRow] = []
    for path in sorted((fixtures / "cdx").glob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            exchange = json.loads(line)
            asked = exchange["request_params"] or {}
            if "output" in asked and exchange["response_status_code"] == 200 and "showNumPages" not in asked:
                found += read_rows(exchange["response_text"])
    assert len(found) == 94 and all(row.sha1hex and row.captured_at.year > 2000 for row in found)
    assert sum(row.filename is not None and row.offset is not None for row in found) == 93
