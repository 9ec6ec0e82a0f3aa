"""The kinds of full text that can be asked for, by name."""

from __future__ import annotations

from ..model import TYPE_ALIASES
from . import dataset, html, pdf, xml
from .base import IngestType

INGEST_TYPES: dict[str, IngestType] = {kind.name: kind for kind in (pdf.TYPE, xml.TYPE, html.TYPE, dataset.TYPE)}


def ingest_type(name: str) -> IngestType:
    """The type of that name. KeyError for one that is not known."""
    return INGEST_TYPES[TYPE_ALIASES.get(name, name)]


def has_files(name: str) -> bool:
    """Whether the type of that name is a list of files; an unknown one is not."""
    kind = INGEST_TYPES.get(TYPE_ALIASES.get(name, name))
    return kind is not None and kind.has_files


__all__ = ["INGEST_TYPES", "IngestType", "has_files", "ingest_type"]
