"""The ingest enrichment: the only place where the crawler and the job engine meet."""

from __future__ import annotations

from .config import IngestConfig
from .enrichment import IngestEnrichment

__all__ = ["IngestConfig", "IngestEnrichment"]
