"""Three enrichments to copy from: the plugin surface."""

from __future__ import annotations

from typing import Any

from datasette import hookimpl
from datasette_ingest import Enrichment

from .shout import Shout
from .summarize import Summarize
from .translate import Translate


@hookimpl
def register_ingest_enrichments(datasette: Any) -> list[Enrichment]:
    return [Shout(), Translate(), Summarize()]
