"""One object of each enrichment, whoever asks for it first."""

from __future__ import annotations

import asyncio
import pathlib
import threading
from typing import Any

from datasette import hookimpl
from datasette.plugins import pm

from datasette_ingest import Enrichment
from datasette_ingest.jobs import registry

from ..conftest import serving


class Waiting(Enrichment):
    slug, name = "waiting", "Waiting"


async def test_two_event_loops_that_ask_at_once_get_the_same_objects(db_path: pathlib.Path) -> None:
    both = threading.Barrier(2)

    class Plugin:
        __name__ = "waiting"

        @hookimpl
        def register_ingest_enrichments(self, datasette: Any) -> Any:
            async def answer() -> list[Enrichment]:
                await asyncio.to_thread(both.wait, 10)
                return [Waiting()]

            return answer

    plugin = Plugin()
    pm.register(plugin, name="waiting")
    try:
        async with serving(db_path) as datasette:

            def ask() -> dict[str, Enrichment]:
                return asyncio.run(registry.enrichments(datasette))

            one, other = await asyncio.gather(asyncio.to_thread(ask), asyncio.to_thread(ask))
            later = await registry.enrichments(datasette)
    finally:
        pm.unregister(plugin)
    assert {"ingest", "waiting"} <= set(one)
    for slug, enrichment in later.items():
        assert one[slug] is other[slug] is enrichment
