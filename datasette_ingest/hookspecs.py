"""The hook through which any plugin adds its own enrichments."""

from typing import Any

from pluggy import HookspecMarker

hookspec = HookspecMarker("datasette")


@hookspec
def register_ingest_enrichments(datasette: Any) -> Any:
    """A list of Enrichment instances, or an awaitable of one."""
