"""Every way a row can miss: one class, one status slug, one retry class.

A slug is written here and nowhere else; the rest of the crawler raises the class.
"""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, TypeVar

_Error = TypeVar("_Error", bound="IngestError")

MESSAGE_LIMIT = 1600
"""Longest `error_message` in characters; the length that readers of sandcrawler's tables know."""


class RetryClass(str, Enum):
    """When a miss may be asked again by itself."""

    NOW = "now"
    """The server asked for a pause: minutes, doubling to hours."""
    SOON = "soon"
    """A fault that tends to pass: hours, doubling to days."""
    LATER = "later"
    """Somebody would have to change something: a month."""
    NEVER = "never"
    """The same bytes would give the same answer; only a person asks again."""


class IngestError(Exception):
    """Why a row has no hit: an outcome, not a fault of this program.

    `message` is a sentence for a person and names the URL it is about. `retry_after` is what the server asked
    for, in seconds from now. `status_code` is the HTTP status it came with, if it came with one.
    """

    status: ClassVar[str]
    retry: RetryClass = RetryClass.NEVER
    of_settings: ClassVar[bool] = False
    """Whether our own settings decided it: with others the answer is another, so it is never kept as knowledge."""

    def __init__(self, message: str, *, status_code: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(message[:MESSAGE_LIMIT])
        self.message = message[:MESSAGE_LIMIT]
        self.status_code = status_code
        self.retry_after = retry_after

    def locate(self, where: str) -> None:
        """Add the URL at which it happened, if the message does not name it yet."""
        if where not in self.message:
            self.message = f"{self.message} ({where})"[:MESSAGE_LIMIT]

    def again(self: _Error) -> _Error:
        """A copy to raise elsewhere: an exception that is raised twice drags its first traceback along."""
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__)
        copy.args = self.args
        return copy

    def __str__(self) -> str:
        return self.message


def retry_of_code(status_code: int) -> RetryClass:
    """What an HTTP status outside 2xx and 3xx says of another try."""
    if status_code == 429 or 500 <= status_code <= 599:
        return RetryClass.SOON
    return RetryClass.LATER if status_code == 404 else RetryClass.NEVER


# The URL itself


class InvalidUrl(IngestError):
    """The cell is empty, a number, bytes, or text that no browser would take for a URL."""

    status = "invalid-url"


class BadScheme(IngestError):
    """A scheme other than http and https: in a cell, a redirect or a link."""

    status = "bad-scheme"


class SkipUrlBlocklist(IngestError):
    """The URL holds an entry of the blocklist, so nothing was asked."""

    status = "skip-url-blocklist"
    of_settings = True


class NotImplementedUrl(IngestError):
    """A web archive's own page, which stands for another URL."""

    status = "not-implemented"


class ForbiddenAddress(IngestError):
    """The host's address is private, reserved or a service of the local network, and not allowed."""

    status = "forbidden-address"
    of_settings = True


# Reaching the server


class InvalidHostResolution(IngestError):
    """The host has no address."""

    status = "invalid-host-resolution"
    retry = RetryClass.LATER


class ConnectError(IngestError):
    """No connection, or one that was cut before an answer."""

    status = "connect-error"
    retry = RetryClass.SOON


class TlsError(IngestError):
    """The handshake failed or the certificate is not to be trusted."""

    status = "tls-error"
    retry = RetryClass.LATER


class ReadTimeout(IngestError):
    """The server went silent, or a fetch took longer than its deadline."""

    status = "read-timeout"
    retry = RetryClass.SOON


class RateLimited(IngestError):
    """429 or 503 with a pause that is longer than this run waits."""

    status = "rate-limited"
    retry = RetryClass.NOW


class BlockedRobots(IngestError):
    """robots.txt closes the URL, or could not be read for a fault of the server."""

    status = "blocked-robots"
    retry = RetryClass.LATER


# What the server sent


class BadHttp(IngestError):
    """Bytes that are not an HTTP response."""

    status = "bad-http"


class TruncatedBody(IngestError):
    """The body ends before its length, its last chunk, or the end of its own format."""

    status = "truncated-body"
    retry = RetryClass.SOON


class BadEncoding(IngestError):
    """A Content-Encoding that cannot be undone."""

    status = "bad-encoding"


class BadGzipEncoding(IngestError):
    """Bytes called gzip, or beginning as gzip, that do not unpack."""

    status = "bad-gzip-encoding"


class BodyTooLarge(IngestError):
    """More bytes than allowed, on the wire or unpacked, or a body that unpacks out of all proportion."""

    status = "body-too-large"


class EmptyBlob(IngestError):
    """A good status with nothing in the body."""

    status = "empty-blob"
    retry = RetryClass.LATER


class TerminalBadStatus(IngestError):
    """An answer outside 2xx and 3xx. What may be tried again depends on the code."""

    status = "terminal-bad-status"

    def __init__(self, message: str, *, status_code: int, retry_after: float | None = None) -> None:
        super().__init__(message, status_code=status_code, retry_after=retry_after)
        self.retry = retry_of_code(status_code)


# Redirects and links


class BadRedirect(IngestError):
    """A redirect whose Location is missing, empty or unreadable."""

    status = "bad-redirect"


class RedirectLoop(IngestError):
    """A redirect back to a URL already asked, with nothing changed in between."""

    status = "redirect-loop"


class TooManyRedirects(IngestError):
    """More redirects within one fetch than allowed."""

    status = "too-many-redirects"


class LinkLoop(IngestError):
    """The only link leads to a page already seen."""

    status = "link-loop"


class MaxHopsExceeded(IngestError):
    """More pages for one row than allowed."""

    status = "max-hops-exceeded"


class NoPdfLink(IngestError):
    """A page that names no PDF."""

    status = "no-pdf-link"
    retry = RetryClass.LATER


# What the body is


class WrongMimetype(IngestError):
    """A good body of another type than wanted."""

    status = "wrong-mimetype"


class HtmlParseError(IngestError):
    """Bytes called HTML in which no element can be found."""

    status = "html-parse-error"


class XmlParseError(IngestError):
    """XML that is not well-formed, or asks for more than a document should."""

    status = "xml-parse-error"


class HashMismatch(IngestError):
    """A file of the wanted type, but not the one that was asked for."""

    status = "hash-mismatch"


class WrongScope(IngestError):
    """A page about the work, not the work."""

    status = "wrong-scope"


class UnknownScope(IngestError):
    """A page of which one cannot tell."""

    status = "unknown-scope"


# Walls


class SkipWall(IngestError):
    """A link to a login or captcha page, which was not asked for."""

    status = "skip-wall"


class BlockedWall(IngestError):
    """A login page stands where the file should be."""

    status = "blocked-wall"


class BlockedCaptcha(IngestError):
    """A captcha stands where the file should be."""

    status = "blocked-captcha"
    retry = RetryClass.LATER


class BlockedCookie(IngestError):
    """The server insists on a cookie that it did not accept."""

    status = "blocked-cookie"
    retry = RetryClass.LATER


class BlockedForbidden(IngestError):
    """A page that says, with a good status, that access is refused."""

    status = "blocked-forbidden"
    retry = RetryClass.LATER


class Soft404(IngestError):
    """A page that says, with a good status, that nothing is there."""

    status = "soft-404"
    retry = RetryClass.LATER


class JsRequired(IngestError):
    """A page that only a script fills."""

    status = "js-required"


# Datasets: a landing page, the list of its files, and the files


class NoPlatformMatch(IngestError):
    """A page of no platform whose API is known, which does not list the files of a dataset itself."""

    status = "no-platform-match"
    retry = RetryClass.LATER


class PlatformScope(IngestError):
    """A page of a data platform that is no dataset: a collection, a project, a search."""

    status = "platform-scope"


class PlatformRestricted(IngestError):
    """Files of the dataset are closed to the public, or not open yet."""

    status = "platform-restricted"
    retry = RetryClass.LATER


class Platform404(IngestError):
    """The platform's API knows no such dataset, or says that it was withdrawn."""

    status = "platform-404"
    retry = RetryClass.LATER


class PlatformHttpError(IngestError):
    """The platform's API answers with another error. What may be tried again depends on the code."""

    status = "platform-http-error"

    def __init__(self, message: str, *, status_code: int, retry_after: float | None = None) -> None:
        super().__init__(message, status_code=status_code, retry_after=retry_after)
        self.retry = retry_of_code(status_code)


class PlatformError(IngestError):
    """The platform's answer is not the list of files that its API promises, or the list has gaps."""

    status = "platform-error"
    retry = RetryClass.LATER


class EmptyManifest(IngestError):
    """A dataset without a file."""

    status = "empty-manifest"
    retry = RetryClass.LATER


class TooManyFiles(IngestError):
    """A list of more files than are read."""

    status = "too-many-files"


class Mismatch(IngestError):
    """A dataset's file whose checksum is not the one in the list."""

    status = "mismatch"


class MismatchSize(IngestError):
    """A dataset's file whose size is not the one in the list."""

    status = "mismatch-size"


BY_CODE: tuple[type[IngestError], ...] = (TerminalBadStatus, PlatformHttpError)
"""Classes whose retry class depends on the HTTP status: `retry_of_code`."""

SUCCESS = "success"
"""The one status of a hit."""

NOT_TRIED = "not-tried"
"""Outcome of a candidate that was recorded but not fetched."""

STATUSES: dict[str, type[IngestError]] = {error.status: error for error in IngestError.__subclasses__()}
"""slug -> class, for every slug that the crawler gives to a miss."""
OF_SETTINGS = frozenset(error.status for error in STATUSES.values() if error.of_settings)
"""Slugs that are found anew each time; that takes no request."""
