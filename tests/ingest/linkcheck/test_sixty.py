"""The sixty links, each with the verdict that it must have, and with few bytes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from datasette_ingest.ingest.crawler import Crawler
from datasette_ingest.ingest.errors import IngestError
from datasette_ingest.ingest.linkcheck.verdict import LinkStatus, Verdict
from datasette_ingest.ingest.settings import CrawlSettings
from datasette_ingest.ingest.urls import clean_cell

from .site import LINKS, Site

QUICK = CrawlSettings(
    allow_networks=("127.0.0.0/8",), per_host_delay=0.0, per_host_concurrency=60, timeout=1, deadline=5
)


async def check(crawler: Crawler, url: str) -> Verdict:
    try:
        href = clean_cell(url, doi_resolver="https://doi.org/")
    except IngestError as error:
        return Verdict(LinkStatus.DEAD, reason=error.message)
    return await crawler.links.check(href)


async def test_each_link_has_its_word() -> None:
    assert len(LINKS) == 60
    async with Site() as site:
        crawler = Crawler(QUICK, resolve=resolve)
        try:
            verdicts = await asyncio.gather(*(check(crawler, url) for url in site.urls()))
        finally:
            await crawler.aclose()
    found = [
        replace(link, status=verdict.status.value, fragment=verdict.fragment and verdict.fragment.value)
        for link, verdict in zip(LINKS, verdicts, strict=True)
    ]
    assert found == list(LINKS)
    codes = {link.target: verdict.code for link, verdict in zip(LINKS, verdicts, strict=True) if link.code}
    assert codes == {link.target: link.code for link in LINKS if link.code}
    assert all(verdict.reason for verdict in verdicts if verdict.status is not LinkStatus.OK)
    sent = site.sent
    assert sent["/a.pdf"] < 1_000, "of a file only the head"
    assert sent["/endless.zip"] < 1_000


async def resolve(host: str, port: int) -> list[str]:
    return []
