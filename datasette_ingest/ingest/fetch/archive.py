"""ArchiveService: one service of a web archive, its index or its replay, asked in turn and with rests."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import PutOff, RateLimited
from ..http.client import Client, Response
from ..http.politeness import MAX_BACK_OFFS, PRIORITY_PATIENCE
from ..http.service import service_fetcher
from .base import SourceSetup, rate_limited

REST = 60.0
"""Seconds of rest after a 429. The Internet Archive does not say how long, and blocks who goes on at once for an hour."""
EXCLUDED = ("AdministrativeAccessControlException", "RobotAccessControlException", "excluded from the wayback machine")
"""What the Internet Archive says of a site that it does not show."""


@dataclass(frozen=True, slots=True)
class Turn:
    """How a request to the archive waits for its turn."""

    priority: bool = False
    """Whether the row has had a response before."""
    back_offs: int = 0
    """How often the archive refused earlier tries of the row."""


FIRST = Turn()


class ArchiveService:
    """Gets files from one service. All crawlers of a process share its pace, and its rest after a refusal.

    :param name: what a person reads of a row that waits, such as `index`
    :param per_minute: most requests in a minute
    :param at_once: most requests under way at the same time
    """

    def __init__(self, setup: SourceSetup, name: str, *, per_minute: float, at_once: int) -> None:
        self._name = name
        self._patience = setup.patience
        self._setup = setup
        self._hosts = setup.services.hosts(name, per_minute=per_minute, at_once=at_once)
        self._made: Client | None = None

    async def get(
        self,
        url: str,
        turn: Turn,
        *,
        max_bytes: int | None = None,
        any_status: bool = False,
        keep_gzip: bool = False,
    ) -> Response:
        """The answer, whatever its status but 429, and 503 with a Retry-After.

        :raises PutOff: when its turn is further away than the crawler's patience
        :raises RateLimited: when the archive has refused the row too often
        :raises IngestError: what the connection or the body says
        """
        patience = self._patience
        if patience is not None and turn.priority:
            patience *= PRIORITY_PATIENCE
        refused = 0
        while True:
            try:
                response = await self._client.get(
                    url,
                    priority=turn.priority,
                    patience=patience,
                    max_bytes=max_bytes,
                    any_status=any_status,
                    keep_gzip=keep_gzip,
                    lenient=True,
                )
            except PutOff as put_off:
                # Only who was refused counts it: a rest makes thousands of rows wait that have asked nothing.
                raise self._put_off(put_off, turn.back_offs + refused, counts=refused > 0) from None
            is_last = turn.back_offs + refused >= MAX_BACK_OFFS
            if not self._client.backs_off(response, is_last=is_last, unsaid=REST):
                return response
            if response.body is not None:
                response.body.close()
            refused += 1

    def _put_off(self, put_off: PutOff, back_offs: int, *, counts: bool) -> PutOff | RateLimited:
        mine = PutOff(put_off.seconds, f"{put_off.reason} (web archive, {self._name})", counts=counts)
        return rate_limited(mine, back_offs) if counts and back_offs > MAX_BACK_OFFS else mine

    @property
    def _client(self) -> Client:
        # Made on first use: TLS takes tens of milliseconds to set up.
        if self._made is None:
            setup = self._setup
            self._made = service_fetcher(
                setup.settings,
                hosts=self._hosts,
                spool=setup.client.spool,
                clock=setup.clock,
                transport=setup.transport,
            )
        return self._made

    async def aclose(self) -> None:
        if self._made is not None:
            await self._made.aclose()


def is_excluded(response: Response) -> bool:
    """Whether the archive says that it does not show the site: in a header, in an error, or on a page."""
    said = (response.head.get(b"x-archive-wayback-runtime-error") or b"").decode("latin-1")
    if response.body is not None and (response.status >= 400 or response.body.head.lstrip().startswith(b"<")):
        said += response.body.read(65536).decode("utf-8", "replace")
    return any(mark.lower() in said.lower() for mark in EXCLUDED)
