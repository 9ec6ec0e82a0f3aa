"""The kinds of full text that can be asked for, by name."""

from __future__ import annotations

from ..model import TYPE_ALIASES
from . import dataset, html, pdf, xml
from .base import IngestType

INGEST_TYPES: dict[str, IngestType] = {kind.name: kind for kind in (pdf.TYPE, xml.TYPE, html.TYPE, dataset.TYPE)}


def ingest_type(name: str) -> IngestType:
    """The type of that name. KeyError for one that is not known."""
    return INGEST_TYPES[TYPE_ALIASES.get(name, name)]


def tables_of(name: str) -> tuple[str, ...]:
    """Tables for results of the type of that name beside those of every type; none for an unknown type."""
    kind = INGEST_TYPES.get(TYPE_ALIASES.get(name, name))
    return () if kind is None else kind.tables


__all__ = ["INGEST_TYPES", "IngestType", "ingest_type", "tables_of"]
