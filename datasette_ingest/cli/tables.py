"""Text tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from tabulate import tabulate

from .output import escaped


def _cell(value: Any) -> Any:
    if not isinstance(value, str) or value.isprintable():
        return value
    return "".join(character if character.isprintable() else escaped(character) for character in value)


def text_table(head: Sequence[str], rows: Sequence[Sequence[Any]], *, right: Collection[str] = ()) -> str:
    """Rows as lines of text, under a line with the column names. A cell is one line: its line breaks are escaped.

    :param right: the columns that are aligned to the right
    """
    align = ["right" if name in right else "left" for name in head]
    table: str = tabulate(
        [head, *([_cell(value) for value in row] for row in rows)],
        tablefmt="plain",
        colalign=align,
        disable_numparse=True,
    )
    return table
