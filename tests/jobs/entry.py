"""Datasette's command line with one enrichment more: what the processes of test_processes run."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pydantic
from datasette import cli, hookimpl
from datasette.plugins import pm

from datasette_ingest import ColumnField, Enrichment


class Number(Enrichment):
    """Writes what it read and who it was; `nap` seconds a row, so that a kill finds it at work."""

    slug, name, description = "number", "Number", "Copy a number"
    batch_size, max_open_batches = 20, 2

    class Config(pydantic.BaseModel):
        column: str = ColumnField(title="Column")
        nap: float = 0.0
        deadly: int | None = None

    def columns(self, config: Any) -> list[str]:
        return [config.column]

    async def enrich_row(self, row: Any, config: Any) -> dict[str, Any]:
        number = row[config.column]
        if number == config.deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        if config.nap:
            time.sleep(config.nap)
        return {"copied": number, "worker": os.getpid()}


class Plugin:
    __name__ = "process test enrichments"

    @hookimpl
    def register_ingest_enrichments(self, datasette: Any) -> list[Enrichment]:
        return [Number()]


def datasette_command(*arguments: str) -> None:
    """Run `datasette …` in this process."""
    pm.register(Plugin(), name="process-test-enrichments")
    cli.cli(list(arguments))
