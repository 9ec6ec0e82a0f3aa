"""Why nothing can be exported."""

from __future__ import annotations


class NoExport(Exception):
    """What was asked cannot be exported: a sentence that says why, and what to do."""
