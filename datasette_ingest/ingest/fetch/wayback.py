"""WaybackSource: the captures of a web archive, from its index (CDX) and its replay."""

from __future__ import annotations

from ..errors import IngestError
from .base import FetchRequest, FetchTrace, Resource, SourceSetup
from .cdx import CdxClient
from .cdx_rows import CdxRow


class WaybackSource:
    """Asks the archive at the settings `cdx_url` and `wayback_url`. No request goes to the server of the URL."""

    name = "wayback"

    def __init__(self, setup: SourceSetup) -> None:
        self.index = CdxClient(setup)

    def refuse(self, request: FetchRequest) -> IngestError | None:
        raise NotImplementedError

    async def fetch(self, request: FetchRequest, trace: FetchTrace) -> Resource:
        """The URL's capture: the newest, or the one nearest to `request.as_of`."""
        raise NotImplementedError

    async def follow(self, row: CdxRow, request: FetchRequest, trace: FetchTrace, *, via: str = "wayback") -> Resource:
        """The content of one capture, after the redirects from it.

        :param via: the source that answers with it
        """
        raise NotImplementedError

    async def aclose(self) -> None:
        await self.index.aclose()
