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


def store_of(settings: CrawlSettings, *, is_waited_for: bool = False) -> KeptFiles | None:
    """The store of the settings; None where files are not kept.

    :param is_waited_for: whether a person waits for each answer: then a service that fails is soon given up
    :raises StoreError: where the environment has a value with which it cannot be used
    """
    if settings.store is None:
        return None
    files: Files
    if settings.store.startswith(BUCKET_SCHEME):
        from .s3 import Bucket  # a library of the extra `s3`; the settings have checked that it is there

        files = Bucket(settings, is_waited_for=is_waited_for)
    else:
        files = Directory(settings.store)
    return KeptFiles(files, settings.store)


__all__ = ["KeptFiles", "StoreError", "sinks_of", "store_of"]
