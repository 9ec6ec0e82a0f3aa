"""Datasets: a landing page that stands for a list of files."""

from __future__ import annotations

from ..crawl_state import CrawlState, Outcome
from ..datasets.collect import Filesets
from ..errors import NoPlatformMatch
from .base import Crawl, IngestType


async def collect(crawl: Crawl, state: CrawlState, kind: IngestType, href: str) -> Outcome:
    return await Filesets(crawl.settings, clock=crawl.clock, pool=crawl.pool).collect(state, href)


TYPE = IngestType(
    name="dataset",
    mimetypes=frozenset(),
    no_link=lambda where: NoPlatformMatch(f"no list of files is known for the page {where}"),
    answer=collect,
    tables=("ingest_fileset",),
)
