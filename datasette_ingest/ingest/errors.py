"""Every reason why a row has no hit: its exception class, its status slug and its retry class.

A slug is written here and nowhere else. The first sentences of the docstrings are the table in docs/statuses.md.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar, NamedTuple, TypeVar

from ..masking import mask

_Error = TypeVar("_Error", bound="IngestError")

MESSAGE_LIMIT = 1600
"""Longest `error_message` in characters, as in sandcrawler's tables."""


class RetryClass(str, Enum):
    """How soon a miss is tried again without being asked. The waits are in retry.py."""

    NOW = "now"
    """The server asked for a pause."""
    SOON = "soon"
    """A fault that usually passes."""
    LATER = "later"
    """Nothing changes until somebody changes something."""
    NEVER = "never"
    """The same bytes would give the same answer."""


class IngestError(Exception):
    """Why a row has no hit: an outcome of the row, not a fault of this program.

    `message` is a sentence for a person and names the URL, without its password. `status_code` is the HTTP status of the answer, if there
    was one. `retry_after` is the pause that the server asked for, in seconds from now.
    """

    status: str
    retry: RetryClass
    by_code: ClassVar[bool]
    """Whether the HTTP status decides the retry class (`retry_of_code`)."""
    of_settings: ClassVar[bool]
    """Whether our own settings caused it. It is then decided anew each time, since settings change."""

    def __init_subclass__(
        cls,
        *,
        status: str | None = None,
        retry: RetryClass = RetryClass.NEVER,
        by_code: bool = False,
        of_settings: bool = False,
    ) -> None:
        """A class without a status is a case of its base: the same outcome."""
        if status is not None:
            cls.status, cls.retry, cls.by_code, cls.of_settings = status, retry, by_code, of_settings

    def __init__(self, message: str, *, status_code: int | None = None, retry_after: float | None = None) -> None:
        self.message = mask(message)[:MESSAGE_LIMIT]
        super().__init__(self.message)
        self.status_code = status_code
        self.retry_after = retry_after
        if self.by_code and status_code is not None:
            self.retry = retry_of_code(status_code)

    def locate(self, where: str) -> None:
        """Add the URL at which it happened, unless the message names it already."""
        if where not in self.message:
            self.message = f"{self.message} ({where})"[:MESSAGE_LIMIT]

    def with_more(self: _Error, text: str) -> _Error:
        """A copy whose message goes on with another sentence."""
        copy = self.again()
        copy.message = f"{self.message}; {text}"[:MESSAGE_LIMIT]
        return copy

    def again(self: _Error) -> _Error:
        """A copy to raise elsewhere. An exception that is raised twice keeps its first traceback."""
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.args = self.args
        return copy

    def __str__(self) -> str:
        return self.message


class Begun(NamedTuple):
    """What a source has begun for a URL and goes on with in the row's next try."""

    source: str
    url: str


class PutOff(Exception):
    """A row's turn at a host is too far away: no outcome, and the caller asks again later.

    `seconds` from now is when. `reason` is a sentence that names the host, the same for all its rows. `counts`: whether
    the host itself asked us to wait, which a row puts up with a few times only. `begun`: what the row waits for, if a
    source has begun something for it.
    """

    def __init__(self, seconds: float, reason: str, *, counts: bool, begun: Begun | None = None) -> None:
        super().__init__(reason)
        self.seconds = seconds
        self.reason = reason
        self.counts = counts
        self.begun = begun

    def again(self) -> PutOff:
        """A copy to raise elsewhere, as of an IngestError."""
        return PutOff(self.seconds, self.reason, counts=self.counts, begun=self.begun)


class Elsewhere(PutOff):
    """Another process asks the row's next host: no outcome, and the caller hands the row on to it.

    `way` is how far the row's first fetch has come, as JSON, for the next try. None: it has not begun.
    """

    def __init__(self, host: str, way: dict[str, Any] | None) -> None:
        super().__init__(0.0, f"{host} is asked by another process", counts=False)
        self.host = host
        self.way = way

    def again(self) -> Elsewhere:
        return Elsewhere(self.host, self.way)


class StoreError(Exception):
    """The store of files cannot be used: no outcome of a row, since all rows would have it. The message is for a person.

    :param passes: whether it may pass by itself, as a service that does not answer
    """

    def __init__(self, message: str, *, passes: bool = False) -> None:
        self.message = mask(message)[:MESSAGE_LIMIT]
        super().__init__(self.message)
        self.passes = passes


def retry_of_code(status_code: int) -> RetryClass:
    """The retry class of an HTTP status outside 2xx and 3xx."""
    if status_code == 429 or 500 <= status_code <= 599:
        return RetryClass.SOON
    return RetryClass.LATER if status_code == 404 else RetryClass.NEVER


def retry_of_status(status: str, status_code: int | None) -> RetryClass:
    """The retry class of a status slug, with the HTTP status that it came with. Never for a slug not listed here."""
    if status.startswith(Spn2Error.PREFIX):
        return Spn2Error.retry_of(status.removeprefix(Spn2Error.PREFIX))
    error = STATUSES.get(status)
    if error is None:
        return RetryClass.NEVER
    return retry_of_code(status_code) if error.by_code and status_code is not None else error.retry


# The URL itself


class InvalidUrl(IngestError, status="invalid-url"):
    """The cell is empty, a number, bytes, or text that a browser would not accept as a URL."""


class BadScheme(IngestError, status="bad-scheme"):
    """The scheme is neither http nor https, in a cell, a redirect or a link."""


class SkipUrlBlocklist(IngestError, status="skip-url-blocklist", of_settings=True):
    """The URL contains an entry of the blocklist. No request was made."""


class NotImplementedUrl(IngestError, status="not-implemented"):
    """The URL is a page of a web archive that is neither a capture nor a file, or the wanted type is unknown."""


class ForbiddenAddress(IngestError, status="forbidden-address", of_settings=True):
    """The host's address is not on the public internet, and `allow_networks` does not permit it."""


# Reaching the server


class InvalidHostResolution(IngestError, status="invalid-host-resolution", retry=RetryClass.LATER):
    """The host name has no address."""


class NoNameServer(InvalidHostResolution):
    """No name server answered, so whether the host has an address is not known."""


class ConnectError(IngestError, status="connect-error", retry=RetryClass.SOON):
    """No connection could be made, or it was closed before an answer came."""


class Refused(ConnectError):
    """Nothing listens at the host's port."""


class TlsError(IngestError, status="tls-error", retry=RetryClass.LATER):
    """The TLS handshake failed, or the certificate is not trusted."""


class ReadTimeout(IngestError, status="read-timeout", retry=RetryClass.SOON):
    """The server sent nothing for `timeout` seconds, or the request took longer than `deadline` seconds."""


class RateLimited(IngestError, status="rate-limited", retry=RetryClass.NOW):
    """The server answered 429 or 503 and asked for a longer pause than this run waits."""


class BlockedRobots(IngestError, status="blocked-robots", retry=RetryClass.LATER):
    """robots.txt disallows the URL, or could not be read because of a server error."""


# What the server sent


class BadHttp(IngestError, status="bad-http"):
    """The answer is not valid HTTP."""


class TruncatedBody(IngestError, status="truncated-body", retry=RetryClass.SOON):
    """The body ends before its declared length, its last chunk, or the end of its file format."""


class BadEncoding(IngestError, status="bad-encoding"):
    """The Content-Encoding is unknown, or the body cannot be decoded with it."""


class BadGzipEncoding(IngestError, status="bad-gzip-encoding"):
    """The body is labelled gzip, or begins like gzip, and cannot be decompressed."""


class BodyTooLarge(IngestError, status="body-too-large"):
    """The body is larger than allowed before or after decompression, or expands implausibly."""


class EmptyBlob(IngestError, status="empty-blob", retry=RetryClass.LATER):
    """The HTTP status is good, and the body is empty."""


class TerminalBadStatus(IngestError, status="terminal-bad-status", by_code=True):
    """The last HTTP status is neither 2xx nor 3xx. The code decides when it is tried again."""


# Redirects and links


class BadRedirect(IngestError, status="bad-redirect"):
    """A redirect has a missing, empty or unreadable Location."""


class RedirectLoop(IngestError, status="redirect-loop"):
    """A redirect leads back to a URL that was already requested, with the same cookies."""


class TooManyRedirects(IngestError, status="too-many-redirects"):
    """One fetch met more than `max_redirects` redirects."""


class LinkLoop(IngestError, status="link-loop"):
    """The only link leads to a page that was already visited."""


class MaxHopsExceeded(IngestError, status="max-hops-exceeded"):
    """The row needs more than `max_hops` pages or `max_candidates` links."""


class NoPdfLink(IngestError, status="no-pdf-link", retry=RetryClass.LATER):
    """The page has no link to a PDF."""


# Web archives


class NoCapture(IngestError, status="no-capture", retry=RetryClass.LATER):
    """The archive has no capture of the URL or of its redirect target, or none that is young enough."""


class RedirectsExceeded(IngestError, status="redirects-exceeded"):
    """The captures of an archive redirect more often than is followed."""


class CdxError(IngestError, status="cdx-error", retry=RetryClass.SOON):
    """The archive's index did not answer, or its answer cannot be read."""


class WaybackError(IngestError, status="wayback-error", retry=RetryClass.SOON):
    """The archive has a capture and did not deliver it."""


class WaybackContentError(IngestError, status="wayback-content-error"):
    """What the archive holds cannot be used: the site is excluded, or the capture is a server's error."""


# What the body is


class WrongMimetype(IngestError, status="wrong-mimetype"):
    """The file is of another type than the wanted one."""


class HtmlParseError(IngestError, status="html-parse-error"):
    """The body is labelled HTML and contains no HTML element, or takes too much time or memory to read."""


class XmlParseError(IngestError, status="xml-parse-error"):
    """The XML is not well-formed, or exceeds the XML parser's safety limits."""


class HashMismatch(IngestError, status="hash-mismatch"):
    """The file is of the wanted type, but its digest is not the one that the request expects."""


class WrongScope(IngestError, status="wrong-scope"):
    """The page is not the article: a landing page, a list, a home page or the like."""


class UnknownScope(IngestError, status="unknown-scope"):
    """It could not be decided whether the page is the article."""


# Interstitials: what is served instead of the file


class SkipWall(IngestError, status="skip-wall"):
    """The link leads to a login or captcha page. It was not requested."""


class BlockedWall(IngestError, status="blocked-wall"):
    """A login page was served instead of the file."""


class BlockedCaptcha(IngestError, status="blocked-captcha", retry=RetryClass.LATER):
    """A captcha was served instead of the file."""


class BlockedCookie(IngestError, status="blocked-cookie", retry=RetryClass.LATER):
    """The server requires cookies."""


class BlockedForbidden(IngestError, status="blocked-forbidden", retry=RetryClass.LATER):
    """A page with a good HTTP status says that access is refused."""


class Soft404(IngestError, status="soft-404", retry=RetryClass.LATER):
    """A page with a good HTTP status says that nothing was found."""


class JsRequired(IngestError, status="js-required"):
    """The page has no content without JavaScript."""


# Datasets: a landing page, the list of its files, and the files


class NoPlatformMatch(IngestError, status="no-platform-match", retry=RetryClass.LATER):
    """The page is not on a known data platform and lists no files of its own."""


class PlatformScope(IngestError, status="platform-scope"):
    """The page of a data platform is not a dataset but a collection, a project or a search."""


class PlatformRestricted(IngestError, status="platform-restricted", retry=RetryClass.LATER):
    """Files of the dataset are not public, or not public yet."""


class Platform404(IngestError, status="platform-404", retry=RetryClass.LATER):
    """The platform's API does not know the dataset, or says that it was withdrawn."""


class PlatformHttpError(IngestError, status="platform-http-error", by_code=True):
    """The platform's API answered with another HTTP error. The code decides when it is tried again."""


class PlatformError(IngestError, status="platform-error", retry=RetryClass.LATER):
    """The platform's answer is not the list of files that its API documents, or the list is incomplete."""


class EmptyManifest(IngestError, status="empty-manifest", retry=RetryClass.LATER):
    """The dataset has no files."""


class TooManyFiles(IngestError, status="too-many-files"):
    """The list of files is longer than what is read."""


class Mismatch(IngestError, status="mismatch"):
    """The checksum of a dataset's file is not the one in the list."""


class MismatchSize(IngestError, status="mismatch-size"):
    """The size of a dataset's file is not the one in the list."""


# The capture service, Save Page Now 2 (https://docs.google.com/document/d/1Nsv52MvSjbLb2PCpHlat0gkzw0EvtSgpKHu4mk0MnrA)


class Spn2Backoff(IngestError, status="spn2-backoff", retry=RetryClass.NOW):
    """The capture service takes no more captures now. Rows of a job wait instead; a single URL is not kept waiting."""


class Spn2RecentCapture(IngestError, status="spn2-recent-capture", retry=RetryClass.NOW):
    """The capture service says that it has a recent capture, and the archive's index does not have it yet."""


class Spn2CdxLookupFailure(IngestError, status="spn2-cdx-lookup-failure", retry=RetryClass.NOW):
    """The URL was captured, and the archive's index does not have the capture yet."""


class Spn2WaybackError(IngestError, status="spn2-wayback-error", retry=RetryClass.SOON):
    """The URL was captured, and the archive did not deliver the capture."""


class Spn2SuccessPartialUrl(IngestError, status="spn2-success-partial-url", retry=RetryClass.LATER):
    """The URL was captured, and the capture service gives only a part of the captured URL."""


class Spn2NoFtp(IngestError, status="spn2-no-ftp"):
    """The capture service was led to an ftp URL, which it does not capture."""


class NotFound(IngestError, status="not-found"):
    """The capture service was told by the server that the page does not exist."""


class Forbidden(IngestError, status="forbidden"):
    """The capture service was refused by the server."""


class GatewayTimeout(IngestError, status="gateway-timeout", retry=RetryClass.SOON):
    """The server did not answer the capture service in time."""


class RemoteServerError(IngestError, status="remote-server-error", retry=RetryClass.SOON):
    """The server answered the capture service with an error of its own."""


class Spn2Error(IngestError, status="spn2-error", retry=RetryClass.SOON):
    """The capture service failed. With a code of the service, the status is `spn2-error:` and the code.

    The code decides when it is tried again: `never` for those in PERMANENT, else `soon`.
    """

    PREFIX: ClassVar[str] = "spn2-error:"
    PERMANENT: ClassVar[frozenset[str]] = frozenset({
        "bad-request", "bandwidth-limit-exceeded", "blocked", "blocked-client-ip", "blocked-url", "filesize-limit",
        "ftp-access-denied", "http-version-not-supported", "invalid-server-response", "invalid-url-syntax",
        "method-not-allowed", "network-authentication-required", "not-implemented", "unauthorized", "unknown",
    })  # fmt: skip

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        if code:
            self.status = f"{self.PREFIX}{code}"
            self.retry = self.retry_of(code)

    @classmethod
    def retry_of(cls, code: str) -> RetryClass:
        return RetryClass.NEVER if code in cls.PERMANENT else RetryClass.SOON


SUCCESS = "success"
"""The status of every hit."""

NOT_TRIED = "not-tried"
"""The outcome of a candidate that was recorded and not fetched."""

STATUSES: dict[str, type[IngestError]] = {error.status: error for error in IngestError.__subclasses__()}
"""slug -> class, for every slug that the crawler gives to a miss."""
OF_SETTINGS = frozenset(error.status for error in STATUSES.values() if error.of_settings)
"""Slugs that our own settings cause. No request is needed to decide them anew."""

STATUS_ALIASES = {
    "null-body": "empty-blob",
    "other-mimetype": "wrong-mimetype",
    "no-pdf": "no-pdf-link",
    "html-selectolax-error": "html-parse-error",
}
"""Slugs of older tables -> ours."""
