"""Sources of content: what is asked of one, what it answers, and the order in which several are asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from ...sqlite import digits14
from ..errors import IngestError
from ..facts import Cdx
from ..http.body import Body
from ..http.client import AnyTransport, Client
from ..http.cookies import CookieJar
from ..http.politeness import ServiceRates
from ..model import Terminal
from ..policy import Policy
from ..settings import CrawlSettings


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
    patience: float | None = None
    """Seconds that a row may wait for a turn before it is put off; None: no limit."""
    transport: AnyTransport | None = None
    """Sends the requests to services instead of httpx' own, in tests."""


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """One URL to fetch, and how."""

    url: str
    """An absolute URL in its normal form."""
    jar: CookieJar = field(default_factory=CookieJar)
    """The row's cookies. A source that uses cookies adds those of its answers."""
    accept: str = ""
    """The Accept header; empty: the client's default."""
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
    back_offs: int = 0
    """How often a host asked us to wait in earlier tries of the row."""


@dataclass(slots=True)
class FetchTrace:
    """What happened during a fetch, also when it failed. Mutable, for one fetch."""

    hops: list[str] = field(default_factory=list)
    """Every URL requested, in order."""
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
        return Terminal(self.url, digits14(self.captured_at), self.status_code)


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


def refusal(sources: Sequence[FetchSource], request: FetchRequest) -> IngestError | None:
    """Why no source is asked for the URL: the first one's reason. None if one of them takes it."""
    reasons = [source.refuse(request) for source in sources]
    return None if None in reasons else reasons[0]


async def fetch_first(sources: Sequence[FetchSource], request: FetchRequest, trace: FetchTrace) -> Resource:
    """The answer of the first source that takes the URL and has it.

    :raises IngestError: the miss of the last source that was asked; when none takes the URL, the first one's refusal
    """
    refused: IngestError | None = None
    missed: IngestError | None = None
    for source in sources:
        reason = source.refuse(request)
        if reason is not None:
            refused = refused or reason
            continue
        trace.via = source.name
        try:
            return await source.fetch(request, trace)
        except IngestError as error:
            missed = error
    problem = missed or refused
    assert problem is not None, "there is at least one source"
    raise problem
