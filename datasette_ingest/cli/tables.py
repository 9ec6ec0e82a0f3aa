"""Text tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from tabulate import tabulate


def text_table(head: Sequence[str], rows: Sequence[Sequence[Any]], *, right: Collection[str] = ()) -> str:
    """Rows as lines of text, under a line with the column names.

    :param right: the columns that are aligned to the right
    """
    align = ["right" if name in right else "left" for name in head]
    table: str = tabulate([head, *rows], tablefmt="plain", colalign=align, disable_numparse=True)
    return table
