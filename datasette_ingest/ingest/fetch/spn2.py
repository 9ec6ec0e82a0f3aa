"""Spn2Source: asks a web archive to capture a URL (Save Page Now 2), and takes the capture.

A capture takes from seconds to minutes, and an account may have few of them open. So a row with an open capture, or
without a place for one, is put off (`PutOff.begun`): it costs no task and no memory. What is known of the capture is in
the row's Memory, and a later try, of any row that wants the URL, goes on with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from datetime import time as clock_time
from typing import Any, NamedTuple

from ...text import day
from ..errors import (
    Begun,
    CdxError,
    Forbidden,
    ForbiddenAddress,
    GatewayTimeout,
    IngestError,
    InvalidHostResolution,
    InvalidUrl,
    NoCapture,
    NotFound,
    NotImplementedUrl,
    PutOff,
    RateLimited,
    ReadTimeout,
    RemoteServerError,
    Spn2Backoff,
    Spn2CdxLookupFailure,
    Spn2Error,
    Spn2NoFtp,
    Spn2RecentCapture,
    Spn2SuccessPartialUrl,
    Spn2WaybackError,
    TerminalBadStatus,
    TooManyRedirects,
    WaybackContentError,
    WaybackError,
)
from ..http.service import Service, service_client
from ..http.waiting import wait_idle
from ..policy import Policy
from ..settings import MISSING_KEYS, CrawlSettings
from ..urls import mask, resolve, split, without_fragment
from .archive import Turn
from .base import FetchRequest, FetchTrace, Resource, SourceSetup
from .captures import ARCHIVE_HOSTS, refuse_password
from .cdx_rows import moment
from .memory import Memory
from .spn2_api import Captured, Failed, Pending, Refused, Spn2Api, State, Unusable
from .spn2_captures import LIMIT_SECONDS, Spn2Capture
from .wayback import WaybackSource

FIRST_POLL = 3.0
"""Seconds after which a capture is asked for its state. They double up to LONGEST_POLL."""
LONGEST_POLL = 30.0
INDEX_SECONDS = 3.0
INDEX_LOOKS = 4
"""How often the index is asked for a fresh capture, and how far apart: at once, and for 9 seconds."""
CLOCK_SECONDS = 0.01
"""A row comes back up to a millisecond early, since the time until which it is put off is stored so."""
REUSE_DAYS = 14
"""The service takes an earlier capture that is younger, unless the URL is to be fetched again."""
LONGEST_WAIT = 600.0
"""Seconds that a single URL, which cannot be put off, waits for the service to take it."""
MEMORY_KEY = "spn2 "
"""Before the URL: under this key its Spn2Capture is remembered."""
MIDNIGHT = clock_time(0, 1)
"""When a day begins, a minute late."""
_PUBLIC = Policy()
"""Without `allow_networks`: what we may reach, an archive may not."""
PARTIAL_URL, FTP_URL = "partial url", "ftp url"
"""Codes of ours for captures that succeeded and cannot be used. The service's own contain no space."""

ERRORS: dict[str, type[IngestError]] = {
    "invalid-url": InvalidUrl,
    "not-found": NotFound,
    "no-access": Forbidden,
    "forbidden": Forbidden,
    "invalid-host-resolution": InvalidHostResolution,
    "gateway-timeout": GatewayTimeout,
    "read-timeout": ReadTimeout,
    "too-many-redirects": TooManyRedirects,
    "internal-server-error": RemoteServerError,
    PARTIAL_URL: Spn2SuccessPartialUrl,
    FTP_URL: Spn2NoFtp,
}
"""The codes that have a status of their own. The others are `spn2-error:` and the code."""


class Spn2Source:
    """Asks the capture service at the setting `spn2_url`. No request of ours goes to the server of the URL."""

    name = "spn2"

    def __init__(self, setup: SourceSetup) -> None:
        """:raises ValueError: when the settings have no keys"""
        settings = setup.settings
        client = service_client(
            settings.spn2_url,
            user_agent=settings.full_user_agent,
            timeout=settings.timeout,
            headers={"Accept": "application/json", "Authorization": _authorization(settings)},
            proxy=settings.proxy,
            transport=setup.transport,
        )
        self._api = Spn2Api(Service(client))
        self._host = split(settings.spn2_url).host
        self._policy = setup.policy
        self._limit = settings.spn2_concurrency
        self._max_age_days = settings.max_capture_age_days
        self._patience = setup.patience
        self._captures = setup.spn2_captures
        self._archive = WaybackSource(setup)

    def refuse(self, request: FetchRequest) -> IngestError | None:
        """Refuses what may not become public, and what is in an archive already."""
        parts = split(request.url)
        if request.for_dataset:
            return NotImplementedUrl(f"{mask(request.url)} belongs to a dataset, which is not captured")
        if parts.host.removeprefix("www.") in ARCHIVE_HOSTS:
            return NotImplementedUrl(f"{mask(request.url)} is a web archive's page, which is not captured")
        if (refusal := refuse_password(request.url)) is not None:
            return refusal
        if _PUBLIC.refuse_host(request.url) is not None or not set(parts.host) & {".", ":"}:
            return ForbiddenAddress(f"{mask(request.url)} is not on the public internet; an archive cannot capture it")
        return self._policy.refuse_url(request.url)

    async def has_begun(self, request: FetchRequest) -> bool:
        """Whether something is known of a capture of the URL."""
        return await self._known(request) is not None

    async def resume(self, request: FetchRequest) -> None:
        """Go on with a URL that the row waits for, until it has ended. How it ended, `fetch` tells.

        :raises PutOff: while it has not
        """
        with contextlib.suppress(IngestError):
            await self._finished(request, is_back=True)

    async def fetch(self, request: FetchRequest, trace: FetchTrace) -> Resource:
        try:
            # A row that has had a response goes before those that have had none.
            capture = await self._finished(request, is_back=request.priority)
        except IngestError:
            trace.hops.append(request.url)
            raise
        if capture.error is None and capture.row is None:
            return await self._recent(request, trace)
        trace.hops.append(request.url)
        if capture.row is None:
            raise _failure(capture, request.url)
        self._enter(request.url, capture.row.url, trace)
        try:
            return await self._archive.follow(capture.row, request, trace, via=self.name)
        except WaybackError as error:
            raise Spn2WaybackError(error.message, status_code=error.status_code) from None
        except WaybackContentError as error:
            code = None if trace.terminal is None else trace.terminal.status_code
            if code is None or code < 500:
                raise
            raise TerminalBadStatus(error.message, status_code=code) from None  # it was so a moment ago

    def _enter(self, asked: str, captured: str, trace: FetchTrace) -> None:
        """Note the URL at which a capture ended.

        :raises IngestError: when the policy refuses it
        """
        final = without_fragment(resolve(captured) or asked)
        if final == without_fragment(asked):
            return
        refusal = self._policy.refuse_url(final)
        if refusal is not None:
            trace.refused = final
            raise refusal
        trace.hops.append(final)

    async def aclose(self) -> None:
        await self._api.aclose()
        await self._archive.aclose()

    # From the start of a capture to its row in the index

    async def _finished(self, request: FetchRequest, *, is_back: bool = False) -> Spn2Capture:
        """The URL's capture, once it has failed or is in the index.

        :param is_back: whether the row was told to come back for it
        :raises PutOff: while it has not come so far
        """
        async with self._captures.alone(request.url):
            while True:
                step: Pause | None = None
                capture = await self._known(request)
                if capture is None:
                    step = await self._start(request, is_back=is_back)
                elif capture.error is not None or capture.row is not None or (capture.ended and not capture.url):
                    return capture
                elif (seconds := capture.next_look - time.time()) > CLOCK_SECONDS:
                    remember(request.memory, request.url, capture)
                    step = Pause(seconds, f"{self._host}: a capture is under way")
                elif capture.ended is None:
                    step = await self._poll(request, capture)
                else:
                    await self._look(request, capture)
                if step is not None:
                    is_back = True
                    await self._wait(request, step)

    async def _known(self, request: FetchRequest) -> Spn2Capture | None:
        now = time.time()
        capture = self._captures.get(request.url, now)
        if capture is None:
            capture = _read(await request.memory.get(MEMORY_KEY + request.url))
        return capture if capture is not None and capture.counts(now) else None

    def _note(self, request: FetchRequest, capture: Spn2Capture) -> None:
        self._captures.note(request.url, capture, time.time())
        remember(request.memory, request.url, capture)

    async def _start(self, request: FetchRequest, *, is_back: bool) -> Pause | None:
        """Begin a capture, if there is a place for it."""
        if not request.memory.is_lasting:
            return Pause(0.0, f"{self._host} captures it when the job runs; a dry run begins no capture")
        captures = self._captures
        seconds = captures.enter(time.time(), limit=self._limit, is_back=is_back)
        if seconds:
            closed = captures.is_closed(time.time())
            what = f" takes no captures now: {captures.reason}" if closed else ": waiting for a place for a capture"
            return Pause(seconds, self._host + what)
        try:
            async with captures.starting:
                if captures.is_closed(time.time()):  # since this row took its place
                    return None
                return await self._begin(request)
        finally:
            captures.leave()

    async def _begin(self, request: FetchRequest) -> Pause | None:
        try:
            if not await self._api.places():
                self._captures.full(time.time(), "no place is free")
                return None
            started = await self._api.start(request.url, not_within_hours=self._reuse_hours(request))
        except Refused as refusal:
            return self._refused(refusal)
        except Unusable as problem:
            now = time.time()
            self._captures.refused(now, str(problem))
            message = f"{self._host} did not take it: {problem}"
            self._note(request, Spn2Capture("", now, now, ended=now, error="", message=message))
            return None
        self._captures.accepted()
        now = time.time()
        if isinstance(started, Failed):
            self._note(request, Spn2Capture("", now, now, ended=now, error=started.code, message=started.message))
        elif started.job_id is None:
            self._note(request, Spn2Capture("", now, now, ended=now))
        else:
            self._note(request, Spn2Capture(started.job_id, now, now + FIRST_POLL))
        return None

    async def _poll(self, request: FetchRequest, capture: Spn2Capture) -> Pause | None:
        """Ask the service how an open capture stands."""
        wait = 0.0
        state: State = Pending()
        try:
            state = await self._api.state(capture.job_id)
            if isinstance(state, Captured) and state.original_job_id:
                original = await self._api.state(state.original_job_id)
                state = original if isinstance(original, Captured) else state
        except Refused as refusal:  # of this request, not of the capture
            wait = refusal.seconds or LONGEST_POLL
        except Unusable:
            pass
        now = time.time()
        if isinstance(state, Refused):
            self._captures.forget(request.url)
            request.memory.forget(MEMORY_KEY + request.url)
            return self._refused(state)
        self._note(request, _after(capture, state, now, wait))
        return None

    async def _look(self, request: FetchRequest, capture: Spn2Capture) -> None:
        """Look for a capture in the index, where it may appear some seconds late."""
        url, timestamp = capture.url or "", capture.timestamp or ""
        turn = Turn(priority=True, back_offs=request.back_offs)
        try:
            row = await self._archive.index.exact(url, timestamp, turn=turn)
            if row is not None and row.is_redirect:  # http and https of one URL may have been captured in one second
                row = await self._archive.index.exact(url, timestamp, status=200, turn=turn) or row
        except (CdxError, RateLimited) as error:
            raise Spn2CdxLookupFailure(f"{mask(url)} was captured on {day(timestamp)}: {error.message}") from None
        except PutOff as put_off:
            remember(request.memory, request.url, capture)
            begun = Begun(self.name, request.url)
            raise PutOff(put_off.seconds, put_off.reason, counts=put_off.counts, begun=begun) from None
        now, looks = time.time(), capture.looks + 1
        self._note(request, replace(capture, row=row, looks=looks, next_look=now + INDEX_SECONDS))
        if row is None and looks >= INDEX_LOOKS:
            raise Spn2CdxLookupFailure(
                f"{mask(url)} was captured on {day(timestamp)}, and the index does not list it yet"
            )

    async def _recent(self, request: FetchRequest, trace: FetchTrace) -> Resource:
        """The newest capture: the service says that it is recent, and not when it was made."""
        newest = replace(request, force_recrawl=False, as_of=None, max_capture_age_days=REUSE_DAYS + 1.0)
        try:
            resource = await self._archive.fetch(newest, trace)
        except NoCapture as error:
            raise Spn2RecentCapture(f"{self._host} says that it has captured it recently: {error.message}") from None
        return replace(resource, via=self.name)

    # Waiting

    def _refused(self, refusal: Refused) -> Pause | None:
        """What a row does whose capture was refused."""
        if not refusal.is_general:
            return Pause(_until_tomorrow(), f"{self._host} captures some URLs again tomorrow: {refusal}")
        if refusal.is_full:
            self._captures.full(time.time(), str(refusal))
        else:
            seconds = _until_tomorrow() if refusal.is_daily else refusal.seconds
            self._captures.refused(time.time(), str(refusal), seconds)
        return None

    async def _wait(self, request: FetchRequest, pause: Pause) -> None:
        if self._patience is not None:
            raise PutOff(pause.seconds, pause.reason, counts=False, begun=Begun(self.name, request.url))
        if pause.seconds > LONGEST_WAIT:
            raise Spn2Backoff(f"{mask(request.url)}: {pause.reason}", retry_after=pause.seconds)
        await wait_idle(asyncio.sleep(pause.seconds))

    def _reuse_hours(self, request: FetchRequest) -> int | None:
        """How old a capture may be that the service takes instead of a new one; None: the service's own hour, its least."""
        if request.force_recrawl:
            return None
        limits = (request.max_capture_age_days, self._max_age_days, REUSE_DAYS)
        return int(min(limit for limit in limits if limit is not None) * 24) or None


class Pause(NamedTuple):
    """A row goes on after `seconds`. `reason`: a sentence, the same for all rows that wait for the same thing."""

    seconds: float
    reason: str


def remember(memory: Memory, url: str, capture: Spn2Capture) -> None:
    """Keep what is known of a capture for the row's next try, and for other rows."""
    memory.keep(MEMORY_KEY + url, capture.to_json(), seconds=capture.seconds)


def remembered(stored: Mapping[str, Any]) -> dict[str, Spn2Capture]:
    """URL -> capture, of what is remembered under keys that begin with MEMORY_KEY."""
    found = {key.removeprefix(MEMORY_KEY): _read(value) for key, value in stored.items()}
    return {url: capture for url, capture in found.items() if capture is not None}


def _read(stored: Any) -> Spn2Capture | None:
    """A capture as it was remembered; None where nothing was, or another version has written it."""
    try:
        return None if stored is None else Spn2Capture.from_json(stored)
    except ValueError:
        return None


def _after(capture: Spn2Capture, state: Pending | Captured | Failed, now: float, wait: float) -> Spn2Capture:
    """An open capture, once the service has said how it stands.

    :param wait: seconds in which it wants no more questions
    """
    if isinstance(state, Failed):
        return replace(capture, ended=now, error=state.code, message=state.message)
    if isinstance(state, Captured):
        return _captured(capture, state, now)
    left = capture.began + LIMIT_SECONDS - now
    if left <= 0 and not wait:
        message = f"it is pending for more than {LIMIT_SECONDS:.0f} s, or the service does not tell"
        return replace(capture, ended=now, error="", message=message)
    interval = min(FIRST_POLL * 2 ** (capture.looks + 1), LONGEST_POLL, max(left, 1.0))
    return replace(capture, looks=capture.looks + 1, next_look=now + max(interval, wait))


def _captured(capture: Spn2Capture, state: Captured, now: float) -> Spn2Capture:
    ended = replace(capture, ended=now, looks=0, next_look=now)
    if not is_timestamp(state.timestamp):
        return ended  # it is looked for as a recent one
    if state.url.lower().startswith("ftp:"):
        return replace(ended, error=FTP_URL, message=f"it ended at {mask(state.url)}")
    if not state.url.lower().startswith(("http://", "https://")) or resolve(state.url) is None:
        return replace(ended, error=PARTIAL_URL, message=f"the service says only that it ended at {mask(state.url)!r}")
    return replace(ended, url=state.url, timestamp=state.timestamp)


def is_timestamp(digits: str) -> bool:
    try:
        moment(digits)
    except ValueError:
        return False
    return len(digits) == 14


def _failure(capture: Spn2Capture, url: str) -> IngestError:
    code = capture.error or ""
    message = f"the capture of {mask(url)} failed: {capture.message or code or 'no reason is given'}"
    return ERRORS[code](message) if code in ERRORS else Spn2Error(message, code=code)


def _until_tomorrow() -> float:
    """Seconds until a minute after the next midnight, UTC."""
    now = datetime.fromtimestamp(time.time(), timezone.utc)
    return (datetime.combine(now + timedelta(days=1), MIDNIGHT, timezone.utc) - now).total_seconds()


def _authorization(settings: CrawlSettings) -> str:
    access, secret = settings.spn2_access_key, settings.spn2_secret_key
    if access is None or secret is None:
        raise ValueError(MISSING_KEYS)
    return f"LOW {access.get_secret_value()}:{secret.get_secret_value()}"
