"""Which Datasette line is running, told by features, never by versions."""

from __future__ import annotations

from typing import Any


def is_1_0(datasette: Any) -> bool:
    """Whether this is the 1.0 line (resources, SQL-based permissions)."""
    return hasattr(datasette, "allowed")
