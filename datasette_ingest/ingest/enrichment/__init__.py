"""The enrichments of this plugin: the only place where the crawler and the job engine meet."""

from __future__ import annotations

from .config import IngestConfig
from .enrichment import IngestEnrichment
from .links import LinksEnrichment

__all__ = ["IngestConfig", "IngestEnrichment", "LinksEnrichment"]
