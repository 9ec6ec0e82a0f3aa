"""What a person can do about each status."""

from __future__ import annotations

from typing import NamedTuple

from .errors import NOT_TRIED, STATUSES, SUCCESS, RetryClass, Spn2Error

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


class Case(NamedTuple):
    """Answers of one kind among those of a status that the HTTP status decides. `codes` are the only ones, or all from
    the first to the last where there are two and `is_range`."""

    label: str
    meaning: str
    advice: str
    codes: tuple[int, ...]
    is_range: bool = False

    def covers(self, code: int) -> bool:
        return self.codes[0] <= code <= self.codes[-1] if self.is_range else code in self.codes


CASES = {
    "404": Case(
        "not found (404, 410)", "The server says that there is no such page, or not any more.", _ARCHIVE, (404, 410)
    ),
    "403": Case(
        "access refused (401, 403)",
        "The server does not let this program in. A person may well get there.",
        f"Open the link in a browser. {_ARCHIVE}",
        (401, 403),
    ),
    "429": Case("too many requests (429)", "The server asks for fewer requests.", _WAIT, (429,)),
    "5xx": Case(
        "server error (5xx)", "The server has a fault of its own, which usually passes.", _WAIT, (500, 599), True
    ),
}
"""The kinds of bad HTTP status that a person would tell apart."""
OTHER_CASE = "other"
_OTHER = Case("another HTTP status", "The server refuses the request.", "Open the link in a browser to see why.", ())


def case_of(status: str, status_code: int | None) -> str:
    """The name in `cases` of a status that came with this HTTP status: `terminal-bad-status:404`."""
    error = STATUSES.get(status)
    if error is None or not error.by_code or status_code is None:
        return status
    kind = next((name for name, case in CASES.items() if case.covers(status_code)), OTHER_CASE)
    return f"{status}:{kind}"


def advice(status: str) -> str:
    """A sentence or two; '' for a hit, and for a status of another program."""
    if status in ADVICE:
        return ADVICE[status]
    if status.startswith(Spn2Error.PREFIX):
        status = Spn2Error.status
    error = STATUSES.get(status)
    return "" if error is None else _BY_CLASS[error.retry]


def meaning(status: str) -> str:
    """When the status is given, a sentence; '' for one of another program."""
    if status == SUCCESS:
        return "The wanted file was found."
    if status == NOT_TRIED:
        return "Other links came first, so this one was not tried."
    if status.startswith(Spn2Error.PREFIX):
        status = Spn2Error.status
    error = STATUSES.get(status)
    return "" if error is None else (error.__doc__ or "").partition("\n\n")[0].replace("\n    ", " ").strip()


def cases() -> dict[str, Case]:
    """Every case of every status that the HTTP status decides, by the name that `case_of` gives."""
    kinds = {**CASES, OTHER_CASE: _OTHER}
    by_code = [status for status, error in STATUSES.items() if error.by_code]
    return {f"{status}:{kind}": case for status in by_code for kind, case in kinds.items()}
