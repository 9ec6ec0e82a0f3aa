"""CdxClient: asks a web archive's index which captures of a URL it has.

https://github.com/internetarchive/wayback/tree/master/wayback-cdx-server describes the Internet Archive's server,
https://pywb.readthedocs.io/en/latest/manual/cdxserver_api.html that of pywb. Both are understood.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from ..errors import (
    BadHttp,
    BodyTooLarge,
    CdxError,
    ConnectError,
    EmptyBlob,
    InvalidHostResolution,
    NoCapture,
    ReadTimeout,
    TlsError,
    TruncatedBody,
    WaybackContentError,
)
from ..http.body import INLINE_BYTES, in_thread
from ..http.client import Response
from ..urls import mask, parse
from .archive import FIRST, ArchiveService, Turn, is_excluded
from .base import SourceSetup
from .cdx_rows import CdxRow, UnreadableRows, best, is_variant, read_rows

ROWS = 40
"""Captures of one URL that are looked at: the newest, or those nearest to a time."""
TRIES = 3
"""How often the index is asked a question that it answers with a server error, or not at all."""
MAX_BYTES = 16 * 1024 * 1024
"""Longest answer. A server without negative limits lists every capture."""
AT_ONCE = 4

NO_ANSWER = (ConnectError, ReadTimeout, TruncatedBody, BadHttp, TlsError, InvalidHostResolution)
"""What is raised for a service that does not answer, or not to the end."""


class CdxClient:
    """Asks the index at the setting `cdx_url`, no faster than `cdx_per_minute`."""

    def __init__(self, setup: SourceSetup) -> None:
        settings = setup.settings
        self._url = settings.cdx_url
        self._service = ArchiveService(setup, "index", per_minute=settings.cdx_per_minute, at_once=AT_ONCE)
        self._understands: dict[str, bool] = {}
        """Whether the server knows a negative limit (`newest`) and an order by nearness (`closest`), once it has shown
        that. One that does not finds no rows, and is asked for all."""

    async def captures(self, url: str, *, near: str | None = None, turn: Turn = FIRST) -> Sequence[CdxRow]:
        """The newest captures of a URL and of its variants (http, https, www), or those nearest to a time.

        :param near: a timestamp of up to 14 digits
        :raises NoCapture: when there is none
        :raises WaybackContentError: when the archive has excluded the site
        :raises CdxError: when the index does not answer
        :raises RateLimited: when it refuses to, several times
        :raises PutOff: when its turn is further away than the crawler's patience
        """
        question = {"url": url, "matchType": "exact", "output": "json"}
        few = {"limit": f"-{ROWS}"} if near is None else {"sort": "closest", "closest": near, "limit": str(ROWS)}
        way = "newest" if near is None else "closest"
        rows: Sequence[CdxRow] = (
            () if self._understands.get(way) is False else await self._ask({**question, **few}, turn)
        )
        if rows:
            self._understands[way] = True
        elif not self._understands.get(way):
            rows = await self._ask(question, turn)
            if rows:
                self._understands[way] = False
        if not rows:
            raise NoCapture(f"the archive has no capture of {mask(url)}")
        return rows

    async def exact(self, url: str, timestamp: str, *, status: int | None = None, turn: Turn = FIRST) -> CdxRow | None:
        """The capture of a URL at a time of 14 digits; None if the index does not list it (yet).

        :param status: the HTTP status that it must have
        :raises WaybackContentError, CdxError, RateLimited, PutOff: as `captures`
        """
        question = {
            "url": url,
            "from": timestamp,
            "to": timestamp,
            "matchType": "exact",
            "output": "json",
            "limit": "10",
        }
        if status is not None:
            question["filter"] = f"statuscode:{status}"
        rows = [row for row in await self._ask(question, turn) if row.timestamp == timestamp]
        fitting = [row for row in rows if is_variant(row.url, url) and (status is None or row.status == status)]
        return best(fitting, url)

    async def aclose(self) -> None:
        await self._service.aclose()

    async def _ask(self, question: dict[str, str], turn: Turn) -> Sequence[CdxRow]:
        address = parse(self._url + ("&" if "?" in self._url else "?") + urlencode(question))
        for attempt in range(1, TRIES + 1):
            try:
                response = await self._service.get(address, turn, max_bytes=MAX_BYTES, any_status=True)
                if response.status < 500:
                    return await _read(response, question["url"])
                problem = f"answers {response.status}"
            except EmptyBlob:
                return ()
            except BodyTooLarge as error:
                raise CdxError(f"the archive's index, asked for {mask(question['url'])}: {error.message}") from error
            except NO_ANSWER as error:
                problem = error.message
            if attempt == TRIES:
                raise CdxError(f"the archive's index, asked for {mask(question['url'])} {TRIES} times, {problem}")
        raise AssertionError("unreachable: the last try returns or raises")


async def _read(response: Response, url: str) -> Sequence[CdxRow]:
    body = response.body
    try:
        if is_excluded(response):
            raise WaybackContentError(f"the archive does not show {mask(url)}: its site is excluded")
        text = b"" if body is None else body.read()
        if response.status == 404 and b"no captures" in text.lower():
            return ()
        if not 200 <= response.status < 300:
            raise CdxError(f"the archive's index answers {response.status} for {mask(url)}")
        if len(text) <= INLINE_BYTES:
            return read_rows(text.decode("utf-8", "replace"))
        return await in_thread(lambda: read_rows(text.decode("utf-8", "replace")))
    except UnreadableRows as error:
        raise CdxError(f"the archive's index, asked for {mask(url)}: {error}") from error
    finally:
        if body is not None:
            body.close()
