"""What is read from the files that were found: a processor a kind of fact."""

from __future__ import annotations

from .base import Processor

PROCESSORS: tuple[Processor, ...] = ()
"""Those that every crawler runs, in this order."""
