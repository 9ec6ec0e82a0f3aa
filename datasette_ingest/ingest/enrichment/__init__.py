"""The enrichments of this plugin: the only place where the crawler and the job engine meet."""

from __future__ import annotations

from .config import IngestConfig
from .enrichment import IngestEnrichment
from .grobid import GrobidConfig, GrobidEnrichment
from .links import LinksEnrichment
from .links_replace import ReplaceEnrichment

__all__ = [
    "GrobidConfig",
    "GrobidEnrichment",
    "IngestConfig",
    "IngestEnrichment",
    "LinksEnrichment",
    "ReplaceEnrichment",
]
