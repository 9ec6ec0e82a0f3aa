"""GrobidEnrichment: PDFs that were found and kept are given to GROBID, later than their rows, elsewhere or again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import pydantic

from ... import compat
from ... import settings as plugin_settings
from ...jobs.enrichment import ColumnField, Enrichment, Row, Selected
from ...jobs.errors import Defer, Pause
from ...jobs.model import BatchOutcome, Failures, RelatedRows, RowError, RowUpdate, Word
from ...sqlite import Specs, columns, fold, iso_utc, quote
from .. import schema, store
from ..documents.grobid import PdfReader, is_current
from ..documents.grobid_api import GrobidApi, Unavailable
from ..documents.pool import ProcessPool
from ..errors import StoreError
from ..facts import Grobid
from ..files import PDF
from ..http.body import Spool
from ..http.waiting import around_waits
from ..settings import CrawlSettings
from ..sinks import KeptFiles, store_of
from ..sinks.layout import BODY
from ..sinks.opened import Damaged, open_kept
from .config import ADVANCED, check_prefix, check_table_prefix, prefix_field
from .session import pause_for, utc_now

LIKELY_COLUMNS = ("ingest_terminal_sha1hex", "terminal_sha1hex", "sha1hex", "sha1")
NO_SHA1, NO_BODY, NOT_PDF = "no-sha1", "no-body", "not-pdf"
"""Outcomes of rows of which there is nothing that GROBID could read."""
WORDS = {
    "success": Word("GROBID has read the PDF."),
    NO_SHA1: Word("The cell holds no SHA-1 of a file.", "Find the full text first, then read it."),
    NO_BODY: Word("The file of this SHA-1 is not kept here.", "Set store, and fetch the row again."),
    NOT_PDF: Word("The kept file is no PDF, and GROBID reads nothing else."),
    "error": Word("GROBID could not read the PDF.", "Look at the row in the table grobid."),
    "error-timeout": Word("GROBID took too long.", "Retry it when GROBID has less to do."),
}
ROW_COLUMNS = {
    "status": "text",
    "title": "text",
    "authors": "text",
    "doi": "text",
    "journal": "text",
    "date": "text",
    "references": "integer",
}
"""What is written onto a row where that is wanted, and its SQLite type."""
LONGEST_WAIT = 3600.0
"""Seconds that a row is put off at most while GROBID is busy."""
_SHA1 = re.compile(r"[0-9a-f]{40}")
_MAY_PASS = "(status = 'error-timeout' or status = 'error' and coalesce(status_code, 503) in (429, 502, 503, 504))"


class GrobidConfig(pydantic.BaseModel):
    """The settings of one job."""

    model_config = pydantic.ConfigDict(extra="forbid")

    sha1_column: str = ColumnField(
        title="SHA-1 column", description="The column with the SHA-1 of each row's PDF, such as ingest_terminal_sha1hex"
    )
    output: Literal["none", "columns", "shadow"] = pydantic.Field(
        "none",
        title="Write results",
        description="none: only into the table grobid, which is always filled; columns: also title, authors, DOI, journal, "
        "date and number of references into the rows of this table; shadow: into a separate table _enrichments_…",
    )
    force: bool = pydantic.Field(
        False,
        title="Ask again",
        description="Also for PDFs that this version of GROBID has read before",
    )
    prefix: str = prefix_field("grobid_")
    table_prefix: str = pydantic.Field(
        "",
        title="Table prefix",
        description="The prefix that the tables of results were given, if they were given one",
        json_schema_extra=ADVANCED,
    )

    _usable_prefix = pydantic.field_validator("prefix")(check_prefix)
    _usable_table_prefix = pydantic.field_validator("table_prefix")(check_table_prefix)


@dataclass
class _Run:
    """One job in this process. `runners` counts those that share it."""

    reader: PdfReader
    kept: KeptFiles
    pool: ProcessPool
    spool: Spool
    runners: int = 0


@dataclass(frozen=True)
class _Read:
    """How one row ended. `fact` is None where nothing new is known; `row` is what stands in the table then."""

    word: str
    fact: Grobid | None = None
    row: Mapping[str, Any] | None = None


class GrobidEnrichment(Enrichment):
    """Gives the PDFs of hits to GROBID, and records what it makes of them."""

    slug = "grobid"
    name = "Read PDFs with GROBID"
    description = "Give each row's kept PDF to GROBID: title, authors and references, and the whole text as TEI"
    batch_size = 1
    default_max_errors = 100
    Config = GrobidConfig
    words = WORDS
    when_taken = "give the tables of results other names: set table_prefix"

    def __init__(self, settings: plugin_settings.Settings) -> None:
        self.settings = settings
        self.max_open_batches = 2 * settings.grobid_concurrency
        self._runs: dict[tuple[str, int], _Run] = {}

    # What the engine and the form ask

    def columns(self, config: GrobidConfig) -> list[str]:
        return [config.sha1_column]

    def column_types(self, config: GrobidConfig) -> Mapping[str, str]:
        if config.output == "none":
            return {}
        return {f"{config.prefix}{name}": kind for name, kind in ROW_COLUMNS.items()}

    def outcome_column(self, config: GrobidConfig) -> str | None:
        return None if config.output == "none" else f"{config.prefix}status"

    def output(self, config: GrobidConfig) -> str:
        return "shadow" if config.output == "shadow" else "columns"

    def tables(self, config: GrobidConfig) -> Specs:
        return schema.specs((Grobid.table,), prefix=config.table_prefix)

    def check_output(self, config: GrobidConfig, columns: Sequence[str]) -> None:
        _check_store(self.settings.crawl())
        if config.output != "columns":
            return
        ours = {fold(f"{config.prefix}{name}") for name in ROW_COLUMNS}
        present = ours & set(map(fold, columns))
        if fold(config.sha1_column) in ours:
            raise ValueError(f"prefix: the results would overwrite the SHA-1 column {config.sha1_column!r}")
        if present and present != ours:
            raise ValueError(
                f"prefix: the table has a column {sorted(present)[0]!r} that this did not make; choose another prefix"
            )

    async def defaults(self, db: Any, table: str) -> dict[str, Any]:
        names = {fold(name): name for name in await compat.read(db, lambda conn: columns(conn, table))}
        guessed = next((names[name] for name in LIKELY_COLUMNS if name in names), None)
        ours = [name for name in names if name.endswith("terminal_sha1hex")]
        return {"sha1_column": guessed or (names[ours[0]] if ours else None)}

    def retry_where(self, config: GrobidConfig, table: str, scope: str) -> tuple[str, Mapping[str, Any]] | None:
        """`due`: GROBID was busy, silent or away; `misses`: all without success; `pending`: `due`, and those not given to
        it yet."""
        key = _sha1_sql(config, table)
        found = f"exists (select 1 from {config.table_prefix}grobid as known where known.sha1hex = {key}"
        if scope == "pending":
            return f"length({key}) = 40 and (not {found}) or {found} and {_MAY_PASS}))", {}
        condition = _MAY_PASS if scope == "due" else "status <> 'success'"
        return f"{found} and {condition})", {}

    def failures(self, config: GrobidConfig, table: str) -> Failures:
        key = _sha1_sql(config, table)

        def stored(term: str) -> str:
            return f"(select {term} from {config.table_prefix}grobid as known where known.sha1hex = {key})"

        outcome = None
        if config.output == "none":
            is_sha1 = f"length({key}) = 40 and {key} not glob '*[^0-9a-f]*'"
            outcome = f"case when {is_sha1} then coalesce({stored('known.status')}, '{NO_BODY}') else '{NO_SHA1}' end"
        shown = {
            "message": stored("json_extract(known.metadata, '$.error_message')"),
            "status_code": stored("known.status_code"),
        }
        related = (RelatedRows("What GROBID says", f"{config.table_prefix}grobid", {"sha1hex": key}),)
        return Failures(outcome, shown, related=related, row_columns=(config.sha1_column,))

    async def preview(  # type: ignore[override]
        self, rows: Sequence[Row], config: GrobidConfig, selected: Selected
    ) -> Mapping[str, Any]:
        files = {sha1hex for row in rows if (sha1hex := sha1_of(row.get(config.sha1_column))) is not None}
        if not rows:
            return {}

        def look(conn: Any) -> int:
            return sum(_is_done(store.stored_fact(conn, Grobid.table, each, config.table_prefix)) for each in files)

        done = 0 if config.force else await selected.read(look)
        among = "" if selected.count == len(rows) else f" (of the first {len(rows):,} rows)"
        said: dict[str, Any] = {f"Different files{among}": len(files)}
        without = sum(sha1_of(row.get(config.sha1_column)) is None for row in rows)
        if without:
            said[f"Rows without a SHA-1{among}"] = without
        if done:
            said[f"Read already{among}"] = f"{done:,}: they are given to it again only if its version has changed"
        said["At once"] = f"{self.settings.grobid_concurrency:,} (grobid_concurrency)"
        return said

    # A job in this process

    async def initialize(self, job: Any, db: Any, config: GrobidConfig) -> None:  # type: ignore[override]
        crawl = plugin_settings.override(self.settings, job.settings).crawl()
        if (db.name, job.id) not in self._runs:
            try:
                kept = _check_store(crawl)
                if not job.is_dry_run:
                    await kept.prepare()
            except ValueError as problem:
                raise Pause(str(problem)) from None
            except StoreError as problem:
                raise pause_for(problem) from None
            spool = Spool(crawl.spool_dir, crawl.max_spool_bytes)
            reader = PdfReader(GrobidApi(crawl), has_store=not job.is_dry_run)
            self._runs.setdefault((db.name, job.id), _Run(reader, kept, ProcessPool(), spool))
        self._runs[db.name, job.id].runners += 1

    async def close(self, job: Any, db: Any) -> None:  # type: ignore[override]
        run = self._runs[db.name, job.id]
        run.runners -= 1
        if run.runners:
            return
        del self._runs[db.name, job.id]
        await run.reader.api.aclose()
        await run.pool.aclose()
        await run.kept.aclose()

    async def enrich_batch(
        self, rows: Sequence[Row], pks: Sequence[Any], config: GrobidConfig, job: Any, db: Any
    ) -> BatchOutcome:
        run = self._runs[db.name, job.id]
        around_waits.set(job.waiting)
        updates: list[RowUpdate] = []
        errors: list[RowError] = []
        writes: list[Any] = []
        words: dict[str, int] = {}
        for row, pk in zip(rows, pks, strict=True):
            try:
                read = await self._read(run, row.get(config.sha1_column), config, job, db)
            except Unavailable as problem:
                raise _put_off(problem, job.deferrals) from None
            except StoreError as problem:
                raise pause_for(problem) from None
            except Damaged as problem:
                errors.append(RowError(pk, str(problem)))
                words["error"] = words.get("error", 0) + 1
                continue
            words[read.word] = words.get(read.word, 0) + 1
            if read.fact is not None:
                writes.append(_writing(read.fact, config.table_prefix))
            if config.output != "none":
                updates.append(RowUpdate(pk, row_columns(read.word, read.fact, read.row, config.prefix)))
        return BatchOutcome(updates, errors, writes, words)

    async def _read(self, run: _Run, cell: Any, config: GrobidConfig, job: Any, db: Any) -> _Read:
        """:raises Unavailable: when GROBID reads no file now"""
        sha1hex = sha1_of(cell)
        if sha1hex is None:
            return _Read(NO_SHA1)
        stored = await compat.read(db, lambda conn: store.stored_fact(conn, Grobid.table, sha1hex, config.table_prefix))
        if not config.force and _is_done(stored) and is_current(stored, await run.reader.api.version()):
            return _Read("success", row=stored)
        file = await run.kept.find(BODY, sha1hex, PDF)
        if file is None:
            return _Read(NO_BODY, row=stored)
        body = await open_kept(run.kept, file, sha1hex, run.spool)
        try:
            if body.mimetype != PDF:
                return _Read(NOT_PDF, row=stored)
            found = await run.reader.read(body, sha1hex, run.pool, again=config.force)
        finally:
            body.close()
        if not job.is_dry_run:
            for derived in found.files:
                await run.kept.keep(derived.kind, sha1hex, derived.mimetype, derived.content)
        (fact,) = found.facts
        assert isinstance(fact, Grobid)
        return _Read(fact.status, fact)


def sha1_of(cell: Any) -> str | None:
    """A cell's SHA-1 in hex, lower-case; None where it holds none."""
    text = cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell
    text = text.strip().lower() if isinstance(text, str) else ""
    return text if _SHA1.fullmatch(text) else None


def row_columns(word: str, fact: Grobid | None, stored: Mapping[str, Any] | None, prefix: str) -> dict[str, Any]:
    """The columns of a row. What an earlier answer said stays where there is no new one."""
    metadata = _metadata(stored) if fact is None else fact.metadata
    if metadata is None or (fact is not None and fact.status != "success"):
        return {f"{prefix}status": word}
    names = [author["name"] for author in metadata.get("authors", ()) if isinstance(author, dict) and "name" in author]
    found = {name: metadata.get(name) for name in ROW_COLUMNS} | {"status": word, "authors": "; ".join(names) or None}
    return {f"{prefix}{name}": value for name, value in found.items()}


def _metadata(stored: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    if not _is_done(stored):
        return None
    assert stored is not None
    try:
        read = json.loads(stored["metadata"] or "{}")
    except (ValueError, TypeError):
        return None
    return read if isinstance(read, dict) else None


def _is_done(stored: Mapping[str, Any] | None) -> bool:
    return is_current(stored, None)


def _writing(fact: Grobid, prefix: str) -> Any:
    now = iso_utc(utc_now())
    return lambda conn: fact.write(schema.under_prefix(conn, prefix), updated=now)


def _put_off(problem: Unavailable, deferrals: int) -> Exception:
    """What to raise when GROBID reads no file now: it is busy with others, it is away, or somebody has to mend it."""
    if problem.seconds is None:
        return Pause(str(problem))
    if problem.is_busy:
        seconds = min(problem.seconds * 2 ** min(deferrals, 10), LONGEST_WAIT)
        return Defer(utc_now() + timedelta(seconds=seconds), str(problem))
    return Pause(str(problem), utc_now() + timedelta(seconds=max(problem.seconds, 60.0)))


def _check_store(crawl: CrawlSettings) -> KeptFiles:
    """:raises ValueError: without a store"""
    kept = store_of(crawl)
    if kept is None:
        raise ValueError("store: this setting is empty, so that no files are kept which GROBID could read")
    return kept


def _sha1_sql(config: GrobidConfig, table: str) -> str:
    return f"lower(trim(cast({quote(table)}.{quote(config.sha1_column)} as text)))"
