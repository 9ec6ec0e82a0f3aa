"""Upper-case a column: the shortest enrichment that is still whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pydantic
from datasette_ingest import ColumnField, Enrichment


class Shout(Enrichment):
    """Writes a column's text, upper-cased, into another one."""

    slug, name, description = "shout", "Shout", "Upper-case a column"
    batch_size = 1000  # nothing here waits for anything, so large batches only save transactions

    class Config(pydantic.BaseModel, extra="forbid"):  # forbid: a misspelt setting is refused instead of ignored
        column: str = ColumnField(title="Column")
        output: str = pydantic.Field("shouted", title="Output column", min_length=1)

    def columns(self, config: Config) -> list[str]:
        return [config.column]

    def check_output(self, config: Config, columns: Sequence[str]) -> None:
        if config.output.lower() == config.column.lower():  # as SQLite compares names
            raise ValueError("output: must be another column than the one that is read, whose text would be lost")

    async def enrich_row(self, row: Mapping[str, Any], config: Config) -> Mapping[str, Any]:
        text = row[config.column]
        if text is None:
            return {config.output: None}  # not `return None`, which leaves what an earlier run wrote
        if not isinstance(text, str):
            raise TypeError(f"{config.column} holds {type(text).__name__}, not text")  # this row's error; others go on
        return {config.output: text.upper()}
