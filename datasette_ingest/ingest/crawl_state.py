"""CrawlState: what is known of one row while it is crawled, and the result at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from .documents.base import StoredFacts, nothing_stored
from .errors import NOT_TRIED, SUCCESS, IngestError, LinkLoop, RetryClass
from .facts import Cdx, Fact, HtmlMeta
from .fetch.base import FetchRequest, FetchSource, FetchTrace, Resource, fetch_first, refusal
from .fetch.memory import Memory
from .http.cookies import CookieJar
from .model import LIVE_ONLY, Candidate, CandidateOutcome, FileEntry, Fileset, IngestRequest, IngestResult, Terminal
from .page.biblio import DOI_MISMATCH, Biblio, doi_matches
from .page.read import Page
from .page.scope import html_meta
from .policy import Policy
from .urls import mask, parse, whole_characters, without_fragment

MAX_PLATFORM_ID = 1000
"""Longest name of a dataset in characters; the rest is cut off."""


@dataclass(frozen=True)
class Outcome:
    """How one URL of a row ended: with a hit if `error` is None."""

    error: IngestError | None
    terminal: Terminal | None = None
    via: str | None = None
    """The source of the terminal answer."""
    facts: tuple[Fact, ...] = ()
    """What is known of its body."""
    warnings: tuple[str, ...] = ()
    captures: tuple[Cdx | None, Cdx | None] = (None, None)
    """An archive's index entry of it, and that of the later capture that led to it."""
    asked: bool = True
    """Whether a request was made for it."""
    fileset: Fileset | None = None


async def describe(resource: Resource, error: IngestError | None = None, warnings: tuple[str, ...] = ()) -> Outcome:
    """The outcome of a URL whose body was received: its source, digests and type."""
    digests = await resource.body.digests()
    terminal = replace(resource.terminal, sha1hex=digests.sha1hex)
    cdx = resource.cdx and replace(resource.cdx, sha1hex=digests.sha1hex)
    revisit_cdx = resource.revisit_cdx and replace(resource.revisit_cdx, sha1hex=digests.sha1hex)
    facts = (digests.meta(resource.mimetype),)
    return Outcome(error, terminal, resource.via, facts, warnings, captures=(cdx, revisit_cdx))


@dataclass(slots=True)
class CrawlState:
    """One row while it is crawled. Mutable, for one call."""

    request: IngestRequest
    policy: Policy
    sources: Sequence[FetchSource]
    """The sources to ask, in this order."""
    back_offs: int = 0
    """How often a host asked us to wait in earlier tries of the row."""
    chosen: tuple[str, ...] = LIVE_ONLY
    """The names of the sources that the row's own settings say; `sources` may have more."""
    memory: Memory = field(default_factory=Memory)
    stored: StoredFacts = nothing_stored
    """What earlier rows have found out about a file."""
    jar: CookieJar = field(default_factory=CookieJar)
    as_of: str | None = None
    """The time of the capture that the row's URL is the address of: its links are asked for at that time, too."""
    hops: list[str] = field(default_factory=list)
    hop_sources: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    """Every URL requested, without fragments."""
    candidates: list[CandidateOutcome] = field(default_factory=list)
    pages: int = 0
    links: int = 0
    via: str | None = None
    """The last source that was asked."""
    html_meta: HtmlMeta | None = None
    """The first page that named a work."""
    biblio: Biblio | None = None
    """What that page says of the work."""

    def refuse(self, url: str, *, for_dataset: bool = False) -> IngestError | None:
        """Why a URL is not requested; None if it may be."""
        try:
            href = parse(url)
        except IngestError as error:
            return error
        if without_fragment(href) in self.seen and not for_dataset:
            return LinkLoop(f"the link leads back to {mask(href)}, which was seen before")
        refused = refusal(self.sources, FetchRequest(href, for_dataset=for_dataset))
        return refused or self.policy.refuse_link(href)

    def fetch_request(
        self, href: str, *, accept: str = "", for_dataset: bool = False, mimetypes: frozenset[str] = frozenset()
    ) -> FetchRequest:
        """The request for a URL of the row."""
        return FetchRequest(
            href,
            self.jar,
            accept=accept,
            mimetypes=mimetypes,
            as_of=self.request.as_of or self.as_of,
            max_capture_age_days=self.request.max_capture_age_days,
            force_recrawl=self.request.force_recrawl,
            for_dataset=for_dataset,
            priority=bool(self.hops),
            may_hand_on=self.pages == 1 and not self.hops and not for_dataset,
            back_offs=self.back_offs,
            memory=self.memory,
        )

    @asynccontextmanager
    async def fetch(
        self,
        href: str,
        trace: FetchTrace,
        *,
        accept: str = "",
        for_dataset: bool = False,
        mimetypes: frozenset[str] = frozenset(),
        sources: Sequence[FetchSource] | None = None,
    ) -> AsyncIterator[Resource]:
        """A URL's content from the first source that has it. It is closed at the end of the block.

        :param sources: only these are asked
        :raises IngestError: when none has it; `trace` tells how far the last one came
        """
        request = self.fetch_request(href, accept=accept, for_dataset=for_dataset, mimetypes=mimetypes)
        try:
            resource = await fetch_first(self.sources if sources is None else sources, request, trace)
            self.seen.add(without_fragment(resource.url))
        finally:
            self.hops += trace.hops
            self.hop_sources += trace.hop_sources
            self.seen.add(without_fragment(href))
            self.seen.update(without_fragment(hop) for hop in trace.hops)
            self.via = trace.via or self.via
        try:
            yield resource
        finally:
            resource.body.close()

    def note_page(self, page: Page, sha1hex: str, obstacle: IngestError | None = None, *, is_hit: bool = False) -> None:
        """Keep what the first page that names a work says of it, or the page that is the hit. Of a hit that names no
        work, the work is that of the page that led to it."""
        again = self.html_meta is not None and self.html_meta.sha1hex == sha1hex
        if again or is_hit or (self.html_meta is None and page.biblio.names_work):
            leads = is_hit and self.biblio is not None and not page.biblio.names_work
            self.biblio = self.biblio if leads and self.biblio is not None else page.biblio
            self.html_meta = html_meta(page, self.biblio, sha1hex=sha1hex, obstacle=obstacle)

    def knows(self, candidate: Candidate) -> bool:
        """Whether a link is recorded already."""
        return any(outcome.url == _shown(candidate.url) for outcome in self.candidates)

    def open_record(self, candidate: Candidate) -> int:
        """Record a link before it is tried; returns its place. Links found on its page come after it."""
        self.candidates.append(
            CandidateOutcome(
                rank=len(self.candidates) + 1,
                url=_shown(candidate.url),
                rule=candidate.rule,
                outcome=NOT_TRIED,
                reason=_shown(candidate.reason) or None,
            )
        )
        return len(self.candidates) - 1

    def close_record(self, place: int, outcome: Outcome) -> None:
        """Record how a link ended."""
        status = SUCCESS if outcome.error is None else outcome.error.status
        code = None if outcome.terminal is None else outcome.terminal.status_code
        self.candidates[place] = replace(self.candidates[place], outcome=status, status_code=code)

    def record_untried(self, candidates: Iterable[Candidate]) -> None:
        for candidate in candidates:
            if not self.knows(candidate):
                self.open_record(candidate)

    def result(self, outcome: Outcome) -> IngestResult:
        """The result of the row. Passwords in URLs are masked."""
        error, terminal, is_hit = outcome.error, outcome.terminal, outcome.error is None
        facts: dict[str, Any] = {"html_meta": self.html_meta} | {fact.key: fact for fact in outcome.facts}
        if isinstance(read := facts["html_meta"], HtmlMeta):
            facts["html_meta"] = read.beside(self.html_meta)
        cdx, revisit_cdx = outcome.captures
        return IngestResult(
            request=self.request,
            hit=is_hit,
            status=SUCCESS if error is None else error.status,
            error_message=None if error is None else _shown(error.message),
            hops=tuple(mask(hop) for hop in self.hops),
            sources=self.chosen,
            hop_sources=tuple(self.hop_sources) if len(set(self.hop_sources)) > 1 else (),
            terminal=terminal and _shown_terminal(terminal),
            cdx=cdx and replace(cdx, url=mask(cdx.url)),
            revisit_cdx=revisit_cdx and replace(revisit_cdx, url=mask(revisit_cdx.url)),
            warnings=(*outcome.warnings, *self._mismatch_warning()) if is_hit else outcome.warnings,
            via=outcome.via if is_hit else self.via,
            candidates=tuple(self.candidates),
            next_try_class=RetryClass.NEVER if error is None else error.retry,
            retry_after=None if error is None else error.retry_after,
            fileset=outcome.fileset and _masked(outcome.fileset),
            **facts,
        )

    def _mismatch_warning(self) -> tuple[str, ...]:
        """The warning of a hit whose page is about another work than the requested one."""
        expected = (self.request.ext_ids or {}).get("doi")
        if self.biblio is None or not isinstance(expected, str) or doi_matches(expected, self.biblio) is not False:
            return ()
        return (DOI_MISMATCH,)


@dataclass
class Attempts:
    """How the links of one page ended. Mutable, for one page."""

    asked: Outcome | None = None
    """The outcome of the best-ranked link that was requested."""
    refused: Outcome | None = None
    """The outcome of the best-ranked link that was refused."""
    left: list[Candidate] = field(default_factory=list)
    """Links that were not tried, because of the limits."""

    def note(self, outcome: Outcome) -> None:
        if outcome.asked:
            self.asked = self.asked or outcome
        else:
            self.refused = self.refused or outcome

    @property
    def best(self) -> Outcome | None:
        """The link whose outcome the row takes, if any."""
        return self.asked or (None if self.left else self.refused)


def _masked(fileset: Fileset) -> Fileset:
    files = (entry if "@" not in f"{entry.path}{entry.url}" else _without_password(entry) for entry in fileset.files)
    name = None if fileset.platform_id is None else _shown(fileset.platform_id[:MAX_PLATFORM_ID])
    return replace(fileset, platform_id=name, files=tuple(files))


def _without_password(entry: FileEntry) -> FileEntry:
    return replace(entry, path=mask(entry.path), url=None if entry.url is None else mask(entry.url))


def _shown_terminal(terminal: Terminal) -> Terminal:
    archive_url = None if terminal.archive_url is None else mask(terminal.archive_url)
    return replace(terminal, url=mask(terminal.url), archive_url=archive_url)


def _shown(text: str) -> str:
    """A text without passwords and without half characters."""
    return mask(whole_characters(text))
