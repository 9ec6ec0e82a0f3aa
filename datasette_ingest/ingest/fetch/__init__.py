"""Where content comes from: sources, asked in the order of the setting `sources`."""

from __future__ import annotations

from collections.abc import Callable

from .base import FetchSource
from .live import LiveSource

SOURCES: dict[str, Callable[..., FetchSource]] = {LiveSource.name: LiveSource}
"""name -> `(settings, policy, client, *, clock, patience)` -> source."""
