"""Summarize a column by a model that bills every token: how a price is told, paid and kept within a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pydantic
from datasette_ingest import BatchOutcome, ColumnField, Enrichment, RowError, RowUpdate

NANODOLLARS_PER_TOKEN = 100
"""$0.0001 per 1,000 tokens. In whole numbers, so that a million rows add up to the exact bill."""
MOST_TOKENS = 1000
"""The longest text that the model reads."""


class ModelError(Exception):
    """The model did not answer. Nothing is billed."""


@dataclass(frozen=True)
class Reply:
    """The model's answer, and the tokens on its bill: those that it read and those that it wrote."""

    text: str
    tokens: int


class Summarize(Enrichment):
    """Writes the gist of a column's text into another one."""

    slug, name, description = "summarize", "Summarize", "Summarize a column by a priced model"
    batch_size = 5  # the budget is looked at before each batch
    max_open_batches = 1  # a pause calls off what is at work, and the model bills it all the same: so, little at a time

    class Config(pydantic.BaseModel, extra="forbid"):
        column: str = ColumnField(title="Column")
        words: int = pydantic.Field(12, title="Words at most", ge=1, le=200)
        output: str = pydantic.Field("summary", title="Output column", min_length=1)

    def columns(self, config: Config) -> list[str]:
        return [config.column]

    def check_output(self, config: Config, columns: Sequence[str]) -> None:
        if config.output.lower() == config.column.lower():
            raise ValueError("output: must be another column than the one that is read, whose text would be lost")

    def price_nanodollars(self, rows: Sequence[Mapping[str, Any]], config: Config) -> int:
        # The most that these rows can cost: a budget is kept only if no batch is dearer than it said.
        texts = [row[config.column] for row in rows]
        tokens = sum(tokens_of(text) + config.words for text in texts if is_worth_asking(text))
        return tokens * NANODOLLARS_PER_TOKEN

    async def enrich_batch(self, rows: list[Mapping[str, Any]], pks: list[Any], config: Config) -> BatchOutcome:
        updates, errors, empty, tokens = [], [], 0, 0
        for pk, row in zip(pks, rows, strict=True):
            text = row[config.column]
            if not is_worth_asking(text):
                updates.append(RowUpdate(pk, {config.output: None}))
                empty += 1
                continue
            try:
                reply = await ask(text, config.words)
            except ModelError as problem:  # caught row by row: an exception that leaves here loses the others' bill
                errors.append(RowError(pk, str(problem)))
            else:
                tokens += reply.tokens
                updates.append(RowUpdate(pk, {config.output: reply.text}))
        return BatchOutcome(
            updates=updates,
            errors=errors,
            outcomes={"success": len(updates) - empty, "empty": empty, "error": len(errors)},
            cost_nanodollars=tokens * NANODOLLARS_PER_TOKEN,
        )


def is_worth_asking(text: Any) -> bool:
    """Whether there is anything to summarize."""
    return isinstance(text, str) and bool(text.strip())


def tokens_of(text: str) -> int:
    """How many tokens the model will bill for a text."""
    return len(text.split())


async def ask(text: str, words: int) -> Reply:
    """Stands for the call to a paid model: the first words of a text are its gist.

    :raises ModelError: for a text longer than it reads
    """
    tokens = tokens_of(text)
    if tokens > MOST_TOKENS:
        raise ModelError(f"The text has {tokens} tokens; the model reads {MOST_TOKENS}")
    gist = " ".join(text.split()[:words])
    return Reply(gist, tokens + tokens_of(gist))
