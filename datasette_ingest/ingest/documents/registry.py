"""Which processors there are."""

from __future__ import annotations

from collections.abc import Callable

from ..settings import CrawlSettings
from . import grobid, html, pdf, xml
from .base import Processor

PROCESSORS: tuple[Callable[[CrawlSettings], Processor | None], ...] = (
    pdf.processor,
    xml.processor,
    html.processor,
    grobid.processor,
)
"""Each makes the processor of some settings, or None where they want none; those of one file run in this order."""


def processors_of(settings: CrawlSettings) -> tuple[Processor, ...]:
    """Those that a crawler of these settings runs, in this order."""
    made = (make(settings) for make in PROCESSORS)
    return tuple(processor for processor in made if processor is not None)


def tables_of(settings: CrawlSettings, mimetypes: frozenset[str], ingest_type: str) -> tuple[str, ...]:
    """The tables that processors of these settings write for rows of a type whose files have one of these types."""
    reading = (
        processor
        for processor in processors_of(settings)
        if processor.mimetypes & mimetypes and (processor.ingest_types is None or ingest_type in processor.ingest_types)
    )
    return tuple(dict.fromkeys(table for processor in reading for table in processor.tables))
