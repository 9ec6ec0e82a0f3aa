"""The processor of pages that are the article itself: their main text, and what they load."""

from __future__ import annotations

import functools
import importlib.util
import os
from dataclasses import replace

from ..facts import Fact, FullText, HtmlMeta
from ..files import HTML_TYPES, TEXT
from ..http.body import in_thread
from ..page.read import PARSE_BYTES
from ..settings import CrawlSettings
from ..trackers import TRACKERS, is_tracker, read_hosts
from .base import DerivedFile, Document, Findings, ProcessContext, Processor
from .html_reading import HtmlRead, read_html
from .pool import ProcessError

MAX_RESOURCES = 1000
"""What a page loads beyond that is not listed."""


def processor(settings: CrawlSettings) -> Processor:
    tables = (HtmlMeta.table, FullText.table) if settings.fulltext else (HtmlMeta.table,)
    # A page that was read without trafilatura is read again when it is there.
    name = "html" if has_trafilatura() else "html-plain"
    return Processor(name, "1", HTML_TYPES, _process, tables=tables, ingest_types=frozenset({"html"}))


@functools.cache
def has_trafilatura() -> bool:
    return importlib.util.find_spec("trafilatura") is not None


async def _process(document: Document, context: ProcessContext) -> Findings:
    """Scope, word count and bibliographic facts are those of the page's reading before: it was judged by them."""
    read = await _read(document, context)
    path = context.settings.trackers_file or TRACKERS
    trackers = await in_thread(lambda: _trackers(path, os.stat(path).st_mtime_ns)) if read.resources else frozenset()
    resources = [found for found in read.resources if not is_tracker(found["url"], trackers)]
    meta = HtmlMeta(
        context.sha1hex,
        status=read.status,
        resources=tuple(resources[:MAX_RESOURCES]),
        processor=processor(context.settings).label,
    )
    facts: list[Fact] = [meta]
    files: list[DerivedFile] = []
    if read.text and context.settings.fulltext:
        facts.append(FullText(context.sha1hex, read.text))
        files.append(DerivedFile("text", TEXT, read.text.encode()))
    return Findings(tuple(facts), tuple(files))


async def _read(document: Document, context: ProcessContext) -> HtmlRead:
    data = await in_thread(lambda: document.body.read(PARSE_BYTES))
    try:
        read = await context.pool.run(read_html, data, document.url, document.content_type, has_trafilatura())
    except ProcessError as problem:
        return HtmlRead(problem.status)
    is_cut = document.body.size > PARSE_BYTES and read.status.startswith("success")
    return replace(read, status="text-too-large") if is_cut else read


@functools.lru_cache(maxsize=4)
def _trackers(path: str, modified: int) -> frozenset[str]:
    return read_hosts(path)
