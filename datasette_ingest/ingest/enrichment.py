"""The door between the halls: rows -> requests -> crawler -> what to write."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

import pydantic

from .. import compat
from .. import settings as plugin_settings
from ..jobs.enrichment import ColumnField, Enrichment, Row, Selected
from ..jobs.errors import Pause
from ..jobs.model import BatchOutcome, Failures, RelatedRows, RowError, RowUpdate
from ..sqlite import Specs, columns, fold, iso_utc, quote
from . import schema, store
from .cells import cell_key
from .crawler import Crawler
from .errors import IngestError
from .http.hosts import on_behalf_of
from .model import TYPE_ALIASES, IngestRequest, IngestResult
from .outlook import Link, Outlook
from .retry import MAX_ATTEMPTS
from .settings import CrawlSettings
from .store import StoredResult
from .types import INGEST_TYPES, has_files
from .urls import clean_cell, split

RESULT_COLUMNS = {
    "hit": "integer",
    "status": "text",
    "terminal_url": "text",
    "terminal_dt": "text",
    "terminal_status_code": "integer",
    "terminal_sha1hex": "text",
}
"""What is written onto a row, and its SQLite type."""
SAMPLE_ROWS = 50
REST_LOOK_SECONDS = 1.0
REST_WORTH_A_PAUSE = 60.0
"""Seconds of rest that are waited for in place."""
NAMED_RESTING_HOSTS = 10
LIKELY_NAMES = ("url", "link", "href", "uri", "pdf_url", "base_url", "landing_page", "landing_page_url", "doi")
LIKELY_WORDS = frozenset({"url", "urls", "link", "links", "href", "uri", "doi", "fulltext"})


ADVANCED: dict[str, Any] = {"advanced": True}
"""Folded away in the form."""


class IngestConfig(pydantic.BaseModel):
    """What a person chooses for one ingest job. Field by field: INTERFACES, section 1."""

    model_config = pydantic.ConfigDict(extra="forbid")

    url_column: str = ColumnField(
        title="URL column", description="The column with the link of each row: a URL or a DOI in any spelling"
    )
    ingest_type: str = pydantic.Field(
        "pdf",
        title="Wanted file",
        description="pdf, xml (JATS and the like), html (the article as a page) or dataset (all files of one)",
        json_schema_extra={"enum": [*sorted(INGEST_TYPES, key="pdf xml html dataset".find)]},
    )
    type_column: str | None = ColumnField(
        None, title="Type column", description="A column that names the wanted file row by row, instead of one for all"
    )
    output: Literal["columns", "shadow", "none"] = pydantic.Field(
        "columns",
        title="Write results",
        description="columns: onto each row; shadow: into a table _enrichments_… beside it; none: only into the table "
        "ingest_file_result, which is always filled",
    )
    prefix: str = pydantic.Field(
        "ingest_",
        title="Column prefix",
        description="Begins the name of each column that is written",
        min_length=1,
        json_schema_extra=ADVANCED,
    )
    max_age_days: float | None = pydantic.Field(
        None,
        ge=0,
        allow_inf_nan=False,
        title="Use results younger than (days)",
        description="Empty: as the server is configured; 0: always fetch again",
        json_schema_extra=ADVANCED,
    )
    force_recrawl: bool = pydantic.Field(
        False, title="Fetch again", description="Ask every URL again, whatever is known of it"
    )
    sources: list[Literal["live"]] | None = pydantic.Field(
        None, title="Sources", description="Empty: as the server is configured", json_schema_extra=ADVANCED
    )
    source_column: str | None = ColumnField(
        None,
        title="Source column",
        description="Who says that the full text is there, such as crossref. With a source id column, each row is also "
        "recorded as a request in the table ingest_request",
        json_schema_extra=ADVANCED,
    )
    source_id_column: str | None = ColumnField(
        None, title="Source id column", description="The row's identifier at that source", json_schema_extra=ADVANCED
    )
    doi_column: str | None = ColumnField(
        None, title="DOI column", description="The row's DOI, kept with its request", json_schema_extra=ADVANCED
    )

    @pydantic.field_validator("ingest_type")
    @classmethod
    def _known_type(cls, value: str) -> str:
        name = TYPE_ALIASES.get(value, value)
        if name not in INGEST_TYPES:
            raise ValueError(f"unknown type {value!r}; types are {', '.join(sorted(INGEST_TYPES))}")
        return name

    @pydantic.field_validator("prefix")
    @classmethod
    def _usable_prefix(cls, value: str) -> str:
        if not re.fullmatch(r"[^\W\d]\w{0,39}", value):
            raise ValueError("write a name of letters, digits and underscores that begins with a letter")
        return value

    @pydantic.model_validator(mode="after")
    def _both_or_none(self) -> IngestConfig:
        if (self.source_column is None) != (self.source_id_column is None):
            raise ValueError("source_column and source_id_column go together")
        return self


class _Shared:
    """A crawler that the jobs of this process share, its calls, and whether all of them wait for resting hosts."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.sessions: list[_Session] = []
        self.calls: set[asyncio.Task[Any]] = set()
        self.rests_until: datetime | None = None
        self.rested: dict[_Session, list[tuple[str, float]]] = {}
        self._clock_began = time.time() - asyncio.get_running_loop().time()
        self._watch = asyncio.create_task(self._notice_rest(), name="ingest rest watch")

    async def close(self) -> None:
        self._watch.cancel()
        await asyncio.wait([self._watch])
        await self.crawler.aclose()

    async def _notice_rest(self) -> None:
        """When only resting hosts are left, and not for a moment, call their rows off: the job pauses until then."""
        while True:
            await asyncio.sleep(REST_LOOK_SECONDS)
            seconds = self.crawler.resting_until()
            if seconds is None or seconds < REST_WORTH_A_PAUSE:
                continue
            self.rests_until = _now() + timedelta(seconds=seconds)
            self.rested = {session: self.crawler.resting_hosts(session) for session in self.sessions}
            for call in self.calls:
                call.cancel()

    def resting(self, session: _Session) -> list[tuple[str, float]]:
        """The hosts that this job waits for while they rest, or waited for when its rows were called off, and until
        when each rests, in seconds since 1970: the longest rest first."""
        now = asyncio.get_running_loop().time()
        hosts = dict(self.rested.get(session, ())) | dict(self.crawler.resting_hosts(session))
        ranked = sorted(hosts.items(), key=lambda host: (-host[1], host[0]))
        return [(host, self._clock_began + wakes) for host, wakes in ranked if wakes > now]

    async def ingest(self, request: IngestRequest) -> IngestResult:
        """The crawler's answer.

        :raises Pause: when it was called off since every host that is left rests
        """
        task = asyncio.current_task()
        assert task is not None
        self.calls.add(task)
        try:
            return await self.crawler.ingest(request)
        except asyncio.CancelledError:
            if self.rests_until is not None and self.rests_until > _now():
                raise Pause("Every host that is left asked to be left alone for a while", self.rests_until) from None
            raise
        finally:
            self.calls.discard(task)


class _Known:
    """What is stored of URLs: asked for one by one, read together, since each read is a trip to another thread."""

    def __init__(self, db: Any) -> None:
        self._db = db
        self._asked: list[tuple[str, Any, asyncio.Future[StoredResult | None]]] = []
        self._reading: set[asyncio.Task[None]] = set()

    async def get(self, ingest_type: str, base_url: Any) -> StoredResult | None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[StoredResult | None] = loop.create_future()
        if not self._asked:
            loop.call_soon(self._read)
        self._asked.append((ingest_type, base_url, future))
        return await future

    def _read(self) -> None:
        asked, self._asked = self._asked, []
        task = asyncio.create_task(self._read_all(asked))
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)

    async def _read_all(self, asked: list[tuple[str, Any, asyncio.Future[StoredResult | None]]]) -> None:
        def look(conn: sqlite3.Connection) -> list[StoredResult | None]:
            return [store.stored_result(conn, kind, url) for kind, url, _ in asked]

        try:
            found = await compat.read(self._db, look)
        except Exception as problem:  # noqa: BLE001 - each of those who asked has it, and raises it as its own
            for _, _, future in asked:
                if not future.done():
                    future.set_exception(problem)
            return
        for (_, _, future), stored in zip(asked, found, strict=True):
            if not future.done():
                future.set_result(stored)


class _NothingKnown(_Known):
    """Before anything was recorded: there is no table to read."""

    async def get(self, ingest_type: str, base_url: Any) -> StoredResult | None:
        return None


@dataclass(eq=False)
class _Session:
    """One job in this process. `runs` counts the runners that share it."""

    shared: _Shared
    known: _Known
    max_age_days: float
    runs: int = 0

    async def answer(self, request: IngestRequest) -> tuple[StoredResult | None, IngestResult | None]:
        """(what is stored of this URL, what a crawl said now; None where the stored answer is still good)."""
        stored = await self.known.get(request.ingest_type, request.base_url)
        if store.is_fresh(stored, max_age_days=self.max_age_days, now=_now()):
            return stored, None
        on_behalf_of.set(self)
        return stored, await self.shared.ingest(request)


class IngestEnrichment(Enrichment):
    """Finds the full text behind each row's URL."""

    slug = "ingest"
    name = "Find full text"
    description = "Follow each row's link to the PDF, XML or HTML behind it, and record what came back"
    batch_size = 1
    default_max_errors = 100
    Config = IngestConfig

    def __init__(
        self, settings: plugin_settings.Settings, *, make_crawler: Callable[[CrawlSettings], Crawler] = Crawler
    ) -> None:
        self.settings = settings
        self.max_open_batches = settings.lookahead
        self._make_crawler = make_crawler
        self._shared: dict[CrawlSettings, _Shared] = {}
        self._sessions: dict[tuple[str, int], _Session] = {}

    # ---- what the engine and the form ask ----------------------------------------------------------------------

    def columns(self, config: IngestConfig) -> list[str]:
        named = (
            config.url_column,
            config.type_column,
            config.source_column,
            config.source_id_column,
            config.doi_column,
        )
        return list(dict.fromkeys(name for name in named if name is not None))

    def column_types(self, config: IngestConfig) -> Mapping[str, str]:
        return {f"{config.prefix}{name}": kind for name, kind in RESULT_COLUMNS.items()}

    def outcome_column(self, config: IngestConfig) -> str | None:
        return f"{config.prefix}status" if config.output != "none" else None

    def output(self, config: IngestConfig) -> str:
        return "shadow" if config.output == "shadow" else "columns"

    older_tables: Specs = {**schema.TABLES, **schema.VIEWS}

    def tables(self, config: IngestConfig) -> Specs:
        return schema.specs(
            (
                *schema.RESULT_TABLES,
                *(schema.REQUEST_TABLES if config.source_column else ()),
                *(schema.FILESET_TABLES if config.type_column or has_files(config.ingest_type) else ()),
            )
        )

    def check_output(self, config: IngestConfig, columns: Sequence[str]) -> None:
        if config.output != "columns":
            return
        ours = {fold(f"{config.prefix}{name}") for name in RESULT_COLUMNS}
        present = ours & set(map(fold, columns))
        if fold(config.url_column) in ours:
            raise ValueError(f"prefix: the results would overwrite the URL column {config.url_column!r}")
        if present and present != ours:
            raise ValueError(
                f"prefix: the table has a column {sorted(present)[0]!r} that an ingest did not make; choose another prefix"
            )

    async def defaults(self, db: Any, table: str) -> dict[str, Any]:
        """The column whose name or values look like links."""
        return {"url_column": await compat.read(db, lambda conn: guess_url_column(conn, table))}

    def retry_where(self, config: IngestConfig, table: str, scope: str) -> tuple[str, Mapping[str, Any]] | None:
        """Rows whose URL has a stored miss: one whose next try is due, or any that may change."""
        key, params = self._result_key(config, table)
        due = "r.next_try <= strftime('%Y-%m-%dT%H:%M:%SZ', 'now')"
        may_change = f"(r.next_try is not null or r.attempts >= :most or {store.OF_SETTINGS_SQL})"
        condition = due if scope == "due" else may_change
        sql = f"exists (select 1 from ingest_file_result r where {_same(key)} and r.hit = 0 and {condition})"
        return sql, params | ({} if scope == "due" else {"most": MAX_ATTEMPTS})

    def _result_key(self, config: IngestConfig, table: str) -> tuple[dict[str, str], dict[str, Any]]:
        """(the key of a row's result, column -> SQL over the row; its parameters)."""
        column = config.type_column
        kind = _kind_sql(f"{quote(table)}.{quote(column)}" if column else None, ":type")
        link = f"cast({quote(table)}.{quote(config.url_column)} as text)"
        return {"ingest_type": kind, "base_url": link}, {"type": config.ingest_type}

    def retry_config(self, config: Mapping[str, Any], scopes: Sequence[str]) -> Mapping[str, Any]:
        """A person who asks for misses that are not due yet means: fetch them again."""
        return {**config, "force_recrawl": True} if "misses" in scopes else config

    def failures(self, config: IngestConfig, table: str) -> Failures:
        """The outcome on the row, or where none is written there that of its stored result; the link; the result's
        message."""
        key, params = self._result_key(config, table)
        same, column = _same(key), f"{quote(table)}.{quote(config.url_column)}"
        described = {
            name: f"(select r.{kept} from ingest_file_result r where {same})"
            for name, kept in (("message", "error_message"), ("terminal_url", "terminal_url"), ("next_try", "next_try"))
        }
        outcome = None
        if config.output == "none":
            blank = f"trim(coalesce({key['base_url']}, '')) = ''"
            stored = f"(select r.status from ingest_file_result r where {same})"
            outcome = f"case when {blank} then 'invalid-url' else {stored} end"
        related = (
            RelatedRows("Links that were tried", "ingest_candidate", key, sort="rank"),
            RelatedRows("The whole result", "ingest_file_result", key),
        )
        return Failures(outcome, {config.url_column: column, **described}, params, related)

    async def preview(  # type: ignore[override]
        self, rows: Sequence[Row], config: IngestConfig, selected: Selected
    ) -> Mapping[str, Any]:
        """Where the links lead, how many have a fresh result, how long the job takes at least."""
        now, max_age_days = _now(), _max_age_days(self.settings, config)
        named = {"base_url": config.url_column} | ({"kind": config.type_column} if config.type_column else {})
        kind = _kind_sql("kind" if config.type_column else None, ":_ingest_type")
        links_sql = f"select base_url, {kind} as ingest_type from ({selected.query(named)})"
        params = {**selected.params, "_ingest_type": config.ingest_type}

        def look(conn: sqlite3.Connection) -> list[Link]:
            known = store.has_results(conn)
            return [self._link(conn if known else None, row, config, max_age_days, now) for row in rows]

        def count(conn: sqlite3.Connection) -> int:
            if not store.has_results(conn):
                return 0
            return store.count_fresh(conn, links_sql, params, max_age_days=max_age_days, now=now)

        links = await selected.read(look)
        if links is None:
            return {}
        fresh = None if selected.count in (None, len(rows)) else await selected.read(count)
        return Outlook(links, selected.count, fresh, max_age_days, self.settings.per_host_delay).facts()

    def _link(
        self, conn: sqlite3.Connection | None, row: Row, config: IngestConfig, max_age_days: float, now: datetime
    ) -> Link:
        cell = row.get(config.url_column)
        kind = _type_of(row.get(config.type_column) if config.type_column else None, config.ingest_type)
        stored = store.stored_result(conn, kind, cell) if conn is not None else None
        is_fresh = store.is_fresh(stored, max_age_days=max_age_days, now=now)
        return Link((kind, cell_key(cell)), host_of(cell, doi_resolver=self.settings.doi_resolver), is_fresh)

    # ---- the life of a job in this process ---------------------------------------------------------------------

    async def initialize(self, job: Any, db: Any, config: IngestConfig) -> None:  # type: ignore[override]
        mark = (db.name, job.id)
        if mark not in self._sessions:
            chosen = plugin_settings.override(self.settings, job.settings)
            known = _Known(db) if await compat.read(db, store.has_results) else _NothingKnown(db)
            shared = self._share(chosen.crawl(config.sources))
            self._sessions[mark] = _Session(shared, known, _max_age_days(chosen, config))
            shared.sessions.append(self._sessions[mark])
        self._sessions[mark].runs += 1

    async def close(self, job: Any, db: Any) -> None:  # type: ignore[override]
        session = self._sessions[db.name, job.id]
        session.runs -= 1
        if session.runs:
            return
        del self._sessions[db.name, job.id]
        session.shared.sessions.remove(session)
        session.shared.rested.pop(session, None)
        if not session.shared.sessions:
            del self._shared[session.shared.crawler.settings]
            await session.shared.close()

    def _share(self, settings: CrawlSettings) -> _Shared:
        """Jobs with the same settings share a crawler, so that politeness counts for the process."""
        if settings not in self._shared:
            self._shared[settings] = _Shared(self._make_crawler(settings))
        return self._shared[settings]

    def live(self, job: Any, db: Any) -> Mapping[str, Any]:
        """The hosts that rest, and until when."""
        session = self._sessions.get((db.name, job.id))
        resting = session.shared.resting(session) if session is not None else []
        if not resting:
            return {}
        named: list[Any] = [
            {"name": host, "until": _clock_time(until)} for host, until in resting[:NAMED_RESTING_HOSTS]
        ]
        if len(resting) > len(named):
            named.append(f"and {len(resting) - len(named):,} more")
        return {"Hosts that rest": named}

    # ---- the work ----------------------------------------------------------------------------------------------

    async def enrich_batch(
        self,
        rows: Sequence[Row],
        pks: Sequence[Any],
        config: IngestConfig,
        job: Any,
        db: Any,
        table: str,
        actor_id: str | None,
    ) -> BatchOutcome:
        session = self._sessions[db.name, job.id]
        requests = [request_of(row, pk, config, table, actor_id) for row, pk in zip(rows, pks, strict=True)]
        if len(requests) == 1:
            answers: list[Any] = [await session.answer(requests[0])]
        else:
            answers = await asyncio.gather(*map(session.answer, requests), return_exceptions=True)
            for answer in answers:
                if isinstance(answer, Pause):
                    raise answer
        outcome = _Outcome(config, job.id)
        for request, pk, answer in zip(requests, pks, answers, strict=True):
            outcome.add(request, pk, answer)
        return outcome.batch()


def _max_age_days(chosen: plugin_settings.Settings, config: IngestConfig) -> float:
    if config.force_recrawl:
        return 0.0
    return chosen.max_age_days if config.max_age_days is None else config.max_age_days


class _Outcome:
    """Collects one batch's answers into what the engine writes."""

    def __init__(self, config: IngestConfig, job_id: int) -> None:
        self._config = config
        self._job_id = job_id
        self._updates: list[RowUpdate] = []
        self._errors: list[RowError] = []
        self._writes: list[Any] = []
        self._words: dict[str, int] = {}

    def add(self, request: IngestRequest, pk: Any, answer: Any) -> None:
        if isinstance(answer, BaseException):
            self._fail(pk, answer)
            return
        stored, result = answer
        if self._config.source_column is not None:
            self._writes.append(lambda conn: store.write_request(conn, request, now=_now()))
        if result is not None:
            self._writes.append(lambda conn: store.write(conn, result, job_id=self._job_id, now=_now()))
        seen = stored if result is None or store.keeps_hit(stored, result) else result
        assert seen is not None
        self._words[seen.status] = self._words.get(seen.status, 0) + 1
        if self._config.output != "none":
            self._updates.append(RowUpdate(pk, row_columns(seen, self._config.prefix)))

    def _fail(self, pk: Any, problem: BaseException) -> None:
        if not isinstance(problem, Exception):
            raise problem
        detail = "".join(traceback.format_exception(problem))
        self._errors.append(RowError(pk, f"{type(problem).__name__}: {problem}", detail))
        self._words["error"] = self._words.get("error", 0) + 1

    def batch(self) -> BatchOutcome:
        return BatchOutcome(self._updates, self._errors, self._writes, self._words)


def _now() -> datetime:
    return datetime.now(timezone.utc)


def _clock_time(seconds: float) -> str:
    """Seconds since 1970 as the time that tables and pages show."""
    return iso_utc(datetime.fromtimestamp(round(seconds), timezone.utc))


def row_columns(seen: StoredResult | IngestResult, prefix: str) -> dict[str, Any]:
    """The columns of one answer as they stand on the row."""
    return {f"{prefix}{name}": int(seen.hit) if name == "hit" else getattr(seen, name) for name in RESULT_COLUMNS}


def request_of(row: Row, pk: Any, config: IngestConfig, table: str, actor_id: str | None) -> IngestRequest:
    """The row's request; without columns that say otherwise its source is the table, its source id the row's key."""
    given_type = row.get(config.type_column) if config.type_column else None
    doi = cell_words(row.get(config.doi_column)) if config.doi_column else None
    return IngestRequest(
        ingest_type=_type_of(given_type, config.ingest_type),
        base_url=row[config.url_column],
        source=cell_words(row.get(config.source_column)) or table if config.source_column else table,
        source_id=cell_words(row.get(config.source_id_column)) or key_text(pk)
        if config.source_id_column
        else key_text(pk),
        actor=actor_id or "unknown",
        force_recrawl=config.force_recrawl,
        ext_ids={"doi": doi} if doi else None,
    )


def _type_of(given: Any, default: str) -> str:
    text = cell_words(given)
    return default if text is None else TYPE_ALIASES.get(text.lower(), text.lower())


def cell_words(value: Any) -> str | None:
    """A cell as trimmed text; None for a blank one."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else "" if value is None else str(value)
    return text.strip() or None


def key_text(pk: Any) -> str:
    """A row's key as text: parts joined by commas."""
    parts = pk if isinstance(pk, tuple) else (pk,)
    return ",".join(part.hex() if isinstance(part, bytes) else str(part) for part in parts)


def host_of(cell: Any, doi_resolver: str) -> str | None:
    """The host that a cell's link names; None where the cell holds no link."""
    try:
        return split(clean_cell(cell, doi_resolver=doi_resolver)).host
    except IngestError:
        return None


def _same(key: Mapping[str, str]) -> str:
    """SQL for the result `r` that this key, column -> expression, names."""
    return " and ".join(f"r.{column} = {term}" for column, term in key.items())


def _kind_sql(term: str | None, default: str) -> str:
    """The wanted type of a row in SQL, as `_type_of` reads it: what the term says, else `default`."""
    if term is None:
        return default
    given = f"nullif(lower(trim({term})), '')"
    known = " ".join(f"when '{alias}' then '{name}'" for alias, name in TYPE_ALIASES.items())
    return f"coalesce(case {given} {known} else {given} end, {default})"


def guess_url_column(conn: sqlite3.Connection, table: str) -> str | None:
    """The column that most likely holds each row's link, by the first values, then by its name. Never one of those that
    an ingest wrote."""
    names = columns(conn, table)
    cursor = conn.cursor()
    cursor.row_factory = None
    rows = cursor.execute(f"select * from {quote(table)} limit {SAMPLE_ROWS}").fetchall()
    names = names or [column[0] for column in cursor.description]
    ours = result_columns(names)
    best: tuple[float, int, str] | None = None
    for place, name in enumerate(names):
        if name.lower() in ours:
            continue
        cells = [row[place] for row in rows if place < len(row) and cell_key(row[place]) is not None]
        share = sum(host_of(cell, "https://doi.org/") is not None for cell in cells) / len(cells) if cells else 0.0
        named = _likeness(name)
        if share < 0.3 and not (named and not cells):
            continue
        score = (round(share, 1) + named, -place, name)
        best = max(best, score) if best is not None else score
    return best[2] if best else None


def _likeness(name: str) -> float:
    """How much a column's name says that links are in it: 1 for a usual name, less where it is one word of several."""
    if name.lower() in LIKELY_NAMES:
        return 1.0
    words = re.split(r"[\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
    return 0.5 if set(words) & LIKELY_WORDS else 0.0


def result_columns(names: Sequence[str]) -> frozenset[str]:
    """Those of a table's columns, in lower case, that an ingest wrote, whatever its prefix: all of a kind stand there."""
    folded = {name.lower() for name in names}
    prefixes = [name.removesuffix("terminal_sha1hex") for name in folded if name.endswith("terminal_sha1hex")]
    found = [{prefix + name for name in RESULT_COLUMNS} for prefix in prefixes]
    return frozenset().union(*(columns for columns in found if columns <= folded))
