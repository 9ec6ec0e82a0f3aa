"""A checked link: its status word, where it ends, and why; which outcome of a request stands for which word. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..errors import (
    BadRedirect,
    BlockedCaptcha,
    BlockedCookie,
    BlockedForbidden,
    BlockedRobots,
    BlockedWall,
    ForbiddenAddress,
    IngestError,
    InvalidHostResolution,
    InvalidUrl,
    NoNameServer,
    RateLimited,
    RedirectLoop,
    Refused,
    RetryClass,
    SkipUrlBlocklist,
    SkipWall,
    Soft404,
    TerminalBadStatus,
    TooManyRedirects,
)


class LinkStatus(str, Enum):
    """How a link ended."""

    OK = "ok"
    """It leads to a page or a file, at the address that it names."""
    MOVED = "moved"
    """It leads to a page or a file that has moved for good: the new address is known."""
    REDIRECTED = "redirected"
    """It leads to a page or a file at another address, to which the server redirects for the time being."""
    BLOCKED = "blocked"
    """A login, a captcha, the server's refusal or robots.txt stands before it: a person may well get there."""
    UNSURE = "unsure"
    """The server is overloaded or failed, or the link could not be checked."""
    DEAD = "dead"
    """There is nothing: no such page, no such host, no link at all."""
    NO_LINK = "no link"
    """The cell is empty."""


GOOD = frozenset({LinkStatus.OK, LinkStatus.MOVED, LinkStatus.REDIRECTED, LinkStatus.NO_LINK})
"""What is no miss."""
BY_URGENCY = (LinkStatus.DEAD, LinkStatus.UNSURE, LinkStatus.BLOCKED, LinkStatus.MOVED, LinkStatus.REDIRECTED)
"""The words of a report, in the order in which a person looks at them."""

DEFAULT_PREFIX = "link_"
"""How the columns that a check writes onto rows begin."""
DEAD_CODES = frozenset({404, 410})
BLOCKED_CODES = frozenset({401, 402, 403, 407, 451, 999})
"""999 is LinkedIn's answer to robots. 451: unavailable for legal reasons, here (RFC 7725)."""
PASSING_CODES = frozenset({408, 425, 429})
"""4xx that say nothing of the page, beside 5xx: too early, too slow, too often."""

REDIRECTS = frozenset({301, 302, 303, 307, 308})

_BLOCKED = (BlockedWall, BlockedCaptcha, BlockedCookie, BlockedForbidden, BlockedRobots, SkipWall)
_DEAD = (BadRedirect, Soft404, RedirectLoop, TooManyRedirects, InvalidUrl)


class Fragment(str, Enum):
    """What became of a link's fragment."""

    OK = "ok"
    MISSING = "missing"
    UNCHECKED = "unchecked"


@dataclass(frozen=True)
class Verdict:
    """What is known of one link. Passwords in its texts are masked.

    `reason` is a sentence for every word but ok and no link. `url` is where it ends, with its fragment; `code` the last
    HTTP status. `retry` says how soon an unsure one is tried again, `retry_after` what the server asked for, in seconds.
    `unreachable` is the origin that has no address or refuses connections: it is dead when that is still so later.
    """

    status: LinkStatus
    url: str | None = None
    code: int | None = None
    fragment: Fragment | None = None
    reason: str | None = None
    retry: RetryClass = RetryClass.NEVER
    retry_after: float | None = None
    unreachable: str | None = None
    reached: str | None = None
    """The origin that answered."""
    archive_url: str | None = None
    """A web archive's capture of a dead link."""

    @property
    def is_good(self) -> bool:
        return self.status in GOOD


def status_of(error: IngestError) -> LinkStatus:
    """The word for what went wrong."""
    code = error.status_code
    if isinstance(error, BlockedRobots) and code is not None and code >= 500:
        return LinkStatus.UNSURE  # its robots.txt cannot be read, because the server fails
    if isinstance(error, _BLOCKED):
        return LinkStatus.BLOCKED
    if isinstance(error, BadRedirect) and code not in REDIRECTS:
        return LinkStatus.UNSURE  # such as a 300, whose page offers several addresses
    if isinstance(error, _DEAD) or is_unreachable(error):
        return LinkStatus.DEAD
    if isinstance(error, TerminalBadStatus) and code is not None:
        return status_of_code(code)
    return LinkStatus.UNSURE


def status_of_code(code: int) -> LinkStatus:
    """The word for an HTTP status that is neither 2xx nor 3xx.

    Other 4xx (400, 405, 406, 414 and the like) are a server's quarrel with the request: whether a browser gets there is
    not known.
    """
    if code in DEAD_CODES:
        return LinkStatus.DEAD
    return LinkStatus.BLOCKED if code in BLOCKED_CODES else LinkStatus.UNSURE


def retry_of(error: IngestError) -> RetryClass:
    """How soon an unsure link is tried again: never, where our own settings or the link itself cause it."""
    if isinstance(error, RateLimited):
        return error.retry
    if isinstance(error, SkipUrlBlocklist) or error.of_settings:
        return RetryClass.NEVER
    if isinstance(error, TerminalBadStatus) and error.status_code is not None:
        passes = error.status_code >= 500 or error.status_code in PASSING_CODES
        return RetryClass.SOON if passes else RetryClass.NEVER
    if isinstance(error, BlockedRobots):
        return RetryClass.SOON
    return RetryClass.NEVER if error.status == "bad-scheme" else RetryClass.SOON


def is_unreachable(error: IngestError) -> bool:
    """Whether there is no such host, or nothing listens there: dead, when it is still so some time later."""
    return isinstance(error, Refused) or (
        isinstance(error, InvalidHostResolution) and not isinstance(error, NoNameServer)
    )


def reason_of(error: IngestError, host: str) -> str:
    """Why, in a sentence for a person who knows the link, and not what else was asked for it, such as robots.txt."""
    if isinstance(error, InvalidHostResolution):
        return (
            f"no name server answered for {host}" if isinstance(error, NoNameServer) else f"no server is named {host}"
        )
    if isinstance(error, Refused):
        return f"{host} refuses connections"
    if isinstance(error, ForbiddenAddress):
        return f"{host} has a private address, so it was not asked (the setting allow_networks permits one)"
    if isinstance(error, BlockedRobots) and error.status_code is None:
        return f"the robots.txt of {host} forbids it"
    return error.message
