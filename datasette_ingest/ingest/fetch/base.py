"""What every source gives for a URL, and the trail it leaves on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from ..http.body import Body
from ..http.cookies import CookieJar
from ..model import Terminal


@dataclass(slots=True)
class Trail:
    """What one fetch did, also when it failed. Mutable, for one fetch."""

    hops: list[str] = field(default_factory=list)
    """Every URL requested, in order."""
    terminal: Terminal | None = None
    """The last answer that came."""
    refused: str | None = None
    """The URL that the policy or robots.txt kept from being asked, if that is how it ended."""
    accept: str = ""
    """What the answer should be, as an Accept header; empty: what is wanted in general."""
    goes_on: bool = False
    """Whether the row has had an answer before this fetch: it then comes before rows that have not."""
    rests: int = 0
    """Pauses that hosts have asked the row for in earlier tries."""


@dataclass(frozen=True)
class Resource:
    """A URL's content in hand. Whoever gets it closes its body."""

    url: str
    """The URL that answered, after redirects."""
    status_code: int
    received: datetime
    body: Body
    content_type: str
    """The Content-Type header, for its charset only."""
    ends_with_connection: bool
    """Whether nothing but the end of the connection said that the body was complete."""
    links: tuple[str, ...] = ()
    """Its Link headers as they came (RFC 8288)."""

    @property
    def mimetype(self) -> str:
        """The type by content."""
        return self.body.mimetype


class FetchSource(Protocol):
    """A place to ask for URLs: the live web, an archive."""

    name: str
    """What `via` says of its results."""

    async def fetch(self, href: str, jar: CookieJar, trail: Trail) -> Resource:
        """The URL's content. Raises IngestError; `trail` then tells how far it came. PutOff: to be asked again later."""
        ...

    async def aclose(self) -> None: ...
