"""CdxClient: asks a web archive's index which captures of a URL it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .base import SourceSetup
from .cdx_rows import CdxRow


@dataclass(frozen=True, slots=True)
class Turn:
    """How a request to the archive waits for its turn."""

    priority: bool = False
    """Whether the row has had a response before."""
    back_offs: int = 0
    """How often a host asked us to wait in earlier tries of the row."""


class CdxClient:
    """Asks the index at the setting `cdx_url`, no faster than `cdx_per_minute`."""

    def __init__(self, setup: SourceSetup) -> None:
        raise NotImplementedError

    async def captures(self, url: str, *, near: str | None = None, turn: Turn = Turn()) -> Sequence[CdxRow]:
        """The newest captures of a URL and of its variants (http, https, www), or those nearest to a time.

        :param near: a timestamp of up to 14 digits
        :raises NoCapture: when there is none
        :raises WaybackContentError: when the archive has excluded the site
        :raises CdxError: when the index does not answer
        :raises PutOff: when its turn is further away than the crawler's patience
        """
        raise NotImplementedError

    async def exact(self, url: str, timestamp: str, *, status: int | None = None, turn: Turn = Turn()) -> CdxRow | None:
        """The capture of a URL at a time of 14 digits; None if the index does not list it (yet).

        :param status: the HTTP status that it must have
        :raises WaybackContentError, CdxError, PutOff: as `captures`
        """
        raise NotImplementedError

    async def aclose(self) -> None:
        raise NotImplementedError
