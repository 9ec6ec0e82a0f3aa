"""A row of the enriched table as a request, and its answer as columns of the row."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from ...jobs.enrichment import Row
from .. import store
from ..errors import IngestError
from ..fetch import WITH_CAPTURES
from ..model import TYPE_ALIASES, IngestRequest, IngestResult
from ..store import StoredResult
from ..urls import clean_cell, split
from .config import IngestConfig

RESULT_COLUMNS = {
    "hit": "integer",
    "status": "text",
    "terminal_url": "text",
    "terminal_dt": "text",
    "terminal_status_code": "integer",
    "terminal_sha1hex": "text",
}
"""What is written onto a row, and its SQLite type."""

ARCHIVE_COLUMNS = {"archive_url": "text"}
"""What is written beside it where a job asks an archive."""


def result_columns(sources: Collection[str], present: Collection[str] = ()) -> dict[str, str]:
    """The columns that a job with these sources writes onto a row, without their prefix, and their SQLite types.

    :param present: columns that there are already, which are not to keep what an earlier job wrote
    """
    asks_archive = not WITH_CAPTURES.isdisjoint(sources) or not ARCHIVE_COLUMNS.keys().isdisjoint(present)
    return RESULT_COLUMNS | (ARCHIVE_COLUMNS if asks_archive else {})


def row_columns(seen: StoredResult | IngestResult, prefix: str, names: Iterable[str]) -> dict[str, Any]:
    """These columns of one answer as they stand on the row."""
    return {f"{prefix}{name}": int(seen.hit) if name == "hit" else getattr(seen, name) for name in names}


def request_of(row: Row, pk: Any, config: IngestConfig, table: str, actor_id: str | None) -> IngestRequest:
    """The row's request; without columns that say otherwise its source is the table, its source id the row's key.

    Raises ValueError where the request column holds no JSON of a request.
    """

    def named(column: str | None) -> str | None:
        return cell_words(row.get(column)) if column else None

    further = store.further_fields(named(config.request_column))
    doi = named(config.doi_column)
    return replace(
        further,
        ingest_type=type_of(row, config),
        base_url=row[config.url_column],
        source=named(config.source_column) or table,
        source_id=named(config.source_id_column) or key_text(pk),
        actor=actor_id or "unknown",
        force_recrawl=config.force_recrawl or further.force_recrawl,
        as_of=config.as_of or further.as_of,
        max_capture_age_days=(
            further.max_capture_age_days if config.max_capture_age_days is None else config.max_capture_age_days
        ),
        ext_ids={**(further.ext_ids or {}), **({"doi": doi} if doi else {})} or None,
    )


def type_of(row: Row, config: IngestConfig) -> str:
    """The wanted type: what the row names, else the job's."""
    text = cell_words(row.get(config.type_column)) if config.type_column else None
    return config.ingest_type if text is None else TYPE_ALIASES.get(text.lower(), text.lower())


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
