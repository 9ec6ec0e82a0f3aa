"""IngestEnrichment: rows -> requests -> crawler -> what the engine writes."""

from __future__ import annotations

import asyncio
import importlib.util
import sqlite3
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from ... import compat
from ... import settings as plugin_settings
from ...jobs.engine.complete import DeferredRows
from ...jobs.enrichment import Enrichment, Row, Selected
from ...jobs.errors import Pause
from ...jobs.model import CASES, RETRIES, BatchOutcome, Failures, RowDefer, RowError, RowUpdate
from ...sqlite import SHADOW_PREFIX, Specs, columns, fold, iso_utc
from .. import schema, store
from ..advice import case_of
from ..crawler import Crawler
from ..documents.registry import tables_of as tables_read
from ..errors import PutOff, StoreError
from ..fetch import ARCHIVES
from ..http.waiting import around_waits
from ..load.results import LoadedResult
from ..model import IngestRequest
from ..settings import CrawlSettings
from ..sinks import store_of
from ..store.requests import TABLE as REQUESTS
from ..types import INGEST_TYPES, ingest_type, tables_of
from . import outbox, sql
from .config import IngestConfig
from .estimate import estimate
from .fleet import REASON, AtFleet, Fleets
from .rows import ARCHIVE_COLUMNS, RESULT_COLUMNS, request_of, result_columns, row_columns
from .session import Answered, Sessions, Target, Write, pause_for, utc_now
from .words import WORDS


class IngestEnrichment(Enrichment):
    """Finds the full text behind each row's URL."""

    slug = "ingest"
    name = "Find full text"
    description = "Follow each row's link to the PDF, XML or HTML behind it, and record what came back"
    batch_size = 1
    default_max_errors = 100
    Config = IngestConfig
    words = WORDS
    when_taken = "give the tables of results other names: set table_prefix"

    def __init__(self, settings: plugin_settings.Settings, *, make_crawler: Callable[..., Crawler] = Crawler) -> None:
        self.settings = settings
        self.max_open_batches = settings.lookahead
        self.sessions = Sessions(make_crawler)
        """The crawlers of this process, for other enrichments that ask strangers' servers."""
        self._fleets = Fleets(self._answer_of_fleet)

    # What the engine and the form ask

    def columns(self, config: IngestConfig) -> list[str]:
        named = (
            config.url_column,
            config.type_column,
            config.source_column,
            config.source_id_column,
            config.doi_column,
            config.request_column,
        )
        return list(dict.fromkeys(name for name in named if name is not None))

    def column_types(self, config: IngestConfig) -> Mapping[str, str]:
        if config.output == "none":
            return {}
        named = result_columns(config.sources or self.settings.sources)
        return {f"{config.prefix}{name}": kind for name, kind in named.items()}

    def outcome_column(self, config: IngestConfig) -> str | None:
        return f"{config.prefix}status" if config.output != "none" else None

    def code_column(self, config: IngestConfig) -> str | None:
        return f"{config.prefix}terminal_status_code" if config.output != "none" else None

    def case(self, outcome: str, code: int | None) -> str:
        return case_of(outcome, code)

    def output(self, config: IngestConfig) -> str:
        return "shadow" if config.output == "shadow" else "columns"

    def tables(self, config: IngestConfig) -> Specs:
        kinds = INGEST_TYPES if config.type_column else [config.ingest_type]
        requests = schema.REQUEST_TABLES if config.source_column else ()
        asks_archive = not ARCHIVES.isdisjoint(config.sources or self.settings.sources)
        captures = schema.ARCHIVE_TABLES if asks_archive else ()
        types = [table for kind in kinds for table in tables_of(kind)]
        crawl = self.settings.crawl()
        read = [table for kind in map(ingest_type, kinds) for table in tables_read(crawl, kind.mimetypes, kind.name)]
        views = [schema.VIEWS_OF[table] for table in read if table in schema.VIEWS_OF]
        fleet = schema.specs(schema.FLEET_TABLES) if config.run_on == "kafka" else {}
        results = (*schema.RESULT_TABLES, *captures, *requests, *types, *read, *views)
        return schema.specs(results, prefix=config.table_prefix) | fleet

    def most_deferred_rows(self, config: IngestConfig) -> int:
        """Of a job over the fleet no more than `lookahead`, so that its topic is no copy of the table."""
        return self.settings.lookahead if config.run_on == "kafka" else self.max_deferred_rows

    def check_output(self, config: IngestConfig, columns: Sequence[str]) -> None:
        plugin_settings.check_sources(self.settings, config.sources)
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
        """The columns of ingest_request; of another table, the column whose name or values look like links."""
        if await compat.read(db, lambda conn: sql.is_requests(conn, table)):
            return dict(sql.REQUEST_DEFAULTS)
        return {"url_column": await compat.read(db, lambda conn: sql.guess_url_column(conn, table))}

    def retry_where(self, config: IngestConfig, table: str, scope: str) -> tuple[str, Mapping[str, Any]] | None:
        return sql.retry_where(config, table, scope)

    def retry_config(self, config: Mapping[str, Any], scopes: Sequence[str]) -> Mapping[str, Any]:
        """Misses that are not due yet are fetched again, since a person asked for them."""
        return {**config, "ask_again": True} if "misses" in scopes else config

    def failures(self, config: IngestConfig, table: str) -> Failures:
        return sql.failures(config, table)

    async def preview(  # type: ignore[override]
        self, rows: Sequence[Row], config: IngestConfig, selected: Selected
    ) -> Mapping[str, Any]:
        return await estimate(
            rows,
            config,
            selected,
            now=utc_now(),
            max_age_days=_max_age_days(self.settings, config),
            per_host_delay=self.settings.per_host_delay,
            doi_resolver=self.settings.doi_resolver,
            sources=config.sources or self.settings.sources,
            cdx_per_minute=self.settings.cdx_per_minute,
            spn2_concurrency=self.settings.spn2_concurrency,
        )

    # A job in this process

    async def initialize(  # type: ignore[override]
        self, job: Any, db: Any, config: IngestConfig, table: str, datasette: Any = None
    ) -> None:
        chosen = plugin_settings.override(self.settings, job.settings)
        try:
            plugin_settings.check_sources(chosen, config.sources)
        except plugin_settings.SettingsError as problem:
            # Keys are not stored with a job, and this process does not have them.
            raise Pause(str(problem)) from None
        crawl = await _with_store(chosen.crawl(config.sources), is_dry_run=job.is_dry_run)
        written = await compat.read(db, lambda conn: _target(conn, config, table, crawl.sources))
        max_age_days = _max_age_days(chosen, config)
        fleet = None
        if config.run_on == "kafka":
            kafka = _kafka(chosen)
            if not job.is_dry_run:
                fleet = await self._fleets.begin(datasette, db, job.id, kafka, crawl.doi_resolver)
        try:
            await self.sessions.begin(job, db, crawl, max_age_days, written, force=config.ignores_results, fleet=fleet)
        except BaseException:
            if fleet is not None:
                await self._fleets.end(db, job.id)
            raise

    async def close(self, job: Any, db: Any) -> None:  # type: ignore[override]
        fleet = self.sessions.of(job, db).fleet
        try:
            await self.sessions.end(job, db)
        finally:
            if fleet is not None:
                await self._fleets.end(db, job.id)

    def _answer_of_fleet(self, conn: sqlite3.Connection, deferred: DeferredRows, given: LoadedResult) -> BatchOutcome:
        """What is written of a result of the fleet: as of a crawl in this process."""
        job, config = deferred.job, deferred.config
        chosen = plugin_settings.override(self.settings, job.options.settings or {})
        target = _target(conn, config, job.table_name, chosen.sources)
        outcome = _BatchCollector(config, target, job_id=job.id, records_requests=fold(job.table_name) != REQUESTS)
        request = given.result.request
        results = schema.under_prefix(conn, target.table_prefix)
        stored = store.stored_result(results, request.ingest_type, request.base_url)
        is_newer = stored is None or stored.updated < iso_utc(given.when)
        answered = Answered(stored, given.result, given.when, job.id) if is_newer else Answered(stored)
        for row, pk in zip(deferred.rows, deferred.pks, strict=True):
            asks = request_of(row, pk, config, job.table_name, job.actor_id)
            if outbox.digest_of(job.id, asks) == outbox.digest_of(job.id, request):
                outcome.add(asks, pk, answered)
            else:
                outcome.add(asks, pk, PutOff(0.0, "The row has changed while its link was followed", counts=False))
        deferred.counters.update(outcome.counters)
        return outcome.batch(())

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
        session = self.sessions.of(job, db)
        around_waits.set(job.waiting)
        requests = [request_of(row, pk, config, table, actor_id) for row, pk in zip(rows, pks, strict=True)]
        memories = [session.memory() for _ in requests]
        asked = [
            session.answer(request, job.deferrals, memory) for request, memory in zip(requests, memories, strict=True)
        ]
        answers = [await asked[0]] if len(asked) == 1 else await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, Pause):
                raise answer
        outcome = _BatchCollector(config, session.target, job_id=job.id, records_requests=fold(table) != REQUESTS)
        for request, pk, answer in zip(requests, pks, answers, strict=True):
            outcome.add(request, pk, answer)
        for name, number in outcome.counters.items():
            job.add(name, number)
        remembering = [write for memory in memories for write in session.storing(memory)]
        return outcome.batch([*session.take_back_offs(), *remembering])


async def _with_store(crawl: CrawlSettings, *, is_dry_run: bool) -> CrawlSettings:
    """The settings of a job, whose files can be kept. A dry run keeps none.

    :raises Pause: where they cannot be kept, before any is fetched
    """
    if is_dry_run:
        return crawl.model_copy(update={"store": None})
    try:
        store = store_of(crawl)
        if store is not None:
            await store.prepare()
    except StoreError as problem:
        raise pause_for(problem) from None
    return crawl


def _max_age_days(chosen: plugin_settings.Settings, config: IngestConfig) -> float:
    return chosen.max_age_days if config.max_age_days is None else config.max_age_days


def _kafka(chosen: plugin_settings.Settings) -> plugin_settings.KafkaSettings:
    """The setting `kafka`. Raises Pause where a job cannot be run over the fleet from here."""
    if chosen.kafka is None:
        raise Pause("run_on is kafka, and the configuration of this process has no kafka: add it, or resume elsewhere")
    if importlib.util.find_spec("aiokafka") is None:
        raise Pause("run_on is kafka, and a library is missing here: pip install 'datasette-ingest[kafka]'")
    return chosen.kafka


def _target(conn: sqlite3.Connection, config: IngestConfig, table: str, sources: Sequence[str]) -> Target:
    """What a job with these settings writes now."""
    there = set(map(fold, columns(conn, SHADOW_PREFIX + table if config.output == "shadow" else table)))
    present = [name for name in ARCHIVE_COLUMNS if fold(config.prefix + name) in there]
    return Target(tuple(result_columns(sources, present)), config.table_prefix)


class _BatchCollector:
    """Collects one batch's answers into what the engine writes."""

    def __init__(self, config: IngestConfig, target: Target, *, job_id: int, records_requests: bool) -> None:
        """:param records_requests: whether the rows' requests are recorded where columns name their source"""
        self._config = config
        self._target = target
        self._job_id = job_id
        self._records_requests = records_requests and config.source_column is not None
        self.counters: Counter[str] = Counter()
        """How soon the misses are tried again, and how many rows are of each case of their status."""
        self._updates: list[RowUpdate] = []
        self._errors: list[RowError] = []
        self._writes: list[Write] = []
        self._words: dict[str, int] = {}
        self._deferred: list[RowDefer] = []

    def add(self, request: IngestRequest, pk: Any, answer: Answered | AtFleet | PutOff | BaseException) -> None:
        if isinstance(answer, AtFleet):
            self._deferred.append(RowDefer(pk, None, REASON, counts=False, ticket=answer.ticket))
            asked = (answer.ticket, self._job_id, answer.request, answer.request_ticket)
            self._writes.append(lambda conn: outbox.ask(conn, *asked))
            return
        if isinstance(answer, PutOff):
            until = utc_now() + timedelta(seconds=answer.seconds)
            self._deferred.append(RowDefer(pk, until, answer.reason, counts=answer.counts))
            return
        if isinstance(answer, BaseException):
            self._fail(pk, answer)
            return
        if self._records_requests:
            self._writes.append(lambda conn: store.write_request(self._results(conn), request, now=utc_now()))
        result, at = answer.result, answer.at
        if result is not None and at is not None:
            self._writes.append(
                lambda conn: store.write(self._results(conn), result, job_id=answer.job_id, now=at, is_shared=True)
            )
        seen = answer.seen
        if not seen.hit:
            self.counters[f"{RETRIES}{answer.retry_class.value}"] += 1
        case = case_of(seen.status, seen.terminal_status_code)
        if case != seen.status:
            self.counters[f"{CASES}{case}"] += 1
        self._words[seen.status] = self._words.get(seen.status, 0) + 1
        if self._config.output != "none":
            self._updates.append(RowUpdate(pk, row_columns(seen, self._config.prefix, self._target.columns)))

    def _results(self, conn: sqlite3.Connection) -> sqlite3.Connection:
        return schema.under_prefix(conn, self._target.table_prefix)

    def _fail(self, pk: Any, problem: BaseException) -> None:
        if not isinstance(problem, Exception):
            raise problem
        detail = "".join(traceback.format_exception(problem))
        self._errors.append(RowError(pk, f"{type(problem).__name__}: {problem}", detail))
        self._words["error"] = self._words.get("error", 0) + 1

    def batch(self, more_writes: Sequence[Write]) -> BatchOutcome:
        writes = [*self._writes, *more_writes]
        return BatchOutcome(self._updates, self._errors, writes, self._words, deferred=self._deferred)
