"""Where content comes from: sources, asked in the order of the setting `sources`."""

from __future__ import annotations

from collections.abc import Callable

from .base import FetchSource, SourceSetup
from .live import LiveSource
from .spn2 import Spn2Source
from .wayback import WaybackSource

SOURCES: dict[str, Callable[[SourceSetup], FetchSource]] = {
    LiveSource.name: LiveSource,
    WaybackSource.name: WaybackSource,
    Spn2Source.name: Spn2Source,
}
"""name -> source."""

ARCHIVES = frozenset({WaybackSource.name})
"""Sources that answer with captures that exist."""
WITH_CAPTURES = ARCHIVES | {Spn2Source.name}
"""Sources whose answers are captures, old or new."""
