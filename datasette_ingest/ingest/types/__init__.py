"""The kinds of full text that can be asked for, by name."""

from __future__ import annotations

from . import html, pdf, xml
from .base import IngestType

INGEST_TYPES: dict[str, IngestType] = {kind.name: kind for kind in (pdf.TYPE, xml.TYPE, html.TYPE)}

ALIASES = {"file": "pdf"}
"""Names that older tables use."""


def ingest_type(name: str) -> IngestType:
    """The type of that name. KeyError for one that is not known."""
    return INGEST_TYPES[ALIASES.get(name, name)]


__all__ = ["ALIASES", "INGEST_TYPES", "IngestType", "ingest_type"]
