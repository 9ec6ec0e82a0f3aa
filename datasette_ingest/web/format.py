"""Cells and settings as a page shows them. Pure."""

from __future__ import annotations

from typing import Any

from ..text import counted

CELL_LENGTH = 120


def cell(value: Any) -> str:
    """A value, short enough for a table cell."""
    if value is None:
        return ""
    if isinstance(value, (bytes, bytearray)):
        return f"<binary: {counted(len(value), 'byte')}>"
    text = str(value)
    return text if len(text) <= CELL_LENGTH else text[: CELL_LENGTH - 1] + "…"


def setting(value: Any) -> str:
    """A setting's value; '' for one that is not set."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value)
