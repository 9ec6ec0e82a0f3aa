"""The slugs: one class each, of the agreed words and retry classes."""

from __future__ import annotations

from datasette_ingest.ingest import errors
from datasette_ingest.ingest.errors import STATUSES, RetryClass

NOW = {"rate-limited", "spn2-backoff", "spn2-recent-capture", "spn2-cdx-lookup-failure"}
SOON = {
    "read-timeout", "connect-error", "truncated-body", "gateway-timeout", "remote-server-error", "spn2-error",
    "spn2-wayback-error", "cdx-error", "wayback-error",
}  # fmt: skip
LATER = {
    "blocked-cookie", "blocked-captcha", "blocked-forbidden", "blocked-robots", "invalid-host-resolution", "tls-error",
    "empty-blob", "soft-404", "no-pdf-link", "no-platform-match", "platform-restricted", "platform-404",
    "platform-error", "empty-manifest", "spn2-success-partial-url", "no-capture",
}  # fmt: skip
NEVER = {
    "redirects-exceeded", "wayback-content-error",
    "invalid-url", "bad-scheme", "skip-url-blocklist", "not-implemented", "forbidden-address", "bad-http",
    "bad-encoding", "bad-gzip-encoding", "body-too-large", "terminal-bad-status", "bad-redirect", "redirect-loop",
    "too-many-redirects", "link-loop", "max-hops-exceeded", "wrong-mimetype", "html-parse-error", "xml-parse-error",
    "hash-mismatch", "wrong-scope", "unknown-scope", "skip-wall", "blocked-wall", "js-required", "platform-scope",
    "platform-http-error", "too-many-files", "mismatch", "mismatch-size", "not-found", "forbidden", "spn2-no-ftp",
}  # fmt: skip


def test_every_slug_has_the_class_that_was_agreed() -> None:
    expected = {
        **dict.fromkeys(NOW, RetryClass.NOW),
        **dict.fromkeys(SOON, RetryClass.SOON),
        **dict.fromkeys(LATER, RetryClass.LATER),
        **dict.fromkeys(NEVER, RetryClass.NEVER),
    }
    assert {slug: error.retry for slug, error in STATUSES.items()} == expected


def test_every_slug_is_written_once() -> None:
    assert len(STATUSES) == len(errors.IngestError.__subclasses__())


def test_a_message_is_cut_and_names_its_place_once() -> None:
    error = errors.BadHttp("x" * 5000)
    assert len(str(error)) == 1600
    short = errors.BadHttp("broken")
    short.locate("http://h/")
    short.locate("http://h/")
    assert str(short) == "broken (http://h/)"
    assert str(short.again()) == str(short) and short.again() is not short
