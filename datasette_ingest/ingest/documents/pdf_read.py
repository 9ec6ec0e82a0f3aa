"""What reading a PDF gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Picture:
    """The first page, as WebP. Sides in pixels."""

    width: int
    height: int
    content: bytes


@dataclass(frozen=True)
class PdfRead:
    """What was read of a PDF. What is None was not read, or is not there."""

    status: str
    page_count: int | None = None
    text: str | None = None
    word_count: int | None = None
    """Of the text, split at white space."""
    page0_height: float | None = None
    """In points, as a reader sees the page: rotated and cropped."""
    page0_width: float | None = None
    permanent_id: str | None = None
    created: str | None = None
    version: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    picture: Picture | None = None
