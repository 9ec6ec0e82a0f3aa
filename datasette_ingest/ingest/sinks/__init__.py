"""Where the bodies of files that were found are kept."""

from __future__ import annotations

from ..settings import CrawlSettings
from .base import Sink


def sinks_of(settings: CrawlSettings) -> tuple[Sink, ...]:
    """Those that a crawler of these settings fills."""
    return ()
