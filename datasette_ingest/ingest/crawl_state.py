"""CrawlState: one row while it is crawled, and the result that it becomes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from .errors import NOT_TRIED, SUCCESS, IngestError, LinkLoop, RetryClass
from .facts import Fact, HtmlMeta
from .fetch.base import FetchRequest, FetchSource, FetchTrace, Resource, fetch_first, refusal
from .http.cookies import CookieJar
from .model import Candidate, CandidateOutcome, FileEntry, Fileset, IngestRequest, IngestResult, Terminal
from .page.biblio import DOI_MISMATCH, Biblio, doi_matches
from .page.read import Page
from .page.scope import html_meta
from .policy import Policy
from .urls import mask, parse, whole_characters, without_fragment

MAX_PLATFORM_ID = 1000
"""Longest name of a dataset in characters; the rest is cut off."""


@dataclass(frozen=True)
class Verdict:
    """How one URL of a row ended: with a hit if `error` is None."""

    error: IngestError | None
    terminal: Terminal | None = None
    via: str | None = None
    """The source of the terminal answer."""
    facts: tuple[Fact, ...] = ()
    """What is known of its body."""
    warnings: tuple[str, ...] = ()
    asked: bool = True
    """Whether a request was made for it."""
    fileset: Fileset | None = None


async def describe(resource: Resource, error: IngestError | None = None, warnings: tuple[str, ...] = ()) -> Verdict:
    """What is known of a body whatever it holds: where it came from, its digests, its type."""
    digests = await resource.body.digests()
    terminal = replace(resource.terminal, sha1hex=digests.sha1hex)
    return Verdict(error, terminal, resource.via, (digests.meta(resource.mimetype),), warnings)


@dataclass(slots=True)
class CrawlState:
    """One row under way. Mutable, for one call."""

    request: IngestRequest
    policy: Policy
    sources: Sequence[FetchSource]
    """Where its URLs are asked for, in this order."""
    rests: int = 0
    """Pauses that hosts have asked for in earlier tries of the row."""
    jar: CookieJar = field(default_factory=CookieJar)
    hops: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    """Every URL asked, without fragments."""
    outcomes: list[CandidateOutcome] = field(default_factory=list)
    pages: int = 0
    links: int = 0
    via: str | None = None
    """The last source that was asked."""
    about: HtmlMeta | None = None
    """What the first page that named a work says of it."""
    biblio: Biblio | None = None
    """The same as facts."""

    def refuse(self, url: str, *, for_dataset: bool = False) -> IngestError | None:
        """Why nothing is asked for a URL; None if something may be."""
        try:
            href = parse(url)
        except IngestError as error:
            return error
        if without_fragment(href) in self.seen and not for_dataset:
            return LinkLoop(f"the link leads back to {mask(href)}, which was seen before")
        refused = refusal(self.sources, FetchRequest(href, for_dataset=for_dataset))
        return refused or self.policy.refuse_link(href)

    @asynccontextmanager
    async def fetch(
        self, href: str, trace: FetchTrace, *, accept: str = "", for_dataset: bool = False
    ) -> AsyncIterator[Resource]:
        """A URL's content, from the first source that has it; closed at the end of the block.

        :raises IngestError: when none has it; `trace` tells how far the last one came
        """
        request = FetchRequest(
            href,
            self.jar,
            accept=accept,
            as_of=self.request.as_of,
            max_capture_age_days=self.request.max_capture_age_days,
            force_recrawl=self.request.force_recrawl,
            for_dataset=for_dataset,
            goes_on=bool(self.hops),
            rests=self.rests,
        )
        try:
            resource = await fetch_first(self.sources, request, trace)
        finally:
            self.hops += trace.hops
            self.seen.add(without_fragment(href))
            self.seen.update(without_fragment(hop) for hop in trace.hops)
            self.via = trace.via or self.via
        try:
            yield resource
        finally:
            resource.body.close()

    def note_page(self, page: Page, sha1hex: str, obstacle: IngestError | None = None, *, is_hit: bool = False) -> None:
        """Keep what the first page that names a work says of it; of a page that is the hit, whatever it says."""
        again = self.about is not None and self.about.sha1hex == sha1hex
        if again or (self.about is None and (is_hit or page.biblio.names_work)):
            self.about, self.biblio = html_meta(page, page.biblio, sha1hex=sha1hex, obstacle=obstacle), page.biblio

    def knows(self, candidate: Candidate) -> bool:
        """Whether a link is in the record already."""
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

    def result(self, verdict: Verdict) -> IngestResult:
        """The answer to the row, without anybody's password in it."""
        error, terminal, is_hit = verdict.error, verdict.terminal, verdict.error is None
        facts: dict[str, Any] = {"html_meta": self.about} | {fact.key: fact for fact in verdict.facts}
        return IngestResult(
            request=self.request,
            hit=is_hit,
            status=SUCCESS if error is None else error.status,
            error_message=None if error is None else _shown(error.message),
            hops=tuple(mask(hop) for hop in self.hops),
            terminal=terminal and replace(terminal, url=mask(terminal.url)),
            warnings=(*verdict.warnings, *self._doubts()) if is_hit else verdict.warnings,
            via=verdict.via if is_hit else self.via,
            candidates=tuple(self.outcomes),
            next_try_class=RetryClass.NEVER if error is None else error.retry,
            retry_after=None if error is None else error.retry_after,
            fileset=verdict.fileset and _masked(verdict.fileset),
            **facts,
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
