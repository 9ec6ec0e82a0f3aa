"""The processor of pages that are the article itself: their main text, and what they load."""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ..facts import FullText, HtmlMeta
from ..files import HTML_TYPES
from ..http.body import in_thread
from ..page.read import PARSE_BYTES
from ..settings import CrawlSettings
from ..trackers import TRACKERS, is_tracker, read_hosts
from .base import Document, Findings, ProcessContext, Processor, full_text
from .html_reading import HtmlRead, read_html
from .pool import ProcessError, ProcessPool

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
    words = full_text(read.text or None, context)
    return Findings((meta, *words.facts), words.files)


async def _read(document: Document, context: ProcessContext) -> HtmlRead:
    """As much as can be read: where trafilatura does not come to an end, the plain text, with the status of that."""
    data = await in_thread(lambda: document.body.read(PARSE_BYTES))
    call = partial(read_html, data, document.url, document.content_type)
    read = await _called(context.pool, partial(call, has_trafilatura()))
    if isinstance(read, ProcessError):
        plain = await _called(context.pool, partial(call, False)) if has_trafilatura() else read
        return HtmlRead(read.status) if isinstance(plain, ProcessError) else replace(plain, status=read.status)
    is_cut = document.body.size > PARSE_BYTES and read.status != "trafilatura-parse-error"
    return replace(read, status="text-too-large") if is_cut else read


async def _called(pool: ProcessPool, call: Callable[[], HtmlRead]) -> HtmlRead | ProcessError:
    try:
        return await pool.run(call)
    except ProcessError as problem:
        return problem


@functools.lru_cache(maxsize=4)
def _trackers(path: str, modified: int) -> frozenset[str]:
    return read_hosts(path)
