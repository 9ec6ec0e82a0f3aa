"""Processors: each reads one kind of fact from the files that are found."""

from __future__ import annotations

from .base import Processor

PROCESSORS: tuple[Processor, ...] = ()
"""Those that every crawler runs, in this order."""
