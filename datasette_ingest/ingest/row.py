"""What is known of one row while it is answered, and the result that it becomes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from .errors import NOT_TRIED, SUCCESS, IngestError, RetryClass
from .facts import FileMeta, HtmlMeta
from .http.cookies import CookieJar
from .model import Candidate, CandidateOutcome, FileEntry, Fileset, IngestRequest, IngestResult, Terminal
from .page.biblio import DOI_MISMATCH, Biblio, doi_matches
from .page.read import Page
from .page.scope import html_meta
from .types import IngestType
from .urls import mask, whole_characters, without_fragment

MAX_PLATFORM_ID = 1000
"""Longest name of a dataset in characters; the rest is cut off."""


@dataclass(frozen=True)
class Verdict:
    """How one URL of a row ended: with a hit if `error` is None."""

    error: IngestError | None
    terminal: Terminal | None = None
    file_meta: FileMeta | None = None
    warnings: tuple[str, ...] = ()
    asked: bool = True
    """Whether a request was made for it."""
    fileset: Fileset | None = None


@dataclass(slots=True)
class Row:
    """One row under way. Mutable, for one call."""

    request: IngestRequest
    kind: IngestType
    jar: CookieJar = field(default_factory=CookieJar)
    hops: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    """Every URL asked, without fragments."""
    outcomes: list[CandidateOutcome] = field(default_factory=list)
    pages: int = 0
    links: int = 0
    about: HtmlMeta | None = None
    """What the first page that named a work says of it."""
    biblio: Biblio | None = None
    """The same as facts."""

    def note_hops(self, href: str, hops: Iterable[str]) -> None:
        """A fetch of `href` asked these URLs."""
        self.hops += hops
        self.seen.add(without_fragment(href))
        self.seen.update(without_fragment(hop) for hop in hops)

    def note_page(self, page: Page, sha1hex: str, obstacle: IngestError | None = None, *, is_hit: bool = False) -> None:
        """Keep what the first page that names a work says of it; of a page that is the hit, whatever it says."""
        again = self.about is not None and self.about.sha1hex == sha1hex
        if again or (self.about is None and (is_hit or page.biblio.names_work)):
            self.about, self.biblio = html_meta(page, page.biblio, sha1hex=sha1hex, obstacle=obstacle), page.biblio

    def knows(self, candidate: Candidate) -> bool:
        """Whether a link stands in the record already."""
        return any(outcome.url == _shown(candidate.url) for outcome in self.outcomes)

    def open_record(self, candidate: Candidate) -> int:
        """Record that a link is being tried; returns its place. Links found on the way to it come after it."""
        self.outcomes.append(
            CandidateOutcome(
                rank=len(self.outcomes) + 1,
                url=_shown(candidate.url),
                rule=candidate.rule,
                outcome=NOT_TRIED,
                reason=_shown(candidate.reason) or None,
            )
        )
        return len(self.outcomes) - 1

    def close_record(self, place: int, verdict: Verdict) -> None:
        """Record how a link ended."""
        status = SUCCESS if verdict.error is None else verdict.error.status
        code = None if verdict.terminal is None else verdict.terminal.status_code
        self.outcomes[place] = replace(self.outcomes[place], outcome=status, status_code=code)

    def record_untried(self, candidates: Iterable[Candidate]) -> None:
        for candidate in candidates:
            if not self.knows(candidate):
                self.open_record(candidate)

    def result(self, verdict: Verdict, *, via: str) -> IngestResult:
        """The answer to the row, without anybody's password in it."""
        error, terminal = verdict.error, verdict.terminal
        return IngestResult(
            request=self.request,
            hit=error is None,
            status=SUCCESS if error is None else error.status,
            error_message=None if error is None else _shown(error.message),
            hops=tuple(mask(hop) for hop in self.hops),
            terminal=terminal and replace(terminal, url=mask(terminal.url)),
            file_meta=verdict.file_meta,
            warnings=(*verdict.warnings, *self._doubts()) if error is None else verdict.warnings,
            via=via,
            candidates=tuple(self.outcomes),
            html_meta=self.about,
            next_try_class=RetryClass.NEVER if error is None else error.retry,
            retry_after=None if error is None else error.retry_after,
            fileset=verdict.fileset and _masked(verdict.fileset),
        )

    def _doubts(self) -> tuple[str, ...]:
        """Whether the page on the way to a hit was about another work than the one asked for."""
        expected = (self.request.ext_ids or {}).get("doi")
        if self.biblio is None or not isinstance(expected, str) or doi_matches(expected, self.biblio) is not False:
            return ()
        return (DOI_MISMATCH,)


@dataclass
class Tried:
    """What became of one page's links. Mutable, for one page."""

    asked: Verdict | None = None
    """The best-ranked link that was asked."""
    refused: Verdict | None = None
    """The best-ranked link that was refused without asking."""
    left: list[Candidate] = field(default_factory=list)
    """Links beyond the limits."""

    def note(self, verdict: Verdict) -> None:
        if verdict.asked:
            self.asked = self.asked or verdict
        else:
            self.refused = self.refused or verdict

    @property
    def best(self) -> Verdict | None:
        """What the page's row takes over from its links, if anything."""
        return self.asked or (None if self.left else self.refused)


def _masked(fileset: Fileset) -> Fileset:
    files = (entry if "@" not in f"{entry.path}{entry.url}" else _without_password(entry) for entry in fileset.files)
    name = None if fileset.platform_id is None else _shown(fileset.platform_id[:MAX_PLATFORM_ID])
    return replace(fileset, platform_id=name, files=tuple(files))


def _without_password(entry: FileEntry) -> FileEntry:
    return replace(entry, path=mask(entry.path), url=None if entry.url is None else mask(entry.url))


def _shown(text: str) -> str:
    """A text as a table may show it."""
    return mask(whole_characters(text))


def refused(request: IngestRequest, error: IngestError) -> IngestResult:
    """The answer to a row for which nothing was asked: no hops, no terminal, no source."""
    return IngestResult(request, False, error.status, _shown(error.message), next_try_class=error.retry)
