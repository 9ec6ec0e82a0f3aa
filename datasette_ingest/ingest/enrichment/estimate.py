"""An estimate of a job before it runs: where its links lead, which results are known, the least time it takes."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...jobs.enrichment import Row, Selected
from ...text import counted, duration
from .. import schema, store
from ..cells import cell_key
from ..fetch import ARCHIVES
from ..fetch.spn2_captures import USUAL_SECONDS
from .config import IngestConfig
from .rows import host_of, type_of
from .sql import type_sql

NAMED_HOSTS = 5


@dataclass(frozen=True)
class Link:
    """One row's link: `host` is None where the cell holds none; `is_fresh`: its stored result will be used again."""

    key: tuple[str, Any]
    host: str | None
    is_fresh: bool


@dataclass(frozen=True)
class Estimate:
    """The links of the first of `count` rows (None: not counted). `fresh`: how many of all the rows have a result that
    will be used again; None where that is known of the first rows only."""

    links: Sequence[Link]
    count: int | None
    fresh: int | None
    max_age_days: float
    per_host_delay: float
    index_delay: float | None = None
    """Seconds between two questions to the index of a web archive, if it is asked first."""
    capture_delay: float | None = None
    """Seconds between two captures, if each link is captured."""
    force: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether these are the links of all rows."""
        return self.count is not None and len(self.links) >= self.count

    def facts(self) -> dict[str, Any]:
        """label -> text, or numbers by word."""
        if not self.links:
            return {}
        said: dict[str, Any] = {}
        hosts = Counter(link.host for link in self.links)
        unusable = hosts.pop(None, 0)
        if hosts:
            said["Hosts" + self._of_the_first()] = ranked(hosts)
        if unusable:
            said["Without a usable link" + self._of_the_first()] = unusable
        said["Known already"] = self._known()
        if hosts:
            said["Time"] = self._time()
        return said

    def _of_the_first(self) -> str:
        return "" if self.is_whole else f" (of the first {len(self.links):,} rows)"

    def _known(self) -> str:
        if self.force:
            return "Every link is fetched, even those with a recent result"
        number, among = self.fresh, "these"
        if number is None:
            number = sum(link.is_fresh for link in self.links)
            among = "these" if self.is_whole else f"the first {len(self.links):,}"
        if not number:
            return "No result is fresh: every link is fetched"
        is_young = f"it is younger than {self.max_age_days:g} days, or " if self.max_age_days > 0 else ""
        return f"{number:,} of {among} have a fresh result and will not be fetched again: {is_young}its next try is not due"

    def _time(self) -> str:
        asked = Counter(host for host, _ in {(link.host, link.key) for link in self.links if not link.is_fresh} if host)
        if not asked:
            return "Seconds: nothing has to be fetched"
        rows = "" if self.is_whole else f" for the first {len(self.links):,} rows"
        if self.capture_delay is not None:
            number = asked.total()
            return (
                f"About {duration(max(1, number * self.capture_delay))}{rows}: {counted(number, 'link')} to capture, one "
                f"every {self.capture_delay:.1f} s. Links on pages, and refusals of the capture service, take more time"
            )
        if self.index_delay is not None:
            number = asked.total()
            return (
                f"At least {duration(max(1, number * self.index_delay))}{rows}: the index of the web archive is asked for "
                f"{counted(number, 'link')}, one every {self.index_delay:g} s. Redirects and links on pages take more time"
            )
        host, number = min(asked.items(), key=lambda item: (-item[1], item[0]))
        return (
            f"At least {duration(max(1, number * self.per_host_delay))}{rows}: {counted(number, 'link')} to {host}, which "
            f"is asked every {self.per_host_delay:g} s. Redirects and landing pages take more time"
        )


async def estimate(
    rows: Sequence[Row],
    config: IngestConfig,
    selected: Selected,
    *,
    now: datetime,
    max_age_days: float,
    per_host_delay: float,
    doi_resolver: str,
    sources: Sequence[str],
    cdx_per_minute: float,
    spn2_concurrency: int,
) -> Mapping[str, Any]:
    """Facts about a selection, of which `rows` is a sample: label -> text, or numbers by word."""

    def look(conn: sqlite3.Connection) -> list[Link]:
        has_results = store.has_results(conn, config.table_prefix)
        results = schema.under_prefix(conn, config.table_prefix)

        def link(row: Row) -> Link:
            cell, kind = row.get(config.url_column), type_of(row, config)
            stored = store.stored_result(results, kind, cell) if has_results else None
            is_fresh = store.is_fresh(
                stored, max_age_days=max_age_days, now=now, sources=sources, force=config.ignores_results
            )
            return Link((kind, cell_key(cell)), host_of(cell, doi_resolver), is_fresh)

        return list(map(link, rows))

    named = {"base_url": config.url_column} | ({"kind": config.type_column} if config.type_column else {})
    kind = type_sql("kind" if config.type_column else None, ":_ingest_type")
    links_sql = f"select base_url, {kind} as ingest_type from ({selected.query(named)})"
    params = {**selected.params, "_ingest_type": config.ingest_type}

    def count(conn: sqlite3.Connection) -> int:
        prefix = config.table_prefix
        if not store.has_results(conn, prefix):
            return 0
        return store.count_fresh(
            conn,
            links_sql,
            params,
            max_age_days=max_age_days,
            now=now,
            sources=sources,
            prefix=prefix,
            force=config.ignores_results,
        )

    links = await selected.read(look)
    if links is None:
        return {}
    fresh = None if selected.count in (None, len(rows)) else await selected.read(count)
    first = next((name for name in sources if not (config.force_recrawl and name in ARCHIVES)), sources[0])
    index_delay = 60 / cdx_per_minute if first in ARCHIVES else None
    # Each capture is looked up in the index.
    capture_delay = max(USUAL_SECONDS / spn2_concurrency, 60 / cdx_per_minute) if first == "spn2" else None
    return Estimate(
        links,
        selected.count,
        fresh,
        max_age_days,
        per_host_delay,
        index_delay,
        capture_delay,
        config.ignores_results,
    ).facts()


def ranked(hosts: Mapping[str | None, int]) -> dict[str, int]:
    """The most frequent hosts, and the others as one."""
    ranked = sorted(hosts.items(), key=lambda item: (-item[1], str(item[0])))
    named = {str(host): number for host, number in ranked[:NAMED_HOSTS]}
    rest = ranked[NAMED_HOSTS:]
    if rest:
        named[counted(len(rest), "other host")] = sum(number for _, number in rest)
    return named
