"""WaybackSource: the captures of a web archive, from its index (CDX) and its replay.

The replay is described at https://archive.org/developers/ and by RFC 7089 (Memento).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from ...sqlite import digits14
from ...text import day
from ..errors import (
    IngestError,
    NoCapture,
    NotImplementedUrl,
    RedirectLoop,
    RedirectsExceeded,
    TerminalBadStatus,
    WaybackContentError,
    WaybackError,
)
from ..facts import Cdx
from ..http.client import Response
from ..http.parser import Head
from ..http.redirects import is_redirect
from ..model import Terminal
from ..urls import mask, resolve, same_page, without_fragment
from .archive import ArchiveService, Turn, is_excluded
from .base import FetchRequest, FetchSource, FetchTrace, Resource, SourceSetup
from .captures import Capture, capture_in, read_redirect, refuse_archive_page, refuse_password, replay_url
from .cdx import NO_ANSWER, CdxClient
from .cdx_rows import CdxRow, best, is_same_url, moment

MAX_REDIRECTS = 25
"""Redirects within one lookup, those to the nearest capture included. sandcrawler has the same limit."""
TRIES = 3
"""How often a capture is asked for that the archive does not deliver."""
AT_ONCE = 16
_MEMENTO = re.compile(r"""rel=["']?(?:[a-z]+ )*(?:original|timegate|timemap|memento)\b""", re.IGNORECASE)
"""Relations of RFC 7089."""
_ORIGINAL = re.compile(r"""<([^<>]+)>\s*;\s*rel=["']?original\b""", re.IGNORECASE)
_WARC = re.compile(r"[^/]+\.w?arc(?:\.gz)?$")


@dataclass(frozen=True, slots=True)
class _Answer:
    """What the archive delivers for a capture that it was asked for."""

    response: Response
    asked: Capture
    """The last one that was asked for: the one wanted, or the nearest."""
    timestamp: str
    """14 digits, of the one that came."""
    target: Capture | None = None
    """Where it leads, if it is a redirect."""


class WaybackSource:
    """Asks the archive at the settings `cdx_url` and `wayback_url`. No request goes to the server of the URL.

    A URL that is the address of a capture is answered by that capture, without a question to the index.
    """

    name = "wayback"

    def __init__(self, setup: SourceSetup) -> None:
        self._setup = setup
        self._base = setup.settings.wayback_url
        self.index = CdxClient(setup)
        self._replay = ArchiveService(setup, "replay", per_minute=setup.settings.replay_per_minute, at_once=AT_ONCE)

    def refuse(self, request: FetchRequest) -> IngestError | None:
        """Refuses what the policy refuses, private addresses, passwords, and an archive's pages that are not captures."""
        capture = capture_in(request.url, self._base)
        if capture is not None:
            refusal = self._setup.policy.refuse_url(request.url) or self._refuse(capture.url)
            return refusal or refuse_password(capture.url)
        refusal = refuse_archive_page(request.url, self._base) or self._refuse(request.url)
        return refusal or refuse_password(request.url)

    async def fetch(self, request: FetchRequest, trace: FetchTrace) -> Resource:
        """The URL's capture: the newest, or the one nearest to `request.as_of`."""
        trace.hops.append(request.url)
        capture = capture_in(request.url, self._base)
        if capture is not None:
            trace.hops.append(capture.url)
            return await self._follow(capture, None, request, trace, via=self.name)
        near = None if request.as_of is None else timestamp_of(request.as_of)
        row, listed = await self._choose(request.url, near, request, trace)
        return await self._follow(Capture(row.timestamp, row.url), row, request, trace, via=self.name, listed=listed)

    async def follow(self, row: CdxRow, request: FetchRequest, trace: FetchTrace, *, via: str = name) -> Resource:
        """The content of one capture, after the redirects from it.

        :param via: the source that answers with it
        """
        return await self._follow(Capture(row.timestamp, row.url), row, request, trace, via=via)

    async def aclose(self) -> None:
        await self.index.aclose()
        await self._replay.aclose()

    def _refuse(self, url: str) -> IngestError | None:
        return self._setup.policy.refuse_url(url) or self._setup.policy.refuse_host(url)

    def _terminal(self, url: str, timestamp: str, status: int) -> Terminal:
        return Terminal(url, timestamp, status, archive_url=replay_url(self._base, timestamp, url, mode=""))

    # The index

    async def _choose(
        self,
        url: str,
        near: str | None,
        request: FetchRequest,
        trace: FetchTrace,
        listed: Sequence[CdxRow] = (),
    ) -> tuple[CdxRow, Sequence[CdxRow]]:
        """The capture of a URL that is taken, and all that the index lists.

        :param listed: what the index has listed for the URL before: most redirects lead to a variant, from http to
            https, which was listed together with it
        """
        try:
            rows = listed
            if near is None or not any(_answers(row, url, near) for row in listed):
                rows = await self.index.captures(url, near=near, turn=_turn(request, trace))
            oldest = self._oldest(request)
            young = [row for row in rows if oldest is None or row.captured_at >= oldest]
            if not young:
                raise self._too_old(url, max(row.captured_at for row in rows))
        except NoCapture:
            trace.terminal = Terminal(url)
            raise
        row = best(young, url, near=None if near is None else moment(near), mimetypes=request.mimetypes)
        assert row is not None
        if row.status is not None and row.status >= 400:
            trace.terminal = self._terminal(url, row.timestamp, row.status)
            raise TerminalBadStatus(
                f"the archive's capture of {mask(url)} of {day(row.timestamp)} is a {row.status}",
                status_code=row.status,
            )
        return row, rows

    def _oldest(self, request: FetchRequest) -> datetime | None:
        """The time before which a capture is too old; None for no limit."""
        days = request.max_capture_age_days
        days = self._setup.settings.max_capture_age_days if days is None else days
        try:
            return None if days is None else self._setup.clock() - timedelta(days=days)
        except OverflowError:
            return None

    def _too_old(self, url: str, newest: datetime) -> NoCapture:
        return NoCapture(f"the archive's newest capture of {mask(url)} is of {day(digits14(newest))}, which is too old")

    # The replay

    async def _follow(
        self,
        capture: Capture,
        row: CdxRow | None,
        request: FetchRequest,
        trace: FetchTrace,
        *,
        via: str,
        listed: Sequence[CdxRow] = (),
    ) -> Resource:
        url = capture.url if row is None else request.url
        seen = {without_fragment(url)}
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._deliver(capture, row, request, trace)
            if answer.target is None:
                return self._resource(answer, row, url, via=via)
            trace.terminal = self._terminal(url, answer.timestamp, answer.response.status)
            url = answer.target.url
            refusal = self._refuse(url)
            if refusal is not None:
                trace.refused = url
                raise refusal
            if url in seen:
                raise RedirectLoop(f"the archived redirects from {mask(request.url)} come back to {mask(url)}")
            seen.add(url)
            trace.hops.append(url)
            if row is None and not same_page(url, answer.asked.url):
                # An address of a capture is followed as a browser would, without a question to the index.
                capture = answer.target
                continue
            # Index and replay mix up a URL and its variants: only the index tells which one redirects to the other.
            row, listed = await self._choose(url, answer.target.near, request, trace, listed)
            capture = Capture(row.timestamp, row.url)
        raise RedirectsExceeded(
            f"more than {MAX_REDIRECTS} archived redirects from {mask(request.url)}, the last to {mask(url)}"
        )

    async def _deliver(self, capture: Capture, row: CdxRow | None, request: FetchRequest, trace: FetchTrace) -> _Answer:
        """A capture, or the nearest one of the same URL that the archive leads to."""
        asked = capture
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._ask(asked, request, trace)
            if is_redirect(response.head):
                redirect = read_redirect(_location(response.head), asked, self._base)
                if redirect.is_nearest:
                    asked = redirect.to
                    continue
                if not _is_proven(response.head, redirect=True):
                    raise WaybackError(f"the archive redirects {_where(asked)} and does not say that this is a capture")
                return _Answer(response, asked, _time_of(response.head, asked), redirect.to)
            try:
                return self._read(response, asked, row, request, trace)
            except BaseException:
                if response.body is not None:
                    response.body.close()
                raise
        raise RedirectsExceeded(f"the archive leads from one capture of {mask(capture.url)} to the next")

    def _read(
        self, response: Response, asked: Capture, row: CdxRow | None, request: FetchRequest, trace: FetchTrace
    ) -> _Answer:
        where = _where(asked)
        if not _is_proven(response.head):
            if is_excluded(response):
                raise WaybackContentError(f"the archive does not show {where}: its site is excluded")
            if response.status == 404 and row is None:
                trace.terminal = Terminal(asked.url)
                raise NoCapture(f"the archive does not have {where}")
            raise WaybackError(f"the archive answers {response.status} for {where}, which is not the capture")
        asked, timestamp = _came(response.head, asked), _time_of(response.head, asked)
        if response.status >= 400 or response.body is None:
            trace.terminal = self._terminal(asked.url, timestamp, response.status)
            if response.status >= 500 and row is not None:
                raise WaybackContentError(f"{where} is a server's error ({response.status})")
            raise TerminalBadStatus(f"{where} is a {response.status}", status_code=response.status)
        oldest = self._oldest(request)
        if oldest is not None and timestamp != asked.timestamp and moment(timestamp) < oldest:
            trace.terminal = Terminal(asked.url)
            raise self._too_old(asked.url, moment(timestamp))
        return _Answer(response, asked, timestamp)

    async def _ask(self, asked: Capture, request: FetchRequest, trace: FetchTrace) -> Response:
        address = replay_url(self._base, asked.timestamp, asked.url)
        for attempt in range(1, TRIES + 1):
            try:
                response = await self._replay.get(address, _turn(request, trace), keep_gzip=request.for_dataset)
                if response.status < 500 or _is_proven(response.head) or is_excluded(response):
                    return response
                problem = f"answers {response.status}"
            except NO_ANSWER as error:
                problem = error.message
            if attempt == TRIES:
                raise WaybackError(f"the archive, asked for {_where(asked)} {TRIES} times, {problem}")
        raise AssertionError("unreachable: the last try returns or raises")

    def _resource(self, answer: _Answer, row: CdxRow | None, url: str, *, via: str) -> Resource:
        response, captured = answer.response, answer.asked.url
        assert response.body is not None
        record = _record(answer, row)
        repeated = None if row is None or row.revisits is None else row.revisits.record()
        return Resource(
            url=resolve(captured) or url,
            status_code=response.status,
            via=via,
            captured_at=moment(answer.timestamp),
            body=response.body,
            content_type=response.content_type,
            links=_links(response.head),
            cdx=repeated or record,
            revisit_cdx=None if repeated is None else record,
            archive_url=replay_url(self._base, answer.timestamp, captured, mode=""),
        )


class CapturesOnly:
    """An archive that is not among the sources: it is asked for addresses of captures, and for nothing else."""

    name = WaybackSource.name

    def __init__(self, archive: FetchSource, base: str) -> None:
        self._archive = archive
        self._base = base

    def refuse(self, request: FetchRequest) -> IngestError | None:
        """Refuses whatever is not the address of a capture."""
        if capture_in(request.url, self._base) is None:
            return NotImplementedUrl(f"{mask(request.url)} is not the address of a capture")
        return self._archive.refuse(request)

    async def fetch(self, request: FetchRequest, trace: FetchTrace) -> Resource:
        return await self._archive.fetch(request, trace)

    async def aclose(self) -> None:
        await self._archive.aclose()


def timestamp_of(text: str) -> str:
    """A date in any usual form as a timestamp: `2020-03`, `2020-03-01T12:00:00Z`, `20200301120000`.

    :raises ValueError: for anything else
    """
    match = re.fullmatch(
        r"(\d{4})-?(\d\d)?-?(\d\d)?(?:[T ]?(\d\d):?(\d\d)(?::?(\d\d)(?:\.\d+)?)?)?(?:Z|\+00:?00)?", text.strip()
    )
    digits = "" if match is None else "".join(part for part in match.groups() if part is not None)
    try:
        moment(digits)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is not a date; write it as 2020-03-31") from None
    return digits


def _answers(row: CdxRow, url: str, near: str) -> bool:
    """Whether a capture is a good one of a URL within a minute of a time, so that the index need not be asked."""
    distance = abs((row.captured_at - moment(near)).total_seconds())
    return distance <= 60 and (row.is_ok or row.is_redirect) and is_same_url(row.url, url)


def _turn(request: FetchRequest, trace: FetchTrace) -> Turn:
    return Turn(request.priority or trace.terminal is not None, request.back_offs)


def _where(capture: Capture) -> str:
    return f"the capture of {mask(capture.url)} of {day(capture.timestamp) or capture.timestamp}"


def _location(head: Head) -> bytes | None:
    return next((value for value in head.get_all(b"location") if value.strip()), None)


def _is_proven(head: Head, *, redirect: bool = False) -> bool:
    """Whether a header says that this is a capture, and not a page of the archive itself."""
    proofs = [b"x-archive-src", b"memento-datetime", *([b"x-archive-redirect-reason"] if redirect else [])]
    return any(head.get(name) for name in proofs)


def _came(head: Head, asked: Capture) -> Capture:
    """The capture that came: the archive may deliver that of a variant of the URL (http, https, www)."""
    for value in head.get_all(b"link"):
        original = _ORIGINAL.search(value.decode("latin-1"))
        url = resolve(original[1]) if original else None
        if url is not None and same_page(url, asked.url) and not is_same_url(asked.url, url):
            return Capture(asked.timestamp, url)
    return asked


def _time_of(head: Head, asked: Capture) -> str:
    """When the capture was made that came: the archive may deliver another one than was asked for."""
    said = (head.get(b"memento-datetime") or b"").decode("latin-1")
    try:
        return digits14(parsedate_to_datetime(said))
    except (ValueError, TypeError, IndexError, OverflowError):
        if asked.near is None:
            raise WaybackError(f"the archive does not say of when {_where(asked)} is") from None
        return digits14(moment(asked.near))


def _links(head: Head) -> tuple[str, ...]:
    """The Link headers of the captured response, without those that lead from one capture to the next."""
    values = [*head.get_all(b"x-archive-orig-link"), *head.get_all(b"link")]
    texts = (value.decode("utf-8", "replace") for value in values)
    return tuple(text for text in texts if not _MEMENTO.search(text))


def _record(answer: _Answer, row: CdxRow | None) -> Cdx:
    """The index entry of what came, as far as it is known."""
    if row is not None and (row.timestamp, row.url) == (answer.timestamp, answer.asked.url):
        return row.record()
    source = (answer.response.head.get(b"x-archive-src") or b"").decode("latin-1")
    return Cdx(answer.asked.url, answer.timestamp, warc_path=source if _WARC.search(source) else None)
