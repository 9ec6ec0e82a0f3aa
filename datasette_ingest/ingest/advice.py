"""What a person can do about each status."""

from __future__ import annotations

from .errors import STATUSES, SUCCESS, RetryClass

_WAIT = "Wait: a job with --due tries it again when its time has come."
_ARCHIVE = "Ask a web archive as well: set sources to live, wayback."
_LOOK = "Look at one with `datasette ingest url URL --explain`."

_BY_CLASS = {
    RetryClass.NOW: _WAIT,
    RetryClass.SOON: _WAIT,
    RetryClass.LATER: f"{_WAIT} Until then, look for another copy.",
    RetryClass.NEVER: "Another try ends alike: look for another copy.",
}
ADVICE = {
    SUCCESS: "",
    "invalid-url": "Correct the cell: it holds no URL and no DOI.",
    "bad-scheme": "Give an http or https address.",
    "skip-url-blocklist": "Nothing; or take the entry out of blocklist.",
    "not-implemented": "Give the page's own address instead of the archive's.",
    "forbidden-address": "If the network is yours, permit it: allow_networks.",
    "invalid-host-resolution": _ARCHIVE,
    "connect-error": f"{_WAIT} If the host is gone: {_ARCHIVE[0].lower()}{_ARCHIVE[1:]}",
    "tls-error": "If you trust the host without a certificate, name it in insecure_hosts. " + _ARCHIVE,
    "read-timeout": f"{_WAIT} For slow hosts, raise timeout and deadline.",
    "blocked-robots": f"Ask the site for permission. {_ARCHIVE}",
    "body-too-large": "Raise max_body_bytes if you want such files.",
    "terminal-bad-status": f"5xx and 429: wait for --due. 404 and the like: {_ARCHIVE[0].lower()}{_ARCHIVE[1:]}",
    "too-many-redirects": "Raise max_redirects, or correct the URL.",
    "redirect-loop": _LOOK,
    "link-loop": f"{_LOOK} A link rule may help.",
    "max-hops-exceeded": "Raise max_hops or max_candidates.",
    "no-pdf-link": f"{_LOOK} A link rule may help; or ask for html.",
    "no-capture": "Ask the live web as well: set sources to live, wayback.",
    "wayback-content-error": "Ask the live web as well: set sources to live, wayback.",
    "redirects-exceeded": "Ask the live web as well: set sources to live, wayback.",
    "wrong-mimetype": f"{_LOOK} Ask for the type that is there, such as html.",
    "hash-mismatch": "Correct expect_hash, or look for the file elsewhere: this one has changed.",
    "wrong-scope": "Give the article's own address instead of a page about it; or ask for pdf.",
    "unknown-scope": _LOOK,
    "skip-wall": _ARCHIVE,
    "blocked-wall": f"{_ARCHIVE} Or look for an open copy.",
    "blocked-captcha": _ARCHIVE,
    "blocked-cookie": _ARCHIVE,
    "blocked-forbidden": _ARCHIVE,
    "soft-404": _ARCHIVE,
    "js-required": _ARCHIVE,
    "platform-scope": "Give the address of a dataset, not of a collection or a search.",
    "no-platform-match": f"{_LOOK} Ask for another type.",
}


def advice(status: str) -> str:
    """A sentence or two; '' for a hit, and for a status of another program."""
    if status in ADVICE:
        return ADVICE[status]
    error = STATUSES.get(status)
    return "" if error is None else _BY_CLASS[error.retry]


def meaning(status: str) -> str:
    """When the status is given, a sentence; '' for one of another program."""
    if status == SUCCESS:
        return "The wanted file was found."
    error = STATUSES.get(status)
    return "" if error is None else (error.__doc__ or "").partition("\n\n")[0].replace("\n    ", " ").strip()
