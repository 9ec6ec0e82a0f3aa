"""LinksEnrichment: rows -> links -> verdicts -> what the engine writes."""

from __future__ import annotations

import asyncio
import sqlite3
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from ... import compat
from ... import settings as plugin_settings
from ...jobs.enrichment import Enrichment, Row, Selected
from ...jobs.model import RETRIES, BatchOutcome, Failures, RowDefer, RowError, RowUpdate, SavedCopy, Word
from ...sqlite import Specs, fold, quote
from ...text import counted, duration
from .. import schema
from ..errors import PutOff
from ..http.waiting import around_waits
from ..linkcheck.verdict import GOOD, LinkStatus
from ..store.links import TABLE, StoredLink, has_links, write_link
from . import sql
from .estimate import ranked
from .links_config import LinksConfig
from .links_session import Checked, LinkCheck, is_blank
from .rows import host_of
from .session import Sessions, SharedAnswers, Target, Write, utc_now

COLUMNS = {
    "status": "text",
    "url": "text",
    "code": "integer",
    "checked": "text",
    "fragment": "text",
    "reason": "text",
}
"""What is written onto a row, and its SQLite type."""
ARCHIVE_COLUMNS = {"archive_url": "text"}
"""What is written beside it where a web archive is asked."""
REQUESTS = 2
"""Requests for one link to a page: for its head, and for its beginning."""


WORDS = {
    LinkStatus.OK.value: Word("It leads to a page or a file, at the address that it names."),
    LinkStatus.MOVED.value: Word(
        "It leads to a page or a file that has moved for good.", "Replace it: the report has the new address."
    ),
    LinkStatus.REDIRECTED.value: Word("The server leads to another address for the time being.", "Keep the link."),
    LinkStatus.BLOCKED.value: Word(
        "A login, a captcha, the server's refusal or robots.txt stands before it.",
        "Open it in a browser: a person may well get there.",
    ),
    LinkStatus.UNSURE.value: Word(
        "The server is overloaded or failed, or the link could not be checked.", "Check it again later."
    ),
    LinkStatus.DEAD.value: Word(
        "There is nothing: no such page, no such host, no link at all.",
        "Correct the link, or look for a copy in an archive.",
    ),
    LinkStatus.NO_LINK.value: Word("The cell is empty."),
}


class LinksEnrichment(Enrichment):
    """Finds out which of the rows' links are alive."""

    slug = "links"
    name = "Check links"
    description = "Are my links alive? Follow each row's link and record whether it is ok, moved, blocked or dead"
    batch_size = 1
    default_max_errors = 100
    Config = LinksConfig
    words = WORDS
    report = "ingest-links"
    successes = frozenset(status.value for status in GOOD)

    def __init__(self, settings: plugin_settings.Settings, sessions: Sessions) -> None:
        """:param sessions: the crawlers of this process, which other enrichments share"""
        self.settings = settings
        self.max_open_batches = settings.lookahead
        self._sessions = sessions
        self._answers: SharedAnswers[Checked] = SharedAnswers()
        self._checks: dict[tuple[str, int], LinkCheck] = {}

    # What the engine and the form ask

    def columns(self, config: LinksConfig) -> list[str]:
        return [config.url_column, *([config.date_column] if config.date_column else [])]

    def column_types(self, config: LinksConfig) -> Mapping[str, str]:
        return {f"{config.prefix}{name}": kind for name, kind in self._written(config).items()}

    def outcome_column(self, config: LinksConfig) -> str:
        return f"{config.prefix}status"

    def output(self, config: LinksConfig) -> str:
        return config.output

    def tables(self, config: LinksConfig) -> Specs:
        return schema.specs(schema.LINK_TABLES)

    def check_output(self, config: LinksConfig, columns: Sequence[str]) -> None:
        if config.output != "columns":
            return
        ours = {fold(f"{config.prefix}{name}") for name in COLUMNS}
        present = ours & set(map(fold, columns))
        if fold(config.url_column) in ours:
            raise ValueError(f"prefix: the results would overwrite the URL column {config.url_column!r}")
        if present and present != ours:
            raise ValueError(
                f"prefix: the table has a column {sorted(present)[0]!r} that a check of links did not make; choose another "
                "prefix"
            )

    async def defaults(self, db: Any, table: str) -> dict[str, Any]:
        """The column whose name or values look like links."""
        return {"url_column": await compat.read(db, lambda conn: sql.guess_url_column(conn, table))}

    def retry_where(self, config: LinksConfig, table: str, scope: str) -> tuple[str, Mapping[str, Any]] | None:
        """due: unsure links whose next try has come; misses: all that are dead, blocked or unsure."""
        cell = _cell(table, config.url_column)
        found = f"exists (select 1 from {TABLE} where base_url = {cell}"
        due = "next_try <= strftime('%Y-%m-%dT%H:%M:%SZ', 'now')"
        if scope == "pending":
            has_link = f"trim(coalesce({cell}, '')) <> ''"
            return f"({has_link} and not {found}) or {found} and {due}))", {}
        return f"{found} and {due if scope == 'due' else f'status not in ({_GOOD})'})", {}

    def failures(self, config: LinksConfig, table: str) -> Failures:
        """The link, where it led, its HTTP status and the reason, as the last check of the link found them."""
        key = f"{TABLE}.base_url = {_cell(table, config.url_column)}"

        def stored(column: str) -> str:
            return f"(select {TABLE}.{column} from {TABLE} where {key})"

        shown = {
            "message": stored("reason"),
            "url": stored("url"),
            "code": stored("status_code"),
            "archive_url": stored("archive_url"),
            "next_try": stored("next_try"),
        }
        copy = SavedCopy("Capture in a web archive", stored("archive_url"), "''")
        return Failures(None, shown, row_columns=(config.url_column,), copy=copy)

    async def preview(  # type: ignore[override]
        self, rows: Sequence[Row], config: LinksConfig, selected: Selected
    ) -> Mapping[str, Any]:
        if not rows:
            return {}
        resolver = self.settings.doi_resolver
        cells = [row.get(config.url_column) for row in rows]
        hosts = Counter(host_of(cell, resolver) for cell in cells if not is_blank(cell))
        unusable = hosts.pop(None, 0)
        is_whole = selected.count is not None and len(rows) >= selected.count
        of_the_first = "" if is_whole else f" (of the first {len(rows):,} rows)"
        facts: dict[str, Any] = {f"Links{of_the_first}": hosts.total()}
        if hosts:
            facts[f"Hosts{of_the_first}"] = ranked(hosts)
        if empty := sum(map(is_blank, cells)):
            facts[f"Without a link{of_the_first}"] = empty
        if unusable:
            facts[f"Not a link to the web{of_the_first}"] = unusable
        known = await selected.read(lambda conn: _known(conn, selected, config.url_column))
        if known:
            facts["At the last check"] = known
        if hosts:
            host, number = max(hosts.items(), key=lambda item: (item[1], str(item[0])))
            least = duration(max(1, number * self.settings.per_host_delay * (REQUESTS if config.read_pages else 1)))
            facts["Time"] = (
                f"About {least}{' for these rows' if not is_whole else ''}: {counted(number, 'link')} to {host}, which is "
                f"asked every {self.settings.per_host_delay:g} s. Links to hosts that cannot be reached take "
                f"{duration(60 * config.recheck_minutes)} more"
            )
        return facts

    # A job in this process

    async def initialize(self, job: Any, db: Any, config: LinksConfig) -> None:  # type: ignore[override]
        chosen = plugin_settings.override(self.settings, job.settings)
        crawl = chosen.crawl()
        await self._sessions.begin(job, db, crawl, 0.0, Target())
        self._checks[db.name, job.id] = LinkCheck(
            self._sessions.of(job, db),
            self._answers,
            config,
            asks_archive="wayback" in (config.sources or chosen.sources),
            doi_resolver=crawl.doi_resolver,
        )

    async def close(self, job: Any, db: Any) -> None:  # type: ignore[override]
        if await self._sessions.end(job, db):
            del self._checks[db.name, job.id]

    async def enrich_batch(
        self, rows: Sequence[Row], pks: Sequence[Any], config: LinksConfig, job: Any, db: Any
    ) -> BatchOutcome:
        session, check = self._sessions.of(job, db), self._checks[db.name, job.id]
        around_waits.set(job.waiting)
        memories = [session.memory() for _ in rows]
        asked = [
            check.check(
                row[config.url_column], row[config.date_column] if config.date_column else None, job, db, memory
            )
            for row, memory in zip(rows, memories, strict=True)
        ]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        written = self._written(config)
        outcome = BatchOutcome([], [], [], {}, deferred=[])
        for row, pk, answer in zip(rows, pks, answers, strict=True):
            self._collect(
                outcome, row[config.url_column], pk, answer, {f"{config.prefix}{name}": name for name in written}, job
            )
        remembering = [write for memory in memories for write in session.storing(memory)]
        more: list[Write] = [*session.take_back_offs(), *remembering]
        return BatchOutcome(
            outcome.updates, outcome.errors, [*outcome.writes, *more], outcome.outcomes, deferred=outcome.deferred
        )

    def _collect(self, outcome: Any, cell: Any, pk: Any, answer: Any, named: Mapping[str, str], job: Any) -> None:
        if isinstance(answer, PutOff):
            until = utc_now() + timedelta(seconds=answer.seconds)
            outcome.deferred.append(RowDefer(pk, until, answer.reason, counts=answer.counts))
            return
        if isinstance(answer, BaseException):
            if not isinstance(answer, Exception):
                raise answer
            detail = "".join(traceback.format_exception(answer))
            outcome.errors.append(RowError(pk, f"{type(answer).__name__}: {answer}", detail))
            word = "error"
        else:
            link = None if answer is None else answer.link
            word = LinkStatus.NO_LINK.value if link is None else link.status
            outcome.updates.append(RowUpdate(pk, {column: _value(link, name) for column, name in named.items()}))
            if answer is not None and answer.result is not None:
                outcome.writes.append(lambda conn: write_link(conn, cell, answer.link))
                if not answer.result.is_good:
                    job.add(f"{RETRIES}{answer.result.retry.value}", 1)
        outcome.outcomes[word] = outcome.outcomes.get(word, 0) + 1

    def _written(self, config: LinksConfig) -> dict[str, str]:
        asks_archive = "wayback" in (config.sources or self.settings.sources)
        return COLUMNS | (ARCHIVE_COLUMNS if asks_archive else {})


_GOOD = ", ".join(f"'{status.value}'" for status in sorted(GOOD, key=lambda status: status.value))


def _cell(table: str, column: str) -> str:
    """SQL for a row's link as ingest_link has it."""
    return f"cast({quote(table)}.{quote(column)} as text)"


def _value(link: StoredLink | None, name: str) -> Any:
    """A column of a row."""
    if link is None:
        return LinkStatus.NO_LINK.value if name == "status" else None
    return getattr(link, {"code": "status_code"}.get(name, name))


def _known(conn: sqlite3.Connection, selected: Selected, column: str) -> dict[str, int]:
    """How many of the selected rows had each word at the last check of their links."""
    if not has_links(conn):
        return {}
    query = selected.query({"cell": column})
    sql_text = f"select status, count(*) from ({query}) join {TABLE} on base_url = cast(cell as text) group by 1 order by 2 desc"
    return dict(conn.execute(sql_text, dict(selected.params)).fetchall())
