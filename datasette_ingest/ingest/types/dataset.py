"""Datasets: a landing page that stands for a list of files."""

from __future__ import annotations

from ..errors import NoPlatformMatch
from .base import IngestType

TOO_MANY = "too-many-files"
"""Warning: the dataset has more files than are fetched for a row, so none was."""
TOO_LARGE = "too-large-size"
"""Warning: the dataset is larger than what is fetched for a row; files that were not fetched are `not-tried`."""
TIMEOUT = "timeout"
"""Warning: fetching the files took too long; those that were left are `not-tried`."""

TYPE = IngestType(
    name="dataset",
    mimetypes=frozenset(),
    no_link=lambda where: NoPlatformMatch(f"no list of files is known for the page {where}"),
    has_files=True,
)
