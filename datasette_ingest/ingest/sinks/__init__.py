"""Where the files that were found are kept."""

from __future__ import annotations

from ..errors import StoreError
from ..settings import BUCKET_SCHEME, CrawlSettings
from .base import Files, Sink
from .directory import Directory
from .kept import KeptFiles


def sinks_of(settings: CrawlSettings) -> tuple[Sink, ...]:
    """Those that a crawler of these settings fills."""
    store = store_of(settings)
    return () if store is None else (store,)


def store_of(settings: CrawlSettings) -> KeptFiles | None:
    """The store of the settings; None where files are not kept.

    :raises StoreError: where the environment has a value with which it cannot be used
    """
    if settings.store is None:
        return None
    return KeptFiles(_files(settings, settings.store), settings.store)


def _files(settings: CrawlSettings, place: str) -> Files:
    if not place.startswith(BUCKET_SCHEME):
        return Directory(place)
    from .s3 import Bucket  # a library of the extra `s3`; the settings have checked that it is there

    return Bucket(settings)


__all__ = ["KeptFiles", "StoreError", "sinks_of", "store_of"]
