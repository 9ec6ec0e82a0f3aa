"""Pages, answers and cells that went wrong in the field, each with its right answer. CASES.md beside them says why.

A kind that is not mended yet is named in PENDING: its cases must fail, so that whoever mends it takes it out of there.
"""

from __future__ import annotations

import csv
import gzip
import json
import pathlib
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import pytest

from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.model import IngestRequest
from datasette_ingest.ingest.settings import CrawlSettings

from ..conftest import fixtures_folder
from .conftest import MakeCrawler
from .origin import PDF, Handler, Origin, Raw, Request, pdf, reply

FOLDER = fixtures_folder() / "reports"
PENDING = frozenset(f"K{number}" for number in range(1, 18) if number not in (1, 2, 3, 4, 6))
"""Kinds of which a case is still wrong."""


def lines_of(name: str) -> str:
    path = FOLDER / name
    return path.read_text("utf-8") if path.is_file() else ""


def marked(case: Any, name: str, kind: str, *, is_control: bool) -> Any:
    is_pending = kind in PENDING and not is_control
    return pytest.param(case, id=name, marks=pytest.mark.xfail(strict=True, reason=kind) if is_pending else ())


def cases() -> list[Any]:
    found = json.loads(lines_of("cases.json") or "[]")
    return [marked(case, case["id"], case["kind"], is_control="control" in case) for case in found]


CONTROL_CELLS = ("(ADDENDUM)", "series-12/", "(SICI)", "doi.org/10/", "10/31/")


def cells() -> list[Any]:
    return [
        marked(cell, cell["cell"], cell["kind"], is_control=any(text in cell["cell"] for text in CONTROL_CELLS))
        for cell in csv.DictReader(lines_of("cells.tsv").splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE)
    ]


def handler_of(answer: Any) -> Handler:
    """What an answer of cases.json stands for."""
    if isinstance(answer, dict):
        chosen, other = handler_of(answer["then"]), handler_of(answer["else"])

        async def by_accept(request: Request, writer: Any) -> None:
            first = request.headers["accept"].partition(",")[0].partition(";")[0].strip()
            handler = chosen if first in answer["first"] else other
            writer.write(handler.data if isinstance(handler, Raw) else handler)

        return by_accept
    if answer in ("pdf", "other pdf"):
        return pdf(PDF if answer == "pdf" else PDF + b"% another\n")
    data = (FOLDER / answer).read_bytes()
    if answer.endswith(".http"):
        return Raw(data)
    if answer.endswith(".gz"):
        return reply(gzip.decompress(data), content_type="text/plain")
    return reply(data, content_type="text/html; charset=utf-8")


@pytest.mark.parametrize("case", cases())
async def test_a_page_or_an_answer(make_crawler: MakeCrawler, case: dict[str, Any]) -> None:
    handlers = {target: handler_of(answer) for target, answer in case["answers"].items()}
    async with Origin(handlers) as site:
        crawler = make_crawler(robots="obey" if case["kind"] == "K6" else "ignore")
        result = await crawler.ingest(IngestRequest(case["type"], site.url(case["cell"])))
        asked = site.targets
    if "hit" in case:
        assert result.hit and urlsplit(result.terminal_url)._replace(scheme="", netloc="").geturl() in case["hit"]
    else:
        assert result.status in case["miss"]
    assert case.get("code") in (None, result.terminal_status_code)
    assert result.next_try_class.value == case.get("class", result.next_try_class.value)
    assert not [target for target in asked for never in case.get("never", ()) if target.startswith(never)]


@pytest.mark.parametrize("cell", cells())
async def test_a_cell_with_a_doi(cell: dict[str, str]) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        handle = unquote(request.url.raw_path.decode()[1:])
        return httpx.Response(200, content=PDF) if handle.lower() == cell["asked"].lower() else httpx.Response(404)

    settings = CrawlSettings(per_host_delay=0.0, robots="ignore")
    crawler = Crawler(settings, transport=httpx.MockTransport(answer))
    try:
        result = await crawler.ingest(IngestRequest("pdf", cell["cell"]))
    finally:
        await crawler.aclose()
    assert result.status == ("success" if cell["outcome"] == "hit" else cell["outcome"])
    assert bool(result.hops) == bool(cell["asked"])
    assert result.request.base_url == cell["cell"]


def test_the_cases_are_there(fixtures: pathlib.Path) -> None:
    assert len(cases()) >= 37 and len(cells()) >= 10
