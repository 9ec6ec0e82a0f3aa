"""Sources of content: what is asked of one, what it answers, and the order in which several are asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol, runtime_checkable

from ...sqlite import digits14
from ..errors import (
    BodyTooLarge,
    CdxError,
    IngestError,
    LinkLoop,
    MaxHopsExceeded,
    NoCapture,
    NotImplementedUrl,
    PutOff,
    RateLimited,
    RetryClass,
    SkipWall,
    WaybackError,
)
from ..facts import Cdx
from ..http.body import Body
from ..http.client import AnyTransport, Client
from ..http.cookies import CookieJar
from ..http.politeness import ServiceRates
from ..model import Terminal
from ..policy import Policy
from ..settings import CrawlSettings
from .memory import Memory
from .spn2_captures import Spn2Captures


@dataclass(frozen=True)
class SourceSetup:
    """What a source is made of: the parts that all sources of a crawler share."""

    settings: CrawlSettings
    policy: Policy
    client: Client
    """Asks strangers' servers."""
    services: ServiceRates
    """The pace of the services of the configuration, shared by all crawlers of a process."""
    clock: Callable[[], datetime]
    """Returns the UTC time."""
    spn2_captures: Spn2Captures
    """The captures that this process has begun, likewise."""
    patience: float | None = None
    """Seconds that a row may wait for a turn before it is put off; None: no limit."""
    transport: AnyTransport | None = None
    """Sends the requests to services instead of httpx' own, in tests."""
    is_ours: Callable[[str], bool] | None = None
    """Whether only this process asks a host; None: it is not known which does."""


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """One URL to fetch, and how."""

    url: str
    """An absolute URL in its normal form."""
    jar: CookieJar = field(default_factory=CookieJar)
    """The row's cookies. A source that uses cookies adds those of its answers."""
    accept: str = ""
    """The Accept header; empty: the client's default."""
    mimetypes: frozenset[str] = frozenset()
    """The types that are wanted, so that an archive can prefer a capture of them."""
    as_of: str | None = None
    """The time of the capture to take from an archive; None: the newest."""
    max_capture_age_days: float | None = None
    """An archive's older capture counts as missing."""
    force_recrawl: bool = False
    """Whether existing captures of archives are ignored."""
    for_dataset: bool = False
    """Whether a dataset is collected: packed files stay packed, and an archive's own items may be asked for."""
    priority: bool = False
    """Whether the row has had a response before. Its requests then go before first requests."""
    may_hand_on: bool = False
    """Whether the row can be handed on to the process that asks the next host: it has had no page yet."""
    back_offs: int = 0
    """How often a host asked us to wait in earlier tries of the row."""
    memory: Memory = field(default_factory=Memory)
    """What earlier tries of this row, and of others, have left for this one."""


@dataclass(slots=True)
class FetchTrace:
    """What happened during a fetch, also when it failed. Mutable, for one fetch."""

    hops: list[str] = field(default_factory=list)
    """Every URL requested, in order."""
    hop_sources: list[str] = field(default_factory=list)
    """The source that each of them was requested from."""
    terminal: Terminal | None = None
    """The last response."""
    refused: str | None = None
    """The URL that the policy or robots.txt refused, if that ended the fetch."""
    via: str | None = None
    """The last source that was asked."""


@dataclass(frozen=True)
class Resource:
    """A URL's content. Whoever gets it closes its body."""

    url: str
    """The URL that answered, after redirects."""
    status_code: int
    via: str
    """The source that gave it."""
    captured_at: datetime
    """When the content left its server: now, for the live web; the time of the capture, for an archive."""
    body: Body
    content_type: str
    """The Content-Type header, for its charset only."""
    ends_with_connection: bool = False
    """Whether nothing but the end of the connection said that the body was complete."""
    links: tuple[str, ...] = ()
    """Its Link headers as they came (RFC 8288)."""
    cdx: Cdx | None = None
    """The capture, for an archive."""
    revisit_cdx: Cdx | None = None
    """The later capture without a body of its own that led to it."""
    archive_url: str | None = None
    """Where a person sees the capture, for an archive."""

    @property
    def mimetype(self) -> str:
        """The type by content."""
        return self.body.mimetype

    @property
    def terminal(self) -> Terminal:
        return Terminal(self.url, digits14(self.captured_at), self.status_code, archive_url=self.archive_url)


class FetchSource(Protocol):
    """A place to ask for URLs: the live web, an archive."""

    name: str
    """Its name in the setting `sources`, and what `via` says of its results."""

    def refuse(self, request: FetchRequest) -> IngestError | None:
        """Why this source is not asked for the URL; None if it takes it."""

    async def fetch(self, request: FetchRequest, trace: FetchTrace) -> Resource:
        """The URL's content. `trace` tells how far it came.

        :raises IngestError: when the source does not have it
        :raises PutOff: when it is to be asked again later
        """

    async def aclose(self) -> None: ...


@runtime_checkable
class Resumable(Protocol):
    """A source that begins something for a URL and is asked for it again, in a later try of the row."""

    async def has_begun(self, request: FetchRequest) -> bool:
        """Whether it has begun something for the URL, also for another row. Sources before it are then not asked."""

    async def resume(self, request: FetchRequest) -> None:
        """Go on with what a row waits for.

        :raises PutOff: while it is not done
        """


def rate_limited(put_off: PutOff, back_offs: int) -> RateLimited:
    """The outcome of a row that is put off once more, after so many earlier pauses that servers asked for."""
    return RateLimited(
        f"{put_off.reason} after {back_offs} earlier pauses; {put_off.seconds:.0f} s are left",
        retry_after=put_off.seconds,
    )


def refusal(sources: Sequence[FetchSource], request: FetchRequest) -> IngestError | None:
    """Why no source is asked for the URL: the first one's reason. None if one of them takes it."""
    reasons = [source.refuse(request) for source in sources]
    return None if None in reasons else reasons[0]


_THE_SAME_EVERYWHERE = (BodyTooLarge, LinkLoop, MaxHopsExceeded, NotImplementedUrl, SkipWall)


def may_be_elsewhere(error: IngestError) -> bool:
    """Whether another source may have what one does not. Not what our own settings refuse, nor what is too large."""
    return not (error.of_settings or isinstance(error, _THE_SAME_EVERYWHERE))


def standing(misses: Sequence[tuple[str, IngestError]]) -> tuple[int, IngestError]:
    """Which of the misses of several sources a row takes, and the error with what the others said.

    The one that is tried again soonest, so that a source that was out of order is asked again; of several the last.
    That an archive has no capture counts only where nothing else is known.

    :param misses: of one URL: (name of the source, error), in the order asked; at least one
    """

    def urgency(place: int) -> tuple[int, int]:
        return _URGENCY.index(misses[place][1].retry), place

    known = [place for place, (_, error) in enumerate(misses) if not isinstance(error, NoCapture)]
    place = max(known or range(len(misses)), key=urgency)
    error = misses[place][1]
    others = [f"{name}: {other.message}" for at, (name, other) in enumerate(misses) if at != place]
    return place, error.with_more("; ".join(others)) if others else error


_NOT_LOOKED_UP = (CdxError, WaybackError, RateLimited)
"""Misses of sources that may have the URL: nothing is begun for it before they have answered."""
_URGENCY = (RetryClass.NEVER, RetryClass.LATER, RetryClass.SOON, RetryClass.NOW)


async def fetch_first(sources: Sequence[FetchSource], request: FetchRequest, trace: FetchTrace) -> Resource:
    """The answer of the first source that takes the URL and has it.

    :raises IngestError: the miss that stands of those of the sources that were asked; when none takes the URL, the
        first one's refusal
    """
    refused: IngestError | None = None
    misses: list[tuple[str, IngestError]] = []
    terminals: list[Terminal | None] = []
    for source in await _not_yet_asked(sources, request):
        reason = source.refuse(request)
        if reason is not None:
            refused = refused or reason
            continue
        if isinstance(source, Resumable) and any(isinstance(error, _NOT_LOOKED_UP) for _, error in misses):
            continue
        trace.via, trace.terminal = source.name, None
        try:
            return await source.fetch(request, trace)
        except IngestError as error:
            misses.append((source.name, error))
            terminals.append(trace.terminal)
            if not may_be_elsewhere(error):
                break
        finally:
            trace.hop_sources += [source.name] * (len(trace.hops) - len(trace.hop_sources))
    if not misses:
        assert refused is not None, "there is at least one source"
        raise refused
    place, problem = standing(misses)
    trace.terminal = terminals[place]
    raise problem


async def _not_yet_asked(sources: Sequence[FetchSource], request: FetchRequest) -> Sequence[FetchSource]:
    """The sources without those that were asked before one that has begun something for the URL."""
    for place, source in enumerate(sources):
        if isinstance(source, Resumable) and source.refuse(request) is None and await source.has_begun(request):
            return sources[place:]
    return sources
