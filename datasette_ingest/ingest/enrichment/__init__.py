"""The ingest enrichment: and GROBID's: the only place where the crawler and the job engine meet."""

from __future__ import annotations

from .config import IngestConfig
from .enrichment import IngestEnrichment
from .grobid import GrobidConfig, GrobidEnrichment

__all__ = ["GrobidConfig", "GrobidEnrichment", "IngestConfig", "IngestEnrichment"]
